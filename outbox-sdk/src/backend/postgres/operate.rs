//! What operators ask and decide.
//!
//! Statements with a filter are planned anew each time, with the values at hand: a plan for any filter would use no index.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Error, PgConnection, Postgres, Row};
use uuid::Uuid;

use super::query::Query;
use super::statements::Statement;
use super::time::PgTimestamp;
use super::{count, progress};
use crate::backend::operate::majors;
use crate::backend::{
    AgedKey, ConsumerRow, DeadLetter, Decision, EventFilter, EventRow, Lag, LetterCount, LetterCursor,
    LetterEvent, LetterFilter, LetterKey, LetterState, LetterSummary, Operate, PauseState, SlotStanding,
    StallState, Standing, Stored, Writer,
};
use crate::envelope::{Envelope, Timestamp};
use crate::lane::Lane;
use crate::tables::Tables;

impl Operate for Postgres {
    async fn consumers(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<ConsumerRow>, Error> {
        let rows = tables.postgres().consumers.query().fetch_all(conn).await?;
        rows.iter().map(consumer).collect()
    }

    async fn lag(conn: &mut PgConnection, tables: &Tables, cap: u32) -> Result<Vec<Lag>, Error> {
        let rows = tables.postgres().lag.query().bind(i64::from(cap)).fetch_all(conn).await?;
        let lag = |row: &PgRow| {
            let now: PgTimestamp = row.try_get("read_at")?;
            let unsettled: Option<PgTimestamp> = row.try_get("oldest_unsettled")?;
            let stalled: Option<PgTimestamp> = row.try_get("oldest_stalled")?;
            Ok(Lag {
                consumer: row.try_get("name")?,
                slot: row.try_get("slot")?,
                unsettled: number(row, "unsettled")?,
                oldest: [unsettled, stalled].into_iter().flatten().min().map(|created| now.after(created)),
            })
        };
        rows.iter().map(lag).collect()
    }

    async fn dead_letters(
        conn: &mut PgConnection,
        tables: &Tables,
        filter: &LetterFilter,
        before: Option<&LetterCursor>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, Error> {
        let (failed_at, id, consumer) = before.map_or((None, i64::MAX, ""), |cursor| {
            (Some(PgTimestamp(cursor.failed_at)), cursor.key.id, cursor.key.consumer.as_str())
        });
        let page = letters(&tables.postgres().dead_letters, filter)
            .bind(failed_at)
            .bind(id)
            .bind(consumer)
            .bind(i64::from(limit));
        page.fetch_all(conn).await?.iter().map(dead_letter).collect()
    }

    async fn dead_letter_counts(
        conn: &mut PgConnection,
        tables: &Tables,
        filter: &LetterFilter,
    ) -> Result<Vec<LetterCount>, Error> {
        let rows = letters(&tables.postgres().dead_letter_counts, filter).fetch_all(conn).await?;
        let counted = |row: &PgRow| {
            Ok(LetterCount {
                consumer: row.try_get("consumer")?,
                reason: row.try_get("reason")?,
                state: letter_state(row, "state")?,
                letters: number(row, "letters")?,
                acknowledged: number(row, "acknowledged")?,
            })
        };
        rows.iter().map(counted).collect()
    }

    async fn dead_letter_keys(
        conn: &mut PgConnection,
        tables: &Tables,
        filter: &LetterFilter,
        after: Option<&LetterKey>,
        limit: u32,
    ) -> Result<Vec<AgedKey>, Error> {
        let (id, consumer) = after.map_or((i64::MIN, ""), |key| (key.id, key.consumer.as_str()));
        let page = letters(&tables.postgres().dead_letter_keys, filter);
        let rows = page.bind(id).bind(consumer).bind(i64::from(limit)).fetch_all(conn).await?;
        let aged = |row: &PgRow| {
            let created: Option<PgTimestamp> = row.try_get("created_at")?;
            let now: PgTimestamp = row.try_get("read_at")?;
            Ok(AgedKey { key: key(row)?, age: created.map(|created| now.after(created)) })
        };
        rows.iter().map(aged).collect()
    }

    async fn decide(
        conn: &mut PgConnection,
        tables: &Tables,
        keys: &[LetterKey],
        decision: Decision,
        by: Option<&str>,
    ) -> Result<Vec<LetterKey>, Error> {
        let ids: Vec<i64> = keys.iter().map(|key| key.id).collect();
        let consumers: Vec<&str> = keys.iter().map(|key| key.consumer.as_str()).collect();
        let statements = tables.postgres();
        let state = match decision {
            Decision::Replay => Some(LetterState::Replay),
            Decision::Discard => Some(LetterState::Discarded),
            Decision::Acknowledge => None,
        };
        let rows = match state {
            Some(state) => {
                let decide = statements.dead_letter_decide.query().bind(ids).bind(consumers);
                decide.bind(state.as_str()).bind(by).fetch_all(conn).await?
            }
            None => {
                let acknowledge = statements.dead_letter_acknowledge.query().bind(ids).bind(consumers);
                acknowledge.bind(by).fetch_all(conn).await?
            }
        };
        rows.iter().map(key).collect()
    }

    async fn event(
        conn: &mut PgConnection,
        tables: &Tables,
        id: i64,
        with_payload: bool,
    ) -> Result<Option<EventRow>, Error> {
        let event = tables.postgres().event.query().bind(id).bind(with_payload);
        event.fetch_optional(conn).await?.as_ref().map(event_row).transpose()
    }

    async fn event_ids(
        conn: &mut PgConnection,
        tables: &Tables,
        event_id: Uuid,
        created: Option<(Timestamp, Timestamp)>,
    ) -> Result<Vec<i64>, Error> {
        let (from, until) = created.unzip();
        let search = tables.postgres().event_ids.planned().bind(event_id);
        let rows = search.bind(from.map(PgTimestamp)).bind(until.map(PgTimestamp)).fetch_all(conn).await?;
        rows.iter().map(|row| row.try_get("id")).collect()
    }

    async fn events(
        conn: &mut PgConnection,
        tables: &Tables,
        filter: &EventFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        let indexed = filter.aggregate_id.is_some() || filter.correlation_id.is_some();
        let spans = filter.created_from.is_some() || filter.created_until.is_some();
        let statements = tables.postgres();
        let statement = if spans && !indexed { &statements.events_in_time } else { &statements.events };
        let page = statement
            .planned()
            .bind(filter.aggregate_type.as_deref())
            .bind(filter.aggregate_id.as_deref())
            .bind(filter.correlation_id)
            .bind(filter.tenant_id)
            .bind(filter.event_type.exact())
            .bind(filter.event_type.prefix())
            .bind(filter.created_from.map(PgTimestamp))
            .bind(filter.created_until.map(PgTimestamp))
            .bind(filter.status.as_deref())
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::from(limit));
        page.fetch_all(conn).await?.iter().map(event_row).collect()
    }

    async fn stored(
        conn: &mut PgConnection,
        tables: &Tables,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Stored>, Error> {
        let page = tables.postgres().stored.query().bind(after).bind(i64::from(limit));
        let stored = |row: &PgRow| {
            Ok(Stored {
                id: row.try_get("id")?,
                event_type: row.try_get("event_type")?,
                schema_version: row.try_get::<i32, _>("schema_version")?.unsigned_abs(),
                payload: row.try_get("payload")?,
                older_payloads: row.try_get("older_payloads")?,
                lane: lane(row)?,
            })
        };
        page.fetch_all(conn).await?.iter().map(stored).collect()
    }

    async fn published_majors(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<(String, u32)>, Error> {
        let rows = tables.postgres().published_majors.query().fetch_all(conn).await?;
        let majors = rows.iter().filter_map(|row| {
            // A key that is no major was not written by us.
            let major: Result<&str, _> = row.try_get("major");
            let major = major.map(|major| major.parse().ok()).transpose();
            major.map(|major| Ok((row.try_get("event_type")?, major?)))
        });
        majors.collect()
    }

    async fn standing(
        conn: &mut PgConnection,
        tables: &Tables,
        id: i64,
        lane: Option<&str>,
    ) -> Result<Standing, Error> {
        let single = Lane::Single(id).key();
        let rows =
            tables.postgres().standing.query().bind(id).bind(lane).bind(single).fetch_all(conn).await?;
        let first = rows.first().ok_or(Error::RowNotFound)?;
        let mut standing = Standing {
            status: first.try_get("event_status")?,
            last_id: first.try_get("last_id")?,
            slots: Vec::new(),
        };
        if first.try_get::<Option<&str>, _>("name")?.is_some() {
            standing.slots = rows.iter().map(slot_standing).collect::<Result<_, _>>()?;
        }
        Ok(standing)
    }

    async fn writers(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<Writer>, Error> {
        let rows = tables.postgres().writers.query().fetch_all(conn).await?;
        let writer = |row: &PgRow| {
            Ok(Writer {
                pid: row.try_get("pid")?,
                name: row.try_get("name")?,
                state: row.try_get("state")?,
                open_for: Duration::from_micros(number(row, "open_for")?),
            })
        };
        rows.iter().map(writer).collect()
    }
}

/// A statement with the values of its filter, planned for them.
fn letters(statement: &Statement, filter: &LetterFilter) -> Query {
    let ids = (!filter.ids.is_empty()).then_some(&filter.ids[..]);
    statement
        .planned()
        .bind(filter.consumer.as_deref())
        .bind(filter.event_type.exact())
        .bind(filter.event_type.prefix())
        .bind(filter.reason.as_deref())
        .bind(filter.state.map(LetterState::as_str))
        .bind(filter.tenant_id)
        .bind(filter.aggregate_type.as_deref())
        .bind(filter.aggregate_id.as_deref())
        .bind(filter.failed_from.map(PgTimestamp))
        .bind(filter.failed_until.map(PgTimestamp))
        .bind(ids)
        .bind(filter.acknowledged)
}

fn number(row: &PgRow, column: &str) -> Result<u64, Error> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn time(row: &PgRow, column: &str) -> Result<Option<Timestamp>, Error> {
    Ok(row.try_get::<Option<PgTimestamp>, _>(column)?.map(|time| time.0))
}

fn key(row: &PgRow) -> Result<LetterKey, Error> {
    Ok(LetterKey { id: row.try_get("id")?, consumer: row.try_get("consumer")? })
}

fn letter_state(row: &PgRow, column: &str) -> Result<LetterState, Error> {
    let text: &str = row.try_get(column)?;
    text.parse().map_err(|error: crate::backend::UnknownLetterState| Error::Decode(error.into()))
}

fn dead_letter(row: &PgRow) -> Result<DeadLetter, Error> {
    let event_id: Option<Uuid> = row.try_get("event_id")?;
    let event = event_id.map(|event_id| letter_event(row, event_id)).transpose()?;
    Ok(DeadLetter {
        consumer: row.try_get("consumer")?,
        event_id: row.try_get("id")?,
        reason: row.try_get("reason")?,
        attempts: count(row.try_get("attempts")?),
        max_attempts: count(row.try_get("max_attempts")?),
        last_error: row.try_get("last_error")?,
        failed_at: row.try_get::<PgTimestamp, _>("failed_at")?.0,
        acknowledged_at: time(row, "acknowledged_at")?,
        state: letter_state(row, "state")?,
        decided_at: time(row, "decided_at")?,
        decided_by: row.try_get("decided_by")?,
        event,
    })
}

fn letter_event(row: &PgRow, event_id: Uuid) -> Result<LetterEvent, Error> {
    Ok(LetterEvent {
        event_id,
        event_type: row.try_get("event_type")?,
        schema_version: count(row.try_get("schema_version")?),
        tenant_id: row.try_get("tenant_id")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        created_at: row.try_get::<PgTimestamp, _>("created_at")?.0,
    })
}

fn event_row(row: &PgRow) -> Result<EventRow, Error> {
    Ok(EventRow {
        envelope: Envelope {
            id: row.try_get("id")?,
            event_id: row.try_get("event_id")?,
            tenant_id: row.try_get("tenant_id")?,
            event_type: row.try_get("event_type")?,
            schema_version: count(row.try_get("schema_version")?),
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
            audit_log_id: row.try_get("audit_log_id")?,
            correlation_id: row.try_get("correlation_id")?,
            causation_id: row.try_get("causation_id")?,
            actor: row.try_get("actor")?,
            traceparent: row.try_get("traceparent")?,
            tracestate: row.try_get("tracestate")?,
            payload: row.try_get::<Option<String>, _>("payload")?.unwrap_or_default(),
            older_payloads: row.try_get("older_payloads")?,
            occurred_at: row.try_get::<PgTimestamp, _>("occurred_at")?.0,
            created_at: row.try_get::<PgTimestamp, _>("created_at")?.0,
        },
        older_majors: majors(&row.try_get::<Vec<String>, _>("older_majors")?),
        status: row.try_get("status")?,
        attempts: count(row.try_get("attempts")?),
        last_error: row.try_get("last_error")?,
        dispatched_at: time(row, "dispatched_at")?,
        available_at: row.try_get::<PgTimestamp, _>("available_at")?.0,
        created_by: row.try_get("created_by")?,
    })
}

fn consumer(row: &PgRow) -> Result<ConsumerRow, Error> {
    let now: PgTimestamp = row.try_get("read_at")?;
    let owner: Option<String> = row.try_get("owner")?;
    let lease_until: Option<PgTimestamp> = row.try_get("lease_until")?;
    let lease_for = lease_until.filter(|_| owner.is_some()).map_or(Duration::ZERO, |until| until.after(now));
    let paused_until: Option<PgTimestamp> = row.try_get("paused_until")?;
    let paused = match paused_until.filter(|until| *until > now) {
        None => None,
        Some(until) => Some(PauseState {
            until: until.0,
            length: until.after(now),
            by: row.try_get("paused_by")?,
            reason: row.try_get("pause_reason")?,
        }),
    };
    Ok(ConsumerRow {
        name: row.try_get("name")?,
        slot: row.try_get("slot")?,
        slots: row.try_get("slots")?,
        owner,
        lease_for,
        wanted: row.try_get("wanted")?,
        paused,
        attempts: count(row.try_get("attempts")?),
        last_error: row.try_get("last_error")?,
        config: row.try_get("config")?,
        required_for_retention: row.try_get("required_for_retention")?,
        registered_at: row.try_get::<PgTimestamp, _>("registered_at")?.0,
        settled: progress(row, "settled")?,
        stalled_lanes: number(row, "stalled_lanes")?,
        blocked_lanes: number(row, "blocked_lanes")?,
        dead_letters: number(row, "dead_letters")?,
        able_relays: row.try_get("able_relays")?,
        other_relays: row.try_get("other_relays")?,
    })
}

fn slot_standing(row: &PgRow) -> Result<SlotStanding, Error> {
    let now: PgTimestamp = row.try_get("read_at")?;
    Ok(SlotStanding {
        consumer: consumer(row)?,
        void: row.try_get("void")?,
        skipped: row.try_get("skipped")?,
        stall: stall_state(row, "stall", now)?,
        head_letter: letter_summary(row, "head")?,
        single: stall_state(row, "single", now)?,
        letter: letter_summary(row, "letter")?,
    })
}

fn stall_state(row: &PgRow, of: &str, now: PgTimestamp) -> Result<Option<StallState>, Error> {
    let column = |name: &str| format!("{of}_{name}");
    let Some(head_id) = row.try_get(&*column("head_id"))? else { return Ok(None) };
    let available_at: PgTimestamp = row.try_get(&*column("available_at"))?;
    let missing_since: Option<PgTimestamp> = row.try_get(&*column("missing_since"))?;
    Ok(Some(StallState {
        head_id,
        attempts: count(row.try_get(&*column("attempts"))?),
        due_in: available_at.after(now),
        blocked: row.try_get(&*column("blocked"))?,
        schema_missing_for: missing_since.map(|since| now.after(since)),
        last_error: row.try_get(&*column("last_error"))?,
    }))
}

fn letter_summary(row: &PgRow, of: &str) -> Result<Option<LetterSummary>, Error> {
    let column = |name: &str| format!("{of}_{name}");
    let Some(reason) = row.try_get(&*column("reason"))? else { return Ok(None) };
    Ok(Some(LetterSummary {
        reason,
        state: letter_state(row, &column("state"))?,
        attempts: count(row.try_get(&*column("attempts"))?),
        max_attempts: count(row.try_get(&*column("max_attempts"))?),
        last_error: row.try_get(&*column("last_error"))?,
        failed_at: row.try_get::<PgTimestamp, _>(&*column("failed_at"))?.0,
        decided_by: row.try_get(&*column("decided_by"))?,
    }))
}

/// The lane of an event's row.
fn lane(row: &PgRow) -> Result<Lane, Error> {
    match row.try_get("aggregate_id")? {
        Some(aggregate_id) if !row.try_get::<bool, _>("delayed")? => {
            Ok(Lane::aggregate(row.try_get("tenant_id")?, row.try_get("aggregate_type")?, aggregate_id))
        }
        _ => Ok(Lane::Single(row.try_get("id")?)),
    }
}
