//! A destination that is down, or that fails whatever it is sent: the consumer pauses, once per step of the outage, and
//! then probes with one event at a time. Pure: time and randomness come in.
//!
//! Two things open it. `Unavailable` does so at once: the destination was not reached, and any answer shows that it is
//! up. Ten failures in a row on at least three lanes do too, whatever their status. But failing lanes may also stand in
//! front of others that would succeed, and those must not wait for minutes. So this kind of opening probes lanes that
//! are drawn at random, up to twenty of them after each pause, one at a time; one that hangs holds up the next for a
//! second; and the pause stays below ten seconds. A destination that fails for all is asked twice a second; where a
//! tenth of the lanes would succeed, twenty probes find one of them nearly always, wherever they stand.
//! `slot/tests/outage.rs` has the figures.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use outbox_sdk::Lane;

use crate::attempt::clip;
use crate::retry::Backoff;
use crate::sink::Outcome;

/// The longest pause that a destination's own wish can ask for.
const MAX_AFTER: Duration = Duration::from_secs(3600);
/// The failures in a row after which a longer count changes nothing any more: the pause has its full length.
const FULL_FAILURES: u32 = 16;
/// So many failures in a row ..
const FAILURES: u32 = 10;
/// .. on so many lanes: one or two lanes that fail are those lanes' own trouble.
const LANES: usize = 3;
/// A round of probes ends after so many failures.
const ROUND_PROBES: u32 = 20;
/// A probe that has not been answered for so long no longer holds up the next one.
const PATIENCE: Duration = Duration::from_secs(1);
/// The first pause, which doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Why a consumer pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The destination was not reached: the events were not tried.
    Unavailable,
    /// It failed, event after event: those attempts are counted.
    Failing,
}

impl Cause {
    /// A backoff that has seen so many openings.
    fn backoff(self, openings: u32) -> Backoff {
        let longest = match self {
            Self::Unavailable => Duration::from_secs(60),
            Self::Failing => Duration::from_secs(10),
        };
        let mut backoff = Backoff::new(FIRST_PAUSE, longest);
        for _ in 0..openings.min(FULL_FAILURES) {
            backoff.failed(0.0);
        }
        backoff
    }
}

/// An attempt that a destination has answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered<'a> {
    /// The lane of the event.
    pub(crate) lane: &'a Lane,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// The answer.
    pub(crate) outcome: &'a Outcome,
}

/// Whether a consumer's destination is taken to be up.
#[derive(Debug)]
pub(crate) struct Breaker {
    /// Counts the openings in a row; none = the destination is taken to be up.
    backoff: Backoff,
    cause: Cause,
    open_until: Option<Instant>,
    /// When it last opened: what was sent before tells nothing new.
    opened: Option<Instant>,
    /// Failures since the last success.
    run: Run,
    /// Probes since the last pause that failed.
    probes_failed: u32,
    /// When the last probe went.
    probed: Option<Instant>,
    unwritten: Option<Change>,
}

#[derive(Debug, Default)]
struct Run {
    failures: u32,
    lanes: HashSet<Lane>,
}

/// What the next transaction writes of the pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// How long from now on; zero = the destination is up again.
    pub(crate) length: Duration,
    /// Openings in a row.
    pub(crate) failures: u32,
    /// Why, for people.
    pub(crate) reason: Option<String>,
    /// Why.
    pub(crate) cause: Cause,
}

impl Breaker {
    /// As the last owner left it: paused for this long from now on, after this many openings in a row. Their cause is not
    /// stored; the next answer tells it.
    pub(crate) fn claimed(paused_for: Option<Duration>, failures: u32, now: Instant) -> Self {
        Self {
            backoff: Cause::Unavailable.backoff(failures),
            cause: Cause::Unavailable,
            open_until: paused_for.map(|left| now + left),
            opened: None,
            run: Run::default(),
            probes_failed: 0,
            probed: None,
            unwritten: None,
        }
    }

