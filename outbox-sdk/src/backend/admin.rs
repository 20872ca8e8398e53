//! Administration: who runs what, and the changes that need a consumer at rest.
//!
//! A change of a consumer is one transaction that takes the exclusive admin lock first. It looks at the leases itself:
//! while somebody owns a slot it writes nothing, unless it is forced. Whoever wants one asks for the slots first
//! ([`Administer::want`]) and waits until their owners have drained and given them back.

use std::time::Duration;

use sqlx::{Database, Error};

use crate::envelope::Timestamp;
use crate::injection::planted;
use crate::progress::Progress;
use crate::tables::Tables;

/// What relays and operators do with consumers as a whole. A part of [`Backend`](super::Backend).
pub trait Administer: Database {
    /// Registers consumers, in one transaction under the exclusive admin lock. Nothing is written when the answer
    /// holds a [`Registered::StartNeeded`]. Deletes what relays left behind that ended over an hour ago.
    fn register(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumers: &[Registration],
    ) -> impl Future<Output = Result<Vec<Registered>, Error>> + Send;

    /// Writes down that the relay is alive and what it can run, and answers with every slot of every consumer, by name
    /// and slot; one statement.
    fn look(
        conn: &mut Self::Connection,
        tables: &Tables,
        heartbeat: &Heartbeat<'_>,
    ) -> impl Future<Output = Result<Vec<SlotView>, Error>> + Send;

    /// The relay has ended: nobody counts on it any more.
    fn leave(
        conn: &mut Self::Connection,
        tables: &Tables,
        relay: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Asks the owners of a consumer's slots to drain and give them back, and keeps everybody from claiming them for
    /// `hold`. A `hold` of zero takes back what `by` asked for. Answers with the slots, none when there is no such
    /// consumer (or, taking back, nothing that `by` asked for).
    fn want(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        by: &str,
        hold: Duration,
    ) -> impl Future<Output = Result<Vec<SlotOwner>, Error>> + Send;

    /// Changes a consumer; one transaction, as the head of this file says. Every row that is left gets a new epoch, so
    /// that whatever an owner from before still writes changes nothing, and is free to be claimed.
    fn change(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        change: &Change<'_>,
        force: bool,
    ) -> impl Future<Output = Result<Changed, Error>> + Send;

    /// Pauses all slots of a consumer for `length` from now on, or until [`resume`](Self::resume): its owners send
    /// nothing from their next write on. `false` = there is no such consumer.
    fn pause(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        length: Option<Duration>,
        reason: &str,
        by: PausedBy,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Ends a consumer's pause, whoever paused it. `false` = there is no such consumer.
    fn resume(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
    ) -> impl Future<Output = Result<bool, Error>> + Send;
}

/// Who pauses a consumer for longer than its breaker would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PausedBy {
    /// An operator.
    Operator,
    /// Its receiver, by saying that it takes no more events.
    Receiver,
}

impl PausedBy {
    /// As it is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Receiver => "receiver",
        }
    }
}

/// A consumer to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The consumer's name.
    pub name: String,
    /// Where it begins when it is new.
    pub start: Option<Start>,
    /// Filter, pins, ordering and slots as JSON text: stored with the consumer, for operators and for
    /// [`ClaimRequest::config`](super::ClaimRequest::config).
    pub config: String,
    /// Over how many slots a new consumer is spread; 1 or more. One that exists keeps its slots until
    /// [`Change::Resize`].
    pub slots: u16,
    /// Whether retention keeps whatever this consumer has not settled, also when somebody would remove it.
    pub required_for_retention: bool,
}

/// Where a new consumer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first stored event.
    Earliest,
    /// With what becomes visible after the registration.
    Now,
    /// With the first event whose transaction began at or after this time.
    At(Timestamp),
}

/// What registering a consumer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registered {
    /// It was there; its configuration was stored.
    Existing,
    /// It is new.
    New,
    /// It is new, other consumers are registered already, and nobody said where it starts. Nothing was written.
    StartNeeded {
        /// How many events are stored, as the database estimates or counts them.
        stored_events: u64,
    },
}

/// A relay's sign of life.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat<'a> {
    /// The relay's name.
    pub relay: &'a str,
    /// For how long it counts as alive; zero = it only looks, and nobody is to count on it.
    pub lease: Duration,
    /// What it can run: a JSON object, consumer's name to the text registered as [`Registration::config`].
    pub consumers: &'a str,
}

/// A slot as a relay sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotView {
    /// The consumer.
    pub consumer: String,
    /// The slot, from 0.
    pub slot: i32,
    /// How many slots the consumer has.
    pub slots: u16,
    /// Who owns it, or owned it and did not give it back.
    pub owner: Option<String>,
    /// How long the owner's lease still runs; zero = it is over.
    pub lease_left: Duration,
    /// Somebody asks for it: nobody may claim it now.
    pub wanted: bool,
    /// Which live relays can run the consumer as it is registered, the one that looks included if it can; by name.
    pub runnable_by: Vec<String>,
}

/// Who owns a slot now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotOwner {
    /// The slot, from 0.
    pub slot: i32,
    /// The owner, while its lease runs.
    pub owner: Option<String>,
    /// How long the lease still runs; zero without an owner.
    pub lease_left: Duration,
}

