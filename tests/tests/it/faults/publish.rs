//! What cannot be published is refused by name, and the caller's transaction stays what it was.

use outbox_sdk::{JsonEvent, LimitError, Limits, Outbox, OutboxEvent, PublishError};
use outbox_tests::{PgTestDb, RecordingSink, SqliteTestDb};
use schemars::JsonSchema;
use serde::Serialize;

use crate::databases::{TestDb, on_every_database};
use crate::relay::{World, changed, ids};

on_every_database! {
    a_publish_without_tables_says_so
    json_that_cannot_be_published_is_refused_by_name
    a_struct_that_cannot_be_published_is_refused_by_name
    a_doomed_transaction_does_not_seem_to_commit
    publishing_on_a_connection_needs_a_transaction
    a_batch_has_its_ids_in_order
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
struct CustomerRenamed {
    #[outbox(aggregate_id)]
    customer: u32,
    name: String,
}

fn renamed(name: impl Into<String>) -> CustomerRenamed {
    CustomerRenamed { customer: 1, name: name.into() }
}

fn payload(text: impl Into<String>) -> JsonEvent {
    JsonEvent::new("customer.changed", 1, "customer", text).aggregate_id("1")
}

fn typed(event_type: &str) -> JsonEvent {
    JsonEvent::new(event_type, 1, "customer", "{}")
}

fn about(aggregate_type: &str, aggregate_id: &str) -> JsonEvent {
    JsonEvent::new("customer.changed", 1, aggregate_type, "{}").aggregate_id(aggregate_id)
}

fn version(major: u32) -> JsonEvent {
    JsonEvent::new("customer.changed", major, "customer", "{}")
}

type Fits = fn(&PublishError) -> bool;

fn bad_json() -> Vec<(JsonEvent, Fits)> {
    use LimitError::{AggregateId, AggregateIdEmpty, AggregateType, AggregateTypeControl};
    use LimitError::{LoneSurrogate, NotAnObject, Nul, NumberTooLarge, TooDeep, TooLarge};
    use PublishError::{EventType, Limit, NotJson, SchemaVersion};

    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(10), "]".repeat(10));
    let not_an_object: Fits = |error| matches!(error, Limit(NotAnObject));
    let not_json: Fits = |error| matches!(error, NotJson { line: 1, .. });
    let surrogate: Fits = |error| matches!(error, Limit(LoneSurrogate));
    let too_large_number: Fits = |error| matches!(error, Limit(NumberTooLarge { limit: 330 }));
    let event_type: Fits = |error| matches!(error, EventType(_));
    let major: Fits = |error| matches!(error, SchemaVersion(_));
    vec![
        (payload("[1]"), not_an_object),
        (payload("null"), not_an_object),
        (payload("\"{}\""), not_an_object),
        (payload(""), not_an_object),
        (payload(format!(r#"{{"a":"{}"}}"#, "x".repeat(93))), |error| {
            matches!(error, Limit(TooLarge { bytes: 101, limit: 100 }))
        }),
        (payload(deep), |error| matches!(error, Limit(TooDeep { limit: 10 }))),
        (payload(r#"{"a":"b\u0000c"}"#), |error| matches!(error, Limit(Nul))),
        (payload(r#"{"\u0000":1}"#), |error| matches!(error, Limit(Nul))),
        (payload(r#"{"a":"\ud800"}"#), surrogate),
        (payload(r#"{"a":"\udc00\ud800"}"#), surrogate),
        (payload(r#"{"a":1e401}"#), too_large_number),
        (payload(r#"{"a":-1E+131071}"#), too_large_number),
        (payload(r#"{"a":}"#), not_json),
        (payload(r#"{"a":1} {}"#), not_json),
        (payload("{\"a\":\"\0\"}"), not_json),
        (payload("{"), not_json),
        (payload("{'a':1}"), not_json),
        (payload(r#"{"a":NaN}"#), not_json),
        (about(&"x".repeat(256), "1"), |error| matches!(error, Limit(AggregateType { bytes: 256 }))),
        (about("cust\nomer", "1"), |error| matches!(error, Limit(AggregateTypeControl))),
        (about("customer", &"x".repeat(256)), |error| matches!(error, Limit(AggregateId { bytes: 256 }))),
        (about("customer", ""), |error| matches!(error, Limit(AggregateIdEmpty))),
        (typed(""), event_type),
        (typed("customer"), event_type),
        (typed("Customer.changed"), event_type),
        (typed("customer.changed.by.whom"), event_type),
        (typed("customer..changed"), event_type),
        (typed("customer.changed\n"), event_type),
        (version(0), major),
        (version(u32::MAX), major),
    ]
}

/// What the database holds after the commit: exactly the events that were taken.
async fn stored<T: TestDb>(world: &World<T>) -> i64 {
    let mut conn = world.pool.acquire().await.unwrap();
    T::count(&mut conn, &format!("SELECT count(*) FROM {}", T::table("event"))).await
}

async fn json_that_cannot_be_published_is_refused_by_name<T: TestDb>() {
    let world = World::<T>::new().await;
    let outbox = Outbox::new().with_limits(Limits::default().max_bytes(100).max_depth(10));
    let mut tx = outbox.begin(&world.pool).await.unwrap();
    let mut good = Vec::new();
    for (n, (event, fits)) in bad_json().iter().enumerate() {
        let error = outbox.publish_json(&mut tx, event).await.unwrap_err();
        assert!(fits(&error), "{event:?}: {error:?}");
        good.push(outbox.publish_json(&mut tx, &changed("1", n)).await.unwrap());
    }
    outbox.commit(tx).await.unwrap();
    assert_eq!(stored(&world).await, i64::try_from(good.len()).unwrap());
    let sink = RecordingSink::new();
    world.drain(&sink).await;
    assert_eq!(sink.delivered(), ids(&good));
}

async fn a_struct_that_cannot_be_published_is_refused_by_name<T: TestDb>() {
    let world = World::<T>::new().await;
    let outbox = &world.outbox;
    let mut tx = outbox.begin(&world.pool).await.unwrap();
    let nul = outbox.publish(&mut tx, &renamed("a\0b")).await.unwrap_err();
    assert!(matches!(nul, PublishError::Limit(LimitError::Nul)), "{nul:?}");
    let large = outbox.publish(&mut tx, &renamed("x".repeat(1 << 20))).await.unwrap_err();
    assert!(matches!(large, PublishError::Limit(LimitError::TooLarge { limit: 1_048_576, .. })), "{large:?}");
    let one_is_bad = [renamed("Ada"), renamed("\0"), renamed("Eve")];
    outbox.publish_all(&mut tx, &one_is_bad).await.unwrap_err();
    outbox.publish(&mut tx, &renamed("x".repeat((1 << 20) - 64))).await.unwrap();
    outbox.commit(tx).await.unwrap();
    assert_eq!(stored(&world).await, 1, "nothing of the batch was written");
}

async fn a_doomed_transaction_does_not_seem_to_commit<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    world.outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    T::doom(&mut tx).await;
    let error = world.outbox.commit(tx).await.unwrap_err();
    assert!(matches!(error, PublishError::TransactionFailed(_)), "{error:?}");
    assert_eq!(stored(&world).await, 0);
    let after = world.publish(&["1"]).await;
    let sink = RecordingSink::new();
    world.drain(&sink).await;
    assert_eq!(sink.delivered(), ids(&after));
}

/// A row that only the database refuses: the derive would not have let its version through.
#[derive(Serialize, JsonSchema)]
struct RefusedByTheTable {}

impl OutboxEvent for RefusedByTheTable {
    const EVENT_TYPE: &'static str = "customer.renamed";
    const SCHEMA_VERSION: u32 = 0;
    const AGGREGATE_TYPE: &'static str = "customer";

    fn aggregate_id(&self) -> Option<String> {
        None
    }

    fn tenant_id(&self) -> Option<uuid::Uuid> {
        None
    }
}

#[tokio::test]
async fn a_row_refused_by_postgres_dooms_the_transaction_loudly() {
    let world = World::<PgTestDb>::new().await;
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    world.outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    let error = world.outbox.publish(&mut tx, &RefusedByTheTable {}).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused(_)), "{error:?}");
    let error = world.outbox.publish_json(&mut tx, &changed("1", 1)).await.unwrap_err();
    assert!(matches!(error, PublishError::TransactionFailed(_)), "{error:?}");
    let error = world.outbox.commit(tx).await.unwrap_err();
    assert!(matches!(error, PublishError::TransactionFailed(_)), "{error:?}");
    assert_eq!(stored(&world).await, 0);
}

#[tokio::test]
async fn a_row_refused_by_sqlite_leaves_the_transaction_usable() {
    let world = World::<SqliteTestDb>::new().await;
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    world.outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    let error = world.outbox.publish(&mut tx, &RefusedByTheTable {}).await.unwrap_err();
    assert!(matches!(error, PublishError::Refused(_)), "{error:?}");
    world.outbox.publish_json(&mut tx, &changed("1", 1)).await.unwrap();
    world.outbox.commit(tx).await.unwrap();
    assert_eq!(stored(&world).await, 2);
}

async fn publishing_on_a_connection_needs_a_transaction<T: TestDb>() {
    let world = World::<T>::new().await;
    let outbox = &world.outbox;
    let mut conn = world.pool.acquire().await.unwrap();
    let error = outbox.publish_on(&mut *conn, &renamed("none")).await.unwrap_err();
    assert!(matches!(error, PublishError::NotInTransaction), "{error:?}");

    T::execute(&mut conn, "BEGIN").await.unwrap();
    outbox.publish_on(&mut *conn, &renamed("plain SQL")).await.unwrap();
    T::execute(&mut conn, "ROLLBACK").await.unwrap();
    T::execute(&mut conn, "BEGIN").await.unwrap();
    outbox.publish_on(&mut *conn, &renamed("plain SQL")).await.unwrap();
    T::execute(&mut conn, "COMMIT").await.unwrap();
    let error = outbox.publish_on(&mut *conn, &renamed("none")).await.unwrap_err();
    assert!(matches!(error, PublishError::NotInTransaction), "{error:?}");
    drop(conn);

    let mut tx = outbox.begin(&world.pool).await.unwrap();
    outbox.publish_on(&mut *tx, &renamed("of sqlx")).await.unwrap();
    outbox.commit(tx).await.unwrap();
    assert_eq!(stored(&world).await, 2);
}

async fn a_batch_has_its_ids_in_order<T: TestDb>() {
    let world = World::<T>::new().await;
    let outbox = &world.outbox;
    let mut tx = outbox.begin(&world.pool).await.unwrap();
    let names: Vec<_> = (0..100).map(|n| CustomerRenamed { customer: n % 7, name: n.to_string() }).collect();
    let published = outbox.publish_all(&mut tx, &names).await.unwrap();
    // In a doomed transaction every statement fails.
    T::doom(&mut tx).await;
    assert!(outbox.publish_all(&mut tx, &[] as &[CustomerRenamed]).await.unwrap().is_empty());
    drop(tx);
    let mut tx = outbox.begin(&world.pool).await.unwrap();
    let kept = outbox.publish_all(&mut tx, &names).await.unwrap();
    outbox.commit(tx).await.unwrap();
    assert!(ids(&published).is_sorted() && ids(&kept).is_sorted());

    let sink = RecordingSink::new();
    assert_eq!(world.drain(&sink).await, 100);
    let mut calls = sink.calls();
    calls.sort_by_key(outbox_tests::Call::id);
    for ((call, published), event) in calls.iter().zip(&kept).zip(&names) {
        assert_eq!((call.id(), call.envelope.event_id), (published.id, published.event_id));
        assert!(call.envelope.payload.contains(&format!("\"{}\"", event.name)), "{}", call.envelope.payload);
    }
}

async fn a_publish_without_tables_says_so<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    let outbox = Outbox::new();
    for many in [false, true] {
        let mut tx = outbox.begin(&pool).await.unwrap();
        let error = if many {
            outbox
                .publish_all(&mut tx, [&CustomerRenamed { customer: 1, name: "a".to_owned() }])
                .await
                .unwrap_err()
        } else {
            outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap_err()
        };
        assert!(matches!(error, PublishError::NotMigrated(_)), "{error:?}");
        assert!(format!("{error:?}").contains("outbox migrate"), "{error:?}");
    }
}
