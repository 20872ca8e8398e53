//! The owner of a slot beside the database in memory, driving the slot as the engine does, and a witness that checks
//! after every step what must hold.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use outbox_sdk::Lane;
use outbox_sdk::backend::{DeadReason, Holders, LaneEntry, NewDeadLetter, StoredEvent};
use uuid::Uuid;

use super::super::{Bounds, Page, Send, Slot, Verdict};
use super::bench::BOUNDS;
use super::database::{Database, NewEvent, State, lane_of, wants};

pub(super) const MAX_ATTEMPTS: u32 = 3;
/// How many later events of a lane are looked at together.
const PAGE: usize = 2;
/// Stands for an event without aggregate.
pub(super) const NO_AGGREGATE: u8 = u8::MAX;

/// What a sink says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Delivered,
    Retry,
    Reject,
    SchemaMissing,
    Unavailable,
}

/// What becomes of a settling transaction, as its owner sees it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Known,
    /// Committed, but the answer is lost.
    Applied,
    /// Never arrived.
    Lost,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Insert {
        writer: u8,
        aggregate: u8,
        locked: bool,
        wanted: bool,
        delay: u64,
        size: usize,
    },
    Commit(u8),
    End(u8),
    /// Both.
    Finish(u8),
    RollBack(u8),
    Prepare(u8),
    Tick(u64),
    /// Holders; the read may follow, or fail.
    List,
    Read {
        limit: usize,
        keep: usize,
    },
    Send,
    Answer(usize, Answer),
    Settle(Fate),
    Wake,
    Resume {
        limit: usize,
        fails: bool,
    },
    /// Time passes, and all that is due is read, so many events a page.
    Awake(usize),
    /// The engine's whole cycle, everything going well.
    Cycle(Answer),
    /// Gives the slot back in order, and claims it again.
    Drain(Answer),
    /// The same, and the consumer's ordering is changed meanwhile.
    Reorder,
    /// The owner goes on as usual, but sends nothing; or sends again.
    Pause(bool),
    /// An operator decides about a dead letter.
    Decide(usize, State),
    /// The owner looks for decisions, so many letters at once.
    CarryOut(usize),
    /// Retention deletes what is through.
    Retain,
    /// The consumer is reset to the event so many behind the last, drained or by force.
    Reset {
        back: i64,
        forced: bool,
    },
    /// A row comes into a dead gap.
    Smuggle {
        which: usize,
        aggregate: u8,
        wanted: bool,
    },
    Sweep,
    /// The owner dies; the sink may have got what was on its way.
    Crash {
        received: bool,
    },
    /// Somebody else takes the slot over while its owner lives on.
    Usurp,
    /// That old owner gets such answers, and tries to write them down.
    Zombie(Answer),
    /// The server restarts: open transactions roll back, prepared ones get another name.
    Restart,
    /// What is committed now survives a server loss.
    Sync,
    /// The server loses what was committed since the last `Sync`; the owner does not notice by itself.
    LoseCommits,
}

/// What kind of consumer, and whether its owner and the server may fail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    /// How many aggregates there are.
    pub(super) aggregates: u8,
    /// How many of them, the first ones, are written only under the lock.
    pub(super) strict: u8,
    pub(super) ordered: bool,
    pub(super) block: bool,
    pub(super) faults: bool,
    /// How many events of a lane may wait in memory.
    pub(super) lane_rows: usize,
    /// How many events go one at a time after a crash.
    pub(super) caution: usize,
    /// Whether every second aggregate belongs to another slot.
    pub(super) foreign: bool,
}

impl Setting {
    /// Whether the slot is responsible for the aggregate.
    pub(super) fn is_own(&self, aggregate: Option<u8>) -> bool {
        !self.foreign || aggregate.is_none_or(|aggregate| aggregate % 2 == 0)
    }

    /// To which lane the owner sorts an event; what belongs to another slot or is not wanted has none.
    pub(super) fn lane_of(&self, event: &StoredEvent) -> Option<Lane> {
        let aggregate = event.envelope.aggregate_id.as_ref().and_then(|id| id.parse().ok());
        if self.is_own(aggregate) { lane_of(event, self.ordered) } else { None }
    }
}

/// What the owner believes of an event's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tried {
    pub(super) attempts: u32,
    pub(super) schema_missing: bool,
}

/// An owner that has lost its slot and does not know it.
struct Zombie {
    slot: Slot,
    fence: (i64, i64),
    in_flight: Vec<Send>,
}

