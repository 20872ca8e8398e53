//! What a consumer is: which events it wants, in which order and form, and what happens when it fails.

mod name;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outbox_schema::is_well_formed;
use outbox_sdk::Envelope;

pub use self::name::ConsumerName;
pub use self::pattern::{EventFilter, EventPattern};
use crate::rate::RateLimit;
use crate::retry::RetryPolicy;

/// How many events of one consumer are on the way at once, unless the consumer says otherwise.
pub const DEFAULT_MAX_IN_FLIGHT: usize = 32;

/// The most slots that a consumer can be spread over.
pub const MAX_SLOTS: u16 = 64;

/// How long a sink may take for one event, unless the consumer says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(25);

/// Why a consumer cannot be described like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The consumer's name is not usable.
    #[error("`{0}` is not a consumer name: use 1 to 63 of a-z, 0-9, `_` and `-`, and begin with a letter")]
    Name(String),
    /// The text is not an event pattern.
    #[error(
        "`{0}` is not an event pattern: write an event type such as `entity.customer.updated`, \
         a prefix such as `entity.customer.*`, or `*` for all"
    )]
    Pattern(String),
    /// A pattern stands where one exact event type is needed.
    #[error("`{0}` is not an event type: write two or three parts such as `entity.customer.updated`")]
    EventType(String),
    /// Majors begin at 1.
    #[error("major {major} of `{event_type}` does not exist: majors begin at 1")]
    Major {
        /// The pinned event type.
        event_type: String,
        /// The major that was asked for.
        major: u32,
    },
    /// A handler has one method for each event type.
    #[error("`{0}` is pinned twice: a consumer reads one major of an event type, so keep one of the pins")]
    PinnedTwice(String),
    /// A consumer without patterns would receive nothing.
    #[error("a consumer without event patterns receives nothing: give at least one, or `*` for all")]
    NoPatterns,
    /// A consumer that may have nothing on the way makes no progress.
    #[error("max_in_flight is 0, so nothing would be delivered: use 1 or more")]
    NoRoom,
    /// A consumer runs in 1 to 64 slots.
    #[error("{0} slots: spread a consumer over 1 to {MAX_SLOTS}")]
    Slots(u16),
    /// A sink without time fails always.
    #[error("the time limit is zero, so every delivery would fail: use some seconds")]
    NoTime,
}

/// In which order a consumer receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// Strictly by id within a lane, one at a time; lanes run in parallel.
    #[default]
    Lane,
    /// As they come: a failing event holds up nothing but itself.
    None,
}

impl Ordering {
    /// The word used in configuration and in the consumer's row.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::None => "none",
        }
    }
}

/// What happens to a lane when one of its events has become a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDead {
    /// The lane goes on with the next event.
    #[default]
    Continue,
    /// The lane stays blocked until an operator replays or discards the event.
    Block,
}

impl OnDead {
    /// The word used in configuration and in the consumer's row.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Block => "block",
        }
    }
}

/// Where a consumer begins when it is registered for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the oldest event that is still kept.
    Earliest,
    /// With events published after the registration.
    Now,
    /// With events created at or after this time, in microseconds since 1970-01-01T00:00:00Z.
    At(i64),
}

/// What happens to an event of a pinned type that does not carry the pinned major.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtherMajors {
    /// It becomes a dead letter `major_missing`, so that an operator sees it.
    #[default]
    Dead,
    /// It is passed over.
    Skip,
}

/// What to do with an event for one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Deliver it.
    Deliver,
    /// Settle it without a delivery.
    Skip,
    /// A dead letter: the type is pinned to a major that the event does not carry.
    MajorMissing,
}

