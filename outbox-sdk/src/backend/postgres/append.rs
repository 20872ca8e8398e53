//! Writing events: values into the append statements.

use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Row};

use super::query::Query;
use super::statements::Statements;
use super::time::{PgTimestamp, micros};
use crate::backend::WriteOrder;
use crate::envelope::{NewEnvelope, Once, Published};
use crate::injection::planted;

/// Writes one event.
pub(super) async fn one(
    conn: &mut PgConnection,
    statements: &Statements,
    event: &NewEnvelope,
    order: WriteOrder,
) -> Result<Published, Error> {
    let statement = match order {
        WriteOrder::Aggregate if event.aggregate_id.is_some() && !planted("no-aggregate-lock") => {
            &statements.append
        }
        WriteOrder::Aggregate | WriteOrder::Unordered => &statements.append_unordered,
    };
    let row = bind_one(statement.query(), event)?.fetch_one(conn).await?;
    published(&row)
}

/// Writes one event, unless the key was used before.
pub(super) async fn once(
    conn: &mut PgConnection,
    statements: &Statements,
    event: &NewEnvelope,
    order: WriteOrder,
    key: &str,
) -> Result<Once, Error> {
    let insert =
        bind_one(statements.append_once.query(), event)?.bind(key).bind(order == WriteOrder::Aggregate);
    if let Some(row) = insert.fetch_optional(&mut *conn).await? {
        return published(&row).map(Once::Published);
    }
    let row = statements.idempotency_event.query().in_callers_transaction().bind(key).fetch_one(conn).await?;
    Ok(Once::Repeated { event_id: row.try_get("event_id")? })
}

fn bind_one(query: Query, event: &NewEnvelope) -> Result<Query, Error> {
    Ok(query
        .in_callers_transaction()
        .bind(event.event_id)
        .bind(event.tenant_id)
        .bind(&event.event_type)
        .bind(schema_version(event)?)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(event.audit_log_id)
        .bind(event.correlation_id)
        .bind(event.causation_id)
        .bind(&event.actor)
        .bind(&event.traceparent)
        .bind(&event.tracestate)
        .bind(&event.payload)
        .bind(&event.older_payloads)
        .bind(delay(event))
        .bind(event.occurred_at.map(PgTimestamp)))
}

/// Writes all events with one statement.
pub(super) async fn all(
    conn: &mut PgConnection,
    statements: &Statements,
    events: &[NewEnvelope],
    order: WriteOrder,
) -> Result<Vec<Published>, Error> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let statement = match order {
        WriteOrder::Aggregate => &statements.append_all,
        WriteOrder::Unordered => &statements.append_all_unordered,
    };
    let rows = bind_all(statement.query().in_callers_transaction(), events)?.fetch_all(conn).await?;
    let mut answers = rows.iter().map(published).collect::<Result<Vec<_>, _>>()?;
    // Ids rise in the order of the events, whatever the order of the answer.
    answers.sort_unstable_by_key(|answer| answer.id);
    if answers.iter().map(|answer| answer.event_id).ne(events.iter().map(|event| event.event_id)) {
        return Err(Error::Protocol(
            "the event table answered a bulk insert with other rows than were sent; remove the trigger or rule on it"
                .to_owned(),
        ));
    }
    Ok(answers)
}

/// One array per column, in the order of the statement's parameters.
fn bind_all(query: Query, events: &[NewEnvelope]) -> Result<Query, Error> {
    fn column<'e, T>(events: &'e [NewEnvelope], value: impl Fn(&'e NewEnvelope) -> T) -> Vec<T> {
        events.iter().map(value).collect()
    }
    let versions = events.iter().map(schema_version).collect::<Result<Vec<_>, _>>()?;
    Ok(query
        .bind(column(events, |event| event.event_id))
        .bind(column(events, |event| event.tenant_id))
        .bind(column(events, |event| event.event_type.as_str()))
        .bind(versions)
        .bind(column(events, |event| event.aggregate_type.as_str()))
        .bind(column(events, |event| event.aggregate_id.as_deref()))
        .bind(column(events, |event| event.audit_log_id))
        .bind(column(events, |event| event.correlation_id))
        .bind(column(events, |event| event.causation_id))
        .bind(column(events, |event| event.actor.as_deref()))
        .bind(column(events, |event| event.traceparent.as_deref()))
        .bind(column(events, |event| event.tracestate.as_deref()))
        .bind(column(events, |event| event.payload.as_str()))
        .bind(column(events, |event| event.older_payloads.as_deref()))
        .bind(column(events, delay))
        .bind(column(events, |event| event.occurred_at.map(PgTimestamp))))
}

fn schema_version(event: &NewEnvelope) -> Result<i32, Error> {
    i32::try_from(event.schema_version).map_err(|error| Error::Encode(error.into()))
}

fn delay(event: &NewEnvelope) -> i64 {
    event.delay.map_or(0, micros)
}

fn published(row: &PgRow) -> Result<Published, Error> {
    Ok(Published { id: row.try_get("id")?, event_id: row.try_get("event_id")? })
}
