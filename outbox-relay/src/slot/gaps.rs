//! Missing ids: not yet committed, or never to be.
//!
//! An id is drawn inside an `INSERT`, after the transaction has taken a writer's lock on the event table, and the lock
//! is given up only after the row is visible. So a missing id can still come as long as one of the transactions that
//! held the lock *after* the read that showed the gap is still there. Once a later list lacks them all and a read after
//! that list still does not return the id, it was rolled back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use outbox_sdk::backend::Holders;
use outbox_sdk::injection::planted;

/// Open gaps as disjoint ranges, each with the transactions that may still fill it.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// From the first missing id.
    ranges: BTreeMap<i64, Gap>,
}

#[derive(Debug, Clone)]
struct Gap {
    /// The first id behind the gap.
    until: i64,
    /// Who held the writer's lock in the first list taken after the gap was seen; `None` until there was such a list.
    holders: Option<Arc<HashSet<String>>>,
}

impl Gaps {
    /// Opens a gap; nobody is known to hold it yet.
    pub(super) fn open(&mut self, from: i64, until: i64) {
        if from < until {
            self.ranges.insert(from, Gap { until, holders: None });
        }
    }

    /// Whether any gap is open.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges are open.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether `id` is missing.
    pub(super) fn contains(&self, id: i64) -> bool {
        self.ranges.range(..=id).next_back().is_some_and(|(_, gap)| id < gap.until)
    }

    /// Whether all of `[from, until)` is missing.
    pub(super) fn covers(&self, from: i64, until: i64) -> bool {
        let mut next = from;
        while next < until {
            match self.ranges.range(..=next).next_back() {
                Some((_, gap)) if gap.until > next => next = gap.until,
                _ => return false,
            }
        }
        true
    }

    /// The open ranges `[from, until)`, in rising order.
    pub(super) fn ranges(&self) -> Vec<(i64, i64)> {
        self.ranges.iter().map(|(&from, gap)| (from, gap.until)).collect()
    }

    /// Gives a fresh list of holders to the gaps that have none: the first list after the read that showed them.
    pub(super) fn note(&mut self, holders: &Holders) {
        let mut shared = None;
        for gap in self.ranges.values_mut().filter(|gap| gap.holders.is_none()) {
            let set = shared.get_or_insert_with(|| Arc::new(holders.transactions.iter().cloned().collect()));
            gap.holders = Some(Arc::clone(set));
        }
    }

    /// The id came: it is no gap any more.
    pub(super) fn fill(&mut self, id: i64) {
        let Some((&from, gap)) = self.ranges.range(..=id).next_back() else { return };
        if id >= gap.until {
            return;
        }
        let gap = gap.clone();
        self.ranges.remove(&from);
        if from < id {
            self.ranges.insert(from, Gap { until: id, holders: gap.holders.clone() });
        }
        if id + 1 < gap.until {
            self.ranges.insert(id + 1, gap);
        }
    }

    /// Takes out what is missing of `[from, until)`: somebody else has found that it will never come.
    pub(super) fn close(&mut self, from: i64, until: i64) -> Vec<(i64, i64)> {
        let before = self.ranges.range(..from).next_back().filter(|(_, gap)| gap.until > from);
        let first = before.map_or(from, |(&start, _)| start);
        let starts: Vec<i64> = self.ranges.range(first..until).map(|(&start, _)| start).collect();
        let mut closed = Vec::with_capacity(starts.len());
        for start in starts {
            let Some(gap) = self.ranges.remove(&start) else { continue };
            let (low, high) = (start.max(from), gap.until.min(until));
            closed.push((low, high));
            if start < low {
                self.ranges.insert(start, Gap { until: low, holders: gap.holders.clone() });
            }
            if high < gap.until {
                self.ranges.insert(high, gap);
            }
        }
        closed
    }

