//! What an engine's owner asks of it: when to come back, whether anything is left, and to drain.

use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::injection::crash_point;

use super::{Engine, Stop};
use crate::retry::Backoff;

impl<DB: Backend> Engine<DB> {
    /// Waits for the next answer, or until something is due. Cancelling it loses nothing.
    pub(crate) async fn next_event(&mut self) {
        if !self.answers.is_empty() || self.unanswered.is_some() {
            return;
        }
        let at = self.next_due();
        let mut schemas_changed = self.schemas_changed.clone();
        let page = async {
            match &mut self.seat {
                Some(seat) => seat.ready().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = self.sends.join_next() => self.ended(ended),
            () = page => {}
            () = self.turn.granted_to_us() => {}
            // The cycle sees to it; without a sender nothing changes any more.
            Ok(()) = schemas_changed.changed() => {}
            () = tokio::time::sleep_until(at.into()) => {}
        }
    }

    /// When the next step is due, if no answer comes before.
    fn next_due(&self) -> Instant {
        let mut at = self.renewed + self.settings.lease / 3;
        if self.seat.is_none() && self.has_room() {
            at = at.min(self.reader.pace.next());
        }
        if self.has_changes() {
            at = at.min(self.settled_at + self.settle_interval);
        }
        at = [self.wakes.next(), self.gate().opens(), self.decisions.next(), self.sweep_due()]
            .into_iter()
            .flatten()
            .fold(at, Instant::min);
        let now = Instant::now();
        let resumes = self.slot.may_resume()
            && self.slot.resumed_ready() < self.consumer.spec.max_in_flight
            && self.has_room();
        if self.row_changed || self.slot.is_urgent() || resumes || !self.questions.is_empty() {
            return now;
        }
        at
    }

    /// Whether nothing is left to do now: everything that was readable is settled, parked or paused.
    pub(crate) fn is_idle(&self) -> bool {
        if self.more_stalls.is_some() {
            return false;
        }
        let settled = !self.has_changes() && self.slot.in_flight() == 0 && self.answers.is_empty();
        // The first empty read shows the gaps, the second judges them.
        let read = self.reader.pace.empty_reads() >= 2;
        if self.breaker.open_until().is_some() || self.is_held() {
            // What waits for the end of the pause may fill the window, and then nothing more is read.
            return settled && (read || !self.has_room());
        }
        settled
            && read
            && !self.slot.may_resume()
            && self.decisions.next().is_none()
            && !self.slot.may_send()
            && self.wakes.next().is_none_or(|time| time > Instant::now())
    }

    /// Starts nothing new, waits for what is in flight until `until`, settles and gives the slot back.
    pub(crate) async fn drain(&mut self, until: Instant) -> Result<(), Stop> {
        crash_point("drain_start");
        self.leave();
        self.leave_turn();
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        loop {
            match self.drain_step(until).await {
                Err(Stop::Session(error)) if Instant::now() < until => {
                    self.telemetry.database_error();
                    tracing::warn!(error = %error, "the database is away while draining; trying again");
                    tokio::time::sleep(backoff.failed((self.settings.random)())).await;
                }
                Err(stop) => return Err(stop),
                Ok(true) => return Ok(()),
                Ok(false) => {}
            }
        }
    }

    /// One step of draining; true = given back.
    async fn drain_step(&mut self, until: Instant) -> Result<bool, Stop> {
        if self.outcome_unknown.is_some() {
            self.settle(false).await?;
            return Ok(false);
        }
        self.collect();
        self.check_answers()?;
        self.recall_questions();
        self.ask().await?;
        self.pause_if_gone().await?;
        self.slot.recall();
        if self.slot.in_flight() > 0 && Instant::now() < until {
            if self.questions.is_empty() {
                let limit = until.min(self.renewed + self.settings.lease / 3);
                let ended = tokio::time::timeout_at(limit.into(), self.sends.join_next()).await;
                if let Ok(Some(ended)) = ended {
                    self.ended(ended);
                }
            }
            if self.must_settle() {
                self.settle(false).await?;
            }
            return Ok(false);
        }
        if self.slot.in_flight() > 0 {
            tracing::warn!(
                consumer = self.consumer.spec.name.as_str(),
                in_flight = self.slot.in_flight(),
                "the grace period is over: the slot is given back with events at the sink, which may come twice"
            );
        }
        self.settle(true).await
    }
}
