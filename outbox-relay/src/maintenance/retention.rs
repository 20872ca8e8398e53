//! Retention: deleting what every consumer is done with, when its time is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{self, Duty, DutyState, Keep};
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use super::batch::BatchSize;
use super::{ALARMING, Desk, MaintenanceError, TURN_PAUSE, TURNS, Unwritten};
use crate::chain::chain;
use crate::consumer::EventPattern;
use crate::retry::Backoff;
use crate::session::SessionError;
use crate::telemetry;

/// The most events that one statement looks at.
const ROWS: u32 = 1_000;
/// How often a run begins.
const EVERY: Duration = Duration::from_secs(60 * 60);
/// For how long nobody else begins one after a batch of this one.
const HOLD: Duration = Duration::from_secs(5 * 60);
/// How soon a failed run is tried again.
const RETRY: Duration = Duration::from_secs(5 * 60);
/// How soon after the duty's row could not be taken; doubled each time, up to the above.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// Relays look at different times: each waits up to this much longer.
const SPREAD: Duration = Duration::from_secs(60);
/// The pause between two batches: as long as the batch took, within these.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// How often a single event may be stopped before the run fails.
const LAST_TRIES: u32 = 3;
/// The time limit of a call.
const DEADLINE: Duration = Duration::from_secs(4);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long events are kept after they are done with: 10 days, unless told otherwise.
///
/// ```
/// use outbox_relay::maintenance::RetainFor;
///
/// let retain = RetainFor::days(10)?.event_type("billing.*", 365)?;
/// assert_eq!(retain.days_of("billing.invoice.sent"), 365);
/// assert_eq!(retain.days_of("customer.updated"), 10);
/// # Ok::<(), outbox_relay::maintenance::RetainError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainFor {
    days: u32,
    event_types: BTreeMap<EventPattern, u32>,
}

/// A time to keep events that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetainError {
    /// Zero or an absurd number of days.
    #[error("events cannot be kept for {0} days; use 1 to 36500")]
    Days(u32),
    /// The text is no event pattern.
    #[error("`{0}` is no event pattern; write an event type, a prefix ending in `.*`, or `*`")]
    Pattern(String),
}

impl Default for RetainFor {
    fn default() -> Self {
        Self { days: 10, event_types: BTreeMap::new() }
    }
}

impl RetainFor {
    /// The longest time to keep events, in days.
    pub const MOST: u32 = 36_500;

    /// Keeps every event for so many days.
    ///
    /// # Errors
    /// [`RetainError::Days`] unless it is from 1 to 36,500.
    pub fn days(days: u32) -> Result<Self, RetainError> {
        Ok(Self { days: checked(days)?, event_types: BTreeMap::new() })
    }

    /// Keeps the event types that a pattern matches for so many days; of several patterns the most exact one holds.
    ///
    /// # Errors
    /// [`RetainError::Pattern`] when the text is no pattern, [`RetainError::Days`] as in [`days`](Self::days).
    pub fn event_type(mut self, pattern: &str, days: u32) -> Result<Self, RetainError> {
        let parsed = pattern.parse().map_err(|_| RetainError::Pattern(pattern.to_owned()))?;
        self.event_types.insert(parsed, checked(days)?);
        Ok(self)
    }

    /// For how many days events of this type are kept.
    #[must_use]
    pub fn days_of(&self, event_type: &str) -> u32 {
        let fitting = self.event_types.iter().filter(|(pattern, _)| pattern.matches(event_type));
        fitting.max_by_key(|(pattern, _)| pattern.exactness()).map_or(self.days, |(_, days)| *days)
    }

    /// The same as rules for the database: the first that fits holds.
    fn rules(&self) -> Vec<Keep> {
        let mut patterns: Vec<_> = self.event_types.iter().collect();
        patterns.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.exactness()));
        let mut rules: Vec<_> = patterns
            .into_iter()
            .map(|(pattern, days)| Keep {
                stem: pattern.as_str().trim_end_matches('*').to_owned(),
                exact: pattern.is_exact(),
                length: DAY * *days,
            })
            .collect();
        rules.push(Keep { stem: String::new(), exact: false, length: DAY * self.days });
        rules
    }
}

