use std::time::Duration;

use outbox_sdk::backend::{Fault, Read, WriteOrder};
use outbox_sdk::{Backend, NewEnvelope, Once, Timestamp};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Postgres, Row};
use uuid::Uuid;

use crate::{Db, WAITS, event, run};

/// Opens a transaction that holds the lock of an aggregate of the platform.
async fn hold(db: &Db, aggregate_id: &str) -> PgConnection {
    let mut holder = db.connect().await;
    let (schema, id) = (db.schema(), aggregate_id);
    let lock = format!("pg_advisory_xact_lock(1870099554, {schema}.bucket(NULL, 'customer', '{id}'))");
    run(&mut holder, &format!("BEGIN; SELECT {lock}")).await;
    holder
}

/// How many advisory locks the session holds.
async fn locks(conn: &mut PgConnection) -> i64 {
    let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    sqlx::query_scalar(held).fetch_one(conn).await.unwrap()
}

#[derive(Debug, Clone, Copy)]
enum Form {
    One,
    Many,
    Once,
    Function,
}

async fn write(db: &Db, conn: &mut PgConnection, form: Form) -> i64 {
    match form {
        Form::One => Postgres::append(conn, &db.tables, &event("7"), WriteOrder::Aggregate).await.unwrap().id,
        Form::Many => {
            let events = ["1", "2", "7", "7", "3"].map(event);
            Postgres::append_all(conn, &db.tables, &events, WriteOrder::Aggregate).await.unwrap()[0].id
        }
        Form::Once => {
            let key = Uuid::now_v7().to_string();
            let event = event("7");
            let once = Postgres::append_once(conn, &db.tables, &event, WriteOrder::Aggregate, &key);
            let Once::Published(published) = once.await.unwrap() else { panic!("the key is new") };
            published.id
        }
        Form::Function => {
            let call = format!(
                "SELECT {}.publish(event_type => 'customer.updated', payload => '{{}}',
                    aggregate_type => 'customer', aggregate_id => '7')",
                db.schema()
            );
            sqlx::query_scalar(AssertSqlSafe(call)).fetch_one(conn).await.unwrap()
        }
    }
}

#[tokio::test]
async fn no_id_is_drawn_before_the_aggregates_lock_is_held() {
    let db = Db::new().await;
    for form in [Form::One, Form::Many, Form::Once, Form::Function] {
        let before = db.last_id().await;
        let holder = hold(&db, "7").await;
        let mut writer = db.connect().await;
        let (written, ()) = tokio::join!(write(&db, &mut writer, form), async {
            db.until(WAITS).await;
            assert_eq!(db.last_id().await, before, "{form:?}: an id was drawn while the writer waited");
            holder.close().await.unwrap();
        });
        assert_eq!(written, before + 1, "{form:?}");
    }
}

#[tokio::test]
async fn an_unordered_event_waits_for_nobody() {
    let db = Db::new().await;
    let _holder = hold(&db, "7").await;
    let mut writer = db.connect().await;
    run(&mut writer, "SET lock_timeout = '1ms'").await;
    let busy =
        Postgres::append(&mut writer, &db.tables, &event("7"), WriteOrder::Aggregate).await.unwrap_err();
    assert_eq!(Postgres::fault(&busy), Fault::AggregateBusy);
    let mut free = event("7");
    Postgres::append(&mut writer, &db.tables, &free, WriteOrder::Unordered).await.unwrap();
    Postgres::append_all(&mut writer, &db.tables, &[free.clone()], WriteOrder::Unordered).await.unwrap();
    free.aggregate_id = None;
    Postgres::append(&mut writer, &db.tables, &free, WriteOrder::Aggregate).await.unwrap();
    Postgres::append_all(&mut writer, &db.tables, &[free], WriteOrder::Aggregate).await.unwrap();
    assert_eq!(locks(&mut writer).await, 0, "and takes no lock");
}

