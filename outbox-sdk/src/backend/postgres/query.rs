//! A statement with its values, on its way to a server that may be behind a pooler.

use std::ops::DerefMut;
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgQueryResult, PgRow};
use sqlx::{AssertSqlSafe, Connection as _, Encode, Error, PgConnection, Postgres, Type};

/// A statement of this folder with its values.
///
/// The driver parses a statement in one exchange and runs it in another. A pooler in transaction mode may send the two
/// to different servers, and statements that the driver has named would meet those of other clients. So with
/// [`Tables::pooled`](crate::Tables::pooled) a statement has no name, and one outside of a transaction gets its own.
pub(super) struct Query {
    query: sqlx::query::Query<'static, Postgres, PgArguments>,
    /// Begin a transaction with this unless the driver knows of one.
    alone: Option<Arc<str>>,
}

/// A method of sqlx's query, in a transaction where that is needed.
macro_rules! run {
    ($($method:ident -> $answer:ty)+) => {
        $(pub(super) async fn $method(
            self,
            mut conn: impl DerefMut<Target = PgConnection> + Send,
        ) -> Result<$answer, Error> {
            let conn = &mut *conn;
            let Some(begin) = self.alone.filter(|_| !conn.is_in_transaction()) else {
                return self.query.$method(conn).await;
            };
            // Safe: a text of `statements.rs`.
            let mut tx = conn.begin_with(AssertSqlSafe(begin)).await?;
            let answer = self.query.$method(&mut *tx).await?;
            tx.commit().await?;
            Ok(answer)
        })+
    };
}

impl Query {
    /// `pooled`: how a transaction begins, where a pooler in transaction mode is in between.
    pub(super) fn new(
        query: sqlx::query::Query<'static, Postgres, PgArguments>,
        pooled: Option<Arc<str>>,
    ) -> Self {
        Self { query: if pooled.is_some() { query.persistent(false) } else { query }, alone: pooled }
    }

    pub(super) fn bind<'t, T: Encode<'t, Postgres> + Type<Postgres>>(mut self, value: T) -> Self {
        self.query = self.query.bind(value);
        self
    }

    /// Never in a transaction of its own: the caller has one, and the driver may not know of it.
    pub(super) fn in_callers_transaction(mut self) -> Self {
        self.alone = None;
        self
    }

    run! {
        execute -> PgQueryResult
        fetch_one -> PgRow
        fetch_optional -> Option<PgRow>
        fetch_all -> Vec<PgRow>
    }
}
