//! Every failure stays where it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox_relay::consumer::{ConsumerSpec, OnDead};
use outbox_relay::operate::{EventRef, Operator, Search};
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::Outcome;
use outbox_sdk::JsonEvent;
use outbox_tests::{Call, RecordingSink, RunningRelay, quick_settings};

use super::order::assert_in_order;
use super::{World, crm};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    a_failing_event_holds_its_lane_and_nothing_else
    many_events_behind_a_failed_one_are_one_stall_row
    an_event_is_dead_after_its_attempts_and_the_lane_goes_on
    a_dead_event_can_block_its_lane
    a_rejected_event_is_dead_at_once
    a_panicking_sink_is_a_failed_attempt
    a_sink_that_never_answers_is_a_failed_attempt
    an_unavailable_destination_pauses_and_burns_no_attempt
    a_destination_that_is_gone_pauses_its_consumer_alone_until_somebody_resumes_it
    a_destination_that_fails_for_all_pauses_and_says_why
    a_rate_limit_holds_over_all_slots_and_burns_neither_attempts_nor_the_sinks_time
    a_type_can_have_its_own_retry_policy
    a_payload_that_is_too_large_to_carry_is_dead_alone
}

fn retry() -> Outcome {
    Outcome::Retry { error: "503".into(), after: None }
}

async fn a_failing_event_holds_its_lane_and_nothing_else<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "2", "1", "2", ""]).await;
    let first = events[0].id;
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == first && call.attempt < 3 { retry() } else { Outcome::Delivered }
    });
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let order = sink.wait_for_delivered(6).await;
    world.settled("crm", events[5].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    let at = |id: i64| order.iter().position(|other| *other == id).unwrap();
    assert!(at(events[2].id) < at(first) && at(events[4].id) < at(first) && at(events[5].id) < at(first));
    let attempts: Vec<u32> =
        sink.calls().iter().filter(|call| call.id() == first).map(|call| call.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert_eq!(sink.calls().len(), 8, "nobody else was tried twice");
    assert!(world.dead().await.is_empty());
}

async fn many_events_behind_a_failed_one_are_one_stall_row<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1"; 300]).await;
    let first = events[0].id;
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == first && failing.load(Ordering::Relaxed) { retry() } else { Outcome::Delivered }
    });
    let mut settings = super::delivering(quick_settings());
    // Smaller than the lane, so that it is resumed page by page.
    settings.read_rows = 40;
    let schedule = Schedule::List(vec![Duration::from_millis(50)]);
    let spec = crm().retry(RetryPolicy { schedule, max_attempts: 1_000 });
    let relay =
        RunningRelay::start(world.builder_with(settings).consumer(spec, sink.clone()).build().unwrap());
    outbox_tests::eventually("the stall row stands for all of them", async || {
        let row = world.consumer("crm").await;
        row.stalled_lanes == 1 && row.settled.contains(events[299].id)
    })
    .await;
    let more = world.publish(&["1"; 20]).await;
    fails.store(false, Ordering::Relaxed);
    let order = sink.wait_for_delivered(320).await;
    world.settled("crm", more[19].id).await;
    relay.stop().await;
    assert!(order.is_sorted() && order.len() == 320);
}

async fn an_event_is_dead_after_its_attempts_and_the_lane_goes_on<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "1"]).await;
    let second = events[1].id;
    let sink =
        RecordingSink::scripted(move |call| if call.id() == second { retry() } else { Outcome::Delivered });
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let order = sink.wait_for_delivered(2).await;
    world.settled("crm", events[2].id).await;
    relay.stop().await;
    assert_eq!(order, [events[0].id, events[2].id]);
    let dead = world.dead().await;
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].event_id, dead[0].reason.as_str(), dead[0].attempts), (second, "attempts", 3));
    assert_eq!((dead[0].state.as_str(), dead[0].last_error.as_str()), ("dead", "503"));
}

async fn a_dead_event_can_block_its_lane<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2", "1"]).await;
    let first = events[0].id;
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == first { Outcome::Reject { error: "no".into() } } else { Outcome::Delivered }
    });
    let spec = crm().on_dead(OnDead::Block);
    let build = || world.builder().consumer(spec.clone(), sink.clone()).build().unwrap();
    build().run_once().await.unwrap();
    assert_eq!(sink.delivered(), [events[1].id]);
    let later = world.publish(&["1", "2"]).await;
    build().run_once().await.unwrap();
    assert_eq!(sink.delivered(), [events[1].id, later[1].id], "the block outlives the relay");
    assert_eq!(world.dead().await.len(), 1);
    assert_eq!(world.consumer("crm").await.stalled_lanes, 1);
}

