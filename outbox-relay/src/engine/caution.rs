//! One at a time after a crash: each attempt is written before it is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::Backend;

use super::{Engine, Stop};
use crate::slot::Verdict;

/// How long an engine leaves the turn to others, and how often it asks for it.
const TURN: Duration = Duration::from_millis(10);

impl<DB: Backend> Engine<DB> {
    /// Has the next attempt written while events go one at a time. The next pass commits it, and then it is made.
    pub(super) async fn count(&mut self) -> Result<(), Stop> {
        self.slot.leave_caution();
        if !self.slot.is_cautious() {
            self.turn = None;
            return Ok(());
        }
        let (most, in_flight) = (self.consumer.spec.max_in_flight, self.slot.in_flight());
        let may_send = self.lease.holds()
            && !self.is_held()
            && self.slot.may_send()
            && self.breaker.room(most, in_flight, Instant::now()) > 0;
        if !may_send {
            self.end_turn();
            return Ok(());
        }
        if !self.has_turn() {
            return Ok(());
        }
        let Some(lane) = self.slot.next_to_count() else { return Ok(()) };
        match self.is_overtaken(&lane).await {
            Ok(overtaken) => {
                self.slot.count(&lane, overtaken);
                Ok(())
            }
            Err(stop) => {
                self.slot.answer(&lane, Verdict::Unavailable, false);
                Err(stop)
            }
        }
    }

    /// Whether it is this engine's turn: of all that go one at a time in this process, one has an event on its way.
    fn has_turn(&mut self) -> bool {
        self.end_turn();
        let now = Instant::now();
        if self.turn.is_none() && now >= self.next_turn {
            self.turn = Arc::clone(&self.company.careful).try_acquire_owned().ok();
            self.next_turn = now + TURN;
        }
        self.turn.is_some()
    }

    /// A turn ends when what its event came to is committed; then the others have theirs.
    fn end_turn(&mut self) {
        if self.turn.is_some() && !self.slot.is_counting() && !self.has_changes() {
            self.turn = None;
            self.next_turn = Instant::now() + TURN;
        }
    }

    /// When to ask for the turn again.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        let waits = self.slot.is_cautious() && self.turn.is_none() && self.slot.may_send();
        waits.then_some(self.next_turn)
    }
}
