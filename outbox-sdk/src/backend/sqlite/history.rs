//! The attempt history.

use serde::Serialize;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection as _, Error, Row as _, Sqlite, query};

use super::BEGIN;
use super::rows::{duration, json, micros};
use crate::backend::{AttemptRow, History, NewAttempt};
use crate::envelope::Timestamp;
use crate::tables::Tables;

const ATTEMPTS_NOTE: &str = include_str!("attempts_note.sql");
const ATTEMPTS_FORGET: &str = include_str!("attempts_forget.sql");
const ATTEMPTS_OF: &str = include_str!("attempts_of.sql");

/// An attempt as `attempts_note.sql` takes it.
#[derive(Serialize)]
struct AttemptParam<'a> {
    event_id: i64,
    consumer: &'a str,
    attempt: u32,
    replay: bool,
    outcome: &'static str,
    status: Option<u16>,
    error: Option<&'a str>,
    ended_us_ago: i64,
    duration_us: i64,
}

impl<'a> AttemptParam<'a> {
    fn new(attempt: &'a NewAttempt) -> Self {
        Self {
            event_id: attempt.event_id,
            consumer: &attempt.consumer,
            attempt: attempt.attempt,
            replay: attempt.replay,
            outcome: attempt.outcome.as_str(),
            status: attempt.status,
            error: attempt.error.as_deref(),
            ended_us_ago: micros(attempt.ended_ago),
            duration_us: micros(attempt.duration),
        }
    }
}

impl History for Sqlite {
    async fn note_attempts(
        conn: &mut SqliteConnection,
        _: &Tables,
        attempts: &[NewAttempt],
        keep: u32,
    ) -> Result<(), Error> {
        let given = json(attempts.iter().map(AttemptParam::new))?;
        let mut tx = conn.begin_with(BEGIN).await?;
        query(ATTEMPTS_NOTE).bind(&given).execute(&mut *tx).await?;
        query(ATTEMPTS_FORGET).bind(&given).bind(keep).execute(&mut *tx).await?;
        tx.commit().await
    }

    async fn attempts(
        conn: &mut SqliteConnection,
        _: &Tables,
        event_id: i64,
    ) -> Result<Vec<AttemptRow>, Error> {
        query(ATTEMPTS_OF).bind(event_id).fetch_all(conn).await?.iter().map(attempt).collect()
    }
}

fn attempt(row: &SqliteRow) -> Result<AttemptRow, Error> {
    Ok(AttemptRow {
        consumer: row.try_get("consumer")?,
        attempt: row.try_get("attempt")?,
        replay: row.try_get("replay")?,
        outcome: row.try_get("outcome")?,
        status: row.try_get("status")?,
        error: row.try_get("error")?,
        ended_at: Timestamp::from_micros(row.try_get("ended_at")?),
        duration: duration(row.try_get("duration_us")?),
    })
}
