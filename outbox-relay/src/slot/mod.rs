//! The state machine of one slot: which event may go now, and what the row must hold next. Pure: no IO, no clock, no
//! async. The owner feeds it what was read and what sinks answered, and writes down what it says.
//!
//! Every id is in exactly one place: above the high-water mark, in an open gap, in memory (waiting, listed or in
//! flight), under a stall row, or through. `settled` holds those that are through, those under a stall row, and the dead
//! gaps; a stall row and the ids that it covers are always written in the same transaction.

mod busy;
mod caution;
mod cursor;
mod gaps;
mod lanes;
mod question;
mod replay;
mod send;
mod settle;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Claimed, Due, NewDeadLetter, ReplayResult, Stall, StallRow, StoredEvent};
use outbox_sdk::injection::planted;
use outbox_sdk::{Lane, Progress};
use uuid::Uuid;

use cursor::Arrival;
use lanes::{LaneState, Stalled};

pub(crate) use cursor::{Admission, Cursor, Distrust, Page, Place};
pub(crate) use lanes::Event;
pub(crate) use question::Question;

/// How many ranges of dead gaps are remembered, to find rows that came in spite of the rules.
const VOID_RANGES: usize = 1_000;

/// What bounds a slot's memory, and its trust in its events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How many events of one lane may wait in memory ..
    pub(crate) lane_rows: usize,
    /// .. and how many bytes of payload.
    pub(crate) lane_bytes: usize,
    /// How many events go one at a time at first, each attempt written before it is made.
    pub(crate) caution: usize,
}

/// What one owner knows about its slot.
#[derive(Debug)]
pub(crate) struct Slot {
    /// What was read, and which ids are missing.
    cursor: Cursor,
    /// What is settled, including what the next transaction will write.
    settled: Progress,
    /// What the row holds.
    stored: Progress,
    void: Progress,
    lanes: HashMap<Lane, LaneState>,
    /// Lanes that may send, first come first served; those that come back from waiting are listed apart, and both take
    /// turns, so that lanes which fail again and again hold up nobody else.
    ready: VecDeque<Lane>,
    resumed_ready: VecDeque<Lane>,
    resumed_turn: bool,
    resumable: VecDeque<Lane>,
    pending: Pending,
    bounds: Bounds,
    /// While events go one at a time: how it stands.
    caution: Option<caution::Caution>,
    /// Dead letters that are in memory to go again, or whose result is not committed.
    replaying: BTreeSet<i64>,
    /// Lanes that were parked since the owner last asked, and when they are likely to be due.
    parked: Vec<(Lane, Duration)>,
    rows: usize,
    bytes: usize,
    in_flight: usize,
}

/// What the next transaction must write.
#[derive(Debug, Default)]
struct Pending {
    /// How many ids were settled since the last transaction.
    ids: usize,
    stalls: BTreeMap<Lane, Stall>,
    resumed: BTreeSet<Lane>,
    dead: Vec<NewDeadLetter>,
    replays: Vec<ReplayResult>,
    /// Lanes of which something is sent only after the commit, beside those in `resumed`.
    held: BTreeSet<Lane>,
    /// Sets have changed although no id was settled.
    sets: bool,
    /// Something waits for the commit.
    urgent: bool,
}

/// An event to hand to the sink.
#[derive(Debug)]
pub(crate) struct Send {
    /// Its lane: nothing else of it goes until the answer is in.
    pub(crate) lane: Lane,
    /// The event.
    pub(crate) event: Event,
    /// Failures before this attempt.
    pub(crate) attempts: u32,
    /// Since when it has waited for its schema, if it has.
    pub(crate) schema_missing_since: Option<Instant>,
    /// An operator sends a dead letter again.
    pub(crate) replay: bool,
}

/// What an attempt came to, with everything decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The sink has it.
    Delivered,
    /// The lane waits. Never of a replay, which is dead again when it fails.
    Park {
        /// Failures of this event so far.
        attempts: u32,
        /// How long.
        delay: Duration,
        /// What went wrong.
        error: String,
        /// Since when the event waits for its schema, if that is why.
        schema_missing_since: Option<Instant>,
    },
    /// The event is dead.
    Dead {
        /// What is written down.
        letter: NewDeadLetter,
        /// Whether its lane stays blocked.
        block: bool,
    },
    /// The destination is down: the event was not tried.
    Unavailable,
}

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Accepted {
    /// Events that were new.
    pub(crate) events: usize,
    /// Events that came after a later one of their lane had gone: their writer took no lock.
    pub(crate) late: usize,
    /// Ids that were given up: their transactions rolled back.
    pub(crate) dead_gaps: u64,
}

