//! What operators decide about dead letters reaches the sink, and rows in dead gaps are found.

use outbox_relay::consumer::OnDead;
use outbox_relay::sink::Outcome;
use outbox_tests::{Call, RecordingSink, RunningRelay, eventually, quick_settings};

use super::order::assert_in_order;
use super::{World, changed, crm, delivering, ids};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    a_replay_is_marked_and_counts_on
    a_replay_that_fails_is_dead_again
    a_replay_of_an_event_that_is_gone_says_so
    a_blocked_lane_goes_on_when_its_head_is_replayed
    a_blocked_lane_goes_on_when_its_head_is_discarded
    a_mass_replay_is_delivered_in_the_order_of_its_lane
    a_busy_lane_leaves_room_for_the_others
    a_row_in_a_dead_gap_is_delivered_late
}

fn reject() -> Outcome {
    Outcome::Reject { error: "no".into() }
}

/// Takes everything but the first attempt at each of these.
fn rejecting(first: Vec<i64>) -> std::sync::Arc<RecordingSink> {
    RecordingSink::scripted(move |call| {
        if !call.replay && first.contains(&call.id()) { reject() } else { Outcome::Delivered }
    })
}

impl<T: TestDb> World<T> {
    async fn decide(&self, state: &str, condition: &str) {
        let table = T::table("dead_letter");
        let sql = format!("UPDATE {table} SET state = '{state}' WHERE state = 'dead' AND {condition}");
        T::execute(&mut *self.pool.acquire().await.unwrap(), &sql).await.unwrap();
    }

    async fn states(&self) -> Vec<(i64, String, u32)> {
        let mut all: Vec<_> =
            self.dead().await.into_iter().map(|l| (l.event_id, l.state.to_string(), l.attempts)).collect();
        all.sort_unstable();
        all
    }
}

fn replays(calls: &[Call]) -> Vec<(i64, u32)> {
    calls.iter().filter(|call| call.replay).map(|call| (call.id(), call.attempt)).collect()
}

async fn a_replay_is_marked_and_counts_on<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "2"]).await;
    let sink = rejecting(vec![events[0].id]);
    assert_eq!(world.drain(&sink).await, 3);
    world.decide("replay", "event_id > 0").await;
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    eventually("it is replayed", async || world.states().await == [(events[0].id, "replayed".to_owned(), 2)])
        .await;
    relay.stop().await;
    assert_eq!(replays(&sink.calls()), [(events[0].id, 2)]);
    assert_eq!(sink.calls().len(), 4);
}

async fn a_replay_that_fails_is_dead_again<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1"]).await;
    let first = events[0].id;
    let sink = RecordingSink::scripted(move |call| match call.id() {
        id if id == first && call.replay => Outcome::Retry { error: "still down".into(), after: None },
        id if id == first => reject(),
        _ => Outcome::Delivered,
    });
    world.drain(&sink).await;
    world.decide("replay", "event_id > 0").await;
    world.drain(&sink).await;
    assert_eq!(world.states().await, [(first, "dead".to_owned(), 2)]);
    assert_eq!(world.dead().await[0].last_error, "still down");
    world.decide("replay", "event_id > 0").await;
    world.drain(&sink).await;
    assert_eq!(replays(&sink.calls()), [(first, 2), (first, 3)], "one attempt each");
}

async fn a_replay_of_an_event_that_is_gone_says_so<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "2"]).await;
    let sink = rejecting(ids(&events));
    world.drain(&sink).await;
    let gone = format!("DELETE FROM {} WHERE id = {}", T::table("event"), events[0].id);
    T::execute(&mut *world.pool.acquire().await.unwrap(), &gone).await.unwrap();
    world.decide("replay", "event_id > 0").await;
    world.drain(&sink).await;
    assert_eq!(
        world.states().await,
        [(events[0].id, "dead".to_owned(), 1), (events[1].id, "replayed".to_owned(), 2)]
    );
    let letter = world.dead().await.into_iter().find(|letter| letter.event_id == events[0].id).unwrap();
    assert!(letter.last_error.contains("the event is gone"), "{}", letter.last_error);
}

