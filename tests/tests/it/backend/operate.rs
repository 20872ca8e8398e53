//! What operators and consumers see: due lanes, the inbox, consumers, dead letters.

use std::time::Duration;

use outbox_sdk::backend::{
    DeadLetter, DeadReason, Decision, Deduplicate as _, Due, LetterCursor, LetterFilter, LetterKey,
    LetterState, NewDeadLetter, Operate as _, Settlement, Stall, Start, TypeFilter,
};
use outbox_sdk::{Backend, Migrator, Progress, Timestamp};
use uuid::Uuid;

use super::{LONG, Outbox, TestDb, event, renewal};

super::on_every_database! {
    due_stalls_are_those_asked_for
    the_inbox_takes_an_event_once
    consumers_are_listed_with_their_troubles
    dead_letters_come_newest_first
    an_event_can_die_again
    pages_of_one_moment_leave_nothing_out
    letters_are_filtered_by_what_they_and_their_events_are
    letters_are_counted_by_consumer_reason_and_state
    keys_come_by_id_with_the_age_of_their_event
    a_decision_holds_once
    an_acknowledgement_keeps_state_and_name_and_a_replay_takes_it_back
    what_is_not_stored_cannot_be_replayed
    of_two_operators_one_wins
    a_slot_shows_its_pause_who_wants_it_and_who_could_run_it
    lag_counts_what_has_a_row_and_is_not_settled
}

fn stall(lane: &str, due: Duration) -> Stall {
    Stall {
        lane: lane.to_owned(),
        head_id: 1,
        attempts: 1,
        due: Due::In(due),
        blocked: false,
        single: false,
        schema_missing: false,
        last_error: None,
    }
}

fn dead(event_id: i64) -> NewDeadLetter {
    NewDeadLetter {
        event_id,
        reason: DeadReason::SchemaViolation,
        attempts: 1,
        max_attempts: 10,
        last_error: "/name is missing".to_owned(),
    }
}

async fn due_stalls_are_those_asked_for<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    let empty = Progress::new();
    let stalls = [stall("[1]", Duration::ZERO), stall("[2]", LONG), stall("[3]", Duration::ZERO)];
    outbox.settle_done(&Settlement { stalls: &stalls, ..renewal(&claimed.fence, &empty, &empty) }).await;
    let asked = ["[2]", "[1]", "[9]"].map(str::to_owned);
    let answer = T::Db::due_stalls(&mut *outbox.conn().await, &outbox.tables, "crm", &asked).await.unwrap();
    assert_eq!(answer.iter().map(|due| due.lane.as_str()).collect::<Vec<_>>(), ["[1]", "[2]"]);
    assert_eq!(answer[0].due_in, Duration::ZERO);
    assert!(answer[1].due_in <= LONG && answer[1].due_in > LONG / 2);
    let others = T::Db::due_stalls(&mut *outbox.conn().await, &outbox.tables, "other", &asked).await.unwrap();
    assert!(others.is_empty());
}

async fn the_inbox_takes_an_event_once<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    Migrator::inbox().run(&outbox.pool).await.unwrap();
    let (event, tables) = (Uuid::now_v7(), &outbox.tables);
    let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
    assert!(T::Db::inbox_insert(&mut tx, tables, "crm", event, None).await.unwrap());
    assert!(!T::Db::inbox_insert(&mut tx, tables, "crm", event, None).await.unwrap());
    tx.rollback().await.unwrap();
    let mut conn = outbox.conn().await;
    assert!(
        T::Db::inbox_insert(&mut *conn, tables, "crm", event, None).await.unwrap(),
        "the first was rolled back"
    );
    assert!(!T::Db::inbox_insert(&mut *conn, tables, "crm", event, None).await.unwrap());
    assert!(T::Db::inbox_insert(&mut *conn, tables, "billing", event, None).await.unwrap());
    assert!(T::Db::inbox_insert(&mut *conn, tables, "crm", Uuid::now_v7(), None).await.unwrap());
}

