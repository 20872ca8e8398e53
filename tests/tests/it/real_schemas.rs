//! Schemas that others wrote: GitHub's webhooks imported, and our documents read by the official AsyncAPI parser.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outbox_schema::asyncapi::{Info, document};
use outbox_schema::compat::{Verdict, compare};
use outbox_schema::import::import;
use outbox_schema::{Registry, Validators, validate};
use outbox_tests::{Example, github_examples, github_schemas};
use serde_json::Value;

/// Every definition of the file, imported or refused.
fn imported() -> BTreeMap<String, Result<Value, String>> {
    let schemas = github_schemas();
    let names = schemas["definitions"].as_object().unwrap().keys();
    let one = |name: &String| {
        let made = import(&schemas, &format!("/definitions/{name}"));
        (name.clone(), made.map(|made| made.schema).map_err(|error| error.to_string()))
    };
    names.map(one).collect()
}

#[test]
fn real_input_of_githubs_definitions_is_imported_and_full_against_itself() {
    let imported = imported();
    assert_eq!(imported.len(), 344);
    let refused: Vec<_> =
        imported.iter().filter_map(|(name, made)| Some((name, made.as_ref().err()?))).collect();
    assert!(refused.len() * 20 <= imported.len(), "at least 95 %, refused: {refused:#?}");
    for (name, made) in &imported {
        let Ok(schema) = made else { continue };
        let against_itself = compare(schema, &schema.clone());
        assert_eq!(
            (against_itself.backward, against_itself.forward),
            (Verdict::Compatible, Verdict::Compatible),
            "{name}"
        );
    }
    println!(
        "{} of {} definitions imported; refused: {refused:#?}",
        imported.len() - refused.len(),
        imported.len()
    );
}

/// A registry of events that GitHub sends, by the name under which its examples are.
fn registry(folder: &Path, most: usize) -> Registry {
    fs::write(folder.join("registry.toml"), "").unwrap();
    let events = imported().into_iter().filter_map(|(name, made)| {
        // `push$event` is the event `push`, `star$created` the action of one.
        let (kind, action) = name.split_once('$')?;
        let kind = if action == "event" { kind.to_owned() } else { format!("{kind}.{action}") };
        Some((format!("github.{kind}"), made.ok()?))
    });
    for (event_type, schema) in events.take(most) {
        fs::create_dir_all(folder.join(&event_type)).unwrap();
        fs::write(folder.join(&event_type).join("v1.0.json"), schema.to_string()).unwrap();
    }
    Registry::open(folder).unwrap()
}

/// Runs a script of `tests/data`: whether it succeeded, and what it printed.
fn node<A: AsRef<OsStr>>(script: &str, args: impl IntoIterator<Item = A>) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(script);
    let done = Command::new("node").arg(script).args(args).output().expect("run node");
    let text = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (done.status.success(), text)
}

/// Not all of GitHub's examples are as its schemas say: those that are not show that the imported schemas refuse the same.
#[test]
fn real_input_is_judged_by_an_imported_schema_as_by_its_source() {
    let files = ["OUTBOX_TEST_GITHUB_SCHEMAS", "OUTBOX_TEST_GITHUB_EXAMPLES"]
        .map(|name| std::env::var(name).unwrap());
    let (done, text) = node("ajv.cjs", files);
    assert!(done, "{text}");
    let by_source: Vec<Option<bool>> = serde_json::from_str(&text).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let validators = Validators::compile(&registry(folder.path(), usize::MAX)).unwrap();
    let judge = |example: &Example| match validators.check(&example.event_type, 1, &example.payload) {
        validate::Verdict::Unknown { .. } => None,
        verdict => Some(matches!(verdict, validate::Verdict::Valid | validate::Verdict::Undeclared(_))),
    };
    let examples = github_examples();
    let by_imported: Vec<Option<bool>> = examples.iter().map(judge).collect();
    let differing: Vec<_> = examples
        .iter()
        .zip(by_source.iter().zip(&by_imported))
        .filter(|(_, (source, imported))| source != imported)
        .map(|(example, verdicts)| (example.event_type.as_str(), verdicts))
        .collect();
    // Dates without an offset, which are none by RFC 3339; the other validator is lenient there.
    let dates = [("github.check_run.rerequested", (&Some(true), &Some(false))); 2];
    assert_eq!(differing, dates, "type, (by source, by imported)");
    let count = |verdict| by_imported.iter().filter(|one| **one == verdict).count();
    assert_eq!((count(Some(true)), count(Some(false)), count(None)), (275, 52, 2));
}

/// What the official parser says about a document.
fn parse(document: &Value) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asyncapi.json");
    fs::write(&file, document.to_string()).unwrap();
    node("asyncapi.cjs", [file])
}

#[test]
fn real_input_for_the_official_asyncapi_parser_is_accepted() {
    let info = Info { title: "Events", version: "1.0.0" };
    let ours = Registry::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas")).unwrap();
    let (accepted, text) = parse(&document(&ours, info));
    assert!(accepted && text.contains("5 channels, 5 messages"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let (accepted, text) = parse(&document(&registry(folder.path(), 20), info));
    assert!(accepted && text.contains("20 channels, 20 messages"), "{text}");

    let mut broken = document(&ours, info);
    broken["channels"]["order.placed"]["messages"]["v1"]["$ref"] = "#/components/messages/nowhere".into();
    assert!(!parse(&broken).0, "the parser looks");
}
