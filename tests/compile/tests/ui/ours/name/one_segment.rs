use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer", aggregate_type = "customer")]
pub struct ThingUpdated {
    id: u32,
}

fn main() {}
