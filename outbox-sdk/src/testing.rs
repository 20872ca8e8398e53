//! For the tests of services and consumers; feature `testing`, under `[dev-dependencies]`.
//!
//! A service: hand it an outbox that keeps a [`Journal`], and look at what it published. A handler: make the event as it
//! would arrive ([`received`]) and [`deliver`] it. Both need a transaction, and [`sqlite`] gives one without a server or a
//! file:
//!
//! ```
//! use outbox_sdk::testing::{self, Journal};
//! use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Outbox, OutboxEvent, Received};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use sqlx::{Sqlite, Transaction};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
//! #[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
//! struct CustomerRenamed {
//!     #[outbox(aggregate_id)]
//!     customer_id: i64,
//!     name: String,
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! async fn rename(tx: &mut Transaction<'_, Sqlite>, outbox: &Outbox) -> Result<(), outbox_sdk::PublishError> {
//!     outbox.publish(tx, &CustomerRenamed { customer_id: 7, name: "Ada".into() }).await.map(|_| ())
//! }
//!
//! struct Names;
//!
//! # #[cfg(feature = "sqlite")]
//! impl Handler<Sqlite> for Names {
//!     async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Sqlite>) -> Result<(), HandlerError> {
//!         let event = Received::<CustomerRenamed>::read(event)?;
//!         sqlx::query("INSERT INTO names (name) VALUES (?)").bind(event.payload.name).execute(&mut **tx).await?;
//!         Ok(())
//!     }
//! }
//!
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), HandlerError> {
//! let pool = testing::sqlite().await?;
//!
//! // The service.
//! let journal = Journal::default();
//! let mut tx = pool.begin().await?;
//! rename(&mut tx, &Outbox::new().with_journal(&journal)).await?;
//! tx.commit().await?;
//! let events: Vec<CustomerRenamed> = journal.published()?;
//! assert_eq!(events, [CustomerRenamed { customer_id: 7, name: "Ada".into() }]);
//!
//! // The consumer.
//! sqlx::query("CREATE TABLE names (name TEXT)").execute(&pool).await?;
//! let envelope = testing::received(&events[0])?;
//! assert_eq!(testing::deliver(&pool, &Names, &envelope).await?, Effect::Done);
//! assert_eq!(testing::deliver(&pool, &Names, &envelope).await?, Effect::AlreadyProcessed);
//! let names: Vec<String> = sqlx::query_scalar("SELECT name FROM names").fetch_all(&pool).await?;
//! assert_eq!(names, ["Ada"]);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! A handler with statements of PostgreSQL needs a PostgreSQL. In a transaction that is rolled back, tests leave nothing
//! behind and do not see each other:
//!
//! ```
//! # #[cfg(feature = "postgres")]
//! # async fn test<H: outbox_sdk::Handler<sqlx::Postgres>>(
//! #     pool: sqlx::PgPool, handler: H, envelope: outbox_sdk::Envelope,
//! # ) -> Result<(), outbox_sdk::HandlerError> {
//! let mut tx = pool.begin().await?;
//! handler.handle(&envelope, &mut tx).await?;
//! let name: String = sqlx::query_scalar("SELECT name FROM names").fetch_one(&mut *tx).await?;
//! assert_eq!(name, "Ada");
//! tx.rollback().await?;
//! # Ok(())
//! # }
//! ```

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::DeserializeOwned;
use sqlx::Pool;

use crate::backend::Backend;
use crate::consume::{Handler, HandlerError};
use crate::envelope::{Envelope, NewEnvelope, Published, Timestamp};
use crate::error::PublishError;
use crate::event::OutboxEvent;
use crate::inbox::{Effect, Inbox};
#[cfg(feature = "sqlite")]
use crate::migrate::{MigrateError, Migrator};
use crate::outbox::Outbox;

/// What an outbox has written, in order: give it to [`Outbox::with_journal`]. Whether the transaction was committed is not
/// in it. Clones share one journal.
#[derive(Debug, Clone, Default)]
pub struct Journal(Arc<Mutex<Vec<Envelope>>>);

impl Journal {
    /// Everything that was written so far, as consumers would receive it; times are the epoch.
    #[must_use]
    pub fn envelopes(&self) -> Vec<Envelope> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The payloads of one event's type and major.
    ///
    /// # Errors
    /// The first payload that `E` cannot read: what it writes and what it reads differ.
    pub fn published<E: OutboxEvent + DeserializeOwned>(&self) -> Result<Vec<E>, serde_json::Error> {
        let of_type = |envelope: &Envelope| {
            (envelope.event_type.as_str(), envelope.schema_version) == (E::EVENT_TYPE, E::SCHEMA_VERSION)
        };
        let envelopes = self.envelopes().into_iter().filter(of_type);
        envelopes.map(|envelope| serde_json::from_str(&envelope.payload)).collect()
    }

    pub(crate) fn note(&self, event: NewEnvelope, published: Published) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arrived(event, published));
    }
}

/// The event as a consumer of its major receives it: id 1, times at the epoch, no context. Each call makes another
/// event, with an `event_id` of its own.
///
/// # Errors
/// As [`Outbox::publish`]: the event could not be published.
pub fn received<E: OutboxEvent>(event: &E) -> Result<Envelope, PublishError> {
    let envelope = Outbox::new().envelope(event)?;
    let published = Published { id: 1, event_id: envelope.event_id };
    Ok(arrived(envelope, published))
}

