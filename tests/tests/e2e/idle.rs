//! A relay that waits does not work: what it costs while its destination fails, is gone or hangs, and while it is paused.

use std::time::Duration;

use axum::http::StatusCode;
use outbox_tests::{Answer, OutboxProcess, Receiver, TestDb, eventually, on_every_database};
use tokio::process::Command;

use crate::stage::Stage;

on_every_database! {
    a_destination_that_fails_for_all_costs_nothing
    a_closed_port_costs_nothing
    a_probe_that_hangs_costs_nothing
    a_pause_after_a_crash_costs_nothing
}

const AGGREGATES: [&str; 12] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];

/// Five hundredths of a core are the promise; five times as much is allowed here.
async fn costs_nothing(relay: &OutboxProcess, when: &str) {
    const SECONDS: u64 = 4;
    let before = relay.cpu_ticks();
    // The state is reached: this is the time of the measurement.
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let used = relay.cpu_ticks() - before;
    assert!(used <= 25 * SECONDS, "{used} hundredths of a second in {SECONDS} s, {when}");
}

async fn a_destination_that_fails_for_all_costs_nothing<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::scripted(|_| StatusCode::INTERNAL_SERVER_ERROR).await;
    stage.publish(&AGGREGATES).await;
    let relay = stage.relay_with(&receiver.url(), "", "");
    relay.wait_for_line("that all fail", |line| line.contains("fails for every aggregate")).await;
    costs_nothing(&relay, "while the destination answers 500").await;
}

async fn a_closed_port_costs_nothing<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    stage.publish(&AGGREGATES).await;
    let relay = stage.relay_with("http://127.0.0.1:1/hook", "", "");
    relay.wait_for_line("that it is gone", |line| line.contains("the destination is unavailable")).await;
    costs_nothing(&relay, "while the port is closed").await;
}

async fn a_probe_that_hangs_costs_nothing<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::scripted(|request| match request.index {
        0..12 => StatusCode::INTERNAL_SERVER_ERROR.into(),
        _ => Answer::Silence,
    })
    .await;
    stage.publish(&AGGREGATES).await;
    // One at a time: while a probe hangs, nothing else may go.
    let relay =
        stage.relay_with(&receiver.url(), "", "max_in_flight = 1\nretry = { schedule = [\"100ms\"] }");
    receiver.wait_until("a probe", |requests| requests.len() > 12).await;
    costs_nothing(&relay, "while a probe hangs").await;
}

async fn a_pause_after_a_crash_costs_nothing<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    outbox_sdk::Migrator::inbox().run(&stage.pool).await.unwrap();
    let start = || OutboxProcess::spawn(Command::new(env!("CARGO_BIN_EXE_aborting")).arg(stage.db.address()));
    let last = stage.publish(&["1", "2"]).await.pop().unwrap();
    let mut relay = start();
    stage.settled(last.id).await;
    relay.kill9().await;
    let killed = stage.consumer().await.unwrap().owner;
    let mut command = OutboxProcess::command();
    command.args(["consumer", "pause", "crm"]).env("DATABASE_URL", stage.db.address());
    assert_eq!(OutboxProcess::spawn(&mut command).wait_exit().await.code(), Some(0));
    stage.publish(&["1", "2", "3", "4", "5"]).await;
    let relay = start();
    eventually("it has the slot", async || {
        let owner = stage.consumer().await.and_then(|row| row.owner);
        owner.is_some() && owner != killed
    })
    .await;
    costs_nothing(&relay, "while the consumer is paused").await;
}
