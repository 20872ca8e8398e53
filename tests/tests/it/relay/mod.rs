//! What the relay promises, the same on every database.

mod consumers;
mod decisions;
mod failure;
mod handlers;
mod idle;
mod maintenance;
mod majors;
mod operate;
pub(crate) mod order;
mod ownership;
mod places;
mod schemas;
mod shared;

use std::sync::Arc;

use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::Sink;
use outbox_relay::{MissingSchema, Relay, RelayBuilder, Settings};
use outbox_sdk::backend::{ConsumerRow, DeadLetter, LetterFilter, Operate as _};
use outbox_sdk::{JsonEvent, Migrator, Outbox, Published, Tables};
use outbox_tests::{eventually, quick_settings};
use sqlx::Pool;
use std::time::Duration;

use crate::databases::TestDb;

/// A migrated database with an outbox.
pub(crate) struct World<T: TestDb> {
    // Before the database, so that it closes first.
    pub(crate) pool: Pool<T::Db>,
    pub(crate) outbox: Outbox,
    pub(crate) db: T,
}

impl<T: TestDb> World<T> {
    pub(crate) async fn new() -> Self {
        let db = T::create().await;
        let pool = db.connect().await;
        Migrator::outbox().run(&pool).await.unwrap();
        Self { pool, outbox: Outbox::new(), db }
    }

    /// A relay in which events need no schema.
    pub(crate) fn builder(&self) -> RelayBuilder<T::Db> {
        self.builder_with(delivering(quick_settings()))
    }

    pub(crate) fn builder_with(&self, settings: Settings) -> RelayBuilder<T::Db> {
        Relay::builder(self.pool.clone()).settings(settings)
    }

    /// Delivers what is due to one consumer that wants everything, and gives the slot back.
    pub(crate) async fn drain(&self, sink: &Arc<impl Sink>) -> u64 {
        self.builder().consumer(crm(), sink.clone()).build().unwrap().run_once().await.unwrap()
    }

    /// Publishes events of these aggregates, all in one transaction; the payload counts them.
    pub(crate) async fn publish(&self, aggregates: &[&str]) -> Vec<Published> {
        let mut tx = self.outbox.begin(&self.pool).await.unwrap();
        let mut published = Vec::new();
        for (n, aggregate) in aggregates.iter().enumerate() {
            published.push(self.outbox.publish_json(&mut tx, &changed(aggregate, n)).await.unwrap());
        }
        self.outbox.commit(tx).await.unwrap();
        published
    }

    pub(crate) async fn publish_event(&self, event: &JsonEvent) -> Published {
        let mut tx = self.outbox.begin(&self.pool).await.unwrap();
        let published = self.outbox.publish_json(&mut tx, event).await.unwrap();
        self.outbox.commit(tx).await.unwrap();
        published
    }

    /// The consumer's row; waits until it is registered.
    pub(crate) async fn consumer(&self, name: &str) -> ConsumerRow {
        let mut row = None;
        eventually("the consumer is registered", async || {
            row = self.consumers().await.into_iter().find(|row| row.name == name);
            row.is_some()
        })
        .await;
        row.unwrap()
    }

    pub(crate) async fn consumers(&self) -> Vec<ConsumerRow> {
        let mut conn = self.pool.acquire().await.unwrap();
        T::Db::consumers(&mut conn, &Tables::default()).await.unwrap()
    }

    pub(crate) async fn dead(&self) -> Vec<DeadLetter> {
        let mut conn = self.pool.acquire().await.unwrap();
        T::Db::dead_letters(&mut conn, &Tables::default(), &LetterFilter::default(), None, 1_000)
            .await
            .unwrap()
    }

    /// Waits until the consumer has settled everything up to this id and no lane waits.
    pub(crate) async fn settled(&self, consumer: &str, through: i64) {
        self.settled_but(consumer, through, 0).await;
    }

    /// Waits until the consumer has settled everything up to this id and so many lanes wait.
    pub(crate) async fn settled_but(&self, consumer: &str, through: i64, lanes: u64) {
        eventually("everything is settled", async || {
            let row = self.consumer(consumer).await;
            row.settled.to_multirange() == format!("{{[1,{})}}", through + 1) && row.stalled_lanes == lanes
        })
        .await;
    }
}

/// Events whose type has no schema are delivered.
pub(crate) fn delivering(mut settings: Settings) -> Settings {
    settings.missing_schema = MissingSchema::Deliver;
    settings
}

/// A consumer of everything that retries soon.
pub(crate) fn crm() -> ConsumerSpec {
    named("crm")
}

pub(crate) fn named(name: &str) -> ConsumerSpec {
    let schedule = Schedule::List(vec![Duration::from_millis(20)]);
    let retry = RetryPolicy { schedule, max_attempts: 3 };
    ConsumerSpec::new(name).unwrap().retry(retry).timeout(Duration::from_secs(1)).unwrap()
}

/// `customer.changed` about an aggregate; the empty one is no aggregate.
pub(crate) fn changed(aggregate: &str, n: usize) -> JsonEvent {
    let event = JsonEvent::new("customer.changed", 1, "customer", format!(r#"{{"n": {n}}}"#));
    if aggregate.is_empty() { event } else { event.aggregate_id(aggregate) }
}

pub(crate) fn ids(published: &[Published]) -> Vec<i64> {
    published.iter().map(|event| event.id).collect()
}
