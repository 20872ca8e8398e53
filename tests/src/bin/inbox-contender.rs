//! One of two processes that get the same events at the same time. For each event id that it reads, a line each, it
//! handles the event and prints what that came to: `done`, `already processed`, or the error. The arguments: the database's
//! URL and the isolation level.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a part of a test")]

use std::io::{BufRead as _, stdin};

use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Inbox};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Postgres, Transaction};

/// A row for each event, and a row that all of them change.
struct Counting;

impl Handler<Postgres> for Counting {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        sqlx::query("INSERT INTO effect VALUES ($1)").bind(event.event_id).execute(&mut **tx).await?;
        sqlx::query("UPDATE total SET n = n + 1").execute(&mut **tx).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let [url, level] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let options: PgConnectOptions = url.parse().unwrap();
    let options = options.options([("default_transaction_isolation", &level)]);
    let pool = PgPoolOptions::new().connect_with(options).await.unwrap();
    let set: String = sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&pool).await.unwrap();
    println!("{set}");
    let inbox = Inbox::new(pool, "crm");
    for id in stdin().lock().lines() {
        let mut event = Envelope::example("order.placed", 1, "{}");
        event.event_id = id.unwrap().parse().unwrap();
        match inbox.handle(&Counting, &event).await {
            Ok(Effect::Done) => println!("done"),
            Ok(Effect::AlreadyProcessed) => println!("already processed"),
            Err(error) => println!("{error}"),
        }
    }
}
