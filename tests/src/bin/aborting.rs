//! A relay with a handler in its process that one event ends: `customer.exploded` aborts. Prints the id of each event
//! that it handles. The argument is the database's URL.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a part of a test")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::handler::HandlerSink;
use outbox_relay::{MissingSchema, Relay, Settings};
use outbox_sdk::{Backend, Envelope, Handler, HandlerError, Inbox, Migratable};
use sqlx::{PgPool, Pool, SqlitePool, Transaction};

struct Exploding;

impl<DB: Backend> Handler<DB> for Exploding {
    async fn handle(&self, event: &Envelope, _: &mut Transaction<'_, DB>) -> Result<(), HandlerError> {
        println!("{}", event.id);
        if event.event_type == "customer.exploded" {
            std::process::abort();
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let url = std::env::args().nth(1).unwrap();
    if url.starts_with("sqlite") {
        run(SqlitePool::connect(&url).await.unwrap()).await;
    } else {
        run(PgPool::connect(&url).await.unwrap()).await;
    }
}

async fn run<DB: Backend + Migratable>(pool: Pool<DB>) {
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(2);
    settings.poll_max = Duration::from_millis(50);
    settings.missing_schema = MissingSchema::Deliver;
    let retry = RetryPolicy { schedule: Schedule::List(vec![Duration::from_millis(20)]), max_attempts: 3 };
    let spec = ConsumerSpec::new("crm").unwrap().retry(retry).timeout(Duration::from_secs(1)).unwrap();
    let sink = Arc::new(HandlerSink::new(Inbox::new(pool.clone(), "crm"), Exploding));
    let relay = Relay::builder(pool).settings(settings).consumer(spec, sink).build().unwrap();
    relay.run(pending()).await.unwrap();
}
