//! Dead letters: count, list, show, replay, discard, acknowledge.
//!
//! An operator only says what is to become of a letter. The owner of the consumer's slot delivers what is to be replayed,
//! and lets a blocked lane go on, in the transaction that writes the result.

use std::time::Duration;

use outbox_sdk::Backend;
use outbox_sdk::backend::{
    AgedKey, DeadLetter, Decision, EventRow, LetterCount, LetterCursor, LetterFilter, LetterKey, LetterState,
};

use super::{OperateError, Operator};

/// How long an inbox remembers an event, unless it was told otherwise: a replay of an older one may have its effect again.
pub const INBOX_HORIZON: Duration = Duration::from_secs(30 * 24 * 3600);

/// One page of dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterPage {
    /// Newest failure first.
    pub letters: Vec<DeadLetter>,
    /// Where the next page goes on; `None` on the last one.
    pub next: Option<LetterCursor>,
}

/// What deciding about one letter came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// A replay of an event that is older than an inbox remembers: the receiver may not recognize it.
    pub beyond_inbox: bool,
}

/// One step of a [`Walk`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Step {
    /// Letters that were decided about.
    pub decided: u64,
    /// Letters that somebody else had decided about meanwhile.
    pub passed_over: u64,
    /// Letters that cannot be replayed, because their event is not stored any more.
    pub gone: u64,
    /// Replayed events that are older than an inbox remembers.
    pub beyond_inbox: u64,
}

impl<DB: Backend> Operator<DB> {
    /// How many dead letters there are, by consumer, reason and state.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn dead_letter_counts(&self, filter: &LetterFilter) -> Result<Vec<LetterCount>, OperateError> {
        let mut conn = self.connect().await?;
        let counts = self.within(DB::dead_letter_counts(&mut conn, &self.tables, filter)).await?;
        conn.keep();
        Ok(counts)
    }

    /// One page of dead letters, newest failure first. A page costs the same however many letters there are; what a
    /// filter leaves out is walked over.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked.
    pub async fn dead_letters(
        &self,
        filter: &LetterFilter,
        before: Option<&LetterCursor>,
        limit: u32,
    ) -> Result<LetterPage, OperateError> {
        let mut conn = self.connect().await?;
        // One more than asked for tells whether there is a next page.
        let more = limit.saturating_add(1);
        let mut letters =
            self.within(DB::dead_letters(&mut conn, &self.tables, filter, before, more)).await?;
        conn.keep();
        let size = usize::try_from(limit).unwrap_or(usize::MAX);
        let next = if letters.len() > size {
            letters.truncate(size);
            letters.last().map(DeadLetter::cursor)
        } else {
            None
        };
        Ok(LetterPage { letters, next })
    }

    /// One dead letter and its event, if that is still stored; its payload is empty unless asked for.
    ///
    /// # Errors
    /// [`OperateError::NoLetter`], or when the database cannot be asked.
    pub async fn dead_letter(
        &self,
        key: &LetterKey,
        with_payload: bool,
    ) -> Result<(DeadLetter, Option<EventRow>), OperateError> {
        let mut conn = self.connect().await?;
        let letter = self.within(DB::dead_letters(&mut conn, &self.tables, &only(key), None, 1)).await?.pop();
        let event = self.within(DB::event(&mut conn, &self.tables, key.id, with_payload)).await?;
        conn.keep();
        letter.map(|letter| (letter, event)).ok_or_else(|| OperateError::NoLetter(key.clone()))
    }

    /// Decides about one dead letter.
    ///
    /// # Errors
    /// [`OperateError::NoLetter`], [`OperateError::NotDead`], [`OperateError::Acknowledged`] or
    /// [`OperateError::EventGone`] when there is nothing to decide, which is so the second time too; nothing was
    /// changed then. Or when the database cannot be asked.
    pub async fn decide(&self, key: &LetterKey, decision: Decision) -> Result<Decided, OperateError> {
        let mut conn = self.connect().await?;
        let age = self
            .within(DB::dead_letter_keys(&mut conn, &self.tables, &only(key), None, 1))
            .await?
            .pop()
            .ok_or_else(|| OperateError::NoLetter(key.clone()))?
            .age;
        let keys = std::slice::from_ref(key);
        let done =
            self.within(DB::decide(&mut conn, &self.tables, keys, decision, self.name.as_deref())).await?;
        if done.is_empty() {
            let now =
                self.within(DB::dead_letters(&mut conn, &self.tables, &only(key), None, 1)).await?.pop();
            conn.keep();
            return Err(refusal(key, decision, now));
        }
        conn.keep();
        Ok(Decided { beyond_inbox: decision == Decision::Replay && is_old(age) })
    }

    /// Decides about every letter that the filter finds, in the order of ids, a step at a time: see [`Walk::step`].
    #[must_use]
    pub fn decide_all(&self, mut filter: LetterFilter, decision: Decision) -> Walk<'_, DB> {
        match decision {
            Decision::Replay | Decision::Discard => filter.state = Some(LetterState::Dead),
            Decision::Acknowledge => filter.acknowledged = Some(false),
        }
        Walk { operator: self, filter, decision, after: None, at_end: false }
    }
}