    /// Takes in what the destination answered. Returns what changed, if anything did.
    pub(crate) fn note(&mut self, answer: Answered<'_>, now: Instant, random: f64) -> Option<&Change> {
        // Those that were in flight when it opened tell nothing new, unless they succeed.
        let old = self.open_until.is_some() || self.opened.is_some_and(|opened| answer.sent < opened);
        match answer.outcome {
            Outcome::Delivered => {
                self.run = Run::default();
                self.close()
            }
            _ if old => None,
            // It was reached. The pause until somebody resumes the consumer is not the breaker's.
            Outcome::Gone { .. } if self.is_probing() && self.cause == Cause::Unavailable => self.close(),
            Outcome::Gone { .. } => None,
            Outcome::Unavailable { error, after } => {
                Some(self.open(Cause::Unavailable, error, *after, now, random))
            }
            Outcome::Retry { error, .. } | Outcome::Reject { error } => {
                self.run.failures = self.run.failures.saturating_add(1);
                // More than these are not needed to tell.
                if self.run.lanes.len() < FAILURES as usize {
                    self.run.lanes.insert(answer.lane.clone());
                }
                match (self.is_probing(), self.cause) {
                    // It can be reached.
                    (true, Cause::Unavailable) => self.close(),
                    (true, Cause::Failing) => {
                        self.probes_failed += 1;
                        (self.probes_failed >= ROUND_PROBES)
                            .then(|| self.open(Cause::Failing, error, None, now, random))
                    }
                    (false, _) => (self.run.failures >= FAILURES && self.run.lanes.len() >= LANES)
                        .then(|| self.open(Cause::Failing, error, None, now, random)),
                }
            }
        }
    }

    fn open(
        &mut self,
        cause: Cause,
        error: &str,
        after: Option<Duration>,
        now: Instant,
        random: f64,
    ) -> &Change {
        if self.cause != cause {
            self.cause = cause;
            self.backoff = cause.backoff(self.backoff.failures());
        }
        let own = self.backoff.failed(random);
        let length = after.map_or(own, |wish| wish.clamp(own, MAX_AFTER));
        self.opened = Some(now);
        self.open_until = Some(now + length);
        self.probes_failed = 0;
        let reason = match cause {
            Cause::Unavailable => clip(error),
            Cause::Failing => {
                let Run { failures, lanes } = &self.run;
                let or_more = if lanes.len() < FAILURES as usize { "" } else { " or more" };
                clip(&format!(
                    "{failures} failures in a row on {}{or_more} lanes; last: {error}",
                    lanes.len()
                ))
            }
        };
        let failures = self.backoff.failures();
        self.unwritten.insert(Change { length, failures, reason: Some(reason), cause })
    }

    fn close(&mut self) -> Option<&Change> {
        if self.backoff.failures() == 0 {
            return None;
        }
        self.backoff.succeeded();
        self.open_until = None;
        let cause = self.cause;
        Some(self.unwritten.insert(Change { length: Duration::ZERO, failures: 0, reason: None, cause }))
    }

    /// It is `now`: a pause may have ended.
    pub(crate) fn look(&mut self, now: Instant) {
        self.open_until.take_if(|until| *until <= now);
    }

    /// How many more events may go to the destination, where `most` may be on their way and `in_flight` are. `now` is the
    /// time of the last [`look`](Self::look).
    pub(crate) fn room(&self, most: usize, in_flight: usize, now: Instant) -> usize {
        let room = most.saturating_sub(in_flight);
        if self.open_until.is_some() {
            return 0;
        }
        if !self.is_probing() {
            return room;
        }
        let patient = in_flight > 0 && self.patience_ends().is_none_or(|end| now < end);
        if patient { 0 } else { room.min(1) }
    }

    /// A probe has gone.
    pub(crate) fn probed(&mut self, now: Instant) {
        self.probed = Some(now);
    }

    /// When the probe that is on its way no longer holds up the next. One that tries to connect does so to its end: as
    /// long as that takes, nothing is known of the others.
    fn patience_ends(&self) -> Option<Instant> {
        let last = self.probed.or(self.opened)?;
        (self.cause == Cause::Failing).then_some(last + PATIENCE)
    }

    /// When [`room`](Self::room) next grows by itself: later than `now`, the time of the last [`look`](Self::look). Room
    /// that is not there although its time has come waits for an answer.
    pub(crate) fn next_room(&self, now: Instant) -> Option<Instant> {
        let grows = self.open_until.or_else(|| self.patience_ends().filter(|_| self.is_probing()));
        grows.filter(|time| *time > now)
    }

    /// Whether what is sent now shows if the destination is up again.
    pub(crate) fn is_probing(&self) -> bool {
        self.open_until.is_none() && self.backoff.failures() > 0
    }

    /// Until when nothing is sent, if the destination is down.
    pub(crate) fn open_until(&self) -> Option<Instant> {
        self.open_until
    }

    /// What the next transaction must write.
    pub(crate) fn unwritten(&self) -> Option<&Change> {
        self.unwritten.as_ref()
    }

    /// It is written; the database says how long the pause lasts, which an operator may have changed.
    pub(crate) fn written(&mut self, paused_for: Option<Duration>, now: Instant) {
        self.unwritten = None;
        self.open_until = paused_for.map(|left| now + left);
    }

