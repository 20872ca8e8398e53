//! When to try again: pure arithmetic on the number of failures and a random number that the caller draws.
//!
//! Nothing here reads a clock. The relay hands the delays to the database, which adds them to its own time.

use std::time::Duration;

/// The largest share that jitter adds to a step: each delay is its step times uniform(1.0, 1.2).
const SPREAD: f64 = 0.2;

/// What stands in for an empty [`Schedule::List`], so that no schedule turns a failure into a hot loop.
const EMPTY_LIST_STEP: Duration = Duration::from_secs(1);

/// The steps between attempts, without jitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// One step per failure; the last one repeats.
    List(Vec<Duration>),
    /// `base`, twice `base`, four times `base` and so on, never above `cap`.
    Exponential {
        /// The step after the first failure.
        base: Duration,
        /// The longest step.
        cap: Duration,
    },
}

impl Schedule {
    /// The step after `failures` failures in a row. Zero failures count as one.
    #[must_use]
    pub fn step(&self, failures: u32) -> Duration {
        let index = failures.saturating_sub(1);
        match self {
            Self::List(steps) => usize::try_from(index)
                .ok()
                .and_then(|index| steps.get(index))
                .or(steps.last())
                .copied()
                .unwrap_or(EMPTY_LIST_STEP),
            Self::Exponential { base, cap } => doubled(*base, *cap, index),
        }
    }

    /// The number of failures from which on every step is the same.
    fn constant_from(&self) -> u32 {
        match self {
            Self::List(steps) => u32::try_from(steps.len()).unwrap_or(u32::MAX).max(1),
            // A step has fewer than 128 bits of nanoseconds, so it has met any cap (or is zero) by then.
            Self::Exponential { .. } => u128::BITS,
        }
    }
}

/// When a failed delivery is tried again, and when it is given up.
///
/// ```
/// use outbox_relay::retry::RetryPolicy;
/// use std::time::Duration;
///
/// let policy = RetryPolicy::default();
/// assert_eq!(policy.delay(1, 0.0), Duration::from_secs(5));
/// assert_eq!(policy.delay(2, 0.5), Duration::from_secs(66)); // one minute and a tenth
/// assert!(!policy.exhausted(9));
/// assert!(policy.exhausted(10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The steps between attempts.
    pub schedule: Schedule,
    /// How many attempts an event gets, the first one included, until it is a dead letter. Zero counts as one.
    pub max_attempts: u32,
}

impl RetryPolicy {
    /// The delay after `attempts` failures: the step times uniform(1.0, 1.2), where `random` from 0.0 to 1.0
    /// picks the point. Defined for every input: zero attempts count as one, a `random` outside the range is
    /// moved to its nearer end, NaN counts as 0.0.
    #[must_use]
    pub fn delay(&self, attempts: u32, random: f64) -> Duration {
        jittered(self.schedule.step(attempts), random)
    }

    /// Whether an event with this many failures is dead.
    #[must_use]
    pub fn exhausted(&self, attempts: u32) -> bool {
        attempts >= self.max_attempts.max(1)
    }

    /// The time from the first failure until the event is dead, without jitter and without the time that the
    /// attempts themselves take.
    #[must_use]
    pub fn until_dead(&self) -> Duration {
        let waits = self.max_attempts.saturating_sub(1);
        let varying = waits.min(self.schedule.constant_from());
        let head = (1..=varying)
            .fold(Duration::ZERO, |sum, failures| sum.saturating_add(self.schedule.step(failures)));
        head.saturating_add(self.schedule.step(waits).saturating_mul(waits - varying))
    }
}

impl Default for RetryPolicy {
    /// 5 s, 1 min, 5 min, 15 min, then every hour; ten attempts: about 5 h 21 min until dead.
    fn default() -> Self {
        Self {
            schedule: Schedule::List([5, 60, 300, 900, 3600].map(Duration::from_secs).to_vec()),
            max_attempts: 10,
        }
    }
}

/// Counts failures in a row of one resource (a database connection, a paused destination) and says how long to
/// leave it alone: doubling from `base` to `cap`, with the jitter of [`RetryPolicy::delay`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff without failures. A `cap` below `base` wins over it.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: 0 }
    }

    /// For a database that is away: never long, so that work resumes soon after it is back. The jitter spreads those that
    /// come back with it.
    pub(crate) const fn reconnect() -> Self {
        Self::new(Duration::from_millis(100), Duration::from_secs(1))
    }

    /// Counts one more failure and returns the time to wait before the next try; `random` as in
    /// [`RetryPolicy::delay`].
    pub fn failed(&mut self, random: f64) -> Duration {
        let step = doubled(self.base, self.cap, self.failures);
        self.failures = self.failures.saturating_add(1);
        jittered(step, random)
    }

    /// Forgets the failures: the resource answered.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Failures in a row so far.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

