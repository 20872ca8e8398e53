//! Verdicts in sentences, of which the last one says what to do. No IO.

use std::fmt::Write as _;
use std::time::Duration;

use outbox_sdk::backend::{LetterState, LetterSummary, Writer};

use super::verdict::{Hindrance, Retry, Verdict};
use crate::operate::span;

impl Hindrance {
    /// A sentence that says what to do about it.
    #[must_use]
    pub fn text(&self, consumer: &str) -> String {
        match self {
            Self::Refused(why) => format!("The relay does not run it: {}.", clean(why)),
            Self::Paused { by, length, reason } => {
                let mut text = "The consumer is paused".to_owned();
                // Writing to a String cannot fail.
                if let Some(by) = by {
                    let _ = write!(text, " by the {by}");
                }
                match length {
                    Some(length) => drop(write!(text, " for another {}", span(*length))),
                    None => text.push_str(" until it is resumed"),
                }
                if let Some(reason) = reason {
                    let _ = write!(text, " ({})", clean(reason));
                }
                let _ = write!(text, "; `outbox consumer resume {consumer}` ends that.");
                text
            }
            Self::Wanted(by) => format!(
                "`{}` asks for the slot, so that nobody may claim it; it goes on when that is done.",
                clean(by)
            ),
            Self::NoRelay => {
                "No running relay can run the consumer; start one with it in its configuration.".to_owned()
            }
            Self::OtherConfiguration(relays) => format!(
                "The relays that run ({}) have another configuration of the consumer than the newest; restart them with that \
             one.",
                relays.join(", ")
            ),
            Self::NotOwned(relays) => format!(
                "Nobody owns the slot; one of {} takes it once the last lease is over, within seconds.",
                relays.join(", ")
            ),
        }
    }
}

/// The sentences; the last one says what to do.
pub(super) fn text(consumer: &str, verdict: &Verdict, hindrances: &[Hindrance]) -> String {
    let mut text = of_verdict(consumer, verdict);
    for hindrance in hindrances {
        text.push(' ');
        text.push_str(&hindrance.text(consumer));
    }
    text
}

fn of_verdict(consumer: &str, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Delivered => "Delivered. Nothing is to be done.".to_owned(),
        Verdict::Skipped => format!(
            "Passed over: the consumer began behind it (`start`). To have it, reset the consumer to it: `outbox consumer \
             reset {consumer} --to ID --yes`."
        ),
        Verdict::NotWanted => "Passed over: no pattern of the consumer's filter matches its type. To have it, widen \
                               `events` and reset the consumer to it."
            .to_owned(),
        Verdict::OtherMajor(pinned) => format!(
            "Passed over: the consumer reads major {pinned}, which the event does not carry. To have it, change the pin \
             and reset the consumer to it."
        ),
        Verdict::Waiting => "Not settled: the owner has not read it yet, or it waits its turn, or it is being delivered. \
                             Ask again in a moment."
            .to_owned(),
        Verdict::Delayed(due_in) => {
            format!("Published to be delivered later: it is due in {}. Wait.", span(*due_in))
        }
        Verdict::Retrying(retry) => format!(
            "{} Fix the receiver; once the event is dead, `outbox dead` replays or discards it.",
            capitalized(&attempts(retry))
        ),
        Verdict::SchemaMissing { waited, next, error } => format!(
            "Waits for its schema, for {} so far; the next look {}: {}.",
            span(*waited),
            when(*next),
            error.as_deref().map_or("the registry has none for its type and major; add the file", clean)
        ),
        // Nothing has failed: the lane is long, or its head waits for something else.
        Verdict::Behind { head, retry } if retry.failed == 0 => match &retry.last_error {
            Some(error) => format!("Behind event {head} of its lane, which waits: {}.", clean(error)),
            None => format!(
                "Behind event {head} of its lane: the events of a lane go one after another. Ask again in a moment."
            ),
        },
        Verdict::Behind { head, retry } => format!(
            "Blocked by event {head} of its lane: {} Fix the receiver; once that event is dead, `outbox dead` replays or \
             discards it.",
            attempts(retry)
        ),
        Verdict::Blocked { head, letter } => match letter {
            Some(letter) if letter.state == LetterState::Dead => format!(
                "Blocked by event {head} of its lane, which is dead ({}): {}. Decide about that one: `outbox dead replay \
                 {head} --consumer {consumer}`, or discard, which is \
                 all that is left if its row is gone.",
                letter.reason,
                clean(&letter.last_error)
            ),
            _ => format!(
                "Blocked by event {head} of its lane, about which an operator has decided: the owner lets the lane go on \
                 soon. Ask again in a moment."
            ),
        },
        Verdict::Dead { letter, blocks, id } => format!(
            "Dead ({}) after {} of {} attempts: {}.{} Decide: `outbox dead replay {id} --consumer {consumer}`, or discard.",
            letter.reason,
            letter.attempts,
            letter.max_attempts,
            clean(&letter.last_error),
            if *blocks { " Its lane waits for the decision." } else { "" }
        ),
        Verdict::ReplayAsked(letter) => format!(
            "To be replayed{}: the owner delivers it once nothing of its lane is on the way. Ask again in a moment.",
            by(letter)
        ),
        Verdict::Replayed => "Delivered by a replay after it had been dead. Nothing is to be done.".to_owned(),
        Verdict::Discarded(letter) => {
            format!("Dead ({}) and discarded{}. Nothing is to be done.", letter.reason, by(letter))
        }
        Verdict::CameLate => "Taken for rolled back, and committed after all: its writer bypassed the lock. The owner's \
                              sweep delivers it; see that all writers go through the SDK or the publish function."
            .to_owned(),
        Verdict::NotCommitted { writers } => {
            let names: Vec<String> = writers.iter().map(writer).collect();
            format!(
                "Not committed: one of these transactions may still commit it: {}. Wait, or end the one that hangs.",
                names.join(", ")
            )
        }
        Verdict::RolledBack => {
            "No such event: its transaction was rolled back. Nothing is to be done.".to_owned()
        }
        Verdict::Gone => "Settled, and its row is not stored: retention deleted it, or its transaction was rolled back. \
                          Nothing is to be done."
            .to_owned(),
        Verdict::NotDrawn { last_id } => format!("No such id was drawn yet: the last one is {last_id}. Look for a typing mistake."),
        Verdict::NotRegistered => {
            "Not registered: no relay has run it yet. Start `outbox run` with its configuration.".to_owned()
        }
    }
}

/// `attempt 3 of 10 failed, the next in 4 min: 503.`
fn attempts(retry: &Retry) -> String {
    let of = retry.of.map(|of| format!(" of {of}")).unwrap_or_default();
    let error = retry.last_error.as_deref().map(|error| format!(": {}", clean(error))).unwrap_or_default();
    format!("attempt {}{of} failed, the next {}{error}.", retry.failed, when(retry.next))
}

fn when(next: Duration) -> String {
    if next.is_zero() { "is due".to_owned() } else { format!("in {}", span(next)) }
}

fn by(letter: &LetterSummary) -> String {
    letter.decided_by.as_deref().map(|by| format!(" by {}", clean(by))).unwrap_or_default()
}

fn writer(writer: &Writer) -> String {
    let who = writer.pid.map_or_else(|| "prepared".to_owned(), |pid| format!("process {pid}"));
    format!("{who} `{}` ({}, open for {})", clean(&writer.name), writer.state, span(writer.open_for))
}

/// Without what would end a sentence twice.
fn clean(text: &str) -> &str {
    text.trim_end_matches(['.', ' ', '\n'])
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