async fn consumers_are_listed_with_their_troubles<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    outbox.register("billing", Some(Start::Earliest)).await;
    let (settled, empty) = (Progress::from_iter([1, 2, 5]), Progress::new());
    let (stalls, letters) = ([stall("[1]", LONG), stall("[2]", LONG)], [dead(5), dead(6), dead(7)]);
    let write = Settlement { stalls: &stalls, dead: &letters, ..renewal(&claimed.fence, &settled, &empty) };
    let fence = outbox.settle_done(&write).await;
    outbox
        .execute(&format!("UPDATE {} SET state = 'discarded' WHERE event_id = 6", T::table("dead_letter")))
        .await;
    let rows = T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| (row.name.as_str(), row.slot)).collect::<Vec<_>>(),
        [("billing", 0), ("crm", 0)]
    );
    let troubles: Vec<_> = rows.iter().map(|row| (row.stalled_lanes, row.dead_letters)).collect();
    assert_eq!(troubles, [(0, 0), (2, 2)]);
    assert_eq!((rows[0].owner.as_deref(), rows[1].owner.as_deref()), (None, Some("relay")));
    assert_eq!(rows[1].settled, settled);
    // A lease that is over names no owner.
    outbox.settle_done(&Settlement { lease: Duration::ZERO, ..renewal(&fence, &settled, &empty) }).await;
    outbox_tests::eventually("the lease is over", async || {
        let rows = T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
        rows[1].owner.is_none()
    })
    .await;
}

async fn dead_letters_come_newest_first<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let empty = Progress::new();
    let mut fence = outbox.claimed().await.fence;
    for ids in [[3, 4], [1, 2]] {
        let letters = ids.map(dead);
        fence = outbox.settle_done(&Settlement { dead: &letters, ..renewal(&fence, &empty, &empty) }).await;
        // The next ones fail later, also where the clock stands still for a millisecond.
        let earlier = format!("UPDATE {} SET failed_at = failed_at - {}", T::table("dead_letter"), T::HOUR);
        outbox.execute(&earlier).await;
    }
    outbox.register("billing", Some(Start::Earliest)).await;
    let billing = outbox.claim("billing").await.fence;
    let letters = [dead(9)];
    let write = Settlement { consumer: "billing", dead: &letters, ..renewal(&billing, &empty, &empty) };
    outbox.settle_done(&write).await;

    let list = async |consumer: Option<&str>, limit| {
        let filter = LetterFilter { consumer: consumer.map(str::to_owned), ..LetterFilter::default() };
        outbox.page(&filter, None, limit).await.iter().map(|row| row.event_id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 100).await, [9, 2, 1, 4, 3]);
    assert_eq!(list(Some("crm"), 3).await, [2, 1, 4]);
    assert_eq!(list(Some("nobody"), 3).await, [] as [i64; 0]);
    let first = outbox.page(&LetterFilter::default(), None, 1).await.remove(0);
    assert_eq!(
        (first.consumer.as_str(), first.reason.as_str(), first.attempts),
        ("billing", "schema_violation", 1)
    );
    assert_eq!((first.last_error.as_str(), first.state), ("/name is missing", LetterState::Dead));
    assert_eq!((first.max_attempts, first.acknowledged_at, first.decided_at), (10, None, None));
    assert_eq!(first.event, None, "there is no event 9");
}

async fn an_event_can_die_again<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let empty = Progress::new();
    let fence = outbox.claimed().await.fence;
    let fence = outbox.settle_done(&Settlement { dead: &[dead(1)], ..renewal(&fence, &empty, &empty) }).await;
    outbox.execute(&format!("UPDATE {} SET state = 'replay'", T::table("dead_letter"))).await;
    let again = [NewDeadLetter {
        reason: DeadReason::Attempts,
        attempts: 11,
        last_error: "500".to_owned(),
        ..dead(1)
    }];
    outbox.settle_done(&Settlement { dead: &again, ..renewal(&fence, &empty, &empty) }).await;
    let rows = outbox.page(&LetterFilter::default(), None, 100).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].reason.as_str(), rows[0].attempts), ("attempts", 11));
    assert_eq!((rows[0].last_error.as_str(), rows[0].state), ("500", LetterState::Dead));
}

impl<T: TestDb> Outbox<T> {
    async fn page(
        &self,
        filter: &LetterFilter,
        before: Option<&LetterCursor>,
        limit: u32,
    ) -> Vec<DeadLetter> {
        T::Db::dead_letters(&mut *self.conn().await, &self.tables, filter, before, limit).await.unwrap()
    }

