//! Arguments that several commands take.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use outbox_relay::config::{parse_duration, parse_time};
use outbox_relay::consumer::EventPattern;
use outbox_sdk::Timestamp;
use outbox_sdk::backend::TypeFilter;

/// A pattern of event types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) TypeFilter);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pattern: EventPattern = text.parse().map_err(|error| format!("{error}"))?;
        Ok(Self(match pattern.as_str().strip_suffix('*') {
            None => TypeFilter::Exact(text.to_owned()),
            Some("") => TypeFilter::Any,
            Some(stem) => TypeFilter::Prefix(stem.to_owned()),
        }))
    }
}

/// `TYPE` or `TYPE/ID`; an id may hold slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Aggregate {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
}

impl FromStr for Aggregate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, id) = match text.split_once('/') {
            Some((kind, id)) => (kind, Some(id.to_owned())),
            None => (text, None),
        };
        Ok(Self { kind: kind.to_owned(), id })
    }
}

/// A time, or a length of time before now by this machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(micros) = parse_time(text) {
            return Ok(Self(Timestamp::from_micros(micros)));
        }
        let ago = parse_duration(text).map_err(|_| {
            "write a time such as 2026-12-01T06:00:00Z, or how long ago, such as 2h".to_owned()
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(now.saturating_sub(ago).as_micros()).unwrap_or(i64::MAX);
        Ok(Self(Timestamp::from_micros(micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_aggregates_and_moments() {
        assert_eq!("*".parse(), Ok(Pattern(TypeFilter::Any)));
        assert_eq!("entity.*".parse(), Ok(Pattern(TypeFilter::Prefix("entity.".to_owned()))));
        assert_eq!("order.placed".parse(), Ok(Pattern(TypeFilter::Exact("order.placed".to_owned()))));
        assert!("order".parse::<Pattern>().is_err());

        let aggregate =
            |kind: &str, id: Option<&str>| Aggregate { kind: kind.to_owned(), id: id.map(str::to_owned) };
        assert_eq!("customer".parse(), Ok(aggregate("customer", None)));
        assert_eq!("customer/a/b".parse(), Ok(aggregate("customer", Some("a/b"))));

        assert_eq!("1970-01-01T00:00:01Z".parse(), Ok(Moment(Timestamp::from_micros(1_000_000))));
        let (two, one) = ("2h".parse::<Moment>().unwrap(), "1h".parse::<Moment>().unwrap());
        let apart = one.0.micros() - two.0.micros();
        assert!((3_600_000_000..3_660_000_000).contains(&apart), "{apart}");
        assert!("yesterday".parse::<Moment>().is_err());
    }
}
