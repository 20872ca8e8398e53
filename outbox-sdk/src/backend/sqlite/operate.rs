//! What operators ask and decide.

use std::sync::LazyLock;
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Error, Row as _, Sqlite, query};
use uuid::Uuid;

use super::explained;
use super::rows::{Columns, duration, envelope, json, progress, row_lane, uuid};
use crate::backend::operate::majors;
use crate::backend::{
    AgedKey, ConsumerRow, DeadLetter, Decision, EventFilter, EventRow, Lag, LetterCount, LetterCursor,
    LetterEvent, LetterFilter, LetterKey, LetterState, LetterSummary, Operate, PauseState, SlotStanding,
    StallState, Standing, Stored, UnknownLetterState, Writer,
};
use crate::envelope::Timestamp;
use crate::lane::Lane;
use crate::tables::Tables;

/// Statements in which parts stand that several share.
macro_rules! statements {
    ($($name:ident $file:literal $($letters:literal)?)+) => {
        $(static $name: LazyLock<String> = LazyLock::new(|| {
            include_str!($file)
                $(.replace("{letters}", include_str!($letters).trim_end()))?
                .replace("{slot_columns}", include_str!("slot_columns.sql").trim_end())
                .replace("{event_columns}", include_str!("event_columns.sql").trim_end())
                .replace("{event_filter}", include_str!("event_filter.sql").trim_end())
                .replace("{letter_filter}", include_str!("letter_filter.sql").trim_end())
        });)+
    };
}

statements! {
    CONSUMERS "consumers.sql"
    DEAD_LETTERS "dead_letters.sql" "letters_by_failure.sql"
    DEAD_LETTERS_NAMED "dead_letters.sql" "letters_named.sql"
    DEAD_LETTER_COUNTS "dead_letter_counts.sql"
    DEAD_LETTER_KEYS "dead_letter_keys.sql" "letters_by_event.sql"
    DEAD_LETTER_KEYS_NAMED "dead_letter_keys.sql" "letters_named.sql"
    EVENT "event.sql"
    EVENTS "events.sql"
    EVENTS_OF_AGGREGATE "events_of_aggregate.sql"
    EVENTS_OF_CORRELATION "events_of_correlation.sql"
    PUBLISHED_MAJORS "published_majors.sql"
    STANDING "standing.sql"
}

const LAG: &str = include_str!("lag.sql");
const STORED: &str = include_str!("stored.sql");
const DEAD_LETTER_DECIDE: &str = include_str!("dead_letter_decide.sql");
const DEAD_LETTER_ACKNOWLEDGE: &str = include_str!("dead_letter_acknowledge.sql");
const EVENT_IDS: &str = include_str!("event_ids.sql");

impl Operate for Sqlite {
    async fn consumers(conn: &mut SqliteConnection, _: &Tables) -> Result<Vec<ConsumerRow>, Error> {
        let rows = rows(conn, query(CONSUMERS.as_str())).await?;
        rows.iter().map(consumer).collect()
    }

    async fn lag(conn: &mut SqliteConnection, _: &Tables, cap: u32) -> Result<Vec<Lag>, Error> {
        let rows = rows(conn, query(LAG).bind(cap)).await?;
        let lag = |row: &SqliteRow| {
            let unsettled: Option<i64> = row.try_get("unsettled_for")?;
            let stalled: Option<i64> = row.try_get("stalled_for")?;
            Ok(Lag {
                consumer: row.try_get("name")?,
                slot: row.try_get("slot")?,
                unsettled: number(row, "unsettled")?,
                oldest: [unsettled, stalled].into_iter().flatten().max().map(duration),
            })
        };
        rows.iter().map(lag).collect()
    }

