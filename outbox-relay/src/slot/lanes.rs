//! What a slot's owner remembers of one lane: what waits, what is on its way, and whether the lane is stalled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use outbox_sdk::Envelope;
use outbox_sdk::backend::{Defect, StallRow, StoredEvent};
use outbox_sdk::injection::planted;

use crate::schemas::Checked;

/// An event in memory.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// The event as it was read.
    pub(crate) envelope: Arc<Envelope>,
    /// Why it cannot be delivered, whatever the sink.
    pub(crate) defect: Option<Defect>,
    /// Whether it came below the high-water mark: a later event of its lane may have gone before.
    pub(crate) filled_gap: bool,
    /// What its validation came to, if several consumers share it.
    pub(crate) checked: Option<Arc<Checked>>,
}

impl Event {
    pub(super) fn new(stored: StoredEvent, filled_gap: bool) -> Self {
        Self { envelope: stored.envelope, defect: stored.defect, filled_gap, checked: None }
    }

    pub(super) fn id(&self) -> i64 {
        self.envelope.id
    }

    /// What it counts against the window.
    pub(super) fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let Envelope { payload, older_payloads, actor, .. } = &*self.envelope;
        payload.len() + length(older_payloads) + length(actor)
    }
}

/// What waits in a lane that is not stalled, lowest id first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    events: BTreeMap<i64, Event>,
    bytes: usize,
}

impl Queue {
    pub(super) fn insert(&mut self, event: Event) {
        self.bytes += event.bytes();
        self.events.insert(event.id(), event);
    }

    pub(super) fn pop_first(&mut self) -> Option<Event> {
        let (_, event) = self.events.pop_first()?;
        self.bytes -= event.bytes();
        Some(event)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.values()
    }

    pub(super) fn into_events(self) -> impl Iterator<Item = Event> {
        self.events.into_values()
    }
}

/// A dead letter that an operator sends again.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    pub(super) event: Event,
    /// Attempts before the next one.
    pub(super) attempts: u32,
    /// The next attempt is written in the letter already.
    pub(super) counted: bool,
}

/// What the sink has of a lane.
#[derive(Debug)]
pub(super) enum InFlight {
    /// An event in the order of its lane.
    Event(Event),
    /// A dead letter that goes again.
    Replay(Replay),
}

impl InFlight {
    pub(super) fn event(&self) -> &Event {
        match self {
            Self::Event(event) | Self::Replay(Replay { event, .. }) => event,
        }
    }
}

/// A lane that has something to do.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// Of a lane that is not stalled: what waits, lowest id first.
    pub(super) waiting: Queue,
    /// What goes again before anything else of the lane, lowest id first, also while the lane is stalled or blocked.
    pub(super) replays: BTreeMap<i64, Replay>,
    /// What the sink has.
    pub(super) in_flight: Option<InFlight>,
    /// Set while a stall row stands for the lane's events from its head on.
    pub(super) stall: Option<Stalled>,
    /// Something about the lane must be committed before anything of it is sent: the deletion of its stall row, or an
    /// attempt that is counted first.
    pub(super) committing: bool,
    /// Whether the lane is in the list of those that may send.
    pub(super) listed_ready: bool,
    /// Whether the lane is in the list of those to be read again.
    pub(super) listed_resumable: bool,
}

/// A lane for which a stall row stands.
#[derive(Debug)]
pub(super) struct Stalled {
    /// The first event that is not settled.
    pub(super) head_id: i64,
    /// The head was raised by a send, and the row that is or will be written still has a lower one.
    pub(super) ahead: bool,
    /// Failures of the head so far, with the attempt to come when it is `counted`.
    pub(super) attempts: u32,
    /// The head's next attempt is part of `attempts` already.
    pub(super) counted: bool,
    /// A dead head blocks the lane.
    pub(super) blocked: bool,
    /// The row covers its head alone.
    pub(super) single: bool,
    /// The database said that the head is due.
    pub(super) due: bool,
    /// The lane may hold more than `list`: it must be read (again) before it can be handed back.
    pub(super) dirty: bool,
    /// Where the next lane read begins: behind what the last one returned, unless something came below.
    pub(super) read_from: i64,
    /// What a lane read returned and was not sent yet.
    pub(super) list: VecDeque<Event>,
    /// Since when the head waits for its schema, if that is why.
    pub(super) schema_missing_since: Option<Instant>,
}

