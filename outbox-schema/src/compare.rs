//! A struct's schema against the committed one: what differs, field by field.
//!
//! Says nothing about whether readers survive the difference.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::document::{is_annotation, is_set, join, sorted, tidy};
use crate::fingerprint::Fingerprint;
use crate::registry::{Registry, file_name};

/// What a struct says about the event that it is.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// The event type.
    pub event_type: &'a str,
    /// The major, from 1.
    pub schema_version: u32,
    /// The struct, as in `crate::events::CustomerUpdated`.
    pub rust_type: &'a str,
    /// The source file of the struct.
    pub file: &'a str,
    /// The line of the struct, from 1.
    pub line: u32,
    /// The reading contract of the struct, as schemars makes it (`for_deserialize`).
    pub schema: Value,
}

/// How a struct's schema stands to the newest committed minor of its major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The same document.
    Same,
    /// The same meaning; titles, descriptions, names of definitions or the order of a set differ.
    AnnotationsDiffer {
        /// The committed file.
        path: PathBuf,
        /// What differs: pointer, old and new.
        lines: Vec<String>,
    },
    /// Another meaning.
    Changed {
        /// The committed file.
        path: PathBuf,
        /// What differs: pointer, old and new.
        lines: Vec<String>,
    },
    /// The major has no file.
    Missing {
        /// Where the first one belongs.
        path: PathBuf,
        /// The majors of the event type that have one, ascending.
        known_majors: Vec<u32>,
    },
}

/// Compares a struct's schema with the newest committed minor of its major.
#[must_use]
pub fn compare(registry: &Registry, claim: &Claim<'_>) -> Drift {
    let Some(newest) = registry.newest(claim.event_type, claim.schema_version) else {
        return Drift::Missing {
            path: registry.root().join(claim.event_type).join(file_name(claim.schema_version, 0)),
            known_majors: registry.majors(claim.event_type).collect(),
        };
    };
    let path = newest.path.clone();
    let same_meaning = Fingerprint::of(&claim.schema) == newest.fingerprint;
    let old = tidy(&newest.schema, same_meaning);
    let new = tidy(&claim.schema, same_meaning);
    if same_meaning && old == new {
        return Drift::Same;
    }
    let mut lines = Vec::new();
    differences("", "", &old, &new, &mut lines);
    if same_meaning { Drift::AnnotationsDiffer { path, lines } } else { Drift::Changed { path, lines } }
}

/// What differs in meaning between two schema documents: a line each with pointer, old and new value. Says nothing of whom
/// it breaks.
#[must_use]
pub fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    differences("", "", &tidy(old, false), &tidy(new, false), &mut lines);
    lines
}

/// One line per difference, in the order of the pointers. `keyword` is the last step of `pointer`.
fn differences(pointer: &str, keyword: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let below = join(pointer, name);
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => differences(&below, name, old, new, lines),
                    (Some(old), None) => lines.push(line(&below, format_args!("removed ({})", short(old)))),
                    (None, Some(new)) => lines.push(line(&below, format_args!("added: {}", short(new)))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(old), Value::Array(new)) if is_set(keyword) => {
            let before = lines.len();
            for gone in old.iter().filter(|value| !new.contains(value)) {
                lines.push(line(pointer, format_args!("{} removed", short(gone))));
            }
            for added in new.iter().filter(|value| !old.contains(value)) {
                lines.push(line(pointer, format_args!("{} added", short(added))));
            }
            if lines.len() == before && old != new {
                lines.push(line(pointer, format_args!("another order")));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (i, (old, new)) in old.iter().zip(new).enumerate() {
                differences(&join(pointer, i), "", old, new, lines);
            }
            for (i, gone) in old.iter().enumerate().skip(new.len()) {
                lines.push(line(&join(pointer, i), format_args!("removed ({})", short(gone))));
            }
            for (i, added) in new.iter().enumerate().skip(old.len()) {
                lines.push(line(&join(pointer, i), format_args!("added: {}", short(added))));
            }
        }
        (old, new) if old != new => {
            lines.push(line(pointer, format_args!("{} -> {}", short(old), short(new))));
        }
        _ => {}
    }
}

fn line(pointer: &str, change: std::fmt::Arguments<'_>) -> String {
    let pointer = if pointer.is_empty() { "/" } else { pointer };
    format!("{pointer:<36}  {change}")
}

/// A value on one line, without what only describes, at most 70 characters.
fn short(value: &Value) -> String {
    let text = match value {
        Value::Object(object) => {
            let said: Map<String, Value> = sorted(object)
                .into_iter()
                .filter(|(name, _)| !is_annotation(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            Value::Object(said).to_string()
        }
        other => other.to_string(),
    };
    match text.char_indices().nth(70) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differing(old: &Value, new: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        differences("", "", old, new, &mut lines);
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn each_difference_has_its_pointer_and_both_sides() {
        let old = json!({
            "properties": {
                "credit": {"type": "integer"}, "gone": {"type": "string"}, "a/b": {"maxLength": 5},
                "state": {"enum": ["a", "b"]}, "pair": {"prefixItems": [{"type": "string"}, true]},
                "open": {"type": "string"},
            },
            "required": ["credit", "gone"],
        });
        let new = json!({
            "properties": {
                "credit": {"type": "string"}, "note": {"type": "string", "title": "N"}, "a/b": {"maxLength": 6},
                "state": {"enum": ["b", "c"]}, "pair": {"prefixItems": [{"type": "integer"}]},
                "open": {"type": ["string", "null"]},
            },
            "required": ["credit", "note"],
        });
        assert_eq!(
            differing(&old, &new),
            [
                "/properties/a~1b/maxLength 5 -> 6",
                "/properties/credit/type \"integer\" -> \"string\"",
                "/properties/gone removed ({\"type\":\"string\"})",
                "/properties/note added: {\"type\":\"string\"}",
                "/properties/open/type \"string\" -> [\"string\",\"null\"]",
                "/properties/pair/prefixItems/0/type \"string\" -> \"integer\"",
                "/properties/pair/prefixItems/1 removed (true)",
                "/properties/state/enum \"a\" removed",
                "/properties/state/enum \"c\" added",
                "/required \"gone\" removed",
                "/required \"note\" added",
            ]
        );
        assert_eq!(differing(&old, &old), [""; 0]);
    }

    #[test]
    fn long_values_are_cut_and_a_new_order_is_said() {
        let [line] =
            differing(&json!({"const": "a"}), &json!({"const": "ü".repeat(500)})).try_into().unwrap();
        assert!(line.ends_with("..") && line.chars().count() < 120, "{line}");
        assert_eq!(differing(&json!({"enum": [1, 2]}), &json!({"enum": [2, 1]})), ["/enum another order"]);
        assert_eq!(differing(&json!(true), &json!({})), ["/ true -> {}"]);
    }
}
