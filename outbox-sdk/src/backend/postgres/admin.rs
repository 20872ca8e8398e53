//! Who runs what, and changes of consumers.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Connection, Error, PgConnection, Postgres, Row};

use super::query::Query;
use super::statements::{Statement, Statements};
use super::time::{PgTimestamp, micros};
use super::{lane, progress};
use crate::backend::admin::{Merge, SlotProgress};
use crate::backend::{
    Administer, Change, Changed, Heartbeat, PausedBy, Registered, Registration, ResetTo, SlotOwner, SlotView,
    Start,
};
use crate::lane::slot_of;
use crate::tables::Tables;

/// How many rows' lanes a resize asks for at once.
const LANES_PAGE: i64 = 10_000;

impl Administer for Postgres {
    async fn register(
        conn: &mut PgConnection,
        tables: &Tables,
        consumers: &[Registration],
    ) -> Result<Vec<Registered>, Error> {
        let statements = tables.postgres();
        let mut tx = conn.begin_with(statements.begin()).await?;
        statements.admin_lock.query().bind(statements.schema()).execute(&mut *tx).await?;
        statements.relays_ended.query().execute(&mut *tx).await?;
        let any: bool = statements.register_any.query().fetch_one(&mut *tx).await?.try_get(0)?;
        // The consumers of a first start get everything; a later one would get a history that nobody may have meant.
        let default_start = if any { None } else { Some(Start::Earliest) };
        let mut answers = Vec::with_capacity(consumers.len());
        for consumer in consumers {
            answers.push(register_one(&mut tx, statements, consumer, default_start).await?);
        }
        if answers.iter().any(|answer| matches!(answer, Registered::StartNeeded { .. })) {
            tx.rollback().await?;
        } else {
            tx.commit().await?;
        }
        Ok(answers)
    }

    async fn look(
        conn: &mut PgConnection,
        tables: &Tables,
        heartbeat: &Heartbeat<'_>,
    ) -> Result<Vec<SlotView>, Error> {
        let look = tables.postgres().look.query().bind(heartbeat.relay).bind(micros(heartbeat.lease));
        let rows = look.bind(heartbeat.consumers).fetch_all(conn).await?;
        rows.iter().map(slot_view).collect()
    }

    async fn leave(conn: &mut PgConnection, tables: &Tables, relay: &str) -> Result<(), Error> {
        tables.postgres().leave.query().bind(relay).execute(conn).await.map(drop)
    }

    async fn want(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        by: &str,
        hold: Duration,
    ) -> Result<Vec<SlotOwner>, Error> {
        let want = tables.postgres().want.query().bind(consumer).bind(by).bind(micros(hold));
        want.fetch_all(conn).await?.iter().map(slot_owner).collect()
    }

