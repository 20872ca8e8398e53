//! The set of settled ids: a consumer's whole progress.
//!
//! Ids are settled out of order, because lanes run in parallel and transactions commit out of id order. So progress is
//! a set, kept as ranges: one range while nothing is open, a few more while something is.

use std::collections::BTreeMap;
use std::fmt;

/// A set of event ids as sorted, disjoint, half-open ranges `[from, until)`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Progress {
    ranges: BTreeMap<i64, i64>,
}

impl Progress {
    /// The empty set: a consumer that starts at the beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one id.
    pub fn insert(&mut self, id: i64) {
        self.insert_range(id, id.saturating_add(1));
    }

    /// Adds every id from `from` up to, not including, `until`. An empty range adds nothing.
    pub fn insert_range(&mut self, from: i64, until: i64) {
        if from >= until {
            return;
        }
        let (mut from, mut until) = (from, until);
        if let Some((&before, &end)) = self.ranges.range(..=from).next_back()
            && end >= from
        {
            from = before;
            until = until.max(end);
        }
        while let Some((&next, &end)) = self.ranges.range(from..=until).next() {
            self.ranges.remove(&next);
            until = until.max(end);
        }
        self.ranges.insert(from, until);
    }

    /// Takes out one id.
    pub fn remove(&mut self, id: i64) {
        self.remove_range(id, id.saturating_add(1));
    }

    /// Takes out every id from `from` up to, not including, `until`.
    pub fn remove_range(&mut self, from: i64, until: i64) {
        if from >= until {
            return;
        }
        if let Some((&before, &end)) = self.ranges.range(..from).next_back()
            && end > from
        {
            self.ranges.insert(before, from);
            if end > until {
                self.ranges.insert(until, end);
            }
        }
        while let Some((&next, &end)) = self.ranges.range(from..until).next() {
            self.ranges.remove(&next);
            if end > until {
                self.ranges.insert(until, end);
            }
        }
    }

    /// Adds every id of `other`.
    pub fn union(&mut self, other: &Self) {
        for (from, until) in other.ranges() {
            self.insert_range(from, until);
        }
    }

    /// The ids that both sets hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::new();
        let (mut mine, mut theirs) = (self.ranges().peekable(), other.ranges().peekable());
        while let (Some(&(from, until)), Some(&(other_from, other_until))) = (mine.peek(), theirs.peek()) {
            both.insert_range(from.max(other_from), until.min(other_until));
            if until <= other_until {
                mine.next();
            } else {
                theirs.next();
            }
        }
        both
    }

    /// The ids of this set that `other` does not hold.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (from, until) in other.ranges() {
            left.remove_range(from, until);
        }
        left
    }

    /// The ids of this set from `id` on.
    #[must_use]
    pub fn from(&self, id: i64) -> Self {
        let mut above = self.clone();
        above.remove_range(i64::MIN, id);
        above
    }

    /// The lowest `number` ids of this set.
    #[must_use]
    pub fn first(&self, number: u64) -> Self {
        let mut first = Self::new();
        let mut left = i64::try_from(number).unwrap_or(i64::MAX);
        for (from, until) in self.ranges() {
            if left == 0 {
                break;
            }
            let end = until.min(from.saturating_add(left));
            first.insert_range(from, end);
            left -= end - from;
        }
        first
    }

    /// Whether the set holds `id`.
    #[must_use]
    pub fn contains(&self, id: i64) -> bool {
        self.ranges.range(..=id).next_back().is_some_and(|(_, &end)| id < end)
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first id above every id of the set; 1 for the empty set, since ids start there.
    #[must_use]
    pub fn upper(&self) -> i64 {
        self.ranges.last_key_value().map_or(1, |(_, &end)| end)
    }

    /// The ranges in rising order, each as `(from, until)`, `until` excluded.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (i64, i64)> + '_ {
        self.ranges.iter().map(|(&from, &until)| (from, until))
    }

    /// How many ranges the set has: what it costs to store.
    #[must_use]
    pub fn len_ranges(&self) -> usize {
        self.ranges.len()
    }

    /// The ranges of ids from 1 up to [`upper`](Self::upper) that the set does not hold.
    pub fn holes(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let mut next = 1;
        self.ranges().filter_map(move |(from, until)| {
            let hole = (next, from);
            next = until;
            (hole.0 < hole.1).then_some(hole)
        })
    }

    /// Keeps the newest `limit` ranges and forgets the older ones.
    pub fn keep_newest(&mut self, limit: usize) {
        while self.ranges.len() > limit {
            self.ranges.pop_first();
        }
    }

    /// The text of PostgreSQL's `int8multirange`: `{[1,5),[7,8)}`.
    #[must_use]
    pub fn to_multirange(&self) -> String {
        use fmt::Write as _;
        let mut text = String::with_capacity(2 + self.ranges.len() * 16);
        text.push('{');
        for (index, (from, until)) in self.ranges().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(text, "{comma}[{from},{until})");
        }
        text.push('}');
        text
    }

    /// Reads the text of PostgreSQL's `int8multirange`, in the canonical form that the server prints.
    ///
    /// # Errors
    /// [`ProgressError`] when the text is anything else.
    pub fn from_multirange(text: &str) -> Result<Self, ProgressError> {
        let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or(ProgressError)?;
        let mut progress = Self::new();
        let mut rest = inner;
        while !rest.is_empty() {
            let (range, after) = rest.split_once(')').ok_or(ProgressError)?;
            let (from, until) =
                range.strip_prefix('[').and_then(|r| r.split_once(',')).ok_or(ProgressError)?;
            let from = from.parse().map_err(|_| ProgressError)?;
            let until = until.parse().map_err(|_| ProgressError)?;
            progress.insert_range(from, until);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        Ok(progress)
    }

    /// The set as JSON, as SQLite keeps it: `[[1,5],[7,8]]`, the second number of a pair excluded.
    #[must_use]
    pub fn to_json(&self) -> String {
        let pairs: Vec<[i64; 2]> = self.ranges().map(|(from, until)| [from, until]).collect();
        serde_json::Value::from(pairs.iter().map(|p| serde_json::Value::from(p.to_vec())).collect::<Vec<_>>())
            .to_string()
    }

    /// Reads the JSON form of [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// [`ProgressError`] when the text is anything else.
    pub fn from_json(text: &str) -> Result<Self, ProgressError> {
        let pairs: Vec<[i64; 2]> = serde_json::from_str(text).map_err(|_| ProgressError)?;
        let mut progress = Self::new();
        for [from, until] in pairs {
            progress.insert_range(from, until);
        }
        Ok(progress)
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_multirange())
    }
}

