//! Whether everything that is stored can be read: by the schemas, and by the consumers with their pins.

use std::collections::{BTreeMap, HashMap};

use outbox_schema::validate::{Validators, Verdict, Violations};
use outbox_sdk::backend::{ConsumerRow, StallRead, Stored};
use outbox_sdk::{Backend, Lane, Progress};

use super::{OperateError, Operator};
use crate::consumer::{ConsumerSpec, OtherMajors};

/// Rows of one read; with payloads of 1 MiB at most, that bounds the memory too.
const PAGE: u32 = 100;

/// How many kinds of unreadable events are told apart; further ones are not listed.
const MOST: usize = 1_000;

/// What looking at every stored event came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// How many events were looked at.
    pub checked: u64,
    /// What cannot be read, by event type, major and reason; at most 1,000 entries.
    pub unreadable: Vec<Unreadable>,
}

/// Events of one type and major that cannot be read for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The event type.
    pub event_type: String,
    /// The major of the payload that cannot be read.
    pub major: u32,
    /// How many.
    pub events: u64,
    /// The first of them.
    pub first_id: i64,
    /// The reason.
    pub by: UnreadableBy,
}

/// Why an event cannot be read. None of the texts holds a value of the payload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreadableBy {
    /// The registry has no schema of the type and major.
    NoSchema,
    /// The payload is not readable as JSON.
    NotJson,
    /// The payload is not as its schema says: the first violation.
    Violation(String),
    /// A consumer that has not had the event pins a major that the event was not published in.
    MajorMissing {
        /// The consumer.
        consumer: String,
        /// The major that it pins.
        pinned: u32,
    },
}

impl<DB: Backend> Operator<DB> {
    /// Reads every stored event, page by page, and tries each of its payloads against the newest minor of its major, in
    /// reader form, as a relay would. For each consumer that has not had an event, also because it waits in a lane, looks
    /// whether it has the major that the consumer pins. A consumer that is not registered yet has had nothing; what an
    /// operator has asked to be replayed was had.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn backlog(
        &self,
        validators: &Validators,
        consumers: &[&ConsumerSpec],
    ) -> Result<Backlog, OperateError> {
        let mut conn = self.connect().await?;
        let rows = self.within(DB::consumers(&mut conn, &self.tables)).await?;
        let mut readers: Vec<Pending<'_>> = consumers.iter().map(|spec| Pending::of(spec, &rows)).collect();
        for reader in &mut readers {
            let mut after = Some(String::new());
            while let Some(behind) = after {
                let name = reader.spec.name.as_str();
                let read = StallRead { consumer: name, slot: 0, slots: 1, after: &behind };
                let page = self.within(DB::stalls(&mut conn, &self.tables, &read)).await?;
                reader.waiting.extend(page.stalls.into_iter().map(|row| (row.lane, row.head_id)));
                after = page.more;
            }
        }
        let mut found = Found::default();
        let mut after = 0;
        loop {
            let page = self.within(DB::stored(&mut conn, &self.tables, after, PAGE)).await?;
            let Some(last) = page.last() else { break };
            after = last.id;
            page.iter().for_each(|event| found.look_at(event, validators, &readers));
        }
        conn.keep();
        Ok(found.finish())
    }
}

/// The first violation from the schema's side: neither an index nor a name of the payload is in it, so that equal ones are
/// counted together.
fn first(violations: &Violations) -> String {
    let first = violations.as_slice().first();
    first.map(|violation| format!("`{}`: {}", violation.keyword, violation.text)).unwrap_or_default()
}

/// A consumer, and what it has settled.
struct Pending<'a> {
    spec: &'a ConsumerSpec,
    settled: Vec<&'a Progress>,
    /// Keys of the lanes that wait, each with the event at its head.
    waiting: HashMap<String, i64>,
}

impl<'a> Pending<'a> {
    fn of(spec: &'a ConsumerSpec, rows: &'a [ConsumerRow]) -> Self {
        let slots = rows.iter().filter(|row| row.name == spec.name.as_str());
        Self { spec, settled: slots.map(|row| &row.settled).collect(), waiting: HashMap::new() }
    }

    /// Whether the consumer is done with an event. Every slot gets past every id, the ones of other slots too; but what
    /// waits in a lane counts as settled, and a stall row stands for it.
    fn is_through(&self, event: &Stored) -> bool {
        let waits_from = |lane: &Lane| self.waiting.get(&lane.key()).is_some_and(|head| *head <= event.id);
        !self.settled.is_empty()
            && self.settled.iter().all(|settled| settled.contains(event.id))
            && !waits_from(&event.lane)
            && !waits_from(&Lane::Single(event.id))
    }
}

#[derive(Default)]
struct Found {
    checked: u64,
    unreadable: BTreeMap<(String, u32, UnreadableBy), (u64, i64)>,
}

impl Found {
    fn look_at(&mut self, event: &Stored, validators: &Validators, readers: &[Pending<'_>]) {
        self.checked += 1;
        let payloads = event.payloads();
        for (major, payload) in &payloads {
            let by = match validators.check(&event.event_type, *major, payload) {
                Verdict::Valid | Verdict::Undeclared(_) => continue,
                Verdict::Unknown { .. } => UnreadableBy::NoSchema,
                Verdict::Unreadable(_) => UnreadableBy::NotJson,
                Verdict::Invalid(violations) => UnreadableBy::Violation(first(&violations)),
            };
            self.add(event, *major, by);
        }
        for reader in readers {
            let spec = reader.spec;
            let pinned = spec.pinned(&event.event_type).filter(|pin| !payloads.contains_key(pin));
            let Some(pinned) = pinned else { continue };
            let wanted = spec.events.matches(&event.event_type) && spec.other_majors == OtherMajors::Dead;
            if wanted && !reader.is_through(event) {
                let consumer = spec.name.as_str().to_owned();
                self.add(event, event.schema_version, UnreadableBy::MajorMissing { consumer, pinned });
            }
        }
    }

    fn add(&mut self, event: &Stored, major: u32, by: UnreadableBy) {
        let key = (event.event_type.clone(), major, by);
        let room = self.unreadable.len() < MOST || self.unreadable.contains_key(&key);
        if room {
            self.unreadable.entry(key).or_insert((0, event.id)).0 += 1;
        }
    }

    fn finish(self) -> Backlog {
        let unreadable = self.unreadable.into_iter().map(|((event_type, major, by), (events, first_id))| {
            Unreadable { event_type, major, events, first_id, by }
        });
        Backlog { checked: self.checked, unreadable: unreadable.collect() }
    }
}
