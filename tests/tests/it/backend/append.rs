//! Publishing: ids, what is kept of an event, what is refused, and what a transaction is.

use std::time::Duration;

use outbox_sdk::backend::{Fault, WriteOrder};
use outbox_sdk::{Backend, NewEnvelope, Once, Tables, Timestamp};
use outbox_tests::{PgTestDb, SqliteTestDb};
use sqlx::Connection;
use uuid::Uuid;

use super::{Outbox, TestDb, event, everything, with_payload};

super::on_every_database! {
    append_gives_rising_ids
    append_all_answers_in_the_order_given
    a_key_leads_to_one_event
    a_key_waits_for_who_noted_it_first
    every_field_comes_back
    payloads_keep_every_digit_and_character
    what_is_no_object_is_refused
    a_version_below_one_is_refused
    names_and_ids_have_a_longest_form
    a_rolled_back_event_never_was
    the_database_knows_whether_a_transaction_is_open
    a_doomed_transaction_is_noticed_before_its_commit
    holders_are_the_open_writers
}

async fn append_gives_rising_ids<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let (first, second) = (event("1"), event("2"));
    for order in [WriteOrder::Aggregate, WriteOrder::Unordered] {
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        let one = T::Db::append(&mut tx, &outbox.tables, &first, order).await.unwrap();
        let two = T::Db::append(&mut tx, &outbox.tables, &second, order).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((one.event_id, two.event_id), (first.event_id, second.event_id));
        assert!(0 < one.id && one.id < two.id);
    }
    assert_eq!(outbox.read(&everything()).await.events.len(), 4);
}

async fn append_all_answers_in_the_order_given<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let events: Vec<_> = (0..60).map(|n| event(&((n * 7) % 13).to_string())).collect();
    for order in [WriteOrder::Aggregate, WriteOrder::Unordered] {
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        let answers = T::Db::append_all(&mut tx, &outbox.tables, &events, order).await.unwrap();
        tx.commit().await.unwrap();
        assert!(answers.iter().map(|answer| answer.event_id).eq(events.iter().map(|event| event.event_id)));
        assert!(answers.is_sorted_by(|a, b| a.id < b.id), "ids rise: {answers:?}");
        let stored = outbox.read(&super::Read { above: answers[0].id - 1, ..everything() }).await.events;
        assert!(stored.iter().map(|row| row.envelope.id).eq(answers.iter().map(|answer| answer.id)));
        assert!(
            stored.iter().map(|row| row.envelope.event_id).eq(answers.iter().map(|answer| answer.event_id))
        );
    }
    let mut conn = outbox.conn().await;
    let none = T::Db::append_all(&mut *conn, &outbox.tables, &[], WriteOrder::Aggregate).await.unwrap();
    assert!(none.is_empty());
}

async fn a_key_leads_to_one_event<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    for order in [WriteOrder::Aggregate, WriteOrder::Unordered] {
        let key = format!("rename 'x' \u{1f980} {order:?}");
        let (first, second) = (event("1"), event("1"));
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        let once = T::Db::append_once(&mut tx, &outbox.tables, &first, order, &key).await.unwrap();
        assert!(matches!(once, Once::Published(published) if published.event_id == first.event_id));
        // In the same transaction, and in a later one.
        let again = T::Db::append_once(&mut tx, &outbox.tables, &second, order, &key).await.unwrap();
        assert_eq!(again, Once::Repeated { event_id: first.event_id });
        tx.commit().await.unwrap();
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        let again = T::Db::append_once(&mut tx, &outbox.tables, &second, order, &key).await.unwrap();
        assert_eq!(again, Once::Repeated { event_id: first.event_id });
        // What was rolled back is not noted.
        let other = format!("{key} other");
        T::Db::append_once(&mut tx, &outbox.tables, &second, order, &other).await.unwrap();
        tx.rollback().await.unwrap();
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        let once = T::Db::append_once(&mut tx, &outbox.tables, &second, order, &other).await.unwrap();
        assert_eq!(once.event_id(), second.event_id);
        tx.commit().await.unwrap();
    }
    assert_eq!(outbox.read(&everything()).await.events.len(), 4);
}

