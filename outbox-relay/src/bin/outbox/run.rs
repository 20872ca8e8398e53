//! `outbox run`: the relay as a process.

use std::path::PathBuf;
use std::sync::Arc;

use outbox_relay::config::{Config, ConsumerConfig};
use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::sink::webhook::WebhookSink;
use outbox_relay::{Relay, RelayError, Schemas, chain};
use outbox_sdk::{Migratable, Tables};
use sqlx::Pool;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::database::{self, Database};
use crate::exit::Failure;

/// Arguments of `outbox run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(long, value_name = "FILE", default_value = "outbox.toml")]
    config: PathBuf,
    /// The database, as postgres://USER@HOST/DATABASE or sqlite://PATH. Default: the configuration's, else DATABASE_URL.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let config = Config::load(&args.config, std::env::vars_os())?;
    let url = database::url(args.database, Some(&config));
    let consumers = config.require_consumers().map_err(Failure::from);
    let schemas = Schemas::open(&config.registry.path)
        .map(|schemas| schemas.undeclared(config.registry.undeclared))
        .map_err(|error| Failure::usage(format!("error: {}", chain(&error))));
    let (url, consumers, schemas) = Failure::all(url, consumers, schemas)?;
    // Each consumer keeps one connection; registering and health need a few more.
    let connections = u32::try_from(consumers.len()).unwrap_or(u32::MAX).saturating_add(4);
    match Database::open(&url, false, connections)? {
        Database::Postgres(pool) => relay(pool, &config, consumers, schemas).await,
        Database::Sqlite(pool) => relay(pool, &config, consumers, schemas).await,
    }
}

async fn relay<DB: Migratable>(
    pool: Pool<DB>,
    config: &Config,
    consumers: &[ConsumerConfig],
    schemas: Schemas,
) -> Result<(), Failure> {
    let tables = Tables::in_schema(&config.database.schema)
        .map_err(|error| Failure::usage(format!("error: {error}")))?;
    let tables = if config.database.pooled { tables.pooled() } else { tables };
    let settings = config.settings();
    let name = settings.name.clone();
    let mut builder = Relay::builder(pool).tables(tables).settings(settings).schemas(schemas.clone());
    for consumer in consumers {
        let Some(webhook) = &consumer.webhook else { continue };
        let sink = WebhookSink::new(webhook.clone()).map_err(|error| {
            Failure::usage(format!("error: consumer `{}`: {}", consumer.spec.name, chain(&error)))
        })?;
        say_policies(&consumer.spec);
        builder = builder.consumer(consumer.spec.clone(), Arc::new(sink));
    }
    let relay = builder.build().map_err(|error| Failure::usage(format!("error: {error}")))?;

    // Installed before anything runs: a signal that comes now is not lost.
    let shutdown = shutdown_signal()?;
    tokio::spawn(reloads(listen_for(SignalKind::hangup())?, schemas));
    tracing::info!(relay = name, consumers = consumers.len(), "the relay starts");
    match relay.run(shutdown).await {
        Ok(()) | Err(RelayError::NeverStarted) => {
            tracing::info!(relay = name, "the relay has stopped");
            Ok(())
        }
        Err(error @ RelayError::StartNeeded { .. }) => Err(Failure::usage(format!("error: {error}"))),
        Err(error) => Err(Failure::database(format!("error: {}", chain(&error)))),
    }
}

/// How long a failing event is tried.
fn say_policies(spec: &ConsumerSpec) {
    let special = spec.retry_for.iter().map(|(pattern, policy)| (pattern.as_str(), policy));
    for (events, policy) in std::iter::once(("*", &spec.retry)).chain(special) {
        tracing::info!(
            consumer = spec.name.as_str(),
            events,
            max_attempts = policy.max_attempts,
            dead_after = ?policy.until_dead(),
            "a failing event is tried this often, over this time, and is dead then"
        );
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::database(format!("error: cannot listen for signals: {error}")))
}

/// Looks at the registry folder at once on each SIGHUP; the relay looks by itself every few seconds.
async fn reloads(mut hangup: Signal, schemas: Schemas) {
    while hangup.recv().await.is_some() {
        let schemas = schemas.clone();
        match tokio::task::spawn_blocking(move || schemas.reload()).await {
            Ok(Ok(true)) => tracing::info!("SIGHUP: the schema registry changed and was loaded"),
            Ok(Ok(false)) => tracing::info!("SIGHUP: the schema registry is as it was"),
            Ok(Err(error)) => tracing::error!(
                error = chain(&error),
                "SIGHUP: the schema registry has problems; keeping the last good one"
            ),
            Err(_) => tracing::error!(
                "SIGHUP: looking at the schema registry has panicked; keeping the last good one"
            ),
        }
    }
}

/// Resolves on SIGTERM or Ctrl-C.
fn shutdown_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut terminate = listen_for(SignalKind::terminate())?;
    let mut interrupt = listen_for(SignalKind::interrupt())?;
    Ok(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "draining: nothing new is sent, what is in flight ends");
    })
}
