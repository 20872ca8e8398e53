//! When the recorder looks again at what was held: at once while that costs nothing, and the more seldom the more there
//! is, so that a lane with 100,000 events behind its head is not read again for each new event.

use std::time::{Duration, Instant};

use outbox_sdk::backend::Recorded;

/// A pass over held events may take a hundredth of the time.
const SHARE: u32 = 100;
/// Held events are looked at again at least this often, whatever it costs.
const SELDOM: Duration = Duration::from_secs(15 * 60);

/// Where the recorder is in its passes.
#[derive(Debug)]
pub(super) struct Passes {
    /// Whether the pass that is going on began at the beginning.
    whole: bool,
    held: u64,
    cost: Duration,
    /// Not before, unless nothing was held.
    again_at: Instant,
}

impl Passes {
    pub(super) const fn new(now: Instant) -> Self {
        Self { whole: false, held: 0, cost: Duration::ZERO, again_at: now }
    }

    /// Whether the position goes back to the beginning if the next batch ends its pass.
    pub(super) fn wraps(&self, now: Instant) -> bool {
        now >= self.again_at && !(self.whole && self.held > 0)
    }

    /// Takes in a batch that was asked for with `wrap`. Answers whether there is anything left to do: more of the
    /// pass, or the whole pass that is due.
    pub(super) fn goes_on(&mut self, wrap: bool, batch: &Recorded, took: Duration, now: Instant) -> bool {
        self.held += batch.held;
        self.cost += took;
        if !batch.complete {
            return true;
        }
        let was_whole = self.whole;
        if was_whole {
            let rest =
                if self.held > 0 { self.cost.saturating_mul(SHARE).min(SELDOM) } else { Duration::ZERO };
            self.again_at = now + rest;
        }
        (self.whole, self.held, self.cost) = (wrap, 0, Duration::ZERO);
        wrap && !was_whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Duration = Duration::from_millis(10);

    fn batch(held: u64, complete: bool) -> Recorded {
        Recorded { held, complete, ..Recorded::default() }
    }

    /// A round as the recorder makes it, of batches that hold so much; the numbers of batches and of wraps.
    fn round(passes: &mut Passes, now: Instant, mut held: impl FnMut(bool) -> u64) -> (u32, u32) {
        let (mut batches, mut wraps) = (0, 0);
        loop {
            let wrap = passes.wraps(now);
            let whole = passes.whole;
            batches += 1;
            wraps += u32::from(wrap);
            if !passes.goes_on(wrap, &batch(held(whole), true), COST, now) {
                return (batches, wraps);
            }
        }
    }

    #[test]
    fn while_nothing_is_held_each_batch_is_a_whole_pass() {
        let now = Instant::now();
        let mut passes = Passes::new(now);
        assert_eq!(round(&mut passes, now, |_| 0), (2, 2), "the first one began anywhere");
        for _ in 0..5 {
            assert_eq!(round(&mut passes, now, |_| 0), (1, 1));
        }
    }

    #[test]
    fn what_is_held_is_looked_at_again_after_a_hundred_times_its_cost() {
        let start = Instant::now();
        let mut passes = Passes::new(start);
        let held = |whole: bool| if whole { 50 } else { 0 };
        let mut looked = Vec::new();
        for step in 0..400 {
            let now = start + COST * step;
            let mut whole = 0;
            round(&mut passes, now, |is_whole| {
                whole += u32::from(is_whole);
                held(is_whole)
            });
            if whole > 0 {
                looked.push(step);
            }
        }
        assert!((4..=10).contains(&looked.len()), "{looked:?}");
        assert!(looked.last() > Some(&290), "it comes back: {looked:?}");
    }

    #[test]
    fn a_pass_of_many_batches_ends_before_the_next_begins() {
        let now = Instant::now();
        let mut passes = Passes::new(now);
        assert!(passes.goes_on(true, &batch(0, true), COST, now));
        for _ in 0..9 {
            let wrap = passes.wraps(now);
            assert!(passes.goes_on(wrap, &batch(10, false), COST, now));
        }
        assert!(!passes.wraps(now), "it has held something");
        assert!(!passes.goes_on(false, &batch(10, true), COST, now));
        assert!(!passes.wraps(now + COST * 999));
        assert!(passes.wraps(now + COST * 1_000));
    }

    #[test]
    fn however_dear_it_is_held_events_are_looked_at_again() {
        let now = Instant::now();
        let mut passes = Passes::new(now);
        passes.goes_on(true, &batch(0, true), COST, now);
        passes.goes_on(false, &batch(1, true), Duration::from_secs(3_600), now);
        assert!(passes.wraps(now + SELDOM));
    }
}
