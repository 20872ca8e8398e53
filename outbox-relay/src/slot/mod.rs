//! The state machine of one slot: which event may go now, and what the row must hold next. Pure: no IO, no clock, no
//! async. The owner feeds it what was read and what sinks answered, and writes down what it says.
//!
//! Every id is in exactly one place: above the high-water mark, in an open gap, in memory (waiting, listed or in
//! flight), under a stall row, or through. `settled` holds those that are through, those under a stall row, and the dead
//! gaps; a stall row and the ids that it covers are always written in the same transaction.

mod gaps;
mod lanes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use outbox_sdk::backend::{
    Batch, Claimed, Due, Holders, LaneEntry, LanePage, NewDeadLetter, Stall, StoredEvent,
};
use outbox_sdk::{Lane, Progress};
use uuid::Uuid;

use gaps::Gaps;
use lanes::{LaneState, Stalled};

pub(crate) use lanes::Event;

/// How many ranges of dead gaps are remembered, to find rows that came in spite of the rules.
const VOID_RANGES: usize = 1_000;

/// What one owner knows about its slot.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The high-water mark: every id at or below it was read, is settled, or is an open gap.
    hwm: i64,
    /// The row at the high-water mark, once a row was read.
    anchor: Option<(i64, Uuid)>,
    gaps: Gaps,
    /// What is settled, including what the next transaction will write.
    settled: Progress,
    /// What the row holds.
    stored: Progress,
    void: Progress,
    lanes: HashMap<Lane, LaneState>,
    ready: VecDeque<Lane>,
    resumable: VecDeque<Lane>,
    pending: Pending,
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
}

/// What an attempt came to, with everything decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The sink has it.
    Delivered,
    /// The lane waits.
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

