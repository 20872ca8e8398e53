//! Notifications between processes: a hint only, and one that comes back by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outbox_sdk::{Hint, JsonEvent, Outbox, Tables};
use outbox_tests::{Fate, PATIENCE, PgTestDb, Proxy, RecordingSink, RunningRelay, eventually};
use sqlx::postgres::PgListener;
use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::relay::order::hardly_polling;
use crate::relay::{World, changed, crm};

/// The session of a relay that listens, whatever it has asked since.
const LISTENERS: &str = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'relay' \
    AND (query LIKE 'LISTEN%' OR query LIKE '%pg_listening_channels%')";
/// What is promised once the server is there again, with slack for a loaded machine.
const PROMPTLY: Duration = Duration::from_secs(5 * 2);

/// A relay that hears notifications and hardly polls, behind a proxy, and another process that publishes.
struct Listening {
    proxy: Proxy,
    sink: Arc<RecordingSink>,
    relay: RunningRelay,
    outbox: Outbox,
    notifier: JoinHandle<()>,
    published: usize,
    world: World<PgTestDb>,
}

impl Listening {
    async fn start() -> Self {
        let world = World::<PgTestDb>::new().await;
        let proxy = Proxy::start(world.db.server_addr()).await;
        let mut settings = hardly_polling();
        settings.listen = true;
        settings.deadline = Duration::from_secs(1);
        let sink = RecordingSink::new();
        let pool = PgPool::connect_with(world.db.through(&proxy).application_name("relay")).await.unwrap();
        let relay = outbox_relay::Relay::builder(pool).settings(settings).consumer(crm(), sink.clone());
        let relay = RunningRelay::start(relay.build().unwrap());
        // As another process has it: it knows nothing of the relay but the database.
        let (hint, notifier) = Hint::notify(world.pool.clone(), &Tables::default());
        let notifier = tokio::spawn(notifier);
        let outbox = world.outbox.clone().with_hint(hint);
        let listening = Self { proxy, sink, relay, outbox, notifier, published: 0, world };
        eventually("the slot is claimed", async || listening.world.consumer("crm").await.owner.is_some())
            .await;
        listening.listens_but(&[]).await;
        listening
    }

    async fn listeners(&self) -> Vec<i32> {
        let pids = sqlx::query_scalar(AssertSqlSafe(format!("SELECT pid {LISTENERS}")));
        pids.fetch_all(&self.world.pool).await.unwrap_or_default()
    }

    /// Waits until a session listens that is none of these.
    async fn listens_but(&self, old: &[i32]) {
        eventually("another session listens", async || {
            self.listeners().await.iter().any(|pid| !old.contains(pid))
        })
        .await;
    }

    /// One event comes promptly: once for the first session, and again after a fault.
    async fn delivers(&mut self, event: &JsonEvent) {
        let began = Instant::now();
        loop {
            // The server may refuse the publisher too, at first.
            let Ok(mut tx) = self.outbox.begin(&self.world.pool).await else { continue };
            if self.outbox.publish_json(&mut tx, event).await.is_ok() && self.outbox.commit(tx).await.is_ok()
            {
                break;
            }
        }
        self.published += 1;
        self.sink.wait_for_delivered(self.published).await;
        assert!(began.elapsed() < PROMPTLY, "delivered after {:?}", began.elapsed());
    }

    async fn delivers_one(&mut self) {
        self.delivers(&changed("1", self.published)).await;
    }

    async fn stop(self) {
        self.relay.stop().await;
        drop(self.outbox);
        self.notifier.await.expect("the notifier ends with the last hint");
    }
}

async fn terminate(world: &World<PgTestDb>, whom: &str) {
    let kill = format!("SELECT pg_terminate_backend(pid) {whom}");
    let _ = sqlx::query(AssertSqlSafe(kill)).execute(&world.pool).await;
}

