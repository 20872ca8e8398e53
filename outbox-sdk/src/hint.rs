//! Telling a relay that something was committed, cheaply, losing nothing when it fails.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sqlx::Pool;
use sqlx::pool::PoolConnection;

use crate::backend::Backend;
use crate::tables::Tables;

/// How long a notification may take. Then it is given up, and its connection with it.
const LIMIT: Duration = Duration::from_secs(1);

/// Wakes a relay after a commit. A hint that gets lost costs one poll interval, never an event, and the commit never waits
/// for it.
///
/// Give it to [`Outbox::with_hint`](crate::Outbox::with_hint).
#[derive(Clone)]
pub struct Hint {
    poke: Arc<dyn Fn() + Send + Sync>,
}

impl Hint {
    /// A hint to a relay in the same process: calls `poke`, which must neither block nor panic. The relay hands one out
    /// itself (`Relay::hint`).
    #[must_use]
    pub fn poke(poke: impl Fn() + Send + Sync + 'static) -> Self {
        Self { poke: Arc::new(poke) }
    }

    /// A hint to relays in other processes that listen, and the future that sends it: spawn it once per process. It ends
    /// when the last clone of the hint is dropped.
    ///
    /// It sends a `NOTIFY` on a connection of `pool`, outside the business transaction (inside it would serialise every
    /// commit of the server), at most one in 5 ms. While the pool has no free connection it waits for its turn like everybody
    /// else. One that gets no answer within a second is given up, and its connection is closed; with the feature `tracing` the
    /// first of a series is a warning in the log. On a database that has no notifications (SQLite) nothing is sent.
    ///
    /// ```no_run
    /// # use outbox_sdk::{Hint, Outbox, Tables};
    /// # async fn start(pool: sqlx::PgPool) {
    /// let (hint, notifier) = Hint::notify(pool, &Tables::default());
    /// tokio::spawn(notifier);
    /// let outbox = Outbox::new().with_hint(hint);
    /// # }
    /// ```
    #[must_use = "the future sends the notifications: spawn it"]
    pub fn notify<DB: Backend>(
        pool: Pool<DB>,
        tables: &Tables,
    ) -> (Self, impl Future<Output = ()> + Send + use<DB>) {
        let bell = Arc::new(Bell::default());
        let rope = Rope(Arc::clone(&bell));
        let tables = tables.clone();
        let notifier = async move {
            let mut fails = false;
            while (Rung { bell: &bell }).await {
                // The relay polls: a notification that fails is only late.
                let sent = if let Some(conn) = pool.try_acquire() {
                    sent(conn, &tables, true).await
                } else if let Ok(conn) = pool.acquire().await {
                    // Others wait for this one: waiting for a turn was pause enough.
                    sent(conn, &tables, false).await
                } else {
                    false
                };
                if !sent && !fails {
                    warn();
                }
                fails = !sent;
            }
        };
        (Self::poke(move || rope.0.ring(false)), notifier)
    }

    /// Says that something was committed.
    pub fn send(&self) {
        (self.poke)();
    }
}

/// Sends one notification; false = it did not come about in time.
async fn sent<DB: Backend>(mut conn: PoolConnection<DB>, tables: &Tables, pause: bool) -> bool {
    match sqlx::__rt::timeout(LIMIT, DB::notify(&mut conn, tables, pause)).await {
        Ok(sent) => sent.is_ok(),
        Err(_) => {
            // Back in the pool it would wait for the answer, and hold up whoever gets it.
            drop(conn.detach());
            false
        }
    }
}

fn warn() {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        "a notification of relays failed or got no answer; they find new events when they poll: look at the connection to \
         the database"
    );
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hint")
    }
}

/// One bit and who waits for it: however often it is rung before somebody looks, it is heard once.
#[derive(Default)]
struct Bell {
    state: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    rung: bool,
    closed: bool,
    waker: Option<Waker>,
}

impl Bell {
    fn ring(&self, closed: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.rung |= !closed;
        state.closed |= closed;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// The last hint is gone: nobody will ring any more.
struct Rope(Arc<Bell>);

impl Drop for Rope {
    fn drop(&mut self) {
        self.0.ring(true);
    }
}

/// Waits for the bell; false = nobody will ring any more.
struct Rung<'b> {
    bell: &'b Bell,
}

impl Future for Rung<'_> {
    type Output = bool;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.bell.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.rung) {
            return Poll::Ready(true);
        }
        if state.closed {
            return Poll::Ready(false);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_before_a_look_are_heard_once_and_the_last_rope_ends_it() {
        let bell = Arc::new(Bell::default());
        let rope = Rope(Arc::clone(&bell));
        rope.0.ring(false);
        rope.0.ring(false);
        assert!(Rung { bell: &bell }.await);
        let (heard, ()) = tokio::join!(Rung { bell: &bell }, async { rope.0.ring(false) });
        assert!(heard);
        rope.0.ring(false);
        drop(rope);
        assert!(Rung { bell: &bell }.await, "what was rung before the end is heard");
        assert!(!Rung { bell: &bell }.await);
    }
}
