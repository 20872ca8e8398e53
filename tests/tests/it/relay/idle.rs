//! What a relay costs its database while nothing happens, and when many wake up at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_relay::{Relay, Settings};
use outbox_sdk::{Hint, Tables};
use outbox_tests::{PgTestDb, Proxy, RecordingSink, RunningRelay, eventually};
use sqlx::PgPool;

use super::order::hardly_polling;
use super::{World, crm, delivering, named};

/// What only the reading statement holds.
const READ: &str = "AS merged";
/// What only a relay's look at the slots holds: one in a third of a lease, up to a tenth sooner.
const LOOK: &str = "AS runnable_by";
/// So much faster than by default goes the time of the idle relay.
const SCALE: u32 = 10;
/// What is done at intervals: reads, looks, two renewals, the recorder. Of each there may be one more than intervals.
const PERIODIC: usize = 5;

fn count(statements: &[String], part: &str) -> usize {
    statements.iter().filter(|sql| sql.contains(part)).count()
}

/// Two consumers and listening, at the default settings: what the documentation says fits.
#[tokio::test]
async fn an_idle_minute_costs_at_most_90_statements() {
    let world = World::<PgTestDb>::new().await;
    world.publish(&["1", "2"]).await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    let defaults = Settings::default();
    let mut settings = delivering(Settings::default());
    settings.lease = defaults.lease / SCALE;
    settings.deadline = settings.lease / 3;
    settings.poll_max = defaults.poll_max / SCALE;
    settings.listen = true;
    // Every pause as short as it may be.
    settings.random = || 1.0;
    let pool = PgPool::connect_with(world.db.through(&proxy)).await.unwrap();
    let sinks = [RecordingSink::new(), RecordingSink::new()];
    let mut builder = Relay::builder(pool).settings(settings);
    for (n, sink) in sinks.iter().enumerate() {
        builder = builder.consumer(named(&format!("c{n}")), sink.clone());
    }
    let relay = RunningRelay::start(builder.build().unwrap());
    for sink in &sinks {
        sink.wait_for_delivered(2).await;
    }
    for n in 0..2 {
        world.settled(&format!("c{n}"), 2).await;
    }
    // By then the pauses have their full length.
    let looks = count(&proxy.statements(), LOOK) + 2;
    eventually("the relay is idle", async || count(&proxy.statements(), LOOK) >= looks).await;
    let (began, before) = (Instant::now(), proxy.statements().len());
    eventually("about two minutes have passed", async || count(&proxy.statements()[before..], LOOK) >= 12)
        .await;
    let statements = proxy.statements().split_off(before);
    // On a busy machine it takes longer to see that, and the relay goes on at its pace meanwhile.
    let minutes = (began.elapsed() * SCALE).as_secs_f64() / 60.0;
    relay.stop().await;
    let allowed = (90.0 * minutes).ceil() as usize + PERIODIC;
    assert!(statements.len() <= allowed, "{} in {minutes} minutes: {statements:#?}", statements.len());
}

/// Every relay hears the notification, and one has the slot.
#[tokio::test]
async fn one_insert_wakes_twenty_relays_and_one_reads() {
    const RELAYS: usize = 20;
    let world = World::<PgTestDb>::new().await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    let sink = RecordingSink::new();
    let mut relays = Vec::new();
    for _ in 0..RELAYS {
        relays.push(RunningRelay::start(listening(&world, &proxy, &sink)));
    }
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND application_name = 'relay' AND (query LIKE 'LISTEN%' OR query LIKE '%pg_listening_channels%')";
    eventually("all relays listen", async || {
        let listening: i64 = sqlx::query_scalar(listeners).fetch_one(&world.pool).await.unwrap();
        listening == RELAYS as i64 && world.consumer("crm").await.owner.is_some()
    })
    .await;
    let (hint, notifier) = Hint::notify(world.pool.clone(), &Tables::default());
    let notifier = tokio::spawn(notifier);
    let outbox = world.outbox.clone().with_hint(hint);
    for n in 1..=5 {
        let before = proxy.statements().len();
        let mut tx = outbox.begin(&world.pool).await.unwrap();
        outbox.publish_json(&mut tx, &super::changed("1", n)).await.unwrap();
        outbox.commit(tx).await.unwrap();
        sink.wait_for_delivered(n).await;
        let since = proxy.statements().split_off(before);
        // The first read of a connection is prepared by a request of its own.
        assert!(count(&since, READ) <= 2, "{since:#?}");
        assert!(since.len() < 2 * RELAYS, "{since:#?}");
    }
    for relay in relays {
        relay.stop().await;
    }
    drop(outbox);
    notifier.await.unwrap();
}

fn listening(world: &World<PgTestDb>, proxy: &Proxy, sink: &Arc<RecordingSink>) -> Relay<sqlx::Postgres> {
    let mut settings = hardly_polling();
    settings.listen = true;
    settings.lease = Duration::from_secs(60);
    let pool = PgPool::connect_lazy_with(world.db.through(proxy).application_name("relay"));
    Relay::builder(pool).settings(settings).consumer(crm(), sink.clone()).build().unwrap()
}
