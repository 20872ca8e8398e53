//! What a relay reads is believed only as long as it can be true.

use outbox_sdk::backend::{Administer as _, Change, Changed, ResetTo};
use outbox_sdk::{JsonEvent, PublishError, Tables};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, SqliteTestDb, TestDb, eventually, quick_settings};
use sqlx::raw_sql;

use crate::databases::on_every_database;
use crate::relay::{World, changed, crm, delivering};

on_every_database! {
    ids_that_were_started_again_while_nobody_looked_stop_the_consumer
}

/// The new ids have passed the old ones: only what was read at the last of them tells.
async fn ids_that_were_started_again_while_nobody_looked_stop_the_consumer<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    world.publish(&["1", "2", "1"]).await;
    assert_eq!(world.drain(&sink).await, 3);
    let delete = format!("DELETE FROM {}", T::table("event"));
    T::execute(&mut world.pool.acquire().await.unwrap(), &delete).await.unwrap();
    world.publish(&["1"]).await;
    assert_eq!(world.drain(&sink).await, 1, "retention deletes, too");

    let restart = if T::CONCURRENT_WRITERS {
        "TRUNCATE outbox.event RESTART IDENTITY"
    } else {
        "DELETE FROM outbox_event; DELETE FROM sqlite_sequence WHERE name = 'outbox_event'"
    };
    T::execute(&mut world.pool.acquire().await.unwrap(), restart).await.unwrap();
    world.publish(&["1", "2", "3", "4", "5", "6"]).await;
    match world.builder().consumer(crm(), sink.clone()).build().unwrap().run_once().await {
        Err(outbox_relay::RelayError::Unsafe { consumer, problem }) => {
            assert_eq!(consumer, "crm");
            assert!(problem.contains("outbox consumer reset"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(sink.calls().len(), 4, "nothing is sent, though 5 and 6 look new");

    let mut conn = world.pool.acquire().await.unwrap();
    let again = Change::Reset(ResetTo::Id(1));
    let done = T::Db::change(&mut *conn, &Tables::default(), "crm", &again, true).await.unwrap();
    assert_eq!(done, Changed::Done { forced: true });
    drop(conn);
    assert_eq!(world.drain(&sink).await, 6);
}

async fn running(world: &World<PgTestDb>, sink: &std::sync::Arc<RecordingSink>) -> RunningRelay {
    let relay = world.builder_with(delivering(quick_settings())).consumer(crm(), sink.clone());
    RunningRelay::start(relay.build().unwrap())
}

/// The ids come a second time: what is settled says nothing about them, and nobody can tell which were delivered.
#[tokio::test]
async fn ids_that_were_started_again_stop_the_consumer() {
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let events = world.publish(&["1", "2", "1"]).await;
    let relay = running(&world, &sink).await;
    world.settled("crm", events[2].id).await;
    raw_sql("TRUNCATE outbox.event RESTART IDENTITY").execute(&world.pool).await.unwrap();
    eventually("the relay has noticed: it does not renew its lease", async || {
        sqlx::query_scalar::<_, bool>("SELECT lease_until < clock_timestamp() FROM outbox.consumer")
            .fetch_one(&world.pool)
            .await
            .unwrap()
    })
    .await;
    relay.stop().await;
    match world.builder().consumer(crm(), sink.clone()).build().unwrap().run_once().await {
        Err(outbox_relay::RelayError::Unsafe { consumer, problem }) => {
            assert_eq!(consumer, "crm");
            assert!(problem.contains("sequence"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(sink.calls().len(), 3);
}

/// Rows that row security hides look like rows that were rolled back: giving them up would lose them for good.
#[tokio::test]
async fn rows_that_become_hidden_are_not_given_up() {
    let world = World::<PgTestDb>::new().await;
    let role = format!("relay_{}", uuid::Uuid::new_v4().simple());
    let setup = format!(
        "CREATE ROLE {role} LOGIN;
         GRANT USAGE ON SCHEMA outbox TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA outbox TO {role};
         GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA outbox TO {role}"
    );
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &setup).await.unwrap();
    let sink = RecordingSink::new();
    let first = world.publish(&["1"]).await;
    let pool = sqlx::PgPool::connect_with(world.db.options().username(&role)).await.unwrap();
    let relay = || {
        outbox_relay::Relay::builder(pool.clone())
            .settings(delivering(quick_settings()))
            .consumer(crm(), sink.clone())
            .build()
            .unwrap()
    };
    let running = RunningRelay::start(relay());
    world.settled("crm", first[0].id).await;

    let hide = "ALTER TABLE outbox.event ENABLE ROW LEVEL SECURITY;
                CREATE POLICY mine ON outbox.event USING (id % 2 = 0)";
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), hide).await.unwrap();
    let hidden = world.publish(&["1", "2", "3", "1"]).await;
    eventually("the relay has noticed: it does not renew its lease", async || {
        sqlx::query_scalar::<_, bool>("SELECT lease_until < clock_timestamp() FROM outbox.consumer")
            .fetch_one(&world.pool)
            .await
            .unwrap()
    })
    .await;
    running.stop().await;
    assert_eq!(world.consumer("crm").await.settled.to_multirange(), "{[1,2)}", "nothing is given up");

    let show = "ALTER TABLE outbox.event DISABLE ROW LEVEL SECURITY";
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), show).await.unwrap();
    eventually("the refused claim has run out", async || {
        relay().run_once().await.is_ok() && sink.delivered().len() == 5
    })
    .await;
    world.settled("crm", hidden[3].id).await;
    pool.close().await;
    let drop_role = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    PgTestDb::execute(&mut world.pool.acquire().await.unwrap(), &drop_role).await.unwrap();
}

/// SQLite ends a transaction by itself, and sqlx goes on counting it: an event written now would have no cause.
#[tokio::test]
async fn nothing_is_published_in_a_transaction_that_sqlite_has_ended() {
    let world = World::<SqliteTestDb>::new().await;
    raw_sql("CREATE TABLE code (code TEXT UNIQUE ON CONFLICT ROLLBACK); INSERT INTO code VALUES ('taken')")
        .execute(&world.pool)
        .await
        .unwrap();
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    raw_sql("INSERT INTO code VALUES ('taken')").execute(&mut *tx).await.unwrap_err();
    let one = world.outbox.publish_json(&mut tx, &changed("1", 0)).await;
    assert!(matches!(one, Err(PublishError::TransactionFailed(_))), "{one:?}");
    let commit = world.outbox.commit(tx).await;
    assert!(matches!(commit, Err(PublishError::TransactionFailed(_))), "{commit:?}");
    let mut conn = world.pool.acquire().await.unwrap();
    assert_eq!(SqliteTestDb::count(&mut conn, "SELECT count(*) FROM outbox_event").await, 0);
}

/// The details of a driver's error hold the refused row.
#[tokio::test]
async fn no_error_shows_a_payload() {
    let world = World::<PgTestDb>::new().await;
    raw_sql("ALTER TABLE outbox.event ADD CONSTRAINT never CHECK (payload->>'secret' IS NULL)")
        .execute(&world.pool)
        .await
        .unwrap();
    let event = JsonEvent::new("customer.changed", 1, "customer", r#"{"secret": "CANARY"}"#);
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let error = world.outbox.publish_json(&mut tx, &event).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("constraint never") && !shown.contains("CANARY"), "{shown}");
}

/// Ids that are handed out in blocks say nothing about who comes first.
#[tokio::test]
async fn a_sequence_with_a_cache_stops_the_consumer_and_says_what_to_do() {
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    raw_sql("ALTER SEQUENCE outbox.event_id_seq CACHE 10").execute(&world.pool).await.unwrap();
    world.publish(&["1"]).await;
    match world.builder().consumer(crm(), sink.clone()).build().unwrap().run_once().await {
        Err(outbox_relay::RelayError::Unsafe { consumer, problem }) => {
            assert_eq!(consumer, "crm");
            assert!(problem.contains("ALTER SEQUENCE \"outbox\".event_id_seq CACHE 1"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
    assert!(sink.calls().is_empty());
    raw_sql("ALTER SEQUENCE outbox.event_id_seq CACHE 1").execute(&world.pool).await.unwrap();
    assert_eq!(world.drain(&sink).await, 1);
}

/// A copy that forgot the sequence, or a writer that chooses its ids: what the sequence draws later would lie below them.
#[tokio::test]
async fn ids_that_the_sequence_did_not_draw_are_not_sent() {
    let world = World::<PgTestDb>::new().await;
    let insert = "INSERT INTO outbox.event (id, event_type, aggregate_type, aggregate_id, payload) \
        OVERRIDING SYSTEM VALUE SELECT n, 'customer.changed', 'customer', 'c' || n, '{}' FROM generate_series(1001, 1004) AS n";
    raw_sql(insert).execute(&world.pool).await.unwrap();
    let sink = RecordingSink::new();
    let relay = running(&world, &sink).await;
    let epoch = "SELECT epoch FROM outbox.consumer";
    eventually("an owner has looked", async || {
        sqlx::query_scalar::<_, i64>(epoch)
            .fetch_optional(&world.pool)
            .await
            .unwrap()
            .is_some_and(|epoch| epoch > 0)
    })
    .await;
    let first: i64 = sqlx::query_scalar(epoch).fetch_one(&world.pool).await.unwrap();
    eventually("two more owners have looked", async || {
        sqlx::query_scalar::<_, i64>(epoch).fetch_one(&world.pool).await.unwrap() >= first + 2
    })
    .await;
    assert_eq!(sink.calls().len(), 0, "no owner could settle them");
    raw_sql("SELECT setval('outbox.event_id_seq', 1004)").execute(&world.pool).await.unwrap();
    sink.wait_for_delivered(4).await;
    world.settled("crm", 1004).await;
    relay.stop().await;
    assert_eq!(sink.calls().len(), 4);
    for id in [0, -5] {
        let insert = format!(
            "INSERT INTO outbox.event (id, event_type, aggregate_type, payload) OVERRIDING SYSTEM VALUE \
             VALUES ({id}, 'customer.changed', 'customer', '{{}}')"
        );
        assert!(
            raw_sql(sqlx::AssertSqlSafe(insert)).execute(&world.pool).await.is_err(),
            "no relay would read {id}"
        );
    }
}
