use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "Thing", schema_version = 0, agregate_type = "thing")]
pub struct Thing {
    #[outbox(aggregate_id = "id")]
    id: u32,
    #[outbox(event_type = "x")]
    name: String,
}

fn main() {}
