//! What a handler is, and what it answers.

use std::error::Error;
use std::fmt;
use std::future::Future;

use serde::de::DeserializeOwned;
use sqlx::Transaction;
use sqlx::error::DatabaseError;

use crate::backend::{Backend, Fault};
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
///
/// ```
/// use outbox_sdk::{Envelope, HandlerError, Received};
///
/// #[derive(serde::Deserialize)]
/// struct CustomerRenamed {
///     name: String,
/// }
///
/// let envelope = Envelope::example("customer.renamed", 1, r#"{"name":"Ada","member_of_a_later_minor":1}"#);
/// let event = Received::<CustomerRenamed>::read(&envelope)?;
/// assert_eq!((event.payload.name.as_str(), event.envelope.event_type.as_str()), ("Ada", "customer.renamed"));
/// # Ok::<(), HandlerError>(())
/// ```
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
    /// [`HandlerError::Reject`] with [`Rejection::Undecodable`] when it does not fit `T`: trying again would not help.
    pub fn read(envelope: &'e Envelope) -> Result<Self, HandlerError> {
        match serde_json::from_str(&envelope.payload) {
            Ok(payload) => Ok(Self { payload, envelope }),
            // serde's text may quote the payload; its place does not.
            Err(error) => Err(HandlerError::Reject(Rejection::Undecodable {
                event_type: envelope.event_type.clone(),
                schema_version: envelope.schema_version,
                line: error.line(),
                column: error.column(),
            })),
        }
    }
}

/// Why a handler did not do its work. `?` on any error means [`Retry`](Self::Retry).
///
/// ```
/// use outbox_sdk::HandlerError;
///
/// fn check(cents: i64, mail_server_is_up: bool) -> Result<i32, HandlerError> {
///     if cents < 0 {
///         return Err(HandlerError::reject("a negative amount"));
///     }
///     if !mail_server_is_up {
///         return Err(HandlerError::unavailable("the mail server is down"));
///     }
///     Ok(i32::try_from(cents)?) // any error: a retry
/// }
///
/// assert!(matches!(check(-1, true), Err(HandlerError::Reject(_))));
/// assert!(matches!(check(i64::MAX, true), Err(HandlerError::Retry(_))));
/// ```
#[non_exhaustive]
pub enum HandlerError {
    /// Try again later, by the consumer's retry policy.
    Retry(Box<dyn Error + Send + Sync>),
    /// Never try again: the event becomes a dead letter.
    Reject(Rejection),
    /// What the handler needs is down: the consumer pauses and no attempt is counted.
    Unavailable(String),
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
        Self::Reject(Rejection::Refused(reason.into()))
    }

    /// What the handler needs is down: the consumer pauses and no attempt is counted. The text is stored with the
    /// consumer: no payload, no secret.
    #[must_use]
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into())
    }

    /// Whether the database ended the transaction for another one's sake (deadlock, serialization failure): it changed
    /// nothing, and the same again may succeed at once.
    #[must_use]
    pub fn is_conflict<DB: Backend>(&self) -> bool {
        let Self::Retry(error) = self else { return false };
        let first: &(dyn Error + 'static) = error.as_ref();
        let mut chain = std::iter::successors(Some(first), |&error| error.source());
        chain.any(|error| error.downcast_ref().is_some_and(|error| DB::fault(error) == Fault::Retryable))
    }

    /// What may be stored and logged of it. The text of a database error may quote values; it is replaced by the
    /// error's code and the names of the constraint and table, also where another error wraps it.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Retry(error) => without_values(error.as_ref()),
            Self::Reject(rejection) => rejection.to_string(),
            Self::Unavailable(reason) => reason.clone(),
        }
    }
}

/// Why an event is never to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The handler says so.
    Refused(String),
    /// The payload does not fit the handler's type.
    Undecodable {
        /// The event's type.
        event_type: String,
        /// The event's major.
        schema_version: u32,
        /// The line of the payload where reading ended, from 1; 0 when it is not known.
        line: usize,
        /// The column there.
        column: usize,
    },
    /// The handler has no method for this type and major.
    NotPinned {
        /// The consumer.
        consumer: String,
        /// The event's type.
        event_type: String,
        /// The event's major.
        schema_version: u32,
        /// The major of this type that the consumer reads; none when it does not read the type at all.
        pinned: Option<u32>,
    },
}