fn doubled(base: Duration, cap: Duration, doublings: u32) -> Duration {
    let factor = 1_u128 << doublings.min(u128::BITS - 1);
    let nanos = base.as_nanos().saturating_mul(factor);
    if nanos >= cap.as_nanos() { cap } else { Duration::from_nanos_u128(nanos) }
}

fn jittered(step: Duration, random: f64) -> Duration {
    let share = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) * SPREAD };
    // A fifth of a duration is always a duration, so the default is never taken.
    let extra = Duration::try_from_secs_f64(step.as_secs_f64() * share).unwrap_or_default();
    step.saturating_add(extra)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn any_duration() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..=u64::MAX, 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
            (0..100_000_u64).prop_map(Duration::from_millis),
            Just(Duration::ZERO),
            Just(Duration::MAX),
        ]
    }

    fn any_schedule() -> impl Strategy<Value = Schedule> {
        prop_oneof![
            proptest::collection::vec(any_duration(), 0..8).prop_map(|mut steps| {
                steps.sort();
                Schedule::List(steps)
            }),
            (any_duration(), any_duration()).prop_map(|(base, cap)| Schedule::Exponential { base, cap }),
        ]
    }

    fn any_failures() -> impl Strategy<Value = u32> {
        prop_oneof![0..200_u32, any::<u32>(), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn every_input_has_a_delay_between_the_step_and_a_fifth_more(
            schedule in any_schedule(), attempts in any_failures(), random in any::<f64>(),
        ) {
            let step = schedule.step(attempts);
            let delay = RetryPolicy { schedule, max_attempts: 10 }.delay(attempts, random);
            prop_assert!(delay >= step);
            prop_assert!(delay.as_secs_f64() <= step.as_secs_f64() * 1.200_001);
        }

        #[test]
        fn steps_of_a_rising_schedule_never_fall(
            schedule in any_schedule(), a in any_failures(), b in any_failures(),
        ) {
            prop_assert!(schedule.step(a.min(b)) <= schedule.step(a.max(b)));
        }

        #[test]
        fn doubling_starts_at_the_base_and_ends_at_the_cap(
            base in 1..10_000_u64, cap in 10_000..1_000_000_u64, n in 1..6_u32,
        ) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(cap));
            let schedule = Schedule::Exponential { base, cap };
            prop_assert_eq!(schedule.step(1), base);
            prop_assert_eq!(schedule.step(n + 1), (schedule.step(n) * 2).min(cap));
            prop_assert_eq!(schedule.step(u32::MAX), cap);
        }

        #[test]
        fn until_dead_is_the_sum_of_the_steps(schedule in any_schedule(), max_attempts in 0..400_u32) {
            let sum = (1..max_attempts).fold(Duration::ZERO, |sum, n| sum.saturating_add(schedule.step(n)));
            prop_assert_eq!(RetryPolicy { schedule, max_attempts }.until_dead(), sum);
        }

        #[test]
        fn until_dead_ends_for_any_number_of_attempts(schedule in any_schedule()) {
            let until_dead = |max_attempts| RetryPolicy { schedule: schedule.clone(), max_attempts }.until_dead();
            prop_assert!(until_dead(u32::MAX) >= until_dead(1_000));
        }
    }

    #[test]
    fn the_default_lasts_a_little_over_five_hours() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.until_dead(), secs(5 * 3600 + 21 * 60 + 5));
        let steps: Vec<u64> = (1..=7).map(|n| policy.delay(n, 0.0).as_secs()).collect();
        assert_eq!(steps, [5, 60, 300, 900, 3600, 3600, 3600]);
    }

    #[test]
    fn jitter_spans_a_fifth() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, 1.0), secs(6));
        assert_eq!(policy.delay(1, 7.0), secs(6));
        assert_eq!(policy.delay(1, -1.0), secs(5));
        assert_eq!(policy.delay(1, f64::NAN), secs(5));
    }

    #[test]
    fn an_event_is_dead_at_its_last_attempt() {
        let policy = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
        assert!(!policy.exhausted(2));
        assert!(policy.exhausted(3));
        let single = RetryPolicy { max_attempts: 0, ..policy };
        assert!(!single.exhausted(0));
        assert!(single.exhausted(1));
        assert_eq!(single.until_dead(), Duration::ZERO);
    }

    #[test]
    fn an_empty_list_still_waits() {
        assert_eq!(Schedule::List(Vec::new()).step(3), secs(1));
    }

    #[test]
    fn backoff_doubles_until_the_resource_answers() {
        let mut backoff = Backoff::new(secs(1), secs(5));
        let waits: Vec<u64> = (0..4).map(|_| backoff.failed(0.0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5]);
        assert_eq!(backoff.failures(), 4);
        backoff.succeeded();
        assert_eq!(backoff.failed(1.0), Duration::from_millis(1200));
    }
}