/// A change of a consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Spreads its lanes over another number of slots, keeping progress and order.
    Resize {
        /// How many; 1 or more.
        slots: u16,
    },
    /// Delivers again what lies at or behind a point.
    Reset(ResetTo),
    /// Forgets the consumer and its waiting lanes. Its dead letters stay.
    Remove {
        /// Also when it is required for retention.
        even_if_required: bool,
    },
    /// Gives it another name, with its progress, waiting lanes and dead letters.
    Rename {
        /// The new name; neither a consumer nor a dead letter may have it.
        to: &'a str,
    },
}

/// Where a consumer goes on after a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    /// With the event of this id, or the first one after it.
    Id(i64),
    /// With the first event whose transaction began at or after this time.
    Time(Timestamp),
}

/// What changing a consumer came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is changed.
    Done {
        /// Some slot's lease was running: what its owner had in flight may come twice.
        forced: bool,
    },
    /// There is no such consumer.
    Unregistered,
    /// Somebody owns these slots. Nothing was written.
    Owned(Vec<SlotOwner>),
    /// It is required for retention. Nothing was written.
    Required,
    /// The new name belongs to another consumer, or to dead letters of an earlier one. Nothing was written.
    NameTaken,
}

/// A slot's progress before its consumer is resized.
#[derive(Debug, Clone)]
pub(super) struct SlotProgress {
    pub(super) settled: Progress,
    pub(super) void: Progress,
}

/// The progress of a consumer that gets another number of slots: what each slot has settled of its own lanes, since
/// that is what was delivered. Most ids are settled by all slots; only for the others somebody must know their lanes.
pub(super) struct Merge {
    slots: Vec<SlotProgress>,
    settled: Progress,
    void: Progress,
}

impl Merge {
    /// Begins with what any slot has settled or given up: right for every id on which all slots agree, and for those
    /// without a row.
    pub(super) fn of(slots: Vec<SlotProgress>) -> Self {
        let (mut settled, mut void) = (Progress::new(), Progress::new());
        for slot in &slots {
            settled.union(&slot.settled);
            void.union(&slot.void);
        }
        Self { slots, settled, void }
    }

    /// The ranges `[from, until)` of ids that some slots have settled, or given up, and others not.
    pub(super) fn disputed(&self) -> Vec<(i64, i64)> {
        let mut disputed = Progress::new();
        for slot in &self.slots {
            disputed.union(&self.settled.difference(&slot.settled));
            disputed.union(&self.void.difference(&slot.void));
        }
        disputed.ranges().collect()
    }

    /// The event's row has this slot: only what that one has settled or given up counts. A row that came late, which
    /// its slot has delivered, must not be taken for one that others still wait for.
    pub(super) fn belongs(&mut self, id: i64, slot: i32) {
        let owner = usize::try_from(slot).ok().and_then(|slot| self.slots.get(slot));
        if let Some(owner) = owner {
            if !planted("resize-keeps-foreign") && !owner.settled.contains(id) {
                self.settled.remove(id);
            }
            if !owner.void.contains(id) {
                self.void.remove(id);
            }
        }
    }

    /// What every new slot begins with: settled, and void.
    pub(super) fn finish(self) -> (Progress, Progress) {
        (self.settled, self.void)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(settled: &[(i64, i64)]) -> SlotProgress {
        let mut progress = Progress::new();
        for &(from, until) in settled {
            progress.insert_range(from, until);
        }
        SlotProgress { settled: progress, void: Progress::new() }
    }

    #[test]
    fn an_id_is_settled_if_the_slot_of_its_lane_settled_it() {
        let mut merge = Merge::of(vec![slot(&[(1, 6)]), slot(&[(1, 3), (5, 9)])]);
        assert_eq!(merge.disputed(), [(3, 5), (6, 9)]);
        // 3 belongs to the slot that settled it, 4 to the other one, 6 has no row, 7 and 8 as 3 and 4.
        for (id, slot) in [(3, 0), (4, 1), (7, 1), (8, 0)] {
            merge.belongs(id, slot);
        }
        let (settled, void) = merge.finish();
        assert_eq!(settled.to_multirange(), "{[1,4),[5,8)}");
        assert!(void.is_empty());
    }

    #[test]
    fn a_dead_gap_with_a_row_is_one_only_for_the_slot_of_its_lane() {
        let mut slots = vec![slot(&[(1, 9)]), slot(&[(1, 9)])];
        slots[0].void = Progress::from_iter([2, 3, 5]);
        slots[1].void = Progress::from_iter([2, 4, 5]);
        let mut merge = Merge::of(slots);
        assert_eq!(merge.disputed(), [(3, 5)]);
        // Both have rows of slot 0, which has delivered 4; 2 and 5 have none as far as anybody knows.
        merge.belongs(3, 0);
        merge.belongs(4, 0);
        assert_eq!(merge.finish().1, Progress::from_iter([2, 3, 5]));
    }

    #[test]
    fn slots_that_agree_need_no_rows() {
        assert_eq!(Merge::of(vec![slot(&[(1, 6)]), slot(&[(1, 6)])]).disputed(), []);
        assert_eq!(Merge::of(vec![slot(&[(1, 6)])]).disputed(), []);
    }
}
