//! Every committed event once, strictly in order per aggregate.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox_relay::Settings;
use outbox_relay::consumer::Ordering;
use outbox_relay::sink::Outcome;
use outbox_sdk::Lane;
use outbox_tests::{Call, RecordingSink, RunningRelay, quick_settings};

use super::{World, changed, crm, delivering, ids};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    every_event_arrives_once_and_in_order
    lanes_run_side_by_side_and_one_event_of_a_lane_at_a_time
    no_more_in_flight_than_allowed
    what_was_rolled_back_never_arrives
    a_delayed_event_comes_when_it_is_due_and_nobody_waits_for_it
    without_ordering_a_lane_does_not_wait
    a_small_window_and_small_reads_lose_nothing
    a_hint_wakes_an_idle_relay
}

/// The ids of each lane, in the order of arrival.
pub(crate) fn by_lane(calls: &[Call]) -> BTreeMap<Lane, Vec<i64>> {
    let mut lanes = BTreeMap::<_, Vec<i64>>::new();
    for call in calls.iter().filter(|call| call.outcome == Some(Outcome::Delivered)) {
        lanes.entry(call.envelope.lane()).or_default().push(call.id());
    }
    lanes
}

pub(crate) fn assert_in_order(calls: &[Call]) {
    for (lane, ids) in by_lane(calls) {
        assert!(ids.is_sorted(), "lane {lane}: {ids:?}");
    }
}

async fn every_event_arrives_once_and_in_order<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut all = Vec::new();
    for _ in 0..30 {
        all.extend(world.publish(&["1", "2", "3", "1", "", "4", "2", "", "5", "1"]).await);
    }
    let sink = RecordingSink::new();
    assert_eq!(world.drain(&sink).await, 300);
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&all));
    assert_in_order(&sink.calls());
    world.settled("crm", all[299].id).await;
    assert_eq!(world.consumer("crm").await.owner, None, "given back");

    assert_eq!(world.drain(&sink).await, 0, "nothing is delivered twice");
    assert_eq!(sink.calls().len(), 300);
}

async fn lanes_run_side_by_side_and_one_event_of_a_lane_at_a_time<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1", "1", "2", "2", "3", "3", "", ""]).await;
    let sink = RecordingSink::new();
    sink.hold();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_until("the head of each lane is there", |calls| calls.len() == 5).await;
    sink.open();
    sink.wait_for_delivered(8).await;
    relay.stop().await;
    assert_eq!((sink.most_lanes(), sink.overlaps()), (5, 0));
    assert_in_order(&sink.calls());
}

async fn no_more_in_flight_than_allowed<T: TestDb>() {
    let world = World::<T>::new().await;
    let aggregates: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    world.publish(&aggregates.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let sink = RecordingSink::new();
    let spec = crm().max_in_flight(4).unwrap();
    world.builder().consumer(spec, sink.clone()).build().unwrap().run_once().await.unwrap();
    assert_eq!(sink.delivered().len(), 40);
    assert_eq!(sink.most_lanes(), 4);
}

async fn what_was_rolled_back_never_arrives<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut kept = Vec::new();
    for round in 0..20 {
        let mut tx = world.outbox.begin(&world.pool).await.unwrap();
        world.outbox.publish_json(&mut tx, &changed("1", 900)).await.unwrap();
        if round % 2 == 0 {
            tx.rollback().await.unwrap();
        } else {
            drop(tx);
        }
        kept.extend(world.publish(&["1", "2"]).await);
    }
    let sink = RecordingSink::new();
    assert_eq!(world.drain(&sink).await, 40);
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&kept));
    assert!(sink.calls().iter().all(|call| !call.envelope.payload.contains("900")));
    // The ids of the rolled back events are given up: progress is one range again.
    world.settled("crm", kept[39].id).await;
}

async fn a_delayed_event_comes_when_it_is_due_and_nobody_waits_for_it<T: TestDb>() {
    let world = World::<T>::new().await;
    let delay = Duration::from_millis(1_500);
    let later = world.outbox.delayed(delay);
    let began = std::time::Instant::now();
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let delayed = later.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    world.outbox.commit(tx).await.unwrap();
    let prompt = world.publish(&["1", "1"]).await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let order = sink.wait_for_delivered(3).await;
    assert!(began.elapsed() >= delay, "not before it was due");
    relay.stop().await;
    assert_eq!(order, [prompt[0].id, prompt[1].id, delayed.id]);
    assert_eq!(sink.calls().last().unwrap().attempt, 1, "waiting is no attempt");
    world.settled("crm", prompt[1].id).await;
}

async fn without_ordering_a_lane_does_not_wait<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "1"]).await;
    let first = events[0].id;
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == first && call.attempt < 3 {
            Outcome::Retry { error: "not yet".into(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let spec = crm().ordering(Ordering::None);
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    let order = sink.wait_for_delivered(3).await;
    relay.stop().await;
    assert_eq!(order.last(), Some(&first), "the others did not wait for it");
}

async fn a_small_window_and_small_reads_lose_nothing<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut all = Vec::new();
    for _ in 0..20 {
        all.extend(world.publish(&["1", "2", "1", "", "3"]).await);
    }
    let mut settings = delivering(quick_settings());
    settings.read_rows = 3;
    settings.window_rows = 5;
    settings.read_bytes = 20;
    let sink = RecordingSink::new();
    let relay = world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap();
    assert_eq!(relay.run_once().await.unwrap(), 100);
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ids(&all));
    assert_in_order(&sink.calls());
}

/// A relay that finds nothing by itself within the test's patience: only a hint can be why an event comes.
pub(crate) fn hardly_polling() -> Settings {
    let mut settings = delivering(quick_settings());
    settings.poll_min = Duration::from_secs(3_600);
    settings.poll_max = Duration::from_secs(3_600);
    settings
}

async fn a_hint_wakes_an_idle_relay<T: TestDb>() {
    let world = World::<T>::new().await;
    let settings = hardly_polling();
    let sink = RecordingSink::new();
    let relay =
        RunningRelay::start(world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap());
    outbox_tests::eventually("the consumer is claimed", async || world.consumer("crm").await.owner.is_some())
        .await;
    let outbox = world.outbox.clone().with_hint(relay.hint());
    let mut tx = outbox.begin(&world.pool).await.unwrap();
    outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    outbox.commit(tx).await.unwrap();
    sink.wait_for_delivered(1).await;
    relay.stop().await;
}
