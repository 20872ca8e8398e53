use outbox_sdk::{Outbox, OutboxEvent, PublishError};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::PgPool;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.created", aggregate_type = "thing", unregistered)]
pub struct ThingCreated {
    #[outbox(aggregate_id)]
    id: u32,
}

pub async fn created(outbox: &Outbox, pool: &PgPool) -> Result<(), PublishError> {
    outbox.publish(pool, &ThingCreated { id: 1 }).await?;
    Ok(())
}

fn main() {}
