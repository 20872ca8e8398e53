//! Events as operators find them, and where one of them stands.

use outbox_sdk::backend::{
    Due, EventFilter, LetterState, Operate as _, Settlement, Stall, Start, TypeFilter,
};
use outbox_sdk::{Progress, Timestamp};
use uuid::Uuid;

use super::{LONG, Outbox, TestDb, event, renewal};

super::on_every_database! {
    events_are_found_by_what_they_are
    events_come_in_pages_newest_first
    one_event_comes_with_its_payload_when_asked
    a_standing_is_that_of_one_id_with_every_consumer
    all_events_come_with_their_payloads_page_by_page
}

async fn ids<T: TestDb>(
    outbox: &Outbox<T>,
    filter: &EventFilter,
    before: Option<i64>,
    limit: u32,
) -> Vec<i64> {
    let mut conn = outbox.conn().await;
    let rows = T::Db::events(&mut conn, &outbox.tables, filter, before, limit).await.unwrap();
    rows.iter().map(|row| row.envelope.id).collect()
}

async fn all_events_come_with_their_payloads_page_by_page<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut events: Vec<_> = ["1", "2", "3"].map(event).into();
    events[1].schema_version = 3;
    events[1].older_payloads = Some(r#"{"1": {"a": 1}, "x": {}}"#.to_owned());
    outbox.append_all(&events).await;
    let page = async |after: i64, limit: u32| {
        let mut conn = outbox.conn().await;
        T::Db::stored(&mut conn, &outbox.tables, after, limit).await.unwrap()
    };
    let first = page(0, 2).await;
    assert_eq!(first.iter().map(|row| (row.id, row.schema_version)).collect::<Vec<_>>(), [(1, 1), (2, 3)]);
    assert_eq!(first[1].event_type, events[1].event_type);
    let payloads = first[1].payloads();
    assert_eq!(payloads.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(payloads[&1].replace(' ', ""), r#"{"a":1}"#);
    assert_eq!(payloads[&3], first[1].payload);
    assert_eq!(page(2, 2).await.iter().map(|row| row.id).collect::<Vec<_>>(), [3]);
    assert!(page(3, 2).await.is_empty());
}

async fn events_are_found_by_what_they_are<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let (tenant, correlation) = (Uuid::from_u128(7), Uuid::from_u128(8));
    let mut events: Vec<_> = ["1", "1", "2", "3", "4"].map(event).into();
    events[1].event_type = "customer_group.created".to_owned();
    events[2].aggregate_type = "order".to_owned();
    events[3].tenant_id = Some(tenant);
    events[4].correlation_id = Some(correlation);
    outbox.append_all(&events).await;
    let table = T::table("event");
    outbox.execute(&format!("UPDATE {table} SET created_at = created_at - {} WHERE id <= 2", T::HOUR)).await;
    outbox.execute(&format!("UPDATE {table} SET status = 'failed' WHERE id = 4")).await;
    let second = T::Db::event(&mut *outbox.conn().await, &outbox.tables, 2, false).await.unwrap().unwrap();
    let after = Timestamp::from_micros(second.envelope.created_at.micros() + 1);
    let all = EventFilter::default;
    let text = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (all(), &[5, 4, 3, 2, 1][..]),
        (EventFilter { aggregate_type: text("customer"), aggregate_id: text("1"), ..all() }, &[2, 1]),
        (EventFilter { aggregate_type: text("order"), ..all() }, &[3]),
        (EventFilter { aggregate_id: text("3"), ..all() }, &[4]),
        (EventFilter { tenant_id: Some(tenant), ..all() }, &[4]),
        (EventFilter { correlation_id: Some(correlation), ..all() }, &[5]),
        (EventFilter { event_type: TypeFilter::Exact("customer_group.created".to_owned()), ..all() }, &[2]),
        (EventFilter { event_type: TypeFilter::Prefix("customer.".to_owned()), ..all() }, &[5, 4, 3, 1]),
        (EventFilter { status: text("failed"), ..all() }, &[4]),
        (EventFilter { created_from: Some(after), ..all() }, &[5, 4, 3]),
        (EventFilter { created_until: Some(after), ..all() }, &[2, 1]),
        (EventFilter { created_until: Some(second.envelope.created_at), ..all() }, &[]),
        (
            EventFilter {
                created_until: Some(after),
                aggregate_type: text("customer"),
                aggregate_id: text("1"),
                event_type: TypeFilter::Prefix("customer.".to_owned()),
                ..all()
            },
            &[1],
        ),
        (EventFilter { correlation_id: Some(correlation), created_until: Some(after), ..all() }, &[]),
    ] {
        assert_eq!(ids(&outbox, &filter, None, 100).await, expected, "{filter:?}");
    }
}

