//! What a relay does first: it makes sure that the tables are there, and registers its consumers.

use std::error::Error;
use std::time::Duration;

use outbox_sdk::backend::{Registered, Registration, Start as StoredStart};
use outbox_sdk::{Backend, Migratable, MigrateError, Migrator, Timestamp};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{Relay, RelayError, check};
use crate::chain::chain;
use crate::consumer::{ConsumerSpec, Start};
use crate::refused::{advice, cause};
use crate::retry::Backoff;
use crate::session::{Session, SessionError, limited, passes, within};

/// The longest time limit of registering: a consumer that begins now or at a time goes over the stored events. The first
/// try has that of every call.
const REGISTER_DEADLINE: Duration = Duration::from_secs(60);
const SLOW_REGISTRATION: &str = "registering the consumers takes long. Where a new consumer begins is looked up among \
     the ids of all stored events: have the event table vacuumed, so that its index tells, and let retention delete what \
     is old. Or another relay, or an operator, is changing a consumer: it is waited for";
const REFUSED: &str = "the database refuses a statement: check that the tables are those of this release";

impl<DB: Migratable> Relay<DB> {
    /// Registers every consumer in one transaction; waits for a database that is away.
    pub(super) async fn register(&self, token: &CancellationToken) -> Result<(), RelayError> {
        let registrations: Vec<_> =
            self.consumers.iter().map(|consumer| registration(&consumer.spec)).collect();
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        let mut deadline = self.settings.deadline;
        loop {
            let error = match self.try_register(&registrations, deadline).await {
                Ok(answers) => {
                    for (registration, answer) in registrations.iter().zip(answers) {
                        if let Registered::StartNeeded { stored_events } = answer {
                            let consumer = registration.name.clone();
                            return Err(RelayError::StartNeeded { consumer, stored_events });
                        }
                    }
                    return Ok(());
                }
                Err(Refusal::Final(error)) => return Err(error),
                Err(Refusal::Away { error, advice }) => (error, advice),
                Err(Refusal::Slow { error }) => {
                    // Either the answer was lost, or there is so much to look up: the next one may take longer.
                    deadline = (deadline * 2).min(REGISTER_DEADLINE.max(self.settings.deadline));
                    (error, Some(SLOW_REGISTRATION))
                }
            };
            let pause = backoff.failed((self.settings.random)());
            match error {
                (error, Some(advice)) => {
                    tracing::error!(error, retry_in = ?pause, "cannot start, for {advice}");
                }
                (error, None) => {
                    tracing::warn!(error, retry_in = ?pause, "cannot start: the database is away");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = token.cancelled() => return Err(RelayError::NeverStarted),
            }
        }
    }

    async fn try_register(
        &self,
        registrations: &[Registration],
        deadline: Duration,
    ) -> Result<Vec<Registered>, Refusal> {
        let migrator = Migrator::outbox().tables(&self.tables);
        match timeout(self.settings.deadline, migrator.check(&self.pool)).await {
            Ok(Ok(missing)) if missing.is_empty() => {}
            Ok(Ok(missing)) => {
                return Err(Refusal::Final(RelayError::NotMigrated { missing: missing.len() }));
            }
            Ok(Err(error @ (MigrateError::Database(_) | MigrateError::DatabaseBusy(_)))) => {
                return Err(Refusal::away::<DB>(error.source().unwrap_or(&error)));
            }
            Ok(Err(error)) => return Err(Refusal::Final(RelayError::Migrations(error))),
            Err(_) => {
                return Err(Refusal::Away { error: "no answer in time".to_owned(), advice: None });
            }
        }
        let registered = async {
            let tables = limited(&self.tables, deadline);
            let mut session = Session::<DB>::new(self.pool.clone(), tables.clone(), self.settings.deadline);
            let mut conn = session.connect().await?;
            let registered = within(deadline, DB::register(&mut conn, &tables, registrations)).await?;
            // Advice only: rows that cannot be read keep nobody from starting.
            match within(deadline, DB::published_majors(&mut conn, &tables)).await {
                Ok(published) => {
                    check::tell_unpublished(self.consumers.iter().map(|consumer| &consumer.spec), &published);
                }
                Err(error) => {
                    tracing::debug!(error = chain(&error), "whether pins are published is not known");
                }
            }
            Ok(registered)
        };
        registered.await.map_err(|error: SessionError| match error {
            error if error.is_slow::<DB>() => Refusal::Slow { error: chain(&error) },
            error => Refusal::away::<DB>(&error),
        })
    }
}

/// Why a relay did not start.
enum Refusal {
    /// The database is away, or refuses until somebody does what the advice says: try again.
    Away { error: String, advice: Option<&'static str> },
    /// Registering took longer than it may: with more time it may succeed.
    Slow { error: String },
    /// Trying again would not help.
    Final(RelayError),
}

impl Refusal {
    fn away<DB: Backend>(error: &(dyn Error + 'static)) -> Self {
        let refused = cause(error).is_some_and(|cause| !passes::<DB>(cause)).then_some(REFUSED);
        Self::Away { error: chain(error), advice: advice::<DB>(error).or(refused) }
    }
}

fn registration(spec: &ConsumerSpec) -> Registration {
    Registration {
        name: spec.name.to_string(),
        start: spec.start.map(|start| match start {
            Start::Earliest => StoredStart::Earliest,
            Start::Now => StoredStart::Now,
            Start::At(micros) => StoredStart::At(Timestamp::from_micros(micros)),
        }),
        config: spec.stored().to_string(),
        slots: spec.slots,
        required_for_retention: spec.required_for_retention,
    }
}
