//! The toolkit's promises, judged by the evidence. Pure.

use std::collections::{BTreeMap, BTreeSet};

use outbox_sdk::backend::DeadReason;
use serde::Serialize;
use uuid::Uuid;

use super::evidence::Evidence;
use super::receiver::Arrival;

/// A promise and what the evidence says of it.
#[derive(Debug, Serialize)]
pub(super) struct Promise {
    pub(super) promise: &'static str,
    pub(super) kept: bool,
    pub(super) evidence: String,
}

/// Why deliveries came more than once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Repeats {
    /// Sent by the first relay, not settled when it was killed, so sent again by the second one.
    pub(super) after_kill: usize,
    /// Sent again because the attempt before had failed, as the attempt's number says.
    pub(super) retried: usize,
    /// There was no reason to send them again.
    pub(super) unexplained: usize,
}

/// Judges all promises, in the order in which an event meets them.
pub(super) fn judge(evidence: &Evidence) -> Vec<Promise> {
    vec![
        committed_together(evidence),
        audited(evidence),
        nothing_lost(evidence),
        nothing_invented(evidence),
        in_order(evidence),
        effect_once(evidence),
        repeats_explained(evidence),
        wrong_one_is_alone(evidence),
        all_settled(evidence),
    ]
}

fn committed_together(evidence: &Evidence) -> Promise {
    let Evidence { ledger, stored, changes, .. } = evidence;
    let stored: BTreeSet<Uuid> = stored.iter().map(|event| event.event_id).collect();
    let committed: BTreeSet<Uuid> = ledger.committed.iter().copied().collect();
    Promise {
        promise: "an event is stored if and only if its transaction committed",
        kept: stored == committed
            && stored.len() == *changes
            && ledger.rolled_back.iter().all(|event_id| !stored.contains(event_id)),
        evidence: format!(
            "{} stored = {} committed = {changes} changes in the service's tables; {} rolled back are not there",
            stored.len(),
            committed.len(),
            ledger.rolled_back.len(),
        ),
    }
}

fn audited(evidence: &Evidence) -> Promise {
    let linked = evidence.stored.iter().filter(|event| event.audited).count();
    Promise {
        promise: "each event is linked to the audit row of its change",
        kept: linked == evidence.stored.len(),
        evidence: format!("{linked} of {} events are", evidence.stored.len()),
    }
}

fn nothing_lost(evidence: &Evidence) -> Promise {
    let arrived = arrived(evidence);
    let dead: BTreeSet<i64> = evidence.dead.iter().map(|letter| letter.event_id).collect();
    let lost = evidence.stored.iter().filter(|e| !arrived.contains(&e.event_id) && !dead.contains(&e.id));
    let lost = lost.count();
    Promise {
        promise: "every committed event arrives, or is a dead letter with a reason",
        kept: lost == 0,
        evidence: format!("{} arrived, {} dead, {lost} lost", arrived.len(), dead.len()),
    }
}

fn nothing_invented(evidence: &Evidence) -> Promise {
    let stored: BTreeSet<Uuid> = evidence.stored.iter().map(|event| event.event_id).collect();
    let invented = arrived(evidence).difference(&stored).count();
    Promise {
        promise: "nothing else arrives: nothing that was rolled back, nothing that was forged",
        kept: invented == 0 && evidence.refused == 1,
        evidence: format!(
            "{invented} arrived without a committed event, {} forged refused",
            evidence.refused
        ),
    }
}

fn in_order(evidence: &Evidence) -> Promise {
    let mut seen = BTreeSet::new();
    let first = evidence.arrivals.iter().filter(|arrival| seen.insert(arrival.event_id));
    let arrived = out_of_order(first.map(|arrival| (&arrival.lane, arrival.id)));
    let handled = out_of_order(evidence.effects.iter().map(|effect| (&effect.lane, effect.id)));
    let lanes: BTreeSet<&str> = evidence.effects.iter().map(|effect| effect.lane.as_str()).collect();
    Promise {
        promise: "the events of one aggregate arrive in the order of their commits",
        kept: arrived == 0 && handled == 0,
        evidence: format!("{} aggregates, {} events out of order", lanes.len(), arrived.max(handled)),
    }
}

