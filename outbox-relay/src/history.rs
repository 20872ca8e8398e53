//! The attempt history: notes how deliveries ended that did not go well at once, beside the engines. It is for people:
//! when the database cannot keep up or is away, notes are dropped, and delivery goes on.

use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::backend::{AttemptOutcome, NewAttempt};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::attempt::{Consumer, clip};
use crate::chain::chain;
use crate::session::{Session, within};
use crate::sink::{Answer, Outcome};
use crate::slot::Send;

/// How many notes may wait; beyond them they are dropped.
const WAITING: usize = 10_000;
/// How many notes one statement carries at most, and how long the first one waits for company.
const BATCH: usize = 500;
const COMPANY: Duration = Duration::from_millis(200);
/// How many characters of an error are kept for each attempt.
const MAX_ERROR_CHARS: usize = 500;

/// Where attempts are noted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// `None`: no history is kept.
    notes: Option<mpsc::Sender<Note>>,
}

/// An attempt that has ended.
#[derive(Debug)]
struct Note {
    attempt: NewAttempt,
    ended: Instant,
}

impl History {
    /// A history that keeps so many attempts of each event and consumer, and the task that writes it: it ends when every
    /// clone of the history is gone and all notes are written. `None` and a history of nothing for zero.
    pub(crate) fn new<DB: Backend>(keep: u32, session: Session<DB>) -> (Self, Option<Writer<DB>>) {
        if keep == 0 {
            return (Self::default(), None);
        }
        let (notes, noted) = mpsc::channel(WAITING);
        (Self { notes: Some(notes) }, Some(Writer { keep, session, noted, complained: false }))
    }

    /// Notes how an attempt ended; one that went well at once is not worth a note. Never waits.
    pub(crate) fn note(
        &self,
        consumer: &Consumer,
        send: &Send,
        outcome: &Outcome,
        answer: &Answer,
        took: Duration,
    ) {
        let Some(notes) = &self.notes else { return };
        let (outcome, error) = match outcome {
            Outcome::Delivered if send.attempts == 0 && !send.replay => return,
            Outcome::Delivered => (AttemptOutcome::Delivered, None),
            Outcome::Retry { error, .. } => (AttemptOutcome::Failed, Some(error)),
            Outcome::Reject { error } => (AttemptOutcome::Rejected, Some(error)),
            Outcome::Unavailable { error, .. } => (AttemptOutcome::Unavailable, Some(error)),
            Outcome::Gone { error } => (AttemptOutcome::Gone, Some(error)),
        };
        let attempt = NewAttempt {
            event_id: send.event.envelope.id,
            consumer: consumer.spec.name.to_string(),
            attempt: send.attempts.saturating_add(1),
            replay: send.replay,
            outcome,
            status: answer.status(),
            error: error.map(|error| clip(error).chars().take(MAX_ERROR_CHARS).collect()),
            ended_ago: Duration::ZERO,
            duration: took,
        };
        // Full: the database is slow or away, and the log tells of that.
        let _ = notes.try_send(Note { attempt, ended: Instant::now() });
    }
}

/// Writes the notes of a relay.
pub(crate) struct Writer<DB: Backend> {
    keep: u32,
    session: Session<DB>,
    noted: mpsc::Receiver<Note>,
    complained: bool,
}

impl<DB: Backend> Writer<DB> {
    /// Writes until every [`History`] is gone.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(first) = self.noted.recv().await {
            batch.push(first);
            // Whoever ends does not wait for company.
            let _ = timeout(COMPANY, async {
                while batch.len() < BATCH {
                    match self.noted.recv().await {
                        Some(note) => batch.push(note),
                        None => break,
                    }
                }
            })
            .await;
            self.write(&mut batch).await;
        }
    }

    async fn write(&mut self, batch: &mut Vec<Note>) {
        let attempts: Vec<_> = batch
            .drain(..)
            .map(|Note { attempt, ended }| NewAttempt { ended_ago: ended.elapsed(), ..attempt })
            .collect();
        let written = async {
            let mut conn = self.session.connect().await?;
            let (tables, deadline) = (self.session.tables(), self.session.deadline());
            within(deadline, DB::note_attempts(&mut conn, tables, &attempts, self.keep)).await?;
            self.session.keep(conn);
            Ok::<_, crate::session::SessionError>(())
        };
        match written.await {
            Ok(()) => self.complained = false,
            Err(error) => {
                if !self.complained {
                    self.complained = true;
                    tracing::warn!(
                        attempts = attempts.len(),
                        error = chain(&error),
                        "attempts are missing in the history that `outbox why` shows; delivery goes on. If the database \
                         refuses, run `outbox migrate`, or set `[relay] attempt_history = 0`"
                    );
                }
                sleep(COMPANY).await;
            }
        }
    }
}
