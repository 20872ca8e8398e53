//! `outbox compact`: retention, once.

use std::io::{self, Write as _};

use outbox_relay::config::Config;
use outbox_relay::maintenance::{Compaction, MaintenanceError, Recorder, Retention};
use outbox_relay::{advice, chain};
use outbox_sdk::{Migratable, Tables};
use sqlx::Pool;

use crate::OutputFormat;
use crate::database::Database;
use crate::exit::Failure;
use crate::target::{Opened, Target};

/// Arguments of `outbox compact`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Delete nothing; say how many events of each type would be deleted.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn compact(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let Opened { database, tables, config } = args.target.open(false)?;
    let Some(config) = config else {
        return Err(Failure::usage(
            "error: how long events are kept, and which consumers must have had them, stands in the configuration, and there \
             is no outbox.toml here; name it with --config FILE"
                .to_owned(),
        ));
    };
    let compaction = match database {
        Database::Postgres(pool) => run(pool, tables, &config, args.dry_run).await?,
        Database::Sqlite(pool) => run(pool, tables, &config, args.dry_run).await?,
    };
    print(&compaction, args.dry_run, format).map_err(|error| {
        Failure::database(format!("error: the result cannot be printed: {error}; check standard output"))
    })
}

async fn run<DB: Migratable>(
    pool: Pool<DB>,
    tables: Tables,
    config: &Config,
    dry_run: bool,
) -> Result<Compaction, Failure> {
    let failed = |error: MaintenanceError| {
        let help = advice::<DB>(&error).map_or_else(String::new, |advice| format!("\nhelp: {advice}"));
        Failure::database(format!("error: {}{help}", chain(&error)))
    };
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
