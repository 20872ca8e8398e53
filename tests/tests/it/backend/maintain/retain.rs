//! Retention: what is deleted, and what stays.

use std::time::Duration;

use outbox_sdk::backend::{Compaction, Keep, Maintain};
use outbox_tests::on_every_database;

use super::{DAY, Stage, compaction, event, keep, lane};
use crate::databases::TestDb;

on_every_database! {
    what_was_dispatched_long_ago_goes
    days_count_from_the_dispatch
    what_is_pending_stays
    nothing_goes_while_nobody_is_registered
    a_consumer_that_was_added_later_keeps_what_it_has_not_had
    a_reset_consumer_keeps_what_it_gets_again
    a_paused_consumer_keeps_what_it_has_not_had
    every_slot_keeps_what_it_has_not_settled
    a_parked_lane_keeps_its_events
    a_single_row_keeps_its_event
    a_dead_gap_is_kept
    a_required_consumer_that_is_not_registered_keeps_everything
    a_removed_consumer_keeps_nothing_but_its_dead_letters
    a_dead_event_stays_until_it_was_acknowledged_long_ago
    every_dead_letter_must_be_acknowledged
    an_acknowledged_event_stays_for_a_consumer_that_lacks_it
    a_discarded_event_stays_until_it_was_acknowledged
    a_requested_replay_keeps_its_event
    a_failed_event_whose_letters_are_gone_stays
    a_dead_letter_that_is_not_recorded_yet_keeps_its_event
    deleted_events_take_their_dead_letters_along
    each_type_has_its_days
    the_first_rule_that_fits_holds
    without_a_rule_an_event_is_kept
    without_a_recorder_the_age_counts
    batches_go_on_from_a_position
    a_stray_young_row_does_not_end_the_walk
    what_a_batch_has_deleted_stays_deleted_after_a_crash
}

async fn what_was_dispatched_long_ago_goes<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "a"]).await;
    stage.consumer("crm", 4).await;
    stage.record().await;
    assert_eq!(stage.compact().await, [1, 2, 3], "they are young");
    stage.days_pass(9).await;
    assert_eq!(stage.compact().await, [1, 2, 3]);
    stage.days_pass(2).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn days_count_from_the_dispatch<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    stage.days_pass(20).await;
    stage.record().await;
    assert_eq!(stage.compact().await, [1], "dispatched a moment ago");
    stage.days_pass(11).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn what_is_pending_stays<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.days_pass(20).await;
    assert_eq!(stage.compact().await, [1, 2]);
}

/// Two events, recorded, and older than any rule.
async fn old<T: TestDb>() -> Stage<T> {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.record().await;
    stage.days_pass(20).await;
    stage
}

async fn nothing_goes_while_nobody_is_registered<T: TestDb>() {
    let stage = old::<T>().await;
    stage.remove("crm").await;
    assert_eq!(stage.compact().await, [1, 2]);
    let keep = keep(10);
    let by_age = Compaction { recorder: false, ..compaction(&keep) };
    assert_eq!(stage.compact_with(&by_age).await, [1, 2]);
}

