//! The recorder: which events get which status, and which are held.

use std::time::Duration;

use outbox_sdk::backend::{Maintain, Overdue, Recorded, Recording};
use outbox_tests::on_every_database;
use uuid::Uuid;

use super::{Stage, dispatched, event, lane, recording};
use crate::databases::TestDb;

on_every_database! {
    what_all_have_settled_is_dispatched
    nothing_is_recorded_while_nobody_is_registered
    a_consumer_that_is_behind_holds_everything_above
    every_slot_must_have_settled
    a_parked_lane_holds_its_events_and_no_others
    a_single_row_holds_its_event_alone
    a_blocked_lane_holds_also_its_dead_head
    stall_rows_of_a_removed_consumer_hold_nothing
    a_dead_event_has_failed_with_its_newest_error
    dead_counts_before_discarded_and_discarded_before_delivered
    letters_of_a_removed_consumer_say_nothing
    a_change_of_a_letter_brings_its_event_back
    a_letter_waits_until_all_have_its_event
    a_dead_gap_is_not_recorded_until_it_was_swept
    a_pass_goes_on_in_batches_and_comes_back_to_what_was_held
    without_a_wrap_only_new_events_are_looked_at
    many_letters_are_taken_in_batches
    ids_without_a_row_are_done_with
    a_letter_without_its_event_does_not_stay
    a_new_consumer_changes_no_status
    the_recorder_rests_between_batches
    ids_that_were_started_again_are_recorded_after_a_reset
    a_reset_leaves_a_status_that_is_right
    what_should_have_been_recorded_long_ago_is_overdue
}

async fn what_all_have_settled_is_dispatched<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "a"]).await;
    stage.consumer("crm", 4).await;
    assert_eq!(stage.record().await, dispatched(3, 0));
    assert_eq!(stage.statuses().await, ["dispatched"; 3]);
    let event = T::table("event");
    let by_the_clock = format!(
        "SELECT count(*) FROM {event} WHERE dispatched_at >= created_at AND last_error IS NULL AND attempts = 0"
    );
    assert_eq!(T::count(&mut *stage.outbox.conn().await, &by_the_clock).await, 3);
    assert_eq!(stage.record().await, dispatched(0, 0), "once is enough");
}

async fn nothing_is_recorded_while_nobody_is_registered<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    stage.letter("gone", 1, "dead", 1).await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    assert_eq!(stage.statuses().await, ["pending"; 2]);
    stage.consumer("crm", 3).await;
    assert_eq!(stage.record().await, dispatched(2, 0), "nothing was taken for done");
}

async fn a_consumer_that_is_behind_holds_everything_above<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d"]).await;
    stage.consumer("crm", 5).await;
    stage.consumer("billing", 1).await;
    stage.settled("billing", &[(1, 2), (3, 4)]).await;
    assert_eq!(stage.record().await.dispatched, 2);
    assert_eq!(stage.statuses().await, ["dispatched", "pending", "dispatched", "pending"]);
    stage.settled("billing", &[(1, 5)]).await;
    assert_eq!(stage.record().await.dispatched, 2, "also what lay below");
}

async fn every_slot_must_have_settled<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c"]).await;
    stage.consumer("crm", 4).await;
    stage.slot("crm", 1, &[(1, 2), (3, 4)]).await;
    stage.record().await;
    assert_eq!(stage.statuses().await, ["dispatched", "pending", "dispatched"]);
}

async fn a_parked_lane_holds_its_events_and_no_others<T: TestDb>() {
    let mut delayed = event("a");
    delayed.delay = Some(Duration::from_secs(60));
    let mut of_a_tenant = event("a");
    of_a_tenant.tenant_id = Some(Uuid::from_u128(7));
    let mut of_nothing = event("a");
    of_nothing.aggregate_id = None;
    let events = [event("a"), event("a"), event("b"), event("a"), delayed, of_a_tenant, of_nothing];
    let stage = Stage::<T>::with_events(&events).await;
    stage.consumer("crm", 8).await;
    stage.consumer("billing", 8).await;
    stage.stall("billing", &lane("a"), 2, false).await;
    assert_eq!(stage.record().await, dispatched(5, 2));
    let held: Vec<_> = stage.statuses().await.iter().map(|status| status == "pending").collect();
    assert_eq!(held, [false, true, false, true, false, false, false]);
    stage.no_stalls().await;
    assert_eq!(stage.record().await, dispatched(2, 0), "what was held is looked at again");
}

