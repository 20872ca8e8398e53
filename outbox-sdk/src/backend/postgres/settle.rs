//! Progress of an owner: claiming a slot, and every write after that.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Connection, Error, PgConnection, Row};

use super::query::Query;
use super::replay;
use super::statements::{Statement, Statements};
use super::time::{PgTimestamp, micros};
use super::{count, lane, progress, signed};
use crate::backend::progress::{STALL_PAGE, stall_slot};
use crate::backend::{
    Checks, Claim, ClaimRequest, Claimed, Due, DueStall, Fence, NewDeadLetter, Refusal, Settled, Settlement,
    Stall, StallPage, StallRead, StallRow,
};
use crate::injection::{crash_point, planted};

/// Takes the lease of a free slot, or tells why not.
pub(super) async fn claim(
    conn: &mut PgConnection,
    statements: &Statements,
    claim: &ClaimRequest<'_>,
) -> Result<Claim, Error> {
    let mut tx = conn.begin_with(statements.begin()).await?;
    let early = match planted("claim-with-stalls") {
        true => Some(stall_rows(&mut tx, statements, claim.consumer, "").await?),
        false => None,
    };
    let row = statements
        .claim
        .query()
        .bind(claim.consumer)
        .bind(claim.slot)
        .bind(claim.owner)
        .bind(micros(claim.lease))
        .bind(claim.config)
        .bind(i32::from(claim.slots))
        .fetch_optional(&mut *tx)
        .await?;
    let Some(row) = row else {
        let refused = statements.claim_refused.query().bind(claim.consumer).bind(claim.slot);
        let refused = refused.bind(claim.config).bind(i32::from(claim.slots));
        let row = refused.fetch_optional(&mut *tx).await?;
        tx.rollback().await?;
        return row.map_or(Ok(Claim::Unregistered), |row| why_refused(&row));
    };
    let stalls = match early {
        Some(stalls) => stalls,
        None => stall_rows(&mut tx, statements, claim.consumer, "").await?,
    };
    let checks = statements.checks.query().bind(claim.consumer).bind(claim.slot).fetch_one(&mut *tx).await?;
    // First: the rows take a while to be understood, and no transaction stays open meanwhile.
    tx.commit().await?;
    let StallPage { stalls, more } = own_stalls(&stalls, claim.slot, claim.slots)?;
    let claimed = Claimed {
        fence: fence(&row)?,
        settled: progress(&row, "settled")?,
        void: progress(&row, "void")?,
        paused_for: paused_for(&row)?,
        held: row.try_get("held")?,
        attempts: count(row.try_get("attempts")?),
        clean: row.try_get("clean")?,
        stalls,
        more_stalls: more,
        checks: Checks {
            sequence_uncached: checks.try_get("sequence_uncached")?,
            last_id: checks.try_get("last_id")?,
            sees_all_rows: checks.try_get("sees_all_rows")?,
            primary: checks.try_get("on_primary")?,
            anchored: checks.try_get("anchored")?,
        },
    };
    Ok(Claim::Claimed(Box::new(claimed)))
}

/// Stall rows that a claim has left over.
pub(super) async fn stalls(
    conn: &mut PgConnection,
    statements: &Statements,
    read: &StallRead<'_>,
) -> Result<StallPage, Error> {
    let rows = stall_rows(conn, statements, read.consumer, read.after).await?;
    own_stalls(&rows, read.slot, read.slots)
}

async fn stall_rows(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    after: &str,
) -> Result<Vec<PgRow>, Error> {
    statements.stalls.query().bind(consumer).bind(after).bind(i64::from(STALL_PAGE)).fetch_all(conn).await
}

