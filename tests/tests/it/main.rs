//! Integration tests of the outbox toolkit.

mod backend;
mod relay;

/// The databases that every case runs on.
mod databases {
    pub(crate) use crate::backend::{TestDb, on_every_database};
}
