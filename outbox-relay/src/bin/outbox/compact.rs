//! `outbox compact`: retention, once.

use std::io::{self, Write as _};
use std::path::PathBuf;

use outbox_relay::chain;
use outbox_relay::config::Config;
use outbox_relay::maintenance::{Compaction, MaintenanceError, Recorder, Retention};
use outbox_sdk::{Migratable, Tables};
use sqlx::Pool;

use crate::OutputFormat;
use crate::database::{self, Database};
use crate::exit::Failure;

/// Arguments of `outbox compact`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file: how long events are kept, and which consumers must have had them.
    #[arg(long, value_name = "FILE", default_value = "outbox.toml")]
    config: PathBuf,
    /// The database, as postgres://USER@HOST/DATABASE or sqlite://PATH. Default: the configuration's, else DATABASE_URL.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// Delete nothing; say how many events of each type would be deleted.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn compact(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let config = Config::load(&args.config, std::env::vars_os())?;
    let url = database::url(args.database, Some(&config))?;
    let compaction = match Database::open(&url, false, 2)? {
        Database::Postgres(pool) => run(pool, &config, args.dry_run).await?,
        Database::Sqlite(pool) => run(pool, &config, args.dry_run).await?,
    };
    print(&compaction, args.dry_run, format).map_err(|error| {
        Failure::database(format!("error: the result cannot be printed: {error}; check standard output"))
    })
}

async fn run<DB: Migratable>(pool: Pool<DB>, config: &Config, dry_run: bool) -> Result<Compaction, Failure> {
    let tables = Tables::in_schema(&config.database.schema)
        .map_err(|error| Failure::usage(format!("error: {error}")))?;
    let tables = if config.database.pooled { tables.pooled() } else { tables };
    let failed = |error: MaintenanceError| Failure::database(format!("error: {}", chain(&error)));
    let mut retention = Retention::new(pool.clone())
        .tables(tables.clone())
        .deadline(config.database.deadline)
        .retain(&config.retention)
        .recorder(config.relay.recorder)
        .require(config.required_for_retention());
    if dry_run {
        return retention.dry_run().await.map_err(failed);
    }
    if config.relay.recorder {
        // What no relay has recorded yet could not be deleted.
        let mut recorder = Recorder::new(pool).tables(tables).deadline(config.database.deadline);
        match recorder.run_once().await {
            Ok(_) | Err(MaintenanceError::Busy) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    retention.run_once().await.map_err(failed)
}

fn print(compaction: &Compaction, dry_run: bool, format: OutputFormat) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let Compaction { deleted, scanned, by_type, nobody_registered, missing, .. } = compaction;
    if format == OutputFormat::Json {
        let mut json = serde_json::json!({
            "dry_run": dry_run,
            "deleted": deleted,
            "scanned": scanned,
            "nobody_registered": nobody_registered,
            "missing_consumers": missing,
        });
        if dry_run && let Some(object) = json.as_object_mut() {
            object.insert("by_type".to_owned(), serde_json::json!(by_type));
        }
        return writeln!(out, "{json}");
    }
    if *nobody_registered {
        writeln!(out, "no consumer is registered, so nothing may be deleted; start a relay first")?;
    }
    for name in missing {
        writeln!(
            out,
            "nothing may be deleted before the consumer `{name}` is registered, which is required for retention; start its \
             relay first"
        )?;
    }
    for (event_type, events) in by_type {
        writeln!(out, "{events:>12}  {event_type}")?;
    }
    let verb = if dry_run { "would be deleted" } else { "deleted" };
    writeln!(out, "{deleted} events {verb}")
}