impl Rejection {
    /// That a consumer with these pins does not read the event.
    #[must_use]
    pub fn not_pinned(consumer: &str, pins: &[(&str, u32)], event: &Envelope) -> Self {
        Self::NotPinned {
            consumer: consumer.to_owned(),
            event_type: event.event_type.clone(),
            schema_version: event.schema_version,
            pinned: pins
                .iter()
                .find(|(event_type, _)| *event_type == event.event_type)
                .map(|(_, major)| *major),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => f.write_str(reason),
            Self::Undecodable { event_type, schema_version, line, column } => write!(
                f,
                "the payload of `{event_type}` v{schema_version} does not fit the handler's type (line {line}, column {column}); \
                 generate the type again or pin another major"
            ),
            Self::NotPinned { consumer, event_type, schema_version, pinned: Some(pinned) } => write!(
                f,
                "the consumer `{consumer}` reads `{event_type}` v{pinned} and got v{schema_version}; pin the same major where it \
                 is registered, or generate its code again"
            ),
            Self::NotPinned { consumer, event_type, schema_version, pinned: None } => write!(
                f,
                "the consumer `{consumer}` does not read `{event_type}` v{schema_version}; leave it out of the consumer's \
                 events, or pin it and generate its code again"
            ),
        }
    }
}

// Not by `?` on an error, which means another try.
impl From<Rejection> for HandlerError {
    fn from(rejection: Rejection) -> Self {
        Self::Reject(rejection)
    }
}

/// The error's text, unless a database's text may be a part of it: an error often prints its source too.
pub(crate) fn without_values(error: &(dyn Error + 'static)) -> String {
    let mut chain = std::iter::successors(Some(error), |&error| error.source());
    match chain.find_map(database_error) {
        Some(database) => name_only(database),
        None => error.to_string(),
    }
}

fn database_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e dyn DatabaseError> {
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return error.as_database_error();
    }
    // Its source; in the chain of an error that hands on another one as if it were itself.
    error.downcast_ref::<Box<dyn DatabaseError>>().map(AsRef::as_ref)
}

fn name_only(error: &dyn DatabaseError) -> String {
    let mut text = "database error".to_owned();
    let code = error.code();
    let names = [(" ", code.as_deref()), (", constraint ", error.constraint()), (", table ", error.table())];
    for (label, name) in names {
        if let Some(name) = name {
            text.push_str(label);
            text.push_str(name);
        }
    }
    text.push_str("; look up the code, or the database's own log for its text");
    text
}

impl<E: Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(Box::new(error))
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Retry(_) => "retry",
            Self::Reject(_) => "rejected",
            Self::Unavailable(_) => "unavailable",
        };
        write!(f, "{kind}: {}", self.reason())
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use sqlx::error::ErrorKind;

    use super::*;

    /// As from a driver.
    #[derive(Debug)]
    struct Violation;

    impl fmt::Display for Violation {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.message())
        }
    }

    impl Error for Violation {}

    impl DatabaseError for Violation {
        fn message(&self) -> &str {
            "Key (email)=(ada@example.org) already exists"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some("23505".into())
        }

        fn constraint(&self) -> Option<&str> {
            Some("customer_email_key")
        }

        fn table(&self) -> Option<&str> {
            Some("customer")
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::UniqueViolation
        }

        fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync + 'static> {
            self
        }
    }

    #[derive(Debug, thiserror::Error)]
    enum Wrapped {
        #[error("cannot store the customer: {0}")]
        Quoted(#[source] sqlx::Error),
        #[error(transparent)]
        Transparent(sqlx::Error),
    }

    #[test]
    fn a_database_error_is_told_without_its_values() {
        let error = || sqlx::Error::Database(Box::new(Violation));
        for error in [
            HandlerError::from(error()),
            HandlerError::from(Wrapped::Quoted(error())),
            HandlerError::from(Wrapped::Transparent(error())),
        ] {
            for text in [error.reason(), error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("ada@example.org"), "{text}");
                let told = "database error 23505, constraint customer_email_key, table customer; ";
                assert!(text.contains(told), "{text}");
            }
        }
    }

    #[test]
    fn other_reasons_are_told_as_they_are() {
        for (error, reason, text) in [
            (HandlerError::retry("not yet"), "not yet", "retry: not yet"),
            (HandlerError::reject("never"), "never", "rejected: never"),
            (HandlerError::unavailable("no mail server"), "no mail server", "unavailable: no mail server"),
            (
                HandlerError::from(sqlx::Error::PoolClosed),
                &sqlx::Error::PoolClosed.to_string(),
                &format!("retry: {}", sqlx::Error::PoolClosed),
            ),
        ] {
            assert_eq!((error.reason().as_str(), error.to_string().as_str()), (reason, text));
        }
    }
}
