//! What fails keeps nothing but itself.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::{Delivery, Outcome, Sink};
use outbox_tests::{
    Call, PgTestDb, Proxy, RecordingSink, RunningRelay, SqliteTestDb, eventually, quick_settings,
};

use crate::databases::{TestDb, on_every_database};
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, delivering, named};

on_every_database! {
    lanes_that_always_fail_do_not_starve_the_others
    lanes_that_always_hang_do_not_starve_the_others
    a_thousand_panics_lose_no_permit
    a_mutex_that_a_panic_poisoned_fails_only_those_who_lock_it
    a_handler_that_never_returns_ends_by_its_limit_and_keeps_nobody
}

fn patient(attempts: u32, pause: Duration) -> RetryPolicy {
    RetryPolicy { schedule: Schedule::List(vec![pause]), max_attempts: attempts }
}

/// A relay with a destination that answers 503, or nothing at all, for the aggregates that are called dead.
fn failing<T: TestDb>(
    world: &World<T>,
    hangs: bool,
    in_flight: usize,
    pause: Duration,
) -> (RunningRelay, Arc<RecordingSink>) {
    let sink = RecordingSink::scripted(move |call| match aggregate(call).starts_with("dead") {
        true => Outcome::Retry { error: "503".into(), after: None },
        false => Outcome::Delivered,
    });
    let mut settings = delivering(quick_settings());
    settings.read_rows = 50;
    let spec = crm().retry(patient(1_000, pause)).timeout(Duration::from_millis(500)).unwrap();
    let destination: Arc<dyn Sink> = if hangs { Arc::new(Never(sink.clone())) } else { sink.clone() };
    let relay = world.builder_with(settings).consumer(spec.max_in_flight(in_flight).unwrap(), destination);
    (RunningRelay::start(relay.build().unwrap()), sink)
}

