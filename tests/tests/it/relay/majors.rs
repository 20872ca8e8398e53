//! An event that is stored as older majors too: each consumer gets the one that it pins.

use std::collections::{BTreeMap, BTreeSet};

use outbox_relay::consumer::{ConsumerSpec, OtherMajors};
use outbox_sdk::{Outbox, OutboxEvent};
use outbox_tests::{RecordingSink, RunningRelay};
use schemars::JsonSchema;
use serde::Serialize;

use super::{World, named};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    each_consumer_gets_the_major_that_it_pins
    moving_a_pin_under_load_repeats_and_loses_nothing
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

/// Of the same type, before its producer stored the older major too.
#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.moved", schema_version = 2, aggregate_type = "customer", unregistered)]
struct Moved {
    #[outbox(aggregate_id)]
    id: u64,
    to: Vec<String>,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.moved", schema_version = 2, aggregate_type = "customer", unregistered)]
#[outbox(also_as = MovedV1)]
struct MovedAsBoth {
    #[outbox(aggregate_id)]
    id: u64,
    to: Vec<String>,
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.moved", aggregate_type = "customer", unregistered)]
struct MovedV1 {
    to: String,
}

impl From<&MovedAsBoth> for MovedV1 {
    fn from(newer: &MovedAsBoth) -> Self {
        Self { to: newer.to.concat() }
    }
}

/// Publishes so many events of five aggregates, each in a transaction; returns their ids.
async fn moved<T: TestDb>(world: &World<T>, number: u64, as_both: bool) -> Vec<i64> {
    let outbox = Outbox::new();
    let mut ids = Vec::new();
    for n in 0..number {
        let mut tx = outbox.begin(&world.pool).await.unwrap();
        let (id, to) = (n % 5, vec!["Ulm".to_owned()]);
        let published = if as_both {
            outbox.publish(&mut tx, &MovedAsBoth { id, to }).await
        } else {
            outbox.publish(&mut tx, &Moved { id, to }).await
        };
        ids.push(published.unwrap().id);
        outbox.commit(tx).await.unwrap();
    }
    ids
}

fn reading(name: &str, major: Option<u32>) -> ConsumerSpec {
    let spec = named(name).max_in_flight(3).unwrap();
    major.map_or(spec.clone(), |major| spec.pin("customer.moved", major).unwrap())
}

/// A relay that is stopped in the middle of its work and started again with other pins, while events come: at first in
/// one major, then in both.
async fn moving_a_pin_under_load_repeats_and_loses_nothing<T: TestDb>() {
    const EVENTS: u64 = 40;
    let world = World::<T>::new().await;
    let sinks = ["old", "new", "any"].map(|name| (name, RecordingSink::new()));
    let start = |old, new| {
        let mut builder = world.builder();
        for ((name, sink), major) in sinks.iter().zip([Some(old), Some(new), None]) {
            builder = builder.consumer(reading(name, major), sink.clone());
        }
        RunningRelay::start(builder.build().unwrap())
    };
    let (mut all, mut one_major) = (Vec::new(), BTreeSet::new());
    for (round, (old, new)) in
        [(1, 2), (1, 2), (2, 1), (1, 2), (2, 2), (1, 1), (1, 2)].into_iter().enumerate()
    {
        let relay = start(old, new);
        let ids = moved(&world, EVENTS, round > 0).await;
        if round == 0 {
            one_major.extend(ids.iter().copied());
        }
        all.extend(ids);
        // Some of it, not all: the next pins begin where these end.
        let least = sinks[2].1.delivered().len() + 5;
        sinks[2].1.wait_for_delivered(least.min(all.len())).await;
        relay.stop().await;
    }
    let last = start(1, 2);
    for (name, _) in &sinks {
        world.settled(name, *all.last().unwrap()).await;
    }
    last.stop().await;

    let mut dead = BTreeMap::<_, BTreeSet<_>>::new();
    for letter in world.dead().await {
        assert_eq!(letter.reason, "major_missing");
        assert!(dead.entry(letter.consumer).or_default().insert(letter.event_id), "dead once");
    }
    for (name, sink) in &sinks {
        let calls = sink.calls();
        let dead = dead.get(*name).cloned().unwrap_or_default();
        assert!(dead.is_subset(&one_major), "{name}: only what the event lacks");
        let mut had: Vec<_> = calls.iter().map(outbox_tests::Call::id).chain(dead).collect();
        had.sort_unstable();
        assert_eq!(had, all, "{name}: everything once, delivered or dead");
        let mut latest = BTreeMap::new();
        for call in &calls {
            let before = latest.insert(call.envelope.aggregate_id.clone(), call.id());
            assert!(before < Some(call.id()), "{name}: in order");
            let major = call.envelope.schema_version;
            let shape = if major == 1 { r#""Ulm""# } else { r#"["Ulm"]"# };
            assert!(call.envelope.payload.contains(shape), "{name}: {major} {}", call.envelope.payload);
        }
        let majors: BTreeSet<_> = calls.iter().map(|call| call.envelope.schema_version).collect();
        let expected: &[u32] = if *name == "any" { &[2] } else { &[1, 2] };
        assert_eq!(majors.into_iter().collect::<Vec<_>>(), expected, "{name}");
    }
    assert!(!dead["old"].is_empty() && !dead.contains_key("any"));
}