    async fn change(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        change: &Change<'_>,
        force: bool,
    ) -> Result<Changed, Error> {
        let statements = tables.postgres();
        let mut tx = conn.begin_with(statements.begin()).await?;
        statements.admin_lock.query().bind(statements.schema()).execute(&mut *tx).await?;
        let rows = statements.change_look.query().bind(consumer).fetch_all(&mut *tx).await?;
        let changed = at_rest(&mut tx, statements, consumer, change, force, &rows).await?;
        if matches!(changed, Changed::Done { .. }) {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(changed)
    }

    async fn pause(
        conn: &mut PgConnection,
        tables: &Tables,
        consumer: &str,
        length: Option<Duration>,
        reason: &str,
        by: PausedBy,
    ) -> Result<bool, Error> {
        let pause = tables
            .postgres()
            .pause
            .query()
            .bind(consumer)
            .bind(length.map(micros))
            .bind(reason)
            .bind(by.as_str());
        Ok(pause.execute(conn).await?.rows_affected() > 0)
    }

    async fn resume(conn: &mut PgConnection, tables: &Tables, consumer: &str) -> Result<bool, Error> {
        let resume = tables.postgres().resume.query().bind(consumer);
        Ok(resume.execute(conn).await?.rows_affected() > 0)
    }
}

async fn register_one(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &Registration,
    default_start: Option<Start>,
) -> Result<Registered, Error> {
    let (name, config, required) = (&consumer.name, &consumer.config, consumer.required_for_retention);
    let existing = statements.register_existing.query().bind(name).bind(config).bind(required);
    if existing.execute(&mut *conn).await?.rows_affected() > 0 {
        return Ok(Registered::Existing);
    }
    let Some(start) = consumer.start.or(default_start) else {
        let row = statements.register_stored.query().fetch_one(conn).await?;
        return Ok(Registered::StartNeeded { stored_events: row.try_get::<i64, _>(0)?.unsigned_abs() });
    };
    let (skips, since) = match start {
        Start::Earliest => (false, None),
        Start::Now => (true, None),
        Start::At(time) => (true, Some(PgTimestamp(time))),
    };
    let new = statements.register.planned().bind(name).bind(config).bind(skips).bind(since);
    new.bind(i32::from(consumer.slots.max(1))).bind(required).execute(conn).await?;
    Ok(Registered::New)
}

/// Makes the change, if the consumer is at rest or it is forced.
async fn at_rest(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    change: &Change<'_>,
    force: bool,
    rows: &[PgRow],
) -> Result<Changed, Error> {
    let Some(first) = rows.first() else { return Ok(Changed::Unregistered) };
    let owners = rows.iter().map(slot_owner).collect::<Result<Vec<_>, _>>()?;
    let owned: Vec<_> = owners.into_iter().filter(|slot| slot.owner.is_some()).collect();
    let forced = !owned.is_empty();
    if let Change::Rename { to } = change {
        let taken = statements.rename_taken.query().bind(*to).fetch_one(&mut *conn).await?;
        if taken.try_get(0)? {
            return Ok(Changed::NameTaken);
        }
    }
    match *change {
        // Somebody else was faster, and its slots may be owned already.
        Change::Resize { slots } if first.try_get::<i32, _>("slots")? == i32::from(slots) => {
            return Ok(Changed::Done { forced: false });
        }
        Change::Remove { even_if_required: false } if first.try_get("required_for_retention")? => {
            return Ok(Changed::Required);
        }
        _ if forced && !force => return Ok(Changed::Owned(owned)),
        Change::Resize { slots } => resize(conn, statements, consumer, i32::from(slots.max(1)), rows).await?,
        Change::Reset(to) => reset(conn, statements, consumer, to).await?,
        Change::Remove { .. } => {
            let parts = [
                &statements.remove,
                &statements.remove_stalls,
                &statements.remove_replays,
                &statements.remove_attempts,
            ];
            for statement in parts {
                statement.query().bind(consumer).execute(&mut *conn).await?;
            }
        }
        Change::Rename { to } => {
            let parts = [
                &statements.rename,
                &statements.rename_stalls,
                &statements.rename_dead_letters,
                &statements.rename_attempts,
            ];
            for statement in parts {
                statement.query().bind(consumer).bind(to).execute(&mut *conn).await?;
            }
        }
    }
    Ok(Changed::Done { forced })
}

async fn resize(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    slots: i32,
    rows: &[PgRow],
) -> Result<(), Error> {
    let old = rows.iter().map(slot_progress).collect::<Result<Vec<_>, _>>()?;
    let old_slots = u16::try_from(old.len()).unwrap_or(u16::MAX);
    let mut merge = Merge::of(old);
    for (mut from, until) in merge.disputed() {
        loop {
            let page = statements.resize_lanes.query().bind(from).bind(until).bind(LANES_PAGE);
            let page = page.fetch_all(&mut *conn).await?;
            let Some(last) = page.last() else { break };
            for row in &page {
                let id = row.try_get("id")?;
                merge.belongs(id, slot_of(&lane(row, id)?, old_slots));
            }
            from = last.try_get::<i64, _>("id")? + 1;
        }
    }
    let (settled, void) = merge.finish();
    statements.resize_fewer.query().bind(consumer).bind(slots).execute(&mut *conn).await?;
    let kept = statements.resize_kept.query().bind(consumer).bind(slots);
    kept.bind(settled.to_multirange()).bind(void.to_multirange()).execute(&mut *conn).await?;
    let more = statements.resize_more.query().bind(consumer).bind(i32::from(old_slots));
    more.execute(conn).await.map(drop)
}

async fn reset(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    to: ResetTo,
) -> Result<(), Error> {
    let first = match to {
        ResetTo::Id(id) => id,
        ResetTo::Time(time) => {
            let start = statements.reset_start.planned().bind(PgTimestamp(time));
            // Nothing that young is visible: nothing is delivered again.
            start.fetch_one(&mut *conn).await?.try_get::<Option<i64>, _>(0)?.unwrap_or(i64::MAX)
        }
    };
    let from = |statement: &Statement| -> Query { statement.query().bind(consumer).bind(first) };
    for statement in [&statements.reset, &statements.reset_stalls, &statements.reset_dead_letters] {
        from(statement).execute(&mut *conn).await?;
    }
    statements.reset_duties.query().bind(first).execute(conn).await.map(drop)
}

fn slot_view(row: &PgRow) -> Result<SlotView, Error> {
    Ok(SlotView {
        consumer: row.try_get("name")?,
        slot: row.try_get("slot")?,
        slots: u16::try_from(row.try_get::<i32, _>("slots")?).unwrap_or(u16::MAX),
        owner: row.try_get("owner")?,
        lease_left: lease_left(row)?,
        wanted: row.try_get("wanted")?,
        runnable_by: row.try_get("runnable_by")?,
    })
}

fn slot_owner(row: &PgRow) -> Result<SlotOwner, Error> {
    let lease_left = lease_left(row)?;
    let owner: Option<String> = row.try_get("owner")?;
    Ok(SlotOwner { slot: row.try_get("slot")?, owner: owner.filter(|_| !lease_left.is_zero()), lease_left })
}

fn lease_left(row: &PgRow) -> Result<Duration, Error> {
    let until: Option<PgTimestamp> = row.try_get("lease_until")?;
    let now = row.try_get("read_at")?;
    Ok(until.map_or(Duration::ZERO, |until| until.after(now)))
}

fn slot_progress(row: &PgRow) -> Result<SlotProgress, Error> {
    Ok(SlotProgress { settled: progress(row, "settled")?, void: progress(row, "void")? })
}
