use std::sync::LazyLock;
use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Claim, ClaimRequest, Claimed, DeadReason, Due, Fence, NewDeadLetter, Operate as _,
    Pause, Registered, Registration, Settled, Settlement, Stall, Start, WriteOrder,
};
use outbox_sdk::{Backend, NewEnvelope, Progress, Timestamp};
use sqlx::{Connection, PgConnection, Postgres};
use uuid::Uuid;

use crate::{Db, event, run};

const LEASE: Duration = Duration::from_secs(30);
const CONFIG: &str = r#"{"v": 1}"#;
static EMPTY: LazyLock<Progress> = LazyLock::new(Progress::new);

/// Whether a session of this database waits for a transaction that has changed a row.
const WAITS_FOR_A_ROW: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'transactionid')";

fn registration(name: &str, start: Option<Start>) -> Registration {
    Registration {
        name: name.to_owned(),
        start,
        config: CONFIG.to_owned(),
        slots: 1,
        required_for_retention: false,
    }
}

async fn register(db: &Db, conn: &mut PgConnection, name: &str, start: Option<Start>) -> Registered {
    Postgres::register(conn, &db.tables, &[registration(name, start)]).await.unwrap()[0]
}

async fn claim(db: &Db, conn: &mut PgConnection, lease: Duration) -> Option<Claimed> {
    let claim = ClaimRequest { consumer: "crm", slot: 0, owner: "relay", lease, config: CONFIG, slots: 1 };
    match Postgres::claim(conn, &db.tables, &claim).await.unwrap() {
        Claim::Claimed(claimed) => Some(*claimed),
        Claim::Taken => None,
        refused => panic!("{refused:?}"),
    }
}

/// The write that every test starts from: a renewal.
fn renewal<'a>(fence: &'a Fence, settled: &'a Progress) -> Settlement<'a> {
    Settlement {
        consumer: "crm",
        slot: 0,
        fence,
        lease: LEASE,
        anchor: None,
        settled,
        void: &EMPTY,
        pause: None,
        stalls: &[],
        resumed: &[],
        dead: &[],
        replays: &[],
        release: false,
    }
}

fn stall(lane: &str, head_id: i64, due: Due) -> Stall {
    Stall {
        lane: lane.to_owned(),
        head_id,
        attempts: 3,
        due,
        blocked: false,
        single: false,
        schema_missing: false,
        last_error: Some("no answer".to_owned()),
    }
}

async fn settle(db: &Db, conn: &mut PgConnection, settlement: &Settlement<'_>) -> Settled {
    Postgres::settle(conn, &db.tables, settlement).await.unwrap()
}

/// The next fence of a write that must succeed.
async fn done(db: &Db, conn: &mut PgConnection, settlement: &Settlement<'_>) -> Fence {
    match settle(db, conn, settlement).await {
        Settled::Done { fence, .. } => fence,
        refused @ Settled::Refused { .. } => panic!("{refused:?}"),
    }
}

async fn claimed(db: &Db, conn: &mut PgConnection) -> Claimed {
    register(db, conn, "crm", None).await;
    claim(db, conn, LEASE).await.unwrap()
}

#[tokio::test]
async fn a_row_that_an_operator_moved_is_found_again() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let fence = claimed(&db, &mut conn).await.fence;
    let settled = Progress::from_iter([1]);
    let fence = done(&db, &mut conn, &renewal(&fence, &settled)).await;
    db.run("UPDATE {s}.consumer SET paused_until = 'infinity', wanted = 'other', wanted_until = 'infinity'")
        .await;
    let moved: String = db.value("SELECT ctid::text FROM {s}.consumer").await;
    assert_ne!(moved, fence.ctid);
    let Settled::Done { fence: next, paused_for, held: false, wanted } =
        settle(&db, &mut conn, &renewal(&fence, &settled)).await
    else {
        panic!("the row is there, elsewhere");
    };
    assert_eq!((next.epoch, next.rev), (fence.epoch, fence.rev + 1));
    assert!(wanted && paused_for.unwrap() > Duration::from_secs(1 << 32), "{paused_for:?}");
    // By the same write with other rows in the transaction.
    db.run("UPDATE {s}.consumer SET wanted = NULL, paused_until = NULL").await;
    let stalls = [stall("[1]", 1, Due::Unchanged)];
    done(&db, &mut conn, &Settlement { stalls: &stalls, ..renewal(&next, &settled) }).await;
    assert_eq!(db.value::<i64>("SELECT count(*) FROM {s}.stall").await, 1);
}

