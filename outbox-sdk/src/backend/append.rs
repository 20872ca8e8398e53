//! Publishing: how a write is ordered, and what a failed one means.

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
    /// Somebody holds a lock longer than the lock timeout allows; while publishing, it is the aggregate's.
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
    /// The answer is too large for the server to make.
    TooLarge,
    /// The server's own time limit for a statement is over (`statement_timeout`).
    TimedOut,
    /// The server takes no writes now: a standby, or a primary that somebody has set read-only.
    ReadOnly,
    /// The server has no such database.
    NoDatabase,
    /// The server does not let the role in: a wrong password, an unknown role, no right to connect from here.
    NotLetIn,
    /// The role lacks a right on one of the tables (PostgreSQL's message names it), or the file's permissions forbid it.
    Denied,
    /// Something is not in the state that the statement needs: a database that takes no connections at the moment, say.
    NotReady,
    /// The server itself is in trouble: a disk that is full or fails, no memory, damaged data, a bug.
    ServerTrouble,
    /// A statement that the driver prepared is not there, or was there before: a pooler in transaction mode is in between.
    Pooler,
    /// The connection is gone or could not be made.
    Connection,
    /// Anything else.
    Other,
}
