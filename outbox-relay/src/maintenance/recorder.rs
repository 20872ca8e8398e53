//! The recorder: status, attempts and last error of events, written down in large batches behind all consumers.

use std::time::{Duration, Instant};

use outbox_sdk::backend::{Duty, Recorded, Recording};
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::batch::BatchSize;
use super::passes::Passes;
use super::{ALARMING, Desk, LOOK, MaintenanceError, TURN_PAUSE, TURNS};
use crate::chain::chain;
use crate::refused::advice;
use crate::retry::Backoff;
use crate::session::SessionError;
use crate::telemetry;

/// A batch begins with this many events, and may grow to ..
const ROWS: u32 = 500;
/// .. this many.
const ROWS_MAX: u32 = 20_000;
/// The least time between two rounds: what is settled meanwhile is recorded together.
const ROUND: Duration = Duration::from_secs(1);
/// A batch is followed by this many times its cost, up to ..
const COST_FACTOR: u32 = 20;
/// .. this.
const REST_MAX: Duration = Duration::from_secs(1);
/// How often to look for work of others while nothing is settled here: at first ..
const IDLE: Duration = Duration::from_secs(30);
/// .. and while every look finds only what is held.
const IDLE_MAX: Duration = Duration::from_secs(240);
/// From when on an event that should have been recorded is an alarm, and how often to look for such.
const OVERDUE: Duration = Duration::from_secs(600);
/// The time limit of a call.
const DEADLINE: Duration = Duration::from_secs(4);

/// Writes down what events have come to: `dispatched`, `failed` or `skipped`, once every registered consumer has
/// settled them and no waiting lane covers them. Nothing is delivered by status; it is for people and for retention.
///
/// ```no_run
/// use outbox_relay::maintenance::Recorder;
///
/// # async fn record(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let recorded = Recorder::new(pool).run_once().await?;
/// println!("{} dispatched, {} failed", recorded.dispatched, recorded.failed);
/// # Ok(())
/// # }
/// ```
pub struct Recorder<DB: Backend> {
    desk: Desk<DB>,
    size: BatchSize,
}

