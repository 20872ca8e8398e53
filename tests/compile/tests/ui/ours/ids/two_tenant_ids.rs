use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingUpdated {
    #[outbox(tenant_id)]
    a: Uuid,
    #[outbox(tenant_id)]
    b: Uuid,
}

fn main() {}
