//! The server's `timestamptz`, exact to the microsecond and without a date library.

use std::time::Duration;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::envelope::Timestamp;

/// 2000-01-01 UTC, from which the server counts, in microseconds since 1970-01-01 UTC.
const SERVER_EPOCH: i64 = 946_684_800_000_000;

/// The types' numbers, the same on every server: by name the driver would ask for them once per connection.
const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);

/// The longest time that is added to the server's clock: a thousand years. Beyond it lie times that it cannot store.
const LONGEST: i64 = 1_000 * 31_557_600 * 1_000_000;

/// A `timestamptz`. The server's `infinity` and `-infinity` become the ends of the scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PgTimestamp(pub(super) Timestamp);

impl PgTimestamp {
    /// How long it is from `now` to this moment; zero when it has passed.
    pub(super) fn after(self, now: Self) -> Duration {
        let micros = self.0.micros().saturating_sub(now.0.micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

impl Type<Postgres> for PgTimestamp {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for PgTimestamp {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for PgTimestamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode(self.0.micros().saturating_sub(SERVER_EPOCH), buffer)
    }
}

impl Decode<'_, Postgres> for PgTimestamp {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() != PgValueFormat::Binary {
            return Err("a timestamp came in text form; run the statement as a prepared one".into());
        }
        let micros: i64 = Decode::<Postgres>::decode(value)?;
        Ok(Self(Timestamp::from_micros(micros.saturating_add(SERVER_EPOCH))))
    }
}

/// A length of time as the server adds it: microseconds, at most a thousand years.
pub(super) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_counted_from_now_and_never_negative() {
        let at = |micros| PgTimestamp(Timestamp::from_micros(micros));
        assert_eq!(at(1_500).after(at(500)), Duration::from_millis(1));
        assert_eq!(at(500).after(at(1_500)), Duration::ZERO);
        assert!(at(i64::MAX).after(at(0)) > Duration::from_secs(1_000_000));
        assert_eq!(at(i64::MIN).after(at(0)), Duration::ZERO);
    }

    #[test]
    fn lengths_are_cut_to_what_the_server_can_add() {
        assert_eq!(micros(Duration::from_micros(7)), 7);
        assert_eq!(micros(Duration::MAX), LONGEST);
    }
}
