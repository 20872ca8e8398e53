//! The straight line of an event: read, validate, deliver, settle.
//!
//! One engine runs one slot of one consumer while its owner holds the lease. [`Engine::cycle`] is the line; `slot` knows
//! which event may go now; `attempt` validates and delivers; everything that is written goes through
//! [`Engine::settle`], which begins with the lease's fence. Sends run beside the cycle, up to the consumer's limit, with
//! no database transaction open.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{
    Claimed, DueStall, Fence, Holders, LanePage, LaneRead, Pause, Read, Settled, Settlement, StoredEvent,
};
use outbox_sdk::{Backend, Lane, Tables};
use tokio::task::JoinSet;

use crate::appetite::Appetite;
use crate::attempt::{Attempted, Consumer, Lease, attempt, judge};
use crate::breaker::Breaker;
use crate::consumer::{Ordering, Want};
use crate::relay::Settings;
use crate::retry::Backoff;
use crate::schemas::Schemas;
use crate::session::{Session, SessionError, within};
use crate::sink::Outcome;
use crate::slot::{Distrust, Send, Slot, Verdict};
use crate::telemetry::Telemetry;
use crate::wakes::Wakes;

/// How many ids are settled at once at most before the interval is over.
const SETTLE_IDS: usize = 1_000;
/// Settled ids wait this long for company ..
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);
/// .. or this many times what the last transaction cost, up to a second.
const SETTLE_COST_FACTOR: u32 = 20;
const SETTLE_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// How many stalled lanes are asked about, or read, in one cycle.
const LANES_PER_CYCLE: usize = 64;
/// How many events of a resumed lane are in memory at once: a long lane must not fill the window.
const LANE_PAGE: u32 = 64;
/// How long to wait before asking again about a lane that the database does not know as due.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Why an engine stopped before it was told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The slot belongs to somebody else, or to nobody: nothing in memory counts any more.
    #[error("the lease is lost: another relay has taken over, or the consumer was removed")]
    Lost,
    /// What the database shows contradicts what was read from it.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// A call failed; what is in memory still counts while the lease does.
    #[error(transparent)]
    Session(#[from] SessionError),
}

struct Answer {
    send: Send,
    attempted: Attempted,
}

/// Runs one claimed slot.
pub(crate) struct Engine<DB: Backend> {
    consumer: Arc<Consumer>,
    settings: Arc<Settings>,
    tables: Tables,
    schemas: Schemas,
    telemetry: Telemetry,
    session: Session<DB>,
    slot_number: i32,
    slot: Slot,
    fence: Fence,
    /// No send starts without it.
    lease: Lease,
    renewed: Instant,
    sends: JoinSet<Answer>,
    answers: VecDeque<Answer>,
    /// When to ask the database whether a parked lane is due.
    wakes: Wakes,
    breaker: Breaker,
    /// When the settling transaction began whose outcome is not known.
    outcome_unknown: Option<Instant>,
    settled_at: Instant,
    settle_interval: Duration,
    next_read: Instant,
    read_pause: Duration,
    /// Reads in a row that returned nothing.
    empty_reads: u32,
    /// How much is asked for at once.
    appetite: Appetite,
    /// Somebody asks for the slot.
    pub(crate) wanted: bool,
    /// Events delivered or dead so far.
    pub(crate) processed: u64,
}