async fn a_single_row_holds_its_event_alone<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "a", "a"]).await;
    stage.consumer("crm", 4).await;
    stage.stall("crm", &outbox_sdk::Lane::Single(2), 2, false).await;
    assert_eq!(stage.record().await, dispatched(2, 1));
    assert_eq!(stage.statuses().await, ["dispatched", "pending", "dispatched"]);
    // Beside a waiting lane, each holds what it stands for.
    stage.stall("crm", &lane("a"), 3, false).await;
    assert_eq!(stage.record().await, dispatched(0, 1));
}

async fn a_blocked_lane_holds_also_its_dead_head<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "a", "a"]).await;
    stage.consumer("crm", 4).await;
    stage.letter("crm", 2, "dead", 1).await;
    stage.stall("crm", &lane("a"), 2, true).await;
    assert_eq!(stage.record().await, dispatched(1, 2));
    assert_eq!(stage.statuses().await, ["dispatched", "pending", "pending"]);
}

async fn stall_rows_of_a_removed_consumer_hold_nothing<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    stage.stall("gone", &lane("a"), 1, false).await;
    assert_eq!(stage.record().await, dispatched(1, 0));
}

async fn a_dead_event_has_failed_with_its_newest_error<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    stage.consumer("billing", 2).await;
    stage.consumer("audit", 2).await;
    stage.letter("billing", 1, "dead", 3).await;
    stage.letter("crm", 1, "replay", 2).await;
    stage.letter("audit", 1, "reset", 1).await;
    let recorded = stage.record().await;
    assert_eq!(recorded, Recorded { failed: 1, complete: true, ..Recorded::default() });
    let event = T::table("event");
    let written = format!(
        "SELECT last_error || attempts FROM {event} WHERE status = 'failed' AND dispatched_at IS NULL"
    );
    assert_eq!(stage.texts(&written).await, ["no: crm2"]);
    let unrecorded = format!("SELECT consumer FROM {} WHERE NOT recorded", T::table("dead_letter"));
    assert!(stage.texts(&unrecorded).await.is_empty());
}

async fn dead_counts_before_discarded_and_discarded_before_delivered<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d"]).await;
    stage.consumer("crm", 5).await;
    stage.consumer("billing", 5).await;
    stage.letter("crm", 1, "discarded", 1).await;
    stage.letter("billing", 1, "dead", 2).await;
    stage.letter("crm", 2, "discarded", 2).await;
    stage.letter("billing", 2, "replayed", 1).await;
    stage.letter("crm", 3, "replayed", 1).await;
    stage.letter("crm", 4, "reset", 1).await;
    let recorded = stage.record().await;
    assert_eq!((recorded.dispatched, recorded.failed, recorded.skipped), (2, 1, 1));
    assert_eq!(stage.statuses().await, ["failed", "skipped", "dispatched", "dispatched"]);
}

async fn letters_of_a_removed_consumer_say_nothing<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.letter("gone", 1, "dead", 1).await;
    stage.letter("gone", 2, "discarded", 1).await;
    assert_eq!(stage.record().await, dispatched(2, 0));
}

async fn a_change_of_a_letter_brings_its_event_back<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.letter("crm", 1, "dead", 1).await;
    stage.record().await;
    let mut seen = stage.statuses().await;
    for (state, changes) in [("replay", 0), ("replayed", 1), ("dead", 1), ("discarded", 1)] {
        stage.decide("crm", 1, state).await;
        let recorded = stage.record().await;
        assert_eq!((recorded.decided(), recorded.held), (changes, 0), "{state}");
        seen.push(stage.statuses().await.swap_remove(0));
    }
    assert_eq!(seen, ["failed", "dispatched", "failed", "dispatched", "failed", "skipped"]);
    assert_eq!(stage.record().await, dispatched(0, 0));
}

