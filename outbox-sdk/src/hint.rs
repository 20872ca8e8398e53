//! Telling a relay that something was committed, cheaply, losing nothing when it fails.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::Pool;

use crate::backend::Backend;
use crate::tables::Tables;

/// The least time between two notifications of one process. A commit that comes sooner finds a relay that is awake.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(5);

/// Wakes a relay after a commit. A hint that gets lost costs one poll interval, never an event.
///
/// Give it to [`Outbox::with_hint`](crate::Outbox::with_hint). Clones share what they know of the last notification:
/// make one per process.
#[derive(Clone)]
pub struct Hint {
    wake: Arc<dyn Wake>,
}

type Woken<'w> = Pin<Box<dyn Future<Output = ()> + Send + 'w>>;

trait Wake: Send + Sync {
    fn wake(&self) -> Woken<'_>;
}

impl Hint {
    /// A hint to a relay in the same process: calls `poke`, which must neither block nor panic. The relay hands one out
    /// itself (`Relay::hint`).
    #[must_use]
    pub fn poke(poke: impl Fn() + Send + Sync + 'static) -> Self {
        Self { wake: Arc::new(Poke(poke)) }
    }

    /// A hint to relays in other processes that listen: a `NOTIFY` on another connection of `pool`, outside the
    /// business transaction (inside it would serialise every commit of the server), at most one in 5 ms. When no
    /// connection is free at once, or the database has no notifications (SQLite), nothing is sent.
    #[must_use]
    pub fn notify<DB: Backend>(pool: Pool<DB>, tables: &Tables) -> Self {
        let began = Instant::now();
        Self { wake: Arc::new(Notify { pool, tables: tables.clone(), began, next_at: AtomicU64::new(0) }) }
    }

    /// Says that something was committed.
    pub async fn send(&self) {
        self.wake.wake().await;
    }
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hint")
    }
}

struct Poke<F>(F);

impl<F: Fn() + Send + Sync> Wake for Poke<F> {
    fn wake(&self) -> Woken<'_> {
        (self.0)();
        Box::pin(std::future::ready(()))
    }
}

struct Notify<DB: Backend> {
    pool: Pool<DB>,
    tables: Tables,
    began: Instant,
    /// When the next one may be sent, in microseconds since `began`.
    next_at: AtomicU64,
}

impl<DB: Backend> Notify<DB> {
    /// Whether this call is the one that sends.
    fn is_due(&self) -> bool {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let now = micros(self.began.elapsed());
        let next_at = self.next_at.load(Ordering::Relaxed);
        let then = now.saturating_add(micros(NOTIFY_INTERVAL));
        now >= next_at
            && self.next_at.compare_exchange(next_at, then, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<DB: Backend> Wake for Notify<DB> {
    fn wake(&self) -> Woken<'_> {
        Box::pin(async {
            if self.is_due()
                && let Some(mut conn) = self.pool.try_acquire()
            {
                // The relay polls: a notification that fails is only late.
                let _ = DB::notify(&mut conn, &self.tables).await;
            }
        })
    }
}
