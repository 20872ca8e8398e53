//! A run in order, and each kind of violation planted in it once.

use super::*;
use crate::evidence::{Answer, Consumer, Dead, Event, Limits, Order, Outcome, Snapshot, Turn, Write};

const LANE: &str = r#"[null,"customer","1"]"#;

fn write(tx: u64, id: i64) -> Write {
    Write { tx, id, lane: LANE.to_owned(), order: Order::Strict, outcome: Outcome::Committed }
}

fn arrival(at: Micros, incarnation: u32, id: i64) -> Arrival {
    Arrival {
        at,
        incarnation,
        id,
        lane: LANE.to_owned(),
        attempt: 1,
        replay: false,
        answer: Answer::Accepted,
    }
}

fn turn(at: Micros, incarnation: u32, kind: TurnKind) -> Turn {
    Turn { at, incarnation, kind }
}

fn fault(from: Micros, until: Micros, kind: FaultKind, incarnation: u32) -> Fault {
    Fault { from, until, kind, incarnation: Some(incarnation) }
}

/// Relay 1 delivers 1 and 2, of which 1 is settled, and is killed at 3,000,000. Relay 2 delivers 2 again, and 3 after
/// one refusal. 4 was rolled back, 5 is dead.
fn run() -> Evidence {
    let mut refused = arrival(4_200_000, 2, 3);
    refused.answer = Answer::Refused;
    let mut again = arrival(4_500_000, 2, 3);
    again.attempt = 2;
    let mut rejected = arrival(5_000_000, 2, 5);
    rejected.answer = Answer::Rejected;
    Evidence {
        seed: 1,
        limits: Limits { lease: 1_000_000, poll: 50_000, time_limit: 800_000 },
        writes: vec![
            write(1, 1),
            write(1, 2),
            write(2, 3),
            Write { outcome: Outcome::RolledBack, ..write(3, 4) },
            Write { outcome: Outcome::Unknown, ..write(4, 5) },
        ],
        arrivals: vec![
            arrival(1_000_000, 1, 1),
            arrival(2_900_000, 1, 2),
            arrival(4_000_000, 2, 2),
            refused,
            again,
            rejected,
        ],
        faults: vec![fault(3_000_000, 3_000_000, FaultKind::Kill, 1)],
        turns: vec![turn(900_000, 1, TurnKind::Claimed), turn(3_900_000, 2, TurnKind::Claimed)],
        snapshots: vec![Snapshot { at: 3_050_000, slots: vec!["{[1,2)}".to_owned()], stalls: Vec::new() }],
        effects: vec![1, 2, 3, 5],
        business: vec![1, 2, 4],
        events: [1, 2, 3]
            .map(|id| Event { id, status: "dispatched".to_owned() })
            .into_iter()
            .chain([Event { id: 5, status: "failed".to_owned() }])
            .collect(),
        dead: vec![Dead { consumer: WEBHOOK.to_owned(), id: 5, state: "dead".to_owned() }],
        consumers: [WEBHOOK, HANDLER]
            .map(|name| Consumer { name: name.to_owned(), settled: "{[1,6)}".to_owned(), stalled_lanes: 0 })
            .into(),
        aged_below: 0,
        idle_in_transaction: 0,
    }
}

fn kinds(change: impl FnOnce(&mut Evidence)) -> Vec<Kind> {
    let mut evidence = run();
    change(&mut evidence);
    check(&evidence).1.into_iter().map(|violation| violation.kind).collect()
}

#[test]
fn a_run_in_order_has_its_figures_and_no_violation() {
    let (figures, violations) = check(&run());
    assert_eq!(violations, []);
    assert_eq!((figures.committed, figures.rolled_back, figures.unknown), (3, 1, 1));
    assert_eq!((figures.arrivals, figures.duplicates, figures.dead, figures.effects), (6, 1, 1, 4));
    assert_eq!(figures.explained, BTreeMap::from([("kill", 1)]));
    assert_eq!((figures.claims, figures.leases_lost), (2, 0));
    assert_eq!((figures.recoveries, figures.recovery), (1, 1_000_000));
}

#[test]
fn a_commit_without_its_change_or_its_event_is_noticed() {
    assert!(kinds(|run| run.business.retain(|tx| *tx != 2)).contains(&Kind::NotAtomic));
    assert!(kinds(|run| run.business.push(3)).contains(&Kind::NotAtomic));
    let rolled_back_but_stored = Event { id: 4, status: "pending".to_owned() };
    assert_eq!(kinds(|run| run.events.push(rolled_back_but_stored)), [Kind::NotAtomic]);
    assert_eq!(kinds(|run| run.events.retain(|event| event.id != 3)), [Kind::NotAtomic]);
}

#[test]
fn an_event_that_was_deleted_too_early_is_noticed() {
    let deleted = |run: &mut Evidence, id: i64, aged_below: i64| {
        run.events.retain(|event| event.id != id);
        run.aged_below = aged_below;
    };
    assert_eq!(kinds(|run| deleted(run, 2, 3)), [], "old, and accepted");
    assert_eq!(kinds(|run| deleted(run, 2, 2)), [Kind::NotAtomic], "young");
    assert_eq!(kinds(|run| deleted(run, 5, 6)), [Kind::NotAtomic], "dead, and not acknowledged");
}

#[test]
fn with_several_slots_the_one_of_the_lane_counts() {
    let lane = outbox_sdk::Lane::parse(LANE).unwrap();
    let own = usize::try_from(outbox_sdk::slot_of(&lane, 2)).unwrap();
    let settled = |run: &mut Evidence, slot: usize| {
        run.snapshots[0].slots = vec!["{[1,2)}".to_owned(), "{[1,2)}".to_owned()];
        run.snapshots[0].slots[slot] = "{[1,3)}".to_owned();
    };
    assert_eq!(kinds(|run| settled(run, own)), [Kind::Settled]);
    assert_eq!(kinds(|run| settled(run, 1 - own)), []);
}

