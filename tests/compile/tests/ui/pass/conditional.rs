//! Attributes and fields behind `cfg` count only where they are compiled.

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
#[cfg_attr(all(), derive(OutboxEvent), outbox(aggregate_type = "thing"))]
#[cfg_attr(any(), outbox(aggregate_type = "never"))]
struct ThingMoved {
    #[cfg(any())]
    #[outbox(aggregate_id)]
    never: Never,
    #[cfg_attr(all(), outbox(aggregate_id))]
    id: u64,
}

fn main() {
    assert_eq!(ThingMoved { id: 5 }.aggregate_id().as_deref(), Some("5"));
    assert_eq!(ThingMoved::AGGREGATE_TYPE, "thing");
}
