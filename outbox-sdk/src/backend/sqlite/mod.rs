//! SQLite: one writer at a time, so ids become visible in order and there is nobody to wait for.
//!
//! Every transaction of its own begins with `BEGIN IMMEDIATE`: the write lock is taken before anything is looked at.

mod admin;
mod found;
mod history;
mod inbox;
mod maintain;
mod operate;
mod rows;

use std::convert::Infallible;
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{
    Connection as _, Error, Pool, Row as _, SqlSafeStr as _, Sqlite, Transaction, query, query_scalar,
};
use uuid::Uuid;

use self::found::Found;
use self::rows::{
    Columns, DeadLetterParam, EventParam, StallParam, bytes, duration, json, micros, names, progress,
    published, row_lane, stored_event, uuid,
};
use crate::backend::progress::{STALL_PAGE, stall_slot};
use crate::backend::{
    Backend, Batch, Checks, Claim, ClaimRequest, Claimed, DiscardedHead, DueStall, Fault, Fence, Holders,
    LaneEntry, LanePage, LaneRead, Notices, Read, Refusal, ReplayPage, ReplayRead, ReplayRequest,
    ReplayResult, Settled, Settlement, StallPage, StallRead, StallRow, WriteOrder,
};
use crate::envelope::{NewEnvelope, Once, Published, Timestamp};
use crate::injection::crash_point;
use crate::lane::Lane;
use crate::tables::Tables;

const APPEND: &str = include_str!("append.sql");
const APPEND_ALL: &str = include_str!("append_all.sql");
const APPEND_ONCE: &str = include_str!("append_once.sql");
const IDEMPOTENCY_EVENT: &str = include_str!("idempotency_event.sql");
const READ: &str = include_str!("read.sql");
const LANE: &str = include_str!("lane.sql");
const LANE_IDS: &str = include_str!("lane_ids.sql");
const EPOCH: &str = include_str!("epoch.sql");
const CLAIMABLE: &str = include_str!("claimable.sql");
const CLAIM: &str = include_str!("claim.sql");
const NOTE_REFUSAL: &str = include_str!("note_refusal.sql");
const STALLS: &str = include_str!("stalls.sql");
const CHECKS: &str = include_str!("checks.sql");
const SETTLE: &str = include_str!("settle.sql");
const SETTLE_REFUSED: &str = include_str!("settle_refused.sql");
const STALL_DELETE: &str = include_str!("stall_delete.sql");
const STALL_UPSERT: &str = include_str!("stall_upsert.sql");
const DEAD_LETTER_UPSERT: &str = include_str!("dead_letter_upsert.sql");
const REPLAY_RESULT: &str = include_str!("replay_result.sql");
const REPLAY_REQUESTS: &str = include_str!("replay_requests.sql");
const DISCARDED_HEADS: &str = include_str!("discarded_heads.sql");
const DUE_STALLS: &str = include_str!("due_stalls.sql");
const HAS_TABLES: &str = include_str!("has_tables.sql");

const BEGIN: &str = "BEGIN IMMEDIATE";

impl Backend for Sqlite {
    async fn append(
        conn: &mut SqliteConnection,
        _: &Tables,
        event: &NewEnvelope,
        _: WriteOrder,
    ) -> Result<Published, Error> {
        ensure_not_ended(conn).await?;
        let insert = query(APPEND)
            .bind(uuid(event.event_id))
            .bind(&event.event_type)
            .bind(event.schema_version)
            .bind(&event.aggregate_type)
            .bind(event.aggregate_id.as_deref())
            .bind(event.tenant_id.map(uuid))
            .bind(event.correlation_id.map(uuid))
            .bind(event.causation_id.map(uuid))
            .bind(event.actor.as_deref())
            .bind(event.audit_log_id)
            .bind(event.traceparent.as_deref())
            .bind(event.tracestate.as_deref())
            .bind(&event.payload)
            .bind(event.older_payloads.as_deref())
            .bind(event.delay.map_or(0, micros))
            .bind(event.occurred_at.map(Timestamp::micros));
        match written(conn, insert).await {
            Ok(row) => published(&row.ok_or(Error::RowNotFound)?),
            Err(error) => Err(explained(conn, error, "outbox_event").await),
        }
    }

