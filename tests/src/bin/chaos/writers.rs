//! The services: transactions with a business row and events, most of them committed, and what each came to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outbox_sdk::{JsonEvent, Lane, Outbox};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::evidence::{Order, Outcome, Write};

/// The type of all events.
pub(crate) const EVENT_TYPE: &str = "customer.changed";

/// A transaction that ended before its COMMIT.
struct Lost;

/// Shared by all writers.
#[derive(Clone)]
pub(crate) struct Writers {
    pool: PgPool,
    outbox: Outbox,
    journal: Arc<Mutex<Vec<Write>>>,
    transactions: Arc<AtomicU64>,
    paused: Arc<AtomicBool>,
    stop: CancellationToken,
}

impl Writers {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self {
            pool,
            outbox: Outbox::new(),
            journal: Arc::default(),
            transactions: Arc::default(),
            paused: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    /// Writes until [`stop`](Self::stop), in as many tasks.
    pub(crate) fn start(&self, seed: u64, tasks: u64, pace: Duration) -> JoinSet<()> {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (writers, rng) =
                (self.clone(), StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(task)));
            running.spawn(writers.write(rng, pace));
        }
        running
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Lets the outbox fall idle for a while, or go on.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    pub(crate) fn journal(&self) -> Vec<Write> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn write(self, mut rng: StdRng, pace: Duration) {
        while !self.stop.is_cancelled() {
            if !self.paused.load(Relaxed) {
                let events = rng.random_range(1..4);
                self.transaction(&mut rng, events, Duration::ZERO, 0.12).await;
            }
            sleep(pace.mul_f64(rng.random_range(0.0..2.0))).await;
        }
    }

    /// One transaction of some events, held open for a while before its end.
    pub(crate) async fn transaction(&self, rng: &mut StdRng, events: usize, hold: Duration, rollback: f64) {
        let tx = self.transactions.fetch_add(1, Relaxed) + 1;
        let mut written = Vec::new();
        let outcome = match self.attempt(rng, tx, events, &mut written).await {
            // What was lost before its COMMIT was sent is rolled back.
            Err(Lost) => Outcome::RolledBack,
            Ok(open) => {
                sleep(hold).await;
                if rng.random_bool(rollback) {
                    let _ = open.rollback().await;
                    Outcome::RolledBack
                } else {
                    match self.outbox.commit(open).await {
                        Ok(()) => Outcome::Committed,
                        Err(_) => Outcome::Unknown,
                    }
                }
            }
        };
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.extend(written.into_iter().map(|write| Write { outcome, ..write }));
    }

    async fn attempt(
        &self,
        rng: &mut StdRng,
        tx: u64,
        events: usize,
        written: &mut Vec<Write>,
    ) -> Result<Transaction<'static, Postgres>, Lost> {
        let mut open = self.outbox.begin(&self.pool).await.map_err(|_| Lost)?;
        let row = i64::try_from(tx).unwrap_or(i64::MAX);
        let business = sqlx::query("INSERT INTO chaos.business (tx) VALUES ($1)").bind(row);
        business.execute(&mut *open).await.map_err(|_| Lost)?;
        for _ in 0..events {
            let (outbox, aggregate, order) = self.choose(rng);
            let event = JsonEvent::new(EVENT_TYPE, 1, "customer", "{}");
            let event = match &aggregate {
                Some(aggregate) => event.aggregate_id(aggregate),
                None => event,
            };
            let id = outbox.publish_json(&mut open, &event).await.map_err(|_| Lost)?.id;
            let lane = match &aggregate {
                Some(aggregate) => Lane::aggregate(None, "customer", aggregate),
                None => Lane::Single(id),
            };
            written.push(Write { tx, id, lane: lane.key(), order, outcome: Outcome::Unknown });
        }
        Ok(open)
    }

    fn choose(&self, rng: &mut StdRng) -> (Outbox, Option<String>, Order) {
        match rng.random_range(0..100) {
            // Lanes that are marked as having such writers.
            0..8 => {
                let aggregate = format!("free-{}", rng.random_range(0..3));
                (self.outbox.unordered(), Some(aggregate), Order::Unlocked)
            }
            8..12 => {
                let delay = Duration::from_millis(rng.random_range(50..600));
                let aggregate = rng.random_range(0..12).to_string();
                (self.outbox.delayed(delay), Some(aggregate), Order::Alone)
            }
            12..16 => (self.outbox.clone(), None, Order::Alone),
            _ => (self.outbox.clone(), Some(rng.random_range(0..12).to_string()), Order::Strict),
        }
    }
}
