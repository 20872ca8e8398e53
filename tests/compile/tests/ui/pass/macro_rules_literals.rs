//! Literals that a `macro_rules!` macro passes on arrive inside invisible groups.

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::Serialize;

macro_rules! event {
    ($name:ident, $event_type:literal, $version:literal, $aggregate:expr, $id:ty) => {
        #[derive(Serialize, JsonSchema, OutboxEvent)]
        #[outbox(event_type = $event_type, schema_version = $version, aggregate_type = $aggregate)]
        struct $name {
            #[outbox(aggregate_id)]
            id: $id,
            #[serde(skip_serializing_if = "Option::is_none")]
            note: Option<$id>,
        }
    };
}

event!(Renamed, "thing.renamed", 2, "thing", u32);

fn main() {
    let event = Renamed { id: 7, note: None };
    assert_eq!(
        (Renamed::EVENT_TYPE, Renamed::SCHEMA_VERSION, Renamed::AGGREGATE_TYPE),
        ("thing.renamed", 2, "thing")
    );
    assert_eq!(event.aggregate_id().as_deref(), Some("7"));
}
