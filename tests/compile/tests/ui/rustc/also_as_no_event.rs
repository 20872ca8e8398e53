use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

pub struct Older {}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.moved", schema_version = 2, aggregate_type = "thing", also_as = Older)]
pub struct ThingMoved {}

impl From<&ThingMoved> for Older {
    fn from(_: &ThingMoved) -> Self {
        Self {}
    }
}

fn main() {}
