//! Consumers that have caught up share one read; who does not keep up reads alone until it has caught up again.

use std::sync::Arc;

use outbox_relay::consumer::Start;
use outbox_relay::{RelayBuilder, Settings};
use outbox_sdk::{Hint, Outbox};
use outbox_tests::{PATIENCE, PgTestDb, Proxy, RecordingSink, RunningRelay, quick_settings};

use sqlx::PgPool;

use super::order::{assert_in_order, hardly_polling};
use super::{World, changed, delivering, ids, named};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    consumers_that_share_a_read_get_everything_once_and_in_order
    a_slow_consumer_falls_behind_alone_and_comes_back
}

const CONSUMERS: usize = 5;
/// What only the reading statement holds.
const READ: &str = "AS merged";

fn sinks() -> Vec<Arc<RecordingSink>> {
    (0..CONSUMERS).map(|_| RecordingSink::new()).collect()
}

fn with_consumers<T: TestDb>(
    builder: RelayBuilder<T::Db>,
    sinks: &[Arc<RecordingSink>],
) -> RelayBuilder<T::Db> {
    sinks.iter().enumerate().fold(builder, |builder, (n, sink)| {
        let spec = named(&format!("c{n}")).start(Start::Earliest).timeout(PATIENCE).unwrap();
        builder.consumer(spec, sink.clone())
    })
}

/// A sink that is held up for a while does not fail, and no lease ends.
fn patient(mut settings: Settings) -> Settings {
    settings.lease = 2 * PATIENCE;
    settings
}

fn sorted(mut ids: Vec<i64>) -> Vec<i64> {
    ids.sort_unstable();
    ids
}

async fn consumers_that_share_a_read_get_everything_once_and_in_order<T: TestDb>() {
    let world = World::<T>::new().await;
    let sinks = sinks();
    let relay = with_consumers::<T>(world.builder_with(patient(delivering(quick_settings()))), &sinks)
        .build()
        .unwrap();
    let relay = RunningRelay::start(relay);
    let mut all = Vec::new();
    for round in 0..40 {
        if T::CONCURRENT_WRITERS && round % 4 == 0 {
            // A gap that fills, and one that never will.
            let (mut late, mut never) = (
                world.outbox.begin(&world.pool).await.unwrap(),
                world.outbox.begin(&world.pool).await.unwrap(),
            );
            all.push(world.outbox.publish_json(&mut late, &changed("late", round)).await.unwrap());
            world.outbox.publish_json(&mut never, &changed("never", round)).await.unwrap();
            all.extend(world.publish(&["1", "2"]).await);
            sinks[0].wait_for_delivered(all.len() - 1).await;
            never.rollback().await.unwrap();
            world.outbox.commit(late).await.unwrap();
        }
        all.extend(world.publish(&["1", "2", "1", ""]).await);
    }
    for sink in &sinks {
        sink.wait_for_delivered(all.len()).await;
    }
    let last = all.iter().map(|event| event.id).max().unwrap();
    for n in 0..CONSUMERS {
        world.settled(&format!("c{n}"), last).await;
    }
    relay.stop().await;
    for sink in &sinks {
        assert_eq!(sorted(sink.delivered()), sorted(ids(&all)));
        assert_in_order(&sink.calls());
    }
}

async fn a_slow_consumer_falls_behind_alone_and_comes_back<T: TestDb>() {
    let world = World::<T>::new().await;
    let sinks = sinks();
    let mut settings = patient(delivering(quick_settings()));
    settings.window_rows = 10;
    let relay = with_consumers::<T>(world.builder_with(settings), &sinks).build().unwrap();
    let relay = RunningRelay::start(relay);
    let mut all = world.publish(&["1", "2"]).await;
    for sink in &sinks {
        sink.wait_for_delivered(all.len()).await;
    }
    let (slow, others) = sinks.split_first().unwrap();
    slow.hold();
    for _ in 0..20 {
        all.extend(world.publish(&["1", "2", "1", ""]).await);
        for sink in others {
            sink.wait_for_delivered(all.len()).await;
        }
    }
    assert!(slow.calls().len() <= 2 + 10, "no more than its window");
    slow.open();
    slow.wait_for_delivered(all.len()).await;
    all.extend(world.publish(&["1", "2", "1", ""]).await);
    for sink in &sinks {
        sink.wait_for_delivered(all.len()).await;
    }
    relay.stop().await;
    for sink in &sinks {
        assert_eq!(sorted(sink.delivered()), sorted(ids(&all)));
        assert_in_order(&sink.calls());
    }
}

