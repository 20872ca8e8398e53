//! sea-orm: an event inside a transaction of its connection. Run it with `scripts/adapters`.

use outbox_sdk::{Outbox, OutboxEvent, StatementValue};
use schemars::JsonSchema;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DbBackend, Statement, TransactionTrait, Value};
use serde::Serialize;
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

/// Writes the event in the open transaction, and answers with its id.
async fn publish(
    tx: &impl ConnectionTrait,
    outbox: &Outbox,
    event: &impl OutboxEvent,
) -> Result<i64, Failure> {
    let statement = outbox.statement(event)?;
    let values = statement.values().iter().map(|value| match value {
        StatementValue::Uuid(value) => Value::from(*value),
        StatementValue::Text(value) => Value::from(value.clone()),
        StatementValue::Int(value) => Value::from(*value),
        StatementValue::BigInt(value) => Value::from(*value),
    });
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, statement.sql(), values);
    let row = tx.query_one_raw(statement).await?.ok_or("the statement answers with one row")?;
    Ok(row.try_get("", "id")?)
}

const NEW_ORDER: &str = "INSERT INTO orders (id) VALUES ($1)";
const LOCKS: &str =
    "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
const ORDERS: &str = "SELECT count(*) AS n FROM orders";
const EVENTS: &str = "SELECT count(*) AS n FROM outbox.event WHERE aggregate_id = $1";

async fn count(conn: &impl ConnectionTrait, sql: &str, values: Vec<Value>) -> Result<i64, Failure> {
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, sql, values);
    let row = conn.query_one_raw(statement).await?.ok_or("a count has one row")?;
    Ok(row.try_get("", "n")?)
}

async fn order(tx: &impl ConnectionTrait, order_id: Uuid, total_cents: i64) -> Result<i64, Failure> {
    let insert = Statement::from_sql_and_values(DbBackend::Postgres, NEW_ORDER, [Value::from(order_id)]);
    tx.execute_raw(insert).await?;
    publish(tx, &Outbox::new(), &OrderPlaced { order_id, total_cents }).await?;
    count(tx, LOCKS, vec![]).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    // One connection, because the table of this example is temporary.
    let options = ConnectOptions::new(std::env::var("DATABASE_URL")?).max_connections(1).to_owned();
    let db = Database::connect(options).await?;
    db.execute_unprepared("CREATE TEMP TABLE orders (id uuid)").await?;
    let (kept, given_up) = (Uuid::now_v7(), Uuid::now_v7());

    let tx = db.begin().await?;
    let locks = order(&tx, kept, 4200).await?;
    tx.commit().await?;

    let tx = db.begin().await?;
    order(&tx, given_up, 100).await?;
    tx.rollback().await?;

    for (which, order_id) in [("committed", kept), ("rolled back", given_up)] {
        let events = count(&db, EVENTS, vec![Value::from(order_id.to_string())]).await?;
        println!("{which}: {events} event");
    }
    let orders = count(&db, ORDERS, vec![]).await?;
    println!("orders: {orders}, order locks held before the commit: {locks}");
    Ok(())
}