/// The description of a consumer. The fields are readable; the methods keep their rules while building.
///
/// ```
/// use outbox_relay::consumer::{ConsumerSpec, Want};
///
/// let crm = ConsumerSpec::new("crm")?
///     .events(["entity.customer.*"])?
///     .pin("entity.customer.updated", 1)?
///     .max_in_flight(8)?;
/// assert_eq!(crm.wants("entity.customer.updated", 1), Want::Deliver);
/// assert_eq!(crm.wants("entity.customer.updated", 2), Want::MajorMissing);
/// assert_eq!(crm.wants("entity.order.placed", 1), Want::Skip);
/// # Ok::<(), outbox_relay::consumer::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerSpec {
    /// The name that its progress is kept under.
    pub name: ConsumerName,
    /// Which event types it receives; all by default.
    pub events: EventFilter,
    /// Event type to the major that the consumer reads. A type without a pin is delivered in its own major.
    pub pins: BTreeMap<String, u32>,
    /// What happens to events of a pinned type without that major.
    pub other_majors: OtherMajors,
    /// In which order it receives events.
    pub ordering: Ordering,
    /// What a dead letter does to its lane.
    pub on_dead: OnDead,
    /// Something else for some event types; see [`ConsumerSpec::on_dead_for`].
    pub on_dead_for: BTreeMap<EventPattern, OnDead>,
    /// Where it begins; `None` leaves that to the registration.
    pub start: Option<Start>,
    /// When failed deliveries are tried again.
    pub retry: RetryPolicy,
    /// Other policies for some event types; see [`ConsumerSpec::retry_for`].
    pub retry_for: BTreeMap<EventPattern, RetryPolicy>,
    /// Over how many slots its lanes are spread; each is run by one relay at a time. 1 to [`MAX_SLOTS`].
    pub slots: u16,
    /// Whether retention keeps whatever this consumer has not settled, also when somebody would remove it.
    pub required_for_retention: bool,
    /// How many events of one slot are on the way at once, over all its lanes; at least 1.
    pub max_in_flight: usize,
    /// How many events its destination gets at most, over all slots; as many as it takes by default.
    pub rate_limit: Option<RateLimit>,
    /// How long the sink may take for one event; must stay below the relay's lease.
    pub timeout: Duration,
}

impl ConsumerSpec {
    /// A consumer of all events with every setting at its default.
    ///
    /// # Errors
    /// [`SpecError::Name`] when the name is not a [`ConsumerName`].
    pub fn new(name: &str) -> Result<Self, SpecError> {
        Ok(Self::named(name.parse()?))
    }

