//! How long the inbox remembers, and what is taken out of it on purpose.

use std::fmt;
use std::time::Duration;

use sqlx::Pool;
use uuid::Uuid;

use super::Inbox;
use crate::backend::{Backend, Fault};
use crate::envelope::Timestamp;
use crate::tables::Tables;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long rows are kept, unless told otherwise.
pub(super) const RETENTION: Duration = DAY.saturating_mul(30);
/// For how long an event may come again, unless told otherwise.
pub(super) const REPLAY_HORIZON: Duration = DAY.saturating_mul(30);
/// The most rows that one statement deletes.
const BATCH: u64 = 1_000;

/// What to take out of an inbox with [`Inbox::forget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forget {
    /// One event, by its `event_id`.
    Event(Uuid),
    /// Everything that was processed at this time or later, by the clock of the consumer's database.
    Since(Timestamp),
    /// Everything.
    All,
}

/// An inbox that cannot be built, or a call on it that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The inbox would forget an event that can still come again.
    #[error(
        "the inbox would forget after {} what may come again for {}, and its effect would happen twice; raise `retention` \
         to at least the replay horizon, or lower `replay_horizon` and replay nothing that is older",
        Length(*.retention),
        Length(*.replay_horizon)
    )]
    RetentionTooShort {
        /// How long rows would be kept.
        retention: Duration,
        /// How long an event may come again.
        replay_horizon: Duration,
    },
    /// The inbox table is missing.
    #[error(
        "the inbox table is missing in the consumer's database; run `outbox migrate --inbox`, or `Migrator::inbox()` at \
         start-up"
    )]
    NotMigrated(#[source] sqlx::Error),
    /// The database is away or busy.
    #[error("the consumer's database is away or busy; call it again, what was done stays done")]
    Unavailable(#[source] sqlx::Error),
    /// Anything else the database says.
    #[error("the consumer's database failed; correct what the source names and call it again")]
    Database(#[source] sqlx::Error),
}

impl InboxError {
    fn from_database<DB: Backend>(error: sqlx::Error) -> Self {
        match DB::fault(&error) {
            Fault::NotMigrated => Self::NotMigrated(error),
            Fault::Connection | Fault::ReadOnly | Fault::DatabaseBusy | Fault::Retryable => {
                Self::Unavailable(error)
            }
            _ => Self::Database(error),
        }
    }
}

/// A length of time for people.
struct Length(Duration);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.0.as_secs() / DAY.as_secs(), self.0.as_secs() % DAY.as_secs());
        match (days, rest) {
            (1, 0) => f.write_str("1 day"),
            (2.., 0) => write!(f, "{days} days"),
            _ => write!(f, "{:?}", self.0),
        }
    }
}

/// An inbox with settings of its own; from [`Inbox::builder`].
#[derive(Debug)]
pub struct InboxBuilder<DB: Backend> {
    pub(super) inbox: Inbox<DB>,
}

impl<DB: Backend> InboxBuilder<DB> {
    /// How long [`Inbox::compact`] keeps rows; 30 days by default. Whatever is older can have its effect a second time.
    #[must_use]
    pub fn retention(mut self, retention: Duration) -> Self {
        self.inbox.retention = retention;
        self
    }

    /// For how long after its first delivery an event may come again: longer than any relay retries, and at least as old
    /// as what operators replay or reset to. 30 days by default.
    #[must_use]
    pub fn replay_horizon(mut self, horizon: Duration) -> Self {
        self.inbox.replay_horizon = horizon;
        self
    }

    /// Uses these tables.
    #[must_use]
    pub fn tables(mut self, tables: Tables) -> Self {
        self.inbox.tables = tables;
        self
    }

    /// The inbox.
    ///
    /// # Errors
    /// [`InboxError::RetentionTooShort`] when rows would be kept for less than the replay horizon.
    pub fn build(self) -> Result<Inbox<DB>, InboxError> {
        let Inbox { retention, replay_horizon, .. } = self.inbox;
        if retention < replay_horizon {
            return Err(InboxError::RetentionTooShort { retention, replay_horizon });
        }
        Ok(self.inbox)
    }
}

impl<DB: Backend> Inbox<DB> {
    /// An inbox that keeps its rows for another time than 30 days.
    ///
    /// ```
    /// use outbox_sdk::{Inbox, InboxError};
    /// use sqlx::{Sqlite, SqlitePool};
    /// use std::time::Duration;
    ///
    /// fn inbox(pool: SqlitePool) -> Result<Inbox<Sqlite>, InboxError> {
    ///     let days = |n: u64| Duration::from_secs(n * 24 * 3600);
    ///     Inbox::builder(pool, "crm").retention(days(90)).replay_horizon(days(60)).build()
    /// }
    /// ```
    #[must_use]
    pub fn builder(pool: Pool<DB>, consumer: impl Into<String>) -> InboxBuilder<DB> {
        InboxBuilder { inbox: Self::new(pool, consumer) }
    }

