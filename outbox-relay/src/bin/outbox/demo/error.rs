//! What can end the demo before its account.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use outbox_relay::sink::webhook::WebhookConfigError;
use outbox_schema::RegistryError;
use outbox_schema::bless::BlessError;
use outbox_sdk::webhook::SecretError;
use outbox_sdk::{MigrateError, PublishError};

use outbox_relay::chain;

use crate::exit::Failure;

#[derive(Debug, thiserror::Error)]
pub(super) enum DemoError {
    #[error("{} cannot be written; set TMPDIR to a folder with room", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("no free loopback port for the receiver; check that 127.0.0.1 can be used")]
    Port(#[source] io::Error),
    #[error("the schemas of the demo's events cannot be opened")]
    Registry(#[from] RegistryError),
    #[error("the schemas of the demo's events cannot be written")]
    Bless(#[from] BlessError),
    #[error("the tables cannot be created")]
    Migrate(#[from] MigrateError),
    #[error("an event could not be published")]
    Publish(#[from] PublishError),
    #[error("one of the demo's SQLite files failed; check the disk")]
    Database(#[from] sqlx::Error),
    #[error("the actor cannot be written as JSON; this is a defect, please report it")]
    Actor(#[from] serde_json::Error),
    #[error("the generated webhook secret is refused; this is a defect, please report it")]
    Secret(#[from] SecretError),
    #[error("the webhook cannot be set up")]
    Webhook(#[from] WebhookConfigError),
    #[error("relay {number} cannot be started; check that this program's file is still in its place")]
    Spawn { number: u8, source: io::Error },
    #[error("relay {number} cannot be signalled; check that this user may run `sh`")]
    Signal { number: u8, source: io::Error },
    #[error("relay {number} ended unasked ({status}); {} says why", log.display())]
    RelayEnded { number: u8, status: ExitStatus, log: PathBuf },
    #[error("relay {number} did not end with exit code 0 after SIGTERM ({status}); {} says why", log.display())]
    NotDrained { number: u8, status: ExitStatus, log: PathBuf },
    #[error("a writer of the sample service panicked; this is a defect, please report it")]
    Writer(#[from] tokio::task::JoinError),
    #[error(
        "{} s have passed and still {awaited} is awaited; the relays' logs say what they did. On a machine that is \
         very busy, try again when it is not",
        limit.as_secs()
    )]
    Limit { awaited: &'static str, limit: Duration },
    #[error(
        "{broken} of {of} promises are broken; the account above says which. Please report it with the folder"
    )]
    Broken { broken: usize, of: usize },
    #[error("the account could not be printed; check standard output and run it again")]
    Print(#[source] io::Error),
    #[error("cannot listen for signals; raise the limits of this process")]
    Listen(#[source] io::Error),
    #[error("the demo was interrupted")]
    Interrupted,
}

impl DemoError {
    /// Whether running the same transaction again may succeed.
    pub(super) fn is_retryable(&self) -> bool {
        matches!(self, Self::Publish(error) if error.is_retryable())
    }

    /// What the command answers; `kept` is the folder, if it is still there.
    pub(super) fn failure(&self, kept: Option<&Path>) -> Failure {
        let mut text = format!("error: {}", chain(self));
        if let Some(folder) = kept {
            text = format!("{text}\nhelp: everything is kept in {}", folder.display());
        }
        match self {
            Self::Limit { .. }
            | Self::Broken { .. }
            | Self::RelayEnded { .. }
            | Self::NotDrained { .. }
            | Self::Interrupted => Failure::check(text),
            _ => Failure::database(text),
        }
    }
}
