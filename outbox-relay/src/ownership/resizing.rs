//! Giving a consumer the number of slots that its configuration says: one relay asks for the slots, and changes their
//! number once they are free.

use std::sync::Arc;
use std::time::Duration;

use outbox_sdk::Backend;
use outbox_sdk::backend::{Change, Changed, SlotView};

use super::{Ownership, fits};
use crate::chain::chain;
use crate::company::Company;
use crate::relay::Settings;
use crate::session::{Session, SessionError, limited, within};

/// How long a resize may take: it looks up the lanes of whatever its slots do not agree on.
const CHANGE_DEADLINE: Duration = Duration::from_secs(60);

impl<DB: Backend> Ownership<DB> {
    /// Takes the next step for every consumer that has another number of slots than its configuration says. Whether any
    /// has.
    pub(super) fn resize(&mut self, view: &[SlotView]) -> bool {
        let first = |slot: &&SlotView| slot.slot == 0 && self.is_registered(slot);
        let (fits, other): (Vec<_>, Vec<_>) =
            view.iter().filter(first).partition(|slot| fits(&self.consumers, slot));
        for slot in fits {
            if self.asked.remove(&slot.consumer) {
                // Another relay with the same configuration was faster.
                self.spawn_resize(&slot.consumer, None);
            }
        }
        for slot in &other {
            if !self.resizing.contains(&slot.consumer) {
                let slots = self.consumers.get(&slot.consumer).map(|consumer| consumer.spec.slots);
                self.asked.insert(slot.consumer.clone());
                self.spawn_resize(&slot.consumer, slots);
            }
        }
        !other.is_empty()
    }

    /// Beside the looks, since it may have to wait for a lock: asks for the slots, and changes their number once they are
    /// free; without a number, takes back that they were asked for.
    fn spawn_resize(&mut self, consumer: &str, slots: Option<u16>) {
        let (consumer, company) = (consumer.to_owned(), Arc::clone(&self.company));
        self.resizing.insert(consumer.clone());
        self.resizes.spawn(async move {
            if let Err(error) = resize_step(&company, &consumer, slots).await {
                tracing::warn!(consumer, error = chain(&error), "cannot change the number of slots yet");
            }
            consumer
        });
    }
}

/// One step of a resize.
async fn resize_step<DB: Backend>(
    company: &Company<DB>,
    consumer: &str,
    slots: Option<u16>,
) -> Result<(), SessionError> {
    let Settings { name, lease, poll_max, deadline, .. } = &*company.settings;
    // It may take longer than other calls.
    let tables = limited(&company.tables, CHANGE_DEADLINE);
    let mut session = Session::<DB>::new(company.pool.clone(), tables.clone(), *deadline);
    let mut conn = session.connect().await?;
    // Long enough that it is asked for again before it ends.
    let hold = if slots.is_some() { *lease + *poll_max * 3 } else { Duration::ZERO };
    let owners = within(*deadline, DB::want(&mut conn, &tables, consumer, name, hold)).await?;
    let Some(slots) = slots else { return Ok(()) };
    if owners.is_empty() || owners.iter().any(|slot| slot.owner.is_some()) {
        return Ok(());
    }
    let change = Change::Resize { slots };
    let resized = DB::change(&mut conn, &tables, consumer, &change, false);
    if let Changed::Done { .. } = within(CHANGE_DEADLINE, resized).await? {
        tracing::info!(consumer, slots, "the consumer's lanes are spread over another number of slots");
    }
    Ok(())
}
