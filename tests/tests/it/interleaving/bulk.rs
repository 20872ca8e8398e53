//! Writers of thousands of events beside writers of one.

use outbox_sdk::{Outbox, OutboxEvent};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay};
use schemars::JsonSchema;
use serde::Serialize;
use sqlx::PgPool;

use super::held::writers_wait;
use crate::databases::TestDb as _;
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, ids};

const AGGREGATES: usize = 500;
const EVENTS: usize = 2_000;

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "customer.imported", aggregate_type = "customer", unregistered)]
struct CustomerImported {
    #[outbox(aggregate_id)]
    customer: usize,
    n: usize,
}

/// All events in one statement and one transaction.
async fn import(outbox: &Outbox, pool: &PgPool, events: &[CustomerImported]) -> Vec<i64> {
    let mut tx = outbox.begin(pool).await.unwrap();
    let published = outbox.publish_all(&mut tx, events).await.expect("no deadlock");
    outbox.commit(tx).await.unwrap();
    let ids = ids(&published);
    // It holds all its aggregates from before its first id, so nobody else writes between.
    assert!(ids.iter().copied().eq(ids[0]..ids[0] + EVENTS as i64), "{ids:?}");
    ids
}

async fn single(outbox: &Outbox, pool: &PgPool, customer: usize) -> i64 {
    let mut tx = outbox.begin(pool).await.unwrap();
    let published = outbox.publish(&mut tx, &CustomerImported { customer, n: 0 }).await.expect("no deadlock");
    outbox.commit(tx).await.unwrap();
    published.id
}

/// Two bulk writers that go through the same aggregates in opposite directions, and single writers among them.
#[tokio::test]
async fn bulk_and_single_writers_meet_without_deadlock() {
    let world = World::<PgTestDb>::new().await;
    let writers = world.db.connect().await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let outbox = world.outbox.clone().with_hint(relay.hint());

    let forth = (0..EVENTS).map(|n| CustomerImported { customer: n % AGGREGATES, n }).collect::<Vec<_>>();
    let back = (0..EVENTS)
        .map(|n| CustomerImported { customer: AGGREGATES - 1 - n % AGGREGATES, n })
        .collect::<Vec<_>>();
    // An aggregate in the middle of both is held until both wait, with the locks that they have got so far.
    let mut held = outbox.begin(&writers).await.unwrap();
    outbox.publish(&mut held, &CustomerImported { customer: AGGREGATES / 2, n: 0 }).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for events in [forth, back] {
        let (outbox, writers) = (outbox.clone(), writers.clone());
        tasks.spawn(async move { import(&outbox, &writers, &events).await });
    }
    writers_wait(&world.pool, 2).await;
    for writer in 0..4 {
        let (outbox, writers) = (outbox.clone(), writers.clone());
        tasks.spawn(async move {
            let mut ids = Vec::new();
            for n in 0..50 {
                ids.push(single(&outbox, &writers, (writer * 131 + n * 7) % AGGREGATES).await);
            }
            ids
        });
    }
    held.rollback().await.unwrap();
    let mut all = tasks.join_all().await.concat();
    all.sort_unstable();
    assert_eq!(all.len(), 2 * EVENTS + 200);

    world.settled("crm", *all.last().unwrap()).await;
    relay.stop().await;
    let calls = sink.calls();
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!((delivered, calls.len()), (all, 2 * EVENTS + 200), "each once");
    assert_in_order(&calls);
}
