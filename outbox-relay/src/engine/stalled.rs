//! The side road of an engine: lanes that wait, and events that came late.

use std::time::{Duration, Instant};

use outbox_sdk::backend::{DueStall, LanePage, LaneRead, StallRead};
use outbox_sdk::injection::crash_point;
use outbox_sdk::{Backend, Lane};

use super::{Engine, Stop, lane_of};
use crate::session::{SessionError, within};

/// How many stalled lanes are read in one cycle.
const LANES_PER_CYCLE: usize = 64;
/// How many alarms are looked at in one cycle.
const WAKES_PER_CYCLE: usize = 512;
/// How many events of a resumed lane are in memory at once: a long lane must not fill the window.
const LANE_PAGE: u32 = 64;
/// How many events that wait alone are read with one statement.
const SINGLES: usize = 64;
/// How long to wait before asking again about a lane that the database does not know as due.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl<DB: Backend> Engine<DB> {
    /// Reads the stall rows that the claim has left over; nothing else is done before all are there. The write at the
    /// end makes sure that they are as at the claim: whoever else writes stall rows changes the fence.
    pub(super) async fn read_stalls(&mut self) -> Result<(), Stop> {
        if self.more_stalls.is_none() {
            return Ok(());
        }
        while let Some(after) = &self.more_stalls {
            let mut conn = self.session.connect().await?;
            let read = StallRead {
                consumer: self.consumer.spec.name.as_str(),
                slot: self.slot_number,
                slots: self.consumer.spec.slots,
                after,
            };
            let page = within(self.settings.deadline, DB::stalls(&mut conn, &self.tables, &read)).await?;
            self.session.keep(conn);
            self.slot.stalled(&page.stalls, Instant::now()).map_err(Stop::Stall)?;
            if page.more.is_some() && self.must_settle() {
                self.settle(false).await?;
            }
            if page.more.is_none() {
                while !self.settle(false).await? {}
            }
            self.more_stalls = page.more;
        }
        Ok(())
    }

    /// Asks the database which of the lanes that should be due are.
    pub(super) async fn wake(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        for (lane, delay) in self.slot.take_parked() {
            self.wakes.at(now + delay, lane);
        }
        if self.schemas_changed.has_changed().unwrap_or(false) {
            self.schemas_changed.mark_unchanged();
            self.slot.look_for_schemas();
        }
        let mut asked = self.wakes.take(now, WAKES_PER_CYCLE, |lane| self.slot.waits(lane));
        let dead_after = self.settings.missing_schema.dead_after();
        asked.retain(|lane| {
            let Some(since) = self.slot.schema_missing_since(lane) else { return true };
            let later = if now < since + dead_after { self.looks.later(now) } else { None };
            later.is_none_or(|time| {
                self.wakes.at(time, lane.clone());
                false
            })
        });
        if asked.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = asked.iter().map(Lane::key).collect();
        let answer = self.due_stalls(&keys).await;
        let due = answer.as_deref().unwrap_or_default();
        for (lane, key) in asked.into_iter().zip(keys) {
            match due.iter().find(|stall| stall.lane == key).map(|stall| stall.due_in) {
                Some(left) if left.is_zero() => self.slot.due(&lane),
                left => self.wakes.at(now + left.unwrap_or(ASK_AGAIN), lane),
            }
        }
        answer.map(|_| ())
    }

    async fn due_stalls(&mut self, keys: &[String]) -> Result<Vec<DueStall>, Stop> {
        let mut conn = self.session.connect().await?;
        let name = self.consumer.spec.name.as_str();
        let due = within(self.settings.deadline, DB::due_stalls(&mut conn, &self.tables, name, keys)).await?;
        self.session.keep(conn);
        Ok(due)
    }

    /// Reads due lanes by index, from their heads to the high-water mark.
    pub(super) async fn resume(&mut self) -> Result<(), Stop> {
        for _ in 0..LANES_PER_CYCLE {
            // No more lanes than can be sent soon: lanes that fail again and again must not crowd out the others.
            let room = self.consumer.spec.max_in_flight.saturating_sub(self.slot.resumed_ready());
            if room == 0 || !self.has_room() || self.is_renewal_due() {
                return Ok(());
            }
            let singles = self.slot.next_singles(room.min(SINGLES));
            if !singles.is_empty() {
                self.read_singles(&singles).await?;
                continue;
            }
            let Some((lane, from)) = self.slot.next_resume() else { return Ok(()) };
            match self.read_lane(&lane, from).await {
                Ok(page) => {
                    crash_point("lane_read");
                    self.reader.appetite.fed();
                    let (consumer, slot) = (&self.consumer, self.slot_number);
                    self.slot.resumed(&lane, page, |event| lane_of(consumer, slot, event).is_some());
                }
                Err(error) => {
                    self.slot.resume_failed(&lane);
                    let name = self.consumer.spec.name.as_str();
                    return Err(self.reader.failed::<DB>(error, name).into());
                }
            }
        }
        Ok(())
    }

    /// Reads due events that wait alone, with one statement.
    async fn read_singles(&mut self, ids: &[i64]) -> Result<(), Stop> {
        let name = self.consumer.spec.name.as_str();
        let ranges: Vec<_> = ids.iter().map(|&id| (id, id.saturating_add(1))).collect();
        let batch = match self.reader.rows(&mut self.session, &ranges, ids.len(), name).await {
            Ok(batch) => batch,
            Err(error) => {
                for &id in ids {
                    self.slot.resume_failed(&Lane::Single(id));
                }
                return Err(error.into());
            }
        };
        crash_point("lane_read");
        // Behind a full page nothing was asked for.
        let through = match batch.events.last() {
            Some(last) if batch.full => last.envelope.id,
            _ => i64::MAX,
        };
        let (consumer, slot) = (&self.consumer, self.slot_number);
        let mut events = batch.events.into_iter().peekable();
        for &id in ids {
            let lane = Lane::Single(id);
            if id > through {
                self.slot.resume_failed(&lane);
                continue;
            }
            let events = events.next_if(|stored| stored.envelope.id == id).into_iter().collect();
            let page = LanePage { events, full: false };
            self.slot.resumed(&lane, page, |event| lane_of(consumer, slot, event).is_some());
        }
        Ok(())
    }

    /// One page; of a suspected row without its payload, unless the payload comes after all.
    async fn read_lane(&mut self, lane: &Lane, from: i64) -> Result<LanePage, SessionError> {
        let mut conn = self.session.connect().await?;
        let deadline = self.settings.deadline;
        let read = self.lane_read(lane, from);
        let mut bare = None;
        if self.reader.appetite.suspects() {
            let read = LaneRead { without_payloads: true, ..read };
            bare = Some(within(deadline, DB::read_lane(&mut conn, &self.tables, &read)).await?);
        }
        match (within(deadline, DB::read_lane(&mut conn, &self.tables, &read)).await, bare) {
            (Ok(page), _) => {
                self.session.keep(conn);
                Ok(page)
            }
            (Err(error), Some(bare)) if error.blames_answer::<DB>() => Ok(bare),
            (Err(error), _) => Err(error),
        }
    }

    pub(super) fn lane_read<'a>(&self, lane: &'a Lane, from: i64) -> LaneRead<'a> {
        LaneRead {
            lane,
            from,
            through: self.slot.hwm(),
            limit: self.reader.appetite.rows().min(LANE_PAGE),
            max_bytes: self.settings.read_bytes,
            max_payload_bytes: self.settings.read_bytes,
            without_payloads: false,
        }
    }
}
