//! Stalled lanes on their way back, and what the next transaction writes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{LanePage, NewDeadLetter, ReplayResult, Stall, StoredEvent};
use outbox_sdk::injection::planted;
use outbox_sdk::{Lane, Progress};

use super::lanes::LaneState;
use super::{Event, Slot};

/// What the next transaction writes beside the sets.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    /// Stall rows to write.
    pub(crate) stalls: Vec<Stall>,
    /// Keys of stall rows to delete.
    pub(crate) resumed: Vec<String>,
    /// Dead letters to write.
    pub(crate) dead: &'a [NewDeadLetter],
    /// What replays came to.
    pub(crate) replays: &'a [ReplayResult],
}

impl Slot {
    /// Lanes that were parked since the last call, each with how long it is likely to wait. The database decides when
    /// they are due; this says only when to ask.
    pub(crate) fn take_parked(&mut self) -> Vec<(Lane, Duration)> {
        std::mem::take(&mut self.parked)
    }

    /// Whether the lane still waits to become due.
    pub(crate) fn waits(&self, lane: &Lane) -> bool {
        self.lanes
            .get(lane)
            .and_then(|state| state.stall.as_ref())
            .is_some_and(|stall| !stall.due && !stall.blocked)
    }

    /// Since when the head of the lane waits for its schema, if that is what it waits for.
    pub(crate) fn schema_missing_since(&self, lane: &Lane) -> Option<Instant> {
        self.lanes.get(lane)?.stall.as_ref()?.schema_missing_since
    }

    /// There are other schemas: what waits for one is looked at again, whenever it is due.
    pub(crate) fn look_for_schemas(&mut self) {
        let waits = |state: &LaneState| {
            state.stall.as_ref().is_some_and(|stall| stall.schema_missing_since.is_some() && !stall.due)
        };
        let lanes: Vec<Lane> =
            self.lanes.iter().filter(|(_, state)| waits(state)).map(|(lane, _)| lane.clone()).collect();
        for lane in lanes {
            self.due(&lane);
        }
    }

    /// The database says that the lane is due.
    pub(crate) fn due(&mut self, lane: &Lane) {
        if let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) {
            stall.due = true;
            self.refresh(lane);
        }
    }

    /// A lane to read by index, and the id to read from.
    pub(crate) fn next_resume(&mut self) -> Option<(Lane, i64)> {
        while let Some(lane) = self.resumable.pop_front() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_resumable = false;
            if state.may_resume()
                && let Some(stall) = &state.stall
            {
                return Some((lane, stall.read_from));
            }
        }
        None
    }

    /// Events that wait alone, if such are the next to read, at most so many: they can be read together.
    pub(crate) fn next_singles(&mut self, most: usize) -> Vec<i64> {
        let mut ids = Vec::new();
        while ids.len() < most
            && let Some(Lane::Single(id)) = self.resumable.front()
        {
            let id = *id;
            let lane = self.resumable.pop_front();
            let Some(state) = lane.and_then(|lane| self.lanes.get_mut(&lane)) else { continue };
            state.listed_resumable = false;
            if state.may_resume() {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        ids
    }

    /// The read of a lane did not come about: ask again.
    pub(crate) fn resume_failed(&mut self, lane: &Lane) {
        self.refresh(lane);
    }

    /// Whether a lane waits to be read by index.
    pub(crate) fn may_resume(&self) -> bool {
        !self.resumable.is_empty()
    }

    /// Takes in a page of a stalled lane. Only what the normal path has read counts: nothing in an open gap, and
    /// nothing that goes alone.
    pub(crate) fn resumed(&mut self, lane: &Lane, page: LanePage, wants: impl Fn(&StoredEvent) -> bool) {
        let mut list = VecDeque::new();
        let behind = page.events.last().map(|stored| stored.envelope.id + 1);
        for stored in page.events {
            let id = stored.envelope.id;
            let single = Lane::Single(id);
            let open = self.cursor.is_missing(id) && !planted("lane-read-unfiltered");
            // A row in a dead gap is the sweep's, which puts it where it belongs.
            let elsewhere =
                open || self.void.contains(id) || (single != *lane && self.lanes.contains_key(&single));
            if !elsewhere && wants(&stored) {
                let event = Event::new(stored, false);
                self.rows += 1;
                self.bytes += event.bytes();
                list.push_back(event);
            }
        }
        if let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) {
            stall.list = list;
            // Nothing can lie behind a single event, whatever the page says.
            stall.dirty = page.full && !stall.single;
            stall.read_from = behind.unwrap_or(stall.read_from);
        }
        self.refresh(lane);
    }

    /// How many ids wait to be written as settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.pending.ids
    }

    /// Whether there is anything to write.
    pub(crate) fn has_changes(&self) -> bool {
        let pending = &self.pending;
        pending.ids > 0
            || pending.sets
            || !pending.replays.is_empty()
            || !pending.stalls.is_empty()
            || !pending.resumed.is_empty()
            || !pending.dead.is_empty()
    }

    /// Whether something waits for the commit.
    pub(crate) fn is_urgent(&self) -> bool {
        self.pending.urgent
    }

    /// What the row must hold: the settled ids and the dead gaps.
    pub(crate) fn sets(&self) -> (&Progress, &Progress) {
        (&self.settled, &self.void)
    }

    /// What goes with the sets.
    pub(crate) fn changes(&self) -> Changes<'_> {
        Changes {
            stalls: self.pending.stalls.values().cloned().collect(),
            resumed: self.pending.resumed.iter().map(Lane::key).collect(),
            dead: &self.pending.dead,
            replays: &self.pending.replays,
        }
    }

    /// Everything of [`sets`](Self::sets) and [`changes`](Self::changes) is committed.
    pub(crate) fn committed(&mut self) {
        let done = std::mem::take(&mut self.pending);
        if done.ids > 0 || done.sets {
            self.stored.clone_from(&self.settled);
        }
        for result in &done.replays {
            // One that is only counted, or was taken back, is still on its way.
            if !matches!(result, ReplayResult::Counted { .. } | ReplayResult::Recalled { .. }) {
                self.replaying.remove(&result.event_id());
            }
        }
        for lane in done.resumed.into_iter().chain(done.held) {
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.committing = false;
            }
            self.refresh(&lane);
        }
    }
}
