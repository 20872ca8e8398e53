use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(schema_version = 1, aggregate_type = "thing")]
#[outbox(schema_version = 2)]
pub struct ThingUpdated {
    id: u32,
}

fn main() {}
