//! The tenant of a handler's transaction, on PostgreSQL: it is the event's, and nothing of it stays on the connection.

use std::future::pending;

use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Inbox, JsonEvent, Migrator, Outbox, Tables};
use outbox_tests::PgTestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{event, told};

/// A database and a pool of one connection, on which anything that stays would be seen.
struct Single {
    pool: PgPool,
    _db: PgTestDb,
}

impl Single {
    async fn new() -> Self {
        let db = PgTestDb::new().await;
        let pool = PgPoolOptions::new().max_connections(1).connect_with(db.options()).await.unwrap();
        Migrator::outbox().run(&pool).await.unwrap();
        Migrator::inbox().run(&pool).await.unwrap();
        sqlx::raw_sql("CREATE TABLE seen (tenant text)").execute(&pool).await.unwrap();
        Self { pool, _db: db }
    }

    fn inbox(&self) -> Inbox<Postgres> {
        Inbox::new(self.pool.clone(), "crm")
    }

    /// What the connection's next user finds, and which connection it is.
    async fn left(&self) -> (String, i32) {
        let look = "SELECT coalesce(current_setting('app.tenant_id', true), ''), pg_backend_pid()";
        sqlx::query_as(look).fetch_one(&self.pool).await.unwrap()
    }

    async fn seen(&self) -> Vec<Option<String>> {
        sqlx::query_scalar("SELECT tenant FROM seen").fetch_all(&self.pool).await.unwrap()
    }
}

fn of_tenant(tenant_id: Option<Uuid>, what: &str) -> Envelope {
    let mut event = event("", "1", what);
    event.tenant_id = tenant_id;
    event
}

/// Notes its tenant, then ends as the event says.
#[derive(Default)]
struct Noting {
    noted: Notify,
}

impl Handler<Postgres> for Noting {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        let note = "INSERT INTO seen SELECT current_setting('app.tenant_id', true)";
        sqlx::query(note).execute(&mut **tx).await?;
        match told(event).0 {
            "error" => Err(HandlerError::retry("not yet")),
            "panic" => panic!("the handler panics"),
            "swallow" => {
                sqlx::query("SELECT 1 / 0").execute(&mut **tx).await.unwrap_err();
                Ok(())
            }
            "stand" => {
                self.noted.notify_one();
                pending().await
            }
            "query" => {
                self.noted.notify_one();
                sqlx::query("SELECT pg_sleep(0.2)").execute(&mut **tx).await?;
                pending().await
            }
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_handler_runs_under_the_tenant_of_its_event() {
    let single = Single::new().await;
    let (inbox, tenant) = (single.inbox(), Uuid::now_v7());
    for tenant in [Some(tenant), None] {
        assert_eq!(inbox.handle(&Noting::default(), &of_tenant(tenant, "")).await.unwrap(), Effect::Done);
    }
    assert_eq!(single.seen().await, [Some(tenant.to_string()), Some(String::new())]);
}

#[tokio::test]
async fn nothing_of_a_tenant_stays_on_the_connection() {
    let single = Single::new().await;
    let (_, connection) = single.left().await;
    let tenant = Some(Uuid::now_v7());
    for what in ["", "error", "swallow", "panic", "stand", "query"] {
        let event = of_tenant(tenant, what);
        let (inbox, handler) = (single.inbox(), std::sync::Arc::new(Noting::default()));
        let running = handler.clone();
        let task = tokio::spawn(async move { inbox.handle(&*running, &event).await });
        if ["stand", "query"].contains(&what) {
            handler.noted.notified().await;
            task.abort();
        }
        let ended = task.await;
        assert_eq!(ended.is_err(), ["panic", "stand", "query"].contains(&what), "{what}: {ended:?}");
        assert_eq!(single.left().await, (String::new(), connection), "{what}");
    }
    assert_eq!(
        single.seen().await,
        [tenant.map(|tenant| tenant.to_string())],
        "only the first was committed"
    );
}

#[tokio::test]
async fn events_of_a_batch_run_under_a_tenant_each() {
    let single = Single::new().await;
    let (one, other) = (Some(Uuid::now_v7()), Some(Uuid::now_v7()));
    let events = [(one, ""), (one, "error"), (None, ""), (other, "swallow"), (other, ""), (None, "")]
        .map(|(tenant, what)| of_tenant(tenant, what));
    // Each of an aggregate of its own, so that none waits for another.
    let events: Vec<_> = events
        .into_iter()
        .enumerate()
        .map(|(n, mut event)| {
            event.aggregate_id = Some(n.to_string());
            event
        })
        .collect();
    let results = single.inbox().handle_all(&Noting::default(), &events).await.unwrap();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 4, "{results:?}");
    let text = |tenant: Option<Uuid>| Some(tenant.map(|tenant| tenant.to_string()).unwrap_or_default());
    assert_eq!(single.seen().await, [text(one), text(None), text(other), text(None)]);
    assert_eq!(single.left().await.0, "");
}

#[tokio::test]
async fn a_setting_of_the_session_comes_back() {
    let single = Single::new().await;
    sqlx::query("SET app.tenant_id = 'of the session'").execute(&single.pool).await.unwrap();
    single.inbox().handle(&Noting::default(), &of_tenant(None, "")).await.unwrap();
    assert_eq!(single.seen().await, [Some(String::new())]);
    assert_eq!(single.left().await.0, "of the session");
}

#[tokio::test]
async fn the_setting_is_the_one_that_the_tables_name() {
    let single = Single::new().await;
    let tables = Tables::default().tenant_setting("shop.tenant").unwrap();
    let inbox = single.inbox().with_tables(tables.pooled());
    inbox.handle(&Noting::default(), &of_tenant(Some(Uuid::now_v7()), "")).await.unwrap();
    assert_eq!(single.seen().await, [None], "the other setting is not there");
    let look = "SELECT current_setting('shop.tenant', true)";
    let named: Option<String> = sqlx::query_scalar(look).fetch_one(&single.pool).await.unwrap();
    assert_eq!(named.as_deref(), Some(""), "this one was, and is empty again");
}

/// Publishes an event that names no tenant.
struct Publishing;

impl Handler<Postgres> for Publishing {
    async fn handle(&self, _: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        let event = JsonEvent::new("customer.welcomed", 1, "customer", "{}").aggregate_id("1");
        Outbox::new().publish_json(tx, &event).await?;
        Ok(())
    }
}

#[tokio::test]
async fn what_a_handler_publishes_is_of_the_same_tenant() {
    let single = Single::new().await;
    let tenant = Some(Uuid::now_v7());
    single.inbox().handle(&Publishing, &of_tenant(tenant, "")).await.unwrap();
    let published: Option<Uuid> =
        sqlx::query_scalar("SELECT tenant_id FROM outbox.event").fetch_one(&single.pool).await.unwrap();
    assert_eq!(published, tenant);
}