    async fn decide(&self, letters: &[(i64, &str)], decision: Decision, by: Option<&str>) -> Vec<LetterKey> {
        let keys: Vec<_> = letters.iter().map(|(id, consumer)| key(*id, consumer)).collect();
        T::Db::decide(&mut *self.conn().await, &self.tables, &keys, decision, by).await.unwrap()
    }

    /// Letters of this consumer for events that are stored or not, all of one moment.
    pub(super) async fn write_letters(&self, consumer: &str, ids: impl IntoIterator<Item = i64>) {
        let rows: Vec<_> =
            ids.into_iter().map(|id| format!("('{consumer}', {id}, 'attempts', 10, 10, '500')")).collect();
        let columns = "(consumer, event_id, reason, attempts, max_attempts, last_error)";
        let table = T::table("dead_letter");
        self.execute(&format!("INSERT INTO {table} {columns} VALUES {}", rows.join(", "))).await;
    }

    async fn letter(&self, id: i64, consumer: &str) -> DeadLetter {
        let filter =
            LetterFilter { consumer: Some(consumer.to_owned()), ids: vec![id], ..Default::default() };
        self.page(&filter, None, 2).await.remove(0)
    }

    async fn count(&self, filter: &LetterFilter) -> u64 {
        let counts = T::Db::dead_letter_counts(&mut *self.conn().await, &self.tables, filter).await.unwrap();
        counts.iter().map(|count| count.letters).sum()
    }
}

fn key(id: i64, consumer: &str) -> LetterKey {
    LetterKey { id, consumer: consumer.to_owned() }
}

/// Letters that failed at the same moment, of two consumers: each comes on exactly one page, in one order.
async fn pages_of_one_moment_leave_nothing_out<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.write_letters("billing", 1..=7).await;
    outbox.write_letters("crm", 1..=7).await;
    let table = T::table("dead_letter");
    outbox.execute(&format!("UPDATE {table} SET failed_at = (SELECT max(failed_at) FROM {table})")).await;
    let (mut seen, mut cursor) = (Vec::new(), None);
    // One page more than there are, so that it ends whatever the cursor does.
    for _ in 0..6 {
        let page = outbox.page(&LetterFilter::default(), cursor.as_ref(), 3).await;
        let Some(last) = page.last() else { break };
        cursor = Some(last.cursor());
        seen.extend(page.iter().map(DeadLetter::key));
    }
    let mut expected: Vec<_> =
        (1..=7).flat_map(|id| ["billing", "crm"].map(|consumer| key(id, consumer))).collect();
    expected.reverse();
    assert_eq!(seen, expected);
}

