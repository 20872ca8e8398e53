use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.moved", schema_version = 1, aggregate_type = "thing")]
pub struct Older {}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.moved", schema_version = 2, aggregate_type = "thing", also_as = Older)]
pub struct ThingMoved {}

fn main() {}
