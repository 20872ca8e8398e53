//! One at a time after a crash; busy lanes; rows in dead gaps.

use super::bench::{A, B, LOOSE};
use super::database::{State, aggregate};
use super::world::{Answer, Fate, Setting, Step, World};

/// 1 and 3 of aggregate A, 2 of B; the owner before has crashed, and the next is careful.
fn careful() -> World {
    let mut world = World::new(Setting { caution: 10, ..LOOSE });
    world.publish(&[A, B, A]);
    world.step(&Step::Crash { received: false });
    world.read_all();
    world
}

#[test]
fn an_attempt_is_committed_before_it_is_made() {
    let mut world = careful();
    world.step(&Step::Send);
    assert!(world.in_flight.is_empty() && world.slot.is_urgent());
    world.step(&Step::Send);
    world.step(&Step::Settle(Fate::Lost));
    assert!(world.in_flight.is_empty(), "nothing goes before the commit");
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)));
    world.step(&Step::Send);
    assert_eq!((world.in_flight[0].event.id(), world.in_flight[0].attempts), (1, 0));
    world.step(&Step::Send);
    assert_eq!(world.in_flight.len(), 1, "one at a time");
    world.answer_to(1, Answer::Delivered);
    world.step(&Step::Send);
    world.settle_now();
    assert_eq!(world.row(&aggregate(B)), Some((2, 1, false, false)), "with the next one's attempt");
    assert!(world.db.settled.contains(1));
    world.finish();
}

#[test]
fn an_event_that_ends_the_process_each_time_ends_dead() {
    let mut world = careful();
    for attempts in 1..=3 {
        world.step(&Step::Awake(10));
        world.step(&Step::Send);
        world.settle_now();
        assert_eq!(world.row(&aggregate(A)), Some((1, attempts, false, false)));
        world.step(&Step::Send);
        assert_eq!(world.in_flight[0].attempts, attempts - 1);
        world.step(&Step::Crash { received: false });
        world.read_all();
    }
    world.step(&Step::Awake(10));
    world.step(&Step::Send);
    world.settle_now();
    world.step(&Step::Send);
    assert_eq!(world.in_flight[0].attempts, 3, "none is left");
    world.answer_to(1, Answer::Delivered);
    world.settle_now();
    assert_eq!((world.db.dead[&1].state, world.delivered.len()), (State::Dead, 0));
    world.finish();
}

#[test]
fn an_attempt_that_was_not_made_is_taken_back() {
    let mut world = World::new(Setting { caution: 10, ..LOOSE });
    world.publish(&[A]);
    world.step(&Step::Crash { received: false });
    world.read_all();
    world.step(&Step::Send);
    world.settle_now();
    world.step(&Step::Send);
    world.answer_to(1, Answer::Unavailable);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, false, false)));
    world.step(&Step::Send);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)), "and counted again");
    world.step(&Step::Drain(Answer::Delivered));
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, false, false)), "an orderly end takes it back too");
    world.finish();
}

#[test]
fn a_failed_attempt_that_was_counted_counts_once() {
    let mut world = careful();
    world.step(&Step::Send);
    world.settle_now();
    world.step(&Step::Send);
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)));
    world.finish();
}

#[test]
fn a_replay_that_ends_the_process_does_not_go_again_by_itself() {
    let mut world = World::new(Setting { caution: 10, ..LOOSE });
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    world.step(&Step::Decide(0, State::Replay));
    world.step(&Step::Crash { received: false });
    world.step(&Step::CarryOut(10));
    world.step(&Step::Send);
    world.settle_now();
    assert_eq!((world.db.dead[&1].state, world.db.dead[&1].attempts), (State::Dead, 2));
    world.step(&Step::Send);
    assert!(world.in_flight[0].replay);
    world.step(&Step::Crash { received: false });
    world.step(&Step::CarryOut(10));
    world.step(&Step::Send);
    assert!(world.in_flight.is_empty() && !world.slot.has_changes());
    world.finish();
}

fn busy() -> World {
    World::new(Setting { lane_rows: 2, ..LOOSE })
}

#[test]
fn a_busy_lane_is_parked_with_what_is_in_flight() {
    let mut world = busy();
    world.publish(&[A, A]);
    world.read_all();
    assert_eq!(world.send_all(), [1]);
    world.publish(&[A, A, B]);
    world.read_all();
    assert_eq!(world.slot.rows(), 2, "1 on its way, 5 of the other lane");
    world.settle_now();
    assert_eq!(
        world.row(&aggregate(A)),
        Some((1, 0, false, false)),
        "1 is not delivered: the row stands for it"
    );
    assert!(!world.slot.may_resume(), "nothing beside what is on its way");
    world.answer_to(1, Answer::Delivered);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((2, 0, false, false)));
    world.step(&Step::Resume { limit: 2, fails: false });
    assert_eq!(world.listed(&aggregate(A)), [2, 3]);
    world.finish();
    assert!(world.db.stalls.is_empty());
}

#[test]
fn an_event_that_fails_in_a_parked_lane_stays_its_head() {
    let mut world = busy();
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.publish(&[A, A]);
    world.read_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 1, false, false)));
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1, 2, 3, 4]);
    world.finish();
}

#[test]
fn a_lane_with_an_event_that_filled_a_gap_is_not_parked() {
    let mut world = busy();
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Delivered);
    world.commit(0);
    world.publish(&[A, A, A, A]);
    world.read_all();
    assert_eq!(world.slot.rows(), 5, "1 came late: a row from 1 on would stand for 2, which is delivered");
    assert!(world.slot.changes().stalls.is_empty());
    world.finish();
}

/// A slot that has given up id 2, between 1 and 3 of aggregate A.
fn with_a_dead_gap() -> World {
    let mut world = World::new(LOOSE);
    world.publish(&[A]);
    world.insert(0, A);
    world.publish(&[A]);
    world.step(&Step::RollBack(0));
    world.read_all();
    world.read_all();
    world.settle_now();
    assert!(world.slot.has_void());
    world
}

#[test]
fn a_row_in_a_dead_gap_is_delivered_late() {
    let mut world = with_a_dead_gap();
    for _ in 0..3 {
        world.step(&Step::Cycle(Answer::Delivered));
    }
    world.step(&Step::Smuggle { which: 0, aggregate: A, wanted: true });
    world.step(&Step::Sweep);
    assert_eq!(world.slot.sets().0.to_multirange(), "{[1,2),[3,4)}");
    assert!(!world.slot.has_void() && world.slot.has_changes());
    world.send_all();
    world.answer_to(2, Answer::Retry);
    world.settle_now();
    world.finish();
}

#[test]
fn a_row_in_a_dead_gap_of_a_stalled_lane_comes_with_the_lane() {
    let mut world = with_a_dead_gap();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.step(&Step::Smuggle { which: 0, aggregate: A, wanted: true });
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1, 3], "before the sweep it is left alone");
    world.step(&Step::Sweep);
    assert!(world.listed(&aggregate(A)).is_empty(), "the list is read again");
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1, 2, 3]);
    world.finish();
}

#[test]
fn a_row_in_a_dead_gap_that_nobody_wants_stays_settled() {
    let mut world = with_a_dead_gap();
    world.step(&Step::Smuggle { which: 0, aggregate: A, wanted: false });
    world.step(&Step::Sweep);
    assert_eq!(world.slot.sets().0.to_multirange(), "{[2,3)}");
    assert!(!world.slot.has_void());
    world.finish();
}