async fn a_letter_waits_until_all_have_its_event<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    stage.record().await;
    // A consumer that begins later fails on an old event; another one has not had it yet.
    stage.consumer("billing", 2).await;
    stage.consumer("audit", 1).await;
    stage.letter("billing", 1, "dead", 1).await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    assert_eq!(stage.statuses().await, ["dispatched"]);
    stage.settled("audit", &[(1, 2)]).await;
    stage.stall("audit", &lane("a"), 1, false).await;
    assert_eq!(stage.record().await, dispatched(0, 1));
    stage.no_stalls().await;
    stage.record().await;
    assert_eq!(stage.statuses().await, ["failed"]);
}

async fn a_dead_gap_is_not_recorded_until_it_was_swept<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c"]).await;
    stage.consumer("crm", 4).await;
    stage.consumer("billing", 4).await;
    stage.void("billing", &[(2, 3)]).await;
    assert_eq!(stage.record().await, dispatched(2, 0));
    assert_eq!(stage.statuses().await, ["dispatched", "pending", "dispatched"]);
    stage.void("billing", &[]).await;
    assert_eq!(stage.record().await, dispatched(1, 0), "it was not taken for done");
}

async fn a_pass_goes_on_in_batches_and_comes_back_to_what_was_held<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "a", "b", "a"]).await;
    stage.consumer("crm", 6).await;
    stage.stall("crm", &lane("a"), 1, false).await;
    let mut batches = Vec::new();
    while batches.last().is_none_or(|last: &Recorded| !last.complete) {
        batches.push(stage.record_batch(recording(2)).await.unwrap());
        assert!(batches.len() < 9, "{batches:?}");
    }
    let counts: Vec<_> = batches.iter().map(|batch| (batch.dispatched, batch.held)).collect();
    assert_eq!(counts, [(1, 1), (1, 1), (0, 1)]);
    let again = stage.record_batch(recording(2)).await.unwrap();
    assert_eq!((again.dispatched, again.held, again.complete), (0, 2, false), "from the beginning");
    stage.no_stalls().await;
    while !stage.record_batch(recording(2)).await.unwrap().complete {}
    stage.record().await;
    assert_eq!(stage.statuses().await, ["dispatched"; 5]);
}

async fn without_a_wrap_only_new_events_are_looked_at<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.stall("crm", &lane("a"), 1, false).await;
    let onward = Recording { wrap: false, ..recording(10) };
    assert_eq!(stage.record_batch(onward).await, Some(dispatched(1, 1)));
    assert_eq!(stage.record_batch(onward).await, Some(dispatched(0, 0)), "what is held is left alone");
    stage.outbox.append_all(&[event("b")]).await;
    stage.settled("crm", &[(1, 4)]).await;
    assert_eq!(stage.record_batch(onward).await, Some(dispatched(1, 0)));
    assert_eq!(stage.record_batch(recording(10)).await, Some(dispatched(0, 0)));
    assert_eq!(stage.record_batch(onward).await, Some(dispatched(0, 1)), "and then comes again");
}

async fn many_letters_are_taken_in_batches<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d", "e"]).await;
    stage.consumer("crm", 6).await;
    stage.record().await;
    for id in [1, 2, 4, 5] {
        stage.letter("crm", id, "dead", 1).await;
    }
    let mut failed = Vec::new();
    loop {
        let batch = stage.record_batch(recording(2)).await.unwrap();
        failed.push(batch.failed);
        if batch.complete {
            break;
        }
    }
    assert_eq!(failed, [2, 2, 0]);
    assert_eq!(stage.statuses().await, ["failed", "failed", "dispatched", "failed", "failed"]);
}

async fn ids_without_a_row_are_done_with<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c"]).await;
    stage.consumer("crm", 4).await;
    stage.outbox.execute(&format!("DELETE FROM {} WHERE id = 2", T::table("event"))).await;
    stage.record().await;
    let done = format!("SELECT CAST(done AS text) FROM {} WHERE name = 'recorder'", T::table("duty"));
    assert_eq!(stage.texts(&done).await, [super::ids::<T>(&[(1, 4)])]);
}

async fn a_letter_without_its_event_does_not_stay<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.record().await;
    stage.outbox.execute(&format!("DELETE FROM {} WHERE id = 1", T::table("event"))).await;
    stage.letter("crm", 1, "dead", 1).await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    let unrecorded = format!("SELECT consumer FROM {} WHERE NOT recorded", T::table("dead_letter"));
    assert!(stage.texts(&unrecorded).await.is_empty());
}

