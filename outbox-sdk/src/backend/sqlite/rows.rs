//! Values to and from SQLite's types.

use std::time::Duration;

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Error, Row as _};
use uuid::Uuid;

use crate::backend::{Defect, Due, NewDeadLetter, Stall, StoredEvent};
use crate::envelope::{Envelope, NewEnvelope, Published, Timestamp};
use crate::lane::Lane;
use crate::progress::Progress;

/// An event as `append_all.sql` takes it.
#[derive(Serialize)]
pub(super) struct EventParam<'a> {
    event_id: Uuid,
    event_type: &'a str,
    schema_version: u32,
    aggregate_type: &'a str,
    aggregate_id: Option<&'a str>,
    tenant_id: Option<Uuid>,
    correlation_id: Option<Uuid>,
    causation_id: Option<Uuid>,
    actor: Option<&'a str>,
    audit_log_id: Option<i64>,
    traceparent: Option<&'a str>,
    tracestate: Option<&'a str>,
    payload: &'a str,
    older_payloads: Option<&'a str>,
    delay: i64,
    occurred_at: Option<i64>,
}

impl<'a> EventParam<'a> {
    pub(super) fn new(event: &'a NewEnvelope) -> Self {
        Self {
            event_id: event.event_id,
            event_type: &event.event_type,
            schema_version: event.schema_version,
            aggregate_type: &event.aggregate_type,
            aggregate_id: event.aggregate_id.as_deref(),
            tenant_id: event.tenant_id,
            correlation_id: event.correlation_id,
            causation_id: event.causation_id,
            actor: event.actor.as_deref(),
            audit_log_id: event.audit_log_id,
            traceparent: event.traceparent.as_deref(),
            tracestate: event.tracestate.as_deref(),
            payload: &event.payload,
            older_payloads: event.older_payloads.as_deref(),
            delay: event.delay.map_or(0, micros),
            occurred_at: event.occurred_at.map(Timestamp::micros),
        }
    }
}

/// A stall as `stall_upsert.sql` takes it.
#[derive(Serialize)]
pub(super) struct StallParam<'a> {
    lane: &'a str,
    head_id: i64,
    attempts: u32,
    due: Option<DueParam>,
    blocked: bool,
    single: bool,
    schema_missing: bool,
    last_error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum DueParam {
    Micros(i64),
    Named(&'static str),
}

impl<'a> StallParam<'a> {
    pub(super) fn new(stall: &'a Stall) -> Self {
        Self {
            lane: &stall.lane,
            head_id: stall.head_id,
            attempts: stall.attempts,
            due: match stall.due {
                Due::In(delay) => Some(DueParam::Micros(micros(delay))),
                Due::AtAvailable => Some(DueParam::Named("available")),
                Due::Unchanged => None,
            },
            blocked: stall.blocked,
            single: stall.single,
            schema_missing: stall.schema_missing,
            last_error: stall.last_error.as_deref(),
        }
    }
}

/// A dead letter as `dead_letter_upsert.sql` takes it.
#[derive(Serialize)]
pub(super) struct DeadLetterParam<'a> {
    event_id: i64,
    reason: &'static str,
    attempts: u32,
    max_attempts: u32,
    last_error: &'a str,
}

impl<'a> DeadLetterParam<'a> {
    pub(super) fn new(dead: &'a NewDeadLetter) -> Self {
        Self {
            event_id: dead.event_id,
            reason: dead.reason.as_str(),
            attempts: dead.attempts,
            max_attempts: dead.max_attempts,
            last_error: &dead.last_error,
        }
    }
}

/// The JSON text of a statement's list.
pub(super) fn json<T: Serialize>(items: impl IntoIterator<Item = T>) -> Result<String, Error> {
    let items: Vec<T> = items.into_iter().collect();
    serde_json::to_string(&items).map_err(|error| Error::Encode(error.into()))
}

/// Names from a statement's JSON list.
pub(super) fn names(row: &SqliteRow, column: &str) -> Result<Vec<String>, Error> {
    serde_json::from_str(row.try_get(column)?)
        .map_err(|source| Error::ColumnDecode { index: column.to_owned(), source: Box::new(source) })
}

