//! The event on its way: as it is written, and as it is read back.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use crate::lane::Lane;

/// A moment of the database's clock, in microseconds since 1970-01-01 UTC.
///
/// The toolkit forces no date library on its users; convert with [`Timestamp::to_system_time`] or from
/// [`Timestamp::micros`].
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use outbox_sdk::Timestamp;
///
/// let time = Timestamp::from_micros(1_500_000);
/// assert_eq!((time.micros(), time.to_system_time()), (1_500_000, UNIX_EPOCH + Duration::from_millis(1_500)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01 UTC.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The same moment for the standard library.
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        let offset = Duration::from_micros(self.0.unsigned_abs());
        if self.0 >= 0 { SystemTime::UNIX_EPOCH + offset } else { SystemTime::UNIX_EPOCH - offset }
    }
}

/// An event as it is written: the row before it has an id.
///
/// [`Outbox`](crate::Outbox) builds it from the event and the [`Context`](crate::Context); it is public for backends
/// and for writers that go through another database library.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NewEnvelope {
    /// The key by which consumers deduplicate; a version 7 UUID drawn by the writer.
    pub event_id: Uuid,
    /// `<object>.<type?>.<verb>`.
    pub event_type: String,
    /// The major version of the payload's schema, 1 or more.
    pub schema_version: u32,
    /// The kind of aggregate that the event is about.
    pub aggregate_type: String,
    /// The aggregate's id; `None` for an event without aggregate, which has no order.
    pub aggregate_id: Option<String>,
    /// The tenant; `None` takes the transaction's tenant setting, if there is one, else the event is the platform's.
    pub tenant_id: Option<Uuid>,
    /// What the whole operation is known by, across services.
    pub correlation_id: Option<Uuid>,
    /// The event or command that caused this one.
    pub causation_id: Option<Uuid>,
    /// Who did it, as JSON text; never a secret.
    pub actor: Option<String>,
    /// The id of the service's own audit row.
    pub audit_log_id: Option<i64>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
    /// The payload: the text of a JSON object.
    pub payload: String,
    /// Payloads of older majors: the text of a JSON object from major to payload.
    pub older_payloads: Option<String>,
    /// How long after the insert the event becomes available; `None` or zero = at once.
    pub delay: Option<Duration>,
    /// When it happened, if that was before the insert.
    pub occurred_at: Option<Timestamp>,
}

impl NewEnvelope {
    /// An event with a fresh `event_id` and nothing optional set.
    #[must_use]
    pub fn new(event_type: &str, schema_version: u32, aggregate_type: &str, payload: String) -> Self {
        Self {
            event_id: Uuid::now_v7(),
            event_type: event_type.to_owned(),
            schema_version,
            aggregate_type: aggregate_type.to_owned(),
            aggregate_id: None,
            tenant_id: None,
            correlation_id: None,
            causation_id: None,
            actor: None,
            audit_log_id: None,
            traceparent: None,
            tracestate: None,
            payload,
            older_payloads: None,
            delay: None,
            occurred_at: None,
        }
    }
}

/// What the database answered to a publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The order anchor inside the aggregate. Not a commit order across aggregates.
    pub id: i64,
    /// The key by which consumers deduplicate.
    pub event_id: Uuid,
}

/// What a publish under a key came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// The key is new: the event was written.
    Published(Published),
    /// An event was written under this key before; nothing was written now.
    Repeated {
        /// Of the event that was written.
        event_id: Uuid,
    },
}

impl Once {
    /// Of the event that the key stands for, whoever wrote it.
    #[must_use]
    pub const fn event_id(self) -> Uuid {
        match self {
            Self::Published(published) => published.event_id,
            Self::Repeated { event_id } => event_id,
        }
    }
}

/// An event as it was read back: what handlers and sinks get.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The order anchor inside the aggregate.
    pub id: i64,
    /// The key by which consumers deduplicate.
    pub event_id: Uuid,
    /// The tenant; `None` for an event of the platform.
    pub tenant_id: Option<Uuid>,
    /// `<object>.<type?>.<verb>`.
    pub event_type: String,
    /// The major version of [`payload`](Self::payload)'s schema.
    pub schema_version: u32,
    /// The kind of aggregate.
    pub aggregate_type: String,
    /// The aggregate's id; `None` = without aggregate, unordered.
    pub aggregate_id: Option<String>,
    /// The id of the service's own audit row.
    pub audit_log_id: Option<i64>,
    /// What the whole operation is known by, across services.
    pub correlation_id: Option<Uuid>,
    /// The event or command that caused this one.
    pub causation_id: Option<Uuid>,
    /// Who did it, as JSON text.
    pub actor: Option<String>,
    /// W3C `traceparent`.
    pub traceparent: Option<String>,
    /// W3C `tracestate`.
    pub tracestate: Option<String>,
    /// The payload as the database prints it. It is never passed through a JSON value, so that every digit stays.
    pub payload: String,
    /// Payloads of older majors: the text of a JSON object from major to payload.
    pub older_payloads: Option<String>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When the writing transaction began.
    pub created_at: Timestamp,
}

impl Envelope {
    /// An envelope as it would be read back, for tests of sinks and handlers: id 1, times at the epoch, nothing
    /// optional set.
    #[must_use]
    pub fn example(event_type: &str, schema_version: u32, payload: &str) -> Self {
        Self {
            id: 1,
            event_id: Uuid::now_v7(),
            tenant_id: None,
            event_type: event_type.to_owned(),
            schema_version,
            aggregate_type: "example".to_owned(),
            aggregate_id: None,
            audit_log_id: None,
            correlation_id: None,
            causation_id: None,
            actor: None,
            traceparent: None,
            tracestate: None,
            payload: payload.to_owned(),
            older_payloads: None,
            occurred_at: Timestamp(0),
            created_at: Timestamp(0),
        }
    }

    /// The lane of the event, if it has an aggregate.
    ///
    /// ```
    /// use outbox_sdk::{Envelope, Lane};
    ///
    /// let mut envelope = Envelope::example("customer.updated", 1, "{}");
    /// assert_eq!(envelope.lane(), Lane::Single(1));
    /// envelope.aggregate_id = Some("42".into());
    /// assert_eq!(envelope.lane(), Lane::aggregate(None, "example", "42"));
    /// ```
    #[must_use]
    pub fn lane(&self) -> Lane {
        match &self.aggregate_id {
            Some(id) => Lane::aggregate(self.tenant_id, &self.aggregate_type, id),
            None => Lane::Single(self.id),
        }
    }
}
