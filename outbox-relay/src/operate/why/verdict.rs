//! From what the tables say of an event and a consumer to what it means, and what to do. No IO.

use std::time::Duration;

use outbox_sdk::backend::{
    ConsumerRow, EventRow, LetterState, LetterSummary, SlotStanding, StallState, Writer,
};
use serde_json::Value;

use crate::consumer::EventPattern;

/// Pauses beyond this have no end but a resume.
const ENDLESS: Duration = Duration::from_secs(50 * 365 * 24 * 3600);

/// Everything that is known.
pub(super) struct Facts<'a> {
    pub(super) id: i64,
    pub(super) event: Option<&'a EventRow>,
    pub(super) slot: &'a SlotStanding,
    pub(super) last_id: i64,
    pub(super) writers: &'a [Writer],
    pub(super) max_attempts: Option<u32>,
}

/// How far an event is for a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It was delivered.
    Delivered,
    /// It was passed over: the consumer began behind it.
    Skipped,
    /// It was passed over: no pattern of the consumer's filter matches its type.
    NotWanted,
    /// It was passed over: the consumer reads this major of its type, and the event does not carry it.
    OtherMajor(u32),
    /// The owner has not settled it: it is not read yet, waits its turn, or is being delivered.
    Waiting,
    /// Published to be delivered later.
    Delayed(Duration),
    /// It failed and is tried again.
    Retrying(Retry),
    /// There is no schema for its type and major, or one that may be wrong; it is delivered when there is a better one.
    SchemaMissing {
        /// Since when.
        waited: Duration,
        /// When it is looked for again.
        next: Duration,
        /// What is wrong, as the relay wrote it down.
        error: Option<String>,
    },
    /// An earlier event of its lane is tried again first.
    Behind {
        /// The earlier event.
        head: i64,
        /// How that one fares.
        retry: Retry,
    },
    /// An earlier event of its lane is dead and blocks the lane.
    Blocked {
        /// The earlier event.
        head: i64,
        /// Why that one is dead, if its letter is there.
        letter: Option<LetterSummary>,
    },
    /// It is dead; `blocks`: and blocks its lane.
    Dead {
        /// Why.
        letter: LetterSummary,
        /// Whether its lane waits for a decision about it.
        blocks: bool,
        /// Its id.
        id: i64,
    },
    /// An operator wants it delivered once more.
    ReplayAsked(LetterSummary),
    /// It was dead and delivered after all.
    Replayed,
    /// It was dead, and an operator gave it up.
    Discarded(LetterSummary),
    /// It was taken for rolled back and came late.
    CameLate,
    /// It is not visible: its transaction may still commit.
    NotCommitted {
        /// What the open transactions are called.
        writers: Vec<Writer>,
    },
    /// It was rolled back: no open transaction can commit it.
    RolledBack,
    /// It was settled, and its row is gone: deleted by retention, or an id that was never committed.
    Gone,
    /// No such id was drawn yet.
    NotDrawn {
        /// The last id drawn.
        last_id: i64,
    },
    /// The consumer is in the configuration and not registered.
    NotRegistered,
}

/// A failed event that is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Attempts that failed.
    pub failed: u32,
    /// How often it may be tried, if a configuration at hand says so.
    pub of: Option<u32>,
    /// How long until the next attempt; zero = it is due.
    pub next: Duration,
    /// The last failure.
    pub last_error: Option<String>,
}

/// What keeps a consumer from going on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hindrance {
    /// The relay that claimed the slot does not run it, because it would not be safe.
    Refused(String),
    /// It is paused.
    Paused {
        /// `breaker` or `operator`.
        by: Option<String>,
        /// For how long from now on; `None` = until it is resumed.
        length: Option<Duration>,
        /// Why.
        reason: Option<String>,
    },
    /// Somebody asks for the slot, so that nobody may claim it now.
    Wanted(String),
    /// No running relay can run it.
    NoRelay,
    /// The relays that run know it with another configuration.
    OtherConfiguration(Vec<String>),
    /// Nobody owns the slot, and these relays could.
    NotOwned(Vec<String>),
}

impl Verdict {
    /// Whether nothing more will happen by itself.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Delivered
                | Self::Skipped
                | Self::NotWanted
                | Self::OtherMajor(_)
                | Self::Replayed
                | Self::Discarded(_)
                | Self::Dead { .. }
                | Self::RolledBack
                | Self::Gone
                | Self::NotDrawn { .. }
                | Self::NotRegistered
        )
    }

    /// The verdict as one word for programs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Skipped => "skipped",
            Self::NotWanted => "not_wanted",
            Self::OtherMajor(_) => "other_major",
            Self::Waiting => "waiting",
            Self::Delayed(_) => "delayed",
            Self::Retrying(_) => "retrying",
            Self::SchemaMissing { .. } => "schema_missing",
            Self::Behind { .. } => "behind",
            Self::Blocked { .. } => "blocked",
            Self::Dead { .. } => "dead",
            Self::ReplayAsked(_) => "replay_asked",
            Self::Replayed => "replayed",
            Self::Discarded(_) => "discarded",
            Self::CameLate => "came_late",
            Self::NotCommitted { .. } => "not_committed",
            Self::RolledBack => "rolled_back",
            Self::Gone => "gone",
            Self::NotDrawn { .. } => "not_drawn",
            Self::NotRegistered => "not_registered",
        }
    }
}

