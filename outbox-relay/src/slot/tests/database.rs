//! A database in memory, as far as one slot sees it: writers with their locks, one consumer's row, its stall rows and
//! dead letters, a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use outbox_sdk::backend::{
    Batch, Checks, Claimed, Due, Fence, Holders, LaneEntry, LanePage, Notices, ReplayResult, Stall, StallRow,
    StoredEvent,
};
use outbox_sdk::{Envelope, Lane, Progress};
use uuid::Uuid;

use super::super::settle::Changes;

/// What a writer inserts.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewEvent {
    /// The aggregate; `None` = without.
    pub(super) aggregate: Option<u8>,
    /// Whether the consumer wants it.
    pub(super) wanted: bool,
    /// Seconds until it is available.
    pub(super) delay: u64,
    /// Bytes of payload.
    pub(super) size: usize,
}

impl NewEvent {
    /// An ordinary event of an aggregate.
    pub(super) fn of(aggregate: u8) -> Self {
        Self { aggregate: Some(aggregate), wanted: true, delay: 0, size: 10 }
    }
}

/// A row of the event table.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) event_id: Uuid,
    pub(super) new: NewEvent,
    pub(super) available_at: u64,
    /// The open transaction that wrote it; `None` = committed.
    pub(super) writer: Option<u8>,
}

/// An open transaction.
#[derive(Debug, Clone)]
struct Writer {
    /// Its virtual transaction id.
    name: String,
    lanes: BTreeSet<u8>,
    prepared: bool,
    /// Its rows are visible; its locks are about to go.
    ending: bool,
}

/// The state of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Dead,
    Replay,
    Replayed,
    Discarded,
}

/// A dead letter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    pub(super) state: State,
    pub(super) attempts: u32,
}

/// A stall row and its time.
#[derive(Debug, Clone)]
pub(super) struct StoredStall {
    pub(super) row: Stall,
    pub(super) available_at: u64,
    missing_since: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) clock: u64,
    last_id: i64,
    drawn: u128,
    transactions: u32,
    pub(super) rows: BTreeMap<i64, Row>,
    writers: BTreeMap<u8, Writer>,
    pub(super) settled: Progress,
    pub(super) void: Progress,
    pub(super) epoch: i64,
    pub(super) rev: i64,
    pub(super) stalls: BTreeMap<Lane, StoredStall>,
    pub(super) dead: BTreeMap<i64, Letter>,
    /// Rows that came although their ids were given up.
    pub(super) smuggled: BTreeSet<i64>,
}

impl Database {
    pub(super) fn new() -> Self {
        Self {
            clock: 0,
            last_id: 0,
            drawn: 0,
            transactions: 0,
            rows: BTreeMap::new(),
            writers: BTreeMap::new(),
            settled: Progress::new(),
            void: Progress::new(),
            epoch: 0,
            rev: 0,
            stalls: BTreeMap::new(),
            dead: BTreeMap::new(),
            smuggled: BTreeSet::new(),
        }
    }

    // --- writers ---------------------------------------------------------------------------------------------------

    /// Inserts an event in the writer's transaction: table lock, lane lock if it takes one, id, row. `None` = it would
    /// have to wait for the lane's lock, or is about to end.
    pub(super) fn insert(&mut self, writer: u8, new: NewEvent, lock: bool) -> Option<i64> {
        let state = self.writers.get(&writer);
        let taken = |lane| self.writers.iter().any(|(&other, w)| other != writer && w.lanes.contains(&lane));
        if state.is_some_and(|w| w.ending || w.prepared) || (lock && new.aggregate.is_some_and(taken)) {
            return None;
        }
        self.transactions += 1;
        let name = format!("3/{}", self.transactions);
        let state = self.writers.entry(writer).or_insert_with(|| Writer {
            name,
            lanes: BTreeSet::new(),
            prepared: false,
            ending: false,
        });
        state.lanes.extend(new.aggregate.filter(|_| lock));
        self.last_id += 1;
        self.drawn += 1;
        let row = Row {
            event_id: Uuid::from_u128(self.drawn),
            new,
            available_at: self.clock + new.delay,
            writer: Some(writer),
        };
        self.rows.insert(self.last_id, row);
        Some(self.last_id)
    }

    /// One committed event.
    pub(super) fn publish(&mut self, new: NewEvent) -> i64 {
        let id = self.insert(u8::MAX, new, false).unwrap_or_default();
        self.commit(u8::MAX);
        self.end(u8::MAX);
        id
    }

