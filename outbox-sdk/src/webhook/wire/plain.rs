//! The plain form: every member always present.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::Object;
use super::{WireError, json, needed, payload, rfc3339, text, timestamp, uuid};
use crate::envelope::Envelope;

pub(super) fn written(envelope: &Envelope) -> String {
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

pub(super) fn parsed(body: &[u8]) -> Result<Envelope, WireError> {
    let event: PlainBody<'_> = json(body)?;
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
