//! Durations, sizes and times as people write them.

use std::time::Duration;

use toml::de::DeValue;

/// The longest duration that makes sense here; keeps every later sum of a time and a duration in range.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Units from long to short, in milliseconds.
const TIME_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const SIZE_UNITS: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Why a text is no duration, size or time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// It does not begin with a number.
    #[error("`{0}` does not begin with a whole number")]
    NoNumber(String),
    /// The unit is missing.
    #[error("`{0}` has no unit")]
    NoUnit(String),
    /// There is no such unit.
    #[error("the unit `{0}` is unknown")]
    UnknownUnit(String),
    /// Units stand in the wrong order, or twice.
    #[error("units must go from long to short, each at most once")]
    Order,
    /// It is too large.
    #[error("`{0}` is too large")]
    TooLarge(String),
    /// It is no RFC 3339 time.
    #[error("`{0}` is not a time")]
    NotATime(String),
    /// It does not say how far it is from UTC.
    #[error("the time `{0}` has no offset from UTC")]
    NoOffset(String),
}

/// Parses `250ms`, `5s`, `1h30m`, `7d`.
///
/// # Errors
/// [`UnitError`] for any other text, and for what is too long.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let mut millis = 0_u64;
    let mut next_unit = 0;
    let mut rest = text;
    loop {
        let (number, after) = leading_number(rest, text)?;
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() {
            return Err(UnitError::NoUnit(text.to_owned()));
        }
        let Some(index) = TIME_UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(UnitError::UnknownUnit(unit.to_owned()));
        };
        if index < next_unit {
            return Err(UnitError::Order);
        }
        next_unit = index + 1;
        let part = number.checked_mul(TIME_UNITS[index].1);
        millis = part
            .and_then(|part| millis.checked_add(part))
            .ok_or_else(|| UnitError::TooLarge(text.to_owned()))?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let duration = Duration::from_millis(millis);
    if duration > LONGEST { Err(UnitError::TooLarge(text.to_owned())) } else { Ok(duration) }
}

/// The text that [`duration`] reads as this duration, or as the next shorter one in whole seconds; milliseconds
/// below a second.
pub(super) fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut rest = if millis < 1_000 { millis } else { millis - millis % 1_000 };
    let mut text = String::new();
    for (unit, size) in TIME_UNITS {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Parses `8 MiB`, `512kB`, `4096` into bytes.
pub(super) fn bytes(text: &str) -> Result<u64, UnitError> {
    let (number, after) = leading_number(text, text)?;
    let unit = after.strip_prefix(' ').unwrap_or(after);
    let factor = match SIZE_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if after.is_empty() => 1,
        None => return Err(UnitError::UnknownUnit(unit.to_owned())),
    };
    number.checked_mul(factor).ok_or_else(|| UnitError::TooLarge(text.to_owned()))
}

fn leading_number<'a>(rest: &'a str, whole: &str) -> Result<(u64, &'a str), UnitError> {
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(digits);
    if number.is_empty() {
        return Err(UnitError::NoNumber(whole.to_owned()));
    }
    let number = number.parse().map_err(|_| UnitError::TooLarge(whole.to_owned()))?;
    Ok((number, after))
}

/// The microseconds since 1970-01-01T00:00:00Z of an RFC 3339 time. The TOML parser knows the calendar.
///
/// # Errors
/// [`UnitError`] for any other text, and for a time without its offset from UTC.
pub fn time(text: &str) -> Result<i64, UnitError> {
    let not_a_time = || UnitError::NotATime(text.to_owned());
    let parsed = DeValue::parse(text).map_err(|_| not_a_time())?;
    let DeValue::Datetime(datetime) = parsed.get_ref() else { return Err(not_a_time()) };
    let (Some(date), Some(time)) = (datetime.date, datetime.time) else { return Err(not_a_time()) };
    let offset = datetime.offset.ok_or_else(|| UnitError::NoOffset(text.to_owned()))?.to_string();
    let ahead = offset_minutes(&offset).ok_or_else(not_a_time)?;
    let days = days_since_1970(i64::from(date.year), i64::from(date.month), i64::from(date.day));
    let minutes = (days * 24 + i64::from(time.hour)) * 60 + i64::from(time.minute) - ahead;
    let seconds = minutes * 60 + i64::from(time.second.unwrap_or(0));
    Ok(seconds * 1_000_000 + i64::from(time.nanosecond.unwrap_or(0) / 1_000))
}

