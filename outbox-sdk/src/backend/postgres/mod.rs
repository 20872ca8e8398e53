//! PostgreSQL 14 and newer.
//!
//! No statement depends on a setting of the session: a transaction names its isolation level, and every name carries its
//! schema. So a pooler that hands the session on between transactions does no harm; `query.rs` sees to it that statements
//! need not be prepared for longer than that.

mod admin;
mod append;
mod begin;
mod fault;
mod history;
mod inbox;
mod maintain;
mod operate;
#[cfg(feature = "fault-injection")]
mod planted;
mod query;
mod read;
mod replay;
mod settle;
mod statements;
mod time;

use std::io::ErrorKind;

use sqlx::error::DatabaseError;
use sqlx::postgres::{PgListener, PgPoolOptions, PgRow};
use sqlx::{Connection, Error, PgConnection, PgPool, Pool, Postgres, Row, Transaction};

use super::{
    Backend, Batch, Claim, ClaimRequest, DiscardedHead, DueStall, Fault, Holders, LaneEntry, LanePage,
    LaneRead, Read, ReplayPage, ReplayRead, Settled, Settlement, StallPage, StallRead, WriteOrder,
};
use crate::envelope::{NewEnvelope, Once, Published};
use crate::lane::Lane;
use crate::progress::Progress;
use crate::tables::Tables;

pub(crate) use statements::Statements;

/// SQLSTATEs that answer whether a transaction is open.
const NO_TRANSACTION: &str = "25P01";
const FAILED_TRANSACTION: &str = "25P02";

impl Backend for Postgres {
    async fn append(
        conn: &mut PgConnection,
        tables: &Tables,
        event: &NewEnvelope,
        order: WriteOrder,
    ) -> Result<Published, Error> {
        append::one(conn, tables.postgres(), event, order).await
    }

    async fn append_all(
        conn: &mut PgConnection,
        tables: &Tables,
        events: &[NewEnvelope],
        order: WriteOrder,
    ) -> Result<Vec<Published>, Error> {
        append::all(conn, tables.postgres(), events, order).await
    }

    async fn append_once(
        conn: &mut PgConnection,
        tables: &Tables,
        event: &NewEnvelope,
        order: WriteOrder,
        key: &str,
    ) -> Result<Once, Error> {
        append::once(conn, tables.postgres(), event, order, key).await
    }

