use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Claim, ClaimRequest, DeadReason, Deduplicate as _, Due, LaneRead, LetterFilter,
    NewDeadLetter, Operate as _, Read, Registration, ReplayRead, ReplayResult, Settled, Settlement, Stall,
    WriteOrder,
};
use outbox_sdk::{Backend, Lane, Progress, Tables};
use sqlx::Postgres;
use sqlx::postgres::PgListener;
use uuid::Uuid;

use crate::{Db, event};

#[tokio::test]
async fn every_statement_works_under_every_schema_name() {
    let mut db = Db::new().await;
    let long = "x".repeat(63);
    for schema in [
        "AA_OUTBOX_EVENT",
        "my-schema",
        "select",
        "tränen",
        &long,
        "we\"ird",
        "a'b",
        "back\\slash",
        "\"; drop table x; --",
        "a.b",
        "{schema}",
        "{event}",
        "$$",
        " ",
    ] {
        db.tables = Tables::in_schema(schema).unwrap();
        db.migrate().await;
        every_statement(&db).await;
    }
}

#[test]
fn names_that_the_server_would_cut_or_refuse_are_refused() {
    for schema in ["", "pg_outbox", "a\0b", &"x".repeat(64), &"ä".repeat(32)] {
        assert!(Tables::in_schema(schema).is_err(), "{schema}");
    }
}

/// From publish to dead letter, each statement once.
async fn every_statement(db: &Db) {
    let (tables, mut conn) = (&db.tables, db.connect().await);
    let conn = &mut conn;
    let order = WriteOrder::Aggregate;
    Postgres::append(conn, tables, &event("1"), order).await.unwrap();
    Postgres::append(conn, tables, &event("1"), WriteOrder::Unordered).await.unwrap();
    Postgres::append_all(conn, tables, &[event("1")], order).await.unwrap();
    Postgres::append_all(conn, tables, &[event("1")], WriteOrder::Unordered).await.unwrap();
    assert_eq!(db.value::<i64>("SELECT {s}.publish('a.b', '{}', 'c')").await, 5);

    assert!(Postgres::holders(conn, tables).await.unwrap().primary);
    let read = Read {
        gaps: &[(1, 2)],
        above: 2,
        limit: 10,
        max_bytes: 1_000,
        max_payload_bytes: 1_000,
        without_payloads: false,
        notices: false,
    };
    let batch = Postgres::read(conn, tables, &read).await.unwrap();
    assert_eq!(batch.events.iter().map(|e| e.envelope.id).collect::<Vec<_>>(), [1, 3, 4, 5]);
    for (lane, rows) in [(Lane::aggregate(None, "customer", "1"), 4), (Lane::Single(5), 1)] {
        let read = LaneRead {
            lane: &lane,
            from: 1,
            through: 5,
            limit: 9,
            max_bytes: 1_000,
            max_payload_bytes: 99,
            without_payloads: false,
        };
        assert_eq!(Postgres::read_lane(conn, tables, &read).await.unwrap().events.len(), rows);
        Postgres::lane_ids(conn, tables, &read).await.unwrap();
    }

    let crm = Registration {
        name: "crm".to_owned(),
        start: None,
        config: "{}".to_owned(),
        slots: 1,
        required_for_retention: false,
    };
    Postgres::register(conn, tables, std::slice::from_ref(&crm)).await.unwrap();
    let late = Registration { name: "late".to_owned(), ..crm };
    Postgres::register(conn, tables, &[late]).await.unwrap();
    let claim = ClaimRequest {
        consumer: "crm",
        slot: 0,
        owner: "relay",
        lease: Duration::from_secs(30),
        config: "{ }",
        slots: 1,
    };
    let other = ClaimRequest { config: r#"{"v": 1}"#, ..claim };
    assert_eq!(Postgres::claim(conn, tables, &other).await.unwrap(), Claim::OtherConfig);
    // Equal as JSON, not as text.
    let claimed = Postgres::claim(conn, tables, &claim).await.unwrap();
    let Claim::Claimed(claimed) = claimed else { panic!("{claimed:?}") };
    let settled = Progress::from_iter([1, 2]);
    let key = Lane::aggregate(None, "customer", "1").key();
    let stall = Stall {
        lane: key.clone(),
        head_id: 1,
        attempts: 1,
        due: Due::Unchanged,
        blocked: false,
        single: false,
        schema_missing: false,
        last_error: None,
    };
    let dead = NewDeadLetter {
        event_id: 2,
        reason: DeadReason::Rejected,
        attempts: 1,
        max_attempts: 10,
        last_error: "refused".to_owned(),
    };
    let settlement = Settlement {
        consumer: "crm",
        slot: 0,
        fence: &claimed.fence,
        lease: Duration::from_secs(30),
        anchor: Some((5, batch.events[3].envelope.event_id)),
        settled: &settled,
        void: &Progress::new(),
        pause: None,
        stalls: &[stall],
        resumed: &["[9]".to_owned()],
        dead: &[dead],
        replays: &[ReplayResult::Refused { event_id: 1, error: "gone".to_owned() }],
        release: false,
    };
    let done = Postgres::settle(conn, tables, &settlement).await.unwrap();
    assert!(matches!(done, Settled::Done { .. }), "{done:?}");
    let again = Postgres::settle(conn, tables, &settlement).await.unwrap();
    assert!(matches!(again, Settled::Refused { now: Some(_) }), "{again:?}");
    assert_eq!(Postgres::due_stalls(conn, tables, "crm", &[key]).await.unwrap().len(), 1);
    let read = ReplayRead { consumer: "crm", slot: 0, slots: 1, after: 0, limit: 9 };
    assert!(Postgres::replay_requests(conn, tables, &read).await.unwrap().requests.is_empty());
    assert!(Postgres::discarded_heads(conn, tables, "crm").await.unwrap().is_empty());
    let consumers = Postgres::consumers(conn, tables).await.unwrap();
    assert_eq!((consumers[0].stalled_lanes, consumers[0].dead_letters), (1, 1));
    assert_eq!(consumers[0].settled, settled);
    assert_eq!(
        Postgres::dead_letters(conn, tables, &LetterFilter::default(), None, 10).await.unwrap().len(),
        1
    );
    assert!(Postgres::inbox_insert(conn, tables, "crm", Uuid::from_u128(1), None).await.unwrap());
    assert!(!Postgres::inbox_insert(conn, tables, "crm", Uuid::from_u128(1), None).await.unwrap());
    assert_eq!(Postgres::inbox_copy(conn, tables, "billing", "crm").await.unwrap(), 1);
    assert_eq!(Postgres::inbox_compact(conn, tables, "crm", Duration::from_secs(60)).await.unwrap(), 0);
    assert_eq!(Postgres::inbox_forget_event(conn, tables, "crm", Uuid::from_u128(1)).await.unwrap(), 1);
    assert_eq!(Postgres::inbox_forget(conn, tables, "billing", None).await.unwrap(), 1);

    let mut listener =
        PgListener::connect_with(&sqlx::PgPool::connect_lazy_with(db.options())).await.unwrap();
    listener.listen(&channel(tables.schema())).await.unwrap();
    Postgres::notify(conn, tables, false).await.unwrap();
    assert_eq!(listener.recv().await.unwrap().payload(), "");
}

/// `<schema>_event`, cut to what a name can hold.
fn channel(schema: &str) -> String {
    format!("{}_event", &schema[..schema.len().min(57)])
}