#[tokio::test]
async fn a_place_that_another_row_has_taken_is_not_written() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let mut fence = claimed(&db, &mut conn).await.fence;
    register(&db, &mut conn, "other", Some(Start::Earliest)).await;
    // The same epoch and rev at that place: only the name tells them apart.
    db.run(&format!(
        "UPDATE {{s}}.consumer SET epoch = {}, rev = {} WHERE name = 'other'",
        fence.epoch, fence.rev
    ))
    .await;
    fence.ctid = db.value("SELECT ctid::text FROM {s}.consumer WHERE name = 'other'").await;
    let settled = Progress::from_iter([1]);
    done(&db, &mut conn, &renewal(&fence, &settled)).await;
    assert_eq!(db.value::<String>("SELECT settled::text FROM {s}.consumer WHERE name = 'other'").await, "{}");
    assert_eq!(
        db.value::<String>("SELECT settled::text FROM {s}.consumer WHERE name = 'crm'").await,
        "{[1,2)}"
    );
}

#[tokio::test]
async fn a_lost_lease_and_a_lost_anchor_write_nothing_anywhere() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let published =
        Postgres::append(&mut conn, &db.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    let fence = claimed(&db, &mut conn).await.fence;
    let (before, settled) = (Progress::new(), Progress::from_iter([1]));
    let stalls = [stall("[1]", 1, Due::Unchanged)];
    let dead = [NewDeadLetter {
        event_id: 1,
        reason: DeadReason::Attempts,
        attempts: 10,
        max_attempts: 10,
        last_error: "no answer".to_owned(),
    }];
    let full = Settlement { stalls: &stalls, dead: &dead, ..renewal(&fence, &before) };
    let anchor = Some((published.id, published.event_id));
    let other = Some((published.id, Uuid::from_u128(1)));
    for lost in [
        Settlement { anchor: other, ..renewal(&fence, &before) },
        Settlement { anchor: other, ..full.clone() },
    ] {
        let Settled::Refused { now: Some(now) } = settle(&db, &mut conn, &lost).await else {
            panic!("{lost:?}")
        };
        assert!(!now.anchored);
        assert_eq!(now.fence.rev, fence.rev);
    }
    // Another event in the anchor's place has its id a second time, settled or not.
    let fence = done(&db, &mut conn, &Settlement { anchor, ..renewal(&fence, &settled) }).await;
    let again = Settlement { anchor: other, ..renewal(&fence, &settled) };
    let Settled::Refused { now: Some(now) } = settle(&db, &mut conn, &again).await else {
        panic!("{again:?}")
    };
    assert!(!now.anchored);
    // Once it is settled, it may be gone: retention may have deleted it.
    db.run("DELETE FROM {s}.event").await;
    let fence = done(&db, &mut conn, &Settlement { anchor, ..renewal(&fence, &settled) }).await;

    let old = Fence { epoch: fence.epoch - 1, ..fence.clone() };
    let rewound = Fence { rev: fence.rev + 1, ..fence.clone() };
    for stale in [old, rewound] {
        for write in [renewal(&stale, &before), Settlement { fence: &stale, anchor, ..full.clone() }] {
            let Settled::Refused { now: Some(now) } = settle(&db, &mut conn, &write).await else {
                panic!("{write:?}")
            };
            assert!(now.anchored);
            assert_eq!((now.fence.epoch, now.fence.rev), (fence.epoch, fence.rev));
        }
    }
    db.run("DELETE FROM {s}.consumer").await;
    assert_eq!(
        settle(&db, &mut conn, &Settlement { fence: &fence, ..full }).await,
        Settled::Refused { now: None }
    );
    assert_eq!(
        db.value::<i64>("SELECT (SELECT count(*) FROM {s}.stall) + (SELECT count(*) FROM {s}.dead_letter)")
            .await,
        0
    );
    Postgres::ensure_usable(&mut conn).await.unwrap();
    assert!(
        !Postgres::in_transaction(&mut conn).await.unwrap(),
        "a refused write leaves no transaction open"
    );
}

