//! Notifications between processes: a hint only, and one that comes back by itself.

use outbox_sdk::{Hint, Tables};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, eventually};

use crate::relay::order::hardly_polling;
use crate::relay::{World, changed, crm};

const LISTENERS: &str = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";

async fn listeners(world: &World<PgTestDb>) -> i64 {
    sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT count(*) {LISTENERS}")))
        .fetch_one(&world.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_commit_elsewhere_wakes_a_relay_that_listens_also_after_its_connection_was_lost() {
    let world = World::<PgTestDb>::new().await;
    let mut settings = hardly_polling();
    settings.listen = true;
    let sink = RecordingSink::new();
    let relay =
        RunningRelay::start(world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap());
    eventually("the slot is claimed", async || world.consumer("crm").await.owner.is_some()).await;
    eventually("the relay listens", async || listeners(&world).await == 1).await;

    // As another process has it: it knows nothing of the relay but the database.
    let (hint, notifier) = Hint::notify(world.pool.clone(), &Tables::default());
    let notifier = tokio::spawn(notifier);
    let outbox = world.outbox.clone().with_hint(hint);
    for n in 1..=2 {
        let mut tx = outbox.begin(&world.pool).await.unwrap();
        outbox.publish_json(&mut tx, &changed("1", n)).await.unwrap();
        outbox.commit(tx).await.unwrap();
        sink.wait_for_delivered(n).await;

        let kill = format!("SELECT pg_terminate_backend(pid) {LISTENERS}");
        let old: Vec<i32> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT pid {LISTENERS}")))
            .fetch_all(&world.pool)
            .await
            .unwrap();
        sqlx::query(sqlx::AssertSqlSafe(kill)).execute(&world.pool).await.unwrap();
        eventually("another session listens", async || {
            let now: Vec<i32> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("SELECT pid {LISTENERS}")))
                .fetch_all(&world.pool)
                .await
                .unwrap();
            now.len() == 1 && now != old
        })
        .await;
    }
    relay.stop().await;
    drop(outbox);
    notifier.await.expect("the notifier ends with the last hint");
}
