//! Events on the wire, written and read back: CloudEvents 1.0 in both modes, and the plain form.

mod binary;
mod cloud_event;
mod json;
mod plain;

use chrono::{DateTime, SecondsFormat};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::envelope::{Envelope, Timestamp};

/// The media type of [`Format::CloudEvents`].
pub const CLOUDEVENTS_JSON: &str = "application/cloudevents+json";

/// The media type of [`Format::Plain`] and of every payload.
pub const JSON: &str = "application/json";

/// The last moment that RFC 3339 can write: 9999-12-31T23:59:59.999999Z, in microseconds.
const LAST_MICROS: i64 = 253_402_300_799_999_999;
/// 0000-01-01T00:00:00Z, in microseconds.
const FIRST_MICROS: i64 = -62_167_219_200_000_000;

/// How an event is written for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// A CloudEvents 1.0 event in JSON, structured mode. Absent attributes are left out.
    #[default]
    CloudEvents,
    /// A CloudEvents 1.0 event in binary mode: the body is the payload as it is, the attributes are `ce-` headers.
    ///
    /// A signature of Standard Webhooks covers id, time and body, so it does **not** cover what the headers say, the event
    /// type and the tenant among it: between sender and receiver only TLS protects them. Take it for receivers that
    /// read nothing else.
    CloudEventsBinary,
    /// `{"id","event_id","event_type","version","data","metadata":{..}}`, every member always present, `null` when
    /// absent. It has no `tracestate`.
    Plain,
}

impl Format {
    /// The `content-type` of the body.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::CloudEvents => CLOUDEVENTS_JSON,
            Self::CloudEventsBinary | Self::Plain => JSON,
        }
    }
}

/// What a CloudEvent says about where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The attribute `source`, a URI reference; `/outbox` unless set.
    pub source: String,
    /// The address under which the schemas are published; makes `dataschema` = `<base>/<event type>/v<major>`.
    pub dataschema_base: Option<String>,
}

impl Default for Source {
    fn default() -> Self {
        Self { source: "/outbox".to_owned(), dataschema_base: None }
    }
}

/// The body for an event. The payload's text goes into `data` as it is: no digit, escape or space changes.
///
/// A time outside the years 0 to 9999, which RFC 3339 cannot write, becomes the nearest one that it can.
///
/// ```
/// use outbox_sdk::Envelope;
/// use outbox_sdk::webhook::{Format, Source, body};
///
/// let envelope = Envelope::example("customer.updated", 1, r#"{"total": 1.10}"#);
/// let body = body(&envelope, Format::CloudEvents, &Source::default());
/// assert!(body.ends_with(br#""data":{"total": 1.10}}"#));
/// ```
#[must_use]
pub fn body(envelope: &Envelope, format: Format, source: &Source) -> Vec<u8> {
    let text = match format {
        Format::CloudEvents => cloud_event::written(envelope, source),
        Format::CloudEventsBinary => envelope.payload.clone(),
        Format::Plain => plain::written(envelope),
    };
    text.into_bytes()
}

/// The headers that go with the [`body`]: `content-type`, and in binary mode the attributes as `ce-` headers.
///
/// ```
/// use outbox_sdk::Envelope;
/// use outbox_sdk::webhook::{Format, Source, headers};
///
/// let envelope = Envelope::example("customer.updated", 1, r#"{"total": 1.10}"#);
/// let headers = headers(&envelope, Format::CloudEventsBinary, &Source::default());
/// assert_eq!(headers["ce-type"], "customer.updated");
/// ```
#[must_use]
pub fn headers(envelope: &Envelope, format: Format, source: &Source) -> HeaderMap {
    match format {
        Format::CloudEventsBinary => binary::written(envelope, source),
        Format::CloudEvents | Format::Plain => {
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(format.media_type()))])
        }
    }
}

