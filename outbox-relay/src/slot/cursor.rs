//! How far the ids were read: the high-water mark, the row there, and the ids below it that are missing. Turns what the
//! database returned into a page: what is new, and which missing ids will never come.
//!
//! A cursor reads for itself ([`Cursor::read`]), or goes on with the pages of another one that stands where it stands
//! ([`Cursor::admit`], [`Cursor::follow`]).

use std::sync::Arc;

use outbox_sdk::Progress;
use outbox_sdk::backend::{Batch, Holders, Notices, StoredEvent};
use outbox_sdk::injection::planted;
use uuid::Uuid;

use super::gaps::Gaps;
use crate::schemas::Checked;

/// Why nothing that an owner remembers can be trusted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Distrust {
    /// The server does not accept writes: what it shows may be old.
    #[error("the server is a standby; waiting for the primary")]
    Standby,
    /// The row at the high-water mark is gone or another: the server lost commits or was restored.
    #[error(
        "the event at the high-water mark is gone: the server lost commits or was restored; reading again from what is settled"
    )]
    AnchorGone,
    /// The ids were started again below those that were read.
    #[error("the ids of the event table were started again: the table was truncated or restored")]
    IdsRestarted,
    /// A row has an id that the sequence did not draw: it will draw it once more, and what comes below is passed.
    #[error(
        "an event has an id above the last one that the sequence drew: rows were copied in, or written with ids of their own; \
         nothing is sent until the sequence (outbox.event_id_seq, on SQLite the row of sqlite_sequence) is set above every id"
    )]
    AboveSequence,
    /// Row security hides events: what is hidden would be taken for rolled back.
    #[error("row security now hides events from the relay's role")]
    Hidden,
}

/// How far the ids were read.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// The high-water mark: every id at or below it was read, is settled, or is missing.
    hwm: i64,
    /// The row at the high-water mark, once a row was read.
    anchor: Option<(i64, Uuid)>,
    gaps: Gaps,
}

/// What one read came to.
#[derive(Debug)]
pub(crate) struct Page {
    /// The high-water mark before the read.
    pub(crate) above: i64,
    /// What is new, by rising id.
    pub(crate) arrivals: Vec<Arrival>,
    /// Ids that will never come, as ranges `[from, until)` in rising order: their transactions rolled back.
    pub(crate) dead: Vec<(i64, i64)>,
    /// The row at the high-water mark was read once and is not there any more. Harmless only to a slot whose row holds
    /// the id as settled: retention may delete such events.
    pub(crate) anchor_missing: bool,
    /// There may be more behind the last one.
    pub(crate) full: bool,
    /// What somebody has to attend to beside the events.
    pub(crate) notices: Notices,
}

impl Page {
    /// Whether it says anything at all.
    pub(crate) fn is_news(&self) -> bool {
        let events = !self.arrivals.is_empty() || !self.dead.is_empty();
        events || self.anchor_missing || self.notices != Notices::default()
    }

    /// For several consumers: an event that one of them has validated is valid for all.
    pub(crate) fn shared(mut self) -> Self {
        for arrival in &mut self.arrivals {
            arrival.checked = Some(Arc::default());
        }
        self
    }
}

/// An event that is new to its reader.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) stored: StoredEvent,
    /// It came below the high-water mark: a later event of its lane may have gone before.
    pub(crate) filled_gap: bool,
    /// What its validation came to, if several consumers share it.
    pub(crate) checked: Option<Arc<Checked>>,
}

/// Where a cursor stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    hwm: i64,
    pub(super) anchor: Option<(i64, Uuid)>,
    /// What it misses, as ranges `[from, until)`.
    pub(super) gaps: Vec<(i64, i64)>,
}

impl Place {
    pub(crate) fn hwm(&self) -> i64 {
        self.hwm
    }
}

/// Whether who stands at a place can go on with a cursor's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// From its next page on.
    Joined,
    /// Not before the cursor has come as far.
    Ahead,
    /// No: some event would never come to it.
    Refused,
}

impl Cursor {
    /// At the upper end of what is settled; every hole below may still be filled.
    pub(crate) fn behind(settled: &Progress) -> Self {
        let mut gaps = Gaps::default();
        for (from, until) in settled.holes() {
            gaps.open(from, until);
        }
        Self { hwm: settled.upper() - 1, anchor: None, gaps }
    }

    /// At the place of another one. Who holds its missing ids must be asked anew.
    pub(crate) fn at(place: &Place) -> Self {
        let mut gaps = Gaps::default();
        for &(from, until) in &place.gaps {
            gaps.open(from, until);
        }
        Self { hwm: place.hwm, anchor: place.anchor, gaps }
    }

    pub(crate) fn place(&self) -> Place {
        Place { hwm: self.hwm, anchor: self.anchor, gaps: self.gaps.ranges() }
    }

