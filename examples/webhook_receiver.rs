//! A service that receives events as webhooks: each is verified, and takes effect once.
//!
//! ```text
//! export OUTBOX_WEBHOOK_SECRET="whsec_$(openssl rand -base64 32)"
//! PORT=8080 cargo run --example webhook_receiver
//! ```
//!
//! A relay (`outbox run`) with this `outbox.toml` and the same variable delivers to it:
//!
//! ```toml
//! [database]
//! url = "env:DATABASE_URL"
//!
//! [[consumer]]
//! name = "receiver"
//! events = ["order.*"]
//!
//! [consumer.webhook]
//! url = "http://127.0.0.1:8080/hooks"
//! secrets = ["env:OUTBOX_WEBHOOK_SECRET"]
//! allow_private_addresses = true
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use outbox_sdk::webhook::axum::handle;
use outbox_sdk::webhook::{Endpoint, EndpointError, Receiver, Secret};
use outbox_sdk::{Envelope, Handler, HandlerError, Inbox, Migrator};
use sqlx::{Sqlite, SqlitePool, Transaction};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let secret = std::env::var("OUTBOX_WEBHOOK_SECRET").map_err(|_| "OUTBOX_WEBHOOK_SECRET is not set")?;
    let port = std::env::var("PORT").map_or(Ok(8080), |port| port.parse::<u16>())?;
    let pool = SqlitePool::connect("sqlite://receiver.db?mode=rwc").await?;
    let app = app(pool, &secret).await?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}/hooks", listener.local_addr()?);
    let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    Ok(axum::serve(listener, app).with_graceful_shutdown(shutdown).await?)
}

pub(crate) async fn app(pool: SqlitePool, secret: &str) -> Result<Router, Failure> {
    Migrator::inbox().run(&pool).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS received (payload TEXT)").execute(&pool).await?;
    let receiver = Receiver::new(Secret::parse(secret)?);
    let endpoint = Endpoint::new(receiver, Inbox::new(pool, "receiver"), Store);
    Ok(Router::new().route("/hooks", post(hook)).with_state(Arc::new(endpoint)))
}

/// 2xx only after the effect is committed; what else the sender is to do, `EndpointError` answers.
async fn hook(
    State(endpoint): State<Arc<Endpoint<Sqlite, Store>>>,
    request: Request,
) -> Result<StatusCode, EndpointError> {
    handle(&endpoint, request).await.inspect_err(|refused| println!("{refused}"))
}

struct Store;

impl Handler<Sqlite> for Store {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Sqlite>) -> Result<(), HandlerError> {
        sqlx::query("INSERT INTO received VALUES (?)").bind(&event.payload).execute(&mut **tx).await?;
        println!("storing {} {} {}", event.event_type, event.event_id, event.payload);
        Ok(())
    }
}
