//! The error for a transaction that SQLite has ended by itself.

use std::borrow::Cow;
use std::error::Error as StdError;

use sqlx::error::{DatabaseError, ErrorKind};

const TEXT: &str =
    "SQLite has rolled the transaction back after a failed statement; run the whole transaction again";

/// SQLite rolled the transaction back when a statement in it failed (disk full, input or output error, out of memory,
/// interrupted). What ran after that was committed one by one.
#[derive(Debug, thiserror::Error)]
#[error("{TEXT}")]
pub(super) struct RolledBack;

impl DatabaseError for RolledBack {
    fn message(&self) -> &str {
        TEXT
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}