    async fn dead_letters(
        conn: &mut SqliteConnection,
        _: &Tables,
        filter: &LetterFilter,
        before: Option<&LetterCursor>,
        limit: u32,
    ) -> Result<Vec<DeadLetter>, Error> {
        let (failed_at, id, consumer) = before.map_or((i64::MAX, i64::MAX, ""), |cursor| {
            (cursor.failed_at.micros(), cursor.key.id, cursor.key.consumer.as_str())
        });
        let statement = if filter.ids.is_empty() { &DEAD_LETTERS } else { &DEAD_LETTERS_NAMED };
        let page = letters(statement, filter)?.bind(failed_at).bind(id).bind(consumer).bind(limit);
        rows(conn, page).await?.iter().map(dead_letter).collect()
    }

    async fn dead_letter_counts(
        conn: &mut SqliteConnection,
        _: &Tables,
        filter: &LetterFilter,
    ) -> Result<Vec<LetterCount>, Error> {
        let rows = rows(conn, letters(&DEAD_LETTER_COUNTS, filter)?).await?;
        let counted = |row: &SqliteRow| {
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
        conn: &mut SqliteConnection,
        _: &Tables,
        filter: &LetterFilter,
        after: Option<&LetterKey>,
        limit: u32,
    ) -> Result<Vec<AgedKey>, Error> {
        let (id, consumer) = after.map_or((i64::MIN, ""), |key| (key.id, key.consumer.as_str()));
        let statement = if filter.ids.is_empty() { &DEAD_LETTER_KEYS } else { &DEAD_LETTER_KEYS_NAMED };
        let page = letters(statement, filter)?.bind(id).bind(consumer).bind(limit);
        let rows = rows(conn, page).await?;
        let aged = |row: &SqliteRow| {
            Ok(AgedKey { key: key(row)?, age: row.try_get::<Option<i64>, _>("age")?.map(duration) })
        };
        rows.iter().map(aged).collect()
    }

    async fn decide(
        conn: &mut SqliteConnection,
        _: &Tables,
        keys: &[LetterKey],
        decision: Decision,
        by: Option<&str>,
    ) -> Result<Vec<LetterKey>, Error> {
        let keys = json(keys.iter().map(|key| (key.id, key.consumer.as_str())))?;
        let state = match decision {
            Decision::Replay => Some(LetterState::Replay),
            Decision::Discard => Some(LetterState::Discarded),
            Decision::Acknowledge => None,
        };
        let decide = match state {
            Some(state) => query(DEAD_LETTER_DECIDE).bind(keys).bind(state.as_str()),
            None => query(DEAD_LETTER_ACKNOWLEDGE).bind(keys),
        };
        rows(conn, decide.bind(by)).await?.iter().map(key).collect()
    }

    async fn event(
        conn: &mut SqliteConnection,
        _: &Tables,
        id: i64,
        with_payload: bool,
    ) -> Result<Option<EventRow>, Error> {
        let event = query(EVENT.as_str()).bind(id).bind(with_payload);
        rows(conn, event).await?.first().map(event_row).transpose()
    }

    async fn event_ids(
        conn: &mut SqliteConnection,
        _: &Tables,
        event_id: Uuid,
        created: Option<(Timestamp, Timestamp)>,
    ) -> Result<Vec<i64>, Error> {
        let (from, until) = created.unzip();
        let search = query(EVENT_IDS)
            .bind(uuid(event_id))
            .bind(from.map(Timestamp::micros))
            .bind(until.map(Timestamp::micros));
        rows(conn, search).await?.iter().map(|row| row.try_get("id")).collect()
    }

    async fn events(
        conn: &mut SqliteConnection,
        _: &Tables,
        filter: &EventFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<EventRow>, Error> {
        let statement = match filter {
            EventFilter { aggregate_type: Some(_), aggregate_id: Some(_), .. } => &EVENTS_OF_AGGREGATE,
            EventFilter { correlation_id: Some(_), .. } => &EVENTS_OF_CORRELATION,
            _ => &EVENTS,
        };
        let page = query(statement.as_str())
            .bind(filter.aggregate_type.as_deref())
            .bind(filter.aggregate_id.as_deref())
            .bind(filter.correlation_id.map(uuid))
            .bind(filter.tenant_id.map(uuid))
            .bind(filter.event_type.exact())
            .bind(filter.event_type.prefix())
            .bind(filter.created_from.map(Timestamp::micros))
            .bind(filter.created_until.map(Timestamp::micros))
            .bind(filter.status.as_deref())
            .bind(before.unwrap_or(i64::MAX))
            .bind(limit);
        rows(conn, page).await?.iter().map(event_row).collect()
    }

    async fn stored(
        conn: &mut SqliteConnection,
        _: &Tables,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Stored>, Error> {
        let stored = |row: &SqliteRow| {
            Ok(Stored {
                id: row.try_get("id")?,
                event_type: row.try_get("event_type")?,
                schema_version: row.try_get("schema_version")?,
                payload: row.try_get("payload")?,
                older_payloads: row.try_get("older_payloads")?,
                lane: if row.try_get("delayed")? {
                    Lane::Single(row.try_get("id")?)
                } else {
                    row_lane(row, row.try_get("id")?)?
                },
            })
        };
        rows(conn, query(STORED).bind(after).bind(limit)).await?.iter().map(stored).collect()
    }

    async fn published_majors(conn: &mut SqliteConnection, _: &Tables) -> Result<Vec<(String, u32)>, Error> {
        let rows = rows(conn, query(PUBLISHED_MAJORS.as_str())).await?;
        let majors = rows.iter().filter_map(|row| {
            // A key that is no major was not written by us.
            let major: Result<String, _> = row.try_get("major");
            let major = major.map(|major| major.parse().ok()).transpose();
            major.map(|major| Ok((row.try_get("event_type")?, major?)))
        });
        majors.collect()
    }

    async fn standing(
        conn: &mut SqliteConnection,
        _: &Tables,
        id: i64,
        lane: Option<&str>,
    ) -> Result<Standing, Error> {
        let single = Lane::Single(id).key();
        let rows = rows(conn, query(STANDING.as_str()).bind(id).bind(lane).bind(single)).await?;
        let first = rows.first().ok_or(Error::RowNotFound)?;
        let mut standing = Standing {
            status: first.try_get("event_status")?,
            last_id: first.try_get("last_id")?,
            slots: Vec::new(),
        };
        if first.try_get::<Option<String>, _>("name")?.is_some() {
            standing.slots = rows.iter().map(slot_standing).collect::<Result<_, _>>()?;
        }
        Ok(standing)
    }

    async fn writers(_: &mut SqliteConnection, _: &Tables) -> Result<Vec<Writer>, Error> {
        Ok(Vec::new())
    }
}

/// What a statement answers; missing tables are told apart.
async fn rows(
    conn: &mut SqliteConnection,
    statement: Query<'_, Sqlite, SqliteArguments>,
) -> Result<Vec<SqliteRow>, Error> {
    match statement.fetch_all(&mut *conn).await {
        Ok(rows) => Ok(rows),
        Err(error) => Err(explained(conn, error, "outbox_event").await),
    }
}

/// A statement with the values of its filter.
fn letters<'q>(
    statement: &'static str,
    filter: &'q LetterFilter,
) -> Result<Query<'q, Sqlite, SqliteArguments>, Error> {
    let ids = if filter.ids.is_empty() { None } else { Some(json(&filter.ids)?) };
    Ok(query(statement)
        .bind(filter.consumer.as_deref())
        .bind(filter.event_type.exact())
        .bind(filter.event_type.prefix())
        .bind(filter.reason.as_deref())
        .bind(filter.state.map(LetterState::as_str))
        .bind(filter.tenant_id.map(uuid))
        .bind(filter.aggregate_type.as_deref())
        .bind(filter.aggregate_id.as_deref())
        .bind(filter.failed_from.map(Timestamp::micros))
        .bind(filter.failed_until.map(Timestamp::micros))
        .bind(ids)
        .bind(filter.acknowledged))
}

fn number(row: &SqliteRow, column: &str) -> Result<u64, Error> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn time(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>, Error> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp::from_micros))
}

