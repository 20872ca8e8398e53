//! When to read next: at once behind a full page, soon after any event, ever less often while nothing comes. Pure.

use std::time::{Duration, Instant};

/// By how much of itself a pause is shortened at most, so that relays do not read in step.
const JITTER: f64 = 0.1;

/// The time of the next read.
#[derive(Debug)]
pub(crate) struct Pace {
    min: Duration,
    max: Duration,
    pause: Duration,
    next: Instant,
    empty: u32,
}

impl Pace {
    /// Reads at once, and then with pauses between `min` and `max`.
    pub(crate) fn new(min: Duration, max: Duration, now: Instant) -> Self {
        Self { min, max, pause: min, next: now, empty: 0 }
    }

    /// When to read next.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Reads in a row that brought nothing.
    pub(crate) fn empty_reads(&self) -> u32 {
        self.empty
    }

    /// A read has ended. `found`: it brought something; `full`: there may be more. `random` is uniform in `0.0..1.0`.
    pub(crate) fn read(&mut self, found: bool, full: bool, now: Instant, random: f64) {
        if found {
            self.empty = 0;
            self.pause = self.min;
        } else {
            self.empty = self.empty.saturating_add(1);
            self.pause = (self.pause * 2).min(self.max);
        }
        let pause = if full { Duration::ZERO } else { self.pause };
        self.next = now + pause.mul_f64(1.0 - JITTER * random);
    }

    /// Something was committed: read now.
    pub(crate) fn poke(&mut self, now: Instant) {
        self.pause = self.min;
        self.next = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_with_an_event() {
        let now = Instant::now();
        let millis = Duration::from_millis;
        let mut pace = Pace::new(millis(10), millis(50), now);
        assert_eq!(pace.next(), now);
        for (reads, pause) in [(1, 20), (2, 40), (3, 50), (4, 50)] {
            pace.read(false, false, now, 0.0);
            assert_eq!((pace.empty_reads(), pace.next()), (reads, now + millis(pause)));
        }
        pace.read(true, false, now, 0.0);
        assert_eq!((pace.empty_reads(), pace.next()), (0, now + millis(10)));
        pace.read(true, true, now, 0.0);
        assert_eq!(pace.next(), now);
    }

    #[test]
    fn a_poke_reads_now_and_soon_again() {
        let now = Instant::now();
        let millis = Duration::from_millis;
        let mut pace = Pace::new(millis(10), millis(1_000), now);
        for _ in 0..9 {
            pace.read(false, false, now, 0.0);
        }
        pace.poke(now);
        assert_eq!(pace.next(), now);
        pace.read(false, false, now, 0.0);
        assert_eq!(pace.next(), now + millis(20), "what was committed may not be visible yet");
    }

    #[test]
    fn jitter_shortens_and_never_lengthens() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        for (random, pause) in [(0.0, 1_000), (0.5, 950), (1.0, 900)] {
            let mut pace = Pace::new(second, second, now);
            pace.read(false, false, now, random);
            assert_eq!(pace.next(), now + Duration::from_millis(pause));
        }
    }
}