/// Why nothing that an owner remembers can be trusted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Distrust {
    /// The server does not accept writes: what it shows may be old.
    #[error("the server is a standby; waiting for the primary")]
    Standby,
    /// The row at the high-water mark is gone or another: the server lost commits or was restored.
    #[error("the event at the high-water mark is gone: the server lost commits or was restored; reading again from what is settled")]
    AnchorGone,
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
    pub(crate) fn claimed(claimed: &Claimed, now: Instant) -> Self {
        let mut gaps = Gaps::default();
        for (from, until) in claimed.settled.holes() {
            gaps.open(from, until);
        }
        let mut slot = Self {
            hwm: claimed.settled.upper() - 1,
            anchor: None,
            gaps,
            settled: claimed.settled.clone(),
            stored: claimed.settled.clone(),
            void: claimed.void.clone(),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            resumable: VecDeque::new(),
            pending: Pending::default(),
            parked: Vec::new(),
            rows: 0,
            bytes: 0,
            in_flight: 0,
        };
        for row in &claimed.stalls {
            let Some(lane) = Lane::parse(&row.lane) else { continue };
            if !row.blocked {
                slot.parked.push((lane.clone(), row.due_in));
            }
            slot.lanes.entry(lane).or_default().stall = Some(Stalled::stored(row, now));
        }
        slot
    }

    // --- read ------------------------------------------------------------------------------------------------------

    pub(crate) fn hwm(&self) -> i64 {
        self.hwm
    }

    pub(crate) fn anchor(&self) -> Option<(i64, Uuid)> {
        self.anchor
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// How many ranges of ids may still come.
    pub(crate) fn open_gaps(&self) -> usize {
        self.gaps.len()
    }

    pub(crate) fn gap_ranges(&self) -> Vec<(i64, i64)> {
        self.gaps.ranges()
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

    /// A list of holders taken before the next read.
    pub(crate) fn note_holders(&mut self, holders: &Holders) {
        self.gaps.note(holders);
    }

    /// Takes in what a read returned. `holders` is the list taken before it (the default when no gap was open);
    /// `lane_of` says to which lane an event belongs, or that the consumer does not want it.
    pub(crate) fn accept(
        &mut self,
        batch: Batch,
        holders: &Holders,
        lane_of: impl Fn(&StoredEvent) -> Option<Lane>,
    ) -> Result<Accepted, Distrust> {
        if !batch.primary {
            return Err(Distrust::Standby);
        }
        if let Some((id, event_id)) = self.anchor
            && batch.anchor != Some(event_id)
            && !self.stored.contains(id)
        {
            return Err(Distrust::AnchorGone);
        }
        let mut accepted = Accepted::default();
        let last = batch.events.last().map_or(self.hwm, |event| event.envelope.id);
        // Behind a full batch there may be more: only what lies up to its last event was asked for.
        let through = if batch.full { last } else { i64::MAX };
        let before = self.hwm;
        for event in batch.events.iter().filter(|event| event.envelope.id <= before) {
            self.gaps.fill(event.envelope.id);
        }
        for (from, until) in self.gaps.take_dead(holders, through) {
            accepted.dead_gaps += until.abs_diff(from);
            self.settled.insert_range(from, until);
            self.void.insert_range(from, until);
            self.pending.ids += 1;
        }
        self.void.keep_newest(VOID_RANGES);
        for event in batch.events {
            let id = event.envelope.id;
            if id > self.hwm {
                self.gaps.open(self.hwm + 1, id);
                self.hwm = id;
                self.anchor = Some((id, event.envelope.event_id));
            }
            accepted.events += 1;
            match lane_of(&event) {
                None => self.settle_id(id),
                Some(lane) => accepted.late += usize::from(self.route(lane, event, id <= before)),
            }
        }
        Ok(accepted)
    }

    /// Puts an event where it belongs; true = it is late.
    fn route(&mut self, lane: Lane, stored: StoredEvent, filled_gap: bool) -> bool {
        let id = stored.envelope.id;
        if stored.delayed && !stored.due_in.is_zero() {
            self.park_delayed(lane, &stored);
            return false;
        }
        let stall = self.lanes.get_mut(&lane).and_then(|state| state.stall.as_mut());
        let late = match stall {
            None => false,
            Some(stall) if id < stall.head_id => true,
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
        let event = Event::new(stored, filled_gap);
        self.rows += 1;
        self.bytes += event.bytes();
        self.lanes.entry(lane.clone()).or_default().waiting.insert(id, event);
        self.refresh(&lane);
        late
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

    // --- send and answer -------------------------------------------------------------------------------------------

    /// The next event that may go, first come first served among the lanes.
    pub(crate) fn next_send(&mut self) -> Option<Send> {
        while let Some(lane) = self.ready.pop_front() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_ready = false;
            if !state.may_send() {
                continue;
            }
            let Some(event) = state.take_next() else { continue };
            state.in_flight = Some(event.clone());
            self.in_flight += 1;
            let (attempts, schema_missing_since) =
                state.stall.as_ref().map_or((0, None), |stall| (stall.attempts, stall.schema_missing_since));
            return Some(Send { lane, event, attempts, schema_missing_since });
        }
        None
    }

    /// Whether something may go now.
    pub(crate) fn may_send(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a failure of what is in flight on `lane` needs to know which later events of the lane have gone: only
    /// an event that filled a gap can have been overtaken.
    pub(crate) fn may_be_overtaken(&self, lane: &Lane) -> Option<i64> {
        let state = self.lanes.get(lane)?;
        let event = state.in_flight.as_ref()?;
        (matches!(lane, Lane::Aggregate(_)) && state.stall.is_none() && event.filled_gap).then(|| event.id())
    }

    /// Whether one of these later events of a lane has gone. Those that the consumer does not want do not count, nor
    /// those that wait alone.
    pub(crate) fn is_overtaken(&self, later: &[LaneEntry], wants: impl Fn(&LaneEntry) -> bool) -> bool {
        later.iter().any(|entry| {
            self.settled.contains(entry.id)
                && !self.lanes.contains_key(&Lane::Single(entry.id))
                && wants(entry)
        })
    }

    /// Takes in what the attempt on `lane` came to. `overtaken`: a later event of the lane has gone already.
    pub(crate) fn answer(&mut self, lane: &Lane, verdict: Verdict, overtaken: bool) {
        let Some(event) = self.lanes.get_mut(lane).and_then(|state| state.in_flight.take()) else { return };
        self.in_flight -= 1;
        let id = event.id();
        if verdict == Verdict::Unavailable {
            if let Some(state) = self.lanes.get_mut(lane) {
                state.put_back(event);
            }
            self.refresh(lane);
            return;
        }
        self.rows -= 1;
        self.bytes -= event.bytes();
        self.settle_id(id);
        match verdict {
            Verdict::Delivered => self.pass(lane, id),
            Verdict::Dead { letter, block } => {
                self.pending.dead.push(letter);
                self.pending.urgent = true;
                if block {
                    let stall = self.stall(lane, id, overtaken);
                    self.write_stall(&stall, |state, row| {
                        state.blocked = true;
                        row.blocked = true;
                        row.due = Due::In(Duration::ZERO);
                    });
                } else {
                    self.pass(lane, id);
                }
            }
            Verdict::Park { attempts, delay, error, schema_missing_since } => {
                self.pending.urgent = true;
                let stalled = self.stall(lane, id, overtaken);
                self.parked.push((stalled.clone(), delay));
                self.write_stall(&stalled, |state, row| {
                    state.attempts = attempts;
                    state.schema_missing_since = schema_missing_since;
                    row.attempts = attempts;
                    row.due = Due::In(delay);
                    row.schema_missing = schema_missing_since.is_some();
                    row.last_error = Some(error);
                });
            }
            Verdict::Unavailable => {}
        }
    }

    /// The event is behind us: the head of a stalled lane moves on.
    fn pass(&mut self, lane: &Lane, id: i64) {
        let moved = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()).is_some_and(|stall| {
            stall.head_id = id + 1;
            stall.attempts = 0;
            stall.schema_missing_since = None;
            !stall.single
        });
        if moved {
            self.write_stall(lane, |_, row| row.due = Due::Unchanged);
        }
        self.refresh(lane);
    }

    /// Stalls the lane at `id`, so that its row covers everything from there on; or `id` alone, when a later event has
    /// gone already. Returns the lane that is stalled now.
    fn stall(&mut self, lane: &Lane, id: i64, overtaken: bool) -> Lane {
        let single = Lane::Single(id);
        let alone = matches!(lane, Lane::Single(_))
            || (overtaken && self.lanes.get(lane).is_some_and(|state| state.stall.is_none()));
        if alone {
            self.lanes.entry(single.clone()).or_default().stall = Some(Stalled::parked(id, true));
            if single != *lane {
                self.refresh(lane);
            }
            return single;
        }
        let state = self.lanes.entry(lane.clone()).or_default();
        let queue = std::mem::take(&mut state.waiting);
        let list = state.stall.take().map_or_else(VecDeque::new, |stall| stall.list);
        state.stall = Some(Stalled::parked(id, false));
        for event in list {
            self.rows -= 1;
            self.bytes -= event.bytes();
        }
        for (waiting, event) in queue {
            if waiting > id {
                self.rows -= 1;
                self.bytes -= event.bytes();
                self.settle_id(waiting);
            } else {
                // It came after a later event had been sent: it goes alone, and never moves the head back.
                let late = Lane::Single(waiting);
                self.lanes.entry(late.clone()).or_default().waiting.insert(waiting, event);
                self.refresh(&late);
            }
        }
        lane.clone()
    }

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
        if row.due == Due::Unchanged
            && let Some(before) = before
        {
            row.due = before.due;
        }
        self.pending.resumed.remove(lane);
        self.pending.stalls.insert(lane.clone(), row);
    }

    // --- resume ----------------------------------------------------------------------------------------------------

    /// Lanes that were parked since the last call, each with how long it is likely to wait. The database decides when
    /// they are due; this says only when to ask.
    pub(crate) fn take_parked(&mut self) -> Vec<(Lane, Duration)> {
        std::mem::take(&mut self.parked)
    }

    /// Whether the lane still waits to become due.
    pub(crate) fn waits(&self, lane: &Lane) -> bool {
        self.lanes.get(lane).and_then(|state| state.stall.as_ref()).is_some_and(|stall| !stall.due && !stall.blocked)
    }

    /// The database says that the lane is due.
    pub(crate) fn due(&mut self, lane: &Lane) {
        if let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) {
            stall.due = true;
            self.refresh(lane);
        }
    }

    /// A lane to read by index, and the id to read from.
    pub(crate) fn next_resume(&mut self) -> Option<(Lane, i64)> {
        while let Some(lane) = self.resumable.pop_front() {
            let Some(state) = self.lanes.get_mut(&lane) else { continue };
            state.listed_resumable = false;
            if state.may_resume()
                && let Some(stall) = &state.stall
            {
                return Some((lane, stall.read_from));
            }
        }
        None
    }

    /// The read of a lane did not come about: ask again.
    pub(crate) fn resume_failed(&mut self, lane: &Lane) {
        self.refresh(lane);
    }

    /// Whether a lane waits to be read by index.
    pub(crate) fn may_resume(&self) -> bool {
        !self.resumable.is_empty()
    }

    /// Takes in a page of a stalled lane. Only what the normal path has read counts: nothing in an open gap, and
    /// nothing that goes alone.
    pub(crate) fn resumed(
        &mut self,
        lane: &Lane,
        page: LanePage,
        wants: impl Fn(&StoredEvent) -> bool,
    ) {
        let mut list = VecDeque::new();
        let behind = page.events.last().map(|stored| stored.envelope.id + 1);
        for stored in page.events {
            let id = stored.envelope.id;
            let single = Lane::Single(id);
            let elsewhere = self.gaps.contains(id) || (single != *lane && self.lanes.contains_key(&single));
            if !elsewhere && wants(&stored) {
                let event = Event::new(stored, false);
                self.rows += 1;
                self.bytes += event.bytes();
                list.push_back(event);
            }
        }
        if let Some(stall) = self.lanes.get_mut(lane).and_then(|state| state.stall.as_mut()) {
            stall.list = list;
            stall.dirty = page.full;
            stall.read_from = behind.unwrap_or(stall.read_from);
        }
        self.refresh(lane);
    }

    // --- settle ----------------------------------------------------------------------------------------------------

    /// How many ids wait to be written as settled.
    pub(crate) fn unsettled(&self) -> usize {
        self.pending.ids
    }

    /// Whether there is anything to write.
    pub(crate) fn has_changes(&self) -> bool {
        let pending = &self.pending;
        pending.ids > 0 || !pending.stalls.is_empty() || !pending.resumed.is_empty() || !pending.dead.is_empty()
    }

    /// Whether something waits for the commit.
    pub(crate) fn is_urgent(&self) -> bool {
        self.pending.urgent
    }

    /// What the row must hold: the settled ids and the dead gaps.
    pub(crate) fn sets(&self) -> (&Progress, &Progress) {
        (&self.settled, &self.void)
    }

    /// Stall rows to write, keys of stall rows to delete, dead letters to write.
    pub(crate) fn changes(&self) -> (Vec<Stall>, Vec<String>, &[NewDeadLetter]) {
        (
            self.pending.stalls.values().cloned().collect(),
            self.pending.resumed.iter().map(Lane::key).collect(),
            &self.pending.dead,
        )
    }

    /// Everything of [`sets`](Self::sets) and [`changes`](Self::changes) is committed.
    pub(crate) fn committed(&mut self) {
        let done = std::mem::take(&mut self.pending);
        if done.ids > 0 {
            self.stored.clone_from(&self.settled);
        }
        for lane in done.resumed {
            if let Some(state) = self.lanes.get_mut(&lane) {
                state.committing = false;
            }
            self.refresh(&lane);
        }
    }

    fn settle_id(&mut self, id: i64) {
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
            self.pending.urgent = true;
        }
        if state.may_send() && !state.listed_ready {
            state.listed_ready = true;
            self.ready.push_back(lane.clone());
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
