//! Handlers in the relay's process: the effect of each event happens once.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outbox_relay::sink::handler::HandlerSink;
use outbox_relay::sink::{Delivery, Outcome, Sink};
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::{PgTestDb, RunningRelay, SqliteTestDb, eventually};
use sqlx::Transaction;

use super::{World, crm};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    an_effect_happens_once_however_often_the_event_comes
    a_failed_handler_leaves_no_effect
    a_rejected_event_leaves_no_effect_and_is_dead
    a_handler_that_swallows_a_database_error_is_not_done
    what_the_handler_needs_is_down_and_no_attempt_is_counted
    a_database_error_of_the_handler_is_stored_without_its_text
    the_effect_can_live_in_a_database_of_its_own
}

/// Writes one row per event into `effect`, then does what its script says.
struct Effects<T> {
    calls: Arc<AtomicUsize>,
    script: fn(usize) -> Script,
    db: std::marker::PhantomData<fn() -> T>,
}

#[derive(Clone, Copy)]
enum Script {
    Succeed,
    Fail,
    Reject,
    Swallow,
    Unavailable,
    Misspell,
}

impl<T: TestDb + 'static> Effects<T> {
    fn new(script: fn(usize) -> Script) -> (Self, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        (Self { calls: calls.clone(), script, db: std::marker::PhantomData }, calls)
    }
}

impl<T: TestDb + 'static> Handler<T::Db> for Effects<T> {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, T::Db>) -> Result<(), HandlerError> {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst);
        T::execute(tx, &format!("INSERT INTO effect VALUES ({})", event.id)).await?;
        match (self.script)(nth) {
            Script::Succeed => Ok(()),
            Script::Fail => Err(HandlerError::retry("not yet")),
            Script::Reject => Err(HandlerError::reject("never")),
            Script::Unavailable => Err(HandlerError::unavailable("the mail server is down")),
            // The database's text quotes what it does not know.
            Script::Misspell => Ok(T::execute(tx, "SELECT ada_example_org FROM effect").await?),
            Script::Swallow => {
                T::doom(tx).await;
                Ok(())
            }
        }
    }
}

async fn world_with_inbox<T: TestDb>() -> World<T> {
    let world = World::<T>::new().await;
    Migrator::inbox().run(&world.pool).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    T::execute(&mut conn, "CREATE TABLE effect (id BIGINT NOT NULL)").await.unwrap();
    drop(conn);
    world
}

async fn effects<T: TestDb>(world: &World<T>) -> i64 {
    T::count(&mut *world.pool.acquire().await.unwrap(), "SELECT count(*) FROM effect").await
}

fn relay<T: TestDb + 'static>(world: &World<T>, handler: Effects<T>) -> RunningRelay {
    let sink = HandlerSink::new(Inbox::new(world.pool.clone(), "crm"), handler);
    RunningRelay::start(world.builder().consumer(crm(), Arc::new(sink)).build().unwrap())
}

async fn an_effect_happens_once_however_often_the_event_comes<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1", "2", "1"]).await;
    let (handler, calls) = Effects::<T>::new(|_| Script::Succeed);
    let first = relay(&world, handler);
    world.settled("crm", events[2].id).await;
    first.stop().await;

    // As after a crash between the effect and the settling: nothing is settled, everything comes again.
    let mut conn = world.pool.acquire().await.unwrap();
    let empty = if T::table("x").starts_with("outbox.") { "'{}'" } else { "'[]'" };
    T::execute(&mut conn, &format!("UPDATE {} SET settled = {empty}", T::table("consumer"))).await.unwrap();
    drop(conn);
    let (handler, again) = Effects::<T>::new(|_| Script::Succeed);
    let second = relay(&world, handler);
    world.settled("crm", events[2].id).await;
    second.stop().await;
    assert_eq!((effects(&world).await, calls.load(Ordering::SeqCst)), (3, 3));
    assert_eq!(again.load(Ordering::SeqCst), 0, "the handler is not even called");
}

async fn a_failed_handler_leaves_no_effect<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1"]).await;
    let (handler, calls) = Effects::<T>::new(|nth| if nth < 2 { Script::Fail } else { Script::Succeed });
    let relay = relay(&world, handler);
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    assert_eq!((effects(&world).await, calls.load(Ordering::SeqCst)), (1, 3));
    assert!(world.dead().await.is_empty());
}

async fn a_rejected_event_leaves_no_effect_and_is_dead<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1", "1"]).await;
    let (handler, _) = Effects::<T>::new(|nth| if nth == 0 { Script::Reject } else { Script::Succeed });
    let relay = relay(&world, handler);
    world.settled("crm", events[1].id).await;
    relay.stop().await;
    assert_eq!(effects(&world).await, 1);
    let dead = world.dead().await;
    assert_eq!((dead[0].reason.as_str(), dead[0].last_error.as_str()), ("rejected", "never"));
}

