//! What only PostgreSQL has: locks, snapshots, row places, schemas. What every database must do is tested elsewhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "everything here is a test or a helper of one"
)]

mod append;
mod letters;
mod names;
mod progress;
mod read;
mod session;

use std::str::FromStr;
use std::time::{Duration, Instant};

use outbox_sdk::{Migrator, NewEnvelope, Tables};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, PgPool, Row};
use uuid::Uuid;

const SERVER: &str = "OUTBOX_TEST_DATABASE_URL";
const NO_SERVER: &str = "no PostgreSQL for tests: run ./scripts/test, or set OUTBOX_TEST_DATABASE_URL";

/// Whether a session of this database waits for an advisory lock.
const WAITS: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

/// A database of its own, with the tables in it; dropped with this value.
struct Db {
    server: PgConnectOptions,
    name: String,
    tables: Tables,
}

impl Db {
    async fn new() -> Self {
        let server = std::env::var(SERVER).unwrap_or_else(|_| panic!("{NO_SERVER}"));
        let server = PgConnectOptions::from_str(&server).unwrap();
        let name = format!("outbox_sdk_{}", Uuid::new_v4().simple());
        let db = Self { server, name, tables: Tables::default() };
        let mut admin = PgConnection::connect_with(&db.server).await.unwrap();
        run(&mut admin, &format!("CREATE DATABASE {}", db.name)).await;
        db.migrate().await;
        db
    }

    async fn migrate(&self) {
        let pool = PgPool::connect_with(self.options()).await.unwrap();
        for migrator in [Migrator::outbox(), Migrator::inbox()] {
            migrator.tables(&self.tables).run(&pool).await.unwrap();
        }
        pool.close().await;
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.options()).await.unwrap()
    }

    fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// The schema's name, quoted.
    fn schema(&self) -> String {
        format!("\"{}\"", self.tables.schema().replace('"', "\"\""))
    }

    /// The one value that a statement answers; `{s}` in it is the schema.
    async fn value<T>(&self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let mut conn = self.connect().await;
        let sql = sql.replace("{s}", &self.schema());
        sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap().get(0)
    }

    /// Runs statements; `{s}` in them is the schema.
    async fn run(&self, sql: &str) {
        run(&mut self.connect().await, &sql.replace("{s}", &self.schema())).await;
    }

    /// Asks until the statement answers true: another session is on its way to that state.
    async fn until(&self, sql: &str) {
        let mut conn = self.connect().await;
        let sql = sql.replace("{s}", &self.schema());
        let begun = Instant::now();
        while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(sql.clone())).fetch_one(&mut conn).await.unwrap() {
            assert!(begun.elapsed() < Duration::from_secs(20), "never true: {sql}");
        }
    }

    async fn last_id(&self) -> i64 {
        self.value("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {s}.event_id_seq").await
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let (server, sql) = (self.server.clone(), format!("DROP DATABASE {} WITH (FORCE)", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut admin = PgConnection::connect_with(&server).await.unwrap();
                run(&mut admin, &sql).await;
            });
        });
        if dropped.join().is_err() {
            eprintln!("the database {} of a test was left behind", self.name);
        }
    }
}

async fn run(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(conn).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

fn event(aggregate_id: &str) -> NewEnvelope {
    let mut event = NewEnvelope::new("customer.updated", 1, "customer", r#"{"n": 1.10}"#.to_owned());
    event.aggregate_id = Some(aggregate_id.to_owned());
    event
}
