//! The straight line of an event: read, validate, deliver, settle.
//!
//! One engine runs one slot of one consumer while its owner holds the lease. [`Engine::cycle`] is the line; lanes that
//! wait are in `engine/stalled.rs`, operators' decisions in `engine/decisions.rs`, coming back and draining in
//! `engine/idle.rs`. `slot` knows which event may go now;
//! `attempt` validates and delivers; everything that is written goes through [`Engine::settle`], which begins with the
//! lease's fence. Sends run beside the cycle, up to the consumer's limit, with no database transaction open.

mod caution;
mod decisions;
mod gone;
mod idle;
mod questions;
mod seated;
mod settling;
mod stalled;
mod sweep;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Claimed, Fence, StoredEvent};
use outbox_sdk::{Backend, Lane, Tables, slot_of};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::attempt::{Attempted, Consumer, Lease, attempt, judge};
use crate::breaker::{Answered, Breaker, Cause};
use crate::company::Company;
use crate::consumer::{Ordering, Want};
use crate::gate::Gate;
use crate::rate::Bucket;
use crate::reader::{ReadError, Reader, Wish};
use crate::relay::Settings;
use crate::schemas::Schemas;
use crate::session::{Session, SessionError};
use crate::shared_read::Seat;
use crate::sink::Outcome;
use crate::slot::{Bounds, Distrust, Page, Send, Slot, Verdict};
use crate::telemetry::Telemetry;
use crate::turn::Turn;
use crate::wakes::{Spacing, Wakes};

use self::decisions::Decisions;
use self::gone::Gone;
use self::questions::Open;

/// How many ids are settled at once at most before the interval is over.
const SETTLE_IDS: usize = 1_000;
/// How many events of one lane wait in memory at most, and which part of the window.
const LANE_ROWS: usize = 1_000;
const LANE_SHARE: usize = 8;
/// How often one consumer's waiting events are said aloud.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Why an engine stopped before it was told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The slot belongs to somebody else, or to nobody: nothing in memory counts any more.
    #[error("the lease is lost: another relay has taken over, or the consumer was removed")]
    Lost,
    /// What the database shows contradicts what was read from it.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// A waiting lane has a key that this release does not write: its events would never come.
    #[error("a stall row has a key that this release does not write")]
    Stall(String),
    /// The task of an attempt has ended without an answer.
    #[error("the task of an attempt ended without an answer; please report it with the log")]
    Unanswered(#[source] JoinError),
    /// A call failed; what is in memory still counts while the lease does.
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl From<ReadError> for Stop {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Distrust(distrust) => distrust.into(),
            ReadError::Session(error) => error.into(),
        }
    }
}

#[derive(Debug)]
struct Answer {
    send: Send,
    sent: Instant,
    attempted: Attempted,
}

