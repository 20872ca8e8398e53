//! Progress: claiming and settling; every write of an owner behind its fence.

use std::time::Duration;

use uuid::Uuid;

use crate::lane::{Lane, slot_of};
use crate::progress::Progress;

/// Who wants which slot.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot, from 0.
    pub slot: i32,
    /// The relay's name.
    pub owner: &'a str,
    /// How long the lease runs.
    pub lease: Duration,
    /// The text that this relay registered as [`Registration::config`](super::Registration::config). A relay that still has the configuration from
    /// before a deployment must not go on with it.
    pub config: &'a str,
    /// Over how many slots this relay spreads the consumer.
    pub slots: u16,
}

/// What claiming a slot came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The slot is the caller's.
    Claimed(Box<Claimed>),
    /// Somebody else's lease is running.
    Taken,
    /// Another relay has registered the consumer with another configuration since.
    OtherConfig,
    /// The consumer has another number of slots: it has to be resized first.
    OtherSlots,
    /// Somebody asks for the slot, to change the consumer.
    Wanted,
    /// There is no such consumer, or it has no such slot.
    Unregistered,
}

/// A claimed slot: what its new owner must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// What every later write of this owner carries.
    pub fence: Fence,
    /// What is settled.
    pub settled: Progress,
    /// Dead gaps: ids in `settled` that had no row when they were given up.
    pub void: Progress,
    /// How long the consumer is paused from now on, if it is.
    pub paused_for: Option<Duration>,
    /// Whether an operator paused it, last: then its destination may well be up.
    pub held: bool,
    /// The consumer's failures in a row, for its pause.
    pub attempts: u32,
    /// Whether the owner before gave the slot back; otherwise its lease ended.
    pub clean: bool,
    /// The slot's waiting lanes; the first of them, if there are very many.
    pub stalls: Vec<StallRow>,
    /// Where the others begin: [`StallRead::after`].
    pub more_stalls: Option<String>,
    /// What must hold before anything is read.
    pub checks: Checks,
}

/// How many stall rows one statement reads, of all slots: so few that it ends soon, whatever the machine.
pub(super) const STALL_PAGE: u32 = 5_000;

/// Which stall rows of a slot to read: those that its claim has left over.
#[derive(Debug, Clone, Copy)]
pub struct StallRead<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot, from 0.
    pub slot: i32,
    /// How many slots the consumer has.
    pub slots: u16,
    /// The key of the lane behind which to begin.
    pub after: &'a str,
}

/// Stall rows of a slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StallPage {
    /// By their keys.
    pub stalls: Vec<StallRow>,
    /// Where the next page begins; `None` = this was the last one.
    pub more: Option<String>,
}

/// The slot of a stall row in a consumer with this many slots. `row_lane` is the lane of its head's row, which decides for
/// an event that waits alone; slot 0 takes those whose row is gone, and keys that no release knows, to report them.
pub(super) fn stall_slot(key: &str, row_lane: Option<Lane>, slots: u16) -> i32 {
    let lane = match Lane::parse(key) {
        Some(Lane::Single(_)) => row_lane,
        aggregate => aggregate,
    };
    lane.map_or(0, |lane| slot_of(&lane, slots))
}

/// The identity of an owner's next write. A write whose fence does not match changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lease's epoch; never reused.
    pub epoch: i64,
    /// Counts the owner's transactions.
    pub rev: i64,
    /// Where the row lies, so that a held snapshot does not make finding it slow; empty where a database has no such
    /// thing.
    pub ctid: String,
}

/// What must hold for an owner to trust its reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// The id sequence hands out ids one by one (CACHE 1).
    pub sequence_uncached: bool,
    /// The last id drawn; never below the settled ids, unless the server lost or restored something.
    pub last_id: i64,
    /// No row security hides events from this role.
    pub sees_all_rows: bool,
    /// This server accepts writes.
    pub primary: bool,
    /// The event at the id where an owner before was is the one that was read there, or none; another one has its id a
    /// second time.
    pub anchored: bool,
}

/// A lane that waits, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallRow {
    /// The lane's key.
    pub lane: String,
    /// The first event of the lane that is not settled.
    pub head_id: i64,
    /// Failures of the head so far.
    pub attempts: u32,
    /// How long until the head is due, by the database's clock; zero = now.
    pub due_in: Duration,
    /// Whether a dead head blocks the lane until an operator acts.
    pub blocked: bool,
    /// Whether the row covers its head alone.
    pub single: bool,
    /// How long the head has waited for its schema, if that is why it waits.
    pub schema_missing_for: Option<Duration>,
}

