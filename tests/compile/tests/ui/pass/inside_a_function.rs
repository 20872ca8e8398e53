#![deny(warnings)]

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

fn main() {
    #[derive(Serialize, JsonSchema, OutboxEvent)]
    #[outbox(aggregate_type = "thing", unregistered)]
    struct ThingMoved {
        #[outbox(aggregate_id)]
        id: u64,
    }

    assert_eq!(ThingMoved { id: 5 }.aggregate_id().as_deref(), Some("5"));
}
