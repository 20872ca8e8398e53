//! The sample service: it keeps customers, and publishes what it changes in the transaction that changes it.

use std::time::Duration;

use outbox_sdk::{Context, JsonEvent, Migrator, Outbox, Published};
use sqlx::{Sqlite, SqlitePool, Transaction};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::customer::{Customer, account_manager, clerk, tenant_id};
use super::error::DemoError;
use super::events::{Actor, CustomerArchived, CustomerCreated, CustomerUpdated, PermissionGranted};
use super::plan::{Change, Plan, Request};

const TABLES: &str = "
    CREATE TABLE customer (
        id INTEGER PRIMARY KEY, tenant_key TEXT NOT NULL, code TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
        name TEXT NOT NULL, city TEXT NOT NULL, credit_limit INTEGER NOT NULL, archived INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE permission_grant (
        id INTEGER PRIMARY KEY, tenant_key TEXT NOT NULL, principal_type TEXT NOT NULL, principal_id TEXT NOT NULL,
        permission TEXT NOT NULL, customer_id INTEGER NOT NULL REFERENCES customer
    ) STRICT;
    CREATE TABLE audit_log (
        id INTEGER PRIMARY KEY AUTOINCREMENT, tenant_key TEXT NOT NULL, action TEXT NOT NULL,
        entity_type TEXT NOT NULL, entity_id INTEGER NOT NULL, principal_type TEXT NOT NULL, principal_id TEXT NOT NULL,
        at INTEGER NOT NULL DEFAULT (unixepoch())
    ) STRICT;
";

/// The pause between two requests of a writer: people are not faster.
const THINKING: Duration = Duration::from_millis(20);

const ENTITY: &str = "customer";

/// The service: a pool, and how it publishes.
#[derive(Clone)]
pub(super) struct MasterData {
    pool: SqlitePool,
    outbox: Outbox,
}

/// What came of a writer's requests.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Events whose transaction was committed.
    pub(super) committed: Vec<Uuid>,
    /// Events whose transaction was rolled back.
    pub(super) rolled_back: Vec<Uuid>,
    pub(super) transactions_committed: usize,
    pub(super) transactions_rolled_back: usize,
}

impl Ledger {
    pub(super) fn add(&mut self, other: Self) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
        self.transactions_committed += other.transactions_committed;
        self.transactions_rolled_back += other.transactions_rolled_back;
    }
}

impl MasterData {
    /// Creates the outbox's tables and the service's own.
    pub(super) async fn create(pool: SqlitePool) -> Result<Self, DemoError> {
        Migrator::outbox().run(&pool).await?;
        sqlx::raw_sql(TABLES).execute(&pool).await?;
        Ok(Self { pool, outbox: Outbox::new() })
    }

    /// Asks for everything of a plan, its second half once `relay_killed`.
    pub(super) async fn ask(self, plan: Plan, relay_killed: CancellationToken) -> Result<Ledger, DemoError> {
        let mut ledger = Ledger::default();
        for request in plan.before {
            self.carry_out(request, &mut ledger).await?;
        }
        relay_killed.cancelled().await;
        for request in plan.after {
            self.carry_out(request, &mut ledger).await?;
        }
        Ok(ledger)
    }

    /// A transaction that could not have the write lock is run again as a whole, as in any service.
    async fn carry_out(&self, request: Request, ledger: &mut Ledger) -> Result<(), DemoError> {
        tokio::time::sleep(THINKING).await;
        let published = loop {
            match self.transact(request).await {
                Err(error) if error.is_retryable() => {}
                ended => break ended?,
            }
        };
        let event_ids = published.iter().map(|published| published.event_id);
        if request.refused {
            ledger.rolled_back.extend(event_ids);
            ledger.transactions_rolled_back += 1;
        } else {
            ledger.committed.extend(event_ids);
            ledger.transactions_committed += 1;
        }
        Ok(())
    }

    /// The business change, its audit row and its events, all or nothing.
    async fn transact(&self, request: Request) -> Result<Vec<Published>, DemoError> {
        let mut tx = self.outbox.begin(&self.pool).await?;
        let published = match request.change {
            Change::Create => self.create_customer(&mut tx, request.customer).await?,
            Change::Update => self.update_customer(&mut tx, request.customer).await?,
            Change::Archive => self.archive_customer(&mut tx, request.customer).await?,
            Change::WrongImport => self.import_wrongly(&mut tx, request.customer).await?,
        };
        if request.refused {
            tx.rollback().await?;
        } else {
            self.outbox.commit(tx).await?;
        }
        Ok(published)
    }