async fn a_consumer_that_was_added_later_keeps_what_it_has_not_had<T: TestDb>() {
    let stage = old::<T>().await;
    stage.consumer("billing", 1).await;
    assert_eq!(stage.compact().await, [1, 2]);
    stage.settled("billing", &[(2, 3)]).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_reset_consumer_keeps_what_it_gets_again<T: TestDb>() {
    let stage = old::<T>().await;
    stage.settled("crm", &[(1, 2)]).await;
    assert_eq!(stage.compact().await, [2]);
}

async fn a_paused_consumer_keeps_what_it_has_not_had<T: TestDb>() {
    let stage = old::<T>().await;
    stage.consumer("billing", 2).await;
    let pause = format!(
        "UPDATE {} SET paused_by = 'operator', paused_until = (SELECT max(created_at) FROM {}) + 10000 * {} \
         WHERE name = 'billing'",
        T::table("consumer"),
        T::table("event"),
        T::HOUR
    );
    stage.outbox.execute(&pause).await;
    assert_eq!(stage.compact().await, [2]);
}

async fn every_slot_keeps_what_it_has_not_settled<T: TestDb>() {
    let stage = old::<T>().await;
    stage.slot("crm", 1, &[(2, 3)]).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_parked_lane_keeps_its_events<T: TestDb>() {
    let stage = old::<T>().await;
    stage.stall("crm", &lane("b"), 1, false).await;
    assert_eq!(stage.compact().await, [2]);
    stage.no_stalls().await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn a_single_row_keeps_its_event<T: TestDb>() {
    let stage = old::<T>().await;
    stage.stall("crm", &outbox_sdk::Lane::Single(1), 1, false).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_dead_gap_is_kept<T: TestDb>() {
    let stage = old::<T>().await;
    stage.consumer("billing", 3).await;
    stage.void("billing", &[(1, 2)]).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_required_consumer_that_is_not_registered_keeps_everything<T: TestDb>() {
    let stage = old::<T>().await;
    let (keep, required) = (keep(10), ["crm".to_owned(), "audit".to_owned()]);
    let guarded = Compaction { required: &required, ..compaction(&keep) };
    assert_eq!(stage.compact_with(&guarded).await, [1, 2]);
    stage.consumer("audit", 2).await;
    assert_eq!(stage.compact_with(&guarded).await, [2]);
}

async fn a_removed_consumer_keeps_nothing_but_its_dead_letters<T: TestDb>() {
    let stage = old::<T>().await;
    stage.consumer("billing", 1).await;
    stage.letter("billing", 2, "dead", 1).await;
    stage.remove("billing").await;
    stage.record().await;
    assert_eq!(stage.compact().await, [2], "nobody has acknowledged it");
    stage.days_pass(20).await;
    stage.acknowledged("billing", 2, 11).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

/// Event 1 is dead for `crm`, recorded, and older than any rule.
async fn dead<T: TestDb>(state: &str) -> Stage<T> {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.letter("crm", 1, state, 1).await;
    stage.record().await;
    stage.days_pass(20).await;
    stage
}

async fn a_dead_event_stays_until_it_was_acknowledged_long_ago<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    assert_eq!(stage.compact().await, [1]);
    let now = stage.outbox.append(&event("c")).await.id;
    stage.acknowledged("crm", 1, 9).await;
    assert_eq!(stage.compact().await, [1, now]);
    stage.acknowledged("crm", 1, 11).await;
    assert_eq!(stage.compact().await, [now]);
}

async fn every_dead_letter_must_be_acknowledged<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    stage.consumer("billing", 3).await;
    stage.letter("billing", 1, "dead", 1).await;
    stage.record().await;
    stage.acknowledged("crm", 1, 11).await;
    assert_eq!(stage.compact().await, [1]);
    stage.acknowledged("billing", 1, 11).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn an_acknowledged_event_stays_for_a_consumer_that_lacks_it<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    stage.acknowledged("crm", 1, 11).await;
    stage.consumer("billing", 1).await;
    assert_eq!(stage.compact().await, [1, 2]);
    stage.settled("billing", &[(1, 3)]).await;
    stage.stall("billing", &lane("a"), 1, false).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_discarded_event_stays_until_it_was_acknowledged<T: TestDb>() {
    let stage = dead::<T>("discarded").await;
    assert_eq!(stage.statuses().await[0], "skipped");
    assert_eq!(stage.compact().await, [1]);
    stage.acknowledged("crm", 1, 11).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn a_requested_replay_keeps_its_event<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    stage.acknowledged("crm", 1, 11).await;
    stage.decide("crm", 1, "replay").await;
    assert_eq!(stage.compact().await, [1]);
    stage.record().await;
    assert_eq!(stage.compact().await, [1]);
    stage.decide("crm", 1, "replayed").await;
    stage.record().await;
    stage.days_pass(11).await;
    assert_eq!(stage.compact().await, [0; 0]);
}

async fn a_failed_event_whose_letters_are_gone_stays<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    stage.outbox.execute(&format!("DELETE FROM {}", T::table("dead_letter"))).await;
    assert_eq!(stage.compact().await, [1]);
}

async fn a_dead_letter_that_is_not_recorded_yet_keeps_its_event<T: TestDb>() {
    let stage = old::<T>().await;
    stage.letter("crm", 2, "dead", 1).await;
    assert_eq!(stage.compact().await, [2]);
}

async fn deleted_events_take_their_dead_letters_along<T: TestDb>() {
    let stage = dead::<T>("dead").await;
    stage.consumer("billing", 3).await;
    stage.letter("billing", 1, "replayed", 1).await;
    stage.letter("crm", 99, "dead", 1).await;
    stage.record().await;
    stage.acknowledged("crm", 1, 11).await;
    let attempts = T::table("delivery_attempt");
    let insert = format!(
        "INSERT INTO {attempts} (event_id, consumer, attempt, replay, outcome, ended_at, duration_us) \
         SELECT id, 'crm', 1, FALSE, 'failed', created_at, 0 FROM {}",
        T::table("event")
    );
    stage.outbox.execute(&insert).await;
    assert_eq!(stage.compact().await, [0; 0]);
    assert_eq!(stage.outbox.rows("delivery_attempt").await, 0);
    let left = format!("SELECT consumer || event_id FROM {} ORDER BY 1", T::table("dead_letter"));
    assert_eq!(stage.texts(&left).await, ["crm99"]);
    assert_eq!(stage.outbox.rows("consumer").await, 2);
}

fn of_type(event_type: &str) -> outbox_sdk::NewEnvelope {
    let mut event = event("a");
    event_type.clone_into(&mut event.event_type);
    event
}

fn rule(stem: &str, exact: bool, days: u32) -> Keep {
    Keep { stem: stem.to_owned(), exact, length: DAY * days }
}

/// The event types that are left after so many days.
async fn left_after<T: TestDb>(types: &[&str], rules: &[Keep], days: i64) -> Vec<String> {
    let events: Vec<_> = types.iter().map(|event_type| of_type(event_type)).collect();
    let stage = Stage::<T>::with_events(&events).await;
    stage.consumer("crm", i64::try_from(types.len()).unwrap() + 1).await;
    stage.record().await;
    stage.days_pass(days).await;
    stage.compact_with(&compaction(rules)).await;
    stage.texts(&format!("SELECT event_type FROM {} ORDER BY id", T::table("event"))).await
}

async fn each_type_has_its_days<T: TestDb>() {
    let types = [
        "order.placed",
        "order.placed_again",
        "order.line.added",
        "order",
        "orders.placed",
        "a_b.c",
        "axb.c",
    ];
    let rules = [
        rule("order.placed", true, 40),
        rule("a_b.", false, 30),
        rule("order.", false, 20),
        rule("", false, 10),
    ];
    assert_eq!(left_after::<T>(&types, &rules, 5).await, types);
    let after_15 = ["order.placed", "order.placed_again", "order.line.added", "a_b.c"];
    assert_eq!(left_after::<T>(&types, &rules, 15).await, after_15);
    assert_eq!(left_after::<T>(&types, &rules, 25).await, ["order.placed", "a_b.c"]);
    assert_eq!(left_after::<T>(&types, &rules, 35).await, ["order.placed"]);
    assert_eq!(left_after::<T>(&types, &rules, 45).await, [""; 0]);
}

async fn the_first_rule_that_fits_holds<T: TestDb>() {
    // Also where it is the shorter one, and beside a name that is only a prefix without its dot.
    let rules = [rule("order.placed", true, 1), rule("order.", false, 30)];
    assert_eq!(left_after::<T>(&["order.placed", "order.shipped"], &rules, 15).await, ["order.shipped"]);
    assert_eq!(left_after::<T>(&["order."], &rules, 40).await, ["order."], "one more character must follow");
}

async fn without_a_rule_an_event_is_kept<T: TestDb>() {
    assert_eq!(left_after::<T>(&["order.placed"], &[], 4_000).await, ["order.placed"]);
    let rules = [rule("order.", false, 1)];
    assert_eq!(left_after::<T>(&["order.placed", "user.left"], &rules, 40).await, ["user.left"]);
}

async fn without_a_recorder_the_age_counts<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d", "e"]).await;
    stage.consumer("crm", 5).await;
    stage.stall("crm", &lane("b"), 2, false).await;
    stage.letter("crm", 3, "dead", 1).await;
    stage.letter("crm", 4, "replayed", 1).await;
    let keep = keep(10);
    let by_age = Compaction { recorder: false, ..compaction(&keep) };
    stage.days_pass(9).await;
    assert_eq!(stage.compact_with(&by_age).await, [1, 2, 3, 4, 5]);
    stage.days_pass(2).await;
    assert_eq!(stage.compact_with(&by_age).await, [2, 3, 5], "parked, dead, unsettled");
    stage.acknowledged("crm", 3, 11).await;
    assert_eq!(stage.compact_with(&by_age).await, [2, 5]);
}

async fn batches_go_on_from_a_position<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d", "e"]).await;
    stage.consumer("crm", 6).await;
    stage.stall("crm", &lane("b"), 2, false).await;
    stage.record().await;
    stage.days_pass(20).await;
    let keep = keep(10);
    let mut batch = Compaction { limit: 2, ..compaction(&keep) };
    let mut answers = Vec::new();
    loop {
        let compacted = stage.compact_batch(&batch).await;
        answers.push((compacted.deleted, compacted.scanned));
        assert!(compacted.done || compacted.position > batch.position, "{compacted:?}");
        let stored =
            format!("SELECT CAST(position AS text) FROM {} WHERE name = 'retention'", T::table("duty"));
        assert_eq!(stage.texts(&stored).await, [compacted.position.to_string()]);
        batch.position = compacted.position;
        if compacted.done {
            break;
        }
    }
    assert_eq!(answers[..2], [(1, 2), (2, 2)]);
    assert_eq!(answers.iter().map(|(deleted, _)| deleted).sum::<u64>(), 4);
    assert_eq!(stage.stored_ids().await, [2]);
}

async fn a_stray_young_row_does_not_end_the_walk<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d", "e", "f", "g"]).await;
    stage.consumer("crm", 8).await;
    stage.record().await;
    stage.days_pass(20).await;
    // Somebody wrote a time of his own; the last three are young indeed.
    let event = T::table("event");
    let younger = format!(
        "UPDATE {event} SET created_at = created_at + 24 * 400 * {} WHERE id IN (1, 5, 6, 7)",
        T::HOUR
    );
    stage.outbox.execute(&younger).await;
    let keep = keep(10);
    let mut batch = Compaction { limit: 2, ..compaction(&keep) };
    let mut scanned = 0;
    loop {
        let compacted = stage.compact_batch(&batch).await;
        (batch.position, scanned) = (compacted.position, scanned + compacted.scanned);
        if compacted.done {
            break;
        }
    }
    assert_eq!(stage.stored_ids().await, [1, 5, 6, 7]);
    assert_eq!(scanned, 6, "it ended where all were young");
}

async fn what_a_batch_has_deleted_stays_deleted_after_a_crash<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d"]).await;
    stage.consumer("crm", 5).await;
    stage.record().await;
    stage.days_pass(20).await;
    let keep = keep(10);
    let batch = Compaction { limit: 2, hold: Duration::ZERO, ..compaction(&keep) };
    stage.compact_batch(&batch).await;
    // The next one takes the duty over where the first one stopped.
    let mut conn = stage.outbox.conn().await;
    let duty = outbox_sdk::backend::Duty::Retention;
    let taken = T::Db::take_duty(&mut *conn, &stage.outbox.tables, duty, DAY, false).await.unwrap();
    drop(conn);
    assert_eq!(taken, Some(3));
    assert_eq!(stage.stored_ids().await, [3, 4]);
    stage.compact_batch(&Compaction { position: 3, ..batch }).await;
    assert_eq!(stage.stored_ids().await, [0; 0]);
}
