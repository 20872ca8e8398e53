//! The inbox: an event has its effect once, under its tenant, however it ends and whoever else handles it.

mod batches;
mod endpoint;
mod keep;
mod misuse;
mod races;
mod tenants;

use std::marker::PhantomData;

use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use sqlx::{Connection as _, Pool, Transaction};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::databases::TestDb;

/// A migrated database with the table `effect`.
pub(super) struct World<T: TestDb> {
    // Before the database, so that it closes first.
    pub(super) pool: Pool<T::Db>,
    _db: T,
}

impl<T: TestDb> World<T> {
    pub(super) async fn new() -> Self {
        let db = T::create().await;
        let pool = db.connect().await;
        Migrator::inbox().run(&pool).await.unwrap();
        let mut conn = pool.acquire().await.unwrap();
        T::execute(&mut conn, "CREATE TABLE effect (event TEXT NOT NULL)").await.unwrap();
        drop(conn);
        Self { pool, _db: db }
    }

    pub(super) fn inbox(&self) -> Inbox<T::Db> {
        Inbox::new(self.pool.clone(), "crm")
    }

    /// Which events have had their effect, in the order of their names.
    pub(super) async fn effects(&self) -> Vec<String> {
        let mut conn = self.pool.acquire().await.unwrap();
        T::texts(&mut conn, "SELECT event FROM effect ORDER BY event").await
    }
}

/// An event that tells [`Obedient`] what to do; its effect is its name.
pub(super) fn event(name: &str, aggregate: &str, what: &str) -> Envelope {
    let mut event = Envelope::example("customer.updated", 1, "{}");
    event.event_id = Uuid::now_v7();
    event.aggregate_id = Some(aggregate.to_owned());
    event.tracestate = Some(format!("{what}/{name}"));
    event
}

/// What the event says, and its name.
pub(super) fn told(event: &Envelope) -> (&str, &str) {
    event.tracestate.as_deref().and_then(|text| text.split_once('/')).unwrap()
}

/// Writes the event's name into `effect`, then does what the event says; once it is calm, nothing more.
pub(super) struct Obedient<T> {
    calm: bool,
    /// Told when it does nothing more.
    pub(super) hanging: Notify,
    db: PhantomData<fn() -> T>,
}

impl<T> Obedient<T> {
    pub(super) fn new() -> Self {
        Self { calm: false, hanging: Notify::new(), db: PhantomData }
    }

    pub(super) fn calm() -> Self {
        Self { calm: true, ..Self::new() }
    }
}

impl<T: TestDb + 'static> Handler<T::Db> for Obedient<T> {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, T::Db>) -> Result<(), HandlerError> {
        let (what, name) = told(event);
        T::execute(tx, &format!("INSERT INTO effect VALUES ('{name}')")).await?;
        match if self.calm { "" } else { what } {
            "retry" => Err(HandlerError::retry("not yet")),
            "any error" => Ok(u8::try_from(1_000).map(|_| ())?),
            "reject" => Err(HandlerError::reject("never")),
            "unavailable" => Err(HandlerError::unavailable("the mail server is down")),
            "doom" => {
                T::doom(tx).await;
                Ok(())
            }
            "rollback" => Ok(T::execute(tx, "ROLLBACK").await?),
            "commit" => Ok(T::execute(tx, "COMMIT").await?),
            "try to commit" => {
                let _ = T::execute(tx, "COMMIT").await;
                Ok(())
            }
            "commit and fail" => {
                let _ = T::execute(tx, "COMMIT").await;
                Err(HandlerError::reject("never"))
            }
            "commit and hang" => {
                let _ = T::execute(tx, "COMMIT").await;
                self.hanging.notify_one();
                std::future::pending().await
            }
            "give up a savepoint" => {
                let mut part = tx.begin().await?;
                T::execute(&mut part, "INSERT INTO effect VALUES ('given up')").await?;
                drop(part);
                Ok(())
            }
            "recover in a savepoint" => {
                let mut part = tx.begin().await?;
                T::execute(&mut part, "INSERT INTO no_such_table VALUES (1)").await.unwrap_err();
                part.rollback().await?;
                Ok(())
            }
            "keep a savepoint" => {
                let mut part = tx.begin().await?;
                T::execute(&mut part, "INSERT INTO effect VALUES ('part')").await?;
                Ok(part.commit().await?)
            }
            "break a deferred constraint" => Ok(T::execute(tx, "INSERT INTO child VALUES (7)").await?),
            "" => Ok(()),
            other => panic!("{other}"),
        }
    }
}