fn text<T: ToString>(value: Option<T>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn rfc3339(timestamp: Timestamp) -> String {
    let micros = timestamp.micros().clamp(FIRST_MICROS, LAST_MICROS);
    DateTime::from_timestamp_micros(micros).unwrap_or_default().to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Why a body is not an event. Says where, and repeats nothing of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The media type is none that this side reads.
    #[error(
        "the content type is neither `{CLOUDEVENTS_JSON}` nor `{JSON}`: \
         check that the relay posts here directly, with the format `cloudevents` or `plain`"
    )]
    MediaType,
    /// The body is not JSON, or a member has another type.
    #[error(
        "the body is not the JSON of an event, line {line}, column {column}: \
         check that the content type names the format of the body"
    )]
    Json {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// A member that every event has is missing.
    #[error("the event has no member `{0}`: send what an outbox relay writes")]
    Missing(&'static str),
    /// A member has a value that cannot be read.
    #[error("the event's member `{0}` has a value that cannot be read: send what an outbox relay writes")]
    Invalid(&'static str),
}

/// Reads a body in structured mode or in the plain form back; for binary mode there is [`parse_binary`].
///
/// The payload is the text of `data` as it arrived. `created_at` does not travel, so it becomes `occurred_at`;
/// `older_payloads` is empty, since the relay has chosen the major already. Unknown members are ignored.
///
/// ```
/// use outbox_sdk::Envelope;
/// use outbox_sdk::webhook::{Format, Source, body, parse};
///
/// let sent = Envelope::example("customer.renamed", 1, r#"{"name":"Ada"}"#);
/// let text = body(&sent, Format::CloudEvents, &Source::default());
/// let read = parse("application/cloudevents+json", &text)?;
/// assert_eq!((read.event_type, read.payload), (sent.event_type, sent.payload));
/// # Ok::<(), outbox_sdk::webhook::WireError>(())
/// ```
///
/// # Errors
///
/// [`WireError`] names what is wrong. Its text is safe to send back: it holds nothing of the body.
pub fn parse(content_type: &str, body: &[u8]) -> Result<Envelope, WireError> {
    if essence(content_type).eq_ignore_ascii_case(CLOUDEVENTS_JSON) {
        cloud_event::parsed(body)
    } else if is_json(content_type) {
        plain::parsed(body)
    } else {
        Err(WireError::MediaType)
    }
}

/// Reads a delivery in binary mode back: the attributes from `ce-` headers, the payload from the body. No signature covers
/// the headers; see [`Format::CloudEventsBinary`].
///
/// # Errors
///
/// [`WireError`] names what is wrong. Its text is safe to send back: it holds nothing of the delivery.
pub fn parse_binary(headers: &HeaderMap, body: &[u8]) -> Result<Envelope, WireError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !is_json(content_type) {
        return Err(WireError::MediaType);
    }
    binary::parsed(headers, body)
}

fn is_json(content_type: &str) -> bool {
    essence(content_type).eq_ignore_ascii_case(JSON)
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// serde's own message may quote the body, so only the place is kept.
fn json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireError> {
    serde_json::from_slice(body)
        .map_err(|error| WireError::Json { line: error.line(), column: error.column() })
}

fn needed<T>(name: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::Missing(name))
}

fn uuid(name: &'static str, value: Option<String>) -> Result<Option<Uuid>, WireError> {
    value.map(|text| Uuid::try_parse(&text)).transpose().map_err(|_| WireError::Invalid(name))
}

fn number(name: &'static str, value: Option<String>) -> Result<Option<i64>, WireError> {
    value.map(|text| text.parse()).transpose().map_err(|_| WireError::Invalid(name))
}

fn timestamp(name: &'static str, value: Option<String>) -> Result<Timestamp, WireError> {
    let moment = DateTime::parse_from_rfc3339(&needed(name, value)?).map_err(|_| WireError::Invalid(name))?;
    Ok(Timestamp::from_micros(moment.timestamp_micros()))
}

fn payload(data: Option<&RawValue>) -> Result<String, WireError> {
    let text = needed("data", data)?.get();
    if text.starts_with('{') { Ok(text.to_owned()) } else { Err(WireError::Invalid("data")) }
}

#[cfg(test)]
mod tests;
