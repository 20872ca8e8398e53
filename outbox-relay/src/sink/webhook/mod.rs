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
//! quarter of a second of the body are read, so that the connection can be used again; nothing of it is kept, unless
//! [`WebhookConfig::keep_response`] asks for the first 2 KiB of a failure. Redirects are never followed, proxy settings of the
//! environment are ignored, and only public addresses are dialled unless the configuration allows others.
//!
//! Files (secrets, headers, certificates) are looked at every two seconds and read again when they have changed; names are
//! resolved anew at least every minute. Both by a new client, while requests that are on their way end with the old one.

mod certificate;
mod client;
mod config;
mod guard;
mod live;
mod outcome;
mod reserved;
mod tls;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use http::HeaderValue;
use outbox_sdk::webhook::{
    OUTBOX_ATTEMPT, OUTBOX_REPLAY, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, body, headers, sign,
};
use reqwest::{RequestBuilder, Response, Url};
use tokio::runtime::Handle;

pub use self::config::{Credential, WebhookConfig, WebhookConfigError};
pub use self::guard::{Network, NetworkError};
pub use self::reserved::Reserved;
pub use self::tls::TlsError;

use self::guard::{Guard, Lookup, SystemLookup};
use self::live::{Keeper, LOOK_EVERY, Live};
use self::outcome::{judge, quoting, unanswered};
use super::{Delivery, Outcome, Sink};

const DRAIN_BYTES: usize = 64 * 1024;
const DRAIN_TIME: Duration = Duration::from_millis(250);
/// What is kept of a body.
const KEPT_BYTES: usize = 2 * 1024;

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
    keeper: Arc<Keeper>,
    watched: AtomicBool,
    // Checked when the sink is made and never changed; redirects are not followed. So the check holds for every send.
    url: Url,
}

impl WebhookSink {
    /// Checks the configuration, reads the files that it names and sets up the client. Nothing is sent and no name is
    /// resolved.
    ///
    /// # Errors
    ///
    /// [`WebhookConfigError`] says what does not fit.
    pub fn new(config: WebhookConfig) -> Result<Self, WebhookConfigError> {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    pub(crate) fn with_lookup(
        config: WebhookConfig,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, WebhookConfigError> {
        let (url, policy) = config.checked()?;
        let guard = Guard { policy: Arc::new(policy), lookup };
        let keeper = Arc::new(Keeper::new(config, url.scheme() == "https", guard)?);
        let sink = Self { keeper, watched: AtomicBool::new(false), url };
        sink.watch();
        Ok(sink)
    }

    /// Has the files looked at for as long as the sink lives, once there is a runtime.
    fn watch(&self) {
        if self.watched.load(Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let keeper = Arc::downgrade(&self.keeper);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                let Some(keeper) = keeper.upgrade() else { return };
                // A look that panics is repeated; what was there before goes on.
                let _ = tokio::task::spawn_blocking(move || keeper.look(Instant::now())).await;
            }
        });
    }

    /// The body and the signature are made over the same bytes, anew for each attempt.
    fn request(&self, live: &Live, delivery: &Delivery<'_>, now: SystemTime) -> RequestBuilder {
        let WebhookConfig { format, source, .. } = self.keeper.config();
        let id = delivery.envelope.event_id.to_string();
        let seconds = unix_seconds(now);
        let body = body(delivery.envelope, *format, source);
        let signature = sign(&live.secrets, &id, seconds, &body);
        let request = live
            .client
            .post(self.url.clone())
            .headers(live.headers.clone())
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
}

impl Sink for WebhookSink {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.watch();
            let (config, live) = (self.keeper.config(), self.keeper.live());
            match self.request(&live, &delivery, SystemTime::now()).send().await {
                Ok(response) => {
                    delivery.answer.set_status(response.status().as_u16());
                    let outcome = judge(response.status(), response.headers(), SystemTime::now());
                    let keep = if config.keep_response { KEPT_BYTES } else { 0 };
                    let said = drain(response, keep).await;
                    quoting(outcome, &said)
                }
                Err(error) => unanswered(&error, config.connect_timeout, config.timeout),
            }
        })
    }
}

impl fmt::Debug for WebhookSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookSink").field("config", self.keeper.config()).finish_non_exhaustive()
    }
}

/// Reads what is left of a short answer, so that the connection can be used again; a long or slow one is dropped. Returns the
/// first `keep` bytes.
async fn drain(mut response: Response, keep: usize) -> Vec<u8> {
    let mut kept = Vec::new();
    let rest = async {
        let mut room = DRAIN_BYTES;
        while let Ok(Some(chunk)) = response.chunk().await {
            let wanted = chunk.len().min(keep - kept.len());
            kept.extend_from_slice(&chunk[..wanted]);
            match room.checked_sub(chunk.len()) {
                Some(left) => room = left,
                None => break,
            }
        }
    };
    // Either way the outcome is known already.
    let _ = tokio::time::timeout(DRAIN_TIME, rest).await;
    kept
}

fn unix_seconds(now: SystemTime) -> i64 {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
