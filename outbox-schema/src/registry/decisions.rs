//! What people decided beside the schemas of an event type: overrides of findings, and the tombstone of a type that is
//! no longer published.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use toml::value::Datetime;

use crate::fingerprint::Fingerprint;

/// A finding that somebody has judged to do no harm, in `overrides.toml`.
///
/// ```toml
/// [[1]]                                    # the major
/// rule = "pattern-changed"
/// pointer = "/properties/code/pattern"
/// old = "sha256:…"                         # fingerprints, as `outbox schema list` prints them
/// new = "sha256:…"
/// reason = "all stored codes have six digits: counted on 2026-11-30"
/// author = "ada"
/// date = 2026-12-01
/// ```
///
/// It is bound to both fingerprints, so it lapses with the next edit.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Override {
    /// The major; the name of the table.
    #[serde(skip)]
    pub major: u32,
    /// The rule of the finding.
    #[serde(deserialize_with = "said")]
    pub rule: String,
    /// The finding's pointer; empty for the root.
    pub pointer: String,
    /// The earlier minor's fingerprint.
    pub old: Fingerprint,
    /// The later minor's fingerprint.
    pub new: Fingerprint,
    /// Why it does no harm.
    #[serde(deserialize_with = "said")]
    pub reason: String,
    /// Who says so.
    #[serde(deserialize_with = "said")]
    pub author: String,
    /// Since when, as `YYYY-MM-DD`.
    #[serde(deserialize_with = "date")]
    pub date: String,
    /// Whether the author has seen that there is a payload which the finding loses.
    #[serde(default)]
    pub acknowledge_witness: bool,
}

/// That an event type is no longer published, in `removed.toml`.
///
/// ```toml
/// date = 2026-12-01
/// reason = "replaced by entity.customer.merged"
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Tombstone {
    /// Since when, as `YYYY-MM-DD`.
    #[serde(deserialize_with = "date")]
    pub date: String,
    /// Why.
    #[serde(deserialize_with = "said")]
    pub reason: String,
}

/// Reads `overrides.toml`: the majors ascend, inside one the order is the file's.
pub(super) fn overrides(text: &[u8]) -> Result<Vec<Override>, String> {
    let tables: BTreeMap<String, Vec<Override>> = parse(text)?;
    let mut overrides = Vec::new();
    for (name, entries) in tables {
        let major = name.parse().ok().filter(|major: &u32| *major > 0 && major.to_string() == name);
        let Some(major) = major else {
            return Err(format!("`{name}` is not a major, expected a number from 1 on as in `[[1]]`"));
        };
        overrides.extend(entries.into_iter().map(|entry| Override { major, ..entry }));
    }
    overrides.sort_by_key(|entry| entry.major);
    Ok(overrides)
}

/// Reads `removed.toml`.
pub(super) fn tombstone(text: &[u8]) -> Result<Tombstone, String> {
    parse(text)
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())
}

/// A text that says something.
fn said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() { Err(D::Error::custom("is empty, expected a text")) } else { Ok(text) }
}

fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let date = Datetime::deserialize(deserializer)?;
    if date.date.is_some() && date.time.is_none() {
        return Ok(date.to_string());
    }
    Err(D::Error::custom("not a date, expected one like 2026-12-01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINGERPRINT: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn entry(rule: &str, more: &str) -> String {
        format!(
            "rule = \"{rule}\"\npointer = \"/properties/a\"\nold = \"{FINGERPRINT}\"\nnew = \"{FINGERPRINT}\"\n\
             reason = \"r\"\nauthor = \"a\"\n{more}\n"
        )
    }

    #[test]
    fn overrides_are_read_by_major() {
        let dated = "date = 2026-12-01";
        let text = format!(
            "[[10]]\n{}[[2]]\n{}[[2]]\n{}",
            entry("c", dated),
            entry("a", "date = 2026-12-01\nacknowledge_witness = true"),
            entry("b", dated)
        );
        let read = overrides(text.as_bytes()).unwrap();
        let found: Vec<_> =
            read.iter().map(|o| (o.major, o.rule.as_str(), o.acknowledge_witness, o.date.as_str())).collect();
        assert_eq!(
            found,
            [(2, "a", true, "2026-12-01"), (2, "b", false, "2026-12-01"), (10, "c", false, "2026-12-01")]
        );
        assert_eq!(read[0].old.to_string(), FINGERPRINT);
        assert_eq!(overrides(b"").unwrap(), []);
    }

    #[test]
    fn what_is_incomplete_or_unknown_is_refused() {
        let whole = entry("a", "date = 2026-12-01");
        for name in ["0", "01", "x", "-1", "4294967296"] {
            let error = overrides(format!("[[{name}]]\n{whole}").as_bytes()).unwrap_err();
            assert!(error.contains(&format!("`{name}` is not a major")), "{error}");
        }
        for line in whole.lines() {
            let without = whole.replace(line, "");
            assert!(overrides(format!("[[1]]\n{without}").as_bytes()).is_err(), "without {line}");
        }
        for (from, to) in [
            ("\"r\"", "\" \""),
            ("2026-12-01", "2026-12-01T08:00:00Z"),
            ("2026-12-01", "\"soon\""),
            ("sha256:01", "sha256:1"),
            ("sha256:01", "sha1:01"),
            ("sha256:01", "sha256:0G"),
            ("author", "auther"),
        ] {
            let text = whole.replace(from, to);
            assert_ne!(text, whole);
            assert!(overrides(format!("[[1]]\n{text}").as_bytes()).is_err(), "{to}");
        }
        assert!(overrides(b"[1]\nrule = \"a\"").is_err());
        assert_eq!(tombstone(b"date = 2026-12-01\nreason = \"r\"").unwrap().date, "2026-12-01");
        for bad in [
            "",
            "date = 2026-12-01",
            "date = 2026-12-01\nreason = \"\"",
            "date = 2026-12-01\nreason = \"r\"\nby = \"x\"",
        ] {
            assert!(tombstone(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
