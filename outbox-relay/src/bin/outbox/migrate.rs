//! `outbox migrate`: create or upgrade the tables.

use std::io::{self, Write as _};

use outbox_relay::{advice, chain};
use outbox_sdk::{Migratable, MigrationName, Migrator};
use sqlx::Pool;

use crate::OutputFormat;
use crate::database::Database;
use crate::exit::Failure;
use crate::target::Target;

/// Arguments of `outbox migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Only the inbox table: what a consumer's own database needs.
    #[arg(long)]
    inbox: bool,
    /// The PostgreSQL setting in which the application keeps a transaction's tenant; used when the tables are created.
    #[arg(long, value_name = "NAME", default_value = "app.tenant_id")]
    tenant_setting: String,
    /// Change nothing; fail when something is missing.
    #[arg(long)]
    check: bool,
}

pub(crate) async fn migrate(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let opened = args.target.open(!args.check)?;
    let tables = opened.tables.tenant_setting(&args.tenant_setting);
    let tables = tables.map_err(|error| Failure::usage(format!("error: {error}")))?;
    let migrator = if args.inbox { Migrator::inbox() } else { Migrator::outbox() }.tables(&tables);
    let names = match opened.database {
        Database::Postgres(pool) => apply(&migrator, &pool, args.check).await,
        Database::Sqlite(pool) => apply(&migrator, &pool, args.check).await,
    }?;
    print(&names, args.check, format).map_err(|error| {
        Failure::database(format!("error: the result cannot be printed: {error}; check standard output"))
    })?;
    if args.check && !names.is_empty() {
        let inbox = if args.inbox { " --inbox" } else { "" };
        return Err(Failure::check(format!(
            "error: missing migrations: {}\nhelp: run `outbox migrate{inbox}`",
            names.len()
        )));
    }
    Ok(())
}

/// The migrations that were applied, or with `check` those that are missing.
async fn apply<DB: Migratable>(
    migrator: &Migrator,
    pool: &Pool<DB>,
    check: bool,
) -> Result<Vec<MigrationName>, Failure> {
    let names = if check {
        migrator.check(pool).await
    } else {
        migrator.run(pool).await.map(|migrated| migrated.applied)
    };
    names.map_err(|error| {
        let help = advice::<DB>(&error).map_or_else(String::new, |advice| format!("\nhelp: {advice}"));
        Failure::database(format!("error: {}{help}", chain(&error)))
    })
}

fn print(names: &[MigrationName], check: bool, format: OutputFormat) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let what = if check { "missing" } else { "applied" };
    match format {
        OutputFormat::Json => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            writeln!(out, "{}", serde_json::json!({ what: names }))
        }
        _ if names.is_empty() => writeln!(out, "the tables are up to date"),
        _ => names.iter().try_for_each(|name| writeln!(out, "{what} {name}")),
    }
}
