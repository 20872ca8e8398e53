//! Recorder and retention. The sets are worked out here, under the write lock, and the statements get the ids.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection as _, Error, Row as _, Sqlite, query, query_as, query_scalar};

use super::BEGIN;
use super::rows::{duration, json, micros, progress};
use crate::backend::{
    Compactable, Compacted, Compaction, Duties, Duty, DutyState, Keep, Maintain, Overdue, Recorded, Recording,
};
use crate::progress::Progress;
use crate::tables::Tables;

const KNOWN: &str = include_str!("known.sql");
const RECORD: &str = include_str!("record.sql");
pub(super) const DUTY: &str = include_str!("duty.sql");
const DUTY_TAKE: &str = include_str!("duty_take.sql");
const DUTY_END: &str = include_str!("duty_end.sql");
const DUTY_DONE: &str = include_str!("duty_done.sql");
const DUTY_AT: &str = include_str!("duty_at.sql");
const DUTIES: &str = include_str!("duties.sql");
const FIRST_ID: &str = include_str!("first_id.sql");
const BACK: &str = include_str!("back.sql");
const BACK_ANY: &str = include_str!("back_any.sql");
const WALKED: &str = include_str!("walked.sql");
const REFLECTED: &str = include_str!("reflected.sql");
const REQUIRED: &str = include_str!("required.sql");
const REGISTERED: &str = include_str!("registered.sql");
const LETTERS_GONE: &str = include_str!("letters_gone.sql");
const ATTEMPTS_GONE: &str = include_str!("attempts_gone.sql");
const KEYS_GONE: &str = include_str!("keys_gone.sql");

static HELD: LazyLock<String> = LazyLock::new(|| rendered(include_str!("held.sql")));
static OVERDUE: LazyLock<String> = LazyLock::new(|| rendered(include_str!("overdue.sql")));
static COMPACT: LazyLock<String> = LazyLock::new(|| rendered(include_str!("compact.sql")));
static COMPACTABLE: LazyLock<String> = LazyLock::new(|| rendered(include_str!("compactable.sql")));

/// Puts the parts that statements share into their places.
fn rendered(text: &str) -> String {
    let text = text.replace("{expired}", include_str!("expired.sql").trim_end());
    text.replace("{covered}", include_str!("covered.sql").trim_end())
}

