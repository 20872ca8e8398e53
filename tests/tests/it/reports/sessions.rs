//! Futures that are dropped and connections that are cut leave no transaction open, and lose nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbox_relay::sink::Outcome;
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::{Call, Fate, PgTestDb, Proxy, RecordingSink, RunningRelay, eventually};
use sqlx::{Postgres, Transaction};
use tokio::time::timeout;

use super::{LEFT_OPEN, builder_through, count, impatient, pool_through};
use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, changed, crm, ids, named};

struct Nothing;

impl Handler<Postgres> for Nothing {
    async fn handle(&self, _: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        Ok(PgTestDb::execute(tx, "SELECT 1").await?)
    }
}

/// What is dropped midway.
#[derive(Clone, Copy, Debug)]
enum Work {
    Begin,
    Publish,
    Inbox,
    InboxBegin,
}

/// 2,000 futures on pools of one connection, dropped at any moment of begin, publish, commit and inbox.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_futures_leave_no_session_in_a_transaction() {
    const DROPS: usize = 500;
    let world = World::<PgTestDb>::new().await;
    Migrator::inbox().run(&world.pool).await.unwrap();
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), "CREATE TABLE plain (n int)").await.unwrap();
    let proxy = Proxy::start(world.db.server_addr()).await;
    proxy.delay(Duration::from_micros(500));
    let (mut sure, mut unsure) = (0, 0);
    let works = [Work::Begin, Work::Publish, Work::Inbox, Work::InboxBegin];
    let mut pools = Vec::new();
    let mut dropping = tokio::task::JoinSet::new();
    for work in works {
        let pool = pool_through(&world, &proxy, 1).await;
        pools.push(pool.clone());
        let outbox = world.outbox.clone();
        dropping.spawn(async move {
            let inbox = Inbox::new(pool.clone(), "crm");
            let (mut done, mut dropped) = (0, 0);
            for n in 0..DROPS {
                let doing = async {
                    match work {
                        Work::Begin => drop(outbox.begin(&pool).await.unwrap()),
                        Work::InboxBegin => drop(inbox.begin().await.unwrap()),
                        Work::Publish => {
                            let mut tx = outbox.begin(&pool).await.unwrap();
                            outbox.publish_json(&mut tx, &changed("1", n)).await.unwrap();
                            outbox.commit(tx).await.unwrap();
                        }
                        Work::Inbox => {
                            let event = Envelope::example("customer.changed", 1, "{}");
                            inbox.handle(&Nothing, &event).await.unwrap();
                        }
                    }
                };
                let longest = if matches!(work, Work::Begin | Work::InboxBegin) { 4_000 } else { 12_000 };
                let limit = Duration::from_micros(rand::random_range(0..longest));
                match timeout(limit, doing).await {
                    Ok(()) => done += 1,
                    Err(_) => dropped += 1,
                }
                // The session's next user, who knows of no transaction.
                let plain = sqlx::query("INSERT INTO plain VALUES ($1)").bind(i32::try_from(n).unwrap());
                plain.execute(&pool).await.unwrap();
            }
            (work, done, dropped)
        });
    }
    while let Some(ended) = dropping.join_next().await {
        let (work, done, dropped) = ended.unwrap();
        assert!(dropped > DROPS / 10, "{work:?} was dropped {dropped} times only");
        if matches!(work, Work::Publish) {
            (sure, unsure) = (done, dropped);
        }
    }
    eventually("every transaction has ended", async || count(&world, LEFT_OPEN).await == 0).await;
    let plain = count(&world, "SELECT count(*) FROM plain").await;
    assert_eq!(
        usize::try_from(plain).unwrap(),
        DROPS * works.len(),
        "work of others went with a transaction"
    );
    let stored = count(&world, "SELECT count(*) FROM outbox.event").await;
    assert!((sure..=sure + unsure).contains(&usize::try_from(stored).unwrap()), "{sure} {stored} {unsure}");

    // The next user of each session commits for itself.
    for (n, pool) in pools.iter().enumerate() {
        let mut tx = world.outbox.begin(pool).await.unwrap();
        world.outbox.publish_json(&mut tx, &changed("last", n)).await.unwrap();
        world.outbox.commit(tx).await.unwrap();
        let own = stored + i64::try_from(n).unwrap() + 1;
        assert_eq!(count(&world, "SELECT count(*) FROM outbox.event").await, own, "another session sees it");
    }
    let sink = RecordingSink::new();
    let all = u64::try_from(stored).unwrap() + pools.len() as u64;
    assert_eq!(world.drain(&sink).await, all);
    assert_in_order(&sink.calls());
}

