//! One database connection of its own, with a limit on every call.
//!
//! A call that fails or takes too long takes its connection with it: the socket is closed, the server rolls back what
//! was open, and the next call connects anew. So no future is ever dropped inside a transaction of a pooled connection.
//!
//! A server does not look at the socket while a statement waits for a lock, so it has a limit of its own, a little shorter:
//! else each call that is given up would leave a session behind for as long as the lock is held.

use std::future::Future;
use std::time::Duration;

use outbox_sdk::backend::Fault;
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::time::timeout;

/// A database call that did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The database said no, or could not be reached.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// No answer in time.
    #[error(
        "the database did not answer within {0:?}: it cannot be reached or is busy; look at the network and at the server's load"
    )]
    Deadline(Duration),
}

impl SessionError {
    /// Whether waiting may help: the database could not be reached, takes no writes now, was busy, or did not answer.
    /// The outcome of a write is then taken for unknown. Anything else is a refusal, which changed nothing.
    pub(crate) fn is_away<DB: Backend>(&self) -> bool {
        match self {
            Self::Deadline(_) => true,
            Self::Database(error) => passes::<DB>(error),
        }
    }

    /// Whether the server has answered, but not in time: it is busy, or something holds a lock.
    pub(crate) fn is_held_up<DB: Backend>(&self) -> bool {
        match self {
            Self::Deadline(_) => false,
            Self::Database(error) => {
                matches!(DB::fault(error), Fault::TimedOut | Fault::AggregateBusy | Fault::DatabaseBusy)
            }
        }
    }

    /// Whether the call took too long, whoever ended it: there may be less to do, or more time.
    pub(crate) fn is_slow<DB: Backend>(&self) -> bool {
        match self {
            Self::Deadline(_) => true,
            Self::Database(error) => DB::fault(error) == Fault::TimedOut,
        }
    }

    /// Whether the answer may be at fault: the server could not make so large a one, or not in time.
    pub(crate) fn blames_answer<DB: Backend>(&self) -> bool {
        match self {
            Self::Deadline(_) => true,
            Self::Database(error) => matches!(DB::fault(error), Fault::TooLarge | Fault::TimedOut),
        }
    }
}

/// Whether the same call may succeed later without anybody's help for this relay.
pub(crate) fn passes<DB: Backend>(error: &sqlx::Error) -> bool {
    matches!(
        DB::fault(error),
        Fault::Connection
            | Fault::ReadOnly
            | Fault::DatabaseBusy
            | Fault::AggregateBusy
            | Fault::TimedOut
            | Fault::Retryable
            | Fault::NotReady
            | Fault::ServerTrouble
    )
}

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(crate) struct Session<DB: Backend> {
    pool: Pool<DB>,
    tables: Tables,
    deadline: Duration,
    idle: Option<DB::Connection>,
}

impl<DB: Backend> Session<DB> {
    /// The server's limit is that of the tables: see [`limited`].
    pub(crate) fn new(pool: Pool<DB>, tables: Tables, deadline: Duration) -> Self {
        Self { pool, tables, deadline, idle: None }
    }

    /// Where the tables are.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The limit of each call.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The connection. Give it back with [`keep`](Self::keep) after a call that succeeded; dropped, it is closed.
    pub(crate) async fn connect(&mut self) -> Result<DB::Connection, SessionError> {
        match self.idle.take() {
            Some(conn) => Ok(conn),
            None => {
                let mut conn = within(self.deadline, self.pool.acquire()).await?.detach();
                within(self.deadline, DB::prepare_session(&mut conn, &self.tables)).await?;
                Ok(conn)
            }
        }
    }

    /// Keeps the connection for the next call.
    pub(crate) fn keep(&mut self, conn: DB::Connection) {
        self.idle = Some(conn);
    }
}

/// The tables for calls with this deadline. The server gives up a little earlier: then it is known that it was there, and
/// no session is left waiting.
pub(crate) fn limited(tables: &Tables, deadline: Duration) -> Tables {
    tables.limited(deadline - deadline / 8)
}

/// The answer of one call, if it comes in time.
pub(crate) async fn within<T>(
    deadline: Duration,
    call: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, SessionError> {
    match timeout(deadline, call).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(SessionError::Deadline(deadline)),
    }
}
