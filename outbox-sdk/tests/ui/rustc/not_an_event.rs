use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct ThingCreated {
    id: u32,
}

fn name<E: OutboxEvent>(_: &E) -> &'static str {
    E::EVENT_TYPE
}

pub fn created() -> &'static str {
    name(&ThingCreated { id: 1 })
}

fn main() {}
