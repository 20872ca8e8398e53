//! Order: in a strict lane nothing comes before everything earlier is done.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Kind};
use crate::evidence::{Answer, Order, TurnKind};

pub(super) fn check(case: &mut Case<'_>) {
    first_arrivals(case);
    turns(case);
}

/// Lanes in which each writer took the lock, with their events in order.
fn strict_lanes<'e>(case: &Case<'e>) -> BTreeMap<&'e str, Vec<i64>> {
    let mut lanes = BTreeMap::<_, Vec<_>>::new();
    let mut loose = BTreeSet::new();
    for (id, write) in &case.exists {
        match write.order {
            Order::Strict => lanes.entry(write.lane.as_str()).or_default().push(*id),
            Order::Unlocked => {
                loose.insert(write.lane.as_str());
            }
            Order::Alone => {}
        }
    }
    lanes.retain(|lane, _| !loose.contains(lane));
    lanes
}

/// An event comes for the first time only after the one before it was accepted, or rejected for good.
fn first_arrivals(case: &mut Case<'_>) {
    for (lane, ids) in strict_lanes(case) {
        // Where the last one was done, and which that was.
        let mut done: Option<(usize, i64)> = None;
        for id in ids {
            let Some(arrivals) = case.arrivals.get(&id) else { continue };
            let (place, first) = arrivals[0];
            let finished = arrivals.iter().find(|(_, arrival)| arrival.answer != Answer::Refused);
            // What was never done is lost: that is said elsewhere, and nothing can be compared with it.
            let now_done = finished.map(|(place, _)| (*place, id)).or(done);
            if let Some((before, earlier)) = done
                && place < before
            {
                let text =
                    format!("{id} of {lane} came from relay {} before {earlier} was done", first.incarnation);
                case.violation(Kind::Order, text);
            }
            done = now_done;
        }
    }
}

/// In one turn of one owner, what is sent of a strict lane rises; only the head that failed comes again.
fn turns(case: &mut Case<'_>) {
    let strict: BTreeSet<i64> = strict_lanes(case).into_values().flatten().collect();
    let mut latest = BTreeMap::<(u32, usize, &str), (i64, Answer)>::new();
    let evidence = case.evidence;
    for arrival in evidence.arrivals.iter().filter(|a| !a.replay && strict.contains(&a.id)) {
        let turn = evidence
            .turns
            .iter()
            .filter(|t| {
                t.incarnation == arrival.incarnation && t.kind == TurnKind::Claimed && t.at <= arrival.at
            })
            .count();
        let key = (arrival.incarnation, turn, arrival.lane.as_str());
        if let Some((before, answer)) = latest.insert(key, (arrival.id, arrival.answer)) {
            let late = arrival.id == before && answer == Answer::Accepted && arrival.attempt > 1;
            let retried = arrival.id == before && answer == Answer::Refused;
            if arrival.id < before || (arrival.id == before && !late && !retried) {
                let text = format!(
                    "relay {} sent {} of {} after {before} ({answer:?}) in one turn",
                    arrival.incarnation, arrival.id, arrival.lane
                );
                case.violation(Kind::Order, text);
            }
        }
    }
}
