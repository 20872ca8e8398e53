//! The attempt history.

use std::time::Duration;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Error, Postgres, Row as _};

use super::time::{PgTimestamp, micros};
use crate::backend::{AttemptRow, History, NewAttempt};
use crate::tables::Tables;

impl History for Postgres {
    async fn note_attempts(
        conn: &mut PgConnection,
        tables: &Tables,
        attempts: &[NewAttempt],
        keep: u32,
    ) -> Result<(), Error> {
        fn column<'a, T>(attempts: &'a [NewAttempt], of: impl Fn(&'a NewAttempt) -> T) -> Vec<T> {
            attempts.iter().map(of).collect()
        }
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let note = tables
            .postgres()
            .attempts_note
            .query()
            .bind(column(attempts, |attempt| attempt.event_id))
            .bind(column(attempts, |attempt| attempt.consumer.as_str()))
            .bind(column(attempts, |attempt| number(attempt.attempt)))
            .bind(column(attempts, |attempt| attempt.replay))
            .bind(column(attempts, |attempt| attempt.outcome.as_str()))
            .bind(column(attempts, |attempt| attempt.status.map(i32::from)))
            .bind(column(attempts, |attempt| attempt.error.as_deref()))
            .bind(column(attempts, |attempt| micros(attempt.ended_ago)))
            .bind(column(attempts, |attempt| micros(attempt.duration)))
            .bind(i64::from(keep));
        note.execute(conn).await.map(drop)
    }

    async fn attempts(
        conn: &mut PgConnection,
        tables: &Tables,
        event_id: i64,
    ) -> Result<Vec<AttemptRow>, Error> {
        let rows = tables.postgres().attempts_of.query().bind(event_id).fetch_all(conn).await?;
        rows.iter().map(attempt).collect()
    }
}

fn attempt(row: &PgRow) -> Result<AttemptRow, Error> {
    let status: Option<i32> = row.try_get("status")?;
    let PgTimestamp(ended_at) = row.try_get("ended_at")?;
    Ok(AttemptRow {
        consumer: row.try_get("consumer")?,
        attempt: row.try_get::<i32, _>("attempt")?.unsigned_abs(),
        replay: row.try_get("replay")?,
        outcome: row.try_get("outcome")?,
        status: status.and_then(|status| u16::try_from(status).ok()),
        error: row.try_get("error")?,
        ended_at,
        duration: Duration::from_micros(row.try_get::<i64, _>("duration_us")?.unsigned_abs()),
    })
}