#[test]
fn what_never_came_and_what_never_was_are_noticed() {
    assert_eq!(kinds(|run| run.arrivals[4].answer = Answer::Refused), [Kind::Lost, Kind::Status]);
    assert_eq!(kinds(|run| run.dead.clear()), [Kind::Lost, Kind::Status]);
    assert_eq!(kinds(|run| run.arrivals.push(arrival(6_000_000, 2, 4))), [Kind::Phantom]);
    let replayed = |run: &mut Evidence| {
        run.dead[0].state = "replayed".to_owned();
        run.events[3].status = "pending".to_owned();
    };
    assert_eq!(kinds(replayed), [Kind::Lost]);
}

#[test]
fn an_event_before_an_earlier_one_of_its_lane_is_noticed() {
    // 3 comes between the refusal and the acceptance of 2.
    let early = |run: &mut Evidence| {
        run.arrivals[1].answer = Answer::Refused;
        run.arrivals.swap(2, 4);
    };
    assert!(kinds(early).contains(&Kind::Order));
    // In a lane with a writer that takes no lock, nothing is promised.
    let loose = |run: &mut Evidence| {
        early(run);
        run.writes[0].order = Order::Unlocked;
    };
    assert!(!kinds(loose).contains(&Kind::Order));
    // Back to 2 within one turn.
    let back = |run: &mut Evidence| run.arrivals.push(arrival(6_000_000, 2, 2));
    assert!(kinds(back).contains(&Kind::Order));
}

#[test]
fn a_copy_needs_a_reason() {
    assert_eq!(kinds(|run| run.faults.clear()), [Kind::Unexplained]);
    // A fault of another relay, or before the event came, is none.
    assert_eq!(kinds(|run| run.faults[0].incarnation = Some(7)), [Kind::Unexplained]);
    let before = |run: &mut Evidence| run.faults[0] = fault(2_000_000, 2_000_000, FaultKind::Kill, 1);
    assert_eq!(kinds(before), [Kind::Unexplained]);
    // An orderly restart is none either.
    let rolled = |run: &mut Evidence| run.faults[0].kind = FaultKind::Roll;
    assert_eq!(kinds(rolled), [Kind::Unexplained]);
    // These are.
    let lost = |run: &mut Evidence| {
        run.faults.clear();
        run.turns.push(turn(3_500_000, 1, TurnKind::Lost));
    };
    assert_eq!(kinds(lost), []);
    let stopped = |run: &mut Evidence| run.faults[0] = fault(2_950_000, 6_000_000, FaultKind::Stop, 1);
    assert_eq!(kinds(stopped), []);
    let late = |run: &mut Evidence| {
        run.faults.clear();
        run.arrivals[2].incarnation = 1;
        run.arrivals[2].attempt = 2;
    };
    assert_eq!(kinds(late), []);
    let too_soon = |run: &mut Evidence| {
        late(run);
        run.arrivals[2].at = 3_000_000;
    };
    assert_eq!(kinds(too_soon), [Kind::Unexplained]);
}

#[test]
fn a_copy_of_what_was_settled_is_noticed_whatever_happened() {
    let settled = |run: &mut Evidence| run.snapshots[0].slots[0] = "{[1,3)}".to_owned();
    assert_eq!(kinds(settled), [Kind::Settled]);
    // Under a stall row it is not through.
    let stalled = |run: &mut Evidence| {
        settled(run);
        run.snapshots[0].stalls.push((LANE.to_owned(), 2));
    };
    assert_eq!(kinds(stalled), []);
    // What a process had decided to send before it was stopped may come after it goes on.
    let on_the_wire = |run: &mut Evidence| {
        settled(run);
        run.faults.push(fault(3_000_000, 3_900_000, FaultKind::Stop, 2));
    };
    assert_eq!(kinds(on_the_wire), []);
}

#[test]
fn an_effect_that_did_not_happen_once_is_noticed() {
    assert_eq!(kinds(|run| run.effects.push(1)), [Kind::Effect]);
    assert_eq!(kinds(|run| run.effects.retain(|id| *id != 3)), [Kind::Effect]);
    assert_eq!(kinds(|run| run.effects.push(4)), [Kind::Effect]);
}

#[test]
fn what_is_left_over_is_noticed() {
    for settled in ["{[1,4),[5,6)}", "{[1,5)}", "{}"] {
        assert_eq!(kinds(|run| run.consumers[0].settled = settled.to_owned()), [Kind::Leftover], "{settled}");
    }
    assert_eq!(kinds(|run| run.consumers[1].stalled_lanes = 1), [Kind::Leftover]);
    assert_eq!(kinds(|run| run.idle_in_transaction = 1), [Kind::Leftover]);
}

#[test]
fn a_status_that_says_too_much_is_noticed() {
    assert_eq!(kinds(|run| run.events[0].status = "failed".to_owned()), [Kind::Status]);
    assert_eq!(kinds(|run| run.events[3].status = "dispatched".to_owned()), [Kind::Status]);
    assert_eq!(kinds(|run| run.events[3].status = "skipped".to_owned()), [Kind::Status]);
    assert_eq!(kinds(|run| run.events.iter_mut().for_each(|event| event.status = "pending".to_owned())), []);
}

#[test]
fn work_that_resumes_too_late_is_noticed() {
    let late = |run: &mut Evidence| {
        for arrival in run.arrivals.iter_mut().skip(2) {
            arrival.at += 10_000_000;
        }
    };
    assert_eq!(kinds(late), [Kind::Recovery]);
}
