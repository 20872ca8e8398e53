//! The bodies on the wire, written and read back: CloudEvents 1.0 in JSON, and the plain form.

use chrono::{DateTime, SecondsFormat};
use serde::Deserialize;
use serde_json::Value;
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
pub enum Format {
    /// A CloudEvents 1.0 event in JSON, structured mode. Absent attributes are left out.
    #[default]
    CloudEvents,
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
            Self::Plain => JSON,
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
        Format::CloudEvents => cloud_event(envelope, source),
        Format::Plain => plain(envelope),
    };
    text.into_bytes()
}

fn cloud_event(envelope: &Envelope, source: &Source) -> String {
    let mut object = Object::with_room_for(&envelope.payload);
    object.text("specversion", "1.0");
    object.text("id", &envelope.event_id.to_string());
    object.text("source", &source.source);
    object.text("type", &envelope.event_type);
    object.text_if("subject", envelope.aggregate_id.as_deref());
    object.text("time", &rfc3339(envelope.occurred_at));
    if let Some(base) = &source.dataschema_base {
        let (base, major) = (base.trim_end_matches('/'), envelope.schema_version);
        object.text("dataschema", &format!("{base}/{}/v{major}", envelope.event_type));
    }
    object.text("datacontenttype", JSON);
    object.raw("schemaversion", &envelope.schema_version.to_string());
    object.text("aggregatetype", &envelope.aggregate_type);
    object.text_if("tenantid", text(envelope.tenant_id).as_deref());
    object.text_if("correlationid", text(envelope.correlation_id).as_deref());
    object.text_if("causationid", text(envelope.causation_id).as_deref());
    // A CloudEvents integer has 32 bits, so the audit id is a string, as `sequence` is.
    object.text_if("auditlogid", text(envelope.audit_log_id).as_deref());
    object.text_if("actor", envelope.actor.as_deref());
    object.text("sequence", &format!("{:019}", envelope.id));
    object.text("partitionkey", &envelope.lane().key());
    object.text_if("traceparent", envelope.traceparent.as_deref());
    object.text_if("tracestate", envelope.tracestate.as_deref());
    object.raw("data", &envelope.payload);
    object.end()
}

fn plain(envelope: &Envelope) -> String {
    let mut metadata = Object::with_room_for("");
    metadata.text_or_null("causation_id", text(envelope.causation_id).as_deref());
    metadata.text_or_null("correlation_id", text(envelope.correlation_id).as_deref());
    metadata.text_or_null("tenant_id", text(envelope.tenant_id).as_deref());
    metadata.text("aggregate_type", &envelope.aggregate_type);
    metadata.text_or_null("aggregate_id", envelope.aggregate_id.as_deref());
    metadata.raw("audit_log_id", text(envelope.audit_log_id).as_deref().unwrap_or("null"));
    metadata.raw("actor", envelope.actor.as_deref().unwrap_or("null"));
    metadata.text("occurred_at", &rfc3339(envelope.occurred_at));
    metadata.text_or_null("traceparent", envelope.traceparent.as_deref());

    let mut object = Object::with_room_for(&envelope.payload);
    object.raw("id", &envelope.id.to_string());
    object.text("event_id", &envelope.event_id.to_string());
    object.text("event_type", &envelope.event_type);
    object.raw("version", &envelope.schema_version.to_string());
    object.raw("data", &envelope.payload);
    object.raw("metadata", &metadata.end());
    object.end()
}

/// The text of a JSON object under construction.
struct Object(String);

impl Object {
    fn with_room_for(payload: &str) -> Self {
        let mut text = String::with_capacity(payload.len() + 1024);
        text.push('{');
        Self(text)
    }

