//! Telling a relay that something was committed, cheaply, losing nothing when it fails.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use sqlx::Pool;

use crate::backend::Backend;
use crate::tables::Tables;

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
    /// else. On a database that has no notifications (SQLite) nothing is sent.
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
            while (Rung { bell: &bell }).await {
                // The relay polls: a notification that fails is only late.
                if let Some(mut conn) = pool.try_acquire() {
                    let _ = DB::notify(&mut conn, &tables, true).await;
                } else if let Ok(mut conn) = pool.acquire().await {
                    // Others wait for this one: waiting for a turn was pause enough.
                    let _ = DB::notify(&mut conn, &tables, false).await;
                }
            }
        };
        (Self::poke(move || rope.0.ring(false)), notifier)
    }

    /// Says that something was committed.
    pub fn send(&self) {
        (self.poke)();
    }
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
        state.rung = true;
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
            return Poll::Ready(!state.closed);
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
        drop(rope);
        assert!(!Rung { bell: &bell }.await);
    }
}
