//! Pure: when it is the schema that is wrong, and not the payloads.
//!
//! One wrong file would make a dead letter of every event of its type. So once many events in a row violate a schema, and
//! none between them was valid, the schema itself is in doubt: further ones wait.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many events in a row that violate a schema are at fault themselves.
pub(crate) const IN_A_ROW: usize = 20;

/// Events in a row that violate their schema, by event type and major, for one set of schemas.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    rows: Mutex<HashMap<String, Vec<Row>>>,
    /// How many rows there are: valid payloads, which are nearly all, need no lock while there is none.
    count: AtomicUsize,
}

#[derive(Debug, Clone)]
struct Row {
    major: u32,
    /// Ids, at most [`IN_A_ROW`]: each consumer may come with the same event, and all must hear the same.
    events: Vec<i64>,
    /// Another event came after so many.
    in_doubt: bool,
}

/// Whose fault a violation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The payload's.
    Payload,
    /// The schema's, as far as one can tell; `news` when nobody was told yet.
    Schema { news: bool },
}

impl Doubts {
    /// A payload was valid: true if its schema was in doubt until now.
    pub(crate) fn valid(&self, event_type: &str, major: u32) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut rows = self.lock();
        let Some(majors) = rows.get_mut(event_type) else { return false };
        let Some(at) = majors.iter().position(|row| row.major == major) else { return false };
        let row = majors.swap_remove(at);
        self.count.fetch_sub(1, Ordering::Relaxed);
        row.in_doubt
    }

    /// The event `id` violates its schema.
    pub(crate) fn violated(&self, event_type: &str, major: u32, id: i64) -> Fault {
        let mut rows = self.lock();
        let majors = match rows.get_mut(event_type) {
            Some(majors) => majors,
            None => rows.entry(event_type.to_owned()).or_default(),
        };
        let Some(row) = majors.iter_mut().find(|row| row.major == major) else {
            majors.push(Row { major, events: vec![id], in_doubt: false });
            self.count.fetch_add(1, Ordering::Relaxed);
            return Fault::Payload;
        };
        if row.events.contains(&id) {
            return Fault::Payload;
        }
        if row.events.len() < IN_A_ROW {
            row.events.push(id);
            return Fault::Payload;
        }
        let news = !row.in_doubt;
        row.in_doubt = true;
        Fault::Schema { news }
    }

    /// What is known of schemas that were loaded again as they were: `same` says of a type and major whether they were.
    pub(crate) fn of_the_same(&self, same: impl Fn(&str, u32) -> bool) -> Self {
        let kept = Self::default();
        let mut rows = kept.lock();
        for (event_type, majors) in self.lock().iter() {
            let majors: Vec<Row> = majors.iter().filter(|row| same(event_type, row.major)).cloned().collect();
            if !majors.is_empty() {
                kept.count.fetch_add(majors.len(), Ordering::Relaxed);
                rows.insert(event_type.clone(), majors);
            }
        }
        drop(rows);
        kept
    }

    /// How many schemas are in doubt.
    pub(crate) fn in_doubt(&self) -> usize {
        self.lock().values().flatten().filter(|row| row.in_doubt).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Row>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEWS: Fault = Fault::Schema { news: true };
    const KNOWN: Fault = Fault::Schema { news: false };

    fn twenty(doubts: &Doubts) {
        for id in 1..=20 {
            assert_eq!(doubts.violated("a.changed", 1, id), Fault::Payload);
        }
    }

    #[test]
    fn twenty_in_a_row_are_at_fault_and_then_it_is_the_schema() {
        let doubts = Doubts::default();
        twenty(&doubts);
        assert_eq!(doubts.in_doubt(), 0);
        assert_eq!(doubts.violated("a.changed", 1, 21), NEWS);
        assert_eq!(doubts.violated("a.changed", 1, 22), KNOWN);
        assert_eq!(doubts.violated("a.changed", 1, 21), KNOWN, "it came again");
        assert_eq!(doubts.in_doubt(), 1);
        assert_eq!(doubts.violated("a.changed", 2, 23), Fault::Payload, "each major has its own row");
        assert_eq!(doubts.violated("b.changed", 1, 24), Fault::Payload, "and each type");
    }

    #[test]
    fn an_event_counts_once_whoever_comes_with_it() {
        let doubts = Doubts::default();
        for _consumer in 0..3 {
            twenty(&doubts);
        }
        assert_eq!(doubts.violated("a.changed", 1, 21), NEWS);
        assert_eq!(doubts.violated("a.changed", 1, 20), Fault::Payload, "as the other consumers were told");
    }

    #[test]
    fn schemas_that_did_not_change_stay_in_doubt() {
        let doubts = Doubts::default();
        twenty(&doubts);
        assert_eq!(doubts.violated("a.changed", 1, 21), NEWS);
        let other = doubts.of_the_same(|event_type, major| (event_type, major) != ("a.changed", 1));
        assert_eq!((other.in_doubt(), other.violated("a.changed", 1, 21)), (0, Fault::Payload));
        let same = doubts.of_the_same(|_, _| true);
        assert_eq!((same.in_doubt(), same.violated("a.changed", 1, 22)), (1, KNOWN));
        assert!(same.valid("a.changed", 1));
    }

    #[test]
    fn a_valid_payload_ends_the_row() {
        let doubts = Doubts::default();
        assert!(!doubts.valid("a.changed", 1));
        twenty(&doubts);
        assert!(!doubts.valid("a.changed", 2), "of another major");
        assert!(!doubts.valid("a.changed", 1), "which was in no doubt yet");
        twenty(&doubts);
        assert_eq!(doubts.violated("a.changed", 1, 21), NEWS);
        assert!(doubts.valid("a.changed", 1));
        assert_eq!((doubts.in_doubt(), doubts.violated("a.changed", 1, 22)), (0, Fault::Payload));
    }
}