    /// As [`ConsumerSpec::new`], for a name that was checked before.
    #[must_use]
    pub fn named(name: ConsumerName) -> Self {
        Self {
            name,
            events: EventFilter::all(),
            pins: BTreeMap::new(),
            other_majors: OtherMajors::default(),
            ordering: Ordering::default(),
            on_dead: OnDead::default(),
            on_dead_for: BTreeMap::new(),
            start: None,
            retry: RetryPolicy::default(),
            retry_for: BTreeMap::new(),
            slots: 1,
            required_for_retention: false,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            rate_limit: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Receives only events that one of these patterns matches.
    ///
    /// # Errors
    /// [`SpecError::Pattern`] for the first text that is no pattern, [`SpecError::NoPatterns`] without any.
    pub fn events<P: AsRef<str>>(mut self, patterns: impl IntoIterator<Item = P>) -> Result<Self, SpecError> {
        let patterns: Vec<_> = patterns.into_iter().map(|p| p.as_ref().parse()).collect::<Result<_, _>>()?;
        self.events = EventFilter::new(patterns)?;
        Ok(self)
    }

    /// Receives exactly these event types, each in its major: the `PINS` of generated code.
    ///
    /// ```
    /// # use outbox_relay::consumer::{ConsumerSpec, SpecError};
    /// mod events {
    ///     pub const CONSUMER: &str = "crm";
    ///     pub const PINS: &[(&str, u32)] = &[("entity.customer.updated", 2)];
    /// }
    ///
    /// let spec = ConsumerSpec::new(events::CONSUMER)?.reads(events::PINS)?;
    /// # Ok::<(), SpecError>(())
    /// ```
    ///
    /// # Errors
    /// As [`events`](Self::events) and [`pin`](Self::pin), for the first one that is none; [`SpecError::PinnedTwice`] for
    /// an event type that is there twice.
    pub fn reads(self, pins: &[(&str, u32)]) -> Result<Self, SpecError> {
        let mut seen = BTreeSet::new();
        if let Some((twice, _)) = pins.iter().find(|(event_type, _)| !seen.insert(event_type)) {
            return Err(SpecError::PinnedTwice((*twice).to_owned()));
        }
        let spec = self.events(pins.iter().map(|(event_type, _)| event_type))?;
        pins.iter().try_fold(spec, |spec, (event_type, major)| spec.pin(event_type, *major))
    }

    /// Reads this event type in this major.
    ///
    /// # Errors
    /// [`SpecError::EventType`] for a pattern or another text, [`SpecError::Major`] for major 0.
    pub fn pin(mut self, event_type: &str, major: u32) -> Result<Self, SpecError> {
        if !is_well_formed(event_type) {
            return Err(SpecError::EventType(event_type.to_owned()));
        }
        if major == 0 {
            return Err(SpecError::Major { event_type: event_type.to_owned(), major });
        }
        self.pins.insert(event_type.to_owned(), major);
        Ok(self)
    }

    /// Sets what happens to events of a pinned type without that major.
    #[must_use]
    pub fn other_majors(mut self, other_majors: OtherMajors) -> Self {
        self.other_majors = other_majors;
        self
    }

    /// Sets the order.
    #[must_use]
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = ordering;
        self
    }

    /// Sets what a dead letter does to its lane.
    #[must_use]
    pub fn on_dead(mut self, on_dead: OnDead) -> Self {
        self.on_dead = on_dead;
        self
    }

    /// Sets what a dead letter of the event types that a pattern matches does to its lane.
    ///
    /// ```
    /// use outbox_relay::consumer::{ConsumerSpec, OnDead};
    ///
    /// let ledger = ConsumerSpec::new("ledger")?.override_on_dead("account.*", OnDead::Block)?;
    /// assert_eq!(ledger.on_dead_for("account.debited"), OnDead::Block);
    /// assert_eq!(ledger.on_dead_for("customer.renamed"), OnDead::Continue);
    /// # Ok::<(), outbox_relay::consumer::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// [`SpecError::Pattern`] when the text is no pattern.
    pub fn override_on_dead(mut self, pattern: &str, on_dead: OnDead) -> Result<Self, SpecError> {
        self.on_dead_for.insert(pattern.parse()?, on_dead);
        Ok(self)
    }

    /// Sets where the consumer begins when it is registered for the first time.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// Sets how many events its destination gets at most.
    #[must_use]
    pub fn rate_limit(mut self, limit: RateLimit) -> Self {
        self.rate_limit = Some(limit);
        self
    }

    /// Sets when failed deliveries are tried again.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets another policy for the event types that a pattern matches.
    ///
    /// # Errors
    /// [`SpecError::Pattern`] when the text is no pattern.
    pub fn override_retry(mut self, pattern: &str, retry: RetryPolicy) -> Result<Self, SpecError> {
        self.retry_for.insert(pattern.parse()?, retry);
        Ok(self)
    }

    /// Spreads the consumer's lanes over this many slots, so that several relays share it. Every aggregate stays in one
    /// slot, and in order. The number may change from start to start: progress is kept.
    ///
    /// # Errors
    /// [`SpecError::Slots`] unless it is 1 to [`MAX_SLOTS`].
    pub fn slots(mut self, slots: u16) -> Result<Self, SpecError> {
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(SpecError::Slots(slots));
        }
        self.slots = slots;
        Ok(self)
    }

    /// Sets whether retention keeps whatever this consumer has not settled, also when somebody would remove it: for one
    /// that copies every event for an audit, say.
    #[must_use]
    pub fn required_for_retention(mut self, required: bool) -> Self {
        self.required_for_retention = required;
        self
    }

