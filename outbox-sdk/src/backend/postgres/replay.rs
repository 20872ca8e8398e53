//! Dead letters that go again: which are asked for, and what came of them.

use sqlx::{Error, PgConnection, Row};

use super::statements::Statements;
use super::{count, signed};
use crate::backend::{DiscardedHead, ReplayRequest, ReplayResult};

/// Letters that are to go again.
pub(super) async fn requests(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    after: i64,
    limit: u32,
) -> Result<Vec<ReplayRequest>, Error> {
    let query = statements.replay_requests.query().bind(consumer).bind(after).bind(i64::from(limit));
    let rows = query.fetch_all(conn).await?;
    rows.iter()
        .map(|row| {
            let attempts = count(row.try_get("attempts")?);
            Ok(ReplayRequest { event_id: row.try_get("event_id")?, attempts })
        })
        .collect()
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