async fn a_handler_that_swallows_a_database_error_is_not_done<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1"]).await;
    let (handler, calls) = Effects::<T>::new(|nth| if nth == 0 { Script::Swallow } else { Script::Succeed });
    let relay = relay(&world, handler);
    eventually("the handler is called again", async || calls.load(Ordering::SeqCst) >= 2).await;
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    assert_eq!(effects(&world).await, 1, "the effect that was rolled back did not count");
}

/// Notes which attempt each delivery is, and what came of it.
struct Noting<S> {
    sink: S,
    seen: Arc<Mutex<Vec<(u32, Outcome)>>>,
}

impl<S: Sink> Sink for Noting<S> {
    fn deliver<'a>(&'a self, delivery: Delivery<'a>) -> Pin<Box<dyn Future<Output = Outcome> + Send + 'a>> {
        Box::pin(async move {
            let outcome = self.sink.deliver(delivery).await;
            self.seen.lock().unwrap().push((delivery.attempt, outcome.clone()));
            outcome
        })
    }
}

async fn what_the_handler_needs_is_down_and_no_attempt_is_counted<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1"]).await;
    let (handler, _) = Effects::<T>::new(|nth| if nth < 2 { Script::Unavailable } else { Script::Succeed });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink =
        Noting { sink: HandlerSink::new(Inbox::new(world.pool.clone(), "crm"), handler), seen: seen.clone() };
    let relay = RunningRelay::start(world.builder().consumer(crm(), Arc::new(sink)).build().unwrap());
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    let down = Outcome::Unavailable { error: "the mail server is down".to_owned(), after: None };
    let expected = [(1, down.clone()), (1, down), (1, Outcome::Delivered)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(effects(&world).await, 1, "what was unavailable left no effect");
    assert!(world.dead().await.is_empty());
}

async fn a_database_error_of_the_handler_is_stored_without_its_text<T: TestDb + 'static>() {
    let world = world_with_inbox::<T>().await;
    let events = world.publish(&["1"]).await;
    let (handler, _) = Effects::<T>::new(|_| Script::Misspell);
    let relay = relay(&world, handler);
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    let dead = world.dead().await;
    let (reason, error) = (dead[0].reason.as_str(), dead[0].last_error.as_str());
    assert_eq!((dead.len(), reason, dead[0].attempts), (1, "attempts", 3));
    assert!(error.starts_with("database error ") && !error.contains("ada_example_org"), "{error}");
}

#[tokio::test]
async fn a_consumer_whose_own_database_is_away_waits_for_it() {
    let world = World::<SqliteTestDb>::new().await;
    let own = PgTestDb::new().await;
    let pool = own.pool().await;
    Migrator::inbox().run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE effect (id BIGINT NOT NULL)").execute(&pool).await.unwrap();
    let (handler, _) = Effects::<PgTestDb>::new(|_| Script::Succeed);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink =
        Noting { sink: HandlerSink::new(Inbox::new(pool.clone(), "crm"), handler), seen: seen.clone() };
    own.take_away().await;
    let events = world.publish(&["1"]).await;
    let relay = RunningRelay::start(world.builder().consumer(crm(), Arc::new(sink)).build().unwrap());
    eventually("the consumer's database is missed", async || !seen.lock().unwrap().is_empty()).await;
    own.bring_back().await;
    world.settled("crm", events[0].id).await;
    relay.stop().await;
    let seen = seen.lock().unwrap().clone();
    let (last, missed) = seen.split_last().unwrap();
    assert_eq!(last, &(1, Outcome::Delivered));
    assert!(
        missed
            .iter()
            .all(|(attempt, outcome)| *attempt == 1 && matches!(outcome, Outcome::Unavailable { .. })),
        "{missed:?}"
    );
    let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effect").fetch_one(&pool).await.unwrap();
    assert_eq!(effects, 1);
}

async fn the_effect_can_live_in_a_database_of_its_own<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let own = SqliteTestDb::new();
    let pool = own.pool().await;
    Migrator::inbox().run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE effect (id BIGINT NOT NULL)").execute(&pool).await.unwrap();
    let events = world.publish(&["1", "2"]).await;
    let (handler, _) = Effects::<SqliteTestDb>::new(|_| Script::Succeed);
    let sink = Arc::new(HandlerSink::new(Inbox::new(pool.clone(), "crm"), handler));
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink).build().unwrap());
    world.settled("crm", events[1].id).await;
    relay.stop().await;
    let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effect").fetch_one(&pool).await.unwrap();
    assert_eq!(effects, 2);
}
