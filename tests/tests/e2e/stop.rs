//! An orderly end: what is in flight ends, the slot is given back, the next relay goes on at once.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use outbox_tests::{Answer, Receiver, TestDb, on_every_database};
use tokio_util::sync::CancellationToken;

use crate::stage::{Stage, first_arrivals, sorted_ids};

on_every_database! {
    sigterm_drains_and_gives_the_slot_back
    sigint_drains_and_gives_the_slot_back
}

/// Far beyond what a test waits for: only a slot that was given back can be claimed in time.
const LEASE: &str = "10m";

/// Many more than are sent while a signal is on its way.
const EVENTS: usize = 90;

async fn sigterm_drains_and_gives_the_slot_back<T: TestDb>() {
    drains::<T>("SIGTERM").await;
}

async fn sigint_drains_and_gives_the_slot_back<T: TestDb>() {
    drains::<T>("SIGINT").await;
}

async fn drains<T: TestDb>(signal: &str) {
    let stage = Stage::<T>::new().await;
    let release = CancellationToken::new();
    let until = release.clone();
    let receiver =
        Receiver::scripted(move |_| Answer::Held(until.clone(), StatusCode::NO_CONTENT.into_response()))
            .await;
    let published = stage.publish(&["1", "2", "3"].repeat(EVENTS / 3)).await;
    let mut relay = stage.relay(&receiver.url(), LEASE, "50s");
    receiver.wait_until("three are in flight", |requests| requests.len() == 3).await;
    if signal == "SIGTERM" {
        relay.terminate().await;
    } else {
        relay.interrupt().await;
    }
    relay.wait_for_line("the signal", |line| line.contains("draining") && line.contains(signal)).await;
    release.cancel();
    let status = relay.wait_exit().await;
    assert_eq!(status.code(), Some(0), "{:#?}", relay.stderr());
    // The signal may have met an answer and the send behind it; of all there was to send it stopped the rest.
    let sent = sorted_ids(&receiver.requests());
    assert!(sent.len() < EVENTS / 2, "{} of {EVENTS} were sent", sent.len());
    let row = stage.consumer().await.unwrap();
    let settled = (1..=published[EVENTS - 1].id).filter(|id| row.settled.contains(*id)).collect::<Vec<_>>();
    assert_eq!((row.owner, settled), (None, sent), "what was sent is settled, and the slot given back");

    let mut next = stage.relay(&receiver.url(), LEASE, "50s");
    stage.settled(published[EVENTS - 1].id).await;
    next.terminate().await;
    assert!(next.wait_exit().await.success());
    let requests = receiver.stop().await;
    assert_eq!(
        sorted_ids(&requests),
        published.iter().map(|event| event.id).collect::<Vec<_>>(),
        "each once"
    );
    assert!(first_arrivals(&requests).values().all(|ids| ids.is_sorted()));
}
