//! The receiver goes away and comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_sdk::webhook::Secret;
use outbox_tests::{Answer, Received, Receiver, RunningRelay, eventually};

use crate::databases::{TestDb, on_every_database};
use crate::relay::{World, crm, ids};

on_every_database! {
    a_refused_connection_burns_no_attempt
    a_receiver_that_stops_under_requests_loses_nothing
}

fn webhook(addr: SocketAddr) -> Arc<WebhookSink> {
    let secret = Secret::parse("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3").unwrap();
    let mut config = WebhookConfig::new(format!("http://{addr}/hook"), secret);
    config.allow_private_addresses = true;
    config.connect_timeout = Duration::from_secs(2);
    Arc::new(WebhookSink::new(config).unwrap())
}

fn id(request: &Received) -> i64 {
    request.json()["sequence"].as_str().unwrap().parse().unwrap()
}

/// The ids of each aggregate as they arrived.
fn lanes(requests: &[Received]) -> BTreeMap<String, Vec<i64>> {
    let mut lanes = BTreeMap::<_, Vec<_>>::new();
    for request in requests {
        lanes.entry(request.json()["partitionkey"].to_string()).or_default().push(id(request));
    }
    lanes
}

/// How many consumers are paused after how many failures in a row, as the database knows it.
async fn failures<T: TestDb>(world: &World<T>) -> i64 {
    let mut conn = world.pool.acquire().await.unwrap();
    let consumer = T::table("consumer");
    T::count(&mut conn, &format!("SELECT CAST(attempts AS bigint) FROM {consumer} WHERE name = 'crm'")).await
}

async fn a_refused_connection_burns_no_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let receiver = Receiver::start().await;
    let addr = receiver.addr();
    receiver.stop().await;
    let published = world.publish(&["1", "2", "1", "", "2", "1"]).await;
    let spec = crm().timeout(Duration::from_millis(1_900)).unwrap();
    let relay = RunningRelay::start(world.builder().consumer(spec, webhook(addr)).build().unwrap());
    eventually("the second attempt has failed too", async || {
        world.consumer("crm").await;
        failures(&world).await >= 2
    })
    .await;
    assert!(world.consumer("crm").await.settled.is_empty());
    assert_eq!(world.consumer("crm").await.stalled_lanes, 0, "nothing is written per event");

    let receiver = Receiver::scripted_at(addr, |_| StatusCode::OK).await;
    receiver.wait_until("everything has come", |requests| requests.len() == 6).await;
    world.settled("crm", published[5].id).await;
    relay.stop().await;
    let requests = receiver.stop().await;
    assert!(requests.iter().all(|request| request.header("outbox-attempt") == "1"));
    let mut arrived: Vec<_> = requests.iter().map(id).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, ids(&published), "each once");
    assert!(lanes(&requests).values().all(|ids| ids.is_sorted()));
    assert_eq!(failures(&world).await, 0, "the pause is over in the database too");
}

async fn a_receiver_that_stops_under_requests_loses_nothing<T: TestDb>() {
    let world = World::<T>::new().await;
    let receiver = Receiver::scripted(|request| match request.index {
        0..4 => Answer::from(StatusCode::OK),
        _ => Answer::Silence,
    })
    .await;
    let addr = receiver.addr();
    let published = world.publish(&["1", "2", "3", "4", "1", "2", "3", "4", "1", "2"]).await;
    let spec = crm().timeout(Duration::from_millis(1_900)).unwrap();
    let relay = RunningRelay::start(world.builder().consumer(spec, webhook(addr)).build().unwrap());
    receiver.wait_until("four wait for an answer", |requests| requests.len() == 8).await;
    let before = receiver.stop().await;
    let more = world.publish(&["3", "4"]).await;

    let receiver = Receiver::scripted_at(addr, |_| StatusCode::OK).await;
    world.settled("crm", more[1].id).await;
    relay.stop().await;
    let after = receiver.stop().await;
    // What was taken, then what was not: together everything, in order.
    let taken: Vec<_> = before[..4].iter().chain(&after).cloned().collect();
    let mut arrived: Vec<_> = taken.iter().map(id).collect();
    arrived.sort_unstable();
    assert_eq!(arrived, [ids(&published), ids(&more)].concat(), "each taken once");
    assert!(lanes(&taken).values().all(|ids| ids.is_sorted()));
    assert!(world.dead().await.is_empty());
}
