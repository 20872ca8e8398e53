//! Replays and discards: how what operators decide goes through the slot.

use outbox_sdk::Lane;
use outbox_sdk::backend::ReplayResult;

use super::bench::{A, B, LOOSE, blocking, world};
use super::database::{State, aggregate};
use super::world::{Answer, Fate, Setting, Step, World};

/// 1 of aggregate A is dead, 2 and 3 wait to be sent.
fn with_a_dead_letter() -> World {
    let mut world = world();
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    world.publish(&[A, A]);
    world.read_all();
    world
}

impl World {
    fn replay(&mut self) {
        self.step(&Step::Decide(0, State::Replay));
        self.step(&Step::CarryOut(10));
    }
}

#[test]
fn a_replay_goes_before_anything_else_of_its_lane_and_never_beside_it() {
    let mut world = with_a_dead_letter();
    assert_eq!(world.send_all(), [2]);
    world.replay();
    assert_eq!(world.send_all(), [2], "it waits for what is on its way");
    world.answer_to(2, Answer::Delivered);
    assert_eq!(world.send_all(), [1]);
    assert_eq!((world.in_flight[0].replay, world.in_flight[0].attempts), (true, 1));
    world.answer_to(1, Answer::Delivered);
    assert_eq!(world.send_all(), [3]);
    world.settle_now();
    assert_eq!(world.db.dead[&1].state, State::Replayed);
    world.answer_to(3, Answer::Delivered);
    world.finish();
}

#[test]
fn a_failed_replay_holds_up_nobody() {
    let mut world = with_a_dead_letter();
    world.replay();
    assert_eq!(world.send_all(), [1]);
    world.answer_to(1, Answer::Retry);
    assert_eq!(world.send_all(), [2]);
    world.settle_now();
    assert_eq!((world.db.dead[&1].state, world.db.dead[&1].attempts), (State::Dead, 2));
    assert!(world.db.stalls.is_empty());
}

#[test]
fn a_replay_that_was_not_tried_stays() {
    let mut world = with_a_dead_letter();
    world.replay();
    world.send_all();
    world.answer_to(1, Answer::Unavailable);
    assert!(!world.slot.has_changes());
    assert_eq!(world.send_all(), [1]);
}

#[test]
fn a_letter_is_taken_up_once_until_its_result_is_committed() {
    let mut world = with_a_dead_letter();
    world.replay();
    world.step(&Step::CarryOut(10));
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.step(&Step::CarryOut(10));
    assert_eq!(world.send_all(), [2], "the table says replay still, the memory knows better");
    world.step(&Step::Settle(Fate::Lost));
    world.step(&Step::CarryOut(10));
    assert_eq!(world.db.dead[&1].state, State::Replayed);
    assert_eq!(world.slot.replaying(), 0);
}

#[test]
fn a_replay_goes_while_its_lane_is_stalled() {
    let mut world = with_a_dead_letter();
    world.send_all();
    world.answer_to(2, Answer::Retry);
    world.settle_now();
    world.replay();
    assert_eq!(world.send_all(), [1]);
    world.answer_to(1, Answer::Delivered);
    assert_eq!(world.row(&aggregate(A)), Some((2, 1, false, false)), "the stall is as it was");
    world.finish();
}

#[test]
fn a_replay_has_its_turn_when_what_it_waited_for_fails() {
    for answer in [Answer::Retry, Answer::Unavailable, Answer::Reject] {
        let mut world = with_a_dead_letter();
        assert_eq!(world.send_all(), [2]);
        world.replay();
        world.answer_to(2, answer);
        assert_eq!(world.send_all(), [1], "{answer:?}");
        world.finish();
    }
}

/// 1 of aggregate A is dead and blocks 2.
fn blocked() -> World {
    let mut world = blocking();
    world.publish(&[A, A, B]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.answer_to(3, Answer::Delivered);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, true, false)));
    world
}

#[test]
fn a_delivered_head_ends_the_block_in_the_same_transaction() {
    let mut world = blocked();
    world.replay();
    assert_eq!(world.send_all(), [1]);
    world.answer_to(1, Answer::Delivered);
    let changes = world.slot.changes();
    assert_eq!(changes.replays, [ReplayResult::Delivered { event_id: 1, attempts: 2, counted: false }]);
    assert_eq!((changes.stalls[0].head_id, changes.stalls[0].blocked), (2, false));
    world.resume_all(10);
    assert_eq!(world.send_all(), [2]);
    world.finish();
    assert!(world.db.stalls.is_empty());
}

#[test]
fn a_head_that_fails_again_keeps_the_block() {
    let mut world = blocked();
    world.replay();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((1, 0, true, false)));
    world.resume_all(10);
    assert!(world.send_all().is_empty());
}

#[test]
fn a_discarded_head_ends_the_block_also_for_the_next_owner() {
    for crash in [false, true] {
        let mut world = blocked();
        world.step(&Step::Decide(0, State::Discarded));
        if crash {
            world.step(&Step::Crash { received: false });
        }
        world.step(&Step::CarryOut(10));
        world.settle_now();
        assert_eq!(world.row(&aggregate(A)), Some((2, 0, false, false)));
        world.resume_all(10);
        assert_eq!(world.send_all(), [2]);
        world.finish();
    }
}

#[test]
fn a_blocked_event_without_a_lane_leaves_nothing() {
    let mut world = World::new(Setting { block: true, ordered: false, ..LOOSE });
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    world.replay();
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.settle_now();
    assert!(world.db.stalls.is_empty() && world.slot.lanes.is_empty());
}

#[test]
fn an_event_that_died_alone_leaves_nothing_when_it_is_replayed_with_its_lane() {
    let mut world = blocking();
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Delivered);
    world.commit(0);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Reject);
    world.settle_now();
    assert_eq!(world.row(&Lane::Single(1)), Some((1, 0, true, true)));
    world.replay();
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    world.settle_now();
    assert!(world.db.stalls.is_empty());
    world.finish();
}

#[test]
fn a_letter_without_an_event_is_refused() {
    let mut world = with_a_dead_letter();
    world.step(&Step::Retain);
    world.step(&Step::Decide(0, State::Replay));
    world.step(&Step::CarryOut(10));
    world.settle_now();
    assert_eq!((world.db.dead[&1].state, world.db.dead[&1].attempts), (State::Dead, 1));
}
