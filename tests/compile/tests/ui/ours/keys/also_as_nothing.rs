use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(schema_version = 2, aggregate_type = "thing", also_as())]
struct ThingMoved {}

fn main() {}
