//! When to ask the database whether a waiting lane is due. The database decides; this is only an alarm clock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Instant;

use outbox_sdk::Lane;

/// Lanes to ask about, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    alarms: BinaryHeap<Reverse<(Instant, Lane)>>,
}

impl Wakes {
    /// Ask about the lane at this time, besides any time that it has already.
    pub(crate) fn at(&mut self, time: Instant, lane: Lane) {
        self.alarms.push(Reverse((time, lane)));
    }

    /// The time of the next question.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.alarms.peek().map(|Reverse((time, _))| *time)
    }

    /// Takes out the lanes whose time has come, at most `limit` of those that still wait, each once.
    pub(crate) fn take(&mut self, now: Instant, limit: usize, waits: impl Fn(&Lane) -> bool) -> Vec<Lane> {
        let mut lanes = BTreeSet::new();
        while lanes.len() < limit
            && self.next().is_some_and(|time| time <= now)
            && let Some(Reverse((_, lane))) = self.alarms.pop()
        {
            if waits(&lane) {
                lanes.insert(lane);
            }
        }
        lanes.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_over_comes_once_and_the_rest_later() {
        let now = Instant::now();
        let mut wakes = Wakes::default();
        for (seconds, id) in [(3, 3), (1, 1), (2, 2), (1, 1), (1, 9)] {
            wakes.at(now + Duration::from_secs(seconds), Lane::Single(id));
        }
        let waits = |lane: &Lane| *lane != Lane::Single(9);
        assert_eq!(wakes.take(now, 10, waits), []);
        let soon = now + Duration::from_secs(2);
        assert_eq!(wakes.take(soon, 1, waits), [Lane::Single(1)]);
        assert_eq!(wakes.take(soon, 10, waits), [Lane::Single(1), Lane::Single(2)]);
        assert_eq!((wakes.take(soon, 10, waits), wakes.next()), (vec![], Some(now + Duration::from_secs(3))));
    }
}