impl<DB: Backend> Engine<DB> {
    /// An engine for a slot that was claimed by a call which began at `claimed_at`.
    ///
    /// # Errors
    /// The key of a stall row that cannot be read.
    #[expect(clippy::too_many_arguments, reason = "collaborators, each used as it is")]
    pub(crate) fn new(
        consumer: Arc<Consumer>,
        settings: Arc<Settings>,
        tables: Tables,
        schemas: Schemas,
        session: Session<DB>,
        slot_number: i32,
        claimed: &Claimed,
        claimed_at: Instant,
    ) -> Result<Self, String> {
        let now = Instant::now();
        Ok(Self {
            telemetry: Telemetry::of(consumer.spec.name.as_str()),
            slot: Slot::claimed(claimed, now)?,
            fence: claimed.fence.clone(),
            lease: Lease::until(claimed_at + settings.lease),
            renewed: claimed_at,
            sends: JoinSet::new(),
            answers: VecDeque::new(),
            wakes: Wakes::default(),
            breaker: Breaker::claimed(claimed.paused_for, claimed.attempts, now),
            outcome_unknown: None,
            settled_at: now,
            settle_interval: SETTLE_INTERVAL,
            next_read: now,
            read_pause: settings.poll_min,
            empty_reads: 0,
            appetite: Appetite::new(settings.read_rows),
            wanted: false,
            processed: 0,
            consumer,
            settings,
            tables,
            schemas,
            session,
            slot_number,
        })
    }

    /// One pass over the line. Returns when there is nothing to do before [`next_event`](Self::next_event).
    pub(crate) async fn cycle(&mut self) -> Result<(), Stop> {
        while self.outcome_unknown.is_some() {
            // Until it is known what the last transaction did, nothing may change what it carried.
            self.settle(false).await?;
        }
        self.collect().await?;
        if self.must_settle() {
            self.settle(false).await?;
        }
        if self.may_read() {
            self.read().await?;
        }
        self.wake().await?;
        self.resume().await?;
        self.send();
        self.telemetry.state(
            self.slot.in_flight(),
            self.slot.open_gaps(),
            self.breaker.open_until().is_some(),
        );
        Ok(())
    }

    // --- read ------------------------------------------------------------------------------------------------------

    fn has_room(&self) -> bool {
        self.slot.rows() < self.settings.window_rows && self.slot.bytes() < self.settings.window_bytes
    }

    fn may_read(&self) -> bool {
        self.has_room() && Instant::now() >= self.next_read
    }

    /// Holders first, while gaps are open; then, in a statement and so in a snapshot of its own, gaps and new events.
    async fn read(&mut self) -> Result<(), Stop> {
        let mut conn = self.session.connect().await?;
        let mut holders = Holders { primary: true, ..Holders::default() };
        if self.slot.has_gaps() {
            holders = within(self.settings.deadline, DB::holders(&mut conn, &self.tables)).await?;
            if !holders.primary {
                return Err(Distrust::Standby.into());
            }
            self.slot.note_holders(&holders);
        }
        let gaps = self.slot.gap_ranges();
        let room = self.settings.window_rows - self.slot.rows();
        let read = Read {
            gaps: &gaps,
            above: self.slot.hwm(),
            limit: u32::try_from(room).unwrap_or(u32::MAX).min(self.appetite.rows()),
            max_bytes: self.settings.read_bytes,
            max_payload_bytes: self.settings.read_bytes,
            without_payloads: self.appetite.without_payloads(),
        };
        let batch = match within(self.settings.deadline, DB::read(&mut conn, &self.tables, &read)).await {
            Ok(batch) => batch,
            Err(error) => return self.read_failed(error),
        };
        self.appetite.fed();
        let full = batch.full;
        let consumer = &self.consumer;
        let accepted = self.slot.accept(batch, &holders, |event| lane_of(consumer, event))?;
        // Not before: a server that cannot be trusted is not asked again.
        self.session.keep(conn);
        self.telemetry.read(accepted.events, accepted.late, accepted.dead_gaps);
        if accepted.late > 0 {
            tracing::warn!(
                consumer = consumer.spec.name.as_str(),
                events = accepted.late,
                "events came after a later one of their aggregate had gone: some writer takes no aggregate lock; \
                 publish through the SDK or the SQL function"
            );
        }
        self.schedule_read(accepted.events > 0, full);
        Ok(())
    }

