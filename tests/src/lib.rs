//! Support for the tests of the outbox toolkit: a database of its own for each test, a webhook receiver with
//! a journal, the real binary as a child process, and the real payloads.
//!
//! `./scripts/test` sets up what these need. Waiting means asking for a state or being woken by it, never
//! sleeping and hoping; every wait ends after [`PATIENCE`] with a panic that names what was missing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "test support: a panic with a clear text is how a test fails"
)]

mod database;
mod eventually;
mod gauges;
mod github;
mod pooler;
mod postgres;
mod process;
mod proxy;
mod receiver;
mod relay;
mod sink;
mod snapshot;
mod sqlite;

use std::time::Duration;

pub use database::TestDb;
pub use eventually::eventually;
pub use gauges::Gauges;
pub use github::{Example, github_examples, github_schemas};
pub use pooler::Pooler;
pub use postgres::PgTestDb;
pub use process::OutboxProcess;
pub use proxy::{Fate, Proxy};
pub use receiver::{Answer, Received, Receiver};
pub use relay::{RunningRelay, quick_settings};
pub use sink::{Call, RecordingSink};
pub use snapshot::Snapshot;
pub use sqlite::SqliteTestDb;

/// How long any wait of a test may last before it fails: far beyond what a loaded machine needs.
pub const PATIENCE: Duration = Duration::from_secs(60);
