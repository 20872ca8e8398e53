//! What is done once for the whole outbox, by whichever relay comes first: writing down what events have come to
//! ([`Recorder`]), and deleting those that are done with ([`Retention`]).
//!
//! Both are library calls too, with `run_once`. A relay runs both beside its consumers; relays take turns by the `duty`
//! table, one batch at a time.

mod batch;
mod passes;
mod recorder;
mod retention;

use std::time::Duration;

use outbox_sdk::backend::Fault;
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;

use crate::session::{Session, SessionError, within};

pub use self::recorder::Recorder;
pub use self::retention::{Compaction, RetainError, RetainFor, Retention};

/// How many failures in a row are an error and not a warning.
const ALARMING: u32 = 3;
/// How often a run asks again while another one is at the same duty.
const TURNS: u32 = 50;
/// The pause before it does.
const TURN_PAUSE: Duration = Duration::from_millis(200);

/// A run that did not come to its end. What its batches did before stays done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintenanceError {
    /// The database said no, or could not be reached.
    #[error(
        "the database failed; see the cause, and that the role may update and delete events and dead letters"
    )]
    Database(#[source] sqlx::Error),
    /// No answer in time.
    #[error("the database did not answer within {0:?}; look whether it is busy, and run it again")]
    Deadline(Duration),
    /// Even the smallest batch was stopped by the server.
    #[error(
        "even a batch of one event takes longer than the server's `statement_timeout`; raise it for the relay's role, or \
         look for what holds the tables up"
    )]
    TooSlow(#[source] SlowBatch),
    /// Another run is at it.
    #[error("another run is at the same duty; leave it to that one")]
    Busy,
    /// The tables are missing, or are those of an older release.
    #[error("the database lacks tables of this release; run `outbox migrate`")]
    NotMigrated(#[source] sqlx::Error),
}

/// The smallest batch that was stopped.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct SlowBatch(SessionError);

impl MaintenanceError {
    fn of<DB: Backend>(error: SessionError) -> Self {
        match error {
            error if is_slow::<DB>(&error) => Self::TooSlow(SlowBatch(error)),
            SessionError::Deadline(limit) => Self::Deadline(limit),
            SessionError::Database(error) if DB::fault(&error) == Fault::NotMigrated => {
                Self::NotMigrated(error)
            }
            SessionError::Database(error) => Self::Database(error),
        }
    }
}

/// Whether a smaller batch may succeed.
fn is_slow<DB: Backend>(error: &SessionError) -> bool {
    match error {
        SessionError::Deadline(_) => true,
        SessionError::Database(error) => DB::fault(error) == Fault::TimedOut,
    }
}

/// A connection and the tables: what every duty works with.
struct Desk<DB: Backend> {
    session: Session<DB>,
    tables: Tables,
}

impl<DB: Backend> Desk<DB> {
    fn new(pool: Pool<DB>, deadline: Duration) -> Self {
        Self { session: Session::new(pool, deadline), tables: Tables::default() }
    }

    /// One call on the connection.
    async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut DB::Connection, &Tables) -> Result<T, sqlx::Error>,
    ) -> Result<T, SessionError> {
        let mut conn = self.session.connect().await?;
        let answer = within(self.session.deadline, call(&mut conn, &self.tables)).await?;
        self.session.keep(conn);
        Ok(answer)
    }
}
