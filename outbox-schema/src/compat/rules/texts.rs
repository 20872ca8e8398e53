//! Texts: length, format, pattern.

use crate::compat::finding::Rule;
use crate::compat::lower::{Alt, Texts};
use crate::compat::prove::{At, Prover};
use crate::compat::rules::NEW_MAJOR;
use crate::compat::world::State;

/// Formats whose texts all have another format too.
const NARROWER: [(&str, &str); 2] = [("ipv4", "ip"), ("ipv6", "ip")];

/// The lengths of the texts of a format.
fn lengths(format: &str) -> Option<(u64, u64)> {
    Some(match format {
        "uuid" => (36, 36),
        "date" => (10, 10),
        "ipv4" => (7, 15),
        _ => return None,
    })
}

impl<'a> Prover<'_, 'a> {
    pub(in crate::compat) fn texts_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Texts<'a>,
        theirs: &Texts<'a>,
        reader: State,
        at: At,
    ) -> bool {
        let mut within = true;
        let (mut min, mut max) = (mine.min, mine.max);
        for (low, high) in mine.formats.iter().filter_map(|format| lengths(format)) {
            min = min.max(low);
            max = Some(max.map_or(high, |max| max.min(high)));
        }
        let shorter = min < theirs.min;
        if shorter || theirs.max.is_some_and(|limit| max.is_none_or(|max| max > limit)) {
            let lengths = |min: u64, max: Option<u64>| match max {
                Some(max) => format!("{min} to {max} characters"),
                None => format!("{min} characters or more"),
            };
            let message = format!(
                "{} have {}, and {} accepts {}",
                self.writers(),
                lengths(min, max),
                self.readers(),
                lengths(theirs.min, theirs.max)
            );
            let keyword = if shorter { "minLength" } else { "maxLength" };
            let reason =
                self.in_either(Rule::Length, at, keyword, message, format!("keep the length, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for format in &theirs.formats {
            let met = mine.formats.iter().any(|own| own == format || NARROWER.contains(&(*own, *format)));
            if met {
                continue;
            }
            let (rule, message) = match mine.formats.first() {
                Some(own) => (
                    Rule::FormatChanged,
                    format!(
                        "{} have the format `{own}`, and {} expects `{format}`",
                        self.writers(),
                        self.readers()
                    ),
                ),
                None => (
                    self.either(Rule::FormatAdded, Rule::FormatRemoved),
                    format!(
                        "{} may be any text, and {} expects the format `{format}`",
                        self.writers(),
                        self.readers()
                    ),
                ),
            };
            let help = format!("keep the format, and put the new one into a member of its own, {NEW_MAJOR}");
            let reason = self.in_either(rule, at, "format", message, help);
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for pattern in &theirs.patterns {
            if mine.patterns.contains(pattern) || matches!(*pattern, "" | "^" | ".*" | "^.*") {
                continue;
            }
            let rule = if mine.patterns.is_empty() {
                self.either(Rule::PatternAdded, Rule::PatternRemoved)
            } else {
                Rule::PatternChanged
            };
            let message =
                format!("{} need not match the pattern `{pattern}` of {}", self.writers(), self.readers());
            let reason =
                self.in_either(rule, at, "pattern", message, format!("keep the pattern, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        within
    }
}
