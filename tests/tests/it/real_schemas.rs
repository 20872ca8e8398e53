//! Schemas that others wrote: GitHub's webhooks imported, and our documents read by the official AsyncAPI parser.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outbox_schema::asyncapi::{Info, document};
use outbox_schema::compat::{Verdict, compare};
use outbox_schema::import::import;
use outbox_schema::{Registry, Validators, validate};
use outbox_tests::{github_examples, github_schemas};
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

/// A registry of every event that GitHub sends, by the name under which its examples are.
fn registry(folder: &Path) -> Registry {
    fs::write(folder.join("registry.toml"), "").unwrap();
    for (name, made) in imported() {
        // `push$event` is the event `push`, `star$created` the action of one.
        let Some((kind, action)) = name.split_once('$') else { continue };
        let Ok(schema) = made else { continue };
        let kind = if action == "event" { kind.to_owned() } else { format!("{kind}.{action}") };
        let event_type = format!("github.{kind}");
        fs::create_dir_all(folder.join(&event_type)).unwrap();
        fs::write(folder.join(&event_type).join("v1.0.json"), schema.to_string()).unwrap();
    }
    Registry::open(folder).unwrap()
}

#[test]
fn real_input_of_githubs_webhooks_is_valid_by_the_imported_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let validators = Validators::compile(&registry(folder.path())).unwrap();
    let (mut valid, mut unknown, mut invalid) = (0, Vec::new(), Vec::new());
    for example in github_examples() {
        match validators.check(&example.event_type, 1, &example.payload) {
            validate::Verdict::Valid => valid += 1,
            validate::Verdict::Unknown { .. } => unknown.push(example.event_type),
            other => invalid.push((example.event_type, format!("{other:?}"))),
        }
    }
    println!("{valid} valid, {} without a schema: {unknown:?}", unknown.len());
    assert!(invalid.is_empty(), "{valid} valid, invalid: {invalid:#?}");
    assert!(valid >= 300 && unknown.len() <= 20, "{valid} valid, unknown: {unknown:?}");
}

/// What the official parser says about a document.
fn parse(document: &Value) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("asyncapi.json");
    fs::write(&file, document.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/asyncapi.cjs");
    let done = Command::new("node").arg(script).arg(file).output().expect("run node");
    let text = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (done.status.success(), text)
}

#[test]
fn real_input_for_the_official_asyncapi_parser_is_accepted() {
    let info = Info { title: "Events", version: "1.0.0" };
    let ours = Registry::open(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas")).unwrap();
    let (accepted, text) = parse(&document(&ours, info));
    assert!(accepted && text.contains("5 channels, 5 messages"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let (accepted, text) = parse(&document(&registry(folder.path()), info));
    assert!(accepted, "{text}");

    let mut broken = document(&ours, info);
    broken["channels"]["order.placed"]["messages"]["v1"]["$ref"] = "#/components/messages/nowhere".into();
    assert!(!parse(&broken).0, "the parser looks");
}
