//! The account that the demo gives of itself: text for people as it goes, one JSON value for programs at the end.

use std::io::{self, Write as _, stdout};
use std::path::Path;
use std::time::Duration;

use super::error::DemoError;
use super::evidence::Evidence;
use super::promises::{Promise, repeats};
use super::relay::CONFIG_FILE;
use super::{CONSUMER_FILE, DATABASE_FILE};
use crate::OutputFormat;

const WIDTH: usize = 100;

/// Prints what happens.
pub(super) struct Account {
    format: OutputFormat,
    steps: usize,
    /// The first thing that could not be printed.
    lost: Option<io::Error>,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Verdict {
    totals: Vec<Total>,
    pub(super) promises: Vec<Promise>,
}

/// A number: its name for programs, and for people.
#[derive(Debug)]
struct Total {
    key: &'static str,
    text: &'static str,
    count: usize,
}

impl Verdict {
    pub(super) fn of(evidence: &Evidence, promises: Vec<Promise>) -> Self {
        let Evidence { ledger, arrivals, .. } = evidence;
        let repeats = repeats(evidence);
        let again = repeats.after_kill + repeats.retried + repeats.unexplained;
        let total = |key, text, count| Total { key, text, count };
        let totals = vec![
            total("customers", "customers", evidence.customers.len()),
            total("transactions_committed", "transactions committed", ledger.transactions_committed),
            total(
                "transactions_rolled_back",
                "transactions rolled back on purpose",
                ledger.transactions_rolled_back,
            ),
            total("events_committed", "events committed", evidence.stored.len()),
            total(
                "events_rolled_back",
                "events rolled back with their transactions",
                ledger.rolled_back.len(),
            ),
            total("dead_letters", "dead letter, for its invalid payload", evidence.dead.len()),
            total("forged", "forged delivery, refused", evidence.refused),
            total("deliveries", "deliveries, their signatures verified", arrivals.len()),
            total("events_delivered", "of them for the first time", arrivals.len() - again),
            total("repeated_after_kill", "of them again because of the kill", repeats.after_kill),
            total("repeated_after_failed_attempt", "of them again after a failed attempt", repeats.retried),
            total("repeated_without_reason", "of them again without a reason", repeats.unexplained),
            total("effects", "effects in the consumer's database", evidence.effects.len()),
        ];
        Self { totals, promises }
    }

    /// How many promises are broken.
    pub(super) fn broken(&self) -> usize {
        self.promises.iter().filter(|promise| !promise.kept).count()
    }
}

impl Account {
    pub(super) fn new(format: OutputFormat) -> Self {
        Self { format, steps: 0, lost: None }
    }

    /// A new step: what is done, and why it matters.
    pub(super) fn step(&mut self, title: &str, text: &str) {
        self.steps += 1;
        let number = self.steps;
        self.text(&format!("\n{number}. {title}\n{}", indented(text, "   ")));
    }

    /// What came of the step.
    pub(super) fn result(&mut self, text: &str) {
        self.text(&indented(text, "   > "));
    }

    /// The end: totals and promises, and what to do next when all are kept.
    ///
    /// # Errors
    /// Something of the account could not be printed.
    pub(super) fn close(
        mut self,
        verdict: &Verdict,
        took: Duration,
        kept: Option<&Path>,
    ) -> Result<(), DemoError> {
        if self.format == OutputFormat::Json {
            let totals = verdict.totals.iter().map(|total| (total.key.to_owned(), total.count.into()));
            let value = serde_json::json!({
                "kept": verdict.broken() == 0,
                "totals": totals.collect::<serde_json::Map<_, _>>(),
                "promises": verdict.promises,
                "milliseconds": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                "folder": kept,
            });
            self.print(&value.to_string());
            return self.printed();
        }
        let mut text = String::from("\nTotals\n");
        for Total { text: what, count, .. } in &verdict.totals {
            text.push_str(&format!("   {count:>5}  {what}\n"));
        }
        text.push_str("\nPromises\n");
        for Promise { promise, kept, evidence } in &verdict.promises {
            let word = if *kept { "kept  " } else { "BROKEN" };
            text.push_str(&format!("   {word}  {promise}\n{}\n", indented(evidence, "           ")));
        }
        text.push_str(&format!("\nAll of it took {:.1} s.", took.as_secs_f32()));
        if verdict.broken() == 0 {
            text.push_str(&next(kept));
        }
        self.text(&text);
        self.printed()
    }

    fn text(&mut self, text: &str) {
        if self.format == OutputFormat::Text {
            self.print(text);
        }
    }

    /// A reader that went away, as `head` does, is no reason to stop: the exit code still tells.
    fn print(&mut self, text: &str) {
        let mut out = stdout().lock();
        match writeln!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                self.lost.get_or_insert(error);
            }
            _ => {}
        }
    }

    fn printed(self) -> Result<(), DemoError> {
        self.lost.map_or(Ok(()), |error| Err(DemoError::Print(error)))
    }
}

fn next(kept: Option<&Path>) -> String {
    let look = match kept {
        Some(folder) => format!(
            "\n\nLook at what is kept
   cd '{}'
   sqlite3 {DATABASE_FILE} 'select id, event_type, aggregate_id, audit_log_id from outbox_event limit 20'
   sqlite3 {DATABASE_FILE} 'select event_id, reason, last_error from outbox_dead_letter'
   sqlite3 {CONSUMER_FILE} 'select code, version, city, effects from customer_copy'
   {CONFIG_FILE}, schemas/, relay-1.log and relay-2.log lie beside them",
            folder.display()
        ),
        None => "\n\nTry next\n   outbox demo --keep                             keeps databases, schemas, \
                 configuration and logs"
            .to_owned(),
    };
    let own = "
   outbox migrate --database sqlite://app.db      the tables in a database of your own
   outbox run --config outbox.toml                the relay for it";
    match kept {
        Some(_) => format!("{look}\n\nTry next{own}"),
        None => format!("{look}{own}"),
    }
}

/// Breaks lines at spaces so that none is wider than [`WIDTH`]; the first line begins with `start`, the others below it.
fn indented(text: &str, start: &str) -> String {
    let room = WIDTH - start.len();
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    format!("{start}{}", lines.join(&format!("\n{}", " ".repeat(start.len()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_the_width_and_words_are_kept() {
        let text = "word ".repeat(60);
        let broken = indented(&text, "   > ");
        assert!(broken.lines().count() > 2 && broken.lines().all(|line| line.chars().count() <= WIDTH));
        assert!(broken.starts_with("   > word") && broken.contains("\n     word"));
        assert_eq!(broken.matches("word").count(), 60);
        let path = "x".repeat(150);
        assert_eq!(indented(&format!("a {path}"), ""), format!("a\n{path}"));
    }
}