fn moment(row: &SqliteRow, column: &str) -> Result<Timestamp, Error> {
    row.try_get(column).map(Timestamp::from_micros)
}

fn key(row: &SqliteRow) -> Result<LetterKey, Error> {
    Ok(LetterKey { id: row.try_get("id")?, consumer: row.try_get("consumer")? })
}

fn letter_state(row: &SqliteRow, column: &str) -> Result<LetterState, Error> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|error: UnknownLetterState| Error::Decode(error.into()))
}

fn dead_letter(row: &SqliteRow) -> Result<DeadLetter, Error> {
    let stored = row.try_get::<Option<i64>, _>("created_at")?.is_some();
    Ok(DeadLetter {
        consumer: row.try_get("consumer")?,
        event_id: row.try_get("id")?,
        reason: row.try_get("reason")?,
        attempts: row.try_get("attempts")?,
        max_attempts: row.try_get("max_attempts")?,
        last_error: row.try_get("last_error")?,
        failed_at: moment(row, "failed_at")?,
        acknowledged_at: time(row, "acknowledged_at")?,
        state: letter_state(row, "state")?,
        decided_at: time(row, "decided_at")?,
        decided_by: row.try_get("decided_by")?,
        event: if stored { Some(letter_event(row)?) } else { None },
    })
}