/// Ten requests with one key at once.
async fn a_key_waits_for_who_noted_it_first<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (pool, tables) = (outbox.pool.clone(), outbox.tables.clone());
        requests.spawn(async move {
            let event = event("1");
            let mut tx = T::Db::begin_write(&pool).await.unwrap();
            let order = WriteOrder::Aggregate;
            let once = T::Db::append_once(&mut tx, &tables, &event, order, "one key").await.unwrap();
            tokio::task::yield_now().await;
            tx.commit().await.unwrap();
            once
        });
    }
    let answers = requests.join_all().await;
    let written = answers.iter().filter(|once| matches!(once, Once::Published(_))).count();
    assert_eq!(written, 1, "{answers:?}");
    assert!(answers.iter().all(|once| once.event_id() == answers[0].event_id()), "{answers:?}");
    assert_eq!(outbox.read(&everything()).await.events.len(), 1);
}

async fn every_field_comes_back<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut full = event("7 'x' \u{1f980}");
    full.schema_version = 3;
    full.tenant_id = Some(Uuid::now_v7());
    full.correlation_id = Some(Uuid::now_v7());
    full.causation_id = Some(Uuid::now_v7());
    full.actor = Some(r#"{"id": 5}"#.to_owned());
    full.audit_log_id = Some(i64::MAX);
    full.traceparent = Some("00-1-2-01".to_owned());
    full.tracestate = Some("a=b".to_owned());
    full.older_payloads = Some(r#"{"1": {"old": true}}"#.to_owned());
    full.occurred_at = Some(Timestamp::from_micros(1_700_000_000_123_456));
    let mut bare = NewEnvelope::new("platform.started", 1, "platform", "{}".to_owned());
    bare.delay = Some(Duration::ZERO);
    let mut again = full.clone();
    again.event_id = Uuid::now_v7();
    outbox.append_all(&[full.clone(), bare.clone()]).await;
    let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
    T::Db::append(&mut tx, &outbox.tables, &again, WriteOrder::Aggregate).await.unwrap();
    tx.commit().await.unwrap();

    let stored = outbox.read(&everything()).await.events;
    for (row, given) in stored.iter().zip([&full, &bare, &again]) {
        let envelope = &row.envelope;
        assert_eq!(envelope.event_id, given.event_id);
        assert_eq!(envelope.event_type, given.event_type);
        assert_eq!(envelope.schema_version, given.schema_version);
        assert_eq!(envelope.aggregate_type, given.aggregate_type);
        assert_eq!(envelope.aggregate_id, given.aggregate_id);
        assert_eq!(envelope.tenant_id, given.tenant_id);
        assert_eq!(envelope.correlation_id, given.correlation_id);
        assert_eq!(envelope.causation_id, given.causation_id);
        assert_eq!(envelope.actor, given.actor);
        assert_eq!(envelope.audit_log_id, given.audit_log_id);
        assert_eq!(envelope.traceparent, given.traceparent);
        assert_eq!(envelope.tracestate, given.tracestate);
        assert_eq!(envelope.payload, given.payload);
        assert_eq!(envelope.older_payloads, given.older_payloads);
        assert_eq!((row.delayed, row.due_in, row.defect), (false, Duration::ZERO, None));
    }
    assert_eq!(stored[0].envelope.occurred_at, full.occurred_at.unwrap());
    // The clock of the last event was read a moment ago, on this machine.
    let now = Timestamp::from_micros(i64::try_from(epoch_micros()).unwrap());
    let hour = 3_600_000_000;
    for time in [stored[1].envelope.occurred_at, stored[1].envelope.created_at] {
        assert!((time.micros() - now.micros()).abs() < hour, "{time:?} is not about {now:?}");
    }
}

fn epoch_micros() -> u128 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()
}

