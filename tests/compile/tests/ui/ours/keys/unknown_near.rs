use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_typ = "thing.updated", aggregate_type = "thing")]
pub struct Thing {
    id: u32,
}

fn main() {}