    /// Takes out the gaps that will never be filled, after a read that was asked for every id up to `through` and did
    /// not return them. `holders` is the list taken before that read.
    pub(super) fn take_dead(&mut self, holders: &Holders, through: i64) -> Vec<(i64, i64)> {
        if holders.prepared && !planted("prepared-ignored") {
            return Vec::new();
        }
        let mut dead = Vec::new();
        let asked: Vec<i64> = self.ranges.range(..=through).map(|(&from, _)| from).collect();
        for from in asked {
            let Some(gap) = self.ranges.get(&from) else { continue };
            let gone = gap.holders.as_ref().is_some_and(|held| {
                planted("time-expiry")
                    || holders.transactions.iter().all(|transaction| !held.contains(transaction))
            });
            if !gone {
                continue;
            }
            let until = gap.until.min(through.saturating_add(1));
            dead.push((from, until));
            if let Some(gap) = self.ranges.remove(&from)
                && until < gap.until
            {
                self.ranges.insert(until, gap);
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(transactions: &[&str]) -> Holders {
        Holders {
            transactions: transactions.iter().map(ToString::to_string).collect(),
            prepared: false,
            primary: true,
        }
    }

    const ALL: i64 = i64::MAX;

    #[test]
    fn a_gap_lives_while_a_holder_of_the_first_later_list_does() {
        let mut gaps = Gaps::default();
        gaps.open(1, 2);
        assert_eq!(gaps.take_dead(&held_by(&[]), ALL), [], "no list was taken after the gap was seen");
        gaps.note(&held_by(&["3/1", "4/7"]));
        assert_eq!(gaps.take_dead(&held_by(&["4/7"]), ALL), []);
        gaps.note(&held_by(&["9/9"]));
        assert_eq!(
            gaps.take_dead(&held_by(&["9/9"]), ALL),
            [(1, 2)],
            "who came later cannot have drawn the id"
        );
        assert!(gaps.is_empty());
    }

    #[test]
    fn no_gap_dies_while_a_prepared_transaction_holds_the_lock() {
        let mut gaps = Gaps::default();
        gaps.open(1, 2);
        gaps.note(&held_by(&["3/1"]));
        let prepared = Holders { prepared: true, ..held_by(&[]) };
        assert_eq!(gaps.take_dead(&prepared, ALL), []);
        assert_eq!(gaps.take_dead(&held_by(&[]), ALL), [(1, 2)]);
    }

    #[test]
    fn what_the_read_did_not_ask_for_is_not_judged() {
        let mut gaps = Gaps::default();
        gaps.open(1, 10);
        gaps.open(20, 30);
        gaps.note(&held_by(&[]));
        assert_eq!(gaps.take_dead(&held_by(&[]), 4), [(1, 5)]);
        assert_eq!(gaps.ranges(), [(5, 10), (20, 30)]);
    }

    #[test]
    fn closing_takes_out_the_part_that_was_missing() {
        let mut gaps = Gaps::default();
        gaps.open(1, 10);
        gaps.open(12, 14);
        gaps.open(20, 30);
        gaps.note(&held_by(&["3/1"]));
        assert_eq!(gaps.close(5, 25), [(5, 10), (12, 14), (20, 25)]);
        assert_eq!(gaps.close(5, 25), []);
        assert_eq!(gaps.close(2, 3), [(2, 3)]);
        assert_eq!(gaps.ranges(), [(1, 2), (3, 5), (25, 30)]);
        assert_eq!(gaps.take_dead(&held_by(&["3/1"]), ALL), [], "the rest keeps its holders");
    }

    #[test]
    fn a_range_is_covered_by_gaps_that_touch_each_other() {
        let mut gaps = Gaps::default();
        gaps.open(1, 5);
        gaps.open(5, 9);
        assert!(gaps.covers(1, 9) && gaps.covers(4, 6) && gaps.covers(7, 7));
        assert!(!gaps.covers(1, 10) && !gaps.covers(0, 2) && !gaps.covers(9, 10));
    }

    #[test]
    fn filling_splits_and_keeps_the_holders() {
        let mut gaps = Gaps::default();
        gaps.open(1, 6);
        gaps.note(&held_by(&["3/1"]));
        gaps.fill(3);
        gaps.fill(42);
        assert_eq!(gaps.ranges(), [(1, 3), (4, 6)]);
        assert!(gaps.contains(1) && !gaps.contains(3) && gaps.contains(5) && !gaps.contains(6));
        gaps.fill(1);
        gaps.fill(5);
        assert_eq!(gaps.ranges(), [(2, 3), (4, 5)]);
        assert_eq!(gaps.take_dead(&held_by(&["3/1"]), ALL), []);
        assert_eq!(gaps.take_dead(&held_by(&[]), ALL), [(2, 3), (4, 5)]);
    }
}
