//! Reading: the page and its limits, the anchor, delayed events, and the lane of one aggregate.

use std::sync::Arc;
use std::time::Duration;

use outbox_sdk::backend::{Batch, Defect, LaneRead, Notices, Read};
use outbox_sdk::{Backend, Lane};
use outbox_tests::SqliteTestDb;
use uuid::Uuid;

use super::{Outbox, TestDb, event, everything, with_payload};

super::on_every_database! {
    an_empty_outbox_reads_as_nothing
    a_page_ends_at_its_limit
    gaps_and_new_ids_come_merged_by_id
    a_page_ends_at_its_bytes
    a_payload_that_is_too_large_stays_behind
    a_read_without_payloads_brings_everything_else
    the_anchor_is_the_row_at_the_high_water_mark
    delayed_events_say_when_they_are_due
    a_lane_is_one_aggregate_of_one_tenant
    a_lane_is_read_in_pages
    a_single_event_is_a_lane
    lane_ids_leave_delayed_events_out
}

fn ids(batch: &[outbox_sdk::backend::StoredEvent]) -> Vec<i64> {
    batch.iter().map(|row| row.envelope.id).collect()
}

async fn an_empty_outbox_reads_as_nothing<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let nothing = Batch {
        events: Vec::new(),
        full: false,
        anchor: None,
        primary: true,
        last_id: 0,
        sees_all_rows: true,
        notices: Notices::default(),
    };
    assert_eq!(outbox.read(&everything()).await, nothing);
    assert_eq!(outbox.read(&Read { gaps: &[(1, 9)], above: 20, ..everything() }).await, nothing);
}

async fn a_page_ends_at_its_limit<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let all: Vec<_> = outbox.some_events(5).await.iter().map(|event| event.id).collect();
    let page = outbox.read(&Read { limit: 3, ..everything() }).await;
    assert_eq!((ids(&page.events), page.full), (all[..3].to_vec(), true));
    let page = outbox.read(&Read { limit: 3, above: all[2], ..everything() }).await;
    assert_eq!((ids(&page.events), page.full), (all[3..].to_vec(), false));
    let exact = outbox.read(&Read { limit: 5, ..everything() }).await;
    assert_eq!((exact.events.len(), exact.full), (5, true), "there may be more");
    let more = outbox.read(&Read { limit: 6, ..everything() }).await;
    assert_eq!((more.events.len(), more.full), (5, false));
}

async fn gaps_and_new_ids_come_merged_by_id<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let all: Vec<_> = outbox.some_events(10).await.iter().map(|event| event.id).collect();
    let gaps = [(all[1], all[3]), (all[5], all[6])];
    let above = all[7];
    let expected = [all[1], all[2], all[5], all[8], all[9]];
    let page = outbox.read(&Read { gaps: &gaps, above, ..everything() }).await;
    assert_eq!((ids(&page.events), page.full), (expected.to_vec(), false));
    let page = outbox.read(&Read { gaps: &gaps, above, limit: 2, ..everything() }).await;
    assert_eq!((ids(&page.events), page.full), (expected[..2].to_vec(), true));
    let page = outbox.read(&Read { gaps: &gaps, above, limit: 4, ..everything() }).await;
    assert_eq!((ids(&page.events), page.full), (expected[..4].to_vec(), true));
}

