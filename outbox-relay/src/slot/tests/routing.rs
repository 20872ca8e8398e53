//! ROUTE and LANE: where an event goes, late and delayed ones too.

use outbox_sdk::Lane;
use outbox_sdk::backend::{Due, LaneEntry};

use super::bench::{A, B, unordered, world};
use super::database::aggregate;
use super::world::{Answer, NO_AGGREGATE, Step, World};

#[test]
fn lanes_go_in_parallel_and_each_in_order() {
    let mut world = world();
    world.publish(&[A, B, A, NO_AGGREGATE, NO_AGGREGATE]);
    world.read_all();
    assert_eq!(world.send_all(), [1, 2, 4, 5]);
    world.answer_to(1, Answer::Delivered);
    assert_eq!(world.send_all(), [2, 3, 4, 5]);
}

#[test]
fn without_order_every_event_is_a_lane() {
    let mut world = unordered();
    world.publish(&[A, A, A]);
    world.read_all();
    assert_eq!(world.send_all(), [1, 2, 3]);
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&Lane::Single(1)), Some((1, 1, false, true)));
    world.finish();
}

#[test]
fn an_unwanted_event_is_settled_at_once() {
    let mut world = world();
    world.step(&Step::Insert { writer: 0, aggregate: A, locked: true, wanted: false, delay: 0, size: 3 });
    world.commit(0);
    world.read_all();
    assert!(world.send_all().is_empty());
    world.settle_now();
    assert_eq!(world.db.settled.to_multirange(), "{[1,2)}");
}

#[test]
fn a_queue_sends_the_lowest_id_first() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A, A]);
    world.read_all();
    assert_eq!(world.send_all(), [2]);
    world.commit(0);
    world.read_all();
    world.answer_to(2, Answer::Delivered);
    assert_eq!(world.send_all(), [1]);
}

#[test]
fn an_arrival_at_or_above_the_head_is_covered_and_makes_the_lane_dirty() {
    let mut world = World::resumed();
    assert_eq!(world.listed(&aggregate(A)), [1, 2, 3]);
    world.publish(&[A]);
    world.read_all();
    world.settle_now();
    assert_eq!(world.listed(&aggregate(A)), [1, 2, 3], "the list ends below the arrival: it stays");
    assert_eq!(world.db.settled.to_multirange(), "{[1,5)}");
    for id in 1..=3 {
        assert_eq!(world.send_all(), [id]);
        world.answer_to(id, Answer::Delivered);
        world.settle_now();
        assert_eq!(world.row(&aggregate(A)), Some((id + 1, 0, false, false)));
    }
    world.resume_all(10);
    assert_eq!(world.send_all(), [4]);
    world.finish();
}

#[test]
fn an_arrival_inside_the_list_drops_it() {
    let mut world = world();
    world.publish(&[A]);
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [1, 3]);
    assert_eq!((world.slot.rows(), world.slot.bytes()), (2, 6));
    assert_eq!(world.send_all(), [1]);
    world.commit(0);
    world.read_all();
    assert_eq!(world.slot.rows(), 1, "the list is dropped, what is on its way stays");
    world.answer_to(1, Answer::Delivered);
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [2, 3]);
    world.finish();
}

#[test]
fn an_arrival_below_the_head_is_late_and_goes_alone() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Retry);
    world.settle_now();
    world.commit(0);
    world.read_all();
    assert_eq!(world.send_all(), [1]);
    assert_eq!(world.in_flight[0].lane, Lane::Single(1));
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&Lane::Single(1)), Some((1, 1, false, true)));
    assert_eq!(world.row(&aggregate(A)), Some((2, 1, false, false)));
    world.finish();
}

#[test]
fn a_late_arrival_is_below_the_head_that_was_sent_not_the_one_that_was_settled() {
    let mut world = world();
    world.publish(&[A]);
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    world.resume_all(10);
    world.send_all();
    world.answer_to(1, Answer::Delivered);
    assert_eq!(world.send_all(), [3]);
    world.settle_now();
    world.commit(0);
    world.read_all();
    assert_eq!(world.send_all(), [2, 3]);
    world.answer_to(2, Answer::Delivered);
    world.answer_to(3, Answer::Unavailable);
    world.settle_now();
    assert_eq!(world.row(&aggregate(A)), Some((3, 0, false, false)), "the row must not stand for 2 any more");
    world.step(&Step::Drain(Answer::Delivered));
    world.finish();
}