async fn a_rejected_event_is_dead_at_once<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1"]).await;
    let first = events[0].id;
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == first {
            Outcome::Reject { error: "unknown customer".into() }
        } else {
            Outcome::Delivered
        }
    });
    assert_eq!(world.drain(&sink).await, 2);
    assert_eq!(sink.delivered(), [events[1].id]);
    let dead = world.dead().await;
    assert_eq!((dead[0].reason.as_str(), dead[0].attempts), ("rejected", 1));
    assert_eq!(dead[0].last_error, "unknown customer");
}

async fn a_panicking_sink_is_a_failed_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2", "3", "4", "1", "2", "3"]).await;
    let (first, second, third) = (events[0].id, events[1].id, events[2].id);
    let sink = RecordingSink::scripted(move |call| match call.id() {
        id if id == first => panic!("a text"),
        id if id == second => panic!("formatted {}", 7),
        id if id == third => std::panic::panic_any(7_u8),
        _ => Outcome::Delivered,
    });
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_for_delivered(4).await;
    world.settled("crm", events[6].id).await;
    relay.stop().await;
    let mut errors: Vec<String> = world.dead().await.into_iter().map(|dead| dead.last_error).collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "the attempt panicked: a text",
            "the attempt panicked: a value that is no text",
            "the attempt panicked: formatted 7"
        ]
    );
}

async fn a_sink_that_never_answers_is_a_failed_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1"]).await;
    let sink = RecordingSink::new();
    sink.hold();
    let spec = crm().timeout(Duration::from_millis(50)).unwrap();
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    assert_eq!(sink.calls().len(), 3);
    let dead = world.dead().await;
    assert!(dead[0].last_error.contains("time limit"), "{}", dead[0].last_error);
}

