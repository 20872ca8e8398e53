//! The inbox, in the consumer's own database.

use std::future::Future;
use std::time::Duration;

use sqlx::{Database, Error};
use uuid::Uuid;

use crate::envelope::Timestamp;
use crate::tables::Tables;

/// The statements of an inbox; each method is one, the beginning of a batch two.
pub trait Deduplicate: Database {
    /// Notes that the consumer has processed the event; `false` = it had before. Where transactions have settings, the
    /// rest of this one runs under the tenant.
    fn inbox_insert(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
        tenant_id: Option<Uuid>,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Answers with those of many events that are new, each once; as [`inbox_insert`](Self::inbox_insert) otherwise. A
    /// commit before [`inbox_end_batch`](Self::inbox_end_batch), which can only be a handler's own, keeps no row of an event
    /// whose turn has not come: either it fails, or such rows are not written yet.
    fn inbox_begin_batch(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        event_ids: &[Uuid],
        tenant_id: Option<Uuid>,
    ) -> impl Future<Output = Result<Vec<Uuid>, Error>> + Send;

    /// An event's turn in a batch has come: notes it, unless that is done already.
    fn inbox_turn(
        conn: &mut Self::Connection,
        consumer: &str,
        event_id: Uuid,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// From here on the transaction of a batch may be committed.
    fn inbox_end_batch(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Has the rest of the transaction run under the tenant, where transactions have settings.
    fn inbox_tenant(
        conn: &mut Self::Connection,
        tables: &Tables,
        tenant_id: Option<Uuid>,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether the transaction that has noted the event is still the one that is open, and can commit. Fails with
    /// [`Fault::TransactionFailed`](super::Fault::TransactionFailed) when an earlier error has doomed it.
    fn inbox_holds(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Deletes at most 1,000 rows that are older than `age` by the database's clock; returns how many.
    fn inbox_compact(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        age: Duration,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Deletes at most 1,000 rows that were written at `since` or later, or whenever; returns how many.
    fn inbox_forget(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        since: Option<Timestamp>,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Deletes the row of one event; returns how many that are.
    fn inbox_forget_event(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        event_id: Uuid,
    ) -> impl Future<Output = Result<u64, Error>> + Send;

    /// Copies the rows of consumer `from`, those that are there already excepted; returns how many were new.
    fn inbox_copy(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: &str,
        from: &str,
    ) -> impl Future<Output = Result<u64, Error>> + Send;
}
