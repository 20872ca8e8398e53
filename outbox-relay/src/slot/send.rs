//! What goes next, and what an answer does to its lane.

use std::collections::VecDeque;
use std::time::Duration;

use outbox_sdk::Lane;
use outbox_sdk::backend::Due;
use outbox_sdk::injection::planted;

use super::lanes::{InFlight, Stalled};
use super::{Send, Slot, Verdict};

impl Slot {
    /// The next event that may go, first come first served among the lanes.
    pub(crate) fn next_send(&mut self) -> Option<Send> {
        if self.is_cautious() {
            return self.next_counted();
        }
        while let Some(lane) = self.next_ready() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_ready = false;
            if !state.may_send() {
                continue;
            }
            let Some(sent) = state.take_next() else { continue };
            return Some(self.dispatch(lane, sent));
        }
        None
    }

    /// Notes that the event is on its way.
    pub(super) fn dispatch(&mut self, lane: Lane, sent: InFlight) -> Send {
        if planted("settled-before-answer") {
            self.settle_id(sent.event().id());
        }
        let state = self.lanes.entry(lane.clone()).or_default();
        let (attempts, schema_missing_since, replay) = match &sent {
            InFlight::Replay(replay) => (replay.attempts, None, true),
            InFlight::Event(_) => match &state.stall {
                Some(stall) => (stall.failures(), stall.schema_missing_since, false),
                None => (0, None, false),
            },
        };
        let event = sent.event().clone();
        state.in_flight = Some(sent);
        self.in_flight += 1;
        Send { lane, event, attempts, schema_missing_since, replay }
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

    pub(super) fn next_ready(&mut self) -> Option<Lane> {
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

    /// Takes in what the attempt on `lane` came to. `overtaken`: a later event of the lane has gone already.
    pub(crate) fn answer(&mut self, lane: &Lane, verdict: Verdict, overtaken: bool) {
        let Some(sent) = self.lanes.get_mut(lane).and_then(|state| state.in_flight.take()) else { return };
        self.in_flight -= 1;
        let event = match sent {
            sent if verdict == Verdict::Unavailable => {
                self.not_tried(lane, sent);
                return;
            }
            InFlight::Replay(replay) => {
                self.answer_replay(lane, replay, verdict);
                return;
            }
            InFlight::Event(event) => event,
        };
        let id = event.id();
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
                    self.refresh(&stall);
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
                // A replay may wait for its turn.
                self.refresh(&stalled);
            }
            Verdict::Unavailable => {}
        }
    }

    /// Back to where it was, since nobody has tried it; an attempt that was counted for it is taken back.
    pub(super) fn not_tried(&mut self, lane: &Lane, mut sent: InFlight) {
        if let InFlight::Replay(replay) = &mut sent
            && replay.counted
        {
            self.recall_replay(replay);
        }
        let Some(state) = self.lanes.get_mut(lane) else { return };
        let counted = matches!(sent, InFlight::Event(_)) && state.stall.as_ref().is_some_and(|s| s.counted);
        state.put_back(sent);
        if counted {
            self.write_stall(lane, |stall, row| {
                stall.attempts = stall.failures();
                stall.counted = false;
                row.attempts = stall.attempts;
                row.schema_missing = stall.schema_missing_since.is_some();
            });
        }
        self.refresh(lane);
    }

    /// The event is behind us: the head of a stalled lane moves on.
    fn pass(&mut self, lane: &Lane, id: i64) {
        let hwm = self.cursor.hwm();
        let moved = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()).is_some_and(|stall| {
            stall.advance(if planted("head-to-mark") { hwm + 1 } else { id + 1 });
            !stall.single
        });
        if moved {
            self.write_stall(lane, |_, row| row.due = Due::Unchanged);
        }
        self.refresh(lane);
    }

    /// Stalls the lane at `id`, so that its row covers everything from there on; or `id` alone, when a later event has
    /// gone already. Returns the lane that is stalled now.
    pub(super) fn stall(&mut self, lane: &Lane, id: i64, overtaken: bool) -> Lane {
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
        for event in queue.into_events() {
            let waiting = event.id();
            if waiting > id {
                self.rows -= 1;
                self.bytes -= event.bytes();
                self.settle_id(waiting);
            } else {
                // It came after a later event had been sent: it goes alone, and never moves the head back.
                let late = Lane::Single(waiting);
                self.lanes.entry(late.clone()).or_default().waiting.insert(event);
                self.refresh(&late);
            }
        }
        lane.clone()
    }
}