#[test]
fn what_waited_below_a_failing_head_is_late_and_what_waited_above_is_covered() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A, A]);
    world.read_all();
    assert_eq!(world.send_all(), [2]);
    world.commit(0);
    world.read_all();
    world.answer_to(2, Answer::Retry);
    assert_eq!(world.slot.rows(), 1);
    world.settle_now();
    assert_eq!(world.db.settled.to_multirange(), "{[2,4)}");
    assert_eq!(world.send_all(), [1]);
    assert_eq!(world.in_flight[0].lane, Lane::Single(1));
    world.finish();
}

#[test]
fn a_failing_event_that_was_overtaken_goes_alone() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Delivered);
    world.commit(0);
    world.read_all();
    assert_eq!(world.send_all(), [1]);
    world.publish(&[A]);
    world.read_all();
    world.answer_to(1, Answer::Retry);
    world.settle_now();
    assert_eq!(world.row(&Lane::Single(1)), Some((1, 1, false, true)));
    assert_eq!(world.row(&aggregate(A)), None);
    assert_eq!(world.send_all(), [3], "the lane itself goes on");
    world.finish();
}

#[test]
fn only_what_filled_a_gap_can_have_been_overtaken() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A, A]);
    world.read_all();
    world.send_all();
    assert!(world.slot.question(&aggregate(A)).is_none());
    world.answer_to(2, Answer::Delivered);
    world.commit(0);
    world.read_all();
    world.send_all();
    let ask = |page: &[LaneEntry], wanted| {
        let mut question = world.slot.question(&aggregate(A)).unwrap();
        assert_eq!(question.from, 2);
        world.slot.look_through(&mut question, page, true, |_| wanted).unwrap()
    };
    let entry = |id| LaneEntry { id, event_type: String::new(), schema_version: 1, has_older: false };
    assert!(ask(&[entry(2), entry(3)], true));
    assert!(!ask(&[entry(3)], true), "3 still waits");
    assert!(!ask(&[entry(2)], false), "an unwanted event overtakes nothing");
}

#[test]
fn what_waits_alone_has_overtaken_nothing_until_it_is_through() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[A]);
    world.insert(1, A);
    world.publish(&[A]);
    world.read_all();
    world.send_all();
    world.answer_to(2, Answer::Delivered);
    world.send_all();
    world.answer_to(4, Answer::Delivered);
    world.commit(1);
    world.read_all();
    world.send_all();
    world.answer_to(3, Answer::Retry);
    world.settle_now();
    world.commit(0);
    world.read_all();
    world.send_all();
    let three = [LaneEntry { id: 3, event_type: String::new(), schema_version: 1, has_older: false }];
    let mut question = world.slot.question(&aggregate(A)).unwrap();
    let mut whole = |page: &[_], last| world.slot.look_through(&mut question, page, last, |_| true);
    assert_eq!(whole(&three, false), None, "3 waits alone, and there is more");
    assert_eq!(whole(&[], true), Some(false));
    let mut question = world.slot.question(&aggregate(A)).unwrap();
    world.slot.look_through(&mut question, &three, false, |_| true);
    world.resume_all(10);
    world.send_all();
    world.answer_to(3, Answer::Delivered);
    // Its row goes with the next transaction.
    let answer = world.slot.look_through(&mut question, &[], true, |_| true);
    assert_eq!(answer, Some(true), "3 was delivered while the rest was looked through");
    world.finish();
}

#[test]
fn a_delayed_event_waits_alone_and_holds_nobody() {
    let mut world = world();
    world.step(&Step::Insert { writer: 0, aggregate: A, locked: true, wanted: true, delay: 5, size: 3 });
    world.commit(0);
    world.publish(&[A]);
    world.read_all();
    assert_eq!(world.send_all(), [2]);
    let stalls = world.slot.changes().stalls;
    assert_eq!(
        (stalls[0].head_id, stalls[0].attempts, stalls[0].due, stalls[0].single),
        (1, 0, Due::AtAvailable, true)
    );
    world.answer_to(2, Answer::Retry);
    world.settle_now();
    assert_eq!(world.db.stalls[&Lane::Single(1)].available_at, 5);
    assert_eq!(world.slot.take_parked().len(), 2);
    world.step(&Step::Crash { received: false });
    world.resume_all(10);
    assert_eq!(world.listed(&aggregate(A)), [2], "its aggregate's lane does not hold it");
    assert_eq!(world.send_all(), [1, 2]);
    world.finish();
}

#[test]
fn a_delayed_event_that_is_due_goes_at_once() {
    let mut world = world();
    world.step(&Step::Insert { writer: 0, aggregate: A, locked: true, wanted: true, delay: 5, size: 3 });
    world.commit(0);
    world.step(&Step::Tick(5));
    world.read_all();
    assert_eq!(world.send_all(), [1]);
    assert_eq!(world.in_flight[0].lane, Lane::Single(1));
}
