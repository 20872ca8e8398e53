//! Errors of publishing.

use std::error::Error as _;
use std::fmt;

use outbox_schema::ShapeError;

use crate::backend::{Backend, Fault};
use crate::limits::LimitError;

/// A publish, begin or commit that failed. The texts hold neither payload nor connection secrets.
///
/// Nor does the `Debug` form: a driver's error holds the refused row in its details, so only its own short text is shown.
///
/// Three of them ask to run the whole transaction again:
///
/// ```
/// use outbox_sdk::PublishError;
///
/// fn again(error: &PublishError) -> bool {
///     matches!(
///         error,
///         PublishError::AggregateBusy(_) | PublishError::DatabaseBusy(_) | PublishError::Retryable(_)
///     )
/// }
///
/// assert!(!again(&PublishError::NotInTransaction));
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// `publish_on` was given a connection on which no transaction is open.
    #[error(
        "no transaction is open on this connection, so the event would not commit together with its cause; begin one \
         with `outbox.begin(&pool)` and publish on it"
    )]
    NotInTransaction,
    /// The event breaks a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The event cannot be written as JSON.
    #[error("the event cannot be written as JSON; look at its Serialize implementation")]
    Serialize(#[source] serde_json::Error),
    /// The text given to `publish_json` is not JSON.
    #[error("the payload is not valid JSON (line {line}, column {column}); correct the text")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// The event type given to `publish_json` breaks the grammar.
    #[error("the event type cannot be published")]
    EventType(#[source] ShapeError),
    /// The schema version given to `publish_json` is not a major.
    #[error("schema versions are whole numbers from 1 to 2147483647, not {0}")]
    SchemaVersion(u32),
    /// The registry does not take the payload given to `publish_json` (see `Outbox::with_validators`).
    #[cfg(feature = "validate")]
    #[error(transparent)]
    Schema(#[from] crate::validated::SchemaError),
    /// Another transaction has held the aggregate longer than the lock timeout allows.
    #[error(
        "another transaction is publishing for the same aggregate and has not ended within the lock timeout; run the \
         transaction again, and publish last so that locks are short"
    )]
    AggregateBusy(#[source] sqlx::Error),
    /// Another connection is writing to the SQLite database.
    #[error(
        "the SQLite database is busy: another connection is writing; begin with `outbox.begin(&pool)` (BEGIN \
         IMMEDIATE), set a busy timeout, and run the transaction again"
    )]
    DatabaseBusy(#[source] sqlx::Error),
    /// A deadlock or a serialization failure.
    #[error(
        "the transaction met another one (deadlock or serialization failure); run the whole transaction again"
    )]
    Retryable(#[source] sqlx::Error),
    /// The outbox tables are missing.
    #[error("the outbox tables are missing; run `outbox migrate`, or `Migrator::outbox()` at start-up")]
    NotMigrated(#[source] sqlx::Error),
    /// A statement of this transaction has failed before; committing it would silently roll back.
    #[error(
        "an earlier statement of this transaction failed, so nothing of it can be committed; roll back and run it again"
    )]
    TransactionFailed(#[source] sqlx::Error),
    /// The database refused the row.
    #[error("the database refused the event; the source names the rule")]
    Refused(#[source] sqlx::Error),
    /// The connection is gone. After a commit its outcome is unknown.
    #[error(
        "the connection to the database is gone; if this was a commit, ask the database whether it happened before repeating it"
    )]
    Connection(#[source] sqlx::Error),
    /// A prepared statement got lost between two servers, or met another client's.
    #[error(
        "a pooler in transaction mode loses the driver's prepared statements; publish with `Tables::pooled`, or let the \
         pooler keep them (PgBouncer 1.21 and newer: max_prepared_statements)"
    )]
    Pooler(#[source] sqlx::Error),
    /// Anything else the database says.
    #[error("the database failed; the source says how")]
    Database(#[source] sqlx::Error),
}

impl PublishError {
    /// Sorts a database error by its code, never by its text.
    pub(crate) fn from_database<DB: Backend>(error: sqlx::Error) -> Self {
        match DB::fault(&error) {
            Fault::AggregateBusy => Self::AggregateBusy(error),
            Fault::DatabaseBusy => Self::DatabaseBusy(error),
            Fault::Retryable => Self::Retryable(error),
            Fault::NotMigrated => Self::NotMigrated(error),
            Fault::TransactionFailed => Self::TransactionFailed(error),
            Fault::Refused => Self::Refused(error),
            Fault::Connection => Self::Connection(error),
            Fault::Pooler => Self::Pooler(error),
            Fault::TooLarge
            | Fault::TimedOut
            | Fault::ReadOnly
            | Fault::NoDatabase
            | Fault::NotLetIn
            | Fault::Denied
            | Fault::NotReady
            | Fault::ServerTrouble
            | Fault::Other => Self::Database(error),
        }
    }

    /// Whether running the whole transaction again may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::AggregateBusy(_) | Self::DatabaseBusy(_) | Self::Retryable(_))
    }
}

impl fmt::Debug for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut cause = self.source();
        while let Some(error) = cause {
            match error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error) {
                Some(refused) => {
                    write!(f, ": database error {}", refused.code().unwrap_or_default())?;
                    if let Some(constraint) = refused.constraint() {
                        write!(f, ", constraint {constraint}")?;
                    }
                    return Ok(());
                }
                None => write!(f, ": {error}")?,
            }
            cause = error.source();
        }
        Ok(())
    }
}
