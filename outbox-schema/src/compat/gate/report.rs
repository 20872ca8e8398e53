//! What checking a registry came to, as text, as JSON and as annotations of a code review.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::overrides::{OverrideState, OverrideUse};
use super::{Pair, Report, counts};
use crate::compat::finding::{Comparison, Finding, Severity, Verdict};
use crate::compat::report::{self, Source, escape};
use crate::registry::{OVERRIDES_FILE, Registry};

/// What people have to know: failures first, then overrides, then one line that sums up. Warnings are shown for the newest
/// minor of each major; JSON has them all.
#[must_use]
pub fn text(report: &Report, registry: &Registry) -> String {
    let mut out = String::new();
    for (pair, shown) in shown(report, registry) {
        with_sources(pair, |old, new| out.push_str(&report::text(&shown, old, new)));
        out.push('\n');
    }
    for finding in &report.history {
        _ = writeln!(out, "error[{}]: {}", finding.rule.id(), finding.message);
        _ = writeln!(out, " --> {}", name(&finding.path));
        finding.changes.iter().for_each(|line| _ = writeln!(out, "  | {line}"));
        _ = writeln!(out, "  = help: {}\n", finding.help);
    }
    for used in &report.overrides {
        let entry = &used.entry;
        let level = if used.state == OverrideState::Applied { "override" } else { "error[override]" };
        let place =
            format!("{} v{}, {} at {}", used.event_type, entry.major, entry.rule, root(&entry.pointer));
        _ = writeln!(out, "{level}: {place}: {}", used.state.as_str());
        _ = writeln!(out, "  {} ({}, {})", entry.reason, entry.author, entry.date);
        if let Some(help) = help(used) {
            _ = writeln!(out, "  = help: {help}");
        }
    }
    if let Some((revision, false)) = &report.base {
        _ = writeln!(out, "the folder is not in `{revision}`, so that every revision counts as new");
    }
    _ = writeln!(
        out,
        "{} event types, {} pairs of minors compared: {}",
        report.event_types,
        report.compared,
        conclusion(report)
    );
    out
}

fn conclusion(report: &Report) -> String {
    let count = |verdict| report.pairs.iter().filter(|pair| pair.verdict == verdict).count();
    let unused = report.overrides.iter().filter(|used| used.state != OverrideState::Applied).count();
    let parts = [
        (count(Verdict::Breaking), "breaking"),
        (count(Verdict::Undecided), "cannot be proved compatible (treated as breaking)"),
        (report.history.len(), "committed revisions changed"),
        (unused, "overrides to mend"),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if parts.is_empty() { "all compatible".to_owned() } else { parts.join(", ") }
}

/// All of it, for programs.
#[must_use]
pub fn json(report: &Report) -> Value {
    let pairs = report.pairs.iter().map(|pair| {
        json!({
            "event_type": pair.event_type.as_str(),
            "major": pair.major,
            "old": {"minor": pair.old.minor, "path": name(&pair.old.path), "fingerprint": pair.old.fingerprint.to_string()},
            "new": {"minor": pair.new.minor, "path": name(&pair.new.path), "fingerprint": pair.new.fingerprint.to_string()},
            "compatibility": pair.compatibility.as_str(),
            "verdict": pair.verdict.as_str(),
            "overridden": pair.overridden,
            "backward": pair.comparison.backward.as_str(),
            "forward": pair.comparison.forward.as_str(),
            "findings": pair.comparison.findings,
        })
    });
    let history = report.history.iter().map(|finding| {
        json!({
            "rule": finding.rule.id(),
            "event_type": finding.event_type.as_str(),
            "path": name(&finding.path),
            "message": finding.message,
            "help": finding.help,
            "changes": finding.changes,
        })
    });
    let overrides = report.overrides.iter().map(|used| {
        let entry = &used.entry;
        json!({
            "event_type": used.event_type.as_str(),
            "major": entry.major,
            "rule": entry.rule,
            "pointer": entry.pointer,
            "old": entry.old.to_string(),
            "new": entry.new.to_string(),
            "reason": entry.reason,
            "author": entry.author,
            "date": entry.date,
            "acknowledge_witness": entry.acknowledge_witness,
            "state": used.state.as_str(),
        })
    });
    json!({
        "passes": report.passes(),
        "verdict": report.verdict().as_str(),
        "event_types": report.event_types,
        "compared": report.compared,
        "against": report.base.as_ref().map(|(revision, _)| revision),
        "against_has_folder": report.base.as_ref().map(|(_, has)| has),
        "pairs": pairs.collect::<Vec<_>>(),
        "history": history.collect::<Vec<_>>(),
        "overrides": overrides.collect::<Vec<_>>(),
    })
}

/// Annotations of a review, one per line, in GitHub's form; nothing if there is nothing to say.
#[must_use]
pub fn github(report: &Report, registry: &Registry) -> String {
    let mut out = String::new();
    for (pair, shown) in shown(report, registry) {
        with_sources(pair, |old, new| out.push_str(&report::github(&shown, old, new)));
        // A verdict that no finding explains; one that overrides have silenced is none.
        let fails = |finding: &Finding| finding.severity >= Severity::Undecided;
        if pair.verdict != Verdict::Compatible && !pair.comparison.findings.iter().any(fails) {
            let message = "cannot prove compatible (treated as breaking)";
            _ = writeln!(out, "::error file={}::{message}", escape(&name(&pair.new.path), true));
        }
    }
    for finding in &report.history {
        let (file, title) = (escape(&name(&finding.path), true), finding.rule.id());
        let message = escape(&format!("{}\n-> {}", finding.message, finding.help), false);
        _ = writeln!(out, "::error file={file},title={title}::{message}");
    }
    for used in &report.overrides {
        let path = registry.root().join(used.event_type.as_str()).join(OVERRIDES_FILE);
        let level = if used.state == OverrideState::Applied { "notice" } else { "error" };
        let entry = &used.entry;
        let mut message =
            format!("{} at {} is overridden: {}", entry.rule, root(&entry.pointer), entry.reason);
        if let Some(help) = help(used) {
            message = format!(
                "{} at {}: override {}\n-> {help}",
                entry.rule,
                root(&entry.pointer),
                used.state.as_str()
            );
        }
        _ = writeln!(
            out,
            "::{level} file={},title=override::{}",
            escape(&name(&path), true),
            escape(&message, false)
        );
    }
    if let Some((revision, false)) = &report.base {
        let message = format!("the folder is not in `{revision}`, so that every revision counts as new");
        _ = writeln!(out, "::notice::{}", escape(&message, false));
    }
    out
}

fn help(used: &OverrideUse) -> Option<&'static str> {
    match used.state {
        OverrideState::Applied => None,
        OverrideState::Unused => {
            Some("no finding fits it any more; remove it, or correct rule, pointer and fingerprints")
        }
        OverrideState::NotAcknowledged => Some(
            "a payload proves the finding; look at it, then add `acknowledge_witness = true` or set a new `schema_version`",
        ),
    }
}