fn letter_event(row: &SqliteRow) -> Result<LetterEvent, Error> {
    let mut columns = Columns::new(row);
    Ok(LetterEvent {
        event_id: columns.uuid("event_id")?.unwrap_or_default(),
        event_type: columns.text("event_type")?.unwrap_or_default(),
        schema_version: u32::try_from(row.try_get::<i64, _>("schema_version")?).unwrap_or(0),
        tenant_id: columns.uuid("tenant_id")?,
        aggregate_type: columns.text("aggregate_type")?.unwrap_or_default(),
        aggregate_id: columns.text("aggregate_id")?,
        created_at: moment(row, "created_at")?,
    })
}

fn event_row(row: &SqliteRow) -> Result<EventRow, Error> {
    Ok(EventRow {
        envelope: envelope(row, false)?.0,
        older_majors: majors(&names(row, "older_majors")?),
        status: row.try_get("status")?,
        attempts: row.try_get("attempts")?,
        last_error: Columns::new(row).text("last_error")?,
        dispatched_at: time(row, "dispatched_at")?,
        available_at: moment(row, "available_at")?,
        created_by: None,
    })
}

fn consumer(row: &SqliteRow) -> Result<ConsumerRow, Error> {
    let owner: Option<String> = row.try_get("owner")?;
    let lease_for: Option<i64> = row.try_get("lease_for")?;
    let paused_for: Option<i64> = row.try_get("paused_for")?;
    let paused = match paused_for.filter(|length| *length > 0) {
        None => None,
        Some(length) => Some(PauseState {
            until: moment(row, "paused_until")?,
            length: duration(length),
            by: row.try_get("paused_by")?,
            reason: row.try_get("pause_reason")?,
        }),
    };
    Ok(ConsumerRow {
        name: row.try_get("name")?,
        slot: row.try_get("slot")?,
        slots: row.try_get("slots")?,
        lease_for: lease_for.filter(|_| owner.is_some()).map_or(Duration::ZERO, duration),
        owner,
        wanted: row.try_get("wanted")?,
        paused,
        attempts: row.try_get("attempts")?,
        last_error: row.try_get("last_error")?,
        config: row.try_get("config")?,
        required_for_retention: row.try_get("required_for_retention")?,
        registered_at: moment(row, "registered_at")?,
        settled: progress(row, "settled")?,
        stalled_lanes: number(row, "stalled_lanes")?,
        blocked_lanes: number(row, "blocked_lanes")?,
        dead_letters: number(row, "dead_letters")?,
        able_relays: names(row, "able_relays")?,
        other_relays: names(row, "other_relays")?,
    })
}

