//! Whether an event that fails was overtaken: a later one of its lane has gone before. Then it waits alone, since a stall
//! row of the lane would stand for what is through.
//!
//! The answer lies in the table, and a lane may be long. So it is looked through page by page, between which the slot goes
//! on with its other lanes. The lane itself stands still meanwhile: its event is in flight until the question is answered.

use outbox_sdk::Lane;
use outbox_sdk::backend::LaneEntry;

use super::Slot;
use super::lanes::InFlight;

/// How far a lane was looked through.
#[derive(Debug)]
pub(crate) struct Question {
    /// Where the next page begins.
    pub(crate) from: i64,
    /// Later events that wait alone, as long as they do.
    alone: Vec<i64>,
}

impl Slot {
    /// The question for a failure of what is in flight on `lane`, if there is one: only an event that filled a gap can have
    /// been overtaken.
    pub(crate) fn question(&self, lane: &Lane) -> Option<Question> {
        let state = self.lanes.get(lane)?;
        let InFlight::Event(event) = state.in_flight.as_ref()? else { return None };
        let may_be = matches!(lane, Lane::Aggregate(_)) && state.stall.is_none() && event.filled_gap;
        may_be.then(|| Question { from: event.id() + 1, alone: Vec::new() })
    }

    /// Takes in the next page of the lane; `last`: nothing lies behind it. Returns whether the event was overtaken, once
    /// that is known. What the consumer does not want does not count, nor what waits alone.
    pub(crate) fn look_through(
        &self,
        question: &mut Question,
        page: &[LaneEntry],
        last: bool,
        wants: impl Fn(&LaneEntry) -> bool,
    ) -> Option<bool> {
        for entry in page {
            question.from = entry.id + 1;
            if self.settled.contains(entry.id) && wants(entry) {
                if !self.is_alone(entry.id) {
                    return Some(true);
                }
                question.alone.push(entry.id);
            }
        }
        // What waited alone may have gone while the rest was looked through.
        last.then(|| question.alone.iter().any(|&id| !self.is_alone(id)))
    }

    fn is_alone(&self, id: i64) -> bool {
        self.lanes.get(&Lane::Single(id)).is_some_and(|state| !state.committing)
    }
}
