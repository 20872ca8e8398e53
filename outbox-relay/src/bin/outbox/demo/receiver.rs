//! The consumer: a webhook receiver that verifies, deduplicates, and keeps a copy of the customers in its own database.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use outbox_sdk::webhook::axum::Verified;
use outbox_sdk::webhook::{ABORT_MESSAGE, ReceiveError, Receiver, Secret, WEBHOOK_DELIVERY};
use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Inbox, Lane, Migrator, OutboxEvent, Received};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::CONSUMER;
use super::error::DemoError;
use super::events::{CustomerArchived, CustomerCreated, CustomerUpdated, PermissionGranted};

/// `effect` notes each call of the handler, and nothing keeps an event from being noted twice: a doubled effect shows.
const TABLES: &str = "
    CREATE TABLE customer_copy (
        id INTEGER PRIMARY KEY, code TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, city TEXT NOT NULL,
        credit_limit INTEGER NOT NULL, archived INTEGER NOT NULL DEFAULT 0, effects INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE access (principal_id TEXT NOT NULL, permission TEXT NOT NULL, customer_id INTEGER NOT NULL) STRICT;
    CREATE TABLE effect (
        number INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, lane TEXT NOT NULL, id INTEGER NOT NULL
    ) STRICT;
";

/// A verified delivery, as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) event_id: Uuid,
    pub(super) id: i64,
    pub(super) lane: Lane,
    pub(super) attempt: u32,
    /// Which relay sent it, as the path says.
    pub(super) relay: u8,
}

/// The running receiver. Dropping it stops it.
pub(super) struct CrmReceiver {
    pub(super) address: SocketAddr,
    app: App,
    stop: CancellationToken,
}

/// When answers are kept back, though the effect is done: the moment at which a crash hurts most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holding {
    /// After this many effects.
    pub(super) after_effects: usize,
    /// This many answers.
    pub(super) answers: usize,
}

#[derive(Clone)]
struct App {
    receiver: Arc<Receiver>,
    inbox: Inbox<Sqlite>,
    holding: Holding,
    /// Ends the holding.
    let_go: CancellationToken,
    journal: Arc<Mutex<Journal>>,
}

#[derive(Default)]
struct Journal {
    arrivals: Vec<Arrival>,
    effects: usize,
    refused: usize,
    held: usize,
}

impl FromRef<App> for Arc<Receiver> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.receiver)
    }
}

impl CrmReceiver {
    /// Creates its tables and listens on a free loopback port.
    pub(super) async fn start(pool: SqlitePool, secret: Secret, holding: Holding) -> Result<Self, DemoError> {
        Migrator::inbox().run(&pool).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(DemoError::Port)?;
        let address = listener.local_addr().map_err(DemoError::Port)?;
        let app = App {
            receiver: Arc::new(Receiver::new(secret)),
            inbox: Inbox::new(pool, CONSUMER),
            holding,
            let_go: CancellationToken::new(),
            journal: Arc::default(),
        };
        let router = Router::new().route("/hooks/{relay}", post(hook)).with_state(app.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        // Its end is of no interest: what did not arrive is missed in the account.
        tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(stopped).into_future());
        Ok(Self { address, app, stop })
    }

    /// Where relay `number` sends to: a path of its own, so that the journal tells who sent what.
    pub(super) fn url(&self, number: u8) -> String {
        format!("http://{}/hooks/{number}", self.address)
    }

    /// How many answers are kept back.
    pub(super) fn held(&self) -> usize {
        self.app.journal().held
    }

    /// How many deliveries were refused because of their signature or form.
    pub(super) fn refused(&self) -> usize {
        self.app.journal().refused
    }

    /// From now on no answer is kept back.
    pub(super) fn let_go(&self) {
        self.app.let_go.cancel();
    }

    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        self.app.journal().arrivals.clone()
    }
}

impl Drop for CrmReceiver {
    fn drop(&mut self) {
        self.app.let_go.cancel();
        self.stop.cancel();
    }
}

impl App {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an effect; true = its answer is to be kept back.
    fn effect_done(&self) -> bool {
        let mut journal = self.journal();
        journal.effects += 1;
        let Holding { after_effects, answers } = self.holding;
        let hold = journal.effects > after_effects && journal.held < answers;
        journal.held += usize::from(hold);
        hold
    }
}

/// Answers 2xx only after the effect and the inbox row are committed.
async fn hook(
    State(app): State<App>,
    Path(relay): Path<u8>,
    delivery: Result<Verified, ReceiveError>,
) -> Response {
    let delivery = match delivery {
        Ok(Verified(delivery)) => delivery,
        Err(refused) => {
            app.journal().refused += 1;
            return refused.into_response();
        }
    };
    let event = &delivery.envelope;
    let attempt = delivery.attempt;
    let arrival = Arrival { event_id: event.event_id, id: event.id, lane: event.lane(), attempt, relay };
    app.journal().arrivals.push(arrival);
    match app.inbox.handle(&Crm, event).await {
        Ok(Effect::AlreadyProcessed) => StatusCode::NO_CONTENT,
        Ok(Effect::Done) => {
            if app.effect_done() {
                app.let_go.cancelled().await;
            }
            StatusCode::NO_CONTENT
        }
        Err(HandlerError::Reject(_)) => {
            return (StatusCode::UNPROCESSABLE_ENTITY, [(WEBHOOK_DELIVERY, ABORT_MESSAGE)]).into_response();
        }
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
    .into_response()
}

/// What the consumer does with an event, in the transaction that also holds the inbox row.
struct Crm;

impl Handler<Sqlite> for Crm {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Sqlite>) -> Result<(), HandlerError> {
        match event.event_type.as_str() {
            CustomerCreated::EVENT_TYPE => created(&Received::read(event)?.payload, tx).await?,
            CustomerUpdated::EVENT_TYPE => updated(&Received::read(event)?.payload, tx).await?,
            CustomerArchived::EVENT_TYPE => archived(&Received::read(event)?.payload, tx).await?,
            PermissionGranted::EVENT_TYPE => granted(&Received::read(event)?.payload, tx).await?,
            _ => return Err(HandlerError::reject("no handler for this event type; do not subscribe to it")),
        }
        sqlx::query("INSERT INTO effect (event_id, lane, id) VALUES (?, ?, ?)")
            .bind(event.event_id.to_string())
            .bind(event.lane().key())
            .bind(event.id)
            .execute(&mut **tx)
            .await?;
        Ok(())
    }
}

async fn created(event: &CustomerCreated, tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO customer_copy (id, code, version, name, city, credit_limit, effects)
         VALUES (?, ?, ?, ?, ?, ?, 1)",
    )
    .bind(event.entity_id)
    .bind(&event.code)
    .bind(event.version)
    .bind(&event.after.name)
    .bind(&event.after.city)
    .bind(event.after.credit_limit)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn updated(event: &CustomerUpdated, tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE customer_copy SET version = ?, name = ?, city = ?, credit_limit = ?, effects = effects + 1
         WHERE id = ?",
    )
    .bind(event.version)
    .bind(&event.after.name)
    .bind(&event.after.city)
    .bind(event.after.credit_limit)
    .bind(event.entity_id)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn archived(event: &CustomerArchived, tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE customer_copy SET version = ?, archived = 1, effects = effects + 1 WHERE id = ?")
        .bind(event.version)
        .bind(event.entity_id)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn granted(event: &PermissionGranted, tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO access (principal_id, permission, customer_id) VALUES (?, ?, ?)")
        .bind(&event.principal_id)
        .bind(&event.permission)
        .bind(event.entity_id)
        .execute(&mut **tx)
        .await?;
    Ok(())
}
