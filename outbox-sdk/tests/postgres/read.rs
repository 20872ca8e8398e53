use std::cell::Cell;
use std::time::Duration;

use outbox_sdk::backend::{Batch, Defect, Fault, LaneRead, Read, StoredEvent, WriteOrder};
use outbox_sdk::{Backend, Lane};
use sqlx::{Connection, PgConnection, Postgres};

use crate::{Db, WAITS, event, run};

const ALL: Read<'_> = Read {
    gaps: &[],
    above: 0,
    limit: 100,
    max_bytes: 1 << 20,
    max_payload_bytes: 1 << 20,
    without_payloads: false,
    notices: false,
};

async fn append(db: &Db, conn: &mut PgConnection, aggregates: &[&str]) {
    let events: Vec<_> = aggregates.iter().map(|id| event(id)).collect();
    Postgres::append_all(conn, &db.tables, &events, WriteOrder::Aggregate).await.unwrap();
}

async fn read(db: &Db, conn: &mut PgConnection, read: Read<'_>) -> Batch {
    Postgres::read(conn, &db.tables, &read).await.unwrap()
}

fn ids(batch: &Batch) -> Vec<i64> {
    batch.events.iter().map(|event| event.envelope.id).collect()
}

#[tokio::test]
async fn writers_are_listed_while_they_may_still_commit() {
    let db = Db::new().await;
    let (mut reader, mut one, mut two) = (db.connect().await, db.connect().await, db.connect().await);
    let mut holders = async || Postgres::holders(&mut reader, &db.tables).await.unwrap();
    assert_eq!(holders().await.transactions, Vec::<String>::new());

    let mut first = one.begin().await.unwrap();
    Postgres::append(&mut first, &db.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    let alone = holders().await;
    assert!(alone.primary && !alone.prepared && alone.transactions.len() == 1, "{alone:?}");
    let mut second = two.begin().await.unwrap();
    Postgres::append(&mut second, &db.tables, &event("2"), WriteOrder::Unordered).await.unwrap();
    let both = holders().await;
    assert_eq!(both.transactions.len(), 2);
    assert!(both.transactions.contains(&alone.transactions[0]), "a transaction keeps its name");
    first.rollback().await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(holders().await.transactions, Vec::<String>::new());

    // Neither a reader of the table nor a writer of another schema's table may still commit an id of this one.
    run(&mut one, "BEGIN; SELECT FROM outbox.event; CREATE SCHEMA other; CREATE TABLE other.event (id int)")
        .await;
    run(&mut one, "INSERT INTO other.event VALUES (1)").await;
    assert_eq!(holders().await.transactions, Vec::<String>::new());
}

/// A trigger runs after the id is drawn and before the row is written, which is when a writer gets its transaction id.
#[tokio::test]
async fn a_writer_is_listed_from_before_its_id_on() {
    let db = Db::new().await;
    let (mut reader, mut writer, mut gate) = (db.connect().await, db.connect().await, db.connect().await);
    // So that the next draw of the sequence needs no log record, which would give a transaction id too.
    append(&db, &mut writer, &["1", "2"]).await;
    db.run(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_advisory_xact_lock(7, 7); RETURN NEW; END $$;
         CREATE TRIGGER wait BEFORE INSERT ON {s}.event FOR EACH ROW EXECUTE FUNCTION wait()",
    )
    .await;
    run(&mut gate, "SELECT pg_advisory_lock(7, 7)").await;
    let ((), ()) = tokio::join!(append(&db, &mut writer, &["3"]), async {
        db.until(WAITS).await;
        assert_eq!(db.last_id().await, 3);
        let holders = Postgres::holders(&mut reader, &db.tables).await.unwrap();
        assert_eq!(holders.transactions.len(), 1, "its event has an id and may still come");
        run(&mut gate, "SELECT pg_advisory_unlock(7, 7)").await;
    });
}

/// Runs `work`, and `meanwhile` as soon as that has ended or waits. A read that can be interrupted at all (those planted
/// under the feature `fault-injection`) waits where an interruption does most harm, while a test holds this lock.
async fn interrupted<T>(db: &Db, work: impl Future<Output = T>, meanwhile: impl Future<Output = ()>) -> T {
    let mut gate = db.connect().await;
    run(&mut gate, "SELECT pg_advisory_lock(1870099556, 0)").await;
    let ended = Cell::new(false);
    let work = async {
        let answer = work.await;
        ended.set(true);
        answer
    };
    let (answer, ()) = tokio::join!(work, async {
        while !ended.get() && !db.value::<bool>(WAITS).await {}
        meanwhile.await;
        run(&mut gate, "SELECT pg_advisory_unlock(1870099556, 0)").await;
    });
    answer
}

#[tokio::test]
async fn a_read_sees_one_moment() {
    let db = Db::new().await;
    let (mut reader, mut writer) = (db.connect().await, db.connect().await);
    let mut open = writer.begin().await.unwrap();
    append(&db, &mut open, &["1"]).await;
    append(&db, &mut reader, &["2"]).await;
    append(&db, &mut open, &["1"]).await;
    let gap = Read { gaps: &[(1, 2)], above: 2, ..ALL };
    let commit = async { open.commit().await.unwrap() };
    let seen = ids(&interrupted(&db, read(&db, &mut reader, gap.clone()), commit).await);
    assert!(
        seen.is_empty() || seen == [1, 3],
        "a later event of a lane came without the earlier one: {seen:?}"
    );
    assert_eq!(ids(&read(&db, &mut reader, gap).await), [1, 3]);
}

#[tokio::test]
async fn what_an_unlisted_writer_wrote_is_seen_by_the_next_read() {
    let db = Db::new().await;
    let (mut reader, mut writer) = (db.connect().await, db.connect().await);
    let mut open = writer.begin().await.unwrap();
    append(&db, &mut open, &["1"]).await;
    append(&db, &mut reader, &["2"]).await;
    let gap = Read { gaps: &[(1, 2)], above: 2, ..ALL };
    let listing = async { Postgres::holders(&mut reader, &db.tables).await.unwrap().transactions };
    let listed = interrupted(&db, listing, async { open.commit().await.unwrap() }).await;
    let seen = ids(&read(&db, &mut reader, gap.clone()).await);
    assert!(
        !listed.is_empty() || seen == [1],
        "the writer is gone and its event is not there: it would be given up"
    );
    assert!(Postgres::holders(&mut reader, &db.tables).await.unwrap().transactions.is_empty());
    assert_eq!(ids(&read(&db, &mut reader, gap).await), [1]);
}

#[tokio::test]
async fn a_writer_of_one_partition_is_listed_too() {
    let db = Db::new().await;
    db.run(
        "DROP TABLE {s}.event CASCADE;
         CREATE TABLE {s}.event (id bigint NOT NULL) PARTITION BY RANGE (id);
         CREATE TABLE {s}.leaf PARTITION OF {s}.event FOR VALUES FROM (0) TO (100)",
    )
    .await;
    let (mut reader, mut writer) = (db.connect().await, db.connect().await);
    run(&mut writer, "BEGIN; INSERT INTO outbox.leaf VALUES (1)").await;
    assert_eq!(Postgres::holders(&mut reader, &db.tables).await.unwrap().transactions.len(), 1);
    run(&mut writer, "ROLLBACK").await;
    assert_eq!(Postgres::holders(&mut reader, &db.tables).await.unwrap().transactions.len(), 0);
}

#[tokio::test]
async fn gaps_and_new_rows_come_merged_by_id_and_limited_as_one() {
    let db = Db::new().await;
    let (mut conn, mut late) = (db.connect().await, db.connect().await);
    let mut open = late.begin().await.unwrap();
    Postgres::append_all(&mut open, &db.tables, &["1", "2", "3"].map(event), WriteOrder::Aggregate)
        .await
        .unwrap();
    append(&db, &mut conn, &["4", "5", "6"]).await;
    let seen = read(&db, &mut conn, ALL).await;
    assert_eq!((ids(&seen), seen.full, seen.anchor), (vec![4, 5, 6], false, None));
    let anchor = seen.events[1].envelope.event_id;
    open.commit().await.unwrap();

    let again = Read { gaps: &[(1, 2), (2, 4), (9, 10)], above: 5, ..ALL };
    let merged = read(&db, &mut conn, again.clone()).await;
    assert_eq!((ids(&merged), merged.full, merged.anchor), (vec![1, 2, 3, 6], false, Some(anchor)));
    let limited = read(&db, &mut conn, Read { limit: 2, ..again.clone() }).await;
    assert_eq!((ids(&limited), limited.full), (vec![1, 2], true));
    let exact = read(&db, &mut conn, Read { limit: 4, ..again }).await;
    assert_eq!((ids(&exact), exact.full), (vec![1, 2, 3, 6], true));
    let nothing = read(&db, &mut conn, Read { above: 6, ..ALL }).await;
    assert!(nothing.events.is_empty() && nothing.primary && nothing.anchor.is_some() && !nothing.full);
}

#[tokio::test]
async fn a_page_ends_where_its_bytes_do() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    // 1 of 3,010 bytes, then 2 to 5 of 1,010 each; compressible, so that the stored size tells little.
    for (length, times) in [(3_000, 1), (1_000, 4)] {
        let mut event = event("1");
        event.payload = format!(r#"{{"a": "{}"}}"#, "x".repeat(length));
        assert_eq!(event.payload.len(), length + 9);
        let events = vec![event; times];
        Postgres::append_all(&mut conn, &db.tables, &events, WriteOrder::Aggregate).await.unwrap();
    }
    let mut page = async |max_bytes, max_payload_bytes| {
        let batch = read(&db, &mut conn, Read { max_bytes, max_payload_bytes, ..ALL }).await;
        (ids(&batch), batch.full, batch.events[0].defect)
    };
    assert_eq!(page(1, 10_000).await, (vec![1], true, None), "the first comes whatever its size");
    assert_eq!(page(5_027, 10_000).await, (vec![1, 2, 3], true, None));
    assert_eq!(page(5_026, 10_000).await, (vec![1, 2], true, None));
    let large = Some(Defect::PayloadTooLarge { bytes: 3_009 });
    assert_eq!(page(2_018, 3_008).await, (vec![1, 2, 3], true, large), "what does not come has no size");
    assert_eq!(page(1 << 20, 3_009).await, (vec![1, 2, 3, 4, 5], false, None));
    let batch = read(&db, &mut conn, Read { max_payload_bytes: 3_008, ..ALL }).await;
    assert_eq!(batch.events[0].envelope.payload, "");

    let lane = Lane::aggregate(None, "customer", "1");
    let of_lane = LaneRead {
        lane: &lane,
        from: 2,
        through: 4,
        limit: 9,
        max_bytes: 2_018,
        max_payload_bytes: 1_009,
        without_payloads: false,
    };
    let page = Postgres::read_lane(&mut conn, &db.tables, &of_lane).await.unwrap();
    assert_eq!((page.events.len(), page.full), (2, true));
    let page =
        Postgres::read_lane(&mut conn, &db.tables, &LaneRead { max_bytes: 9_999, ..of_lane }).await.unwrap();
    assert_eq!((page.events.len(), page.full), (3, false));
}

#[tokio::test]
async fn a_text_that_the_server_cannot_make_can_be_left_out() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    append(&db, &mut conn, &["1"]).await;
    // 9,000 numbers of 131,072 digits in some kilobytes.
    db.run(
        "CREATE TEMP TABLE large AS
             SELECT jsonb_build_object('a', jsonb_agg(1e131071)) AS json FROM generate_series(1, 9000);
         INSERT INTO {s}.event (event_type, aggregate_type, aggregate_id, payload)
             SELECT 'a.b', 'customer', '1', json FROM large;
         INSERT INTO {s}.event (event_type, aggregate_type, aggregate_id, payload, actor)
             SELECT 'a.b', 'customer', '2', '{}', json FROM large",
    )
    .await;
    append(&db, &mut conn, &["1"]).await;
    assert!(db.value::<i64>("SELECT max(pg_column_size(payload))::bigint FROM {s}.event").await < 9_000);

    for above in [0, 2] {
        let error = Postgres::read(&mut conn, &db.tables, &Read { above, ..ALL }).await.unwrap_err();
        assert_eq!(Postgres::fault(&error), Fault::TooLarge, "{error}");
    }
    let batch = read(&db, &mut conn, Read { without_payloads: true, ..ALL }).await;
    assert_eq!(ids(&batch), [1, 2, 3, 4]);
    let unreadable = |event: &StoredEvent| {
        event.envelope.payload.is_empty() && event.defect == Some(Defect::PayloadUnreadable)
    };
    assert!(batch.events.iter().all(unreadable), "{batch:?}");

    let aggregate = Lane::aggregate(None, "customer", "1");
    for (lane, expected) in [(aggregate, vec![1, 2, 4]), (Lane::Single(2), vec![2])] {
        let without = LaneRead {
            lane: &lane,
            from: 1,
            through: 9,
            limit: 9,
            max_bytes: 1 << 20,
            max_payload_bytes: 1 << 20,
            without_payloads: true,
        };
        let page = Postgres::read_lane(&mut conn, &db.tables, &without).await.unwrap();
        assert_eq!(page.events.iter().map(|event| event.envelope.id).collect::<Vec<_>>(), expected);
        assert!(page.events.iter().all(unreadable), "{page:?}");
    }
}