async fn letters_are_filtered_by_what_they_and_their_events_are<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let tenant = Uuid::from_u128(7);
    let mut events: Vec<_> = ["1", "2", "3", "4"].map(event).into();
    events[1].event_type = "customer_group.created".to_owned();
    events[2].aggregate_type = "order".to_owned();
    events[3].tenant_id = Some(tenant);
    outbox.append_all(&events).await;
    outbox.write_letters("crm", 1..=4).await;
    outbox.write_letters("billing", [9]).await;
    let table = T::table("dead_letter");
    for change in [
        "SET reason = 'rejected' WHERE event_id = 1".to_owned(),
        "SET state = 'discarded' WHERE event_id = 2".to_owned(),
        format!("SET failed_at = failed_at - {} WHERE event_id = 3", T::HOUR),
        "SET acknowledged_at = failed_at WHERE event_id = 4".to_owned(),
    ] {
        outbox.execute(&format!("UPDATE {table} {change}")).await;
    }
    let early = outbox.letter(3, "crm").await.failed_at;
    let after_early = Timestamp::from_micros(early.micros() + 1);
    let all = LetterFilter::default;
    let text = |text: &str| Some(text.to_owned());
    for (filter, expected) in [
        (all(), &[1, 2, 3, 4, 9][..]),
        (LetterFilter { consumer: text("billing"), ..all() }, &[9]),
        (LetterFilter { event_type: TypeFilter::Exact("customer.updated".to_owned()), ..all() }, &[1, 3, 4]),
        (LetterFilter { event_type: TypeFilter::Prefix("customer.".to_owned()), ..all() }, &[1, 3, 4]),
        (LetterFilter { event_type: TypeFilter::Prefix("customer_".to_owned()), ..all() }, &[2]),
        (LetterFilter { event_type: TypeFilter::Prefix("%".to_owned()), ..all() }, &[]),
        (LetterFilter { reason: text("rejected"), ..all() }, &[1]),
        (LetterFilter { state: Some(LetterState::Discarded), ..all() }, &[2]),
        (LetterFilter { tenant_id: Some(tenant), ..all() }, &[4]),
        (LetterFilter { aggregate_type: text("customer"), aggregate_id: text("1"), ..all() }, &[1]),
        (LetterFilter { aggregate_type: text("order"), ..all() }, &[3]),
        (LetterFilter { failed_until: Some(after_early), ..all() }, &[3]),
        (LetterFilter { failed_until: Some(early), ..all() }, &[]),
        (LetterFilter { failed_from: Some(after_early), ..all() }, &[1, 2, 4, 9]),
        (LetterFilter { ids: vec![2, 9, 77], ..all() }, &[2, 9]),
        (LetterFilter { acknowledged: Some(true), ..all() }, &[4]),
        (LetterFilter { acknowledged: Some(false), consumer: text("crm"), ..all() }, &[1, 2, 3]),
    ] {
        let mut ids: Vec<_> = outbox.page(&filter, None, 100).await.iter().map(|row| row.event_id).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{filter:?}");
        assert_eq!(outbox.count(&filter).await, u64::try_from(expected.len()).unwrap(), "{filter:?}");
        let mut conn = outbox.conn().await;
        let keys = T::Db::dead_letter_keys(&mut conn, &outbox.tables, &filter, None, 100).await.unwrap();
        assert_eq!(keys.iter().map(|aged| aged.key.id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
    let event = outbox.letter(4, "crm").await.event.unwrap();
    assert_eq!((event.event_type.as_str(), event.tenant_id), ("customer.updated", Some(tenant)));
    assert_eq!((event.aggregate_type.as_str(), event.aggregate_id.as_deref()), ("customer", Some("4")));
}

async fn letters_are_counted_by_consumer_reason_and_state<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.write_letters("crm", 1..=4).await;
    outbox.write_letters("billing", [1]).await;
    let table = T::table("dead_letter");
    outbox.execute(&format!("UPDATE {table} SET reason = 'rejected' WHERE event_id = 2")).await;
    outbox.decide(&[(3, "crm")], Decision::Discard, None).await;
    outbox.decide(&[(4, "crm")], Decision::Acknowledge, None).await;
    let mut conn = outbox.conn().await;
    let counts =
        T::Db::dead_letter_counts(&mut conn, &outbox.tables, &LetterFilter::default()).await.unwrap();
    let counts: Vec<_> = counts
        .iter()
        .map(|count| {
            (count.consumer.as_str(), count.reason.as_str(), count.state, count.letters, count.acknowledged)
        })
        .collect();
    assert_eq!(
        counts,
        [
            ("billing", "attempts", LetterState::Dead, 1, 0),
            ("crm", "attempts", LetterState::Dead, 2, 1),
            ("crm", "attempts", LetterState::Discarded, 1, 0),
            ("crm", "rejected", LetterState::Dead, 1, 0),
        ]
    );
}

/// By id over all consumers, from behind the key; the age tells which events an inbox may have forgotten.
async fn keys_come_by_id_with_the_age_of_their_event<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(2).await;
    outbox
        .execute(&format!(
            "UPDATE {} SET created_at = created_at - {} WHERE id = 1",
            T::table("event"),
            T::HOUR
        ))
        .await;
    outbox.write_letters("crm", [3, 1, 2]).await;
    outbox.write_letters("billing", [2]).await;
    let mut conn = outbox.conn().await;
    let all = LetterFilter::default();
    let keys = T::Db::dead_letter_keys(&mut conn, &outbox.tables, &all, None, 3).await.unwrap();
    let names: Vec<_> = keys.iter().map(|aged| aged.key.clone()).collect();
    assert_eq!(names, [key(1, "crm"), key(2, "billing"), key(2, "crm")]);
    let hour = Duration::from_secs(3600);
    assert!(keys[0].age.unwrap() >= hour && keys[1].age.unwrap() < hour, "{keys:?}");
    let rest = T::Db::dead_letter_keys(&mut conn, &outbox.tables, &all, Some(&names[1]), 9).await.unwrap();
    assert_eq!(rest.iter().map(|aged| aged.key.clone()).collect::<Vec<_>>(), [key(2, "crm"), key(3, "crm")]);
    assert_eq!(rest[1].age, None, "there is no event 3");
}