impl<DB: Backend> Recorder<DB> {
    /// A recorder of the default tables, whose calls may take 4 s each. It takes one connection out of the pool when it
    /// begins.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self { desk: Desk::new(pool, DEADLINE), size: BatchSize::new(ROWS, ROWS_MAX) }
    }

    /// Works on these tables instead of the default ones.
    #[must_use]
    pub fn tables(mut self, tables: Tables) -> Self {
        self.desk.set_tables(tables);
        self
    }

    /// Gives each call this long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.desk.set_deadline(deadline);
        self
    }

    /// Records everything that can be recorded now, in batches. The answer counts what got a status, and what the last
    /// pass held.
    ///
    /// # Errors
    /// When the database fails, or other recorders leave no turn for 10 s. What was recorded before stays.
    pub async fn run_once(&mut self) -> Result<Recorded, MaintenanceError> {
        let mut total = Recorded::default();
        // The pass that is going on began anywhere; the one after it begins at the beginning.
        for _ in 0..2 {
            total.held = 0;
            let mut turns = 0;
            loop {
                match self.batch(true, false).await {
                    Ok(Some(batch)) => {
                        turns = 0;
                        add(&mut total, &batch);
                        if batch.complete {
                            break;
                        }
                    }
                    Ok(None) if turns == TURNS => return Err(MaintenanceError::Busy),
                    Ok(None) => {
                        turns += 1;
                        tokio::time::sleep(TURN_PAUSE).await;
                    }
                    Err(error) => return Err(MaintenanceError::of_batch::<DB>(error)),
                }
            }
        }
        total.complete = true;
        Ok(total)
    }

    /// One batch, smaller ones until one is not stopped.
    async fn batch(&mut self, wrap: bool, if_due: bool) -> Result<Option<Recorded>, SessionError> {
        loop {
            let began = Instant::now();
            let recording = Recording { limit: self.size.rows(), wrap, if_due };
            match self.desk.call(async |conn, tables| DB::record(conn, tables, &recording).await).await {
                Ok(recorded) => {
                    if let Some(recorded) = &recorded {
                        self.size.took(began.elapsed());
                        telemetry::recorded(recorded);
                    }
                    return Ok(recorded);
                }
                Err(error) if error.is_slow::<DB>() && self.size.stopped() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Records until the shutdown: soon after something was `settled` in this process, and now and then what others
    /// have left.
    pub(crate) async fn run(mut self, settled: &Notify, shutdown: &CancellationToken, random: fn() -> f64) {
        let mut passes = Passes::new(Instant::now());
        let mut backoff = Backoff::new(ROUND, IDLE);
        let mut idle = IDLE;
        let mut overdue_at = Instant::now() + OVERDUE;
        loop {
            let woken = tokio::select! {
                () = settled.notified() => true,
                () = tokio::time::sleep(idle) => false,
                () = shutdown.cancelled() => return,
            };
            let worked = async {
                if !woken && !self.anything_to_do().await? {
                    return Ok(0);
                }
                let decided = self.round(&mut passes).await?;
                if Instant::now() >= overdue_at {
                    overdue_at = Instant::now() + OVERDUE;
                    self.look_for_overdue().await?;
                }
                Ok(decided)
            };
            let worked = tokio::select! {
                worked = worked => worked,
                () = shutdown.cancelled() => return,
            };
            let pause = match worked {
                Ok(decided) => {
                    backoff.succeeded();
                    idle = if woken || decided > 0 { IDLE } else { (idle * 2).min(IDLE_MAX) };
                    ROUND
                }
                Err(error) => {
                    idle = IDLE;
                    let pause = backoff.failed(random());
                    self.complain(&error, backoff.failures(), pause).await;
                    settled.notify_one();
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn anything_to_do(&mut self) -> Result<bool, SessionError> {
        let duties = self.desk.call(async |conn, tables| DB::duties(conn, tables).await).await?;
        telemetry::duty(Duty::Recorder, &duties.recorder);
        Ok(duties.unrecorded)
    }

    /// To the end of the pass, with a rest after each batch; how many events got a status.
    async fn round(&mut self, passes: &mut Passes) -> Result<u64, SessionError> {
        let (mut decided, mut turns) = (0, 0);
        loop {
            let began = Instant::now();
            let wrap = passes.wraps(began);
            let Some(batch) = self.batch(wrap, true).await? else {
                // Another relay is at it, or was a moment ago: it records what this one has settled, too.
                if turns == TURNS {
                    return Ok(decided);
                }
                turns += 1;
                tokio::time::sleep(TURN_PAUSE).await;
                continue;
            };
            let took = began.elapsed();
            decided += batch.decided();
            if !passes.goes_on(wrap, &batch, took, Instant::now()) {
                return Ok(decided);
            }
            tokio::time::sleep(took.saturating_mul(COST_FACTOR).min(REST_MAX)).await;
        }
    }

    async fn look_for_overdue(&mut self) -> Result<(), SessionError> {
        let overdue = self.desk.call(async |conn, tables| DB::overdue(conn, tables, OVERDUE).await).await?;
        telemetry::overdue(overdue.events);
        if let Some(first_id) = overdue.first_id {
            tracing::error!(
                events = overdue.events,
                first_id,
                "events are pending although every consumer has settled them over 10 minutes ago: the recorder is behind, or \
                 they turned up where ids were given up; look at the first with `outbox why`"
            );
        }
        Ok(())
    }

    async fn complain(&mut self, error: &SessionError, failures: u32, pause: Duration) {
        let (text, advice) = (chain(error), advice::<DB>(error).unwrap_or(LOOK));
        if failures >= ALARMING {
            tracing::error!(
                error = text,
                failures,
                retry_in = ?pause,
                "the recorder fails, statuses stay as they are: {advice}"
            );
        } else {
            tracing::warn!(error = text, failures, retry_in = ?pause, "the recorder failed; it tries again: {advice}");
        }
        // A database that is away cannot be told.
        let note = async |conn: &mut DB::Connection, tables: &Tables| {
            DB::end_duty(conn, tables, Duty::Recorder, pause, Some(&text)).await
        };
        if !error.is_away::<DB>() || error.is_slow::<DB>() {
            let _ = self.desk.call(note).await;
        }
        telemetry::duty_failed(Duty::Recorder, failures);
    }
}

fn add(total: &mut Recorded, batch: &Recorded) {
    total.dispatched += batch.dispatched;
    total.failed += batch.failed;
    total.skipped += batch.skipped;
    total.held += batch.held;
}
