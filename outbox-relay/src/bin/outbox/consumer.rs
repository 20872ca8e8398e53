//! `outbox consumer`: pause, resume, reset, rename and remove a consumer.

use std::time::Duration;

use clap::Subcommand;
use outbox_relay::config::parse_duration;
use outbox_relay::operate::{ConsumerError, Drain, Operator, ResetTo, Rest};
use outbox_sdk::Backend;
use serde_json::json;

use crate::OutputFormat;
use crate::arguments::Moment;
use crate::database::Database;
use crate::dead::INBOX;
use crate::exit::Failure;
use crate::output;
use crate::target::{self, Target};

/// Arguments of `outbox consumer`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send nothing to it for a while, or until it is resumed.
    #[command(
        after_help = "Examples:\n  outbox consumer pause crm --reason 'moving the receiver'\n  outbox consumer \
                            pause crm --for 2h --reason 'maintenance'"
    )]
    Pause {
        /// The consumer.
        name: String,
        /// For how long, such as 2h. Default: until it is resumed.
        #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
        length: Option<Duration>,
        /// Why; shown with the consumer.
        #[arg(long, value_name = "TEXT", default_value = "paused by an operator")]
        reason: String,
    },
    /// End its pause, whoever paused it.
    Resume {
        /// The consumer.
        name: String,
    },
    /// Deliver again, to this consumer alone, everything from an event or a time on.
    ///
    /// Waiting lanes and dead letters from there on are forgotten: their events come again too. An inbox drops what it
    /// has seen: where the effects are to happen again, call `Inbox::forget` in the consumer's database first.
    #[command(
        after_help = "Examples:\n  outbox consumer reset crm --to 4711 --yes\n  outbox consumer reset crm --to-time \
                            2026-12-01T06:00:00Z --yes"
    )]
    Reset {
        /// The consumer.
        name: String,
        #[command(flatten)]
        to: To,
        #[command(flatten)]
        drained: Drained,
    },
    /// Give it another name, with its progress, its waiting lanes and its dead letters.
    ///
    /// Stop the relays that have the old name in their configuration, or change it there, before they start again: they
    /// would register the old name anew. An inbox knows what it has seen under the name it was given.
    Rename {
        /// The consumer.
        name: String,
        /// Its new name.
        to: String,
        #[command(flatten)]
        drained: Drained,
    },
    /// Forget it and its waiting lanes, so that recorder and retention wait for it no longer. Its dead letters stay.
    Remove {
        /// The consumer.
        name: String,
        /// Also when retention depends on it.
        #[arg(long)]
        even_if_required: bool,
        #[command(flatten)]
        drained: Drained,
    },
}

/// Where a reset begins.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct To {
    /// With the event of this id.
    #[arg(long = "to", value_name = "ID")]
    id: Option<i64>,
    /// With the first event created at this time (RFC 3339) or later, or this long ago, such as 2h.
    #[arg(long = "to-time", value_name = "TIME")]
    time: Option<Moment>,
}

/// How the consumer comes to rest before it is changed.
#[derive(Debug, clap::Args)]
struct Drained {
    /// How long to wait until the relays have finished what is in flight.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    wait: Duration,
    /// Change it after that although a relay owns it: what is in flight may come twice.
    #[arg(long)]
    force: bool,
    /// Do it: nothing is asked.
    #[arg(long)]
    yes: bool,
}

impl Drained {
    /// The way to rest, if the change is meant.
    fn meant(&self) -> Result<Drain, Failure> {
        if self.yes {
            Ok(Drain { wait: self.wait, force: self.force })
        } else {
            Err(Failure::usage("error: this cannot be taken back\nhelp: add --yes"))
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| format!("{error}; write a length such as 30s or 2h"))
}

pub(crate) async fn consumer(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let opened = args.target.open(false)?;
    match opened.database {
        Database::Postgres(pool) => run(target::operator(pool, opened.tables), args.command, format).await,
        Database::Sqlite(pool) => run(target::operator(pool, opened.tables), args.command, format).await,
    }
}

async fn run<DB: Backend>(
    operator: Operator<DB>,
    command: Command,
    format: OutputFormat,
) -> Result<(), Failure> {
    match command {
        Command::Pause { name, length, reason } => {
            operator.pause(&name, length, &reason).await?;
            done(format, &name, "paused", None)
        }
        Command::Resume { name } => {
            operator.resume(&name).await?;
            done(format, &name, "resumed", None)
        }
        Command::Reset { name, to, drained } => {
            let drain = drained.meant()?;
            let to = match (to.id, to.time) {
                (Some(id), _) => ResetTo::Id(id),
                (None, Some(time)) => ResetTo::Time(time.0),
                (None, None) => {
                    return Err(Failure::usage("error: where to is not said\nhelp: give --to or --to-time"));
                }
            };
            output::remark(INBOX);
            let rest = operator.reset(&name, to, drain).await?;
            done(format, &name, "reset", Some(rest))
        }
        Command::Rename { name, to, drained } => {
            let rest = operator.rename(&name, &to, drained.meant()?).await?;
            done(format, &to, "renamed", Some(rest))
        }
        Command::Remove { name, even_if_required, drained } => {
            let rest = operator.remove(&name, even_if_required, drained.meant()?).await?;
            done(format, &name, "removed", Some(rest))
        }
    }
}

fn done(format: OutputFormat, name: &str, what: &str, rest: Option<Rest>) -> Result<(), Failure> {
    let forced = rest == Some(Rest::Forced);
    let text = || {
        let forced =
            if forced { "; a relay owned it, so that what was in flight may come twice" } else { "" };
        format!("consumer {} is {what}{forced}", output::escaped(name))
    };
    output::result(format, text, || json!({ "consumer": name, "done": what, "forced": forced }))
}

impl From<ConsumerError> for Failure {
    fn from(error: ConsumerError) -> Self {
        match error {
            ConsumerError::Operate(error) => error.into(),
            ConsumerError::Name(error) => Self::usage(format!("error: {error}")),
            error => Self::check(format!("error: {error}")),
        }
    }
}
