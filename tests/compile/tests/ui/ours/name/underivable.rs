use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "customer")]
pub struct CustomerUpdate {
    id: u32,
}

fn main() {}
