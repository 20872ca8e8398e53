//! Relay processes: the command `outbox` with its webhook, and a small relay with a handler.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::evidence::{Limits, Micros, TurnKind};

/// Signs what the relays send.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

pub(crate) const LEASE: Duration = Duration::from_millis(700);
pub(crate) const POLL: Duration = Duration::from_millis(50);
const TIME_LIMIT: Duration = Duration::from_millis(550);

pub(crate) fn limits() -> Limits {
    let micros = |duration: Duration| Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX);
    Limits { lease: micros(LEASE), poll: micros(POLL), time_limit: micros(TIME_LIMIT) }
}

/// Which program a relay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Webhook,
    Handler,
    /// `outbox compact`.
    Compact,
}

/// Where relays are started.
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
    pub(crate) database: String,
    /// How many slots the webhook's consumer has.
    pub(crate) slots: u16,
}

impl Stage {
    /// The configuration, a registry folder and a place for logs.
    pub(crate) fn prepare(folder: &Path, database: &str, event_type: &str) -> io::Result<Self> {
        let schema =
            "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": \"object\"}\n";
        let folder = std::path::absolute(folder)?;
        let types = folder.join("schemas").join(event_type);
        fs::create_dir_all(&types)?;
        fs::write(types.join("v1.0.json"), schema)?;
        fs::write(folder.join("schemas/registry.toml"), "compatibility = \"full\"\n")?;
        // Another run's logs would be read as this one's.
        let _ = fs::remove_dir_all(folder.join("logs"));
        fs::create_dir_all(folder.join("logs"))?;
        let text = format!(
            r#"
            [database]
            url = "env:CHAOS_DATABASE"
            [relay]
            lease = "{}ms"
            poll_max = "{}ms"
            grace = "5s"
            [registry]
            path = "schemas"
            [[consumer]]
            name = "{}"
            start = "earliest"
            timeout = "{}ms"
            max_in_flight = 8
            retry = {{ schedule = ["40ms"], max_attempts = 1000 }}
            [consumer.webhook]
            url = "http://127.0.0.1:1/"
            secrets = ["env:CHAOS_SECRET"]
            allow_private_addresses = true
            "#,
            LEASE.as_millis(),
            POLL.as_millis(),
            crate::check::WEBHOOK,
            TIME_LIMIT.as_millis(),
        );
        fs::write(folder.join("outbox.toml"), text)?;
        Ok(Self { folder, database: database.to_owned(), slots: 1 })
    }

    /// Starts a process. `url` is where its webhook sends; `crash_point` where it dies.
    pub(crate) fn start(
        &self,
        program: Program,
        incarnation: u32,
        url: &str,
        crash_point: Option<&str>,
    ) -> io::Result<Relay> {
        let name = match program {
            Program::Webhook | Program::Compact => "outbox",
            Program::Handler => "handler-relay",
        };
        let binary = std::env::current_exe()?.with_file_name(name);
        let log = self.folder.join(format!("logs/{incarnation}.log"));
        // A shell in between, so that no crash writes a core file.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -c 0; exec \"$0\" \"$@\""]).arg(binary);
        let verb = match program {
            Program::Webhook => Some("run"),
            Program::Compact => Some("compact"),
            Program::Handler => None,
        };
        if let Some(verb) = verb {
            command.args([verb, "--config"]).arg(self.folder.join("outbox.toml"));
        }
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("OUTBOX_") || name == "RUST_LOG") {
                command.env_remove(name);
            }
        }
        command
            .env("CHAOS_DATABASE", &self.database)
            .env("CHAOS_SECRET", SECRET)
            .env("CHAOS_LEASE_MS", LEASE.as_millis().to_string())
            .env("CHAOS_POLL_MS", POLL.as_millis().to_string())
            .env("CHAOS_TIME_LIMIT_MS", TIME_LIMIT.as_millis().to_string())
            .env("OUTBOX__RELAY__NAME", format!("relay-{incarnation}"))
            .env("OUTBOX__CONSUMER__CRM__SLOTS", self.slots.to_string())
            .env("OUTBOX__CONSUMER__CRM__WEBHOOK__URL", url);
        if let Some(point) = crash_point {
            command.env("OUTBOX_CRASH_POINT", point);
        }
        let stdio = (Stdio::null(), Stdio::null(), File::create(&log)?);
        let child = command.stdin(stdio.0).stdout(stdio.1).stderr(stdio.2).kill_on_drop(true).spawn()?;
        Ok(Relay { program, incarnation, child })
    }
}

/// A running relay process. Dropping it kills it.
pub(crate) struct Relay {
    pub(crate) program: Program,
    pub(crate) incarnation: u32,
    child: Child,
}

impl Relay {
    /// SIGKILL; returns when it is gone.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Sends a signal by name.
    pub(crate) async fn signal(&self, name: &str) -> io::Result<()> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        let mut kill = Command::new("sh");
        kill.args(["-c", "kill -s \"$0\" \"$1\"", name]).arg(pid.to_string());
        kill.stderr(Stdio::null()).status().await.map(|_| ())
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Its end, if that was already.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// What a log says about ownership: times as the log has them.
pub(crate) fn turns(log: &Path) -> Vec<(String, TurnKind)> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let turn = |line: &str| {
        let (time, rest) = line.split_once(' ')?;
        let kind = if rest.contains(": claimed ") {
            TurnKind::Claimed
        } else if rest.contains(": lost the slot") {
            TurnKind::Lost
        } else if rest.contains(": drained and given back") {
            TurnKind::Released
        } else {
            return None;
        };
        Some((time.to_owned(), kind))
    };
    text.lines().filter_map(turn).collect()
}
