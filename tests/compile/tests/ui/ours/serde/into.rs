use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Clone, Serialize, JsonSchema)]
pub struct Other {
    id: u32,
}

impl From<ThingUpdated> for Other {
    fn from(thing: ThingUpdated) -> Self {
        Self { id: thing.id }
    }
}

#[derive(Clone, Serialize, JsonSchema, OutboxEvent)]
#[serde(into = "Other")]
#[outbox(aggregate_type = "thing")]
pub struct ThingUpdated {
    id: u32,
}

fn main() {}
