//! The relay as it runs in earnest: a process of its own, started, killed and stopped from here.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::process::{Child, Command};
use uuid::Uuid;

use super::error::DemoError;
use super::{CONSUMER, DATABASE_FILE, REGISTRY_FOLDER};

/// The configuration file in the demo's folder.
pub(super) const CONFIG_FILE: &str = "outbox.toml";
/// The environment variable that holds the webhook's secret.
pub(super) const SECRET_VARIABLE: &str = "OUTBOX_DEMO_SECRET";

/// Lays an address over the one in the file.
const URL_VARIABLE: &str = "OUTBOX__CONSUMER__CRM__WEBHOOK__URL";

const SIGKILL: i32 = 9;

/// A secret for one run. Hexadecimal digits are base64 too: 64 of them are 48 bytes, with 244 random bits in them.
pub(super) fn new_secret() -> String {
    format!("whsec_{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Writes the configuration of the relay. Paths in it begin in `folder`.
pub(super) fn write_config(folder: &Path, url: &str) -> Result<(), DemoError> {
    let text = format!(
        r#"[database]
url = "sqlite://{DATABASE_FILE}"

[registry]
path = "{REGISTRY_FOLDER}"

[relay]
# How soon another relay takes over after a crash.
lease = "3s"
poll_max = "100ms"

[[consumer]]
name = "{CONSUMER}"
events = ["entity.customer.*", "permission.granted"]
max_in_flight = 8
timeout = "2500ms"
retry = {{ schedule = ["200ms", "1s"], max_attempts = 20 }}

[consumer.webhook]
url = "{url}"
secrets = ["env:{SECRET_VARIABLE}"]
# The receiver is on this machine.
allow_private_addresses = true
"#
    );
    let path = folder.join(CONFIG_FILE);
    std::fs::write(&path, text).map_err(|source| DemoError::Folder { path, source })
}

/// A running `outbox run`. Dropping it kills it.
pub(super) struct RelayProcess {
    number: u8,
    child: Child,
    log: PathBuf,
}

impl RelayProcess {
    /// Starts this program once more, as a relay; its log goes to a file in `folder`.
    pub(super) fn start(folder: &Path, number: u8, url: &str, secret: &str) -> Result<Self, DemoError> {
        let log = folder.join(format!("relay-{number}.log"));
        let spawned = File::create(&log).and_then(|file| {
            let mut command = Command::new(std::env::current_exe()?);
            // The user's own settings are for the user's own relay.
            for (name, _) in std::env::vars_os() {
                if name.to_str().is_some_and(|name| name.starts_with("OUTBOX__")) {
                    command.env_remove(name);
                }
            }
            command
                .args(["run", "--config", CONFIG_FILE])
                .current_dir(folder)
                .env(SECRET_VARIABLE, secret)
                .env(URL_VARIABLE, url)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(file)
                .kill_on_drop(true)
                .spawn()
        });
        let child = spawned.map_err(|source| DemoError::Spawn { number, source })?;
        Ok(Self { number, child, log })
    }

    /// The process id; 0 once it has ended.
    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Fails when it has ended although nobody asked.
    pub(super) fn still_runs(&mut self) -> Result<(), DemoError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status)),
            Err(source) => Err(self.signal(source)),
        }
    }

    /// SIGKILL: it can neither finish nor clean up. Returns when it is dead.
    pub(super) async fn kill(mut self) -> Result<(), DemoError> {
        self.still_runs()?;
        self.child.start_kill().map_err(|source| self.signal(source))?;
        let status = self.child.wait().await.map_err(|source| self.signal(source))?;
        if status.signal() == Some(SIGKILL) { Ok(()) } else { Err(self.ended(status)) }
    }

    /// SIGTERM: it drains, gives its slot back and exits with 0.
    pub(super) async fn stop(mut self) -> Result<(), DemoError> {
        self.still_runs()?;
        // The shell's own `kill`: there need not be a program of that name.
        let sent = Command::new("sh")
            .args(["-c", "kill -TERM \"$1\"", "sh"])
            .arg(self.pid().to_string())
            .stdin(Stdio::null())
            .status()
            .await;
        sent.map_err(|source| self.signal(source))?;
        let status = self.child.wait().await.map_err(|source| self.signal(source))?;
        if status.success() {
            Ok(())
        } else {
            Err(DemoError::NotDrained { number: self.number, status, log: self.log })
        }
    }

    fn ended(&self, status: ExitStatus) -> DemoError {
        DemoError::RelayEnded { number: self.number, status, log: self.log.clone() }
    }

    fn signal(&self, source: io::Error) -> DemoError {
        DemoError::Signal { number: self.number, source }
    }
}

#[cfg(test)]
mod tests {
    use outbox_relay::config::Config;
    use outbox_sdk::webhook::Secret;

    use super::*;

    #[test]
    fn the_configuration_is_one_that_the_relay_takes() {
        let folder = tempfile::tempdir().unwrap();
        write_config(folder.path(), "http://127.0.0.1:8080/hooks/1").unwrap();
        let url = "http://127.0.0.1:8080/hooks/2";
        let env = [(SECRET_VARIABLE, new_secret()), (URL_VARIABLE, url.to_owned())];
        let config = Config::load(folder.path().join(CONFIG_FILE), env).unwrap();
        let [consumer] = config.require_consumers().unwrap() else { panic!("one consumer") };
        assert_eq!(consumer.spec.name.as_str(), CONSUMER);
        assert_eq!(consumer.webhook.as_ref().unwrap().url, url);
    }

    #[test]
    fn secrets_are_valid_and_differ() {
        assert!(Secret::parse(&new_secret()).is_ok());
        assert_ne!(new_secret(), new_secret());
    }
}