#[tokio::test]
async fn a_bulk_takes_every_lock_once_and_numbers_the_events_as_given() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let mut tx = conn.begin().await.unwrap();
    let mut events: Vec<_> = ["3", "1", "2", "1", "3"].map(event).into();
    events[2].aggregate_id = None;
    let published = Postgres::append_all(&mut tx, &db.tables, &events, WriteOrder::Aggregate).await.unwrap();
    assert_eq!(published.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(published.iter().zip(&events).all(|(p, e)| p.event_id == e.event_id));
    assert_eq!(locks(&mut tx).await, 2);
    assert_eq!(Postgres::append_all(&mut tx, &db.tables, &[], WriteOrder::Aggregate).await.unwrap(), []);
}

#[tokio::test]
async fn the_function_and_the_sdk_take_the_same_lock_under_the_same_tenant() {
    let db = Db::new().await;
    let tenant = Uuid::from_u128(7);
    let mut sdk = db.connect().await;
    let mut tx = sdk.begin().await.unwrap();
    let mut of_tenant = event("7");
    of_tenant.tenant_id = Some(tenant);
    Postgres::append(&mut tx, &db.tables, &of_tenant, WriteOrder::Aggregate).await.unwrap();

    let mut other = db.connect().await;
    run(&mut other, &format!("BEGIN; SET LOCAL app.tenant_id = '{tenant}'")).await;
    let (id, ()) = tokio::join!(write(&db, &mut other, Form::Function), async {
        db.until(WAITS).await;
        tx.commit().await.unwrap();
    });
    run(&mut other, "COMMIT").await;
    assert_eq!(id, 2);
    // The tenant of the transaction is the SDK's too, one event or many.
    run(&mut other, &format!("BEGIN; SET LOCAL app.tenant_id = '{tenant}'")).await;
    for form in [Form::Function, Form::One, Form::Many] {
        write(&db, &mut other, form).await;
    }
    assert_eq!(locks(&mut other).await, 4, "all three lock the aggregates 1, 2, 3 and 7 of that tenant");
    run(&mut other, "COMMIT").await;
    let foreign: i64 = db
        .value(&format!("SELECT count(*) FROM {{s}}.event WHERE tenant_id IS DISTINCT FROM '{tenant}'"))
        .await;
    assert_eq!(foreign, 0);
    // Outside of it there is none.
    write(&db, &mut other, Form::One).await;
    assert!(db.value::<bool>("SELECT tenant_id IS NULL FROM {s}.event ORDER BY id DESC LIMIT 1").await);
}

