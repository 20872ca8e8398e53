//! What holds one event, consumer by consumer.

#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use outbox_sdk::backend::{AttemptRow, EventRow, SlotStanding, Standing, Writer};
use outbox_sdk::{Backend, Lane, slot_of};

pub(super) use self::verdict::hindrances;
pub use self::verdict::{Hindrance, Retry, Verdict};
use super::{EventRef, OperateError, Operator, Search};
use crate::consumer::ConsumerSpec;

/// What holds one event.
#[derive(Debug, Clone, PartialEq)]
pub struct Why {
    /// Its id.
    pub id: i64,
    /// The event, without payload; `None` when none with this id is visible.
    pub event: Option<EventRow>,
    /// The last id drawn.
    pub last_id: i64,
    /// The transactions that may still commit it; asked for only when it is not visible.
    pub writers: Vec<Writer>,
    /// What each consumer has to do with it, by name: each registered one, and those that were named and are not
    /// registered.
    pub consumers: Vec<Explanation>,
}

/// What one consumer has to do with an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The consumer.
    pub consumer: String,
    /// The slot that the event belongs to; `None` for a consumer that is not registered.
    pub slot: Option<i32>,
    /// How far the event is.
    pub verdict: Verdict,
    /// What keeps the consumer from going on, if the event is not through.
    pub hindrances: Vec<Hindrance>,
    /// Who owns the slot, and how long its lease runs.
    pub owner: Option<(String, Duration)>,
    /// The newest attempts, oldest first; none of an event that was delivered at once.
    pub attempts: Vec<AttemptRow>,
}

impl Explanation {
    /// Everything in sentences for people; the last one says what to do.
    #[must_use]
    pub fn text(&self) -> String {
        text::text(&self.consumer, &self.verdict, &self.hindrances)
    }
}

impl<DB: Backend> Operator<DB> {
    /// What holds an event, in one snapshot for all consumers. `known` are the consumers of a configuration, if there is
    /// one at hand: it tells how often an event is tried, and which of them are not registered.
    ///
    /// # Errors
    /// As [`find`](Self::find). An id without an event is no error: [`Why::event`] is `None`, and each consumer's
    /// [`Verdict`] says what it takes it for.
    pub async fn why(
        &self,
        event: EventRef,
        search: Search,
        known: &[ConsumerSpec],
    ) -> Result<Why, OperateError> {
        let id = self.find(event, search).await?;
        let mut conn = self.connect().await?;
        let mut row = self.within(DB::event(&mut conn, &self.tables, id, false)).await?;
        let mut standing = self.standing(&mut conn, id, row.as_ref()).await?;
        if row.is_none() && standing.status.is_some() {
            // It was committed between the two statements.
            row = self.within(DB::event(&mut conn, &self.tables, id, false)).await?;
            standing = self.standing(&mut conn, id, row.as_ref()).await?;
        }
        // Retention may have deleted it between the two.
        let row = row.filter(|_| standing.status.is_some());
        let writers = match &row {
            Some(_) => Vec::new(),
            None => self.within(DB::writers(&mut conn, &self.tables)).await?,
        };
        let attempts = self.within(DB::attempts(&mut conn, &self.tables, id)).await?;
        conn.keep();
        let row = row.map(|row| EventRow { status: standing.status.clone().unwrap_or_default(), ..row });
        let mut consumers = explain(id, row.as_ref(), &standing, &writers, known);
        for attempt in attempts {
            if let Some(of) = consumers.iter_mut().find(|explained| explained.consumer == attempt.consumer) {
                of.attempts.push(attempt);
            }
        }
        Ok(Why { id, event: row, last_id: standing.last_id, writers, consumers })
    }

    async fn standing(
        &self,
        conn: &mut DB::Connection,
        id: i64,
        row: Option<&EventRow>,
    ) -> Result<Standing, OperateError> {
        // A delayed event is in no aggregate's lane: it waits for nobody.
        let lane = row.filter(|row| !row.is_delayed()).map(|row| row.envelope.lane().key());
        self.within(DB::standing(conn, &self.tables, id, lane.as_deref())).await
    }
}

fn explain(
    id: i64,
    event: Option<&EventRow>,
    standing: &Standing,
    writers: &[Writer],
    known: &[ConsumerSpec],
) -> Vec<Explanation> {
    let lane = event.map(|event| event.envelope.lane());
    let specs: BTreeMap<&str, &ConsumerSpec> = known.iter().map(|spec| (spec.name.as_str(), spec)).collect();
    let mut found: Vec<Explanation> = standing
        .slots
        .iter()
        .filter(|slot| lane.as_ref().is_none_or(|lane| owns(slot, lane)))
        .map(|slot| {
            let max_attempts = event.and_then(|event| {
                let spec = specs.get(slot.consumer.name.as_str())?;
                Some(spec.retry_for(&event.envelope.event_type).max_attempts)
            });
            let facts = verdict::Facts { id, event, slot, last_id: standing.last_id, writers, max_attempts };
            let verdict = verdict::verdict(&facts);
            let hindrances = if verdict.is_settled() { Vec::new() } else { hindrances(&slot.consumer) };
            let owner = slot.consumer.owner.clone().map(|owner| (owner, slot.consumer.lease_for));
            let consumer = slot.consumer.name.clone();
            let slot = Some(slot.consumer.slot);
            Explanation { consumer, slot, verdict, hindrances, owner, attempts: Vec::new() }
        })
        .collect();
    for spec in known {
        let name = spec.name.as_str();
        if !standing.slots.iter().any(|slot| slot.consumer.name == name) {
            found.push(Explanation {
                consumer: name.to_owned(),
                slot: None,
                verdict: Verdict::NotRegistered,
                hindrances: Vec::new(),
                owner: None,
                attempts: Vec::new(),
            });
        }
    }
    found.sort_by(|a, b| a.consumer.cmp(&b.consumer).then(a.slot.cmp(&b.slot)));
    found
}

fn owns(slot: &SlotStanding, lane: &Lane) -> bool {
    let slots = u16::try_from(slot.consumer.slots).unwrap_or(1);
    slot.consumer.slot == slot_of(lane, slots)
}
