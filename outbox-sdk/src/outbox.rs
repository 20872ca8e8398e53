//! Publishing: an event exists if and only if the caller's transaction commits.

use std::time::Duration;

use serde::de::IgnoredAny;
use sqlx::{Connection, Pool, Transaction};
use uuid::Uuid;

use crate::backend::{Backend, WriteOrder};
use crate::context::Context;
use crate::envelope::{NewEnvelope, Once, Published, Timestamp};
use crate::error::PublishError;
use crate::event::OutboxEvent;
use crate::finite::to_json;
use crate::hint::Hint;
use crate::limits::{Limits, check_aggregate, check_context, check_key};
use crate::older::OlderPayloads;
#[cfg(feature = "postgres")]
use crate::statement::Statement;
use crate::tables::Tables;
#[cfg(feature = "testing")]
use crate::testing::Journal;
use crate::trace;
#[cfg(feature = "validate")]
use crate::validated::{UndeclaredMembers, Validation, Validators};

/// Writes events into the outbox, inside the caller's own transaction.
///
/// It holds settings only, no connection: keep one per service and clone it freely. The methods that return a changed
/// copy ([`with_context`](Self::with_context), [`unordered`](Self::unordered), [`delayed`](Self::delayed)) are cheap
/// enough to be called per operation.
///
/// ```no_run
/// use outbox_sdk::{Outbox, OutboxEvent};
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema, OutboxEvent)]
/// #[outbox(event_type = "customer.renamed", aggregate_type = "customer", unregistered)]
/// struct CustomerRenamed {
///     #[outbox(aggregate_id)]
///     customer_id: i64,
///     name: String,
/// }
///
/// # #[cfg(feature = "postgres")]
/// async fn rename(pool: &sqlx::PgPool, outbox: &Outbox, id: i64, name: &str) -> Result<(), Box<dyn std::error::Error>> {
///     let mut tx = outbox.begin(pool).await?;
///     sqlx::query("UPDATE customer SET name = $1 WHERE id = $2").bind(name).bind(id).execute(&mut *tx).await?;
///     outbox.publish(&mut tx, &CustomerRenamed { customer_id: id, name: name.to_owned() }).await?;
///     outbox.commit(tx).await?;
///     Ok(())
/// }
/// ```
///
/// A pool, a connection or an ended transaction does not compile in the place of `&mut tx`.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    tables: Tables,
    limits: Limits,
    context: Context,
    order: WriteOrder,
    delay: Option<Duration>,
    hint: Option<Hint>,
    #[cfg(feature = "validate")]
    validation: Option<Validation>,
    #[cfg(feature = "testing")]
    journal: Option<Journal>,
}

impl Outbox {
    /// An outbox in the default tables, with the default limits and an empty context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has [`publish_json`](Self::publish_json) ask the registry first, as the relay does before it delivers: a payload that
    /// violates its schema, or has none, is refused here instead of ending as a dead letter.
    ///
    /// ```no_run
    /// use outbox_schema::{Registry, Validators};
    /// use outbox_sdk::{Outbox, validated::UndeclaredMembers};
    ///
    /// let validators = Validators::compile(&Registry::open("schemas")?)?;
    /// let outbox = Outbox::new().with_validators(validators, UndeclaredMembers::Refuse);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "validate")]
    #[must_use]
    pub fn with_validators(
        mut self,
        validators: impl Into<std::sync::Arc<Validators>>,
        undeclared: UndeclaredMembers,
    ) -> Self {
        self.validation = Some(Validation { validators: validators.into(), undeclared });
        self
    }

    /// Writes to these tables.
    #[must_use]
    pub fn with_tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// Checks payloads against these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Gives a hint to the relay after each [`commit`](Self::commit).
    #[must_use]
    pub fn with_hint(mut self, hint: Hint) -> Self {
        self.hint = Some(hint);
        self
    }