impl Maintain for Sqlite {
    async fn record(
        conn: &mut SqliteConnection,
        _: &Tables,
        recording: &Recording,
    ) -> Result<Option<Recorded>, Error> {
        let began = Instant::now();
        let mut tx = conn.begin_with(BEGIN).await?;
        let duty = query(DUTY).bind(Duty::Recorder.as_str()).bind(recording.if_due);
        let Some(duty) = duty.fetch_optional(&mut *tx).await? else {
            tx.rollback().await?;
            return Ok(None);
        };
        let (mut done, position): (_, i64) = (progress(&duty, "done")?, duty.try_get("position")?);
        let known = known(&mut tx).await?;

        let open = known.from(position).difference(&done);
        let mut looked_at = open.first(recording.limit.into());
        let mut until = (looked_at != open).then(|| looked_at.upper());
        let back = query_scalar::<_, i64>(BACK).bind(position).bind(recording.limit);
        let mut back = back.fetch_all(&mut *tx).await?;
        if back.len() >= recording.limit as usize
            && let Some(last) = back.last()
        {
            let last = last.saturating_add(1);
            until = Some(until.map_or(last, |until| until.min(last)));
        }
        if let Some(until) = until {
            looked_at.remove_range(until, i64::MAX);
            back.retain(|id| *id < until);
        }
        back.retain(|id| done.contains(*id) && known.contains(*id));

        let mut seen: Vec<i64> =
            stored(&mut tx, &looked_at, 0).await?.into_iter().map(|(id, _)| id).collect();
        seen.extend(&back);
        let held = query_scalar::<_, i64>(HELD.as_str()).bind(json(&seen)?).fetch_all(&mut *tx).await?;
        let held = Progress::from_iter(held);
        let decided: Vec<i64> = seen.iter().copied().filter(|id| !held.contains(*id)).collect();
        let mut recorded = Recorded { complete: until.is_none(), ..Recorded::default() };
        for row in &query(RECORD).bind(json(&decided)?).fetch_all(&mut *tx).await? {
            match row.try_get("status")? {
                "failed" => recorded.failed += 1,
                "skipped" => recorded.skipped += 1,
                _ => recorded.dispatched += 1,
            }
        }
        // Letters about events that are deleted have nothing to be reflected in, and do not stay either.
        query(REFLECTED).bind(json(&decided)?).execute(&mut *tx).await?;
        recorded.held = (seen.len() - decided.len()) as u64;
        looked_at = looked_at.difference(&held);
        done.union(&looked_at);
        let end = if recording.wrap { 0 } else { position.max(known.upper()) };
        let rest = began.elapsed().saturating_mul(20).min(Duration::from_secs(1));
        query(DUTY_DONE)
            .bind(done.to_json())
            .bind(until.unwrap_or(end))
            .bind(micros(rest))
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Some(recorded))
    }

    async fn overdue(conn: &mut SqliteConnection, _: &Tables, after: Duration) -> Result<Overdue, Error> {
        let known = known(conn).await?;
        let overdue = query(OVERDUE.as_str()).bind(micros(after)).bind(known.to_json());
        let row = overdue.fetch_one(conn).await?;
        Ok(Overdue {
            events: row.try_get::<i64, _>("events")?.unsigned_abs(),
            first_id: row.try_get("first_id")?,
        })
    }

    async fn compact(
        conn: &mut SqliteConnection,
        _: &Tables,
        compaction: &Compaction<'_>,
    ) -> Result<Option<Compacted>, Error> {
        let mut tx = conn.begin_with(BEGIN).await?;
        let window = window(&mut tx, compaction).await?;
        let gone: Vec<(i64, String)> = query_as(COMPACT.as_str())
            .bind(json(&window.old)?)
            .bind(json(compaction.keep.iter().map(KeepParam::new))?)
            .bind(compaction.recorder)
            .fetch_all(&mut *tx)
            .await?;
        let (ids, event_ids): (Vec<_>, Vec<_>) = gone.into_iter().unzip();
        query(LETTERS_GONE).bind(json(&ids)?).execute(&mut *tx).await?;
        query(ATTEMPTS_GONE).bind(json(&ids)?).execute(&mut *tx).await?;
        query(KEYS_GONE).bind(json(&event_ids)?).execute(&mut *tx).await?;
        query(DUTY_AT).bind(window.position).bind(micros(compaction.hold)).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(Some(Compacted {
            deleted: ids.len() as u64,
            scanned: window.scanned,
            position: window.position,
            done: window.position == 0,
        }))
    }

    async fn compactable(
        conn: &mut SqliteConnection,
        _: &Tables,
        compaction: &Compaction<'_>,
    ) -> Result<Compactable, Error> {
        let window = window(conn, compaction).await?;
        let rows = query(COMPACTABLE.as_str())
            .bind(json(&window.old)?)
            .bind(json(compaction.keep.iter().map(KeepParam::new))?)
            .bind(compaction.recorder)
            .fetch_all(conn)
            .await?;
        let count = |row: &SqliteRow| {
            Ok::<_, Error>((row.try_get("event_type")?, row.try_get::<i64, _>("events")?.unsigned_abs()))
        };
        Ok(Compactable {
            by_type: rows.iter().map(count).collect::<Result<_, _>>()?,
            scanned: window.scanned,
            position: window.position,
            done: window.position == 0,
        })
    }

    async fn duties(conn: &mut SqliteConnection, _: &Tables) -> Result<Duties, Error> {
        let rows = query(DUTIES).fetch_all(&mut *conn).await?;
        let known = known(conn).await?;
        let mut duties = Duties::default();
        for row in &rows {
            let state = DutyState {
                due_in: duration(row.try_get("due_in")?),
                succeeded_ago: row.try_get::<Option<i64>, _>("succeeded_ago")?.map(duration),
                failures: row.try_get("failures")?,
                last_error: row.try_get("last_error")?,
            };
            match row.try_get("name")? {
                "recorder" => {
                    let done = progress(row, "done")?;
                    let back = query_scalar(BACK_ANY).bind(known.intersection(&done).to_json());
                    duties.recorder = state;
                    duties.unrecorded =
                        !known.difference(&done).is_empty() || back.fetch_one(&mut *conn).await?;
                }
                "retention" => duties.retention = state,
                _ => {}
            }
        }
        Ok(duties)
    }

    async fn take_duty(
        conn: &mut SqliteConnection,
        _: &Tables,
        duty: Duty,
        hold: Duration,
        if_due: bool,
    ) -> Result<Option<i64>, Error> {
        let take = query_scalar(DUTY_TAKE).bind(duty.as_str()).bind(micros(hold)).bind(if_due);
        Ok(take.fetch_all(conn).await?.pop())
    }

    async fn registered(conn: &mut SqliteConnection, _: &Tables) -> Result<Vec<String>, Error> {
        query_scalar(REGISTERED).fetch_all(conn).await
    }

    async fn end_duty(
        conn: &mut SqliteConnection,
        _: &Tables,
        duty: Duty,
        due_in: Duration,
        error: Option<&str>,
    ) -> Result<u32, Error> {
        let end = query_scalar(DUTY_END).bind(duty.as_str()).bind(micros(due_in)).bind(error);
        end.fetch_all(conn).await?.pop().ok_or(Error::RowNotFound)
    }
}