fn checked(days: u32) -> Result<u32, RetainError> {
    if (1..=RetainFor::MOST).contains(&days) { Ok(days) } else { Err(RetainError::Days(days)) }
}

/// What a run of retention came to, or would come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compaction {
    /// How many events were deleted.
    pub deleted: u64,
    /// How many were looked at.
    pub scanned: u64,
    /// How many of each type; only of a dry run.
    pub by_type: BTreeMap<String, u64>,
    /// Nobody is registered, so that nothing may be deleted.
    pub nobody_registered: bool,
    /// Required consumers that are not registered: nothing may be deleted before they are.
    pub missing: Vec<String>,
}

/// Deletes events that every registered consumer has settled, that no waiting lane covers, whose dead letters were all
/// acknowledged, and whose time is over; with their dead letters, and nothing else.
///
/// ```no_run
/// use outbox_relay::maintenance::{RetainFor, Retention};
///
/// # async fn compact(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let deleted = Retention::new(pool).retain(&RetainFor::days(30)?).run_once().await?.deleted;
/// println!("{deleted} events deleted");
/// # Ok(())
/// # }
/// ```
pub struct Retention<DB: Backend> {
    desk: Desk<DB>,
    rules: Vec<Keep>,
    recorder: bool,
    required: Vec<String>,
    size: BatchSize,
}

