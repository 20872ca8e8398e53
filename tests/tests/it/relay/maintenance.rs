//! Recorder and retention as relays and library calls run them.

use std::str::FromStr as _;
use std::time::Duration;

use outbox_relay::maintenance::{MaintenanceError, Recorder, RetainFor, Retention};
use outbox_sdk::Tables;
use outbox_sdk::backend::{Duties, Maintain as _};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, eventually, on_every_database, quick_settings};
use sqlx::Pool;
use sqlx::postgres::PgPoolOptions;

use super::{World, crm, delivering, named};
use crate::databases::TestDb;

on_every_database! {
    a_relay_records_what_it_has_delivered
    a_relay_deletes_what_is_expired
    without_a_recorder_the_status_stays_and_the_age_counts
    everything_is_recorded_at_once
    a_run_goes_on_where_the_last_one_stopped
    a_run_looks_below_where_it_begins_too
    a_dry_run_counts_by_type
    what_keeps_everything_is_told
}

impl<T: TestDb> World<T> {
    async fn execute(&self, sql: &str) {
        T::execute(&mut self.pool.acquire().await.unwrap(), sql).await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        T::count(&mut self.pool.acquire().await.unwrap(), sql).await
    }

    async fn events(&self, status: &str) -> i64 {
        self.count(&format!("SELECT count(*) FROM {} WHERE status = '{status}'", T::table("event"))).await
    }

    async fn stored(&self) -> i64 {
        self.count(&format!("SELECT count(*) FROM {}", T::table("event"))).await
    }

    async fn days_pass(&self, days: u32) {
        let ago = format!("{days} * 24 * {}", T::HOUR);
        let update = format!(
            "UPDATE {} SET created_at = created_at - {ago}, available_at = available_at - {ago}, \
             dispatched_at = dispatched_at - {ago}",
            T::table("event")
        );
        self.execute(&update).await;
    }

    async fn duties(&self) -> Duties {
        T::Db::duties(&mut self.pool.acquire().await.unwrap(), &Tables::default()).await.unwrap()
    }
}

async fn a_relay_records_what_it_has_delivered<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let relay = world.builder().consumer(crm(), sink.clone()).consumer(named("billing"), sink.clone());
    let running = RunningRelay::start(relay.build().unwrap());
    for aggregates in [["1", "2", "1"], ["3", "", "2"]] {
        world.publish(&aggregates).await;
        eventually("everything is recorded", async || {
            world.events("dispatched").await == world.stored().await
        })
        .await;
    }
    running.stop().await;
    assert_eq!(world.stored().await, 6);
    let recorder = world.duties().await.recorder;
    assert!(recorder.succeeded_ago.is_some() && recorder.failures == 0, "{recorder:?}");
}

async fn a_relay_deletes_what_is_expired<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    world.publish(&["1", "2", "3"]).await;
    world.drain(&sink).await;
    assert_eq!(world.events("pending").await, 3, "a drain delivers, and no more");
    let recorded = Recorder::new(world.pool.clone()).run_once().await.unwrap();
    assert_eq!((recorded.dispatched, recorded.held), (3, 0));
    world.days_pass(20).await;
    let young = world.publish(&["1"]).await;
    let mut settings = delivering(quick_settings());
    settings.retention = RetainFor::days(30).unwrap();
    let relay = world.builder_with(settings).consumer(crm(), sink.clone());
    let running = RunningRelay::start(relay.build().unwrap());
    eventually("retention has run", async || world.duties().await.retention.succeeded_ago.is_some()).await;
    assert_eq!(world.stored().await, 4, "30 days are not over");
    let due_in = world.duties().await.retention.due_in;
    assert!(due_in > Duration::from_secs(1_800), "it runs every hour: {due_in:?}");
    running.stop().await;

    world.execute(&format!("UPDATE {} SET due_at = due_at - 2 * {}", T::table("duty"), T::HOUR)).await;
    let relay = world.builder().consumer(crm(), sink.clone());
    let running = RunningRelay::start(relay.build().unwrap());
    eventually("the old ones are gone", async || world.stored().await == 1).await;
    running.stop().await;
    assert_eq!(world.count(&format!("SELECT id FROM {}", T::table("event"))).await, young[0].id);
}

async fn without_a_recorder_the_status_stays_and_the_age_counts<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    world.publish(&["1", "2", "3"]).await;
    world.drain(&sink).await;
    world.days_pass(20).await;
    let undelivered = world.publish(&["1"]).await;
    world.days_pass(20).await;
    let mut settings = delivering(quick_settings());
    settings.recorder = false;
    let relay = world.builder_with(settings).consumer(crm(), sink.clone());
    let running = RunningRelay::start(relay.build().unwrap());
    let last = undelivered[0].id;
    world.settled("crm", last).await;
    eventually("retention has run", async || world.stored().await <= 1).await;
    running.stop().await;
    assert_eq!(world.events("pending").await, world.stored().await);
    assert_eq!(world.duties().await.recorder.succeeded_ago, None);
}

