//! Where events go. A new destination is one file or folder here, one feature and one configuration variant.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use outbox_sdk::Envelope;

pub mod handler;
#[cfg(feature = "webhook")]
pub mod webhook;

/// A destination of events.
///
/// The relay calls it for one event of a lane at a time, lanes in parallel, with no database transaction open.
pub trait Sink: Send + Sync + 'static {
    /// Delivers one event. Dropping the future must be safe at any await: the relay drops it at the consumer's time
    /// limit and when it loses the lease. A panic counts as [`Outcome::Retry`].
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> BoxFuture<'a, Outcome>;

    /// Whether an event can end the relay's process, because foreign code handles it there. Then, after a relay that
    /// ended without giving the consumer back, events go one at a time at first, each attempt written before it is
    /// made: an event that ends the process again and again is dead after its attempts.
    fn in_process(&self) -> bool {
        false
    }
}

/// One attempt to deliver one event.
#[derive(Debug, Clone, Copy)]
pub struct Delivery<'a> {
    /// The event.
    pub envelope: &'a Envelope,
    /// From 1. More than 1 does not mean that an earlier attempt arrived.
    pub attempt: u32,
    /// An operator sends a dead letter again: the order of its lane does not hold for it.
    pub replay: bool,
    /// Where the sink may note what the destination answered.
    pub answer: &'a Answer,
}

/// What a destination's protocol answered: for the history of attempts that `outbox why` shows. Nothing is decided by it.
#[derive(Debug, Default)]
pub struct Answer {
    /// Zero: none.
    status: AtomicU16,
}

impl Answer {
    /// Notes a status, such as that of an HTTP response.
    pub fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// The status, if one was noted.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }
}

/// What a destination answered.
///
/// Error texts are stored with the event and logged: no payload, no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It has the event.
    Delivered,
    /// Not now: the lane waits, by the consumer's retry policy.
    Retry {
        /// What went wrong.
        error: String,
        /// The destination's own wish; honoured between the policy's delay and one hour.
        after: Option<Duration>,
    },
    /// Never: the event is dead at once.
    Reject {
        /// What is wrong with it.
        error: String,
    },
    /// The destination will take no event any more, whichever it is: the consumer pauses, all its slots, until an operator
    /// resumes it. No attempt is counted, and the event goes first again then.
    Gone {
        /// What it said.
        error: String,
    },
    /// The destination is down: the consumer pauses, and no attempt is counted.
    Unavailable {
        /// What went wrong.
        error: String,
        /// The destination's own wish; honoured between the backoff's delay and one hour.
        after: Option<Duration>,
    },
}
