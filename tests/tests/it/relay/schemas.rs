//! What the registry has to say about an event before it is delivered.

use std::fs;
use std::time::Duration;

use outbox_relay::{MissingSchema, RegistrationProblem, RelayError, Schemas, Settings, UndeclaredMembers};
use outbox_schema::Validators;
use outbox_sdk::validated::SchemaError;
use outbox_sdk::{JsonEvent, PublishError, Published};
use outbox_tests::{RecordingSink, RunningRelay, eventually, quick_settings};

use super::{World, crm, delivering};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    an_invalid_payload_is_dead_with_pointers_and_never_sent
    an_event_waits_for_its_schema_without_losing_attempts
    whoever_takes_over_looks_with_its_own_schemas
    a_producer_may_be_a_minor_ahead_or_behind
    undeclared_members_can_be_refused
    a_schema_that_nothing_fits_holds_events_back_instead_of_killing_them
    a_schema_in_doubt_is_a_reason_to_die_in_the_end
    publish_json_can_ask_the_registry_first
}

/// A registry folder with `customer.changed`.
struct Registry(tempfile::TempDir);

/// An integer `n`, which must be there.
const NUMBERED: &str = r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
/// The next minor: a name as well.
const NAMED: &str = r#"{
    "type": "object", "properties": {"n": {"type": "integer"}, "name": {"type": "string"}}, "required": ["n"]
}"#;
/// A mistake: a text instead.
const WRONG: &str = r#"{"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}"#;

impl Registry {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("registry.toml"), "compatibility = \"full\"\n").unwrap();
        fs::create_dir(dir.path().join("customer.changed")).unwrap();
        Self(dir)
    }

    fn with(schema: &str) -> Self {
        let registry = Self::new();
        registry.write("v1.0.json", schema);
        registry
    }

    fn write(&self, file: &str, schema: &str) {
        let dialect = r#"{"$schema": "https://json-schema.org/draft/2020-12/schema","#;
        let text = schema.replacen('{', dialect, 1);
        fs::write(self.0.path().join("customer.changed").join(file), text).unwrap();
    }

    fn open(&self) -> Schemas {
        Schemas::open(self.0.path()).unwrap()
    }
}

async fn publish<T: TestDb>(world: &World<T>, aggregate: &str, payload: &str) -> Published {
    let event = JsonEvent::new("customer.changed", 1, "customer", payload).aggregate_id(aggregate);
    world.publish_event(&event).await
}

async fn an_invalid_payload_is_dead_with_pointers_and_never_sent<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::with(NUMBERED);
    let good = world.publish(&["1"]).await;
    let secret =
        JsonEvent::new("customer.changed", 1, "customer", r#"{"n": "TOP-SECRET"}"#).aggregate_id("1");
    let bad = world.publish_event(&secret).await;
    let after = world.publish(&["1"]).await;
    let sink = RecordingSink::new();
    let relay = world
        .builder_with(quick_settings())
        .schemas(registry.open())
        .consumer(crm(), sink.clone())
        .build()
        .unwrap();
    assert_eq!(relay.run_once().await.unwrap(), 3);
    assert_eq!(sink.delivered(), [good[0].id, after[0].id]);
    let dead = world.dead().await;
    assert_eq!((dead.len(), dead[0].event_id, dead[0].reason.as_str()), (1, bad.id, "schema_violation"));
    assert!(dead[0].last_error.contains("/n"), "{}", dead[0].last_error);
    assert!(!dead[0].last_error.contains("TOP-SECRET"), "{}", dead[0].last_error);
    assert_eq!(dead[0].attempts, 0, "it was never sent");
}

async fn an_event_waits_for_its_schema_without_losing_attempts<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::new();
    let schemas = registry.open();
    let events = world.publish(&["1", "1"]).await;
    let sink = RecordingSink::new();
    let relay = world
        .builder_with(quick_settings())
        .schemas(schemas.clone())
        .consumer(crm(), sink.clone())
        .build()
        .unwrap();
    let relay = RunningRelay::start(relay);
    eventually("the lane waits for the schema", async || world.consumer("crm").await.stalled_lanes == 1)
        .await;
    assert!(sink.calls().is_empty());
    registry.write("v1.0.json", NUMBERED);
    assert!(schemas.reload().unwrap());
    let order = sink.wait_for_delivered(2).await;
    world.settled("crm", events[1].id).await;
    relay.stop().await;
    assert_eq!(order, [events[0].id, events[1].id]);
    assert!(sink.calls().iter().all(|call| call.attempt == 1));

    // Long after the end of their patience, events of an unknown type are dead.
    let unknown = JsonEvent::new("customer.vanished", 1, "customer", "{}").aggregate_id("9");
    world.publish_event(&unknown).await;
    let mut settings = quick_settings();
    settings.missing_schema = MissingSchema::Wait { dead_after: Duration::ZERO };
    let relay = world.builder_with(settings).schemas(schemas).consumer(crm(), sink.clone()).build().unwrap();
    relay.run_once().await.unwrap();
    assert_eq!(world.dead().await[0].reason, "schema_missing");
}

