//! The life of a slot: free, claimed, running, draining, free again; or lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Checks, Claim, ClaimRequest, Claimed};
use outbox_sdk::injection::crash_point;
use outbox_sdk::{Backend, Tables};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::attempt::Consumer;
use crate::balance::SlotKey;
use crate::chain::chain;
use crate::company::Company;
use crate::engine::{Engine, Stop};
use crate::refused::advice;
use crate::retry::Backoff;
use crate::session::{Session, SessionError, within};
use crate::slot::Distrust;
use crate::telemetry::Telemetry;

/// Claims one slot of one consumer, and runs it until it is given back or lost.
pub(crate) struct Owner<DB: Backend> {
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) company: Arc<Company<DB>>,
    pub(crate) slot: i32,
    pub(crate) committed: watch::Receiver<()>,
    /// Drain and give the slot back.
    pub(crate) stop: CancellationToken,
}

/// An owner that has ended.
pub(crate) struct Ended {
    pub(crate) slot: SlotKey,
    /// How many events were delivered or became dead.
    pub(crate) processed: u64,
    pub(crate) end: End,
}

/// How an owner ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Drained and given back: it was told to, or nothing is left to do.
    Released,
    /// Drained and given back to somebody who asked for it.
    Handed,
    /// Somebody else has the slot, or what was in memory could not be trusted.
    Lost,
    /// The slot could not be claimed now.
    Refused,
    /// The database failed while claiming; to be tried again after this pause.
    Failed(Duration),
    /// The slot was claimed and cannot be run safely.
    Unsafe(String),
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
         reset; move the sequence above every settled id, or have the consumer begin again with `outbox consumer reset NAME --to 1 \
         --yes`"
    )]
    SequenceBehind { last_id: i64, settled: i64 },
    #[error(
        "the ids were started again (TRUNCATE .. RESTART IDENTITY, or a restore): another event has the id of one that was \
         read, and new events hide behind settled ids; restore the table, or have the consumer begin again with `outbox \
         consumer reset NAME --to 1 --yes`"
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
    /// Claims the slot and runs it while the lease holds.
    pub(crate) async fn run(mut self) -> Ended {
        let slot = (self.consumer.spec.name.to_string(), self.slot);
        let (processed, end) = self.claim_and_own().await;
        Ended { slot, processed, end }
    }

    async fn claim_and_own(&mut self) -> (u64, End) {
        let (consumer, slot) = (Arc::clone(&self.consumer), self.slot);
        let name = consumer.spec.name.as_str();
        let mut session = self.company.session();
        let claimed_at = Instant::now();
        let claimed = match self.claim(&mut session).await {
            Ok(Claim::Claimed(claimed)) => {
                crash_point("claimed");
                claimed
            }
            Ok(refused) => {
                tracing::debug!(consumer = name, slot, ?refused, "not claimed");
                return (0, End::Refused);
            }
            Err(error) => {
                let pause = Backoff::reconnect().failed((self.company.settings.random)());
                self.complain(&Stop::Session(error), pause);
                return (0, End::Failed(pause));
            }
        };
        let mut engine = match self.engine(&claimed, claimed_at, session) {
            Ok(engine) => engine,
            Err(problem) => {
                tracing::error!(consumer = name, slot, "not running the consumer: {problem}");
                let problem = problem.to_string();
                self.note_refusal(claimed.fence.epoch, &problem).await;
                return (0, End::Unsafe(problem));
            }
        };
        tracing::info!(consumer = name, slot, epoch = claimed.fence.epoch, "claimed");
        if let Some(left) = claimed.paused_for {
            let by =
                if claimed.held { "an operator or its receiver" } else { "its destination was unavailable" };
            tracing::info!(consumer = name, slot, ?left, by, "paused");
        }
        let end = self.own(&mut engine).await;
        (engine.processed, end)
    }

    /// For whoever asks why nothing comes. Whether it is written changes nothing.
    async fn note_refusal(&self, epoch: i64, why: &str) {
        let mut session = self.company.session();
        let noted = async {
            let mut conn = session.connect().await?;
            let name = self.consumer.spec.name.as_str();
            let note = DB::note_refusal(&mut conn, &self.company.tables, name, self.slot, epoch, why);
            within(self.company.settings.deadline, note).await
        };
        if let Err(error) = noted.await {
            tracing::debug!(error = chain(&error), "could not write down why the consumer is not run");
        }
    }

    /// An engine for a claimed slot, if it can be run safely.
    fn engine(
        &self,
        claimed: &Claimed,
        claimed_at: Instant,
        session: Session<DB>,
    ) -> Result<Engine<DB>, Unsafe> {
        check(claimed, &self.company.tables)?;
        Engine::new(
            Arc::clone(&self.consumer),
            Arc::clone(&self.company),
            session,
            self.slot,
            claimed,
            claimed_at,
        )
        .map_err(|lane| Unsafe::Stall { lane })
    }

    async fn claim(&self, session: &mut Session<DB>) -> Result<Claim, SessionError> {
        let settings = &self.company.settings;
        let mut conn = session.connect().await?;
        let config = self.consumer.spec.stored().to_string();
        let request = ClaimRequest {
            consumer: self.consumer.spec.name.as_str(),
            slot: self.slot,
            owner: &settings.name,
            lease: settings.lease,
            config: &config,
            slots: self.consumer.spec.slots,
        };
        let claimed = within(settings.deadline, DB::claim(&mut conn, &self.company.tables, &request)).await?;
        session.keep(conn);
        Ok(claimed)
    }

    /// Runs the engine until the slot is given back or lost.
    async fn own(&mut self, engine: &mut Engine<DB>) -> End {
        let name = self.consumer.spec.name.clone();
        let (name, slot) = (name.as_str(), self.slot);
        let telemetry = Telemetry::of(name, slot);
        let mut backoff = Backoff::reconnect();
        loop {
            let told = self.stop.is_cancelled() || (self.company.once && engine.is_idle());
            if told || engine.wanted {
                return match engine.drain(Instant::now() + self.company.settings.grace).await {
                    Ok(()) => {
                        tracing::info!(consumer = name, slot, "drained and given back");
                        if told { End::Released } else { End::Handed }
                    }
                    Err(stop) => {
                        tracing::warn!(
                            consumer = name,
                            slot,
                            error = chain(&stop),
                            "could not give the slot back; its lease runs out"
                        );
                        // Whoever drains once is not done: what was counted as delivered may come again.
                        if told && !self.company.once { End::Released } else { End::Lost }
                    }
                };
            }
            match engine.cycle().await {
                Ok(()) => {
                    if backoff.failures() > 0 {
                        tracing::info!(consumer = name, slot, "the database is back");
                        backoff.succeeded();
                    }
                }
                Err(stop @ (Stop::Session(_) | Stop::Distrust(Distrust::Standby))) => {
                    telemetry.database_error();
                    let pause = backoff.failed((self.company.settings.random)());
                    self.complain(&stop, pause);
                    engine.leave_turn();
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.stop.cancelled() => {}
                    }
                    continue;
                }
                Err(Stop::Stall(lane)) => {
                    let problem = Unsafe::Stall { lane };
                    tracing::error!(consumer = name, slot, "not running the consumer: {problem}");
                    return End::Unsafe(problem.to_string());
                }
                Err(stop) => {
                    telemetry.lease_lost();
                    tracing::warn!(
                        consumer = name,
                        slot,
                        error = chain(&stop),
                        "lost the slot: dropping what is in memory"
                    );
                    return End::Lost;
                }
            }
            tokio::select! {
                () = engine.next_event() => {}
                Ok(()) = self.committed.changed() => engine.poke(),
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Says what keeps the consumer from working: a database that is away comes back, one that refuses needs somebody.
    fn complain(&self, stop: &Stop, pause: Duration) {
        let (consumer, slot) = (self.consumer.spec.name.as_str(), self.slot);
        let error = chain(stop);
        if let Some(advice) = advice::<DB>(stop) {
            tracing::error!(consumer, error, retry_in = ?pause, "nothing is read or settled, for {advice}");
            return;
        }
        match stop {
            Stop::Session(refused) if !refused.is_away::<DB>() => tracing::error!(
                consumer,
                slot,
                error,
                retry_in = ?pause,
                "the database refuses a statement: check the rights of the relay's role and that the tables are those of \
                 this release; nothing is read or settled until then"
            ),
            Stop::Session(late) if late.is_held_up::<DB>() => tracing::warn!(
                consumer,
                slot,
                error,
                retry_in = ?pause,
                "the database answers too late: it is busy, or something holds a lock (on PostgreSQL, look for wait_event_type = \
                 'Lock' in pg_stat_activity; on SQLite, for a process with a long write transaction); nothing new is read, \
                 nothing is settled"
            ),
            _ => tracing::warn!(
                consumer,
                slot,
                error,
                retry_in = ?pause,
                "the database is away: nothing new is read, nothing is settled"
            ),
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