async fn everything_is_recorded_at_once<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    // More than a batch begins with.
    world.publish(&["1"; 1_100]).await;
    world.drain(&sink).await;
    let mut recorder = Recorder::new(world.pool.clone());
    let recorded = recorder.run_once().await.unwrap();
    assert_eq!((recorded.dispatched, recorded.held, recorded.complete), (1_100, 0, true));
    assert_eq!(world.events("dispatched").await, 1_100);
    assert_eq!(recorder.run_once().await.unwrap().decided(), 0);
}

async fn a_run_goes_on_where_the_last_one_stopped<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = world.publish(&["1"; 2_300]).await;
    world.drain(&RecordingSink::new()).await;
    Recorder::new(world.pool.clone()).run_once().await.unwrap();
    world.days_pass(20).await;
    // Given up after a batch, as by a crash: it stops at the pause.
    let mut run = Retention::new(world.pool.clone());
    let waited = async {
        eventually("a batch is gone", async || world.stored().await < 2_300).await;
    };
    tokio::select! {
        _ = run.run_once() => {}
        () = waited => {}
    }
    drop(run);
    eventually("the next one has a turn", async || {
        Retention::new(world.pool.clone()).run_once().await.is_ok()
    })
    .await;
    assert_eq!(world.stored().await, 0);
    let duties = world.duties().await.retention;
    assert_eq!((duties.failures, duties.last_error), (0, None));
    assert_eq!(published.len(), 2_300);
}

async fn a_run_looks_below_where_it_begins_too<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = world.publish(&["1", "2", "3", "4"]).await;
    world.drain(&RecordingSink::new()).await;
    Recorder::new(world.pool.clone()).run_once().await.unwrap();
    world.days_pass(20).await;
    // As a run leaves it that did not come to its end.
    let position = published[2].id;
    let update = format!("UPDATE {} SET position = {position} WHERE name = 'retention'", T::table("duty"));
    world.execute(&update).await;
    let run = Retention::new(world.pool.clone()).run_once().await.unwrap();
    assert_eq!((run.deleted, run.scanned, world.stored().await), (4, 4, 0));
}

async fn a_dry_run_counts_by_type<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1"; 1_500]).await;
    let other = outbox_sdk::JsonEvent::new("order.placed", 1, "order", "{}").aggregate_id("1");
    world.publish_event(&other).await;
    world.publish_event(&other).await;
    world.drain(&RecordingSink::new()).await;
    Recorder::new(world.pool.clone()).run_once().await.unwrap();
    world.days_pass(20).await;
    let retain = RetainFor::days(10).unwrap().event_type("order.placed", 21).unwrap();
    let dry = Retention::new(world.pool.clone()).retain(&retain).dry_run().await.unwrap();
    assert_eq!(dry.by_type.into_iter().collect::<Vec<_>>(), [("customer.changed".to_owned(), 1_500)]);
    assert_eq!((dry.deleted, dry.scanned), (1_500, 1_502));
    let dry = Retention::new(world.pool.clone()).dry_run().await.unwrap();
    assert_eq!(dry.by_type.values().copied().collect::<Vec<_>>(), [1_500, 2]);
    assert_eq!(world.stored().await, 1_502);
    let run = Retention::new(world.pool.clone()).retain(&retain).run_once().await.unwrap();
    assert_eq!((run.deleted, world.stored().await), (1_500, 2));
}

async fn what_keeps_everything_is_told<T: TestDb>() {
    let world = World::<T>::new().await;
    let alone = Retention::new(world.pool.clone()).run_once().await.unwrap();
    assert!(alone.nobody_registered && alone.deleted == 0, "{alone:?}");
    world.publish(&["1"]).await;
    world.drain(&RecordingSink::new()).await;
    Recorder::new(world.pool.clone()).run_once().await.unwrap();
    world.days_pass(20).await;
    let required = ["crm", "audit"].map(str::to_owned);
    let kept = Retention::new(world.pool.clone()).require(required).run_once().await.unwrap();
    assert_eq!((kept.deleted, kept.missing), (0, vec!["audit".to_owned()]));
    assert!(!kept.nobody_registered);
    assert_eq!(world.stored().await, 1);
}

/// A pool whose sessions give each statement so long.
async fn limited(db: &PgTestDb, limit: &str) -> Pool<sqlx::Postgres> {
    let options = db.options().options([("statement_timeout", limit)]);
    PgPoolOptions::new().max_connections(3).connect_with(options).await.unwrap()
}

