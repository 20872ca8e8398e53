//! Failures that wait for the answer to a question: was the event overtaken?

use outbox_sdk::backend::LaneRead;
use outbox_sdk::{Backend, Lane};

use super::{Answer, Engine, Stop};
use crate::attempt::Attempted;
use crate::consumer::Want;
use crate::session::within;
use crate::sink::Outcome;
use crate::slot::{Question, Verdict};

/// How many later events of a lane are looked at with one statement, without their payloads ..
const PAGE: u32 = 5_000;
/// .. and how many statements in one cycle go to questions.
const PAGES_PER_CYCLE: usize = 16;

/// What is done with the answer.
#[derive(Debug)]
enum Then {
    /// The sink's answer is taken in.
    Take(Answer),
    /// The attempt is counted, and then made.
    Count(Lane),
}

/// An event that is in flight until it is known whether it was overtaken.
#[derive(Debug)]
pub(super) struct Open {
    question: Question,
    then: Then,
}

impl Open {
    fn lane(&self) -> &Lane {
        match &self.then {
            Then::Take(answer) => &answer.send.lane,
            Then::Count(lane) => lane,
        }
    }
}

impl<DB: Backend> Engine<DB> {
    /// Takes an answer in, or puts its question first.
    pub(super) fn take_or_ask(&mut self, answer: Answer) {
        let harmless = matches!(
            answer.attempted,
            Attempted::Sink(Outcome::Delivered | Outcome::Unavailable { .. } | Outcome::Gone { .. })
                | Attempted::Lapsed
        );
        match self.slot.question(&answer.send.lane).filter(|_| !harmless) {
            Some(question) => self.questions.push_back(Open { question, then: Then::Take(answer) }),
            None => self.take(answer, false),
        }
    }

    /// Counts the attempt at what was taken for it, or puts its question first.
    pub(super) fn count_or_ask(&mut self, lane: Lane) {
        match self.slot.question(&lane) {
            Some(question) => self.questions.push_back(Open { question, then: Then::Count(lane) }),
            None => self.slot.count(&lane, false),
        }
    }

    /// Looks for answers: a page for each question in turn, so that a long lane holds up no other.
    pub(super) async fn ask(&mut self) -> Result<(), Stop> {
        for _ in 0..PAGES_PER_CYCLE {
            let Some(mut open) = self.questions.pop_front() else { return Ok(()) };
            match self.ask_page(&mut open).await {
                Ok(None) => self.questions.push_back(open),
                Ok(Some(overtaken)) => match open.then {
                    Then::Take(answer) => self.take(answer, overtaken),
                    Then::Count(lane) => self.slot.count(&lane, overtaken),
                },
                Err(stop) => {
                    self.questions.push_front(open);
                    return Err(stop);
                }
            }
            self.renew_in_time().await?;
        }
        Ok(())
    }

    async fn ask_page(&mut self, open: &mut Open) -> Result<Option<bool>, Stop> {
        let mut conn = self.session.connect().await?;
        let read = LaneRead { limit: PAGE, ..self.lane_read(open.lane(), open.question.from) };
        let page = within(self.settings.deadline, DB::lane_ids(&mut conn, &self.tables, &read)).await?;
        self.session.keep(conn);
        let last = page.len() < PAGE as usize;
        let spec = &self.consumer.spec;
        Ok(self.slot.look_through(&mut open.question, &page, last, |entry| {
            // One that carries older majors may have been wanted for them.
            let own = spec.wants(&entry.event_type, entry.schema_version) != Want::Skip;
            own || entry.has_older && spec.events.matches(&entry.event_type)
        }))
    }

    /// No send follows any more: what was only to be counted goes back to where it was.
    pub(super) fn recall_questions(&mut self) {
        let (counts, rest) = std::mem::take(&mut self.questions)
            .into_iter()
            .partition(|open| matches!(open.then, Then::Count(_)));
        self.questions = rest;
        let counts: std::collections::VecDeque<Open> = counts;
        for open in counts {
            self.slot.answer(open.lane(), Verdict::Unavailable, false);
        }
    }
}
