//! How far the ids were read: the high-water mark, the row there, and the ids below it that are missing. Turns what the
//! database returned into a page: what is new, and which missing ids will never come.

use outbox_sdk::Progress;
use outbox_sdk::backend::{Batch, Holders, StoredEvent};
use uuid::Uuid;

use super::gaps::Gaps;

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
}

/// An event that is new to its reader.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) stored: StoredEvent,
    /// It came below the high-water mark: a later event of its lane may have gone before.
    pub(crate) filled_gap: bool,
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

    /// A list of holders taken before the next read.
    pub(crate) fn note_holders(&mut self, holders: &Holders) {
        self.gaps.note(holders);
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
        // Another event in the anchor's place has its id a second time.
        if let (Some((_, event_id)), Some(found)) = (self.anchor, batch.anchor)
            && found != event_id
        {
            return Err(Distrust::AnchorGone);
        }
        let anchor_missing = self.anchor.is_some() && batch.anchor.is_none();
        let above = self.hwm;
        let last = batch.events.last().map_or(above, |stored| stored.envelope.id);
        for stored in batch.events.iter().take_while(|stored| stored.envelope.id <= above) {
            self.gaps.fill(stored.envelope.id);
        }
        // Behind a full batch there may be more: only what lies up to its last event was asked for.
        let dead = self.gaps.take_dead(holders, if batch.full { last } else { i64::MAX });
        let arrivals = batch.events.into_iter().map(|stored| self.pass(stored, above)).collect();
        Ok(Page { above, arrivals, dead, anchor_missing })
    }

    /// Moves behind an event that has come.
    fn pass(&mut self, stored: StoredEvent, above: i64) -> Arrival {
        let (id, event_id) = (stored.envelope.id, stored.envelope.event_id);
        if id > self.hwm {
            self.gaps.open(self.hwm + 1, id);
            self.hwm = id;
            self.anchor = Some((id, event_id));
        }
        Arrival { stored, filled_gap: id <= above }
    }
}