/// How many ids are not above the one before in their lane.
fn out_of_order<L: Ord + Clone>(ids: impl IntoIterator<Item = (L, i64)>) -> usize {
    let mut last = BTreeMap::new();
    let fallen = ids
        .into_iter()
        .filter(|(lane, id)| last.insert(lane.clone(), *id).is_some_and(|before| before >= *id));
    fallen.count()
}

fn effect_once(evidence: &Evidence) -> Promise {
    let Evidence { effects, customers, copies, .. } = evidence;
    let distinct: BTreeSet<Uuid> = effects.iter().map(|effect| effect.event_id).collect();
    Promise {
        promise: "each event has its effect exactly once",
        kept: distinct == arrived(evidence) && distinct.len() == effects.len() && customers == copies,
        evidence: format!(
            "{} effects of {} events; {} of {} customers are the same in both databases",
            effects.len(),
            distinct.len(),
            customers.iter().filter(|customer| copies.contains(customer)).count(),
            customers.len(),
        ),
    }
}

fn repeats_explained(evidence: &Evidence) -> Promise {
    let Repeats { after_kill, retried, unexplained } = repeats(evidence);
    Promise {
        promise: "only what was sent and not yet settled when the relay was killed comes twice",
        kept: unexplained == 0 && after_kill + retried >= evidence.held,
        evidence: format!(
            "{after_kill} came again because of the kill, {retried} after a failed attempt, {unexplained} without a \
             reason",
        ),
    }
}

/// Sorts every delivery of an event that came more than once.
///
/// Which one came first does not matter: a copy that its sender gave up may arrive after the next one.
pub(super) fn repeats(evidence: &Evidence) -> Repeats {
    let mut arrivals: Vec<&Arrival> = evidence.arrivals.iter().collect();
    arrivals.sort_by_key(|arrival| (arrival.event_id, arrival.relay, arrival.attempt));
    let mut repeats = Repeats::default();
    for pair in arrivals.windows(2) {
        let [one, next] = pair else { continue };
        if one.event_id != next.event_id {
            continue;
        }
        let (other_relay, other_attempt) = (one.relay != next.relay, one.attempt != next.attempt);
        if next.attempt > 1 && (other_relay || other_attempt) {
            repeats.retried += 1;
        } else if other_relay && !evidence.settled_at_kill.contains(next.id) {
            repeats.after_kill += 1;
        } else {
            repeats.unexplained += 1;
        }
    }
    repeats
}

fn wrong_one_is_alone(evidence: &Evidence) -> Promise {
    let arrived = arrived(evidence);
    let mut kept = false;
    let mut text = format!("{} dead letters", evidence.dead.len());
    if let [letter] = evidence.dead.as_slice()
        && let Some(wrong) = evidence.stored.iter().find(|event| event.id == letter.event_id)
    {
        let later = evidence.stored.iter().filter(|event| event.lane == wrong.lane && event.id > wrong.id);
        let (came, of) =
            later.fold((0, 0), |(came, of), e| (came + usize::from(arrived.contains(&e.event_id)), of + 1));
        kept = letter.reason == DeadReason::SchemaViolation.as_str()
            && !arrived.contains(&wrong.event_id)
            && of > 0
            && came == of;
        text =
            format!("1 dead letter, {}; {came} of {of} later events of its aggregate arrived", letter.reason);
    }
    Promise { promise: "an invalid payload is not delivered, and holds up nothing", kept, evidence: text }
}

fn all_settled(evidence: &Evidence) -> Promise {
    let standing = &evidence.standing;
    let open = evidence.stored.iter().filter(|event| !standing.settled.contains(event.id)).count();
    Promise {
        promise: "everything is settled, and a relay that is told to stop gives back what it holds",
        kept: standing.is_done(evidence.stored.iter().map(|event| event.id)) && !standing.owned,
        evidence: format!("{open} events open, {} lanes waiting", standing.stalled_lanes),
    }
}

fn arrived(evidence: &Evidence) -> BTreeSet<Uuid> {
    evidence.arrivals.iter().map(|arrival| arrival.event_id).collect()
}

#[cfg(test)]
mod tests;
