//! Publishing: a business change and its event commit together, or neither of them exists.
//!
//! ```text
//! cargo run --example publish                                              a SQLite file in a temporary folder
//! DATABASE_URL=postgres://USER@HOST/DATABASE cargo run --example publish   a PostgreSQL database
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use outbox_examples::OrderPlaced;
use outbox_sdk::{Context, Migratable, Migrator, Outbox};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Encode, Executor, FromRow, IntoArguments, PgPool, Pool, SqlitePool, Type};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

/// What is in the outbox. The tables lie in a schema on PostgreSQL, and have a prefix on SQLite.
const POSTGRES: &str = "SELECT id, event_type, payload::text FROM outbox.event ORDER BY id DESC LIMIT 5";
const SQLITE: &str = "SELECT id, event_type, payload FROM outbox_event ORDER BY id DESC LIMIT 5";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::var("DATABASE_URL") {
        Ok(url) => run(PgPool::connect(&url).await?, POSTGRES).await,
        Err(_) => {
            let folder = tempfile::tempdir()?;
            let file = SqliteConnectOptions::new().filename(folder.path().join("shop.db"));
            let file = file.create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
            run(SqlitePool::connect_with(file).await?, SQLITE).await
        }
    }
}

// A service knows its database and needs none of these bounds: they are here because the example runs on both.
async fn run<DB: Migratable>(pool: Pool<DB>, newest: &'static str) -> Result<(), Failure>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    for<'q> &'q str: Encode<'q, DB> + Type<DB>,
    for<'q> String: Encode<'q, DB> + Type<DB>,
    for<'r> (i64, String, String): FromRow<'r, DB::Row>,
{
    Migrator::outbox().run(&pool).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id TEXT, customer TEXT)").execute(&pool).await?;

    // One outbox per service. What belongs to an operation is said once and written with each of its events.
    let outbox = Outbox::new().with_context(Context::new().correlation_id(Uuid::now_v7()));

    for (customer, in_stock) in [("Ada", true), ("Grace", false)] {
        let order_id = Uuid::now_v7();
        let mut tx = outbox.begin(&pool).await?;
        let insert = sqlx::query("INSERT INTO orders (id, customer) VALUES ($1, $2)");
        insert.bind(order_id.to_string()).bind(customer).execute(&mut *tx).await?;
        let event = OrderPlaced { order_id, customer: customer.to_owned(), total_cents: 4200 };
        outbox.publish(&mut tx, &event).await?;
        if in_stock {
            outbox.commit(tx).await?;
            println!("committed: order {order_id} of {customer}, and its event");
        } else {
            tx.rollback().await?;
            println!("rolled back: order {order_id} of {customer}, and its event");
        }
    }

    println!("the newest events in the outbox:");
    let events: Vec<(i64, String, String)> = sqlx::query_as(newest).fetch_all(&pool).await?;
    for (id, event_type, payload) in events {
        println!("  {id} {event_type} {payload}");
    }
    Ok(())
}
