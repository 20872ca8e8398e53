//! The attempt history: how deliveries that did not go well at once have ended. It is for people; nothing is decided by
//! it, and losing some of it harms nothing.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error};

use crate::envelope::Timestamp;
use crate::tables::Tables;

/// The statements behind the attempt history.
pub trait History: Database {
    /// Notes attempts in this order, and forgets the oldest of each event and consumer beyond `keep`.
    fn note_attempts(
        conn: &mut Self::Connection,
        tables: &Tables,
        attempts: &[NewAttempt],
        keep: u32,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The attempts at the event with this id that are remembered, by consumer, oldest first.
    fn attempts(
        conn: &mut Self::Connection,
        tables: &Tables,
        event_id: i64,
    ) -> impl Future<Output = Result<Vec<AttemptRow>, Error>> + Send;
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The destination has the event.
    Delivered,
    /// It does not; to be tried again.
    Failed,
    /// The destination will never take the event.
    Rejected,
    /// The destination was down; no attempt was counted.
    Unavailable,
    /// The destination takes no event any more; no attempt was counted.
    Gone,
}

impl AttemptOutcome {
    /// Its name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::Gone => "gone",
        }
    }
}

/// An attempt that has just ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAttempt {
    /// The event's id.
    pub event_id: i64,
    /// The consumer.
    pub consumer: String,
    /// Its number, from 1.
    pub attempt: u32,
    /// Whether an operator had asked for it.
    pub replay: bool,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// What the destination's protocol answered, such as an HTTP status.
    pub status: Option<u16>,
    /// What went wrong; no payload, no secret.
    pub error: Option<String>,
    /// How long ago it ended.
    pub ended_ago: Duration,
    /// How long it took.
    pub duration: Duration,
}

/// An attempt that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    /// The consumer.
    pub consumer: String,
    /// Its number, from 1.
    pub attempt: u32,
    /// Whether an operator had asked for it.
    pub replay: bool,
    /// How it ended: as [`AttemptOutcome::as_str`] writes it.
    pub outcome: String,
    /// What the destination's protocol answered, such as an HTTP status.
    pub status: Option<u16>,
    /// What went wrong.
    pub error: Option<String>,
    /// When it ended, by the database's clock.
    pub ended_at: Timestamp,
    /// How long it took.
    pub duration: Duration,
}