/// Whole microseconds, small enough that adding them to the clock never overflows.
pub(super) fn micros(length: Duration) -> i64 {
    const LONGEST: i64 = 1 << 62;
    i64::try_from(length.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

/// A number of bytes as SQLite's integer.
pub(super) fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A UUID as it lies in the tables.
pub(super) fn uuid(id: Uuid) -> String {
    id.hyphenated().to_string()
}

pub(super) fn published(row: &SqliteRow) -> Result<Published, Error> {
    let event_id: uuid::fmt::Hyphenated = row.try_get("event_id")?;
    Ok(Published { id: row.try_get("id")?, event_id: event_id.into_uuid() })
}

/// An event of `read.sql` or `lane.sql`. What does not decode becomes a defect of this event, so that one row from plain
/// SQL does not stop the rows around it.
pub(super) fn stored_event(row: &SqliteRow, without_payload: bool) -> Result<StoredEvent, Error> {
    let left_out: Option<i64> = row.try_get("left_out_bytes")?;
    let (mut envelope, readable) = envelope(row, left_out.is_none())?;
    if !readable && !names_a_lane(row)? {
        envelope.aggregate_id = None;
    }
    let schema_version = envelope.schema_version;
    let defect = if without_payload {
        Some(Defect::PayloadUnreadable)
    } else if !readable {
        Some(Defect::Undecodable)
    } else if schema_version == 0 {
        Some(Defect::SchemaVersion)
    } else {
        left_out.map(|bytes| Defect::PayloadTooLarge { bytes: bytes.unsigned_abs() })
    };
    Ok(StoredEvent {
        envelope: envelope.into(),
        delayed: row.try_get("delayed")?,
        due_in: duration(row.try_get("due_in")?),
        defect,
    })
}

/// The lane of an event's row, as a relay that reads the row finds it.
pub(super) fn row_lane(row: &SqliteRow, id: i64) -> Result<Lane, Error> {
    let mut columns = Columns::new(row);
    let Some(aggregate_id) = columns.text("aggregate_id")? else { return Ok(Lane::Single(id)) };
    let aggregate_type = columns.text("aggregate_type")?.unwrap_or_default();
    let tenant_id = columns.uuid("tenant_id")?;
    if columns.undecodable {
        return Ok(Lane::Single(id));
    }
    Ok(Lane::aggregate(tenant_id, &aggregate_type, &aggregate_id))
}

/// Whether the row says to which aggregate it belongs. One that does not waits alone: no key of a lane could find it.
fn names_a_lane(row: &SqliteRow) -> Result<bool, Error> {
    Ok(matches!(row_lane(row, 0)?, Lane::Aggregate(_)))
}

/// The event of a row, and whether every column holds what its type can. A payload that is missing is a mistake only where
/// it was `asked` for.
pub(super) fn envelope(row: &SqliteRow, asked: bool) -> Result<(Envelope, bool), Error> {
    let mut columns = Columns::new(row);
    let payload = columns.text("payload")?;
    columns.undecodable |= payload.is_none() && asked;
    let envelope = Envelope {
        id: row.try_get("id")?,
        event_id: columns.uuid("event_id")?.unwrap_or_default(),
        tenant_id: columns.uuid("tenant_id")?,
        event_type: columns.text("event_type")?.unwrap_or_default(),
        schema_version: u32::try_from(row.try_get::<i64, _>("schema_version")?).unwrap_or(0),
        aggregate_type: columns.text("aggregate_type")?.unwrap_or_default(),
        aggregate_id: columns.text("aggregate_id")?,
        audit_log_id: row.try_get("audit_log_id")?,
        correlation_id: columns.uuid("correlation_id")?,
        causation_id: columns.uuid("causation_id")?,
        actor: columns.text("actor")?,
        traceparent: columns.text("traceparent")?,
        tracestate: columns.text("tracestate")?,
        payload: payload.unwrap_or_default(),
        older_payloads: columns.text("older_payloads")?,
        occurred_at: Timestamp::from_micros(row.try_get("occurred_at")?),
        created_at: Timestamp::from_micros(row.try_get("created_at")?),
    };
    Ok((envelope, !columns.undecodable))
}

/// Reads texts as bytes, since SQLite does not check that they are UTF-8.
pub(super) struct Columns<'r> {
    row: &'r SqliteRow,
    undecodable: bool,
}

impl<'r> Columns<'r> {
    pub(super) fn new(row: &'r SqliteRow) -> Self {
        Self { row, undecodable: false }
    }

    pub(super) fn text(&mut self, column: &str) -> Result<Option<String>, Error> {
        let Some(bytes) = self.row.try_get::<Option<Vec<u8>>, _>(column)? else { return Ok(None) };
        Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| {
            self.undecodable = true;
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        })))
    }

    pub(super) fn uuid(&mut self, column: &str) -> Result<Option<Uuid>, Error> {
        let Some(text) = self.text(column)? else { return Ok(None) };
        let id = Uuid::parse_str(&text).ok();
        self.undecodable |= id.is_none();
        Ok(id)
    }
}

/// A length of time that a statement computed from the clock; what is over is zero.
pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A stored set of ids.
pub(super) fn progress(row: &SqliteRow, column: &str) -> Result<Progress, Error> {
    let text: String = row.try_get(column)?;
    Progress::from_json(&text)
        .map_err(|source| Error::ColumnDecode { index: column.to_owned(), source: Box::new(source) })
}
