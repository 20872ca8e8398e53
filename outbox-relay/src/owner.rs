//! The life of a slot: free, claimed, running, draining, free again; or lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Checks, Claim, ClaimRequest, Claimed};
use outbox_sdk::injection::crash_point;
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::attempt::Consumer;
use crate::chain::chain;
use crate::engine::{Engine, Stop};
use crate::refused::advice;
use crate::relay::{RelayError, Settings};
use crate::retry::Backoff;
use crate::schemas::Schemas;
use crate::session::{Session, SessionError, within};
use crate::shared_read::SharedRead;
use crate::slot::Distrust;
use crate::telemetry::Telemetry;

/// Keeps claiming one slot of one consumer, and runs it while the lease holds.
pub(crate) struct Owner<DB: Backend> {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) pool: Pool<DB>,
    pub(crate) tables: Tables,
    pub(crate) schemas: Schemas,
    /// The read that consumers near the head share; `None` = each reads for itself.
    pub(crate) shared: Option<SharedRead>,
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
        "the id sequence {sequence} hands out ids in blocks (CACHE above 1), which breaks the order of aggregates; run \
         `ALTER SEQUENCE {sequence} CACHE 1` and have the services reconnect, since their sessions keep what they have drawn"
    )]
    SequenceCached { sequence: String },
    #[error(
        "the id sequence stands at {last_id}, below the settled id {settled}: the table was restored or its sequence \
         reset; move the sequence above every settled id, or have the consumer begin again with `outbox consumer reset NAME \
         --to-id 1`"
    )]
    SequenceBehind { last_id: i64, settled: i64 },
    #[error(
        "the ids were started again (TRUNCATE .. RESTART IDENTITY, or a restore): another event has the id of one that was \
         read, and new events hide behind settled ids; restore the table, or have the consumer begin again with `outbox \
         consumer reset NAME --to-id 1`"
    )]
    IdsRestarted,
    #[error(
        "row security hides events from the relay's role; give it a permissive policy `USING (true)` on the event \
         table, or BYPASSRLS"
    )]
    RowSecurity,
    #[error("the server is a standby; waiting for the primary")]
    Standby,
    #[error(
        "the stall row of lane `{lane}` has a key that this release does not write; upgrade the relay, or restore the row"
    )]
    Stall { lane: String },
}

impl<DB: Backend> Owner<DB> {
    /// Runs until shutdown (or until idle, with `once`); returns how many events were delivered or became dead.
    ///
    /// # Errors
    /// With `once`, when the consumer cannot be run safely; else it is said in the log and tried again.
    pub(crate) async fn run(self) -> Result<u64, RelayError> {
        let name = self.consumer.spec.name.as_str();
        let mut backoff = self.backoff();
        let mut session = self.session();
        let mut processed = 0;
        let mut told = false;
        while !self.shutdown.is_cancelled() {
            let claimed_at = Instant::now();
            let pause = match self.claim(&mut session).await {
                Ok(Claim::Claimed(claimed)) => {
                    crash_point("claimed");
                    backoff.succeeded();
                    told = false;
                    // The engine goes on with the connection of the claim; the next claim makes one.
                    let session = std::mem::replace(&mut session, self.session());
                    match self.engine(&claimed, claimed_at, session) {
                        Ok(mut engine) => {
                            tracing::info!(consumer = name, epoch = claimed.fence.epoch, "claimed");
                            if let Some(left) = claimed.paused_for {
                                tracing::info!(
                                    consumer = name,
                                    ?left,
                                    "paused: its destination was unavailable"
                                );
                            }
                            let end = self.own(&mut engine).await;
                            processed += engine.processed;
                            match end {
                                End::Released => return Ok(processed),
                                // Leave the slot to who asked for it.
                                End::Handed => self.settings.lease / 3,
                                End::Lost => Duration::ZERO,
                            }
                        }
                        Err(problem) if self.once => {
                            return Err(RelayError::Unsafe {
                                consumer: name.to_owned(),
                                problem: problem.to_string(),
                            });
                        }
                        Err(problem) => {
                            tracing::error!(consumer = name, "not running the consumer: {problem}");
                            // The claim is left to run out: another relay would find the same.
                            self.settings.lease
                        }
                    }
                }
                Ok(Claim::Taken) => self.settings.poll_max,
                Ok(other) => {
                    if !std::mem::replace(&mut told, true) {
                        let why = match other {
                            Claim::OtherConfig => {
                                "a relay that started later has registered another configuration"
                            }
                            _ => "it is not registered any more",
                        };
                        tracing::warn!(
                            consumer = name,
                            "not claiming the consumer: {why}; restart this relay"
                        );
                    }
                    self.settings.poll_max
                }
                Err(error) => {
                    let pause = backoff.failed((self.settings.random)());
                    self.complain(&Stop::Session(error), pause);
                    pause
                }
            };
            self.sleep(pause).await;
        }
        Ok(processed)
    }

