//! One at a time after a crash: an event that kills the process must end dead, not kill every process that comes.
//!
//! An owner whose predecessor ended without giving the slot back sends its first events singly, and has each attempt
//! written and committed before it makes it: a stall row for the event (of a replay: its letter), with the attempt in
//! it. If the process ends during the attempt, the next one finds it counted, and an event without an attempt left is
//! dead without another call. That comes to an end: whatever was got through before is settled in the same transaction
//! that counts the next attempt, so each process begins nearer to the event that killed the one before, and each such
//! end costs that event an attempt.

use std::time::Duration;

use outbox_sdk::Lane;
use outbox_sdk::backend::Due;

use super::lanes::InFlight;
use super::{Send, Slot};

/// How the careful beginning stands.
#[derive(Debug)]
pub(super) struct Caution {
    /// How many events are still to go singly.
    left: usize,
    /// The event whose attempt is written, or about to be.
    counted: Option<(Lane, i64)>,
}

impl Caution {
    pub(super) fn over(events: usize) -> Option<Self> {
        (events > 0).then_some(Self { left: events, counted: None })
    }
}

impl Slot {
    /// Whether events go one at a time, each attempt written first.
    pub(crate) fn is_cautious(&self) -> bool {
        self.caution.is_some()
    }

    /// The careful beginning ends when the last of its events was alone to its end.
    pub(crate) fn leave_caution(&mut self) {
        if !self.is_counting() {
            self.caution.take_if(|caution| caution.left == 0);
        }
    }

    /// Whether an event is on its way of which the attempt is written, or about to be.
    pub(crate) fn is_counting(&self) -> bool {
        self.in_flight > 0 || self.caution.as_ref().is_some_and(|caution| caution.counted.is_some())
    }

    /// Takes the next event whose attempt must be written before it is made; [`count`](Self::count) goes on with it, or an
    /// answer that it was not tried puts it back. `None`: there is none now, or one is on its way.
    pub(crate) fn next_to_count(&mut self) -> Option<Lane> {
        let caution = self.caution.as_ref()?;
        if caution.counted.is_some() || self.in_flight > 0 {
            return None;
        }
        while let Some(lane) = self.next_ready() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_ready = false;
            if !state.may_send() {
                continue;
            }
            let Some(next) = state.take_next() else { continue };
            let id = next.event().id();
            // It was counted before, and its lane was read again since.
            let done = match &next {
                InFlight::Replay(replay) => replay.counted,
                InFlight::Event(_) => state.stall.as_ref().is_some_and(|stall| stall.counted),
            };
            if done {
                state.put_back(next);
                if let Some(caution) = &mut self.caution {
                    caution.counted = Some((lane.clone(), id));
                }
                self.refresh(&lane);
                return None;
            }
            self.dispatch(lane.clone(), next);
            return Some(lane);
        }
        None
    }

    /// Has the attempt at what [`next_to_count`](Self::next_to_count) took written with the next transaction; then it goes.
    /// `overtaken`: a later event of the lane has gone already.
    pub(crate) fn count(&mut self, lane: &Lane, overtaken: bool) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        let Some(taken) = state.in_flight.take() else { return };
        self.in_flight -= 1;
        let id = taken.event().id();
        let lane = match taken {
            InFlight::Replay(mut replay) => {
                self.count_replay(&mut replay);
                if let Some(state) = self.lanes.get_mut(lane) {
                    state.replays.insert(id, replay);
                }
                lane.clone()
            }
            InFlight::Event(event) => {
                let (attempts, since) = match &state.stall {
                    Some(stall) => (stall.failures(), stall.schema_missing_since),
                    None => (0, None),
                };
                // What the row stands for beside the event itself must be read again.
                let alone = state.stall.is_none() && state.waiting.iter().all(|waiting| waiting.id() < id);
                let fresh = state.stall.is_none();
                let stalled = if fresh { self.stall(lane, id, overtaken) } else { lane.clone() };
                self.settle_id(id);
                if let Some(stall) = self.lanes.get_mut(&stalled).and_then(|state| state.stall.as_mut()) {
                    stall.list.push_front(event);
                    stall.due = true;
                    if fresh {
                        stall.read_from = id + 1;
                        stall.dirty = !alone && stalled == *lane;
                    }
                }
                self.write_stall(&stalled, |stall, row| {
                    stall.attempts = attempts.saturating_add(1);
                    stall.counted = true;
                    stall.schema_missing_since = since;
                    row.attempts = stall.attempts;
                    row.due = Due::In(Duration::ZERO);
                    row.schema_missing = since.is_some();
                });
                stalled
            }
        };
        if let Some(state) = self.lanes.get_mut(&lane) {
            state.committing = true;
        }
        self.pending.held.insert(lane.clone());
        self.pending.urgent = true;
        if let Some(caution) = &mut self.caution {
            caution.counted = Some((lane, id));
        }
    }

    /// Whether [`next_send`](Self::next_send) may have something: while events go one at a time, one whose attempt is
    /// committed.
    pub(crate) fn has_next(&self) -> bool {
        match &self.caution {
            None => self.may_send(),
            Some(caution) => caution.counted.as_ref().is_some_and(|(lane, _)| self.is_open(lane)),
        }
    }

    fn is_open(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).is_some_and(|state| !state.committing && state.in_flight.is_none())
    }

    /// The event whose attempt is committed.
    pub(super) fn next_counted(&mut self) -> Option<Send> {
        let (lane, id) = self.caution.as_ref()?.counted.clone()?;
        if !self.is_open(&lane) {
            return None;
        }
        let caution = self.caution.as_mut()?;
        caution.counted = None;
        let taken = self.lanes.get_mut(&lane)?.take_counted(id)?;
        caution.left = caution.left.saturating_sub(1);
        Some(self.dispatch(lane, taken))
    }

    /// No send follows any more: an attempt that was counted is taken back.
    pub(crate) fn recall(&mut self) {
        let Some((lane, id)) = self.caution.as_mut().and_then(|caution| caution.counted.take()) else {
            return;
        };
        if let Some(taken) = self.lanes.get_mut(&lane).and_then(|state| state.take_counted(id)) {
            self.not_tried(&lane, taken);
        }
    }
}
