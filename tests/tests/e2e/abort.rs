//! An event whose handler ends the process is dead after its attempts, and everything else is delivered.

use outbox_sdk::backend::{LetterFilter, Operate as _};
use outbox_sdk::{JsonEvent, Migrator, Tables};
use outbox_tests::{OutboxProcess, TestDb, eventually, on_every_database};
use tokio::process::Command;

use crate::stage::{Stage, changed};

on_every_database! {
    an_event_that_ends_the_process_ends_dead
    a_slow_consumer_beside_it_comes_through_unharmed
}

/// The consumer's limit in the binary `aborting`.
const MAX_ATTEMPTS: usize = 3;

async fn an_event_that_ends_the_process_ends_dead<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    Migrator::inbox().run(&stage.pool).await.unwrap();
    let before = stage.publish(&["1", "2", "3", "1"]).await;
    let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
    let exploding = JsonEvent::new("customer.exploded", 1, "customer", "{}".to_owned()).aggregate_id("1");
    let culprit = stage.outbox.publish_json(&mut tx, &exploding).await.unwrap().id;
    let behind = stage.outbox.publish_json(&mut tx, &changed("1")).await.unwrap().id;
    stage.outbox.commit(tx).await.unwrap();
    let after = stage.publish(&["2", "4", ""]).await;

    let (mut ended, mut handled) = (0, Vec::new());
    loop {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aborting"));
        let mut relay = OutboxProcess::spawn(command.arg(stage.db.address()));
        let done = tokio::select! {
            status = relay.wait_exit() => {
                assert!(!status.success());
                false
            }
            () = stage.settled(after[2].id) => {
                relay.kill9().await;
                true
            }
        };
        handled.push(relay.stdout().iter().map(|line| line.parse().unwrap()).collect::<Vec<i64>>());
        if done {
            break;
        }
        ended += 1;
        assert!(ended <= MAX_ATTEMPTS + 1, "it goes on: {handled:?}");
    }
    assert_eq!(ended, MAX_ATTEMPTS + 1, "the first did not count, and each after it did: {handled:?}");

    let mut conn = stage.pool.acquire().await.unwrap();
    let dead =
        T::Db::dead_letters(&mut conn, &Tables::default(), &LetterFilter::default(), None, 10).await.unwrap();
    let [letter] = dead.as_slice() else { panic!("{dead:?}") };
    assert_eq!((letter.event_id, letter.reason.as_str(), letter.attempts), (culprit, "attempts", 3));
    assert!(letter.last_error.contains("the process ended"), "{}", letter.last_error);
    let sent = handled.iter().flatten().filter(|id| **id == culprit).count();
    assert_eq!(sent, MAX_ATTEMPTS + 1);
    for round in &handled[1..ended] {
        assert_eq!(round.last(), Some(&culprit), "one at a time: {handled:?}");
    }
    for event in before.iter().chain(&after).map(|event| event.id).chain([behind]) {
        assert!(handled.iter().flatten().any(|id| *id == event), "{event} was never handled: {handled:?}");
    }
    let effects = format!("SELECT count(*) FROM {}", T::table("processed_event"));
    let others = i64::try_from(before.len() + after.len() + 1).unwrap();
    assert_eq!(T::count(&mut conn, &effects).await, others, "each of the others once");
}

/// Each process begins with both consumers going one at a time. The slow one may neither keep the other from its end, nor
/// pay for it with attempts.
async fn a_slow_consumer_beside_it_comes_through_unharmed<T: TestDb>() {
    const EVENTS: usize = 20;
    let stage = Stage::<T>::new().await;
    Migrator::inbox().run(&stage.pool).await.unwrap();
    let names: Vec<String> = (0..EVENTS / 2).map(|n| n.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    stage.publish(&names).await;
    let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
    let exploding = JsonEvent::new("customer.exploded", 1, "customer", "{}".to_owned()).aggregate_id("1");
    let culprit = stage.outbox.publish_json(&mut tx, &exploding).await.unwrap().id;
    stage.outbox.commit(tx).await.unwrap();
    let last = stage.publish(&names).await.pop().unwrap().id;
    let all = format!("{{[1,{})}}", last + 1);
    let both = async || {
        let mut conn = stage.pool.acquire().await.unwrap();
        let rows = T::Db::consumers(&mut conn, &Tables::default()).await.unwrap();
        rows.len() == 2 && rows.iter().all(|row| row.settled.to_multirange() == all && row.stalled_lanes == 0)
    };

    // One look of the next process claims both, so that they begin together.
    let free = async || {
        let mut conn = stage.pool.acquire().await.unwrap();
        let rows = T::Db::consumers(&mut conn, &Tables::default()).await.unwrap();
        rows.iter().all(|row| row.owner.is_none())
    };
    let (mut ended, mut handled) = (0, Vec::new());
    loop {
        eventually("the leases are over", free).await;
        let mut command = Command::new(env!("CARGO_BIN_EXE_aborting"));
        let mut relay = OutboxProcess::spawn(command.arg(stage.db.address()).arg("two"));
        let done = tokio::select! {
            status = relay.wait_exit() => {
                assert!(!status.success());
                false
            }
            () = eventually("both are through", both) => true,
        };
        if done {
            relay.kill9().await;
        }
        handled.push(relay.stdout());
        if done {
            break;
        }
        ended += 1;
        assert!(ended <= MAX_ATTEMPTS + 1, "it goes on: {handled:?}");
    }
    assert_eq!(ended, MAX_ATTEMPTS + 1, "{handled:?}");

    let mut conn = stage.pool.acquire().await.unwrap();
    let dead =
        T::Db::dead_letters(&mut conn, &Tables::default(), &LetterFilter::default(), None, 10).await.unwrap();
    let [letter] = dead.as_slice() else { panic!("{dead:?}") };
    assert_eq!((letter.consumer.as_str(), letter.event_id, letter.attempts), ("crm", culprit, 3));
    // Nobody waits for the other's end: between two events of the slow one, the other has its turn while it has any.
    for round in &handled[1..ended] {
        let slow = round.iter().filter(|line| line.starts_with("mail")).count();
        let quick = round.len() - slow;
        assert!(slow <= 2 * (quick + 1), "one had the turn again and again: {round:?}");
    }
    let effects = format!("SELECT count(*) FROM {}", T::table("processed_event"));
    let each_once = i64::try_from(2 * (EVENTS + 1) - 1).unwrap();
    assert_eq!(T::count(&mut conn, &effects).await, each_once);
}
