use outbox_sdk::backend::{DeadLetter, LetterState};
use outbox_sdk::{Lane, Progress, Timestamp};

use super::*;
use crate::demo::evidence::{CustomerRow, EffectRow, Standing, StoredEvent};
use crate::demo::service::Ledger;

fn uuid(id: i64) -> Uuid {
    Uuid::from_u128(id.unsigned_abs().into())
}

/// Ids 1, 3 and 5 are about `a`, the others about `b`.
fn lane(id: i64) -> Lane {
    Lane::aggregate(None, "customer", if id % 2 == 1 { "a" } else { "b" })
}

fn arrival(id: i64, relay: u8) -> Arrival {
    Arrival { event_id: uuid(id), id, lane: lane(id), attempt: 1, relay }
}

fn effect(id: i64) -> EffectRow {
    EffectRow { event_id: uuid(id), lane: lane(id).key(), id }
}

fn customer(version: u32) -> CustomerRow {
    CustomerRow {
        code: "a".to_owned(),
        version,
        city: "Graz".to_owned(),
        credit_limit: 1,
        archived: false,
        effects: version,
    }
}

/// Six events, of which 3 is invalid, were published and 99 rolled back. The first relay delivered 1 and 2, had 1
/// settled, and was killed; the second one delivered 2 again, and the rest.
fn good() -> Evidence {
    let settled_at_kill: Progress = [1].into_iter().collect();
    let ledger = Ledger {
        committed: (1..=6).map(uuid).collect(),
        rolled_back: vec![uuid(99)],
        transactions_committed: 6,
        transactions_rolled_back: 1,
    };
    let stored =
        (1..=6).map(|id| StoredEvent { id, event_id: uuid(id), lane: lane(id), audited: true }).collect();
    let letter = DeadLetter {
        consumer: "crm".to_owned(),
        event_id: 3,
        reason: "schema_violation".to_owned(),
        attempts: 0,
        max_attempts: 10,
        last_error: "`/version`: expected an integer".to_owned(),
        failed_at: Timestamp::from_micros(0),
        acknowledged_at: None,
        state: LetterState::Dead,
        decided_at: None,
        decided_by: None,
        event: None,
    };
    Evidence {
        ledger,
        stored,
        changes: 6,
        arrivals: vec![
            arrival(1, 1),
            arrival(2, 1),
            arrival(2, 2),
            arrival(5, 2),
            arrival(4, 2),
            arrival(6, 2),
        ],
        refused: 1,
        held: 1,
        effects: [1, 2, 5, 4, 6].map(effect).to_vec(),
        customers: vec![customer(3)],
        copies: vec![customer(3)],
        dead: vec![letter],
        settled_at_kill,
        standing: Standing { settled: (1..=6).collect(), stalled_lanes: 0, owned: false },
    }
}

/// The promises that the evidence breaks, by their place.
fn broken(evidence: &Evidence) -> Vec<usize> {
    let promises = judge(evidence);
    promises.iter().enumerate().filter(|(_, promise)| !promise.kept).map(|(place, _)| place).collect()
}

fn broken_by(change: impl FnOnce(&mut Evidence)) -> Vec<usize> {
    let mut evidence = good();
    change(&mut evidence);
    broken(&evidence)
}

const NONE: [usize; 0] = [];
const COMMITTED_TOGETHER: usize = 0;
const AUDITED: usize = 1;
const NOTHING_LOST: usize = 2;
const NOTHING_INVENTED: usize = 3;
const IN_ORDER: usize = 4;
const EFFECT_ONCE: usize = 5;
const REPEATS: usize = 6;
const WRONG_ONE: usize = 7;
const SETTLED: usize = 8;

#[test]
fn good_evidence_breaks_nothing() {
    assert_eq!(broken(&good()), NONE);
    assert_eq!(repeats(&good()), Repeats { after_kill: 1, retried: 0, unexplained: 0 });
}

#[test]
fn an_event_without_its_commit_and_a_commit_without_its_event() {
    assert_eq!(broken_by(|e| e.ledger.committed.push(uuid(7))), [COMMITTED_TOGETHER]);
    assert_eq!(broken_by(|e| e.changes = 7), [COMMITTED_TOGETHER]);
    assert_eq!(broken_by(|e| e.ledger.rolled_back.push(uuid(6))), [COMMITTED_TOGETHER]);
    let stray = StoredEvent { id: 99, event_id: uuid(99), lane: lane(2), audited: true };
    let found = broken_by(|e| e.stored.push(stray));
    assert_eq!(found, [COMMITTED_TOGETHER, NOTHING_LOST, SETTLED]);
}

