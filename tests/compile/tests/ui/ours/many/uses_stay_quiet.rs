use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
pub struct ThingUpdate {
    id: u32,
}

fn publish(event: &impl OutboxEvent) -> Option<String> {
    event.aggregate_id()
}

pub fn rename(thing: &ThingUpdate) -> (Option<String>, &'static str) {
    (publish(thing), ThingUpdate::EVENT_TYPE)
}

fn main() {}
