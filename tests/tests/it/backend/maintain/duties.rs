//! Duties: once at a time, and how they stand.

use std::time::Duration;

use outbox_sdk::backend::{Compacted, Duties, Duty, Maintain, Recording};
use outbox_tests::{PgTestDb, eventually, on_every_database};

use super::{DAY, Stage, compaction, dispatched, keep, lane, recording};
use crate::databases::TestDb;

on_every_database! {
    a_duty_is_taken_once_and_comes_back
    failures_are_counted_until_a_success
    the_recorder_is_told_whether_there_is_anything_to_do
}

async fn duties<T: TestDb>(stage: &Stage<T>) -> Duties {
    T::Db::duties(&mut *stage.outbox.conn().await, &stage.outbox.tables).await.unwrap()
}

async fn a_duty_is_taken_once_and_comes_back<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    let take = async |hold, if_due| {
        let mut conn = stage.outbox.conn().await;
        T::Db::take_duty(&mut *conn, &stage.outbox.tables, Duty::Retention, hold, if_due).await.unwrap()
    };
    assert_eq!(take(DAY, true).await, Some(0));
    assert_eq!(take(DAY, true).await, None, "somebody has it");
    let due_in = duties(&stage).await.retention.due_in;
    assert!(due_in > DAY / 2 && due_in <= DAY, "{due_in:?}");
    assert_eq!(duties(&stage).await.recorder.due_in, Duration::ZERO, "the other one is free");
    assert_eq!(take(Duration::ZERO, false).await, Some(0), "who must, may");
    eventually("whoever had it is gone", async || take(DAY, true).await.is_some()).await;
}

async fn failures_are_counted_until_a_success<T: TestDb>() {
    let stage = Stage::<T>::with(&["a"]).await;
    let end = async |error| {
        let mut conn = stage.outbox.conn().await;
        T::Db::end_duty(&mut *conn, &stage.outbox.tables, Duty::Retention, DAY, error).await.unwrap()
    };
    assert_eq!(end(Some("first")).await, 1);
    assert_eq!(end(Some("second")).await, 2);
    let state = duties(&stage).await.retention;
    assert_eq!((state.failures, state.last_error.as_deref(), state.succeeded_ago), (2, Some("second"), None));
    assert!(state.due_in > DAY / 2);
    assert_eq!(end(None).await, 0);
    let state = duties(&stage).await.retention;
    assert_eq!((state.failures, state.last_error), (0, None));
    assert!(state.succeeded_ago.is_some_and(|ago| ago < DAY));
}

async fn the_recorder_is_told_whether_there_is_anything_to_do<T: TestDb>() {
    let stage = Stage::<T>::with(&["a", "b"]).await;
    assert!(!duties(&stage).await.unrecorded, "nobody is registered");
    stage.consumer("crm", 3).await;
    assert!(duties(&stage).await.unrecorded);
    stage.record().await;
    assert!(!duties(&stage).await.unrecorded);
    stage.letter("crm", 1, "dead", 1).await;
    assert!(duties(&stage).await.unrecorded);
    stage.record().await;
    stage.outbox.append_all(&[super::event("c")]).await;
    stage.settled("crm", &[(1, 4)]).await;
    stage.stall("crm", &lane("c"), 3, false).await;
    stage.record().await;
    assert!(duties(&stage).await.unrecorded, "what is held must be looked at again");
}

#[tokio::test]
async fn one_at_a_time_records_and_one_deletes() {
    let stage = Stage::<PgTestDb>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    let mut other = stage.outbox.pool.begin().await.unwrap();
    PgTestDb::execute(&mut other, "SELECT FROM outbox.duty WHERE name = 'recorder' FOR UPDATE")
        .await
        .unwrap();
    assert_eq!(stage.record_batch(recording(10)).await, None);
    let (tables, keep) = (&stage.outbox.tables, keep(10));
    let mut conn = stage.outbox.conn().await;
    assert!(sqlx::Postgres::compact(&mut conn, tables, &compaction(&keep)).await.unwrap().is_some());
    PgTestDb::execute(&mut other, "SELECT FROM outbox.duty WHERE name = 'retention' FOR UPDATE")
        .await
        .unwrap();
    assert_eq!(sqlx::Postgres::compact(&mut conn, tables, &compaction(&keep)).await.unwrap(), None);
    other.rollback().await.unwrap();
    assert_eq!(stage.record_batch(recording(10)).await, Some(dispatched(1, 0)));
}