async fn payloads_keep_every_digit_and_character<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let texts = [
        r#"{"n": 1.10, "m": 18446744073709551616, "tiny": 0.00000000000000000001}"#,
        r#"{"text": "ä \"quoted\" \\ / 🦀 \n \u0001"}"#,
        r#"{"nested": {"list": [1, "2", null, true, {}]}}"#,
    ];
    let events: Vec<_> = texts.iter().map(|text| with_payload(text)).collect();
    outbox.append_all(&events).await;
    outbox.append(&with_payload(r#"{"a": 1.10, "b": 1e2}"#)).await;
    for event in &events {
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        T::Db::append(&mut tx, &outbox.tables, event, WriteOrder::Aggregate).await.unwrap();
        tx.commit().await.unwrap();
    }
    let stored: Vec<_> = outbox
        .read(&everything())
        .await
        .events
        .into_iter()
        .map(|row| sorted(&row.envelope.payload))
        .collect();
    let expected: Vec<_> = texts.iter().chain([&T::NUMBERS]).chain(&texts).map(|text| sorted(text)).collect();
    assert_eq!(stored, expected);
}

/// The text with the members of the outer object in a fixed order: PostgreSQL keeps its own.
fn sorted(payload: &str) -> String {
    let members: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_str(payload).unwrap();
    serde_json::to_string(&members).unwrap()
}

async fn what_is_no_object_is_refused<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    for payload in ["[1]", "\"text\"", "1", "null"] {
        let bad = with_payload(payload);
        let mut conn = outbox.conn().await;
        let one = T::Db::append(&mut *conn, &outbox.tables, &bad, WriteOrder::Aggregate).await.unwrap_err();
        assert_eq!(T::Db::fault(&one), Fault::Refused, "{payload}: {one}");
        let all =
            T::Db::append_all(&mut *conn, &outbox.tables, &[event("1"), bad], WriteOrder::Aggregate).await;
        let all = all.unwrap_err();
        assert_eq!(T::Db::fault(&all), Fault::Refused, "{payload}: {all}");
    }
    assert_eq!(outbox.rows("event").await, 0);
}

async fn a_version_below_one_is_refused<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut bad = event("1");
    bad.schema_version = 0;
    let mut conn = outbox.conn().await;
    let error = T::Db::append(&mut *conn, &outbox.tables, &bad, WriteOrder::Aggregate).await.unwrap_err();
    assert_eq!(T::Db::fault(&error), Fault::Refused, "{error}");
}

async fn names_and_ids_have_a_longest_form<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    // In bytes, and none of these has as many characters.
    let text = |bytes: usize| "\u{e9}".repeat(bytes / 2) + &"x".repeat(bytes % 2);
    let lengths = [
        (200, |event: &mut NewEnvelope, text| event.event_type = text),
        (255, |event: &mut NewEnvelope, text| event.aggregate_type = text),
        (255, |event: &mut NewEnvelope, text| event.aggregate_id = Some(text)),
    ] as [(usize, fn(&mut NewEnvelope, String)); 3];
    for (longest, set) in lengths {
        let mut event = event("1");
        set(&mut event, text(longest));
        outbox.append(&event).await;
        set(&mut event, text(longest + 1));
        let mut conn = outbox.conn().await;
        let error =
            T::Db::append(&mut *conn, &outbox.tables, &event, WriteOrder::Aggregate).await.unwrap_err();
        assert_eq!(T::Db::fault(&error), Fault::Refused, "{error}");
    }
    assert_eq!(outbox.rows("event").await, 3);
}

async fn a_rolled_back_event_never_was<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
    T::Db::append(&mut tx, &outbox.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    tx.rollback().await.unwrap();
    let kept = outbox.append(&event("1")).await;
    let stored = outbox.read(&everything()).await.events;
    assert_eq!(stored.iter().map(|row| row.envelope.id).collect::<Vec<_>>(), [kept.id]);
}

async fn the_database_knows_whether_a_transaction_is_open<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut conn = outbox.conn().await;
    assert!(!T::Db::in_transaction(&mut *conn).await.unwrap());
    let mut tx = conn.begin().await.unwrap();
    assert!(T::Db::in_transaction(&mut tx).await.unwrap());
    tx.commit().await.unwrap();
    assert!(!T::Db::in_transaction(&mut *conn).await.unwrap());
    T::execute(&mut *conn, "BEGIN").await.unwrap();
    assert!(T::Db::in_transaction(&mut *conn).await.unwrap());
    T::Db::append(&mut *conn, &outbox.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    assert!(T::Db::in_transaction(&mut *conn).await.unwrap());
    T::execute(&mut *conn, "ROLLBACK").await.unwrap();
    assert!(!T::Db::in_transaction(&mut *conn).await.unwrap());
    assert_eq!(outbox.rows("event").await, 0, "asking has not ended the transaction");
}

