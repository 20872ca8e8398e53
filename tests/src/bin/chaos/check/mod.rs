//! The offline checker: the journals and tables of a run against the promises. Pure.

mod copies;
mod fate;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use outbox_sdk::Progress;

use crate::evidence::{Arrival, Evidence, Fault, FaultKind, Micros, TurnKind};

/// What a promise was broken by. The text names the evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// Which promise was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// An event without its change, or a change without its event.
    NotAtomic,
    /// A committed event that never came.
    Lost,
    /// An event that came and was never committed.
    Phantom,
    /// An event that came before an earlier one of its lane was done.
    Order,
    /// A copy that no fault explains.
    Unexplained,
    /// A copy of an event that the consumer was through with.
    Settled,
    /// An effect that did not happen exactly once.
    Effect,
    /// Progress that is not whole when all is over.
    Leftover,
    /// A status that says more than what happened.
    Status,
    /// Work that resumed too late.
    Recovery,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

/// What a run came to, besides violations.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) committed: usize,
    pub(crate) rolled_back: usize,
    /// COMMITs whose outcome the writer did not learn.
    pub(crate) unknown: usize,
    pub(crate) arrivals: usize,
    pub(crate) duplicates: usize,
    /// Duplicates by what explains them.
    pub(crate) explained: BTreeMap<&'static str, usize>,
    pub(crate) dead: usize,
    pub(crate) replayed: usize,
    pub(crate) effects: usize,
    pub(crate) claims: usize,
    /// Leases that ended under an owner which nobody had stopped: it got no time, or no database.
    pub(crate) leases_lost: usize,
    /// The longest time from the death of an owner to the next arrival, and how often that was measured.
    pub(crate) recovery: Micros,
    pub(crate) recoveries: usize,
}

/// Judges a run.
pub(crate) fn check(evidence: &Evidence) -> (Figures, Vec<Violation>) {
    let mut case = Case::new(evidence);
    fate::check(&mut case);
    order::check(&mut case);
    copies::check(&mut case);
    leftovers(&mut case);
    recovery(&mut case);
    (case.figures, case.violations)
}

/// The evidence, sorted for looking things up.
struct Case<'e> {
    evidence: &'e Evidence,
    /// The events that exist, and whether their lanes are strict.
    exists: BTreeMap<i64, &'e crate::evidence::Write>,
    /// Arrivals of each event with their places in the journal, replays left out.
    arrivals: BTreeMap<i64, Vec<(usize, &'e Arrival)>>,
    /// Events that the webhook's consumer has as dead letters, in any state.
    dead: BTreeMap<i64, &'e str>,
    figures: Figures,
    violations: Vec<Violation>,
}

/// The consumer behind the receiver.
pub(crate) const WEBHOOK: &str = "crm";
/// The consumer with the handler.
pub(crate) const HANDLER: &str = "ledger";

impl<'e> Case<'e> {
    fn new(evidence: &'e Evidence) -> Self {
        let business: BTreeSet<u64> = evidence.business.iter().copied().collect();
        let mut arrivals = BTreeMap::<_, Vec<_>>::new();
        for (place, arrival) in evidence.arrivals.iter().enumerate().filter(|(_, arrival)| !arrival.replay) {
            arrivals.entry(arrival.id).or_default().push((place, arrival));
        }
        let dead = evidence.dead.iter().filter(|dead| dead.consumer == WEBHOOK);
        Self {
            evidence,
            exists: evidence
                .writes
                .iter()
                .filter(|write| business.contains(&write.tx))
                .map(|write| (write.id, write))
                .collect(),
            arrivals,
            dead: dead.map(|dead| (dead.id, dead.state.as_str())).collect(),
            figures: Figures::default(),
            violations: Vec::new(),
        }
    }

    fn violation(&mut self, kind: Kind, text: impl Into<String>) {
        self.violations.push(Violation { kind, text: text.into() });
    }
}

/// Whether a fault ends a process without its consent, or lets it sleep through its lease.
fn is_deadly(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Kill | FaultKind::Crash(_) | FaultKind::Stop)
}

/// When all is over, nothing waits, and what is settled is one range: every rolled-back id was given up.
fn leftovers(case: &mut Case<'_>) {
    let last = case.exists.keys().next_back().copied().unwrap_or(0);
    for consumer in &case.evidence.consumers {
        let name = &consumer.name;
        let whole = Progress::from_multirange(&consumer.settled)
            .is_ok_and(|settled| last == 0 || (settled.len_ranges() == 1 && settled.upper() > last));
        if !whole {
            let text = format!("`{name}` has settled {} of the ids up to {last}", consumer.settled);
            case.violation(Kind::Leftover, text);
        }
        if consumer.stalled_lanes > 0 {
            let text = format!("{} lanes of `{name}` still wait", consumer.stalled_lanes);
            case.violation(Kind::Leftover, text);
        }
    }
    let idle = case.evidence.idle_in_transaction;
    if idle > 0 {
        case.violation(Kind::Leftover, format!("{idle} sessions are left inside a transaction"));
    }
}

/// From the death of an owner to the next arrival from another one, as far as no other fault came between.
fn recovery(case: &mut Case<'_>) {
    let evidence = case.evidence;
    // Nothing is more than slow within five times the promise.
    let promise = evidence.limits.lease + evidence.limits.poll + 1_000_000;
    case.figures.claims = evidence.turns.iter().filter(|turn| turn.kind == TurnKind::Claimed).count();
    for fault in evidence.faults.iter().filter(|fault| is_deadly(fault)) {
        let (Some(dead), began) = (fault.incarnation, fault.from) else { continue };
        let was_owner =
            evidence.arrivals.iter().rfind(|a| a.at < began).is_some_and(|a| a.incarnation == dead);
        let next = evidence.arrivals.iter().find(|arrival| arrival.at > began && arrival.incarnation != dead);
        let Some(next) = next.filter(|_| was_owner) else { continue };
        let disturbed = evidence.faults.iter().any(|other| {
            is_deadly(other) && other.incarnation != Some(dead) && other.until > began && other.from < next.at
        });
        if disturbed {
            continue;
        }
        let took = next.at - began;
        case.figures.recoveries += 1;
        case.figures.recovery = case.figures.recovery.max(took);
        if took > 5 * promise {
            let text =
                format!("{took} us after relay {dead} had died ({:?}); promised: {promise}", fault.kind);
            case.violation(Kind::Recovery, text);
        }
    }
}
