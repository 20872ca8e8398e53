use outbox_sdk::{Outbox, PublishError};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::{Postgres, Transaction};

#[derive(Serialize, JsonSchema)]
pub struct ThingCreated {
    id: u32,
}

pub async fn created(outbox: &Outbox, tx: &mut Transaction<'_, Postgres>) -> Result<(), PublishError> {
    outbox.publish(tx, &ThingCreated { id: 1 }).await?;
    Ok(())
}

fn main() {}