/// A lane that waits, as written. Values are absolute, so that writing them twice does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stall {
    /// The lane's key.
    pub lane: String,
    /// The first event of the lane that is not settled.
    pub head_id: i64,
    /// Failures of the head so far.
    pub attempts: u32,
    /// When the head is due.
    pub due: Due,
    /// Whether a dead head blocks the lane until an operator acts.
    pub blocked: bool,
    /// Whether the row covers its head alone.
    pub single: bool,
    /// Whether the head waits for its schema. The moment it began to wait is kept while this stays true.
    pub schema_missing: bool,
    /// What went wrong, without payload or secret.
    pub last_error: Option<String>,
}

/// When a stalled lane may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the write, by the database's clock.
    In(Duration),
    /// At the event's own `available_at`.
    AtAvailable,
    /// As it is stored.
    Unchanged,
}

/// One transaction of an owner.
#[derive(Debug, Clone)]
pub struct Settlement<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot.
    pub slot: i32,
    /// Whose write it is.
    pub fence: &'a Fence,
    /// How long the lease runs from this write on.
    pub lease: Duration,
    /// The row at the owner's high-water mark as it was read; the write is refused when it is gone or another, unless
    /// its id is settled. `None` until a row was read.
    pub anchor: Option<(i64, Uuid)>,
    /// The whole set of settled ids.
    pub settled: &'a Progress,
    /// The whole set of dead gaps.
    pub void: &'a Progress,
    /// Pause the consumer for this long from now on (zero ends a pause); `None` = leave it.
    pub pause: Option<Pause<'a>>,
    /// Stall rows to insert or replace.
    pub stalls: &'a [Stall],
    /// Keys of stall rows to delete.
    pub resumed: &'a [String],
    /// Events that are dead now.
    pub dead: &'a [NewDeadLetter],
    /// What has become of dead letters that were to go again. One that is not in the state that the result begins from
    /// stays as it is.
    pub replays: &'a [ReplayResult],
    /// Give the slot back.
    pub release: bool,
}

impl Settlement<'_> {
    /// Whether the fenced update is all there is to write.
    pub(crate) fn is_one_row(&self) -> bool {
        self.stalls.is_empty() && self.resumed.is_empty() && self.dead.is_empty() && self.replays.is_empty()
    }
}

/// A pause of a whole consumer, because its destination is down.
#[derive(Debug, Clone, Copy)]
pub struct Pause<'a> {
    /// From now on; zero ends the pause.
    pub length: Duration,
    /// Failures in a row.
    pub attempts: u32,
    /// Why, without secret.
    pub reason: Option<&'a str>,
}

/// What a fenced write came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Everything was written.
    Done {
        /// What the next write carries.
        fence: Fence,
        /// How long the consumer is paused from now on, if it is.
        paused_for: Option<Duration>,
        /// As [`Claimed::held`].
        held: bool,
        /// Somebody asks for the slot: drain and give it back.
        wanted: bool,
    },
    /// Nothing was written.
    Refused {
        /// The row as it is now; `None` = it is gone.
        now: Option<Refusal>,
    },
}

/// The row that a fenced write did not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its fence now.
    pub fence: Fence,
    /// Whether the owner's anchor is still there (or its id settled).
    pub anchored: bool,
}

/// A waiting lane and how long until it is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueStall {
    /// The lane's key.
    pub lane: String,
    /// Zero = due.
    pub due_in: Duration,
}

/// An event to write down as dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDeadLetter {
    /// The event's id.
    pub event_id: i64,
    /// The closed list of reasons.
    pub reason: DeadReason,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it may be tried.
    pub max_attempts: u32,
    /// What went wrong, without payload or secret.
    pub last_error: String,
}

/// Which dead letters to look for that are to go again.
#[derive(Debug, Clone, Copy)]
pub struct ReplayRead<'a> {
    /// The consumer.
    pub consumer: &'a str,
    /// The slot, from 0.
    pub slot: i32,
    /// How many slots the consumer has.
    pub slots: u16,
    /// Only those of events with ids above this one.
    pub after: i64,
    /// The most letters to return, 1 or more.
    pub limit: u32,
}

impl ReplayRead<'_> {
    /// How many letters of all slots are looked at: about as many as hold `limit` of one.
    pub(crate) fn looks_at(&self) -> u32 {
        const MOST: u32 = 10_000;
        self.limit.saturating_mul(u32::from(self.slots.max(1))).min(MOST.max(self.limit))
    }

    /// The page out of the letters that were looked at, each with the lane of its event's row; slot 0 has those whose
    /// row is gone.
    pub(crate) fn page(&self, letters: &[(ReplayRequest, Option<Lane>)]) -> ReplayPage {
        let mut more = (letters.len() >= self.looks_at() as usize).then(|| letters.last()).flatten();
        let own =
            |lane: &Option<Lane>| lane.as_ref().map_or(0, |lane| slot_of(lane, self.slots)) == self.slot;
        let own: Vec<_> = letters.iter().filter(|(_, lane)| own(lane)).take(self.limit as usize).collect();
        if own.len() >= self.limit as usize {
            more = own.last().copied();
        }
        ReplayPage {
            requests: own.into_iter().map(|(request, _)| *request).collect(),
            more: more.map(|(request, _)| request.event_id),
        }
    }
}

