//! A relay process that is stopped for longer than its lease, and a destination that refuses.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use outbox_tests::{Answer, OutboxProcess, PgTestDb, Proxy, Receiver, TestDb, eventually, on_every_database};
use tokio_util::sync::CancellationToken;

use crate::stage::{SECRET, Stage, id};

on_every_database! {
    a_process_that_was_frozen_past_its_lease_changes_nothing
}

/// Everything that a late acknowledgement could change.
async fn rows<T: TestDb>(stage: &Stage<T>) -> Vec<String> {
    let mut conn = stage.pool.acquire().await.unwrap();
    let mut rows = Vec::new();
    for (table, columns) in [
        (
            "consumer",
            "CAST(epoch AS text) || ' ' || CAST(rev AS text) || ' ' || CAST(settled AS text) || ' ' || owner",
        ),
        ("stall", "lane || ' ' || CAST(head_id AS text) || ' ' || CAST(attempts AS text)"),
        ("dead_letter", "CAST(event_id AS text) || ' ' || state"),
    ] {
        rows.extend(T::texts(&mut conn, &format!("SELECT {columns} FROM {}", T::table(table))).await);
    }
    rows
}

/// The first relay is frozen with an event at the receiver. The second one takes over, delivers, and is frozen in its
/// turn, so that nobody else writes when the first one wakes up with its answer.
async fn a_process_that_was_frozen_past_its_lease_changes_nothing<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let first_answer = CancellationToken::new();
    let until = first_answer.clone();
    let receiver = Receiver::scripted(move |request| match request.index {
        0 => Answer::Held(
            until.clone(),
            axum::response::IntoResponse::into_response(StatusCode::SERVICE_UNAVAILABLE),
        ),
        _ => StatusCode::OK.into(),
    })
    .await;
    let frozen = stage.relay(&receiver.url(), "2s", "1500ms");
    eventually("the first relay has the slot", async || {
        stage.consumer().await.is_some_and(|row| row.owner.is_some())
    })
    .await;
    let events = stage.publish(&["1"]).await;
    receiver.wait_until("the first attempt", |requests| requests.len() == 1).await;
    frozen.freeze().await;

    let second = stage.relay(&receiver.url(), "60s", "1500ms");
    stage.settled(events[0].id).await;
    second.freeze().await;
    let before = rows(&stage).await;
    // An answer that would park the lane, had the relay still the right to.
    first_answer.cancel();
    frozen.thaw().await;
    frozen.wait_for_line("that its slot is lost", |line| line.contains("lost the slot")).await;
    assert_eq!(rows(&stage).await, before, "the late answer changed something");
    second.thaw().await;
    let requests = receiver.requests();
    assert_eq!(requests.iter().map(id).collect::<Vec<_>>(), [events[0].id, events[0].id]);
    assert_eq!(stage.dead_letters().await, 0);
}

/// One consumer's destination refuses connections; the other one's is fine. Twelve seconds of it.
#[tokio::test]
async fn a_closed_port_costs_little_and_keeps_nobody() {
    let stage = Stage::<PgTestDb>::new().await;
    let proxy = Proxy::start(stage.db.server_addr()).await;
    let receiver = Receiver::start().await;
    let closed = Receiver::start().await;
    let closed_url = closed.url();
    closed.stop().await;
    let consumer = |name: &str, url: &str| {
        format!(
            "[[consumer]]\nname = \"{name}\"\n[consumer.webhook]\nurl = \"{url}\"\nsecrets = [\"env:STAGE_SECRET\"]\n\
             allow_private_addresses = true\n"
        )
    };
    let text = format!(
        "[database]\nurl = \"{}\"\n[registry]\npath = \"schemas\"\n{}{}",
        stage.db.url_through(proxy.addr()),
        consumer("closed", &closed_url),
        consumer("fine", &receiver.url()),
    );
    let path = stage.folder.path().join("closed.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = OutboxProcess::command();
    command.env("STAGE_SECRET", SECRET);
    let relay = OutboxProcess::spawn(command.args(["run", "--config"]).arg(&path));
    eventually("the consumers are registered", async || {
        let mut conn = stage.pool.acquire().await.unwrap();
        PgTestDb::count(&mut conn, "SELECT count(*) FROM outbox.consumer WHERE owner IS NOT NULL").await == 2
    })
    .await;
    stage.publish(&["refused"]).await;
    let (statements, lines) = (proxy.statements().len(), relay.stderr().len());
    let began = Instant::now();
    let mut served = 0;
    while began.elapsed() < Duration::from_secs(12) {
        stage.publish(&["fine"]).await;
        served += 1;
        let asked = Instant::now();
        receiver.wait_until("the other consumer is served", |requests| requests.len() > served).await;
        assert!(asked.elapsed() < Duration::from_secs(5), "served after {:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let mut conn = stage.pool.acquire().await.unwrap();
    let pauses = "SELECT attempts::bigint FROM outbox.consumer WHERE name = 'closed'";
    let pauses = PgTestDb::count(&mut conn, pauses).await;
    assert!((2..=5).contains(&pauses), "{pauses} attempts in {:?}", began.elapsed());
    let lines = relay.stderr().len() - lines;
    assert!(lines <= 10, "{lines} lines: {:#?}", relay.stderr());
    let statements = proxy.statements().len() - statements;
    assert!(statements <= 12 * 20, "{statements} statements in {:?}", began.elapsed());
}
