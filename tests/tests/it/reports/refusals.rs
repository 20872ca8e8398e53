//! A database that refuses for a while: the relay waits, loses nothing, and counts no attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbox_relay::Relay;
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::Outcome;
use outbox_relay::sink::handler::HandlerSink;
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::{
    Call, PgTestDb, RecordingSink, RunningRelay, eventually, on_every_database, quick_settings,
};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Postgres, Transaction};
use uuid::Uuid;

use super::count;
use crate::databases::TestDb;
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, delivering, ids};

on_every_database! {
    a_row_deleted_while_it_is_sent_holds_up_nothing
}

/// A role of its own for the relay, so that limits can be set on it alone.
struct Role {
    name: String,
    options: PgConnectOptions,
}

impl Role {
    async fn new(world: &World<PgTestDb>) -> Self {
        let name = format!("relay_{}", Uuid::new_v4().simple());
        let setup = format!(
            "CREATE ROLE {name} LOGIN;
             GRANT USAGE ON SCHEMA outbox TO {name};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA outbox TO {name};
             GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA outbox TO {name}"
        );
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &setup).await.unwrap();
        let options = world.db.options().username(&name);
        Self { name, options }
    }

    /// A running relay under this role.
    fn relay(&self, sink: &Arc<RecordingSink>) -> RunningRelay {
        let pool = PgPoolOptions::new()
            .acquire_timeout(Duration::from_secs(1))
            .connect_lazy_with(self.options.clone());
        let relay = Relay::builder(pool).settings(delivering(quick_settings())).consumer(crm(), sink.clone());
        RunningRelay::start(relay.build().unwrap())
    }

    /// Changes the role and has its sessions made anew.
    async fn set(&self, world: &World<PgTestDb>, change: &str) {
        let sql = format!(
            "ALTER ROLE {0} {change};
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{0}'",
            self.name
        );
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &sql).await.unwrap();
    }

    async fn gone(self, world: &World<PgTestDb>) {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{0}';
             DROP OWNED BY {0}; DROP ROLE {0}",
            self.name
        );
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &sql).await.unwrap();
    }
}

/// What was published before, during and after the refusal came once and in order, and no attempt was counted.
async fn waits_for(refuse: &str, allow: &str) {
    let world = World::<PgTestDb>::new().await;
    let role = Role::new(&world).await;
    let sink = RecordingSink::new();
    let relay = role.relay(&sink);
    let mut published = world.publish(&["1", "2"]).await;
    world.settled("crm", published[1].id).await;
    role.set(&world, refuse).await;
    published.extend(world.publish(&["1", "2"]).await);
    // Longer than the lease: it is lost, and claimed again afterwards.
    eventually("the lease is over", async || {
        count(&world, "SELECT count(*) FROM outbox.consumer WHERE lease_until < clock_timestamp()").await == 1
    })
    .await;
    role.set(&world, allow).await;
    published.extend(world.publish(&["1", "2"]).await);
    world.settled("crm", published[5].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered, ids(&published));
    assert!(sink.calls().iter().all(|call| call.attempt == 1), "{refuse}: an attempt was counted");
    role.gone(&world).await;
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_waited_for() {
    waits_for("SET default_transaction_read_only = on", "RESET default_transaction_read_only").await;
}

#[tokio::test]
async fn a_server_without_connections_to_give_is_waited_for() {
    waits_for("CONNECTION LIMIT 0", "CONNECTION LIMIT -1").await;
}

#[tokio::test]
async fn a_time_limit_that_nothing_can_keep_is_waited_for() {
    waits_for("SET statement_timeout = '1ms'", "RESET statement_timeout").await;
}

/// Somebody holds the consumer's row for longer than the role's lock timeout, again and again.
#[tokio::test]
async fn a_lock_that_does_not_come_in_time_counts_no_attempt() {
    const GIVEN_UP: &str = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let world = World::<PgTestDb>::new().await;
    let role = Role::new(&world).await;
    role.set(&world, "SET lock_timeout = '20ms'").await;
    let sink = RecordingSink::scripted(|call| match call {
        Call { attempt: 1, .. } if call.id() % 3 == 0 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    let relay = role.relay(&sink);
    let mut published = world.publish(&["1"]).await;
    world.settled("crm", published[0].id).await;
    for _ in 0..5 {
        let mut tx = world.pool.begin().await.unwrap();
        PgTestDb::execute(&mut tx, "SELECT FROM outbox.consumer FOR UPDATE").await.unwrap();
        let before = count(&world, GIVEN_UP).await;
        published.extend(world.publish(&["1", "2", "3"]).await);
        eventually("a settle has met the lock and given up, twice", async || {
            count(&world, GIVEN_UP).await > before + 1
        })
        .await;
        tx.rollback().await.unwrap();
    }
    world.settled("crm", published.last().unwrap().id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    let delivered = sink.delivered();
    assert_eq!(delivered.len(), published.len(), "each once");
    assert!(sink.calls().iter().all(|call| call.attempt <= 2));
    role.gone(&world).await;
}

/// Deadlocks and serialization failures at the settle, made by a trigger: the first tries fail.
#[tokio::test]
async fn a_deadlock_or_a_conflict_at_the_settle_counts_no_attempt() {
    for code in ["40P01", "40001"] {
        let world = World::<PgTestDb>::new().await;
        let trigger = format!(
            "CREATE SEQUENCE public.tries;
             CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF nextval('public.tries') % 3 <> 0 AND NEW.settled <> OLD.settled THEN
                     RAISE EXCEPTION 'as another transaction would' USING ERRCODE = '{code}';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER fails BEFORE UPDATE ON outbox.consumer FOR EACH ROW EXECUTE FUNCTION fails()"
        );
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &trigger).await.unwrap();
        let sink = RecordingSink::scripted(|call| match call {
            Call { attempt: 1, .. } if call.id() == 3 => Outcome::Retry { error: "503".into(), after: None },
            _ => Outcome::Delivered,
        });
        let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
        let mut published = Vec::new();
        for _ in 0..5 {
            published.extend(world.publish(&["1", "2"]).await);
            world.settled("crm", published.last().unwrap().id).await;
        }
        relay.stop().await;
        assert_in_order(&sink.calls());
        let mut delivered = sink.delivered();
        delivered.sort_unstable();
        assert_eq!(delivered, ids(&published), "{code}: each once");
        let again: Vec<_> = sink.calls().iter().filter(|call| call.attempt > 1).map(Call::id).collect();
        assert_eq!(again, [3], "{code}: only the failed one counted an attempt");
    }
}

/// Meets another transaction twice, then does its work.
struct Unlucky(AtomicUsize);

impl Handler<Postgres> for Unlucky {
    async fn handle(&self, _: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        let code = match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => "40P01",
            1 => "40001",
            _ => return Ok(PgTestDb::execute(tx, "INSERT INTO effect VALUES (1)").await?),
        };
        let fail = format!(
            "DO $$ BEGIN RAISE EXCEPTION 'as another transaction would' USING ERRCODE = '{code}'; END $$"
        );
        Ok(PgTestDb::execute(tx, &fail).await?)
    }
}

/// The consumer has one attempt: had one of the conflicts been counted, the event would be dead.
#[tokio::test]
async fn a_deadlock_or_a_conflict_in_a_handler_counts_no_attempt() {
    let world = World::<PgTestDb>::new().await;
    Migrator::inbox().run(&world.pool).await.unwrap();
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), "CREATE TABLE effect (n int)").await.unwrap();
    let inbox = Inbox::new(world.pool.clone(), "crm");
    let sink = Arc::new(HandlerSink::new(inbox.clone(), Unlucky(AtomicUsize::new(0))));
    let once = RetryPolicy { schedule: Schedule::List(vec![Duration::from_millis(1)]), max_attempts: 1 };
    let relay = RunningRelay::start(world.builder().consumer(crm().retry(once), sink).build().unwrap());
    let published = world.publish(&["1"]).await;
    world.settled("crm", published[0].id).await;
    relay.stop().await;
    assert!(world.dead().await.is_empty());
    assert_eq!(count(&world, "SELECT count(*) FROM effect").await, 1);

    // The same without a relay, as a receiver of webhooks has it.
    let event = Envelope::example("customer.changed", 1, "{}");
    inbox.handle(&Unlucky(AtomicUsize::new(0)), &event).await.unwrap();
    assert_eq!(count(&world, "SELECT count(*) FROM effect").await, 2);
}

