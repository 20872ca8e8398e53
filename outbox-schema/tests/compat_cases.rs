//! The verified verdicts of `compat-cases/`: every `false` there has a payload that shows it.
#![cfg(feature = "compat")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use outbox_schema::compat::{Verdict, compare};
use serde_json::Value;

struct Case {
    file: String,
    id: String,
    old: Value,
    new: Value,
    backward: bool,
    forward: bool,
    conservative_ok: bool,
}

fn lines() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compat-cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut lines = Vec::new();
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            lines.push((name.clone(), serde_json::from_str(line).unwrap()));
        }
    }
    lines
}

fn cases() -> Vec<Case> {
    let text = |line: &Value, member: &str| line[member].as_str().unwrap().to_owned();
    let said = |line: &Value, member: &str| line[member].as_bool().unwrap_or_default();
    let pairs = lines().into_iter().filter(|(_, line)| line.get("revisions").is_none());
    pairs
        .map(|(file, line)| Case {
            file,
            id: text(&line, "id"),
            old: line["old"].clone(),
            new: line["new"].clone(),
            backward: said(&line, "backward"),
            forward: said(&line, "forward"),
            conservative_ok: said(&line, "conservative_ok"),
        })
        .collect()
}

#[test]
fn every_case_has_its_verdict() {
    let (mut dangerous, mut alarms, mut strict_alarms, mut trues, mut shown, mut falses) =
        (vec![], vec![], vec![], 0, 0, 0);
    for case in cases() {
        let comparison = compare(&case.old, &case.new);
        for (direction, wanted, got) in
            [("backward", case.backward, comparison.backward), ("forward", case.forward, comparison.forward)]
        {
            let told = format!("{} {direction}: {got:?}", case.id);
            trues += usize::from(wanted && !case.conservative_ok);
            falses += usize::from(!wanted);
            let mine =
                comparison.findings.iter().filter(|f| f.direction.is_some_and(|d| d.as_str() == direction));
            shown += usize::from(!wanted && mine.clone().any(|f| f.witness.is_some()));
            match (wanted, got) {
                (false, Verdict::Compatible) => dangerous.push(told),
                (true, Verdict::Breaking | Verdict::Undecided) if !case.conservative_ok => {
                    if case.file == "schemars" { strict_alarms.push(told) } else { alarms.push(told) }
                }
                (true, Verdict::Breaking) => strict_alarms.push(told),
                _ => {}
            }
        }
    }
    assert_eq!(dangerous, [""; 0], "compatible, but a payload shows the break");
    assert_eq!(strict_alarms, [""; 0], "false alarms");
    assert!(alarms.len() * 50 <= trues, "more than 2 % false alarms: {alarms:?}");
    assert!(falses > 50 && shown * 100 >= falses * 95, "{shown} of {falses} breaks are shown by a payload");
}

#[test]
fn a_schema_is_full_with_itself_and_a_swap_swaps_the_verdicts() {
    for case in cases() {
        for schema in [&case.old, &case.new] {
            assert!(compare(schema, schema).is_full(), "{}", case.id);
            // Also where the short cut for equal documents does not apply.
            let mut other = schema.clone();
            other["default"] = Value::Null;
            assert!(compare(schema, &other).is_full(), "{}: {:?}", case.id, compare(schema, &other).findings);
        }
        let (there, back) = (compare(&case.old, &case.new), compare(&case.new, &case.old));
        assert_eq!((there.backward, there.forward), (back.forward, back.backward), "{}", case.id);
    }
}

#[test]
fn every_revision_is_compared_with_all_before_it() {
    for (_, line) in lines().into_iter().filter(|(_, line)| line.get("revisions").is_some()) {
        let revisions = line["revisions"].as_array().unwrap();
        let (newest, earlier) = revisions.split_last().unwrap();
        let all: Vec<_> = earlier.iter().map(|old| compare(old, newest)).collect();
        let is_safe = |verdict: fn(&outbox_schema::compat::Comparison) -> Verdict| {
            all.iter().all(|comparison| verdict(comparison) == Verdict::Compatible)
        };
        assert_eq!(is_safe(|c| c.backward), line["backward"].as_bool().unwrap(), "{}", line["id"]);
        assert_eq!(is_safe(|c| c.forward), line["forward"].as_bool().unwrap(), "{}", line["id"]);
    }
}
