use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
pub struct ThingUpdated {
    #[outbox(aggregate_type = "thing")]
    id: u32,
}

fn main() {}