impl Slot {
    /// The slot as it was claimed: nothing is in memory, every stalled lane must be read.
    ///
    /// # Errors
    /// The key of a stall row that this release does not understand: its events would never come.
    pub(crate) fn claimed(claimed: &Claimed, bounds: Bounds, now: Instant) -> Result<Self, String> {
        let mut slot = Self {
            cursor: Cursor::behind(&claimed.settled),
            settled: claimed.settled.clone(),
            stored: claimed.settled.clone(),
            void: claimed.void.clone(),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            resumed_ready: VecDeque::new(),
            resumed_turn: false,
            resumable: VecDeque::new(),
            pending: Pending::default(),
            bounds,
            caution: caution::Caution::over(bounds.caution),
            replaying: BTreeSet::new(),
            parked: Vec::new(),
            rows: 0,
            bytes: 0,
            in_flight: 0,
        };
        slot.stalled(&claimed.stalls, now)?;
        Ok(slot)
    }

    /// Stall rows as an earlier owner left them, before anything is read or sent.
    ///
    /// # Errors
    /// As [`claimed`](Self::claimed).
    pub(crate) fn stalled(&mut self, rows: &[StallRow], now: Instant) -> Result<(), String> {
        for row in rows {
            let lane = Lane::parse(&row.lane).ok_or_else(|| row.lane.clone())?;
            // This owner may have schemas that the last one lacked.
            if !row.blocked && row.schema_missing_for.is_none() {
                self.parked.push((lane.clone(), row.due_in));
            }
            self.lanes.entry(lane.clone()).or_default().stall = Some(Stalled::stored(row, now));
            self.refresh(&lane);
        }
        Ok(())
    }

    // --- read ------------------------------------------------------------------------------------------------------

    pub(crate) fn hwm(&self) -> i64 {
        self.cursor.hwm()
    }

    pub(crate) fn anchor(&self) -> Option<(i64, Uuid)> {
        self.cursor.anchor()
    }

