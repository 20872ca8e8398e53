use outbox_sdk::{Outbox, OutboxEvent, PublishError};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

#[derive(Serialize, JsonSchema)]
pub struct ThingMoved {
    id: u32,
}

impl OutboxEvent for ThingMoved {
    const EVENT_TYPE: &'static str = "Thing";
    const SCHEMA_VERSION: u32 = 1;
    const AGGREGATE_TYPE: &'static str = "thing";

    fn aggregate_id(&self) -> Option<String> {
        None
    }

    fn tenant_id(&self) -> Option<Uuid> {
        None
    }
}

fn main() -> Result<(), PublishError> {
    Outbox::new().statement(&ThingMoved { id: 1 }).map(drop)
}
