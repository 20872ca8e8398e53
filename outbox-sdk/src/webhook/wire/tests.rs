use serde_json::Value;

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
    let source = Source { source: "/crm".into(), dataschema_base: Some("https://schemas.example/".into()) };
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

fn binary(envelope: &Envelope) -> HeaderMap {
    headers(envelope, Format::CloudEventsBinary, &Source::default())
}

#[test]
fn in_binary_mode_the_attributes_are_headers_and_the_body_is_the_payload() {
    let source = Source { source: "/crm".into(), dataschema_base: Some("https://schemas.example/".into()) };
    let headers = headers(&full(), Format::CloudEventsBinary, &source);
    for (name, value) in [
        ("content-type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "01900000-0000-7000-8000-000000000001"),
        ("ce-source", "/crm"),
        ("ce-type", "entity.customer.updated"),
        ("ce-subject", "a%22b\\c%0D%0A%00"),
        ("ce-time", "2026-01-01T00:00:00.000001Z"),
        ("ce-dataschema", "https://schemas.example/entity.customer.updated/v2"),
        ("ce-schemaversion", "2"),
        ("ce-actor", "{%22name%22:%20%22Zo%C3%AB%22,%20%22level%22:%201.0}"),
        ("ce-sequence", "1234567890123456789"),
        ("ce-traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    assert!(!headers.contains_key("ce-datacontenttype"), "content-type says it");
    assert_eq!(body(&full(), Format::CloudEventsBinary, &source), TRICKY.as_bytes());
}

#[test]
fn binary_mode_comes_back_with_every_digit() {
    for envelope in [full(), Envelope::example("customer.updated", 1, "{}")] {
        let body = body(&envelope, Format::CloudEventsBinary, &Source::default());
        assert_eq!(parse_binary(&binary(&envelope), &body), Ok(envelope));
    }
}

#[test]
fn what_is_wrong_in_binary_mode_is_named_and_never_quoted() {
    let good = binary(&full());
    let read = |name: &'static str, value: Option<&'static str>, body: &str| {
        let mut headers = good.clone();
        headers.remove(name);
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_static(value));
        }
        parse_binary(&headers, body.as_bytes()).unwrap_err()
    };
    assert_eq!(read("ce-type", None, "{}"), WireError::Missing("type"));
    assert_eq!(read("ce-specversion", Some("0.3"), "{}"), WireError::Invalid("specversion"));
    assert_eq!(read("ce-schemaversion", Some("two"), "{}"), WireError::Invalid("schemaversion"));
    assert_eq!(read("ce-subject", Some("%ff"), "{}"), WireError::Invalid("subject"));
    assert_eq!(read("ce-source", None, "[]"), WireError::Invalid("data"));
    assert_eq!(read("content-type", Some("text/plain"), "{}"), WireError::MediaType);
    assert!(matches!(read("ce-source", None, "{\"canary"), WireError::Json { .. }));
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