    /// The writer's rows become visible; its locks stay until [`end`](Self::end).
    pub(super) fn commit(&mut self, writer: u8) {
        if let Some(state) = self.writers.get_mut(&writer) {
            state.ending = true;
            for row in self.rows.values_mut().filter(|row| row.writer == Some(writer)) {
                row.writer = None;
            }
        }
    }

    /// The locks of a committed writer go.
    pub(super) fn end(&mut self, writer: u8) {
        if self.writers.get(&writer).is_some_and(|w| w.ending) {
            self.writers.remove(&writer);
        }
    }

    pub(super) fn roll_back(&mut self, writer: u8) {
        if self.writers.get(&writer).is_some_and(|w| !w.ending) {
            self.rows.retain(|_, row| row.writer != Some(writer));
            self.writers.remove(&writer);
        }
    }

    pub(super) fn prepare(&mut self, writer: u8) {
        if let Some(state) = self.writers.get_mut(&writer).filter(|w| !w.ending) {
            state.prepared = true;
        }
    }

    /// The server restarts: open transactions are rolled back, prepared ones come back under another name.
    pub(super) fn restart(&mut self) {
        for writer in self.open_writers() {
            match self.writers.get_mut(&writer) {
                Some(state) if state.prepared => state.name = format!("-1/{writer}"),
                _ => {
                    self.end(writer);
                    self.roll_back(writer);
                }
            }
        }
    }

    pub(super) fn open_writers(&self) -> Vec<u8> {
        self.writers.keys().copied().collect()
    }

    /// The server loses what was committed after `durable`.
    pub(super) fn lose_commits(&mut self, durable: &Self) {
        let (clock, drawn, transactions) = (self.clock, self.drawn, self.transactions);
        *self = Self { clock, drawn, transactions, ..durable.clone() };
        self.restart();
    }

    // --- what the relay reads --------------------------------------------------------------------------------------

    pub(super) fn holders(&self) -> Holders {
        Holders {
            transactions: self.writers.values().map(|w| w.name.clone()).collect(),
            prepared: self.writers.values().any(|w| w.prepared),
            primary: true,
        }
    }

    pub(super) fn visible(&self) -> impl Iterator<Item = (i64, &Row)> {
        self.rows.iter().filter(|(_, row)| row.writer.is_none()).map(|(&id, row)| (id, row))
    }

    /// Ids of transactions that may still commit.
    pub(super) fn uncommitted(&self) -> impl Iterator<Item = i64> {
        self.rows.iter().filter(|(_, row)| row.writer.is_some()).map(|(&id, _)| id)
    }

    fn stored_event(&self, id: i64, row: &Row) -> StoredEvent {
        let kind = if row.new.wanted { "order.placed" } else { "order.ignored" };
        let mut envelope = Envelope::example(kind, 1, &" ".repeat(row.new.size));
        envelope.id = id;
        envelope.event_id = row.event_id;
        envelope.aggregate_id = row.new.aggregate.map(|aggregate| aggregate.to_string());
        StoredEvent {
            envelope: envelope.into(),
            delayed: row.new.delay > 0,
            due_in: Duration::from_secs(row.available_at.saturating_sub(self.clock)),
            defect: None,
        }
    }

    /// One snapshot of the gaps and of what is above the high-water mark; `keep` events at most for their size.
    pub(super) fn read(&self, gaps: &[(i64, i64)], above: i64, limit: usize, keep: usize) -> Batch {
        let asked = |id: i64| id > above || gaps.iter().any(|&(from, until)| from <= id && id < until);
        let mut events: Vec<_> = self
            .visible()
            .filter(|&(id, _)| asked(id))
            .take(limit)
            .map(|(id, row)| self.stored_event(id, row))
            .collect();
        let full = events.len() >= limit || events.len() > keep.max(1);
        events.truncate(keep.max(1));
        let anchor = self.visible().find(|&(id, _)| id == above).map(|(_, row)| row.event_id);
        Batch {
            events,
            full,
            anchor,
            primary: true,
            last_id: i64::MAX,
            sees_all_rows: true,
            notices: Notices::default(),
        }
    }

    fn lane_rows(&self, lane: &Lane, from: i64, through: i64) -> impl Iterator<Item = (i64, &Row)> {
        self.visible().filter(move |&(id, row)| {
            let member = match lane {
                Lane::Single(single) => id == *single,
                Lane::Aggregate(_) => row.new.delay == 0 && row.aggregate() == *lane,
            };
            member && from <= id && id <= through
        })
    }