    async fn append_all(
        conn: &mut SqliteConnection,
        _: &Tables,
        events: &[NewEnvelope],
        _: WriteOrder,
    ) -> Result<Vec<Published>, Error> {
        ensure_not_ended(conn).await?;
        let list = json(events.iter().map(EventParam::new))?;
        let rows = match query(APPEND_ALL).bind(list).fetch_all(&mut *conn).await {
            Ok(rows) => rows,
            Err(error) => return Err(explained(conn, error, "outbox_event").await),
        };
        let mut answers = rows.iter().map(published).collect::<Result<Vec<_>, _>>()?;
        answers.sort_unstable_by_key(|answer| answer.id);
        Ok(answers)
    }

    async fn append_once(
        conn: &mut SqliteConnection,
        tables: &Tables,
        event: &NewEnvelope,
        order: WriteOrder,
        key: &str,
    ) -> Result<Once, Error> {
        ensure_not_ended(conn).await?;
        let claim = query(APPEND_ONCE).bind(key).bind(uuid(event.event_id)).execute(&mut *conn).await;
        let claimed = match claim {
            Ok(done) => done.rows_affected() > 0,
            Err(error) => return Err(explained(conn, error, "outbox_idempotency").await),
        };
        if claimed {
            return Self::append(conn, tables, event, order).await.map(Once::Published);
        }
        let event_id: String = query_scalar(IDEMPOTENCY_EVENT).bind(key).fetch_one(conn).await?;
        let event_id = Uuid::parse_str(&event_id).map_err(|error| Error::Decode(error.into()))?;
        Ok(Once::Repeated { event_id })
    }

