//! What the directed tests say to a world, in the words of a test.

use outbox_sdk::Lane;

use super::super::{Bounds, Event};
use super::world::{Answer, Fate, Setting, Step, World};

pub(super) const A: u8 = 0;
pub(super) const B: u8 = 1;

/// Bounds that no lane reaches, of an owner without a reason to be careful.
pub(super) const BOUNDS: Bounds = Bounds { lane_rows: usize::MAX, lane_bytes: usize::MAX, caution: 0 };

/// Aggregates that are written without the lock, so that late events can be made.
pub(super) const LOOSE: Setting = Setting {
    aggregates: 3,
    strict: 0,
    ordered: true,
    block: false,
    faults: true,
    lane_rows: usize::MAX,
    caution: 0,
    foreign: false,
};

/// A world of aggregates that are written without the lock, so that late events can be made.
pub(super) fn world() -> World {
    World::new(LOOSE)
}

pub(super) fn blocking() -> World {
    World::new(Setting { block: true, ..LOOSE })
}

pub(super) fn unordered() -> World {
    World::new(Setting { ordered: false, ..LOOSE })
}

impl World {
    /// Inserts in an open transaction; [`commit`](Self::commit) ends it.
    pub(super) fn insert(&mut self, writer: u8, aggregate: u8) {
        self.step(&Step::Insert { writer, aggregate, locked: false, wanted: true, delay: 0, size: 3 });
    }

    pub(super) fn commit(&mut self, writer: u8) {
        self.step(&Step::Finish(writer));
    }

    pub(super) fn publish(&mut self, aggregates: &[u8]) {
        for &aggregate in aggregates {
            self.insert(9, aggregate);
        }
        self.commit(9);
    }

    pub(super) fn read_all(&mut self) {
        self.step(&Step::Read { limit: 100, keep: 100 });
    }

    /// Sends all that may go; returns what is on its way.
    pub(super) fn send_all(&mut self) -> Vec<i64> {
        while self.slot.may_send() {
            self.step(&Step::Send);
        }
        let mut ids: Vec<i64> = self.in_flight.iter().map(|send| send.event.id()).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn answer_to(&mut self, id: i64, answer: Answer) {
        let which = self.in_flight.iter().position(|send| send.event.id() == id);
        self.step(&Step::Answer(which.unwrap_or_else(|| panic!("{id} is not on its way")), answer));
    }

    pub(super) fn settle_now(&mut self) {
        self.step(&Step::Settle(Fate::Known));
    }

    /// Lets time pass, wakes what is due and reads the lanes, `limit` events a page.
    pub(super) fn resume_all(&mut self, limit: usize) {
        self.step(&Step::Awake(limit));
    }

    /// The stall row of a lane: head, attempts, blocked, single.
    pub(super) fn row(&self, lane: &Lane) -> Option<(i64, u32, bool, bool)> {
        self.db.stalls.get(lane).map(|stored| {
            let row = &stored.row;
            (row.head_id, row.attempts, row.blocked, row.single)
        })
    }

    pub(super) fn listed(&self, lane: &Lane) -> Vec<i64> {
        let stall = self.slot.lanes.get(lane).and_then(|state| state.stall.as_ref());
        stall.map_or_else(Vec::new, |stall| stall.list.iter().map(Event::id).collect())
    }

    /// 1, 2, 3 of aggregate A; 1 has failed, the lane is due and read.
    pub(super) fn resumed() -> Self {
        let mut world = world();
        world.publish(&[A, A, A]);
        world.read_all();
        assert_eq!(world.send_all(), [1]);
        world.answer_to(1, Answer::Retry);
        world.settle_now();
        world.resume_all(10);
        world
    }
}