/// Writes everything of the settlement, or nothing.
pub(super) async fn settle(
    conn: &mut PgConnection,
    statements: &Statements,
    settlement: &Settlement<'_>,
) -> Result<Settled, Error> {
    if settlement.is_one_row() {
        // The fenced update is all there is to write: the statement is the transaction.
        return fenced_update(conn, statements, settlement).await;
    }
    let mut tx = conn.begin_with(statements.begin()).await?;
    let settled = fenced_update(&mut tx, statements, settlement).await?;
    if matches!(settled, Settled::Refused { .. }) && !planted("stall-unfenced") {
        tx.rollback().await?;
        return Ok(settled);
    }
    if planted("stall-apart") {
        tx.commit().await?;
        crash_point("in_settle");
        tx = conn.begin_with(statements.begin()).await?;
    }
    let consumer = settlement.consumer;
    if !settlement.resumed.is_empty() {
        statements.stall_delete.query().bind(consumer).bind(settlement.resumed).execute(&mut *tx).await?;
    }
    if !settlement.stalls.is_empty() {
        bind_stalls(&statements.stall_upsert, consumer, settlement.stalls).execute(&mut *tx).await?;
    }
    if !settlement.dead.is_empty() {
        bind_dead(&statements.dead_letter_upsert, consumer, settlement.dead).execute(&mut *tx).await?;
    }
    if !settlement.replays.is_empty() {
        replay::write_results(&mut tx, statements, consumer, settlement.replays).await?;
    }
    crash_point("in_settle");
    tx.commit().await?;
    Ok(settled)
}

/// Which of the named lanes are due.
pub(super) async fn due_stalls(
    conn: &mut PgConnection,
    statements: &Statements,
    consumer: &str,
    lanes: &[String],
) -> Result<Vec<DueStall>, Error> {
    let rows = statements.due_stalls.query().bind(consumer).bind(lanes).fetch_all(conn).await?;
    rows.iter()
        .map(|row| {
            let available_at: PgTimestamp = row.try_get("available_at")?;
            Ok(DueStall { lane: row.try_get("lane")?, due_in: available_at.after(row.try_get("read_at")?) })
        })
        .collect()
}

/// By place, then by identity alone; then the row that neither matched.
async fn fenced_update(
    conn: &mut PgConnection,
    statements: &Statements,
    settlement: &Settlement<'_>,
) -> Result<Settled, Error> {
    let mut row = None;
    if !settlement.fence.ctid.is_empty() {
        let query = bind_settlement(&statements.settle, settlement).bind(&settlement.fence.ctid);
        row = query.fetch_optional(&mut *conn).await?;
    }
    if row.is_none() {
        row = bind_settlement(&statements.settle_moved, settlement).fetch_optional(&mut *conn).await?;
    }
    if let Some(row) = row {
        return Ok(Settled::Done {
            fence: fence(&row)?,
            paused_for: paused_for(&row)?,
            held: row.try_get("held")?,
            wanted: row.try_get("wanted")?,
        });
    }
    let now = statements
        .settle_refused
        .query()
        .bind(settlement.consumer)
        .bind(settlement.slot)
        .bind(settlement.anchor.map(|(id, _)| id))
        .bind(settlement.anchor.map(|(_, event_id)| event_id))
        .fetch_optional(conn)
        .await?;
    let refusal = |row: &PgRow| Ok(Refusal { fence: fence(row)?, anchored: row.try_get("anchored")? });
    now.as_ref().map(refusal).transpose().map(|now| Settled::Refused { now })
}

fn bind_settlement(statement: &Statement, settlement: &Settlement<'_>) -> Query {
    let pause = settlement.pause;
    statement
        .query()
        .bind(settlement.consumer)
        .bind(settlement.slot)
        .bind(settlement.fence.epoch)
        .bind(settlement.fence.rev)
        .bind(settlement.anchor.map(|(id, _)| id))
        .bind(settlement.anchor.map(|(_, event_id)| event_id))
        .bind(settlement.settled.to_multirange())
        .bind(settlement.void.to_multirange())
        .bind(micros(settlement.lease))
        .bind(pause.map(|pause| micros(pause.length)))
        .bind(pause.map(|pause| signed(pause.attempts)))
        .bind(pause.and_then(|pause| pause.reason))
        .bind(settlement.release)
}