async fn publish_to<T: TestDb>(world: &World<T>, name: &str, lanes: usize, events: usize) {
    let lanes: Vec<String> = (0..events).map(|n| format!("{name} {}", n % lanes)).collect();
    world.publish(&lanes.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

/// 200 aggregates whose heads always fail fill the first reads; behind them are 20 healthy ones with 10 events each. Ten
/// failures in a row pause the consumer; what would succeed is found by probes, and ends the pause.
async fn lanes_that_always_fail_do_not_starve_the_others<T: TestDb>() {
    let world = World::<T>::new().await;
    publish_to(&world, "dead", 200, 200).await;
    publish_to(&world, "healthy", 20, 200).await;
    let began = Instant::now();
    let (relay, sink) = failing(&world, false, 32, Duration::from_millis(200));
    sink.wait_for_delivered(200).await;
    // The longest pause is 10 s.
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    relay.stop().await;
    let calls = sink.calls();
    assert_in_order(&calls);
    // Those that fail are tried by their schedule and no oftener: each five times a second, while nobody pauses.
    let failed = calls.iter().filter(|call| call.outcome != Some(Outcome::Delivered)).count();
    let rounds = began.elapsed().as_secs_f64() / 0.2 + 2.0;
    assert!((failed as f64) < 200.0 * rounds, "{failed} attempts in {rounds} rounds");
}

/// Once it is known which aggregates hang, more of them than may be in flight, the others' new events pass them by.
async fn lanes_that_always_hang_do_not_starve_the_others<T: TestDb>() {
    let world = World::<T>::new().await;
    publish_to(&world, "dead", 12, 12).await;
    let (relay, sink) = failing(&world, true, 8, Duration::from_secs(2));
    eventually("all of them wait", async || world.consumer("crm").await.stalled_lanes == 12).await;
    let mut longest = Duration::ZERO;
    for round in 1..=10 {
        let began = Instant::now();
        publish_to(&world, "healthy", 20, 20).await;
        sink.wait_for_delivered(20 * round).await;
        longest = longest.max(began.elapsed());
    }
    relay.stop().await;
    assert_in_order(&sink.calls());
    // Promised are 2 s; five times that.
    assert!(longest < Duration::from_secs(10), "{longest:?}");
}

fn aggregate(call: &Call) -> String {
    call.envelope.aggregate_id.clone().unwrap_or_default()
}

/// As many permits as sends may run at once; if a panic kept one, the last events would never come.
async fn a_thousand_panics_lose_no_permit<T: TestDb>() {
    let world = World::<T>::new().await;
    // Two aggregates: from the third on, so many failures would pause the consumer.
    let lanes: Vec<String> = (0..1_000).map(|n| format!("bad {}", n % 2)).collect();
    world.publish(&lanes.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let sink = RecordingSink::scripted(|call| match (aggregate(call).starts_with("bad"), call.index % 3) {
        (false, _) => Outcome::Delivered,
        (true, 0) => panic!("a text"),
        (true, 1) => panic!("formatted {}", 7),
        (true, _) => std::panic::panic_any(7_u8),
    });
    let spec = crm().retry(patient(1, Duration::from_millis(1))).max_in_flight(4).unwrap();
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    let good: Vec<_> = (0..100).map(|n| format!("good {}", n % 7)).collect();
    let good = world.publish(&good.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.settled("crm", good[99].id).await;
    sink.hold();
    let last = world.publish(&["good 1", "good 2", "good 3", "good 4"]).await;
    sink.wait_until("all four permits are in use", |calls| calls.len() == 1_104).await;
    sink.open();
    world.settled("crm", last[3].id).await;
    relay.stop().await;
    assert_eq!(sink.delivered().len(), 104);
    let dead = world.dead().await;
    assert_eq!(dead.len(), 1_000);
    assert!(dead.iter().all(|letter| letter.last_error.starts_with("the attempt panicked: ")));
}

/// Panics while holding a lock that the others take too.
struct Poisoning {
    shared: Mutex<BTreeSet<i64>>,
    poison: i64,
}

impl Sink for Poisoning {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(async move {
            let id = delivery.envelope.id;
            let mut shared = match self.shared.lock() {
                Ok(shared) => shared,
                // A handler that recovers.
                Err(poisoned) if id % 2 == 0 => poisoned.into_inner(),
                Err(poisoned) => panic!("{poisoned}"),
            };
            assert!(id != self.poison, "while the lock is held");
            shared.insert(id);
            Outcome::Delivered
        })
    }
}

async fn a_mutex_that_a_panic_poisoned_fails_only_those_who_lock_it<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2", "3", "4", "5", "6"]).await;
    let sink = Arc::new(Poisoning { shared: Mutex::default(), poison: events[2].id });
    let other = RecordingSink::new();
    let spec = crm().max_in_flight(1).unwrap();
    let relay = world.builder().consumer(spec, sink.clone()).consumer(named("erp"), other.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    world.settled("crm", events[5].id).await;
    world.settled("erp", events[5].id).await;
    relay.stop().await;
    assert_eq!(other.delivered().len(), 6);
    let dead: BTreeSet<i64> = world.dead().await.iter().map(|letter| letter.event_id).collect();
    let done = sink.shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert_eq!(done.union(&dead).count(), 6, "each is delivered or dead: {done:?} {dead:?}");
    assert!(dead.contains(&events[2].id) && done.contains(&events[5].id), "{done:?} {dead:?}");
}

/// Never answers for some aggregates.
struct Never(Arc<RecordingSink>);
impl Sink for Never {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        if delivery
            .envelope
            .aggregate_id
            .as_deref()
            .is_some_and(|id| id.starts_with("never") || id.starts_with("dead"))
        {
            return Box::pin(std::future::pending());
        }
        self.0.deliver(delivery)
    }
}

/// Half of the permits are taken by handlers that never return.
async fn a_handler_that_never_returns_ends_by_its_limit_and_keeps_nobody<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["never 1", "never 2", "1", "2", "never 1", "1", "2", "3"]).await;
    let sink = RecordingSink::new();
    let spec = crm().retry(patient(2, Duration::from_millis(1))).max_in_flight(4).unwrap();
    let spec = spec.timeout(Duration::from_millis(200)).unwrap();
    let relay = world.builder().consumer(spec, Arc::new(Never(sink.clone()))).build().unwrap();
    let relay = RunningRelay::start(relay);
    world.settled("crm", events[7].id).await;
    relay.stop().await;
    assert_eq!(sink.delivered().len(), 5);
    let dead = world.dead().await;
    assert_eq!(dead.len(), 3);
    assert!(
        dead.iter().all(|letter| letter.attempts == 2 && letter.last_error.contains("time limit")),
        "{dead:?}"
    );
}