impl<DB: Backend> Retention<DB> {
    /// Retention of the default tables, after 10 days, whose calls may take 4 s each. It takes one connection out of the
    /// pool when it begins.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self {
            desk: Desk::new(pool, DEADLINE),
            rules: RetainFor::default().rules(),
            recorder: true,
            required: Vec::new(),
            size: BatchSize::new(ROWS, ROWS),
        }
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

    /// Keeps events for so long.
    #[must_use]
    pub fn retain(mut self, retain: &RetainFor) -> Self {
        self.rules = retain.rules();
        self
    }

    /// Whether a [`Recorder`](super::Recorder) runs. Without one the days count from `created_at`, and the status says
    /// nothing; every other condition stays.
    #[must_use]
    pub fn recorder(mut self, runs: bool) -> Self {
        self.recorder = runs;
        self
    }

    /// Deletes nothing while one of these consumers is not registered.
    #[must_use]
    pub fn require(mut self, consumers: impl IntoIterator<Item = String>) -> Self {
        self.required = consumers.into_iter().collect();
        self
    }

    /// Deletes everything that may be deleted now, in batches of at most 1,000 events with pauses between them. It goes
    /// on where an unfinished run stopped, and then looks at what lies below, too.
    ///
    /// # Errors
    /// When the database fails, even a single event is stopped by `statement_timeout`, or another run leaves no turn
    /// for 10 s. What was deleted before stays deleted.
    pub async fn run_once(&mut self) -> Result<Compaction, MaintenanceError> {
        let taken = self.take(false).await.map_err(MaintenanceError::of::<DB>)?;
        let position = taken.unwrap_or(0);
        let ended = self.run_from(position).await;
        let ended = match ended {
            // Meanwhile more may have become old enough, or have been decided.
            Ok(first) if position > 0 => self.run_from(0).await.map(|rest| Compaction {
                deleted: first.deleted + rest.deleted,
                scanned: first.scanned + rest.scanned,
                ..rest
            }),
            ended => ended,
        };
        self.note(ended).await
    }

    /// What [`run_once`](Self::run_once) would delete, by event type. Writes nothing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn dry_run(&mut self) -> Result<Compaction, MaintenanceError> {
        let mut total = self.obstacles().await.map_err(MaintenanceError::of::<DB>)?;
        let mut position = 0;
        loop {
            let batch = self.backend_batch(position, true).await.map_err(MaintenanceError::of_batch::<DB>)?;
            let Some(Batch { deleted, scanned, position: next, done, by_type }) = batch else { continue };
            total.deleted += deleted;
            total.scanned += scanned;
            for (event_type, events) in by_type {
                *total.by_type.entry(event_type).or_default() += events;
            }
            if done {
                return Ok(total);
            }
            position = next;
        }
    }

    async fn take(&mut self, if_due: bool) -> Result<Option<i64>, SessionError> {
        let take = async |conn: &mut DB::Connection, tables: &Tables| {
            DB::take_duty(conn, tables, Duty::Retention, HOLD, if_due).await
        };
        self.desk.call(take).await
    }

    /// Notes how a run ended.
    async fn note(
        &mut self,
        ended: Result<Compaction, MaintenanceError>,
    ) -> Result<Compaction, MaintenanceError> {
        let (ended, due_in, text) = match ended {
            Ok(total) => (Ok(total), EVERY, None),
            // The other run notes how it ends.
            Err(MaintenanceError::Busy) => return Err(MaintenanceError::Busy),
            Err(error) => {
                let text = chain(&error);
                (Err(error), RETRY, Some(text))
            }
        };
        let note = async |conn: &mut DB::Connection, tables: &Tables| {
            DB::end_duty(conn, tables, Duty::Retention, due_in, text.as_deref()).await
        };
        match self.desk.call(note).await {
            Ok(0) => telemetry::duty_succeeded(Duty::Retention),
            Ok(failures) => telemetry::duty_failed(Duty::Retention, failures),
            Err(error) if ended.is_ok() => return Err(MaintenanceError::of::<DB>(error)),
            Err(_) => {}
        }
        ended
    }

    /// A run from a position to the end.
    async fn run_from(&mut self, mut position: i64) -> Result<Compaction, MaintenanceError> {
        let mut total = self.obstacles().await.map_err(MaintenanceError::of::<DB>)?;
        let mut turns = 0;
        loop {
            let began = Instant::now();
            match self.backend_batch(position, false).await.map_err(MaintenanceError::of_batch::<DB>)? {
                Some(batch) => {
                    turns = 0;
                    total.deleted += batch.deleted;
                    total.scanned += batch.scanned;
                    telemetry::compacted(batch.deleted);
                    if batch.done {
                        return Ok(total);
                    }
                    position = batch.position;
                    tokio::time::sleep(began.elapsed().clamp(PAUSE.0, PAUSE.1)).await;
                }
                None if turns == TURNS => return Err(MaintenanceError::Busy),
                None => {
                    turns += 1;
                    tokio::time::sleep(TURN_PAUSE).await;
                }
            }
        }
    }

    /// What keeps everything, so that it can be said.
    async fn obstacles(&mut self) -> Result<Compaction, SessionError> {
        let registered = self.desk.call(async |conn, tables| DB::registered(conn, tables).await).await?;
        let missing = self.required.iter().filter(|name| !registered.contains(name));
        Ok(Compaction {
            nobody_registered: registered.is_empty(),
            missing: missing.cloned().collect(),
            ..Compaction::default()
        })
    }

    /// One batch, smaller ones until one is not stopped.
    async fn backend_batch(&mut self, position: i64, dry: bool) -> Result<Option<Batch>, SessionError> {
        let mut tries = 0;
        loop {
            let began = Instant::now();
            let compaction = backend::Compaction {
                position,
                limit: self.size.rows(),
                keep: &self.rules,
                recorder: self.recorder,
                required: &self.required,
                hold: HOLD,
            };
            let call = async |conn: &mut DB::Connection, tables: &Tables| {
                if dry {
                    DB::compactable(conn, tables, &compaction).await.map(|batch| Some(Batch::from(batch)))
                } else {
                    Ok(DB::compact(conn, tables, &compaction).await?.map(Batch::from))
                }
            };
            match self.desk.call(call).await {
                Ok(batch) => {
                    self.size.took(began.elapsed());
                    return Ok(batch);
                }
                Err(error) if error.is_slow::<DB>() && (self.size.stopped() || tries < LAST_TRIES) => {
                    tries += u32::from(self.size.rows() == 1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs whenever the duty is due, until the shutdown.
    pub(crate) async fn run(mut self, shutdown: &CancellationToken, random: fn() -> f64) {
        let mut backoff = Backoff::new(FIRST_RETRY, RETRY);
        let mut unwritten = Unwritten::default();
        let mut stored = 0;
        loop {
            let due = tokio::select! {
                due = self.run_if_due() => due,
                () = shutdown.cancelled() => return,
            };
            let pause = match due {
                Ok(duty) => {
                    backoff.succeeded();
                    unwritten = Unwritten::default();
                    stored = duty.failures;
                    duty.due_in.clamp(SPREAD, EVERY)
                }
                Err(error) => {
                    let pause = backoff.failed(random());
                    unwritten.failed::<DB>(Duty::Retention, &error, stored, pause);
                    pause
                }
            };
            tokio::select! {
                // Not all relays at once.
                () = tokio::time::sleep(pause + SPREAD.min(pause).mul_f64(random())) => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Runs if it is due; how the duty stands then. An error: its row cannot be taken or read.
    async fn run_if_due(&mut self) -> Result<DutyState, SessionError> {
        if let Some(position) = self.take(true).await? {
            let ended = self.run_from(position).await;
            match self.note(ended).await {
                Ok(Compaction { missing, .. }) if !missing.is_empty() => tracing::warn!(
                    ?missing,
                    "retention deletes nothing: these consumers are required for it and not registered yet"
                ),
                Ok(Compaction { deleted, scanned, .. }) => {
                    tracing::info!(deleted, scanned, "retention has run");
                }
                Err(error) => tracing::warn!(error = chain(&error), "retention failed; it tries again"),
            }
        }
        let duties = self.desk.call(async |conn, tables| DB::duties(conn, tables).await).await?;
        telemetry::duty(Duty::Retention, &duties.retention);
        if duties.retention.failures >= ALARMING {
            tracing::error!(
                failures = duties.retention.failures,
                last_error = duties.retention.last_error,
                "retention fails again and again: nothing is deleted, and the tables grow; run `outbox compact` to see why"
            );
        }
        Ok(duties.retention)
    }
}

/// What one batch did, or would do.
struct Batch {
    deleted: u64,
    scanned: u64,
    position: i64,
    done: bool,
    by_type: Vec<(String, u64)>,
}

impl From<backend::Compacted> for Batch {
    fn from(batch: backend::Compacted) -> Self {
        let backend::Compacted { deleted, scanned, position, done } = batch;
        Self { deleted, scanned, position, done, by_type: Vec::new() }
    }
}

impl From<backend::Compactable> for Batch {
    fn from(batch: backend::Compactable) -> Self {
        let backend::Compactable { by_type, scanned, position, done } = batch;
        Self { deleted: by_type.iter().map(|(_, events)| events).sum(), scanned, position, done, by_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_pattern_comes_first() {
        let retain = RetainFor::days(7).unwrap();
        let retain = retain.event_type("*", 8).unwrap().event_type("order.*", 20).unwrap();
        let retain = retain.event_type("order.placed", 30).unwrap().event_type("order.line.*", 40).unwrap();
        let rules = retain.rules();
        let stems: Vec<_> = rules.iter().map(|rule| (rule.stem.as_str(), rule.exact)).collect();
        assert_eq!(
            stems,
            [("order.placed", true), ("order.line.", false), ("order.", false), ("", false), ("", false)]
        );
        for (event_type, days) in
            [("order.placed", 30), ("order.line.added", 40), ("order.sent", 20), ("orders.placed", 8)]
        {
            assert_eq!(retain.days_of(event_type), days, "{event_type}");
            let first = rules.iter().find(|rule| {
                if rule.exact { rule.stem == event_type } else { event_type.starts_with(&rule.stem) }
            });
            assert_eq!(first.unwrap().length, DAY * days, "{event_type}");
        }
    }

    #[test]
    fn what_is_no_time_to_keep_events() {
        assert_eq!(RetainFor::days(0), Err(RetainError::Days(0)));
        assert_eq!(RetainFor::days(36_501), Err(RetainError::Days(36_501)));
        let retain = RetainFor::default();
        assert_eq!(retain.clone().event_type("a.b", 0), Err(RetainError::Days(0)));
        assert_eq!(retain.event_type("a*", 5), Err(RetainError::Pattern("a*".to_owned())));
    }
}
