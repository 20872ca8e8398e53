//! The seam to a database: one named operation per statement (or per transaction, where several statements must stand
//! or fall together), parameters and rows as structs.
//!
//! All SQL of the toolkit lies in the folders beside this file, as text in `.sql` files that have the same names for
//! each database. A further database is one folder here, one folder of migrations and one line in the conformance
//! tests. The trait is an internal seam: it is public because the relay uses it, and may change in any release.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error, Pool, Transaction};
use uuid::Uuid;

use crate::envelope::{Envelope, NewEnvelope, Published};
use crate::progress::Progress;
use crate::tables::Tables;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "postgres")]
pub(crate) use postgres::Statements as PostgresStatements;

mod sealed {
    pub trait Sealed {}
    #[cfg(feature = "postgres")]
    impl Sealed for sqlx::Postgres {}
    #[cfg(feature = "sqlite")]
    impl Sealed for sqlx::Sqlite {}
}

/// A database that can hold an outbox: [`sqlx::Postgres`] and [`sqlx::Sqlite`].
///
/// Every method runs on the connection that it is given and never on another one. Methods named after a single
/// statement run exactly that statement; those that say "one transaction" begin and end it themselves.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database that can hold an outbox",
    label = "no outbox backend for this database",
    note = "use `sqlx::Postgres` (feature `postgres` of outbox-sdk) or `sqlx::Sqlite` (feature `sqlite`)"
)]
pub trait Backend: Database + sealed::Sealed {
    /// Whether two writers can be in a transaction at once. Where they cannot, ids become visible in order, and a
    /// missing id is one that will never come.
    const CONCURRENT_WRITERS: bool;

    // --- append: inside the caller's transaction -------------------------------------------------------------------

    /// Writes one event. With [`WriteOrder::Aggregate`] the aggregate's lock is taken before the id is drawn, in the
    /// same statement.
    fn append(
        conn: &mut Self::Connection,
        tables: &Tables,
        event: &NewEnvelope,
        order: WriteOrder,
    ) -> impl Future<Output = Result<Published, Error>> + Send;

    /// Writes all events with one statement; the answers are in the order of `events`, and so are their ids.
    fn append_all(
        conn: &mut Self::Connection,
        tables: &Tables,
        events: &[NewEnvelope],
        order: WriteOrder,
    ) -> impl Future<Output = Result<Vec<Published>, Error>> + Send;

    /// Whether a transaction is open on the connection: asks the driver, and the server where the driver does not
    /// know (a `BEGIN` sent as plain SQL).
    fn in_transaction(conn: &mut Self::Connection) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Begins a transaction that will write. On SQLite that is `BEGIN IMMEDIATE`: a transaction that began as a
    /// reader cannot become a writer once somebody else has written.
    fn begin_write(pool: &Pool<Self>) -> impl Future<Output = Result<Transaction<'static, Self>, Error>> + Send;

