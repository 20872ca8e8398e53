//! What goes next, and what an answer does to its lane.

use std::collections::VecDeque;
use std::time::Duration;

use outbox_sdk::Lane;
use outbox_sdk::backend::{Due, LaneEntry};
use outbox_sdk::injection::planted;

use super::lanes::Stalled;
use super::{Send, Slot, Verdict};

impl Slot {
    /// The next event that may go, first come first served among the lanes.
    pub(crate) fn next_send(&mut self) -> Option<Send> {
        while let Some(lane) = self.next_ready() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_ready = false;
            if !state.may_send() {
                continue;
            }
            let Some(event) = state.take_next() else { continue };
            state.in_flight = Some(event.clone());
            self.in_flight += 1;
            if planted("settled-before-answer") {
                self.settle_id(event.id());
            }
            let Some(state) = self.lanes.get(&lane) else { continue };
            let (attempts, schema_missing_since) =
                state.stall.as_ref().map_or((0, None), |stall| (stall.attempts, stall.schema_missing_since));
            return Some(Send { lane, event, attempts, schema_missing_since });
        }
        None
    }

    /// Prepares a probe: moves a lane drawn at random to the front of each list, since those that have waited longest may
    /// be the ones that fail, and prefers lanes that have not failed, three times out of four. `random` from 0.0 to 1.0.
    pub(crate) fn draw(&mut self, random: f64) {
        let quarters = random * 4.0;
        self.resumed_turn = quarters < 3.0;
        for list in [&mut self.ready, &mut self.resumed_ready] {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let place = (quarters.fract() * list.len() as f64) as usize;
            if place < list.len() {
                list.swap(0, place);
            }
        }
    }

    fn next_ready(&mut self) -> Option<Lane> {
        self.resumed_turn = !self.resumed_turn;
        if self.resumed_turn {
            self.resumed_ready.pop_front().or_else(|| self.ready.pop_front())
        } else {
            self.ready.pop_front().or_else(|| self.resumed_ready.pop_front())
        }
    }

    /// Whether something may go now.
    pub(crate) fn may_send(&self) -> bool {
        !self.ready.is_empty() || !self.resumed_ready.is_empty()
    }

    /// How many lanes that come back from waiting may send now.
    pub(crate) fn resumed_ready(&self) -> usize {
        self.resumed_ready.len()
    }

    /// Whether a failure of what is in flight on `lane` needs to know which later events of the lane have gone: only
    /// an event that filled a gap can have been overtaken.
    pub(crate) fn may_be_overtaken(&self, lane: &Lane) -> Option<i64> {
        let state = self.lanes.get(lane)?;
        let event = state.in_flight.as_ref()?;
        (matches!(lane, Lane::Aggregate(_)) && state.stall.is_none() && event.filled_gap).then(|| event.id())
    }

    /// Whether one of these later events of a lane has gone. Those that the consumer does not want do not count, nor
    /// those that wait alone.
    pub(crate) fn is_overtaken(&self, later: &[LaneEntry], wants: impl Fn(&LaneEntry) -> bool) -> bool {
        later.iter().any(|entry| {
            let alone = self.lanes.get(&Lane::Single(entry.id));
            self.settled.contains(entry.id) && alone.is_none_or(|state| state.committing) && wants(entry)
        })
    }

    /// Takes in what the attempt on `lane` came to. `overtaken`: a later event of the lane has gone already.
    pub(crate) fn answer(&mut self, lane: &Lane, verdict: Verdict, overtaken: bool) {
        let Some(event) = self.lanes.get_mut(lane).and_then(|state| state.in_flight.take()) else { return };
        self.in_flight -= 1;
        let id = event.id();
        if verdict == Verdict::Unavailable {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.put_back(event);
            }
            self.refresh(lane);
            return;
        }
        self.rows -= 1;
        self.bytes -= event.bytes();
        self.settle_id(id);
        match verdict {
            Verdict::Delivered => self.pass(lane, id),
            Verdict::Dead { letter, block } => {
                self.pending.dead.push(letter);
                if block {
                    let stall = self.stall(lane, id, overtaken);
                    self.write_stall(&stall, |state, row| {
                        state.blocked = true;
                        row.blocked = true;
                        row.due = Due::In(Duration::ZERO);
                    });
                } else {
                    self.pass(lane, id);
                }
            }
            Verdict::Park { attempts, delay, error, schema_missing_since } => {
                let stalled = self.stall(lane, id, overtaken);
                self.parked.push((stalled.clone(), delay));
                self.write_stall(&stalled, |state, row| {
                    state.attempts = attempts;
                    state.schema_missing_since = schema_missing_since;
                    row.attempts = attempts;
                    row.due = Due::In(delay);
                    row.schema_missing = schema_missing_since.is_some();
                    row.last_error = Some(error);
                });
            }
            Verdict::Unavailable => {}
        }
    }

    /// The event is behind us: the head of a stalled lane moves on.
    fn pass(&mut self, lane: &Lane, id: i64) {
        let hwm = self.cursor.hwm();
        let moved = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()).is_some_and(|stall| {
            stall.head_id = if planted("head-to-mark") { hwm + 1 } else { id + 1 };
            stall.attempts = 0;
            stall.schema_missing_since = None;
            !stall.single
        });
        if moved {
            self.write_stall(lane, |_, row| row.due = Due::Unchanged);
        }
        self.refresh(lane);
    }

    /// Stalls the lane at `id`, so that its row covers everything from there on; or `id` alone, when a later event has
    /// gone already. Returns the lane that is stalled now.
    fn stall(&mut self, lane: &Lane, id: i64, overtaken: bool) -> Lane {
        let single = Lane::Single(id);
        let alone = matches!(lane, Lane::Single(_))
            || (overtaken && self.lanes.get(lane).is_some_and(|state| state.stall.is_none()));
        if alone {
            self.lanes.entry(single.clone()).or_default().stall = Some(Stalled::parked(id, true));
            if single != *lane {
                self.refresh(lane);
            }
            return single;
        }
        let state = self.lanes.entry(lane.clone()).or_default();
        let queue = std::mem::take(&mut state.waiting);
        let list = state.stall.take().map_or_else(VecDeque::new, |stall| stall.list);
        state.stall = Some(Stalled::parked(id, false));
        for event in list {
            self.rows -= 1;
            self.bytes -= event.bytes();
        }
        for (waiting, event) in queue {
            if waiting > id {
                self.rows -= 1;
                self.bytes -= event.bytes();
                self.settle_id(waiting);
            } else {
                // It came after a later event had been sent: it goes alone, and never moves the head back.
                let late = Lane::Single(waiting);
                self.lanes.entry(late.clone()).or_default().waiting.insert(waiting, event);
                self.refresh(&late);
            }
        }
        lane.clone()
    }
}
