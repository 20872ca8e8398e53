//! What operators ask and decide: questions, filters and answers as structs.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error};
use uuid::Uuid;

use super::sealed::Sealed;
use crate::envelope::{Envelope, Timestamp};
use crate::lane::Lane;
use crate::older::by_major;
use crate::progress::Progress;
use crate::tables::Tables;

/// The statements behind what operators ask and do. Operators write only what a dead letter becomes; all progress is
/// its owner's.
pub trait Operate: Database + Sealed {
    /// Every slot of every registered consumer, by name and slot.
    fn consumers(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<ConsumerRow>, Error>> + Send;

    /// How much each slot has before it, by name and slot; events are counted up to `cap`.
    fn lag(
        conn: &mut Self::Connection,
        tables: &Tables,
        cap: u32,
    ) -> impl Future<Output = Result<Vec<Lag>, Error>> + Send;

    /// One page of dead letters, newest failure first.
    fn dead_letters(
        conn: &mut Self::Connection,
        tables: &Tables,
        filter: &LetterFilter,
        before: Option<&LetterCursor>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;

    /// How many dead letters there are, by consumer, reason and state.
    fn dead_letter_counts(
        conn: &mut Self::Connection,
        tables: &Tables,
        filter: &LetterFilter,
    ) -> impl Future<Output = Result<Vec<LetterCount>, Error>> + Send;

    /// The lowest dead letters behind a key, by event and consumer.
    fn dead_letter_keys(
        conn: &mut Self::Connection,
        tables: &Tables,
        filter: &LetterFilter,
        after: Option<&LetterKey>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<AgedKey>, Error>> + Send;

    /// Decides about those of the letters for which [`Decision`] allows it, and returns them. Of two operators who
    /// decide about one letter at once, one gets it.
    fn decide(
        conn: &mut Self::Connection,
        tables: &Tables,
        keys: &[LetterKey],
        decision: Decision,
        by: Option<&str>,
    ) -> impl Future<Output = Result<Vec<LetterKey>, Error>> + Send;

    /// The event with this id.
    fn event(
        conn: &mut Self::Connection,
        tables: &Tables,
        id: i64,
        with_payload: bool,
    ) -> impl Future<Output = Result<Option<EventRow>, Error>> + Send;

    /// The ids of the events with this `event_id`, lowest first, at most ten: among those created between the two
    /// times, or among all.
    fn event_ids(
        conn: &mut Self::Connection,
        tables: &Tables,
        event_id: Uuid,
        created: Option<(Timestamp, Timestamp)>,
    ) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;

    /// One page of events, newest first, without payloads.
    fn events(
        conn: &mut Self::Connection,
        tables: &Tables,
        filter: &EventFilter,
        before: Option<i64>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<EventRow>, Error>> + Send;

    /// One page of all events with their payloads, by id, behind an id.
    fn stored(
        conn: &mut Self::Connection,
        tables: &Tables,
        after: i64,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<Stored>, Error>> + Send;

    /// The event types among the newest 1,000 events, each with the majors that they were published in, older forms
    /// included.
    fn published_majors(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<(String, u32)>, Error>> + Send;

    /// Where one id stands with every slot of every consumer, in one snapshot. `lane` is the key of its aggregate's
    /// lane, if it is in one.
    fn standing(
        conn: &mut Self::Connection,
        tables: &Tables,
        id: i64,
        lane: Option<&str>,
    ) -> impl Future<Output = Result<Standing, Error>> + Send;

    /// The transactions that may still commit an event which is not visible. None where a database has one writer at a
    /// time.
    fn writers(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<Writer>, Error>> + Send;
}

/// A stored event, as far as its payloads are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its place.
    pub id: i64,
    /// What happened.
    pub event_type: String,
    /// The major of `payload`.
    pub schema_version: u32,
    /// The payload, as the database writes it.
    pub payload: String,
    /// Payloads of older majors: the text of a JSON object from major to payload.
    pub older_payloads: Option<String>,
    /// The lane that it waits in, if it waits and the consumer keeps order.
    pub lane: Lane,
}

impl Stored {
    /// Every payload of the event, by its major.
    #[must_use]
    pub fn payloads(&self) -> BTreeMap<u32, &str> {
        let older = by_major(self.older_payloads.as_deref()).into_iter();
        let mut payloads: BTreeMap<u32, &str> =
            older.map(|(major, payload)| (major, payload.get())).collect();
        payloads.insert(self.schema_version, &self.payload);
        payloads
    }
}

/// A slot of a consumer, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRow {
    /// The consumer.
    pub name: String,
    /// The slot, from 0.
    pub slot: i32,
    /// How many slots the consumer has.
    pub slots: i32,
    /// The owner, if a lease is running.
    pub owner: Option<String>,
    /// How long the lease runs from now on; zero without an owner.
    pub lease_for: Duration,
    /// Who asks for the slot, so that nobody else may claim it now.
    pub wanted: Option<String>,
    /// The consumer's pause, if it is paused.
    pub paused: Option<PauseState>,
    /// The consumer's failures in a row.
    pub attempts: u32,
    /// Its last failure.
    pub last_error: Option<String>,
    /// The stored configuration: filter, pins and ordering as JSON text.
    pub config: String,
    /// Whether retention waits for this consumer.
    pub required_for_retention: bool,
    /// When it was registered.
    pub registered_at: Timestamp,
    /// What is settled.
    pub settled: Progress,
    /// How many lanes of the consumer wait, over all its slots.
    pub stalled_lanes: u64,
    /// How many of them are blocked by a dead letter.
    pub blocked_lanes: u64,
    /// How many dead letters of the consumer are in state `dead`.
    pub dead_letters: u64,
    /// The relays that run now and can run it with its configuration.
    pub able_relays: Vec<String>,
    /// The relays that run now and know it with another configuration.
    pub other_relays: Vec<String>,
}

/// A consumer's pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseState {
    /// Until when.
    pub until: Timestamp,
    /// How long from now on.
    pub length: Duration,
    /// `breaker` or `operator`.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What a slot has before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lag {
    /// The consumer.
    pub consumer: String,
    /// The slot.
    pub slot: i32,
    /// Stored events that the slot has not settled, at most as many as were to be counted. Those of other slots are
    /// among them until the slot has read past them. Events that wait in a stalled lane are not.
    pub unsettled: u64,
    /// How long ago the oldest event was created that is due and not delivered, in a stalled lane or not.
    pub oldest: Option<Duration>,
}

/// Which dead letters. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// Of this consumer.
    pub consumer: Option<String>,
    /// Whose event is of this type.
    pub event_type: TypeFilter,
    /// Dead for this reason.
    pub reason: Option<String>,
    /// In this state.
    pub state: Option<LetterState>,
    /// Whose event belongs to this tenant.
    pub tenant_id: Option<Uuid>,
    /// Whose event is about this kind of aggregate.
    pub aggregate_type: Option<String>,
    /// Whose event is about an aggregate with this id.
    pub aggregate_id: Option<String>,
    /// That failed at this time or later.
    pub failed_from: Option<Timestamp>,
    /// That failed before this time.
    pub failed_until: Option<Timestamp>,
    /// Of these events; empty = of any.
    pub ids: Vec<i64>,
    /// Acknowledged or not.
    pub acknowledged: Option<bool>,
}

/// Which event types.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TypeFilter {
    /// Every type.
    #[default]
    Any,
    /// This type.
    Exact(String),
    /// Types that begin with this text.
    Prefix(String),
}

impl TypeFilter {
    /// The exact type, or nothing.
    pub(crate) fn exact(&self) -> Option<&str> {
        if let Self::Exact(text) = self { Some(text) } else { None }
    }

    /// The prefix, or nothing.
    pub(crate) fn prefix(&self) -> Option<&str> {
        if let Self::Prefix(text) = self { Some(text) } else { None }
    }
}

/// What has become of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterState {
    /// Nobody has decided.
    Dead,
    /// To be delivered once more; the owner has not done it yet.
    Replay,
    /// Delivered after all.
    Replayed,
    /// Given up by an operator.
    Discarded,
    /// The consumer was set back to before the event.
    Reset,
}

impl LetterState {
    /// Every state.
    pub const ALL: [Self; 5] = [Self::Dead, Self::Replay, Self::Replayed, Self::Discarded, Self::Reset];

