//! How much one read asks for. A row that the server cannot print fails the whole read, so a failed read asks for less,
//! down to one row, and at last for that row without its payload: then it fails alone. Pure.

/// How often one row alone may fail before it is read without its payload: a server short of memory is not the row's
/// fault.
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

    /// Whether to ask for the row without its payload.
    pub(crate) fn without_payloads(&self) -> bool {
        self.alone >= PATIENCE
    }

    /// A read came back.
    pub(crate) fn fed(&mut self) {
        self.rows = self.rows.saturating_mul(2).min(self.most);
        self.alone = 0;
    }

    /// A read failed; `too_large` = because of what it asked for.
    pub(crate) fn spoiled(&mut self, too_large: bool) {
        if self.rows > 1 {
            self.rows = (self.rows / SHRINK).max(1);
        } else if too_large {
            self.alone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_cannot_be_printed_ends_alone_and_without_payload() {
        let mut appetite = Appetite::new(500);
        for rows in [500, 62, 7, 1, 1, 1] {
            assert_eq!((appetite.rows(), appetite.without_payloads()), (rows, false));
            appetite.spoiled(true);
        }
        assert_eq!((appetite.rows(), appetite.without_payloads()), (1, true));
        for rows in [2, 4, 8, 16, 32, 64, 128, 256, 500, 500] {
            appetite.fed();
            assert_eq!((appetite.rows(), appetite.without_payloads()), (rows, false));
        }
    }

    #[test]
    fn a_slow_server_costs_no_event_its_payload() {
        let mut appetite = Appetite::new(10);
        for _ in 0..100 {
            appetite.spoiled(false);
        }
        assert_eq!((appetite.rows(), appetite.without_payloads()), (1, false));
    }
}
