//! Consumers are independent of each other, outlive their relays, and are never served by two at once.

use std::time::Duration;

use outbox_relay::RelayError;
use outbox_relay::consumer::Start;
use outbox_relay::operate::Operator;
use outbox_relay::sink::Outcome;
use outbox_sdk::JsonEvent;
use outbox_tests::{RecordingSink, RunningRelay, eventually, quick_settings};

use super::order::assert_in_order;
use super::{World, crm, delivering, ids, named};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    consumers_progress_independently
    a_consumer_gets_what_it_asks_for_in_the_major_it_pins
    a_later_consumer_says_where_it_begins
    a_stopped_relay_gives_its_slots_back_and_the_next_one_goes_on
    a_crashed_relay_is_taken_over_and_only_unsettled_events_come_again
    a_waiting_lane_outlives_its_relay
    two_relays_never_serve_one_consumer_at_once
    a_relay_that_lost_its_lease_stops_sending_and_changes_nothing
    a_relay_needs_its_tables
    a_pause_and_its_end_are_heard_long_before_the_lease_is_renewed
}

async fn consumers_progress_independently<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2", "1", "2"]).await;
    let (good, slow) = (RecordingSink::new(), RecordingSink::new());
    let bad = RecordingSink::scripted(|_| Outcome::Retry { error: "no".into(), after: None });
    slow.hold();
    let relay = world
        .builder()
        .consumer(named("good"), good.clone())
        .consumer(named("bad"), bad.clone())
        .consumer(named("slow"), slow.clone())
        .build()
        .unwrap();
    let relay = RunningRelay::start(relay);
    good.wait_for_delivered(4).await;
    world.settled("good", events[3].id).await;
    world.settled("bad", events[3].id).await;
    assert_eq!(world.dead().await.iter().filter(|dead| dead.consumer == "bad").count(), 4);
    assert!(world.consumer("slow").await.settled.is_empty());
    slow.open();
    slow.wait_for_delivered(4).await;
    relay.stop().await;
    assert_eq!(world.consumer("good").await.dead_letters, 0);
}

async fn a_consumer_gets_what_it_asks_for_in_the_major_it_pins<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut published = Vec::new();
    for (event_type, major) in [
        ("entity.customer.updated", 1),
        ("entity.customer.updated", 2),
        ("entity.order.placed", 1),
        ("entity.customer.created", 3),
    ] {
        let event = JsonEvent::new(event_type, major, "customer", "{}").aggregate_id("1");
        published.push(world.publish_event(&event).await.id);
    }
    let sink = RecordingSink::new();
    let spec = named("crm").events(["entity.customer.*"]).unwrap().pin("entity.customer.updated", 2).unwrap();
    world.builder().consumer(spec, sink.clone()).build().unwrap().run_once().await.unwrap();
    assert_eq!(sink.delivered(), [published[1], published[3]]);
    let dead = world.dead().await;
    assert_eq!((dead.len(), dead[0].event_id, dead[0].reason.as_str()), (1, published[0], "major_missing"));
    world.settled("crm", published[3]).await;
}

async fn a_later_consumer_says_where_it_begins<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1", "1"]).await;
    let first = RecordingSink::new();
    world.drain(&first).await;

    let (late, now) = (RecordingSink::new(), RecordingSink::new());
    let build = |late_start: Option<Start>| {
        let mut spec = named("late");
        spec.start = late_start;
        world
            .builder()
            .consumer(named("crm"), first.clone())
            .consumer(named("now").start(Start::Now), now.clone())
            .consumer(spec, late.clone())
            .build()
            .unwrap()
    };
    match build(None).run_once().await {
        Err(RelayError::StartNeeded { consumer, stored_events }) => {
            assert_eq!((consumer.as_str(), stored_events), ("late", 2));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.consumers().await.len(), 1, "nothing was registered");

    build(Some(Start::Earliest)).run_once().await.unwrap();
    let more = world.publish(&["1"]).await;
    build(Some(Start::Earliest)).run_once().await.unwrap();
    assert_eq!(late.delivered(), [1, 2, more[0].id]);
    assert_eq!(now.delivered(), ids(&more));
}

async fn a_stopped_relay_gives_its_slots_back_and_the_next_one_goes_on<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1", "2", "3", "1"]).await;
    let sink = RecordingSink::new();
    sink.hold();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_until("three are in flight", |calls| calls.len() == 3).await;
    let opener = sink.clone();
    let stopping = tokio::spawn(relay.stop());
    opener.open();
    stopping.await.unwrap();
    assert_eq!(world.consumer("crm").await.owner, None);
    assert!(sink.calls().iter().all(|call| call.outcome.is_some()), "what was in flight has ended");

    world.drain(&sink).await;
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, [1, 2, 3, 4], "each once, over an orderly handover");
    assert_in_order(&sink.calls());
}

