//! What comes to the owner from the side: operators' decisions, a reset, and rows in dead gaps.

use super::database::{NewEvent, State};
use super::world::{Answer, NO_AGGREGATE, World};

impl World {
    /// Discarded heads, and the next letters that are to go again.
    pub(super) fn carry_out(&mut self, room: usize) {
        if !self.is_settled() {
            return;
        }
        let dead = |id: &i64| self.db.dead.get(id).map(|letter| letter.state);
        let discarded = self
            .db
            .stalls
            .iter()
            .filter(|(_, stall)| stall.row.blocked && dead(&stall.row.head_id) == Some(State::Discarded));
        for (lane, head_id) in
            discarded.map(|(lane, stall)| (lane.clone(), stall.row.head_id)).collect::<Vec<_>>()
        {
            self.slot.discarded(&lane, head_id);
        }
        let asked =
            self.db.dead.iter().filter(|(id, letter)| **id > self.after && letter.state == State::Replay);
        let page: Vec<_> = asked.map(|(&id, letter)| (id, letter.attempts)).take(room).collect();
        self.after = page.last().filter(|_| page.len() == room).map_or(0, |&(id, _)| id);
        for (id, attempts) in page {
            if self.slot.is_replaying(id) {
                continue;
            }
            let found = self.db.read(&[(id, id + 1)], i64::MAX, 1, 1).events.pop();
            let lane = found.as_ref().and_then(|stored| self.setting.lane_of(stored));
            match (found, lane) {
                (Some(stored), Some(lane)) => self.slot.replay(lane, stored, attempts),
                _ => self.slot.refuse_replay(id, "gone".to_owned()),
            }
        }
    }

    /// Begins again some events before the last one.
    pub(super) fn reset(&mut self, back: i64, forced: bool) {
        if self.deceived || (forced && !self.setting.faults) {
            return;
        }
        if !forced {
            self.drain(Answer::Delivered);
        }
        let last = self.db.rows.keys().next_back().copied().unwrap_or(0);
        let from = (last - back).max(1);
        self.db.reset(from);
        for (_, row) in self.db.rows.range(from..) {
            self.delivered.remove(&row.event_id);
        }
        self.claim(forced);
    }

    pub(super) fn smuggle(&mut self, which: usize, aggregate: u8, wanted: bool) {
        // Order is promised where every writer keeps the rules.
        let loose = self.setting.aggregates - self.setting.strict;
        let aggregate =
            (aggregate != NO_AGGREGATE && loose > 0).then(|| self.setting.strict + aggregate % loose.max(1));
        self.db.smuggle(which, NewEvent { aggregate, wanted, delay: 0, size: 1 });
    }

    pub(super) fn sweep(&mut self) {
        if self.is_settled() && self.slot.has_void() {
            let found = self.db.read(&self.slot.void_ranges(), i64::MAX, 100, 100).events;
            let setting = self.setting;
            self.slot.swept(found, |event| setting.lane_of(event));
        }
    }
}
