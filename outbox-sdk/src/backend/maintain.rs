//! Maintenance: writing down what events have come to, and deleting those that are done with.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error};

use crate::tables::Tables;

/// What is done once for the whole outbox, by whichever relay comes first.
///
/// An event is *through* when every registered consumer has settled its id, no stall row covers it, and it was never
/// given up as a dead gap. Only such events are recorded or deleted, and none while no consumer is registered. Each
/// method that writes takes the admin lock in shared mode first, so that no consumer is registered, removed or reset
/// meanwhile.
pub trait Maintain: Database {
    /// Records one batch, in one transaction: status, attempts and last error of events that are through. `None`: it is
    /// another relay's turn.
    fn record(
        conn: &mut Self::Connection,
        tables: &Tables,
        recording: &Recording,
    ) -> impl Future<Output = Result<Option<Recorded>, Error>> + Send;

    /// Looks for events that are through and older than `after`, and still pending. Bounded: those of the two hours
    /// before that (SQLite: of the newest 10,000 events), and the first thousand of them.
    fn overdue(
        conn: &mut Self::Connection,
        tables: &Tables,
        after: Duration,
    ) -> impl Future<Output = Result<Overdue, Error>> + Send;

    /// Deletes the expired ones of one batch of events, with their dead letters and idempotency keys, in one transaction.
    /// `None`: somebody else is deleting at this moment.
    fn compact(
        conn: &mut Self::Connection,
        tables: &Tables,
        compaction: &Compaction<'_>,
    ) -> impl Future<Output = Result<Option<Compacted>, Error>> + Send;

    /// What [`compact`](Self::compact) would delete, by event type. Writes nothing.
    fn compactable(
        conn: &mut Self::Connection,
        tables: &Tables,
        compaction: &Compaction<'_>,
    ) -> impl Future<Output = Result<Compactable, Error>> + Send;

    /// How the duties stand.
    fn duties(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Duties, Error>> + Send;

    /// Takes a duty: nobody else finds it due during `hold`. Answers with the position at which it goes on; `None` when
    /// `if_due` and it is not due.
    fn take_duty(
        conn: &mut Self::Connection,
        tables: &Tables,
        duty: Duty,
        hold: Duration,
        if_due: bool,
    ) -> impl Future<Output = Result<Option<i64>, Error>> + Send;

    /// The names of the registered consumers.
    fn registered(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send;

    /// Notes how a duty ended, and when it is due again. Answers with its failures in a row.
    fn end_duty(
        conn: &mut Self::Connection,
        tables: &Tables,
        duty: Duty,
        due_in: Duration,
        error: Option<&str>,
    ) -> impl Future<Output = Result<u32, Error>> + Send;
}

/// A duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Status, attempts and last error of events.
    Recorder,
    /// Deleting expired events.
    Retention,
}

impl Duty {
    /// Its name in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recorder => "recorder",
            Self::Retention => "retention",
        }
    }
}

/// One batch of the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recording {
    /// The most events to look at; at least 1.
    pub limit: u32,
    /// Whether the position goes back to the beginning when this batch reaches the end: then the next one looks again
    /// at what was held. Otherwise it stays at the end, where new events come.
    pub wrap: bool,
    /// Whether to leave it when the recorder has worked a moment ago: after each batch it rests for 20 times what the
    /// batch took, at most 1 s.
    pub if_due: bool,
}

/// What a batch of the recorder came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// How many events became `dispatched`.
    pub dispatched: u64,
    /// How many became `failed`.
    pub failed: u64,
    /// How many became `skipped`.
    pub skipped: u64,
    /// How many were looked at and are not through: a waiting lane covers them.
    pub held: u64,
    /// Whether nothing is left above: the pass is complete.
    pub complete: bool,
}

impl Recorded {
    /// How many events got a status.
    #[must_use]
    pub const fn decided(&self) -> u64 {
        self.dispatched + self.failed + self.skipped
    }
}

/// Events that are through, and pending for too long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overdue {
    /// How many, up to a thousand.
    pub events: u64,
    /// The lowest id among them.
    pub first_id: Option<i64>,
}

/// How long some event types are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keep {
    /// The event type, or what it begins with.
    pub stem: String,
    /// Whether `stem` is the whole event type; otherwise at least one more character follows.
    pub exact: bool,
    /// How long an event is kept after it is done with.
    pub length: Duration,
}

/// One batch of retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction<'a> {
    /// The lowest id to look at.
    pub position: i64,
    /// The most events to look at; from 1 to 1,000.
    pub limit: u32,
    /// The first rule that fits an event's type holds for it; without one it is kept for ever.
    pub keep: &'a [Keep],
    /// Whether the recorder runs. If it does, a dispatched event's time counts from `dispatched_at`, and a pending one
    /// stays. If not, the time of every event counts from `created_at`. An event that died or was discarded stays until
    /// all its dead letters were acknowledged for as long as its rule says, in any case.
    pub recorder: bool,
    /// Consumers that must be registered: while one of them is not, nothing is deleted.
    pub required: &'a [String],
    /// For how long after this batch nobody else finds the duty due.
    pub hold: Duration,
}

/// What a batch of retention came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// How many events were deleted.
    pub deleted: u64,
    /// How many were looked at.
    pub scanned: u64,
    /// Where the next batch goes on.
    pub position: i64,
    /// Whether the end was reached: what lies above is too young, or not settled by all.
    pub done: bool,
}

/// What a batch of retention would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compactable {
    /// How many events of each type would be deleted.
    pub by_type: Vec<(String, u64)>,
    /// As [`Compacted::scanned`].
    pub scanned: u64,
    /// As [`Compacted::position`].
    pub position: i64,
    /// As [`Compacted::done`].
    pub done: bool,
}

/// How the duties stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Duties {
    /// The recorder.
    pub recorder: DutyState,
    /// Retention.
    pub retention: DutyState,
    /// Whether the recorder would find something to look at, be it through or held.
    pub unrecorded: bool,
}

/// How a duty stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DutyState {
    /// How long until it is due; zero = now.
    pub due_in: Duration,
    /// How long ago it last succeeded.
    pub succeeded_ago: Option<Duration>,
    /// Failures in a row.
    pub failures: u32,
    /// Why it last failed.
    pub last_error: Option<String>,
}
