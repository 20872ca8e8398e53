//! A relay with a handler in its process that one event ends: `customer.exploded` aborts. Prints the id of each event
//! that it handles. The arguments: the database's URL, and `two` for a second consumer, `mail`, which is slow and which no
//! event ends; it prints `mail` before each id.
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

struct Slow;

impl<DB: Backend> Handler<DB> for Slow {
    async fn handle(&self, event: &Envelope, _: &mut Transaction<'_, DB>) -> Result<(), HandlerError> {
        println!("mail {}", event.id);
        tokio::time::sleep(Duration::from_millis(100)).await;
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
    settings.deadline = settings.lease / 3;
    settings.poll_max = Duration::from_millis(50);
    settings.missing_schema = MissingSchema::Deliver;
    let retry = RetryPolicy { schedule: Schedule::List(vec![Duration::from_millis(20)]), max_attempts: 3 };
    let spec = |name| {
        let spec = ConsumerSpec::new(name).unwrap().retry(retry.clone());
        spec.timeout(Duration::from_secs(1)).unwrap()
    };
    let sink = Arc::new(HandlerSink::new(Inbox::new(pool.clone(), "crm"), Exploding));
    let mut relay = Relay::builder(pool.clone()).settings(settings).consumer(spec("crm"), sink);
    if std::env::args().nth(2).is_some_and(|argument| argument == "two") {
        let sink = Arc::new(HandlerSink::new(Inbox::new(pool, "mail"), Slow));
        relay = relay.consumer(spec("mail"), sink);
    }
    relay.build().unwrap().run(pending()).await.unwrap();
}
