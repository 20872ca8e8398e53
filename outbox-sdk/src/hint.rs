//! Telling a relay that something was committed, cheaply, losing nothing when it fails.

use std::fmt;
use std::sync::Arc;

/// Wakes a relay in the same process after a commit. A hint that gets lost costs one poll interval, never an event.
///
/// The relay hands one out (`Relay::hint`); give it to [`Outbox::with_hint`](crate::Outbox::with_hint).
#[derive(Clone)]
pub struct Hint {
    poke: Arc<dyn Fn() + Send + Sync>,
}

impl Hint {
    /// A hint that calls `poke`, which must neither block nor panic.
    #[must_use]
    pub fn new(poke: impl Fn() + Send + Sync + 'static) -> Self {
        Self { poke: Arc::new(poke) }
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
