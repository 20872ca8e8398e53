use std::borrow::Cow;

use outbox_sdk::{Outbox, OutboxEvent};
use schemars::JsonSchema;
use serde::Serialize;

mod v1 {
    #[derive(serde::Serialize, schemars::JsonSchema, outbox_sdk::OutboxEvent)]
    #[outbox(event_type = "thing.renamed", aggregate_type = "thing")]
    pub(crate) struct ThingRenamed {
        #[outbox(aggregate_id)]
        pub(crate) id: i64,
    }
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.renamed", schema_version = 2, aggregate_type = "thing", also_as = v1::ThingRenamed)]
struct ThingRenamedV2<'a> {
    #[outbox(aggregate_id)]
    id: i64,
    name: Cow<'a, str>,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "thing.renamed", schema_version = 3, aggregate_type = "thing")]
#[outbox(also_as(ThingRenamedV2<'a>, v1::ThingRenamed,))]
struct ThingRenamed<'a> {
    #[outbox(aggregate_id)]
    id: i64,
    names: Vec<&'a str>,
}

impl From<&ThingRenamedV2<'_>> for v1::ThingRenamed {
    fn from(newer: &ThingRenamedV2<'_>) -> Self {
        Self { id: newer.id }
    }
}

impl<'a> From<&ThingRenamed<'a>> for ThingRenamedV2<'a> {
    fn from(newer: &ThingRenamed<'a>) -> Self {
        Self { id: newer.id, name: Cow::Owned(newer.names.join(" ")) }
    }
}

impl From<&ThingRenamed<'_>> for v1::ThingRenamed {
    fn from(newer: &ThingRenamed<'_>) -> Self {
        Self { id: newer.id }
    }
}

fn main() {
    let _ = Outbox::new();
    let event = ThingRenamed { id: 7, names: vec!["a", "b"] };
    assert_eq!(ThingRenamedV2::from(&event).name, "a b");
}
