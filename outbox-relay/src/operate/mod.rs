//! What operators ask and do: library calls that the command line and an admin page share.
//!
//! Each call is one short statement or transaction on a connection of the pool, with a limit on its time. None of them
//! needs a running relay: they read and write the tables, and the owner of a consumer's slot sees it.

mod backlog;
mod consumers;
mod dead_letters;
mod events;
mod progress;
mod why;

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use outbox_sdk::backend::{Fault, LetterKey, LetterState};
use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use sqlx::pool::PoolConnection;
use uuid::Uuid;

pub use self::backlog::{Backlog, Unreadable, UnreadableBy};
pub use self::consumers::{ConsumerError, Drain, ResetTo, Rest};
pub use self::dead_letters::{Decided, INBOX_HORIZON, LetterPage, Step, Walk};
pub use self::events::{EventPage, EventRef, NoEventRef, Search};
pub use self::progress::ConsumerProgress;
pub use self::why::{Explanation, Hindrance, Retry, Verdict, Why};
use crate::refused::advice;
use crate::session::{SessionError, within};

/// How long a call may take, unless [`Operator::deadline`] says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// Everything that operators ask and do, on one database.
///
/// ```no_run
/// use outbox_relay::operate::Operator;
///
/// # async fn see(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// for slot in Operator::new(pool).consumers().await? {
///     println!("{}: {} events to read, {} lanes wait", slot.row.name, slot.unsettled, slot.row.stalled_lanes);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Operator<DB: Backend> {
    pub(crate) pool: Pool<DB>,
    pub(crate) tables: Tables,
    pub(crate) deadline: Duration,
    pub(crate) name: Option<String>,
}

impl<DB: Backend> Clone for Operator<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            tables: self.tables.clone(),
            deadline: self.deadline,
            name: self.name.clone(),
        }
    }
}

impl<DB: Backend> Operator<DB> {
    /// An operator of the default tables, whose calls may take 10 s each.
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self { pool, tables: Tables::default(), deadline: DEADLINE, name: None }
    }

    /// Works on these tables instead of the default ones.
    #[must_use]
    pub fn tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// Gives each call this long.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Writes this name down with decisions, instead of the database's role where there are roles.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// A connection for one call; [`keep`](Held::keep) it after the call has succeeded.
    pub(crate) async fn connect(&self) -> Result<Held<DB>, OperateError> {
        Ok(Held { conn: self.within(self.pool.acquire()).await?, keep: false })
    }

    /// The answer of one call, if it comes in time.
    pub(crate) async fn within<T>(
        &self,
        call: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, OperateError> {
        within(self.deadline, call).await.map_err(OperateError::of::<DB>)
    }
}

/// A connection during a call. One that failed, took too long or was given up may be in a transaction: it is closed,
/// and the server rolls back what was open.
pub(crate) struct Held<DB: Backend> {
    conn: PoolConnection<DB>,
    keep: bool,
}

impl<DB: Backend> Held<DB> {
    /// Gives the connection back to the pool.
    pub(crate) fn keep(mut self) {
        self.keep = true;
    }
}

impl<DB: Backend> Deref for Held<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.conn
    }
}

impl<DB: Backend> DerefMut for Held<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }
}

impl<DB: Backend> Drop for Held<DB> {
    fn drop(&mut self) {
        if !self.keep {
            self.conn.close_on_drop();
        }
    }
}

