use outbox_relay::{Relay, RelayError, Settings};
use outbox_sdk::{Hint, Migratable};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Settings for tests: everything that waits, waits briefly.
pub fn quick_settings() -> Settings {
    let mut settings = Settings::default();
    settings.lease = Duration::from_secs(3);
    settings.deadline = Duration::from_secs(1);
    settings.poll_max = Duration::from_millis(50);
    settings.grace = Duration::from_secs(20);
    settings
}

/// A relay that runs in this process.
pub struct RunningRelay {
    hint: Hint,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), RelayError>>,
}

impl RunningRelay {
    /// Runs the relay until [`stop`](Self::stop) or [`crash`](Self::crash).
    pub fn start<DB: Migratable>(relay: Relay<DB>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let hint = relay.hint();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            relay.run(shutdown).await
        });
        Self { hint, stop: Some(stop), task }
    }

    /// The relay's hint.
    pub fn hint(&self) -> Hint {
        self.hint.clone()
    }

    /// Drains and ends.
    ///
    /// # Panics
    /// When the relay failed.
    pub async fn stop(mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        (&mut self.task).await.expect("the relay did not panic").expect("the relay ended well");
    }

    /// How the relay ended by itself.
    ///
    /// # Panics
    /// When it panicked.
    pub async fn ended(mut self) -> Result<(), RelayError> {
        (&mut self.task).await.expect("the relay did not panic")
    }

    /// Ends it as a kill would: nothing is drained, nothing given back.
    pub async fn crash(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}