    async fn create_customer(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        id: i64,
    ) -> Result<Vec<Published>, DemoError> {
        let customer = Customer::new(id);
        sqlx::query(
            "INSERT INTO customer (id, tenant_key, code, version, name, city, credit_limit)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(&customer.tenant_key)
        .bind(&customer.code)
        .bind(customer.version)
        .bind(&customer.state.name)
        .bind(&customer.state.city)
        .bind(customer.state.credit_limit)
        .execute(&mut **tx)
        .await?;
        let actor = clerk();
        let grantee = account_manager(id);
        sqlx::query(
            "INSERT INTO permission_grant (tenant_key, principal_type, principal_id, permission, customer_id)
             VALUES (?, ?, ?, 'customer.write', ?)",
        )
        .bind(&customer.tenant_key)
        .bind(&grantee.principal_type)
        .bind(&grantee.principal_id)
        .bind(id)
        .execute(&mut **tx)
        .await?;
        let outbox = self.audited(tx, &customer, "create", &actor).await?;
        let created = CustomerCreated {
            tenant_key: customer.tenant_key.clone(),
            entity_type: ENTITY.to_owned(),
            entity_id: id,
            code: customer.code,
            version: customer.version,
            after: customer.state,
            actor: actor.clone(),
        };
        let granted = PermissionGranted {
            tenant_key: customer.tenant_key,
            principal_type: grantee.principal_type,
            principal_id: grantee.principal_id,
            permission: "customer.write".to_owned(),
            entity_type: ENTITY.to_owned(),
            entity_id: id,
            actor,
        };
        Ok(vec![outbox.publish(tx, &created).await?, outbox.publish(tx, &granted).await?])
    }

    async fn update_customer(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        id: i64,
    ) -> Result<Vec<Published>, DemoError> {
        let customer = Customer::load(tx, id).await?;
        let (version, after) = (customer.version + 1, customer.next());
        sqlx::query("UPDATE customer SET version = ?, city = ?, credit_limit = ? WHERE id = ?")
            .bind(version)
            .bind(&after.city)
            .bind(after.credit_limit)
            .bind(id)
            .execute(&mut **tx)
            .await?;
        let actor = account_manager(id);
        let outbox = self.audited(tx, &customer, "update", &actor).await?;
        let updated = CustomerUpdated {
            tenant_key: customer.tenant_key,
            entity_type: ENTITY.to_owned(),
            entity_id: id,
            code: customer.code,
            version,
            before: customer.state,
            after,
            actor,
        };
        Ok(vec![outbox.publish(tx, &updated).await?])
    }

    async fn archive_customer(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        id: i64,
    ) -> Result<Vec<Published>, DemoError> {
        let customer = Customer::load(tx, id).await?;
        let version = customer.version + 1;
        sqlx::query("UPDATE customer SET version = ?, archived = 1 WHERE id = ?")
            .bind(version)
            .bind(id)
            .execute(&mut **tx)
            .await?;
        let actor = clerk();
        let outbox = self.audited(tx, &customer, "archive", &actor).await?;
        let archived = CustomerArchived {
            tenant_key: customer.tenant_key,
            entity_type: ENTITY.to_owned(),
            entity_id: id,
            code: customer.code,
            version,
            before: customer.state,
            actor,
        };
        Ok(vec![outbox.publish(tx, &archived).await?])
    }

    /// `publish_json` has no Rust type to hold it back: `version` is a text here.
    async fn import_wrongly(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        id: i64,
    ) -> Result<Vec<Published>, DemoError> {
        let customer = Customer::load(tx, id).await?;
        let actor = Actor { principal_type: "service".to_owned(), principal_id: "old-import".to_owned() };
        let outbox = self.audited(tx, &customer, "import", &actor).await?;
        let payload = serde_json::json!({
            "tenant_key": customer.tenant_key,
            "entity_type": ENTITY,
            "entity_id": id,
            "code": customer.code,
            "version": "two",
            "before": customer.state,
            "after": customer.state,
            "actor": actor,
        });
        let event = JsonEvent::new("entity.customer.updated", 1, ENTITY, payload.to_string());
        Ok(vec![outbox.publish_json(tx, &event.aggregate_id(id.to_string())).await?])
    }

    /// Writes the audit row and gives the outbox that links events to it.
    async fn audited(
        &self,
        tx: &mut Transaction<'_, Sqlite>,
        customer: &Customer,
        action: &str,
        actor: &Actor,
    ) -> Result<Outbox, DemoError> {
        let audit_log_id: i64 = sqlx::query_scalar(
            "INSERT INTO audit_log (tenant_key, action, entity_type, entity_id, principal_type, principal_id)
             VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        )
        .bind(&customer.tenant_key)
        .bind(action)
        .bind(ENTITY)
        .bind(customer.id)
        .bind(&actor.principal_type)
        .bind(&actor.principal_id)
        .fetch_one(&mut **tx)
        .await?;
        let context = Context::new()
            .tenant_id(tenant_id(customer.id))
            .correlation_id(Uuid::now_v7())
            .audit_log_id(audit_log_id)
            .actor(actor)?;
        Ok(self.outbox.with_context(context))
    }
}