    /// Notes in `journal` what is written, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_journal(mut self, journal: &Journal) -> Self {
        self.journal = Some(journal.clone());
        self
    }

    /// A copy that writes this context with each event: one per operation.
    #[must_use]
    pub fn with_context(&self, context: Context) -> Self {
        Self { context, ..self.clone() }
    }

    /// A copy that takes no aggregate lock: faster with many writers of one aggregate, but the order of an aggregate's
    /// events is then the order in which ids happened to be drawn.
    #[must_use]
    pub fn unordered(&self) -> Self {
        Self { order: WriteOrder::Unordered, ..self.clone() }
    }

    /// A copy whose events become available this long after the insert. A delayed event is delivered when it is due;
    /// later events of its aggregate do not wait for it.
    #[must_use]
    pub fn delayed(&self, delay: Duration) -> Self {
        Self { delay: Some(delay), ..self.clone() }
    }

    /// Begins a transaction that will publish: `BEGIN` on PostgreSQL, `BEGIN IMMEDIATE` on SQLite.
    ///
    /// Neither this nor publishing or committing has a time limit: how long a transaction may take is the caller's to say,
    /// by a `timeout` of its runtime around the whole of it. A future that is dropped leaves no transaction open in the
    /// pool; after a commit that got no answer, only the database knows its outcome.
    ///
    /// # Errors
    /// When no connection can be had, or SQLite's write lock cannot be taken within its busy timeout.
    pub async fn begin<DB: Backend>(
        &self,
        pool: &Pool<DB>,
    ) -> Result<Transaction<'static, DB>, PublishError> {
        DB::begin_write(pool).await.map_err(PublishError::from_database::<DB>)
    }

    /// Commits and tells the relay. A plain `tx.commit()` is as safe and costs up to one poll interval.
    ///
    /// # Errors
    /// [`PublishError::TransactionFailed`] when an earlier statement failed: PostgreSQL would answer such a commit with
    /// a silent rollback. [`PublishError::Connection`] leaves the outcome unknown.
    pub async fn commit<DB: Backend>(&self, mut tx: Transaction<'_, DB>) -> Result<(), PublishError> {
        DB::ensure_usable(&mut tx).await.map_err(PublishError::from_database::<DB>)?;
        tx.commit().await.map_err(PublishError::from_database::<DB>)?;
        if let Some(hint) = &self.hint {
            hint.send();
        }
        Ok(())
    }

    /// Writes one event with one statement.
    ///
    /// # Errors
    /// A broken limit is found before the database is asked: the transaction stays as it was. After a database error
    /// PostgreSQL's transaction can only be rolled back.
    pub async fn publish<DB: Backend, E: OutboxEvent>(
        &self,
        tx: &mut Transaction<'_, DB>,
        event: &E,
    ) -> Result<Published, PublishError> {
        let envelope = self.envelope(event)?;
        self.append::<DB>(tx, envelope).await
    }

    /// [`publish`](Self::publish) that happens once per key, whoever calls it and however often: a request that is
    /// repeated, because its first answer was lost, publishes nothing the second time.
    ///
    /// Keys are those of the whole outbox, so name the operation and the tenant in them: `"rename-customer:42:req-7"`. A key
    /// is kept as long as its event.
    ///
    /// ```no_run
    /// # use outbox_sdk::{Once, Outbox, OutboxEvent, PublishError};
    /// # async fn rename<E: OutboxEvent>(outbox: &Outbox, pool: &sqlx::PgPool, request: &str, event: &E) -> Result<(), PublishError> {
    /// let mut tx = outbox.begin(pool).await?;
    /// match outbox.publish_once(&mut tx, &format!("rename:{request}"), event).await? {
    ///     Once::Published(_) => outbox.commit(tx).await,
    ///     // What goes with the event has happened before, too: let the transaction roll back.
    ///     Once::Repeated { .. } => Ok(()),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LimitError::IdempotencyKey`](crate::LimitError::IdempotencyKey); else as [`publish`](Self::publish). While another
    /// transaction with the same key is open, this one waits for its end.
    pub async fn publish_once<DB: Backend, E: OutboxEvent>(
        &self,
        tx: &mut Transaction<'_, DB>,
        key: &str,
        event: &E,
    ) -> Result<Once, PublishError> {
        check_key(key)?;
        let envelope = self.envelope(event)?;
        let once = DB::append_once(tx, &self.tables, &envelope, self.order, key)
            .await
            .map_err(PublishError::from_database::<DB>)?;
        if let Once::Published(published) = once {
            self.note(envelope, published);
        }
        Ok(once)
    }

    /// Writes any number of events of one type with one statement; ids rise in the order of `events`, and the answers
    /// come in that order. None is written when one breaks a limit.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_all<'e, DB: Backend, E: OutboxEvent + 'e>(
        &self,
        tx: &mut Transaction<'_, DB>,
        events: impl IntoIterator<Item = &'e E>,
    ) -> Result<Vec<Published>, PublishError> {
        let envelopes: Vec<_> =
            events.into_iter().map(|event| self.envelope(event)).collect::<Result<_, _>>()?;
        if envelopes.is_empty() {
            return Ok(Vec::new());
        }
        let answers = DB::append_all(tx, &self.tables, &envelopes, self.order)
            .await
            .map_err(PublishError::from_database::<DB>)?;
        for (envelope, &published) in envelopes.into_iter().zip(&answers) {
            self.note(envelope, published);
        }
        Ok(answers)
    }

    /// [`publish`](Self::publish) for code that hands connections down instead of transactions: whether one is open is
    /// asked at run time.
    ///
    /// # Errors
    /// [`PublishError::NotInTransaction`] when none is open; else as [`publish`](Self::publish).
    pub async fn publish_on<C, E>(&self, conn: &mut C, event: &E) -> Result<Published, PublishError>
    where
        C: Connection,
        C::Database: Backend<Connection = C>,
        E: OutboxEvent,
    {
        let envelope = self.envelope(event)?;
        if !C::Database::in_transaction(conn).await.map_err(PublishError::from_database::<C::Database>)? {
            return Err(PublishError::NotInTransaction);
        }
        self.append::<C::Database>(conn, envelope).await
    }

    /// Writes an event that has no Rust type.
    ///
    /// # Errors
    /// As [`publish`](Self::publish); and when the event's type, version or text is not well formed.
    pub async fn publish_json<DB: Backend>(
        &self,
        tx: &mut Transaction<'_, DB>,
        event: &JsonEvent,
    ) -> Result<Published, PublishError> {
        let envelope = self.json_envelope(event)?;
        self.append::<DB>(tx, envelope).await
    }

    /// What [`publish`](Self::publish) would send to PostgreSQL, for a transaction that another database library has open:
    /// diesel, sea-orm, tokio-postgres. An idempotency key is not possible this way, and whether a transaction is open is
    /// the caller's to know.
    ///
    /// # Errors
    /// A broken limit, as for [`publish`](Self::publish).
    #[cfg(feature = "postgres")]
    pub fn statement<E: OutboxEvent>(&self, event: &E) -> Result<Statement, PublishError> {
        let envelope = self.envelope(event)?;
        let version = i32::try_from(envelope.schema_version)
            .map_err(|_| PublishError::SchemaVersion(envelope.schema_version))?;
        let sql = self.tables.postgres().append_text(self.order == WriteOrder::Aggregate);
        Ok(Statement::new(sql, envelope, version))
    }

    async fn append<DB: Backend>(
        &self,
        conn: &mut DB::Connection,
        envelope: NewEnvelope,
    ) -> Result<Published, PublishError> {
        let published = DB::append(conn, &self.tables, &envelope, self.order)
            .await
            .map_err(PublishError::from_database::<DB>)?;
        self.note(envelope, published);
        Ok(published)
    }

    #[cfg(feature = "testing")]
    fn note(&self, envelope: NewEnvelope, published: Published) {
        if let Some(journal) = &self.journal {
            journal.note(envelope, published);
        }
    }

    #[cfg(not(feature = "testing"))]
    #[expect(
        clippy::needless_pass_by_value,
        clippy::unused_self,
        reason = "nobody takes notes without the feature"
    )]
    fn note(&self, _: NewEnvelope, _: Published) {}

    pub(crate) fn envelope<E: OutboxEvent>(&self, event: &E) -> Result<NewEnvelope, PublishError> {
        // The derive has checked it; a handwritten name is checked where it is published.
        const {
            assert!(
                outbox_schema::is_well_formed(E::EVENT_TYPE),
                "the EVENT_TYPE of this event is no `<object>.<verb>` or `<object>.<type>.<verb>` in lower snake_case"
            );
        }
        let payload = to_json(event)?;
        self.limits.check(&payload)?;
        let aggregate_id = event.aggregate_id();
        check_aggregate(E::AGGREGATE_TYPE, aggregate_id.as_deref())?;
        let mut envelope = NewEnvelope::new(E::EVENT_TYPE, E::SCHEMA_VERSION, E::AGGREGATE_TYPE, payload);
        envelope.aggregate_id = aggregate_id;
        envelope.tenant_id = event.tenant_id();
        let mut older = OlderPayloads::new(self.limits);
        event.older_payloads(&mut older)?;
        envelope.older_payloads = older.into_text();
        self.in_context(envelope)
    }

    pub(crate) fn json_envelope(&self, event: &JsonEvent) -> Result<NewEnvelope, PublishError> {
        outbox_schema::check_shape(&event.event_type).map_err(PublishError::EventType)?;
        if event.schema_version == 0 || i32::try_from(event.schema_version).is_err() {
            return Err(PublishError::SchemaVersion(event.schema_version));
        }
        check_aggregate(&event.aggregate_type, event.aggregate_id.as_deref())?;
        self.limits.check(&event.payload)?;
        serde_json::from_str::<IgnoredAny>(&event.payload)
            .map_err(|error| PublishError::NotJson { line: error.line(), column: error.column() })?;
        #[cfg(feature = "validate")]
        if let Some(validation) = &self.validation {
            validation.check(&event.event_type, event.schema_version, &event.payload)?;
        }
        let mut envelope = NewEnvelope::new(
            &event.event_type,
            event.schema_version,
            &event.aggregate_type,
            event.payload.clone(),
        );
        envelope.aggregate_id.clone_from(&event.aggregate_id);
        envelope.tenant_id = event.tenant_id;
        envelope.occurred_at = event.occurred_at;
        self.in_context(envelope)
    }

    fn in_context(&self, mut envelope: NewEnvelope) -> Result<NewEnvelope, PublishError> {
        let context = &self.context;
        check_context(
            context.actor.as_deref(),
            context.traceparent.as_deref(),
            context.tracestate.as_deref(),
        )?;
        envelope.tenant_id = envelope.tenant_id.or(context.tenant_id);
        envelope.correlation_id = context.correlation_id;
        envelope.causation_id = context.causation_id;
        envelope.actor.clone_from(&context.actor);
        envelope.audit_log_id = context.audit_log_id;
        if context.traceparent.is_some() {
            envelope.traceparent.clone_from(&context.traceparent);
            envelope.tracestate.clone_from(&context.tracestate);
        } else if let Some(trace) = trace::of_current_span() {
            envelope.traceparent = Some(trace.parent);
            envelope.tracestate = trace.state;
        }
        envelope.delay = self.delay;
        Ok(envelope)
    }
}

