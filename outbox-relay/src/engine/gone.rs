//! A destination that takes no event any more: the consumer is paused until an operator resumes it.

use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::backend::PausedBy;

use super::{Engine, Stop};
use crate::attempt::clip;
use crate::session::within;

/// Until the next write, which tells how long the pause really is.
const UNTIL_TOLD: Duration = Duration::from_secs(24 * 3600);

/// What an engine knows of its destination's end. A process that dies before the pause is written sends one event again,
/// and hears the same.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// When it was last said: what was sent before that says nothing new, also after somebody resumed the consumer.
    since: Option<Instant>,
    unwritten: Option<String>,
}

impl Gone {
    /// The destination has answered that it is gone, to an event sent at `sent`. True = that is news.
    fn note(&mut self, error: &str, sent: Instant, now: Instant) -> bool {
        let news = self.since.is_none_or(|since| sent > since);
        if news {
            self.since = Some(now);
            self.unwritten = Some(error.to_owned());
        }
        news
    }
}

impl<DB: Backend> Engine<DB> {
    pub(super) fn note_gone(&mut self, error: &str, sent: Instant, now: Instant) {
        if self.is_held() || !self.gone.note(error, sent, now) {
            return;
        }
        let consumer = self.consumer.spec.name.as_str();
        tracing::error!(
            consumer,
            error,
            "the receiver takes no more events: the consumer is paused, no attempt is counted; once it takes them again, run \
             `outbox consumer resume {consumer}`"
        );
    }

    /// Writes the pause down, before anything else is sent.
    pub(super) async fn pause_if_gone(&mut self) -> Result<(), Stop> {
        let Some(error) = &self.gone.unwritten else { return Ok(()) };
        let consumer = self.consumer.spec.name.as_str();
        let reason = clip(&format!(
            "{error}; once the receiver takes events again, run `outbox consumer resume {consumer}`; if it never will, take the \
             consumer out of the configuration and remove it"
        ));
        let mut conn = self.session.connect().await?;
        let pause = DB::pause(&mut conn, &self.tables, consumer, None, &reason, PausedBy::Receiver);
        within(self.settings.deadline, pause).await?;
        self.session.keep(conn);
        self.gone.unwritten = None;
        self.held_until = Some(Instant::now() + UNTIL_TOLD);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_flight_when_it_was_said_says_nothing_new() {
        let (mut gone, start) = (Gone::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(gone.note("410", at(0), at(3)));
        assert!(!gone.note("410", at(2), at(9)), "sent before, answered after somebody resumed");
        assert!(gone.note("410", at(10), at(11)));
        assert_eq!(gone.unwritten.as_deref(), Some("410"));
    }
}