fn names(row: &SqliteRow, column: &str) -> Result<Vec<String>, Error> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|error| Error::Decode(error.into()))
}

fn slot_standing(row: &SqliteRow) -> Result<SlotStanding, Error> {
    Ok(SlotStanding {
        consumer: consumer(row)?,
        void: row.try_get("void")?,
        skipped: row.try_get("skipped")?,
        stall: stall_state(row, "stall")?,
        head_letter: letter_summary(row, "head")?,
        single: stall_state(row, "single")?,
        letter: letter_summary(row, "letter")?,
    })
}

fn stall_state(row: &SqliteRow, of: &str) -> Result<Option<StallState>, Error> {
    let column = |name: &str| format!("{of}_{name}");
    let Some(head_id) = row.try_get(&*column("head_id"))? else { return Ok(None) };
    Ok(Some(StallState {
        head_id,
        attempts: row.try_get(&*column("attempts"))?,
        due_in: duration(row.try_get(&*column("due_in"))?),
        blocked: row.try_get(&*column("blocked"))?,
        schema_missing_for: row.try_get::<Option<i64>, _>(&*column("missing_for"))?.map(duration),
        last_error: row.try_get(&*column("last_error"))?,
    }))
}

fn letter_summary(row: &SqliteRow, of: &str) -> Result<Option<LetterSummary>, Error> {
    let column = |name: &str| format!("{of}_{name}");
    let Some(reason) = row.try_get(&*column("reason"))? else { return Ok(None) };
    Ok(Some(LetterSummary {
        reason,
        state: letter_state(row, &column("state"))?,
        attempts: row.try_get(&*column("attempts"))?,
        max_attempts: row.try_get(&*column("max_attempts"))?,
        last_error: row.try_get(&*column("last_error"))?,
        failed_at: moment(row, &column("failed_at"))?,
        decided_by: row.try_get(&*column("decided_by"))?,
    }))
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, SqlitePool};

    use super::*;
    use crate::migrate::Migrator;

    async fn plan(pool: &SqlitePool, statement: &str) -> String {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
        let rows = query(explain).fetch_all(pool).await.unwrap();
        rows.iter().map(|row| row.get::<String, _>("detail") + "\n").collect()
    }

    /// Nothing is sorted, and no table is walked over that a page need not see: so the number of letters costs nothing.
    #[tokio::test]
    async fn pages_go_along_an_index() {
        let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1);
        let pool = options.connect("sqlite::memory:").await.unwrap();
        Migrator::outbox().run(&pool).await.unwrap();
        for (statement, search) in [
            (&DEAD_LETTERS, "SEARCH letter USING INDEX outbox_dead_letter_failed_idx"),
            (&DEAD_LETTER_KEYS, "SEARCH letter USING INDEX outbox_dead_letter_event_idx"),
            (&EVENTS, "SEARCH event USING INTEGER PRIMARY KEY"),
            (&EVENTS_OF_AGGREGATE, "SEARCH event USING INDEX outbox_event_aggregate_idx"),
            (&EVENTS_OF_CORRELATION, "SEARCH event USING INDEX outbox_event_correlation_idx"),
        ] {
            let plan = plan(&pool, statement).await;
            assert!(plan.contains(search), "{search}\n{plan}");
            assert!(!plan.contains("B-TREE") && !plan.contains("SCAN letter"), "{plan}");
        }
        for statement in [&DEAD_LETTERS_NAMED, &DEAD_LETTER_KEYS_NAMED] {
            let plan = plan(&pool, statement).await;
            let search = "SEARCH letter USING INDEX outbox_dead_letter_event_idx (event_id=?";
            assert!(plan.contains(search) && !plan.contains("SCAN letter"), "{plan}");
        }
    }
}
