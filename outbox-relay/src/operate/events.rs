//! Events: find, list, show.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use outbox_sdk::backend::{EventFilter, EventRow};
use outbox_sdk::{Backend, Timestamp};
use uuid::Uuid;

use super::{OperateError, Operator};

/// How far an event's `created_at` may lie from the time in its `event_id`: clocks differ, and transactions are long.
const AROUND: Duration = Duration::from_secs(24 * 3600);

/// How an operator names an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventRef {
    /// By `id`.
    Id(i64),
    /// By `event_id`.
    EventId(Uuid),
}

impl FromStr for EventRef {
    type Err = NoEventRef;

    fn from_str(text: &str) -> Result<Self, NoEventRef> {
        let id = text.parse().ok().filter(|id| *id > 0).map(Self::Id);
        id.or_else(|| Uuid::parse_str(text).ok().map(Self::EventId))
            .ok_or_else(|| NoEventRef(text.to_owned()))
    }
}

impl fmt::Display for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::EventId(event_id) => event_id.fmt(f),
        }
    }
}

/// A text that names no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no event; give its id, a number from 1, or its event_id, a UUID")]
pub struct NoEventRef(String);

/// How to look for an `event_id`, which has no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Search {
    /// A version 7 among the events created within a day of its own time; another version in the whole table.
    #[default]
    ByTime,
    /// In the whole table.
    Everywhere,
}

/// One page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// Newest first.
    pub events: Vec<EventRow>,
    /// The id below which the next page begins; `None` on the last one.
    pub next: Option<i64>,
}

impl<DB: Backend> Operator<DB> {
    /// The id of an event. One that was given by id need not exist.
    ///
    /// # Errors
    /// [`OperateError::NoEvent`] or [`OperateError::NoEventByTime`] when no event has this `event_id`,
    /// [`OperateError::Ambiguous`] when several have it, or when the database cannot be asked.
    pub async fn find(&self, event: EventRef, search: Search) -> Result<i64, OperateError> {
        let event_id = match event {
            EventRef::Id(id) => return Ok(id),
            EventRef::EventId(event_id) => event_id,
        };
        let span = if search == Search::ByTime { time_of(event_id).map(around) } else { None };
        let mut conn = self.connect().await?;
        let ids = self.within(DB::event_ids(&mut conn, &self.tables, event_id, span)).await?;
        conn.keep();
        match ids[..] {
            [id] => Ok(id),
            [] if span.is_some() => Err(OperateError::NoEventByTime(event_id)),
            [] => Err(OperateError::NoEvent(event)),
            _ => Err(OperateError::Ambiguous { event_id, ids }),
        }
    }

    /// A stored event; its payloads are empty unless asked for.
    ///
    /// # Errors
    /// As [`find`](Self::find), and [`OperateError::NoEvent`].
    pub async fn event(
        &self,
        event: EventRef,
        search: Search,
        with_payload: bool,
    ) -> Result<EventRow, OperateError> {
        let id = self.find(event, search).await?;
        let mut conn = self.connect().await?;
        let row = self.within(DB::event(&mut conn, &self.tables, id, with_payload)).await?;
        conn.keep();
        row.ok_or(OperateError::NoEvent(event))
    }

    /// One page of events, newest first, below an id. An aggregate, a correlation or (on PostgreSQL) a span of time is
    /// found by its index; anything else is walked over, from the newest event on.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn events(
        &self,
        filter: &EventFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<EventPage, OperateError> {
        let mut conn = self.connect().await?;
        let more = limit.saturating_add(1);
        let mut events = self.within(DB::events(&mut conn, &self.tables, filter, before, more)).await?;
        conn.keep();
        let size = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = if events.len() > size {
            events.truncate(size);
            events.last().map(|event| event.envelope.id)
        } else {
            None
        };
        Ok(EventPage { events, next })
    }
}

/// The time in a version 7 UUID.
fn time_of(event_id: Uuid) -> Option<Timestamp> {
    if event_id.get_version_num() != 7 {
        return None;
    }
    let (seconds, nanos) = event_id.get_timestamp()?.to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    Some(Timestamp::from_micros(micros.checked_add(i64::from(nanos / 1_000))?))
}

fn around(time: Timestamp) -> (Timestamp, Timestamp) {
    let around = i64::try_from(AROUND.as_micros()).unwrap_or(i64::MAX);
    let (from, until) = (time.micros().saturating_sub(around), time.micros().saturating_add(around));
    (Timestamp::from_micros(from), Timestamp::from_micros(until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_by_number_or_uuid() {
        let event_id = Uuid::from_u128(0x0198_0000_0000_7000_8000_0000_0000_0001);
        assert_eq!("17".parse(), Ok(EventRef::Id(17)));
        assert_eq!(event_id.to_string().parse(), Ok(EventRef::EventId(event_id)));
        for bad in ["", "0", "-1", "x", "1.5", "99999999999999999999"] {
            assert_eq!(bad.parse::<EventRef>(), Err(NoEventRef(bad.to_owned())));
        }
    }

    #[test]
    fn only_a_version_7_tells_its_time() {
        // 2024-05-01T00:00:00Z in milliseconds is 0x018f_3171_5800.
        let seven = Uuid::from_u128(0x018f_3171_5800_7000_8000_0000_0000_0001);
        assert_eq!(time_of(seven), Some(Timestamp::from_micros(0x018f_3171_5800 * 1_000)));
        assert_eq!(time_of(Uuid::from_u128(0x018f_3171_5800_4000_8000_0000_0000_0001)), None);
        let (from, until) = around(Timestamp::from_micros(0));
        assert_eq!((from.micros(), until.micros()), (-86_400_000_000, 86_400_000_000));
    }
}