async fn a_page_ends_at_its_bytes<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    // Digits that no compression makes short.
    let filler: String = (0..500).map(|n: u64| (n.wrapping_mul(7_919) % 9_973).to_string()).collect();
    let large = format!(r#"{{"filler": "{filler}"}}"#);
    let size = u64::try_from(large.len()).unwrap();
    let mut with_older = event("1");
    with_older.older_payloads = Some(format!(r#"{{"1": {large}}}"#));
    let mut given = [&large, "{}", &large, &large, "{}"].map(with_payload).to_vec();
    given.extend([with_older.clone(), with_older]);
    let all: Vec<_> = outbox.append_all(&given).await.iter().map(|event| event.id).collect();

    let whole = outbox.read(&Read { max_bytes: 100 * size, ..everything() }).await;
    assert_eq!((ids(&whole.events), whole.full), (all.clone(), false));
    for max_bytes in [1, size + 10, 2 * size + 100, 3 * size + 100] {
        let (mut above, mut seen) = (0, Vec::new());
        loop {
            let page = outbox.read(&Read { max_bytes, above, ..everything() }).await;
            let texts = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            let bytes: usize = page
                .events
                .iter()
                .map(|row| row.envelope.payload.len() + texts(&row.envelope.older_payloads))
                .sum();
            assert!(bytes as u64 <= max_bytes || page.events.len() == 1, "{bytes} of {max_bytes}");
            seen.extend(ids(&page.events));
            assert_eq!(
                page.full,
                seen.len() < all.len(),
                "the first comes whatever its size, the tail another time"
            );
            if !page.full {
                break;
            }
            above = *seen.last().unwrap();
        }
        assert_eq!(seen, all, "pages of {max_bytes} bytes");
    }
}

async fn a_payload_that_is_too_large_stays_behind<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let large = r#"{"text": "0123456789"}"#;
    let all = outbox.append_all(&["{}", large, r#"{"a": 1}"#].map(with_payload)).await;
    let limit = u64::try_from(large.len()).unwrap() - 1;
    let page = outbox.read(&Read { max_payload_bytes: limit, ..everything() }).await;
    assert_eq!((page.events.len(), page.full), (3, false));
    assert_eq!(page.events[1].envelope.event_id, all[1].event_id);
    assert_eq!(page.events[1].envelope.payload, "");
    let too_large = Some(Defect::PayloadTooLarge { bytes: limit + 1 });
    let defects: Vec<_> = page.events.iter().map(|row| row.defect).collect();
    assert_eq!(defects, [None, too_large, None]);
    let one = Lane::aggregate(None, "customer", "1");
    let read = LaneRead { max_payload_bytes: limit, ..lane(&one) };
    let page = T::Db::read_lane(&mut *outbox.conn().await, &outbox.tables, &read).await.unwrap();
    assert_eq!(page.events.iter().map(|row| row.defect).collect::<Vec<_>>(), defects);
    let page = outbox.read(&Read { max_payload_bytes: limit + 1, ..everything() }).await;
    assert!(page.events.iter().all(|row| row.defect.is_none()));
    assert_eq!(page.events[1].envelope.payload, large);
}

async fn a_read_without_payloads_brings_everything_else<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut full = event("1");
    full.tenant_id = Some(Uuid::now_v7());
    full.actor = Some(r#"{"id": 5}"#.to_owned());
    full.older_payloads = Some(r#"{"1": {}}"#.to_owned());
    outbox.append_all(&[full.clone(), event("1"), event("2")]).await;
    let whole = outbox.read(&everything()).await;
    let mut expected = whole.clone();
    for row in &mut expected.events {
        row.defect = Some(Defect::PayloadUnreadable);
        let envelope = Arc::make_mut(&mut row.envelope);
        envelope.payload.clear();
        (envelope.older_payloads, envelope.actor) = (None, None);
    }
    // What is not printed counts for no limit on bytes.
    let without =
        Read { without_payloads: true, max_bytes: 1, max_payload_bytes: 1, above: 0, ..everything() };
    assert_eq!(outbox.read(&without).await, expected);
    let page = outbox.read(&Read { limit: 2, ..without }).await;
    assert_eq!((page.events.len(), page.full), (2, true));

    let platform = Lane::aggregate(None, "customer", "1");
    let tenants = Lane::aggregate(full.tenant_id, "customer", "1");
    let single = Lane::Single(whole.events[2].envelope.id);
    for (of, n) in [(&tenants, 0), (&platform, 1), (&single, 2)] {
        let without = LaneRead { without_payloads: true, max_bytes: 1, max_payload_bytes: 1, ..lane(of) };
        let page = T::Db::read_lane(&mut *outbox.conn().await, &outbox.tables, &without).await.unwrap();
        assert_eq!(page.events, expected.events[n..=n], "{of}");
    }
}

async fn the_anchor_is_the_row_at_the_high_water_mark<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let all = outbox.some_events(2).await;
    for above in &all {
        let page = outbox.read(&Read { above: above.id, ..everything() }).await;
        assert_eq!(page.anchor, Some(above.event_id));
    }
    assert_eq!(outbox.read(&everything()).await.anchor, None);
    outbox.execute(&format!("DELETE FROM {} WHERE id = {}", T::table("event"), all[1].id)).await;
    assert_eq!(outbox.read(&Read { above: all[1].id, ..everything() }).await.anchor, None);
}

async fn delayed_events_say_when_they_are_due<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let hour = Duration::from_secs(3_600);
    let mut late = event("1");
    late.delay = Some(hour);
    let mut far = event("1");
    far.delay = Some(Duration::from_secs(86_400 * 365 * 1_000));
    outbox.append_all(&[event("1"), late, far]).await;
    let rows = outbox.read(&everything()).await.events;
    assert_eq!(rows.iter().map(|row| row.delayed).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(rows[0].due_in, Duration::ZERO);
    assert!(
        rows[1].due_in <= hour && rows[1].due_in > hour - Duration::from_secs(600),
        "{:?}",
        rows[1].due_in
    );
    assert!(rows[2].due_in > 365 * 999 * 24 * hour);
    let past = format!(
        "UPDATE {0} SET available_at = created_at WHERE id = {1}",
        T::table("event"),
        rows[1].envelope.id
    );
    outbox.execute(&past).await;
    let rows = outbox.read(&everything()).await.events;
    assert_eq!((rows[1].delayed, rows[1].due_in), (false, Duration::ZERO));
}

fn lane(lane: &Lane) -> LaneRead<'_> {
    LaneRead {
        lane,
        from: 0,
        through: i64::MAX,
        limit: 100,
        max_bytes: 1 << 30,
        max_payload_bytes: 1 << 20,
        without_payloads: false,
    }
}

async fn lane_page<T: TestDb>(outbox: &Outbox<T>, read: &LaneRead<'_>) -> (Vec<i64>, bool) {
    let page = T::Db::read_lane(&mut *outbox.conn().await, &outbox.tables, read).await.unwrap();
    (ids(&page.events), page.full)
}

async fn a_lane_is_one_aggregate_of_one_tenant<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let tenant = Uuid::now_v7();
    let mut events = [event("1"), event("2"), event("1"), event("1"), event("1"), event("1")];
    events[2].tenant_id = Some(tenant);
    events[3].aggregate_type = "order".to_owned();
    events[4].delay = Some(Duration::from_secs(3_600));
    let all: Vec<_> = outbox.append_all(&events).await.iter().map(|event| event.id).collect();
    let platform = Lane::aggregate(None, "customer", "1");
    assert_eq!(lane_page(&outbox, &lane(&platform)).await, (vec![all[0], all[5]], false));
    let tenants = Lane::aggregate(Some(tenant), "customer", "1");
    assert_eq!(lane_page(&outbox, &lane(&tenants)).await, (vec![all[2]], false));
    let empty = Lane::aggregate(Some(Uuid::now_v7()), "customer", "1");
    assert_eq!(lane_page(&outbox, &lane(&empty)).await, (vec![], false));
    let page = T::Db::read_lane(&mut *outbox.conn().await, &outbox.tables, &lane(&tenants)).await.unwrap();
    assert_eq!(page.events[0].envelope.payload, events[2].payload);
    assert_eq!(page.events[0].envelope.lane(), tenants);
}

async fn a_lane_is_read_in_pages<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let all: Vec<_> = outbox.some_events(5).await.iter().map(|event| event.id).collect();
    let one = Lane::aggregate(None, "customer", "1");
    let page = LaneRead { limit: 2, ..lane(&one) };
    assert_eq!(lane_page(&outbox, &page).await, (all[..2].to_vec(), true));
    assert_eq!(lane_page(&outbox, &LaneRead { from: all[2], ..page }).await, (all[2..4].to_vec(), true));
    assert_eq!(lane_page(&outbox, &LaneRead { from: all[4], ..page }).await, (all[4..].to_vec(), false));
    let through = LaneRead { through: all[3], from: all[3], ..page };
    assert_eq!(lane_page(&outbox, &through).await, (vec![all[3]], false));
    let bytes = LaneRead { max_bytes: 1, limit: 100, ..page };
    assert_eq!(lane_page(&outbox, &bytes).await, (vec![all[0]], true));
}

