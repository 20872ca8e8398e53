//! What a handler is, and what it answers.

use std::fmt;
use std::future::Future;

use serde::de::DeserializeOwned;
use sqlx::Transaction;

use crate::backend::Backend;
use crate::envelope::Envelope;

/// Handles the events of one consumer, inside a transaction of the consumer's own database.
///
/// The transaction also holds the inbox row, so that the effect of an event happens exactly once. Do not commit or roll
/// back; do not keep anything of `tx`.
///
/// ```
/// use outbox_sdk::{Envelope, Handler, HandlerError};
/// use sqlx::{Sqlite, Transaction};
///
/// struct Names;
///
/// impl Handler<Sqlite> for Names {
///     async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Sqlite>) -> Result<(), HandlerError> {
///         sqlx::query("INSERT INTO seen (event_id) VALUES (?)").bind(event.event_id.to_string()).execute(&mut **tx).await?;
///         Ok(())
///     }
/// }
/// ```
pub trait Handler<DB: Backend>: Send + Sync + 'static {
    /// Does the work of one event.
    fn handle(
        &self,
        event: &Envelope,
        tx: &mut Transaction<'_, DB>,
    ) -> impl Future<Output = Result<(), HandlerError>> + Send;
}

/// An event with its payload as a Rust type.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Received<'e, T> {
    /// The payload.
    pub payload: T,
    /// Everything else.
    pub envelope: &'e Envelope,
}

impl<'e, T: DeserializeOwned> Received<'e, T> {
    /// Reads the payload.
    ///
    /// # Errors
    /// [`HandlerError::Reject`] when it does not fit `T`: trying again would not help.
    pub fn read(envelope: &'e Envelope) -> Result<Self, HandlerError> {
        match serde_json::from_str(&envelope.payload) {
            Ok(payload) => Ok(Self { payload, envelope }),
            // serde's text may quote the payload; its class and place do not.
            Err(error) => Err(HandlerError::reject(format!(
                "the payload of `{}` v{} does not fit the handler's type (line {}, column {}); generate the type again \
                 or pin another major",
                envelope.event_type,
                envelope.schema_version,
                error.line(),
                error.column(),
            ))),
        }
    }
}

/// Why a handler did not do its work. `?` on any error means [`Retry`](Self::Retry).
pub enum HandlerError {
    /// Try again later, by the consumer's retry policy.
    Retry(Box<dyn std::error::Error + Send + Sync>),
    /// Never try again: the event becomes a dead letter.
    Reject(String),
}

impl HandlerError {
    /// Try again later. The text is stored with the event: no payload, no secret.
    #[must_use]
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry(reason.into().into())
    }

    /// Never try again. The text is stored with the event: no payload, no secret.
    #[must_use]
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject(reason.into())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(Box::new(error))
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry(error) => write!(f, "retry: {error}"),
            Self::Reject(reason) => write!(f, "rejected: {reason}"),
        }
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
