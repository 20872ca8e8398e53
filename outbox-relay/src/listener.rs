//! Hearing what other processes commit. A hint only: while nobody listens, polling goes on, and what was committed
//! meanwhile is found when listening begins again.

use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::time::timeout;

use crate::chain::chain;
use crate::relay::Settings;
use crate::retry::Backoff;
use crate::session::{SessionError, within};
use crate::telemetry;

/// Why a relay does not listen.
#[derive(Debug, thiserror::Error)]
enum Deaf {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(
        "the server does not know this session as one that listens: a pooler in transaction mode cannot listen; connect \
         to the server itself, or set `listen` to false"
    )]
    NotListening,
}

/// Calls `heard` for each notification, and whenever listening begins. Returns only where there is nothing to listen to.
pub(crate) async fn listen<DB: Backend>(
    pool: &Pool<DB>,
    tables: &Tables,
    settings: &Settings,
    heard: impl Fn(),
) {
    let mut state = State::default();
    let mut backoff = Backoff::reconnect();
    loop {
        let deaf = match within(settings.deadline, DB::listen(pool, tables)).await {
            Ok(None) => return,
            Ok(Some(listener)) => {
                state.connected();
                heard();
                hear::<DB>(listener, tables, settings, &heard, &mut backoff).await
            }
            Err(error) => error.into(),
        };
        state.lost(&deaf);
        tokio::time::sleep(backoff.failed((settings.random)())).await;
    }
}

/// Listens until the connection is lost, or found to be dead: after half a lease of silence the server is asked.
async fn hear<DB: Backend>(
    mut listener: DB::Listener,
    tables: &Tables,
    settings: &Settings,
    heard: impl Fn(),
    backoff: &mut Backoff,
) -> Deaf {
    loop {
        match timeout(settings.lease / 2, DB::hear(&mut listener)).await {
            Ok(Ok(())) => heard(),
            Ok(Err(error)) => return SessionError::from(error).into(),
            Err(_) => match within(settings.deadline, DB::still_listens(&mut listener, tables)).await {
                // Not before: a server that drops who listens must not be called in a hurry.
                Ok(true) => backoff.succeeded(),
                Ok(false) => return Deaf::NotListening,
                Err(error) => return error.into(),
            },
        }
    }
}

/// Says aloud when it changes whether the relay listens, and only then.
#[derive(Debug, Default)]
struct State {
    connected: Option<bool>,
}

impl State {
    fn connected(&mut self) {
        telemetry::listener_connected(true);
        if self.connected.replace(true) != Some(true) {
            tracing::info!("listening for commits of other processes");
        }
    }

    fn lost(&mut self, deaf: &Deaf) {
        telemetry::listener_connected(false);
        let error = chain(deaf);
        if self.connected.replace(false) == Some(false) {
            tracing::debug!(error, "still not listening for commits");
        } else {
            tracing::warn!(
                error,
                "not listening for commits of other processes: connecting again; polling goes on"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use metrics::{
        Counter, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        with_local_recorder,
    };

    use super::*;

    /// What every gauge was set to, in turn.
    #[derive(Clone, Default)]
    struct Gauges(Arc<Mutex<Vec<(String, f64)>>>);

    struct Named(Gauges, String);

    impl GaugeFn for Named {
        fn increment(&self, _: f64) {}
        fn decrement(&self, _: f64) {}
        fn set(&self, value: f64) {
            self.0.0.lock().unwrap().push((self.1.clone(), value));
        }
    }

    impl Recorder for Gauges {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(Arc::new(Named(self.clone(), key.name().to_owned())))
        }
        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn the_gauge_follows_the_connection() {
        let gauges = Gauges::default();
        with_local_recorder(&gauges, || {
            let mut state = State::default();
            state.connected();
            state.lost(&Deaf::NotListening);
            state.lost(&Deaf::NotListening);
            state.connected();
        });
        let seen = gauges.0.lock().unwrap().clone();
        let expected = [1.0, 0.0, 0.0, 1.0].map(|value| ("outbox_listener_connected".to_owned(), value));
        assert_eq!(seen, expected);
    }
}
