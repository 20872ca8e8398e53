//! What is said at the end: figures, and every violation.

use crate::check::{Figures, check};
use crate::evidence::{Evidence, FaultKind};

/// How many violations are printed in full.
const SHOWN: usize = 40;

/// Judges and prints; true when every promise was kept.
pub(crate) fn print(evidence: &Evidence) -> bool {
    let (figures, violations) = check(evidence);
    faults(evidence);
    events(&figures);
    recovery(evidence, &figures);
    if violations.is_empty() {
        println!(
            "seed {}: lost 0, phantom 0, order violations 0, unexplained copies 0: every promise kept",
            evidence.seed
        );
        return true;
    }
    println!("seed {}: {} violations", evidence.seed, violations.len());
    for violation in violations.iter().take(SHOWN) {
        println!("  {violation}");
    }
    if let Some(more) = violations.len().checked_sub(SHOWN + 1) {
        println!("  and {} more", more + 1);
    }
    false
}

fn faults(evidence: &Evidence) {
    let count =
        |fits: fn(&FaultKind) -> bool| evidence.faults.iter().filter(|fault| fits(&fault.kind)).count();
    println!(
        "faults: {} kills, {} crash points, {} freezes, {} orderly restarts, {} cuts of relays and {} of writers, \
         {} long transactions, {} bursts, {} replays, {} discards, {} retentions, {} resizes",
        count(|kind| *kind == FaultKind::Kill),
        count(|kind| matches!(kind, FaultKind::Crash(_))),
        count(|kind| *kind == FaultKind::Stop),
        count(|kind| *kind == FaultKind::Roll),
        count(|kind| *kind == FaultKind::RelayBackends),
        count(|kind| *kind == FaultKind::WriterBackends),
        count(|kind| *kind == FaultKind::LongTransaction),
        count(|kind| *kind == FaultKind::Burst),
        count(|kind| *kind == FaultKind::Replay),
        count(|kind| *kind == FaultKind::Discard),
        count(|kind| *kind == FaultKind::Retention),
        count(|kind| *kind == FaultKind::Resize),
    );
}

fn events(figures: &Figures) {
    println!(
        "events: {} committed, {} rolled back, {} with an unknown COMMIT; {} requests; {} dead, {} of them replayed; \
         {} effects, each once",
        figures.committed,
        figures.rolled_back,
        figures.unknown,
        figures.arrivals,
        figures.dead,
        figures.replayed,
        figures.effects
    );
    let reasons: Vec<_> =
        figures.explained.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    println!("copies: {}, explained by: {}", figures.duplicates, reasons.join(", "));
}

fn recovery(evidence: &Evidence, figures: &Figures) {
    let promise = evidence.limits.lease + evidence.limits.poll + 1_000_000;
    let seconds = |micros: i64| micros as f64 / 1e6;
    println!(
        "ownership: {} claims, {} leases lost for want of time; from an owner's death to the next event at most {:.2} s \
         of {:.2} s promised ({} times)",
        figures.claims,
        figures.leases_lost,
        seconds(figures.recovery),
        seconds(promise),
        figures.recoveries
    );
}
