//! Reading: what to read, and what came back.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::envelope::Envelope;
use crate::lane::Lane;

/// The transactions that hold a writer's lock on the event table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    /// One name per transaction; the same transaction keeps its name to its end.
    pub transactions: Vec<String>,
    /// Whether a prepared transaction is among them: it may be renamed by a restart of the server.
    pub prepared: bool,
    /// Whether the answer comes from the primary; a standby shows no writers at all.
    pub primary: bool,
}

/// What to read.
#[derive(Debug, Clone)]
pub struct Read<'a> {
    /// Open gaps, as ranges `[from, until)` in rising order.
    pub gaps: &'a [(i64, i64)],
    /// The high-water mark: every id above it is new.
    pub above: i64,
    /// The most events to return, 1 or more.
    pub limit: u32,
    /// The most bytes of text (payload, older payloads, actor) to return; the first event comes whatever its size.
    pub max_bytes: u64,
    /// An event of which one of these texts is longer comes without them, as [`Defect::PayloadTooLarge`].
    pub max_payload_bytes: u64,
    /// No payload and no actor is printed: each event comes without them, as [`Defect::PayloadUnreadable`], and no
    /// limit on bytes ends the page. For what is left after [`Fault::TooLarge`](super::Fault::TooLarge).
    pub without_payloads: bool,
    /// Whether to look for [`Batch::notices`] too. They are for a few times a second, not for every read.
    pub notices: bool,
}

/// What one read returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// The events, by rising id.
    pub events: Vec<StoredEvent>,
    /// Whether there may be more behind the last one: the limit was reached, or a tail was cut for its size.
    pub full: bool,
    /// The `event_id` that the row at the high-water mark has now; `None` = no such row.
    pub anchor: Option<Uuid>,
    /// Whether the answer comes from the primary.
    pub primary: bool,
    /// The last id drawn. Never below the high-water mark, unless the ids were started again.
    pub last_id: i64,
    /// Whether no row security hides events from this role: a hidden row looks like one that was rolled back.
    pub sees_all_rows: bool,
    /// What an owner or a relay has to attend to beside the events; empty unless it was asked for.
    pub notices: Notices,
}

/// What somebody has to attend to, told along with a read, so that nobody asks for it with statements of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notices {
    /// Consumers for which an operator has decided something that an owner must carry out: a dead letter is to be
    /// replayed, or the one at the head of a blocked lane was discarded. By name.
    pub replays: Vec<String>,
    /// Consumers with a slot that can be claimed now, by the database's clock. By name.
    pub free_slots: Vec<String>,
    /// Consumers that are paused until their time is over or somebody resumes them, not by their breaker. By name.
    pub held: Vec<String>,
    /// Whether anything was asked: else the lists say nothing.
    pub asked: bool,
}

/// An event with what the database's clock says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event; one copy, however many consumers get it.
    pub envelope: Arc<Envelope>,
    /// `available_at > created_at`, both fixed at the insert: a lane of its own.
    pub delayed: bool,
    /// How long until it is available, by the database's clock; zero = now.
    pub due_in: Duration,
    /// Why it cannot be delivered, whatever the consumer.
    pub defect: Option<Defect>,
}

/// Why a stored row is no deliverable event. Such rows come from plain SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The payload's text, or that of the older payloads or the actor, has this many bytes, more than a relay carries.
    #[error(
        "the payload's text, the older payloads' or the actor's has {bytes} bytes, more than a relay carries; publish a \
         reference to large data"
    )]
    PayloadTooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The payload was not read, because the database fails when it prints it.
    #[error("the database cannot print the payload; correct the writer that bypassed the checks")]
    PayloadUnreadable,
    /// `schema_version` is not a positive number.
    #[error("the schema version is not a positive number; correct the writer that bypassed the checks")]
    SchemaVersion,
    /// A column holds what its type cannot: text that is not UTF-8, a UUID that is none, no payload.
    #[error("a column holds what its type cannot; correct the writer that bypassed the checks")]
    Undecodable,
}

/// Which events of a stalled lane to read.
#[derive(Debug, Clone, Copy)]
pub struct LaneRead<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// The lowest id to return.
    pub from: i64,
    /// The highest id to return: the high-water mark.
    pub through: i64,
    /// The most events to return, 1 or more.
    pub limit: u32,
    /// As in [`Read::max_bytes`].
    pub max_bytes: u64,
    /// As in [`Read::max_payload_bytes`].
    pub max_payload_bytes: u64,
    /// As in [`Read::without_payloads`].
    pub without_payloads: bool,
}

/// One page of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LanePage {
    /// The events, by rising id.
    pub events: Vec<StoredEvent>,
    /// Whether there may be more behind the last one.
    pub full: bool,
}

/// An event of a lane without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneEntry {
    /// Its id.
    pub id: i64,
    /// Its type.
    pub event_type: String,
    /// Its major.
    pub schema_version: u32,
    /// Whether it carries older majors too.
    pub has_older: bool,
}