/// Decides about many letters; see [`Operator::decide_all`]. Whoever gives it up midway has decided about the letters of
/// the steps so far, and may begin anew: those are not found again.
///
/// ```no_run
/// use outbox_relay::operate::Operator;
/// use outbox_sdk::backend::{Decision, LetterFilter};
/// use std::time::Duration;
///
/// # async fn replay(operator: Operator<sqlx::Postgres>) -> Result<(), Box<dyn std::error::Error>> {
/// let filter = LetterFilter { consumer: Some("crm".to_owned()), ..LetterFilter::default() };
/// let mut walk = operator.decide_all(filter, Decision::Replay);
/// while let Some(step) = walk.step(50).await? {
///     println!("{} more are to be replayed", step.decided);
///     tokio::time::sleep(Duration::from_secs(1)).await; // 50 a second
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Walk<'o, DB: Backend> {
    operator: &'o Operator<DB>,
    filter: LetterFilter,
    decision: Decision,
    after: Option<LetterKey>,
    at_end: bool,
}

impl<DB: Backend> Walk<'_, DB> {
    /// Decides about the next letters, at most `limit`; `None` when there are no more. A letter whose replay fails
    /// while the walk goes on is not met again.
    ///
    /// # Errors
    /// [`OperateError`] when the database cannot be asked; the next call goes on where this one began.
    pub async fn step(&mut self, limit: u32) -> Result<Option<Step>, OperateError> {
        if self.at_end || limit == 0 {
            return Ok(None);
        }
        let operator = self.operator;
        let (tables, name) = (&operator.tables, operator.name.as_deref());
        let mut conn = operator.connect().await?;
        let found = operator
            .within(DB::dead_letter_keys(&mut conn, tables, &self.filter, self.after.as_ref(), limit))
            .await?;
        let Some(last) = found.last() else {
            conn.keep();
            self.at_end = true;
            return Ok(None);
        };
        let replays = self.decision == Decision::Replay;
        let (gone, keys): (Vec<&AgedKey>, Vec<&AgedKey>) =
            found.iter().partition(|aged| replays && aged.age.is_none());
        let names: Vec<LetterKey> = keys.iter().map(|aged| aged.key.clone()).collect();
        let done = operator.within(DB::decide(&mut conn, tables, &names, self.decision, name)).await?;
        conn.keep();
        self.after = Some(last.key.clone());
        let old = keys.iter().filter(|aged| replays && is_old(aged.age) && done.contains(&aged.key));
        Ok(Some(Step {
            decided: count(done.len()),
            passed_over: count(names.len() - done.len()),
            gone: count(gone.len()),
            beyond_inbox: count(old.count()),
        }))
    }
}

fn only(key: &LetterKey) -> LetterFilter {
    LetterFilter { consumer: Some(key.consumer.clone()), ids: vec![key.id], ..LetterFilter::default() }
}

fn is_old(age: Option<Duration>) -> bool {
    age.is_some_and(|age| age >= INBOX_HORIZON)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Why a decision changed nothing, from the letter as it is now.
fn refusal(key: &LetterKey, decision: Decision, now: Option<DeadLetter>) -> OperateError {
    let Some(letter) = now else { return OperateError::NoLetter(key.clone()) };
    match (decision, letter.state) {
        (Decision::Acknowledge, LetterState::Dead | LetterState::Discarded) => {
            OperateError::Acknowledged(key.clone())
        }
        (Decision::Replay, LetterState::Dead) if letter.event.is_none() => {
            OperateError::EventGone(key.clone())
        }
        (_, state) => OperateError::NotDead { key: key.clone(), state },
    }
}
