//! An engine at the shared read: asking for a seat, taking its pages, leaving.

use std::time::Instant;

use outbox_sdk::Backend;

use super::{Engine, Stop};
use crate::shared_read::Turn;

impl<DB: Backend> Engine<DB> {
    /// Takes in what the shared read has brought. False: this engine reads for itself now.
    pub(super) fn follow(&mut self) -> Result<bool, Stop> {
        if self.seat.is_none() && self.near_head && self.has_room() {
            // Once after each read of its own: after a refusal the next one has to show the head again.
            self.near_head = false;
            self.seat = self.company.shared.as_ref().and_then(|shared| shared.ask(self.slot.cursor()));
        }
        while let Some(seat) = &mut self.seat {
            let page = match seat.turn() {
                Turn::Wait => return Ok(true),
                Turn::Page(page) if self.has_room_for(page.arrivals.len()) => {
                    self.slot.cursor_mut().follow(&page)
                }
                // Without room nothing is taken; what is left is read again when there is.
                Turn::Page(_) | Turn::Lost => None,
            };
            match page {
                Some(page) => self.take_in(page)?,
                None => self.leave(),
            }
        }
        Ok(false)
    }

    /// Gives up the seat: from here on this engine reads for itself.
    pub(super) fn leave(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        // Who got no page was refused and has just read: without news, reading again at once would be refused again.
        if seat.was_served() || self.poked {
            self.reader.pace.poke(Instant::now());
        }
        self.poked = false;
    }
}
