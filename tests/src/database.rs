use outbox_sdk::{Backend, Migratable};
use sqlx::{AssertSqlSafe, Pool, Postgres, Sqlite, raw_sql};

use crate::{PgTestDb, SqliteTestDb};

/// A database of its own for one test, empty at first.
pub trait TestDb: Sized {
    /// The driver's name of it.
    type Db: Backend + Migratable;

    /// Creates it.
    fn create() -> impl Future<Output = Self> + Send;

    /// Connects as a service would.
    fn connect(&self) -> impl Future<Output = Pool<Self::Db>> + Send;

    /// The URL for a configuration or another process.
    fn address(&self) -> &str;

    /// A table's name in plain SQL.
    fn table(name: &str) -> String;

    /// Runs plain SQL, on a connection that may be in a transaction.
    fn execute(
        conn: &mut <Self::Db as sqlx::Database>::Connection,
        sql: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// What a statement that counts answers.
    fn count(
        conn: &mut <Self::Db as sqlx::Database>::Connection,
        sql: &str,
    ) -> impl Future<Output = i64> + Send;

    /// What a statement that selects one text answers, row by row.
    fn texts(
        conn: &mut <Self::Db as sqlx::Database>::Connection,
        sql: &str,
    ) -> impl Future<Output = Vec<String>> + Send;

    /// Every row of a table with all its columns, to compare.
    fn rows_as_text(
        conn: &mut <Self::Db as sqlx::Database>::Connection,
        table: &str,
    ) -> impl Future<Output = Vec<String>> + Send;

    /// Has the database give up the transaction that is open on the connection.
    fn doom(conn: &mut <Self::Db as sqlx::Database>::Connection) -> impl Future<Output = ()> + Send;

    /// Whether two writers can be in a transaction at once.
    const CONCURRENT_WRITERS: bool;

    /// How the database prints a payload that was given as `{"a": 1.10, "b": 1e2}`.
    const NUMBERS: &str;

    /// A literal of some bytes.
    const BYTES: &str;

    /// An hour, to be added to a time.
    const HOUR: &str;

    /// Deletes every event, and has the ids begin at 1 again.
    const START_IDS_AGAIN: &str;

    /// In a select on the events: another text after each write of the row. (On SQLite what the write would change.)
    const ROW_VERSION: &str;

    /// The database's clock.
    const NOW: &str;
}

impl TestDb for SqliteTestDb {
    type Db = Sqlite;

    async fn create() -> Self {
        Self::new()
    }

    async fn connect(&self) -> Pool<Sqlite> {
        self.pool().await
    }

    fn address(&self) -> &str {
        self.url()
    }

    fn table(name: &str) -> String {
        format!("outbox_{name}")
    }

    async fn execute(conn: &mut sqlx::SqliteConnection, sql: &str) -> sqlx::Result<()> {
        raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.map(|_| ())
    }

    async fn count(conn: &mut sqlx::SqliteConnection, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(conn).await.unwrap()
    }

    async fn texts(conn: &mut sqlx::SqliteConnection, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(conn).await.unwrap()
    }

    async fn rows_as_text(conn: &mut sqlx::SqliteConnection, table: &str) -> Vec<String> {
        let columns = Self::texts(conn, &format!("SELECT name FROM pragma_table_info('{table}')")).await;
        Self::texts(conn, &format!("SELECT json_array({}) FROM {table} ORDER BY 1", columns.join(", "))).await
    }

    /// As after a full disk: SQLite ends the transaction, and nobody tells sqlx.
    async fn doom(conn: &mut sqlx::SqliteConnection) {
        Self::execute(conn, "ROLLBACK").await.unwrap();
    }

    const CONCURRENT_WRITERS: bool = false;
    const NUMBERS: &str = r#"{"a": 1.10, "b": 1e2}"#;
    const BYTES: &str = "x'0123'";
    const HOUR: &str = "3600000000";
    const START_IDS_AGAIN: &str =
        "DELETE FROM outbox_event; DELETE FROM sqlite_sequence WHERE name = 'outbox_event'";
    const ROW_VERSION: &str = "status || ifnull(dispatched_at, '') || ifnull(last_error, '') || attempts";
    const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
}

impl TestDb for PgTestDb {
    type Db = Postgres;

    async fn create() -> Self {
        Self::new().await
    }

    async fn connect(&self) -> Pool<Postgres> {
        self.pool().await
    }

    fn address(&self) -> &str {
        self.url()
    }

    fn table(name: &str) -> String {
        format!("outbox.{name}")
    }

    async fn execute(conn: &mut sqlx::PgConnection, sql: &str) -> sqlx::Result<()> {
        raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.map(|_| ())
    }

    async fn count(conn: &mut sqlx::PgConnection, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(conn).await.unwrap()
    }

    async fn texts(conn: &mut sqlx::PgConnection, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(conn).await.unwrap()
    }

    async fn rows_as_text(conn: &mut sqlx::PgConnection, table: &str) -> Vec<String> {
        Self::texts(conn, &format!("SELECT it::text FROM {table} AS it ORDER BY 1")).await
    }

    async fn doom(conn: &mut sqlx::PgConnection) {
        Self::execute(conn, "SELECT 1 / 0").await.unwrap_err();
    }

    const CONCURRENT_WRITERS: bool = true;
    const NUMBERS: &str = r#"{"a": 1.10, "b": 100}"#;
    const BYTES: &str = r"'\x0123'";
    const HOUR: &str = "interval '1 hour'";
    const START_IDS_AGAIN: &str = "TRUNCATE outbox.event RESTART IDENTITY";
    const ROW_VERSION: &str = "ctid::text";
    const NOW: &str = "clock_timestamp()";
}

/// Makes a test for each database of every case.
#[macro_export]
macro_rules! on_every_database {
    ($($case:ident)+) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                Box::pin(super::$case::<$crate::SqliteTestDb>()).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $case() {
                Box::pin(super::$case::<$crate::PgTestDb>()).await;
            })+
        }
    };
}
