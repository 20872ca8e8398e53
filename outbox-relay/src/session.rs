//! One database connection of its own, with a limit on every call.
//!
//! A call that fails or takes too long takes its connection with it: the socket is closed, the server rolls back what
//! was open, and the next call connects anew. So no future is ever dropped inside a transaction of a pooled connection.

use std::future::Future;
use std::time::Duration;

use outbox_sdk::Backend;
use outbox_sdk::backend::Fault;
use sqlx::Pool;
use tokio::time::timeout;

/// A database call that did not come about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The database said no, or could not be reached.
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    /// No answer in time.
    #[error("the database did not answer within {0:?}")]
    Deadline(Duration),
}

impl SessionError {
    /// Whether waiting may help: the database could not be reached, takes no writes now, was busy, or did not answer.
    /// The outcome of a write is then taken for unknown. Anything else is a refusal, which changed nothing.
    pub(crate) fn is_away<DB: Backend>(&self) -> bool {
        match self {
            Self::Deadline(_) => true,
            Self::Database(error) => matches!(
                DB::fault(error),
                Fault::Connection
                    | Fault::ReadOnly
                    | Fault::DatabaseBusy
                    | Fault::AggregateBusy
                    | Fault::TimedOut
                    | Fault::Retryable
            ),
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

/// A connection that is made when it is needed.
#[derive(Debug)]
pub(crate) struct Session<DB: Backend> {
    pool: Pool<DB>,
    pub(crate) deadline: Duration,
    idle: Option<DB::Connection>,
}

impl<DB: Backend> Session<DB> {
    pub(crate) fn new(pool: Pool<DB>, deadline: Duration) -> Self {
        Self { pool, deadline, idle: None }
    }

    /// The connection. Give it back with [`keep`](Self::keep) after a call that succeeded; dropped, it is closed.
    pub(crate) async fn connect(&mut self) -> Result<DB::Connection, SessionError> {
        match self.idle.take() {
            Some(conn) => Ok(conn),
            None => Ok(within(self.deadline, self.pool.acquire()).await?.detach()),
        }
    }

    /// Keeps the connection for the next call.
    pub(crate) fn keep(&mut self, conn: DB::Connection) {
        self.idle = Some(conn);
    }
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
