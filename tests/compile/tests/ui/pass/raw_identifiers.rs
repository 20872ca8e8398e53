use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "thing")]
struct r#ThingMoved {
    #[outbox(aggregate_id)]
    r#type: String,
}

fn main() {
    let event = ThingMoved { r#type: "a".to_owned() };
    assert_eq!(ThingMoved::EVENT_TYPE, "thing.moved");
    assert_eq!(event.aggregate_id().as_deref(), Some("a"));
}
