//! Writers that interleave in every way: nothing is lost, nothing that was rolled back arrives, and per aggregate the
//! order of delivery is the order of the ids, which is the order of the commits.

mod bulk;
mod held;
mod prepared;

use std::collections::BTreeMap;
use std::time::Duration;

use outbox_sdk::{Outbox, PublishError};
use outbox_tests::{PgTestDb, RecordingSink, RunningRelay, SqliteTestDb};
use sqlx::{Acquire as _, Pool};
use tokio::time::sleep;

use crate::databases::TestDb;
use crate::relay::order::assert_in_order;
use crate::relay::{World, changed, crm};

const ROUNDS: usize = 200;
/// Rounds run side by side on as many aggregates.
const TRACKS: usize = 4;
const _: () = assert!(ROUNDS.is_multiple_of(TRACKS));

/// What the writers need of a database.
trait Writers: TestDb {
    /// Makes the counter of commits, and whatever makes writers slow.
    const PREPARE: &str;
    /// Takes the next number of that counter.
    const TICK: &str;
    /// Begins a transaction's other isolation level, where there is one.
    const SERIALIZABLE: Option<&str>;
}

impl Writers for PgTestDb {
    // The trigger runs between the draw of an id and its row.
    const PREPARE: &str = "CREATE SEQUENCE commit_order; \
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
        $$ BEGIN PERFORM pg_sleep(random() * 0.004); RETURN NEW; END $$; \
        CREATE TRIGGER slow BEFORE INSERT ON outbox.event FOR EACH ROW EXECUTE FUNCTION slow()";
    const TICK: &str = "SELECT nextval('commit_order')";
    const SERIALIZABLE: Option<&str> = Some("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
}

impl Writers for SqliteTestDb {
    const PREPARE: &str =
        "CREATE TABLE commit_order (n INTEGER NOT NULL); INSERT INTO commit_order VALUES (0)";
    const TICK: &str = "UPDATE commit_order SET n = n + 1 RETURNING n";
    const SERIALIZABLE: Option<&str> = None;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
    Drop,
}

/// One transaction.
#[derive(Debug)]
struct Story {
    serializable: bool,
    /// An event in a savepoint that is rolled back.
    savepoint: bool,
    /// A second event, without aggregate.
    second: bool,
    before: Duration,
    after: Duration,
    end: End,
}

impl Story {
    fn any() -> Self {
        Self {
            serializable: rand::random(),
            savepoint: rand::random_ratio(1, 4),
            second: rand::random_ratio(1, 3),
            before: Duration::from_micros(rand::random_range(0..3_000)),
            after: Duration::from_micros(rand::random_range(0..6_000)),
            end: match rand::random_range(0..10) {
                0 | 1 => End::Rollback,
                2 => End::Drop,
                _ => End::Commit,
            },
        }
    }
}

/// What came of all transactions.
#[derive(Debug, Default)]
struct Ledger {
    /// Aggregate and id of each event that is committed, with the number of its commit.
    committed: Vec<(i64, String, i64)>,
    /// How many transactions did not commit.
    rolled_back: usize,
    /// How many of them had to, for a deadlock, a conflict or a lock that did not come.
    refused: usize,
}

impl Ledger {
    fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.committed.iter().map(|(_, _, id)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// The ids of each aggregate in the order of the commits.
    fn by_commit(&self) -> BTreeMap<&str, Vec<i64>> {
        let mut order: Vec<_> =
            self.committed.iter().filter(|(_, aggregate, _)| !aggregate.is_empty()).collect();
        order.sort_unstable();
        let mut lanes = BTreeMap::<_, Vec<_>>::new();
        for (_, aggregate, id) in order {
            lanes.entry(aggregate.as_str()).or_default().push(*id);
        }
        lanes
    }

    fn add(&mut self, told: Result<Vec<(i64, String, i64)>, PublishError>) {
        match told {
            Ok(kept) if kept.is_empty() => self.rolled_back += 1,
            Ok(kept) => self.committed.extend(kept),
            Err(error) if error.is_retryable() => {
                self.rolled_back += 1;
                self.refused += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn join(mut self, other: Self) -> Self {
        self.committed.extend(other.committed);
        self.rolled_back += other.rolled_back;
        self.refused += other.refused;
        self
    }
}

/// Runs one transaction and tells what it committed.
async fn tell<T: Writers>(
    outbox: &Outbox,
    pool: &Pool<T::Db>,
    aggregate: &str,
    story: Story,
) -> Result<Vec<(i64, String, i64)>, PublishError> {
    let mut tx = outbox.begin(pool).await?;
    if let Some(sql) = T::SERIALIZABLE.filter(|_| story.serializable) {
        T::execute(&mut tx, sql).await.unwrap();
    }
    sleep(story.before).await;
    let mut published = vec![(aggregate, outbox.publish_json(&mut tx, &changed(aggregate, 1)).await?.id)];
    if story.savepoint {
        let mut inner = tx.begin().await.unwrap();
        outbox.publish_json(&mut inner, &changed(aggregate, 900)).await?;
        inner.rollback().await.unwrap();
    }
    if story.second {
        published.push(("", outbox.publish_json(&mut tx, &changed("", 2)).await?.id));
    }
    sleep(story.after).await;
    match story.end {
        End::Commit => {
            // The aggregate's lock is held until the commit: whoever commits later counts later.
            let tick = T::count(&mut tx, T::TICK).await;
            outbox.commit(tx).await?;
            let kept = published.into_iter().map(|(aggregate, id)| (tick, aggregate.to_owned(), id));
            return Ok(kept.collect());
        }
        End::Rollback => tx.rollback().await.unwrap(),
        End::Drop => drop(tx),
    }
    Ok(Vec::new())
}

/// Each round: two writers on the track's aggregate, one on the aggregate of all tracks, one without aggregate.
async fn rounds<T: Writers>(outbox: &Outbox, pool: &Pool<T::Db>, track: usize) -> Ledger {
    let mut ledger = Ledger::default();
    let own = format!("own {track}");
    for _ in 0..ROUNDS / TRACKS {
        let told = tokio::join!(
            tell::<T>(outbox, pool, &own, Story::any()),
            tell::<T>(outbox, pool, &own, Story::any()),
            tell::<T>(outbox, pool, "shared", Story::any()),
            tell::<T>(outbox, pool, "", Story::any()),
        );
        ledger.add(told.0);
        ledger.add(told.1);
        ledger.add(told.2);
        ledger.add(told.3);
    }
    ledger
}

/// All rounds beside a running relay, until everything committed is settled.
async fn interleave<T: Writers>(
    world: &World<T>,
    outbox: &Outbox,
    sink: &std::sync::Arc<RecordingSink>,
) -> Ledger {
    T::execute(&mut world.pool.acquire().await.unwrap(), T::PREPARE).await.unwrap();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let outbox = outbox.clone().with_hint(relay.hint());
    let writers = world.db.connect().await;
    let [a, b, c, d] = [0, 1, 2, 3].map(|track| rounds::<T>(&outbox, &writers, track));
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let ledger = a.join(b).join(c).join(d);

    world.settled("crm", *ledger.ids().last().expect("committed events")).await;
    relay.stop().await;
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, ledger.ids(), "what was committed, each once, and nothing else");
    assert_eq!(sink.calls().len(), delivered.len(), "and no attempt more");
    // Else the test would show little.
    assert!(ledger.committed.len() > ROUNDS && ledger.rolled_back > ROUNDS / 4, "{ledger:?}");
    assert!(ledger.refused < ROUNDS / 4, "{} of {} transactions were refused", ledger.refused, 4 * ROUNDS);
    ledger
}

async fn order_is_commit_order<T: Writers>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let ledger = interleave(&world, &world.outbox, &sink).await;
    assert_in_order(&sink.calls());
    assert_eq!(sink.overlaps(), 0);
    for (aggregate, ids) in ledger.by_commit() {
        assert!(ids.is_sorted(), "{aggregate}: ids in the order of the commits: {ids:?}");
    }
    assert_eq!(ledger.refused, 0, "the lock of an aggregate brings no conflicts");
}

#[tokio::test]
async fn two_hundred_rounds_on_postgres() {
    Box::pin(order_is_commit_order::<PgTestDb>()).await;
}

#[tokio::test]
async fn two_hundred_rounds_on_sqlite() {
    Box::pin(order_is_commit_order::<SqliteTestDb>()).await;
}

/// Without the lock ids of one aggregate become visible in any order: there is no order to keep, but nothing is lost.
#[tokio::test]
async fn writers_without_the_lock_lose_nothing() {
    let world = World::<PgTestDb>::new().await;
    let sink = RecordingSink::new();
    let ledger = Box::pin(interleave(&world, &world.outbox.unordered(), &sink)).await;
    let turned = ledger.by_commit().values().any(|ids| !ids.is_sorted());
    assert!(turned, "some commit overtook another one of its aggregate");
}
