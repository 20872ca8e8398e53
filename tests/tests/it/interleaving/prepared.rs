//! A transaction that was prepared may commit at any time, long after its session is gone.

use outbox_tests::{Call, PgTestDb, RecordingSink, RunningRelay, quick_settings};
use sqlx::{AssertSqlSafe, raw_sql};

use crate::relay::{World, crm, delivering};

async fn run(world: &World<PgTestDb>, sql: String) {
    raw_sql(AssertSqlSafe(sql)).execute(&world.pool).await.unwrap();
}

/// Publishes one event of an aggregate and prepares its transaction, on a session that ends then.
async fn prepared(world: &World<PgTestDb>, aggregate: &str, name: &str) {
    let mut conn = world.pool.acquire().await.unwrap().detach();
    let sql = format!(
        "BEGIN; SELECT outbox.publish('customer.changed', '{{}}', 'customer', '{aggregate}'); \
         PREPARE TRANSACTION '{name}'"
    );
    raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
}

#[tokio::test]
async fn a_prepared_transaction_holds_its_id_open_until_it_ends() {
    let world = World::<PgTestDb>::new().await;
    // Such names belong to the whole server.
    let (kept, undone) = (format!("{}_kept", world.db.name()), format!("{}_undone", world.db.name()));
    prepared(&world, "1", &kept).await;
    prepared(&world, "2", &undone).await;
    let sink = RecordingSink::new();
    let relay = world.builder_with(delivering(quick_settings())).consumer(crm(), sink.clone());
    let relay = RunningRelay::start(relay.build().unwrap());
    let mut last = 0;
    for n in 1..=5 {
        last = world.publish(&["3"]).await[0].id;
        sink.wait_for_delivered(n).await;
    }
    assert_eq!(last, 7, "ids 1 and 2 are not decided");
    let settled = world.consumer("crm").await.settled;
    assert!(!settled.contains(1) && !settled.contains(2), "{settled:?}");
    run(&world, format!("COMMIT PREPARED '{kept}'")).await;
    sink.wait_for_delivered(6).await;
    assert!(!world.consumer("crm").await.settled.contains(2));
    run(&world, format!("ROLLBACK PREPARED '{undone}'")).await;
    world.settled("crm", last).await;
    relay.stop().await;
    let ids: Vec<i64> = sink.calls().iter().map(Call::id).collect();
    assert_eq!(ids, [3, 4, 5, 6, 7, 1]);
}
