//! `outbox schema`: the registry folder.

mod asyncapi;
mod backlog;
mod bless;
mod check;
mod compat;
mod diff;
mod docs;
mod folder;
mod import;
mod init;
mod list;
mod readers;
mod source;

use std::path::PathBuf;

use clap::Subcommand;

use crate::OutputFormat;
use crate::exit::Failure;

/// Arguments of `outbox schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The registry folder. Default: OUTBOX_REGISTRY, else that of the configuration given with --config, else the first
    /// folder `schemas` with a registry.toml, here or above.
    #[arg(long, global = true, value_name = "DIR")]
    registry: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a registry folder.
    Init(init::Args),
    /// Which event types, majors and minors there are, and who reads them.
    List(list::Args),
    /// Whether every minor suits all earlier ones of its major; against git and a database too.
    Check(check::Args),
    /// What differs between two schemas, place by place.
    Diff(diff::Args),
    /// Whether one schema can follow another inside a major: for whom it breaks, and a payload that shows it.
    Compat(compat::Args),
    /// Accept the schemas of the structs here: runs their generated tests with OUTBOX_BLESS=1.
    Bless(bless::Args),
    /// Take in a foreign schema (JSON Schema draft-07 or 2020-12).
    Import(import::Args),
    /// Write one Markdown page per event type.
    Docs(docs::Args),
    /// Print the registry as an AsyncAPI 3 document.
    Asyncapi(asyncapi::Args),
}

impl Args {
    /// Whether this command writes the annotations of `--format github`.
    pub(crate) fn annotates(&self) -> bool {
        matches!(self.command, Command::Check(_) | Command::Compat(_))
    }
}

pub(crate) async fn schema(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let folder = folder::Folder::new(args.registry);
    match args.command {
        Command::Init(args) => init::init(&folder, &args, format),
        Command::List(args) => list::list(&folder, &args, format),
        Command::Check(args) => check::check(&folder, args, format).await,
        Command::Diff(args) => diff::diff(&folder, &args, format),
        Command::Compat(args) => compat::compat(&folder, &args, format),
        Command::Bless(args) => bless::bless(&folder, &args, format).await,
        Command::Import(args) => import::import(&folder, &args, format),
        Command::Docs(args) => docs::docs(&folder, &args, format),
        Command::Asyncapi(args) => asyncapi::asyncapi(&folder, &args, format),
    }
}