impl FromIterator<i64> for Progress {
    fn from_iter<I: IntoIterator<Item = i64>>(ids: I) -> Self {
        let mut progress = Self::new();
        for id in ids {
            progress.insert(id);
        }
        progress
    }
}

/// A stored set of settled ids that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the stored set of settled ids is not a list of ranges; restore the consumer's row from a backup or reset it"
)]
pub struct ProgressError;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(i64, i64)]) -> Progress {
        let mut progress = Progress::new();
        for &(from, until) in ranges {
            progress.insert_range(from, until);
        }
        progress
    }

    #[test]
    fn neighbours_merge_and_overlaps_too() {
        assert_eq!(set(&[(1, 3), (3, 5)]).to_multirange(), "{[1,5)}");
        assert_eq!(set(&[(1, 3), (5, 7), (2, 6)]).to_multirange(), "{[1,7)}");
        assert_eq!(set(&[(5, 7), (1, 3), (9, 10), (1, 20)]).to_multirange(), "{[1,20)}");
        assert_eq!(set(&[(4, 4), (9, 2)]), Progress::new());
    }

    #[test]
    fn taking_out_splits() {
        let mut progress = set(&[(1, 10)]);
        progress.remove(5);
        assert_eq!(progress.to_multirange(), "{[1,5),[6,10)}");
        progress.remove_range(4, 8);
        assert_eq!(progress.to_multirange(), "{[1,4),[8,10)}");
        progress.remove_range(0, 100);
        assert!(progress.is_empty());
    }

    #[test]
    fn a_difference_keeps_what_the_other_lacks() {
        let (all, some) = (set(&[(1, 10), (20, 30)]), set(&[(0, 2), (5, 6), (9, 25)]));
        assert_eq!(all.difference(&some).to_multirange(), "{[2,5),[6,9),[25,30)}");
        assert!(all.difference(&all).is_empty());
        assert_eq!(all.difference(&Progress::new()), all);
    }

    #[test]
    fn holes_and_upper() {
        let progress = set(&[(3, 5), (8, 9)]);
        assert_eq!(progress.holes().collect::<Vec<_>>(), [(1, 3), (5, 8)]);
        assert_eq!(progress.upper(), 9);
        assert_eq!(Progress::new().upper(), 1);
    }

    #[test]
    fn both_text_forms_come_back() {
        let progress = set(&[(1, 5), (7, 8), (100, 1000)]);
        assert_eq!(Progress::from_multirange(&progress.to_multirange()), Ok(progress.clone()));
        assert_eq!(Progress::from_json(&progress.to_json()), Ok(progress));
        assert_eq!(Progress::from_multirange("{}"), Ok(Progress::new()));
        assert_eq!(Progress::from_json("[]"), Ok(Progress::new()));
        for bad in ["", "[1,2)", "{[1,2]}", "{[a,2)}", "{[1;2)}"] {
            assert_eq!(Progress::from_multirange(bad), Err(ProgressError), "{bad}");
        }
    }

    #[test]
    fn agrees_with_a_plain_set() {
        // A small linear congruential sequence: the same steps in each run.
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % below).unwrap()
        };
        let mut progress = Progress::new();
        let mut plain = std::collections::BTreeSet::new();
        for _ in 0..5_000 {
            let from = next(60) + 1;
            let until = from + next(6);
            if next(3) == 0 {
                progress.remove_range(from, until);
                plain.retain(|id| !(from..until).contains(id));
            } else {
                progress.insert_range(from, until);
                plain.extend(from..until);
            }
            assert!((1..70).all(|id| progress.contains(id) == plain.contains(&id)));
            let runs = plain.iter().filter(|id| !plain.contains(&(**id - 1))).count();
            assert_eq!(progress.len_ranges(), runs, "ranges stay merged");
        }
    }

    #[test]
    fn sets_of_two_sets() {
        let one = set(&[(1, 5), (7, 9), (12, 20)]);
        let other = set(&[(3, 8), (12, 13), (15, 30)]);
        assert_eq!(one.intersection(&other), set(&[(3, 5), (7, 8), (12, 13), (15, 20)]));
        assert_eq!(other.intersection(&one), one.intersection(&other));
        assert_eq!(one.difference(&other), set(&[(1, 3), (8, 9), (13, 15)]));
        assert_eq!(one.intersection(&Progress::new()), Progress::new());
        assert_eq!(one.difference(&Progress::new()), one);
        let ids = |set: &Progress| (0..40).filter(|id| set.contains(*id)).collect::<Vec<i64>>();
        for id in 0..25 {
            let above: Vec<_> = ids(&one).into_iter().filter(|own| *own >= id).collect();
            assert_eq!(ids(&one.from(id)), above);
            let lowest: Vec<_> = ids(&one).into_iter().take(usize::try_from(id).unwrap()).collect();
            assert_eq!(ids(&one.first(id.unsigned_abs())), lowest);
        }
    }
}
