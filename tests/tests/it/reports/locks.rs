//! Somebody locks a table (VACUUM FULL, ALTER TABLE, a forgotten transaction): a call that is given up leaves no session of
//! the server behind, and afterwards everything goes on.

use std::time::{Duration, Instant};

use outbox_relay::Relay;
use outbox_sdk::{Backend as _, Tables};
use outbox_tests::{PgTestDb, Pooler, RecordingSink, RunningRelay, eventually};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, Postgres};

use super::{count, impatient};
use crate::databases::TestDb as _;
use crate::relay::{World, named};

/// Sessions that wait for a lock.
const WAITING: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND wait_event_type = 'Lock'";

/// Holds the table for ten deadlines under a running relay of two consumers.
async fn a_locked_table_keeps_few_sessions(
    world: &World<PgTestDb>,
    options: PgConnectOptions,
    tables: Tables,
) {
    let settings = impatient();
    let deadline = settings.deadline;
    let pool = PgPoolOptions::new().max_connections(10).connect_with(options).await.unwrap();
    let (one, two) = (RecordingSink::new(), RecordingSink::new());
    let relay = Relay::builder(pool).tables(tables).settings(settings);
    let relay = relay.consumer(named("one"), one.clone()).consumer(named("two"), two.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    let before = world.publish(&["1", "2"]).await;
    for name in ["one", "two"] {
        world.settled(name, before[1].id).await;
    }

    let mut lock = world.pool.begin().await.unwrap();
    PgTestDb::execute(&mut lock, "LOCK TABLE outbox.event, outbox.consumer IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < deadline * 10 {
        most = most.max(count(world, WAITING).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Two slots, their shared read, the relay itself, recorder and retention; and as many that have just been given up.
    assert!((1..=12).contains(&most), "{most} sessions waited");
    lock.rollback().await.unwrap();

    let after = world.publish(&["1", "2"]).await;
    for name in ["one", "two"] {
        world.settled(name, after[1].id).await;
    }
    relay.stop().await;
    assert!([one, two].iter().all(|sink| sink.delivered().len() >= 4));
    eventually("nobody waits", async || count(world, WAITING).await == 0).await;
}

/// A session of a relay's own has its limit, unless the role's is lower, and no isolation level that the role prefers.
#[tokio::test]
async fn a_session_of_a_relay_has_its_settings() {
    let world = World::<PgTestDb>::new().await;
    let tables = Tables::default().limited(Duration::from_millis(525));
    for (roles_own, limit) in [("0", "525ms"), ("200ms", "200ms"), ("1h", "525ms")] {
        let options = world
            .db
            .options()
            .options([("statement_timeout", roles_own), ("default_transaction_isolation", "serializable")]);
        let mut conn = sqlx::PgConnection::connect_with(&options).await.unwrap();
        Postgres::prepare_session(&mut conn, &tables).await.unwrap();
        let setting = async |conn: &mut sqlx::PgConnection, name: &str| -> String {
            sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(conn).await.unwrap()
        };
        assert_eq!(setting(&mut conn, "statement_timeout").await, limit);
        assert_eq!(setting(&mut conn, "transaction_isolation").await, "read committed");
    }
}

#[tokio::test]
async fn a_locked_table_keeps_few_sessions_waiting() {
    let world = World::<PgTestDb>::new().await;
    let options = world.db.options();
    a_locked_table_keeps_few_sessions(&world, options, Tables::default()).await;
}

#[tokio::test]
async fn a_locked_table_keeps_few_sessions_of_a_pooler_waiting() {
    let world = World::<PgTestDb>::new().await;
    let pooler = Pooler::start(&world.db, 8).await;
    a_locked_table_keeps_few_sessions(&world, pooler.options(), Tables::default().pooled()).await;
}