async fn a_doomed_transaction_is_noticed_before_its_commit<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    for _ in 0..20 {
        let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
        T::Db::ensure_usable(&mut tx).await.unwrap();
        T::doom(&mut tx).await;
        let error = T::Db::ensure_usable(&mut tx).await.unwrap_err();
        assert_eq!(T::Db::fault(&error), Fault::TransactionFailed, "{error}");
    }
    // No connection in the pool is worse for it.
    outbox.append(&event("1")).await;
}

async fn holders_are_the_open_writers<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let none = T::Db::holders(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert!(none.primary && !none.prepared && none.transactions.is_empty());
    let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
    T::Db::append(&mut tx, &outbox.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    let open = T::Db::holders(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert_eq!(open.transactions.len(), usize::from(T::CONCURRENT_WRITERS));
    let same = T::Db::holders(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert_eq!(open, same);
    tx.commit().await.unwrap();
    let none = T::Db::holders(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert!(none.transactions.is_empty());
}

#[tokio::test]
async fn a_second_writer_finds_sqlite_busy() {
    let outbox = Outbox::<SqliteTestDb>::migrated().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(outbox.db.path())
        .busy_timeout(Duration::from_millis(1));
    let impatient = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let tx = sqlx::Sqlite::begin_write(&outbox.pool).await.unwrap();
    let error = sqlx::Sqlite::begin_write(&impatient).await.unwrap_err();
    assert_eq!(sqlx::Sqlite::fault(&error), Fault::DatabaseBusy, "{error}");
    tx.rollback().await.unwrap();
    sqlx::Sqlite::begin_write(&impatient).await.unwrap().rollback().await.unwrap();

    // A reader that turns writer after somebody else has written.
    let mut reader = impatient.begin().await.unwrap();
    sqlx::Sqlite::read(&mut reader, &outbox.tables, &everything()).await.unwrap();
    outbox.append(&event("1")).await;
    let error = sqlx::Sqlite::append(&mut reader, &outbox.tables, &event("1"), WriteOrder::Aggregate).await;
    let error = error.unwrap_err();
    assert_eq!(sqlx::Sqlite::fault(&error), Fault::DatabaseBusy, "{error}");
}

#[tokio::test]
async fn sqlite_refuses_an_id_that_was_handed_out() {
    let outbox = Outbox::<SqliteTestDb>::migrated().await;
    let last = outbox.some_events(3).await[2].id;
    outbox.execute(&format!("DELETE FROM outbox_event WHERE id = {last}")).await;
    let insert = |id: &str, or: &str| {
        format!(
            "INSERT {or} INTO outbox_event (id, event_type, aggregate_type, payload) VALUES ({id}, 'a.b', 'c', '{{}}')"
        )
    };
    for id in [last, last - 1, 0, -1] {
        let insert = insert(&id.to_string(), "OR REPLACE");
        let error =
            SqliteTestDb::execute(&mut *outbox.conn().await, &insert).await.expect_err("the id is refused");
        assert_eq!(sqlx::Sqlite::fault(&error), Fault::Refused, "{error}");
    }
    let above = last + 10;
    outbox.execute(&insert(&above.to_string(), "")).await;
    outbox.execute(&insert("NULL", "")).await;
    outbox.some_events(2).await;
    let stored = outbox.read(&everything()).await.events;
    let stored: Vec<_> = stored.iter().map(|row| row.envelope.id).collect();
    assert_eq!(stored, [last - 2, last - 1, above, above + 1, above + 2, above + 3]);
}

#[tokio::test]
async fn postgres_says_that_nobody_has_migrated() {
    let db = PgTestDb::new().await;
    let mut conn = db.pool().await.acquire().await.unwrap();
    let error =
        sqlx::Postgres::append(&mut conn, &Tables::default(), &event("1"), WriteOrder::Aggregate).await;
    assert_eq!(sqlx::Postgres::fault(&error.unwrap_err()), Fault::NotMigrated);
}
