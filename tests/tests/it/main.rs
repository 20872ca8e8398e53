//! Integration tests of the outbox toolkit.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by a panic")]

mod architecture;
mod backend;
mod codegen;
mod faults;
mod foreign;
mod inbox;
mod interleaving;
mod listen;
mod payload;
mod pooler;
mod readme;
mod real_schemas;
mod relay;
mod reports;

/// The databases that every case runs on.
mod databases {
    pub(crate) use outbox_tests::{TestDb, on_every_database};
}
