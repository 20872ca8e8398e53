//! What operators have decided and the owner of a slot must carry out: dead letters that go again, and blocked lanes
//! whose dead heads were discarded. A read's notices say that there is something.

use std::time::{Duration, Instant};

use outbox_sdk::backend::{Batch, Notices, ReplayPage, ReplayRead, ReplayRequest};
use outbox_sdk::{Backend, Lane};

use super::{Engine, Stop, lane_of};
use crate::session::within;

/// How many dead letters go again at most in each [`ROUND`], and are in memory for it: a mass replay must not crowd out
/// what is new.
const REPLAYS: usize = 100;
const ROUND: Duration = Duration::from_secs(1);

/// How far the decisions were carried out.
#[derive(Debug)]
pub(super) struct Decisions {
    /// There is something to look for.
    noticed: bool,
    /// Letters up to this one were looked at in this pass.
    after: i64,
    /// Not before.
    next: Instant,
}

impl Decisions {
    pub(super) fn new(now: Instant) -> Self {
        Self { noticed: false, after: 0, next: now }
    }

    /// Takes in what a read has said.
    pub(super) fn note(&mut self, notices: &Notices, consumer: &str) {
        self.noticed |= notices.replays.iter().any(|name| name == consumer);
    }

    /// When to look, if there is something.
    pub(super) fn next(&self) -> Option<Instant> {
        self.noticed.then_some(self.next)
    }
}

impl<DB: Backend> Engine<DB> {
    /// Looks for decisions and hands them to the slot.
    pub(super) async fn carry_out(&mut self) -> Result<(), Stop> {
        let now = Instant::now();
        if self.decisions.next().is_none_or(|next| next > now) {
            return Ok(());
        }
        self.go_on_behind_discarded().await?;
        let room = REPLAYS.saturating_sub(self.slot.replaying());
        if room > 0 && self.has_room() {
            self.take_replays(room).await?;
        }
        self.decisions.next = now + ROUND;
        Ok(())
    }

    async fn go_on_behind_discarded(&mut self) -> Result<(), Stop> {
        let mut conn = self.session.connect().await?;
        let name = self.consumer.spec.name.as_str();
        let heads =
            within(self.settings.deadline, DB::discarded_heads(&mut conn, &self.tables, name)).await?;
        self.session.keep(conn);
        for head in heads {
            // A lane of another slot is not known here.
            if let Some(lane) = Lane::parse(&head.lane) {
                self.slot.discarded(&lane, head.head_id);
            }
        }
        Ok(())
    }

    /// The next letters by id; behind the last one the pass ends, and a later notice begins another.
    async fn take_replays(&mut self, room: usize) -> Result<(), Stop> {
        let limit = u32::try_from(room).unwrap_or(u32::MAX).min(self.reader.appetite.rows());
        let mut conn = self.session.connect().await?;
        let name = self.consumer.spec.name.as_str();
        let read = ReplayRead {
            consumer: name,
            slot: self.slot_number,
            slots: self.consumer.spec.slots,
            after: self.decisions.after,
            limit,
        };
        let page = DB::replay_requests(&mut conn, &self.tables, &read);
        let ReplayPage { requests, more: mut after } = within(self.settings.deadline, page).await?;
        self.session.keep(conn);
        let new: Vec<ReplayRequest> =
            requests.into_iter().filter(|request| !self.slot.is_replaying(request.event_id)).collect();
        if !new.is_empty() {
            let ids: Vec<_> = new.iter().map(|it| (it.event_id, it.event_id.saturating_add(1))).collect();
            let batch = self.reader.rows(&mut self.session, &ids, ids.len(), name).await?;
            // Behind a full page nothing was asked for.
            let through = match batch.events.last() {
                Some(last) if batch.full => last.envelope.id,
                _ => i64::MAX,
            };
            if new.last().is_some_and(|last| last.event_id > through) {
                after = Some(through);
            }
            self.hand_over(&new, batch, through);
        }
        self.decisions.noticed = after.is_some();
        self.decisions.after = after.unwrap_or(0);
        Ok(())
    }

    fn hand_over(&mut self, requests: &[ReplayRequest], batch: Batch, through: i64) {
        let mut events = batch.events.into_iter().peekable();
        for request in requests.iter().take_while(|request| request.event_id <= through) {
            let id = request.event_id;
            let Some(stored) = events.next_if(|stored| stored.envelope.id == id) else {
                let error =
                    "the event is gone, so it cannot go again: it was deleted; acknowledge the dead letter";
                self.slot.refuse_replay(id, error.to_owned());
                continue;
            };
            match lane_of(&self.consumer, self.slot_number, &stored) {
                Some(lane) => self.slot.replay(lane, stored, request.attempts),
                None => self.slot.refuse_replay(
                    id,
                    format!(
                        "the consumer does not want `{}` any more, so it cannot go again; change its events, or discard \
                         the dead letter",
                        stored.envelope.event_type
                    ),
                ),
            }
        }
    }
}
