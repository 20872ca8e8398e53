//! When waiting events may go, as far as time alone decides it. Pure: an engine that goes by it never comes back for a
//! time that is over, which would make it turn round and round with nothing to do.

use std::time::Instant;

use crate::breaker::Breaker;
use crate::rate::Bucket;
use crate::slot::Slot;

/// What stands between a slot's events and its sink, at one time.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    pub(crate) slot: &'a Slot,
    /// It has looked at `now`.
    pub(crate) breaker: &'a Breaker,
    /// Until when an operator or its receiver has paused the consumer.
    pub(crate) held_until: Option<Instant>,
    /// How many the destination may get.
    pub(crate) rate: Option<&'a Bucket>,
    /// How many events may be on their way.
    pub(crate) most: usize,
    /// When the last pass has looked, whatever time it is by now.
    pub(crate) now: Instant,
}

impl Gate<'_> {
    fn is_held(&self) -> bool {
        self.held_until.is_some_and(|until| self.now < until)
    }

    /// How many events may go now.
    pub(crate) fn room(&self) -> usize {
        let room = self.breaker.room(self.most, self.slot.in_flight(), self.now);
        let limit = self.rate.map_or(usize::MAX, |rate| rate.available(self.now));
        if self.is_held() { 0 } else { room.min(limit) }
    }

    /// Whether the next event waits to have its attempt counted first.
    pub(crate) fn counts(&self) -> bool {
        self.slot.is_cautious() && !self.slot.is_counting() && self.slot.may_send()
    }

    /// When something goes that waits for nothing but time: later than `now`, if the pass has sent what may go. What waits
    /// for its turn waits for somebody.
    pub(crate) fn opens(&self) -> Option<Instant> {
        if !self.counts() && !self.slot.has_next() {
            return None;
        }
        if self.is_held() {
            return self.held_until;
        }
        if self.room() > 0 {
            return None;
        }
        if self.breaker.room(self.most, self.slot.in_flight(), self.now) == 0 {
            return self.breaker.next_room(self.now);
        }
        self.rate.and_then(|rate| rate.next(self.now))
    }
}
