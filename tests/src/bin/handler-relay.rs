//! A relay with a handler for the crash test: its effect is a row, in the transaction of the inbox row. Everything it
//! is told comes from the environment.
#![allow(clippy::print_stderr, reason = "a command says why it ends")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::handler::HandlerSink;
use outbox_relay::{ConsumerSpec, MissingSchema, Relay, Settings};
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::signal::unix::{SignalKind, signal};

type Failure = Box<dyn std::error::Error>;

/// One row for each call that commits.
struct Effects;

impl Handler<Postgres> for Effects {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        let effect = sqlx::query("INSERT INTO chaos.effect (event_id) VALUES ($1)").bind(event.id);
        effect.execute(&mut **tx).await?;
        // Some events fail the first time, so that their lanes wait.
        let calls: i64 = sqlx::query_scalar("SELECT nextval('chaos.calls')").fetch_one(&mut **tx).await?;
        if calls % 23 == 0 { Err(HandlerError::retry("not now")) } else { Ok(()) }
    }
}

fn millis(name: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(std::env::var(name)?.parse()?))
}

async fn run() -> Result<(), Failure> {
    let pool = PgPool::connect(&std::env::var("CHAOS_DATABASE")?).await?;
    let mut settings = Settings::default();
    settings.name = std::env::var("OUTBOX__RELAY__NAME")?;
    settings.lease = millis("CHAOS_LEASE_MS")?;
    settings.deadline = settings.lease / 3;
    settings.poll_max = millis("CHAOS_POLL_MS")?;
    settings.missing_schema = MissingSchema::Deliver;
    let schedule = Schedule::List(vec![Duration::from_millis(40)]);
    let consumer = ConsumerSpec::new("ledger")?
        .start(outbox_relay::consumer::Start::Earliest)
        .timeout(millis("CHAOS_TIME_LIMIT_MS")?)?
        .retry(RetryPolicy { schedule, max_attempts: 1000 })
        .max_in_flight(4)?;
    let sink = HandlerSink::new(Inbox::new(pool.clone(), "ledger"), Effects);
    let relay = Relay::builder(pool).settings(settings).consumer(consumer, Arc::new(sink)).build()?;
    let mut terminate = signal(SignalKind::terminate())?;
    relay.run(async move { terminate.recv().await.unwrap_or_default() }).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