    /// Asks for less: one row that the server cannot print must not keep all others back.
    fn read_failed(&mut self, error: SessionError) -> Result<(), Stop> {
        let too_large = error.is_too_large::<DB>();
        self.appetite.spoiled(too_large);
        if !too_large {
            return Err(error.into());
        }
        tracing::warn!(
            consumer = self.consumer.spec.name.as_str(),
            rows = self.appetite.rows(),
            without_payloads = self.appetite.without_payloads(),
            "the server cannot print what was asked for: some payload is far larger as text than as stored; asking for less"
        );
        self.next_read = Instant::now();
        Ok(())
    }

    /// Reads again at once behind a full batch, soon after any event, and ever less often while nothing comes.
    fn schedule_read(&mut self, found: bool, full: bool) {
        if found {
            self.empty_reads = 0;
            self.read_pause = self.settings.poll_min;
        } else {
            self.empty_reads = self.empty_reads.saturating_add(1);
            self.read_pause = (self.read_pause * 2).min(self.settings.poll_max);
        }
        let pause = if full { Duration::ZERO } else { self.read_pause };
        self.next_read = Instant::now() + pause.mul_f64(1.0 - 0.1 * (self.settings.random)());
    }

    /// Something was committed: read now.
    pub(crate) fn poke(&mut self) {
        self.read_pause = self.settings.poll_min;
        self.next_read = Instant::now();
    }

    // --- stalled lanes ---------------------------------------------------------------------------------------------

    /// Asks the database which of the lanes that should be due are.
    async fn wake(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        for (lane, delay) in self.slot.take_parked() {
            self.wakes.at(now + delay, lane);
        }
        let asked = self.wakes.take(now, LANES_PER_CYCLE, |lane| self.slot.waits(lane));
        if asked.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = asked.iter().map(Lane::key).collect();
        let answer = self.due_stalls(&keys).await;
        let due = answer.as_deref().unwrap_or_default();
        for (lane, key) in asked.into_iter().zip(keys) {
            match due.iter().find(|stall| stall.lane == key).map(|stall| stall.due_in) {
                Some(left) if left.is_zero() => self.slot.due(&lane),
                left => self.wakes.at(now + left.unwrap_or(ASK_AGAIN), lane),
            }
        }
        answer.map(|_| ())
    }

    async fn due_stalls(&mut self, keys: &[String]) -> Result<Vec<DueStall>, Stop> {
        let mut conn = self.session.connect().await?;
        let name = self.consumer.spec.name.as_str();
        let due = within(self.settings.deadline, DB::due_stalls(&mut conn, &self.tables, name, keys)).await?;
        self.session.keep(conn);
        Ok(due)
    }

    /// Reads due lanes by index, from their heads to the high-water mark.
    async fn resume(&mut self) -> Result<(), Stop> {
        for _ in 0..LANES_PER_CYCLE {
            // No more lanes than can be sent soon: lanes that fail again and again must not crowd out the others.
            if !self.has_room() || self.slot.resumed_ready() >= self.consumer.spec.max_in_flight {
                return Ok(());
            }
            let Some((lane, from)) = self.slot.next_resume() else { return Ok(()) };
            match self.read_lane(&lane, from).await {
                Ok(page) => {
                    self.appetite.fed();
                    let consumer = &self.consumer;
                    self.slot.resumed(&lane, page, |event| lane_of(consumer, event).is_some());
                }
                Err(error) => {
                    self.slot.resume_failed(&lane);
                    return self.read_failed(error);
                }
            }
        }
        Ok(())
    }

    async fn read_lane(&mut self, lane: &Lane, from: i64) -> Result<LanePage, SessionError> {
        let mut conn = self.session.connect().await?;
        let read = self.lane_read(lane, from);
        let page = within(self.settings.deadline, DB::read_lane(&mut conn, &self.tables, &read)).await?;
        self.session.keep(conn);
        Ok(page)
    }

