//! What operators ask and decide.

use sqlx::{Error, PgConnection, Postgres, Row};

use super::{count, progress};
use crate::backend::{ConsumerRow, DeadLetter, Operate};
use crate::tables::Tables;

impl Operate for Postgres {
    async fn consumers(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<ConsumerRow>, Error> {
        let rows = tables.postgres().consumers.query().fetch_all(conn).await?;
        rows.iter()
            .map(|row| {
                Ok(ConsumerRow {
                    name: row.try_get("name")?,
                    slot: row.try_get("slot")?,
                    owner: row.try_get("owner")?,
                    settled: progress(row, "settled")?,
                    stalled_lanes: row.try_get::<i64, _>("stalled_lanes")?.unsigned_abs(),
                    dead_letters: row.try_get::<i64, _>("dead_letters")?.unsigned_abs(),
                })
            })
            .collect()
    }

    async fn dead_letters(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, Error> {
        let query = tables.postgres().dead_letters.query().bind(consumer).bind(i64::from(limit));
        let rows = query.fetch_all(conn).await?;
        rows.iter()
            .map(|row| {
                Ok(DeadLetter {
                    consumer: row.try_get("consumer")?,
                    event_id: row.try_get("event_id")?,
                    reason: row.try_get("reason")?,
                    attempts: count(row.try_get("attempts")?),
                    last_error: row.try_get("last_error")?,
                    state: row.try_get("state")?,
                })
            })
            .collect()
    }
}