/// The ids that every slot of every consumer has settled, without dead gaps; none while nobody is registered.
async fn known(conn: &mut SqliteConnection) -> Result<Progress, Error> {
    let mut known: Option<Progress> = None;
    let mut void = Progress::new();
    for row in &query(KNOWN).fetch_all(conn).await? {
        let settled = progress(row, "settled")?;
        known = Some(known.map_or_else(|| settled.clone(), |known| known.intersection(&settled)));
        void.union(&progress(row, "void")?);
    }
    Ok(known.unwrap_or_default().difference(&void))
}

/// Which of these ids are stored, and whether each is older than `age`, a length in microseconds.
async fn stored(conn: &mut SqliteConnection, ids: &Progress, age: i64) -> Result<Vec<(i64, bool)>, Error> {
    let rows = query(WALKED).bind(ids.to_json()).bind(age).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((row.try_get("id")?, row.try_get("old")?))).collect()
}

/// What one batch of retention looks at.
struct Window {
    /// Those that are old enough for the shortest rule.
    old: Vec<i64>,
    scanned: u64,
    /// Where the next batch goes on; 0 = this is the end.
    position: i64,
}

async fn window(conn: &mut SqliteConnection, compaction: &Compaction<'_>) -> Result<Window, Error> {
    let shortest = compaction.keep.iter().map(|keep| keep.length).min().unwrap_or(Duration::MAX);
    let registered: bool =
        query_scalar(REQUIRED).bind(json(compaction.required)?).fetch_one(&mut *conn).await?;
    if !registered {
        return Ok(Window { old: Vec::new(), scanned: 0, position: 0 });
    }
    let first: i64 = query_scalar(FIRST_ID).fetch_one(&mut *conn).await?;
    let open = known(conn).await?.from(compaction.position.max(first));
    let ids = open.first(compaction.limit.into());
    let rows = stored(conn, &ids, micros(shortest)).await?;
    let old: Vec<i64> = rows.iter().filter(|(_, old)| *old).map(|(id, _)| *id).collect();
    let goes_on = ids != open && (rows.is_empty() || !old.is_empty());
    Ok(Window { old, scanned: rows.len() as u64, position: if goes_on { ids.upper() } else { 0 } })
}

/// A rule as `expired.sql` takes it.
#[derive(Serialize)]
struct KeepParam<'a> {
    stem: &'a str,
    exact: bool,
    length: i64,
}

impl<'a> KeepParam<'a> {
    fn new(keep: &'a Keep) -> Self {
        Self { stem: &keep.stem, exact: keep.exact, length: micros(keep.length) }
    }
}
