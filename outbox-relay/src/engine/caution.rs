//! One at a time after a crash: each attempt is written before it is made.

use std::time::Instant;

use outbox_sdk::Backend;

use super::{Engine, Stop};
use crate::slot::Verdict;

impl<DB: Backend> Engine<DB> {
    /// Has the next attempt written while events go one at a time. The next pass commits it, and then it is made.
    pub(super) async fn count(&mut self) -> Result<(), Stop> {
        if !self.slot.is_cautious() || !self.lease.holds() {
            return Ok(());
        }
        let (most, in_flight) = (self.consumer.spec.max_in_flight, self.slot.in_flight());
        if self.breaker.room(most, in_flight, Instant::now()) == 0 {
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
}
