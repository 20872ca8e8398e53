//! What this backend finds out by asking, where SQLite's own codes do not tell: as database errors, so that a caller meets
//! them where it meets the others.

use std::borrow::Cow;
use std::error::Error as StdError;

use sqlx::error::{DatabaseError, ErrorKind};

/// Why nothing can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Found {
    /// SQLite rolled the transaction back when a statement in it failed (disk full, input or output error, out of
    /// memory, interrupted). What ran after that was committed one by one.
    #[error(
        "SQLite has rolled the transaction back after a failed statement; run the whole transaction again"
    )]
    RolledBack,
    /// The tables are not there.
    #[error("the database lacks the outbox's tables")]
    NotMigrated,
}

impl DatabaseError for Found {
    fn message(&self) -> &str {
        match self {
            Self::RolledBack => "the transaction was rolled back",
            Self::NotMigrated => "no outbox tables",
        }
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