/// A database in memory with the tables of outbox and inbox, which ends with its pool. Create what the code under test
/// needs beside them.
///
/// The pool has one connection: while a transaction is open on it, everything else that wants one waits.
///
/// # Errors
/// When the tables cannot be made.
///
/// # Panics
/// sqlx panics when it has no runtime: switch on its feature `runtime-tokio` or another one.
#[cfg(feature = "sqlite")]
pub async fn sqlite() -> Result<sqlx::SqlitePool, MigrateError> {
    // The data goes with the connection, so there is one, and it stays.
    let pool = sqlx::sqlite::SqlitePoolOptions::new()
        .max_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(sqlx::sqlite::SqliteConnectOptions::new().in_memory(true));
    Migrator::outbox().run(&pool).await?;
    Migrator::inbox().run(&pool).await?;
    Ok(pool)
}

/// Hands the event to the handler as its consumer does: in a transaction with an inbox row, which is committed when the
/// handler agrees and rolled back when it does not. Once that was committed, the same event has no effect any more.
///
/// The database needs the table of [`Migrator::inbox`](crate::Migrator::inbox), which [`sqlite`] has made.
///
/// # Errors
/// As [`Inbox::handle`]: above all what the handler answers, by which a relay would try again or not.
pub async fn deliver<DB: Backend, H: Handler<DB>>(
    pool: &Pool<DB>,
    handler: &H,
    event: &Envelope,
) -> Result<Effect, HandlerError> {
    Inbox::new(pool.clone(), "testing").handle(handler, event).await
}

fn arrived(event: NewEnvelope, published: Published) -> Envelope {
    Envelope {
        id: published.id,
        event_id: published.event_id,
        tenant_id: event.tenant_id,
        event_type: event.event_type,
        schema_version: event.schema_version,
        aggregate_type: event.aggregate_type,
        aggregate_id: event.aggregate_id,
        audit_log_id: event.audit_log_id,
        correlation_id: event.correlation_id,
        causation_id: event.causation_id,
        actor: event.actor,
        traceparent: event.traceparent,
        tracestate: event.tracestate,
        payload: event.payload,
        older_payloads: event.older_payloads,
        occurred_at: event.occurred_at.unwrap_or(Timestamp::from_micros(0)),
        created_at: Timestamp::from_micros(0),
    }
}

#[cfg(feature = "sqlite")]
#[cfg(test)]
mod tests {
    use sqlx::{Database, Executor, IntoArguments, Sqlite, Transaction};

    use super::*;
    use crate::JsonEvent;

    /// Generic over the database, as a handler of a library may be; refuses the first time.
    struct Picky(Mutex<u32>);

    impl<DB: Backend> Handler<DB> for Picky
    where
        for<'c> &'c mut <DB as Database>::Connection: Executor<'c, Database = DB>,
        <DB as Database>::Arguments: IntoArguments<DB>,
    {
        async fn handle(&self, _: &Envelope, tx: &mut Transaction<'_, DB>) -> Result<(), HandlerError> {
            sqlx::query("INSERT INTO seen VALUES (1)").execute(&mut **tx).await?;
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *calls += 1;
            if *calls == 1 { Err(HandlerError::reject("not this one")) } else { Ok(()) }
        }
    }

    fn event() -> Envelope {
        let event = JsonEvent::new("thing.moved", 1, "thing", "{}").aggregate_id("7");
        let envelope = Outbox::new().json_envelope(&event).unwrap();
        let published = Published { id: 1, event_id: envelope.event_id };
        arrived(envelope, published)
    }

    #[tokio::test]
    async fn a_refusal_leaves_nothing_and_agreement_counts_once() {
        let pool = sqlite().await.unwrap();
        pool.execute("CREATE TABLE seen (n INTEGER)").await.unwrap();
        let seen = async || {
            sqlx::query_scalar::<_, i64>("SELECT count(*) FROM seen").fetch_one(&pool).await.unwrap()
        };
        let (handler, event) = (Picky(Mutex::default()), event());

        let refused = deliver::<Sqlite, _>(&pool, &handler, &event).await.unwrap_err();
        assert!(
            matches!(&refused, HandlerError::Reject(reason) if reason.to_string() == "not this one"),
            "{refused}"
        );
        assert_eq!(seen().await, 0);
        assert_eq!(deliver::<Sqlite, _>(&pool, &handler, &event).await.unwrap(), Effect::Done);
        assert_eq!(deliver::<Sqlite, _>(&pool, &handler, &event).await.unwrap(), Effect::AlreadyProcessed);
        assert_eq!((seen().await, *handler.0.lock().unwrap()), (1, 2));
    }

    #[tokio::test]
    async fn scratch_databases_have_the_tables_and_nothing_in_common() {
        let (one, other) = (sqlite().await.unwrap(), sqlite().await.unwrap());
        one.execute("CREATE TABLE only_here (n INTEGER)").await.unwrap();
        assert!(other.execute("SELECT * FROM only_here").await.is_err());
        let outbox = Outbox::new();
        let mut tx = outbox.begin(&one).await.unwrap();
        outbox.publish_json(&mut tx, &JsonEvent::new("thing.moved", 1, "thing", "{}")).await.unwrap();
        outbox.commit(tx).await.unwrap();
    }
}