/// How far `Z`, `+02:00` or `-05:30` is ahead of UTC.
fn offset_minutes(offset: &str) -> Option<i64> {
    if offset.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let ahead = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
    Some(if offset.starts_with('-') { -ahead } else { ahead })
}

/// Days of the Gregorian calendar. Years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + leap_days + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("1m", 60_000),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn shown_durations_can_be_read_again() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (8_333, "8s"),
            (90_000, "1m30s"),
            (90_061_000, "1d1h1m1s"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
            assert!(duration(text).unwrap() <= Duration::from_millis(millis));
        }
    }

    #[test]
    fn texts_that_are_no_durations() {
        let text = |text: &str| text.to_owned();
        for (bad, error) in [
            ("", UnitError::NoNumber(text(""))),
            ("s", UnitError::NoNumber(text("s"))),
            ("-5s", UnitError::NoNumber(text("-5s"))),
            (" 5s", UnitError::NoNumber(text(" 5s"))),
            ("5", UnitError::NoUnit(text("5"))),
            ("1h5", UnitError::NoUnit(text("1h5"))),
            ("5 s", UnitError::UnknownUnit(text(" s"))),
            ("1.5s", UnitError::UnknownUnit(text("."))),
            ("5sec", UnitError::UnknownUnit(text("sec"))),
            ("5M", UnitError::UnknownUnit(text("M"))),
            ("5s1m", UnitError::Order),
            ("5s5s", UnitError::Order),
            ("3651d", UnitError::TooLarge(text("3651d"))),
            ("99999999999999999999s", UnitError::TooLarge(text("99999999999999999999s"))),
            ("999999999999999999d", UnitError::TooLarge(text("999999999999999999d"))),
        ] {
            assert_eq!(duration(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn sizes() {
        for (text, size) in [
            ("0", 0),
            ("4096", 4096),
            ("8 MiB", 8 << 20),
            ("8MiB", 8 << 20),
            ("3 kB", 3000),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        assert_eq!(bytes("8 mib"), Err(UnitError::UnknownUnit("mib".to_owned())));
        assert_eq!(bytes("8  MiB"), Err(UnitError::UnknownUnit(" MiB".to_owned())));
        assert_eq!(bytes("8 "), Err(UnitError::UnknownUnit(String::new())));
        assert_eq!(bytes("MiB"), Err(UnitError::NoNumber("MiB".to_owned())));
        assert_eq!(bytes("99999999999 GiB"), Err(UnitError::TooLarge("99999999999 GiB".to_owned())));
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999999Z", -1),
            ("2000-02-29T12:00:00Z", 951_825_600_000_000),
            ("2026-12-01T01:02:03.000004Z", 1_796_086_923_000_004),
            ("2026-12-01T03:32:03+02:30", 1_796_086_923_000_000),
            ("2026-11-30T20:02:03-05:00", 1_796_086_923_000_000),
        ] {
            assert_eq!(time(text), Ok(expected), "{text}");
        }
        assert_eq!(time("2026-12-01"), Err(UnitError::NotATime("2026-12-01".to_owned())));
        assert_eq!(time("yesterday"), Err(UnitError::NotATime("yesterday".to_owned())));
        assert_eq!(time("2026-02-30T00:00:00Z"), Err(UnitError::NotATime("2026-02-30T00:00:00Z".to_owned())));
        let local = "2026-12-01T01:02:03";
        assert_eq!(time(local), Err(UnitError::NoOffset(local.to_owned())));
    }
}
