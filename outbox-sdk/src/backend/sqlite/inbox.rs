//! The inbox.

use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Error, Sqlite, query};
use uuid::Uuid;

use super::explained;
use super::rows::{micros, uuid};
use crate::backend::Deduplicate;
use crate::envelope::Timestamp;
use crate::tables::Tables;

const INBOX_INSERT: &str = include_str!("inbox_insert.sql");
const INBOX_COMPACT: &str = include_str!("inbox_compact.sql");
const INBOX_FORGET: &str = include_str!("inbox_forget.sql");
const INBOX_FORGET_EVENT: &str = include_str!("inbox_forget_event.sql");
const INBOX_COPY: &str = include_str!("inbox_copy.sql");

impl Deduplicate for Sqlite {
    async fn inbox_insert(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<bool, Error> {
        let insert = query(INBOX_INSERT).bind(consumer).bind(uuid(event_id));
        Ok(rows(conn, insert).await? > 0)
    }

    async fn inbox_compact(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        age: Duration,
    ) -> Result<u64, Error> {
        let delete = query(INBOX_COMPACT).bind(consumer).bind(micros(age));
        rows(conn, delete).await
    }

    async fn inbox_forget(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        since: Option<Timestamp>,
    ) -> Result<u64, Error> {
        let delete = query(INBOX_FORGET).bind(consumer).bind(since.map(Timestamp::micros));
        rows(conn, delete).await
    }

    async fn inbox_forget_event(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<u64, Error> {
        let delete = query(INBOX_FORGET_EVENT).bind(consumer).bind(uuid(event_id));
        rows(conn, delete).await
    }

    async fn inbox_copy(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        from: &str,
    ) -> Result<u64, Error> {
        let copy = query(INBOX_COPY).bind(consumer).bind(from);
        rows(conn, copy).await
    }
}

/// How many rows a statement has written.
async fn rows(
    conn: &mut SqliteConnection,
    statement: Query<'_, Sqlite, SqliteArguments>,
) -> Result<u64, Error> {
    match statement.execute(&mut *conn).await {
        Ok(done) => Ok(done.rows_affected()),
        Err(error) => Err(explained(conn, error, "outbox_processed_event").await),
    }
}