/// Many expired rows under a role whose statements may take 500 ms: nothing fails, and nothing is left. With
/// `OUTBOX_TEST_EXPIRED=2000000` it is the size of the report that this comes from.
#[tokio::test]
async fn many_expired_events_go_within_a_statement_timeout() {
    let world = World::<PgTestDb>::new().await;
    world.drain(&RecordingSink::new()).await;
    let rows = std::env::var("OUTBOX_TEST_EXPIRED").map_or(20_000, |rows| i64::from_str(&rows).unwrap());
    let insert = format!(
        "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload, status, dispatched_at, created_at) \
         SELECT 'a.b', 'a', n % 97, '{{}}', 'dispatched', now() - interval '20 days', now() - interval '20 days' \
         FROM generate_series(1, {rows}) AS n"
    );
    world.execute(&insert).await;
    world.execute(&format!("UPDATE outbox.consumer SET settled = '{{[1,{})}}'", rows + 1)).await;
    let pool = limited(&world.db, "500ms").await;
    let run = Retention::new(pool).run_once().await.unwrap();
    assert_eq!(run.deleted, rows.unsigned_abs());
    assert_eq!(world.stored().await, 0);
    assert!(world.duties().await.retention.succeeded_ago.is_some());
}

#[tokio::test]
async fn a_batch_that_takes_too_long_is_tried_smaller() {
    let world = World::<PgTestDb>::new().await;
    world.publish(&["1"; 120]).await;
    world.drain(&RecordingSink::new()).await;
    // Each row costs 5 ms, whatever is done to it.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                $$ BEGIN PERFORM pg_sleep(0.005); RETURN coalesce(new, old); END $$; \
                CREATE TRIGGER slow BEFORE UPDATE OR DELETE ON outbox.event FOR EACH ROW EXECUTE FUNCTION slow()";
    world.execute(slow).await;
    let pool = limited(&world.db, "400ms").await;
    let recorded = Recorder::new(pool.clone()).run_once().await.unwrap();
    assert_eq!(recorded.dispatched, 120);
    world.execute("DROP TRIGGER slow ON outbox.event").await;
    world.days_pass(20).await;
    world
        .execute("CREATE TRIGGER slow BEFORE DELETE ON outbox.event FOR EACH ROW EXECUTE FUNCTION slow()")
        .await;
    let run = Retention::new(pool).run_once().await.unwrap();
    assert_eq!((run.deleted, world.stored().await), (120, 0));
}

/// Somebody registers, resets or resizes: that is no reason for smaller batches, and is told as what it is.
#[tokio::test]
async fn a_change_of_the_consumers_is_not_taken_for_a_batch_that_is_too_large() {
    let world = World::<PgTestDb>::new().await;
    world.publish(&["1", "2"]).await;
    world.drain(&RecordingSink::new()).await;
    let mut change = world.pool.begin().await.unwrap();
    PgTestDb::execute(&mut change, "SELECT pg_advisory_xact_lock(1870099555, hashtext('outbox'))")
        .await
        .unwrap();
    let (mut recorder, mut retention) =
        (Recorder::new(world.pool.clone()), Retention::new(world.pool.clone()));
    let (recorded, retained) = tokio::join!(recorder.run_once(), retention.run_once());
    for failed in [recorded.unwrap_err(), retained.unwrap_err()] {
        assert!(matches!(failed, MaintenanceError::Locked(_)), "{failed:?}");
        assert!(failed.to_string().contains("a change of the consumers"), "{failed}");
    }
    change.rollback().await.unwrap();
    assert_eq!(recorder.run_once().await.unwrap().dispatched, 2);
    retention.run_once().await.unwrap();
}

#[tokio::test]
async fn failures_in_a_row_are_counted_and_what_was_done_stays() {
    let world = World::<PgTestDb>::new().await;
    world.publish(&["1", "2"]).await;
    world.drain(&RecordingSink::new()).await;
    let never = "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN PERFORM pg_sleep(60); RETURN old; END $$; \
                 CREATE TRIGGER never BEFORE DELETE ON outbox.event FOR EACH ROW EXECUTE FUNCTION never()";
    Recorder::new(world.pool.clone()).run_once().await.unwrap();
    world.days_pass(20).await;
    world.execute(never).await;
    let pool = limited(&world.db, "100ms").await;
    eventually("three failures were noted", async || {
        let failed = Retention::new(pool.clone()).run_once().await.unwrap_err();
        assert!(matches!(failed, MaintenanceError::TooSlow(_)), "{failed:?}");
        world.duties().await.retention.failures == 3
    })
    .await;
    let duty = world.duties().await.retention;
    assert!(duty.last_error.is_some_and(|error| error.contains("statement_timeout")));
    assert_eq!((duty.failures, duty.succeeded_ago), (3, None));
    world.execute("DROP TRIGGER never ON outbox.event").await;
    let run = Retention::new(world.pool.clone()).run_once().await.unwrap();
    assert_eq!((run.deleted, world.duties().await.retention.failures), (2, 0));
}
