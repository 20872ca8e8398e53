use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingUpdated {
    #[outbox(aggregate_id)]
    a: u32,
    #[outbox(aggregate_id)]
    b: u32,
}

fn main() {}
