//! How large a batch is, so that it ends soon: it locks rows, holds up changes of consumers, and keeps gaps open.

use std::time::Duration;

/// How long a batch may take.
const LONGEST: Duration = Duration::from_millis(200);
/// A slow batch does not make the next one smaller than this: then it is not the rows that take so long.
const FEW: u32 = 100;
/// Below this the next one may be larger.
const SHORT: Duration = Duration::from_millis(50);

/// The size of the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchSize {
    rows: u32,
    most: u32,
}

impl BatchSize {
    /// Begins with `rows`, and never takes more than `most`.
    pub(super) const fn new(rows: u32, most: u32) -> Self {
        Self { rows, most }
    }

    pub(super) const fn rows(self) -> u32 {
        self.rows
    }

    /// A batch of this size has ended after `took`.
    pub(super) fn took(&mut self, took: Duration) {
        if took > LONGEST {
            self.rows = (self.rows / 2).max(FEW).min(self.rows);
        } else if took < SHORT {
            self.rows = self.rows.saturating_mul(2).min(self.most);
        }
    }

    /// A batch of this size was stopped. `false`: none could be smaller.
    pub(super) fn stopped(&mut self) -> bool {
        let smaller = self.rows > 1;
        self.rows = (self.rows / 4).max(1);
        smaller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_ones_shrink_it_and_quick_ones_let_it_grow() {
        let mut size = BatchSize::new(500, 1_000);
        size.took(LONGEST + SHORT);
        assert_eq!(size.rows(), 250);
        size.took(LONGEST);
        size.took(SHORT);
        assert_eq!(size.rows(), 250, "that is how long it may take");
        for grown in [500, 1_000, 1_000] {
            size.took(Duration::ZERO);
            assert_eq!(size.rows(), grown);
        }
        for _ in 0..20 {
            size.took(Duration::MAX);
        }
        assert_eq!(size.rows(), FEW);
    }

    #[test]
    fn a_stopped_one_is_tried_smaller_until_it_is_a_single_row() {
        let mut size = BatchSize::new(1_000, 1_000);
        let mut sizes = Vec::new();
        while size.stopped() {
            sizes.push(size.rows());
        }
        assert_eq!(sizes, [250, 62, 15, 3, 1]);
        size.took(Duration::MAX);
        assert_eq!(size.rows(), 1, "slow, but it ended");
    }
}
