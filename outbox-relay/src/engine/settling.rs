//! Everything that an engine writes: one fenced transaction at a time, and what its answer means.

use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::backend::{Fence, Pause, Settled, Settlement};
use outbox_sdk::injection::crash_point;

use super::{Engine, SETTLE_IDS, Stop, held_until};
use crate::session::within;
use crate::slot::Distrust;

/// Settled ids wait this long for company ..
pub(super) const INTERVAL: Duration = Duration::from_millis(20);
/// .. or this many times what the last transaction cost, up to a second.
const COST_FACTOR: u32 = 20;
const INTERVAL_MAX: Duration = Duration::from_secs(1);

impl<DB: Backend> Engine<DB> {
    pub(super) fn has_changes(&self) -> bool {
        self.slot.has_changes() || self.breaker.unwritten().is_some()
    }

    /// Whether the lease must be renewed before anything else.
    pub(super) fn is_renewal_due(&self) -> bool {
        self.row_changed || Instant::now() >= self.renewed + self.settings.lease / 3
    }

    /// Renews the lease when it is time, between two steps of which each is bounded: a database that is slow, and not
    /// away, must not cost the slot.
    pub(super) async fn renew_in_time(&mut self) -> Result<(), Stop> {
        if self.is_renewal_due() {
            self.settle(false).await?;
        }
        Ok(())
    }

    pub(super) fn must_settle(&self) -> bool {
        let now = Instant::now();
        let company = self.slot.is_urgent()
            || self.slot.unsettled() >= SETTLE_IDS
            || now.duration_since(self.settled_at) >= self.settle_interval;
        (self.has_changes() && company) || self.is_renewal_due()
    }

    /// Writes everything that is decided in one fenced transaction; with nothing to write, renews the lease. False: it
    /// was not written, and the slot is still ours.
    pub(super) async fn settle(&mut self, release: bool) -> Result<bool, Stop> {
        let began = Instant::now();
        let mut conn = self.session.connect().await?;
        let (settled, void) = self.slot.sets();
        let changes = self.slot.changes();
        let settlement = Settlement {
            consumer: self.consumer.spec.name.as_str(),
            slot: self.slot_number,
            fence: &self.fence,
            lease: self.settings.lease,
            anchor: self.slot.anchor(),
            settled,
            void,
            pause: self.breaker.unwritten().map(|change| Pause {
                length: change.length,
                attempts: change.failures,
                reason: change.reason.as_deref(),
            }),
            stalls: &changes.stalls,
            resumed: &changes.resumed,
            dead: changes.dead,
            replays: changes.replays,
            release,
        };
        let unknown = self.outcome_unknown;
        self.outcome_unknown = unknown.or(Some(began));
        let (writes, parks) = (self.has_changes(), !changes.stalls.is_empty());
        if writes {
            crash_point("before_settle");
        }
        let answer = within(self.settings.deadline, DB::settle(&mut conn, &self.tables, &settlement)).await;
        let answer = answer.inspect_err(|error| {
            // A refused statement or commit has changed nothing, and that is known.
            if !error.is_away::<DB>() {
                self.outcome_unknown = unknown;
            }
        })?;
        self.session.keep(conn);
        let took = began.elapsed();
        match answer {
            Settled::Done { fence, paused_for, held, wanted } => {
                crash_point(if writes { "after_settle" } else { "renewed" });
                if parks {
                    crash_point("stall_written");
                }
                if writes {
                    self.consumer.settled.notify_one();
                }
                self.committed(fence, began, took);
                let now = Instant::now();
                self.breaker.written(paused_for, now);
                self.held_until = held_until(held, paused_for, now);
                self.wanted = wanted;
                Ok(true)
            }
            Settled::Refused { now: None } => Err(Stop::Lost),
            Settled::Refused { now: Some(now) } if now.fence.epoch != self.fence.epoch => Err(Stop::Lost),
            Settled::Refused { now: Some(now) }
                if let Some(began) = unknown
                    && now.fence.rev == self.fence.rev + 1 =>
            {
                // The transaction whose outcome was unknown is the one that moved the row, and renewed the lease.
                self.committed(now.fence, began, took);
                self.breaker.written_blindly();
                Ok(true)
            }
            Settled::Refused { now: Some(now) } if !now.anchored => Err(Distrust::AnchorGone.into()),
            Settled::Refused { now: Some(now) } if now.fence.rev != self.fence.rev => Err(Stop::Lost),
            Settled::Refused { now: Some(now) } => {
                // Somebody else's update moved the row between our two tries: it is still ours, and is found by name.
                self.fence.ctid = now.fence.ctid;
                self.outcome_unknown = unknown;
                Ok(false)
            }
        }
    }

    fn committed(&mut self, fence: Fence, began: Instant, took: Duration) {
        self.fence = fence;
        self.slot.committed();
        // What its event came to is committed: the others have theirs.
        self.turn.end(self.slot.is_counting());
        self.outcome_unknown = None;
        self.row_changed = false;
        self.lease.renew(began + self.settings.lease);
        self.renewed = began;
        self.settled_at = Instant::now();
        self.settle_interval = (took * COST_FACTOR).clamp(INTERVAL, INTERVAL_MAX);
        self.telemetry.settled(took);
    }
}
