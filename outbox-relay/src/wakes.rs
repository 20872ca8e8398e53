//! When to ask the database whether a waiting lane is due. The database decides; this is only an alarm clock.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

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

/// Spaces looks that can wait, so that a hundred thousand of them at once are no storm.
#[derive(Debug)]
pub(crate) struct Spacing {
    /// What was let through counts until then ..
    spent_until: Instant,
    /// .. and what was put off has its place up to then.
    taken_until: Instant,
}

impl Spacing {
    /// A hundred a second ..
    const EACH: Duration = Duration::from_millis(10);
    /// .. of which so many may come at once.
    const BURST: Duration = Duration::from_secs(1);

    pub(crate) fn new(now: Instant) -> Self {
        Self { spent_until: now, taken_until: now }
    }

    /// When to come back with this look, if it cannot be now.
    pub(crate) fn later(&mut self, now: Instant) -> Option<Instant> {
        let spent = self.spent_until.max(now);
        if spent < now + Self::BURST {
            self.spent_until = spent + Self::EACH;
            return None;
        }
        self.taken_until = self.taken_until.max(now + Self::BURST) + Self::EACH;
        Some(self.taken_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_looks_is_spread_over_time_and_each_comes_in_the_end() {
        let start = Instant::now();
        let mut spacing = Spacing::new(start);
        let mut wakes = Wakes::default();
        for id in 0..10_000 {
            wakes.at(start, Lane::Single(id));
        }
        let (mut now, mut through, mut alarms) = (start, 0_u32, 0_u32);
        while let Some(next) = wakes.next() {
            now = now.max(next);
            for lane in wakes.take(now, usize::MAX, |_| true) {
                alarms += 1;
                match spacing.later(now) {
                    Some(later) => wakes.at(later, lane),
                    None => through += 1,
                }
            }
            let most = 101.0 + 100.0 * (now - start).as_secs_f64();
            assert!(f64::from(through) <= most, "{through} after {:?}", now - start);
        }
        assert_eq!(through, 10_000);
        assert!(now - start <= Duration::from_secs(110), "{:?}", now - start);
        assert!(alarms <= 25_000, "{alarms} alarms: each look is put off about once");
    }

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
