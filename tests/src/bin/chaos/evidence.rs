//! What a run leaves behind: the journals of writers, receiver and faults, and the tables. The checker reads this and
//! nothing else.

use outbox_sdk::{Lane, Progress, slot_of};
use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch, by this machine's clock: all that keep a journal run on it.
pub(crate) type Micros = i64;

/// Everything that is known about one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Evidence {
    pub(crate) seed: u64,
    pub(crate) limits: Limits,
    /// The writers' journal.
    pub(crate) writes: Vec<Write>,
    /// The receiver's journal, in order of arrival.
    pub(crate) arrivals: Vec<Arrival>,
    /// What was done to the processes and the database.
    pub(crate) faults: Vec<Fault>,
    /// What the relays' logs say about ownership.
    pub(crate) turns: Vec<Turn>,
    /// What the consumer was through with, again and again.
    pub(crate) snapshots: Vec<Snapshot>,
    /// Written by the handler, in the transaction of its inbox row: one entry per effect.
    pub(crate) effects: Vec<i64>,
    /// The writers' business rows: transactions that did commit.
    pub(crate) business: Vec<u64>,
    /// The event table at the end.
    pub(crate) events: Vec<Event>,
    /// Events with ids below this one were made old: retention may have deleted those that were done with.
    #[serde(default)]
    pub(crate) aged_below: i64,
    /// The dead letters at the end.
    pub(crate) dead: Vec<Dead>,
    /// The consumers at the end.
    pub(crate) consumers: Vec<Consumer>,
    /// Sessions that are left inside a transaction although all is over.
    pub(crate) idle_in_transaction: i64,
}

/// The settings that promises are measured by.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Limits {
    pub(crate) lease: Micros,
    pub(crate) poll: Micros,
    /// How long a sink may take.
    pub(crate) time_limit: Micros,
}

/// An event that a writer tried to publish.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Write {
    pub(crate) tx: u64,
    pub(crate) id: i64,
    /// The lane's key.
    pub(crate) lane: String,
    pub(crate) order: Order,
    pub(crate) outcome: Outcome,
}

/// What is promised about an event's place in its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The writer took the aggregate's lock.
    Strict,
    /// It did not: no order in this lane.
    Unlocked,
    /// The event is delayed or has no aggregate: a lane of its own.
    Alone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Committed,
    RolledBack,
    /// The connection was lost with the COMMIT on its way.
    Unknown,
}

/// A request at the receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Arrival {
    pub(crate) at: Micros,
    /// Which relay process sent it.
    pub(crate) incarnation: u32,
    pub(crate) id: i64,
    pub(crate) lane: String,
    pub(crate) attempt: u32,
    /// An operator had a dead letter sent again.
    pub(crate) replay: bool,
    pub(crate) answer: Answer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Accepted,
    /// To be tried again.
    Refused,
    /// Never to be tried again.
    Rejected,
}

/// Something that was done on purpose.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) from: Micros,
    pub(crate) until: Micros,
    pub(crate) kind: FaultKind,
    /// The relay process that it was done to.
    pub(crate) incarnation: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    Kill,
    /// Died at a crash point.
    Crash(String),
    /// SIGSTOP, for longer than the lease, and SIGCONT.
    Stop,
    /// SIGTERM and a new process.
    Roll,
    RelayBackends,
    WriterBackends,
    LongTransaction,
    Burst,
    /// An operator has dead letters sent again, or gives them up.
    Replay,
    Discard,
    /// Events were made old, and deleted.
    Retention,
    /// The consumer got another number of slots.
    Resize,
}

/// A change of ownership, from a relay's log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) at: Micros,
    pub(crate) incarnation: u32,
    pub(crate) kind: TurnKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TurnKind {
    Claimed,
    /// Somebody else had the slot, or the database could not be trusted: all in memory was dropped.
    Lost,
    /// Given back in order.
    Released,
}

/// What the webhook's consumer was through with at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// After the rows were read.
    pub(crate) at: Micros,
    /// What each slot has settled, as multiranges.
    pub(crate) slots: Vec<String>,
    /// Lane keys and heads of the stall rows.
    pub(crate) stalls: Vec<(String, i64)>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) id: i64,
    pub(crate) status: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Dead {
    pub(crate) consumer: String,
    pub(crate) id: i64,
    pub(crate) state: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    /// As a multirange.
    pub(crate) settled: String,
    pub(crate) stalled_lanes: u64,
}

/// Ids that are through: settled, and not because their lane waits.
pub(crate) struct Through {
    slots: Vec<Progress>,
    stalls: Vec<(Lane, i64)>,
}

impl Snapshot {
    pub(crate) fn through(&self) -> Result<Through, String> {
        let slots = self.slots.iter().map(|settled| Progress::from_multirange(settled)).collect();
        let slots: Result<Vec<_>, _> = slots;
        let lane = |(key, head): &(String, i64)| {
            Lane::parse(key).map(|lane| (lane, *head)).ok_or_else(|| format!("`{key}` is no lane"))
        };
        Ok(Through {
            slots: slots.map_err(|error| error.to_string())?,
            stalls: self.stalls.iter().map(lane).collect::<Result<_, _>>()?,
        })
    }
}

impl Through {
    /// Whether the event, of this lane, is through.
    pub(crate) fn contains(&self, lane: &str, id: i64) -> bool {
        let covers = |(stalled, head): &(Lane, i64)| match stalled {
            Lane::Single(single) => *single == id,
            Lane::Aggregate(_) => stalled.key() == lane && id >= *head,
        };
        let slots = u16::try_from(self.slots.len()).unwrap_or(u16::MAX);
        let settled = match Lane::parse(lane) {
            Some(lane @ Lane::Aggregate(_)) => usize::try_from(slot_of(&lane, slots))
                .ok()
                .and_then(|slot| self.slots.get(slot))
                .is_some_and(|settled| settled.contains(id)),
            // An event alone may be of any aggregate.
            _ => !self.slots.is_empty() && self.slots.iter().all(|settled| settled.contains(id)),
        };
        settled && !self.stalls.iter().any(covers)
    }
}

/// Now.
pub(crate) fn now() -> Micros {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
}
