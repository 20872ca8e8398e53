//! Handlers in the relay's own process, behind the inbox.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use outbox_sdk::{Backend, Handler, HandlerError, Inbox};

use super::{Delivery, Outcome, Sink};

/// Calls a [`Handler`]: the inbox row and the handler's effect commit in one transaction of the consumer's database, so
/// that the effect happens once however often the event is delivered.
///
/// While the database gives no transaction, the consumer pauses and no attempt is counted. Within 10 s that is certain;
/// so give the consumer a longer time limit.
///
/// Nobody deletes old rows of the inbox by itself: keep a clone of it and call [`Inbox::compact`] now and then, such as
/// once an hour.
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
            let Err(failure) = self.inbox.handle(&self.handler, delivery.envelope).await else {
                return Outcome::Delivered;
            };
            let error = failure.reason();
            match failure {
                HandlerError::Reject(_) => Outcome::Reject { error },
                HandlerError::Unavailable(_) => Outcome::Unavailable { error, after: None },
                // A retry; and what a later release may add.
                _ => Outcome::Retry { error, after: None },
            }
        }
        .boxed()
    }

    fn in_process(&self) -> bool {
        true
    }
}

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use outbox_sdk::Envelope;
    use sqlx::postgres::{PgConnectOptions, PgPool};
    use sqlx::{Postgres, Transaction};

    use super::*;

    struct Never;

    impl Handler<Postgres> for Never {
        async fn handle(&self, _: &Envelope, _: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
            Err(HandlerError::reject("it was called"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_refuses_connections_is_unavailable_before_the_pool_gives_up() {
        // Port 1 of this machine: nobody listens.
        let pool = PgPool::connect_lazy_with(PgConnectOptions::new().host("127.0.0.1").port(1));
        let sink = HandlerSink::new(Inbox::new(pool, "crm"), Never);
        let envelope = Envelope::example("customer.updated", 1, "{}");
        let outcome = sink
            .deliver(Delivery {
                envelope: &envelope,
                attempt: 1,
                replay: false,
                answer: &crate::sink::Answer::default(),
            })
            .await;
        let Outcome::Unavailable { error, after: None } = outcome else { panic!("{outcome:?}") };
        assert!(error.contains("within 10 s"), "{error}");
    }
}
