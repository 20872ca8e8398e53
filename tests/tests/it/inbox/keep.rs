//! What an inbox keeps, and for how long, on every database.

use std::time::Duration;

use outbox_sdk::backend::Deduplicate as _;
use outbox_sdk::{
    Effect, Envelope, Forget, Handler, HandlerError, Inbox, InboxError, Migrator, Tables, Timestamp,
};
use sqlx::{Pool, Transaction};
use uuid::Uuid;

use crate::databases::{TestDb, on_every_database};

on_every_database! {
    compacting_deletes_what_is_old_a_thousand_rows_at_a_time
    what_is_forgotten_has_its_effect_again
    a_renamed_consumer_takes_its_rows_along
    an_inbox_without_its_table_says_so
}

const DAY: Duration = Duration::from_secs(24 * 3600);

struct World<T: TestDb> {
    // Before the database, so that it closes first.
    pool: Pool<T::Db>,
    _db: T,
}

impl<T: TestDb> World<T> {
    async fn new() -> Self {
        let db = T::create().await;
        let pool = db.connect().await;
        Migrator::inbox().run(&pool).await.unwrap();
        Self { pool, _db: db }
    }

    fn inbox(&self, consumer: &str) -> Inbox<T::Db> {
        Inbox::new(self.pool.clone(), consumer)
    }

    /// Rows as they are after so many events, which are this old.
    async fn processed(&self, consumer: &str, events: usize, hours_ago: u32) {
        let mut tx = self.pool.begin().await.unwrap();
        for _ in 0..events {
            let event = Uuid::now_v7();
            assert!(T::Db::inbox_insert(&mut tx, &Tables::default(), consumer, event, None).await.unwrap());
        }
        let (table, hour) = (T::table("processed_event"), T::HOUR);
        let age = format!(
            "UPDATE {table} SET processed_at = processed_at - {hours_ago} * {hour} WHERE consumer = '{consumer}'"
        );
        T::execute(&mut tx, &age).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn rows(&self, consumer: &str) -> i64 {
        let table = T::table("processed_event");
        let count = format!("SELECT count(*) FROM {table} WHERE consumer = '{consumer}'");
        T::count(&mut *self.pool.acquire().await.unwrap(), &count).await
    }
}

/// Takes everything.
struct Willing;

impl<DB: outbox_sdk::Backend> Handler<DB> for Willing {
    async fn handle(&self, _: &Envelope, _: &mut Transaction<'_, DB>) -> Result<(), HandlerError> {
        Ok(())
    }
}

async fn compacting_deletes_what_is_old_a_thousand_rows_at_a_time<T: TestDb>() {
    let world = World::<T>::new().await;
    world.processed("crm", 2_300, 31 * 24).await;
    world.processed("billing", 5, 31 * 24).await;
    // `processed` ages all rows of a name, so the young ones come last.
    let mut conn = world.pool.acquire().await.unwrap();
    for _ in 0..7 {
        T::Db::inbox_insert(&mut conn, &Tables::default(), "crm", Uuid::now_v7(), None).await.unwrap();
    }
    let batch = T::Db::inbox_compact(&mut conn, &Tables::default(), "crm", 30 * DAY).await.unwrap();
    assert_eq!((batch, world.rows("crm").await), (1_000, 1_307));
    drop(conn);

    let patient = Inbox::builder(world.pool.clone(), "crm").retention(32 * DAY).build().unwrap();
    assert_eq!(patient.compact().await.unwrap(), 0);
    let inbox = world.inbox("crm");
    assert_eq!(inbox.compact().await.unwrap(), 1_300);
    assert_eq!(inbox.compact().await.unwrap(), 0);
    assert_eq!((world.rows("crm").await, world.rows("billing").await), (7, 5));
}

async fn what_is_forgotten_has_its_effect_again<T: TestDb>() {
    let world = World::<T>::new().await;
    let inbox = world.inbox("crm");
    let [first, second] = [1, 2].map(|_| Envelope::example("customer.updated", 1, "{}"));
    let effects = async |inbox: &Inbox<T::Db>| {
        let mut effects = Vec::new();
        for event in [&first, &second] {
            effects.push(inbox.handle(&Willing, event).await.unwrap());
        }
        effects
    };
    let (done, again) = (Effect::Done, Effect::AlreadyProcessed);
    assert_eq!(effects(&inbox).await, [done, done]);
    assert_eq!(effects(&world.inbox("billing")).await, [done, done]);
    assert_eq!(effects(&inbox).await, [again, again]);

    assert_eq!(inbox.forget(Forget::Event(second.event_id)).await.unwrap(), 1);
    assert_eq!(inbox.forget(Forget::Event(second.event_id)).await.unwrap(), 0);
    assert_eq!(effects(&inbox).await, [again, done]);

    let late = Timestamp::from_micros(i64::MAX / 4);
    assert_eq!(inbox.forget(Forget::Since(late)).await.unwrap(), 0);
    assert_eq!(inbox.forget(Forget::Since(Timestamp::from_micros(0))).await.unwrap(), 2);
    assert_eq!(effects(&inbox).await, [done, done]);

    world.processed("crm", 1_500, 0).await;
    assert_eq!(inbox.forget(Forget::All).await.unwrap(), 1_502);
    assert_eq!(effects(&world.inbox("billing")).await, [again, again], "of another consumer");
}

async fn a_renamed_consumer_takes_its_rows_along<T: TestDb>() {
    let world = World::<T>::new().await;
    world.processed("crm", 1_200, 31 * 24).await;
    let (old, new) = (world.inbox("crm"), world.inbox("customers"));
    let event = Envelope::example("customer.updated", 1, "{}");
    let both = Envelope::example("customer.updated", 1, "{}");
    for (inbox, event) in [(&old, &event), (&old, &both), (&new, &both)] {
        assert_eq!(inbox.handle(&Willing, event).await.unwrap(), Effect::Done);
    }
    assert_eq!(new.rename_from("crm").await.unwrap(), 1_201);
    assert_eq!((world.rows("crm").await, world.rows("customers").await), (0, 1_202));
    assert_eq!(new.handle(&Willing, &event).await.unwrap(), Effect::AlreadyProcessed);
    assert_eq!(new.rename_from("crm").await.unwrap(), 0);
    assert_eq!(new.rename_from("customers").await.unwrap(), 0);
    assert_eq!(new.compact().await.unwrap(), 1_200, "the times came along");
}

async fn an_inbox_without_its_table_says_so<T: TestDb>() {
    let db = T::create().await;
    let inbox = Inbox::new(db.connect().await, "crm");
    for error in [inbox.compact().await, inbox.forget(Forget::All).await, inbox.rename_from("old").await] {
        let error = error.unwrap_err();
        assert!(matches!(error, InboxError::NotMigrated(_)), "{error:?}");
        assert!(error.to_string().contains("outbox migrate --inbox"), "{error}");
    }
}
