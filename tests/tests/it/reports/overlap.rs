//! Slow but healthy handlers, restarts under them, and the clock that decides.

use std::time::{Duration, Instant};

use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::{Delivery, Outcome, Sink};
use outbox_tests::{Call, PgTestDb, RecordingSink, RunningRelay, SqliteTestDb, eventually, quick_settings};
use std::pin::Pin;
use std::sync::Arc;

use crate::databases::{TestDb, on_every_database};
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, delivering, ids, named};

on_every_database! {
    a_handler_near_its_limit_runs_once_however_many_relays_there_are
    restarts_under_a_slow_handler_count_no_attempt
    a_consumer_that_is_configured_no_more_keeps_its_waiting_lanes
}

/// Takes its time over each event.
struct Slow {
    takes: Duration,
    sink: Arc<RecordingSink>,
}

impl Sink for Slow {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(async move {
            // While the call counts as running.
            let (outcome, ()) = tokio::join!(self.sink.deliver(delivery), tokio::time::sleep(self.takes));
            outcome
        })
    }
}

/// Three relays want the consumer; each handler takes two thirds of a lease, and others queue behind it for several.
async fn a_handler_near_its_limit_runs_once_however_many_relays_there_are<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let mut settings = delivering(quick_settings());
    settings.lease = Duration::from_millis(1_500);
    settings.deadline = settings.lease / 3;
    let relays: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let mut settings = settings.clone();
            settings.name = name.to_owned();
            let spec = crm().timeout(Duration::from_millis(1_400)).unwrap().max_in_flight(2).unwrap();
            let slow = Arc::new(Slow { takes: Duration::from_secs(1), sink: sink.clone() });
            RunningRelay::start(world.builder_with(settings).consumer(spec, slow).build().unwrap())
        })
        .collect();
    let events = world.publish(&["1", "2", "3", "1", "2", "3", "1", "2"]).await;
    world.settled("crm", events[7].id).await;
    for relay in relays {
        relay.stop().await;
    }
    let calls = sink.calls();
    assert_eq!(calls.len(), 8, "each once");
    assert_eq!(sink.overlaps(), 0);
    assert_in_order(&calls);
}

/// Twenty graceful ends while the handler runs, each before it is done: it is interrupted, which is no failure.
async fn restarts_under_a_slow_handler_count_no_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let mut settings = delivering(quick_settings());
    settings.grace = Duration::from_millis(20);
    let start = || {
        let relay = world.builder_with(settings.clone()).consumer(crm(), sink.clone());
        RunningRelay::start(relay.build().unwrap())
    };
    let events = world.publish(&["1", "1", "2"]).await;
    sink.hold();
    for _ in 0..20 {
        let before = sink.calls().len();
        let relay = start();
        sink.wait_until("both lanes are at the handler", |calls| calls.len() == before + 2).await;
        relay.stop().await;
    }
    sink.open();
    let relay = start();
    world.settled("crm", events[2].id).await;
    relay.stop().await;
    assert!(sink.calls().iter().all(|call| call.attempt == 1), "an interruption was counted as an attempt");
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&events));
    assert!(world.dead().await.is_empty());
}

async fn a_consumer_that_is_configured_no_more_keeps_its_waiting_lanes<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let other = RecordingSink::new();
    let waits = |spec: ConsumerSpec| {
        let schedule = Schedule::List(vec![Duration::from_millis(700)]);
        spec.retry(RetryPolicy { schedule, max_attempts: 3 })
    };
    let both = world.builder().consumer(waits(crm()), sink.clone()).consumer(named("erp"), other.clone());
    let both = RunningRelay::start(both.build().unwrap());
    let events = world.publish(&["1", "1"]).await;
    eventually("the lane waits", async || world.consumer("crm").await.stalled_lanes == 1).await;
    both.stop().await;

    let without = RunningRelay::start(world.builder().consumer(named("erp"), other.clone()).build().unwrap());
    let later = world.publish(&["1"]).await;
    world.settled("erp", later[0].id).await;
    without.stop().await;
    let row = world.consumer("crm").await;
    assert_eq!((row.stalled_lanes, row.owner), (1, None), "still there to be seen");
    assert_eq!(sink.calls().len(), 1, "and nothing was tried");

    let again = RunningRelay::start(world.builder().consumer(waits(crm()), sink.clone()).build().unwrap());
    world.settled("crm", later[0].id).await;
    again.stop().await;
    assert_in_order(&sink.calls());
    assert_eq!(sink.delivered(), [events[0].id, events[1].id, later[0].id]);
}

/// The relay's own timer says that the lane is due; the database's clock says that it is not, and is right.
async fn only_the_databases_clock_makes_a_lane_due<T: TestDb>(later: &str) {
    let world = World::<T>::new().await;
    let sink = RecordingSink::scripted(|call: &Call| match call.attempt {
        1 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let schedule = Schedule::List(vec![Duration::from_millis(300)]);
    let spec = crm().retry(RetryPolicy { schedule, max_attempts: 3 });
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    let events = world.publish(&["1"]).await;
    eventually("the lane waits", async || world.consumer("crm").await.stalled_lanes == 1).await;
    let moved = Instant::now();
    let sql = format!("UPDATE {} SET available_at = available_at + {later}", T::table("stall"));
    T::execute(&mut *world.pool.acquire().await.unwrap(), &sql).await.unwrap();
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    assert!(
        moved.elapsed() >= Duration::from_secs(2),
        "sent {:?} after it was put off by two seconds",
        moved.elapsed()
    );
    assert_eq!(sink.calls().len(), 2);
}

#[tokio::test]
async fn only_the_databases_clock_makes_a_lane_due_on_postgres() {
    only_the_databases_clock_makes_a_lane_due::<PgTestDb>("interval '2 seconds'").await;
}

#[tokio::test]
async fn only_the_databases_clock_makes_a_lane_due_on_sqlite() {
    only_the_databases_clock_makes_a_lane_due::<SqliteTestDb>("2000000").await;
}