/// A registration holds the admin lock: whoever records or deletes waits, and then sees the new consumer.
#[tokio::test]
async fn a_registration_comes_before_what_waits_for_it() {
    let stage = Stage::<PgTestDb>::with(&["a", "b"]).await;
    stage.consumer("crm", 2).await;
    stage.record().await;
    stage.days_pass(20).await;
    stage.settled("crm", &[(1, 3)]).await;
    let lock = "SELECT pg_advisory_xact_lock(1870099555, hashtext('outbox'))";
    let mut registering = stage.outbox.pool.begin().await.unwrap();
    PgTestDb::execute(&mut registering, lock).await.unwrap();
    let (pool, tables, keep) = (&stage.outbox.pool, &stage.outbox.tables, keep(10));
    let compacting = async {
        let mut conn = pool.acquire().await.unwrap();
        sqlx::Postgres::compact(&mut conn, tables, &compaction(&keep)).await.unwrap().unwrap()
    };
    let recording = async {
        let mut conn = pool.acquire().await.unwrap();
        let recording = Recording { limit: 10, wrap: true, if_due: false };
        sqlx::Postgres::record(&mut conn, tables, &recording).await.unwrap().unwrap()
    };
    let registering = async {
        eventually("both wait", async || {
            let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            PgTestDb::count(&mut *stage.outbox.conn().await, waiting).await == 2
        })
        .await;
        let insert = "INSERT INTO outbox.consumer (name, slot, epoch) VALUES ('billing', 0, 99)";
        PgTestDb::execute(&mut registering, insert).await.unwrap();
        registering.commit().await.unwrap();
    };
    let (compacted, recorded, ()) = tokio::join!(compacting, recording, registering);
    assert_eq!(compacted, Compacted { done: true, ..Compacted::default() });
    assert_eq!(recorded, dispatched(0, 0));
    assert_eq!(stage.stored_ids().await, [1, 2]);
}

/// A replay that an operator asks for while the event is being deleted comes first and is heard.
#[tokio::test]
async fn a_replay_that_comes_first_keeps_its_event() {
    let stage = Stage::<PgTestDb>::with(&["a", "b"]).await;
    stage.consumer("crm", 3).await;
    stage.letter("crm", 1, "dead", 1).await;
    stage.record().await;
    stage.acknowledged("crm", 1, 0).await;
    stage.days_pass(20).await;
    let mut operator = stage.outbox.pool.begin().await.unwrap();
    let replay = "UPDATE outbox.dead_letter SET state = 'replay', recorded = false";
    PgTestDb::execute(&mut operator, replay).await.unwrap();
    let (pool, tables, keep) = (&stage.outbox.pool, &stage.outbox.tables, keep(10));
    let compacting = async {
        let mut conn = pool.acquire().await.unwrap();
        sqlx::Postgres::compact(&mut conn, tables, &compaction(&keep)).await.unwrap().unwrap()
    };
    let replaying = async {
        eventually("the letter is waited for", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity \
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            PgTestDb::count(&mut *stage.outbox.conn().await, waiting).await == 1
        })
        .await;
        operator.commit().await.unwrap();
    };
    let (compacted, ()) = tokio::join!(compacting, replaying);
    assert_eq!(compacted.deleted, 1);
    assert_eq!(stage.stored_ids().await, [1]);
}

/// The same for the recorder: it does not write down as seen what it has not seen.
#[tokio::test]
async fn a_letter_that_changes_meanwhile_is_recorded_again() {
    let stage = Stage::<PgTestDb>::with(&["a"]).await;
    stage.consumer("crm", 2).await;
    stage.letter("crm", 1, "dead", 1).await;
    let mut owner = stage.outbox.pool.begin().await.unwrap();
    PgTestDb::execute(&mut owner, "UPDATE outbox.dead_letter SET state = 'replayed'").await.unwrap();
    let replaying = async {
        eventually("the letter is waited for", async || {
            let waiting = "SELECT count(*) FROM pg_stat_activity \
                           WHERE datname = current_database() AND wait_event_type = 'Lock'";
            PgTestDb::count(&mut *stage.outbox.conn().await, waiting).await == 1
        })
        .await;
        owner.commit().await.unwrap();
    };
    let (recorded, ()) = tokio::join!(stage.record(), replaying);
    assert_eq!(recorded.failed, 1);
    assert_eq!(stage.record().await, dispatched(1, 0));
    assert_eq!(stage.statuses().await, ["dispatched"]);
}