    /// An engine for a claimed slot, if it can be run safely.
    fn engine(
        &self,
        claimed: &Claimed,
        claimed_at: Instant,
        session: Session<DB>,
    ) -> Result<Engine<DB>, Unsafe> {
        check(claimed, &self.tables)?;
        Engine::new(
            Arc::clone(&self.consumer),
            Arc::clone(&self.settings),
            self.tables.clone(),
            self.schemas.clone(),
            session,
            self.shared.clone(),
            self.slot_number,
            claimed,
            claimed_at,
        )
        .map_err(|lane| Unsafe::Stall { lane })
    }

    /// How long to leave the database alone after failures. Never much longer than a poll, so that work resumes soon
    /// after it is back.
    fn backoff(&self) -> Backoff {
        let cap = self.settings.poll_max + Duration::from_secs(1);
        Backoff::new(Duration::from_millis(100), cap.min(Duration::from_secs(5)))
    }

    fn session(&self) -> Session<DB> {
        Session::new(self.pool.clone(), self.settings.deadline)
    }

    async fn claim(&self, session: &mut Session<DB>) -> Result<Claim, SessionError> {
        let mut conn = session.connect().await?;
        let config = self.consumer.spec.stored().to_string();
        let request = ClaimRequest {
            consumer: self.consumer.spec.name.as_str(),
            slot: self.slot_number,
            owner: &self.settings.name,
            lease: self.settings.lease,
            config: &config,
            slots: 1,
        };
        let claimed = within(self.settings.deadline, DB::claim(&mut conn, &self.tables, &request)).await?;
        session.keep(conn);
        Ok(claimed)
    }

    /// Runs the engine until the slot is given back or lost.
    async fn own(&self, engine: &mut Engine<DB>) -> End {
        let name = self.consumer.spec.name.as_str();
        let telemetry = Telemetry::of(name);
        let mut backoff = self.backoff();
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
                    self.complain(&stop, pause);
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

    /// Says what keeps the consumer from working: a database that is away comes back, one that refuses needs somebody.
    fn complain(&self, stop: &Stop, pause: Duration) {
        let consumer = self.consumer.spec.name.as_str();
        let error = chain(stop);
        if let Some(advice) = advice::<DB>(stop) {
            tracing::error!(consumer, error, retry_in = ?pause, "nothing is read or settled, for {advice}");
            return;
        }
        match stop {
            Stop::Session(refused) if !refused.is_away::<DB>() => tracing::error!(
                consumer,
                error,
                retry_in = ?pause,
                "the database refuses a statement: check the rights of the relay's role and that the tables are those of \
                 this release; nothing is read or settled until then"
            ),
            _ => tracing::warn!(
                consumer,
                error,
                retry_in = ?pause,
                "the database is away: nothing new is read, nothing is settled"
            ),
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
fn check(claimed: &Claimed, tables: &Tables) -> Result<(), Unsafe> {
    let Checks { sequence_uncached, last_id, sees_all_rows, primary, anchored } = claimed.checks;
    let settled = claimed.settled.upper() - 1;
    if !primary {
        return Err(Unsafe::Standby);
    }
    if !sequence_uncached {
        let sequence = format!("\"{}\".event_id_seq", tables.schema().replace('"', "\"\""));
        return Err(Unsafe::SequenceCached { sequence });
    }
    if last_id < settled {
        return Err(Unsafe::SequenceBehind { last_id, settled });
    }
    if !anchored {
        return Err(Unsafe::IdsRestarted);
    }
    if !sees_all_rows {
        return Err(Unsafe::RowSecurity);
    }
    Ok(())
}
