//! A receiver, an inbox and a handler behind one call, and the statuses that have a sender do the right thing. No
//! framework, and no IO but the database's.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{ABORT_MESSAGE, ReceiveError, Receiver, WEBHOOK_DELIVERY};
use crate::backend::Backend;
use crate::consume::{Handler, HandlerError};
use crate::inbox::{Effect, Inbox};

/// When to come again while something that the handler needs is away.
const AWAY: Duration = Duration::from_secs(30);

/// What a service does with a delivery, from the bytes to the committed effect: size, signature, age, decode, inbox,
/// handler, in this order. The handler is the same one that runs in a relay's process.
///
/// The feature `axum` puts it behind a route: [`webhook::axum::handle`](super::axum::handle).
///
/// ```no_run
/// use std::time::SystemTime;
///
/// use http::{HeaderMap, StatusCode};
/// use outbox_sdk::webhook::{Endpoint, Receiver, Secret};
/// # use outbox_sdk::{Handler, Inbox};
///
/// # async fn example<H: Handler<sqlx::Postgres>>(
/// #     pool: sqlx::PgPool, handler: H, headers: HeaderMap, body: Vec<u8>,
/// # ) -> Result<(), outbox_sdk::webhook::SecretError> {
/// let receiver = Receiver::new(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?);
/// let endpoint = Endpoint::new(receiver, Inbox::new(pool, "billing"), handler);
/// let status = match endpoint.handle(&headers, &body, SystemTime::now()).await {
///     Ok(_done_now_or_before) => StatusCode::NO_CONTENT,
///     Err(refused) => {
///         eprintln!("{refused}"); // for the service's own log
///         refused.status() // with `refused.headers()` and `refused.answer()`
///     }
/// };
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Endpoint<DB: Backend, H> {
    receiver: Receiver,
    inbox: Inbox<DB>,
    handler: H,
}

impl<DB: Backend, H: Handler<DB>> Endpoint<DB, H> {
    /// An endpoint whose effects live in the database of `inbox`.
    #[must_use]
    pub fn new(receiver: Receiver, inbox: Inbox<DB>, handler: H) -> Self {
        Self { receiver, inbox, handler }
    }

    /// The largest body that is taken; a framework adapter stops reading there.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.receiver.limit()
    }

    /// Takes a delivery. Answer any `Ok` with a 2xx: the effect is committed, now or by an earlier delivery.
    ///
    /// `body` must be the bytes as they arrived, `now` is the receiver's clock. It may be dropped at any point, as when the
    /// sender hangs up.
    ///
    /// # Errors
    /// [`EndpointError`]; answer with its [`status`](EndpointError::status).
    pub async fn handle(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Effect, EndpointError> {
        let delivery = self.receiver.receive(headers, body, now).map_err(EndpointError::Receive)?;
        let effect = self.inbox.handle(&self.handler, &delivery.envelope).await;
        effect.map_err(EndpointError::Handler)
    }
}

/// Why a delivery had no effect. Its text is for the service's own log; [`answer`](Self::answer) is for the sender.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndpointError {
    /// It was not accepted, and the handler did not see it.
    Receive(ReceiveError),
    /// The handler did not do its work, or the database did not keep it.
    Handler(HandlerError),
}

impl EndpointError {
    /// The status to answer with. As [`ReceiveError::status`] where the handler did not see the event. Else:
    ///
    /// | handler | status | what a sender does |
    /// |---|---|---|
    /// | `Retry` | 500 | sends it again, by its policy |
    /// | `Unavailable` | 503, with `retry-after` | sends it again, not before then |
    /// | `Reject` | 422, with `webhook-delivery: abort-message` | gives the event up: a relay makes it a dead letter at once |
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Receive(error) => error.status(),
            Self::Handler(HandlerError::Reject(_)) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Handler(HandlerError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Handler(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The headers to answer with: `retry-after`, or `webhook-delivery`, or none.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let header = match self {
            Self::Handler(HandlerError::Unavailable(_)) => {
                Some((RETRY_AFTER, HeaderValue::from(AWAY.as_secs())))
            }
            Self::Handler(HandlerError::Reject(_)) => {
                Some((HeaderName::from_static(WEBHOOK_DELIVERY), HeaderValue::from_static(ABORT_MESSAGE)))
            }
            _ => None,
        };
        header.into_iter().collect()
    }

    /// The body to answer with: nothing of the event, of a secret or of the service's inside is in it.
    #[must_use]
    pub fn answer(&self) -> String {
        match self {
            Self::Receive(error) => error.to_string(),
            Self::Handler(HandlerError::Reject(_)) => {
                "the event is refused for good: look into the receiver's log".to_owned()
            }
            Self::Handler(HandlerError::Unavailable(_)) => {
                "something that the receiver needs is away: send the event again".to_owned()
            }
            Self::Handler(_) => "the event was not handled: send it again".to_owned(),
        }
    }
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receive(error) => write!(f, "not accepted: {error}"),
            Self::Handler(error) => write!(f, "not handled: {error}"),
        }
    }
}

impl Error for EndpointError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Receive(error) => error.source(),
            Self::Handler(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_the_status_that_a_sender_understands() {
        let handler = EndpointError::Handler;
        for (error, status, headers) in [
            (EndpointError::Receive(ReceiveError::TooLarge { limit: 1 }), 413, None),
            (EndpointError::Receive(ReceiveError::OtherId), 400, None),
            (handler(HandlerError::retry("password 123")), 500, None),
            (handler(HandlerError::unavailable("password 123")), 503, Some(("retry-after", "30"))),
            (handler(HandlerError::reject("password 123")), 422, Some(("webhook-delivery", "abort-message"))),
        ] {
            assert_eq!(error.status().as_u16(), status);
            let expected = headers
                .into_iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            assert_eq!(error.headers(), expected.collect());
            assert!(!error.answer().contains("password"), "{}", error.answer());
            let told =
                matches!(error, EndpointError::Receive(_)) || error.to_string().contains("password 123");
            assert!(told, "the service's own log says why: {error}");
        }
    }
}
