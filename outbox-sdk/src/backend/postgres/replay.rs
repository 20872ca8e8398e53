//! Dead letters that go again: which are asked for, and what came of them.

use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Row};

use super::statements::Statements;
use super::{count, lane, signed};
use crate::backend::{DiscardedHead, ReplayPage, ReplayRead, ReplayRequest, ReplayResult};

/// Letters that are to go again.
pub(super) async fn requests(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &ReplayRead<'_>,
) -> Result<ReplayPage, Error> {
    let query = statements.replay_requests.query().bind(read.consumer).bind(read.after);
    let rows = query.bind(i64::from(read.looks_at())).fetch_all(conn).await?;
    let letter = |row: &PgRow| {
        let event_id = row.try_get("event_id")?;
        let row_lane = if row.try_get("has_row")? { Some(lane(row, event_id)?) } else { None };
        Ok((ReplayRequest { event_id, attempts: count(row.try_get("attempts")?) }, row_lane))
    };
    Ok(read.page(&rows.iter().map(letter).collect::<Result<Vec<_>, Error>>()?))
}

/// Blocked lanes that may go on.
pub(super) async fn discarded_heads(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
) -> Result<Vec<DiscardedHead>, Error> {
    let rows = statements.discarded_heads.query().bind(consumer).fetch_all(conn).await?;
    rows.iter()
        .map(|row| Ok(DiscardedHead { lane: row.try_get("lane")?, head_id: row.try_get("head_id")? }))
        .collect()
}

/// Writes what replays came to, in the transaction of a settlement.
pub(super) async fn write_results(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    results: &[ReplayResult],
) -> Result<(), Error> {
    let rows: Vec<_> = results.iter().map(ReplayResult::columns).collect();
    statements
        .replay_result
        .query()
        .bind(consumer)
        .bind(rows.iter().map(|row| row.event_id).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.state).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.counted.map(signed)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.reason).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.attempts.map(signed)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.max_attempts.map(signed)).collect::<Vec<_>>())
        .bind(rows.iter().map(|row| row.last_error).collect::<Vec<_>>())
        .execute(conn)
        .await
        .map(drop)
}