/// A handler that blocks its thread for three times the lease: the lease is renewed from another thread meanwhile.
async fn a_blocked_thread_keeps_no_lease<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::scripted(|call| {
        if aggregate(call) == "slow" && call.attempt == 1 {
            std::thread::sleep(Duration::from_millis(3 * 1_200));
        }
        Outcome::Delivered
    });
    let mut settings = delivering(quick_settings());
    settings.lease = Duration::from_millis(1_200);
    settings.deadline = settings.lease / 3;
    let build = |name: &str| {
        let mut settings = settings.clone();
        settings.name = name.to_owned();
        let spec = crm().timeout(Duration::from_secs(1)).unwrap();
        RunningRelay::start(world.builder_with(settings).consumer(spec, sink.clone()).build().unwrap())
    };
    let relays = [build("a"), build("b")];
    let events = world.publish(&["slow", "1", "2"]).await;
    world.settled("crm", events[2].id).await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(sink.overlaps(), 0);
    assert_eq!(sink.delivered().len(), 3, "nobody else sent it meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_blocked_thread_keeps_no_lease_on_postgres() {
    Box::pin(a_blocked_thread_keeps_no_lease::<PgTestDb>()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_blocked_thread_keeps_no_lease_on_sqlite() {
    Box::pin(a_blocked_thread_keeps_no_lease::<SqliteTestDb>()).await;
}

/// A failing event that came into a gap asks whether a later one of its aggregate has gone. Its aggregate has many later
/// events, and the consumer wants none of them.
#[tokio::test]
async fn a_long_lane_of_unwanted_events_holds_up_nobody() {
    const UNWANTED: usize = 20_000;
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::scripted(|call| match aggregate(call).as_str() {
        "dead" => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let spec = || {
        let spec = crm().retry(patient(1_000, Duration::from_secs(600)));
        spec.events(["customer.changed"]).unwrap()
    };
    world.builder().consumer(spec(), sink.clone()).build().unwrap().run_once().await.unwrap();
    world.publish(&["dead"]).await;
    let unwanted = format!(
        "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload)
        SELECT 'customer.ignored', 'customer', 'dead', '{{}}' FROM generate_series(1, {UNWANTED})"
    );
    let hole = format!("UPDATE outbox.consumer SET settled = '{{[2,{})}}'", UNWANTED + 2);
    for sql in [unwanted, hole] {
        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&world.pool).await.unwrap();
    }
    let healthy = world.publish(&["healthy"]).await.remove(0).id;
    let proxy = Proxy::start(world.db.server_addr()).await;
    let relay = super::builder_through(&world, &proxy, delivering(quick_settings())).await;
    let relay = RunningRelay::start(relay.consumer(spec(), sink.clone()).build().unwrap());
    sink.wait_for_delivered(1).await;
    world.settled_but("crm", healthy, 1).await;
    relay.stop().await;
    assert_eq!(sink.delivered(), [healthy]);
    let asked = proxy.statements().iter().filter(|sql| sql.contains("AS has_older")).count();
    assert!(asked <= 6, "{asked} statements for one question about {UNWANTED} events");
}

/// Reminders that are due at the same time.
#[tokio::test]
async fn events_that_wait_alone_are_read_together() {
    const EVENTS: usize = 300;
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let last = world.publish(&[""; EVENTS]).await.pop().unwrap().id;
    let proxy = Proxy::start(world.db.server_addr()).await;
    let spec = crm().retry(patient(10, Duration::from_millis(500))).max_in_flight(EVENTS).unwrap();
    let relay = super::builder_through(&world, &proxy, delivering(quick_settings())).await;
    let relay = RunningRelay::start(relay.consumer(spec, sink.clone()).build().unwrap());
    sink.wait_for_delivered(EVENTS).await;
    world.settled("crm", last).await;
    relay.stop().await;
    let statements = proxy.statements().len();
    assert!(statements < EVENTS, "{statements} statements for {EVENTS} events that failed once");
}
