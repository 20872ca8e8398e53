//! What operators ask and do: library calls that the command line and an admin page share.
//!
//! Each call is one short statement or transaction on a connection of the pool, with a limit on its time. None of them
//! needs a running relay: they read and write the tables, and the owner of a consumer's slot sees it.

mod consumers;
mod progress;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use outbox_sdk::backend::Fault;
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use sqlx::pool::PoolConnection;

pub use self::consumers::{ConsumerError, Drain, ResetTo, Rest};
use crate::session::{SessionError, within};

/// How long a call may take, unless [`Operator::deadline`] says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// Everything that operators ask and do, on one database.
///
/// ```no_run
/// use outbox_relay::operate::Operator;
///
/// # async fn see(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// for slot in Operator::new(pool).consumers().await? {
///     println!("{}: {} lanes wait", slot.name, slot.stalled_lanes);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Operator<DB: Backend> {
    pub(crate) pool: Pool<DB>,
    pub(crate) tables: Tables,
    pub(crate) deadline: Duration,
}

impl<DB: Backend> Clone for Operator<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), tables: self.tables.clone(), deadline: self.deadline }
    }
}

impl<DB: Backend> Operator<DB> {
    /// An operator of the default tables, whose calls may take 10 s each.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self { pool, tables: Tables::default(), deadline: DEADLINE }
    }

    /// Works on these tables instead of the default ones.
    #[must_use]
    pub fn tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// Gives each call this long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// A connection for one call; [`keep`](Held::keep) it after the call has succeeded.
    pub(crate) async fn connect(&self) -> Result<Held<DB>, OperateError> {
        Ok(Held { conn: self.within(self.pool.acquire()).await?, keep: false })
    }

    /// The answer of one call, if it comes in time.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, OperateError> {
        within(self.deadline, call).await.map_err(OperateError::of::<DB>)
    }
}

/// A connection during a call. One that failed, took too long or was given up may be in a transaction: it is closed,
/// and the server rolls back what was open.
pub(crate) struct Held<DB: Backend> {
    conn: PoolConnection<DB>,
    keep: bool,
}

impl<DB: Backend> Held<DB> {
    /// Gives the connection back to the pool.
    pub(crate) fn keep(mut self) {
        self.keep = true;
    }
}

impl<DB: Backend> Deref for Held<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.conn
    }
}

impl<DB: Backend> DerefMut for Held<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }
}

impl<DB: Backend> Drop for Held<DB> {
    fn drop(&mut self) {
        if !self.keep {
            self.conn.close_on_drop();
        }
    }
}

/// A call that did not come about. Nothing was changed, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// The database said no, or could not be reached.
    #[error("the database failed; see the cause, and that the database can be reached")]
    Database(#[source] sqlx::Error),
    /// No answer in time. Whether a change was made is not known: ask before you repeat it.
    #[error("the database did not answer within {0:?}; look whether it is busy, and ask again")]
    Deadline(Duration),
    /// The tables are missing, or are those of an older release.
    #[error("the database lacks tables of this release; run `outbox migrate`")]
    NotMigrated(#[source] sqlx::Error),
}

impl OperateError {
    fn of<DB: Backend>(error: SessionError) -> Self {
        match error {
            SessionError::Deadline(limit) => Self::Deadline(limit),
            SessionError::Database(error) if DB::fault(&error) == Fault::NotMigrated => {
                Self::NotMigrated(error)
            }
            SessionError::Database(error) => Self::Database(error),
        }
    }
}
