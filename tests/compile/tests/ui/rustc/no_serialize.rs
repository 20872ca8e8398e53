use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;

#[derive(JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingMoved {
    id: u32,
}

fn main() {}
