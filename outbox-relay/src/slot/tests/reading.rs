//! CLAIM and CYCLE: what an owner begins with, gaps, full batches, whom it believes.

use std::time::{Duration, Instant};

use outbox_sdk::Progress;
use outbox_sdk::backend::{Holders, StallRow};
use uuid::Uuid;

use super::super::{Accepted, Distrust, Slot, VOID_RANGES, Verdict};
use super::bench::{A, B, BOUNDS, world};
use super::database::{Database, NewEvent, aggregate, lane_of};
use super::world::{Answer, NO_AGGREGATE, Step};

#[test]
fn a_new_owner_begins_with_the_holes_and_the_stalled_lanes() {
    let mut world = world();
    world.publish(&[A, B, B, NO_AGGREGATE]);
    world.read_all();
    world.send_all();
    world.answer_to(1, Answer::Retry);
    world.answer_to(4, Answer::Delivered);
    world.settle_now();
    world.step(&Step::Crash { received: true });
    assert_eq!((world.slot.hwm(), world.slot.anchor()), (4, None));
    assert_eq!(world.slot.gap_ranges(), [(2, 4)]);
    assert_eq!((world.slot.rows(), world.slot.in_flight()), (0, 0));
    assert!(world.slot.waits(&aggregate(A)));
    assert_eq!(world.slot.next_resume(), None, "the database says when it is due");
    world.read_all();
    assert_eq!(world.send_all(), [2]);
    world.finish();
}

#[test]
fn a_stall_row_that_cannot_be_read_is_refused() {
    let mut claimed = Database::new().claim(1);
    claimed.stalls.push(StallRow {
        lane: "nonsense".into(),
        head_id: 1,
        attempts: 0,
        due_in: Duration::ZERO,
        blocked: false,
        single: false,
        schema_missing_for: None,
    });
    assert_eq!(Slot::claimed(&claimed, BOUNDS, Instant::now()).unwrap_err(), "nonsense");
}

#[test]
fn a_gap_is_filled_or_dies_after_its_holders() {
    let mut world = world();
    world.insert(0, A);
    world.insert(1, A);
    world.publish(&[B]);
    world.read_all();
    assert_eq!((world.slot.open_gaps(), world.slot.gap_ranges()), (1, vec![(1, 3)]));
    world.step(&Step::List);
    world.step(&Step::RollBack(0));
    world.read_all();
    assert!(world.slot.has_gaps(), "its holder was still listed");
    world.read_all();
    assert!(world.slot.has_gaps(), "the other holder of the first list is still there");
    world.commit(1);
    world.read_all();
    assert!(!world.slot.has_gaps());
    world.settle_now();
    assert_eq!(world.db.void.to_multirange(), "{[1,2)}");
    assert_eq!(world.db.settled.to_multirange(), "{[1,2)}");
    assert_eq!(world.send_all(), [2, 3]);
}

#[test]
fn a_full_batch_judges_and_passes_nothing_behind_its_last_event() {
    let mut world = world();
    world.insert(0, A);
    world.publish(&[B, B]);
    world.insert(1, B);
    world.publish(&[A]);
    world.read_all();
    world.step(&Step::List);
    world.commit(0);
    world.step(&Step::RollBack(1));
    world.step(&Step::List);
    world.step(&Step::Read { limit: 1, keep: 1 });
    assert_eq!(world.slot.gap_ranges(), [(4, 5)], "1 came; 4 was not asked for");
    world.publish(&[A, A]);
    world.step(&Step::Read { limit: 9, keep: 1 });
    assert_eq!((world.slot.hwm(), world.slot.has_gaps()), (6, false));
    world.finish();
}

#[test]
fn a_read_counts_what_it_brought() {
    let mut db = Database::new();
    db.publish(NewEvent::of(A));
    db.insert(0, NewEvent::of(A), false);
    db.publish(NewEvent::of(A));
    let mut slot = Slot::claimed(&db.claim(1), BOUNDS, Instant::now()).unwrap();
    let none = Holders { primary: true, ..Holders::default() };
    let lane = |event: &_| lane_of(event, true);
    let first = slot.accept(db.read(&[], 0, 9, 9), &none, lane);
    assert_eq!(first, Ok(Accepted { events: 2, late: 0, dead_gaps: 0 }));
    db.roll_back(0);
    let second = slot.accept(db.read(&slot.gap_ranges(), slot.hwm(), 9, 9), &none, lane);
    assert_eq!(second, Ok(Accepted { events: 0, late: 0, dead_gaps: 1 }));
    assert_eq!((slot.unsettled(), slot.is_urgent()), (1, false));
}

#[test]
fn a_standby_is_not_believed() {
    let mut db = Database::new();
    db.publish(NewEvent::of(A));
    let mut slot = Slot::claimed(&db.claim(1), BOUNDS, Instant::now()).unwrap();
    let mut batch = db.read(&[], 0, 9, 9);
    batch.primary = false;
    let answer = slot.accept(batch, &Holders::default(), |event| lane_of(event, true));
    assert_eq!(answer, Err(Distrust::Standby));
    assert_eq!((slot.hwm(), slot.rows()), (0, 0));
}

#[test]
fn the_row_at_the_high_water_mark_must_stay_until_its_id_is_stored_as_settled() {
    let none = Holders { primary: true, ..Holders::default() };
    let mut db = Database::new();
    db.publish(NewEvent::of(A));
    let mut slot = Slot::claimed(&db.claim(1), BOUNDS, Instant::now()).unwrap();
    let lane = |event: &_| lane_of(event, true);
    assert_eq!(slot.accept(db.read(&[], 0, 9, 9), &none, lane).map(|a| a.events), Ok(1));
    assert_eq!(slot.anchor(), Some((1, Uuid::from_u128(1))));
    let sent = slot.next_send().map(|send| send.lane);
    slot.answer(&aggregate(A), Verdict::Delivered, false);
    assert_eq!(sent, Some(aggregate(A)));
    let mut gone = db.read(&[], 1, 9, 9);
    gone.anchor = None;
    let mut other = db.read(&[], 1, 9, 9);
    other.anchor = Some(Uuid::from_u128(7));
    for batch in [gone.clone(), other] {
        assert_eq!(slot.accept(batch, &none, lane), Err(Distrust::AnchorGone), "acknowledged is not stored");
    }
    assert!(slot.accept(db.read(&[], 1, 9, 9), &none, lane).is_ok());
    slot.committed();
    assert!(slot.accept(gone, &none, lane).is_ok(), "retention may delete what is settled");
}

#[test]
fn only_the_newest_dead_gaps_are_remembered() {
    let mut db = Database::new();
    for id in 1..=VOID_RANGES as i64 + 5 {
        db.insert(0, NewEvent::of(A), false);
        db.roll_back(0);
        assert_eq!(db.publish(NewEvent::of(A)), 2 * id);
    }
    let none = Holders { primary: true, ..Holders::default() };
    let mut slot = Slot::claimed(&db.claim(1), BOUNDS, Instant::now()).unwrap();
    let lane = |event: &_| lane_of(event, true);
    for _ in 0..2 {
        let _ = slot.accept(db.read(&slot.gap_ranges(), slot.hwm(), 9_999, 9_999), &none, lane);
    }
    let (settled, void): (&Progress, &Progress) = slot.sets();
    assert!(settled.contains(1) && !void.contains(1) && void.contains(11));
    assert_eq!(void.len_ranges(), VOID_RANGES);
}
