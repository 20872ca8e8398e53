//! Whether a changed schema breaks readers: proved, not guessed.
//!
//! A schema has two languages. What a **writer** can write is what the schema allows, without members that it does not
//! declare where it says nothing about them: a Rust struct has no others. What a **reader** accepts is what the schema
//! allows, as it stands. A change is *backward* compatible if the new reader accepts whatever the old writer can have
//! written, and *forward* compatible if the old reader accepts whatever the new writer can write.
//!
//! ```
//! use outbox_schema::compat::{Rule, Verdict, compare};
//! use serde_json::json;
//!
//! let old = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
//! let mut new = old.clone();
//! new["properties"]["email"] = json!({"type": "string"});
//! assert!(compare(&old, &new).is_full());
//!
//! new["required"] = json!(["id", "email"]);
//! let comparison = compare(&old, &new);
//! assert_eq!((comparison.backward, comparison.forward), (Verdict::Breaking, Verdict::Compatible));
//! assert_eq!(comparison.findings[0].rule, Rule::FieldAddedRequired);
//! assert_eq!(comparison.findings[0].witness, Some(json!({"id": ""})));
//! ```

mod decide;
mod decimal;
mod finding;
pub mod gate;
mod lower;
mod prove;
#[cfg(test)]
mod random;
pub mod report;
mod rules;
mod same;
mod second;
#[cfg(test)]
mod tests;
mod witness;
mod world;

use serde_json::Value;

pub use finding::{Comparison, Direction, Finding, Rule, Severity, Side, Verdict};

pub use crate::compare::changes;
use decide::{Document, decide, invalid, too_complex};
use rules::notes::notes;
use same::Sameness;
use world::World;

use crate::branching::{Branches, MAX_BRANCHES};
use crate::document::for_each_schema;
use crate::fingerprint::Fingerprint;

/// How deep a document may be nested.
const MAX_DEPTH: usize = 256;
/// Bytes of stack for a walk; only what is used is taken.
const STACK: usize = 64 << 20;

/// Compares two schema documents of one event type and major.
///
/// Takes what the registry takes: JSON Schema 2020-12 with local references. Anything else is
/// [undecided](Verdict::Undecided), as is whatever cannot be proved.
#[must_use]
pub fn compare(old: &Value, new: &Value) -> Comparison {
    if [old, new].into_iter().any(|document| is_deep(document) || is_broad(document)) {
        return undecided(too_complex);
    }
    for (side, document) in [(Side::Old, old), (Side::New, new)] {
        if !jsonschema::draft202012::meta::is_valid(document) {
            return undecided(|direction| invalid(direction, side));
        }
    }
    if Fingerprint::of(old) == Fingerprint::of(new) {
        return Comparison {
            backward: Verdict::Compatible,
            forward: Verdict::Compatible,
            findings: Vec::new(),
        };
    }
    // On a stack of its own: what nesting the limits allow must not depend on what the caller has left.
    let compared = std::thread::scope(|scope| {
        let walk = || walk(old, new);
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, walk).ok()?;
        thread.join().ok()
    });
    compared.unwrap_or_else(|| undecided(too_complex))
}

fn walk(old: &Value, new: &Value) -> Comparison {
    let mut world = World::new();
    let old = Document { schema: old, root: world.document(old) };
    let new = Document { schema: new, root: world.document(new) };
    let mut same = Sameness::default();
    let (backward, mut findings) = decide(&mut world, &mut same, Direction::Backward, old, new);
    let (forward, more) = decide(&mut world, &mut same, Direction::Forward, new, old);
    findings.extend(more);
    findings.extend(notes(&mut world, old.root, new.root));
    findings.sort_by(|a, b| {
        (b.severity, &a.pointer, a.rule, a.direction).cmp(&(a.severity, &b.pointer, b.rule, b.direction))
    });
    Comparison { backward, forward, findings }
}

fn undecided(why: impl Fn(Direction) -> Finding) -> Comparison {
    let findings = [Direction::Backward, Direction::Forward].map(why).into();
    Comparison { backward: Verdict::Undecided, forward: Verdict::Undecided, findings }
}

/// Whether a document offers more alternatives at one place than can be tried, which the registry refuses too.
fn is_broad(document: &Value) -> bool {
    let mut branches = Branches::of(document);
    let mut broad = false;
    for_each_schema(document, "", &mut |_, schema| {
        broad = broad || branches.count_object(schema) > MAX_BRANCHES;
    });
    broad
}

/// Whether a document is nested deeper than is walked.
fn is_deep(document: &Value) -> bool {
    let mut level: Vec<&Value> = vec![document];
    for _ in 0..MAX_DEPTH {
        level = level
            .into_iter()
            .flat_map(|value| match value {
                Value::Array(list) => list.iter().collect::<Vec<_>>(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            })
            .collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}
