//! A service whose database takes a request and never answers. Its calls have no limit of their own: the caller bounds
//! them. Whatever it does, what it is told is true.

use std::sync::Arc;
use std::time::Duration;

use outbox_sdk::{Hint, PublishError, Tables};
use outbox_tests::{Fate, PgTestDb, Proxy, RecordingSink, eventually};
use tokio::time::timeout;

use super::{LEFT_OPEN, count, pool_through};
use crate::relay::{World, changed};

/// Which request of a publish gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stalled {
    Begin,
    Insert,
    Commit,
}

impl Stalled {
    fn is(self, sql: &str) -> bool {
        match self {
            Self::Begin => sql.starts_with("BEGIN"),
            Self::Insert => sql.contains("INSERT INTO \"outbox\".event"),
            Self::Commit => sql.starts_with("COMMIT"),
        }
    }
}

async fn publish(world: &World<PgTestDb>, pool: &sqlx::PgPool) -> Result<(), PublishError> {
    let mut tx = world.outbox.begin(pool).await?;
    world.outbox.publish_json(&mut tx, &changed("1", 1)).await?;
    world.outbox.commit(tx).await
}

/// The call waits until its caller gives up, or the connection ends; then nothing is left open on the server, and the
/// event is there if and only if the commit has reached it. A relay delivers it once.
async fn a_stalled_request(stalled: Stalled, given_up: bool) {
    let world = World::<PgTestDb>::new().await;
    let proxy = Arc::new(Proxy::start(world.db.server_addr()).await);
    let pool = pool_through(&world, &proxy, 2).await;
    proxy.rule(move |sql| if stalled.is(sql) { Fate::HoldAnswer } else { Fate::Pass });
    let mut call = Box::pin(publish(&world, &pool));
    let limit = Duration::from_millis(500);
    assert!(timeout(limit, &mut call).await.is_err(), "{stalled:?}: no answer, so nothing is claimed");
    assert!(proxy.statements().iter().any(|sql| stalled.is(sql)), "{stalled:?} was reached");
    if given_up {
        drop(call);
        proxy.cut();
    } else {
        proxy.cut();
        let told =
            timeout(Duration::from_secs(10), call).await.expect("the end of the connection ends the call");
        assert!(matches!(told, Err(PublishError::Connection(_))), "{stalled:?}: {told:?}");
    }
    eventually("nothing is left open", async || count(&world, LEFT_OPEN).await == 0).await;
    let stored = i64::from(stalled == Stalled::Commit);
    eventually("the event is where it belongs", async || {
        count(&world, "SELECT count(*) FROM outbox.event").await == stored
    })
    .await;

    // The same pool, with the network back.
    proxy.rule(|_| Fate::Pass);
    publish(&world, &pool).await.unwrap();
    let sink = RecordingSink::new();
    world.drain(&sink).await;
    assert_eq!(sink.delivered().len() as i64, stored + 1, "{stalled:?}");
}

#[tokio::test]
async fn a_stalled_begin_insert_or_commit_claims_nothing_and_leaves_nothing_open() {
    for stalled in [Stalled::Begin, Stalled::Insert, Stalled::Commit] {
        for given_up in [false, true] {
            a_stalled_request(stalled, given_up).await;
        }
    }
}

/// A notification that gets no answer is given up with its connection, and later ones are sent.
#[tokio::test]
async fn a_stalled_notification_keeps_no_connection() {
    let world = World::<PgTestDb>::new().await;
    let proxy = Proxy::start(world.db.server_addr()).await;
    let pool = pool_through(&world, &proxy, 1).await;
    let (hint, notifier) = Hint::notify(pool.clone(), &Tables::default());
    let notifier = tokio::spawn(notifier);
    let notifies = |sql: &str| sql.contains("pg_notify");
    proxy.rule(move |sql| if notifies(sql) { Fate::HoldAnswer } else { Fate::Pass });
    hint.send();
    eventually("it is on its way", async || proxy.statements().iter().any(|sql| notifies(sql))).await;
    // One second, five times over.
    let began = std::time::Instant::now();
    publish(&world, &pool).await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "the pool's only connection after {:?}",
        began.elapsed()
    );
    proxy.rule(|_| Fate::Pass);
    let sent = || proxy.statements().iter().filter(|sql| notifies(sql)).count();
    let before = sent();
    hint.send();
    eventually("another one is sent", async || sent() > before).await;
    drop(hint);
    notifier.await.unwrap();
}
