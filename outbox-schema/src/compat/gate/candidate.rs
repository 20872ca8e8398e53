//! A schema that is not committed yet, against the minors that it would follow.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Minor, counts, verdict};
use crate::compat::compare;
use crate::compat::finding::{Comparison, Severity, Verdict};
use crate::compat::report::{self, Source};
use crate::registry::{Compatibility, SchemaFile};

/// What a new revision would mean for the minors before it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// What it owes to them.
    pub compatibility: Compatibility,
    /// The worst verdict, in the directions that count.
    pub verdict: Verdict,
    /// Each minor with what was found, the nearest first.
    pub against: Vec<(Minor, Comparison)>,
}

impl Candidate {
    /// Compares `schema` with each of `minors`, which ascend. No override counts: those are for what is committed.
    #[must_use]
    pub fn of(schema: &Value, minors: &[SchemaFile], compatibility: Compatibility) -> Self {
        let mut candidate = Self { compatibility, verdict: Verdict::Compatible, against: Vec::new() };
        if compatibility == Compatibility::None {
            return candidate;
        }
        for file in minors.iter().rev() {
            let comparison = compare(&file.schema, schema);
            let none = vec![false; comparison.findings.len()];
            candidate.verdict = candidate.verdict.max(verdict(&comparison, &none, compatibility));
            candidate.against.push((Minor::of(file), comparison));
        }
        candidate
    }

    /// What breaks or cannot be decided, each once, with the nearest minor that shows it. Without a line if nothing does.
    #[must_use]
    pub fn text(&self) -> String {
        let mut seen = HashSet::new();
        let mut out = String::new();
        for (minor, comparison) in &self.against {
            let fails = comparison.findings.iter().filter(|finding| {
                finding.severity >= Severity::Undecided
                    && finding.direction.is_none_or(|direction| counts(self.compatibility, direction))
            });
            let new = fails.filter(|finding| {
                seen.insert((finding.rule, finding.direction, &finding.pointer, &finding.message))
            });
            let findings: Vec<_> = new.cloned().collect();
            let none = vec![false; comparison.findings.len()];
            let silent = findings.is_empty()
                && (seen.iter().next().is_some()
                    || verdict(comparison, &none, self.compatibility) == Verdict::Compatible);
            if silent {
                continue;
            }
            let name =
                minor.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let shown = Comparison { findings, ..comparison.clone() };
            let (old, new) = (Source { name: &name, text: None }, Source { name: "struct", text: None });
            _ = write!(out, "{}", report::text(&shown, old, new));
        }
        out
    }
}
