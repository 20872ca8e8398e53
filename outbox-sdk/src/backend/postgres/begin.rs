//! Beginning a transaction, whatever becomes of the future that began it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sqlx::pool::PoolConnection;
use sqlx::{Error, Postgres, Transaction};

type Begun = Result<Transaction<'static, Postgres>, Error>;

/// Begins a transaction on a connection of a pool. When it is dropped midway, the rest runs beside: the driver counts a
/// transaction only once the server has answered, so it would give the session back to the pool inside of one, and the
/// next user's work would never be committed.
pub(super) fn undropped(conn: PoolConnection<Postgres>) -> impl Future<Output = Begun> + Send {
    Undropped(Some(Transaction::begin(conn, None)))
}

struct Undropped(Option<Pin<Box<dyn Future<Output = Begun> + Send>>>);

impl Future for Undropped {
    type Output = Begun;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Begun> {
        let Some(begin) = &mut self.0 else { return Poll::Pending };
        let begun = ready!(begin.as_mut().poll(context));
        self.0 = None;
        Poll::Ready(begun)
    }
}

impl Drop for Undropped {
    fn drop(&mut self) {
        if let Some(begin) = self.0.take() {
            // The transaction is dropped once it has begun, which rolls it back. A connection that goes back to its pool
            // is spawned in the same way.
            sqlx::__rt::spawn(begin);
        }
    }
}