async fn a_single_event_is_a_lane<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut late = event("1");
    late.delay = Some(Duration::from_secs(3_600));
    let all = outbox.append_all(&[event("1"), late, event("1")]).await;
    for event in &all {
        let single = Lane::Single(event.id);
        assert_eq!(lane_page(&outbox, &lane(&single)).await, (vec![event.id], false), "delayed or not");
        let before = LaneRead { through: event.id - 1, ..lane(&single) };
        assert_eq!(lane_page(&outbox, &before).await, (vec![], false));
        let behind = LaneRead { from: event.id + 1, ..lane(&single) };
        assert_eq!(lane_page(&outbox, &behind).await, (vec![], false));
    }
    assert_eq!(lane_page(&outbox, &lane(&Lane::Single(i64::MAX))).await, (vec![], false));
}

async fn lane_ids_leave_delayed_events_out<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut events = [event("1"), event("1"), event("2"), event("1"), event("1")];
    events[1].delay = Some(Duration::from_secs(3_600));
    events[3].event_type = "customer.deleted".to_owned();
    events[3].schema_version = 2;
    let all: Vec<_> = outbox.append_all(&events).await.iter().map(|event| event.id).collect();
    let one = Lane::aggregate(None, "customer", "1");
    let read = LaneRead { from: all[0] + 1, ..lane(&one) };
    let entries = T::Db::lane_ids(&mut *outbox.conn().await, &outbox.tables, &read).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [all[3], all[4]]);
    assert_eq!((entries[0].event_type.as_str(), entries[0].schema_version), ("customer.deleted", 2));
    let first = LaneRead { limit: 1, ..read };
    let entries = T::Db::lane_ids(&mut *outbox.conn().await, &outbox.tables, &first).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [all[3]]);
    let through = LaneRead { through: all[2], ..read };
    assert!(T::Db::lane_ids(&mut *outbox.conn().await, &outbox.tables, &through).await.unwrap().is_empty());
}

