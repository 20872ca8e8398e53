//! Who runs what, and changes of consumers. The write lock is the admin lock.

use std::time::Duration;

use serde::Deserialize;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection as _, Error, Row as _, Sqlite, query, query_scalar};

use super::maintain::DUTY;
use super::rows::{duration, micros, progress, row_lane};
use super::{BEGIN, EPOCH, written};
use crate::backend::admin::{Merge, SlotProgress};
use crate::backend::{
    Administer, Change, Changed, Duty, Heartbeat, PausedBy, Registered, Registration, ResetTo, SlotOwner,
    SlotView, Start,
};
use crate::lane::slot_of;
use crate::progress::Progress;
use crate::tables::Tables;

const REGISTER_ANY: &str = include_str!("register_any.sql");
const REGISTER_EXISTING: &str = include_str!("register_existing.sql");
const REGISTER_STORED: &str = include_str!("register_stored.sql");
const REGISTER_START: &str = include_str!("register_start.sql");
const REGISTER: &str = include_str!("register.sql");
const RELAYS_ENDED: &str = include_str!("relays_ended.sql");
const LOOK: &str = include_str!("look.sql");
const LEAVE: &str = include_str!("leave.sql");
const WANT: &str = include_str!("want.sql");
const CHANGE_LOOK: &str = include_str!("change_look.sql");
const RESIZE_LANES: &str = include_str!("resize_lanes.sql");
const RESIZE_FEWER: &str = include_str!("resize_fewer.sql");
const RESIZE_KEPT: &str = include_str!("resize_kept.sql");
const RESIZE_MORE: &str = include_str!("resize_more.sql");
const RESET_START: &str = include_str!("reset_start.sql");
const RESET: &str = include_str!("reset.sql");
const RESET_STALLS: &str = include_str!("reset_stalls.sql");
const RESET_DEAD_LETTERS: &str = include_str!("reset_dead_letters.sql");
const RESET_DUTIES: &str = include_str!("reset_duties.sql");
const REMOVE: &str = include_str!("remove.sql");
const REMOVE_STALLS: &str = include_str!("remove_stalls.sql");
const REMOVE_REPLAYS: &str = include_str!("remove_replays.sql");
const REMOVE_ATTEMPTS: &str = include_str!("remove_attempts.sql");
const RENAME_TAKEN: &str = include_str!("rename_taken.sql");
const RENAME: &str = include_str!("rename.sql");
const RENAME_STALLS: &str = include_str!("rename_stalls.sql");
const RENAME_DEAD_LETTERS: &str = include_str!("rename_dead_letters.sql");
const RENAME_ATTEMPTS: &str = include_str!("rename_attempts.sql");
const PAUSE: &str = include_str!("pause.sql");
const RESUME: &str = include_str!("resume.sql");

/// How many rows' lanes a resize asks for at once.
const LANES_PAGE: i64 = 10_000;

impl Administer for Sqlite {
    async fn register(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumers: &[Registration],
    ) -> Result<Vec<Registered>, Error> {
        let mut tx = conn.begin_with(BEGIN).await?;
        query(RELAYS_ENDED).execute(&mut *tx).await?;
        let others: bool = query_scalar(REGISTER_ANY).fetch_one(&mut *tx).await?;
        let mut answers = Vec::with_capacity(consumers.len());
        for consumer in consumers {
            answers.push(register_one(&mut tx, consumer, others).await?);
        }
        if answers.iter().any(|answer| matches!(answer, Registered::StartNeeded { .. })) {
            tx.rollback().await?;
        } else {
            tx.commit().await?;
        }
        Ok(answers)
    }

    async fn look(
        conn: &mut SqliteConnection,
        _: &Tables,
        heartbeat: &Heartbeat<'_>,
    ) -> Result<Vec<SlotView>, Error> {
        let look = query(LOOK).bind(heartbeat.relay).bind(micros(heartbeat.lease)).bind(heartbeat.consumers);
        let row = written(conn, look).await?.ok_or(Error::RowNotFound)?;
        let slots: Vec<ViewedSlot> = serde_json::from_str(row.try_get("slots")?)
            .map_err(|source| Error::ColumnDecode { index: "slots".to_owned(), source: Box::new(source) })?;
        Ok(slots.into_iter().map(SlotView::from).collect())
    }

    async fn leave(conn: &mut SqliteConnection, _: &Tables, relay: &str) -> Result<(), Error> {
        query(LEAVE).bind(relay).execute(conn).await.map(drop)
    }

