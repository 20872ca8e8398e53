//! Arguments that choose dead letters.

use std::str::FromStr;

use outbox_sdk::Timestamp;
use outbox_sdk::backend::{LetterCursor, LetterFilter, LetterKey, LetterState};
use uuid::Uuid;

use crate::arguments::{Aggregate, Moment, Pattern};
use crate::exit::Failure;

/// Which dead letters.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct FilterArgs {
    /// Of this consumer.
    #[arg(long, value_name = "NAME")]
    pub(crate) consumer: Option<String>,
    /// Of this event type: exact, a prefix such as `entity.customer.*`, or `*`.
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<Pattern>,
    /// Dead for this reason.
    #[arg(long, value_parser = ["schema_violation", "schema_missing", "major_missing", "rejected", "attempts", "undecodable"])]
    reason: Option<String>,
    /// In this state.
    #[arg(long, value_parser = ["dead", "replay", "replayed", "discarded", "reset", "all"])]
    state: Option<String>,
    /// About this kind of aggregate, or this aggregate.
    #[arg(long, value_name = "TYPE[/ID]")]
    aggregate: Option<Aggregate>,
    /// Of this tenant.
    #[arg(long, value_name = "UUID")]
    tenant: Option<Uuid>,
    /// Failed at this time (RFC 3339) or later, or this long ago at most, such as 2h.
    #[arg(long, value_name = "TIME")]
    failed_after: Option<Moment>,
    /// Failed before this time (RFC 3339), or this long ago at least.
    #[arg(long, value_name = "TIME")]
    failed_before: Option<Moment>,
    /// Of this event, by id; may be given several times.
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<i64>,
}

impl FilterArgs {
    /// The filter; `state` where none is named.
    pub(crate) fn filter(&self, state: Option<LetterState>) -> Result<LetterFilter, Failure> {
        let state = match self.state.as_deref() {
            None => state,
            Some("all") => None,
            Some(text) => Some(text.parse().map_err(|error| Failure::usage(format!("error: {error}")))?),
        };
        Ok(LetterFilter {
            consumer: self.consumer.clone(),
            event_type: self.event_type.clone().unwrap_or_default().0,
            reason: self.reason.clone(),
            state,
            tenant_id: self.tenant,
            aggregate_type: self.aggregate.as_ref().map(|aggregate| aggregate.kind.clone()),
            aggregate_id: self.aggregate.as_ref().and_then(|aggregate| aggregate.id.clone()),
            failed_from: self.failed_after.map(|moment| moment.0),
            failed_until: self.failed_before.map(|moment| moment.0),
            ids: self.ids.clone(),
            acknowledged: None,
        })
    }

    /// Whether nothing is chosen.
    pub(crate) fn is_empty(&self) -> bool {
        self.consumer.is_none() && self.is_only_consumer()
    }

    /// Whether nothing but a consumer is chosen.
    pub(crate) fn is_only_consumer(&self) -> bool {
        let Self {
            consumer: _,
            event_type,
            reason,
            state,
            aggregate,
            tenant,
            failed_after,
            failed_before,
            ids,
        } = self;
        event_type.is_none()
            && reason.is_none()
            && state.is_none()
            && aggregate.is_none()
            && tenant.is_none()
            && failed_after.is_none()
            && failed_before.is_none()
            && ids.is_empty()
    }
}

/// Where a page ended, as it is printed: `MICROSECONDS.ID.CONSUMER`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor(pub(crate) LetterCursor);

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LetterCursor { failed_at, key } = &self.0;
        write!(f, "{}.{}.{}", failed_at.micros(), key.id, key.consumer)
    }
}

impl FromStr for Cursor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let (micros, rest) = text.split_once('.')?;
            let (id, consumer) = rest.split_once('.')?;
            let failed_at = Timestamp::from_micros(micros.parse().ok()?);
            let key = LetterKey { id: id.parse().ok()?, consumer: consumer.to_owned() };
            Some(Self(LetterCursor { failed_at, key }))
        };
        parsed().ok_or_else(|| "no page ended there; copy what `outbox dead list` printed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back() {
        let key = LetterKey { id: 17, consumer: "a.b".to_owned() };
        let cursor = Cursor(LetterCursor { failed_at: Timestamp::from_micros(-5), key });
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for bad in ["", "1", "1.2", "x.2.crm", "1.x.crm"] {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }
}
