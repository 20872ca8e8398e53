//! One at a time after a crash: each attempt is written before it is made.

use outbox_sdk::Backend;

use super::Engine;

impl<DB: Backend> Engine<DB> {
    /// Has the next attempt written while events go one at a time. The next pass commits it, and then it is made. Of all
    /// engines of the process that go so, one has an event on its way.
    pub(super) fn count(&mut self) {
        self.slot.leave_caution();
        self.turn.end(self.slot.is_counting() || self.has_changes());
        if self.gate().room() == 0 {
            // It is not made now: a counted attempt is taken back, and the others have their turn.
            self.slot.recall();
        }
        let gate = self.gate();
        if !gate.counts() || gate.room() == 0 || !self.lease.holds() {
            self.turn.leave_unused();
            return;
        }
        if !self.turn.ask(&self.company.careful) {
            return;
        }
        if let Some(lane) = self.slot.next_to_count() {
            self.count_or_ask(lane);
        }
        // Also one that was counted before, and only goes again.
        if self.slot.is_counting() {
            self.turn.uses();
        }
        self.turn.leave_unused();
    }

    /// Nothing goes for a while: others must not wait for a turn that is not used.
    pub(crate) fn leave_turn(&mut self) {
        self.turn.leave_unused();
    }
}