    async fn want(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        by: &str,
        hold: Duration,
    ) -> Result<Vec<SlotOwner>, Error> {
        let rows = query(WANT).bind(consumer).bind(by).bind(micros(hold)).fetch_all(conn).await?;
        let mut slots = rows.iter().map(slot_owner).collect::<Result<Vec<_>, _>>()?;
        slots.sort_unstable_by_key(|slot| slot.slot);
        Ok(slots)
    }

    async fn change(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        change: &Change<'_>,
        force: bool,
    ) -> Result<Changed, Error> {
        let mut tx = conn.begin_with(BEGIN).await?;
        let rows = query(CHANGE_LOOK).bind(consumer).fetch_all(&mut *tx).await?;
        let changed = at_rest(&mut tx, consumer, change, force, &rows).await?;
        if matches!(changed, Changed::Done { .. }) {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(changed)
    }

    async fn pause(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        length: Option<Duration>,
        reason: &str,
        by: PausedBy,
    ) -> Result<bool, Error> {
        let pause = query(PAUSE).bind(consumer).bind(length.map(micros)).bind(reason).bind(by.as_str());
        Ok(pause.execute(conn).await?.rows_affected() > 0)
    }

    async fn resume(conn: &mut SqliteConnection, _: &Tables, consumer: &str) -> Result<bool, Error> {
        Ok(query(RESUME).bind(consumer).execute(conn).await?.rows_affected() > 0)
    }
}

async fn register_one(
    conn: &mut SqliteConnection,
    consumer: &Registration,
    others: bool,
) -> Result<Registered, Error> {
    let (name, config, required) = (&consumer.name, &consumer.config, consumer.required_for_retention);
    let existing = query(REGISTER_EXISTING).bind(name).bind(config).bind(required);
    if existing.execute(&mut *conn).await?.rows_affected() > 0 {
        return Ok(Registered::Existing);
    }
    let start = match consumer.start {
        Some(start) => start,
        None if others => {
            let stored: i64 = query_scalar(REGISTER_STORED).fetch_one(conn).await?;
            return Ok(Registered::StartNeeded { stored_events: stored.unsigned_abs() });
        }
        None => Start::Earliest,
    };
    let since = match start {
        Start::Earliest => None,
        Start::Now => Some(None),
        Start::At(time) => Some(Some(time.micros())),
    };
    let mut settled = Progress::new();
    if let Some(since) = since {
        let first: i64 = query_scalar(REGISTER_START).bind(since).fetch_one(&mut *conn).await?;
        settled.insert_range(1, first);
    }
    let slots = i32::from(consumer.slots.max(1));
    let epoch = epochs(conn, slots).await?;
    for slot in 0..slots {
        query(REGISTER)
            .bind(name)
            .bind(slot)
            .bind(slots)
            .bind(epoch + i64::from(slot))
            .bind(settled.to_json())
            .bind(config)
            .bind(required)
            .execute(&mut *conn)
            .await?;
    }
    Ok(Registered::New)
}

/// The first of as many new epochs.
async fn epochs(conn: &mut SqliteConnection, number: i32) -> Result<i64, Error> {
    query_scalar(EPOCH).bind(number).fetch_one(conn).await
}

/// Makes the change, if the consumer is at rest or it is forced.
async fn at_rest(
    conn: &mut SqliteConnection,
    consumer: &str,
    change: &Change<'_>,
    force: bool,
    rows: &[SqliteRow],
) -> Result<Changed, Error> {
    let Some(first) = rows.first() else { return Ok(Changed::Unregistered) };
    let owners = rows.iter().map(slot_owner).collect::<Result<Vec<_>, _>>()?;
    let owned: Vec<_> = owners.into_iter().filter(|slot| slot.owner.is_some()).collect();
    let forced = !owned.is_empty();
    if let Change::Rename { to } = change
        && query_scalar(RENAME_TAKEN).bind(*to).fetch_one(&mut *conn).await?
    {
        return Ok(Changed::NameTaken);
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
        Change::Resize { slots } => resize(conn, consumer, i32::from(slots.max(1)), rows).await?,
        Change::Reset(to) => reset(conn, consumer, to, rows).await?,
        Change::Remove { .. } => {
            for statement in [REMOVE, REMOVE_STALLS, REMOVE_REPLAYS, REMOVE_ATTEMPTS] {
                query(statement).bind(consumer).execute(&mut *conn).await?;
            }
        }
        Change::Rename { to } => {
            let epoch = epochs(conn, i32::try_from(rows.len()).unwrap_or(i32::MAX)).await?;
            query(RENAME).bind(consumer).bind(to).bind(epoch).execute(&mut *conn).await?;
            for statement in [RENAME_STALLS, RENAME_DEAD_LETTERS, RENAME_ATTEMPTS] {
                query(statement).bind(consumer).bind(to).execute(&mut *conn).await?;
            }
        }
    }
    Ok(Changed::Done { forced })
}

async fn resize(
    conn: &mut SqliteConnection,
    consumer: &str,
    slots: i32,
    rows: &[SqliteRow],
) -> Result<(), Error> {
    let old = rows.iter().map(slot_progress).collect::<Result<Vec<_>, _>>()?;
    let old_slots = u16::try_from(old.len()).unwrap_or(u16::MAX);
    let mut merge = Merge::of(old);
    for (mut from, until) in merge.disputed() {
        loop {
            let page = query(RESIZE_LANES).bind(from).bind(until).bind(LANES_PAGE);
            let page = page.fetch_all(&mut *conn).await?;
            let Some(last) = page.last() else { break };
            for row in &page {
                let id = row.try_get("id")?;
                merge.belongs(id, slot_of(&row_lane(row, id)?, old_slots));
            }
            from = last.try_get::<i64, _>("id")? + 1;
        }
    }
    let (settled, void) = merge.finish();
    query(RESIZE_FEWER).bind(consumer).bind(slots).execute(&mut *conn).await?;
    let epoch = epochs(conn, slots).await?;
    let kept = query(RESIZE_KEPT).bind(consumer).bind(slots);
    kept.bind(settled.to_json()).bind(void.to_json()).bind(epoch).execute(&mut *conn).await?;
    let more = query(RESIZE_MORE).bind(consumer).bind(old_slots).bind(epoch);
    more.execute(conn).await.map(drop)
}

async fn reset(
    conn: &mut SqliteConnection,
    consumer: &str,
    to: ResetTo,
    rows: &[SqliteRow],
) -> Result<(), Error> {
    let first = match to {
        ResetTo::Id(id) => id,
        ResetTo::Time(time) => {
            let start: Option<i64> =
                query_scalar(RESET_START).bind(time.micros()).fetch_one(&mut *conn).await?;
            // Nothing that young is there: nothing is delivered again.
            start.unwrap_or(i64::MAX)
        }
    };
    for row in rows {
        let SlotProgress { mut settled, mut void } = slot_progress(row)?;
        let mut skipped = progress(row, "skipped")?;
        for set in [&mut settled, &mut void, &mut skipped] {
            set.remove_range(first, i64::MAX);
        }
        let epoch = epochs(conn, 1).await?;
        let slot: i32 = row.try_get("slot")?;
        let reset = query(RESET).bind(consumer).bind(slot).bind(settled.to_json()).bind(void.to_json());
        reset.bind(epoch).bind(skipped.to_json()).execute(&mut *conn).await?;
    }
    for statement in [RESET_STALLS, RESET_DEAD_LETTERS] {
        query(statement).bind(consumer).bind(first).execute(&mut *conn).await?;
    }
    for duty in [Duty::Recorder, Duty::Retention] {
        let row = query(DUTY).bind(duty.as_str()).bind(false).fetch_one(&mut *conn).await?;
        let mut done = progress(&row, "done")?;
        done.remove_range(first, i64::MAX);
        let reset = query(RESET_DUTIES).bind(duty.as_str()).bind(done.to_json()).bind(first);
        reset.execute(&mut *conn).await?;
    }
    Ok(())
}

/// A slot as `look.sql` prints it.
#[derive(Deserialize)]
struct ViewedSlot {
    consumer: String,
    slot: i32,
    slots: u16,
    owner: Option<String>,
    lease_left: i64,
    wanted: bool,
    runnable_by: Vec<String>,
}

impl From<ViewedSlot> for SlotView {
    fn from(slot: ViewedSlot) -> Self {
        let ViewedSlot { consumer, slot, slots, owner, lease_left, wanted, runnable_by } = slot;
        Self { consumer, slot, slots, owner, lease_left: duration(lease_left), wanted, runnable_by }
    }
}

fn slot_owner(row: &SqliteRow) -> Result<SlotOwner, Error> {
    let lease_left = duration(row.try_get("lease_left")?);
    let owner: Option<String> = row.try_get("owner")?;
    Ok(SlotOwner { slot: row.try_get("slot")?, owner: owner.filter(|_| !lease_left.is_zero()), lease_left })
}

fn slot_progress(row: &SqliteRow) -> Result<SlotProgress, Error> {
    Ok(SlotProgress { settled: progress(row, "settled")?, void: progress(row, "void")? })
}
