//! A variant that the schema does not know is delivered where the enum is open, and refused where it is closed.

use std::sync::{Arc, Mutex};

use outbox_relay::Schemas;
use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::sink::handler::HandlerSink;
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, JsonEvent, Migrator, OutboxEvent, Received};
use outbox_tests::{RecordingSink, quick_settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::Transaction;

use super::Folder;
use crate::databases::{TestDb, on_every_database};
use crate::relay::{World, crm, named};

on_every_database! {
    an_unknown_variant_is_delivered_where_the_enum_is_open
    a_reader_tells_an_unknown_variant_from_those_it_knows
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "choice.made", aggregate_type = "choice", unregistered)]
struct ChoiceMade {
    closed: Option<Closed>,
    unit: Option<Unit>,
    documented: Option<Documented>,
    external: Option<External>,
    internal: Option<Internal>,
    adjacent: Option<Adjacent>,
    untagged: Option<Untagged>,
}

#[derive(Serialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
enum Closed {
    Free,
    Paid,
}

macro_rules! open {
    ($($(#[$attribute:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $({ $field:ident : $type:ty })?),* })*) => {$(
        #[derive(Serialize, JsonSchema)]
        #[schemars(transform = outbox_sdk::open_enum)]
        #[expect(dead_code, reason = "only its schema matters")]
        $(#[$attribute])*
        enum $name { $($(#[$doc])* $variant $({ $field: $type })?),* }
    )*};
}

open! {
    Unit { Free, Paid }
    Documented {
        /// Pays nothing.
        Free,
        /// Pays.
        Paid
    }
    External { Free, Hand { name: String } }
    #[serde(tag = "kind")] Internal { Free, Hand { name: String } }
    #[serde(tag = "kind", content = "of")] Adjacent { Free, Hand { name: String } }
    #[serde(untagged)] Untagged { Hand { name: String }, Serial { serial: u32 } }
}

/// Members of the payload, and whether such an event is delivered.
fn cases() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("closed", json!("Paid"), true),
        ("closed", json!("Gold"), false),
        ("unit", json!("Paid"), true),
        ("unit", json!("Gold"), true),
        ("unit", json!({"Gold": {}}), false),
        ("documented", json!("Gold"), true),
        ("documented", json!(7), false),
        ("external", json!("Gold"), true),
        ("external", json!({"Hand": {"name": "Ada"}}), true),
        ("external", json!({"Drone": {"height": 7}}), true),
        ("external", json!({"Hand": {"name": 7}}), false),
        ("external", json!({"Hand": {"name": "Ada"}, "Drone": {}}), false),
        ("internal", json!({"kind": "Hand", "name": "Ada"}), true),
        ("internal", json!({"kind": "Drone", "height": 7}), true),
        ("internal", json!({"kind": "Hand"}), false),
        ("internal", json!({"height": 7}), false),
        ("adjacent", json!({"kind": "Drone", "of": [7]}), true),
        ("adjacent", json!({"kind": "Hand", "of": {"name": 7}}), false),
        ("untagged", json!({"serial": 7}), true),
        ("untagged", json!([7]), true),
    ]
}

async fn an_unknown_variant_is_delivered_where_the_enum_is_open<T: TestDb>() {
    let world = World::<T>::new().await;
    let folder = Folder::new().commit::<ChoiceMade>();
    for (nth, (member, value, _)) in cases().iter().enumerate() {
        let payload = json!({ *member: value }).to_string();
        let event = JsonEvent::new("choice.made", 1, "choice", payload).aggregate_id(nth.to_string());
        world.publish_event(&event).await;
    }
    let sink = RecordingSink::new();
    let schemas = Schemas::open(folder.0.path()).unwrap();
    let relay = world.builder_with(quick_settings()).schemas(schemas).consumer(crm(), sink.clone());
    relay.build().unwrap().run_once().await.unwrap();

    let of = |envelope: &Envelope| envelope.aggregate_id.as_deref().unwrap().parse::<usize>().unwrap();
    let delivered: Vec<_> = sink.calls().iter().map(|call| of(&call.envelope)).collect();
    for (nth, (member, value, expected)) in cases().iter().enumerate() {
        assert_eq!(delivered.contains(&nth), *expected, "{member}: {value}");
    }
    let refused = cases().iter().filter(|(.., delivered)| !delivered).count();
    let dead = world.dead().await;
    assert_eq!(dead.len(), refused);
    assert!(dead.iter().all(|letter| letter.reason == "schema_violation"), "{dead:?}");
}

/// A reader's own type: it was written when there were two variants.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
enum Plan {
    Free,
    Paid,
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Choice {
    unit: Plan,
}

#[derive(Default)]
struct Plans(Arc<Mutex<Vec<Plan>>>);

impl<DB: outbox_sdk::Backend> Handler<DB> for Plans {
    async fn handle(&self, event: &Envelope, _: &mut Transaction<'_, DB>) -> Result<(), HandlerError> {
        let choice = Received::<Choice>::read(event)?.payload;
        self.0.lock().unwrap().push(choice.unit);
        Ok(())
    }
}

async fn a_reader_tells_an_unknown_variant_from_those_it_knows<T: TestDb>() {
    let world = World::<T>::new().await;
    Migrator::inbox().run(&world.pool).await.unwrap();
    let folder = Folder::new().commit::<ChoiceMade>();
    for plan in ["Free", "Gold", "Paid"] {
        let payload = json!({ "unit": plan }).to_string();
        world.publish_event(&JsonEvent::new("choice.made", 1, "choice", payload).aggregate_id("1")).await;
    }
    let plans = Plans::default();
    let seen = plans.0.clone();
    let sink = HandlerSink::new(Inbox::new(world.pool.clone(), "reader"), plans);
    let spec: ConsumerSpec = named("reader");
    let schemas = Schemas::open(folder.0.path()).unwrap();
    let relay = world.builder_with(quick_settings()).schemas(schemas).consumer(spec, Arc::new(sink));
    relay.build().unwrap().run_once().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [Plan::Free, Plan::Unknown, Plan::Paid]);
}
