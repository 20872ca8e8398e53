//! The life of a slot: free, claimed, running, draining, free again; or lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Checks, ClaimRequest, Claimed};
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::attempt::Consumer;
use crate::engine::{Engine, Stop};
use crate::relay::{Settings, chain};
use crate::retry::Backoff;
use crate::schemas::Schemas;
use crate::session::{Session, SessionError, within};
use crate::slot::Distrust;
use crate::telemetry::Telemetry;

/// Keeps claiming one slot of one consumer, and runs it while the lease holds.
pub(crate) struct Owner<DB: Backend> {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) pool: Pool<DB>,
    pub(crate) tables: Tables,
    pub(crate) schemas: Schemas,
    pub(crate) slot_number: i32,
    pub(crate) poke: Arc<Notify>,
    pub(crate) shutdown: CancellationToken,
    /// Give the slot back as soon as nothing is left to do.
    pub(crate) once: bool,
}

/// How a slot was given up.
enum End {
    /// Drained and given back, because of a shutdown, or because nothing is left to do.
    Released,
    /// Drained and given back to somebody who asked for it.
    Handed,
    /// Somebody else has it, or what was in memory could not be trusted.
    Lost,
}

/// Why a claimed slot is not run.
#[derive(Debug, thiserror::Error)]
enum Unsafe {
    #[error(
        "the id sequence of the event table hands out ids in blocks (CACHE above 1), which breaks the order of \
         aggregates; set it back: ALTER SEQUENCE .. CACHE 1"
    )]
    SequenceCached,
    #[error(
        "the id sequence stands at {last_id}, below the settled id {settled}: the table was restored or its sequence \
         reset; move the sequence above every settled id"
    )]
    SequenceBehind { last_id: i64, settled: i64 },
    #[error(
        "row security hides events from the relay's role; give it a permissive policy `USING (true)` on the event \
         table, or BYPASSRLS"
    )]
    RowSecurity,
    #[error("the server is a standby; waiting for the primary")]
    Standby,
}

impl<DB: Backend> Owner<DB> {
    /// Runs until shutdown (or until idle, with `once`); returns how many events were delivered or became dead.
    pub(crate) async fn run(self) -> u64 {
        let name = self.consumer.spec.name.as_str();
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        let mut session = self.session();
        let mut processed = 0;
        while !self.shutdown.is_cancelled() {
            let claimed_at = Instant::now();
            let pause = match self.claim(&mut session).await {
                Ok(Some(claimed)) => {
                    backoff.succeeded();
                    if let Err(problem) = check(&claimed) {
                        tracing::error!(consumer = name, "not running the consumer: {problem}");
                        // The claim is left to run out: another relay would find the same.
                        self.settings.lease
                    } else {
                        tracing::info!(consumer = name, epoch = claimed.fence.epoch, "claimed");
                        // The engine goes on with the connection of the claim; the next claim makes one.
                        let session = std::mem::replace(&mut session, self.session());
                        let mut engine = Engine::new(
                            Arc::clone(&self.consumer),
                            Arc::clone(&self.settings),
                            self.tables.clone(),
                            self.schemas.clone(),
                            session,
                            self.slot_number,
                            &claimed,
                            claimed_at,
                        );
                        let end = self.own(&mut engine).await;
                        processed += engine.processed;
                        match end {
                            End::Released => return processed,
                            // Leave the slot to who asked for it.
                            End::Handed => self.settings.lease / 3,
                            End::Lost => Duration::ZERO,
                        }
                    }
                }
                Ok(None) => self.settings.poll_max,
                Err(error) => {
                    let pause = backoff.failed((self.settings.random)());
                    tracing::warn!(consumer = name, error = chain(&error), retry_in = ?pause, "cannot claim: the database is away");
                    pause
                }
            };
            self.sleep(pause).await;
        }
        processed
    }

    fn session(&self) -> Session<DB> {
        Session::new(self.pool.clone(), self.settings.deadline)
    }

    async fn claim(&self, session: &mut Session<DB>) -> Result<Option<Claimed>, SessionError> {
        let mut conn = session.connect().await?;
        let request = ClaimRequest {
            consumer: self.consumer.spec.name.as_str(),
            slot: self.slot_number,
            owner: &self.settings.name,
            lease: self.settings.lease,
        };
        let claimed = within(self.settings.deadline, DB::claim(&mut conn, &self.tables, &request)).await?;
        session.keep(conn);
        Ok(claimed)
    }

    /// Runs the engine until the slot is given back or lost.
    async fn own(&self, engine: &mut Engine<DB>) -> End {
        let name = self.consumer.spec.name.as_str();
        let telemetry = Telemetry::of(name);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            let drained = self.shutdown.is_cancelled() || (self.once && engine.is_idle());
            if drained || engine.wanted {
                return match engine.drain(Instant::now() + self.settings.grace).await {
                    Ok(()) => {
                        tracing::info!(consumer = name, "drained and given back");
                        if drained { End::Released } else { End::Handed }
                    }
                    Err(stop) => {
                        tracing::warn!(
                            consumer = name,
                            error = chain(&stop),
                            "could not give the slot back; its lease runs out"
                        );
                        if drained { End::Released } else { End::Lost }
                    }
                };
            }
            match engine.cycle().await {
                Ok(()) => {
                    if backoff.failures() > 0 {
                        tracing::info!(consumer = name, "the database is back");
                        backoff.succeeded();
                    }
                }
                Err(stop @ (Stop::Session(_) | Stop::Distrust(Distrust::Standby))) => {
                    telemetry.database_error();
                    let pause = backoff.failed((self.settings.random)());
                    tracing::warn!(
                        consumer = name, error = chain(&stop), retry_in = ?pause, lease_held = engine.holds_lease(),
                        "the database is away: nothing new is read, nothing is settled"
                    );
                    self.sleep(pause).await;
                    continue;
                }
                Err(stop) => {
                    telemetry.lease_lost();
                    tracing::warn!(
                        consumer = name,
                        error = chain(&stop),
                        "lost the slot: dropping what is in memory"
                    );
                    return End::Lost;
                }
            }
            tokio::select! {
                () = engine.next_event() => {}
                () = self.poke.notified() => engine.poke(),
                () = self.shutdown.cancelled() => {}
            }
        }
    }

    async fn sleep(&self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

/// What must hold before anything is read.
fn check(claimed: &Claimed) -> Result<(), Unsafe> {
    let Checks { sequence_uncached, last_id, sees_all_rows, primary } = claimed.checks;
    let settled = claimed.settled.upper() - 1;
    if !primary {
        return Err(Unsafe::Standby);
    }
    if !sequence_uncached {
        return Err(Unsafe::SequenceCached);
    }
    if last_id < settled {
        return Err(Unsafe::SequenceBehind { last_id, settled });
    }
    if !sees_all_rows {
        return Err(Unsafe::RowSecurity);
    }
    Ok(())
}
