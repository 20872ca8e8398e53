//! One at a time after a crash: each attempt is written before it is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::Backend;

use super::Engine;

/// How long an engine leaves the turn to others, and how often it asks for it.
const TURN: Duration = Duration::from_millis(10);

impl<DB: Backend> Engine<DB> {
    /// Has the next attempt written while events go one at a time. The next pass commits it, and then it is made.
    pub(super) fn count(&mut self) {
        self.slot.leave_caution();
        if !self.slot.is_cautious() {
            self.turn = None;
            return;
        }
        let gate = self.gate();
        let may_send = self.lease.holds() && self.slot.may_send() && gate.room() > 0;
        if !may_send {
            self.end_turn();
            return;
        }
        if self.has_turn()
            && let Some(lane) = self.slot.next_to_count()
        {
            self.count_or_ask(lane);
        }
    }

    /// Whether it is this engine's turn: of all that go one at a time in this process, one has an event on its way.
    fn has_turn(&mut self) -> bool {
        self.end_turn();
        if self.turn.is_none() && self.looked >= self.next_turn {
            self.turn = Arc::clone(&self.company.careful).try_acquire_owned().ok();
            self.next_turn = self.looked + TURN;
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
}
