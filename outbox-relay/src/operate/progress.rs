//! How far each consumer is, and what keeps it from going on.

use std::time::Duration;

use outbox_sdk::Backend;
use outbox_sdk::backend::ConsumerRow;

use super::why::{Hindrance, hindrances};
use super::{OperateError, Operator};

/// Up to how many events are counted that a slot has before it.
const CAP: u32 = 10_000;

/// A slot of a consumer, and what it has before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerProgress {
    /// Who owns it, how far it is, and its troubles.
    pub row: ConsumerRow,
    /// Stored events that the slot has not settled. Of several slots each counts the others' events too, until it has
    /// read past them. Events in stalled lanes are not among them.
    pub unsettled: u64,
    /// Whether there are more than were counted.
    pub more: bool,
    /// How long ago the oldest event was created that is due and not delivered.
    pub oldest: Option<Duration>,
}

impl ConsumerProgress {
    /// What keeps the slot from going on.
    #[must_use]
    pub fn hindrances(&self) -> Vec<Hindrance> {
        hindrances(&self.row)
    }
}

impl<DB: Backend> Operator<DB> {
    /// Every slot of every registered consumer, by name and slot.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn consumers(&self) -> Result<Vec<ConsumerProgress>, OperateError> {
        let mut conn = self.connect().await?;
        let rows = self.within(DB::consumers(&mut conn, &self.tables)).await?;
        let lag = self.within(DB::lag(&mut conn, &self.tables, CAP + 1)).await?;
        conn.keep();
        let mut progress = Vec::with_capacity(rows.len());
        for row in rows {
            // A consumer that was registered or removed between the two statements is left out.
            let Some(lag) = lag.iter().find(|lag| lag.consumer == row.name && lag.slot == row.slot) else {
                continue;
            };
            progress.push(ConsumerProgress {
                row,
                unsettled: lag.unsettled.min(CAP.into()),
                more: lag.unsettled > CAP.into(),
                oldest: lag.oldest,
            });
        }
        Ok(progress)
    }
}
