//! A slot that reads for itself, in one call.

use outbox_sdk::Lane;
use outbox_sdk::backend::{Batch, Holders, StoredEvent};

use super::super::{Accepted, Distrust, Slot};

impl Slot {
    pub(super) fn has_gaps(&self) -> bool {
        self.cursor().has_gaps()
    }

    pub(super) fn gap_ranges(&self) -> Vec<(i64, i64)> {
        self.cursor().gap_ranges()
    }

    /// Takes in what a read returned. `holders` is the list taken before it (the default when no gap was open).
    pub(super) fn accept(
        &mut self,
        batch: Batch,
        holders: &Holders,
        lane_of: impl Fn(&StoredEvent) -> Option<Lane>,
    ) -> Result<Accepted, Distrust> {
        let page = self.cursor_mut().read(batch, holders)?;
        self.take_in(page, lane_of)
    }
}
