//! A destination that is down: the consumer pauses, once per step of the outage, and then probes with one event at a
//! time. Pure: time and randomness come in.

use std::time::{Duration, Instant};

use crate::attempt::clip;
use crate::retry::Backoff;
use crate::sink::Outcome;

/// The longest pause that a destination's own wish can ask for.
const MAX_AFTER: Duration = Duration::from_secs(3600);
/// The failures in a row after which a longer count changes nothing any more: the pause has its full length.
const FULL_FAILURES: u32 = 16;

/// Whether a consumer's destination is taken to be up.
#[derive(Debug)]
pub(crate) struct Breaker {
    backoff: Backoff,
    open_until: Option<Instant>,
    unwritten: Option<Change>,
}

/// What the next transaction writes of the pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// How long from now on; zero = the destination is up again.
    pub(crate) length: Duration,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// Why.
    pub(crate) reason: Option<String>,
}

impl Breaker {
    /// As the last owner left it: paused for this long from now on, after this many failures in a row.
    pub(crate) fn claimed(paused_for: Option<Duration>, failures: u32, now: Instant) -> Self {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        for _ in 0..failures.min(FULL_FAILURES) {
            backoff.failed(0.0);
        }
        Self { backoff, open_until: paused_for.map(|left| now + left), unwritten: None }
    }

    /// Takes in what the destination answered. Returns what changed, if anything did.
    pub(crate) fn note(&mut self, outcome: &Outcome, now: Instant, random: f64) -> Option<&Change> {
        match outcome {
            // Those that were in flight when it went down tell nothing new.
            Outcome::Unavailable { .. } if self.open_until.is_some() => None,
            Outcome::Unavailable { error, after } => {
                let own = self.backoff.failed(random);
                let length = after.map_or(own, |wish| wish.clamp(own, MAX_AFTER));
                self.open_until = Some(now + length);
                let failures = self.backoff.failures();
                Some(self.unwritten.insert(Change { length, failures, reason: Some(clip(error)) }))
            }
            _ if self.backoff.failures() == 0 => None,
            _ => {
                self.backoff.succeeded();
                self.open_until = None;
                Some(self.unwritten.insert(Change { length: Duration::ZERO, failures: 0, reason: None }))
            }
        }
    }

    /// How many events may be at the destination at once, of at most `most`.
    pub(crate) fn limit(&mut self, most: usize, now: Instant) -> usize {
        if self.open_until.is_some_and(|until| until <= now) {
            self.open_until = None;
        }
        match self.open_until {
            Some(_) => 0,
            None if self.backoff.failures() > 0 => most.min(1),
            None => most,
        }
    }

    /// Until when nothing is sent, if the destination is down.
    pub(crate) fn open_until(&self) -> Option<Instant> {
        self.open_until
    }

    /// What the next transaction must write.
    pub(crate) fn unwritten(&self) -> Option<&Change> {
        self.unwritten.as_ref()
    }

    /// It is written; the database says how long the pause lasts, which an operator may have changed.
    pub(crate) fn written(&mut self, paused_for: Option<Duration>, now: Instant) {
        self.unwritten = None;
        self.open_until = paused_for.map(|left| now + left);
    }

    /// It is written, but nobody said how long the pause lasts.
    pub(crate) fn written_blindly(&mut self) {
        self.unwritten = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn down(after: Option<Duration>) -> Outcome {
        Outcome::Unavailable { error: "connection refused".into(), after }
    }

    #[test]
    fn an_outage_counts_once_per_step_and_ends_with_a_probe() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(None, 0, now);
        assert_eq!(breaker.limit(32, now), 32);
        assert_eq!(breaker.note(&down(None), now, 0.0).unwrap().length, SECOND);
        for _ in 0..31 {
            assert_eq!(breaker.note(&down(None), now, 0.0), None, "in flight when it went down");
        }
        assert_eq!(breaker.limit(32, now), 0);
        assert_eq!(breaker.limit(32, now + SECOND), 1, "one probe");
        let again = breaker.note(&down(None), now + SECOND, 0.0).unwrap();
        assert_eq!((again.length, again.failures), (2 * SECOND, 2));
        assert_eq!(breaker.limit(32, now + 3 * SECOND), 1);
        let up = breaker.note(&Outcome::Delivered, now + 3 * SECOND, 0.0).unwrap();
        assert_eq!((up.length, up.failures), (Duration::ZERO, 0));
        assert_eq!(breaker.limit(32, now + 3 * SECOND), 32);
        assert_eq!(breaker.note(&Outcome::Delivered, now, 0.0), None);
    }

    #[test]
    fn any_answer_means_that_it_is_up() {
        let now = Instant::now();
        for answer in
            [Outcome::Retry { error: "503".into(), after: None }, Outcome::Reject { error: "410".into() }]
        {
            let mut breaker = Breaker::claimed(Some(SECOND), 3, now);
            assert!(breaker.note(&answer, now, 0.0).is_some());
            assert_eq!(breaker.open_until(), None);
        }
    }

    #[test]
    fn a_wish_counts_between_the_own_pause_and_an_hour() {
        let now = Instant::now();
        for (wish, expected) in [(0, 1), (30, 30), (100_000, 3600)] {
            let mut breaker = Breaker::claimed(None, 0, now);
            let outcome = down(Some(Duration::from_secs(wish)));
            assert_eq!(breaker.note(&outcome, now, 0.0).unwrap().length.as_secs(), expected);
        }
    }

    #[test]
    fn an_owner_goes_on_where_the_last_one_was_and_the_database_has_the_last_word() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(Some(SECOND), u32::MAX, now);
        assert_eq!(breaker.limit(32, now), 0);
        breaker.written(None, now);
        assert_eq!(breaker.limit(32, now), 1, "no pause, but it has not answered yet");
        assert_eq!(breaker.note(&down(None), now, 0.0).unwrap().length.as_secs(), 60);
        breaker.written(Some(5 * SECOND), now);
        assert_eq!((breaker.limit(32, now + 4 * SECOND), breaker.unwritten()), (0, None));
    }
}
