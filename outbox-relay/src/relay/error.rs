//! Why a relay did not start, or had to end.

use std::time::Duration;

use outbox_sdk::MigrateError;

/// A relay that cannot be built or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// It would have nothing to do.
    #[error("the relay has no consumer; add at least one")]
    NoConsumer,
    /// What consumers ask for cannot be: all of it, at once.
    #[error("the consumers cannot be registered: {}", listed(.0))]
    Registration(Vec<RegistrationProblem>),
    /// A send could outlive the lease.
    #[error(
        "the time limit of consumer `{consumer}` ({timeout:?}) is not below the lease ({lease:?}); another relay could \
         send the same event meanwhile: raise the lease or lower the limit"
    )]
    TimeoutAboveLease {
        /// The consumer.
        consumer: String,
        /// Its time limit.
        timeout: Duration,
        /// The lease.
        lease: Duration,
    },
    /// One slow call could cost the lease.
    #[error(
        "the database deadline ({deadline:?}) is above a third of the lease ({lease:?}); one slow call could cost the lease: \
         raise the lease or lower the deadline"
    )]
    DeadlineAboveLease {
        /// The time limit of a database call.
        deadline: Duration,
        /// The lease.
        lease: Duration,
    },
    /// A limit that must be positive is zero.
    #[error("the setting `{0}` is zero; give it a positive value")]
    ZeroSetting(&'static str),
    /// A new consumer needs to be told where it begins.
    #[error(
        "consumer `{consumer}` is new, other consumers are registered already, and about {stored_events} events are \
         stored; say where it begins: start = \"earliest\", \"now\" or a time"
    )]
    StartNeeded {
        /// The consumer.
        consumer: String,
        /// How many events are stored.
        stored_events: u64,
    },
    /// The tables are missing, or are those of an older release.
    #[error(
        "the database lacks tables of this release (missing migrations: {missing}); run `outbox migrate`, or `Migrator::outbox()`: the relay never migrates"
    )]
    NotMigrated {
        /// How many.
        missing: usize,
    },
    /// The tables are not those that this release knows.
    #[error("the tables do not fit this release")]
    Migrations(#[source] MigrateError),
    /// A consumer cannot be run safely. [`run`](super::Relay::run) says so in the log and keeps trying.
    #[error("consumer `{consumer}` cannot be run: {problem}")]
    Unsafe {
        /// The consumer.
        consumer: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A drain could not go on with a consumer. [`run`](super::Relay::run) says so in the log and waits.
    #[error(
        "consumer `{consumer}` is not registered with the configuration of this relay any more: another relay has registered \
         another one meanwhile, or an operator has removed it. Run again with the configuration that is meant"
    )]
    ConfigurationChanged {
        /// The consumer.
        consumer: String,
    },
    /// A part of the relay ended by a panic: a defect.
    #[error("a part of the relay panicked; the other parts were stopped. Please report it with the log")]
    Panicked(#[source] tokio::task::JoinError),
    /// The shutdown came before the database answered for the first time.
    #[error("stopped before the database could be reached")]
    NeverStarted,
}

/// Something that a consumer asks for and cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationProblem {
    /// Two consumers have one name.
    #[error("two consumers are named `{0}`; a name keys a consumer's progress, so give each its own")]
    DuplicateConsumer(String),
    /// A pinned event type is not in the registry.
    #[error(
        "consumer `{consumer}` pins `{event_type}`, which the registry does not have; commit its schema, or correct the name"
    )]
    UnknownType {
        /// The consumer.
        consumer: String,
        /// The event type.
        event_type: String,
    },
    /// A pinned major is not in the registry.
    #[error(
        "consumer `{consumer}` pins v{major} of `{event_type}`, of which the registry has {known}; commit its schema, or \
         pin one of these"
    )]
    UnknownMajor {
        /// The consumer.
        consumer: String,
        /// The event type.
        event_type: String,
        /// The major that it pins.
        major: u32,
        /// Those that there are, as `v1, v2`.
        known: String,
    },
}

fn listed(problems: &[RegistrationProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