#[tokio::test]
async fn no_digit_of_a_payload_changes() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let mut exact = event("1");
    let payload =
        "{\"n\": 1.10, \"big\": 12345678901234567890123456789.000000001, \"text\": \"ä\\n\u{2028}\"}";
    exact.payload = payload.to_owned();
    Postgres::append(&mut conn, &db.tables, &exact, WriteOrder::Aggregate).await.unwrap();
    let stored = &read(&db, &mut conn, ALL).await.events[0];
    assert_eq!(stored.envelope.payload, payload);
}

#[tokio::test]
async fn times_that_no_clock_reaches_stop_nobody() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    db.run(
        "SELECT {s}.publish('a.b', '{}', 'c', available_at => 'infinity', occurred_at => '-infinity');
         SELECT {s}.publish('a.b', '{}', 'c', available_at => '-infinity', occurred_at => 'infinity')",
    )
    .await;
    let batch = read(&db, &mut conn, ALL).await;
    let [never, always] = &batch.events[..] else { panic!("{batch:?}") };
    assert!(never.delayed && never.due_in > Duration::from_secs(1 << 32));
    assert!(!always.delayed && always.due_in.is_zero());
    assert!(never.envelope.occurred_at < always.envelope.occurred_at);
}

#[tokio::test]
async fn a_lane_holds_its_tenants_undelayed_events_and_nothing_else() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let tenant = Some(uuid::Uuid::from_u128(7));
    append(&db, &mut conn, &["1", "2"]).await;
    let mut other = event("1");
    other.tenant_id = tenant;
    let mut delayed = event("1");
    delayed.delay = Some(Duration::from_secs(60));
    let events = [other, delayed, event("1")];
    Postgres::append_all(&mut conn, &db.tables, &events, WriteOrder::Aggregate).await.unwrap();
    let mut lane = async |lane: Lane| {
        let all = LaneRead {
            lane: &lane,
            from: 1,
            through: 9,
            limit: 9,
            max_bytes: 999,
            max_payload_bytes: 99,
            without_payloads: false,
        };
        let page = Postgres::read_lane(&mut conn, &db.tables, &all).await.unwrap();
        let entries = Postgres::lane_ids(&mut conn, &db.tables, &all).await.unwrap();
        let page: Vec<_> = page.events.iter().map(|event| event.envelope.id).collect();
        (page, entries.iter().map(|entry| entry.id).collect::<Vec<_>>())
    };
    assert_eq!(lane(Lane::aggregate(None, "customer", "1")).await, (vec![1, 5], vec![1, 5]));
    assert_eq!(lane(Lane::aggregate(tenant, "customer", "1")).await, (vec![3], vec![3]));
    assert_eq!(lane(Lane::aggregate(None, "customer", "3")).await, (vec![], vec![]));
    assert_eq!(lane(Lane::Single(4)).await, (vec![4], vec![]), "a delayed event is a lane of its own");
}