/// The one before has parked the lane until nobody knows when; who comes may be a release ahead.
async fn whoever_takes_over_looks_with_its_own_schemas<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::new();
    let events = world.publish(&["1", "1", "2"]).await;
    let sink = RecordingSink::new();
    let relay = || {
        let builder = world.builder_with(quick_settings()).schemas(registry.open());
        builder.consumer(crm(), sink.clone()).build().unwrap()
    };
    assert_eq!(relay().run_once().await.unwrap(), 0);
    world.settled_but("crm", events[2].id, 2).await;
    registry.write("v1.0.json", NUMBERED);
    let relay = RunningRelay::start(relay());
    sink.wait_for_delivered(3).await;
    world.settled("crm", events[2].id).await;
    relay.stop().await;
}

async fn a_producer_may_be_a_minor_ahead_or_behind<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::with(NUMBERED);
    let schemas = registry.open();
    let sink = RecordingSink::new();
    let relay = world.builder_with(quick_settings()).schemas(schemas.clone()).consumer(crm(), sink.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    let ahead = publish(&world, "1", r#"{"n": 1, "name": "Ada"}"#).await;
    sink.wait_for_delivered(1).await;

    registry.write("v1.1.json", NAMED);
    assert!(schemas.reload().unwrap());
    let level = publish(&world, "1", r#"{"n": 2, "name": "Bob"}"#).await;
    let behind = publish(&world, "1", r#"{"n": 3}"#).await;
    let order = sink.wait_for_delivered(3).await;
    relay.stop().await;
    assert_eq!(order, [ahead.id, level.id, behind.id]);
    assert!(world.dead().await.is_empty());
    let first = &sink.calls()[0].envelope.payload;
    assert!(first.contains("Ada"), "what is not declared is delivered as well: {first}");
}

async fn undeclared_members_can_be_refused<T: TestDb>() {
    let world = World::<T>::new().await;
    let schemas = Registry::with(NUMBERED).open().undeclared(UndeclaredMembers::Refuse);
    let extra = publish(&world, "1", r#"{"n": 1, "name": "TOP-SECRET"}"#).await;
    let plain = publish(&world, "1", r#"{"n": 2}"#).await;
    let sink = RecordingSink::new();
    let relay = world.builder().schemas(schemas).consumer(crm(), sink.clone()).build().unwrap();
    relay.run_once().await.unwrap();
    assert_eq!(sink.delivered(), [plain.id]);
    let dead = world.dead().await;
    assert_eq!((dead.len(), dead[0].event_id, dead[0].reason.as_str()), (1, extra.id, "schema_violation"));
    let error = &dead[0].last_error;
    assert!(error.contains("`/name`") && error.contains("undeclared = \"count\""), "{error}");
    assert!(!error.contains("TOP-SECRET"), "{error}");
}

async fn a_schema_that_nothing_fits_holds_events_back_instead_of_killing_them<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::with(WRONG);
    let schemas = registry.open();
    let mut events = Vec::new();
    for n in 0..50 {
        events.push(publish(&world, &n.to_string(), &format!(r#"{{"n": {n}}}"#)).await.id);
    }
    let (sink, second) = (RecordingSink::new(), RecordingSink::new());
    let relay = world
        .builder_with(quick_settings())
        .schemas(schemas.clone())
        .consumer(crm(), sink.clone())
        .consumer(super::named("billing"), second.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    for consumer in ["crm", "billing"] {
        eventually("the others wait", async || world.consumer(consumer).await.stalled_lanes == 30).await;
    }
    let dead = world.dead().await;
    assert_eq!(dead.len(), 2 * 20, "twenty of each consumer");
    assert!(dead.iter().all(|letter| letter.reason == "schema_violation"));

    // Another type's file changes: nothing is better, and nobody more has to die for that to be found out.
    let other = registry.0.path().join("other.changed");
    fs::create_dir(&other).unwrap();
    fs::copy(registry.0.path().join("customer.changed/v1.0.json"), other.join("v1.0.json")).unwrap();
    assert!(schemas.reload().unwrap());
    events.push(publish(&world, "later", r#"{"n": 99}"#).await.id);
    for consumer in ["crm", "billing"] {
        eventually("it waits too", async || world.consumer(consumer).await.stalled_lanes == 31).await;
    }
    assert_eq!(world.dead().await.len(), 2 * 20);

    registry.write("v1.0.json", NUMBERED);
    assert!(schemas.reload().unwrap());
    for sink in [&sink, &second] {
        let mut delivered = sink.wait_for_delivered(31).await;
        delivered.sort_unstable();
        let mut waited: Vec<i64> = events.clone();
        waited.retain(|id| dead.iter().all(|letter| letter.event_id != *id));
        assert_eq!(delivered, waited, "the same twenty were dead for both");
        assert!(sink.calls().iter().all(|call| call.attempt == 1), "waiting burned no attempt");
    }
    relay.stop().await;
    assert_eq!(world.dead().await.len(), 2 * 20);
}

async fn a_schema_in_doubt_is_a_reason_to_die_in_the_end<T: TestDb>() {
    let world = World::<T>::new().await;
    let schemas = Registry::with(WRONG).open();
    for n in 0..22 {
        publish(&world, &n.to_string(), r#"{"n": 1}"#).await;
    }
    let mut settings = quick_settings();
    settings.missing_schema = MissingSchema::Wait { dead_after: Duration::ZERO };
    let relay = world.builder_with(settings).schemas(schemas).consumer(crm(), RecordingSink::new());
    relay.build().unwrap().run_once().await.unwrap();
    let dead = world.dead().await;
    assert_eq!(dead.len(), 22);
    assert!(dead.iter().all(|letter| letter.reason == "schema_violation" && letter.attempts == 0));
    assert_eq!(dead.iter().filter(|letter| letter.last_error.contains("in a row")).count(), 2);
}

async fn publish_json_can_ask_the_registry_first<T: TestDb>() {
    let world = World::<T>::new().await;
    let registry = Registry::with(NUMBERED);
    let compiled =
        || Validators::compile(&outbox_schema::Registry::open(registry.0.path()).unwrap()).unwrap();
    let strict = world.outbox.clone().with_validators(compiled(), UndeclaredMembers::Refuse);
    let lenient = world.outbox.clone().with_validators(compiled(), UndeclaredMembers::Count);
    let event = |major, payload: &str| JsonEvent::new("customer.changed", major, "customer", payload);
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let refused = |error: PublishError| match error {
        PublishError::Schema(error) => error,
        other => panic!("{other:?}"),
    };

    let wrong = strict.publish_json(&mut tx, &event(1, r#"{"n": "TOP-SECRET"}"#)).await.unwrap_err();
    assert!(!format!("{wrong} {wrong:?}").contains("TOP-SECRET"), "{wrong:?}");
    assert!(matches!(refused(wrong), SchemaError::Violations(_)));
    let extra = event(1, r#"{"n": 1, "name": "Ada"}"#);
    let error = refused(strict.publish_json(&mut tx, &extra).await.unwrap_err());
    assert!(error.to_string().contains("`/name`"), "{error}");
    lenient.publish_json(&mut tx, &extra).await.unwrap();
    let unknown = refused(lenient.publish_json(&mut tx, &event(2, "{}")).await.unwrap_err());
    assert_eq!(unknown, SchemaError::Unknown { known_majors: vec![1] });
    strict.publish_json(&mut tx, &event(1, r#"{"n": 1}"#)).await.unwrap();
    world.outbox.commit(tx).await.unwrap();
}

#[tokio::test]
async fn everything_that_consumers_cannot_have_is_told_at_once() {
    let world = World::<outbox_tests::SqliteTestDb>::new().await;
    let registry = Registry::with(NUMBERED);
    fs::create_dir(registry.0.path().join("customer.deleted")).unwrap();
    let same = fs::read_to_string(registry.0.path().join("customer.changed/v1.0.json")).unwrap();
    let deleted = same.replace("customer.changed", "customer.deleted");
    fs::write(registry.0.path().join("customer.deleted/v1.0.json"), deleted).unwrap();
    let removed = "date = 2026-12-01\nreason = \"gone\"\n";
    fs::write(registry.0.path().join("customer.deleted/removed.toml"), removed).unwrap();
    let build = |settings: Settings, pins: &[(&str, u32)]| {
        let pinned =
            pins.iter().fold(crm(), |spec, (event_type, major)| spec.pin(event_type, *major).unwrap());
        let schemas = Schemas::open(registry.0.path()).unwrap();
        let relay = world.builder_with(settings).schemas(schemas).consumer(pinned, RecordingSink::new());
        relay.consumer(crm(), RecordingSink::new()).build().map(|_| ())
    };
    let wrong = [("customer.changed", 7), ("customer.merged", 1), ("customer.deleted", 1)];
    let error = build(quick_settings(), &wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the consumers cannot be registered: \n  \
         consumer `crm` pins v7 of `customer.changed`, of which the registry has v1; commit its schema, or pin one of these\n  \
         consumer `crm` pins `customer.merged`, which the registry does not have; commit its schema, or correct the name\n  \
         two consumers are named `crm`; a name keys a consumer's progress, so give each its own"
    );
    let RelayError::Registration(problems) = build(delivering(quick_settings()), &wrong).unwrap_err() else {
        panic!()
    };
    assert_eq!(problems, [RegistrationProblem::DuplicateConsumer("crm".to_owned())]);
}
