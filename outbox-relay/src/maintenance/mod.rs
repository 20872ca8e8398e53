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

use outbox_sdk::backend::{Duty, Fault};
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;

use crate::chain::chain;
use crate::refused::advice;
use crate::session::{Session, SessionError, limited, within};
use crate::telemetry;

pub use self::recorder::Recorder;
pub use self::retention::{Compaction, RetainError, RetainFor, Retention};

/// How many failures in a row are an error and not a warning.
const ALARMING: u32 = 3;
/// What to do about a failure that has no advice of its own.
const LOOK: &str = "look whether the database can be reached, and what keeps it busy";
/// How often a run asks again while another one is at the same duty.
const TURNS: u32 = 50;
/// The pause before it does.
const TURN_PAUSE: Duration = Duration::from_millis(200);

/// A run that did not come to its end. What its batches did before stays done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintenanceError {
    /// The database said no, or could not be reached.
    #[error("the database failed; correct what the cause names")]
    Database(#[source] sqlx::Error),
    /// No answer in time.
    #[error("the database did not answer within {0:?}; look whether it is busy, and run it again")]
    Deadline(Duration),
    /// Even the smallest batch was stopped by the server.
    #[error(
        "even a batch of one event takes longer than a statement may (`statement_timeout`, or the limit of the call); raise \
         it, or look for what keeps the server busy"
    )]
    TooSlow(#[source] SlowBatch),
    /// Somebody holds a lock that it needs.
    #[error(
        "somebody holds a lock that it needs: a change of the consumers is under way (registering, reset, another number of \
         slots), or the tables are locked (on PostgreSQL, look for wait_event_type = 'Lock' in pg_stat_activity; on SQLite, for a process \
         with a long write transaction); run it again after that"
    )]
    Locked(#[source] sqlx::Error),
    /// The role lacks a right.
    #[error(
        "the role lacks a right that it needs; grant the one that the cause names (see the README, \"Migrate\")"
    )]
    Denied(#[source] sqlx::Error),
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
            SessionError::Deadline(limit) => Self::Deadline(limit),
            SessionError::Database(error) if DB::fault(&error) == Fault::NotMigrated => {
                Self::NotMigrated(error)
            }
            SessionError::Database(error) => match DB::fault(&error) {
                Fault::AggregateBusy | Fault::DatabaseBusy => Self::Locked(error),
                Fault::Denied => Self::Denied(error),
                _ => Self::Database(error),
            },
        }
    }

    /// Of the smallest batch.
    fn of_batch<DB: Backend>(error: SessionError) -> Self {
        if error.is_slow::<DB>() { Self::TooSlow(SlowBatch(error)) } else { Self::of::<DB>(error) }
    }
}

/// Failures in a row that are known only here, for the duty's row cannot be reached or written.
#[derive(Debug, Default)]
struct Unwritten {
    failures: u32,
}

impl Unwritten {
    /// One more; those that the duty's row `stored` when it was last seen count too.
    fn failed<DB: Backend>(&mut self, duty: Duty, error: &SessionError, stored: u32, pause: Duration) {
        self.failures = self.failures.saturating_add(1);
        let failures = stored.saturating_add(self.failures);
        telemetry::duty_failed(duty, failures);
        let (duty, error, advice) = (duty.as_str(), chain(error), advice::<DB>(error).unwrap_or(LOOK));
        if failures >= ALARMING {
            tracing::error!(duty, error, failures, retry_in = ?pause, "the duty fails again and again: {advice}");
        } else {
            tracing::warn!(duty, error, failures, retry_in = ?pause, "the duty failed; it is tried again: {advice}");
        }
    }
}

/// A connection and the tables: what every duty works with.
struct Desk<DB: Backend> {
    pool: Pool<DB>,
    session: Session<DB>,
    /// As they were given, and with the limit of the calls.
    given: Tables,
    tables: Tables,
    deadline: Duration,
}

impl<DB: Backend> Desk<DB> {
    fn new(pool: Pool<DB>, deadline: Duration) -> Self {
        Self::with(pool, Tables::default(), deadline)
    }

    fn with(pool: Pool<DB>, given: Tables, deadline: Duration) -> Self {
        let tables = limited(&given, deadline);
        Self { session: Session::new(pool.clone(), tables.clone(), deadline), pool, given, tables, deadline }
    }

    fn set_tables(&mut self, tables: Tables) {
        *self = Self::with(self.pool.clone(), tables, self.deadline);
    }

    fn set_deadline(&mut self, deadline: Duration) {
        *self = Self::with(self.pool.clone(), self.given.clone(), deadline);
    }

    /// One call on the connection.
    async fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut DB::Connection, &Tables) -> Result<T, sqlx::Error>,
    ) -> Result<T, SessionError> {
        let mut conn = self.session.connect().await?;
        let answer = within(self.deadline, call(&mut conn, &self.tables)).await?;
        self.session.keep(conn);
        Ok(answer)
    }
}