    /// Fails when an earlier error has doomed the transaction: its `COMMIT` would answer `ROLLBACK` without an error.
    fn ensure_usable(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;

    /// Tells listening relays that something was committed. Never inside a business transaction.
    fn notify(conn: &mut Self::Connection, tables: &Tables) -> impl Future<Output = Result<(), Error>> + Send;

    /// Calls `heard` for each notification of [`notify`](Self::notify), and once when it begins to listen, since
    /// something may have been committed before. Keeps one connection of the pool. Returns when the connection is lost;
    /// where a database has no notifications, never.
    fn listen(
        pool: &Pool<Self>,
        tables: &Tables,
        heard: impl Fn() + Send + Sync,
    ) -> impl Future<Output = Error> + Send;

    /// Sorts a database error into what a caller can do about it.
    fn fault(error: &Error) -> Fault;

    // --- read ------------------------------------------------------------------------------------------------------

    /// Which transactions may still commit an id that is not visible yet. Its own statement, before the read.
    fn holders(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Holders, Error>> + Send;

    /// The lowest events among the open gaps and above the high-water mark, merged by id, in one snapshot.
    fn read(
        conn: &mut Self::Connection,
        tables: &Tables,
        read: &Read<'_>,
    ) -> impl Future<Output = Result<Batch, Error>> + Send;

    /// Events of one stalled lane from its head on, by index; delayed events are left out.
    fn read_lane(
        conn: &mut Self::Connection,
        tables: &Tables,
        read: &LaneRead<'_>,
    ) -> impl Future<Output = Result<LanePage, Error>> + Send;

    /// Ids, types and majors of a lane's undelayed events above an id: to find out whether a later event has
    /// overtaken one that came late. At most `limit` of them, lowest first.
    fn lane_ids(
        conn: &mut Self::Connection,
        tables: &Tables,
        read: &LaneRead<'_>,
    ) -> impl Future<Output = Result<Vec<LaneEntry>, Error>> + Send;

    // --- progress --------------------------------------------------------------------------------------------------

    /// Registers consumers, in one transaction under the exclusive admin lock. Nothing is written when the answer
    /// holds a [`Registered::StartNeeded`].
    fn register(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumers: &[Registration],
    ) -> impl Future<Output = Result<Vec<Registered>, Error>> + Send;

    /// Takes the lease of a free slot, in one transaction: the fenced update first, then, in statements of their own,
    /// the stall rows and the checks. `None` = somebody else's lease is still running, or the consumer is not
    /// registered.
    fn claim(
        conn: &mut Self::Connection,
        tables: &Tables,
        claim: &ClaimRequest<'_>,
    ) -> impl Future<Output = Result<Option<Claimed>, Error>> + Send;

    /// One transaction that begins with the fenced update of the slot's row and writes everything of `settlement`, or
    /// nothing. An empty settlement renews the lease.
    fn settle(
        conn: &mut Self::Connection,
        tables: &Tables,
        settlement: &Settlement<'_>,
    ) -> impl Future<Output = Result<Settled, Error>> + Send;

    /// Which of the named lanes are due by the database's clock.
    fn due_stalls(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        lanes: &[String],
    ) -> impl Future<Output = Result<Vec<DueStall>, Error>> + Send;

    // --- inbox: in the consumer's database -------------------------------------------------------------------------

    /// Notes that the consumer has processed the event; `false` = it had before.
    fn inbox_insert(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    // --- operate ---------------------------------------------------------------------------------------------------

    /// Every slot of every registered consumer, by name and slot.
    fn consumers(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<ConsumerRow>, Error>> + Send;

    /// Dead letters, newest failure first; of one consumer or of all.
    fn dead_letters(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;
}

/// Whether a publish waits for other writers of the same aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteOrder {
    /// Take the aggregate's lock before the id is drawn: id order is commit order.
    #[default]
    Aggregate,
    /// Take no lock: for events whose order does not matter.
    Unordered,
}

/// What a caller can do about a database error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Another writer holds the aggregate's lock longer than the lock timeout allows.
    AggregateBusy,
    /// SQLite: another connection is writing (codes 5 and 517).
    DatabaseBusy,
    /// A deadlock or a serialization failure: run the whole transaction again.
    Retryable,
    /// The tables are missing: nobody ran the migrations.
    NotMigrated,
    /// The transaction has failed before; nothing in it can be committed.
    TransactionFailed,
    /// The row breaks a rule of the table (payload not an object, version below 1 ..).
    Refused,
    /// The connection is gone or could not be made.
    Connection,
    /// Anything else.
    Other,
}

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
    /// The most bytes of payload text to return; the first event comes whatever its size.
    pub max_bytes: u64,
    /// An event whose payload text is longer comes without it, as [`Defect::PayloadTooLarge`].
    pub max_payload_bytes: u64,
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
}

/// An event with what the database's clock says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The event.
    pub envelope: Envelope,
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
    /// The payload's text has this many bytes, more than a relay carries.
    #[error("the payload's text has {bytes} bytes, more than a relay carries; publish a reference to large data")]
    PayloadTooLarge {
        /// Its size.
        bytes: u64,
    },
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
    pub lane: &'a crate::lane::Lane,
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
}

/// A consumer to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The consumer's name.
    pub name: String,
    /// Where it begins when it is new.
    pub start: Option<Start>,
    /// Filter, pins and ordering as JSON text: stored with the consumer, for operators.
    pub config: String,
}