    pub(super) fn read_lane(&self, lane: &Lane, from: i64, through: i64, limit: usize) -> LanePage {
        let events: Vec<_> = self
            .lane_rows(lane, from, through)
            .take(limit)
            .map(|(id, row)| self.stored_event(id, row))
            .collect();
        LanePage { full: events.len() >= limit, events }
    }

    pub(super) fn lane_ids(&self, lane: &Lane, from: i64, through: i64) -> Vec<LaneEntry> {
        self.lane_rows(lane, from, through)
            .map(|(id, row)| {
                let envelope = self.stored_event(id, row).envelope;
                LaneEntry { id, event_type: envelope.event_type.clone(), schema_version: 1, has_older: false }
            })
            .collect()
    }

    /// How long until a lane is due; `None` = it has no stall row.
    pub(super) fn due_in(&self, lane: &Lane) -> Option<u64> {
        self.stalls.get(lane).map(|stall| stall.available_at.saturating_sub(self.clock))
    }

    // --- progress --------------------------------------------------------------------------------------------------

    pub(super) fn claim(&mut self, epoch: i64) -> Claimed {
        assert!(epoch > self.epoch, "epochs rise");
        self.epoch = epoch;
        self.rev += 1;
        let stalls = self.stalls.iter().map(|(lane, stall)| StallRow {
            lane: lane.key(),
            head_id: stall.row.head_id,
            attempts: stall.row.attempts,
            due_in: Duration::from_secs(stall.available_at.saturating_sub(self.clock)),
            blocked: stall.row.blocked,
            single: stall.row.single,
            schema_missing_for: stall.missing_since.map(|since| Duration::from_secs(self.clock - since)),
        });
        Claimed {
            fence: Fence { epoch, rev: self.rev, ctid: String::new() },
            settled: self.settled.clone(),
            void: self.void.clone(),
            paused_for: None,
            held: false,
            attempts: 0,
            clean: true,
            stalls: stalls.collect(),
            more_stalls: None,
            checks: Checks {
                sequence_uncached: true,
                last_id: self.last_id,
                sees_all_rows: true,
                primary: true,
                anchored: true,
            },
        }
    }

    /// Whether the anchor is still there, or its id settled.
    pub(super) fn anchored(&self, anchor: Option<(i64, Uuid)>) -> bool {
        anchor.is_none_or(|(id, event_id)| {
            self.settled.contains(id)
                || self.rows.get(&id).is_some_and(|row| row.writer.is_none() && row.event_id == event_id)
        })
    }

    /// A settling transaction of the owner with this epoch and revision; false = its fence has not matched.
    pub(super) fn settle(
        &mut self,
        fence: (i64, i64),
        (settled, void): (&Progress, &Progress),
        changes: Changes<'_>,
    ) -> bool {
        if fence != (self.epoch, self.rev) {
            return false;
        }
        self.rev += 1;
        self.settled = settled.clone();
        self.void = void.clone();
        for lane in changes.resumed.iter().filter_map(|key| Lane::parse(key)) {
            self.stalls.remove(&lane);
        }
        for row in changes.stalls {
            let Some(lane) = Lane::parse(&row.lane) else { continue };
            let stored = self.stalls.get(&lane);
            let available_at = match row.due {
                Due::In(delay) => self.clock + delay.as_secs(),
                Due::AtAvailable => {
                    self.rows.get(&row.head_id).map_or(self.clock, |event| event.available_at)
                }
                Due::Unchanged => stored.map_or(self.clock, |stored| stored.available_at),
            };
            let waited =
                stored.filter(|stored| stored.row.head_id == row.head_id).and_then(|s| s.missing_since);
            let missing_since = row.schema_missing.then(|| waited.unwrap_or(self.clock));
            self.stalls.insert(lane, StoredStall { row, available_at, missing_since });
        }
        for letter in changes.dead {
            let attempts = letter.attempts;
            self.dead.insert(letter.event_id, Letter { state: State::Dead, attempts });
        }
        for result in changes.replays {
            self.write_replay(result);
        }
        true
    }

