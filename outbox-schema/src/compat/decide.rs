//! One direction decided: our prover, the second prover where ours does not get through, and a payload that shows a break.

use serde_json::Value;

use super::finding::{Direction, Finding, Rule, Severity, Side, Verdict};
use super::prove::{At, Prover, Reason};
use super::same::Sameness;
use super::second::{Answer, Canonical, SecondProver};
use super::witness::Judge;
use super::world::{Loc, World};

/// For how many findings a payload is sought.
const MAX_SOUGHT: usize = 24;

/// One of the two documents.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) schema: &'a Value,
    pub(super) root: Loc,
}

/// Why our own prover did not get through.
pub(super) struct Failure<'a> {
    reasons: Vec<Reason<'a>>,
    exhausted: bool,
}

/// Our own prover alone.
pub(super) fn prove<'a>(
    world: &mut World<'a>,
    same: &mut Sameness,
    direction: Direction,
    writer: Loc,
    reader: Loc,
) -> Result<(), Failure<'a>> {
    let (from, to) = (world.state(&[(writer, true)]), world.state(&[(reader, false)]));
    let mut prover = Prover::new(world, same, direction);
    if prover.prove(from, to, At { writer, reader }) {
        return Ok(());
    }
    Err(Failure { reasons: std::mem::take(&mut prover.reasons), exhausted: prover.exhausted })
}

/// What the second prover and the search for a payload come to, where our own prover did not get through.
#[derive(Clone, Copy)]
struct Evidence {
    covers: Answer,
    witness: bool,
}

impl Evidence {
    fn verdict(self) -> Verdict {
        match (self.covers, self.witness) {
            (_, true) | (Answer::No, false) => Verdict::Breaking,
            (Answer::Yes, false) => Verdict::Compatible,
            (Answer::Unknown, false) => Verdict::Undecided,
        }
    }

    /// Whether two ways to decide say opposite things.
    fn contradicts(self) -> bool {
        self.covers == Answer::Yes && self.witness
    }
}

/// The verdict on one direction, and why.
pub(super) fn decide<'a>(
    world: &mut World<'a>,
    same: &mut Sameness,
    direction: Direction,
    writer: Document<'a>,
    reader: Document<'a>,
) -> (Verdict, Vec<Finding>) {
    let Failure { reasons, exhausted } = match prove(world, same, direction, writer.root, reader.root) {
        Ok(()) => return (Verdict::Compatible, Vec::new()),
        Err(failure) => failure,
    };
    let from = world.state(&[(writer.root, true)]);
    let judge = Judge::of(from, writer.schema, reader.schema);
    let mut witnesses: Vec<Option<Value>> = Vec::new();
    for reason in reasons.iter().take(MAX_SOUGHT) {
        witnesses.push(judge.as_ref().and_then(|judge| judge.find(world, reason)));
    }
    let second = Canonical::of(world, writer.root, reader.root);
    let covers = second.as_ref().map_or(Answer::Unknown, SecondProver::covers);
    if witnesses.iter().all(Option::is_none)
        && covers != Answer::Yes
        && let (Some(judge), Some(lost)) = (&judge, second.as_ref().and_then(SecondProver::lost))
    {
        let mut of_lost = World::new();
        let found =
            judge.payloads(&mut of_lost, &lost).into_iter().find(|payload| judge.is_witness(world, payload));
        if let Some(first) = witnesses.first_mut() {
            *first = found;
        }
    }
    let evidence = Evidence { covers, witness: witnesses.iter().any(Option::is_some) };
    let verdict = evidence.verdict();
    if verdict == Verdict::Compatible {
        return (verdict, Vec::new());
    }
    let mut findings = Vec::new();
    if evidence.contradicts() {
        findings.push(disagreement(direction));
    }
    if exhausted {
        findings.push(too_complex(direction));
    }
    let mut witnesses = witnesses.into_iter();
    for reason in reasons {
        findings.push(finding(direction, verdict, reason, witnesses.next().flatten()));
    }
    if findings.is_empty() {
        findings.push(too_complex(direction));
    }
    (verdict, distinct(findings))
}

fn finding(direction: Direction, verdict: Verdict, reason: Reason<'_>, witness: Option<Value>) -> Finding {
    let certain =
        verdict == Verdict::Breaking && (witness.is_some() || reason.rule != Rule::KeywordUnsupported);
    Finding {
        rule: reason.rule,
        severity: if certain { Severity::Breaking } else { Severity::Undecided },
        direction: Some(direction),
        side: reason.side,
        pointer: reason.pointer,
        message: if certain {
            reason.message
        } else {
            format!("cannot prove compatible (treated as breaking): {}", reason.message)
        },
        help: reason.help,
        witness,
    }
}

fn disagreement(direction: Direction) -> Finding {
    Finding {
        rule: Rule::InternalDisagreement,
        severity: Severity::Breaking,
        direction: Some(direction),
        side: Side::New,
        pointer: String::new(),
        message: "two ways to decide contradict each other (treated as breaking): internal disagreement, please report"
            .to_owned(),
        help: Some("report both schemas, and make the change in a new major (schema_version + 1) until then".to_owned()),
        witness: None,
    }
}

pub(super) fn too_complex(direction: Direction) -> Finding {
    Finding {
        rule: Rule::TooComplex,
        severity: Severity::Undecided,
        direction: Some(direction),
        side: Side::New,
        pointer: String::new(),
        message: "cannot prove compatible (treated as breaking): the schemas are too large or too deep to be compared"
            .to_owned(),
        help: Some("make the schema flatter, or make it a new major (schema_version + 1)".to_owned()),
        witness: None,
    }
}

pub(super) fn invalid(direction: Direction, side: Side) -> Finding {
    Finding {
        side,
        message: "cannot prove compatible (treated as breaking): this is no valid JSON Schema (2020-12)"
            .to_owned(),
        help: Some("correct the file, or make the change in a new major (schema_version + 1)".to_owned()),
        ..too_complex(direction)
    }
}

/// Each place and rule once; the one with a payload.
fn distinct(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in findings {
        let same = kept.iter_mut().find(|known| {
            (known.rule, known.side, &known.pointer, &known.message)
                == (finding.rule, finding.side, &finding.pointer, &finding.message)
        });
        match same {
            Some(known) if known.witness.is_none() => *known = finding,
            Some(_) => {}
            None => kept.push(finding),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_contradicts_itself_is_breaking() {
        let evidence = |covers, witness| Evidence { covers, witness };
        assert_eq!(evidence(Answer::Unknown, false).verdict(), Verdict::Undecided);
        assert_eq!(evidence(Answer::Yes, false).verdict(), Verdict::Compatible);
        assert_eq!(evidence(Answer::No, false).verdict(), Verdict::Breaking);
        let contradiction = evidence(Answer::Yes, true);
        assert_eq!((contradiction.verdict(), contradiction.contradicts()), (Verdict::Breaking, true));
        let message = disagreement(Direction::Forward).message;
        assert!(message.contains("internal disagreement, please report"), "{message}");
    }
}