/// Runs one claimed slot.
pub(crate) struct Engine<DB: Backend> {
    consumer: Arc<Consumer>,
    company: Arc<Company<DB>>,
    settings: Arc<Settings>,
    tables: Tables,
    schemas: Schemas,
    telemetry: Telemetry,
    session: Session<DB>,
    slot_number: i32,
    slot: Slot,
    /// Where the stall rows begin that were not read yet.
    more_stalls: Option<String>,
    fence: Fence,
    /// No send starts without it.
    lease: Lease,
    renewed: Instant,
    sends: JoinSet<Answer>,
    answers: VecDeque<Answer>,
    /// How an attempt ended that has no answer.
    unanswered: Option<JoinError>,
    /// What waits to know whether it was overtaken.
    questions: VecDeque<Open>,
    /// When to ask the database whether a parked lane is due.
    wakes: Wakes,
    /// How often what waits for its schema is looked at, as long as there are no others.
    looks: Spacing,
    schemas_changed: watch::Receiver<u64>,
    breaker: Breaker,
    /// Somebody has paused or resumed the consumer since the row was written: renewing the lease tells.
    row_changed: bool,
    /// Until when an operator or its receiver has paused the consumer: nothing is sent, whatever the breaker says.
    held_until: Option<Instant>,
    gone: Gone,
    /// This slot's part of the rate that the destination may get.
    rate: Option<Bucket>,
    /// When the last pass has looked at what may go.
    looked: Instant,
    /// When the settling transaction began whose outcome is not known.
    outcome_unknown: Option<Instant>,
    settled_at: Instant,
    settle_interval: Duration,
    /// Reads for this slot while it has no seat at the shared read.
    reader: Reader,
    seat: Option<Seat>,
    /// Something was committed while this engine had a seat, or had asked for one.
    poked: bool,
    /// The last read of its own has reached the head.
    near_head: bool,
    /// What operators have decided and an owner must carry out.
    decisions: Decisions,
    /// When dead gaps are looked into again.
    next_sweep: Instant,
    /// While events go one at a time: whether this engine may have one on its way.
    turn: Turn,
    /// When a waiting event was last said aloud.
    complained: Option<Instant>,
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
    pub(crate) fn new(
        consumer: Arc<Consumer>,
        company: Arc<Company<DB>>,
        session: Session<DB>,
        slot_number: i32,
        claimed: &Claimed,
        claimed_at: Instant,
    ) -> Result<Self, String> {
        let now = Instant::now();
        let settings = Arc::clone(&company.settings);
        Ok(Self {
            telemetry: Telemetry::of(consumer.spec.name.as_str(), slot_number),
            slot: Slot::claimed(claimed, bounds(&consumer, &settings, claimed.clean), now)?,
            more_stalls: claimed.more_stalls.clone(),
            fence: claimed.fence.clone(),
            lease: Lease::until(claimed_at + settings.lease),
            renewed: claimed_at,
            sends: JoinSet::new(),
            answers: VecDeque::new(),
            unanswered: None,
            questions: VecDeque::new(),
            wakes: Wakes::default(),
            looks: Spacing::new(now),
            schemas_changed: company.schemas.changes(),
            breaker: Breaker::claimed(claimed.paused_for, claimed.attempts, now),
            row_changed: false,
            held_until: held_until(claimed.held, claimed.paused_for, now),
            gone: Gone::default(),
            rate: consumer.spec.rate_limit.map(|limit| Bucket::new(limit, consumer.spec.slots, now)),
            looked: now,
            outcome_unknown: None,
            settled_at: now,
            settle_interval: settling::INTERVAL,
            reader: Reader::new(&settings, &company.tables, Arc::clone(&company.free_slots), now),
            seat: None,
            poked: false,
            near_head: false,
            decisions: Decisions::new(now),
            next_sweep: now + settings.sweep_interval,
            turn: Turn::None,
            complained: None,
            wanted: false,
            processed: 0,
            consumer,
            settings,
            tables: company.tables.clone(),
            schemas: company.schemas.clone(),
            company,
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
        self.read_stalls().await?;
        self.collect();
        self.check_answers()?;
        self.ask().await?;
        self.pause_if_gone().await?;
        if self.must_settle() {
            self.settle(false).await?;
        }
        if !self.follow()? && self.has_room() && Instant::now() >= self.reader.pace.next() {
            self.read().await?;
            self.renew_in_time().await?;
        }
        self.carry_out().await?;
        self.renew_in_time().await?;
        self.sweep().await?;
        self.renew_in_time().await?;
        self.wake().await?;
        self.renew_in_time().await?;
        self.resume().await?;
        self.looked = Instant::now();
        self.breaker.look(self.looked);
        self.count();
        self.send();
        self.telemetry.state(
            self.slot.in_flight(),
            self.slot.open_gaps(),
            self.breaker.open_until().is_some() || self.is_held(),
        );
        Ok(())
    }

    // --- read ------------------------------------------------------------------------------------------------------

    fn has_room(&self) -> bool {
        self.has_room_for(1)
    }

    fn has_room_for(&self, events: usize) -> bool {
        let settings = &self.settings;
        self.slot.rows() + events <= settings.window_rows && self.slot.bytes() < settings.window_bytes
    }

    /// Reads for this slot alone.
    async fn read(&mut self) -> Result<(), Stop> {
        let wish = Wish { rows: self.settings.window_rows - self.slot.rows(), through: None };
        let name = self.consumer.spec.name.as_str();
        let page = self.reader.read(&mut self.session, self.slot.cursor_mut(), wish, name).await?;
        self.near_head = !page.full;
        self.take_in(page)
    }

    /// Takes in a page, whoever has read it.
    fn take_in(&mut self, page: Page) -> Result<(), Stop> {
        let name = self.consumer.spec.name.as_str();
        self.decisions.note(&page.notices, name);
        if page.notices.asked {
            self.row_changed = page.notices.held.iter().any(|held| held == name) != self.is_held();
        }
        let (consumer, slot) = (&self.consumer, self.slot_number);
        let accepted = self.slot.take_in(page, |event| lane_of(consumer, slot, event))?;
        self.telemetry.read(accepted.events, accepted.late, accepted.dead_gaps);
        if accepted.late > 0 {
            tracing::warn!(
                consumer = consumer.spec.name.as_str(),
                events = accepted.late,
                "events came after a later one of their aggregate had gone: some writer takes no aggregate lock; \
                 publish through the SDK or the SQL function"
            );
        }
        Ok(())
    }

    /// Something was committed: read now, unless somebody else does.
    pub(crate) fn poke(&mut self) {
        if self.seat.is_none() {
            self.reader.pace.poke(Instant::now());
        } else {
            self.poked = true;
        }
    }

    // --- deliver ---------------------------------------------------------------------------------------------------

    fn is_held(&self) -> bool {
        self.held_until.is_some_and(|until| Instant::now() < until)
    }

    /// What may go, as the last pass has seen it.
    fn gate(&self) -> Gate<'_> {
        Gate {
            slot: &self.slot,
            breaker: &self.breaker,
            held_until: self.held_until,
            rate: self.rate.as_ref(),
            most: self.consumer.spec.max_in_flight,
            now: self.looked,
        }
    }

    /// Starts as many sends as may run: lanes in parallel, one event of a lane at a time.
    fn send(&mut self) {
        if !self.lease.holds() || !self.slot.has_next() {
            return;
        }
        let now = self.looked;
        let mut room = self.gate().room();
        if self.breaker.is_probing() && room > 0 {
            self.slot.draw((self.settings.random)());
            self.breaker.probed(now);
        }
        while room > 0
            && let Some(send) = self.slot.next_send()
        {
            room -= 1;
            if let Some(rate) = &mut self.rate {
                rate.take(now);
            }
            let consumer = Arc::clone(&self.consumer);
            let schemas = self.schemas.clone();
            let missing = self.settings.missing_schema;
            let (lease, history) = (self.lease.clone(), self.company.history.clone());
            self.sends.spawn(async move {
                let attempted = attempt(&consumer, &schemas, missing, &lease, &history, &send).await;
                Answer { send, sent: now, attempted }
            });
        }
    }

    /// Takes in the answers that are there.
    fn collect(&mut self) {
        while let Some(ended) = self.sends.try_join_next() {
            self.ended(ended);
        }
        while let Some(answer) = self.answers.pop_front() {
            self.take_or_ask(answer);
        }
    }

    /// Notes how an attempt ended.
    fn ended(&mut self, ended: Result<Answer, JoinError>) {
        match ended {
            Ok(answer) => self.answers.push_back(answer),
            Err(error) => self.unanswered = Some(error),
        }
    }

    /// An attempt that took its task along will never answer, and its lane would be in flight for ever.
    fn check_answers(&mut self) -> Result<(), Stop> {
        self.unanswered.take().map_or(Ok(()), |error| Err(Stop::Unanswered(error)))
    }

    /// Decides what an answer means and tells the slot.
    fn take(&mut self, answer: Answer, overtaken: bool) {
        let Answer { send, sent, attempted } = answer;
        let now = Instant::now();
        let random = (self.settings.random)();
        if let Attempted::Sink(outcome) = &attempted {
            self.note_destination(Answered { lane: &send.lane, sent, outcome }, now, random);
            if let Outcome::Gone { error } = outcome {
                self.note_gone(error, sent, now);
            }
        }
        // The lane is not listed as waiting for a schema while its event is on its way.
        let outdated = matches!(&attempted, Attempted::Held { generation, .. } if *generation != self.schemas.generation());
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
                // Said aloud now and then: somebody may wait for it, and a storm of failures must not fill the log.
                let (consumer, id) = (spec.name.as_str(), envelope.id);
                if self.complained.is_none_or(|last| now.duration_since(last) >= COMPLAIN_EVERY) {
                    self.complained = Some(now);
                    tracing::warn!(
                        consumer,
                        id,
                        event_type = envelope.event_type.as_str(),
                        attempts,
                        again_in = ?delay,
                        error = error.as_str(),
                        "an event waits, and its aggregate with it; further ones are logged at debug level for a minute"
                    );
                } else {
                    tracing::debug!(consumer, id, attempts, again_in = ?delay, error = error.as_str(), "an event waits");
                }
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
        if outdated {
            self.slot.look_for_schemas();
        }
    }

    fn note_destination(&mut self, answer: Answered<'_>, now: Instant, random: f64) {
        let consumer = self.consumer.spec.name.as_str();
        let Some(change) = self.breaker.note(answer, now, random) else { return };
        let (pause, reason) = (change.length, change.reason.as_deref());
        match change.cause {
            _ if pause.is_zero() => tracing::info!(consumer, "the destination answers again"),
            Cause::Unavailable => tracing::warn!(
                consumer,
                ?pause,
                reason,
                "the destination is unavailable: the consumer pauses, no attempt is counted"
            ),
            Cause::Failing => tracing::warn!(
                consumer,
                ?pause,
                reason,
                "the destination fails for every aggregate: the consumer pauses and then probes, one event at a time"
            ),
        }
    }
}

fn held_until(held: bool, paused_for: Option<Duration>, now: Instant) -> Option<Instant> {
    paused_for.filter(|_| held).map(|left| now + left)
}

/// What the slot may hold of one lane, and how many events go one at a time at first: after an owner that ended without
/// giving the slot back, as many as it can have had on its way or unsettled, if an event can end the process.
fn bounds(consumer: &Consumer, settings: &Settings, clean: bool) -> Bounds {
    let careful = !clean && consumer.sink.in_process();
    Bounds {
        lane_rows: (settings.window_rows / LANE_SHARE).clamp(1, LANE_ROWS),
        lane_bytes: settings.window_bytes / LANE_SHARE,
        caution: if careful { consumer.spec.max_in_flight + SETTLE_IDS } else { 0 },
    }
}

/// Whether another slot of the consumer has the event.
fn is_foreign(consumer: &Consumer, slot: i32, event: &StoredEvent) -> bool {
    let slots = consumer.spec.slots;
    slots > 1 && slot_of(&event.envelope.lane(), slots) != slot
}

/// The lane of an event for this slot of the consumer; `None` when the consumer does not want it, or another slot has it.
fn lane_of(consumer: &Consumer, slot: i32, event: &StoredEvent) -> Option<Lane> {
    let envelope = &event.envelope;
    let spec = &consumer.spec;
    let wanted = spec.wants_event(envelope) != Want::Skip;
    if is_foreign(consumer, slot, event) || !wanted {
        return None;
    }
    let alone = event.delayed || spec.ordering == Ordering::None;
    Some(if alone { Lane::Single(envelope.id) } else { envelope.lane() })
}
