//! Near the head, one read serves every engine of a relay.
//!
//! An engine that has caught up asks for a seat ([`SharedRead::ask`]). It gets one between two reads, when its cursor
//! stands where the shared one stands and everything that it misses is missing there too: else an event that the shared
//! read has passed would never come to it. From then on it reads nothing itself and takes every page in order. It leaves
//! by dropping its seat, or by not keeping up: then it takes what it was given and reads for itself from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use outbox_sdk::{Backend, Tables};
use tokio::sync::{mpsc, watch};

use crate::chain::chain;
use crate::company::FreeSlots;
use crate::reader::{ReadError, Reader, Wish};
use crate::relay::Settings;
use crate::retry::Backoff;
use crate::session::Session;
use crate::slot::{Admission, Cursor, Page, Place};
use crate::telemetry;

/// How many pages an engine may be behind before it loses its seat. They are shared, so all engines together hold no
/// more than these: as many bytes as one consumer's window.
const PAGES: usize = 8;
/// How many reads may pass before an engine that is ahead of the shared cursor reads for itself again.
const PATIENCE: u32 = 2;
/// Instead of a high-water mark: nobody has a seat.
const NOBODY: i64 = -1;

/// How engines come to the shared read. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct SharedRead {
    asks: mpsc::UnboundedSender<Ask>,
    hwm: Arc<AtomicI64>,
    /// How far ahead an engine may be so that one read catches up with it.
    reach: i64,
}

/// An engine that wants a seat. Dropping it says no.
#[derive(Debug)]
struct Ask {
    place: Place,
    pages: mpsc::Sender<Arc<Page>>,
    /// Reads since it asked.
    reads: u32,
}

/// Where the pages of the shared read arrive. Dropping it leaves.
#[derive(Debug)]
pub(crate) struct Seat {
    pages: mpsc::Receiver<Arc<Page>>,
    next: Option<Arc<Page>>,
    served: bool,
    lost: bool,
}

/// What a seat has to say.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A page.
    Page(Arc<Page>),
    /// Nothing yet.
    Wait,
    /// Nothing more will come: there was no seat, or it is lost.
    Lost,
}

impl SharedRead {
    /// The shared read of a relay, and the task that does it. `committed` changes when something was.
    pub(crate) fn new<DB: Backend>(
        settings: &Arc<Settings>,
        tables: &Tables,
        session: Session<DB>,
        committed: watch::Receiver<()>,
        free_slots: Arc<FreeSlots>,
    ) -> (Self, SharedReader<DB>) {
        let (asks, asked) = mpsc::unbounded_channel();
        let hwm = Arc::new(AtomicI64::new(NOBODY));
        let shared = Self { asks, hwm: Arc::clone(&hwm), reach: i64::from(settings.read_rows) };
        let reader = SharedReader {
            reader: Reader::new(settings, tables, free_slots, Instant::now()),
            settings: Arc::clone(settings),
            session,
            committed,
            asked,
            hwm,
            cursor: None,
            seats: Vec::new(),
            waiting: Vec::new(),
        };
        (shared, reader)
    }

    /// Asks for a seat, unless there is no chance of one. Until a page comes or the seat turns out lost, the cursor must
    /// stay where it is.
    pub(crate) fn ask(&self, cursor: &Cursor) -> Option<Seat> {
        let shared = self.hwm.load(Ordering::Relaxed);
        if shared != NOBODY && !(0..=self.reach).contains(&(cursor.hwm() - shared)) {
            return None;
        }
        let (pages, seat) = mpsc::channel(PAGES);
        self.asks.send(Ask { place: cursor.place(), pages, reads: 0 }).ok()?;
        Some(Seat { pages: seat, next: None, served: false, lost: false })
    }
}

impl Seat {
    /// The next page, if it is there.
    pub(crate) fn turn(&mut self) -> Turn {
        let page = match self.next.take() {
            Some(page) => Ok(page),
            None => self.pages.try_recv(),
        };
        self.served |= page.is_ok();
        match page {
            Ok(page) => Turn::Page(page),
            Err(mpsc::error::TryRecvError::Empty) => Turn::Wait,
            Err(mpsc::error::TryRecvError::Disconnected) => Turn::Lost,
        }
    }

