//! Findings as text, as JSON and as annotations of a code review.

use std::fmt::Write as _;

use serde_json::Value;

use super::finding::{Comparison, Finding, Severity, Side};

/// One of the two documents, as reports name it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// How the file is called.
    pub name: &'a str,
    /// The file's text, if lines shall be shown.
    pub text: Option<&'a str>,
}

/// The comparison as JSON: `backward`, `forward` and `findings`.
#[must_use]
pub fn json(comparison: &Comparison) -> Value {
    serde_json::to_value(comparison).unwrap_or_default()
}

/// The comparison for people, in the manner of a compiler: what broke, where, a payload that shows it, what to do.
#[must_use]
pub fn text(comparison: &Comparison, old: Source<'_>, new: Source<'_>) -> String {
    let mut out = String::new();
    for finding in &comparison.findings {
        render(&mut out, finding, source_of(finding, old, new));
    }
    _ = writeln!(
        out,
        "{} -> {}: backward {}, forward {}",
        old.name,
        new.name,
        comparison.backward.as_str(),
        comparison.forward.as_str()
    );
    out
}

/// One line per finding that is not a note, in GitHub's form: shown in the review beside the changed file.
#[must_use]
pub fn github(comparison: &Comparison, old: Source<'_>, new: Source<'_>) -> String {
    let mut out = String::new();
    for finding in comparison.findings.iter().filter(|finding| finding.severity > Severity::Note) {
        let source = source_of(finding, old, new);
        let level = if finding.severity == Severity::Warning { "warning" } else { "error" };
        _ = write!(out, "::{level} file={}", escape(source.name, true));
        if let Some((line, _)) = source.text.and_then(|text| find(text, &finding.pointer)) {
            _ = write!(out, ",line={line}");
        }
        let mut message = format!("{}: {}", pointer_text(finding), finding.message);
        if let Some(help) = &finding.help {
            message.push_str("\n-> ");
            message.push_str(help);
        }
        _ = writeln!(out, ",title={}::{}", finding.rule.id(), escape(&message, false));
    }
    out
}

fn source_of<'a>(finding: &Finding, old: Source<'a>, new: Source<'a>) -> Source<'a> {
    match finding.side {
        Side::Old => old,
        Side::New => new,
    }
}

fn pointer_text(finding: &Finding) -> &str {
    if finding.pointer.is_empty() { "/" } else { &finding.pointer }
}

fn render(out: &mut String, finding: &Finding, source: Source<'_>) {
    let level = match finding.severity {
        Severity::Breaking => "error",
        Severity::Undecided => "undecided",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let direction = finding.direction.map_or(String::new(), |d| format!(" ({})", d.as_str()));
    _ = writeln!(out, "{level}[{}]{direction}: {}", finding.rule.id(), finding.message);
    match source.text.and_then(|text| find(text, &finding.pointer)) {
        Some((line, shown)) => {
            let number = line.to_string();
            let margin = " ".repeat(number.len());
            _ = writeln!(out, "{margin}--> {}:{line} at {}", source.name, pointer_text(finding));
            _ = writeln!(out, "{margin} |\n{number} | {}\n{margin} |", shown.trim_end());
        }
        None => _ = writeln!(out, " --> {} at {}", source.name, pointer_text(finding)),
    }
    if let Some(witness) = &finding.witness {
        _ = writeln!(out, "  = for example: {}", shorten(&witness.to_string()));
    }
    if let Some(help) = &finding.help {
        _ = writeln!(out, "  = help: {help}");
    }
    out.push('\n');
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(400) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// The line, from 1, on which the value of `pointer` begins, and its text; the nearest parent's if it has none.
fn find(text: &str, pointer: &str) -> Option<(usize, String)> {
    let mut scan = Scan { text: text.as_bytes(), at: 0 };
    let mut found = scan.skip_space();
    for step in pointer.split('/').skip(1) {
        match scan.enter(&step.replace("~1", "/").replace("~0", "~")) {
            Some(at) => found = at,
            None => break,
        }
    }
    let before = text.get(..found)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Some((before.matches('\n').count() + 1, around(text.get(start..)?.lines().next()?, found - start)))
}

/// A line as far as it can be shown: of a file without line breaks, what is around the place.
fn around(line: &str, at: usize) -> String {
    const BEFORE: usize = 60;
    const SHOWN: usize = 160;
    if line.chars().count() <= SHOWN {
        return line.to_owned();
    }
    let before = line.get(..at).unwrap_or_default().chars().count();
    let skipped = before.saturating_sub(BEFORE);
    let shown: String = line.chars().skip(skipped).take(SHOWN).collect();
    let start = if skipped > 0 { ".." } else { "" };
    let end = if line.chars().count() > skipped + SHOWN { ".." } else { "" };
    format!("{start}{shown}{end}")
}

/// Finds places in a JSON text that has been parsed already: on anything unexpected it ends.
struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scan<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) -> usize {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at
    }

    /// Goes to the value of a member or an item of the value that begins here; answers where the member or item begins.
    fn enter(&mut self, step: &str) -> Option<usize> {
        self.skip_space();
        let open = self.peek()?;
        self.at += 1;
        for index in 0_usize.. {
            let start = self.skip_space();
            let wanted = match open {
                b'{' => {
                    let name = self.value()?;
                    self.skip_space();
                    self.at += 1; // The colon.
                    self.skip_space();
                    serde_json::from_slice::<String>(name).ok()? == step
                }
                b'[' => step.parse() == Ok(index),
                _ => return None,
            };
            if wanted {
                return Some(start);
            }
            self.value()?;
            self.skip_space();
            if self.peek()? != b',' {
                return None;
            }
            self.at += 1;
        }
        None
    }

    /// Steps over a value.
    fn value(&mut self) -> Option<&'t [u8]> {
        let start = self.skip_space();
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    while self.peek()? != b'"' {
                        self.at += if self.peek()? == b'\\' { 2 } else { 1 };
                    }
                    self.at += 1;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b'}' | b']' | b':' if depth == 0 => break,
                _ => self.at += 1,
            }
            if depth == 0
                && (self.at > start && matches!(self.text.get(self.at - 1), Some(b'"' | b'}' | b']')))
            {
                break;
            }
        }
        (self.at > start).then(|| &self.text[start..self.at])
    }
}

/// A text as GitHub's commands ask for it: `property` for one before the `::`.
#[must_use]
pub fn escape(text: &str, property: bool) -> String {
    let mut escaped = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if property {
        escaped = escaped.replace(':', "%3A").replace(',', "%2C");
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn pointers_are_found_in_the_text() {
        let text = "{\n  \"a\": {\"x\": 1, \"}\\\"\": [2,\n 3]},\n  \"required\": [\n    \"a\",\n    \"b\"\n  ],\n  \"a/b\": true, \"n\": -1.5}";
        let line = |pointer: &str| find(text, pointer).map(|(line, text)| (line, text.trim().to_owned()));
        assert_eq!(line(""), Some((1, "{".to_owned())));
        assert_eq!(line("/a/x").unwrap().0, 2);
        assert_eq!(line("/a/}\"/1"), Some((3, "3]},".to_owned())));
        assert_eq!(line("/required/1"), Some((6, "\"b\"".to_owned())));
        assert_eq!(line("/a~1b").unwrap().0, 8);
        assert_eq!(line("/n").unwrap().0, 8);
        assert_eq!(line("/required/9").unwrap().0, 4, "the nearest parent");
        assert_eq!(line("/n/deeper").unwrap().0, 8);
        for broken in ["", "{", "{\"a\"", "[1,"] {
            find(broken, "/a/b");
        }
    }
}
