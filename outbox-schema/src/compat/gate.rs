//! A whole registry: every minor of a major against all earlier ones, and the folder against a git revision.
//!
//! Compatibility is not transitive: a member that is dropped and later comes back with another type is fine at every
//! step, and not from the first to the last. So all pairs are compared.

mod candidate;
mod history;
mod overrides;
mod report;

use std::path::PathBuf;
use std::thread;

pub use self::candidate::Candidate;
pub use self::history::{Base, HistoryFinding, HistoryRule};
pub use self::overrides::{OverrideState, OverrideUse};
pub use self::report::{github, json, text};

use super::compare;
use super::finding::{Comparison, Direction, Severity, Verdict};
use crate::event_type::EventType;
use crate::fingerprint::Fingerprint;
use crate::registry::{Compatibility, Registry, SchemaFile};

/// What checking a registry came to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// How many event types have a schema.
    pub event_types: usize,
    /// How many pairs of minors were compared.
    pub compared: usize,
    /// The pairs that have something to say, by event type, major, later minor and then the nearest earlier one.
    pub pairs: Vec<Pair>,
    /// What became of committed revisions; empty without a base.
    pub history: Vec<HistoryFinding>,
    /// Every override, and what it does.
    pub overrides: Vec<OverrideUse>,
    /// The git revision that was compared with, and whether it has the folder.
    pub base: Option<(String, bool)>,
}

impl Report {
    /// Whether nothing has to be done.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict() == Verdict::Compatible
            && self.history.is_empty()
            && self.overrides.iter().all(|used| used.state == OverrideState::Applied)
    }

    /// The worst verdict of all pairs, after overrides, in the directions that the registry asks for.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.pairs.iter().map(|pair| pair.verdict).max().unwrap_or(Verdict::Compatible)
    }
}

/// Two minors of one major.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pair {
    /// The event type.
    pub event_type: EventType,
    /// The major.
    pub major: u32,
    /// The earlier minor.
    pub old: Minor,
    /// The later minor.
    pub new: Minor,
    /// What a later minor owes to an earlier one here.
    pub compatibility: Compatibility,
    /// What was found, overridden or not.
    pub comparison: Comparison,
    /// For each finding of the comparison whether an override silences it.
    pub overridden: Vec<bool>,
    /// What remains, in the directions that count.
    pub verdict: Verdict,
}

/// A minor and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minor {
    /// From 0.
    pub minor: u32,
    /// Where it is.
    pub path: PathBuf,
    /// The identity of its meaning: what an override is bound to.
    pub fingerprint: Fingerprint,
}

impl Minor {
    fn of(file: &SchemaFile) -> Self {
        Self { minor: file.minor, path: file.path.clone(), fingerprint: file.fingerprint }
    }
}

/// Checks a registry; with `base`, against what git has committed too.
#[must_use]
pub fn check(registry: &Registry, base: Option<&Base>) -> Report {
    let work: Vec<(&SchemaFile, &SchemaFile)> = pairs_of(registry);
    let found = compare_all(&work);
    let mut overrides = overrides::Uses::of(registry);
    let mut pairs = Vec::new();
    for ((old, new), comparison) in work.iter().zip(found) {
        let compatibility = registry.settings().compatibility_of(old.event_type.as_str());
        let overridden = overrides.apply(old, new, &comparison, compatibility);
        let verdict = verdict(&comparison, &overridden, compatibility);
        if !comparison.findings.is_empty() || verdict != Verdict::Compatible {
            pairs.push(Pair {
                event_type: new.event_type.clone(),
                major: new.major,
                old: Minor::of(old),
                new: Minor::of(new),
                compatibility,
                comparison,
                overridden,
                verdict,
            });
        }
    }
    Report {
        event_types: registry.event_types().count(),
        compared: work.len(),
        pairs,
        history: base.map_or_else(Vec::new, |base| base.findings(registry)),
        overrides: overrides.finish(),
        base: base.map(|base| (base.revision().to_owned(), base.has_folder())),
    }
}

/// The pairs that have to be compared: nothing is owed with `none`.
fn pairs_of(registry: &Registry) -> Vec<(&SchemaFile, &SchemaFile)> {
    let mut pairs = Vec::new();
    for event_type in registry.event_types() {
        if registry.settings().compatibility_of(event_type.as_str()) == Compatibility::None {
            continue;
        }
        for major in registry.majors(event_type.as_str()) {
            let minors = registry.minors(event_type.as_str(), major);
            for (at, new) in minors.iter().enumerate() {
                pairs.extend(minors[..at].iter().rev().map(|old| (old, new)));
            }
        }
    }
    pairs
}

/// Comparing takes nearly all of the time and each pair stands alone, so it is spread over the processors.
fn compare_all(pairs: &[(&SchemaFile, &SchemaFile)]) -> Vec<Comparison> {
    let compare_each = |pairs: &[(&SchemaFile, &SchemaFile)]| -> Vec<Comparison> {
        pairs.iter().map(|(old, new)| compare(&old.schema, &new.schema)).collect()
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let share = pairs.len().div_ceil(workers).max(16);
    if pairs.len() <= share {
        return compare_each(pairs);
    }
    thread::scope(|scope| {
        let compare_each = &compare_each;
        let shares: Vec<_> =
            pairs.chunks(share).map(|pairs| (pairs, scope.spawn(move || compare_each(pairs)))).collect();
        // A thread that panicked says so again here.
        shares
            .into_iter()
            .flat_map(|(pairs, done)| done.join().unwrap_or_else(|_| compare_each(pairs)))
            .collect()
    })
}

/// Whether a direction counts with this setting.
fn counts(compatibility: Compatibility, direction: Direction) -> bool {
    match compatibility {
        Compatibility::Full => true,
        Compatibility::Backward => direction == Direction::Backward,
        Compatibility::Forward => direction == Direction::Forward,
        Compatibility::None => false,
    }
}

/// What remains of a comparison's verdicts. A direction that failed without a finding to say why cannot be overridden.
fn verdict(comparison: &Comparison, overridden: &[bool], compatibility: Compatibility) -> Verdict {
    let of = |direction: Direction| {
        let found = comparison.verdict(direction);
        let findings = comparison.findings.iter().zip(overridden);
        let mut reasons = findings.filter(|(finding, _)| finding.direction == Some(direction)).peekable();
        if found == Verdict::Compatible || reasons.peek().is_none() {
            return found;
        }
        let left = reasons.filter(|(_, overridden)| !**overridden).map(|(finding, _)| finding.severity).max();
        match left {
            None | Some(Severity::Note | Severity::Warning) => Verdict::Compatible,
            Some(Severity::Undecided) => Verdict::Undecided,
            Some(Severity::Breaking) => Verdict::Breaking,
        }
    };
    let directions = [Direction::Backward, Direction::Forward];
    let counted = directions.into_iter().filter(|direction| counts(compatibility, *direction));
    counted.map(of).max().unwrap_or(Verdict::Compatible)
}

#[cfg(test)]
mod tests;