/// What is written, and that the second call changes nothing.
async fn a_decision_holds_once<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(2).await;
    outbox.write_letters("crm", [1, 2]).await;
    outbox.write_letters("billing", [1]).await;
    outbox.execute(&format!("UPDATE {} SET recorded = TRUE", T::table("dead_letter"))).await;
    let unrecorded = format!("SELECT count(*) FROM {} WHERE NOT recorded", T::table("dead_letter"));

    assert_eq!(outbox.decide(&[(1, "crm")], Decision::Replay, Some("ada")).await, [key(1, "crm")]);
    let letter = outbox.letter(1, "crm").await;
    assert_eq!((letter.state, letter.decided_by.as_deref()), (LetterState::Replay, Some("ada")));
    assert!(letter.decided_at.is_some());
    assert_eq!(outbox.letter(1, "billing").await.state, LetterState::Dead, "another consumer's letter");
    assert_eq!(T::count(&mut *outbox.conn().await, &unrecorded).await, 1);

    for decision in [Decision::Replay, Decision::Discard, Decision::Acknowledge] {
        assert_eq!(outbox.decide(&[(1, "crm"), (77, "crm")], decision, Some("bob")).await, []);
        assert_eq!(outbox.letter(1, "crm").await, letter, "{decision:?}");
    }
    assert_eq!(
        outbox.decide(&[(2, "crm"), (1, "crm")], Decision::Discard, Some("bob")).await,
        [key(2, "crm")]
    );
    let letter = outbox.letter(2, "crm").await;
    assert_eq!((letter.state, letter.acknowledged_at), (LetterState::Discarded, None));
    assert_eq!(outbox.rows("stall").await, 0);
}

async fn an_acknowledgement_keeps_state_and_name_and_a_replay_takes_it_back<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(2).await;
    outbox.write_letters("crm", [1, 2]).await;
    outbox.decide(&[(2, "crm")], Decision::Discard, Some("ada")).await;
    let both = [(1, "crm"), (2, "crm")];
    let mut done = outbox.decide(&both, Decision::Acknowledge, Some("bob")).await;
    done.sort();
    assert_eq!(done, [key(1, "crm"), key(2, "crm")]);
    let (dead, discarded) = (outbox.letter(1, "crm").await, outbox.letter(2, "crm").await);
    assert_eq!((dead.state, dead.decided_by.as_deref()), (LetterState::Dead, Some("bob")));
    assert_eq!((discarded.state, discarded.decided_by.as_deref()), (LetterState::Discarded, Some("ada")));
    assert!(dead.acknowledged_at.is_some() && discarded.acknowledged_at.is_some());
    assert_eq!(outbox.decide(&both, Decision::Acknowledge, Some("eve")).await, [], "twice");
    outbox.decide(&[(1, "crm")], Decision::Replay, None).await;
    assert_eq!(outbox.letter(1, "crm").await.acknowledged_at, None);
}

async fn what_is_not_stored_cannot_be_replayed<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.write_letters("crm", [1]).await;
    assert_eq!(outbox.decide(&[(1, "crm")], Decision::Replay, None).await, []);
    assert_eq!(outbox.letter(1, "crm").await.state, LetterState::Dead);
    assert_eq!(outbox.decide(&[(1, "crm")], Decision::Discard, None).await, [key(1, "crm")]);
}

/// Two operators with opposite decisions about the same letters, again and again: each letter has one decision.
async fn of_two_operators_one_wins<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(200).await;
    outbox.write_letters("crm", 1..=200).await;
    let decide = async |decision, ids: Vec<i64>| {
        let mut won = 0;
        for chunk in ids.chunks(20) {
            let letters: Vec<_> = chunk.iter().map(|id| (*id, "crm")).collect();
            won += outbox.decide(&letters, decision, None).await.len();
        }
        won
    };
    let (replayed, discarded) = tokio::join!(
        decide(Decision::Replay, (1..=200).collect()),
        decide(Decision::Discard, (1..=200).rev().collect()),
    );
    let count = async |state| outbox.count(&LetterFilter { state: Some(state), ..Default::default() }).await;
    assert_eq!(replayed + discarded, 200);
    assert_eq!(count(LetterState::Replay).await, u64::try_from(replayed).unwrap());
    assert_eq!(count(LetterState::Discarded).await, u64::try_from(discarded).unwrap());
}