/// How far the event is.
pub(super) fn verdict(facts: &Facts<'_>) -> Verdict {
    let slot = facts.slot;
    let settled = slot.consumer.settled.contains(facts.id);
    let Some(event) = facts.event else { return unseen(facts, settled) };
    if let Some(letter) = &slot.letter
        && let Some(verdict) = by_letter(facts, letter)
    {
        return verdict;
    }
    if let Some(stall) = &slot.single {
        return own_stall(facts, stall, event.is_delayed());
    }
    if let Some(stall) = &slot.stall {
        return match stall.head_id {
            head if head == facts.id => own_stall(facts, stall, false),
            // It waits in the lane for nothing: its turn is to be passed over.
            _ if let Some(passed_over) = passed_over(event, &slot.consumer.config) => passed_over,
            head if stall.blocked => Verdict::Blocked { head, letter: slot.head_letter.clone() },
            head => Verdict::Behind { head, retry: retry(facts, stall) },
        };
    }
    if settled && slot.void {
        return Verdict::CameLate;
    }
    if !settled {
        return Verdict::Waiting;
    }
    if slot.skipped {
        return Verdict::Skipped;
    }
    passed_over(event, &slot.consumer.config).unwrap_or(Verdict::Delivered)
}

/// Of an id that no row is visible for.
fn unseen(facts: &Facts<'_>, settled: bool) -> Verdict {
    if facts.id > facts.last_id {
        Verdict::NotDrawn { last_id: facts.last_id }
    } else if settled && facts.slot.void {
        Verdict::RolledBack
    } else if settled {
        Verdict::Gone
    } else if facts.writers.is_empty() {
        Verdict::RolledBack
    } else {
        Verdict::NotCommitted { writers: facts.writers.to_vec() }
    }
}

fn by_letter(facts: &Facts<'_>, letter: &LetterSummary) -> Option<Verdict> {
    match letter.state {
        LetterState::Dead => {
            let stalls = [&facts.slot.stall, &facts.slot.single];
            let blocks = stalls.into_iter().flatten().any(|stall| stall.head_id == facts.id && stall.blocked);
            Some(Verdict::Dead { letter: letter.clone(), blocks, id: facts.id })
        }
        LetterState::Replay => Some(Verdict::ReplayAsked(letter.clone())),
        LetterState::Replayed => Some(Verdict::Replayed),
        LetterState::Discarded => Some(Verdict::Discarded(letter.clone())),
        // Set back: it is delivered anew, like any other event.
        LetterState::Reset => None,
    }
}

/// Of an event at the head of a stall row.
fn own_stall(facts: &Facts<'_>, stall: &StallState, delayed: bool) -> Verdict {
    if stall.blocked {
        // A head whose letter was decided about is on its way; one without a letter is a row that somebody changed.
        return Verdict::Blocked { head: stall.head_id, letter: facts.slot.head_letter.clone() };
    }
    match stall.schema_missing_for {
        Some(waited) => {
            Verdict::SchemaMissing { waited, next: stall.due_in, error: stall.last_error.clone() }
        }
        None if stall.attempts == 0 && delayed && !stall.due_in.is_zero() => Verdict::Delayed(stall.due_in),
        None if stall.attempts == 0 => Verdict::Waiting,
        None => Verdict::Retrying(retry(facts, stall)),
    }
}

fn retry(facts: &Facts<'_>, stall: &StallState) -> Retry {
    Retry {
        failed: stall.attempts,
        of: facts.max_attempts,
        next: stall.due_in,
        last_error: stall.last_error.clone(),
    }
}

/// Why a consumer with this stored configuration passed the event over, if it did.
fn passed_over(event: &EventRow, config: &str) -> Option<Verdict> {
    let config: Value = serde_json::from_str(config).ok()?;
    let envelope = &event.envelope;
    if let Some(filter) = config["filter"].as_array() {
        let patterns = filter.iter().filter_map(|pattern| pattern.as_str()?.parse::<EventPattern>().ok());
        if !patterns.into_iter().any(|pattern| pattern.matches(&envelope.event_type)) {
            return Some(Verdict::NotWanted);
        }
    }
    let pinned = u32::try_from(config["pins"][&envelope.event_type].as_u64()?).ok()?;
    let carries = pinned == envelope.schema_version || event.older_majors.contains(&pinned);
    (!carries).then_some(Verdict::OtherMajor(pinned))
}

/// What keeps a slot from going on.
pub(in crate::operate) fn hindrances(consumer: &ConsumerRow) -> Vec<Hindrance> {
    let mut found = Vec::new();
    if let Some(error) = &consumer.last_error {
        found.push(Hindrance::Refused(error.clone()));
    }
    if let Some(pause) = &consumer.paused {
        let length = (pause.length < ENDLESS).then_some(pause.length);
        found.push(Hindrance::Paused { by: pause.by.clone(), length, reason: pause.reason.clone() });
    }
    if let Some(wanted) = &consumer.wanted {
        found.push(Hindrance::Wanted(wanted.clone()));
    }
    if consumer.owner.is_none() && consumer.wanted.is_none() {
        found.push(match (&consumer.able_relays[..], &consumer.other_relays[..]) {
            ([], []) => Hindrance::NoRelay,
            ([], other) => Hindrance::OtherConfiguration(other.to_vec()),
            (able, _) => Hindrance::NotOwned(able.to_vec()),
        });
    }
    found
}
