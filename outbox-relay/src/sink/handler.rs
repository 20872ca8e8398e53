//! Handlers in the relay's own process, behind the inbox.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use outbox_sdk::{Backend, Handler, HandlerError, Inbox};

use super::{Delivery, Outcome, Sink};

/// Calls a [`Handler`]: the inbox row and the handler's effect commit in one transaction of the consumer's database, so
/// that the effect happens once however often the event is delivered.
#[derive(Debug)]
pub struct HandlerSink<DB: Backend, H> {
    inbox: Inbox<DB>,
    handler: H,
}

impl<DB: Backend, H: Handler<DB>> HandlerSink<DB, H> {
    /// A sink that calls `handler` through `inbox`.
    #[must_use]
    pub fn new(inbox: Inbox<DB>, handler: H) -> Self {
        Self { inbox, handler }
    }
}

impl<DB: Backend, H: Handler<DB>> Sink for HandlerSink<DB, H> {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> BoxFuture<'a, Outcome> {
        async move {
            match self.inbox.handle(&self.handler, delivery.envelope).await {
                Ok(_) => Outcome::Delivered,
                Err(HandlerError::Retry(error)) => Outcome::Retry { error: error.to_string(), after: None },
                Err(HandlerError::Reject(error)) => Outcome::Reject { error },
            }
        }
        .boxed()
    }
}