    /// The text in the table.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Replay => "replay",
            Self::Replayed => "replayed",
            Self::Discarded => "discarded",
            Self::Reset => "reset",
        }
    }
}

impl std::fmt::Display for LetterState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for LetterState {
    type Err = UnknownLetterState;

    fn from_str(text: &str) -> Result<Self, UnknownLetterState> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| UnknownLetterState(text.to_owned()))
    }
}

/// A text that names no state of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no state of a dead letter; use dead, replay, replayed, discarded or reset")]
pub struct UnknownLetterState(String);

/// The name of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterKey {
    /// The event's id.
    pub id: i64,
    /// The consumer for which it is dead.
    pub consumer: String,
}

/// A dead letter's name and the age of its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgedKey {
    /// The letter.
    pub key: LetterKey,
    /// How long ago its event was created; `None` when the event is not stored any more.
    pub age: Option<Duration>,
}

/// Where a page of dead letters ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterCursor {
    /// When the last one failed.
    pub failed_at: Timestamp,
    /// Its name.
    pub key: LetterKey,
}

/// What becomes of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// `dead` to `replay`, if the event is still stored; an acknowledgement is taken back.
    Replay,
    /// `dead` to `discarded`.
    Discard,
    /// Retention may delete the event: of a letter that is `dead` or `discarded` and not acknowledged.
    Acknowledge,
}

