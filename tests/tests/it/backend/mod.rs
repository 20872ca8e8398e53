//! What every database backend must do alike. A case is one function, generic over the database; `on_every_database!`
//! makes a test of it for each.

mod admin;
mod append;
mod events;
mod history;
mod maintain;
mod migrate;
mod notices;
mod operate;
mod progress;
mod read;
mod replays;

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Batch, Claim, ClaimRequest, Claimed, Fence, Read, Registration, Settled, Settlement,
    Start,
};
use outbox_sdk::{Backend, Migrator, NewEnvelope, Progress, Published, Tables};
use outbox_tests::{TestDb, eventually, on_every_database};
use sqlx::Pool;
use sqlx::pool::PoolConnection;

const LONG: Duration = Duration::from_secs(600);

/// A migrated database and the calls that most cases make.
struct Outbox<T: TestDb> {
    // Before the database, so that it closes first.
    pool: Pool<T::Db>,
    tables: Tables,
    db: T,
}

impl<T: TestDb> Outbox<T> {
    async fn migrated() -> Self {
        let db = T::create().await;
        let pool = db.connect().await;
        Migrator::outbox().run(&pool).await.unwrap();
        Self { pool, tables: Tables::default(), db }
    }

    async fn conn(&self) -> PoolConnection<T::Db> {
        self.pool.acquire().await.unwrap()
    }

    async fn append(&self, event: &NewEnvelope) -> Published {
        self.append_all(std::slice::from_ref(event)).await.remove(0)
    }

    async fn append_all(&self, events: &[NewEnvelope]) -> Vec<Published> {
        let mut tx = T::Db::begin_write(&self.pool).await.unwrap();
        let answers = T::Db::append_all(&mut tx, &self.tables, events, Default::default()).await.unwrap();
        tx.commit().await.unwrap();
        answers
    }

    /// As many events as asked for, of one aggregate.
    async fn some_events(&self, number: usize) -> Vec<Published> {
        let events: Vec<_> = (0..number).map(|_| event("1")).collect();
        self.append_all(&events).await
    }

    async fn read(&self, read: &Read<'_>) -> Batch {
        T::Db::read(&mut *self.conn().await, &self.tables, read).await.unwrap()
    }

    async fn register(&self, name: &str, start: Option<Start>) -> outbox_sdk::backend::Registered {
        self.configure(name, start, "{}").await
    }

    async fn configure(
        &self,
        name: &str,
        start: Option<Start>,
        config: &str,
    ) -> outbox_sdk::backend::Registered {
        let consumer = Registration {
            name: name.to_owned(),
            start,
            config: config.to_owned(),
            slots: 1,
            required_for_retention: false,
        };
        T::Db::register(&mut *self.conn().await, &self.tables, &[consumer]).await.unwrap().remove(0)
    }

    async fn ask(&self, claim: &ClaimRequest<'_>) -> Claim {
        T::Db::claim(&mut *self.conn().await, &self.tables, claim).await.unwrap()
    }

    async fn try_claim(&self, consumer: &str, owner: &str, lease: Duration) -> Option<Claimed> {
        match self.ask(&ClaimRequest { consumer, slot: 0, owner, lease, config: "{}", slots: 1 }).await {
            Claim::Claimed(claimed) => Some(*claimed),
            Claim::Taken => None,
            refused => panic!("{refused:?}"),
        }
    }

    async fn claim(&self, consumer: &str) -> Claimed {
        self.try_claim(consumer, "relay", LONG).await.expect("a free slot")
    }

    /// Registers the consumer `crm` and claims its slot.
    async fn claimed(&self) -> Claimed {
        self.register("crm", None).await;
        self.claim("crm").await
    }

    /// Claims the slot of an owner whose lease is over.
    async fn take_over(&self, consumer: &str) -> Claimed {
        let mut taken = None;
        eventually("the lease is over", async || {
            taken = self.try_claim(consumer, "successor", LONG).await;
            taken.is_some()
        })
        .await;
        taken.unwrap()
    }

    async fn settle(&self, settlement: &Settlement<'_>) -> Settled {
        T::Db::settle(&mut *self.conn().await, &self.tables, settlement).await.unwrap()
    }

    /// Settles and gives out the fence of the next write.
    async fn settle_done(&self, settlement: &Settlement<'_>) -> Fence {
        match self.settle(settlement).await {
            Settled::Done { fence, .. } => fence,
            refused @ Settled::Refused { .. } => panic!("{refused:?}"),
        }
    }

    async fn execute(&self, sql: &str) {
        T::execute(&mut *self.conn().await, sql).await.unwrap();
    }

    async fn rows(&self, table: &str) -> i64 {
        T::count(&mut *self.conn().await, &format!("SELECT count(*) FROM {}", T::table(table))).await
    }
}

fn event(aggregate_id: &str) -> NewEnvelope {
    let mut event = NewEnvelope::new("customer.updated", 1, "customer", r#"{"n": 1}"#.to_owned());
    event.aggregate_id = Some(aggregate_id.to_owned());
    event
}

fn with_payload(payload: &str) -> NewEnvelope {
    let mut event = event("1");
    payload.clone_into(&mut event.payload);
    event
}

/// A read of everything from the beginning.
fn everything() -> Read<'static> {
    Read {
        gaps: &[],
        above: 0,
        limit: 1_000,
        max_bytes: 1 << 30,
        max_payload_bytes: 1 << 20,
        without_payloads: false,
        notices: false,
    }
}

/// The owner's write that changes nothing but the lease.
fn renewal<'a>(fence: &'a Fence, settled: &'a Progress, void: &'a Progress) -> Settlement<'a> {
    Settlement {
        consumer: "crm",
        slot: 0,
        fence,
        lease: LONG,
        anchor: None,
        settled,
        void,
        pause: None,
        stalls: &[],
        resumed: &[],
        dead: &[],
        replays: &[],
        release: false,
    }
}