    /// It is written, but nobody said how long the pause lasts.
    pub(crate) fn written_blindly(&mut self) {
        self.unwritten = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn down(after: Option<Duration>) -> Outcome {
        Outcome::Unavailable { error: "connection refused".into(), after }
    }

    fn failed() -> Outcome {
        Outcome::Retry { error: "status 500".into(), after: None }
    }

    fn room(breaker: &mut Breaker, most: usize, in_flight: usize, now: Instant) -> usize {
        breaker.look(now);
        breaker.room(most, in_flight, now)
    }

    /// The answer to an event of lane `lane` that was sent at `sent`, taken in at once.
    fn answer(breaker: &mut Breaker, lane: i64, outcome: &Outcome, sent: Instant) -> Option<Change> {
        answer_late(breaker, lane, outcome, sent, sent)
    }

    fn answer_late(
        breaker: &mut Breaker,
        lane: i64,
        outcome: &Outcome,
        sent: Instant,
        now: Instant,
    ) -> Option<Change> {
        breaker.note(Answered { lane: &Lane::Single(lane), sent, outcome }, now, 0.0).cloned()
    }

    /// A breaker that ten failures on ten lanes have opened, and the change that this was.
    fn opened_by_failures(now: Instant) -> (Breaker, Change) {
        let mut breaker = Breaker::claimed(None, 0, now);
        let changes: Vec<_> =
            (1..=10).filter_map(|lane| answer(&mut breaker, lane, &failed(), now)).collect();
        let [change] = changes.as_slice() else { panic!("{changes:?}") };
        (breaker, change.clone())
    }

    #[test]
    fn an_outage_counts_once_per_step_and_ends_with_a_probe() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(None, 0, now);
        assert_eq!(room(&mut breaker, 32, 0, now), 32);
        assert_eq!(answer(&mut breaker, 1, &down(None), now).unwrap().length, SECOND);
        for lane in 0..31 {
            assert_eq!(answer(&mut breaker, lane, &down(None), now), None, "in flight when it went down");
        }
        assert_eq!(room(&mut breaker, 32, 0, now), 0);
        assert_eq!(room(&mut breaker, 32, 0, now + SECOND), 1, "one probe");
        let again = answer(&mut breaker, 1, &down(None), now + SECOND).unwrap();
        assert_eq!((again.length, again.failures), (2 * SECOND, 2));
        assert_eq!(room(&mut breaker, 32, 0, now + 3 * SECOND), 1);
        let up = answer(&mut breaker, 1, &Outcome::Delivered, now + 3 * SECOND).unwrap();
        assert_eq!((up.length, up.failures), (Duration::ZERO, 0));
        assert_eq!(room(&mut breaker, 32, 0, now + 3 * SECOND), 32);
        assert_eq!(answer(&mut breaker, 1, &Outcome::Delivered, now), None);
    }

    #[test]
    fn any_answer_means_that_it_can_be_reached() {
        let now = Instant::now();
        for outcome in
            [failed(), Outcome::Reject { error: "422".into() }, Outcome::Gone { error: "410".into() }]
        {
            let mut breaker = Breaker::claimed(Some(SECOND), 3, now);
            assert_eq!(room(&mut breaker, 32, 0, now + SECOND), 1);
            assert_eq!(answer(&mut breaker, 1, &outcome, now + SECOND).unwrap().length, Duration::ZERO);
            assert_eq!((breaker.open_until(), room(&mut breaker, 32, 0, now)), (None, 32));
        }
    }

    #[test]
    fn a_wish_counts_between_the_own_pause_and_an_hour() {
        let now = Instant::now();
        for (wish, expected) in [(0, 1), (30, 30), (100_000, 3600)] {
            let mut breaker = Breaker::claimed(None, 0, now);
            let outcome = down(Some(Duration::from_secs(wish)));
            assert_eq!(answer(&mut breaker, 1, &outcome, now).unwrap().length.as_secs(), expected);
        }
    }

