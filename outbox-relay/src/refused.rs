//! A server that answers and will not serve: waiting alone does not help, somebody must do something.

use std::error::Error;

use outbox_sdk::Backend;
use outbox_sdk::backend::Fault;

/// What to do when the cause of `error` is that the server refuses to be used as it is: it has no such database, does not
/// let the role in, or takes no writes. `None` for everything else.
///
/// ```
/// use outbox_relay::advice;
///
/// let error = sqlx::Error::PoolTimedOut;
/// assert_eq!(advice::<sqlx::Sqlite>(&error), None, "it is away, and may come back by itself");
/// ```
#[must_use]
pub fn advice<DB: Backend>(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    let cause = causes.find_map(|error| error.downcast_ref::<sqlx::Error>())?;
    match DB::fault(cause) {
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
        Fault::Pooler => Some(
            "a pooler in transaction mode loses prepared statements: set `[database] pooled = true` (`Tables::pooled`), or \
             let the pooler keep them (PgBouncer 1.21 and newer: max_prepared_statements)",
        ),
        _ => None,
    }
}
