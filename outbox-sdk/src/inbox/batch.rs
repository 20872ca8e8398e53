//! Many events in one transaction, each in a savepoint of its own.

use std::collections::HashSet;

use sqlx::{Connection as _, Transaction};
use uuid::Uuid;

use super::{Effect, Inbox, TRIES};
use crate::backend::Backend;
use crate::consume::{Handler, HandlerError};
use crate::envelope::Envelope;
use crate::lane::Lane;

/// Why an event of a batch was not tried: an earlier one of its aggregate is to come again, and order would break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "an earlier event of the same aggregate, or the same event, failed in this batch; deliver both again, in order"
)]
pub struct EarlierFailed;

impl<DB: Backend> Inbox<DB> {
    /// Handles many events in one transaction: one statement tells which are new, then each of those goes to the handler in
    /// a savepoint, in the order of `events`. One that fails is rolled back alone. Answers with what became of each, in the
    /// same order; what is done is committed.
    ///
    /// Behind an event that is to come again, later ones of its aggregate in the batch are not tried: they fail with
    /// [`EarlierFailed`] inside a [`HandlerError::Retry`]. A rejected event holds up nothing.
    ///
    /// When the transaction as a whole cannot be committed (a deferred constraint, a handler that spoiled it), the events
    /// are handled one by one, so that only the one that is to blame fails. Conflicts are as in [`handle`](Self::handle):
    /// the whole batch is run again, and after five runs its events go one by one, so a handler may see an event
    /// several times before its effect is committed once. A commit of the handler's own fails on PostgreSQL; on SQLite it
    /// keeps what was done so far, and no note of an event that was not.
    ///
    /// ```no_run
    /// # use outbox_sdk::{Envelope, Handler, HandlerError, Inbox};
    /// # async fn arrived<H: Handler<sqlx::Postgres>>(
    /// #     inbox: Inbox<sqlx::Postgres>, handler: H, events: Vec<Envelope>,
    /// # ) -> Result<(), HandlerError> {
    /// for (event, result) in events.iter().zip(inbox.handle_all(&handler, &events).await?) {
    ///     if let Err(error) = result {
    ///         println!("{} comes again: {error}", event.event_id);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HandlerError::Unavailable`] when the database is away or busy. Nothing of the batch is known to be done, then:
    /// deliver all of it again.
    pub async fn handle_all<H: Handler<DB>>(
        &self,
        handler: &H,
        events: &[Envelope],
    ) -> Result<Vec<Result<Effect, HandlerError>>, HandlerError> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let mut tries = 0;
        loop {
            let tx = self.begin().await?;
            tries += 1;
            match self.all_in(tx, handler, events).await {
                Err(error) if error.is_conflict::<DB>() && tries < TRIES => {}
                Err(HandlerError::Unavailable(reason)) => return Err(HandlerError::Unavailable(reason)),
                Err(_) => return self.one_by_one(handler, events).await,
                done => return done,
            }
        }
    }

    /// Fails when the transaction as a whole does.
    async fn all_in<H: Handler<DB>>(
        &self,
        mut tx: Transaction<'_, DB>,
        handler: &H,
        events: &[Envelope],
    ) -> Result<Vec<Result<Effect, HandlerError>>, HandlerError> {
        let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
        let mut tenant = events.first().and_then(|event| event.tenant_id);
        let new = DB::inbox_begin_batch(&mut tx, &self.tables, &self.consumer, &ids, tenant).await;
        let mut new: HashSet<_> = new.map_err(Self::database)?.into_iter().collect();

        let mut done = None;
        let mut failed = Failed::default();
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            if !new.remove(&event.event_id) {
                results.push(failed.again(event));
                continue;
            }
            let result = if failed.holds(event) {
                Err(HandlerError::from(EarlierFailed))
            } else {
                if event.tenant_id != tenant {
                    tenant = event.tenant_id;
                    DB::inbox_tenant(&mut tx, &self.tables, tenant).await.map_err(Self::database)?;
                }
                DB::inbox_turn(&mut tx, &self.consumer, event.event_id).await.map_err(Self::database)?;
                self.in_savepoint(&mut tx, handler, event).await?
            };
            match result {
                Ok(()) => {
                    done = Some(event);
                    results.push(Ok(Effect::Done));
                }
                Err(error) => {
                    let forgotten =
                        DB::inbox_forget_event(&mut tx, &self.tables, &self.consumer, event.event_id).await;
                    forgotten.map_err(Self::database)?;
                    failed.note(event, &error);
                    results.push(Err(error));
                }
            }
        }
        match done {
            Some(event) => {
                self.still_holds(&mut tx, event).await?;
                DB::inbox_end_batch(&mut tx, &self.tables).await.map_err(Self::database)?;
                tx.commit().await.map_err(Self::database)?;
            }
            None => tx.rollback().await.map_err(Self::database)?,
        }
        Ok(results)
    }

    /// The outer error is the transaction's, the inner one the event's.
    async fn in_savepoint<H: Handler<DB>>(
        &self,
        tx: &mut Transaction<'_, DB>,
        handler: &H,
        event: &Envelope,
    ) -> Result<Result<(), HandlerError>, HandlerError> {
        let mut savepoint = tx.begin().await.map_err(Self::database)?;
        let result = match handler.handle(event, &mut savepoint).await {
            // A statement that failed, and whose error the handler has swallowed, fails this one.
            Ok(()) => savepoint.commit().await.map_err(Self::database),
            Err(error) if error.is_conflict::<DB>() => return Err(error),
            Err(error) => {
                savepoint.rollback().await.map_err(Self::database)?;
                Err(error)
            }
        };
        if result.is_err() {
            self.still_holds(tx, event).await?;
        }
        Ok(result)
    }

    async fn one_by_one<H: Handler<DB>>(
        &self,
        handler: &H,
        events: &[Envelope],
    ) -> Result<Vec<Result<Effect, HandlerError>>, HandlerError> {
        let mut failed = Failed::default();
        let mut results = Vec::with_capacity(events.len());
        for event in events {
            let result = if failed.holds(event) {
                Err(HandlerError::from(EarlierFailed))
            } else {
                self.handle(handler, event).await
            };
            if let Err(error) = &result {
                failed.note(event, error);
            }
            results.push(result);
        }
        Ok(results)
    }
}

/// What has failed of a batch so far.
#[derive(Default)]
struct Failed {
    events: HashSet<Uuid>,
    lanes: HashSet<Lane>,
}

impl Failed {
    fn note(&mut self, event: &Envelope, error: &HandlerError) {
        self.events.insert(event.event_id);
        if !matches!(error, HandlerError::Reject(_)) && event.aggregate_id.is_some() {
            self.lanes.insert(event.lane());
        }
    }

    /// Whether an event that comes before this one is to come again.
    fn holds(&self, event: &Envelope) -> bool {
        event.aggregate_id.is_some() && self.lanes.contains(&event.lane())
    }

    /// What to answer for an event whose row was there: from before, or from earlier in the batch.
    fn again(&self, event: &Envelope) -> Result<Effect, HandlerError> {
        if self.events.contains(&event.event_id) {
            Err(EarlierFailed.into())
        } else {
            Ok(Effect::AlreadyProcessed)
        }
    }
}