    /// How many ranges of ids may still come.
    pub(crate) fn open_gaps(&self) -> usize {
        self.cursor.open_gaps()
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The cursor, to read with: the page goes to [`take_in`](Self::take_in) at once.
    pub(crate) fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    /// Events in memory, in flight included.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Their payload bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes in a page of this slot's cursor: dead gaps are settled, each event goes where it belongs. `lane_of` says to
    /// which lane an event belongs, or that the consumer does not want it.
    ///
    /// # Errors
    /// The server lost commits; nothing that the slot remembers counts any more.
    pub(crate) fn take_in(
        &mut self,
        page: Page,
        lane_of: impl Fn(&StoredEvent) -> Option<Lane>,
    ) -> Result<Accepted, Distrust> {
        // Retention may delete a settled event; any other stays.
        if page.anchor_missing && !self.stored.contains(page.above) && !planted("memory-kept") {
            return Err(Distrust::AnchorGone);
        }
        let mut accepted = Accepted { events: page.arrivals.len(), ..Accepted::default() };
        for (from, until) in page.dead {
            accepted.dead_gaps += until.abs_diff(from);
            if planted("gap-not-settled") {
                continue;
            }
            self.settled.insert_range(from, until);
            self.void.insert_range(from, until);
            self.pending.ids += 1;
        }
        self.void.keep_newest(VOID_RANGES);
        for arrival in page.arrivals {
            match lane_of(&arrival.stored) {
                None => self.settle_id(arrival.stored.envelope.id),
                Some(lane) => accepted.late += usize::from(self.route(lane, arrival)),
            }
        }
        Ok(accepted)
    }

    /// Puts an event where it belongs; true = it is late.
    fn route(&mut self, lane: Lane, arrival: Arrival) -> bool {
        let Arrival { stored, filled_gap, checked } = arrival;
        let id = stored.envelope.id;
        if stored.delayed && !stored.due_in.is_zero() {
            self.park_delayed(lane, &stored);
            return false;
        }
        let lane = self.standing_lane(lane, &stored);
        let stall = self.lanes.get_mut(&lane).and_then(|state| state.stall.as_mut());
        let late = match stall {
            None => false,
            Some(stall) if id < stall.head_id && !planted("late-covered") => {
                if stall.ahead {
                    // The row must not stand for an event that goes alone.
                    self.write_stall(&lane, |_, _| {});
                }
                true
            }
            Some(stall) => {
                for event in stall.cover(id) {
                    self.rows -= 1;
                    self.bytes -= event.bytes();
                }
                self.settle_id(id);
                self.refresh(&lane);
                return false;
            }
        };
        let lane = if late { Lane::Single(id) } else { lane };
        let event = Event { checked, ..Event::new(stored, filled_gap) };
        self.rows += 1;
        self.bytes += event.bytes();
        self.lanes.entry(lane.clone()).or_default().waiting.insert(event);
        self.park_when_busy(&lane);
        self.refresh(&lane);
        late
    }

    /// The stall row of an aggregate stands for its later events even if the consumer has given up their order since.
    fn standing_lane(&self, lane: Lane, stored: &StoredEvent) -> Lane {
        if matches!(lane, Lane::Aggregate(_)) || stored.delayed {
            return lane;
        }
        let own = stored.envelope.lane();
        if self.lanes.get(&own).is_some_and(|state| state.stall.is_some()) { own } else { lane }
    }

    /// A delayed event that is not due: its stall row keeps the event's own time.
    fn park_delayed(&mut self, lane: Lane, stored: &StoredEvent) {
        let id = stored.envelope.id;
        self.settle_id(id);
        self.parked.push((lane.clone(), stored.due_in));
        self.pending.stalls.insert(
            lane.clone(),
            Stall {
                lane: lane.key(),
                head_id: id,
                attempts: 0,
                due: Due::AtAvailable,
                blocked: false,
                single: true,
                schema_missing: false,
                last_error: None,
            },
        );
        self.lanes.entry(lane).or_default().stall = Some(Stalled::parked(id, true));
    }

    // --- what every step uses ----------------------------------------------------------------------------------------

    /// Changes the memory of a stalled lane and the row that the next transaction writes for it.
    fn write_stall(&mut self, lane: &Lane, change: impl FnOnce(&mut Stalled, &mut Stall)) {
        let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) else { return };
        let before = self.pending.stalls.remove(lane);
        let mut row = Stall {
            lane: lane.key(),
            head_id: stall.head_id,
            attempts: stall.attempts,
            due: Due::Unchanged,
            blocked: stall.blocked,
            single: stall.single,
            schema_missing: false,
            last_error: None,
        };
        change(stall, &mut row);
        stall.ahead = false;
        if row.due == Due::Unchanged
            && let Some(before) = before
        {
            row.due = before.due;
        }
        self.pending.resumed.remove(lane);
        self.pending.stalls.insert(lane.clone(), row);
    }

    fn settle_id(&mut self, id: i64) {
        if planted("range-settle") {
            self.settled.insert_range(1, id);
        }
        self.settled.insert(id);
        self.pending.ids += 1;
    }

    /// Lists the lane where it belongs after a change, hands it back, or forgets it.
    fn refresh(&mut self, lane: &Lane) {
        let Some(state) = self.lanes.get_mut(lane) else { return };
        if state.may_hand_back() {
            state.stall = None;
            state.committing = true;
            self.pending.stalls.remove(lane);
            self.pending.resumed.insert(lane.clone());
        }
        // What came meanwhile waits for the commit, and so does the next event while they go one at a time; else the commit
        // waits for company.
        let awaited = self.caution.is_some() || !state.waiting.is_empty() || !state.replays.is_empty();
        self.pending.urgent |= state.committing && awaited;
        if state.may_send() && !state.listed_ready {
            state.listed_ready = true;
            let list = if state.stall.is_some() { &mut self.resumed_ready } else { &mut self.ready };
            list.push_back(lane.clone());
        }
        if state.may_resume() && !state.listed_resumable {
            state.listed_resumable = true;
            self.resumable.push_back(lane.clone());
        }
        if state.is_done() {
            self.lanes.remove(lane);
        }
    }
}
