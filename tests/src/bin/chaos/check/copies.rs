//! Copies: each is explained by a fault, and none is of an event that the consumer was through with.

use std::collections::BTreeMap;

use super::{Case, Kind, is_deadly};
use crate::evidence::{Answer, Arrival, FaultKind, Micros, TurnKind};

/// How long after its SIGCONT a process may still put on the wire what it had decided to send before.
const ON_THE_WIRE: Micros = 2_000_000;

pub(super) fn check(case: &mut Case<'_>) {
    lost_leases(case);
    explained(case);
    settled(case);
}

/// Leases that ended although nobody had stopped their owner.
fn lost_leases(case: &mut Case<'_>) {
    let faults = &case.evidence.faults;
    let lost = case.evidence.turns.iter().filter(|turn| turn.kind == TurnKind::Lost);
    case.figures.leases_lost = lost
        .filter(|turn| {
            !faults.iter().any(|fault| {
                fault.kind == FaultKind::Stop
                    && fault.incarnation == Some(turn.incarnation)
                    && (fault.from..=fault.until + ON_THE_WIRE).contains(&turn.at)
            })
        })
        .count();
}

/// Every second acceptance of an event has a reason.
fn explained(case: &mut Case<'_>) {
    let mut reasons = BTreeMap::<&'static str, usize>::new();
    let mut unexplained = Vec::new();
    for (id, arrivals) in &case.arrivals {
        let accepted: Vec<&Arrival> =
            arrivals.iter().map(|(_, arrival)| *arrival).filter(|a| a.answer == Answer::Accepted).collect();
        for pair in accepted.windows(2) {
            match reason(case, pair[0], pair[1]) {
                Some(reason) => *reasons.entry(reason).or_default() += 1,
                None => unexplained.push(format!(
                    "event {id} came from relay {} at {} and from relay {} at {} (attempt {}), and nothing happened \
                     between",
                    pair[0].incarnation, pair[0].at, pair[1].incarnation, pair[1].at, pair[1].attempt
                )),
            }
        }
    }
    case.figures.duplicates = reasons.values().sum::<usize>() + unexplained.len();
    case.figures.explained = reasons;
    for text in unexplained {
        case.violation(Kind::Unexplained, text);
    }
}

/// Why `second` could come although `first` had been accepted.
fn reason(case: &Case<'_>, first: &Arrival, second: &Arrival) -> Option<&'static str> {
    let evidence = case.evidence;
    let hit = |arrival: &Arrival, until: Micros| {
        evidence.faults.iter().find(|fault| {
            is_deadly(fault)
                && fault.incarnation == Some(arrival.incarnation)
                && fault.until + until >= arrival.at
                && fault.from <= second.at
        })
    };
    // Its sender did not live to take the answer in, or to settle it.
    if let Some(fault) = hit(first, 0) {
        return Some(match fault.kind {
            FaultKind::Kill => "kill",
            FaultKind::Stop => "stop",
            _ => "crash point",
        });
    }
    // One of the two was on the wire when its sender's lease ended.
    if [first, second].into_iter().any(|a| hit(a, ON_THE_WIRE).is_some_and(|f| f.kind == FaultKind::Stop)) {
        return Some("on the wire");
    }
    let lost = evidence.turns.iter().any(|turn| {
        turn.kind == TurnKind::Lost
            && [first.incarnation, second.incarnation].contains(&turn.incarnation)
            && turn.at + ON_THE_WIRE >= first.at
            && turn.at <= second.at + ON_THE_WIRE
    });
    if lost {
        return Some("lease lost");
    }
    let same = first.incarnation == second.incarnation && second.attempt > first.attempt;
    (same && second.at - first.at >= evidence.limits.time_limit).then_some("answer too late")
}

/// Nothing comes again once it was through, but for what was on the wire.
fn settled(case: &mut Case<'_>) {
    let evidence = case.evidence;
    let mut broken = Vec::new();
    let mut snapshots = evidence.snapshots.iter().peekable();
    let mut through = None;
    for arrival in evidence.arrivals.iter() {
        while let Some(snapshot) = snapshots.next_if(|snapshot| snapshot.at < arrival.at) {
            match snapshot.through() {
                Ok(ids) => through = Some((snapshot.at, ids)),
                Err(error) => broken.push(format!("the snapshot at {}: {error}", snapshot.at)),
            }
        }
        let Some((at, ids)) = &through else { continue };
        if arrival.replay || !ids.contains(&arrival.lane, arrival.id) {
            continue;
        }
        let on_the_wire = evidence.faults.iter().any(|fault| {
            fault.kind == FaultKind::Stop
                && fault.incarnation == Some(arrival.incarnation)
                && (fault.from..=fault.until + ON_THE_WIRE).contains(&arrival.at)
        }) || evidence.turns.iter().any(|turn| {
            turn.kind == TurnKind::Lost
                && turn.incarnation == arrival.incarnation
                && (turn.at - ON_THE_WIRE..=turn.at + ON_THE_WIRE).contains(&arrival.at)
        });
        if !on_the_wire {
            broken.push(format!(
                "event {} came from relay {} at {}, {} us after it was seen settled",
                arrival.id,
                arrival.incarnation,
                arrival.at,
                arrival.at - at
            ));
        }
    }
    for text in broken {
        case.violation(Kind::Settled, text);
    }
}