#[tokio::test]
async fn a_claim_sees_the_stalls_of_the_owner_that_it_waited_for() {
    let db = Db::new().await;
    let (mut old, mut new) = (db.connect().await, db.connect().await);
    claimed(&db, &mut old).await;
    assert_eq!(claim(&db, &mut new, LEASE).await, None, "the lease is running");
    db.run("UPDATE {s}.consumer SET lease_until = clock_timestamp() - interval '1 second'").await;
    // The old owner's last transaction, still open: it settles 1 to 4, parks a lane and gives the slot back.
    run(
        &mut old,
        "BEGIN; UPDATE outbox.consumer SET settled = '{[1,5)}', owner = NULL, lease_until = NULL;
         INSERT INTO outbox.stall (consumer, lane, head_id, available_at) VALUES ('crm', '[2]', 2, now())",
    )
    .await;
    let (claimed, ()) = tokio::join!(claim(&db, &mut new, LEASE), async {
        db.until(WAITS_FOR_A_ROW).await;
        run(&mut old, "COMMIT").await;
    });
    let claimed = claimed.unwrap();
    assert_eq!(claimed.settled.to_multirange(), "{[1,5)}");
    assert_eq!(claimed.stalls.iter().map(|stall| stall.head_id).collect::<Vec<_>>(), [2]);
    assert!(claimed.clean);
    // A renewal that wins the race keeps the slot.
    db.run("UPDATE {s}.consumer SET lease_until = clock_timestamp() - interval '1 second'").await;
    run(&mut old, "BEGIN; UPDATE outbox.consumer SET lease_until = clock_timestamp() + interval '1 hour'")
        .await;
    let (refused, ()) = tokio::join!(claim(&db, &mut new, LEASE), async {
        db.until(WAITS_FOR_A_ROW).await;
        run(&mut old, "COMMIT").await;
    });
    assert_eq!(refused, None);
}

#[tokio::test]
async fn epochs_rise_and_a_slot_given_back_is_clean() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let first = claimed(&db, &mut conn).await;
    assert!(
        first.clean && first.checks.primary && first.checks.sequence_uncached && first.checks.sees_all_rows
    );
    assert_eq!(first.checks.last_id, 0);
    db.run("UPDATE {s}.consumer SET lease_until = clock_timestamp() - interval '1 second', wanted = 'x'")
        .await;
    let second = claim(&db, &mut conn, LEASE).await.unwrap();
    assert!(!second.clean && second.fence.epoch > first.fence.epoch);
    let pause = Some(Pause { length: LEASE, attempts: 4, reason: Some("503") });
    let Settled::Done { fence, paused_for: Some(length), held: false, wanted: false } =
        settle(&db, &mut conn, &Settlement { pause, ..renewal(&second.fence, &EMPTY) }).await
    else {
        panic!("paused")
    };
    assert!(length <= LEASE && length > LEASE / 2);
    let fence = done(&db, &mut conn, &Settlement { release: true, ..renewal(&fence, &EMPTY) }).await;
    let stale = Settlement { release: true, ..renewal(&second.fence, &EMPTY) };
    assert!(matches!(settle(&db, &mut conn, &stale).await, Settled::Refused { .. }));
    let third = claim(&db, &mut conn, LEASE).await.unwrap();
    assert!(third.clean && third.fence.epoch > fence.epoch && third.fence.rev > fence.rev);
    assert_eq!(third.attempts, 4);
    assert!(third.paused_for.is_some());
    let unpaused = Some(Pause { length: Duration::ZERO, attempts: 0, reason: None });
    done(&db, &mut conn, &Settlement { pause: unpaused, ..renewal(&third.fence, &EMPTY) }).await;
    assert!(db.value::<bool>("SELECT paused_until IS NULL AND attempts = 0 FROM {s}.consumer").await);
}