async fn events_come_in_pages_newest_first<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(5).await;
    let aggregate = EventFilter {
        aggregate_type: Some("customer".to_owned()),
        aggregate_id: Some("1".to_owned()),
        ..EventFilter::default()
    };
    let time = EventFilter { created_from: Some(Timestamp::from_micros(0)), ..EventFilter::default() };
    for filter in [EventFilter::default(), aggregate, time] {
        assert_eq!(ids(&outbox, &filter, None, 2).await, [5, 4], "{filter:?}");
        assert_eq!(ids(&outbox, &filter, Some(4), 2).await, [3, 2], "{filter:?}");
        assert_eq!(ids(&outbox, &filter, Some(1), 2).await, [0; 0], "{filter:?}");
    }
}

async fn one_event_comes_with_its_payload_when_asked<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut older = event("1");
    older.older_payloads = Some(r#"{"10": {}, "2": {}}"#.to_owned());
    let published = outbox.append(&older).await;
    let mut conn = outbox.conn().await;
    let with = T::Db::event(&mut conn, &outbox.tables, published.id, true).await.unwrap().unwrap();
    assert_eq!(with.envelope.event_id, published.event_id);
    assert_eq!((with.envelope.payload.as_str(), with.status.as_str()), (r#"{"n": 1}"#, "pending"));
    assert!(with.envelope.older_payloads.is_some() && !with.is_delayed());
    let without = T::Db::event(&mut conn, &outbox.tables, published.id, false).await.unwrap().unwrap();
    assert_eq!((without.envelope.payload.as_str(), without.envelope.older_payloads), ("", None));
    assert_eq!(without.older_majors, [2, 10]);
    assert_eq!(T::Db::event(&mut conn, &outbox.tables, 99, true).await.unwrap(), None);
    let ids = T::Db::event_ids(&mut conn, &outbox.tables, published.event_id, None).await.unwrap();
    assert_eq!(ids, [published.id]);
}

/// A covering stall row and one of the event alone, with the letters of the event and of the row's head; another lane's
/// row and another consumer's are not among them.
async fn a_standing_is_that_of_one_id_with_every_consumer<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let standing = async |id, lane: Option<&str>| {
        T::Db::standing(&mut *outbox.conn().await, &outbox.tables, id, lane).await.unwrap()
    };
    let empty = standing(1, None).await;
    assert_eq!((empty.status, empty.last_id, empty.slots.len()), (None, 0, 0), "no consumer");

    outbox.some_events(5).await;
    let fence = outbox.claimed().await.fence;
    outbox.configure("billing", Some(Start::Earliest), "{}").await;
    let lane = r#"[null,"customer","1"]"#;
    let stall = |lane: &str, head_id, single: bool| Stall {
        lane: lane.to_owned(),
        head_id,
        attempts: 3,
        due: Due::In(LONG),
        blocked: !single,
        single,
        schema_missing: single,
        last_error: Some("status 503".to_owned()),
    };
    let stalls = [stall(lane, 2, false), stall("[4]", 4, true), stall(r#"[null,"customer","2"]"#, 1, false)];
    let (settled, void) = ((1..=4).collect::<Progress>(), Progress::from_iter([4]));
    outbox.settle_done(&Settlement { stalls: &stalls, ..renewal(&fence, &settled, &void) }).await;
    outbox.write_letters("crm", [2, 4]).await;

    let four = standing(4, Some(lane)).await;
    assert_eq!((four.status.as_deref(), four.last_id), (Some("pending"), 5));
    let [billing, crm] = &four.slots[..] else { panic!("{four:?}") };
    assert_eq!((billing.consumer.name.as_str(), crm.consumer.name.as_str()), ("billing", "crm"));
    assert!(billing.stall.is_none() && billing.single.is_none() && billing.letter.is_none() && !billing.void);
    assert_eq!((&crm.consumer.settled, crm.void), (&settled, true));
    let (covering, single) = (crm.stall.as_ref().unwrap(), crm.single.as_ref().unwrap());
    assert_eq!((covering.head_id, covering.attempts, covering.blocked), (2, 3, true));
    assert!(covering.due_in > LONG / 2 && covering.schema_missing_for.is_none());
    assert_eq!((single.head_id, single.last_error.as_deref()), (4, Some("status 503")));
    assert!(single.schema_missing_for.is_some());
    assert_eq!(crm.head_letter.as_ref().map(|letter| letter.state), Some(LetterState::Dead));
    assert_eq!(crm.letter.as_ref().map(|letter| letter.attempts), Some(10));

    let crm = standing(1, Some(lane)).await.slots.remove(1);
    assert_eq!((crm.stall, crm.single), (None, None), "the row begins behind it");
    let crm = standing(4, None).await.slots.remove(1);
    assert_eq!(crm.stall, None, "it is in no aggregate's lane");
}