#[tokio::test]
async fn rows_of_plain_sql_that_do_not_decode_stop_nobody_else() {
    let outbox = Outbox::<SqliteTestDb>::migrated().await;
    let insert = |event_type: &str, payload: &str, aggregate_id: &str| {
        format!(
            "PRAGMA ignore_check_constraints = ON;
             INSERT INTO outbox_event (event_type, aggregate_type, aggregate_id, payload, available_at)
             VALUES ({event_type}, 'customer', {aggregate_id}, {payload}, 0)"
        )
    };
    outbox.execute(&insert("'a.b'", "'{}'", "'1'")).await;
    outbox.execute(&insert("CAST(x'ff' AS TEXT)", "'{}'", "'1'")).await;
    outbox.execute(&insert("'a.b'", r#"CAST(x'7b2261223a22ff227d' AS TEXT)"#, "'1'")).await;
    outbox.execute(&insert("'a.b'", "'{}'", "CAST(x'c3' AS TEXT)")).await;
    outbox.execute(&insert("'a.b'", "'{}'", "NULL")).await;
    outbox.execute("UPDATE outbox_event SET schema_version = 5000000000 WHERE id = 5").await;
    outbox.execute(&insert("'a.b'", "'{}'", "NULL")).await;
    outbox
        .execute("UPDATE outbox_event SET available_at = -9223372036854775808, tenant_id = '7' WHERE id = 6")
        .await;
    outbox.execute(&insert("'a.b'", "'{}'", "NULL")).await;
    let page = outbox.read(&everything()).await;
    let undecodable = Some(Defect::Undecodable);
    let defects: Vec<_> = page.events.iter().map(|row| row.defect).collect();
    let version = Some(Defect::SchemaVersion);
    assert_eq!(defects, [None, undecodable, undecodable, undecodable, version, undecodable, None]);
    assert!(page.events.iter().all(|row| row.due_in.is_zero()));
    let ids: std::collections::HashSet<_> = page.events.iter().map(|row| row.envelope.event_id).collect();
    assert_eq!(ids.len(), 7, "each row has an event_id of its own by default");
    assert!(ids.iter().all(|id| id.get_version_num() == 4));
}
