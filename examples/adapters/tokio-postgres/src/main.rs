//! tokio-postgres: an event inside a transaction of its client. Run it with `scripts/adapters`.

use outbox_sdk::{Outbox, OutboxEvent, StatementValue};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{GenericClient, NoTls, Row};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

/// A customer has placed an order.
#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "order.placed", aggregate_type = "order")]
struct OrderPlaced {
    #[outbox(aggregate_id)]
    order_id: Uuid,
    total_cents: i64,
}

/// Writes the event in the client's open transaction, and answers with its id.
async fn publish(
    client: &impl GenericClient,
    outbox: &Outbox,
    event: &impl OutboxEvent,
) -> Result<i64, Failure> {
    let statement = outbox.statement(event)?;
    let values: Vec<(&(dyn ToSql + Sync), Type)> = statement.values().iter().map(with_type).collect();
    let row: Row = client.query_typed_one(statement.sql(), &values).await?;
    Ok(row.try_get("id")?)
}

/// The statement casts some texts to other types, so each value goes under its own type, not under an inferred one.
fn with_type(value: &StatementValue) -> (&(dyn ToSql + Sync), Type) {
    match value {
        StatementValue::Uuid(value) => (value, Type::UUID),
        StatementValue::Text(value) => (value, Type::TEXT),
        StatementValue::Int(value) => (value, Type::INT4),
        StatementValue::BigInt(value) => (value, Type::INT8),
    }
}

const NEW_ORDER: &str = "INSERT INTO orders (id) VALUES ($1)";
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
const ORDERS: &str = "SELECT count(*) FROM orders";
const EVENTS: &str = "SELECT count(*) FROM outbox.event WHERE aggregate_id = $1";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let (mut client, connection) = tokio_postgres::connect(&std::env::var("DATABASE_URL")?, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TEMP TABLE orders (id uuid)").await?;
    let outbox = Outbox::new();
    let (kept, given_up) = (Uuid::now_v7(), Uuid::now_v7());

    let tx = client.transaction().await?;
    tx.execute(NEW_ORDER, &[&kept]).await?;
    publish(&tx, &outbox, &OrderPlaced { order_id: kept, total_cents: 4200 }).await?;
    let locks: i64 = tx.query_one(LOCKS, &[]).await?.try_get(0)?;
    tx.commit().await?;

    let tx = client.transaction().await?;
    tx.execute(NEW_ORDER, &[&given_up]).await?;
    publish(&tx, &outbox, &OrderPlaced { order_id: given_up, total_cents: 100 }).await?;
    tx.rollback().await?;

    let orders: i64 = client.query_one(ORDERS, &[]).await?.try_get(0)?;
    for (which, order_id) in [("committed", kept), ("rolled back", given_up)] {
        let events: i64 = client.query_one(EVENTS, &[&order_id.to_string()]).await?.try_get(0)?;
        println!("{which}: {events} event");
    }
    println!("orders: {orders}, order locks held before the commit: {locks}");
    Ok(())
}