async fn an_unavailable_destination_pauses_and_burns_no_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2", "1", "3"]).await;
    let sink = RecordingSink::scripted(|call: &Call| {
        if call.index < 3 {
            Outcome::Unavailable { error: "connection refused".into(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_until("all lanes were refused", |calls| calls.len() >= 3).await;
    outbox_tests::eventually("nothing is settled meanwhile", async || {
        world.consumer("crm").await.settled.is_empty()
    })
    .await;
    sink.wait_for_delivered(4).await;
    world.settled("crm", events[3].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    assert!(sink.calls().iter().all(|call| call.attempt == 1), "no attempt was counted");
    assert!(world.dead().await.is_empty());
}

async fn a_destination_that_is_gone_pauses_its_consumer_alone_until_somebody_resumes_it<T: TestDb>() {
    let world = World::<T>::new().await;
    let is_gone = Arc::new(AtomicBool::new(true));
    let gone = is_gone.clone();
    let sink = RecordingSink::scripted(move |_| match gone.load(Ordering::Relaxed) {
        true => Outcome::Gone { error: "the receiver answered 410 Gone: it takes no more events".into() },
        false => Outcome::Delivered,
    });
    let other = RecordingSink::new();
    // One attempt and two slots: a counted attempt would make a dead letter, a pause of one slot would not hold the other.
    let once = RetryPolicy { schedule: Schedule::List(vec![Duration::from_millis(1)]), max_attempts: 1 };
    let start = async || {
        let builder =
            world.builder().consumer(crm().retry(once.clone()).slots(2).unwrap(), sink.clone()).consumer(
                ConsumerSpec::new("billing").unwrap().timeout(Duration::from_secs(1)).unwrap(),
                other.clone(),
            );
        RunningRelay::start(builder.build().unwrap())
    };
    let relay = start().await;
    let operator = Operator::new(world.pool.clone());
    let mut events = world.publish(&["1", "2", "1", "3", "4", "5", "6", "7"]).await;
    let paused = async || {
        world
            .consumers()
            .await
            .into_iter()
            .filter(|row| row.name == "crm")
            .all(|row| row.paused.is_some_and(|pause| pause.by.as_deref() == Some("receiver")))
    };
    outbox_tests::eventually("all slots are paused", paused).await;
    let calls = sink.calls().len();
    // What it said outlasts the relay, and is said where operators look.
    relay.stop().await;
    let relay = start().await;
    events.extend(world.publish(&["1", "8"]).await);
    let last = events[9].id;
    other.wait_for_delivered(10).await;
    world.settled("billing", last).await;
    assert!(paused().await);
    let in_flight = sink.calls().len();
    assert!(in_flight <= calls + 16, "what was in flight, no more: {in_flight}, {calls}");
    let why = operator.why(EventRef::Id(events[0].id), Search::ByTime, &[]).await.unwrap();
    let why = why.consumers.iter().find(|explanation| explanation.consumer == "crm").unwrap().text();
    assert!(why.contains("410 Gone") && why.contains("outbox consumer resume crm"), "{why}");
    is_gone.store(false, Ordering::Relaxed);
    operator.resume("crm").await.unwrap();
    sink.wait_for_delivered(10).await;
    world.settled("crm", last).await;
    relay.stop().await;
    assert!(sink.calls().iter().all(|call| call.attempt == 1), "no attempt was counted");
    let delivered: Vec<Call> =
        sink.calls().into_iter().filter(|call| call.outcome == Some(Outcome::Delivered)).collect();
    assert_in_order(&delivered);
    assert!(world.dead().await.is_empty());
}

async fn a_destination_that_fails_for_all_pauses_and_says_why<T: TestDb>() {
    let world = World::<T>::new().await;
    let aggregates: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let events = world.publish(&aggregates.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let fails = Arc::new(AtomicBool::new(true));
    let failing = fails.clone();
    let sink =
        RecordingSink::scripted(
            move |_| {
                if failing.load(Ordering::Relaxed) { retry() } else { Outcome::Delivered }
            },
        );
    let schedule = Schedule::List(vec![Duration::from_millis(1)]);
    let spec = crm().retry(RetryPolicy { schedule, max_attempts: 1_000 });
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    let mut conn = world.pool.acquire().await.unwrap();
    let reason = format!("SELECT pause_reason FROM {} WHERE pause_reason IS NOT NULL", T::table("consumer"));
    let mut reasons = Vec::new();
    outbox_tests::eventually("the pause is written", async || {
        reasons = T::texts(&mut conn, &reason).await;
        !reasons.is_empty()
    })
    .await;
    assert!(
        reasons[0].contains(" failures in a row on ") && reasons[0].ends_with("last: 503"),
        "{reasons:?}"
    );
    fails.store(false, Ordering::Relaxed);
    world.settled("crm", events[11].id).await;
    outbox_tests::eventually("the pause is over", async || T::texts(&mut conn, &reason).await.is_empty())
        .await;
    relay.stop().await;
    let taken = sink.calls().into_iter().filter(|call| call.outcome == Some(Outcome::Delivered));
    assert!(taken.map(|call| call.attempt).all(|attempt| attempt > 1), "failures stay counted");
    assert!(world.dead().await.is_empty());
}

async fn a_rate_limit_holds_over_all_slots_and_burns_neither_attempts_nor_the_sinks_time<T: TestDb>() {
    let world = World::<T>::new().await;
    let aggregates: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let events = world.publish(&aggregates.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let sink = RecordingSink::new();
    // The time limit is far below what the last event waits for.
    let spec = crm()
        .slots(2)
        .unwrap()
        .rate_limit("20/s".parse().unwrap())
        .timeout(Duration::from_millis(200))
        .unwrap();
    let start = std::time::Instant::now();
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    sink.wait_for_delivered(40).await;
    // Each slot has 10/s and one token to begin with; however the lanes are spread, one of them has 20 or more.
    assert!(start.elapsed() >= Duration::from_millis(1_900), "{:?}", start.elapsed());
    outbox_tests::eventually("all is settled", async || {
        let rows = world.consumers().await;
        rows.len() == 2
            && rows.iter().all(|row| row.stalled_lanes == 0 && row.settled.contains(events[39].id))
    })
    .await;
    relay.stop().await;
    let calls = sink.calls();
    assert!(calls.len() == 40 && calls.iter().all(|call| call.attempt == 1), "{}", calls.len());
    assert!(world.dead().await.is_empty());
}

async fn a_type_can_have_its_own_retry_policy<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1"]).await;
    world.publish_event(&JsonEvent::new("customer.audited", 1, "customer", "{}").aggregate_id("2")).await;
    let sink = RecordingSink::scripted(|_| retry());
    let once = RetryPolicy { schedule: Schedule::List(vec![Duration::from_millis(1)]), max_attempts: 1 };
    let spec = crm().override_retry("customer.audited", once).unwrap();
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    outbox_tests::eventually("both are dead", async || world.dead().await.len() == 2).await;
    relay.stop().await;
    let mut attempts: Vec<(i64, u32)> =
        world.dead().await.iter().map(|dead| (dead.event_id, dead.attempts)).collect();
    attempts.sort_unstable();
    assert_eq!(attempts, [(1, 3), (2, 1)]);
}

async fn a_payload_that_is_too_large_to_carry_is_dead_alone<T: TestDb>() {
    let world = World::<T>::new().await;
    let large = format!(r#"{{"n": "{}"}}"#, "x".repeat(100_000));
    let before = world.publish(&["1"]).await;
    let bad = world
        .publish_event(&JsonEvent::new("customer.changed", 1, "customer", large).aggregate_id("1"))
        .await;
    let after = world.publish(&["1"]).await;
    let mut settings = super::delivering(quick_settings());
    settings.read_bytes = 50_000;
    let sink = RecordingSink::new();
    let relay = world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap();
    assert_eq!(relay.run_once().await.unwrap(), 3);
    assert_eq!(sink.delivered(), [before[0].id, after[0].id]);
    let dead = world.dead().await;
    assert_eq!((dead[0].event_id, dead[0].reason.as_str()), (bad.id, "undecodable"));
}