    #[test]
    fn an_owner_goes_on_where_the_last_one_was_and_the_database_has_the_last_word() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(Some(SECOND), u32::MAX, now);
        assert_eq!(room(&mut breaker, 32, 0, now), 0);
        breaker.written(None, now);
        assert_eq!(room(&mut breaker, 32, 0, now), 1, "no pause, but it has not answered yet");
        assert_eq!(answer(&mut breaker, 1, &down(None), now).unwrap().length.as_secs(), 60);
        breaker.written(Some(5 * SECOND), now);
        assert_eq!((room(&mut breaker, 32, 0, now + 4 * SECOND), breaker.unwritten()), (0, None));
    }

    #[test]
    fn ten_failures_in_a_row_on_three_lanes_open_it_and_say_so() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(None, 0, now);
        for failures in 1..=9 {
            assert_eq!(answer(&mut breaker, failures % 4, &failed(), now), None);
            assert_eq!(room(&mut breaker, 32, 0, now), 32);
        }
        let rejected = Outcome::Reject { error: "status 422".into() };
        let change = answer(&mut breaker, 1, &rejected, now).unwrap();
        assert_eq!((change.length, change.failures, change.cause), (SECOND, 1, Cause::Failing));
        assert_eq!(change.reason.as_deref(), Some("10 failures in a row on 4 lanes; last: status 422"));
        assert_eq!(room(&mut breaker, 32, 0, now), 0);
    }

    #[test]
    fn two_lanes_or_a_success_between_do_not_open_it() {
        let now = Instant::now();
        let mut breaker = Breaker::claimed(None, 0, now);
        for failures in 0..1_000 {
            assert_eq!(answer(&mut breaker, failures % 2, &failed(), now), None);
        }
        assert!(answer(&mut breaker, 2, &failed(), now).is_some(), "the third lane");

        let mut breaker = Breaker::claimed(None, 0, now);
        for failures in 0..1_000 {
            if failures % 9 == 0 {
                assert_eq!(answer(&mut breaker, -1, &Outcome::Delivered, now), None);
            }
            assert_eq!(answer(&mut breaker, failures, &failed(), now), None);
        }
    }

    #[test]
    fn a_round_has_twenty_fast_probes_and_each_that_fails_makes_the_pause_longer() {
        let start = Instant::now();
        let (mut breaker, change) = opened_by_failures(start);
        let mut now = start + change.length;
        for expected in [2, 4, 8, 10, 10] {
            for probe in 1..20 {
                assert_eq!(room(&mut breaker, 32, 0, now), 1);
                assert_eq!(answer(&mut breaker, probe, &failed(), now), None, "probe {probe}");
            }
            let change = answer(&mut breaker, 20, &failed(), now).unwrap();
            assert_eq!(change.length.as_secs(), expected);
            assert_eq!(room(&mut breaker, 32, 0, now), 0);
            now += change.length;
        }
        assert_eq!(room(&mut breaker, 32, 0, now), 1);
        let up = answer(&mut breaker, 1, &Outcome::Delivered, now).unwrap();
        assert_eq!((up.length, up.reason), (Duration::ZERO, None));
        assert_eq!(room(&mut breaker, 32, 0, now), 32);
        let (again, first) = (answer(&mut breaker, 1, &failed(), now), room(&mut breaker, 32, 0, now));
        assert_eq!((again, first), (None, 32), "the count begins anew");
    }

    #[test]
    fn a_probe_that_is_not_answered_holds_up_the_next_for_a_second() {
        let start = Instant::now();
        let (mut breaker, _) = opened_by_failures(start);
        let sent = start + SECOND;
        assert_eq!(room(&mut breaker, 32, 0, sent), 1);
        breaker.probed(sent);
        assert_eq!(room(&mut breaker, 32, 1, sent + SECOND / 2), 0);
        assert_eq!(breaker.next_room(sent + SECOND / 2), Some(sent + SECOND));
        assert_eq!(room(&mut breaker, 32, 1, sent + SECOND), 1);
        assert_eq!(room(&mut breaker, 1, 1, sent + SECOND), 0, "not above the consumer's own limit");

        let mut breaker = Breaker::claimed(None, 1, start);
        assert_eq!(room(&mut breaker, 32, 0, start), 1);
        breaker.probed(start);
        assert_eq!(
            room(&mut breaker, 32, 1, start + 60 * SECOND),
            0,
            "one that cannot be reached is asked once"
        );
    }

    #[test]
    fn what_was_in_flight_when_it_opened_counts_only_as_a_success() {
        let start = Instant::now();
        let (mut breaker, _) = opened_by_failures(start + SECOND);
        let now = start + 2 * SECOND;
        assert_eq!(room(&mut breaker, 32, 0, now), 1);
        for lane in 0..22 {
            assert_eq!(answer_late(&mut breaker, lane, &failed(), start, now), None);
            assert_eq!(answer_late(&mut breaker, lane, &down(None), start, now), None);
        }
        assert_eq!(room(&mut breaker, 32, 0, now), 1);
        assert!(answer_late(&mut breaker, 1, &Outcome::Delivered, start, now).is_some());
        assert_eq!(room(&mut breaker, 32, 0, now), 32);
    }

    #[test]
    fn a_probe_that_does_not_get_through_makes_it_an_outage() {
        let start = Instant::now();
        let (mut breaker, _) = opened_by_failures(start);
        let mut now = start;
        for expected in [2, 4, 8, 16, 32, 60] {
            now += 60 * SECOND;
            assert_eq!(room(&mut breaker, 32, 0, now), 1);
            let change = answer(&mut breaker, 1, &down(None), now).unwrap();
            assert_eq!((change.length.as_secs(), change.cause), (expected, Cause::Unavailable));
        }
    }
}