/// How many dead letters of a kind there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterCount {
    /// The consumer.
    pub consumer: String,
    /// As [`DeadReason::as_str`](super::DeadReason::as_str).
    pub reason: String,
    /// What has become of them.
    pub state: LetterState,
    /// How many.
    pub letters: u64,
    /// How many of them are acknowledged.
    pub acknowledged: u64,
}

/// A dead letter, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The consumer for which the event is dead.
    pub consumer: String,
    /// The event's id.
    pub event_id: i64,
    /// As [`DeadReason::as_str`](super::DeadReason::as_str).
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it was to be tried.
    pub max_attempts: u32,
    /// What went wrong.
    pub last_error: String,
    /// When it died, the last time.
    pub failed_at: Timestamp,
    /// When an operator allowed retention to delete its event.
    pub acknowledged_at: Option<Timestamp>,
    /// What has become of it.
    pub state: LetterState,
    /// When an operator decided.
    pub decided_at: Option<Timestamp>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// Its event; `None` when it is not stored any more.
    pub event: Option<LetterEvent>,
}

impl DeadLetter {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> LetterKey {
        LetterKey { id: self.event_id, consumer: self.consumer.clone() }
    }

    /// Where a page ends that ends with it.
    #[must_use]
    pub fn cursor(&self) -> LetterCursor {
        LetterCursor { failed_at: self.failed_at, key: self.key() }
    }
}

/// What a list of dead letters says of the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterEvent {
    /// The key by which consumers deduplicate.
    pub event_id: Uuid,
    /// Its type.
    pub event_type: String,
    /// Its major.
    pub schema_version: u32,
    /// The tenant.
    pub tenant_id: Option<Uuid>,
    /// The kind of aggregate.
    pub aggregate_type: String,
    /// The aggregate's id.
    pub aggregate_id: Option<String>,
    /// When the writing transaction began.
    pub created_at: Timestamp,
}

