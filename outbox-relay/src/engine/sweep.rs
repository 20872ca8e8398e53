//! The sweep: looks for rows whose ids were given up, and has them delivered late.

use std::time::Instant;

use outbox_sdk::Backend;

use super::{Engine, Stop, lane_of};

/// How many rows are taken in at once.
const SWEEP_ROWS: usize = 100;

impl<DB: Backend> Engine<DB> {
    /// When dead gaps are looked into, if there are any.
    pub(super) fn sweep_due(&self) -> Option<Instant> {
        (self.has_room() && self.slot.has_void()).then_some(self.next_sweep)
    }

    /// Looks into the dead gaps. A row there comes from a writer that broke the rules, or from a repair by hand: it is no
    /// longer given up, and is delivered although later events of its lane may be through.
    pub(super) async fn sweep(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        if self.sweep_due().is_none_or(|due| due > now) {
            return Ok(());
        }
        let name = self.consumer.spec.name.as_str();
        let gaps = self.slot.void_ranges();
        let batch = self.reader.rows(&mut self.session, &gaps, SWEEP_ROWS, name).await?;
        self.next_sweep = if batch.full { now } else { now + self.settings.sweep_interval };
        let (consumer, slot) = (&self.consumer, self.slot_number);
        let found = self.slot.swept(batch.events, |event| lane_of(consumer, slot, event));
        if found > 0 {
            self.telemetry.swept(found);
            tracing::warn!(
                consumer = name,
                events = found,
                "events came although their ids had been given up, and are delivered late: some writer draws ids outside \
                 its INSERT, or rows were restored by hand; publish through the SDK or the SQL function"
            );
        }
        Ok(())
    }
}
