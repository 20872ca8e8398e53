//! How many events may go to a destination in a length of time. Pure: time comes in.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How many events a consumer's destination gets at most, as `50/s`, `600/m` or `1000/h`.
///
/// It holds for all slots of the consumer together, in whichever relays they run: each slot has its part. Events that wait for
/// it burn no attempt and none of the sink's time.
///
/// ```
/// use outbox_relay::RateLimit;
///
/// let limit: RateLimit = "50/s".parse()?;
/// assert_eq!(limit.to_string(), "50/s");
/// assert!("0/s".parse::<RateLimit>().is_err());
/// # Ok::<(), outbox_relay::RateLimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    events: u32,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
}

impl Unit {
    const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    const fn letter(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "m",
            Self::Hour => "h",
        }
    }

    const fn length(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_secs(60),
            Self::Hour => Duration::from_secs(3600),
        }
    }
}

/// A text is no [`RateLimit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a rate: write a number from 1 to 1000000 and a unit, such as `50/s`, `600/m` or `1000/h`"
)]
pub struct RateLimitError(String);

impl FromStr for RateLimit {
    type Err = RateLimitError;

    fn from_str(text: &str) -> Result<Self, RateLimitError> {
        let parsed = || {
            let (number, letter) = text.split_once('/')?;
            let unit = Unit::ALL.into_iter().find(|unit| unit.letter() == letter)?;
            let events = Some(number)
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))?
                .parse()
                .ok()?;
            (1..=1_000_000).contains(&events).then_some(Self { events, unit })
        };
        parsed().ok_or_else(|| RateLimitError(text.to_owned()))
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.events, self.unit.letter())
    }
}

/// How much may go at once after a rest, as time.
const BURST: Duration = Duration::from_millis(100);

/// One slot's part of a limit: a bucket of tokens that fills evenly. It holds what comes in a tenth of a second, at least one.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// From one token to the next.
    every: Duration,
    holds: u32,
    /// When it is full.
    full: Instant,
}

impl Bucket {
    /// Full, for one of `slots` slots.
    pub(crate) fn new(limit: RateLimit, slots: u16, now: Instant) -> Self {
        let every = limit.unit.length() * u32::from(slots.max(1)) / limit.events;
        let holds = u32::try_from(BURST.as_nanos() / every.as_nanos().max(1)).unwrap_or(u32::MAX).max(1);
        Self { every, holds, full: now }
    }

    /// How many events may go now.
    pub(crate) fn available(&self, now: Instant) -> usize {
        let missing =
            self.full.saturating_duration_since(now).as_nanos().div_ceil(self.every.as_nanos().max(1));
        usize::try_from(u128::from(self.holds).saturating_sub(missing)).unwrap_or(usize::MAX)
    }

    /// An event goes.
    pub(crate) fn take(&mut self, now: Instant) {
        self.full = self.full.max(now) + self.every;
    }

    /// When there is a token again, if there is none now; later than `now` then.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let filling = self.every * (self.holds - 1);
        (self.available(now) == 0).then(|| self.full.checked_sub(filling).unwrap_or(self.full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(text: &str, slots: u16, now: Instant) -> Bucket {
        Bucket::new(text.parse().unwrap(), slots, now)
    }

    /// Takes whatever may go for so long, waking only when told to; returns when each went.
    fn run(mut bucket: Bucket, start: Instant, length: Duration) -> Vec<Duration> {
        let (mut now, mut went) = (start, Vec::new());
        while now < start + length {
            for _ in 0..bucket.available(now) {
                bucket.take(now);
                went.push(now - start);
            }
            let next = bucket.next(now).unwrap();
            assert!(next > now, "an engine that comes back at once turns round and round");
            now = next;
        }
        went
    }

    #[test]
    fn a_rate_is_kept_and_used_up() {
        let start = Instant::now();
        for (text, slots, seconds, expected) in [
            ("50/s", 1, 10, 500),
            ("600/m", 1, 10, 100),
            ("1000/h", 1, 36, 10),
            ("50/s", 5, 10, 100),
            ("1/s", 3, 30, 10),
        ] {
            let went = run(bucket(text, slots, start), start, Duration::from_secs(seconds));
            let most = expected + bucket(text, slots, start).holds as usize;
            assert!((expected..=most).contains(&went.len()), "{text} over {slots}: {}", went.len());
        }
    }

    #[test]
    fn a_rest_saves_up_a_tenth_of_a_second() {
        let start = Instant::now();
        let mut bucket = bucket("50/s", 1, start);
        let later = start + Duration::from_secs(60);
        assert_eq!(bucket.available(later), 5);
        for left in (0..5).rev() {
            bucket.take(later);
            assert_eq!(bucket.available(later), left);
        }
        assert_eq!(bucket.next(later), Some(later + Duration::from_millis(20)));
        assert_eq!(bucket.available(later + Duration::from_millis(19)), 0);
        assert_eq!(bucket.available(later + Duration::from_millis(20)), 1);
        assert_eq!(bucket.next(later + Duration::from_millis(20)), None);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in [
            "",
            "50",
            "/s",
            "50/",
            "50/d",
            "-1/s",
            "+5/s",
            "0/s",
            "1.5/s",
            "1000001/s",
            "50 /s",
            "99999999999/s",
        ] {
            assert_eq!(text.parse::<RateLimit>(), Err(RateLimitError(text.to_owned())), "{text}");
        }
        for text in ["1/s", "600/m", "1000000/h"] {
            assert_eq!(text.parse::<RateLimit>().unwrap().to_string(), text);
        }
    }
}
