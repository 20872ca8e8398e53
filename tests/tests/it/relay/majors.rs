//! An event that is stored as older majors too: each consumer gets the one that it pins.

use outbox_relay::consumer::OtherMajors;
use outbox_sdk::OutboxEvent;
use outbox_tests::RecordingSink;
use schemars::JsonSchema;
use serde::Serialize;

use super::{World, named};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    each_consumer_gets_the_major_that_it_pins
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
struct RenamedV1 {
    name: String,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.renamed", schema_version = 2, aggregate_type = "customer", unregistered)]
struct RenamedV2 {
    first: String,
    last: String,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.renamed", schema_version = 4, aggregate_type = "customer", unregistered)]
#[outbox(also_as(RenamedV2, RenamedV1))]
struct Renamed {
    #[outbox(aggregate_id)]
    id: u64,
    names: Vec<String>,
}

impl From<&Renamed> for RenamedV1 {
    fn from(newer: &Renamed) -> Self {
        Self { name: newer.names.join(" ") }
    }
}

impl From<&Renamed> for RenamedV2 {
    fn from(newer: &Renamed) -> Self {
        Self { first: newer.names[0].clone(), last: newer.names[1].clone() }
    }
}

async fn each_consumer_gets_the_major_that_it_pins<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let event = Renamed { id: u64::MAX, names: vec!["Ada \"é\"".to_owned(), "Lovelace".to_owned()] };
    world.outbox.publish(&mut tx, &event).await.unwrap();
    world.outbox.commit(tx).await.unwrap();

    let pinned = |name: &str, major| named(name).pin("customer.renamed", major).unwrap();
    let sinks: Vec<_> = (0..5).map(|_| RecordingSink::new()).collect();
    let relay = world
        .builder()
        .consumer(named("newest"), sinks[0].clone())
        .consumer(pinned("second", 2), sinks[1].clone())
        .consumer(pinned("first", 1).other_majors(OtherMajors::Skip), sinks[2].clone())
        .consumer(pinned("third", 3), sinks[3].clone())
        .consumer(pinned("skips", 3).other_majors(OtherMajors::Skip), sinks[4].clone());
    relay.build().unwrap().run_once().await.unwrap();

    let got: Vec<_> = sinks
        .iter()
        .map(|sink| {
            let delivered = sink.calls().into_iter().map(|call| {
                let payload: serde_json::Value = serde_json::from_str(&call.envelope.payload).unwrap();
                (call.envelope.schema_version, payload, call.envelope.aggregate_id)
            });
            delivered.collect::<Vec<_>>()
        })
        .collect();
    let id = Some(u64::MAX.to_string());
    let newest = serde_json::json!({"id": u64::MAX, "names": ["Ada \"é\"", "Lovelace"]});
    let second = serde_json::json!({"first": "Ada \"é\"", "last": "Lovelace"});
    let first = serde_json::json!({"name": "Ada \"é\" Lovelace"});
    assert_eq!(got[0], [(4, newest, id.clone())]);
    assert_eq!(got[1], [(2, second, id.clone())]);
    assert_eq!(got[2], [(1, first, id)]);
    assert_eq!((got[3].len(), got[4].len()), (0, 0));
    let dead = world.dead().await;
    assert_eq!(dead.iter().map(|letter| letter.consumer.as_str()).collect::<Vec<_>>(), ["third"]);
    assert_eq!(dead[0].reason, "major_missing");
}