#[tokio::test]
async fn a_stall_keeps_what_the_write_leaves_open() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let mut delayed: NewEnvelope = event("1");
    delayed.delay = Some(Duration::from_secs(3_600));
    Postgres::append(&mut conn, &db.tables, &delayed, WriteOrder::Aggregate).await.unwrap();
    let mut fence = claimed(&db, &mut conn).await.fence;
    let missing = |head_id, due| Stall { schema_missing: true, ..stall("[\"b\"]", head_id, due) };
    let lane = ["[\"b\"]".to_owned()];
    let since = "SELECT missing_since::text FROM {s}.stall WHERE lane = '[\"b\"]'";

    let stalls = [stall("[1]", 1, Due::AtAvailable), missing(5, Due::In(LEASE))];
    fence = done(&db, &mut conn, &Settlement { stalls: &stalls, ..renewal(&fence, &EMPTY) }).await;
    assert!(
        db.value::<bool>(
            "SELECT s.available_at = e.available_at FROM {s}.stall s, {s}.event e WHERE lane = '[1]'"
        )
        .await
    );
    let due = Postgres::due_stalls(&mut conn, &db.tables, "crm", &lane).await.unwrap();
    assert!(due.len() == 1 && due[0].due_in <= LEASE && due[0].due_in > LEASE / 2, "{due:?}");
    let began: String = db.value(since).await;

    fence = done(
        &db,
        &mut conn,
        &Settlement { stalls: &[missing(5, Due::Unchanged)], ..renewal(&fence, &EMPTY) },
    )
    .await;
    assert_eq!(db.value::<String>(since).await, began, "the same head goes on waiting");
    let kept = Postgres::due_stalls(&mut conn, &db.tables, "crm", &lane).await.unwrap();
    assert!(kept[0].due_in <= due[0].due_in && kept[0].due_in > LEASE / 2, "as it was stored: {kept:?}");
    fence = done(
        &db,
        &mut conn,
        &Settlement { stalls: &[missing(6, Due::Unchanged)], ..renewal(&fence, &EMPTY) },
    )
    .await;
    assert_ne!(db.value::<String>(since).await, began, "another head begins to wait");
    let found = [stall("[\"b\"]", 6, Due::In(Duration::ZERO))];
    fence = done(&db, &mut conn, &Settlement { stalls: &found, ..renewal(&fence, &EMPTY) }).await;
    assert!(db.value::<bool>("SELECT missing_since IS NULL FROM {s}.stall WHERE lane = '[\"b\"]'").await);
    done(&db, &mut conn, &Settlement { resumed: &lane, ..renewal(&fence, &EMPTY) }).await;
    assert_eq!(db.value::<String>("SELECT string_agg(lane, ' ') FROM {s}.stall").await, "[1]");
}