async fn a_crashed_relay_is_taken_over_and_only_unsettled_events_come_again<T: TestDb>() {
    let world = World::<T>::new().await;
    let settled = world.publish(&["1", "2"]).await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    world.settled("crm", settled[1].id).await;
    sink.hold();
    let events = world.publish(&["1", "2", "1"]).await;
    sink.wait_until("two are in flight", |calls| calls.len() == 4).await;
    relay.crash().await;
    sink.open();

    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_for_delivered(5).await;
    world.settled("crm", events[2].id).await;
    relay.stop().await;
    let calls = sink.calls();
    let tried = |id: i64| calls.iter().filter(|call| call.id() == id).count();
    assert_eq!([settled[0].id, settled[1].id].map(tried), [1, 1], "settled events never come again");
    assert_eq!([events[0].id, events[1].id].map(tried), [2, 2], "what was in flight comes again");
    assert_eq!(tried(events[2].id), 1);
    assert_in_order(&calls);
}

async fn a_waiting_lane_outlives_its_relay<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "2"]).await;
    let first = events[0].id;
    let failing = RecordingSink::scripted(move |call| {
        if call.id() == first {
            Outcome::Retry { error: "no".into(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let slow = || {
        let schedule = outbox_relay::retry::Schedule::List(vec![Duration::from_secs(2)]);
        crm().retry(outbox_relay::retry::RetryPolicy { schedule, max_attempts: 10 })
    };
    let relay = RunningRelay::start(world.builder().consumer(slow(), failing.clone()).build().unwrap());
    eventually("the lane waits", async || world.consumer("crm").await.stalled_lanes == 1).await;
    relay.crash().await;

    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(slow(), sink.clone()).build().unwrap());
    sink.wait_for_delivered(2).await;
    world.settled("crm", events[2].id).await;
    relay.stop().await;
    let order: Vec<i64> = sink.delivered().into_iter().filter(|id| *id != events[2].id).collect();
    assert_eq!(order, [first, events[1].id]);
    let attempt = sink.calls().iter().find(|call| call.id() == first).unwrap().attempt;
    let before = u32::try_from(failing.calls().iter().filter(|call| call.id() == first).count()).unwrap();
    assert_eq!(attempt, before + 1, "attempts go on counting");
}

async fn two_relays_never_serve_one_consumer_at_once<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let relays: Vec<_> = (0..2)
        .map(|_| RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap()))
        .collect();
    let mut all = Vec::new();
    for _ in 0..20 {
        all.extend(world.publish(&["1", "2", "1"]).await);
    }
    sink.wait_for_delivered(60).await;
    world.settled("crm", all[59].id).await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!((sink.calls().len(), sink.overlaps()), (60, 0));
    assert_in_order(&sink.calls());
}

async fn a_relay_that_lost_its_lease_stops_sending_and_changes_nothing<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1", "1"]).await;
    let zombie_sink = RecordingSink::new();
    zombie_sink.hold();
    let zombie = RunningRelay::start(world.builder().consumer(crm(), zombie_sink.clone()).build().unwrap());
    zombie_sink.wait_until("one is in flight", |calls| calls.len() == 1).await;

    // Another owner takes the slot, as if the first one had been paused for longer than its lease.
    let consumer = T::table("consumer");
    let mut conn = world.pool.acquire().await.unwrap();
    T::execute(
        &mut conn,
        &format!("UPDATE {consumer} SET owner = 'successor', epoch = epoch + 1000, rev = rev + 1"),
    )
    .await
    .unwrap();
    zombie_sink.open();
    eventually("the first one has noticed and forgotten", async || {
        let mut calls = zombie_sink.calls();
        calls.retain(|call| call.outcome.is_some());
        !calls.is_empty()
    })
    .await;
    zombie.stop().await;
    let row = world.consumer("crm").await;
    assert_eq!(row.owner.as_deref(), Some("successor"));
    assert!(row.settled.is_empty(), "a zombie's write changes nothing: {row:?}");
    assert!(zombie_sink.calls().len() <= 2);
}

async fn a_relay_needs_its_tables<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    let relay = outbox_relay::Relay::builder(pool).consumer(crm(), RecordingSink::new()).build().unwrap();
    match relay.run_once().await {
        Err(RelayError::NotMigrated { missing }) => assert!(missing > 0),
        other => panic!("{other:?}"),
    }
}

/// The owner asks once in 200 s for what its row says, and hears of a change with its next read.
async fn a_pause_and_its_end_are_heard_long_before_the_lease_is_renewed<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let mut settings = delivering(quick_settings());
    settings.lease = Duration::from_secs(600);
    let relay = world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap();
    let relay = RunningRelay::start(relay);
    let last = world.publish(&["1"]).await[0].id;
    world.settled("crm", last).await;
    let rev = async || {
        let rev = format!("SELECT rev FROM {}", T::table("consumer"));
        T::count(&mut *world.pool.acquire().await.unwrap(), &rev).await
    };
    let operator = Operator::<T::Db>::new(world.pool.clone());
    let before = rev().await;
    operator.pause("crm", None, "moving").await.unwrap();
    eventually("the owner has asked", async || rev().await > before).await;
    world.publish(&["1"]).await;
    let before = rev().await;
    operator.resume("crm").await.unwrap();
    eventually("the owner has asked again", async || rev().await > before).await;
    sink.wait_for_delivered(2).await;
    operator.pause("crm", None, "moving").await.unwrap();
    let before = rev().await;
    eventually("the owner has asked", async || rev().await > before).await;
    world.publish(&["1"]).await;
    relay.stop().await;
    assert_eq!(sink.calls().len(), 2, "nothing is sent while it is paused");
}
