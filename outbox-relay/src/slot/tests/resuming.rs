//! RESUME and HANDBACK: how a stalled lane comes back.

use super::bench::{A, B, unordered, world};
use super::database::aggregate;
use super::world::{Answer, Fate, NO_AGGREGATE, Step, World};

#[test]
fn a_lane_read_leaves_out_open_gaps_and_what_goes_alone() {
    let mut world = world();
    world.publish(&[A]);
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.step(&Step::Commit(0));
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1, 3], "2 is visible, but the normal path has not read it");
    world.finish();

    // A consumer that had no order and has one now: 2 waits alone, 1 stalls its aggregate.
    let mut world = unordered();
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Retry);
    world.step(&Step::Reorder);
    world.commit(0);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)));
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1]);
    world.finish();
}

#[test]
fn a_stall_row_stands_for_its_lane_when_the_order_is_given_up() {
    let mut world = World::resumed();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.step(&Step::Reorder);
    world.publish(&[A, B, B]);
    world.read_all();
    assert_eq!(world.send_all(), [5, 6]);
    world.finish();
}

#[test]
fn lanes_that_come_back_and_others_take_turns() {
    let mut world = world();
    world.publish(&[NO_AGGREGATE; 4]);
    world.read_all();
    world.send_all();
    for id in 1..=4 {
        world.answer_to(id, Answer::Retry);
    }
    world.settle_now();
    world.resume_all(10);
    world.publish(&[NO_AGGREGATE; 4]);
    world.read_all();
    world.send_all();
    let order: Vec<i64> = world.in_flight.iter().map(|send| send.event.id()).collect();
    let come_back = |ids: &[i64]| ids.iter().filter(|id| **id <= 4).count();
    assert_eq!((order.len(), come_back(&order[..2]), come_back(&order[..6])), (8, 1, 3), "{order:?}");
    world.finish();
}

#[test]
fn a_full_page_is_followed_by_another() {
    let mut world = World::resumed();
    world.step(&Step::Crash { received: false });
    world.step(&Step::Wake);
    world.step(&Step::Resume { limit: 2, fails: false });
    assert_eq!(world.listed(&aggregate(A)), [1, 2]);
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.send_all();
    world.answer_to(2, Answer::Delivered);
    assert!(world.slot.lanes[&aggregate(A)].stall.is_some(), "3 was not read yet");
    assert_eq!(world.slot.next_resume(), Some((aggregate(A), 3)));
}

#[test]
fn a_page_of_unwanted_events_does_not_end_the_lane() {
    let mut world = world();
    world.publish(&[A]);
    for _ in 0..3 {
        world.step(&Step::Insert {
            writer: 0,
            aggregate: A,
            locked: false,
            wanted: false,
            delay: 0,
            size: 3,
        });
    }
    world.commit(0);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.resume_all(1);
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.resume_all(1);
    assert_eq!(world.send_all(), [5]);
}

#[test]
fn a_failed_lane_read_is_asked_for_again() {
    let mut world = World::resumed();
    world.step(&Step::Crash { received: false });
    world.step(&Step::Wake);
    world.step(&Step::Resume { limit: 2, fails: true });
    assert!(world.slot.may_resume());
    world.finish();
}

#[test]
fn a_lane_that_is_not_due_is_not_read() {
    let mut world = world();
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.step(&Step::Wake);
    assert!(!world.slot.may_resume() && world.slot.waits(&aggregate(A)));
    world.resume_all(10);
    assert_eq!(world.send_all(), [1]);
}

#[test]
fn a_covered_arrival_keeps_the_row_of_an_emptied_lane() {
    let mut world = World::resumed();
    for id in 1..=2 {
        world.send_all();
        world.answer_to(id, Answer::Delivered);
    }
    world.send_all();
    world.publish(&[A]);
    world.read_all();
    world.answer_to(3, Answer::Delivered);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((4, 0, false, false)), "4 is covered");
    world.resume_all(10);
    assert_eq!(world.send_all(), [4]);
    world.answer_to(4, Answer::Delivered);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), None);
}

#[test]
fn a_lane_waits_for_the_commit_that_deletes_its_row() {
    let mut world = World::resumed();
    for id in 1..=3 {
        world.send_all();
        world.answer_to(id, Answer::Delivered);
    }
    assert!(!world.slot.is_urgent(), "nobody waits for the commit");
    assert_eq!(world.slot.changes().resumed, [aggregate(A).key()]);
    world.publish(&[A]);
    world.read_all();
    assert!(world.slot.is_urgent());
    assert!(world.send_all().is_empty());
    world.step(&Step::Settle(Fate::Lost));
    assert!(world.row(&aggregate(A)).is_some());
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), None);
    assert_eq!(world.send_all(), [4]);
    world.answer_to(4, Answer::Delivered);
    assert!(world.slot.lanes.is_empty());
}

#[test]
fn a_single_lane_ends_with_its_event_whatever_the_page_says() {
    let mut world = world();
    world.publish(&[NO_AGGREGATE]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.resume_all(1);
    world.send_all();
    world.step(&Step::Drain(Answer::Delivered));
    assert!(world.db.stalls.is_empty());
    world.finish();
}
