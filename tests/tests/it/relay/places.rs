//! One handler, in the three places where it can run: in the relay's process, behind HTTP, and by polling the outbox.

use std::collections::BTreeSet;
use std::future::IntoFuture as _;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use outbox_relay::sink::Sink;
use outbox_relay::sink::handler::HandlerSink;
use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_sdk::webhook::axum::handle;
use outbox_sdk::webhook::{Endpoint, EndpointError, Receiver, Secret};
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator, Received};
use outbox_tests::{RunningRelay, eventually};
use serde::Deserialize;
use sqlx::{Pool, Transaction};
use uuid::Uuid;

use super::{World, crm};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    a_handler_in_the_relays_process
    a_handler_behind_http
    a_handler_that_polls_the_outbox
}

#[derive(Deserialize)]
struct Changed {
    n: i64,
}

/// Writes `n` down; fails for the first time at 1, for ever at 2.
struct Ledger<T> {
    failed: Mutex<BTreeSet<Uuid>>,
    db: PhantomData<fn() -> T>,
}

impl<T> Ledger<T> {
    fn new() -> Self {
        Self { failed: Mutex::default(), db: PhantomData }
    }
}

impl<T: TestDb + 'static> Handler<T::Db> for Ledger<T> {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, T::Db>) -> Result<(), HandlerError> {
        let n = Received::<Changed>::read(event)?.payload.n;
        T::execute(tx, &format!("INSERT INTO ledger VALUES ('{n}')")).await?;
        match n {
            1 if self.failed.lock().unwrap().insert(event.event_id) => Err(HandlerError::retry("not yet")),
            2 => Err(HandlerError::reject("never")),
            _ => Ok(()),
        }
    }
}

async fn prepared<T: TestDb>(pool: &Pool<T::Db>) {
    Migrator::inbox().run(pool).await.unwrap();
    let mut conn = pool.acquire().await.unwrap();
    T::execute(&mut conn, "CREATE TABLE ledger (n TEXT NOT NULL)").await.unwrap();
}

/// What it has come to, wherever it ran: everything once but the refused event, which is dead.
async fn everything_once<T: TestDb>(world: &World<T>, pool: &Pool<T::Db>) {
    let ledger = T::texts(&mut *pool.acquire().await.unwrap(), "SELECT n FROM ledger ORDER BY n").await;
    assert_eq!(ledger, ["0", "1", "3"]);
    let dead = world.dead().await;
    assert_eq!(dead.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["rejected"]);
}

async fn run<T: TestDb>(world: &World<T>, sink: Arc<impl Sink>) {
    let events = world.publish(&["a", "b", "a", "a"]).await;
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink).build().unwrap());
    world.settled("crm", events[3].id).await;
    relay.stop().await;
}

async fn a_handler_in_the_relays_process<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    prepared::<T>(&world.pool).await;
    run(&world, Arc::new(HandlerSink::new(Inbox::new(world.pool.clone(), "crm"), Ledger::<T>::new()))).await;
    everything_once(&world, &world.pool).await;
}

type Hooks<T> = Arc<Endpoint<<T as TestDb>::Db, Ledger<T>>>;

async fn hook<T: TestDb + 'static>(
    State(endpoint): State<Hooks<T>>,
    request: Request,
) -> Result<StatusCode, EndpointError> {
    handle(&endpoint, request).await
}

async fn a_handler_behind_http<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let own = T::create().await;
    let pool = own.connect().await;
    prepared::<T>(&pool).await;
    let secret = || Secret::parse("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3").unwrap();
    let endpoint =
        Endpoint::new(Receiver::new(secret()), Inbox::new(pool.clone(), "crm"), Ledger::<T>::new());
    let app: Router = Router::new().route("/hooks", post(hook::<T>)).with_state(Arc::new(endpoint));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let mut config = WebhookConfig::new(format!("http://{}/hooks", listener.local_addr().unwrap()), secret());
    config.allow_private_addresses = true;
    let serving = tokio::spawn(axum::serve(listener, app).into_future());
    run(&world, Arc::new(WebhookSink::new(config).unwrap())).await;
    serving.abort();
    everything_once(&world, &pool).await;
    pool.close().await;
}

async fn a_handler_that_polls_the_outbox<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    prepared::<T>(&world.pool).await;
    let sink = Arc::new(HandlerSink::new(Inbox::new(world.pool.clone(), "crm"), Ledger::<T>::new()));
    let events = world.publish(&["a", "b", "a", "a"]).await;
    let relay = world.builder().consumer(crm(), sink).build().unwrap();
    // As a job that comes now and then; the event that failed is tried again once it is due.
    eventually("everything is settled", async || {
        relay.run_once().await.unwrap();
        let row = world.consumer("crm").await;
        row.settled.to_multirange() == format!("{{[1,{})}}", events[3].id + 1) && row.stalled_lanes == 0
    })
    .await;
    everything_once(&world, &world.pool).await;
}
