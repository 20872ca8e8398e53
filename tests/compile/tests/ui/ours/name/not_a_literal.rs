use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

pub const NAME: &str = "thing.updated";

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = NAME, aggregate_type = "thing")]
pub struct Thing {
    id: u32,
}

fn main() {}