/// The database, the owner with its slot, and what a witness has seen.
pub(super) struct World {
    pub(super) setting: Setting,
    pub(super) db: Database,
    durable: Database,
    /// What had been delivered by then, since the last reset.
    durable_delivered: HashMap<Uuid, u32>,
    pub(super) epoch: i64,
    epochs: i64,
    rev: i64,
    pub(super) slot: Slot,
    now: Instant,
    holders: Option<Holders>,
    pub(super) in_flight: Vec<Send>,
    pub(super) wakes: Vec<(u64, Lane)>,
    unknown: bool,
    pub(super) paused: bool,
    /// Letters up to this one were looked at.
    pub(super) after: i64,
    /// The server lost commits and the owner has not noticed.
    pub(super) deceived: bool,
    zombie: Option<Zombie>,
    // The witness.
    pub(super) delivered: HashMap<Uuid, u32>,
    /// Delivered events that were not through when a fault struck.
    pub(super) may_repeat: HashSet<Uuid>,
    /// Dead by this owner's judgement, or by the table.
    pub(super) dead: HashSet<Uuid>,
    pub(super) tried: HashMap<i64, Tried>,
    /// Per lane, the highest id that this owner has sent.
    pub(super) sent: HashMap<Lane, i64>,
}

impl World {
    pub(super) fn new(setting: Setting) -> Self {
        let mut db = Database::new();
        let now = Instant::now();
        let claimed = db.claim(1);
        let bounds = Bounds { lane_rows: setting.lane_rows, ..BOUNDS };
        Self {
            setting,
            durable: db.clone(),
            durable_delivered: HashMap::new(),
            epoch: 1,
            epochs: 1,
            rev: claimed.fence.rev,
            slot: Slot::claimed(&claimed, bounds, now).unwrap(),
            db,
            now,
            holders: None,
            in_flight: Vec::new(),
            wakes: Vec::new(),
            unknown: false,
            paused: false,
            after: 0,
            deceived: false,
            zombie: None,
            delivered: HashMap::new(),
            may_repeat: HashSet::new(),
            dead: HashSet::new(),
            tried: HashMap::new(),
            sent: HashMap::new(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        let list = self.holders.take();
        match *step {
            Step::Insert { writer, aggregate, locked, wanted, delay, size } => {
                let aggregate = (aggregate != NO_AGGREGATE).then_some(aggregate % self.setting.aggregates);
                let locked = locked || aggregate.is_some_and(|aggregate| aggregate < self.setting.strict);
                self.db.insert(writer, NewEvent { aggregate, wanted, delay, size }, locked);
                self.holders = list;
            }
            Step::Commit(writer) => {
                self.db.commit(writer);
                self.holders = list;
            }
            Step::End(writer) => {
                self.db.end(writer);
                self.holders = list;
            }
            Step::Finish(writer) => {
                self.db.commit(writer);
                self.db.end(writer);
                self.holders = list;
            }
            Step::RollBack(writer) => {
                self.db.roll_back(writer);
                self.holders = list;
            }
            Step::Prepare(writer) => {
                self.db.prepare(writer);
                self.holders = list;
            }
            Step::Tick(seconds) => self.db.clock += seconds,
            Step::List => self.list(),
            Step::Read { limit, keep } => self.read(list, limit, keep),
            Step::Send => self.send(),
            Step::Answer(which, answer) => self.answer(which, answer),
            Step::Settle(fate) => self.settle(fate),
            Step::Wake => self.wake(),
            Step::Resume { limit, fails } => self.resume(limit, fails),
            Step::Awake(limit) => self.awake(limit),
            Step::Cycle(answer) => self.cycle(answer),
            Step::Drain(answer) => self.drain(answer),
            Step::Reorder => {
                self.drain(Answer::Delivered);
                self.setting = Setting { ordered: !self.setting.ordered, strict: 0, ..self.setting };
            }
            Step::Pause(paused) => self.paused = paused,
            Step::Decide(which, state) => self.db.decide(which, state),
            Step::CarryOut(room) => self.carry_out(room),
            Step::Retain => self.db.retain(),
            Step::Reset { back, forced } => self.reset(back, forced),
            Step::Smuggle { which, aggregate, wanted } => self.smuggle(which, aggregate, wanted),
            Step::Sweep => self.sweep(),
            Step::Crash { received } if self.setting.faults => self.crash(received),
            Step::Usurp if self.setting.faults => self.usurp(),
            Step::Zombie(answer) => self.zombie(answer),
            Step::Restart => self.db.restart(),
            Step::Sync => {
                self.durable = self.db.clone();
                self.durable_delivered = self.delivered.clone();
            }
            Step::LoseCommits if self.setting.faults => {
                self.db.lose_commits(&self.durable);
                // A reset that was lost never was. But its owner has seen it, and may send what it took back.
                for (event_id, times) in &self.durable_delivered {
                    if let Entry::Vacant(forgotten) = self.delivered.entry(*event_id) {
                        forgotten.insert(*times);
                        self.may_repeat.insert(*event_id);
                    }
                }
                self.deceived = true;
                // Its row may have come back.
                self.zombie = None;
            }
            Step::Usurp | Step::Crash { .. } | Step::LoseCommits => {}
        }
        self.check();
    }

    // --- the owner, as the engine drives it ------------------------------------------------------------------------

    /// Whether the owner may go on: nothing moves until it is known what the last transaction did.
    pub(super) fn is_settled(&mut self) -> bool {
        if self.unknown {
            self.settle(Fate::Known);
        }
        !self.unknown
    }

    fn list(&mut self) {
        if self.is_settled() && self.slot.has_gaps() {
            let holders = self.db.holders();
            self.holders = Some(holders);
        }
    }

    fn read(&mut self, list: Option<Holders>, limit: usize, keep: usize) {
        if !self.is_settled() {
            return;
        }
        let mut holders = Holders { primary: true, ..Holders::default() };
        if self.slot.has_gaps() {
            holders = list.unwrap_or_else(|| self.db.holders());
        }
        let batch = self.db.read(&self.slot.gap_ranges(), self.slot.hwm(), limit, keep);
        let setting = self.setting;
        if self.slot.accept(batch, &holders, |event| setting.lane_of(event)).is_err() {
            assert!(self.deceived, "distrust without a reason");
            self.claim(true);
        }
    }

    /// Takes in a page of a shared read; false = it is not the next one.
    pub(super) fn take_page(&mut self, page: &Page) -> bool {
        let epoch = self.epoch;
        if !self.is_settled() || self.epoch != epoch {
            return false;
        }
        let Some(page) = self.slot.cursor_mut().follow(page) else { return false };
        let ordered = self.setting.ordered;
        if self.slot.take_in(page, |event| lane_of(event, ordered)).is_err() {
            assert!(self.deceived, "distrust without a reason");
            self.claim(true);
        }
        self.check();
        true
    }

    /// Reads what is missing and nothing above.
    pub(super) fn read_gaps(&mut self) {
        if !self.is_settled() || !self.slot.has_gaps() {
            return;
        }
        let holders = self.db.holders();
        let hwm = self.slot.hwm();
        let mut batch = self.db.read(&self.slot.gap_ranges(), hwm, usize::MAX, usize::MAX);
        batch.events.retain(|stored| stored.envelope.id <= hwm);
        let ordered = self.setting.ordered;
        if self.slot.accept(batch, &holders, |event| lane_of(event, ordered)).is_err() {
            self.claim(true);
        }
        self.check();
    }

    fn send(&mut self) {
        if self.paused || !self.is_settled() {
            return;
        }
        if let Some(lane) = self.slot.next_to_count() {
            let overtaken = self.is_overtaken(&lane);
            self.slot.count(&lane, overtaken);
            return;
        }
        if let Some(send) = self.slot.next_send() {
            self.check_send(&send);
            self.in_flight.push(send);
        }
    }

    fn answer(&mut self, which: usize, answer: Answer) {
        if !self.is_settled() || self.in_flight.is_empty() {
            return;
        }
        let send = self.in_flight.remove(which % self.in_flight.len());
        let id = send.event.id();
        let attempts = send.attempts + 1;
        let letter = NewDeadLetter {
            event_id: id,
            reason: DeadReason::Rejected,
            attempts,
            max_attempts: MAX_ATTEMPTS,
            last_error: String::new(),
        };
        let dead = Verdict::Dead { letter, block: self.setting.block };
        let park = |attempts, schema_missing_since| Verdict::Park {
            attempts,
            delay: Duration::from_secs(u64::from(attempts)),
            error: String::new(),
            schema_missing_since,
        };
        let verdict = match answer {
            // As the attempt does, before it asks the sink.
            _ if attempts > MAX_ATTEMPTS && !send.replay => dead,
            Answer::Retry | Answer::SchemaMissing if send.replay => dead,
            Answer::Delivered => Verdict::Delivered,
            Answer::Retry if attempts < MAX_ATTEMPTS => park(attempts, None),
            Answer::Retry | Answer::Reject => dead,
            Answer::SchemaMissing => park(send.attempts, Some(send.schema_missing_since.unwrap_or(self.now))),
            Answer::Unavailable => Verdict::Unavailable,
        };
        match &verdict {
            Verdict::Delivered => self.receive(&send),
            Verdict::Park { attempts, schema_missing_since, .. } => {
                let tried = Tried { attempts: *attempts, schema_missing: schema_missing_since.is_some() };
                self.tried.insert(id, tried);
            }
            Verdict::Dead { .. } => {
                self.dead.insert(send.event.envelope.event_id);
            }
            Verdict::Unavailable => {}
        }
        let asks = !matches!(verdict, Verdict::Delivered | Verdict::Unavailable);
        let overtaken = asks && self.is_overtaken(&send.lane);
        self.slot.answer(&send.lane, verdict, overtaken);
    }

    fn is_overtaken(&self, lane: &Lane) -> bool {
        let Some(mut question) = self.slot.question(lane) else { return false };
        loop {
            let mut page = self.db.lane_ids(lane, question.from, self.slot.hwm());
            let last = page.len() <= PAGE;
            page.truncate(PAGE);
            let wants = |entry: &LaneEntry| wants(&entry.event_type);
            if let Some(overtaken) = self.slot.look_through(&mut question, &page, last, wants) {
                return overtaken;
            }
        }
    }

    pub(super) fn settle(&mut self, fate: Fate) {
        if (self.epoch, self.rev) != (self.db.epoch, self.db.rev) {
            if self.unknown && self.db.rev == self.rev + 1 && !self.deceived {
                self.committed();
            } else {
                assert!(self.deceived, "the row moved");
                self.claim(true);
            }
            return;
        }
        if !self.db.anchored(self.slot.anchor()) {
            assert!(self.deceived, "the anchor went");
            self.claim(true);
            return;
        }
        if !matches!(fate, Fate::Lost) {
            let done = self.db.settle((self.epoch, self.rev), self.slot.sets(), self.slot.changes());
            assert!(done, "the owner's fence matches");
            // Each gap, and each event in memory (what waits is not settled either), parts two ranges at most.
            let most = self.slot.open_gaps() + self.slot.rows() + 1;
            assert!(self.db.settled.len_ranges() <= most, "{:?}, at most {most} ranges", self.db.settled);
        }
        match fate {
            Fate::Known => self.committed(),
            Fate::Applied | Fate::Lost => self.unknown = true,
        }
    }

    fn committed(&mut self) {
        self.rev = self.db.rev;
        self.unknown = false;
        self.slot.committed();
        assert!(!self.slot.has_changes() && !self.slot.is_urgent() && self.slot.unsettled() == 0);
    }

    fn wake(&mut self) {
        if !self.is_settled() {
            return;
        }
        let clock = self.db.clock;
        let parked = self.slot.take_parked();
        self.wakes.extend(parked.into_iter().map(|(lane, delay)| (clock + delay.as_secs(), lane)));
        let (asked, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.wakes).into_iter().partition(|&(at, _)| at <= clock);
        self.wakes = later;
        for (_, lane) in asked {
            match self.db.due_in(&lane) {
                _ if !self.slot.waits(&lane) => {}
                Some(0) => self.slot.due(&lane),
                left => self.wakes.push((clock + left.unwrap_or(1), lane)),
            }
        }
    }

    fn resume(&mut self, limit: usize, fails: bool) {
        if !self.is_settled() {
            return;
        }
        // As `engine/stalled.rs` does.
        let singles = self.slot.next_singles(limit);
        let setting = self.setting;
        for &id in &singles {
            let lane = Lane::Single(id);
            if fails {
                self.slot.resume_failed(&lane);
            } else {
                let page = self.db.read_lane(&lane, id, self.slot.hwm(), 1);
                self.slot.resumed(&lane, page, |event| setting.lane_of(event).is_some());
            }
        }
        if !singles.is_empty() {
            return;
        }
        let Some((lane, from)) = self.slot.next_resume() else { return };
        if fails {
            self.slot.resume_failed(&lane);
            return;
        }
        let page = self.db.read_lane(&lane, from, self.slot.hwm(), limit);
        self.slot.resumed(&lane, page, |event| setting.lane_of(event).is_some());
    }

    fn awake(&mut self, limit: usize) {
        self.wake();
        self.db.clock += 10;
        self.wake();
        while self.slot.may_resume() {
            self.resume(limit, false);
        }
    }

    pub(super) fn cycle(&mut self, answer: Answer) {
        while !self.in_flight.is_empty() && self.is_settled() {
            self.answer(0, answer);
            self.check();
        }
        self.settle(Fate::Known);
        self.check();
        self.read(None, 5, 5);
        self.check();
        self.carry_out(3);
        self.check();
        self.sweep();
        self.check();
        self.wake();
        while self.slot.may_resume() {
            self.resume(3, false);
            self.check();
        }
        while !self.paused && self.slot.may_send() && (self.in_flight.is_empty() || !self.slot.is_cautious())
        {
            self.send();
            self.check();
            if self.slot.is_cautious() {
                self.settle(Fate::Known);
                self.check();
            }
        }
    }

    pub(super) fn drain(&mut self, answer: Answer) {
        while !self.in_flight.is_empty() && self.is_settled() {
            self.answer(0, answer);
            self.check();
        }
        let epoch = self.epoch;
        if self.is_settled() {
            self.slot.recall();
        }
        self.settle(Fate::Known);
        if self.epoch == epoch {
            self.claim(false);
        }
    }

    fn crash(&mut self, received: bool) {
        if received {
            for send in std::mem::take(&mut self.in_flight) {
                self.receive(&send);
            }
        }
        self.claim(true);
    }

    fn usurp(&mut self) {
        if self.deceived {
            return;
        }
        let (fence, in_flight) = ((self.epoch, self.rev), std::mem::take(&mut self.in_flight));
        let slot = self.claim(true);
        self.zombie = Some(Zombie { slot, fence, in_flight });
    }

    /// The old owner's sends were on their way when it lost its slot. What it writes changes nothing.
    fn zombie(&mut self, answer: Answer) {
        let Some(Zombie { mut slot, fence, in_flight }) = self.zombie.take() else { return };
        for send in in_flight {
            let event_id = send.event.envelope.event_id;
            let verdict = match answer {
                Answer::Delivered => {
                    let times = self.delivered.entry(event_id).or_default();
                    *times += 1;
                    // The new owner could not know of it.
                    if *times == 1 {
                        self.may_repeat.insert(event_id);
                    }
                    Verdict::Delivered
                }
                _ if send.replay => Verdict::Unavailable,
                _ => Verdict::Park {
                    attempts: send.attempts + 1,
                    delay: Duration::ZERO,
                    error: String::new(),
                    schema_missing_since: None,
                },
            };
            slot.answer(&send.lane, verdict, false);
        }
        assert!(!self.db.settle(fence, slot.sets(), slot.changes()), "an old owner has written");
    }

    /// A new owner, after a fault or an orderly end. Returns the old one's slot.
    pub(super) fn claim(&mut self, fault: bool) -> Slot {
        if fault {
            let repeatable = self.delivered.keys().copied().filter(|event_id| !self.db.stands(event_id));
            self.may_repeat = repeatable.collect();
        }
        self.epochs += 1;
        self.epoch = self.epochs;
        let claimed = self.db.claim(self.epoch);
        self.rev = claimed.fence.rev;
        let caution = if fault { self.setting.caution } else { 0 };
        let bounds = Bounds { lane_rows: self.setting.lane_rows, caution, ..BOUNDS };
        let slot = Slot::claimed(&claimed, bounds, self.now).unwrap();
        let old = std::mem::replace(&mut self.slot, slot);
        self.after = 0;
        self.holders = None;
        self.in_flight.clear();
        self.wakes.clear();
        self.unknown = false;
        self.deceived = false;
        self.sent.clear();
        self.dead = self
            .db
            .visible()
            .filter(|(id, _)| self.db.dead.contains_key(id))
            .map(|(_, row)| row.event_id)
            .collect();
        self.tried = claimed
            .stalls
            .iter()
            .filter(|row| row.attempts > 0 || row.schema_missing_for.is_some())
            .map(|row| {
                let tried =
                    Tried { attempts: row.attempts, schema_missing: row.schema_missing_for.is_some() };
                (row.head_id, tried)
            })
            .collect();
        old
    }

    /// The sink gets an event.
    fn receive(&mut self, send: &Send) {
        let event_id = send.event.envelope.event_id;
        let times = self.delivered.entry(event_id).or_default();
        *times += 1;
        assert!(
            send.replay || *times == 1 || self.may_repeat.remove(&event_id),
            "{} repeated",
            send.event.id()
        );
    }
}
