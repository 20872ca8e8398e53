use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingUpdate {
    id: u32,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
pub struct ThingDeleted {
    id: u32,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingFound(u32);

fn main() {}