#[tokio::test]
async fn a_relay_whose_listening_session_was_ended_listens_again() {
    let mut listening = Listening::start().await;
    for _ in 0..2 {
        listening.delivers_one().await;
        let old = listening.listeners().await;
        terminate(&listening.world, LISTENERS).await;
        listening.listens_but(&old).await;
        listening.delivers_one().await;
    }
    listening.stop().await;
}

#[tokio::test]
async fn a_relay_that_was_refused_for_a_while_listens_again() {
    let mut listening = Listening::start().await;
    listening.delivers_one().await;
    listening.world.db.take_away().await;
    // Longer than the relay's lease, and than any of its pauses.
    let refused = Instant::now();
    eventually("the outage has lasted", async || refused.elapsed() > Duration::from_secs(3)).await;
    listening.world.db.bring_back().await;
    listening.delivers_one().await;
    listening.stop().await;
}

#[tokio::test]
async fn a_relay_whose_server_took_no_writes_for_a_while_goes_on() {
    let mut listening = Listening::start().await;
    listening.delivers_one().await;
    let name = listening.world.db.name().to_owned();
    let others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let set = async |listening: &Listening, what: &str| {
        let sql = format!("ALTER DATABASE {name} {what}");
        let mut conn = listening.world.pool.acquire().await.unwrap();
        sqlx::raw_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
            .execute(&mut *conn)
            .await
            .unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *conn).await.unwrap();
    };
    set(&listening, "SET default_transaction_read_only = on").await;
    let old = listening.listeners().await;
    terminate(&listening.world, others).await;
    listening.listens_but(&old).await;
    let refused = Instant::now();
    eventually("the outage has lasted", async || refused.elapsed() > Duration::from_secs(3)).await;
    set(&listening, "RESET default_transaction_read_only").await;
    terminate(&listening.world, others).await;
    listening.delivers_one().await;
    listening.stop().await;
}

#[tokio::test]
async fn a_listening_connection_that_died_unnoticed_is_found_and_replaced() {
    let mut listening = Listening::start().await;
    listening.delivers_one().await;
    let old = listening.listeners().await;
    // The first question for a sign of life gets no answer, and nothing else comes on that connection any more.
    let asked = AtomicBool::new(false);
    listening.proxy.rule(move |sql| {
        let dies = sql.contains("pg_listening_channels") && !asked.swap(true, Ordering::Relaxed);
        if dies { Fate::HoldAnswer } else { Fate::Pass }
    });
    listening.listens_but(&old).await;
    listening.delivers_one().await;
    listening.stop().await;
}

#[tokio::test]
async fn notifications_say_nothing_about_the_events_and_no_commit_fails_of_them() {
    let mut listening = Listening::start().await;
    let mut heard = PgListener::connect_with(&listening.world.pool).await.unwrap();
    heard.listen("outbox_event").await.unwrap();
    // Around the limit of a notification's payload, and far above; four bytes a character.
    for characters in [7_990 / 4, 8_001 / 4 + 1, 250_000] {
        let payload = serde_json::json!({ "n": "\u{1f980}".repeat(characters) }).to_string();
        let event = JsonEvent::new("customer.changed", 1, "customer", payload).aggregate_id("1");
        listening.delivers(&event).await;
    }
    let mut tx = listening.outbox.begin(&listening.world.pool).await.unwrap();
    for n in 0..10_000 {
        let aggregate = (n % 50).to_string();
        listening.outbox.publish_json(&mut tx, &changed(&aggregate, n)).await.unwrap();
    }
    listening.outbox.commit(tx).await.unwrap();
    listening.published += 10_000;
    listening.sink.wait_for_delivered(listening.published).await;
    let first = timeout(PATIENCE, heard.recv()).await.unwrap().unwrap().payload().to_owned();
    assert!(first.len() < 100);
    while let Some(next) = heard.next_buffered() {
        assert_eq!(next.payload(), first);
    }
    listening.stop().await;
}