async fn a_new_consumer_changes_no_status<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.record().await;
    stage.consumer("billing", 1).await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    assert_eq!(stage.statuses().await, ["dispatched"; 2]);
}

async fn the_recorder_rests_between_batches<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    let when_due = Recording { if_due: true, ..recording(10) };
    assert_eq!(stage.record_batch(when_due).await, Some(dispatched(1, 0)));
    let pause = format!("UPDATE {} SET due_at = due_at + {}", T::table("duty"), T::HOUR);
    stage.outbox.execute(&pause).await;
    assert_eq!(stage.record_batch(when_due).await, None);
    assert_eq!(stage.record_batch(recording(10)).await, Some(dispatched(0, 0)), "who must, may");
    outbox_tests::eventually("the rest is over", async || stage.record_batch(when_due).await.is_some()).await;
}

async fn ids_that_were_started_again_are_recorded_after_a_reset<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c"]).await;
    stage.consumer("crm", 4).await;
    stage.record().await;
    let at_the_end = Recording { wrap: false, ..recording(10) };
    assert_eq!(stage.record_batch(at_the_end).await, Some(dispatched(0, 0)));
    stage.outbox.execute(&format!("UPDATE {} SET position = 4", T::table("duty"))).await;

    stage.outbox.execute(T::START_IDS_AGAIN).await;
    stage.outbox.append_all(&[event("a"), event("b")]).await;
    stage.reset("crm", 1).await;
    let positions = format!("SELECT CAST(position AS text) FROM {} ORDER BY name", T::table("duty"));
    assert_eq!(stage.texts(&positions).await, ["1", "1"]);
    stage.settled("crm", &[(1, 3)]).await;
    assert_eq!(stage.record_batch(at_the_end).await, Some(dispatched(2, 0)));
    assert_eq!(stage.statuses().await, ["dispatched"; 2]);
}

async fn a_reset_leaves_a_status_that_is_right<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d"]).await;
    stage.consumer("crm", 5).await;
    stage.consumer("billing", 5).await;
    stage.letter("billing", 2, "dead", 1).await;
    stage.letter("crm", 3, "dead", 1).await;
    stage.record().await;
    let versions = format!("SELECT {} FROM {} ORDER BY id", T::ROW_VERSION, T::table("event"));
    let before = stage.texts(&versions).await;
    stage.reset("crm", 1).await;
    assert_eq!(stage.record().await, dispatched(0, 0), "crm has nothing of it");
    stage.settled("crm", &[(1, 5)]).await;
    // 3 is not dead any more; the others are as they were, and are not written.
    assert_eq!(stage.record().await, dispatched(1, 0));
    assert_eq!(stage.statuses().await, ["dispatched", "failed", "dispatched", "dispatched"]);
    let after = stage.texts(&versions).await;
    let written: Vec<_> = (0..4).filter(|at| before[*at] != after[*at]).collect();
    assert_eq!(written, [2]);
    // A letter about to be replayed has failed as before.
    stage.decide("billing", 2, "replay").await;
    assert_eq!(stage.record().await, dispatched(0, 0));
    assert_eq!(stage.texts(&versions).await, after);
}

async fn what_should_have_been_recorded_long_ago_is_overdue<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b", "c", "d", "e", "f", "g"]).await;
    stage.consumer("crm", 7).await;
    stage.stall("crm", &lane("b"), 2, false).await;
    stage.letter("crm", 3, "dead", 1).await;
    stage.letter("crm", 4, "discarded", 1).await;
    stage.void("crm", &[(5, 6)]).await;
    let overdue = async || {
        let after = Duration::from_secs(600);
        T::Db::overdue(&mut *stage.outbox.conn().await, &stage.outbox.tables, after).await.unwrap()
    };
    assert_eq!(overdue().await, Overdue::default(), "they are young");
    let older = format!("UPDATE {} SET created_at = created_at - {}", T::table("event"), T::HOUR);
    stage.outbox.execute(&older).await;
    // Not the parked, dead, given up or unsettled ones.
    stage.outbox.execute(&format!("UPDATE {} SET available_at = created_at", T::table("event"))).await;
    assert_eq!(overdue().await, Overdue { events: 3, first_id: Some(1) });
    stage.record().await;
    assert_eq!(overdue().await, Overdue::default());
}