/// Where a new consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first stored event.
    Earliest,
    /// With what becomes visible after the registration.
    Now,
    /// With the first event whose transaction began at or after this time.
    At(crate::envelope::Timestamp),
}

/// What registering a consumer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// It was there; its configuration was stored.
    Existing,
    /// It is new.
    New,
    /// It is new, other consumers are registered already, and nobody said where it starts. Nothing was written.
    StartNeeded {
        /// How many events are stored, as the database estimates or counts them.
        stored_events: u64,
    },
}

/// Who wants which slot.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot, from 0.
    pub slot: i32,
    /// The relay's name.
    pub owner: &'a str,
    /// How long the lease runs.
    pub lease: Duration,
}

/// A claimed slot: what its new owner must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What every later write of this owner carries.
    pub fence: Fence,
    /// What is settled.
    pub settled: Progress,
    /// Dead gaps: ids in `settled` that had no row when they were given up.
    pub void: Progress,
    /// How long the consumer is paused from now on, if it is.
    pub paused_for: Option<Duration>,
    /// The consumer's failures in a row, for its pause.
    pub attempts: u32,
    /// Whether the owner before gave the slot back; otherwise its lease ended.
    pub clean: bool,
    /// Every waiting lane.
    pub stalls: Vec<StallRow>,
    /// What must hold before anything is read.
    pub checks: Checks,
}

/// The identity of an owner's next write. A write whose fence does not match changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lease's epoch; never reused.
    pub epoch: i64,
    /// Counts the owner's transactions.
    pub rev: i64,
    /// Where the row lies, so that a held snapshot does not make finding it slow; empty where a database has no such
    /// thing.
    pub ctid: String,
}

/// What must hold for an owner to trust its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The id sequence hands out ids one by one (CACHE 1).
    pub sequence_uncached: bool,
    /// The last id drawn; never below the settled ids, unless the server lost or restored something.
    pub last_id: i64,
    /// No row security hides events from this role.
    pub sees_all_rows: bool,
    /// This server accepts writes.
    pub primary: bool,
}

/// A lane that waits, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallRow {
    /// The lane's key.
    pub lane: String,
    /// The first event of the lane that is not settled.
    pub head_id: i64,
    /// Failures of the head so far.
    pub attempts: u32,
    /// How long until the head is due, by the database's clock; zero = now.
    pub due_in: Duration,
    /// Whether a dead head blocks the lane until an operator acts.
    pub blocked: bool,
    /// Whether the row covers its head alone.
    pub single: bool,
    /// How long the head has waited for its schema, if that is why it waits.
    pub schema_missing_for: Option<Duration>,
}

/// A lane that waits, as written. Values are absolute, so that writing them twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// The lane's key.
    pub lane: String,
    /// The first event of the lane that is not settled.
    pub head_id: i64,
    /// Failures of the head so far.
    pub attempts: u32,
    /// When the head is due.
    pub due: Due,
    /// Whether a dead head blocks the lane until an operator acts.
    pub blocked: bool,
    /// Whether the row covers its head alone.
    pub single: bool,
    /// Whether the head waits for its schema. The moment it began to wait is kept while this stays true.
    pub schema_missing: bool,
    /// What went wrong, without payload or secret.
    pub last_error: Option<String>,
}

/// When a stalled lane may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the write, by the database's clock.
    In(Duration),
    /// At the event's own `available_at`.
    AtAvailable,
    /// As it is stored.
    Unchanged,
}