/// The tables go away under a running relay: it says what is missing, and goes on when they are back.
#[tokio::test]
async fn tables_that_are_renamed_meanwhile_are_waited_for() {
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let mut published = world.publish(&["1"]).await;
    world.settled("crm", published[0].id).await;
    let sql = async |sql: &str| {
        PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), sql).await.unwrap();
    };
    sql("ALTER TABLE outbox.event RENAME TO event_away").await;
    let again = world.builder().consumer(crm(), sink.clone()).build().unwrap();
    let error = tokio::time::timeout(Duration::from_millis(500), again.run_once()).await;
    assert!(error.is_err() || error.unwrap().is_err(), "a relay that starts meanwhile does nothing");
    eventually("the lease is over or renewed without the table", async || {
        count(&world, "SELECT count(*) FROM outbox.consumer").await == 1
    })
    .await;
    sql("ALTER TABLE outbox.event_away RENAME TO event").await;
    published.extend(world.publish(&["1", "2"]).await);
    world.settled("crm", published[2].id).await;
    relay.stop().await;
    assert_eq!(sink.delivered(), ids(&published));
}

/// A row that somebody deletes while it is at the sink: the slot goes on, and nothing waits for it.
async fn a_row_deleted_while_it_is_sent_holds_up_nothing<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::scripted(|call| match call.attempt {
        1 if call.id() == 1 => Outcome::Retry { error: "503".into(), after: None },
        _ => Outcome::Delivered,
    });
    sink.hold();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let published = world.publish(&["1", "2", "1"]).await;
    sink.wait_until("two are at the sink", |calls| calls.len() == 2).await;
    let delete = format!("DELETE FROM {} WHERE id IN (1, 2)", T::table("event"));
    T::execute(&mut world.pool.acquire().await.unwrap(), &delete).await.unwrap();
    sink.open();
    world.settled("crm", published[2].id).await;
    let later = world.publish(&["1", "2"]).await;
    world.settled("crm", later[1].id).await;
    relay.stop().await;
    let delivered = sink.delivered();
    assert!(delivered.ends_with(&ids(&later)) || delivered.contains(&later[0].id), "{delivered:?}");
    assert!(delivered.contains(&published[2].id), "what came after it in its lane: {delivered:?}");
    assert!(world.dead().await.is_empty());
}