#[test]
fn an_event_without_its_audit_row() {
    assert_eq!(broken_by(|e| e.stored[4].audited = false), [AUDITED]);
}

#[test]
fn an_event_that_never_came() {
    let found = broken_by(|e| {
        e.arrivals.retain(|arrival| arrival.id != 6);
        e.effects.retain(|effect| effect.id != 6);
    });
    assert_eq!(found, [NOTHING_LOST]);
}

#[test]
fn an_event_that_came_from_nowhere() {
    let found = broken_by(|e| {
        e.arrivals.push(arrival(99, 2));
        e.effects.push(effect(99));
    });
    assert_eq!(found, [NOTHING_INVENTED]);
    assert_eq!(broken_by(|e| e.refused = 0), [NOTHING_INVENTED], "the forged one was taken");
}

#[test]
fn events_of_one_aggregate_that_changed_places() {
    assert_eq!(broken_by(|e| e.arrivals.swap(4, 5)), [IN_ORDER], "on the way");
    assert_eq!(broken_by(|e| e.effects.swap(3, 4)), [IN_ORDER], "at the handler");
    assert_eq!(broken_by(|e| e.effects.swap(2, 3)), NONE, "of two aggregates they may");
    assert_eq!(out_of_order([("a", 1), ("b", 1), ("a", 3), ("a", 2), ("a", 2), ("b", 2)]), 2);
}

#[test]
fn an_effect_that_happened_twice_or_never() {
    let found = broken_by(|e| e.effects.insert(2, effect(2)));
    assert!(found.contains(&EFFECT_ONCE), "{found:?}");
    assert_eq!(broken_by(|e| e.effects.truncate(4)), [EFFECT_ONCE]);
    assert_eq!(broken_by(|e| e.copies[0].effects = 4), [EFFECT_ONCE]);
    assert_eq!(broken_by(|e| e.copies.clear()), [EFFECT_ONCE]);
}

#[test]
fn a_repeat_without_a_reason() {
    let twice_by_one = broken_by(|e| e.arrivals.push(arrival(6, 2)));
    assert_eq!(twice_by_one, [REPEATS]);
    let settled = broken_by(|e| e.arrivals.push(arrival(1, 2)));
    assert_eq!(settled, [REPEATS]);
    let third = broken_by(|e| e.arrivals.push(arrival(2, 2)));
    assert_eq!(third, [REPEATS]);
    let before_the_kill = broken_by(|e| e.arrivals.insert(2, arrival(2, 1)));
    assert_eq!(before_the_kill, [REPEATS]);
    let retried = |arrivals: &[Arrival]| {
        let mut evidence = good();
        evidence.arrivals.extend_from_slice(arrivals);
        assert_eq!(broken(&evidence), NONE);
        repeats(&evidence).retried
    };
    assert_eq!(retried(&[Arrival { attempt: 2, ..arrival(6, 2) }]), 1, "an answer came late");
    assert_eq!(
        retried(&[Arrival { attempt: 3, ..arrival(2, 1) }, Arrival { attempt: 2, ..arrival(2, 2) }]),
        2
    );
    assert_eq!(
        retried(&[Arrival { attempt: 2, ..arrival(1, 2) }]),
        1,
        "the failure was settled before the kill"
    );
    let not_sent_again = broken_by(|e| drop(e.arrivals.remove(2)));
    assert_eq!(not_sent_again, [REPEATS]);
}

#[test]
fn an_invalid_payload_that_came_or_held_up_others() {
    let delivered = broken_by(|e| {
        e.arrivals.insert(2, arrival(3, 2));
        e.effects.insert(2, effect(3));
    });
    assert_eq!(delivered, [WRONG_ONE]);
    let held_up = broken_by(|e| {
        e.arrivals.retain(|arrival| arrival.id != 5);
        e.effects.retain(|effect| effect.id != 5);
    });
    assert_eq!(held_up, [NOTHING_LOST, WRONG_ONE]);
    assert_eq!(broken_by(|e| e.dead[0].reason = "attempts".to_owned()), [WRONG_ONE]);
    assert_eq!(broken_by(|e| e.dead.clear()), [NOTHING_LOST, WRONG_ONE]);
    assert_eq!(broken_by(|e| e.dead.push(e.dead[0].clone())), [WRONG_ONE]);
}

#[test]
fn something_left_undone() {
    assert_eq!(broken_by(|e| e.standing.settled = (1..6).collect()), [SETTLED]);
    assert_eq!(broken_by(|e| e.standing.stalled_lanes = 1), [SETTLED]);
    assert_eq!(broken_by(|e| e.standing.owned = true), [SETTLED]);
}
