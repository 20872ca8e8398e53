//! Whether a changed schema breaks readers: proved, not guessed.
//!
//! A schema has two languages. What a **writer** can write is what the schema allows, without members that it does not
//! declare where it says nothing about them: a Rust struct has no others. What a **reader** accepts is what the schema
//! allows, as it stands. A change is *backward* compatible if the new reader accepts whatever the old writer can have
//! written, and *forward* compatible if the old reader accepts whatever the new writer can write.

mod finding;
pub mod report;

use serde_json::Value;

pub use finding::{Comparison, Direction, Finding, Rule, Severity, Side, Verdict};

use crate::fingerprint::Fingerprint;

/// Compares two schema documents of one event type and major.
///
/// Takes what the registry takes: JSON Schema 2020-12 with local references. Anything else is
/// [undecided](Verdict::Undecided), as is whatever cannot be proved.
#[must_use]
pub fn compare(old: &Value, new: &Value) -> Comparison {
    let verdict =
        if Fingerprint::of(old) == Fingerprint::of(new) { Verdict::Compatible } else { Verdict::Undecided };
    Comparison { backward: verdict, forward: verdict, findings: Vec::new() }
}
