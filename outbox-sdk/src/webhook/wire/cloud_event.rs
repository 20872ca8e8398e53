//! CloudEvents 1.0: the attributes of an event, and the structured mode in JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::Object;
use super::{JSON, Source, WireError, json, needed, number, payload, rfc3339, text, timestamp, uuid};
use crate::envelope::Envelope;

/// An attribute as a type of CloudEvents.
pub(super) enum Attribute<'a> {
    Text(Cow<'a, str>),
    Integer(u32),
}

/// Every attribute that the event has, in the order in which they are written.
pub(super) fn attributes<'a>(
    envelope: &'a Envelope,
    source: &'a Source,
) -> impl Iterator<Item = (&'static str, Attribute<'a>)> {
    let given = |value: &'a str| Some(Attribute::Text(Cow::Borrowed(value)));
    let made = |value: String| Some(Attribute::Text(Cow::Owned(value)));
    let dataschema = source.dataschema_base.as_deref().map(|base| {
        let (base, major) = (base.trim_end_matches('/'), envelope.schema_version);
        format!("{base}/{}/v{major}", envelope.event_type)
    });
    [
        ("specversion", given("1.0")),
        ("id", made(envelope.event_id.to_string())),
        ("source", given(&source.source)),
        ("type", given(&envelope.event_type)),
        ("subject", envelope.aggregate_id.as_deref().and_then(given)),
        ("time", made(rfc3339(envelope.occurred_at))),
        ("dataschema", dataschema.and_then(made)),
        ("datacontenttype", given(JSON)),
        ("schemaversion", Some(Attribute::Integer(envelope.schema_version))),
        ("aggregatetype", given(&envelope.aggregate_type)),
        ("tenantid", text(envelope.tenant_id).and_then(made)),
        ("correlationid", text(envelope.correlation_id).and_then(made)),
        ("causationid", text(envelope.causation_id).and_then(made)),
        // A CloudEvents integer has 32 bits, so the audit id is a string, as `sequence` is.
        ("auditlogid", text(envelope.audit_log_id).and_then(made)),
        ("actor", envelope.actor.as_deref().and_then(given)),
        ("sequence", made(format!("{:019}", envelope.id))),
        ("partitionkey", made(envelope.lane().key())),
        ("traceparent", envelope.traceparent.as_deref().and_then(given)),
        ("tracestate", envelope.tracestate.as_deref().and_then(given)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

pub(super) fn written(envelope: &Envelope, source: &Source) -> String {
    let mut object = Object::with_room_for(&envelope.payload);
    for (name, value) in attributes(envelope, source) {
        match value {
            Attribute::Text(value) => object.text(name, &value),
            Attribute::Integer(value) => object.raw(name, &value.to_string()),
        }
    }
    object.raw("data", &envelope.payload);
    object.end()
}

/// The attributes of a CloudEvent as they arrived; `data` is there in structured mode only.
#[derive(Default, Deserialize)]
pub(super) struct Arrived<'a> {
    pub(super) specversion: Option<String>,
    pub(super) id: Option<String>,
    pub(super) r#type: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) time: Option<String>,
    pub(super) schemaversion: Option<u32>,
    pub(super) aggregatetype: Option<String>,
    pub(super) tenantid: Option<String>,
    pub(super) correlationid: Option<String>,
    pub(super) causationid: Option<String>,
    pub(super) auditlogid: Option<String>,
    pub(super) actor: Option<String>,
    pub(super) sequence: Option<String>,
    pub(super) traceparent: Option<String>,
    pub(super) tracestate: Option<String>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

pub(super) fn parsed(body: &[u8]) -> Result<Envelope, WireError> {
    let arrived: Arrived<'_> = json(body)?;
    let data = needed("data", arrived.data)?;
    arrived.envelope(data)
}

impl Arrived<'_> {
    pub(super) fn envelope(self, data: &RawValue) -> Result<Envelope, WireError> {
        if needed("specversion", self.specversion)? != "1.0" {
            return Err(WireError::Invalid("specversion"));
        }
        let occurred_at = timestamp("time", self.time)?;
        Ok(Envelope {
            id: number("sequence", Some(needed("sequence", self.sequence)?))?.unwrap_or_default(),
            event_id: needed("id", uuid("id", self.id)?)?,
            tenant_id: uuid("tenantid", self.tenantid)?,
            event_type: needed("type", self.r#type)?,
            schema_version: needed("schemaversion", self.schemaversion)?,
            aggregate_type: needed("aggregatetype", self.aggregatetype)?,
            aggregate_id: self.subject,
            audit_log_id: number("auditlogid", self.auditlogid)?,
            correlation_id: uuid("correlationid", self.correlationid)?,
            causation_id: uuid("causationid", self.causationid)?,
            actor: self.actor,
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            payload: payload(Some(data))?,
            older_payloads: None,
            occurred_at,
            created_at: occurred_at,
        })
    }
}