    /// Whether any page came: it was not refused.
    pub(crate) fn was_served(&self) -> bool {
        self.served
    }

    /// Waits until [`turn`](Self::turn) has something to say. Cancelling it loses nothing.
    pub(crate) async fn ready(&mut self) {
        if self.next.is_none() && !self.lost {
            self.next = self.pages.recv().await;
            self.lost = self.next.is_none();
        }
    }
}

/// Reads for all that have a seat.
pub(crate) struct SharedReader<DB: Backend> {
    reader: Reader,
    settings: Arc<Settings>,
    session: Session<DB>,
    committed: watch::Receiver<()>,
    asked: mpsc::UnboundedReceiver<Ask>,
    hwm: Arc<AtomicI64>,
    /// Where all that have a seat stand; `None` while nobody has one.
    cursor: Option<Cursor>,
    seats: Vec<mpsc::Sender<Arc<Page>>>,
    /// Engines that are ahead of the cursor: the next read ends where they stand.
    waiting: Vec<Ask>,
}

impl<DB: Backend> SharedReader<DB> {
    /// Never ends. Cancelling it loses nothing: what was not passed on is read again.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::reconnect();
        loop {
            self.seat();
            let next = self.reader.pace.next();
            let has_seats = !self.seats.is_empty();
            tokio::select! {
                Some(ask) = self.asked.recv() => {
                    self.waiting.push(ask);
                    continue;
                }
                Ok(()) = self.committed.changed(), if has_seats => {
                    self.reader.pace.poke(Instant::now());
                    continue;
                }
                () = tokio::time::sleep_until(next.into()), if has_seats => {}
                else => std::future::pending().await,
            }
            match self.read().await {
                Ok(()) if backoff.failures() > 0 => {
                    tracing::info!("the database is back");
                    backoff.succeeded();
                }
                Ok(()) => {}
                Err(ReadError::Distrust(error)) => {
                    // Each owner finds out for itself what that means for it.
                    tracing::warn!(
                        error = chain(&error),
                        "the shared read is given up: every consumer reads alone"
                    );
                    self.seats.clear();
                    self.waiting.clear();
                }
                Err(error) => {
                    let pause = backoff.failed((self.settings.random)());
                    telemetry::shared_read_failed();
                    tracing::warn!(
                        error = chain(&error),
                        retry_in = ?pause,
                        "the database is away: nothing new is read for the consumers that share a read"
                    );
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Between two reads: forgets who has left, and seats who may join.
    fn seat(&mut self) {
        self.seats.retain(|pages| !pages.is_closed());
        if self.seats.is_empty() {
            self.cursor = None;
        }
        while let Ok(ask) = self.asked.try_recv() {
            self.waiting.push(ask);
        }
        for ask in std::mem::take(&mut self.waiting) {
            if ask.pages.is_closed() {
                continue;
            }
            let cursor = self.cursor.get_or_insert_with(|| Cursor::at(&ask.place));
            match cursor.admit(&ask.place) {
                Admission::Joined => self.seats.push(ask.pages),
                Admission::Ahead if ask.reads < PATIENCE => {
                    self.reader.pace.poke(Instant::now());
                    self.waiting.push(ask);
                }
                Admission::Ahead | Admission::Refused => {}
            }
        }
        self.hwm.store(self.cursor.as_ref().map_or(NOBODY, Cursor::hwm), Ordering::Relaxed);
        telemetry::shared_read(self.seats.len());
    }

    async fn read(&mut self) -> Result<(), ReadError> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        for ask in &mut self.waiting {
            ask.reads += 1;
        }
        let wish = Wish { rows: usize::MAX, through: self.waiting.iter().map(|ask| ask.place.hwm()).min() };
        let page = self.reader.read(&mut self.session, cursor, wish, "(shared read)").await?;
        if page.is_news() {
            let page = Arc::new(page.shared());
            self.seats.retain(|seat| seat.try_send(Arc::clone(&page)).is_ok());
        }
        Ok(())
    }
}