async fn blocked<T: TestDb>(state: &str) -> (Vec<i64>, Vec<Call>) {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "1", "2"]).await;
    let sink = rejecting(vec![events[0].id]);
    let spec = crm().on_dead(OnDead::Block);
    let relay = RunningRelay::start(world.builder().consumer(spec, sink.clone()).build().unwrap());
    eventually("the lane is blocked", async || {
        world.dead().await.len() == 1 && world.consumer("crm").await.settled.contains(events[3].id)
    })
    .await;
    world.decide(state, "event_id > 0").await;
    world.settled("crm", events[3].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    (ids(&events), sink.calls())
}

async fn a_blocked_lane_goes_on_when_its_head_is_replayed<T: TestDb>() {
    let (events, calls) = blocked::<T>("replay").await;
    let lane: Vec<_> = calls.iter().filter(|call| call.id() != events[3]).map(Call::id).collect();
    assert_eq!(lane, [events[0], events[0], events[1], events[2]]);
    assert_eq!(replays(&calls), [(events[0], 2)]);
}

async fn a_blocked_lane_goes_on_when_its_head_is_discarded<T: TestDb>() {
    let (events, calls) = blocked::<T>("discarded").await;
    let lane: Vec<_> = calls.iter().filter(|call| call.id() != events[3]).map(Call::id).collect();
    assert_eq!(lane, [events[0], events[1], events[2]]);
}

async fn a_mass_replay_is_delivered_in_the_order_of_its_lane<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1"; 150]).await;
    let sink = rejecting(ids(&events));
    world.drain(&sink).await;
    world.decide("replay", "event_id > 0").await;
    world.drain(&sink).await;
    let order: Vec<i64> = replays(&sink.calls()).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order, ids(&events), "two rounds");
    assert!(world.states().await.iter().all(|(_, state, _)| state == "replayed"));
    assert_eq!(sink.overlaps(), 0);
}

async fn a_busy_lane_leaves_room_for_the_others<T: TestDb>() {
    let world = World::<T>::new().await;
    let busy = world.publish(&["busy"; 200]).await;
    let other = world.publish(&["other"]).await;
    let sink = RecordingSink::new();
    sink.hold();
    let mut settings = delivering(quick_settings());
    // An eighth of it is for one lane.
    settings.window_rows = 80;
    settings.read_rows = 40;
    let relay =
        RunningRelay::start(world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_until("both lanes are at the sink", |calls| calls.len() == 2).await;
    eventually("a stall row stands for the busy lane", async || {
        world.consumer("crm").await.stalled_lanes == 1
    })
    .await;
    sink.open();
    world.settled("crm", other[0].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    assert_eq!(sink.calls().len(), busy.len() + 1, "each once");
    assert!(sink.calls().iter().all(|call| call.attempt == 1), "nothing has failed");
}

async fn a_row_in_a_dead_gap_is_delivered_late<T: TestDb>() {
    let world = World::<T>::new().await;
    let events = world.publish(&["1", "1", "1"]).await;
    let sink = RecordingSink::new();
    world.drain(&sink).await;
    // As if the second had been given up and came in spite of it.
    let table = T::table("consumer");
    let (from, until) = (events[1].id, events[1].id + 1);
    let void =
        if T::CONCURRENT_WRITERS { format!("{{[{from},{until})}}") } else { format!("[[{from},{until}]]") };
    let sql = format!("UPDATE {table} SET void = '{void}'");
    T::execute(&mut *world.pool.acquire().await.unwrap(), &sql).await.unwrap();
    let mut settings = delivering(quick_settings());
    settings.sweep_interval = std::time::Duration::from_millis(20);
    let relay =
        RunningRelay::start(world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap());
    let order = sink.wait_for_delivered(4).await;
    let more = world.publish_event(&changed("1", 9)).await;
    world.settled("crm", more.id).await;
    relay.stop().await;
    assert_eq!(order[3], events[1].id);
    let empty = format!(
        "SELECT count(*) FROM {table} WHERE void = '{}'",
        if T::CONCURRENT_WRITERS { "{}" } else { "[]" }
    );
    assert_eq!(T::count(&mut *world.pool.acquire().await.unwrap(), &empty).await, 1);
}