impl Stalled {
    /// A lane as an earlier owner left it: nothing of it is in memory.
    pub(super) fn stored(row: &StallRow, now: Instant) -> Self {
        Self {
            head_id: row.head_id,
            ahead: false,
            attempts: row.attempts,
            counted: false,
            blocked: row.blocked,
            single: row.single,
            due: row.schema_missing_for.is_some(),
            dirty: true,
            read_from: row.head_id,
            list: VecDeque::new(),
            schema_missing_since: row.schema_missing_for.map(|waited| now.checked_sub(waited).unwrap_or(now)),
        }
    }

    /// Failures of the head before its next attempt.
    pub(super) fn failures(&self) -> u32 {
        self.attempts - u32::from(self.counted)
    }

    /// The head becomes `id`, which was not tried yet.
    pub(super) fn advance(&mut self, id: i64) {
        self.head_id = id;
        self.attempts = 0;
        self.counted = false;
        self.schema_missing_since = None;
    }

    /// A lane whose head has just failed.
    pub(super) fn parked(head_id: i64, single: bool) -> Self {
        Self {
            head_id,
            ahead: false,
            attempts: 0,
            counted: false,
            blocked: false,
            single,
            due: false,
            dirty: true,
            read_from: head_id,
            list: VecDeque::new(),
            schema_missing_since: None,
        }
    }

    /// The stall row stands for `id` too, which has just come. Returns the events that must be read again because `id`
    /// belongs before one of them.
    pub(super) fn cover(&mut self, id: i64) -> VecDeque<Event> {
        self.dirty |= !planted("handback-unlooked");
        let overtaken = self.list.back().is_some_and(|last| last.id() > id);
        let dropped = if overtaken { std::mem::take(&mut self.list) } else { VecDeque::new() };
        let again = dropped.front().map_or(id, |first| first.id().min(id));
        self.read_from = self.read_from.min(again);
        dropped
    }
}

impl LaneState {
    /// Whether the lane has something that may be sent now.
    pub(super) fn may_send(&self) -> bool {
        self.in_flight.is_none()
            && !self.committing
            && (!self.replays.is_empty()
                || match &self.stall {
                    Some(stall) => !stall.blocked && !stall.list.is_empty(),
                    None => !self.waiting.is_empty(),
                })
    }

    /// Whether the lane must be read by index now.
    pub(super) fn may_resume(&self) -> bool {
        self.in_flight.is_none()
            && self.stall.as_ref().is_some_and(|s| !s.blocked && s.due && s.dirty && s.list.is_empty())
    }

    /// Whether nothing is left for which the stall row stands.
    pub(super) fn may_hand_back(&self) -> bool {
        self.in_flight.is_none()
            && self.stall.as_ref().is_some_and(|s| !s.blocked && !s.dirty && s.list.is_empty())
    }

    /// Whether the lane can be forgotten.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty()
            && self.replays.is_empty()
            && self.in_flight.is_none()
            && self.stall.is_none()
            && !self.committing
    }

    /// Takes what goes next. The head of a stalled lane rises with it.
    pub(super) fn take_next(&mut self) -> Option<InFlight> {
        if let Some((_, replay)) = self.replays.pop_first() {
            return Some(InFlight::Replay(replay));
        }
        let event = match &mut self.stall {
            Some(stall) => {
                let event = stall.list.pop_front()?;
                if stall.head_id != event.id() {
                    stall.advance(event.id());
                    stall.ahead = true;
                }
                event
            }
            None => self.waiting.pop_first()?,
        };
        Some(InFlight::Event(event))
    }

    /// Takes the event `id` if it is here and its attempt is counted.
    pub(super) fn take_counted(&mut self, id: i64) -> Option<InFlight> {
        if self.replays.get(&id).is_some_and(|replay| replay.counted) {
            return self.replays.remove(&id).map(InFlight::Replay);
        }
        let stall = self.stall.as_mut().filter(|stall| stall.counted && stall.head_id == id)?;
        stall.list.pop_front_if(|event| event.id() == id).map(InFlight::Event)
    }

    /// Puts back what was not delivered, in front.
    pub(super) fn put_back(&mut self, sent: InFlight) {
        match sent {
            InFlight::Replay(replay) => {
                self.replays.insert(replay.event.id(), replay);
            }
            InFlight::Event(event) => match &mut self.stall {
                Some(stall) => stall.list.push_front(event),
                None => self.waiting.insert(event),
            },
        }
    }
}
