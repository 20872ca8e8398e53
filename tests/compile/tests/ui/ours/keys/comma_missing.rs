use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.updated" aggregate_type = "thing")]
pub struct ThingUpdated {
    id: u32,
}

fn main() {}