    fn write_replay(&mut self, result: &ReplayResult) {
        let Some(letter) = self.dead.get_mut(&result.event_id()) else { return };
        let was = |counted: Option<u32>| match counted {
            None => letter.state == State::Replay,
            Some(attempts) => letter.state == State::Dead && letter.attempts == attempts,
        };
        let (state, attempts) = match result {
            ReplayResult::Delivered { attempts, counted, .. } if was(counted.then_some(*attempts)) => {
                (State::Replayed, *attempts)
            }
            ReplayResult::Failed { letter, counted } if was(*counted) => (State::Dead, letter.attempts),
            ReplayResult::Counted { attempts, .. } if was(None) => (State::Dead, *attempts),
            ReplayResult::Recalled { attempts, .. } if was(Some(attempts + 1)) => (State::Replay, *attempts),
            ReplayResult::Refused { .. } if was(None) => (State::Dead, letter.attempts),
            // Dead as it was while the attempt was made, it could be decided about: that stands.
            ReplayResult::Delivered { counted: true, .. }
            | ReplayResult::Failed { counted: Some(_), .. }
            | ReplayResult::Recalled { .. }
                if letter.state != State::Dead =>
            {
                return;
            }
            other => panic!("{other:?} does not begin from {letter:?}"),
        };
        *letter = Letter { state, attempts };
    }

    // --- operators, retention, and who breaks the rules ---------------------------------------------------------------

    /// An operator decides about a dead letter, if it is dead.
    pub(super) fn decide(&mut self, which: usize, state: State) {
        let dead = self.dead.values_mut().filter(|letter| letter.state == State::Dead);
        let mut dead: Vec<_> = dead.collect();
        if !dead.is_empty() {
            let which = which % dead.len();
            dead[which].state = state;
        }
    }

    /// Deletes what the consumer is through with; also dead events, which somebody has acknowledged.
    pub(super) fn retain(&mut self) {
        let gone: Vec<i64> =
            self.visible().filter(|&(id, row)| self.is_through(id, row)).map(|(id, _)| id).collect();
        for id in gone {
            if self.dead.get(&id).is_none_or(|letter| letter.state != State::Replay) {
                self.rows.remove(&id);
            }
        }
    }

    /// The consumer begins again at `from`.
    pub(super) fn reset(&mut self, from: i64) {
        self.settled.remove_range(from, i64::MAX);
        self.void.remove_range(from, i64::MAX);
        self.stalls.retain(|_, stall| stall.row.head_id < from);
        self.dead.retain(|&id, _| id < from);
    }

    /// A row appears where none may come any more.
    pub(super) fn smuggle(&mut self, which: usize, new: NewEvent) {
        let ids: Vec<i64> = self
            .void
            .ranges()
            .flat_map(|(from, until)| from..until)
            .filter(|id| !self.rows.contains_key(id))
            .collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[which % ids.len()];
        self.drawn += 1;
        let event_id = Uuid::from_u128(self.drawn);
        self.rows.insert(id, Row { event_id, new, available_at: self.clock + new.delay, writer: None });
        self.smuggled.insert(id);
    }

    /// Whether a stall row stands for the event.
    pub(super) fn covered(&self, id: i64, row: &Row) -> bool {
        self.stalls.contains_key(&Lane::Single(id))
            || (row.new.delay == 0
                && self.stalls.get(&row.aggregate()).is_some_and(|stall| id >= stall.row.head_id))
    }

    /// Whether the consumer is done with the event, dead or delivered.
    pub(super) fn is_through(&self, id: i64, row: &Row) -> bool {
        self.settled.contains(id) && !self.covered(id, row) && !self.void.contains(id)
    }

    /// Whether the consumer is done with the event of this name.
    pub(super) fn stands(&self, event_id: &Uuid) -> bool {
        self.visible().any(|(id, row)| row.event_id == *event_id && self.is_through(id, row))
    }
}

impl Row {
    /// The lane of its aggregate, as if it were not delayed.
    fn aggregate(&self) -> Lane {
        self.new.aggregate.map_or(Lane::Single(0), aggregate)
    }
}

/// The lane of an aggregate; made once, because the witness asks for it all the time.
pub(super) fn aggregate(aggregate: u8) -> Lane {
    static LANES: LazyLock<Vec<Lane>> = LazyLock::new(|| {
        (0..=u8::MAX).map(|aggregate| Lane::aggregate(None, "example", &aggregate.to_string())).collect()
    });
    LANES[usize::from(aggregate)].clone()
}

/// Whether the consumer's filter lets it through.
pub(super) fn wants(event_type: &str) -> bool {
    event_type == "order.placed"
}

/// To which lane the consumer sorts an event, as the engine does.
pub(super) fn lane_of(event: &StoredEvent, ordered: bool) -> Option<Lane> {
    let envelope = &event.envelope;
    wants(&envelope.event_type)
        .then(|| if event.delayed || !ordered { Lane::Single(envelope.id) } else { envelope.lane() })
}
