//! Reading events: rows of the read statements into stored events.

use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Row};

use super::count;
use super::statements::Statements;
use super::time::PgTimestamp;
use crate::backend::{Batch, Defect, Holders, LaneEntry, LanePage, LaneRead, Notices, Read, StoredEvent};
use crate::envelope::Envelope;
#[cfg(feature = "fault-injection")]
use crate::injection::planted;
use crate::lane::Lane;

/// Lists the transactions that may still commit an id which is not visible.
pub(super) async fn holders(conn: &mut PgConnection, statements: &Statements) -> Result<Holders, Error> {
    #[cfg(feature = "fault-injection")]
    if planted("one-snapshot") {
        super::planted::begin_snapshot(conn).await?;
        super::planted::pause(conn).await?;
    }
    let row = statements.holders.query().fetch_one(conn).await?;
    Ok(Holders {
        transactions: row.try_get("transactions")?,
        prepared: row.try_get("prepared")?,
        primary: row.try_get("on_primary")?,
    })
}

#[cfg(not(feature = "fault-injection"))]
pub(super) use one_batch as batch;

/// As [`one_batch`], unless a test asks for a wrong read.
#[cfg(feature = "fault-injection")]
pub(super) async fn batch(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &Read<'_>,
) -> Result<Batch, Error> {
    if planted("two-statement-read") {
        return super::planted::two_reads(conn, statements, read).await;
    }
    let batch = one_batch(conn, statements, read).await?;
    if planted("one-snapshot") {
        super::planted::end_snapshot(conn).await?;
    }
    Ok(batch)
}

/// Reads the open gaps and what is above the high-water mark.
pub(super) async fn one_batch(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &Read<'_>,
) -> Result<Batch, Error> {
    let (from, until): (Vec<i64>, Vec<i64>) = read.gaps.iter().copied().unzip();
    let rows = statements
        .read
        .query()
        .bind(i64::from(read.limit))
        .bind(bytes(read.max_bytes))
        .bind(bytes(read.max_payload_bytes))
        .bind(read.without_payloads)
        .bind(read.above)
        .bind(from)
        .bind(until)
        .bind(read.notices)
        .fetch_all(conn)
        .await?;
    // What the server says of itself stands in every row, and in one without an event when there is none.
    let server = rows.first().ok_or(Error::RowNotFound)?;
    let page = page(&rows, read.limit)?;
    Ok(Batch {
        events: page.events,
        full: page.full,
        anchor: server.try_get("anchor")?,
        primary: server.try_get("on_primary")?,
        last_id: server.try_get("last_id")?,
        sees_all_rows: server.try_get("sees_all_rows")?,
        notices: Notices {
            replays: server.try_get::<Option<_>, _>("replays")?.unwrap_or_default(),
            free_slots: server.try_get::<Option<_>, _>("free_slots")?.unwrap_or_default(),
            held: server.try_get::<Option<_>, _>("held")?.unwrap_or_default(),
            asked: read.notices,
        },
    })
}

/// Reads a page of a lane.
pub(super) async fn lane(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &LaneRead<'_>,
) -> Result<LanePage, Error> {
    let statement = match read.lane {
        Lane::Aggregate(_) => &statements.lane,
        Lane::Single(_) => &statements.lane_single,
    };
    let query = statement
        .query()
        .bind(i64::from(read.limit))
        .bind(bytes(read.max_bytes))
        .bind(bytes(read.max_payload_bytes))
        .bind(read.without_payloads)
        .bind(read.from)
        .bind(read.through);
    let query = match read.lane {
        Lane::Aggregate(key) => query.bind(key.tenant_id).bind(&key.aggregate_type).bind(&key.aggregate_id),
        Lane::Single(id) => query.bind(*id),
    };
    page(&query.fetch_all(conn).await?, read.limit)
}

/// Lists a lane without payloads.
pub(super) async fn lane_ids(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &LaneRead<'_>,
) -> Result<Vec<LaneEntry>, Error> {
    let Lane::Aggregate(key) = read.lane else {
        return Ok(Vec::new()); // Nothing comes after an event in a lane of its own.
    };
    let rows = statements
        .lane_ids
        .query()
        .bind(i64::from(read.limit))
        .bind(read.from)
        .bind(read.through)
        .bind(key.tenant_id)
        .bind(&key.aggregate_type)
        .bind(&key.aggregate_id)
        .fetch_all(conn)
        .await?;
    rows.iter()
        .map(|row| {
            let schema_version = count(row.try_get("schema_version")?);
            Ok(LaneEntry {
                id: row.try_get("id")?,
                event_type: row.try_get("event_type")?,
                schema_version,
                has_older: row.try_get("has_older")?,
            })
        })
        .collect()
}

fn page(rows: &[PgRow], limit: u32) -> Result<LanePage, Error> {
    let mut events = Vec::with_capacity(rows.len());
    let mut picked = 0;
    for row in rows {
        if let Some(id) = row.try_get("id")? {
            picked = row.try_get::<i64, _>("picked_rows")?;
            events.push(stored_event(row, id)?);
        }
    }
    let cut = i64::try_from(events.len()).is_ok_and(|returned| returned < picked);
    Ok(LanePage { events, full: cut || picked >= i64::from(limit) })
}

fn stored_event(row: &PgRow, id: i64) -> Result<StoredEvent, Error> {
    let created_at: PgTimestamp = row.try_get("created_at")?;
    let available_at: PgTimestamp = row.try_get("available_at")?;
    let schema_version: i32 = row.try_get("schema_version")?;
    let payload: Option<String> = row.try_get("payload")?;
    let defect = if payload.is_none() {
        // Its size is known unless it was not printed at all.
        let bytes: Option<i64> = row.try_get("payload_bytes")?;
        Some(bytes.map_or(Defect::PayloadUnreadable, |bytes| Defect::PayloadTooLarge {
            bytes: bytes.unsigned_abs(),
        }))
    } else if schema_version < 1 {
        Some(Defect::SchemaVersion)
    } else {
        None
    };
    let envelope = Envelope {
        id,
        event_id: row.try_get("event_id")?,
        tenant_id: row.try_get("tenant_id")?,
        event_type: row.try_get("event_type")?,
        schema_version: count(schema_version),
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        audit_log_id: row.try_get("audit_log_id")?,
        correlation_id: row.try_get("correlation_id")?,
        causation_id: row.try_get("causation_id")?,
        actor: row.try_get("actor")?,
        traceparent: row.try_get("traceparent")?,
        tracestate: row.try_get("tracestate")?,
        payload: payload.unwrap_or_default(),
        older_payloads: row.try_get("older_payloads")?,
        occurred_at: row.try_get::<PgTimestamp, _>("occurred_at")?.0,
        created_at: created_at.0,
    };
    Ok(StoredEvent {
        envelope: envelope.into(),
        delayed: available_at > created_at,
        due_in: available_at.after(row.try_get("read_at")?),
        defect,
    })
}

fn bytes(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