/// A relay that is dropped again and again while it claims, reads and settles.
#[tokio::test]
async fn a_dropped_relay_leaves_no_session_in_a_transaction() {
    let world = World::<PgTestDb>::new().await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    proxy.delay(Duration::from_micros(300));
    let mut published = Vec::new();
    let sink = RecordingSink::new();
    for _ in 0..40 {
        published.extend(world.publish(&["1", "2", "3"]).await);
        let mut settings = impatient();
        settings.lease = Duration::from_millis(90);
        settings.deadline = settings.lease / 3;
        let spec = crm().timeout(Duration::from_millis(60)).unwrap();
        let relay = builder_through(&world, &proxy, settings).await.consumer(spec, sink.clone());
        let relay = RunningRelay::start(relay.build().unwrap());
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..240))).await;
        relay.crash().await;
    }
    eventually("every transaction has ended", async || count(&world, LEFT_OPEN).await == 0).await;
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    world.settled("crm", published.last().unwrap().id).await;
    relay.stop().await;
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered, ids(&published));
}

/// Cuts one of `every` requests that match, `times` times: now before the server gets it, now before its answer arrives.
fn cut(
    proxy: &Proxy,
    times: usize,
    every: usize,
    matches: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> Arc<AtomicUsize> {
    let (seen, cuts) = (AtomicUsize::new(1), Arc::new(AtomicUsize::new(0)));
    let made = cuts.clone();
    proxy.rule(move |sql| {
        if !matches(sql) || !seen.fetch_add(1, Ordering::Relaxed).is_multiple_of(every) {
            return Fate::Pass;
        }
        match made.fetch_add(1, Ordering::Relaxed) {
            n if n >= times => Fate::Pass,
            n if n.is_multiple_of(2) => Fate::CutBefore,
            _ => Fate::CutAfter,
        }
    });
    cuts
}

/// A business row and its event, 200 times; every second COMMIT is cut.
#[tokio::test]
async fn an_event_exists_exactly_when_its_business_row_does_though_commits_are_cut() {
    let world = World::<PgTestDb>::new().await;
    let table = "CREATE TABLE business (n int PRIMARY KEY)";
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), table).await.unwrap();
    let proxy = Proxy::start(world.db.server_addr()).await;
    let cuts = cut(&proxy, 100, 2, |sql| sql == "COMMIT");
    let pool = pool_through(&world, &proxy, 2).await;
    let mut unknown = 0;
    for n in 0..200 {
        let mut tx = world.outbox.begin(&pool).await.unwrap();
        PgTestDb::execute(&mut tx, &format!("INSERT INTO business VALUES ({n})")).await.unwrap();
        world.outbox.publish_json(&mut tx, &changed("1", n)).await.unwrap();
        if let Err(error) = world.outbox.commit(tx).await {
            assert!(matches!(error, outbox_sdk::PublishError::Connection(_)), "{error:?}");
            unknown += 1;
        }
    }
    assert_eq!((unknown, cuts.load(Ordering::Relaxed)), (100, 100));
    let rows = count(&world, "SELECT count(*) FROM business").await;
    assert_eq!(rows, 150, "half of the cut commits had reached the server");
    let odd = "SELECT count(*) FROM business FULL JOIN outbox.event ON n = (payload->>'n')::int \
        WHERE n IS NULL OR id IS NULL";
    assert_eq!(count(&world, odd).await, 0, "an event without its row, or a row without its event");
    let sink = RecordingSink::new();
    assert_eq!(world.drain(&sink).await, 150);
}

/// A settle whose answer never came is asked about, and nothing is sent a second time.
#[tokio::test]
async fn no_event_comes_twice_though_settles_are_cut() {
    const CUTS: usize = 100;
    let world = World::<PgTestDb>::new().await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    // More than the requests of one settle on a new connection, so that each one comes through at the second try.
    let cuts = cut(&proxy, CUTS, 5, |sql| sql == "COMMIT" || sql.contains("SET settled ="));
    // Every third event fails once, so that settles of one statement and of several come.
    let script = |call: &Call| match call {
        Call { attempt: 1, .. } if call.id() % 3 == 0 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    };
    let consumers = ["a", "b", "c", "d"].map(|name| (name, RecordingSink::scripted(script)));
    let mut settings = impatient();
    settings.lease = Duration::from_secs(20);
    let mut relay = builder_through(&world, &proxy, settings).await;
    for (name, sink) in &consumers {
        relay = relay.consumer(named(name), sink.clone());
    }
    let relay = RunningRelay::start(relay.build().unwrap());
    let mut published = Vec::new();
    while cuts.load(Ordering::Relaxed) < CUTS {
        published.extend(world.publish(&["1", "2", "3", "4"]).await);
        for (_, sink) in &consumers {
            sink.wait_for_delivered(published.len()).await;
        }
    }
    for (name, sink) in &consumers {
        world.settled(name, published.last().unwrap().id).await;
        let mut delivered = sink.delivered();
        delivered.sort_unstable();
        assert_eq!(delivered, ids(&published), "each once: the memory outlives a lost connection");
        assert_in_order(&sink.calls());
    }
    relay.stop().await;
    assert!(world.dead().await.is_empty());
}
