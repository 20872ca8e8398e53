//! Publish, relay and handle in one process: no server, no network, one SQLite file.
//!
//! ```text
//! cargo run --example relay_in_process
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use outbox_examples::OrderPlaced;
use outbox_relay::sink::handler::HandlerSink;
use outbox_relay::{ConsumerSpec, Relay, Schemas};
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator, Outbox, Received};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{Sqlite, SqlitePool, Transaction};
use uuid::Uuid;

const REGISTRY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../schemas");

/// Sums up what each customer has ordered.
struct Revenue;

impl Handler<Sqlite> for Revenue {
    // What is done through `tx` commits together with the note that this event was handled: it happens once, however
    // often the event is delivered. `?` on an error means "try again later".
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Sqlite>) -> Result<(), HandlerError> {
        let order = Received::<OrderPlaced>::read(event)?.payload;
        let sql =
            "INSERT INTO revenue VALUES (?, ?) ON CONFLICT DO UPDATE SET cents = cents + excluded.cents";
        sqlx::query(sql).bind(order.customer).bind(order.total_cents).execute(&mut **tx).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = SqliteConnectOptions::new().filename(folder.path().join("shop.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file.journal_mode(SqliteJournalMode::Wal)).await?;
    Migrator::outbox().run(&pool).await?;
    Migrator::inbox().run(&pool).await?;
    sqlx::query("CREATE TABLE revenue (customer TEXT PRIMARY KEY, cents INTEGER NOT NULL)")
        .execute(&pool)
        .await?;

    let consumer = ConsumerSpec::new("revenue")?.events(["order.*"])?;
    let inbox = Inbox::new(pool.clone(), "revenue");
    let relay = Relay::builder(pool.clone())
        .schemas(Schemas::open(REGISTRY)?)
        .consumer(consumer, Arc::new(HandlerSink::new(inbox, Revenue)))
        .build()?;

    // The hint wakes a relay that runs beside this code as soon as something is committed.
    let outbox = Outbox::new().with_hint(relay.hint());
    let mut tx = outbox.begin(&pool).await?;
    for (customer, total_cents) in [("Ada", 4200), ("Grace", 1700), ("Ada", 300)] {
        let event = OrderPlaced { order_id: Uuid::now_v7(), customer: customer.to_owned(), total_cents };
        outbox.publish(&mut tx, &event).await?;
    }
    outbox.commit(tx).await?;

    // A service spawns `relay.run(shutdown)`; this example ends when everything is delivered.
    println!("delivered: {}", relay.run_once().await?);
    println!("delivered when run again: {}", relay.run_once().await?);
    let revenue: Vec<(String, i64)> = sqlx::query_as("SELECT * FROM revenue").fetch_all(&pool).await?;
    for (customer, cents) in revenue {
        println!("  {customer}: {cents} cents");
    }
    Ok(())
}