/// One transaction of an owner.
#[derive(Debug, Clone)]
pub struct Settlement<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot.
    pub slot: i32,
    /// Whose write it is.
    pub fence: &'a Fence,
    /// How long the lease runs from this write on.
    pub lease: Duration,
    /// The row at the owner's high-water mark as it was read; the write is refused when it is gone or another, unless
    /// its id is settled. `None` until a row was read.
    pub anchor: Option<(i64, Uuid)>,
    /// The whole set of settled ids.
    pub settled: &'a Progress,
    /// The whole set of dead gaps.
    pub void: &'a Progress,
    /// Pause the consumer for this long from now on (zero ends a pause); `None` = leave it.
    pub pause: Option<Pause<'a>>,
    /// Stall rows to insert or replace.
    pub stalls: &'a [Stall],
    /// Keys of stall rows to delete.
    pub resumed: &'a [String],
    /// Events that are dead now.
    pub dead: &'a [NewDeadLetter],
    /// Give the slot back.
    pub release: bool,
}

/// A pause of a whole consumer, because its destination is down.
#[derive(Debug, Clone, Copy)]
pub struct Pause<'a> {
    /// From now on; zero ends the pause.
    pub length: Duration,
    /// Failures in a row.
    pub attempts: u32,
    /// Why, without secret.
    pub reason: Option<&'a str>,
}

/// What a fenced write came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Everything was written.
    Done {
        /// What the next write carries.
        fence: Fence,
        /// How long the consumer is paused from now on, if it is.
        paused_for: Option<Duration>,
        /// Somebody asks for the slot: drain and give it back.
        wanted: bool,
    },
    /// Nothing was written.
    Refused {
        /// The row as it is now; `None` = it is gone.
        now: Option<Refusal>,
    },
}

/// The row that a fenced write did not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its fence now.
    pub fence: Fence,
    /// Whether the owner's anchor is still there (or its id settled).
    pub anchored: bool,
}

/// A waiting lane and how long until it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueStall {
    /// The lane's key.
    pub lane: String,
    /// Zero = due.
    pub due_in: Duration,
}

/// An event to write down as dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// The event's id.
    pub event_id: i64,
    /// The closed list of reasons.
    pub reason: DeadReason,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it may be tried.
    pub max_attempts: u32,
    /// What went wrong, without payload or secret.
    pub last_error: String,
}

/// Why an event is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// The payload is not valid under its schema.
    SchemaViolation,
    /// No schema for its type and major appeared in time.
    SchemaMissing,
    /// The consumer pins a major that the event does not carry.
    MajorMissing,
    /// The sink refused it for good.
    Rejected,
    /// It failed as often as the policy allows.
    Attempts,
    /// The row is no event that can be delivered.
    Undecodable,
}

impl DeadReason {
    /// The text in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SchemaViolation => "schema_violation",
            Self::SchemaMissing => "schema_missing",
            Self::MajorMissing => "major_missing",
            Self::Rejected => "rejected",
            Self::Attempts => "attempts",
            Self::Undecodable => "undecodable",
        }
    }
}

impl std::fmt::Display for DeadReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A slot of a consumer, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRow {
    /// The consumer.
    pub name: String,
    /// The slot.
    pub slot: i32,
    /// The owner, if a lease is running.
    pub owner: Option<String>,
    /// What is settled.
    pub settled: Progress,
    /// How many lanes wait.
    pub stalled_lanes: u64,
    /// How many of its dead letters are in state `dead`.
    pub dead_letters: u64,
}

/// A dead letter, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The consumer for which the event is dead.
    pub consumer: String,
    /// The event's id.
    pub event_id: i64,
    /// As [`DeadReason::as_str`].
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong.
    pub last_error: String,
    /// `dead`, `replay`, `replayed`, `discarded` or `reset`.
    pub state: String,
}
