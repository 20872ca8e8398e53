//! Reading for one cursor: who may still write, then what is there; how much at once, and when again. An engine reads so
//! for its slot, the shared read for all that have joined it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::backend::{Batch, Holders, Read};
use outbox_sdk::{Backend, Tables};

use crate::appetite::Appetite;
use crate::company::FreeSlots;
use crate::pace::Pace;
use crate::relay::Settings;
use crate::session::{Session, SessionError, within};
use crate::slot::{Cursor, Distrust, Page};

/// How often a read asks for notices too.
const NOTICE_INTERVAL: Duration = Duration::from_millis(500);

/// Why a read counts for nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// What the database shows cannot be true.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// A call failed.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// How much of a page is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// The most events.
    pub(crate) rows: usize,
    /// The highest id, if the page should end there; what lies behind it is read another time.
    pub(crate) through: Option<i64>,
}

/// Reads for one cursor.
pub(crate) struct Reader {
    settings: Arc<Settings>,
    tables: Tables,
    free_slots: Arc<FreeSlots>,
    /// How much is asked for at once.
    pub(crate) appetite: Appetite,
    /// When to read again.
    pub(crate) pace: Pace,
    /// When a read asks for notices again.
    next_notices: Instant,
}

impl Reader {
    pub(crate) fn new(
        settings: &Arc<Settings>,
        tables: &Tables,
        free_slots: Arc<FreeSlots>,
        now: Instant,
    ) -> Self {
        Self {
            free_slots,
            appetite: Appetite::new(settings.read_rows),
            pace: Pace::new(settings.poll_min, settings.poll_max, now),
            next_notices: now,
            settings: Arc::clone(settings),
            tables: tables.clone(),
        }
    }

    /// Holders first, while ids are missing; then, in a statement and so in a snapshot of its own, the missing ids and
    /// what is new. `who` reads, for the log.
    pub(crate) async fn read<DB: Backend>(
        &mut self,
        session: &mut Session<DB>,
        cursor: &mut Cursor,
        wish: Wish,
        who: &str,
    ) -> Result<Page, ReadError> {
        let deadline = self.settings.deadline;
        let mut conn = session.connect().await?;
        let mut holders = Holders { primary: true, ..Holders::default() };
        if cursor.has_gaps() {
            holders = within(deadline, DB::holders(&mut conn, &self.tables)).await?;
            if !holders.primary {
                return Err(Distrust::Standby.into());
            }
        }
        let gaps = cursor.gap_ranges();
        let read = Read {
            gaps: &gaps,
            above: cursor.hwm(),
            limit: u32::try_from(wish.rows).unwrap_or(u32::MAX).min(self.appetite.rows()),
            max_bytes: self.settings.read_bytes,
            max_payload_bytes: self.settings.read_bytes,
            without_payloads: false,
            notices: Instant::now() >= self.next_notices,
        };
        let suspected = self.appetite.suspects();
        let page = read_page::<DB>(conn, deadline, &self.tables, &read, suspected).await;
        let (conn, mut batch) = page.map_err(|error| self.failed::<DB>(error, who))?;
        self.appetite.fed();
        let now = Instant::now();
        if read.notices {
            self.next_notices = now + NOTICE_INTERVAL;
            self.free_slots.noticed(&batch.notices.free_slots);
        }
        if let Some(through) = wish.through {
            cut(&mut batch, through);
        }
        let page = cursor.read(batch, &holders)?;
        // Not before: a server that cannot be trusted is not asked again.
        if let Some(conn) = conn {
            session.keep(conn);
        }
        self.pace.read(!page.arrivals.is_empty(), page.full, now, (self.settings.random)());
        Ok(page)
    }

    /// The first rows of these ranges of ids, wherever the cursor is: at most so many.
    pub(crate) async fn rows<DB: Backend>(
        &mut self,
        session: &mut Session<DB>,
        ranges: &[(i64, i64)],
        most: usize,
        who: &str,
    ) -> Result<Batch, ReadError> {
        let read = Read {
            gaps: ranges,
            above: i64::MAX,
            limit: u32::try_from(most).unwrap_or(u32::MAX).min(self.appetite.rows()),
            max_bytes: self.settings.read_bytes,
            max_payload_bytes: self.settings.read_bytes,
            without_payloads: false,
            notices: false,
        };
        let conn = session.connect().await?;
        let suspected = self.appetite.suspects();
        let page = read_page::<DB>(conn, self.settings.deadline, &self.tables, &read, suspected).await;
        let (conn, batch) = page.map_err(|error| self.failed::<DB>(error, who))?;
        self.appetite.fed();
        // What does not come from here would be taken for deleted.
        if !batch.primary {
            return Err(Distrust::Standby.into());
        }
        if !batch.sees_all_rows {
            return Err(Distrust::Hidden.into());
        }
        if let Some(conn) = conn {
            session.keep(conn);
        }
        Ok(batch)
    }

    /// Asks for less the next time: one row that the server cannot print must not keep all others back.
    pub(crate) fn failed<DB: Backend>(&mut self, error: SessionError, who: &str) -> SessionError {
        if error.blames_answer::<DB>() {
            self.appetite.spoiled();
            tracing::warn!(
                consumer = who,
                rows = self.appetite.rows(),
                "a read came to nothing: some payload may be far larger as text than as stored; asking for fewer rows"
            );
        }
        error
    }
}

/// Drops what lies behind `through`: as if the read had been full there.
fn cut(batch: &mut Batch, through: i64) {
    let kept = batch.events.partition_point(|stored| stored.envelope.id <= through);
    if kept < batch.events.len() {
        batch.events.truncate(kept);
        batch.full = true;
    }
}

/// One read; of a suspected row without its payload, unless the payload comes after all. No connection is left when the
/// payload was at fault.
async fn read_page<DB: Backend>(
    mut conn: DB::Connection,
    deadline: Duration,
    tables: &Tables,
    read: &Read<'_>,
    suspected: bool,
) -> Result<(Option<DB::Connection>, Batch), SessionError> {
    if !suspected {
        let batch = within(deadline, DB::read(&mut conn, tables, read)).await?;
        return Ok((Some(conn), batch));
    }
    let bare = Read { without_payloads: true, ..read.clone() };
    let bare = within(deadline, DB::read(&mut conn, tables, &bare)).await?;
    match within(deadline, DB::read(&mut conn, tables, read)).await {
        Ok(batch) => Ok((Some(conn), batch)),
        Err(error) if error.blames_answer::<DB>() => Ok((None, bare)),
        Err(error) => Err(error),
    }
}
