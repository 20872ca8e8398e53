//! What a receiver does with a delivery: size, signature, age, decode. No framework and no IO.

use std::time::{Duration, SystemTime};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use uuid::Uuid;

use super::secret::Secrets;
use super::sign::{DEFAULT_TOLERANCE, VerifyError, verify};
use super::wire::{WireError, parse, parse_binary};
use super::{OUTBOX_ATTEMPT, OUTBOX_REPLAY, WEBHOOK_ID, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP};
use crate::envelope::Envelope;

/// The largest body that is taken: 2 MiB. A payload has at most 1 MiB.
pub const DEFAULT_MAX_BYTES: usize = 2 * 1024 * 1024;

/// What binary mode is known by.
const CE_SPECVERSION: &str = "ce-specversion";

/// Turns requests into verified deliveries.
///
/// ```
/// use std::time::SystemTime;
///
/// use http::HeaderMap;
/// use outbox_sdk::webhook::{ReceiveError, Receiver, Secret};
///
/// let receiver = Receiver::new(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?);
/// let refused = receiver.receive(&HeaderMap::new(), b"{}", SystemTime::now()).unwrap_err();
/// assert_eq!(refused, ReceiveError::MissingHeader("webhook-id"));
/// assert_eq!(refused.status(), 400);
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Receiver {
    secrets: Secrets,
    tolerance: Duration,
    max_bytes: usize,
    binary_mode: bool,
}

/// A verified delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The event, the same type that a handler in the relay's process gets. Deduplicate by its `event_id`.
    pub envelope: Envelope,
    /// Which attempt this is, from 1. Not covered by the signature: good for logs, not for decisions.
    pub attempt: u32,
    /// Whether an operator sent a dead letter again. Not covered by the signature.
    pub replay: bool,
}

impl Receiver {
    /// A receiver that accepts any of these secrets, five minutes of clock difference and 2 MiB.
    #[must_use]
    pub fn new(secrets: impl Into<Secrets>) -> Self {
        Self {
            secrets: secrets.into(),
            tolerance: DEFAULT_TOLERANCE,
            max_bytes: DEFAULT_MAX_BYTES,
            binary_mode: false,
        }
    }

    /// How old, or how far in the future, a delivery may be. Whole seconds count.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// The largest body that is taken, in bytes.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Whether CloudEvents in binary mode are taken; not unless told so. The signature does not cover their attributes (see
    /// [`Format::CloudEventsBinary`](super::Format::CloudEventsBinary)): whoever can change a delivery on its way can
    /// have it taken for an event of another type or tenant.
    #[must_use]
    pub fn binary_mode(mut self, taken: bool) -> Self {
        self.binary_mode = taken;
        self
    }

    /// The largest body that is taken; a framework adapter stops reading there.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.max_bytes
    }

    /// Checks the size, the signature with every secret in use and the age, and only then decodes the body.
    ///
    /// `body` must be the bytes as they arrived; a body that was parsed and printed again does not verify. `now` is the
    /// receiver's clock.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; answer with its [`status`](ReceiveError::status) and its text.
    pub fn receive(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Delivery, ReceiveError> {
        if body.len() > self.max_bytes {
            return Err(ReceiveError::TooLarge { limit: self.max_bytes });
        }
        let id = needed(headers, WEBHOOK_ID)?;
        let timestamp = needed(headers, WEBHOOK_TIMESTAMP)?;
        let signature = needed(headers, WEBHOOK_SIGNATURE)?;
        verify(&self.secrets, id, timestamp, signature, body, now, self.tolerance)?;
        let content_type = needed(headers, CONTENT_TYPE.as_str())?;
        let envelope = match (headers.contains_key(CE_SPECVERSION), self.binary_mode) {
            (true, true) => parse_binary(headers, body)?,
            (true, false) => return Err(ReceiveError::BinaryMode),
            (false, _) => parse(content_type, body)?,
        };
        if Uuid::try_parse(id) != Ok(envelope.event_id) {
            return Err(ReceiveError::OtherId);
        }
        let attempt =
            optional(headers, OUTBOX_ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
        let replay = optional(headers, OUTBOX_REPLAY) == Some("true");
        Ok(Delivery { envelope, attempt, replay })
    }
}

fn needed<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<&'h str, ReceiveError> {
    let value = headers.get(name).ok_or(ReceiveError::MissingHeader(name))?;
    value.to_str().map_err(|_| ReceiveError::InvalidHeader(name))
}