fn bind_stalls(statement: &Statement, consumer: &str, stalls: &[Stall]) -> Query {
    fn column<'s, T>(stalls: &'s [Stall], value: impl Fn(&'s Stall) -> T) -> Vec<T> {
        stalls.iter().map(value).collect()
    }
    let delay = |stall: &Stall| match stall.due {
        Due::In(length) => Some(micros(length)),
        Due::AtAvailable | Due::Unchanged => None,
    };
    statement
        .query()
        .bind(consumer)
        .bind(column(stalls, |stall| stall.lane.as_str()))
        .bind(column(stalls, |stall| stall.head_id))
        .bind(column(stalls, |stall| signed(stall.attempts)))
        .bind(column(stalls, delay))
        .bind(column(stalls, |stall| stall.due == Due::AtAvailable))
        .bind(column(stalls, |stall| stall.blocked))
        .bind(column(stalls, |stall| stall.single))
        .bind(column(stalls, |stall| stall.schema_missing))
        .bind(column(stalls, |stall| stall.last_error.as_deref()))
}

fn bind_dead(statement: &Statement, consumer: &str, dead: &[NewDeadLetter]) -> Query {
    fn column<'d, T>(dead: &'d [NewDeadLetter], value: impl Fn(&'d NewDeadLetter) -> T) -> Vec<T> {
        dead.iter().map(value).collect()
    }
    statement
        .query()
        .bind(consumer)
        .bind(column(dead, |letter| letter.event_id))
        .bind(column(dead, |letter| letter.reason.as_str()))
        .bind(column(dead, |letter| signed(letter.attempts)))
        .bind(column(dead, |letter| signed(letter.max_attempts)))
        .bind(column(dead, |letter| letter.last_error.as_str()))
}

fn fence(row: &PgRow) -> Result<Fence, Error> {
    Ok(Fence { epoch: row.try_get("epoch")?, rev: row.try_get("rev")?, ctid: row.try_get("ctid")? })
}

fn paused_for(row: &PgRow) -> Result<Option<Duration>, Error> {
    let until: Option<PgTimestamp> = row.try_get("paused_until")?;
    let now = row.try_get("read_at")?;
    Ok(until.map(|until| until.after(now)).filter(|length| !length.is_zero()))
}

fn why_refused(row: &PgRow) -> Result<Claim, Error> {
    Ok(if !row.try_get("same_config")? {
        Claim::OtherConfig
    } else if !row.try_get("same_slots")? {
        Claim::OtherSlots
    } else if row.try_get("wanted")? {
        Claim::Wanted
    } else {
        Claim::Taken
    })
}

/// The waiting lanes that belong to the slot, and where the next page begins.
fn own_stalls(rows: &[PgRow], slot: i32, slots: u16) -> Result<StallPage, Error> {
    let mut page = StallPage::default();
    for row in rows {
        let stall = stall_row(row)?;
        let row_lane = if row.try_get("has_row")? { Some(lane(row, stall.head_id)?) } else { None };
        if stall_slot(&stall.lane, row_lane, slots) == slot {
            page.stalls.push(stall);
        }
    }
    if let Some(last) = rows.get(STALL_PAGE as usize - 1) {
        page.more = Some(last.try_get("lane")?);
    }
    Ok(page)
}

fn stall_row(row: &PgRow) -> Result<StallRow, Error> {
    let now: PgTimestamp = row.try_get("read_at")?;
    let missing_since: Option<PgTimestamp> = row.try_get("missing_since")?;
    Ok(StallRow {
        lane: row.try_get("lane")?,
        head_id: row.try_get("head_id")?,
        attempts: count(row.try_get("attempts")?),
        due_in: row.try_get::<PgTimestamp, _>("available_at")?.after(now),
        blocked: row.try_get("blocked")?,
        single: row.try_get("single")?,
        schema_missing_for: missing_since.map(|since| now.after(since)),
    })
}