    /// `value` is JSON already.
    fn raw(&mut self, name: &'static str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        for part in ["\"", name, "\":", value] {
            self.0.push_str(part);
        }
    }

    fn text(&mut self, name: &'static str, value: &str) {
        self.raw(name, &Value::from(value).to_string());
    }

    fn text_if(&mut self, name: &'static str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn text_or_null(&mut self, name: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
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

/// Reads a body of either [`Format`] back.
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
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(CLOUDEVENTS_JSON) {
        parse_cloud_event(json(body)?)
    } else if essence.eq_ignore_ascii_case(JSON) {
        parse_plain(json(body)?)
    } else {
        Err(WireError::MediaType)
    }
}

#[derive(Deserialize)]
struct CloudEventBody<'a> {
    specversion: Option<String>,
    id: Option<String>,
    r#type: Option<String>,
    subject: Option<String>,
    time: Option<String>,
    schemaversion: Option<u32>,
    aggregatetype: Option<String>,
    tenantid: Option<String>,
    correlationid: Option<String>,
    causationid: Option<String>,
    auditlogid: Option<String>,
    actor: Option<String>,
    sequence: Option<String>,
    traceparent: Option<String>,
    tracestate: Option<String>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PlainBody<'a> {
    id: Option<i64>,
    event_id: Option<String>,
    event_type: Option<String>,
    version: Option<u32>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<PlainMetadata<'a>>,
}

#[derive(Deserialize)]
struct PlainMetadata<'a> {
    causation_id: Option<String>,
    correlation_id: Option<String>,
    tenant_id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    audit_log_id: Option<i64>,
    #[serde(borrow)]
    actor: Option<&'a RawValue>,
    occurred_at: Option<String>,
    traceparent: Option<String>,
}

