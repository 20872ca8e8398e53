//! Rows that no SDK would write, written by plain SQL.

use outbox_relay::Schemas;
use outbox_relay::sink::Outcome;
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, SqliteTestDb, quick_settings};

use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, delivering};

const NORMAL: &str = "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload) \
    SELECT 'customer.changed', 'customer', (n % 5)::text, jsonb_build_object('n', n) FROM generate_series(1, 50) AS n";

/// Columns with contents that are legal for the server, and what a reader says of them.
const ODD: [(&str, &str, &str); 7] = [
    ("payload", r#"'{"n": 1e400}'"#, "not JSON"),
    (
        "payload",
        "jsonb_build_object('n', (SELECT jsonb_agg('1e131071'::numeric) FROM generate_series(1, 1000)))",
        "bytes",
    ),
    ("payload", r#"('{"n": ' || repeat('[', 200) || repeat(']', 200) || '}')::jsonb"#, "nested deeper"),
    ("payload", r#"('{"n": ' || repeat('[', 9999) || repeat(']', 9999) || '}')::jsonb"#, "nested deeper"),
    ("payload", "jsonb_build_object('n', repeat('x', 20000000))", "bytes"),
    (
        "payload, actor",
        "'{}', jsonb_build_object('n', (SELECT jsonb_agg('1e131071'::numeric) FROM generate_series(1, 400)))",
        "bytes",
    ),
    (
        "payload, older_payloads",
        "'{}', jsonb_build_object('1', (SELECT jsonb_agg('1e131071'::numeric) FROM generate_series(1, 400)))",
        "bytes",
    ),
];

#[tokio::test]
async fn odd_rows_fail_alone_each_with_its_reason() {
    let world = World::<PgTestDb>::new().await;
    let mut conn = world.pool.acquire().await.unwrap();
    PgTestDb::execute(&mut conn, NORMAL).await.unwrap();
    let mut odd = Vec::new();
    for (n, (columns, values, _)) in ODD.iter().enumerate() {
        let insert = format!(
            "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, {columns}) \
             VALUES ('customer.changed', 'customer', '{n}', {values}) RETURNING id"
        );
        odd.push(PgTestDb::count(&mut conn, &insert).await);
    }
    PgTestDb::execute(&mut conn, NORMAL).await.unwrap();

    let registry = tempfile::tempdir().unwrap();
    std::fs::write(registry.path().join("registry.toml"), "").unwrap();
    let folder = registry.path().join("customer.changed");
    std::fs::create_dir(&folder).unwrap();
    let schema = r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}"#;
    std::fs::write(folder.join("v1.0.json"), schema).unwrap();

    let sink = RecordingSink::new();
    let relay = world
        .builder_with(quick_settings())
        .schemas(Schemas::open(registry.path()).unwrap())
        .consumer(crm(), sink.clone())
        .build()
        .unwrap();
    assert_eq!(relay.run_once().await.unwrap(), 107);
    assert_eq!(sink.delivered().len(), 100, "the others, in one pass");
    assert_in_order(&sink.calls());

    let mut dead = world.dead().await;
    dead.sort_by_key(|letter| letter.event_id);
    assert_eq!(dead.iter().map(|letter| letter.event_id).collect::<Vec<_>>(), odd);
    for (letter, (columns, values, reason)) in dead.iter().zip(ODD) {
        assert_eq!(letter.reason, "undecodable", "{columns}: {values}");
        assert!(letter.last_error.contains(reason), "{columns}: {values}: {}", letter.last_error);
    }
}

/// A payload of 2.5 kB that would print as more than a gigabyte: the server refuses to print it, and every read that
/// holds it fails.
#[tokio::test]
async fn a_row_that_the_server_cannot_print_fails_alone() {
    let world = World::<PgTestDb>::new().await;
    let mut conn = world.pool.acquire().await.unwrap();
    let before = world.publish(&["1", "2"]).await;
    let bomb = "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload) \
                VALUES ('customer.changed', 'customer', '1', jsonb_build_object('n', \
                (SELECT jsonb_agg('1e131071'::numeric) FROM generate_series(1, 9000)))) RETURNING id";
    let bomb = PgTestDb::count(&mut conn, bomb).await;
    let after = world.publish(&["1", "2"]).await;
    let mut settings = delivering(quick_settings());
    settings.lease = std::time::Duration::from_secs(20);
    settings.deadline = std::time::Duration::from_secs(4);
    settings.read_rows = 8;
    let sink = RecordingSink::new();
    let relay = world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap();
    assert_eq!(relay.run_once().await.unwrap(), 5);
    assert_eq!(sink.delivered().len(), 4);
    assert_in_order(&sink.calls());
    let dead = world.dead().await;
    assert_eq!((dead.len(), dead[0].event_id, dead[0].reason.as_str()), (1, bomb, "undecodable"));
    assert!(dead[0].last_error.contains("cannot print"), "{}", dead[0].last_error);
    world.settled("crm", after[1].id).await;
    assert!(before[1].id < bomb);
}

/// SQLite keeps bytes that are no text in a column of texts. Such a row has no lane that a key could name, so that it must
/// not wait behind one that looks like it.
#[tokio::test]
async fn a_row_whose_aggregate_cannot_be_read_is_dead_alone() {
    let world = World::<SqliteTestDb>::new().await;
    let mut conn = world.pool.acquire().await.unwrap();
    // As a reader prints the bytes below.
    let waiting = world.publish(&["c\u{fffd}"]).await;
    let insert = "INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload) VALUES \
                  ('customer.changed', 'customer', CAST(x'63ff' AS TEXT), '{}'), \
                  ('customer.changed', CAST(x'637573746f6d6572ff' AS TEXT), 'c', '{}'), \
                  (CAST(x'637573746f6d6572ff' AS TEXT), 'customer', 'c\u{fffd}', '{}')";
    SqliteTestDb::execute(&mut conn, insert).await.unwrap();
    let after = world.publish(&["c\u{fffd}"]).await;
    drop(conn);

    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 => Outcome::Retry { error: "not yet".into(), after: None },
        _ => Outcome::Delivered,
    });
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    world.settled("crm", after[0].id).await;
    relay.stop().await;
    assert_eq!(sink.delivered(), [waiting[0].id, after[0].id]);
    let mut dead = world.dead().await;
    dead.sort_by_key(|letter| letter.event_id);
    let dead: Vec<_> = dead.iter().map(|letter| (letter.event_id, letter.reason.as_str())).collect();
    assert_eq!(dead, [(2, "undecodable"), (3, "undecodable"), (4, "undecodable")]);
}