async fn a_slot_shows_its_pause_who_wants_it_and_who_could_run_it<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.claimed().await;
    outbox.configure("billing", Some(Start::Earliest), r#"{"filter": ["*"]}"#).await;
    let consumer = T::table("consumer");
    outbox
        .execute(&format!(
            "UPDATE {consumer} SET paused_until = {now} + {hour}, paused_by = 'operator', pause_reason = 'move',
             wanted = 'resize', wanted_until = {now} + {hour}, attempts = 3 WHERE name = 'billing'",
            now = T::NOW,
            hour = T::HOUR
        ))
        .await;
    for (name, seen, consumers) in [
        ("a", "+", r#"{"billing": {"filter": ["*"]}, "crm": {}}"#),
        ("b", "+", r#"{"billing": {"filter": ["x.*"]}}"#),
        ("c", "-", r#"{"billing": {"filter": ["*"]}}"#),
    ] {
        let relay = T::table("relay");
        outbox
            .execute(&format!(
                "INSERT INTO {relay} VALUES ('{name}', {} {seen} {}, '{consumers}')",
                T::NOW,
                T::HOUR
            ))
            .await;
    }
    let rows = T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    let (billing, crm) = (&rows[0], &rows[1]);
    let pause = billing.paused.as_ref().unwrap();
    assert_eq!((pause.by.as_deref(), pause.reason.as_deref()), (Some("operator"), Some("move")));
    assert!(pause.length > Duration::from_secs(3500) && pause.length <= Duration::from_secs(3600));
    assert_eq!(
        (billing.wanted.as_deref(), billing.attempts, billing.owner.as_deref()),
        (Some("resize"), 3, None)
    );
    assert_eq!(
        (billing.able_relays.join(","), billing.other_relays.join(",")),
        ("a".to_owned(), "b".to_owned())
    );
    assert_eq!(
        (crm.paused.as_ref(), crm.wanted.as_deref(), crm.owner.as_deref()),
        (None, None, Some("relay"))
    );
    assert!(crm.lease_for > LONG / 2 && crm.lease_for <= LONG);
    assert_eq!((crm.slots, crm.able_relays.join(",")), (1, "a".to_owned()));
}

/// Holes without a row count for nothing, the cap holds, and a delayed event before its time is not old.
async fn lag_counts_what_has_a_row_and_is_not_settled<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let fence = outbox.claimed().await.fence;
    let lag = async |cap| {
        let lag = T::Db::lag(&mut *outbox.conn().await, &outbox.tables, cap).await.unwrap().remove(0);
        (lag.unsettled, lag.oldest)
    };
    assert_eq!(lag(100).await, (0, None));
    outbox.some_events(10).await;
    let event = T::table("event");
    outbox.execute(&format!("DELETE FROM {event} WHERE id IN (3, 4)")).await;
    outbox.execute(&format!("UPDATE {event} SET created_at = created_at - {} WHERE id <= 5", T::HOUR)).await;
    let empty = Progress::new();
    let fence = outbox
        .settle_done(&Settlement { void: &empty, ..renewal(&fence, &Progress::from_iter([1, 2, 6]), &empty) })
        .await;
    let (unsettled, oldest) = lag(100).await;
    assert_eq!(unsettled, 5, "5, 7, 8, 9, 10");
    assert!(oldest.unwrap() >= Duration::from_secs(3600), "{oldest:?}");
    assert_eq!(lag(2).await.0, 2);
    assert_eq!(lag(2).await.1.unwrap().as_secs() / 60, 60);

    let all: Progress = (1..=10).collect();
    let delayed = Stall { head_id: 5, attempts: 0, single: true, ..stall("[5]", LONG) };
    let fence = outbox.settle_done(&Settlement { stalls: &[delayed], ..renewal(&fence, &all, &empty) }).await;
    assert_eq!(lag(100).await, (0, None), "a delayed event before its time");
    let waiting = Stall { head_id: 7, ..stall("[null,\"customer\",\"1\"]", LONG) };
    outbox.settle_done(&Settlement { stalls: &[waiting], ..renewal(&fence, &all, &empty) }).await;
    let (unsettled, oldest) = lag(100).await;
    assert_eq!(unsettled, 0);
    assert!(oldest.unwrap() < Duration::from_secs(3600), "that of event 7");
}
