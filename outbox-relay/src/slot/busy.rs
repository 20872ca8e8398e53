//! A busy lane: one with so many waiting events that they would fill the window of all lanes.

use std::time::Duration;

use outbox_sdk::Lane;
use outbox_sdk::backend::Due;

use super::Slot;
use super::lanes::{InFlight, Stalled};

impl Slot {
    /// Puts a lane with too many waiting events under a stall row, although nothing has failed: they leave the memory
    /// and come back by pages. The row stands for what is in flight too. Else it would be settled beside an event that is
    /// not, and a new owner would send the later ones first.
    ///
    /// Not while an event that came into a gap waits or is on its way: a later event of the lane may be through
    /// already, and the row must not stand for that one.
    pub(super) fn park_when_busy(&mut self, lane: &Lane) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        let busy =
            state.waiting.len() > self.bounds.lane_rows || state.waiting.bytes() > self.bounds.lane_bytes;
        // A row whose deletion is not committed yet must be gone first.
        let ready = state.stall.is_none() && !state.committing && matches!(lane, Lane::Aggregate(_));
        if !busy || !ready {
            return;
        }
        let in_flight = match &state.in_flight {
            Some(InFlight::Event(event)) => Some(event),
            Some(InFlight::Replay(_)) | None => None,
        };
        if in_flight.into_iter().chain(state.waiting.iter()).any(|event| event.filled_gap) {
            return;
        }
        let in_flight = in_flight.map(super::Event::id);
        let queue = std::mem::take(&mut state.waiting);
        let Some(head) = in_flight.or_else(|| queue.iter().next().map(super::Event::id)) else { return };
        // What is in flight is not read again unless it fails.
        let read_from = in_flight.map_or(head, |id| id + 1);
        state.stall = Some(Stalled { due: true, read_from, ..Stalled::parked(head, false) });
        if let Some(id) = in_flight {
            self.settle_id(id);
        }
        for event in queue.into_events() {
            self.rows -= 1;
            self.bytes -= event.bytes();
            self.settle_id(event.id());
        }
        self.write_stall(lane, |_, row| row.due = Due::In(Duration::ZERO));
    }
}
