//! What must hold after every step, and in the end.

use std::collections::BTreeMap;

use outbox_sdk::Lane;

use super::super::lanes::InFlight;
use super::super::{Event, Send};
use super::database::{Row, State, aggregate};
use super::world::{Answer, World};

impl World {
    /// Whether order is promised in the lane.
    fn is_strict(&self, lane: &Lane) -> bool {
        self.setting.ordered && (0..self.setting.strict).any(|strict| aggregate(strict) == *lane)
    }

    pub(super) fn check_send(&mut self, send: &Send) {
        let id = send.event.id();
        if send.replay {
            self.check_replay(send);
            return;
        }
        let tried = self.tried.get(&id).copied().unwrap_or_default();
        assert_eq!(send.attempts, tried.attempts, "attempts of {id}");
        assert_eq!(send.schema_missing_since.is_some(), tried.schema_missing, "{id} waits for its schema");
        for other in &self.in_flight {
            assert!(
                other.lane != send.lane && other.event.id() != id,
                "two sends of {:?} at once",
                send.lane
            );
        }
        if self.deceived {
            return;
        }
        let Some(row) = self.db.rows.get(&id) else { panic!("{id} is sent and was never written") };
        assert!(
            row.writer.is_none() && row.new.wanted && row.available_at <= self.db.clock,
            "{id} goes too soon"
        );
        assert!(!self.db.is_through(id, row), "{id} is through");
        if self.is_strict(&send.lane) {
            for (other, row) in self.wanted_of(&send.lane) {
                if other < id {
                    let done =
                        self.delivered.contains_key(&row.event_id) || self.dead.contains(&row.event_id);
                    assert!(done, "{id} goes before {other}");
                }
                assert!(other <= id || !self.db.is_through(other, row), "{id} goes after {other} is through");
            }
            let last = self.sent.insert(send.lane.clone(), id);
            assert!(last.is_none_or(|last| last <= id), "{id} goes after {last:?} of its lane");
        }
    }

    /// A replay goes when nothing else of its lane does, and only what an operator has asked for.
    fn check_replay(&self, send: &Send) {
        let id = send.event.id();
        assert!(
            self.in_flight.iter().all(|other| other.lane != send.lane),
            "{id} is replayed beside another"
        );
        if self.deceived {
            return;
        }
        let letter = self.db.dead.get(&id).expect("a dead letter");
        // The attempt may be counted already.
        let counted = letter.state == State::Dead;
        assert!(counted || letter.state == State::Replay, "{id} is replayed, and is {letter:?}");
        assert_eq!(send.attempts + u32::from(counted), letter.attempts, "attempts of {id}");
        assert!(!counted || self.setting.caution > 0);
    }

    /// Whether the owner is to deliver the event.
    fn is_wanted(&self, row: &Row) -> bool {
        row.new.wanted && self.setting.is_own(row.new.aggregate)
    }

