//! The webhook sink: one signed HTTP POST per attempt.
//!
//! | answer | outcome |
//! |---|---|
//! | 2xx | delivered, as soon as the headers are complete; what the body says or does is of no interest |
//! | 410 | gone: the receiver says that it takes no more events, so the consumer pauses until an operator resumes it |
//! | not 2xx, with `webhook-delivery: abort-message` | rejected: the receiver says that it never takes this event, so it is a dead letter at once |
//! | any other status, redirects among them | retry; `retry-after` is passed on |
//! | no answer in time, or the connection broke after it was made | retry, outcome unknown: the receiver may have the event |
//! | no connection: name, address, port, TLS or time | unavailable: no attempt is lost |
//!
//! One time limit covers everything from the name to the end of the answer. After the headers at most 64 KiB and a
//! quarter of a second of the body are read, only so that the connection can be used again; nothing of it is kept.
//! Redirects are never followed, proxy settings of the environment are ignored, and only public addresses are dialled
//! unless the configuration allows others.

mod guard;
mod tls;

use std::error::Error;
use std::fmt;
use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use http::header::{HeaderMap, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use outbox_sdk::webhook::{
    ABORT_MESSAGE, Format, OUTBOX_ATTEMPT, OUTBOX_REPLAY, Secrets, Source, WEBHOOK_DELIVERY, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, body, headers, retry_after, sign,
};
use reqwest::{Client, RequestBuilder, Response, Url, redirect};

use self::guard::{Guard, Refused};
use super::{Delivery, Outcome, Sink};

const USER_AGENT: &str = concat!("outbox-relay/", env!("CARGO_PKG_VERSION"));
const DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_millis(250);

/// Where and how a consumer's events are posted. Its `Debug` output shows neither the URL nor the secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct WebhookConfig {
    /// The receiver's address: `https`, or `http` together with `allow_private_addresses`. No user, no password.
    pub url: String,
    /// The secrets that sign each delivery; several while they rotate.
    pub secrets: Secrets,
    /// Whether loopback, private and other addresses outside the public internet may be dialled, and plain `http` used;
    /// default false.
    pub allow_private_addresses: bool,
    /// The time for name, connection and TLS handshake; default 5 s; less than `timeout`.
    pub connect_timeout: Duration,
    /// The time for a whole attempt; default 15 s; keep it below the relay's lease.
    pub timeout: Duration,
    /// The form of the body; default CloudEvents.
    pub format: Format,
    /// What a CloudEvent says about where it comes from.
    pub source: Source,
}

impl WebhookConfig {
    /// A receiver with the defaults.
    #[must_use]
    pub fn new(url: impl Into<String>, secrets: impl Into<Secrets>) -> Self {
        Self {
            url: url.into(),
            secrets: secrets.into(),
            allow_private_addresses: false,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(15),
            format: Format::default(),
            source: Source::default(),
        }
    }
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("allow_private_addresses", &self.allow_private_addresses)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("format", &self.format)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Why a webhook cannot be set up like this. The texts never repeat the URL, which may hold a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookConfigError {
    /// The text is not a URL.
    #[error("the webhook's url is not a URL: write it in full, such as `https://crm.example/hooks`")]
    Url,
    /// The URL holds a user or a password.
    #[error(
        "the webhook's url holds a user or a password: leave them out; deliveries are signed with `secrets`"
    )]
    UserInfo,
    /// The URL has a scheme that is not HTTP.
    #[error("the webhook's url has the scheme `{0}`: use `https`")]
    Scheme(String),
    /// Plain HTTP would send the payload readable through the public internet.
    #[error(
        "the webhook's url is plain `http`: use `https`, \
         or set allow_private_addresses = true if the receiver is internal"
    )]
    PlainHttp,
    /// The URL names an address outside the public internet.
    #[error(
        "the webhook's url names an address that is not public: \
         set allow_private_addresses = true if the receiver is internal"
    )]
    PrivateAddress,
    /// The time limits contradict each other.
    #[error("the webhook's time limits do not fit: connect_timeout must be above zero and less than timeout")]
    Timeouts,
    /// There are no certificates to check the receiver's with.
    #[error(
        "this machine's CA certificates cannot be used: install them (the package is often `ca-certificates`), \
         or name a file with SSL_CERT_FILE"
    )]
    Certificates(#[source] rustls::Error),
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up: check that this process may open files and sockets")]
    Client(#[source] reqwest::Error),
}

/// Posts events to one receiver.
///
/// ```
/// use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
/// use outbox_sdk::webhook::Secret;
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let mut config = WebhookConfig::new("http://127.0.0.1:8080/hooks", secret);
/// assert!(WebhookSink::new(config.clone()).is_err());
/// config.allow_private_addresses = true;
/// let sink = WebhookSink::new(config)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WebhookSink {
    client: Client,
    // Checked when the sink is made and never changed; redirects are not followed. So the check holds for every send.
    url: Url,
    config: WebhookConfig,
}