/// Which events. The default is all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// About this kind of aggregate.
    pub aggregate_type: Option<String>,
    /// About an aggregate with this id.
    pub aggregate_id: Option<String>,
    /// Of this operation.
    pub correlation_id: Option<Uuid>,
    /// Of this tenant.
    pub tenant_id: Option<Uuid>,
    /// Of this type.
    pub event_type: TypeFilter,
    /// Created at this time or later.
    pub created_from: Option<Timestamp>,
    /// Created before this time.
    pub created_until: Option<Timestamp>,
    /// As recorded: `pending`, `dispatched`, `failed` or `skipped`.
    pub status: Option<String>,
}

/// A stored event, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// The event; its payloads are empty unless they were asked for.
    pub envelope: Envelope,
    /// The majors of its older payloads, lowest first.
    pub older_majors: Vec<u32>,
    /// As recorded: `pending`, `dispatched`, `failed` or `skipped`.
    pub status: String,
    /// Attempts of the consumer that failed, as recorded.
    pub attempts: u32,
    /// Its last failure, as recorded.
    pub last_error: Option<String>,
    /// When it was dispatched, as recorded.
    pub dispatched_at: Option<Timestamp>,
    /// From when on it may be delivered.
    pub available_at: Timestamp,
    /// The role that wrote it, where a database knows roles.
    pub created_by: Option<String>,
}

/// The keys of older payloads as numbers, lowest first.
pub(super) fn majors(keys: &[String]) -> Vec<u32> {
    let mut majors: Vec<u32> = keys.iter().filter_map(|key| key.parse().ok()).collect();
    majors.sort_unstable();
    majors
}

impl EventRow {
    /// Whether it was published to be delivered later: such an event is a lane of its own.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.available_at > self.envelope.created_at
    }
}

/// Where one id stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The event's status as recorded; `None` when no event with this id is visible.
    pub status: Option<String>,
    /// The last id drawn.
    pub last_id: i64,
    /// Every slot of every consumer, by name and slot.
    pub slots: Vec<SlotStanding>,
}

/// Where one id stands with one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotStanding {
    /// Who owns the slot, how far it is, and what hinders it.
    pub consumer: ConsumerRow,
    /// Whether the slot has given the id up as rolled back.
    pub void: bool,
    /// Whether the consumer began behind the id: it was settled without having been looked at.
    pub skipped: bool,
    /// The stall row of the event's lane that covers the id.
    pub stall: Option<StallState>,
    /// The dead letter of that row's head, if it has one.
    pub head_letter: Option<LetterSummary>,
    /// The stall row of the event alone.
    pub single: Option<StallState>,
    /// The event's own dead letter.
    pub letter: Option<LetterSummary>,
}

/// A lane that waits, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallState {
    /// The first event of the lane that is not settled.
    pub head_id: i64,
    /// Failures of the head so far.
    pub attempts: u32,
    /// How long until the head is due; zero = now.
    pub due_in: Duration,
    /// Whether a dead head blocks the lane until an operator acts.
    pub blocked: bool,
    /// How long the head has waited for its schema, if that is why it waits.
    pub schema_missing_for: Option<Duration>,
    /// What went wrong.
    pub last_error: Option<String>,
}

/// A dead letter in few words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterSummary {
    /// As [`DeadReason::as_str`](super::DeadReason::as_str).
    pub reason: String,
    /// What has become of it.
    pub state: LetterState,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it was to be tried.
    pub max_attempts: u32,
    /// What went wrong.
    pub last_error: String,
    /// When it died, the last time.
    pub failed_at: Timestamp,
    /// Who decided.
    pub decided_by: Option<String>,
}

/// A transaction that may still commit an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The server process; `None` for a prepared transaction.
    pub pid: Option<i32>,
    /// What the session calls itself, or the prepared transaction's name.
    pub name: String,
    /// What it does, as the server says: `active`, `idle in transaction`, `prepared`.
    pub state: String,
    /// How long its transaction is open.
    pub open_for: Duration,
}