fn optional<'h>(headers: &'h HeaderMap, name: &'static str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Why a delivery was not accepted. The texts hold no secret and nothing of the body, so they are safe to send back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The body is larger than the receiver takes.
    #[error("the body has more than {limit} bytes: raise the receiver's limit or publish smaller payloads")]
    TooLarge {
        /// The receiver's limit in bytes.
        limit: usize,
    },
    /// The body did not arrive completely.
    #[error("the body did not arrive completely: send the delivery again")]
    Incomplete,
    /// A header that every delivery has is missing.
    #[error("the header `{0}` is missing: only signed deliveries of an outbox relay are accepted here")]
    MissingHeader(&'static str),
    /// A header is not printable ASCII.
    #[error("the header `{0}` is not printable ASCII: send it as an outbox relay writes it")]
    InvalidHeader(&'static str),
    /// The signature or its age was not accepted.
    #[error(transparent)]
    Signature(#[from] VerifyError),
    /// The body is not an event.
    #[error(transparent)]
    Body(#[from] WireError),
    /// It is in binary mode, which this receiver was not told to take.
    #[error(
        "the delivery is a CloudEvent in binary mode, whose attributes no signature covers: have the relay send \
         `format = \"cloudevents\"`, or allow `binary_mode` at the receiver"
    )]
    BinaryMode,
    /// The signed header and the body name different events.
    #[error("`webhook-id` is not the id of the event in the body: sign each delivery under its event id")]
    OtherId,
}

impl ReceiveError {
    /// The status to answer with: 400 for a malformed request, 401 for a signature that was not accepted, 413 for a
    /// body that is too large, 415 for an unknown media type. A relay tries each of them again, so that a wrong
    /// secret, clock or limit can be put right without a loss.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Signature(VerifyError::Timestamp | VerifyError::NoSignature) => StatusCode::BAD_REQUEST,
            Self::Signature(_) => StatusCode::UNAUTHORIZED,
            Self::Body(WireError::MediaType) | Self::BinaryMode => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Incomplete
            | Self::MissingHeader(_)
            | Self::InvalidHeader(_)
            | Self::Body(_)
            | Self::OtherId => StatusCode::BAD_REQUEST,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::webhook::{Format, Secret, Source, body, sign};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";
    const NOW: i64 = 1_767_225_600;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs())
    }

    fn receiver() -> Receiver {
        Receiver::new(Secret::parse(SECRET).unwrap())
    }

    fn delivery(format: Format) -> (Envelope, HeaderMap, Vec<u8>) {
        let envelope = Envelope::example("customer.updated", 1, "{\"name\":\"Zoë\",\"n\":1.10}");
        let body = body(&envelope, format, &Source::default());
        let mut headers = signed(&envelope.event_id.to_string(), &body);
        headers.extend(crate::webhook::headers(&envelope, format, &Source::default()));
        (envelope, headers, body)
    }

    fn signed(id: &str, body: &[u8]) -> HeaderMap {
        let signature = sign(&Secrets::parse([SECRET]).unwrap(), id, NOW, body);
        let mut headers = HeaderMap::new();
        headers.insert(WEBHOOK_ID, id.parse().unwrap());
        headers.insert(WEBHOOK_TIMESTAMP, NOW.into());
        headers.insert(WEBHOOK_SIGNATURE, signature.parse().unwrap());
        headers
    }

    #[test]
    fn a_signed_event_arrives_in_every_form() {
        for format in [Format::CloudEvents, Format::CloudEventsBinary, Format::Plain] {
            let (envelope, mut headers, body) = delivery(format);
            let receiver = || receiver().binary_mode(true);
            let first = receiver().receive(&headers, &body, now()).unwrap();
            assert_eq!(first, Delivery { envelope: envelope.clone(), attempt: 1, replay: false });
            headers.insert(OUTBOX_ATTEMPT, HeaderValue::from_static("7"));
            headers.insert(OUTBOX_REPLAY, HeaderValue::from_static("true"));
            let again = receiver().receive(&headers, &body, now()).unwrap();
            assert_eq!(again, Delivery { envelope, attempt: 7, replay: true });
        }
    }

    #[test]
    fn binary_mode_must_be_allowed() {
        let (_, mut headers, body) = delivery(Format::CloudEventsBinary);
        let refused = receiver().receive(&headers, &body, now()).unwrap_err();
        assert_eq!((refused.status().as_u16(), &refused), (415, &ReceiveError::BinaryMode));
        assert!(receiver().binary_mode(true).receive(&headers, &body, now()).is_ok());
        headers.insert("ce-id", HeaderValue::from_static("00000000-0000-0000-0000-000000000007"));
        let refused = receiver().binary_mode(true).receive(&headers, &body, now()).unwrap_err();
        assert_eq!(refused, ReceiveError::OtherId, "the id at least is signed");
    }

    #[test]
    fn unsigned_hints_never_refuse_a_delivery() {
        let (_, mut headers, body) = delivery(Format::CloudEvents);
        for text in ["0", "-1", "x", "99999999999"] {
            headers.insert(OUTBOX_ATTEMPT, text.parse().unwrap());
            headers.insert(OUTBOX_REPLAY, text.parse().unwrap());
            let delivery = receiver().receive(&headers, &body, now()).unwrap();
            assert_eq!((delivery.attempt, delivery.replay), (1, false), "{text}");
        }
    }

    #[test]
    fn the_size_is_judged_before_anything_else() {
        let (_, headers, body) = delivery(Format::CloudEvents);
        let exact = receiver().max_bytes(body.len());
        assert!(exact.receive(&headers, &body, now()).is_ok());
        let short = receiver().max_bytes(body.len() - 1);
        let refused = short.receive(&HeaderMap::new(), &body, now()).unwrap_err();
        assert_eq!(refused, ReceiveError::TooLarge { limit: body.len() - 1 });
        assert_eq!(refused.status(), 413);
    }

    #[test]
    fn each_missing_header_is_named() {
        for name in [WEBHOOK_ID, WEBHOOK_TIMESTAMP, WEBHOOK_SIGNATURE, CONTENT_TYPE.as_str()] {
            let (_, mut headers, body) = delivery(Format::CloudEvents);
            headers.insert(name, HeaderValue::from_bytes(b"\xff").unwrap());
            let refused = receiver().receive(&headers, &body, now()).unwrap_err();
            assert_eq!(refused, ReceiveError::InvalidHeader(name));
            headers.remove(name);
            let refused = receiver().receive(&headers, &body, now()).unwrap_err();
            assert_eq!(
                (refused.status(), refused),
                (StatusCode::BAD_REQUEST, ReceiveError::MissingHeader(name))
            );
        }
    }

    #[test]
    fn the_signature_is_judged_before_the_body_is_read() {
        let (_, mut headers, _) = delivery(Format::CloudEvents);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let refused = receiver().receive(&headers, b"not json", now()).unwrap_err();
        assert_eq!(refused, ReceiveError::Signature(VerifyError::Mismatch));
        assert_eq!(refused.status(), 401);
    }

    #[test]
    fn a_foreign_secret_and_an_old_delivery_are_unauthorized() {
        let (_, headers, body) = delivery(Format::CloudEvents);
        let foreign = Receiver::new(Secret::parse(OTHER).unwrap());
        let refused = foreign.receive(&headers, &body, now()).unwrap_err();
        assert_eq!(refused.status(), 401);
        let late = now() + Duration::from_secs(301);
        let refused = receiver().receive(&headers, &body, late).unwrap_err();
        assert_eq!(refused, ReceiveError::Signature(VerifyError::TooOld { seconds: 301 }));
        assert_eq!(refused.status(), 401);
        assert!(receiver().tolerance(Duration::from_secs(600)).receive(&headers, &body, late).is_ok());
    }

    #[test]
    fn both_secrets_are_accepted_while_they_rotate() {
        let (_, headers, body) = delivery(Format::CloudEvents);
        let rotating = Receiver::new(Secrets::parse([OTHER, SECRET]).unwrap());
        assert!(rotating.receive(&headers, &body, now()).is_ok());
    }

    #[test]
    fn a_signed_body_under_another_id_is_refused() {
        let (_, good, body) = delivery(Format::CloudEvents);
        for id in [Uuid::nil().to_string(), "msg_1".to_owned()] {
            let mut headers = signed(&id, &body);
            headers.insert(CONTENT_TYPE, good[CONTENT_TYPE].clone());
            let refused = receiver().receive(&headers, &body, now()).unwrap_err();
            assert_eq!((refused.status(), refused), (StatusCode::BAD_REQUEST, ReceiveError::OtherId));
        }
    }

    #[test]
    fn a_signed_body_that_is_no_event_is_refused() {
        let id = Uuid::nil().to_string();
        let mut headers = signed(&id, b"[]");
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        let refused = receiver().receive(&headers, b"[]", now()).unwrap_err();
        assert_eq!(refused.status(), 415);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let refused = receiver().receive(&headers, b"[]", now()).unwrap_err();
        assert_eq!(refused.status(), 400);
        assert!(matches!(refused, ReceiveError::Body(_)), "{refused:?}");
    }
}
