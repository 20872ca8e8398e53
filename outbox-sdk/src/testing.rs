//! For the tests of services and consumers; feature `testing`.
//!
//! ```
//! use outbox_sdk::testing::{self, Journal};
//! use outbox_sdk::{Outbox, OutboxEvent};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
//! #[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
//! struct CustomerRenamed {
//!     #[outbox(aggregate_id)]
//!     customer_id: i64,
//!     name: String,
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! async fn rename(tx: &mut sqlx::Transaction<'_, sqlx::Sqlite>, outbox: &Outbox) -> Result<(), outbox_sdk::PublishError> {
//!     outbox.publish(tx, &CustomerRenamed { customer_id: 7, name: "Ada".into() }).await.map(|_| ())
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! # async fn test(mut tx: sqlx::Transaction<'_, sqlx::Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
//! // A service: hand it an outbox that keeps a journal, and look what it published.
//! let journal = Journal::default();
//! rename(&mut tx, &Outbox::new().with_journal(&journal)).await?;
//! let events: Vec<CustomerRenamed> = journal.published()?;
//! assert_eq!(events, [CustomerRenamed { customer_id: 7, name: "Ada".into() }]);
//! # Ok(())
//! # }
//!
//! // A consumer: make the event as it would arrive, and hand it to the handler, without a database.
//! let envelope = testing::received(&CustomerRenamed { customer_id: 7, name: "Ada".into() })?;
//! assert_eq!((envelope.event_type.as_str(), envelope.payload.as_str()), ("customer.renamed", r#"{"customer_id":7,"name":"Ada"}"#));
//! # Ok::<(), outbox_sdk::PublishError>(())
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;

use crate::envelope::{Envelope, NewEnvelope, Published, Timestamp};
use crate::error::PublishError;
use crate::event::OutboxEvent;
use crate::outbox::Outbox;

/// What an outbox has written, in order: give it to [`Outbox::with_journal`]. Whether the transaction was committed is not
/// in it. Clones share one journal.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Envelope>>>);

impl Journal {
    /// Everything that was written so far, as consumers would receive it; times are the epoch.
    #[must_use]
    pub fn envelopes(&self) -> Vec<Envelope> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The payloads of one event's type and major.
    ///
    /// # Errors
    /// The first payload that `E` cannot read: what it writes and what it reads differ.
    pub fn published<E: OutboxEvent + DeserializeOwned>(&self) -> Result<Vec<E>, serde_json::Error> {
        let of_type = |envelope: &Envelope| {
            (envelope.event_type.as_str(), envelope.schema_version) == (E::EVENT_TYPE, E::SCHEMA_VERSION)
        };
        let envelopes = self.envelopes().into_iter().filter(of_type);
        envelopes.map(|envelope| serde_json::from_str(&envelope.payload)).collect()
    }

    pub(crate) fn note(&self, event: NewEnvelope, published: Published) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrived(event, published));
    }
}

/// The event as a consumer of its major receives it: id 1, times at the epoch, no context.
///
/// # Errors
/// As [`Outbox::publish`]: the event could not be published.
pub fn received<E: OutboxEvent>(event: &E) -> Result<Envelope, PublishError> {
    let envelope = Outbox::new().envelope(event)?;
    let published = Published { id: 1, event_id: envelope.event_id };
    Ok(arrived(envelope, published))
}

fn arrived(event: NewEnvelope, published: Published) -> Envelope {
    Envelope {
        id: published.id,
        event_id: published.event_id,
        tenant_id: event.tenant_id,
        event_type: event.event_type,
        schema_version: event.schema_version,
        aggregate_type: event.aggregate_type,
        aggregate_id: event.aggregate_id,
        audit_log_id: event.audit_log_id,
        correlation_id: event.correlation_id,
        causation_id: event.causation_id,
        actor: event.actor,
        traceparent: event.traceparent,
        tracestate: event.tracestate,
        payload: event.payload,
        older_payloads: event.older_payloads,
        occurred_at: event.occurred_at.unwrap_or(Timestamp::from_micros(0)),
        created_at: Timestamp::from_micros(0),
    }
}
