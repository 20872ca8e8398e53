//! The inbox.

use std::time::Duration;

use sqlx::{Error, PgConnection, Postgres, Row as _};
use uuid::Uuid;

use super::time::{PgTimestamp, micros};
use crate::backend::Deduplicate;
use crate::envelope::Timestamp;
use crate::tables::Tables;

impl Deduplicate for Postgres {
    async fn inbox_insert(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
        tenant_id: Option<Uuid>,
    ) -> Result<bool, Error> {
        let insert = tables.postgres().inbox_insert.query().bind(consumer).bind(event_id).bind(tenant_id);
        Ok(insert.execute(conn).await?.rows_affected() > 0)
    }

    async fn inbox_begin_batch(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        event_ids: &[Uuid],
        tenant_id: Option<Uuid>,
    ) -> Result<Vec<Uuid>, Error> {
        let insert = tables.postgres().inbox_insert_all.query().bind(consumer).bind(event_ids.to_vec());
        let new = insert.bind(tenant_id).fetch_all(&mut *conn).await?;
        tables.postgres().inbox_guard.query().execute(conn).await?;
        new.iter().map(|row| row.try_get("event_id")).collect()
    }

    async fn inbox_turn(_: &mut PgConnection, _: &str, _: Uuid) -> Result<(), Error> {
        Ok(())
    }

    async fn inbox_end_batch(conn: &mut PgConnection, tables: &Tables) -> Result<(), Error> {
        tables.postgres().inbox_unguard.query().execute(conn).await.map(|_| ())
    }

    async fn inbox_tenant(
        conn: &mut PgConnection,
        tables: &Tables,
        tenant_id: Option<Uuid>,
    ) -> Result<(), Error> {
        tables.postgres().inbox_tenant.query().bind(tenant_id).execute(conn).await.map(|_| ())
    }

    async fn inbox_holds(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<bool, Error> {
        let look = tables.postgres().inbox_holds.query().bind(consumer).bind(event_id);
        Ok(look.in_callers_transaction().fetch_optional(conn).await?.is_some())
    }

    async fn inbox_compact(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        age: Duration,
    ) -> Result<u64, Error> {
        let delete = tables.postgres().inbox_compact.query().bind(consumer).bind(micros(age));
        Ok(delete.execute(conn).await?.rows_affected())
    }

    async fn inbox_forget(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        since: Option<Timestamp>,
    ) -> Result<u64, Error> {
        let delete = tables.postgres().inbox_forget.query().bind(consumer).bind(since.map(PgTimestamp));
        Ok(delete.execute(conn).await?.rows_affected())
    }

    async fn inbox_forget_event(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> Result<u64, Error> {
        let delete = tables.postgres().inbox_forget_event.query().bind(consumer).bind(event_id);
        Ok(delete.execute(conn).await?.rows_affected())
    }

    async fn inbox_copy(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        from: &str,
    ) -> Result<u64, Error> {
        let copy = tables.postgres().inbox_copy.query().bind(consumer).bind(from);
        Ok(copy.execute(conn).await?.rows_affected())
    }
}
