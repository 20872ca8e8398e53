//! What became of each event: committed if and only if its change was, delivered if and only if committed, its effect
//! exactly once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, HANDLER, Kind};
use crate::evidence::{Answer, Outcome};

pub(super) fn check(case: &mut Case<'_>) {
    atomic(case);
    delivered(case);
    effects(case);
    statuses(case);
}

/// The writer knows whether it committed, or the business row does; the event must have the same fate. (Retention may
/// have deleted the row of an old event that was accepted: what the relay delivered of it still counts below.)
fn atomic(case: &mut Case<'_>) {
    let evidence = case.evidence;
    let stored: BTreeSet<i64> = evidence.events.iter().map(|event| event.id).collect();
    let accepted = accepted(case);
    for write in &evidence.writes {
        let committed = case.exists.contains_key(&write.id);
        let (figure, known) = match write.outcome {
            Outcome::Committed => (&mut case.figures.committed, Some(true)),
            Outcome::RolledBack => (&mut case.figures.rolled_back, Some(false)),
            Outcome::Unknown => (&mut case.figures.unknown, None),
        };
        *figure += 1;
        let (id, tx) = (write.id, write.tx);
        if known.is_some_and(|known| known != committed) {
            let text = format!("transaction {tx} ended as {:?}, its change says {committed}", write.outcome);
            case.violation(Kind::NotAtomic, text);
        } else if stored.contains(&id) != committed
            && (!committed || id >= evidence.aged_below || !accepted.contains(&id))
        {
            let text =
                format!("event {id} of transaction {tx}: stored {}, its change {committed}", !committed);
            case.violation(Kind::NotAtomic, text);
        }
    }
}

/// Events that the receiver has taken.
fn accepted(case: &Case<'_>) -> BTreeSet<i64> {
    let arrivals = case.evidence.arrivals.iter();
    arrivals.filter(|arrival| arrival.answer == Answer::Accepted).map(|arrival| arrival.id).collect()
}

fn delivered(case: &mut Case<'_>) {
    let evidence = case.evidence;
    case.figures.arrivals = evidence.arrivals.len();
    case.figures.dead = case.dead.len();
    let mut phantoms = BTreeSet::new();
    for arrival in &evidence.arrivals {
        if !case.exists.contains_key(&arrival.id) && phantoms.insert(arrival.id) {
            let text = format!("event {} came from relay {}", arrival.id, arrival.incarnation);
            case.violation(Kind::Phantom, text);
        }
    }
    let accepted = accepted(case);
    let lost: Vec<i64> = case
        .exists
        .keys()
        .filter(|id| !accepted.contains(id) && !case.dead.contains_key(id))
        .copied()
        .collect();
    for id in lost {
        let lane = &case.exists[&id].lane;
        let text = format!("event {id} of {lane} was never accepted and is not dead");
        case.violation(Kind::Lost, text);
    }
    let replayed = case.dead.iter().filter(|(_, state)| **state == "replayed").map(|(id, _)| *id);
    let replayed: Vec<i64> = replayed.collect();
    case.figures.replayed = replayed.len();
    for id in replayed.into_iter().filter(|id| !accepted.contains(id)) {
        case.violation(Kind::Lost, format!("the replay of event {id} never came"));
    }
}

fn effects(case: &mut Case<'_>) {
    if !case.evidence.consumers.iter().any(|consumer| consumer.name == HANDLER) {
        return;
    }
    let mut times = BTreeMap::<i64, usize>::new();
    for id in &case.evidence.effects {
        *times.entry(*id).or_default() += 1;
    }
    case.figures.effects = times.len();
    let ids: BTreeSet<i64> = times.keys().chain(case.exists.keys()).copied().collect();
    for id in ids {
        let (seen, due) = (times.get(&id).copied().unwrap_or(0), usize::from(case.exists.contains_key(&id)));
        if seen != due {
            case.violation(Kind::Effect, format!("event {id} had its effect {seen} times instead of {due}"));
        }
    }
}

/// What the recorder wrote, if it ran.
fn statuses(case: &mut Case<'_>) {
    let evidence = case.evidence;
    let accepted = accepted(case);
    for event in &evidence.events {
        let state = case.dead.get(&event.id).copied();
        let right = match event.status.as_str() {
            "pending" => true,
            "dispatched" => accepted.contains(&event.id) && !matches!(state, Some("dead" | "replay")),
            "failed" => state == Some("dead"),
            "skipped" => state == Some("discarded"),
            _ => false,
        };
        if !right {
            let text = format!("event {} is {}, its dead letter {state:?}", event.id, event.status);
            case.violation(Kind::Status, text);
        }
    }
}
