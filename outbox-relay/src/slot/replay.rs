//! What operators decide about dead letters: to send one again, or to discard the one that blocks its lane.

use std::time::Duration;

use outbox_sdk::Lane;
use outbox_sdk::backend::{Due, ReplayResult, StoredEvent};

use super::lanes::{InFlight, Replay};
use super::{Event, Slot, Verdict};

impl Slot {
    /// Whether the dead letter is here already, to go again, or its result waits for the commit.
    pub(crate) fn is_replaying(&self, event_id: i64) -> bool {
        self.replaying.contains(&event_id)
    }

    /// How many dead letters are here to go again.
    pub(crate) fn replaying(&self) -> usize {
        self.replaying.len()
    }

    /// A dead letter goes again, through its lane: when nothing else of the lane is in flight, and before anything
    /// else of it. `attempts` are those before.
    pub(crate) fn replay(&mut self, lane: Lane, stored: StoredEvent, attempts: u32) {
        let id = stored.envelope.id;
        let lane = self.standing_lane(lane, &stored);
        if !self.replaying.insert(id) {
            return;
        }
        let event = Event::new(stored, false);
        self.rows += 1;
        self.bytes += event.bytes();
        let replay = Replay { event, attempts, counted: false };
        self.lanes.entry(lane.clone()).or_default().replays.insert(id, replay);
        self.refresh(&lane);
    }

    /// A dead letter cannot go again: it is dead as before, with what was the matter.
    pub(crate) fn refuse_replay(&mut self, event_id: i64, error: String) {
        if self.replaying.insert(event_id) {
            self.pending.replays.push(ReplayResult::Refused { event_id, error });
        }
    }

    /// An operator has discarded the dead head of a blocked lane: the lane goes on behind it.
    pub(crate) fn discarded(&mut self, lane: &Lane, head_id: i64) {
        self.unblock(lane, head_id);
    }

    /// What the attempt at a replay came to. Unlike another failed event it does not stall its lane.
    pub(super) fn answer_replay(&mut self, lane: &Lane, replay: Replay, verdict: Verdict) {
        let event_id = replay.event.id();
        let result = match verdict {
            Verdict::Delivered => {
                let attempts = replay.attempts.saturating_add(1);
                ReplayResult::Delivered { event_id, attempts, counted: replay.counted }
            }
            Verdict::Dead { letter, .. } => {
                let counted = replay.counted.then_some(replay.attempts.saturating_add(1));
                ReplayResult::Failed { letter, counted }
            }
            Verdict::Park { .. } | Verdict::Unavailable => {
                self.not_tried(lane, InFlight::Replay(replay));
                return;
            }
        };
        self.rows -= 1;
        self.bytes -= replay.event.bytes();
        if matches!(result, ReplayResult::Delivered { .. }) {
            self.unblock(lane, event_id);
            // It may have died alone: late, or while its consumer had no order.
            self.unblock(&Lane::Single(event_id), event_id);
        }
        self.pending.replays.push(result);
        self.refresh(lane);
    }

    /// The attempt at a replay is written first.
    pub(super) fn count_replay(&mut self, replay: &mut Replay) {
        replay.counted = true;
        let event_id = replay.event.id();
        if self.drop_result(event_id) {
            return; // It was taken back, but not yet in the database.
        }
        let attempts = replay.attempts.saturating_add(1);
        self.pending.replays.push(ReplayResult::Counted { event_id, attempts });
    }

    /// The attempt that was written first was not made.
    pub(super) fn recall_replay(&mut self, replay: &mut Replay) {
        replay.counted = false;
        let event_id = replay.event.id();
        if !self.drop_result(event_id) {
            let attempts = replay.attempts;
            self.pending.replays.push(ReplayResult::Recalled { event_id, attempts });
        }
    }

    /// Takes back what the next transaction was to say of a replay; false = nothing.
    fn drop_result(&mut self, event_id: i64) -> bool {
        let before = self.pending.replays.len();
        self.pending.replays.retain(|result| result.event_id() != event_id);
        self.pending.replays.len() < before
    }

    /// Ends the block of a lane by the event `id`, in the transaction that carries the reason.
    fn unblock(&mut self, lane: &Lane, id: i64) {
        let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) else { return };
        if !stall.blocked || stall.head_id != id {
            return;
        }
        stall.blocked = false;
        stall.due = true;
        stall.advance(id + 1);
        stall.read_from = id + 1;
        // Nothing can lie behind a single event.
        stall.dirty = !stall.single;
        if stall.dirty {
            self.write_stall(lane, |_, row| row.due = Due::In(Duration::ZERO));
        }
        self.refresh(lane);
    }
}