    /// What the consumer wants of a lane.
    fn wanted_of<'a>(&'a self, lane: &'a Lane) -> impl Iterator<Item = (i64, &'a Row)> {
        self.db.visible().filter(move |(_, row)| {
            self.is_wanted(row)
                && row.new.delay == 0
                && row.new.aggregate.is_some_and(|a| aggregate(a) == *lane)
        })
    }

    pub(super) fn check(&self) {
        self.check_database();
        self.check_memory();
        if !self.deceived {
            self.check_memory_against_database();
        }
    }

    fn check_database(&self) {
        let db = &self.db;
        for (id, row) in db.visible() {
            assert!(!db.void.contains(id) || db.smuggled.contains(&id), "{id} was given up and came");
            if self.is_wanted(row) && db.is_through(id, row) {
                let letter = db.dead.get(&id).filter(|letter| letter.state != State::Replayed);
                assert!(letter.is_some() || self.delivered.contains_key(&row.event_id), "{id} is lost");
            }
        }
        for id in db.uncommitted() {
            assert!(!db.settled.contains(id), "{id} is settled and may still commit");
        }
        if self.setting.ordered {
            for lane in (0..self.setting.strict).map(aggregate) {
                let through: Vec<bool> =
                    self.wanted_of(&lane).map(|(id, row)| db.is_through(id, row)).collect();
                assert!(
                    through.is_sorted_by(|before, after| before >= after),
                    "{lane}: {through:?} is no prefix"
                );
            }
        }
    }

    /// The events that the slot holds, each with whether it is listed or on its way in a stalled lane.
    fn in_memory(&self) -> BTreeMap<i64, bool> {
        let mut ids = BTreeMap::new();
        let (mut rows, mut bytes, mut in_flight) = (0, 0, 0);
        for state in self.slot.lanes.values() {
            let stalled = state.stall.is_some();
            let listed = state.stall.iter().flat_map(|stall| &stall.list);
            let (in_order, replay) = match &state.in_flight {
                Some(InFlight::Event(event)) => (Some(event), None),
                Some(InFlight::Replay(replay)) => (None, Some(replay)),
                None => (None, None),
            };
            for replay in state.replays.values().chain(replay) {
                assert!(self.slot.is_replaying(replay.event.id()));
                rows += 1;
                bytes += replay.event.bytes();
            }
            for event in state.waiting.iter().chain(in_order).chain(listed) {
                assert!(ids.insert(event.id(), stalled).is_none(), "{} is in memory twice", event.id());
                rows += 1;
                bytes += event.bytes();
            }
            in_flight += usize::from(state.in_flight.is_some());
            assert!(!stalled || state.waiting.is_empty(), "a stalled lane has a queue");
        }
        assert_eq!((self.slot.rows(), self.slot.bytes(), self.slot.in_flight()), (rows, bytes, in_flight));
        assert_eq!(in_flight, self.in_flight.len());
        ids
    }

    fn check_memory(&self) {
        let slot = &self.slot;
        for (lane, state) in &slot.lanes {
            assert!(
                !state.may_send() || slot.ready.contains(lane) || slot.resumed_ready.contains(lane),
                "{lane} may send and is not listed"
            );
            assert!(
                !state.may_resume() || slot.resumable.contains(lane),
                "{lane} may resume and is not listed"
            );
            assert!(!state.may_hand_back() && !state.is_done(), "{lane} stays for nothing");
            let Some(stall) = &state.stall else { continue };
            let ids: Vec<i64> = stall.list.iter().map(Event::id).collect();
            assert!(ids.is_sorted() && ids.first().is_none_or(|&first| first >= stall.head_id));
            let written = slot.pending.stalls.get(lane).map(|row| row.head_id);
            let stored = self.db.stalls.get(lane).map(|stored| stored.row.head_id);
            let head = written.or(stored.filter(|_| !self.deceived));
            assert!(
                self.deceived || head.is_some_and(|head| head <= stall.head_id),
                "no stall row for {lane}"
            );
            let woken = stall.due
                || stall.blocked
                || self.wakes.iter().any(|(_, parked)| parked == lane)
                || slot.parked.iter().any(|(parked, _)| parked == lane);
            assert!(woken, "nobody wakes {lane}");
        }
        let ids = self.in_memory();
        for id in 1..=slot.hwm() {
            let places = (slot.cursor.is_missing(id), ids.get(&id).copied(), slot.settled.contains(id));
            let one = matches!(
                places,
                (true, None, false) | (false, Some(false), false) | (false, Some(true) | None, true)
            );
            assert!(one, "{id} is in {places:?} (gap, memory, settled)");
        }
        let unsettled = ids.values().filter(|&&stalled| !stalled).count();
        let most = slot.open_gaps() + unsettled + 1;
        assert!(slot.settled.len_ranges() <= most, "{:?} is in more than {most} ranges", slot.settled);
    }

    /// Nothing is forgotten: what is neither delivered nor dead can still be reached.
    fn check_memory_against_database(&self) {
        let (slot, ids) = (&self.slot, self.in_memory());
        for (id, row) in self.db.visible().filter(|(_, row)| self.is_wanted(row)) {
            let done = self.delivered.contains_key(&row.event_id) || self.dead.contains(&row.event_id);
            // The sweep will find what lies in a dead gap.
            if done || slot.void.contains(id) || !slot.settled.contains(id) || ids.contains_key(&id) {
                continue;
            }
            let will_read = |lane: &Lane| {
                let stall = slot.lanes.get(lane).and_then(|state| state.stall.as_ref());
                stall.is_some_and(|stall| stall.dirty && id >= stall.read_from)
            };
            let reachable = will_read(&Lane::Single(id))
                || (row.new.delay == 0 && row.new.aggregate.is_some_and(|a| will_read(&aggregate(a))));
            assert!(reachable, "{id} is forgotten");
        }
    }

    /// Faults stop, writers end: everything must come to an end.
    pub(super) fn finish(&mut self) {
        for writer in self.db.open_writers() {
            if writer % 2 == 0 {
                self.db.commit(writer);
                self.db.end(writer);
            }
            self.db.roll_back(writer);
            self.db.end(writer);
        }
        if self.deceived {
            self.claim(true);
        }
        self.paused = false;
        for _ in 0..300 {
            self.db.clock += 10;
            self.cycle(Answer::Delivered);
            let idle = !self.slot.has_gaps() && self.in_flight.is_empty() && !self.slot.has_changes();
            let blocked =
                self.slot.lanes.values().all(|state| state.stall.as_ref().is_some_and(|s| s.blocked));
            let asked = self.db.dead.values().any(|letter| letter.state == State::Replay);
            if idle && blocked && !asked && self.db.visible().all(|(id, _)| id <= self.slot.hwm()) {
                break;
            }
        }
        let slot = &self.slot;
        assert!(!slot.has_gaps(), "gaps stay: {:?}", slot.gap_ranges());
        assert!(self.db.settled.len_ranges() <= 1, "fragments stay: {:?}", self.db.settled);
        assert_eq!((slot.rows(), slot.bytes(), slot.in_flight()), (0, 0, 0));
        let waiting: Vec<&Lane> =
            self.db.stalls.iter().filter(|(_, stall)| !stall.row.blocked).map(|(lane, _)| lane).collect();
        assert!(waiting.is_empty(), "{waiting:?} stay stalled");
        assert!(slot.lanes.values().all(|state| state.stall.as_ref().is_some_and(|stall| stall.blocked)));
        for (id, row) in self.db.visible().filter(|(_, row)| self.is_wanted(row)) {
            let done = self.delivered.contains_key(&row.event_id) || self.db.dead.contains_key(&id);
            assert!(done || self.db.covered(id, row), "{id} never came");
        }
        for letter in self.db.dead.values() {
            assert!(letter.state != State::Replay, "a replay never goes");
        }
        for stall in self.db.stalls.values().filter(|stall| stall.row.blocked) {
            let letter = self.db.dead.get(&stall.row.head_id).expect("a dead head");
            assert!(letter.state == State::Dead, "nobody unblocks what was decided: {letter:?}");
        }
        assert!(self.db.visible().all(|(id, _)| !self.db.void.contains(id)), "a row is left in a dead gap");
    }
}
