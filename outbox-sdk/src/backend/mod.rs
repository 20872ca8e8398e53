//! The seam to a database: one named operation per statement (or per transaction, where several statements must stand
//! or fall together), parameters and rows as structs.
//!
//! All SQL of the toolkit lies in the folders beside this file, as text in `.sql` files that have the same names for
//! each database. A further database is one folder here, one folder of migrations and one line in the conformance
//! tests. The trait is an internal seam: it is public because the relay uses it, and may change in any release.

use sqlx::{Database, Error, Pool, Transaction};
use std::future::Future;

use crate::envelope::{NewEnvelope, Once, Published};
use crate::tables::Tables;

mod admin;
mod append;
mod history;
mod inbox;
mod maintain;
mod operate;
#[cfg(feature = "postgres")]
mod postgres;
mod progress;
mod read;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use admin::{
    Administer, Change, Changed, Heartbeat, PausedBy, Registered, Registration, ResetTo, SlotOwner, SlotView,
    Start,
};
pub use append::{Fault, WriteOrder};
pub use history::{AttemptOutcome, AttemptRow, History, NewAttempt};
pub use inbox::Deduplicate;
pub use maintain::{
    Compactable, Compacted, Compaction, Duties, Duty, DutyState, Keep, Maintain, Overdue, Recorded, Recording,
};
pub use operate::{
    AgedKey, ConsumerRow, DeadLetter, Decision, EventFilter, EventRow, Lag, LetterCount, LetterCursor,
    LetterEvent, LetterFilter, LetterKey, LetterState, LetterSummary, Operate, PauseState, SlotStanding,
    StallState, Standing, Stored, TypeFilter, UnknownLetterState, Writer,
};
pub use progress::{
    Checks, Claim, ClaimRequest, Claimed, DeadReason, DiscardedHead, Due, DueStall, Fence, NewDeadLetter,
    Pause, Refusal, ReplayPage, ReplayRead, ReplayRequest, ReplayResult, Settled, Settlement, Stall,
    StallPage, StallRead, StallRow,
};
pub use read::{Batch, Defect, Holders, LaneEntry, LanePage, LaneRead, Notices, Read, StoredEvent};

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
pub trait Backend:
    Database + sealed::Sealed + Administer + Deduplicate + History + Maintain + Operate
{
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

    /// Writes one event and notes the key, in one statement or under SQLite's write lock; neither when the key is there
    /// already. Another transaction that has noted the key and is still open is waited for.
    fn append_once(
        conn: &mut Self::Connection,
        tables: &Tables,
        event: &NewEnvelope,
        order: WriteOrder,
        key: &str,
    ) -> impl Future<Output = Result<Once, Error>> + Send;

    /// Whether a transaction is open on the connection: asks the driver, and the server where the driver does not
    /// know (a `BEGIN` sent as plain SQL).
    fn in_transaction(conn: &mut Self::Connection) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Begins a transaction that will write. On SQLite that is `BEGIN IMMEDIATE`: a transaction that began as a
    /// reader cannot become a writer once somebody else has written.
    fn begin_write(
        pool: &Pool<Self>,
    ) -> impl Future<Output = Result<Transaction<'static, Self>, Error>> + Send;

    /// Fails when an earlier error has doomed the transaction: its `COMMIT` would answer `ROLLBACK` without an error.
    fn ensure_usable(conn: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;

    /// Tells listening relays that something was committed; with `pause` it returns 5 ms later. Never inside a business
    /// transaction.
    fn notify(
        conn: &mut Self::Connection,
        tables: &Tables,
        pause: bool,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// A connection that listens for notifications.
    type Listener: Send;

    /// Begins to listen for the notifications of [`notify`](Self::notify), on a connection of its own that is made as the
    /// pool makes them. `None` = this database has no notifications.
    fn listen(
        pool: &Pool<Self>,
        tables: &Tables,
    ) -> impl Future<Output = Result<Option<Self::Listener>, Error>> + Send;

    /// Waits for the next notification. Cancelling it loses none. An error means that the connection is lost.
    fn hear(listener: &mut Self::Listener) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether the server still knows that this connection listens: one statement. A connection can be dead without
    /// either side being told, and a pooler may have given the session to somebody else.
    fn still_listens(
        listener: &mut Self::Listener,
        tables: &Tables,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Sorts a database error into what a caller can do about it.
    fn fault(error: &Error) -> Fault;

    /// Makes a connection that leaves its pool one of a relay's own: the time of a statement is as the tables say, also on the
    /// server, and a statement outside of a transaction runs in READ COMMITTED. One statement, or none behind a pooler,
    /// where each transaction says it.
    fn prepare_session(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<(), Error>> + Send;

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

    /// Takes the lease of a free slot whose consumer is as the claim says and which nobody asks for, in one transaction;
    /// then, in statements of their own, it reads the checks and the first stall rows. Otherwise nothing is written, and
    /// the answer tells why.
    fn claim(
        conn: &mut Self::Connection,
        tables: &Tables,
        claim: &ClaimRequest<'_>,
    ) -> impl Future<Output = Result<Claim, Error>> + Send;

    /// Writes down why the owner that claimed the slot under this epoch does not run it, for people; nothing else changes.
    fn note_refusal(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        slot: i32,
        epoch: i64,
        why: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Stall rows that a claim has left over. They are as at the claim if the owner's next settlement is not refused:
    /// nobody else writes any without changing the fence.
    fn stalls(
        conn: &mut Self::Connection,
        tables: &Tables,
        read: &StallRead<'_>,
    ) -> impl Future<Output = Result<StallPage, Error>> + Send;

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

    /// Dead letters that are to go again and whose events are the slot's, lowest id first.
    fn replay_requests(
        conn: &mut Self::Connection,
        tables: &Tables,
        read: &ReplayRead<'_>,
    ) -> impl Future<Output = Result<ReplayPage, Error>> + Send;

    /// Blocked lanes of the consumer whose heads an operator has discarded.
    fn discarded_heads(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
    ) -> impl Future<Output = Result<Vec<DiscardedHead>, Error>> + Send;
}