#[tokio::test]
async fn a_new_consumer_skips_exactly_what_is_visible() {
    let db = Db::new().await;
    let (mut conn, mut late) = (db.connect().await, db.connect().await);
    let mut open = late.begin().await.unwrap();
    Postgres::append_all(&mut open, &db.tables, &["1", "2"].map(event), WriteOrder::Aggregate).await.unwrap();
    for id in ["3", "4", "5"] {
        Postgres::append(&mut conn, &db.tables, &event(id), WriteOrder::Aggregate).await.unwrap();
    }
    db.run(
        "DELETE FROM {s}.event WHERE id = 4;
         UPDATE {s}.event SET created_at = now() + interval '1 day' WHERE id = 5",
    )
    .await;
    assert_eq!(register(&db, &mut conn, "first", None).await, Registered::New);

    // Later ones must say where they start, and until all have, none is registered.
    let both = [registration("a", Some(Start::Now)), registration("b", None)];
    let answers = Postgres::register(&mut conn, &db.tables, &both).await.unwrap();
    assert_eq!(answers[1], Registered::StartNeeded { stored_events: 2 });
    assert_eq!(db.value::<i64>("SELECT count(*) FROM {s}.consumer").await, 1);

    let tomorrow: i64 =
        db.value("SELECT (extract(epoch FROM now() + interval '1 hour') * 1000000)::bigint").await;
    for (name, start) in [
        ("now", Start::Now),
        ("tomorrow", Start::At(Timestamp::from_micros(tomorrow))),
        ("past", Start::At(Timestamp::from_micros(0))),
        ("future", Start::At(Timestamp::from_micros(tomorrow + 200 * 3_600 * 1_000_000))),
        ("earliest", Start::Earliest),
    ] {
        assert_eq!(register(&db, &mut conn, name, Some(start)).await, Registered::New);
    }
    assert_eq!(register(&db, &mut conn, "now", Some(Start::Earliest)).await, Registered::Existing);
    open.commit().await.unwrap();
    let consumers = Postgres::consumers(&mut conn, &db.tables).await.unwrap();
    let settled: Vec<_> = consumers.iter().map(|c| (c.name.as_str(), c.settled.to_multirange())).collect();
    let none = "{}".to_owned();
    assert_eq!(
        settled,
        [
            ("earliest", none.clone()),
            ("first", none.clone()),
            ("future", "{[3,4),[5,6)}".to_owned()),
            ("now", "{[3,4),[5,6)}".to_owned()),
            ("past", none),
            ("tomorrow", "{[3,4)}".to_owned()),
        ]
    );
    let epochs: i64 = db.value("SELECT count(DISTINCT epoch) FROM {s}.consumer").await;
    assert_eq!(epochs, 6);
}

#[tokio::test]
async fn row_security_that_hides_events_is_noticed() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    register(&db, &mut conn, "crm", None).await;
    let role = format!("relay_{}", Uuid::new_v4().simple());
    db.run(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA {{s}} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {{s}} TO {role};
         GRANT USAGE ON SEQUENCE {{s}}.epoch TO {role}; GRANT SELECT ON SEQUENCE {{s}}.event_id_seq TO {role};
         ALTER TABLE {{s}}.event ENABLE ROW LEVEL SECURITY"
    ))
    .await;
    let mut relay = db.connect().await;
    run(&mut relay, &format!("SET ROLE {role}")).await;
    let mut sees_all = async || {
        db.run("UPDATE {s}.consumer SET owner = NULL").await;
        claim(&db, &mut relay, LEASE).await.unwrap().checks.sees_all_rows
    };
    assert!(!sees_all().await, "no policy for the role: it sees nothing");
    db.run("CREATE POLICY tenant ON {s}.event USING (tenant_id = {s}.current_tenant())").await;
    assert!(!sees_all().await);
    db.run(&format!("CREATE POLICY relay ON {{s}}.event FOR SELECT TO {role} USING (true)")).await;
    assert!(sees_all().await, "policies add up, and one shows everything");
    db.run("CREATE POLICY narrow ON {s}.event AS RESTRICTIVE FOR SELECT USING (tenant_id IS NULL)").await;
    assert!(!sees_all().await, "a restrictive one takes away again");
    db.run("DROP POLICY narrow ON {s}.event; ALTER TABLE {s}.event DISABLE ROW LEVEL SECURITY").await;
    assert!(sees_all().await);
    run(&mut relay, "RESET ROLE").await;
    db.run(&format!("DROP POLICY relay ON {{s}}.event; DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