/// An event that has no Rust type: the caller says what the derive would.
///
/// ```
/// use outbox_sdk::JsonEvent;
///
/// let event = JsonEvent::new("invoice.paid", 1, "invoice", r#"{"invoice_id": 7}"#).aggregate_id("7");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct JsonEvent {
    event_type: String,
    schema_version: u32,
    aggregate_type: String,
    aggregate_id: Option<String>,
    tenant_id: Option<Uuid>,
    occurred_at: Option<Timestamp>,
    payload: String,
}

impl JsonEvent {
    /// An event of this type and major, about this kind of aggregate, with the text of a JSON object as payload.
    #[must_use]
    pub fn new(
        event_type: impl Into<String>,
        schema_version: u32,
        aggregate_type: impl Into<String>,
        payload: impl Into<String>,
    ) -> Self {
        Self {
            event_type: event_type.into(),
            schema_version,
            aggregate_type: aggregate_type.into(),
            aggregate_id: None,
            tenant_id: None,
            occurred_at: None,
            payload: payload.into(),
        }
    }

    /// Which aggregate it is about, in 1 to 255 bytes; without one the event has no order.
    #[must_use]
    pub fn aggregate_id(mut self, id: impl Into<String>) -> Self {
        self.aggregate_id = Some(id.into());
        self
    }

    /// The tenant, if it is not the context's.
    #[must_use]
    pub fn tenant_id(mut self, id: Uuid) -> Self {
        self.tenant_id = Some(id);
        self
    }

    /// When it happened, if that was before the publish.
    #[must_use]
    pub fn occurred_at(mut self, time: Timestamp) -> Self {
        self.occurred_at = Some(time);
        self
    }
}
