//! A database that takes a request and never answers: each call ends by its own limit, and the work goes on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outbox_relay::RelayBuilder;
use outbox_relay::sink::Outcome;
use outbox_tests::{Fate, PgTestDb, Proxy, RecordingSink, RunningRelay, eventually};
use sqlx::{Postgres, Transaction};
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, LocalSet};

use super::{LEFT_OPEN, builder_through, count, impatient};
use crate::relay::order::assert_in_order;
use crate::relay::{World, crm, ids};

/// Everything that a relay does: a gap that closes, one that stays empty, a failure, an overtaken one, a dead event.
async fn busy_course(world: &World<PgTestDb>, relay: RelayBuilder<Postgres>) {
    let sink = RecordingSink::scripted(|call| match call.id() {
        3 if call.attempt == 1 => Outcome::Retry { error: "503".into(), after: None },
        4 => Outcome::Reject { error: "no".into() },
        _ => Outcome::Delivered,
    });
    let mut gone = world.outbox.begin(&world.pool).await.unwrap();
    publish(world, &mut gone, "gone").await;
    let mut late = world.outbox.begin(&world.pool).await.unwrap();
    publish(world, &mut late, "late").await;
    let published = world.publish(&["1", "2", "1", "2", "3"]).await;
    let relay = RunningRelay::start(relay.consumer(crm(), sink.clone()).build().unwrap());
    // All but those behind the gaps.
    sink.wait_for_delivered(4).await;
    gone.rollback().await.unwrap();
    late.commit().await.unwrap();
    sink.wait_for_delivered(5).await;
    world.settled("crm", published[4].id).await;
    relay.stop().await;
    assert_in_order(&sink.calls());
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered, [2, 3, 5, 6, 7]);
    assert_eq!(world.dead().await.len(), 1);
    assert_eq!(ids(&published), [3, 4, 5, 6, 7]);
}

async fn publish(world: &World<PgTestDb>, tx: &mut Transaction<'static, Postgres>, aggregate: &str) {
    world.outbox.publish_json(tx, &crate::relay::changed(aggregate, 0)).await.unwrap();
}

/// The course with one statement that gets no answer the first time; returns the statements that were seen.
async fn course_without_answer_to(held: Option<String>) -> BTreeSet<String> {
    let world = World::<PgTestDb>::new().await;
    let proxy = Arc::new(Proxy::start(world.db.server_addr()).await);
    let held_once = AtomicBool::new(held.is_none());
    proxy.rule(move |sql| {
        let now = held.as_deref() == Some(sql) && !held_once.swap(true, Ordering::Relaxed);
        if now { Fate::HoldAnswer } else { Fate::Pass }
    });
    busy_course(&world, builder_through(&world, &proxy, impatient()).await).await;
    eventually("every transaction has ended", async || count(&world, LEFT_OPEN).await == 0).await;
    proxy.statements().into_iter().collect()
}

/// Each statement of a relay in turn gets no answer once: registering, claiming, reading, settling, and so on.
#[tokio::test]
async fn a_relay_goes_on_whichever_of_its_calls_gets_no_answer() {
    let statements = course_without_answer_to(None).await;
    assert!(statements.len() >= 15, "the course is too short: {statements:#?}");
    let side_by_side = Arc::new(Semaphore::new(6));
    let mut courses = JoinSet::new();
    let course = |statement| {
        let side_by_side = Arc::clone(&side_by_side);
        async move {
            let _permit = side_by_side.acquire().await.unwrap();
            course_without_answer_to(Some(statement)).await
        }
    };
    LocalSet::new()
        .run_until(async {
            for statement in statements {
                courses.spawn_local(course(statement));
            }
            while let Some(ended) = courses.join_next().await {
                ended.unwrap();
            }
        })
        .await;
}

/// A relay is cut off between two statements of a settle: its session holds the row of its slot, and no end of the
/// connection tells the server.
#[tokio::test]
async fn a_relay_that_is_cut_off_in_a_transaction_is_taken_over() {
    let world = World::<PgTestDb>::new().await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    proxy.rule(|sql| if sql.contains("INSERT INTO \"outbox\".stall") { Fate::GoDark } else { Fate::Pass });
    let failing = RecordingSink::scripted(|_| Outcome::Retry { error: "503".into(), after: None });
    let cut_off = builder_through(&world, &proxy, impatient()).await.consumer(crm(), failing.clone());
    let cut_off = RunningRelay::start(cut_off.build().unwrap());
    world.consumer("crm").await;
    let published = world.publish(&["1", "2"]).await;
    eventually("a transaction is left open", async || count(&world, LEFT_OPEN).await == 1).await;

    let began = Instant::now();
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    world.settled("crm", published[1].id).await;
    // The lease is 2 s; five times that, and a poll.
    assert!(began.elapsed() < Duration::from_secs(11), "taken over after {:?}", began.elapsed());
    let sent = failing.calls().len();
    relay.stop().await;
    proxy.dark(false);
    cut_off.stop().await;
    assert_eq!(failing.calls().len(), sent, "the relay that was cut off sent nothing more");
    assert_eq!(sink.delivered().len(), 2);
}
