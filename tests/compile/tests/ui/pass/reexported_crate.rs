//! A crate that hands the SDK on under a path of its own.

mod platform {
    pub mod events {
        pub use outbox_sdk::*;
    }
}

use platform::events::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing", crate = "crate::platform::events")]
struct ThingMoved {
    #[outbox(aggregate_id)]
    id: Uuid,
    #[outbox(tenant_id)]
    tenant: Uuid,
}

mod inner {
    use schemars::JsonSchema;
    use serde::Serialize;

    #[derive(Serialize, JsonSchema, super::OutboxEvent)]
    #[outbox(aggregate_type = "thing", crate = "super::platform::events")]
    pub struct ThingRemoved {}
}

fn main() {
    let event = ThingMoved { id: Uuid::nil(), tenant: Uuid::nil() };
    assert_eq!(event.tenant_id(), Some(Uuid::nil()));
    assert_eq!(inner::ThingRemoved {}.aggregate_id(), None);
}
