//! The inbox: the note that an event was processed and the effect of processing it commit together.

mod batch;
mod keep;

use std::time::Duration;

use sqlx::{Pool, Transaction};

pub use self::batch::EarlierFailed;
pub use self::keep::{Forget, InboxBuilder, InboxError};

use crate::backend::{Backend, Fault};
use crate::consume::{Handler, HandlerError, without_values};
use crate::envelope::Envelope;
use crate::injection::crash_point;
use crate::tables::Tables;

/// Makes the effect of each event happen exactly once per consumer, however often it arrives, for as long as the inbox
/// row is kept: 30 days, or as [`Inbox::builder`] says, once [`Inbox::compact`] is called now and then.
///
/// It lives in the consumer's own database, which needs one table: [`Migrator::inbox`](crate::Migrator::inbox).
///
/// On PostgreSQL the handler's transaction runs under the event's tenant: the setting `app.tenant_id` (another one by
/// [`Tables::tenant_setting`]) holds it until the transaction ends, whatever ends it, so that row security can rely on it.
/// It is the empty text for an event without a tenant, and after the transaction what it was before. SQLite has no such
/// settings.
///
/// ```no_run
/// # use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Inbox};
/// # async fn arrived<H: Handler<sqlx::Postgres>>(
/// #     pool: sqlx::PgPool, handler: H, envelope: Envelope,
/// # ) -> Result<(), HandlerError> {
/// let inbox = Inbox::new(pool, "billing");
/// match inbox.handle(&handler, &envelope).await? {
///     Effect::Done => println!("handled"),
///     Effect::AlreadyProcessed => println!("it came before"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Inbox<DB: Backend> {
    pool: Pool<DB>,
    consumer: String,
    tables: Tables,
    retention: Duration,
    replay_horizon: Duration,
}

// Not derived: that would ask the database's marker type to be `Clone`, which none is.
impl<DB: Backend> Clone for Inbox<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            consumer: self.consumer.clone(),
            tables: self.tables.clone(),
            retention: self.retention,
            replay_horizon: self.replay_horizon,
        }
    }
}

/// How often a transaction that met another one is run. Each time, one that it met has come through.
const TRIES: u32 = 5;

/// How long to wait for a connection. A pool goes on connecting to a database that is away for longer than a delivery may
/// take, and a delivery that runs into its time limit counts as an attempt.
const BEGIN: Duration = Duration::from_secs(10);

/// What handling an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The handler's work is committed.
    Done,
    /// It was committed by an earlier delivery; the handler was not called.
    AlreadyProcessed,
}

impl<DB: Backend> Inbox<DB> {
    /// The inbox of a consumer. The name keys its rows: keep it stable, or see [`rename_from`](Self::rename_from).
    #[must_use]
    pub fn new(pool: Pool<DB>, consumer: impl Into<String>) -> Self {
        Self {
            pool,
            consumer: consumer.into(),
            tables: Tables::default(),
            retention: keep::RETENTION,
            replay_horizon: keep::REPLAY_HORIZON,
        }
    }

    /// Uses these tables.
    #[must_use]
    pub fn with_tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// The consumer's name.
    #[must_use]
    pub fn consumer(&self) -> &str {
        &self.consumer
    }

    /// Calls the handler unless the event was processed before; both in one transaction. One that the database ended for
    /// another one's sake (deadlock, serialization failure) is run again at once, up to five times in all: of two that
    /// handle the same event at the same time, at any isolation level, one does the work and the other answers
    /// [`Effect::AlreadyProcessed`].
    ///
    /// It may be dropped at any point. Whether the effect was committed is then unknown, and the inbox row decides when the
    /// event comes again.
    ///
    /// # Errors
    /// What the handler answers, after its work was rolled back. When the database is away or busy before or after the
    /// handler's work, or gives no connection within 10 s, that is [`HandlerError::Unavailable`]; when a commit's
    /// connection is lost, its outcome is unknown, and the inbox row decides when the event comes again. Any other database
    /// error is a retry. A handler that swallows a database error, or ends the transaction by itself, does not count as
    /// done: that is a retry too.
    pub async fn handle<H: Handler<DB>>(
        &self,
        handler: &H,
        event: &Envelope,
    ) -> Result<Effect, HandlerError> {
        let mut tries = 0;
        loop {
            let tx = self.begin().await?;
            tries += 1;
            match self.handle_in(tx, handler, event).await {
                Err(error) if error.is_conflict::<DB>() && tries < TRIES => {}
                done => return done,
            }
        }
    }

