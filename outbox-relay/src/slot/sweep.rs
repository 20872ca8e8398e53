//! Rows that came although their ids were given up: some writer broke the rules, or a database was restored by hand.

use outbox_sdk::Lane;
use outbox_sdk::backend::StoredEvent;

use super::Slot;
use super::cursor::Arrival;

impl Slot {
    /// Whether there are dead gaps to look into.
    pub(crate) fn has_void(&self) -> bool {
        !self.void.is_empty()
    }

    /// The dead gaps to look into, as ranges `[from, until)` in rising order.
    pub(crate) fn void_ranges(&self) -> Vec<(i64, i64)> {
        self.void.ranges().collect()
    }

    /// Takes in rows that were found in dead gaps: no longer given up, each goes where it would have gone had it come in
    /// time. What the consumer does not want stays settled. Returns how many will be delivered.
    pub(crate) fn swept(
        &mut self,
        events: Vec<StoredEvent>,
        lane_of: impl Fn(&StoredEvent) -> Option<Lane>,
    ) -> usize {
        let mut found = 0;
        for stored in events {
            let id = stored.envelope.id;
            if !self.void.contains(id) {
                continue;
            }
            self.void.remove(id);
            self.pending.sets = true;
            if let Some(lane) = lane_of(&stored) {
                found += 1;
                self.settled.remove(id);
                self.route(lane, Arrival { stored, filled_gap: true, checked: None });
            }
        }
        found
    }
}