    async fn in_transaction(conn: &mut SqliteConnection) -> Result<bool, Error> {
        if conn.is_in_transaction() {
            return still_open(conn).await;
        }
        match conn.begin().await {
            Ok(probe) => probe.rollback().await.map(|()| false),
            Err(Error::Database(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn begin_write(pool: &Pool<Sqlite>) -> Result<Transaction<'static, Sqlite>, Error> {
        loop {
            let conn = pool.acquire().await?;
            if conn.is_in_transaction() {
                // SQLite ended a transaction by itself and sqlx still counts it: such a connection can begin no other.
                conn.close().await?;
                continue;
            }
            return Transaction::begin(conn, Some(BEGIN.into_sql_str())).await;
        }
    }

    async fn ensure_usable(conn: &mut SqliteConnection) -> Result<(), Error> {
        if still_open(conn).await? { Ok(()) } else { Err(Error::Database(Box::new(Found::RolledBack))) }
    }

    async fn notify(_: &mut SqliteConnection, _: &Tables, _: bool) -> Result<(), Error> {
        Ok(())
    }

    type Listener = Infallible;

    async fn listen(_: &Pool<Self>, _: &Tables) -> Result<Option<Infallible>, Error> {
        Ok(None)
    }

    async fn hear(listener: &mut Infallible) -> Result<(), Error> {
        match *listener {}
    }

    async fn still_listens(listener: &mut Infallible, _: &Tables) -> Result<bool, Error> {
        match *listener {}
    }

    async fn prepare_session(_: &mut SqliteConnection, _: &Tables) -> Result<(), Error> {
        Ok(())
    }

    fn fault(error: &Error) -> Fault {
        match error {
            Error::Database(error) if let Some(found) = error.try_downcast_ref::<Found>() => match found {
                Found::RolledBack => Fault::TransactionFailed,
                Found::NotMigrated => Fault::NotMigrated,
            },
            // The low byte of an extended result code is the result code.
            Error::Database(error) => {
                match error.code().and_then(|code| code.parse::<u32>().ok()).map(|code| code & 0xff) {
                    Some(5 | 6) => Fault::DatabaseBusy,
                    // Permissions of the file, and an authorizer's no.
                    Some(3 | 23) => Fault::Denied,
                    Some(8) => Fault::ReadOnly,
                    // Of the system: a read or write failed, a damaged file, a full disk, no database at all.
                    Some(10 | 11 | 13 | 26) => Fault::ServerTrouble,
                    // Out of memory; a string or row over the limit.
                    Some(7 | 18) => Fault::TooLarge,
                    Some(14) => Fault::Connection,
                    Some(19) => Fault::Refused,
                    _ => Fault::Other,
                }
            }
            Error::Io(_) | Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => {
                Fault::Connection
            }
            _ => Fault::Other,
        }
    }

    async fn holders(_: &mut SqliteConnection, _: &Tables) -> Result<Holders, Error> {
        Ok(Holders { transactions: Vec::new(), prepared: false, primary: true })
    }

    async fn read(conn: &mut SqliteConnection, _: &Tables, read: &Read<'_>) -> Result<Batch, Error> {
        let rows = query(READ)
            .bind(read.above)
            .bind(json(read.gaps)?)
            .bind(read.limit)
            .bind(bytes(read.max_bytes))
            .bind(bytes(read.max_payload_bytes))
            .bind(read.without_payloads)
            .bind(read.notices)
            .fetch_all(conn)
            .await?;
        let mut batch = Batch { primary: true, sees_all_rows: true, ..Batch::default() };
        let Some(first) = rows.first() else { return Ok(batch) };
        batch.last_id = first.try_get("last_id")?;
        // An anchor that is no UUID is not the row that the owner read.
        batch.anchor =
            first.try_get::<Option<String>, _>("anchor")?.and_then(|text| Uuid::parse_str(&text).ok());
        batch.notices = Notices {
            replays: names(first, "replays")?,
            free_slots: names(first, "free_slots")?,
            held: names(first, "held")?,
            asked: read.notices,
        };
        if first.try_get::<Option<i64>, _>("id")?.is_some() {
            batch.events =
                rows.iter().map(|row| stored_event(row, read.without_payloads)).collect::<Result<_, _>>()?;
            batch.full = is_full(first, batch.events.len(), read.limit)?;
        }
        Ok(batch)
    }

    async fn read_lane(
        conn: &mut SqliteConnection,
        tables: &Tables,
        read: &LaneRead<'_>,
    ) -> Result<LanePage, Error> {
        let key = match read.lane {
            Lane::Single(id) if (read.from..=read.through).contains(id) => {
                let gaps = [(*id, id.saturating_add(1))];
                let single = Read {
                    gaps: &gaps,
                    above: i64::MAX,
                    limit: 1,
                    max_bytes: read.max_bytes,
                    max_payload_bytes: read.max_payload_bytes,
                    without_payloads: read.without_payloads,
                    notices: false,
                };
                let events = Self::read(conn, tables, &single).await?.events;
                return Ok(LanePage { events, full: false });
            }
            Lane::Single(_) => return Ok(LanePage::default()),
            Lane::Aggregate(key) => key,
        };
        let rows = query(LANE)
            .bind(key.tenant_id.map(uuid))
            .bind(&key.aggregate_type)
            .bind(&key.aggregate_id)
            .bind(read.from)
            .bind(read.through)
            .bind(read.limit)
            .bind(bytes(read.max_bytes))
            .bind(bytes(read.max_payload_bytes))
            .bind(read.without_payloads)
            .fetch_all(conn)
            .await?;
        let Some(first) = rows.first() else { return Ok(LanePage::default()) };
        let full = is_full(first, rows.len(), read.limit)?;
        Ok(LanePage {
            events: rows
                .iter()
                .map(|row| stored_event(row, read.without_payloads))
                .collect::<Result<_, _>>()?,
            full,
        })
    }

    async fn lane_ids(
        conn: &mut SqliteConnection,
        _: &Tables,
        read: &LaneRead<'_>,
    ) -> Result<Vec<LaneEntry>, Error> {
        // Nothing can overtake an event that is a lane of its own.
        let Lane::Aggregate(key) = read.lane else { return Ok(Vec::new()) };
        let rows = query(LANE_IDS)
            .bind(key.tenant_id.map(uuid))
            .bind(&key.aggregate_type)
            .bind(&key.aggregate_id)
            .bind(read.from)
            .bind(read.through)
            .bind(read.limit)
            .fetch_all(conn)
            .await?;
        let entry = |row: &SqliteRow| {
            Ok(LaneEntry {
                id: row.try_get("id")?,
                event_type: Columns::new(row).text("event_type")?.unwrap_or_default(),
                schema_version: row.try_get("schema_version")?,
                has_older: row.try_get("has_older")?,
            })
        };
        rows.iter().map(entry).collect()
    }

    async fn claim(
        conn: &mut SqliteConnection,
        _: &Tables,
        claim: &ClaimRequest<'_>,
    ) -> Result<Claim, Error> {
        // The write lock is held: what the first statement finds cannot change before the update.
        let mut tx = conn.begin_with(BEGIN).await?;
        let clean = match claimable(&mut tx, claim).await? {
            Ok(clean) => clean,
            Err(refused) => {
                tx.rollback().await?;
                return Ok(refused);
            }
        };
        let epoch: i64 = query_scalar(EPOCH).bind(1).fetch_one(&mut *tx).await?;
        let row = query(CLAIM)
            .bind(claim.consumer)
            .bind(claim.slot)
            .bind(claim.owner)
            .bind(micros(claim.lease))
            .bind(epoch)
            .fetch_one(&mut *tx)
            .await?;
        let stalls = query(STALLS).bind(claim.consumer).bind("").bind(STALL_PAGE).fetch_all(&mut *tx).await?;
        let StallPage { stalls, more } = own_stalls(&stalls, claim.slot, claim.slots)?;
        let checks = query(CHECKS).bind(claim.consumer).bind(claim.slot).fetch_one(&mut *tx).await?;
        let claimed = Claimed {
            fence: fence(&row)?,
            settled: progress(&row, "settled")?,
            void: progress(&row, "void")?,
            paused_for: paused_for(&row)?,
            held: row.try_get("held")?,
            attempts: row.try_get("attempts")?,
            clean,
            stalls,
            more_stalls: more,
            checks: Checks {
                sequence_uncached: true,
                last_id: checks.try_get("last_id")?,
                sees_all_rows: true,
                primary: true,
                anchored: checks.try_get("anchored")?,
            },
        };
        tx.commit().await?;
        Ok(Claim::Claimed(Box::new(claimed)))
    }

    async fn note_refusal(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        slot: i32,
        epoch: i64,
        why: &str,
    ) -> Result<(), Error> {
        query(NOTE_REFUSAL).bind(consumer).bind(slot).bind(epoch).bind(why).execute(conn).await.map(drop)
    }

    async fn stalls(
        conn: &mut SqliteConnection,
        _: &Tables,
        read: &StallRead<'_>,
    ) -> Result<StallPage, Error> {
        let rows = query(STALLS).bind(read.consumer).bind(read.after).bind(STALL_PAGE);
        own_stalls(&rows.fetch_all(conn).await?, read.slot, read.slots)
    }

    async fn settle(
        conn: &mut SqliteConnection,
        _: &Tables,
        settlement: &Settlement<'_>,
    ) -> Result<Settled, Error> {
        if settlement.is_one_row() {
            return settle_row(conn, settlement).await;
        }
        let mut tx = conn.begin_with(BEGIN).await?;
        let settled = settle_row(&mut tx, settlement).await?;
        if matches!(settled, Settled::Refused { .. }) {
            tx.rollback().await?;
            return Ok(settled);
        }
        let consumer = settlement.consumer;
        if !settlement.resumed.is_empty() {
            query(STALL_DELETE).bind(consumer).bind(json(settlement.resumed)?).execute(&mut *tx).await?;
        }
        if !settlement.stalls.is_empty() {
            let stalls = json(settlement.stalls.iter().map(StallParam::new))?;
            query(STALL_UPSERT).bind(consumer).bind(stalls).execute(&mut *tx).await?;
        }
        if !settlement.dead.is_empty() {
            let dead = json(settlement.dead.iter().map(DeadLetterParam::new))?;
            query(DEAD_LETTER_UPSERT).bind(consumer).bind(dead).execute(&mut *tx).await?;
        }
        if !settlement.replays.is_empty() {
            let results = json(settlement.replays.iter().map(ReplayResult::columns))?;
            query(REPLAY_RESULT).bind(consumer).bind(results).execute(&mut *tx).await?;
        }
        crash_point("in_settle");
        tx.commit().await?;
        Ok(settled)
    }

    async fn due_stalls(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
        lanes: &[String],
    ) -> Result<Vec<DueStall>, Error> {
        let rows = query(DUE_STALLS).bind(consumer).bind(json(lanes)?).fetch_all(conn).await?;
        let due = |row: &SqliteRow| {
            Ok(DueStall { lane: row.try_get("lane")?, due_in: duration(row.try_get("due_in")?) })
        };
        rows.iter().map(due).collect()
    }

    async fn replay_requests(
        conn: &mut SqliteConnection,
        _: &Tables,
        read: &ReplayRead<'_>,
    ) -> Result<ReplayPage, Error> {
        let rows = query(REPLAY_REQUESTS).bind(read.consumer).bind(read.after).bind(read.looks_at());
        let letter = |row: &SqliteRow| {
            let event_id = row.try_get("letter_id")?;
            let lane = if row.try_get("has_row")? { Some(row_lane(row, event_id)?) } else { None };
            Ok((ReplayRequest { event_id, attempts: row.try_get("attempts")? }, lane))
        };
        let letters = rows.fetch_all(conn).await?.iter().map(letter).collect::<Result<Vec<_>, Error>>()?;
        Ok(read.page(&letters))
    }

    async fn discarded_heads(
        conn: &mut SqliteConnection,
        _: &Tables,
        consumer: &str,
    ) -> Result<Vec<DiscardedHead>, Error> {
        let rows = query(DISCARDED_HEADS).bind(consumer).fetch_all(conn).await?;
        let head = |row: &SqliteRow| {
            Ok(DiscardedHead { lane: row.try_get("lane")?, head_id: row.try_get("head_id")? })
        };
        rows.iter().map(head).collect()
    }
}

/// Runs a writing statement to its end and gives out its only row. `fetch_one` would stop at the row and reset the
/// statement: outside a transaction that is where SQLite commits, and a failed commit would go unnoticed.
async fn written(
    conn: &mut SqliteConnection,
    statement: Query<'_, Sqlite, SqliteArguments>,
) -> Result<Option<SqliteRow>, Error> {
    Ok(statement.fetch_all(conn).await?.pop())
}

/// SQLite has one code for a missing table and for every other mistake in a statement: look whether it is there.
async fn explained(conn: &mut SqliteConnection, error: Error, table: &str) -> Error {
    const GENERIC: &str = "1";
    let generic = error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(GENERIC));
    if !generic {
        return error;
    }
    match query_scalar::<_, i64>(HAS_TABLES).bind(table).fetch_one(conn).await {
        Ok(0) => Error::Database(Box::new(Found::NotMigrated)),
        _ => error,
    }
}

/// A transaction that SQLite has ended by itself is still open for sqlx: an event would be written without its cause.
async fn ensure_not_ended(conn: &mut SqliteConnection) -> Result<(), Error> {
    if conn.is_in_transaction() { Sqlite::ensure_usable(conn).await } else { Ok(()) }
}

/// Whether SQLite has a transaction open, whatever sqlx counts: it refuses a second `BEGIN` without any other effect.
async fn still_open(conn: &mut SqliteConnection) -> Result<bool, Error> {
    match query("BEGIN").execute(&mut *conn).await {
        Ok(_) => query("ROLLBACK").execute(conn).await.map(|_| false),
        Err(Error::Database(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether the last owner gave the slot back, if it can be claimed; else why it cannot.
async fn claimable(
    conn: &mut SqliteConnection,
    claim: &ClaimRequest<'_>,
) -> Result<Result<bool, Claim>, Error> {
    let slot = query(CLAIMABLE).bind(claim.consumer).bind(claim.slot).bind(claim.config).bind(claim.slots);
    let Some(row) = slot.fetch_optional(conn).await? else { return Ok(Err(Claim::Unregistered)) };
    if !row.try_get("same_config")? {
        return Ok(Err(Claim::OtherConfig));
    }
    if !row.try_get("same_slots")? {
        return Ok(Err(Claim::OtherSlots));
    }
    if row.try_get("wanted")? {
        return Ok(Err(Claim::Wanted));
    }
    if !row.try_get("free")? {
        return Ok(Err(Claim::Taken));
    }
    row.try_get("clean").map(Ok)
}

async fn settle_row(conn: &mut SqliteConnection, settlement: &Settlement<'_>) -> Result<Settled, Error> {
    let (anchor_id, anchor) = settlement.anchor.map(|(id, event_id)| (id, uuid(event_id))).unzip();
    let update = query(SETTLE)
        .bind(settlement.consumer)
        .bind(settlement.slot)
        .bind(settlement.fence.epoch)
        .bind(settlement.fence.rev)
        .bind(settlement.settled.to_json())
        .bind(settlement.void.to_json())
        .bind(micros(settlement.lease))
        .bind(settlement.release)
        .bind(settlement.pause.map(|pause| micros(pause.length)))
        .bind(anchor_id)
        .bind(anchor.as_deref())
        .bind(settlement.pause.map(|pause| pause.attempts))
        .bind(settlement.pause.and_then(|pause| pause.reason));
    if let Some(row) = written(conn, update).await? {
        return Ok(Settled::Done {
            fence: fence(&row)?,
            paused_for: paused_for(&row)?,
            held: row.try_get("held")?,
            wanted: row.try_get("wanted")?,
        });
    }
    let row = query(SETTLE_REFUSED)
        .bind(settlement.consumer)
        .bind(settlement.slot)
        .bind(anchor_id)
        .bind(anchor)
        .fetch_optional(conn)
        .await?;
    let refusal =
        |row: SqliteRow| Ok::<_, Error>(Refusal { fence: fence(&row)?, anchored: row.try_get("anchored")? });
    Ok(Settled::Refused { now: row.map(refusal).transpose()? })
}

fn fence(row: &SqliteRow) -> Result<Fence, Error> {
    Ok(Fence { epoch: row.try_get("epoch")?, rev: row.try_get("rev")?, ctid: String::new() })
}

fn paused_for(row: &SqliteRow) -> Result<Option<Duration>, Error> {
    let micros: Option<i64> = row.try_get("paused_for")?;
    Ok(micros.filter(|micros| *micros > 0).map(duration))
}

/// The waiting lanes that belong to the slot, and where the next page begins.
fn own_stalls(rows: &[SqliteRow], slot: i32, slots: u16) -> Result<StallPage, Error> {
    let mut page = StallPage::default();
    for row in rows {
        let stall = stall_row(row)?;
        let row_lane = if row.try_get("has_row")? { Some(row_lane(row, stall.head_id)?) } else { None };
        if stall_slot(&stall.lane, row_lane, slots) == slot {
            page.stalls.push(stall);
        }
    }
    if let Some(last) = rows.get(STALL_PAGE as usize - 1) {
        page.more = Some(last.try_get("lane")?);
    }
    Ok(page)
}

fn stall_row(row: &SqliteRow) -> Result<StallRow, Error> {
    Ok(StallRow {
        lane: row.try_get("lane")?,
        head_id: row.try_get("head_id")?,
        attempts: row.try_get("attempts")?,
        due_in: duration(row.try_get("due_in")?),
        blocked: row.try_get("blocked")?,
        single: row.try_get("single")?,
        schema_missing_for: row.try_get::<Option<i64>, _>("schema_missing_for")?.map(duration),
    })
}

/// Whether a page stopped at its limits: `candidates` are the rows that fit its row limit.
fn is_full(row: &SqliteRow, returned: usize, limit: u32) -> Result<bool, Error> {
    let candidates: i64 = row.try_get("candidates")?;
    let returned = i64::try_from(returned).unwrap_or(i64::MAX);
    Ok(candidates >= i64::from(limit) || returned < candidates)
}
