//! A server that answers and will not serve: waiting alone does not help, somebody must do something.

use std::error::Error;

use outbox_sdk::Backend;
use outbox_sdk::backend::Fault;

/// What to do when the cause of `error` is that the server refuses to be used as it is: it has no such database, does not
/// let the role in, lacks a right or room, or takes no writes. `None` for everything else.
///
/// ```
/// use outbox_relay::advice;
///
/// let error = sqlx::Error::PoolTimedOut;
/// assert_eq!(advice::<sqlx::Sqlite>(&error), None, "it is away, and may come back by itself");
/// ```
#[must_use]
pub fn advice<DB: Backend>(error: &(dyn Error + 'static)) -> Option<&'static str> {
    match DB::fault(cause(error)?) {
        Fault::NoDatabase => {
            Some("the server has no such database: correct its name in the database URL, or create it")
        }
        Fault::NotLetIn => Some(
            "the server does not let the role in: correct user and password in the database URL, or allow the role on the \
             server",
        ),
        Fault::ReadOnly => Some(
            "the database takes no writes: name the primary in the database URL, or end what makes it read-only (a standby, \
             default_transaction_read_only, the file's permissions)",
        ),
        Fault::Denied => Some(
            "the role lacks a right: grant the one that the error names (the rights that a relay needs stand in the README \
             under \"Migrate\"; of a SQLite file, see its permissions)",
        ),
        Fault::ServerTrouble => Some(
            "the database server is in trouble itself: look at its log, and at its disk, memory and limits; the relay goes \
             on as soon as it recovers",
        ),
        Fault::Pooler => Some(
            "a pooler in transaction mode loses prepared statements: set `[database] pooled = true` (`Tables::pooled`), or \
             let the pooler keep them (PgBouncer 1.21 and newer: max_prepared_statements)",
        ),
        _ => None,
    }
}

/// What the driver said, somewhere below an error.
pub(crate) fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e sqlx::Error> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|error| error.downcast_ref::<sqlx::Error>())
}
