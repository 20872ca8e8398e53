//! The database goes away, ends connections, is busy, or is set up in an unusual way.

use std::time::Duration;

use outbox_relay::sink::Outcome;
use outbox_sdk::{PublishError, Published};
use outbox_tests::{
    Call, PgTestDb, RecordingSink, RunningRelay, Snapshot, SqliteTestDb, eventually, quick_settings,
};
use sqlx::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::time::sleep;

use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, delivering, ids, named};

/// Every event was delivered; none that the consumer was through with at a fault came again after it. Per fault: the
/// number of calls at that moment, and what was through.
fn assert_only_unsettled_came_again(calls: &[Call], published: &[Published], faults: &[(usize, Snapshot)]) {
    let mut first: Vec<i64> = Vec::new();
    for call in calls {
        let (lane, id) = (call.envelope.lane(), call.id());
        if first.contains(&id) {
            let through = |(at, was): &&(usize, Snapshot)| call.index >= *at && was.is_through(&lane, id);
            let broken = faults.iter().find(through).map(|(at, _)| *at);
            assert_eq!(
                broken, None,
                "{id} was through after call {broken:?} and came again as call {}",
                call.index
            );
        } else {
            first.push(id);
        }
    }
    first.sort_unstable();
    assert_eq!(first, ids(published));
}

#[tokio::test]
async fn a_database_that_goes_away_under_sends_loses_nothing() {
    let world = World::<PgTestDb>::new().await;
    let mut published = world.publish(&["1", "2", "3"]).await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    world.settled("crm", published[2].id).await;
    sink.hold();
    published.extend(world.publish(&["1", "1", "2", "2", "3", "3"]).await);
    sink.wait_until("three are in flight", |calls| calls.len() == 6).await;
    let was = Snapshot::take::<PgTestDb>(&mut world.pool.acquire().await.unwrap(), "crm").await;
    world.db.take_away().await;
    sink.open();
    sink.wait_for_delivered(6).await;
    world.db.bring_back().await;

    published.extend(world.publish(&["1", "2", "3"]).await);
    world.settled("crm", published[11].id).await;
    relay.stop().await;
    let calls = sink.calls();
    assert_only_unsettled_came_again(&calls, &published, &[(6, was)]);
    // Three were in flight at the fault: at most they came twice.
    assert!(calls.len() <= 12 + 3, "{} calls", calls.len());
}

/// A pool whose connections can be told from the test's own.
async fn pool_named_relay(world: &World<PgTestDb>) -> PgPool {
    PgPool::connect_with(world.db.options().application_name("relay")).await.unwrap()
}

#[tokio::test]
async fn ended_connections_lose_and_repeat_nothing_that_is_settled() {
    const END: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'relay'";
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let relay =
        outbox_relay::Relay::builder(pool_named_relay(&world).await).settings(delivering(quick_settings()));
    let relay = RunningRelay::start(relay.consumer(crm(), sink.clone()).build().unwrap());
    world.consumer("crm").await;

    let writing = async {
        let mut published = Vec::new();
        for _ in 0..300 {
            published.extend(world.publish(&["1", "2", "1", "3"]).await);
            sleep(Duration::from_millis(5)).await;
        }
        published
    };
    let ending = async {
        let mut faults = Vec::new();
        let mut conn = world.pool.acquire().await.unwrap();
        for _ in 0..12 {
            sleep(Duration::from_millis(rand::random_range(20..150))).await;
            eventually("the relay has connections to end", async || {
                // In this order: what is through now was called before.
                let was = Snapshot::take::<PgTestDb>(&mut conn, "crm").await;
                let calls = sink.calls().len();
                let ended = PgTestDb::count(&mut conn, END).await;
                faults.push((calls, was));
                ended > 0
            })
            .await;
        }
        faults
    };
    let (published, faults) = tokio::join!(writing, ending);
    world.settled("crm", published.last().unwrap().id).await;
    relay.stop().await;
    assert_only_unsettled_came_again(&sink.calls(), &published, &faults);
    assert_eq!(sink.overlaps(), 0);
}

/// Writers and the relay name their isolation level where it matters, whatever the default.
async fn works_with_default_isolation(level: &str) {
    let mut world = World::<PgTestDb>::new().await;
    let set = format!("ALTER DATABASE {} SET default_transaction_isolation = '{level}'", world.db.name());
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &set).await.unwrap();
    world.pool = world.db.connect().await;
    let shown = PgTestDb::texts(&mut world.pool.acquire().await.unwrap(), "SHOW transaction_isolation").await;
    assert_eq!(shown, [level]);

    let sink = RecordingSink::scripted(|call| match call {
        Call { attempt: 1, .. } if call.id() % 10 == 0 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let other = RecordingSink::new();
    let relay = world.builder().consumer(named("crm"), sink.clone()).consumer(named("erp"), other.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    let writer = async || {
        let mut published = Vec::new();
        for _ in 0..25 {
            published.extend(world.publish(&["1", "2"]).await);
        }
        published
    };
    let (mut all, second, third) = tokio::join!(writer(), writer(), writer());
    all.extend(second.into_iter().chain(third));
    all.sort_unstable_by_key(|event| event.id);
    for (name, sink) in [("crm", &sink), ("erp", &other)] {
        world.settled(name, all[149].id).await;
        let mut delivered = sink.delivered();
        delivered.sort_unstable();
        assert_eq!(delivered, ids(&all), "{name} under {level}");
        assert_in_order(&sink.calls());
    }
    relay.stop().await;
    assert_eq!(world.consumer("crm").await.owner, None);
}

#[tokio::test]
async fn it_works_with_default_isolation_serializable() {
    works_with_default_isolation("serializable").await;
}

#[tokio::test]
async fn it_works_with_default_isolation_repeatable_read() {
    works_with_default_isolation("repeatable read").await;
}

/// Longer than a call's time limit and than the lease.
#[tokio::test]
async fn a_long_sqlite_writer_delays_settling_and_nothing_else() {
    let world = World::<SqliteTestDb>::new().await;
    let sink = RecordingSink::new();
    sink.hold();
    let mut settings = delivering(quick_settings());
    settings.deadline = Duration::from_millis(200);
    let relay = world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap();
    let relay = RunningRelay::start(relay);
    let published = world.publish(&["1", "2", "3", "1"]).await;
    sink.wait_until("three are in flight", |calls| calls.len() == 3).await;

    let writer = world.outbox.begin(&world.pool).await.unwrap();
    sink.open();
    sink.wait_for_delivered(3).await;
    let options =
        SqliteConnectOptions::new().filename(world.db.path()).busy_timeout(Duration::from_millis(50));
    let impatient = SqlitePoolOptions::new().connect_with(options).await.unwrap();
    let error = world.outbox.begin(&impatient).await.unwrap_err();
    assert!(matches!(error, PublishError::DatabaseBusy(_)) && error.is_retryable(), "{error:?}");
    eventually("the lease is over", async || {
        let over = "SELECT lease_until < unixepoch('subsec') * 1000000 FROM outbox_consumer";
        sqlx::query_scalar::<_, bool>(over).fetch_one(&world.pool).await.unwrap()
    })
    .await;
    assert!(world.consumer("crm").await.settled.is_empty(), "nobody else can write");
    drop(writer);

    world.settled("crm", published[3].id).await;
    relay.stop().await;
    assert_only_unsettled_came_again(&sink.calls(), &published, &[]);
    assert_in_order(&sink.calls());
}
