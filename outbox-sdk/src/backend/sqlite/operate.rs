//! What operators ask and decide.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Error, Row as _, Sqlite, query};

use super::rows::progress;
use crate::backend::{ConsumerRow, DeadLetter, Operate};
use crate::tables::Tables;

const CONSUMERS: &str = include_str!("consumers.sql");
const DEAD_LETTERS: &str = include_str!("dead_letters.sql");

impl Operate for Sqlite {
    async fn consumers(conn: &mut SqliteConnection, _: &Tables) -> Result<Vec<ConsumerRow>, Error> {
        let rows = query(CONSUMERS).fetch_all(conn).await?;
        let consumer = |row: &SqliteRow| {
            Ok(ConsumerRow {
                name: row.try_get("name")?,
                slot: row.try_get("slot")?,
                owner: row.try_get("owner")?,
                settled: progress(row, "settled")?,
                stalled_lanes: row.try_get::<i64, _>("stalled_lanes")?.unsigned_abs(),
                dead_letters: row.try_get::<i64, _>("dead_letters")?.unsigned_abs(),
            })
        };
        rows.iter().map(consumer).collect()
    }

    async fn dead_letters(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, Error> {
        let rows = query(DEAD_LETTERS).bind(consumer).bind(limit).fetch_all(conn).await?;
        let dead_letter = |row: &SqliteRow| {
            Ok(DeadLetter {
                consumer: row.try_get("consumer")?,
                event_id: row.try_get("event_id")?,
                reason: row.try_get("reason")?,
                attempts: row.try_get("attempts")?,
                last_error: row.try_get("last_error")?,
                state: row.try_get("state")?,
            })
        };
        rows.iter().map(dead_letter).collect()
    }
}
