//! The turn of engines that go one at a time in one process: first come, first served.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Where an engine stands with its turn.
#[derive(Default)]
pub(crate) enum Turn {
    /// It has not asked.
    #[default]
    None,
    /// It waits behind those that asked before.
    Queued(BoxFuture<'static, Result<OwnedSemaphorePermit, AcquireError>>),
    /// It may have one event on its way; others wait until this is dropped.
    Ours {
        _permit: OwnedSemaphorePermit,
        /// The event has been chosen.
        used: bool,
    },
}

impl Turn {
    /// Asks for the turn, unless it was asked for; true = it is this engine's.
    pub(crate) fn ask(&mut self, turns: &Arc<Semaphore>) -> bool {
        if let Self::None = self {
            *self = Self::Queued(Arc::clone(turns).acquire_owned().boxed());
        }
        if let Self::Queued(waiting) = self
            && let Some(granted) = waiting.now_or_never()
        {
            *self = Self::granted(granted);
        }
        matches!(self, Self::Ours { .. })
    }

    /// Waits for a turn that was asked for; for ever if none was. Cancelling it keeps the place.
    pub(crate) async fn granted_to_us(&mut self) {
        match self {
            Self::Queued(waiting) => *self = Self::granted(waiting.await),
            Self::None | Self::Ours { .. } => std::future::pending().await,
        }
    }

    fn granted(permit: Result<OwnedSemaphorePermit, AcquireError>) -> Self {
        // Nobody closes the semaphore; if one did, asking again would do no harm.
        permit.map_or(Self::None, |permit| Self::Ours { _permit: permit, used: false })
    }

    /// The turn's event was chosen.
    pub(crate) fn uses(&mut self) {
        if let Self::Ours { used, .. } = self {
            *used = true;
        }
    }

    /// A turn that was used ends when nothing of its event is left to do; then the others have theirs.
    pub(crate) fn end(&mut self, left: bool) {
        if !left && self.is_used() {
            *self = Self::None;
        }
    }

    /// Lets the others go first, unless an event is on its way.
    pub(crate) fn leave_unused(&mut self) {
        if !self.is_used() {
            *self = Self::None;
        }
    }

    fn is_used(&self) -> bool {
        matches!(self, Self::Ours { used: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asked_first_has_the_turn_first() {
        let turns = Arc::new(Semaphore::new(1));
        let [mut first, mut second, mut third] = [Turn::None, Turn::None, Turn::None];
        assert!(first.ask(&turns) && !second.ask(&turns) && !third.ask(&turns));
        first.uses();
        first.leave_unused();
        first.end(true);
        assert!(!second.ask(&turns), "an event is on its way");

        first.end(false);
        assert!(!first.ask(&turns), "who had the turn is behind those that wait");
        assert!(!third.ask(&turns) && second.ask(&turns));
        second.leave_unused();
        assert!(third.ask(&turns), "a turn that is given up goes to the next");
        drop(third);
        assert!(first.ask(&turns));
    }

    #[tokio::test]
    async fn a_turn_wakes_who_waits_for_it() {
        let turns = Arc::new(Semaphore::new(1));
        let [mut first, mut second] = [Turn::None, Turn::None];
        assert!(first.ask(&turns) && !second.ask(&turns));
        assert!(second.granted_to_us().now_or_never().is_none());
        drop(first);
        second.granted_to_us().await;
        assert!(second.ask(&turns));
    }
}