impl WebhookSink {
    /// Checks the configuration and sets up the client. Nothing is sent and no name is resolved.
    ///
    /// # Errors
    ///
    /// [`WebhookConfigError`] says what does not fit.
    pub fn new(config: WebhookConfig) -> Result<Self, WebhookConfigError> {
        let guard = Guard { allow_private: config.allow_private_addresses };
        let url = checked(&config.url, guard)?;
        if config.connect_timeout.is_zero() || config.connect_timeout >= config.timeout {
            return Err(WebhookConfigError::Timeouts);
        }
        let tls = tls::client_config(url.scheme() == "https").map_err(WebhookConfigError::Certificates)?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(USER_AGENT)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .dns_resolver(Arc::new(guard))
            .connect_timeout(config.connect_timeout)
            .timeout(config.timeout)
            .pool_idle_timeout(Duration::from_secs(60))
            // A peer that vanished would otherwise fail every request that shares its connection.
            .http2_keep_alive_interval(Duration::from_secs(10))
            .http2_keep_alive_timeout(Duration::from_secs(5))
            .build()
            .map_err(WebhookConfigError::Client)?;
        Ok(Self { client, url, config })
    }

    /// The body and the signature are made over the same bytes, anew for each attempt.
    fn request(&self, delivery: &Delivery<'_>, now: SystemTime) -> RequestBuilder {
        let WebhookConfig { secrets, format, source, .. } = &self.config;
        let id = delivery.envelope.event_id.to_string();
        let seconds = unix_seconds(now);
        let body = body(delivery.envelope, *format, source);
        let signature = sign(secrets, &id, seconds, &body);
        let request = self
            .client
            .post(self.url.clone())
            .headers(headers(delivery.envelope, *format, source))
            .header(WEBHOOK_ID, id)
            .header(WEBHOOK_TIMESTAMP, HeaderValue::from(seconds))
            .header(WEBHOOK_SIGNATURE, signature)
            .header(OUTBOX_ATTEMPT, HeaderValue::from(delivery.attempt))
            .body(body);
        if delivery.replay {
            request.header(OUTBOX_REPLAY, HeaderValue::from_static("true"))
        } else {
            request
        }
    }

    /// Why no answer came. Only the kinds of the errors are used: their texts hold the URL.
    fn unanswered(&self, error: &reqwest::Error) -> Outcome {
        if !error.is_connect() {
            let error = if error.is_timeout() {
                let limit = self.config.timeout;
                format!(
                    "no complete answer within {limit:?}, outcome unknown: have the receiver answer sooner, \
                     or raise the webhook's timeout"
                )
            } else {
                "the connection broke before an answer was read, outcome unknown: \
                 check the receiver and what lies between"
                    .to_owned()
            };
            return Outcome::Retry { error, after: None };
        }
        let cause = if find::<Refused>(error).is_some() {
            "no connection: the host's name leads to no public address: \
             set allow_private_addresses = true if the receiver is internal"
                .to_owned()
        } else if let Some(tls) = find::<rustls::Error>(error) {
            format!("no connection: {}", tls::describe(tls))
        } else if error.is_dns() {
            "no connection: the host's name cannot be resolved: check the URL's host and the DNS".to_owned()
        } else if error.is_timeout() {
            let limit = self.config.connect_timeout;
            format!(
                "no connection within {limit:?}: check the receiver and the network, or raise connect_timeout"
            )
        } else {
            let kind = find::<io::Error>(error).map_or(io::ErrorKind::Other, io::Error::kind);
            format!("no connection ({kind}): check that the receiver runs, and the URL's host and port")
        };
        Outcome::Unavailable { error: cause, after: None }
    }
}