    /// How long rows are kept.
    #[must_use]
    pub fn retention(&self) -> Duration {
        self.retention
    }

    /// For how long an event may come again.
    #[must_use]
    pub fn replay_horizon(&self) -> Duration {
        self.replay_horizon
    }

    /// Deletes this consumer's rows that are older than the retention, by the database's clock; returns how many.
    ///
    /// Nothing calls it by itself: the consumer does, such as once an hour. It deletes at most 1,000 rows at a time, each
    /// batch in a transaction of its own, so it may be dropped at any point, and several processes may call it at once.
    ///
    /// ```no_run
    /// # async fn example(inbox: outbox_sdk::Inbox<sqlx::Sqlite>) {
    /// let mut hourly = tokio::time::interval(std::time::Duration::from_secs(3600));
    /// loop {
    ///     hourly.tick().await;
    ///     if let Err(error) = inbox.compact().await {
    ///         eprintln!("the inbox was not compacted: {error}");
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InboxError`] of the database. What was deleted before stays deleted; call it again.
    pub async fn compact(&self) -> Result<u64, InboxError> {
        let mut conn = self.connect().await?;
        let mut deleted = 0;
        loop {
            let batch = DB::inbox_compact(&mut conn, &self.tables, &self.consumer, self.retention)
                .await
                .map_err(InboxError::from_database::<DB>)?;
            deleted += batch;
            if batch < BATCH {
                return Ok(deleted);
            }
        }
    }

    /// Takes rows out of the inbox, so that these events have their effect again when they come again: before a replay
    /// or a reset whose purpose is that. Returns how many rows there were.
    ///
    /// An event that is being handled at this moment may stay; pause the consumer first.
    ///
    /// # Errors
    /// [`InboxError`] of the database. What was deleted before stays deleted; call it again.
    pub async fn forget(&self, what: Forget) -> Result<u64, InboxError> {
        let since = match what {
            Forget::Event(event_id) => {
                let mut conn = self.connect().await?;
                return DB::inbox_forget_event(&mut conn, &self.tables, &self.consumer, event_id)
                    .await
                    .map_err(InboxError::from_database::<DB>);
            }
            Forget::Since(since) => Some(since),
            Forget::All => None,
        };
        self.forget_of(&self.consumer, since).await
    }

    /// Takes over the rows of a consumer that was renamed to this one; returns how many came over. Call it before the
    /// first event comes under the new name, and after the last one under the old.
    ///
    /// The rows are copied in one statement and then taken away from the old name: after a failure, call it again.
    ///
    /// # Errors
    /// [`InboxError`] of the database.
    pub async fn rename_from(&self, former: &str) -> Result<u64, InboxError> {
        if former == self.consumer {
            return Ok(0);
        }
        let mut conn = self.connect().await?;
        let copied = DB::inbox_copy(&mut conn, &self.tables, &self.consumer, former)
            .await
            .map_err(InboxError::from_database::<DB>)?;
        drop(conn);
        self.forget_of(former, None).await?;
        Ok(copied)
    }

    async fn forget_of(&self, consumer: &str, since: Option<Timestamp>) -> Result<u64, InboxError> {
        let mut conn = self.connect().await?;
        let mut forgotten = 0;
        loop {
            let batch = DB::inbox_forget(&mut conn, &self.tables, consumer, since)
                .await
                .map_err(InboxError::from_database::<DB>)?;
            forgotten += batch;
            if batch < BATCH {
                return Ok(forgotten);
            }
        }
    }

    async fn connect(&self) -> Result<sqlx::pool::PoolConnection<DB>, InboxError> {
        self.pool.acquire().await.map_err(InboxError::from_database::<DB>)
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use sqlx::SqlitePool;

    use super::*;

    #[tokio::test]
    async fn rows_are_kept_at_least_as_long_as_events_may_come_again() {
        let builder = || Inbox::builder(SqlitePool::connect_lazy("sqlite::memory:").unwrap(), "crm");
        let inbox = builder().build().unwrap();
        assert_eq!((inbox.retention(), inbox.replay_horizon()), (30 * DAY, 30 * DAY));
        let error = builder().retention(10 * DAY).build().unwrap_err();
        assert!(matches!(error, InboxError::RetentionTooShort { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "the inbox would forget after 10 days what may come again for 30 days, and its effect would happen twice; \
             raise `retention` to at least the replay horizon, or lower `replay_horizon` and replay nothing that is older"
        );
        assert!(builder().replay_horizon(31 * DAY).build().is_err());
        let short = builder().retention(10 * DAY).replay_horizon(10 * DAY).build().unwrap();
        assert_eq!(short.retention(), 10 * DAY);
    }
}