#[tokio::test]
async fn the_function_takes_every_column_by_name() {
    let db = Db::new().await;
    let id: i64 = db
        .value(
            "SELECT {s}.publish(
                event_type => 'order.paid', payload => '{\"n\": 1.10}', aggregate_type => 'order',
                aggregate_id => 'a', schema_version => 3, tenant_id => '00000000-0000-0000-0000-000000000001',
                correlation_id => '00000000-0000-0000-0000-000000000002',
                causation_id => '00000000-0000-0000-0000-000000000003', actor => '{\"sub\": \"u\"}',
                traceparent => '00-1', available_at => now() + interval '1 hour',
                event_id => '00000000-0000-0000-0000-000000000004', audit_log_id => 5, tracestate => 'x=y',
                occurred_at => 'epoch', older_payloads => '{\"2\": {}}')",
        )
        .await;
    assert_eq!(id, 1);
    let read = Read {
        gaps: &[],
        above: 0,
        limit: 10,
        max_bytes: 1_000,
        max_payload_bytes: 1_000,
        without_payloads: false,
        notices: false,
    };
    let mut conn = db.connect().await;
    let stored = Postgres::read(&mut conn, &db.tables, &read).await.unwrap().events.remove(0);
    assert!(stored.delayed && stored.due_in > Duration::from_secs(3_500), "{:?}", stored.due_in);
    let envelope = stored.envelope;
    assert_eq!(
        (envelope.event_id, envelope.tenant_id, envelope.correlation_id, envelope.causation_id),
        (Uuid::from_u128(4), Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)), Some(Uuid::from_u128(3)))
    );
    assert_eq!((envelope.event_type.as_str(), envelope.schema_version), ("order.paid", 3));
    assert_eq!((envelope.aggregate_type.as_str(), envelope.aggregate_id.as_deref()), ("order", Some("a")));
    assert_eq!((envelope.actor.as_deref(), envelope.audit_log_id), (Some(r#"{"sub": "u"}"#), Some(5)));
    assert_eq!(
        (envelope.traceparent.as_deref(), envelope.tracestate.as_deref()),
        (Some("00-1"), Some("x=y"))
    );
    assert_eq!(
        (envelope.payload.as_str(), envelope.older_payloads.as_deref()),
        (r#"{"n": 1.10}"#, Some(r#"{"2": {}}"#))
    );
    assert_eq!(envelope.occurred_at, Timestamp::from_micros(0));

    // With the least that is needed: a version 7 event_id of now, at once, no tenant.
    db.run("SELECT {s}.publish('order.paid', '{}', 'order')").await;
    let row = sqlx::query(AssertSqlSafe(format!(
        "SELECT event_id, available_at <= created_at AS at_once, schema_version FROM {}.event WHERE id = 2",
        db.schema()
    )))
    .fetch_one(&mut conn)
    .await
    .unwrap();
    let event_id: Uuid = row.get("event_id");
    assert_eq!((event_id.get_version_num(), event_id.get_variant()), (7, uuid::Variant::RFC4122));
    let (drawn, now) =
        (event_id.get_timestamp().unwrap().to_unix().0, Uuid::now_v7().get_timestamp().unwrap().to_unix().0);
    assert!(now.abs_diff(drawn) < 60, "{drawn} is not about {now}");
    assert!(row.get::<bool, _>("at_once"));
    assert_eq!(row.get::<i32, _>("schema_version"), 1);
}

#[tokio::test]
async fn times_are_exact_to_the_microsecond() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    for occurred in [-1, 0, 1_700_000_000_123_457, 946_684_799_999_999] {
        let mut event = event("7");
        event.occurred_at = Some(Timestamp::from_micros(occurred));
        event.delay = Some(Duration::from_micros(1_234_567));
        for published in [
            Postgres::append(&mut conn, &db.tables, &event, WriteOrder::Aggregate).await.unwrap(),
            Postgres::append_all(&mut conn, &db.tables, &[event], WriteOrder::Aggregate).await.unwrap()[0],
        ] {
            let micros = "SELECT (extract(epoch FROM occurred_at) * 1000000)::bigint,
                (extract(epoch FROM available_at - created_at) * 1000000)::bigint FROM outbox.event WHERE id = $1";
            let row = sqlx::query(micros).bind(published.id).fetch_one(&mut conn).await.unwrap();
            assert_eq!((row.get::<i64, _>(0), row.get::<i64, _>(1)), (occurred, 1_234_567));
        }
    }
}

#[tokio::test]
async fn what_the_table_refuses_is_told_apart() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let changes: [fn(&mut NewEnvelope); 8] = [
        |event| event.payload = "[]".to_owned(),
        |event| event.payload = "{".to_owned(),
        |event| event.payload = r#"{"a": "\u0000"}"#.to_owned(),
        |event| event.older_payloads = Some("1".to_owned()),
        |event| event.schema_version = 0,
        |event| event.event_type = String::new(),
        |event| event.event_type = "a\r\nx-injected: 1".to_owned(),
        |event| event.aggregate_type = "a\u{7f}".to_owned(),
    ];
    for change in changes {
        let mut refused = event("7");
        change(&mut refused);
        let one = Postgres::append(&mut conn, &db.tables, &refused, WriteOrder::Aggregate).await.unwrap_err();
        assert_eq!(Postgres::fault(&one), Fault::Refused, "{one}");
        let both = [event("8"), refused];
        let all =
            Postgres::append_all(&mut conn, &db.tables, &both, WriteOrder::Aggregate).await.unwrap_err();
        assert_eq!(Postgres::fault(&all), Fault::Refused, "{all}");
    }
    let mut too_new = event("7");
    too_new.schema_version = u32::MAX;
    let error = Postgres::append(&mut conn, &db.tables, &too_new, WriteOrder::Aggregate).await.unwrap_err();
    assert_eq!(Postgres::fault(&error), Fault::Refused);
    assert_eq!(db.value::<i64>("SELECT count(*) FROM {s}.event").await, 0);
}