/// Dead letters of one slot that are to go again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayPage {
    /// By their ids.
    pub requests: Vec<ReplayRequest>,
    /// Behind which id there may be more; `None` = there are no more.
    pub more: Option<i64>,
}

/// A dead letter that an operator wants to go again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The event's id.
    pub event_id: i64,
    /// How often it was tried.
    pub attempts: u32,
}

/// A blocked lane whose dead head an operator has discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscardedHead {
    /// The lane's key.
    pub lane: String,
    /// The dead event.
    pub head_id: i64,
}

/// What has become of a dead letter that was to go again. A result begins from state `replay`, or, when the attempt was
/// `counted` before, from the letter as [`Counted`](Self::Counted) left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayResult {
    /// The sink has it: `replayed`.
    Delivered {
        /// The event's id.
        event_id: i64,
        /// How often it was tried.
        attempts: u32,
        /// The attempt was written before it was made.
        counted: bool,
    },
    /// It is dead again.
    Failed {
        /// What is written down.
        letter: NewDeadLetter,
        /// How many attempts were written before the last was made, if it was: the letter is found by them.
        counted: Option<u32>,
    },
    /// The attempt is about to be made, and may end the process: dead until it is known what came of it.
    Counted {
        /// The event's id.
        event_id: i64,
        /// How often it was tried, with the attempt to come.
        attempts: u32,
    },
    /// The attempt that was counted was not made: to go again as before.
    Recalled {
        /// The event's id.
        event_id: i64,
        /// How often it was tried, without that attempt.
        attempts: u32,
    },
    /// It cannot go: dead for the same reason as before, after as many attempts.
    Refused {
        /// The event's id.
        event_id: i64,
        /// Why.
        error: String,
    },
}

impl ReplayResult {
    /// The event's id.
    #[must_use]
    pub const fn event_id(&self) -> i64 {
        match self {
            Self::Delivered { event_id, .. }
            | Self::Counted { event_id, .. }
            | Self::Recalled { event_id, .. }
            | Self::Refused { event_id, .. }
            | Self::Failed { letter: NewDeadLetter { event_id, .. }, .. } => *event_id,
        }
    }

    /// As columns of the statement that writes it.
    pub(crate) fn columns(&self) -> ReplayColumns<'_> {
        const ENDED: &str = "the process ended during the attempt";
        let dead = ReplayColumns {
            event_id: self.event_id(),
            state: "dead",
            counted: None,
            reason: None,
            attempts: None,
            max_attempts: None,
            last_error: None,
        };
        match self {
            Self::Delivered { attempts, counted, .. } => ReplayColumns {
                state: "replayed",
                counted: counted.then_some(*attempts),
                attempts: Some(*attempts),
                ..dead
            },
            Self::Failed { letter, counted } => ReplayColumns {
                counted: *counted,
                reason: Some(letter.reason.as_str()),
                attempts: Some(letter.attempts),
                max_attempts: Some(letter.max_attempts),
                last_error: Some(&letter.last_error),
                ..dead
            },
            Self::Counted { attempts, .. } => {
                ReplayColumns { attempts: Some(*attempts), last_error: Some(ENDED), ..dead }
            }
            Self::Recalled { attempts, .. } => ReplayColumns {
                state: "replay",
                counted: Some(attempts.saturating_add(1)),
                attempts: Some(*attempts),
                ..dead
            },
            Self::Refused { error, .. } => ReplayColumns { last_error: Some(error), ..dead },
        }
    }
}

/// A [`ReplayResult`] as its statement takes it; `None` leaves a column as it is.
#[cfg_attr(feature = "sqlite", derive(serde::Serialize))]
pub(crate) struct ReplayColumns<'a> {
    pub(crate) event_id: i64,
    pub(crate) state: &'static str,
    /// The attempts of the dead letter that it begins from; `None` = it begins from state `replay`.
    pub(crate) counted: Option<u32>,
    pub(crate) reason: Option<&'static str>,
    pub(crate) attempts: Option<u32>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) last_error: Option<&'a str>,
}

/// Why an event is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// The payload is not valid under its schema.
    SchemaViolation,
    /// No schema for its type and major appeared in time.
    SchemaMissing,
    /// The consumer pins a major that the event does not carry.
    MajorMissing,
    /// The sink refused it for good.
    Rejected,
    /// It failed as often as the policy allows.
    Attempts,
    /// The row is no event that can be delivered.
    Undecodable,
}

impl DeadReason {
    /// The text in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SchemaViolation => "schema_violation",
            Self::SchemaMissing => "schema_missing",
            Self::MajorMissing => "major_missing",
            Self::Rejected => "rejected",
            Self::Attempts => "attempts",
            Self::Undecodable => "undecodable",
        }
    }
}

impl std::fmt::Display for DeadReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