/// A relay on PostgreSQL whose statements are counted, with the events that it was sent.
struct Counted {
    world: World<PgTestDb>,
    proxy: Proxy,
    outbox: Outbox,
    published: usize,
}

impl Counted {
    async fn new() -> Self {
        let world = World::<PgTestDb>::new().await;
        let proxy = Proxy::start(world.db.server_addr()).await;
        let outbox = world.outbox.clone();
        Self { world, proxy, outbox, published: 0 }
    }

    async fn start(&mut self, settings: Settings, sinks: &[Arc<RecordingSink>]) -> RunningRelay {
        let pool = PgPool::connect_with(self.world.db.through(&self.proxy)).await.unwrap();
        let builder = outbox_relay::Relay::builder(pool).settings(settings);
        let relay = RunningRelay::start(with_consumers::<PgTestDb>(builder, sinks).build().unwrap());
        self.hear(relay.hint());
        relay
    }

    fn hear(&mut self, hint: Hint) {
        self.outbox = self.world.outbox.clone().with_hint(hint);
    }

    fn reads(&self) -> usize {
        self.proxy.statements().iter().filter(|sql| sql.contains(READ)).count()
    }

    /// Publishes one event, and waits until all have it. Returns how many reads that took.
    async fn round(&mut self, sinks: &[Arc<RecordingSink>]) -> usize {
        let before = self.reads();
        let mut tx = self.outbox.begin(&self.world.pool).await.unwrap();
        self.outbox.publish_json(&mut tx, &changed("1", self.published)).await.unwrap();
        self.outbox.commit(tx).await.unwrap();
        self.published += 1;
        for sink in sinks {
            sink.wait_for_delivered(self.published).await;
        }
        self.reads() - before
    }

    /// One event after the other, until one read serves all.
    async fn until_joined(&mut self, sinks: &[Arc<RecordingSink>]) {
        for _ in 0..50 {
            if self.round(sinks).await == 1 {
                return;
            }
        }
        panic!("each of 50 events took more than one read");
    }
}

#[tokio::test]
async fn one_read_serves_all_consumers_that_have_caught_up() {
    let mut counted = Counted::new().await;
    let mut sinks = sinks();
    let relay = counted.start(patient(hardly_polling()), &sinks).await;
    counted.until_joined(&sinks).await;
    for _ in 0..10 {
        assert_eq!(counted.round(&sinks).await, 1, "one read for {CONSUMERS} consumers");
    }

    // Who cannot take more leaves, and comes back.
    let (slow, others) = sinks.split_first().unwrap();
    slow.hold();
    for _ in 0..3 {
        counted.round(others).await;
    }
    slow.open();
    counted.until_joined(&sinks).await;
    relay.stop().await;

    // Who is registered later begins behind all others.
    let backlog: Vec<&str> = ["1", "2", "3"].repeat(100);
    counted.published += counted.world.publish(&backlog).await.len();
    sinks.push(RecordingSink::new());
    let mut settings = patient(hardly_polling());
    settings.read_rows = 50;
    let relay = counted.start(settings, &sinks).await;
    counted.until_joined(&sinks).await;
    assert_eq!(counted.round(&sinks).await, 1);
    relay.stop().await;
    for sink in &sinks {
        assert_eq!(sorted(sink.delivered()), (1..=counted.published as i64).collect::<Vec<_>>());
        assert_in_order(&sink.calls());
    }
}