    pub(crate) fn hwm(&self) -> i64 {
        self.hwm
    }

    pub(crate) fn anchor(&self) -> Option<(i64, Uuid)> {
        self.anchor
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// How many ranges of ids are missing.
    pub(crate) fn open_gaps(&self) -> usize {
        self.gaps.len()
    }

    pub(crate) fn gap_ranges(&self) -> Vec<(i64, i64)> {
        self.gaps.ranges()
    }

    /// Whether `id` is missing.
    pub(crate) fn is_missing(&self, id: i64) -> bool {
        self.gaps.contains(id)
    }

    /// Takes in what a read returned that asked for the missing ids and everything above the high-water mark. `holders`
    /// is the list taken before it (the default when nothing was missing).
    ///
    /// # Errors
    /// The server cannot be trusted; nothing was taken in.
    pub(crate) fn read(&mut self, batch: Batch, holders: &Holders) -> Result<Page, Distrust> {
        if !batch.primary {
            return Err(Distrust::Standby);
        }
        if !batch.sees_all_rows {
            return Err(Distrust::Hidden);
        }
        if batch.last_id < self.hwm {
            return Err(Distrust::IdsRestarted);
        }
        // Before anything is taken in: each new owner would send it again, and none could settle it.
        if batch.events.last().is_some_and(|stored| stored.envelope.id > batch.last_id) {
            return Err(Distrust::AboveSequence);
        }
        // Another event in the anchor's place has its id a second time.
        if let (Some((_, event_id)), Some(found)) = (self.anchor, batch.anchor)
            && found != event_id
            && !planted("memory-kept")
        {
            return Err(Distrust::AnchorGone);
        }
        // Not before: the list of a read that came to nothing may be that of another server.
        self.gaps.note(holders);
        let anchor_missing = self.anchor.is_some() && batch.anchor.is_none();
        let above = self.hwm;
        let last = batch.events.last().map_or(above, |stored| stored.envelope.id);
        for stored in batch.events.iter().take_while(|stored| stored.envelope.id <= above) {
            self.gaps.fill(stored.envelope.id);
        }
        // Behind a full batch there may be more: only what lies up to its last event was asked for.
        let asked = if batch.full && !planted("limit-judged") { last } else { i64::MAX };
        let dead = self.gaps.take_dead(holders, asked);
        for stored in &batch.events {
            self.pass(stored);
        }
        if planted("holders-before-read") {
            self.gaps.note(holders);
        }
        let arrival =
            |stored: StoredEvent| Arrival { filled_gap: stored.envelope.id <= above, stored, checked: None };
        let arrivals = batch.events.into_iter().map(arrival).collect();
        Ok(Page { above, arrivals, dead, anchor_missing, full: batch.full, notices: batch.notices })
    }

    /// Whether who stands at `place` may follow this cursor from now on, between two reads. Both must have read as far,
    /// and whatever is missing there must be missing here too: else this cursor has passed it, and will not return it.
    pub(crate) fn admit(&mut self, place: &Place) -> Admission {
        if place.hwm > self.hwm {
            return Admission::Ahead;
        }
        let same_row = match (self.anchor, place.anchor) {
            (Some(here), Some(there)) => here == there,
            _ => true,
        };
        let misses_no_more = place.gaps.iter().all(|&(from, until)| self.gaps.covers(from, until))
            || planted("join-with-holes");
        if place.hwm < self.hwm || !same_row || !misses_no_more {
            return Admission::Refused;
        }
        self.anchor = self.anchor.or(place.anchor);
        Admission::Joined
    }

    /// Goes on with a page of a cursor that has admitted this one: what was missing here too, and what is above. `None`,
    /// and nothing happens, when it is not the next one.
    pub(crate) fn follow(&mut self, page: &Page) -> Option<Page> {
        if page.above != self.hwm {
            return None;
        }
        let mut arrivals = Vec::with_capacity(page.arrivals.len());
        for arrival in &page.arrivals {
            let id = arrival.stored.envelope.id;
            if id > page.above || self.gaps.contains(id) {
                self.gaps.fill(id);
                self.pass(&arrival.stored);
                arrivals.push(arrival.clone());
            }
        }
        let dead = page.dead.iter().flat_map(|&(from, until)| self.gaps.close(from, until)).collect();
        Some(Page { arrivals, dead, notices: page.notices.clone(), ..*page })
    }

    /// Moves behind an event that has come.
    fn pass(&mut self, stored: &StoredEvent) {
        let id = stored.envelope.id;
        if id > self.hwm {
            self.gaps.open(self.hwm + 1, id);
            self.hwm = id;
            self.anchor = Some((id, stored.envelope.event_id));
        }
    }
}
