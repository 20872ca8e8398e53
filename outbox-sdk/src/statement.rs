//! The statement of a publish, for transactions of another database library.

use std::sync::Arc;

use uuid::Uuid;

use crate::envelope::NewEnvelope;

/// The statement that writes one event on PostgreSQL, with the values for its parameters.
///
/// [`Outbox::statement`](crate::Outbox::statement) makes it, after all checks of a publish. Run it in your own
/// transaction; it answers with one row, the event's `id` (bigint) and `event_id` (uuid). It takes the aggregate's lock
/// before it draws the id, so it must stay one statement as it is. The repository's `examples/adapters` does so with
/// tokio-postgres, diesel-async and sea-orm.
///
/// ```
/// use outbox_sdk::{Outbox, OutboxEvent, StatementValue};
/// # use schemars::JsonSchema;
/// # use serde::Serialize;
/// #
/// # #[derive(Serialize, JsonSchema, OutboxEvent)]
/// # #[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
/// # struct CustomerRenamed {
/// #     #[outbox(aggregate_id)]
/// #     customer_id: i64,
/// # }
///
/// let statement = Outbox::new().statement(&CustomerRenamed { customer_id: 7 })?;
/// for value in statement.values() {
///     match value {
///         StatementValue::Uuid(value) => { /* bind an optional uuid */ }
///         StatementValue::Text(value) => { /* an optional text, also where the statement casts it to another type */ }
///         StatementValue::Int(value) => { /* an int4 */ }
///         StatementValue::BigInt(value) => { /* an optional int8 */ }
///     }
/// }
/// # Ok::<(), outbox_sdk::PublishError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Statement {
    sql: Arc<str>,
    values: Vec<StatementValue>,
}

/// The value of one parameter. Its kind is the type under which it must be bound.
#[derive(Clone, PartialEq, Eq)]
pub enum StatementValue {
    /// `uuid`
    Uuid(Option<Uuid>),
    /// `text`
    Text(Option<String>),
    /// `int4`
    Int(i32),
    /// `int8`
    BigInt(Option<i64>),
}

impl Statement {
    /// `schema_version` is the envelope's, checked to fit.
    pub(crate) fn new(sql: Arc<str>, event: NewEnvelope, schema_version: i32) -> Self {
        let delay = event.delay.map_or(0, |delay| i64::try_from(delay.as_micros()).unwrap_or(i64::MAX));
        let values = vec![
            StatementValue::Uuid(Some(event.event_id)),
            StatementValue::Uuid(event.tenant_id),
            StatementValue::Text(Some(event.event_type)),
            StatementValue::Int(schema_version),
            StatementValue::Text(Some(event.aggregate_type)),
            StatementValue::Text(event.aggregate_id),
            StatementValue::BigInt(event.audit_log_id),
            StatementValue::Uuid(event.correlation_id),
            StatementValue::Uuid(event.causation_id),
            StatementValue::Text(event.actor),
            StatementValue::Text(event.traceparent),
            StatementValue::Text(event.tracestate),
            StatementValue::Text(Some(event.payload)),
            StatementValue::Text(event.older_payloads),
            StatementValue::BigInt(Some(delay)),
            // When it happened: an event with a type happens when it is published.
            StatementValue::Text(None),
        ];
        Self { sql, values }
    }

    /// The text, with parameters `$1` to `$16`.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The values, in the order of the parameters.
    #[must_use]
    pub fn values(&self) -> &[StatementValue] {
        &self.values
    }
}

/// Payloads do not belong into logs: only the kind is shown.
impl std::fmt::Debug for StatementValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Uuid(_) => "Uuid(..)",
            Self::Text(_) => "Text(..)",
            Self::Int(_) => "Int(..)",
            Self::BigInt(_) => "BigInt(..)",
        })
    }
}