    /// Sets how many events of one slot may be on the way at once.
    ///
    /// # Errors
    /// [`SpecError::NoRoom`] for 0.
    pub fn max_in_flight(mut self, events: usize) -> Result<Self, SpecError> {
        if events == 0 {
            return Err(SpecError::NoRoom);
        }
        self.max_in_flight = events;
        Ok(self)
    }

    /// Sets how long the sink may take for one event.
    ///
    /// # Errors
    /// [`SpecError::NoTime`] for zero.
    pub fn timeout(mut self, limit: Duration) -> Result<Self, SpecError> {
        if limit.is_zero() {
            return Err(SpecError::NoTime);
        }
        self.timeout = limit;
        Ok(self)
    }

    /// What to do with an event that carries this major. For an event that carries several (an older major was
    /// stored beside the newest), ask with [`ConsumerSpec::pinned`] for the one to deliver.
    #[must_use]
    pub fn wants(&self, event_type: &str, major: u32) -> Want {
        if !self.events.matches(event_type) {
            return Want::Skip;
        }
        match (self.pinned(event_type), self.other_majors) {
            (Some(pinned), OtherMajors::Dead) if pinned != major => Want::MajorMissing,
            (Some(pinned), OtherMajors::Skip) if pinned != major => Want::Skip,
            _ => Want::Deliver,
        }
    }

    /// What to do with an event that may carry older majors beside its own.
    #[must_use]
    pub fn wants_event(&self, event: &Envelope) -> Want {
        match self.wants(&event.event_type, event.schema_version) {
            Want::Deliver => Want::Deliver,
            other => match self.pinned(&event.event_type) {
                Some(major) if self.events.matches(&event.event_type) && event.majors().contains(&major) => {
                    Want::Deliver
                }
                _ => other,
            },
        }
    }

    /// The major in which the consumer reads this event type, if it pins one.
    #[must_use]
    pub fn pinned(&self, event_type: &str) -> Option<u32> {
        self.pins.get(event_type).copied()
    }

    /// The retry policy for this event type: that of the most exact pattern in `retry_for` that matches, else
    /// `retry`.
    #[must_use]
    pub fn retry_for(&self, event_type: &str) -> &RetryPolicy {
        most_exact(&self.retry_for, event_type).unwrap_or(&self.retry)
    }

    /// What a dead letter of this event type does to its lane: as the most exact pattern in `on_dead_for` that matches
    /// says, else `on_dead`.
    #[must_use]
    pub fn on_dead_for(&self, event_type: &str) -> OnDead {
        most_exact(&self.on_dead_for, event_type).copied().unwrap_or(self.on_dead)
    }

    /// What is stored with the consumer's row, so that operators and the recorder know what it receives, and relays
    /// agree on it, without its configuration: `filter`, `pins`, `ordering`, `slots`, `on_dead` and
    /// `on_dead_for`.
    #[must_use]
    pub fn stored(&self) -> serde_json::Value {
        let filter: Vec<_> = self.events.patterns().iter().map(EventPattern::as_str).collect();
        let on_dead_for: BTreeMap<_, _> =
            self.on_dead_for.iter().map(|(pattern, on_dead)| (pattern.as_str(), on_dead.as_str())).collect();
        serde_json::json!({
            "filter": filter,
            "pins": self.pins,
            "ordering": self.ordering.as_str(),
            "slots": self.slots,
            "on_dead": self.on_dead.as_str(),
            "on_dead_for": on_dead_for,
        })
    }
}

fn most_exact<'a, T>(settings: &'a BTreeMap<EventPattern, T>, event_type: &str) -> Option<&'a T> {
    let matching = settings.iter().filter(|(pattern, _)| pattern.matches(event_type));
    matching.max_by_key(|(pattern, _)| pattern.exactness()).map(|(_, setting)| setting)
}