    async fn in_transaction(conn: &mut PgConnection) -> Result<bool, Error> {
        if conn.is_in_transaction() {
            return Ok(true);
        }
        // The driver knows only what it began itself.
        match sqlx::raw_sql(include_str!("in_transaction.sql")).execute(conn).await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_database_error().and_then(DatabaseError::code).as_deref() {
                Some(NO_TRANSACTION) => Ok(false),
                Some(FAILED_TRANSACTION) => Ok(true),
                _ => Err(error),
            },
        }
    }

    async fn begin_write(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
        begin::undropped(pool.acquire().await?).await
    }

    async fn ensure_usable(conn: &mut PgConnection) -> Result<(), Error> {
        sqlx::raw_sql(include_str!("ensure_usable.sql")).execute(conn).await.map(drop)
    }

    async fn notify(conn: &mut PgConnection, tables: &Tables, pause: bool) -> Result<(), Error> {
        let statements = tables.postgres();
        statements.notify.query().bind(statements.channel()).execute(&mut *conn).await?;
        if pause {
            statements.notify_pause.query().execute(conn).await?;
        }
        Ok(())
    }

    type Listener = PgListener;

    async fn listen(pool: &Pool<Self>, tables: &Tables) -> Result<Option<PgListener>, Error> {
        // Dropping a listener gives its connection back only after the server has answered once more. A dead connection
        // never does: it must not keep a place of the pool that everybody else uses.
        let own = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let own = own.connect_lazy_with(pool.connect_options().as_ref().clone());
        let mut listener = PgListener::connect_with(&own).await?;
        listener.eager_reconnect(false);
        listener.listen(tables.postgres().channel()).await?;
        Ok(Some(listener))
    }

    async fn hear(listener: &mut PgListener) -> Result<(), Error> {
        let heard = listener.try_recv().await?;
        heard.map(drop).ok_or_else(|| Error::Io(ErrorKind::ConnectionReset.into()))
    }

    async fn still_listens(listener: &mut PgListener, tables: &Tables) -> Result<bool, Error> {
        let channel = tables.postgres().channel();
        sqlx::query_scalar(include_str!("still_listens.sql")).bind(channel).fetch_one(listener).await
    }

    fn fault(error: &Error) -> Fault {
        fault::fault(error)
    }

    async fn prepare_session(conn: &mut PgConnection, tables: &Tables) -> Result<(), Error> {
        match tables.postgres().session() {
            Some(settings) => sqlx::raw_sql(settings).execute(conn).await.map(drop),
            None => Ok(()),
        }
    }

    async fn holders(conn: &mut PgConnection, tables: &Tables) -> Result<Holders, Error> {
        read::holders(conn, tables.postgres()).await
    }

    async fn read(conn: &mut PgConnection, tables: &Tables, read: &Read<'_>) -> Result<Batch, Error> {
        read::batch(conn, tables.postgres(), read).await
    }

    async fn read_lane(
        conn: &mut PgConnection,
        tables: &Tables,
        read: &LaneRead<'_>,
    ) -> Result<LanePage, Error> {
        read::lane(conn, tables.postgres(), read).await
    }

    async fn lane_ids(
        conn: &mut PgConnection,
        tables: &Tables,
        read: &LaneRead<'_>,
    ) -> Result<Vec<LaneEntry>, Error> {
        read::lane_ids(conn, tables.postgres(), read).await
    }

    async fn claim(
        conn: &mut PgConnection,
        tables: &Tables,
        claim: &ClaimRequest<'_>,
    ) -> Result<Claim, Error> {
        settle::claim(conn, tables.postgres(), claim).await
    }

    async fn note_refusal(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        slot: i32,
        epoch: i64,
        why: &str,
    ) -> Result<(), Error> {
        let note = tables.postgres().note_refusal.query().bind(consumer).bind(slot).bind(epoch).bind(why);
        note.execute(conn).await.map(drop)
    }

    async fn stalls(
        conn: &mut PgConnection,
        tables: &Tables,
        read: &StallRead<'_>,
    ) -> Result<StallPage, Error> {
        settle::stalls(conn, tables.postgres(), read).await
    }

    async fn settle(
        conn: &mut PgConnection,
        tables: &Tables,
        settlement: &Settlement<'_>,
    ) -> Result<Settled, Error> {
        settle::settle(conn, tables.postgres(), settlement).await
    }

    async fn due_stalls(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        lanes: &[String],
    ) -> Result<Vec<DueStall>, Error> {
        settle::due_stalls(conn, tables.postgres(), consumer, lanes).await
    }

    async fn replay_requests(
        conn: &mut PgConnection,
        tables: &Tables,
        read: &ReplayRead<'_>,
    ) -> Result<ReplayPage, Error> {
        replay::requests(conn, tables.postgres(), read).await
    }

    async fn discarded_heads(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
    ) -> Result<Vec<DiscardedHead>, Error> {
        replay::discarded_heads(conn, tables.postgres(), consumer).await
    }
}

/// A set of ids from its text.
fn progress(row: &PgRow, column: &str) -> Result<Progress, Error> {
    let text: &str = row.try_get(column)?;
    Progress::from_multirange(text).map_err(|error| Error::Decode(error.into()))
}

/// The lane of an event's row.
fn lane(row: &PgRow, id: i64) -> Result<Lane, Error> {
    let aggregate_id: Option<&str> = row.try_get("aggregate_id")?;
    Ok(match aggregate_id {
        Some(aggregate_id) => {
            Lane::aggregate(row.try_get("tenant_id")?, row.try_get("aggregate_type")?, aggregate_id)
        }
        None => Lane::Single(id),
    })
}

/// A number that the table keeps at zero or above.
fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// The same number for the table, which holds no larger one.
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
