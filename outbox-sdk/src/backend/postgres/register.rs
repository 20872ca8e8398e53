//! Registering consumers.

use sqlx::{Connection, Error, PgConnection, Row};

use super::READ_COMMITTED;
use super::statements::Statements;
use super::time::PgTimestamp;
use crate::backend::{Registered, Registration, Start};

/// Registers all consumers, or none when one of them needs a start.
pub(super) async fn register(
    conn: &mut PgConnection,
    statements: &Statements,
    consumers: &[Registration],
) -> Result<Vec<Registered>, Error> {
    let mut tx = conn.begin_with(READ_COMMITTED).await?;
    statements.admin_lock.query().bind(statements.schema()).execute(&mut *tx).await?;
    let any: bool = statements.register_any.query().fetch_one(&mut *tx).await?.try_get(0)?;
    // The consumers of a first start get everything; a later one would get a history that nobody may have meant.
    let default_start = if any { None } else { Some(Start::Earliest) };
    let mut answers = Vec::with_capacity(consumers.len());
    for consumer in consumers {
        let existing = statements.register_existing.query().bind(&consumer.name).bind(&consumer.config);
        let answer = if existing.execute(&mut *tx).await?.rows_affected() > 0 {
            Registered::Existing
        } else if let Some(start) = consumer.start.or(default_start) {
            let (skips, since) = match start {
                Start::Earliest => (false, None),
                Start::Now => (true, None),
                Start::At(time) => (true, Some(PgTimestamp(time))),
            };
            let new = statements.register.query().bind(&consumer.name).bind(&consumer.config);
            new.bind(skips).bind(since).execute(&mut *tx).await?;
            Registered::New
        } else {
            let row = statements.register_stored.query().fetch_one(&mut *tx).await?;
            Registered::StartNeeded { stored_events: row.try_get::<i64, _>(0)?.unsigned_abs() }
        };
        answers.push(answer);
    }
    if answers.iter().any(|answer| matches!(answer, Registered::StartNeeded { .. })) {
        tx.rollback().await?;
    } else {
        tx.commit().await?;
    }
    Ok(answers)
}
