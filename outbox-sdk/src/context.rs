//! What belongs to the operation, not to the payload.

use serde::Serialize;
use uuid::Uuid;

/// Who did what in which connection: set once per operation, written with each of its events.
///
/// ```
/// use outbox_sdk::{Context, Outbox};
/// use uuid::Uuid;
///
/// let request = Context::new().correlation_id(Uuid::now_v7()).audit_log_id(4711);
/// let outbox = Outbox::new().with_context(request);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Context {
    pub(crate) correlation_id: Option<Uuid>,
    pub(crate) causation_id: Option<Uuid>,
    pub(crate) tenant_id: Option<Uuid>,
    pub(crate) actor: Option<String>,
    pub(crate) audit_log_id: Option<i64>,
    pub(crate) traceparent: Option<String>,
    pub(crate) tracestate: Option<String>,
}

impl Context {
    /// A context in which nothing is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the whole operation is known by, across services.
    #[must_use]
    pub fn correlation_id(mut self, id: Uuid) -> Self {
        self.correlation_id = Some(id);
        self
    }

    /// The event or command that causes what is published.
    #[must_use]
    pub fn causation_id(mut self, id: Uuid) -> Self {
        self.causation_id = Some(id);
        self
    }

    /// The tenant of events that do not name one themselves.
    #[must_use]
    pub fn tenant_id(mut self, id: Uuid) -> Self {
        self.tenant_id = Some(id);
        self
    }

    /// Who acts, as JSON. It is stored and delivered as it is: never put a secret in it.
    ///
    /// # Errors
    /// What serde says when `actor` cannot be written as JSON.
    pub fn actor(mut self, actor: &impl Serialize) -> Result<Self, serde_json::Error> {
        self.actor = Some(serde_json::to_string(actor)?);
        Ok(self)
    }

    /// The id of the audit row that the service writes in the same transaction.
    #[must_use]
    pub fn audit_log_id(mut self, id: i64) -> Self {
        self.audit_log_id = Some(id);
        self
    }

    /// The W3C trace context of the operation: `traceparent` and, if there is one, `tracestate`.
    ///
    /// With the feature `tracing` it need not be said: an event is written with the context of the span in which it is
    /// published, as `tracing-opentelemetry` knows it. What is said here wins.
    #[must_use]
    pub fn trace(mut self, traceparent: impl Into<String>, tracestate: Option<String>) -> Self {
        self.traceparent = Some(traceparent.into());
        self.tracestate = tracestate.filter(|state| !state.is_empty());
        self
    }
}
