//! How much one read asks for. A row that the server cannot print, or not in time, fails the whole read; so a failed read
//! asks for less, down to one row. If that row alone keeps failing, it is suspected: the engine reads it without its
//! payload, and gives the payload one more chance right after that. Pure.

/// How often one row alone may fail before it is suspected.
const PATIENCE: u32 = 3;
/// By how much a failed read asks for less.
const SHRINK: u32 = 8;

/// How many rows to ask for.
#[derive(Debug)]
pub(crate) struct Appetite {
    most: u32,
    rows: u32,
    /// Failures in a row of one row alone.
    alone: u32,
}

impl Appetite {
    /// As much as is allowed.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, rows: most, alone: 0 }
    }

    /// How many rows to ask for now.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Whether the next row is suspected. A server that was slow for a while is not the row's fault: that is why the
    /// payload gets another chance once the server has answered without it.
    pub(crate) fn suspects(&self) -> bool {
        self.alone >= PATIENCE
    }

    /// A read came back.
    pub(crate) fn fed(&mut self) {
        self.rows = self.rows.saturating_mul(2).min(self.most);
        self.alone = 0;
    }

    /// A read failed because of what it asked for, or was too slow.
    pub(crate) fn spoiled(&mut self) {
        if self.rows > 1 {
            self.rows = (self.rows / SHRINK).max(1);
        } else {
            self.alone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_cannot_be_printed_ends_alone_and_suspected() {
        let mut appetite = Appetite::new(500);
        for rows in [500, 62, 7, 1, 1, 1] {
            assert_eq!((appetite.rows(), appetite.suspects()), (rows, false));
            appetite.spoiled();
        }
        assert_eq!((appetite.rows(), appetite.suspects()), (1, true));
        for rows in [2, 4, 8, 16, 32, 64, 128, 256, 500, 500] {
            appetite.fed();
            assert_eq!((appetite.rows(), appetite.suspects()), (rows, false));
        }
    }
}
