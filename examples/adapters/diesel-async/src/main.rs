//! diesel-async: an event inside a transaction of its connection. Run it with `scripts/adapters`.

use diesel::pg::Pg;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Integer, Nullable, Text, Uuid as SqlUuid};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use outbox_sdk::{Outbox, OutboxEvent, StatementValue};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A customer has placed an order.
#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "order.placed", aggregate_type = "order")]
struct OrderPlaced {
    #[outbox(aggregate_id)]
    order_id: Uuid,
    total_cents: i64,
}

#[derive(diesel::QueryableByName)]
struct Written {
    #[diesel(sql_type = BigInt)]
    id: i64,
}

/// Writes the event in the connection's open transaction, and answers with its id.
async fn publish(
    conn: &mut AsyncPgConnection,
    outbox: &Outbox,
    event: &impl OutboxEvent,
) -> Result<i64, Failure> {
    let statement = outbox.statement(event)?;
    let mut query = sql_query(statement.sql()).into_boxed::<Pg>();
    for value in statement.values() {
        query = match value {
            StatementValue::Uuid(value) => query.bind::<Nullable<SqlUuid>, _>(*value),
            StatementValue::Text(value) => query.bind::<Nullable<Text>, _>(value.as_deref()),
            StatementValue::Int(value) => query.bind::<Integer, _>(*value),
            StatementValue::BigInt(value) => query.bind::<Nullable<BigInt>, _>(*value),
        };
    }
    Ok(query.get_result::<Written>(conn).await?.id)
}

const NEW_ORDER: &str = "INSERT INTO orders (id) VALUES ($1)";
const LOCKS: &str =
    "SELECT count(*) AS id FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
const ORDERS: &str = "SELECT count(*) AS id FROM orders";
const EVENTS: &str = "SELECT count(*) AS id FROM outbox.event WHERE aggregate_id = $1";

async fn order(conn: &mut AsyncPgConnection, order_id: Uuid, total_cents: i64) -> Result<i64, Failure> {
    sql_query(NEW_ORDER).bind::<SqlUuid, _>(order_id).execute(conn).await?;
    publish(conn, &Outbox::new(), &OrderPlaced { order_id, total_cents }).await?;
    Ok(sql_query(LOCKS).get_result::<Written>(conn).await?.id)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut conn = AsyncPgConnection::establish(&std::env::var("DATABASE_URL")?).await?;
    conn.batch_execute("CREATE TEMP TABLE orders (id uuid)").await?;
    let (kept, given_up) = (Uuid::now_v7(), Uuid::now_v7());

    let locks = conn.transaction(async |conn| order(conn, kept, 4200).await).await?;
    let rolled_back = conn.transaction(async |conn| {
        order(conn, given_up, 100).await?;
        Err::<(), Failure>("no longer in stock".into())
    });
    rolled_back.await.expect_err("the order is given up");

    for (which, order_id) in [("committed", kept), ("rolled back", given_up)] {
        let events = sql_query(EVENTS).bind::<Text, _>(order_id.to_string());
        println!("{which}: {} event", events.get_result::<Written>(&mut conn).await?.id);
    }
    let orders = sql_query(ORDERS).get_result::<Written>(&mut conn).await?.id;
    println!("orders: {orders}, order locks held before the commit: {locks}");
    Ok(())
}
