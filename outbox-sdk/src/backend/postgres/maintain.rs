//! Recorder and retention.

use std::time::Duration;

use sqlx::{Connection, Error, PgConnection, Postgres, Row, Transaction};

use super::count;
use super::query::Query;
use super::statements::{Statement, Statements};
use super::time::{PgTimestamp, micros};
use crate::backend::{
    Compactable, Compacted, Compaction, Duties, Duty, DutyState, Maintain, Overdue, Recorded, Recording,
};
use crate::injection::crash_point;
use crate::tables::Tables;

impl Maintain for Postgres {
    async fn record(
        conn: &mut PgConnection,
        tables: &Tables,
        recording: &Recording,
    ) -> Result<Option<Recorded>, Error> {
        let statements = tables.postgres();
        let Some(mut tx) = begin(conn, statements, Duty::Recorder, recording.if_due).await? else {
            return Ok(None);
        };
        let record = statements.record.planned().bind(i64::from(recording.limit)).bind(recording.wrap);
        let row = record.fetch_one(&mut *tx).await?;
        let recorded = Recorded {
            dispatched: row.try_get::<i64, _>("dispatched")?.unsigned_abs(),
            failed: row.try_get::<i64, _>("failed")?.unsigned_abs(),
            skipped: row.try_get::<i64, _>("skipped")?.unsigned_abs(),
            held: row.try_get::<i64, _>("held")?.unsigned_abs(),
            complete: row.try_get("complete")?,
        };
        crash_point("in_record");
        tx.commit().await?;
        crash_point("recorded");
        Ok(Some(recorded))
    }

    async fn overdue(conn: &mut PgConnection, tables: &Tables, after: Duration) -> Result<Overdue, Error> {
        let row = tables.postgres().overdue.planned().bind(micros(after)).fetch_one(conn).await?;
        Ok(Overdue {
            events: row.try_get::<i64, _>("events")?.unsigned_abs(),
            first_id: row.try_get("first_id")?,
        })
    }

    async fn compact(
        conn: &mut PgConnection,
        tables: &Tables,
        compaction: &Compaction<'_>,
    ) -> Result<Option<Compacted>, Error> {
        let statements = tables.postgres();
        let Some(mut tx) = begin(conn, statements, Duty::Retention, false).await? else { return Ok(None) };
        let compact = bind(&statements.compact, compaction).bind(micros(compaction.hold));
        let row = compact.fetch_one(&mut *tx).await?;
        let compacted = Compacted {
            deleted: row.try_get::<i64, _>("deleted")?.unsigned_abs(),
            scanned: row.try_get::<i64, _>("scanned")?.unsigned_abs(),
            position: row.try_get("position")?,
            done: row.try_get("done")?,
        };
        crash_point("in_compact");
        tx.commit().await?;
        Ok(Some(compacted))
    }

    async fn compactable(
        conn: &mut PgConnection,
        tables: &Tables,
        compaction: &Compaction<'_>,
    ) -> Result<Compactable, Error> {
        let rows = bind(&tables.postgres().compactable, compaction).fetch_all(conn).await?;
        let first = rows.first().ok_or(Error::RowNotFound)?;
        let position = first.try_get("position")?;
        let mut compactable = Compactable {
            by_type: Vec::new(),
            scanned: first.try_get::<i64, _>("scanned")?.unsigned_abs(),
            position,
            done: position == 0,
        };
        for row in &rows {
            if let Some(event_type) = row.try_get("event_type")? {
                let events: i64 = row.try_get("events")?;
                compactable.by_type.push((event_type, events.unsigned_abs()));
            }
        }
        Ok(compactable)
    }

    async fn duties(conn: &mut PgConnection, tables: &Tables) -> Result<Duties, Error> {
        let rows = tables.postgres().duties.planned().fetch_all(conn).await?;
        let mut duties = Duties::default();
        for row in &rows {
            let now: PgTimestamp = row.try_get("read_at")?;
            let succeeded_at: Option<PgTimestamp> = row.try_get("succeeded_at")?;
            let state = DutyState {
                due_in: row.try_get::<PgTimestamp, _>("due_at")?.after(now),
                succeeded_ago: succeeded_at.map(|at| now.after(at)),
                failures: count(row.try_get("failures")?),
                last_error: row.try_get("last_error")?,
            };
            match row.try_get("name")? {
                "recorder" => {
                    duties.recorder = state;
                    duties.unrecorded = row.try_get("unrecorded")?;
                }
                "retention" => duties.retention = state,
                _ => {}
            }
        }
        Ok(duties)
    }

    async fn take_duty(
        conn: &mut PgConnection,
        tables: &Tables,
        duty: Duty,
        hold: Duration,
        if_due: bool,
    ) -> Result<Option<i64>, Error> {
        let take = tables.postgres().duty_take.query().bind(duty.as_str()).bind(micros(hold)).bind(if_due);
        take.fetch_optional(conn).await?.map(|row| row.try_get(0)).transpose()
    }

    async fn registered(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<String>, Error> {
        let rows = tables.postgres().registered.query().fetch_all(conn).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }

    async fn end_duty(
        conn: &mut PgConnection,
        tables: &Tables,
        duty: Duty,
        due_in: Duration,
        error: Option<&str>,
    ) -> Result<u32, Error> {
        let end = tables.postgres().duty_end.query().bind(duty.as_str()).bind(micros(due_in)).bind(error);
        Ok(count(end.fetch_one(conn).await?.try_get(0)?))
    }
}

/// Begins a batch: the admin lock, then the duty's row, then whatever is decided sees everything that was committed
/// before. `None` when the row is held, or the duty not due.
async fn begin<'c>(
    conn: &'c mut PgConnection,
    statements: &Statements,
    duty: Duty,
    if_due: bool,
) -> Result<Option<Transaction<'c, Postgres>>, Error> {
    let mut tx = conn.begin_with(statements.begin_batch()).await?;
    statements.admin_lock_shared.query().bind(statements.schema()).execute(&mut *tx).await?;
    let lock = statements.duty_lock.query().bind(duty.as_str()).bind(if_due);
    if lock.fetch_optional(&mut *tx).await?.is_some() {
        return Ok(Some(tx));
    }
    tx.rollback().await?;
    Ok(None)
}

fn bind(statement: &Statement, compaction: &Compaction<'_>) -> Query {
    let keep = compaction.keep;
    let shortest = keep.iter().map(|keep| micros(keep.length)).min();
    statement
        .planned()
        .bind(compaction.position)
        .bind(i64::from(compaction.limit))
        .bind(compaction.required)
        .bind(keep.iter().map(|keep| keep.stem.as_str()).collect::<Vec<_>>())
        .bind(keep.iter().map(|keep| keep.exact).collect::<Vec<_>>())
        .bind(keep.iter().map(|keep| micros(keep.length)).collect::<Vec<_>>())
        .bind(compaction.recorder)
        .bind(shortest.unwrap_or_else(|| micros(Duration::MAX)))
}
