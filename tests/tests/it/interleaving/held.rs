//! Transactions that stay open while others commit.

use outbox_sdk::{Outbox, Published};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, eventually};
use sqlx::{PgPool, Postgres, Transaction};
use tokio::task::JoinHandle;

use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, changed, crm};

const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
const SERIALIZABLE: &str = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";

async fn begin(world: &World<PgTestDb>, isolation: &str) -> Transaction<'static, Postgres> {
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    PgTestDb::execute(&mut tx, isolation).await.unwrap();
    tx
}

async fn publish(outbox: &Outbox, tx: &mut Transaction<'static, Postgres>, aggregate: &str) -> Published {
    outbox.publish_json(tx, &changed(aggregate, 1)).await.unwrap()
}

/// Publishes on another connection; gives the transaction out, still open.
fn publishing(
    world: &World<PgTestDb>,
    mut tx: Transaction<'static, Postgres>,
    aggregate: &'static str,
) -> JoinHandle<(Transaction<'static, Postgres>, i64)> {
    let outbox = world.outbox.clone();
    tokio::spawn(async move {
        let id = publish(&outbox, &mut tx, aggregate).await.id;
        (tx, id)
    })
}

/// Waits until this many writers wait for the lock of an aggregate.
pub(super) async fn writers_wait(pool: &PgPool, number: i64) {
    const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let mut conn = pool.acquire().await.unwrap();
    eventually("writers wait for each other", async || PgTestDb::count(&mut conn, WAITING).await == number)
        .await;
}

/// A holds X open, B wants X, others write Y meanwhile.
async fn a_writer_holds_its_aggregate_only(isolation: &str, commit: bool) {
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());

    let mut a = begin(&world, isolation).await;
    let first = publish(&world.outbox, &mut a, "x").await.id;
    let b = publishing(&world, begin(&world, isolation).await, "x");
    writers_wait(&world.pool, 1).await;

    let y = [world.publish(&["y"]).await[0].id, world.publish(&["y"]).await[0].id];
    assert!(first < y[0], "the relay reads over a gap");
    assert_eq!(sink.wait_for_delivered(2).await, y, "Y goes at once");
    assert!(!b.is_finished(), "B waits for A");

    if commit {
        a.commit().await.unwrap();
    } else {
        a.rollback().await.unwrap();
    }
    let (b, second) = b.await.unwrap();
    b.commit().await.unwrap();
    let x = if commit { vec![first, second] } else { vec![second] };
    let order = sink.wait_for_delivered(2 + x.len()).await;
    world.settled("crm", second).await;
    relay.stop().await;
    assert_eq!(order[2..], x);
    assert_in_order(&sink.calls());
}

#[tokio::test]
async fn a_held_commit_keeps_the_order_of_its_aggregate() {
    a_writer_holds_its_aggregate_only(READ_COMMITTED, true).await;
    a_writer_holds_its_aggregate_only(SERIALIZABLE, true).await;
}

#[tokio::test]
async fn a_held_rollback_gives_the_aggregate_free() {
    a_writer_holds_its_aggregate_only(READ_COMMITTED, false).await;
    a_writer_holds_its_aggregate_only(SERIALIZABLE, false).await;
}

/// A has the lower transaction id, B the lower event id.
#[tokio::test]
async fn an_early_transaction_that_writes_late_keeps_its_place() {
    const TAKE_XID: &str = "SELECT pg_current_xact_id()";
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let (mut a, mut b) = (begin(&world, READ_COMMITTED).await, begin(&world, READ_COMMITTED).await);
    PgTestDb::execute(&mut a, TAKE_XID).await.unwrap();
    PgTestDb::execute(&mut b, TAKE_XID).await.unwrap();

    let lower = publish(&world.outbox, &mut b, "x").await.id;
    let a = publishing(&world, a, "x");
    writers_wait(&world.pool, 1).await;
    let marker = world.publish(&["y"]).await[0].id;
    assert_eq!(sink.wait_for_delivered(1).await, [marker]);

    b.commit().await.unwrap();
    let (a, higher) = a.await.unwrap();
    assert_eq!(sink.wait_for_delivered(2).await, [marker, lower]);
    a.commit().await.unwrap();
    assert_eq!(sink.wait_for_delivered(3).await, [marker, lower, higher]);
    relay.stop().await;
}

/// An open writer of another outbox on the same server, with the same lock on a table of the same name.
#[tokio::test]
async fn a_writer_in_another_database_holds_up_nothing() {
    let other = World::<PgTestDb>::new().await;
    let mut open = begin(&other, READ_COMMITTED).await;
    publish(&other.outbox, &mut open, "x").await;

    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let mut gap = begin(&world, READ_COMMITTED).await;
    publish(&world.outbox, &mut gap, "x").await;
    let published = world.publish(&["y", "z"]).await;
    sink.wait_for_delivered(2).await;
    gap.rollback().await.unwrap();
    // The id that was rolled back is given up although the other writer is older than it.
    world.settled("crm", published[1].id).await;
    relay.stop().await;
    open.rollback().await.unwrap();
}

/// An id of an unordered writer becomes visible after a higher one of its aggregate was delivered.
#[tokio::test]
async fn a_late_id_is_delivered_late() {
    let world = World::<PgTestDb>::new().await;
    let unordered = world.outbox.unordered();
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let (mut slow, mut fast) = (begin(&world, READ_COMMITTED).await, begin(&world, SERIALIZABLE).await);
    let late = publish(&unordered, &mut slow, "x").await.id;
    let early = publish(&unordered, &mut fast, "x").await.id;
    fast.commit().await.unwrap();
    assert_eq!(sink.wait_for_delivered(1).await, [early]);
    slow.commit().await.unwrap();
    assert_eq!(sink.wait_for_delivered(2).await, [early, late]);
    world.settled("crm", early).await;
    relay.stop().await;
    assert_eq!(sink.calls().len(), 2, "each once");
}