    /// The first half of [`handle`](Self::handle), for a caller with a time limit of its own. Nothing has been tried when it
    /// is dropped.
    ///
    /// # Errors
    /// [`HandlerError::Unavailable`], whatever the reason: it has nothing to do with the event.
    pub async fn begin(&self) -> Result<Transaction<'static, DB>, HandlerError> {
        match sqlx::__rt::timeout(BEGIN, DB::begin_write(&self.pool)).await {
            Ok(begun) => begun.map_err(|error| Self::away(&error)),
            Err(_) => Err(HandlerError::unavailable(format!(
                "the consumer's database gave no connection within {} s; bring it back, or give its pool more connections",
                BEGIN.as_secs()
            ))),
        }
    }

    /// The second half of [`handle`](Self::handle), in the transaction of [`begin`](Self::begin). It is tried once.
    ///
    /// # Errors
    /// As [`handle`](Self::handle); [`HandlerError::is_conflict`] tells whether the same again may succeed at once.
    pub async fn handle_in<H: Handler<DB>>(
        &self,
        mut tx: Transaction<'_, DB>,
        handler: &H,
        event: &Envelope,
    ) -> Result<Effect, HandlerError> {
        let (id, tenant) = (event.event_id, event.tenant_id);
        let first = DB::inbox_insert(&mut tx, &self.tables, &self.consumer, id, tenant).await;
        if !first.map_err(Self::database)? {
            tx.rollback().await.map_err(Self::database)?;
            return Ok(Effect::AlreadyProcessed);
        }
        handler.handle(event, &mut tx).await?;
        self.still_holds(&mut tx, event).await?;
        crash_point("handler_tx_open");
        tx.commit().await.map_err(Self::database)?;
        crash_point("handler_committed");
        Ok(Effect::Done)
    }

    /// That a commit keeps this event's row.
    async fn still_holds(&self, tx: &mut Transaction<'_, DB>, event: &Envelope) -> Result<(), HandlerError> {
        let holds = DB::inbox_holds(tx, &self.tables, &self.consumer, event.event_id).await;
        if holds.map_err(Self::database)? {
            Ok(())
        } else {
            Err(HandlerError::retry(
                "the handler ended the transaction that it was given; leave commit and rollback to the inbox",
            ))
        }
    }

    fn database(error: sqlx::Error) -> HandlerError {
        match DB::fault(&error) {
            Fault::NotMigrated => HandlerError::retry(
                "the inbox table is missing in the consumer's database; run `outbox migrate --inbox`, or \
                 `Migrator::inbox()` at start-up",
            ),
            Fault::TransactionFailed => HandlerError::retry(
                "a statement of the handler failed and the handler went on; return its error instead",
            ),
            Fault::Connection | Fault::DatabaseBusy | Fault::ReadOnly => Self::away(&error),
            _ => HandlerError::from(error),
        }
    }

    fn away(error: &sqlx::Error) -> HandlerError {
        if DB::fault(error) == Fault::DatabaseBusy {
            return HandlerError::unavailable(
                "the consumer's database is busy: another connection is writing; keep its transactions short, or raise \
                 the busy timeout",
            );
        }
        let reason = without_values(error);
        HandlerError::unavailable(format!("the consumer's database is away ({reason}); bring it back"))
    }
}
