use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub enum ThingUpdated {
    Renamed { name: String },
    Moved { place: String },
}

fn main() {}
