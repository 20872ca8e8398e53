//! How long a receiver asks a sender to wait.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDateTime, Utc};

use crate::envelope::Timestamp;

/// A longer wait is as good as none, and adding it to a time must not overflow.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);

/// The three forms of an HTTP date: the current one, and two obsolete ones that still must be read.
const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// How long a `retry-after` header asks to wait: a number of seconds, or an HTTP date (any of its three forms).
///
/// A moment that has passed is zero, a wait beyond 136 years is 136 years, anything else is `None`.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use outbox_sdk::webhook::retry_after;
///
/// let now = SystemTime::UNIX_EPOCH;
/// assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
/// assert_eq!(retry_after("Thu, 01 Jan 1970 00:01:00 GMT", now), Some(Duration::from_secs(60)));
/// assert_eq!(retry_after("soon", now), None);
/// ```
#[must_use]
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // All digits, so the only possible error is a number too large.
        return Some(value.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST));
    }
    let date: DateTime<Utc> =
        DATE_FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(value, form).ok())?.and_utc();
    let until = Timestamp::from_micros(date.timestamp_micros()).to_system_time();
    Some(until.duration_since(now).unwrap_or_default().min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_takes_seconds_and_dates_and_nothing_else() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let wait = |value| retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(wait("0"), Some(0));
        assert_eq!(wait(" 120 "), Some(120));
        assert_eq!(wait("99999999999999999999999"), Some(u64::from(u32::MAX)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(wait("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60));
        assert_eq!(wait("Sun Nov  6 08:50:37 1994"), Some(60));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:36 GMT"), Some(0));
        assert_eq!(wait("Fri, 31 Dec 9999 23:59:59 GMT"), Some(u64::from(u32::MAX)));
        for garbage in ["", "-1", "+5", "1.5", "1e3", "soon", "Mon, 06 Nov 1994 08:49:37 GMT", "\u{0662}"] {
            assert_eq!(wait(garbage), None, "{garbage}");
        }
    }
}