/// The pairs to show, each with the findings to show: none that is overridden or does not count, none that a nearer pair
/// with the same later minor has shown.
fn shown<'r>(report: &'r Report, registry: &Registry) -> Vec<(&'r Pair, Comparison)> {
    let mut seen = HashSet::new();
    let mut shown = Vec::new();
    for pair in &report.pairs {
        let newest = registry.newest(pair.event_type.as_str(), pair.major).map(|file| file.minor);
        let minors = registry.minors(pair.event_type.as_str(), pair.major);
        let adjacent =
            minors.windows(2).any(|two| (two[0].minor, two[1].minor) == (pair.old.minor, pair.new.minor));
        let findings = pair.comparison.findings.iter().zip(&pair.overridden);
        let findings = findings.filter(|(finding, overridden)| match finding.severity {
            Severity::Note => false,
            Severity::Warning => adjacent && newest == Some(pair.new.minor),
            Severity::Undecided | Severity::Breaking => {
                !**overridden
                    && finding.direction.is_none_or(|direction| counts(pair.compatibility, direction))
            }
        });
        let new = findings.filter(|(finding, _)| {
            let place = (&pair.event_type, pair.major, pair.new.minor);
            seen.insert((place, finding.rule, finding.direction, &finding.pointer, &finding.message))
        });
        let findings: Vec<_> = new.map(|(finding, _)| finding.clone()).collect();
        let without_reason = pair.verdict != Verdict::Compatible
            && !pair.comparison.findings.iter().any(|finding| finding.severity >= Severity::Undecided);
        if !findings.is_empty() || without_reason {
            shown.push((pair, Comparison { findings, ..pair.comparison.clone() }));
        }
    }
    shown
}

fn with_sources(pair: &Pair, with: impl FnOnce(Source<'_>, Source<'_>)) {
    let names = [&pair.old, &pair.new].map(|minor| name(&minor.path));
    // A file that cannot be read again is shown without its lines.
    let texts = [&pair.old, &pair.new].map(|minor| std::fs::read_to_string(&minor.path).ok());
    with(
        Source { name: &names[0], text: texts[0].as_deref() },
        Source { name: &names[1], text: texts[1].as_deref() },
    );
}

/// The path from the current folder, if it lies below.
fn name(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path).display().to_string()
}

fn root(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}
