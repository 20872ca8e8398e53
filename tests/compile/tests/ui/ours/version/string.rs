use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(schema_version = "2", aggregate_type = "thing")]
pub struct ThingUpdated {
    id: u32,
}

fn main() {}