    fn lane_read<'a>(&self, lane: &'a Lane, from: i64) -> LaneRead<'a> {
        LaneRead {
            lane,
            from,
            through: self.slot.hwm(),
            limit: self.appetite.rows().min(LANE_PAGE),
            max_bytes: self.settings.read_bytes,
            max_payload_bytes: self.settings.read_bytes,
            without_payloads: self.appetite.without_payloads(),
        }
    }

    // --- deliver ---------------------------------------------------------------------------------------------------

    /// Starts as many sends as may run: lanes in parallel, one event of a lane at a time.
    fn send(&mut self) {
        let now = Instant::now();
        if !self.lease.holds() {
            return;
        }
        let limit = self.breaker.limit(self.consumer.spec.max_in_flight, now);
        while self.slot.in_flight() < limit
            && let Some(send) = self.slot.next_send()
        {
            let consumer = Arc::clone(&self.consumer);
            let schemas = self.schemas.clone();
            let missing = self.settings.missing_schema;
            let lease = self.lease.clone();
            self.sends.spawn(async move {
                let attempted = attempt(&consumer, &schemas, missing, &lease, &send).await;
                Answer { send, attempted }
            });
        }
    }

    /// Takes in the answers that are there.
    async fn collect(&mut self) -> Result<(), Stop> {
        while let Some(Ok(answer)) = self.sends.try_join_next() {
            self.answers.push_back(answer);
        }
        while let Some(answer) = self.answers.pop_front() {
            let overtaken = match self.overtaken(&answer).await {
                Ok(overtaken) => overtaken,
                Err(stop) => {
                    self.answers.push_front(answer);
                    return Err(stop);
                }
            };
            self.take(answer, overtaken);
        }
        Ok(())
    }

    /// Whether a later event of the lane has gone before this one failed. Only an event that came below the high-water
    /// mark can be overtaken, so the question is rare.
    async fn overtaken(&mut self, answer: &Answer) -> Result<bool, Stop> {
        let harmless = matches!(
            answer.attempted,
            Attempted::Sink(Outcome::Delivered | Outcome::Unavailable { .. }) | Attempted::Lapsed
        );
        if harmless {
            return Ok(false);
        }
        let lane = &answer.send.lane;
        let Some(id) = self.slot.may_be_overtaken(lane) else { return Ok(false) };
        let mut from = id + 1;
        loop {
            let mut conn = self.session.connect().await?;
            let read = self.lane_read(lane, from);
            let limit = read.limit;
            let later = within(self.settings.deadline, DB::lane_ids(&mut conn, &self.tables, &read)).await?;
            self.session.keep(conn);
            let spec = &self.consumer.spec;
            if self.slot.is_overtaken(&later, |entry| {
                spec.wants(&entry.event_type, entry.schema_version) != Want::Skip
            }) {
                return Ok(true);
            }
            match later.last() {
                Some(last) if later.len() >= limit as usize => from = last.id + 1,
                _ => return Ok(false),
            }
        }
    }

    /// Decides what an answer means and tells the slot.
    fn take(&mut self, answer: Answer, overtaken: bool) {
        let Answer { send, attempted } = answer;
        let now = Instant::now();
        let random = (self.settings.random)();
        if let Attempted::Sink(outcome) = &attempted {
            self.note_destination(outcome, now, random);
        }
        let spec = &self.consumer.spec;
        let verdict = judge(spec, self.settings.missing_schema, &send, attempted, now, random);
        let envelope = &send.event.envelope;
        match &verdict {
            Verdict::Delivered => {
                self.processed += 1;
                self.telemetry.delivered();
            }
            Verdict::Park { attempts, delay, error, .. } => {
                self.telemetry.retried();
                tracing::debug!(
                    consumer = spec.name.as_str(),
                    id = envelope.id,
                    attempts,
                    ?delay,
                    error = error.as_str(),
                    "the event waits"
                );
            }
            Verdict::Dead { letter, .. } => {
                self.processed += 1;
                self.telemetry.dead(letter.reason);
                tracing::warn!(
                    consumer = spec.name.as_str(),
                    id = envelope.id,
                    event_type = envelope.event_type.as_str(),
                    reason = letter.reason.as_str(),
                    attempts = letter.attempts,
                    error = letter.last_error.as_str(),
                    "the event is dead"
                );
            }
            Verdict::Unavailable => {}
        }
        self.slot.answer(&send.lane, verdict, overtaken);
    }

    fn note_destination(&mut self, outcome: &Outcome, now: Instant, random: f64) {
        let consumer = self.consumer.spec.name.as_str();
        match self.breaker.note(outcome, now, random) {
            Some(change) if change.length.is_zero() => {
                tracing::info!(consumer, "the destination answers again");
            }
            Some(change) => tracing::warn!(
                consumer,
                pause = ?change.length,
                error = change.reason.as_deref(),
                "the destination is unavailable: the consumer pauses, no attempt is counted"
            ),
            None => {}
        }
    }

    // --- settle ----------------------------------------------------------------------------------------------------

    fn has_changes(&self) -> bool {
        self.slot.has_changes() || self.breaker.unwritten().is_some()
    }

    fn must_settle(&self) -> bool {
        let now = Instant::now();
        let company = self.slot.is_urgent()
            || self.slot.unsettled() >= SETTLE_IDS
            || now.duration_since(self.settled_at) >= self.settle_interval;
        (self.has_changes() && company) || now >= self.renewed + self.settings.lease / 3
    }

    /// Writes everything that is decided in one fenced transaction; with nothing to write, renews the lease. False: it
    /// was not written, and the slot is still ours.
    async fn settle(&mut self, release: bool) -> Result<bool, Stop> {
        let began = Instant::now();
        let mut conn = self.session.connect().await?;
        let (settled, void) = self.slot.sets();
        let (stalls, resumed, dead) = self.slot.changes();
        let settlement = Settlement {
            consumer: self.consumer.spec.name.as_str(),
            slot: self.slot_number,
            fence: &self.fence,
            lease: self.settings.lease,
            anchor: self.slot.anchor(),
            settled,
            void,
            pause: self.breaker.unwritten().map(|change| Pause {
                length: change.length,
                attempts: change.failures,
                reason: change.reason.as_deref(),
            }),
            stalls: &stalls,
            resumed: &resumed,
            dead,
            release,
        };
        let unknown = self.outcome_unknown;
        self.outcome_unknown = unknown.or(Some(began));
        let answer = within(self.settings.deadline, DB::settle(&mut conn, &self.tables, &settlement)).await;
        let answer = answer.inspect_err(|error| {
            // A refused statement or commit has changed nothing, and that is known.
            if !error.is_away::<DB>() {
                self.outcome_unknown = unknown;
            }
        })?;
        self.session.keep(conn);
        let took = began.elapsed();
        match answer {
            Settled::Done { fence, paused_for, wanted } => {
                self.committed(fence, began, took);
                self.breaker.written(paused_for, Instant::now());
                self.wanted = wanted;
                Ok(true)
            }
            Settled::Refused { now: None } => Err(Stop::Lost),
            Settled::Refused { now: Some(now) } if now.fence.epoch != self.fence.epoch => Err(Stop::Lost),
            Settled::Refused { now: Some(now) }
                if let Some(began) = unknown
                    && now.fence.rev == self.fence.rev + 1 =>
            {
                // The transaction whose outcome was unknown is the one that moved the row, and renewed the lease.
                self.committed(now.fence, began, took);
                self.breaker.written_blindly();
                Ok(true)
            }
            Settled::Refused { now: Some(now) } if !now.anchored => Err(Distrust::AnchorGone.into()),
            Settled::Refused { now: Some(now) } if now.fence.rev != self.fence.rev => Err(Stop::Lost),
            Settled::Refused { now: Some(now) } => {
                // Somebody else's update moved the row between our two tries: it is still ours, and is found by name.
                self.fence.ctid = now.fence.ctid;
                self.outcome_unknown = unknown;
                Ok(false)
            }
        }
    }

    fn committed(&mut self, fence: Fence, began: Instant, took: Duration) {
        self.fence = fence;
        self.slot.committed();
        self.outcome_unknown = None;
        self.lease.renew(began + self.settings.lease);
        self.renewed = began;
        self.settled_at = Instant::now();
        self.settle_interval = (took * SETTLE_COST_FACTOR).clamp(SETTLE_INTERVAL, SETTLE_INTERVAL_MAX);
        self.telemetry.settled(took);
    }

    // --- the owner's side ------------------------------------------------------------------------------------------

    /// Waits for the next answer, or until something is due. Cancelling it loses nothing.
    pub(crate) async fn next_event(&mut self) {
        if !self.answers.is_empty() {
            return;
        }
        let at = self.next_due();
        tokio::select! {
            Some(answer) = self.sends.join_next() => self.answers.extend(answer.ok()),
            () = tokio::time::sleep_until(at.into()) => {}
        }
    }

    /// When the next step is due, if no answer comes before.
    fn next_due(&self) -> Instant {
        let mut at = self.renewed + self.settings.lease / 3;
        if self.has_room() {
            at = at.min(self.next_read);
        }
        if self.has_changes() {
            at = at.min(self.settled_at + self.settle_interval);
        }
        for time in [self.wakes.next(), self.breaker.open_until()].into_iter().flatten() {
            at = at.min(time);
        }
        let now = Instant::now();
        let resumes = self.slot.may_resume()
            && self.slot.resumed_ready() < self.consumer.spec.max_in_flight
            && self.has_room();
        if self.slot.is_urgent() || resumes {
            return now;
        }
        at
    }

    /// Whether nothing is left to do now: everything that was readable is settled, parked or paused.
    pub(crate) fn is_idle(&self) -> bool {
        // The first empty read shows the gaps, the second judges them.
        self.empty_reads >= 2
            && !self.has_changes()
            && self.slot.in_flight() == 0
            && self.answers.is_empty()
            && !self.slot.may_resume()
            && (!self.slot.may_send() || self.breaker.open_until().is_some())
            && self.wakes.next().is_none_or(|time| time > Instant::now())
    }

    /// Starts nothing new, waits for what is in flight until `until`, settles and gives the slot back.
    pub(crate) async fn drain(&mut self, until: Instant) -> Result<(), Stop> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));
        loop {
            match self.drain_step(until).await {
                Err(Stop::Session(error)) if Instant::now() < until => {
                    self.telemetry.database_error();
                    tracing::warn!(error = %error, "the database is away while draining; trying again");
                    tokio::time::sleep(backoff.failed((self.settings.random)())).await;
                }
                Err(stop) => return Err(stop),
                Ok(true) => return Ok(()),
                Ok(false) => {}
            }
        }
    }

    /// One step of draining; true = given back.
    async fn drain_step(&mut self, until: Instant) -> Result<bool, Stop> {
        if self.outcome_unknown.is_some() {
            self.settle(false).await?;
            return Ok(false);
        }
        self.collect().await?;
        if self.slot.in_flight() > 0 && Instant::now() < until {
            let limit = until.min(self.renewed + self.settings.lease / 3);
            let answer = tokio::time::timeout_at(limit.into(), self.sends.join_next()).await;
            self.answers.extend(answer.ok().flatten().and_then(Result::ok));
            if self.must_settle() {
                self.settle(false).await?;
            }
            return Ok(false);
        }
        if self.slot.in_flight() > 0 {
            tracing::warn!(
                consumer = self.consumer.spec.name.as_str(),
                in_flight = self.slot.in_flight(),
                "the grace period is over: the slot is given back with events at the sink, which may come twice"
            );
        }
        self.settle(true).await
    }
}

/// The lane of an event for this consumer; `None` when the consumer does not want it.
fn lane_of(consumer: &Consumer, event: &StoredEvent) -> Option<Lane> {
    let envelope = &event.envelope;
    let spec = &consumer.spec;
    if spec.wants(&envelope.event_type, envelope.schema_version) == Want::Skip {
        return None;
    }
    let alone = event.delayed || spec.ordering == Ordering::None;
    Some(if alone { Lane::Single(envelope.id) } else { envelope.lane() })
}