/// A call that did not come about. Nothing was changed, unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// The database said no, or could not be reached.
    #[error("the database failed; see the cause, and that the database can be reached")]
    Database(#[source] sqlx::Error),
    /// The server answers and will not serve: the database or the role is not as the URL says.
    #[error("the database cannot be used; {advice}")]
    Refused {
        /// What to do.
        advice: &'static str,
        /// Its answer.
        source: sqlx::Error,
    },
    /// No answer in time. Whether a change was made is not known: ask before you repeat it.
    #[error("the database did not answer within {0:?}; look whether it is busy, and ask again")]
    Deadline(Duration),
    /// The tables are missing, or are those of an older release.
    #[error("the database lacks tables of this release; run `outbox migrate`")]
    NotMigrated(#[source] sqlx::Error),
    /// There is no such dead letter.
    #[error(
        "event {} has no dead letter of consumer `{}`; `outbox dead list --state all` shows those there are", .0.id,
        .0.consumer
    )]
    NoLetter(LetterKey),
    /// Somebody has decided about it before.
    #[error(
        "the dead letter of event {} for consumer `{}` is not dead but {state}: {}", key.id, key.consumer,
        since(*state)
    )]
    NotDead {
        /// The letter.
        key: LetterKey,
        /// What has become of it.
        state: LetterState,
    },
    /// It is acknowledged already.
    #[error(
        "the dead letter of event {} for consumer `{}` is acknowledged already; there is nothing more to do", .0.id,
        .0.consumer
    )]
    Acknowledged(LetterKey),
    /// There is nothing to deliver any more.
    #[error(
        "event {} is not stored any more, so it cannot be replayed for consumer `{}`; discard the letter", .0.id,
        .0.consumer
    )]
    EventGone(LetterKey),
    /// There is no such event.
    #[error("there is no event {0}; look for a typing mistake, or find it with `outbox event list`")]
    NoEvent(EventRef),
    /// No event near the time in the version 7 UUID has it.
    #[error(
        "no event with event_id {0} was created within a day of the time in it; search the whole table with --full"
    )]
    NoEventByTime(Uuid),
    /// The name is not enough.
    #[error("several events have event_id {event_id}: {ids:?}; name one by its id")]
    Ambiguous {
        /// What they have in common.
        event_id: Uuid,
        /// Their ids, at most ten.
        ids: Vec<i64>,
    },
}

/// What can be done about a letter that somebody has decided about.
fn since(state: LetterState) -> &'static str {
    match state {
        LetterState::Dead => "ask again",
        LetterState::Replay => "its owner delivers it soon; `outbox why` tells what it waits for",
        LetterState::Replayed => "it was delivered; there is nothing more to do",
        LetterState::Discarded => "it was given up; to have it delivered, reset the consumer to it",
        LetterState::Reset => "the consumer was set back to before it, and gets it anew",
    }
}

/// A length of time for people, in its two largest units.
///
/// ```
/// use outbox_relay::operate::span;
/// use std::time::Duration;
///
/// assert_eq!(span(Duration::from_secs(3 * 3600 + 125)), "3 h 2 min");
/// assert_eq!(span(Duration::from_millis(1_400)), "1 s");
/// ```
#[must_use]
pub fn span(length: Duration) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let mut rest = length.as_secs();
    let mut parts = Vec::new();
    for (unit, size) in UNITS {
        if rest >= size && parts.len() < 2 {
            parts.push(format!("{} {unit}", rest / size));
        } else if !parts.is_empty() {
            break;
        }
        rest %= size;
    }
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

impl OperateError {
    /// Whether what was named is not there, or is not as it must be: asking again changes nothing. Anything else is a
    /// trouble of the database.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::NoLetter(_)
                | Self::NotDead { .. }
                | Self::Acknowledged(_)
                | Self::EventGone(_)
                | Self::NoEvent(_)
                | Self::NoEventByTime(_)
                | Self::Ambiguous { .. }
        )
    }

    fn of<DB: Backend>(error: SessionError) -> Self {
        match error {
            SessionError::Deadline(limit) => Self::Deadline(limit),
            SessionError::Database(error) if DB::fault(&error) == Fault::NotMigrated => {
                Self::NotMigrated(error)
            }
            SessionError::Database(source) => match advice::<DB>(&source) {
                Some(advice) => Self::Refused { advice, source },
                None => Self::Database(source),
            },
        }
    }
}
