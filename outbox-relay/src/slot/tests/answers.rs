//! SEND, ANSWER, SETTLE and FAIL: what goes, and what its answer writes.

use std::time::Duration;

use outbox_sdk::backend::Due;

use super::super::Verdict;
use super::super::settle::Changes;
use super::bench::{A, B, blocking, world};
use super::database::aggregate;
use super::world::{Answer, Fate, Step, World};

#[test]
fn a_lane_has_one_event_on_its_way() {
    let mut world = world();
    world.publish(&[A, A]);
    world.read_all();
    assert_eq!(world.send_all(), [1]);
    assert!(world.slot.next_send().is_none());
}

#[test]
fn an_event_that_was_not_tried_goes_again_first() {
    let mut world = world();
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Unavailable);
    assert!(!world.slot.has_changes());
    assert_eq!(world.slot.rows(), 2);
    assert_eq!(world.send_all(), [1]);

    let mut world = World::resumed();
    world.send_all();
    world.answer_to(1, Answer::Unavailable);
    assert_eq!(world.listed(&aggregate(A)), [1, 2, 3]);
    assert_eq!(world.send_all(), [1]);
    assert_eq!(world.in_flight[0].attempts, 1, "the attempts of the head stay");
}

#[test]
fn a_new_head_begins_with_no_attempts() {
    let mut world = World::resumed();
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.send_all();
    assert_eq!(world.in_flight[0].attempts, 0);
    world.answer_to(2, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((2, 1, false, false)));
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut world = world();
    world.slot.answer(&aggregate(A), Verdict::Delivered, false);
    assert!(!world.slot.has_changes());
}

#[test]
fn the_moment_an_event_began_to_wait_for_its_schema_is_kept() {
    let mut world = world();
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::SchemaMissing);
    world.settle_now();
    world.step(&Step::Crash { received: false });
    world.resume_all(10);
    world.send_all();
    assert!(world.in_flight[0].schema_missing_since.is_some());
    world.answer_to(1, Answer::Delivered);
    world.send_all();
    assert!(world.in_flight[0].schema_missing_since.is_none(), "2 does not wait");
}

#[test]
fn a_failure_is_written_with_all_that_its_row_stands_for() {
    let mut world = world();
    world.publish(&[A, B, A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    assert!(world.slot.has_changes());
    let Changes { stalls, resumed, dead, .. } = world.slot.changes();
    assert_eq!((stalls.len(), resumed.len(), dead.len()), (1, 0, 0));
    assert_eq!(
        (stalls[0].head_id, stalls[0].attempts, stalls[0].due),
        (1, 1, Due::In(Duration::from_secs(1)))
    );
    assert_eq!(world.slot.sets().0.to_multirange(), "{[1,2),[3,4)}");
    assert_eq!((world.slot.rows(), world.slot.bytes(), world.slot.in_flight()), (1, 3, 1));
}

#[test]
fn a_dead_event_lets_its_lane_go_on() {
    let mut world = world();
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    assert!(world.slot.has_changes());
    assert_eq!(world.send_all(), [2]);
    world.settle_now();
    assert!(world.db.dead.contains_key(&1) && world.db.stalls.is_empty());
    assert_eq!(world.db.settled.to_multirange(), "{[1,2)}");

    let mut world = World::resumed();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((2, 0, false, false)));
    assert_eq!(world.send_all(), [2], "the list goes on");
}

#[test]
fn attempts_end() {
    let mut world = world();
    world.publish(&[A]);
    world.read_all();
    for attempts in 1..=2 {
        world.send_all();
        world.answer_to(1, Answer::Retry);
        world.settle_now();
        assert_eq!(world.row(&aggregate(A)), Some((1, attempts, false, false)));
        world.resume_all(10);
    }
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert!(world.db.dead.contains_key(&1) && world.db.stalls.is_empty());
}

#[test]
fn a_dead_head_can_block_its_lane() {
    let mut world = blocking();
    world.publish(&[A, A, B]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    assert!(world.db.dead.contains_key(&1));
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, true, false)));
    world.publish(&[A]);
    world.read_all();
    world.slot.due(&aggregate(A));
    assert!(!world.slot.may_resume(), "only an operator ends it");
    world.step(&Step::Crash { received: false });
    world.read_all();
    world.resume_all(10);
    assert_eq!(world.send_all(), [3], "only the other lane goes on");
    world.finish();
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, true, false)));
}

#[test]
fn nothing_is_forgotten_before_the_commit_is_known() {
    let mut world = world();
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.step(&Step::Settle(Fate::Lost));
    assert!(world.slot.has_changes());
    assert!(world.db.stalls.is_empty());
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)));
    world.publish(&[B]);
    world.read_all();
    world.send_all();
    world.answer_to(3, Answer::Delivered);
    world.step(&Step::Settle(Fate::Applied));
    world.settle_now();
    assert!(!world.slot.has_changes());
    world.finish();
}
