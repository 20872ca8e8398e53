//! What users deny does not fire inside the generated code.

#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    deprecated,
    unused,
    nonstandard_style
)]

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// An event.
#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
#[allow(deprecated)]
pub struct ThingMoved {
    /// An id that goes away.
    #[deprecated]
    #[outbox(aggregate_id)]
    pub id: Uuid,
}

fn main() {
    assert_eq!(ThingMoved::EVENT_TYPE, "thing.moved");
}
