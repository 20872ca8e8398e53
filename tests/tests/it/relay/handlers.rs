//! Handlers in the relay's process: the effect of each event happens once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outbox_relay::sink::handler::HandlerSink;
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::{RunningRelay, eventually};
use sqlx::Transaction;

use super::{World, crm};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    an_effect_happens_once_however_often_the_event_comes
    a_failed_handler_leaves_no_effect
    a_rejected_event_leaves_no_effect_and_is_dead
    a_handler_that_swallows_a_database_error_is_not_done
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

async fn the_effect_can_live_in_a_database_of_its_own<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let own = outbox_tests::SqliteTestDb::new();
    let pool = own.pool().await;
    Migrator::inbox().run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE effect (id BIGINT NOT NULL)").execute(&pool).await.unwrap();
    let events = world.publish(&["1", "2"]).await;
    let (handler, _) = Effects::<outbox_tests::SqliteTestDb>::new(|_| Script::Succeed);
    let sink = Arc::new(HandlerSink::new(Inbox::new(pool.clone(), "crm"), handler));
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink).build().unwrap());
    world.settled("crm", events[1].id).await;
    relay.stop().await;
    let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effect").fetch_one(&pool).await.unwrap();
    assert_eq!(effects, 2);
}