fn parse_cloud_event(event: CloudEventBody<'_>) -> Result<Envelope, WireError> {
    if needed("specversion", event.specversion)? != "1.0" {
        return Err(WireError::Invalid("specversion"));
    }
    let occurred_at = timestamp("time", event.time)?;
    Ok(Envelope {
        id: number("sequence", Some(needed("sequence", event.sequence)?))?.unwrap_or_default(),
        event_id: needed("id", uuid("id", event.id)?)?,
        tenant_id: uuid("tenantid", event.tenantid)?,
        event_type: needed("type", event.r#type)?,
        schema_version: needed("schemaversion", event.schemaversion)?,
        aggregate_type: needed("aggregatetype", event.aggregatetype)?,
        aggregate_id: event.subject,
        audit_log_id: number("auditlogid", event.auditlogid)?,
        correlation_id: uuid("correlationid", event.correlationid)?,
        causation_id: uuid("causationid", event.causationid)?,
        actor: event.actor,
        traceparent: event.traceparent,
        tracestate: event.tracestate,
        payload: payload(event.data)?,
        older_payloads: None,
        occurred_at,
        created_at: occurred_at,
    })
}

fn parse_plain(event: PlainBody<'_>) -> Result<Envelope, WireError> {
    let metadata = needed("metadata", event.metadata)?;
    let occurred_at = timestamp("metadata.occurred_at", metadata.occurred_at)?;
    Ok(Envelope {
        id: needed("id", event.id)?,
        event_id: needed("event_id", uuid("event_id", event.event_id)?)?,
        tenant_id: uuid("metadata.tenant_id", metadata.tenant_id)?,
        event_type: needed("event_type", event.event_type)?,
        schema_version: needed("version", event.version)?,
        aggregate_type: needed("metadata.aggregate_type", metadata.aggregate_type)?,
        aggregate_id: metadata.aggregate_id,
        audit_log_id: metadata.audit_log_id,
        correlation_id: uuid("metadata.correlation_id", metadata.correlation_id)?,
        causation_id: uuid("metadata.causation_id", metadata.causation_id)?,
        actor: metadata.actor.map(|actor| actor.get().to_owned()),
        traceparent: metadata.traceparent,
        tracestate: None,
        payload: payload(event.data)?,
        older_payloads: None,
        occurred_at,
        created_at: occurred_at,
    })
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
mod tests {
    use super::*;

    /// Everything that a detour through a JSON value, an escape or a re-print would change.
    const TRICKY: &str = "{\"z\": 1.10, \"a\" :1e2,\"big\":9007199254740993,\"bigger\":18446744073709551616,\
        \"decimal\":1234567890.1234567890123456789012345678901,\"a\":\"é \u{1f600} \u{2028} </script> \\u00e9 \\/\"}";

    fn full() -> Envelope {
        let mut envelope = Envelope::example("entity.customer.updated", 2, TRICKY);
        envelope.id = 1_234_567_890_123_456_789;
        envelope.event_id = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
        envelope.tenant_id = Some(Uuid::from_u128(1));
        envelope.aggregate_type = "customer".into();
        envelope.aggregate_id = Some("a\"b\\c\r\n\u{0}".into());
        envelope.audit_log_id = Some(i64::MAX);
        envelope.correlation_id = Some(Uuid::from_u128(2));
        envelope.causation_id = Some(Uuid::from_u128(3));
        envelope.actor = Some(r#"{"name": "Zoë", "level": 1.0}"#.into());
        envelope.traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
        envelope.tracestate = Some("vendor=1".into());
        envelope.occurred_at = Timestamp::from_micros(1_767_225_600_000_001);
        envelope.created_at = envelope.occurred_at;
        envelope
    }

    fn written(envelope: &Envelope, format: Format) -> String {
        String::from_utf8(body(envelope, format, &Source::default())).unwrap()
    }

    #[test]
    fn a_cloud_event_is_written_member_by_member() {
        let source =
            Source { source: "/crm".into(), dataschema_base: Some("https://schemas.example/".into()) };
        let text = String::from_utf8(body(&full(), Format::CloudEvents, &source)).unwrap();
        let expected = format!(
            r#"{{"specversion":"1.0","id":"01900000-0000-7000-8000-000000000001","source":"/crm",{}{}{}"data":{TRICKY}}}"#,
            r#""type":"entity.customer.updated","subject":"a\"b\\c\r\n\u0000","time":"2026-01-01T00:00:00.000001Z","dataschema":"https://schemas.example/entity.customer.updated/v2","datacontenttype":"application/json","schemaversion":2,"aggregatetype":"customer","#,
            r#""tenantid":"00000000-0000-0000-0000-000000000001","correlationid":"00000000-0000-0000-0000-000000000002","causationid":"00000000-0000-0000-0000-000000000003","auditlogid":"9223372036854775807","actor":"{\"name\": \"Zoë\", \"level\": 1.0}","sequence":"1234567890123456789","#,
            r#""partitionkey":"[\"00000000-0000-0000-0000-000000000001\",\"customer\",\"a\\\"b\\\\c\\r\\n\\u0000\"]","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"vendor=1","#,
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn absent_attributes_of_a_cloud_event_are_left_out_and_the_sequence_is_padded() {
        let mut envelope = Envelope::example("customer.updated", 1, "{}");
        envelope.event_id = Uuid::nil();
        assert_eq!(
            written(&envelope, Format::CloudEvents),
            r#"{"specversion":"1.0","id":"00000000-0000-0000-0000-000000000000","source":"/outbox","type":"customer.updated","time":"1970-01-01T00:00:00.000000Z","datacontenttype":"application/json","schemaversion":1,"aggregatetype":"example","sequence":"0000000000000000001","partitionkey":"[1]","data":{}}"#
        );
    }

    #[test]
    fn the_plain_form_always_has_every_member() {
        let mut envelope = Envelope::example("customer.updated", 1, r#"{"n":1.10}"#);
        envelope.event_id = Uuid::nil();
        assert_eq!(
            written(&envelope, Format::Plain),
            r#"{"id":1,"event_id":"00000000-0000-0000-0000-000000000000","event_type":"customer.updated","version":1,"data":{"n":1.10},"metadata":{"causation_id":null,"correlation_id":null,"tenant_id":null,"aggregate_type":"example","aggregate_id":null,"audit_log_id":null,"actor":null,"occurred_at":"1970-01-01T00:00:00.000000Z","traceparent":null}}"#
        );
    }

    #[test]
    fn both_forms_come_back_with_every_digit() {
        for envelope in [full(), Envelope::example("customer.updated", 1, "{}")] {
            for format in [Format::CloudEvents, Format::Plain] {
                let mut expected = envelope.clone();
                if format == Format::Plain {
                    expected.tracestate = None;
                }
                let text = written(&envelope, format);
                assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
                assert_eq!(parse(format.media_type(), text.as_bytes()), Ok(expected));
            }
        }
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let text = written(&full(), Format::CloudEvents);
        let read = |content_type| parse(content_type, text.as_bytes());
        assert_eq!(read("Application/CloudEvents+JSON ; charset=utf-8"), Ok(full()));
        for wrong in ["", "text/plain", "application/cloudevents", "application/cloudevents-batch+json"] {
            assert_eq!(read(wrong), Err(WireError::MediaType), "{wrong}");
        }
        assert!(matches!(read(JSON), Err(WireError::Json { .. })));
        assert_eq!(parse(JSON, b"{\"id\":1}"), Err(WireError::Missing("metadata")));
    }

    #[test]
    fn what_is_wrong_is_named_and_never_quoted() {
        let good = written(&Envelope::example("customer.updated", 1, "{}"), Format::CloudEvents);
        let read = |from: &str, to: &str| {
            let text = good.replacen(from, to, 1);
            assert_ne!(text, good, "{from}");
            parse(CLOUDEVENTS_JSON, text.as_bytes()).unwrap_err()
        };
        assert_eq!(read("\"1.0\"", "\"0.3\""), WireError::Invalid("specversion"));
        assert_eq!(read("\"id\":\"", "\"id\":\"x"), WireError::Invalid("id"));
        assert_eq!(read("\"id\"", "\"idx\""), WireError::Missing("id"));
        assert_eq!(read("\"time\"", "\"when\""), WireError::Missing("time"));
        assert_eq!(read("1970-01-01T", "1970-01-01 at "), WireError::Invalid("time"));
        assert_eq!(read("\"sequence\":\"0", "\"sequence\":\"z"), WireError::Invalid("sequence"));
        assert_eq!(read("\"data\":{}", "\"data\":[]"), WireError::Invalid("data"));
        assert_eq!(read("\"data\":{}", "\"data\":null"), WireError::Missing("data"));
        let wrong_type = read("\"schemaversion\":1", "\"schemaversion\":\"canary\"");
        assert!(matches!(wrong_type, WireError::Json { line: 1, .. }), "{wrong_type:?}");
        assert!(!wrong_type.to_string().contains("canary"));
    }

    #[test]
    fn broken_bytes_never_make_another_event() {
        let good = body(&full(), Format::CloudEvents, &Source::default());
        for end in 0..good.len() {
            assert!(parse(CLOUDEVENTS_JSON, &good[..end]).is_err());
            let mut broken = good.clone();
            broken[end] = 0xff;
            let read = parse(CLOUDEVENTS_JSON, &broken);
            assert!(read.is_err() || read == Ok(full()), "byte {end}: {read:?}");
        }
        let deep = format!(r#"{{"data":{}"#, "[".repeat(100_000));
        assert!(parse(JSON, deep.as_bytes()).is_err());
    }

    #[test]
    fn times_that_cannot_be_written_become_the_nearest() {
        assert_eq!(rfc3339(Timestamp::from_micros(i64::MAX)), "9999-12-31T23:59:59.999999Z");
        assert_eq!(rfc3339(Timestamp::from_micros(i64::MIN)), "0000-01-01T00:00:00.000000Z");
        assert_eq!(rfc3339(Timestamp::from_micros(-1)), "1969-12-31T23:59:59.999999Z");
    }
}
