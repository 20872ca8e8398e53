//! The relay is killed on the spot, again and again: nothing is lost, and only what was in flight comes again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::StatusCode;
use outbox_sdk::Lane;
use outbox_tests::{Answer, Received, Receiver, Snapshot, TestDb, eventually, on_every_database};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, changed, first_arrivals, id, lane, sorted_ids};

on_every_database! {
    a_kill_between_delivery_and_settle_repeats_what_was_in_flight
    twenty_kills_under_load_lose_nothing_and_keep_the_order
}

async fn a_kill_between_delivery_and_settle_repeats_what_was_in_flight<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::scripted(|request| match (request.path.as_str(), request.index) {
        ("/run/0", 3..) => Answer::Silence,
        _ => StatusCode::NO_CONTENT.into(),
    })
    .await;
    let url = format!("http://{}/run", receiver.addr());
    let before = stage.publish(&["1", "2", "3"]).await;
    let mut killed = stage.relay(&format!("{url}/0"), "3s", "2500ms");
    stage.settled(before[2].id).await;
    let events = stage.publish(&["1", "2", "3", "1", "2", ""]).await;
    receiver.wait_until("the head of each lane is there", |requests| requests.len() == 7).await;
    killed.kill9().await;

    let next = stage.relay(&format!("{url}/1"), "3s", "2500ms");
    stage.settled(events[5].id).await;
    end(next).await;
    let requests = receiver.stop().await;
    let times = |id: i64| sorted_ids(&requests).iter().filter(|other| **other == id).count();
    assert_eq!(
        before.iter().map(|event| times(event.id)).collect::<Vec<_>>(),
        [1, 1, 1],
        "settled: never again"
    );
    assert_eq!(
        events.iter().map(|event| times(event.id)).collect::<Vec<_>>(),
        [2, 2, 2, 1, 1, 2],
        "in flight: once more; behind it: once"
    );
    assert!(first_arrivals(&requests).values().all(|ids| ids.is_sorted()));
}

/// Stops a relay in order; it must end well.
async fn end(mut relay: outbox_tests::OutboxProcess) {
    relay.terminate().await;
    let status = relay.wait_exit().await;
    assert!(status.success(), "{status}; {:#?}", relay.stderr());
}

/// Publishes until it is told to stop: one transaction of a few events after another, some rolled back. Gives out what
/// was committed.
async fn load<T: TestDb>(stage: &Stage<T>, stop: &CancellationToken) -> Vec<(Lane, i64)> {
    const AGGREGATES: [&str; 7] = ["1", "2", "3", "4", "5", "6", ""];
    let mut committed = Vec::new();
    while !stop.is_cancelled() {
        let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
        let mut events = Vec::new();
        for _ in 0..rand::random_range(1..4) {
            let aggregate = AGGREGATES[rand::random_range(0..AGGREGATES.len())];
            let id = stage.outbox.publish_json(&mut tx, &changed(aggregate)).await.unwrap().id;
            let lane = if aggregate.is_empty() {
                Lane::Single(id)
            } else {
                Lane::aggregate(None, "customer", aggregate)
            };
            events.push((lane, id));
        }
        if rand::random_ratio(1, 8) {
            tx.rollback().await.unwrap();
        } else {
            stage.outbox.commit(tx).await.unwrap();
            committed.extend(events);
        }
        sleep(Duration::from_millis(rand::random_range(0..20))).await;
    }
    committed
}

/// Twenty relays, each killed in the middle; gives out what the consumer was through with after each.
async fn kill_twenty<T: TestDb>(stage: &Stage<T>, receiver: &Receiver) -> Vec<Snapshot> {
    let mut through = Vec::new();
    for run in 0..20 {
        let path = format!("/run/{run}");
        let mut relay = stage.relay(&format!("http://{}{path}", receiver.addr()), "1s", "800ms");
        let enough = rand::random_range(1..40);
        let sent = |requests: &[Received]| requests.iter().filter(|request| request.path == path).count();
        receiver.wait_until("the relay works", |requests| sent(requests) >= enough).await;
        sleep(Duration::from_millis(rand::random_range(0..25))).await;
        relay.kill9().await;
        through.push(after_kill(stage).await);
    }
    through
}

/// PostgreSQL may still be at work for a process that is gone.
async fn after_kill<T: TestDb>(stage: &Stage<T>) -> Snapshot {
    const AT_WORK: &str = "SELECT count(*) FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'outbox'";
    let mut conn = stage.pool.acquire().await.unwrap();
    if T::CONCURRENT_WRITERS {
        eventually("the server has noticed", async || T::count(&mut conn, AT_WORK).await == 0).await;
    }
    Snapshot::take::<T>(&mut conn, "crm").await
}

async fn twenty_kills_under_load_lose_nothing_and_keep_the_order<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    let stop = CancellationToken::new();
    let killing = async {
        let through = kill_twenty(&stage, &receiver).await;
        stop.cancel();
        through
    };
    let (committed, through) = tokio::join!(load(&stage, &stop), killing);

    let last = stage.relay(&format!("http://{}/run/20", receiver.addr()), "1s", "800ms");
    stage.settled(committed.last().unwrap().1).await;
    end(last).await;
    assert_eq!(stage.dead_letters().await, 0);
    check(&receiver.stop().await, &committed, &through);
}

/// The receiver's journal against what was committed and what was settled at each kill.
fn check(requests: &[Received], committed: &[(Lane, i64)], through: &[Snapshot]) {
    let mut expected = BTreeMap::<Lane, Vec<i64>>::new();
    for (lane, id) in committed {
        expected.entry(lane.clone()).or_default().push(*id);
    }
    assert_eq!(first_arrivals(requests), expected, "nothing is lost, every lane in order");

    let mut latest = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut repeated = 0;
    for request in requests {
        let run: usize = request.path.trim_start_matches("/run/").parse().unwrap();
        let (lane, id) = (lane(request), id(request));
        // A retried head comes again, nothing before it.
        let before = latest.insert((run, lane.clone()), id).unwrap_or(id);
        assert!(before <= id, "run {run} sent {id} of {lane} after {before}");
        if let Some(was) = run.checked_sub(1).map(|killed| &through[killed]) {
            let settled =
                expected[&lane].iter().find(|later| **later >= id && was.is_through(&lane, **later));
            assert_eq!(settled, None, "run {run} sent {id} of {lane} after that was settled");
        }
        repeated += usize::from(!seen.insert(id));
    }
    // Else the kills hit nothing.
    assert!(repeated > 0 && repeated < requests.len() / 2, "{repeated} of {} came again", requests.len());
}