impl Sink for WebhookSink {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.request(&delivery, SystemTime::now()).send().await {
                Ok(response) => {
                    delivery.answer.set_status(response.status().as_u16());
                    let outcome = judge(response.status(), response.headers(), SystemTime::now());
                    drain(response).await;
                    outcome
                }
                Err(error) => self.unanswered(&error),
            }
        })
    }
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSink").field("config", &self.config).finish_non_exhaustive()
    }
}

fn checked(url: &str, guard: Guard) -> Result<Url, WebhookConfigError> {
    // The parser's error says nothing that helps more, and is not kept.
    let url = Url::parse(url).map_err(|_| WebhookConfigError::Url)?;
    match url.scheme() {
        "https" => {}
        "http" if guard.allow_private => {}
        "http" => return Err(WebhookConfigError::PlainHttp),
        other => return Err(WebhookConfigError::Scheme(other.to_owned())),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(WebhookConfigError::UserInfo);
    }
    let host = url.host_str().ok_or(WebhookConfigError::Url)?;
    guard.check_literal(host).map_err(|Refused| WebhookConfigError::PrivateAddress)?;
    Ok(url)
}

/// What a complete head of an answer means.
fn judge(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Outcome {
    if status.is_success() {
        return Outcome::Delivered;
    }
    let advice = match status.as_u16() {
        300..=399 => "redirects are never followed: set the URL that answers itself",
        401 | 403 => "check that the receiver holds one of this consumer's secrets, and both clocks",
        404 | 405 => "check the URL's path",
        408 | 425 | 429 => "give the receiver more room, or lower max_in_flight",
        410 => "it takes no more events",
        _ if is_given_up(headers) => "it never takes this event: look up in its log why it refuses",
        413 => "raise the receiver's size limit",
        415 => "check which body format the receiver reads",
        500..=599 => "look into the receiver's log",
        _ => "look up in the receiver's log why it refuses",
    };
    // Only the standard phrase of a status: the receiver's own could hold anything.
    let error = match status.canonical_reason() {
        Some(reason) => format!("the receiver answered {} {reason}: {advice}", status.as_u16()),
        None => format!("the receiver answered {}: {advice}", status.as_u16()),
    };
    if status == StatusCode::GONE {
        return Outcome::Gone { error };
    }
    if is_given_up(headers) {
        return Outcome::Reject { error };
    }
    let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Outcome::Retry { error, after: after.and_then(|value| retry_after(value, now)) }
}

/// Whether the receiver says that it never takes this event.
fn is_given_up(headers: &HeaderMap) -> bool {
    headers
        .get(WEBHOOK_DELIVERY)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(ABORT_MESSAGE.as_bytes()))
}

/// Reads what is left of a short answer, so that the connection can be used again; a long or slow one is dropped.
async fn drain(mut response: Response) {
    let rest = async {
        let mut room = DRAIN_BYTES;
        while let Ok(Some(chunk)) = response.chunk().await {
            match room.checked_sub(chunk.len()) {
                Some(left) => room = left,
                None => break,
            }
        }
    };
    // Either way the outcome is known already.
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
}

/// The first error of a type among an error and its causes.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    successors(Some(error), |error| cause(*error)).find_map(|error| error.downcast_ref())
}

/// Unlike `source`, which skips it, this gives the error that an [`io::Error`] wraps.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn unix_seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
