//! The command `outbox`: arguments, output and exit codes around the library.
//!
//! Exit codes: 0 fine, 1 a check failed, 2 usage or configuration, 3 database or network.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

mod arguments;
mod codegen;
mod compact;
mod consumer;
mod consumers;
mod database;
mod dead;
mod demo;
mod event;
mod exit;
mod migrate;
mod output;
mod run;
mod schema;
mod target;
mod why;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

use exit::Failure;

/// Transactional outbox: relay committed events to their consumers, in order, at least once.
#[derive(Debug, Parser)]
#[command(name = "outbox", version, propagate_version = true)]
struct Cli {
    /// How results are printed.
    #[arg(long, global = true, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    #[command(subcommand)]
    command: Command,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people.
    Text,
    /// For programs: one JSON value on standard output.
    Json,
    /// For reviews on GitHub: an annotation per finding (`schema check` and `schema compat`).
    Github,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the whole way of an event on this machine: a SQLite file, a service, a relay, a receiver.
    Demo(demo::Args),
    /// Create or upgrade the tables.
    Migrate(migrate::Args),
    /// Run the relay.
    Run(run::Args),
    /// Delete events that every consumer is done with and whose time is over.
    Compact(compact::Args),
    /// How far each consumer is, who runs it, and what keeps it from going on.
    Consumers(consumers::Args),
    /// Pause, resume, reset, rename or remove a consumer.
    Consumer(consumer::Args),
    /// Dead letters: count, list, show, replay, discard, acknowledge.
    Dead(dead::Args),
    /// Find and show events.
    Event(event::Args),
    /// Write the types and the handler of a consumer, from the registry and its pins.
    Codegen(codegen::Args),
    /// What holds one event, consumer by consumer, and what to do.
    Why(why::Args),
    /// The schema registry: init, list, check, diff, compat, bless, import, docs, asyncapi.
    Schema(schema::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    let annotates = matches!(&cli.command, Command::Schema(args) if args.annotates());
    if cli.format == OutputFormat::Github && !annotates {
        let text =
            "error: annotations come from `schema check` and `schema compat`; use --format text or json here";
        return Failure::usage(text).report();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::runtime(&error).report(),
    };
    let ended = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => demo::demo(args, cli.format).await,
            Command::Migrate(args) => migrate::migrate(args, cli.format).await,
            Command::Run(args) => run::run(args).await,
            Command::Compact(args) => compact::compact(args, cli.format).await,
            Command::Consumers(args) => consumers::consumers(args, cli.format).await,
            Command::Consumer(args) => consumer::consumer(args, cli.format).await,
            Command::Dead(args) => dead::dead(args, cli.format).await,
            Command::Event(args) => event::event(args, cli.format).await,
            Command::Codegen(args) => codegen::codegen(&args, cli.format),
            Command::Why(args) => why::why(args, cli.format).await,
            Command::Schema(args) => schema::schema(args, cli.format).await,
        }
    });
    // A blocked call must not hold up the end.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Logs go to standard error, so that standard output holds results only. `RUST_LOG` chooses what is logged.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
