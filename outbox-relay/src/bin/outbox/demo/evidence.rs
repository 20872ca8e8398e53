//! What happened, read from both databases and the receiver's journal.

use outbox_sdk::backend::{DeadLetter, LetterFilter, Operate as _};
use outbox_sdk::{Lane, Progress, Tables};
use sqlx::{Row as _, Sqlite, SqlitePool};
use uuid::Uuid;

use super::CONSUMER;
use super::error::DemoError;
use super::receiver::Arrival;
use super::service::Ledger;

/// Everything that the promises are judged by.
#[derive(Debug)]
pub(super) struct Evidence {
    /// What the service remembers of its transactions.
    pub(super) ledger: Ledger,
    /// The event table.
    pub(super) stored: Vec<StoredEvent>,
    /// How many changes the service's own tables show.
    pub(super) changes: usize,
    /// What came in over HTTP.
    pub(super) arrivals: Vec<Arrival>,
    /// Deliveries that the receiver refused.
    pub(super) refused: usize,
    /// Answers that the receiver kept back until the relay was dead.
    pub(super) held: usize,
    /// What the handler did, in its order.
    pub(super) effects: Vec<EffectRow>,
    /// The customers of the service, and the copies of the consumer.
    pub(super) customers: Vec<CustomerRow>,
    pub(super) copies: Vec<CustomerRow>,
    pub(super) dead: Vec<DeadLetter>,
    /// What was settled when the first relay was dead.
    pub(super) settled_at_kill: Progress,
    /// How the consumer stands in the end.
    pub(super) standing: Standing,
}

/// A row of the event table.
#[derive(Debug, Clone)]
pub(super) struct StoredEvent {
    pub(super) id: i64,
    pub(super) event_id: Uuid,
    pub(super) lane: Lane,
    /// Whether the audit row that it names is there and about the same entity.
    pub(super) audited: bool,
}

/// One effect, as the consumer noted it.
#[derive(Debug, Clone)]
pub(super) struct EffectRow {
    pub(super) event_id: Uuid,
    pub(super) lane: String,
    pub(super) id: i64,
}

/// A customer in either database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CustomerRow {
    pub(super) code: String,
    pub(super) version: u32,
    pub(super) city: String,
    pub(super) credit_limit: i64,
    pub(super) archived: bool,
    /// How many events the copy has taken in; in the service, the version.
    pub(super) effects: u32,
}

/// A consumer's progress.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub(super) settled: Progress,
    pub(super) stalled_lanes: u64,
    pub(super) owned: bool,
}

impl Standing {
    /// Whether nothing is left to do for these events.
    pub(super) fn is_done(&self, ids: impl IntoIterator<Item = i64>) -> bool {
        self.stalled_lanes == 0 && ids.into_iter().all(|id| self.settled.contains(id))
    }
}

/// How the consumer stands now.
pub(super) async fn standing(pool: &SqlitePool) -> Result<Standing, DemoError> {
    let mut conn = pool.acquire().await?;
    let rows = Sqlite::consumers(&mut conn, &Tables::default()).await?;
    let mine = rows.into_iter().find(|row| row.name == CONSUMER);
    // Not registered yet: nothing is settled.
    Ok(mine.map_or_else(Standing::default, |row| Standing {
        settled: row.settled,
        stalled_lanes: row.stalled_lanes,
        owned: row.owner.is_some(),
    }))
}

pub(super) async fn dead_letters(pool: &SqlitePool) -> Result<Vec<DeadLetter>, DemoError> {
    let mut conn = pool.acquire().await?;
    let filter = LetterFilter { consumer: Some(CONSUMER.to_owned()), ..LetterFilter::default() };
    Ok(Sqlite::dead_letters(&mut conn, &Tables::default(), &filter, None, 100).await?)
}

/// The event table, by id.
pub(super) async fn stored(pool: &SqlitePool) -> Result<Vec<StoredEvent>, DemoError> {
    let rows = sqlx::query(
        "SELECT id, event_id, tenant_id, aggregate_type, aggregate_id,
                EXISTS (SELECT 1 FROM audit_log WHERE audit_log.id = outbox_event.audit_log_id
                        AND audit_log.entity_id = outbox_event.payload ->> 'entity_id') AS audited
         FROM outbox_event ORDER BY id",
    )
    .fetch_all(pool)
    .await?;
    let event = |row: &sqlx::sqlite::SqliteRow| -> Result<StoredEvent, DemoError> {
        let tenant_id: Option<&str> = row.try_get("tenant_id")?;
        let tenant_id = tenant_id.map(parse_id).transpose()?;
        let aggregate_id: &str = row.try_get("aggregate_id")?;
        Ok(StoredEvent {
            id: row.try_get("id")?,
            event_id: parse_id(row.try_get("event_id")?)?,
            lane: Lane::aggregate(tenant_id, row.try_get("aggregate_type")?, aggregate_id),
            audited: row.try_get("audited")?,
        })
    };
    rows.iter().map(event).collect()
}

/// How many changes the service's own tables show: each change of a customer raised its version by one.
pub(super) async fn changes(pool: &SqlitePool) -> Result<usize, DemoError> {
    let count: i64 = sqlx::query_scalar(
        "SELECT (SELECT sum(version) FROM customer) + (SELECT count(*) FROM permission_grant)
                + (SELECT count(*) FROM audit_log WHERE action = 'import')",
    )
    .fetch_one(pool)
    .await?;
    Ok(usize::try_from(count).unwrap_or_default())
}

pub(super) async fn customers(pool: &SqlitePool) -> Result<Vec<CustomerRow>, DemoError> {
    customer_rows(
        pool,
        "SELECT code, version, city, credit_limit, archived, version AS effects FROM customer ORDER BY id",
    )
    .await
}

pub(super) async fn copies(pool: &SqlitePool) -> Result<Vec<CustomerRow>, DemoError> {
    customer_rows(
        pool,
        "SELECT code, version, city, credit_limit, archived, effects FROM customer_copy ORDER BY id",
    )
    .await
}

async fn customer_rows(pool: &SqlitePool, query: &'static str) -> Result<Vec<CustomerRow>, DemoError> {
    let rows = sqlx::query(query).fetch_all(pool).await?;
    let customer = |row: &sqlx::sqlite::SqliteRow| {
        Ok(CustomerRow {
            code: row.try_get("code")?,
            version: row.try_get("version")?,
            city: row.try_get("city")?,
            credit_limit: row.try_get("credit_limit")?,
            archived: row.try_get("archived")?,
            effects: row.try_get("effects")?,
        })
    };
    rows.iter().map(customer).collect()
}

/// What the consumer's handler did, in its order.
pub(super) async fn effects(pool: &SqlitePool) -> Result<Vec<EffectRow>, DemoError> {
    let rows = sqlx::query("SELECT event_id, lane, id FROM effect ORDER BY number").fetch_all(pool).await?;
    let effect = |row: &sqlx::sqlite::SqliteRow| {
        Ok(EffectRow {
            event_id: parse_id(row.try_get("event_id")?)?,
            lane: row.try_get("lane")?,
            id: row.try_get("id")?,
        })
    };
    rows.iter().map(effect).collect()
}

fn parse_id(text: &str) -> Result<Uuid, DemoError> {
    Uuid::try_parse(text).map_err(|error| DemoError::Database(sqlx::Error::Decode(error.into())))
}
