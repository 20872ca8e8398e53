//! What the inbox costs: the effect of an event alone, against the inbox and the same effect, in rounds that take turns.
//! In a release build, on a database of its own beside the one that OUTBOX_TEST_DATABASE_URL names:
//!
//! ```text
//! inbox-cost [ROUNDS [EVENTS [CONNECTIONS]]]
//! ```
#![allow(clippy::print_stdout, reason = "a command says what it has found")]

use std::time::{Duration, Instant};

use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::PgTestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A row, as an effect that is worth little more than the inbox's own.
#[derive(Clone, Copy)]
struct Effect;

async fn effect(conn: &mut PgConnection, event: &Envelope) -> sqlx::Result<()> {
    let insert = sqlx::query("INSERT INTO effect (event_id, payload) VALUES ($1, $2::jsonb)");
    insert.bind(event.event_id).bind(&event.payload).execute(conn).await.map(|_| ())
}

impl Handler<Postgres> for Effect {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        Ok(effect(tx, event).await?)
    }
}

fn event() -> Envelope {
    let payload =
        r#"{"customer": "Ada Lovelace", "city": "London", "total_cents": 4200, "lines": [1, 2, 3]}"#;
    let mut event = Envelope::example("order.placed", 1, payload);
    event.event_id = Uuid::now_v7();
    event.tenant_id = Some(Uuid::now_v7());
    event
}

#[derive(Clone, Copy)]
enum Way {
    Alone,
    Inbox,
    Batches,
}

async fn work(pool: PgPool, way: Way, events: usize) -> Result<(), Failure> {
    let inbox = Inbox::new(pool.clone(), "cost");
    let events: Vec<_> = (0..events).map(|_| event()).collect();
    match way {
        Way::Alone => {
            for event in &events {
                let mut tx = pool.begin().await?;
                effect(&mut tx, event).await?;
                tx.commit().await?;
            }
        }
        Way::Inbox => {
            for event in &events {
                inbox.handle(&Effect, event).await.map_err(|error| error.to_string())?;
            }
        }
        Way::Batches => {
            for batch in events.chunks(50) {
                inbox.handle_all(&Effect, batch).await.map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(())
}

async fn round(pool: &PgPool, way: Way, events: usize, connections: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let tasks: Vec<_> =
        (0..connections).map(|_| tokio::spawn(work(pool.clone(), way, events / connections))).collect();
    for task in tasks {
        task.await??;
    }
    Ok(begun.elapsed())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (rounds, events, connections) = (number(15)?, number(1_000)?, number(4)?.max(1));
    let db = PgTestDb::new().await;
    let options = PgPoolOptions::new().max_connections(u32::try_from(connections)?);
    let pool = options.connect_with(db.options()).await?;
    Migrator::inbox().run(&pool).await?;
    let table = "CREATE TABLE IF NOT EXISTS effect (event_id uuid PRIMARY KEY, payload jsonb NOT NULL)";
    sqlx::query(table).execute(&pool).await?;

    for way in [Way::Alone, Way::Inbox, Way::Batches] {
        round(&pool, way, events, connections).await?;
    }
    let (mut inbox, mut batches, mut rate) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let alone = round(&pool, Way::Alone, events, connections).await?.as_secs_f64();
        inbox.push(alone / round(&pool, Way::Inbox, events, connections).await?.as_secs_f64());
        batches.push(alone / round(&pool, Way::Batches, events, connections).await?.as_secs_f64());
        rate.push(f64::from(u32::try_from(events)?) / alone);
    }
    pool.close().await;
    println!("{rounds} rounds of {events} events on {connections} connections, medians:");
    println!("  effect alone                 {:8.0} a second", median(&mut rate));
    println!("  inbox and effect, one by one {:8.2} of that rate", median(&mut inbox));
    println!("  inbox and effect, batches    {:8.2} of that rate", median(&mut batches));
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
