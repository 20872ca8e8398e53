//! The inbox.

use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Error, Row as _, Sqlite, query};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::explained;
use super::rows::{micros, uuid};
use crate::backend::{Backend as _, Deduplicate};
use crate::envelope::Timestamp;
use crate::tables::Tables;

const TABLE: &str = "outbox_processed_event";

const INBOX_INSERT: &str = include_str!("inbox_insert.sql");
const INBOX_NEW: &str = include_str!("inbox_new.sql");
const INBOX_HOLDS: &str = include_str!("inbox_holds.sql");
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
        _: Option<Uuid>,
    ) -> Result<bool, Error> {
        let insert = query(INBOX_INSERT).bind(consumer).bind(uuid(event_id));
        Ok(rows(conn, insert).await? > 0)
    }

    async fn inbox_begin_batch(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        event_ids: &[Uuid],
        _: Option<Uuid>,
    ) -> Result<Vec<Uuid>, Error> {
        let ids = serde_json::Value::from_iter(event_ids.iter().copied().map(uuid)).to_string();
        let look = query(INBOX_NEW).bind(consumer).bind(ids);
        let new = match look.fetch_all(&mut *conn).await {
            Ok(new) => new,
            Err(error) => return Err(explained(conn, error, TABLE).await),
        };
        new.iter().map(|row| Ok(row.try_get::<Hyphenated, _>("event_id")?.into_uuid())).collect()
    }

    async fn inbox_turn(conn: &mut SqliteConnection, consumer: &str, event_id: Uuid) -> Result<(), Error> {
        let insert = query(INBOX_INSERT).bind(consumer).bind(uuid(event_id));
        rows(conn, insert).await.map(|_| ())
    }

    async fn inbox_end_batch(_: &mut SqliteConnection, _: &Tables) -> Result<(), Error> {
        Ok(())
    }

    async fn inbox_tenant(_: &mut SqliteConnection, _: &Tables, _: Option<Uuid>) -> Result<(), Error> {
        Ok(())
    }

    async fn inbox_holds(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<bool, Error> {
        Self::ensure_usable(conn).await?;
        let look = query(INBOX_HOLDS).bind(consumer).bind(uuid(event_id));
        Ok(look.fetch_optional(conn).await?.is_some())
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
        Err(error) => Err(explained(conn, error, TABLE).await),
    }
}
