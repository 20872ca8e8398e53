//! What every command prints: aligned tables of at most 120 columns, times in UTC, and nothing that a terminal would obey.

use std::io::{self, Write as _};

use outbox_sdk::Timestamp;

use crate::OutputFormat;
use crate::exit::Failure;

/// The width that tables keep to.
const WIDTH: usize = 120;

/// The widest that a column gets, but the last one, which takes what is left.
const WIDEST: usize = 40;

/// Prints a result: its text for people, or its JSON for programs.
pub(crate) fn result(
    format: OutputFormat,
    text: impl FnOnce() -> String,
    json: impl FnOnce() -> serde_json::Value,
) -> Result<(), Failure> {
    match format {
        // Only commands that have annotations are asked for them, and those print them themselves.
        OutputFormat::Text | OutputFormat::Github => print(text().trim_end()),
        OutputFormat::Json => print(&json().to_string()),
    }
}

/// Prints lines that are complete; nothing if there are none.
pub(crate) fn lines(text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() { Ok(()) } else { print(text.trim_end()) }
}

/// Prints to standard output. Whoever closed it has seen enough.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::database(format!(
            "error: the result cannot be printed: {error}; check standard output"
        ))),
        _ => Ok(()),
    }
}

/// A remark beside the result, on standard error.
pub(crate) fn remark(text: &str) {
    // A remark that nobody can read is no reason to fail.
    let _ = writeln!(io::stderr().lock(), "{}", escaped(text));
}

/// Rows under a header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns.
    pub(crate) fn new<const N: usize>(header: [&str; N]) -> Self {
        Self { rows: vec![header.map(str::to_owned).into()] }
    }

    /// Adds a row, with as many cells as there are columns.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into_iter().map(|cell| escaped(&cell)).collect());
    }

    /// The lines. Columns are two spaces apart; numbers stand to the right.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).min(WIDEST)
        };
        let numeric = |column: usize| {
            let mut cells = self.rows.iter().skip(1).filter_map(|row| row.get(column));
            self.rows.len() > 1
                && cells.all(|cell| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit()))
        };
        let layout: Vec<(usize, bool)> =
            (0..columns).map(|column| (width(column), numeric(column))).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let used = line.chars().count();
                if column + 1 == columns && !layout[column].1 {
                    line.push_str(&cut(cell, WIDTH.saturating_sub(used)));
                    break;
                }
                let (width, right) = layout[column];
                let cell = cut(cell, width);
                if right {
                    line.push_str(&format!("{cell:>width$}  "));
                } else {
                    line.push_str(&format!("{cell:<width$}  "));
                }
            }
            text.push_str(cut(line.trim_end(), WIDTH).trim_end());
            text.push('\n');
        }
        text
    }
}

/// `name: value` lines, the values below each other.
pub(crate) fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let shown = fields.iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{name:<width$}  {}\n", escaped(value))).collect()
}

/// The text in at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// The text without control characters, and without those that turn or hide text: each as its escape.
pub(crate) fn escaped(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// RFC 3339 in UTC, to the second.
pub(crate) fn time(time: Timestamp) -> String {
    moment(time, false)
}

/// RFC 3339 in UTC, to the microsecond: for programs.
pub(crate) fn exact_time(time: Timestamp) -> String {
    moment(time, true)
}

fn moment(time: Timestamp, exact: bool) -> String {
    // 0000-01-01 and 9999-12-31T23:59:59.999999, between which RFC 3339 can write times.
    let micros = time.micros().clamp(-62_167_219_200_000_000, 253_402_300_799_999_999);
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let fraction = if exact { format!(".{fraction:06}") } else { String::new() };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Years begin in March here, so that
/// the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    const CYCLE: i64 = 146_097; // days in 400 years
    let days = days + 719_468; // from 0000-03-01
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * cycle + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_000_000, "2024-02-29T23:59:59Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (i64::MAX, "9999-12-31T23:59:59Z"),
            (i64::MIN, "0000-01-01T00:00:00Z"),
        ] {
            assert_eq!(time(Timestamp::from_micros(micros)), text);
        }
        assert_eq!(exact_time(Timestamp::from_micros(-1)), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn tables_are_aligned_and_fit() {
        let mut table = Table::new(["ID", "NAME", "ERROR"]);
        table.row(["7".to_owned(), "a".to_owned(), "short".to_owned()]);
        table.row(["1234".to_owned(), "b".repeat(60), "x".repeat(200)]);
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("   7  a{}  short", " ".repeat(39)));
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(lines[2].ends_with('…') && lines[2].contains("b…"), "{text}");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(escaped("a\u{1b}[2J\r\nb\u{202e}c\u{200b}ü"), "a\\u{1b}[2J\\r\\nb\\u{202e}c\\u{200b}ü");
    }
}
