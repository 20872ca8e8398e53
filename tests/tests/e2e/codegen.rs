//! `outbox codegen`: what it writes, what it says about a file that is out of date, and how it ends.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

const SCHEMA: &str =
    r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": "#;

/// A consumer's folder: a registry with two majors of one event type, and a configuration.
fn consumer(codegen: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let schemas = folder.path().join("schemas");
    fs::create_dir_all(schemas.join("order.placed")).unwrap();
    fs::write(schemas.join("registry.toml"), "").unwrap();
    schema(folder.path(), "v1.0", r#"{"cents": {"type": "integer", "format": "int64"}}"#);
    schema(folder.path(), "v2.0", r#"{"price": {"type": "number"}}"#);
    configure(folder.path(), codegen);
    folder
}

fn schema(folder: &Path, version: &str, members: &str) {
    let path = folder.join("schemas/order.placed").join(format!("{version}.json"));
    fs::write(path, format!("{SCHEMA}{members}}}")).unwrap();
}

fn configure(folder: &Path, codegen: &str) {
    fs::write(folder.join("outbox.toml"), format!("[codegen]\n{codegen}")).unwrap();
}

const GOOD: &str = "consumer = \"crm\"\noutput = \"events.rs\"\npins = { \"order.placed\" = 1 }\n";

/// Code, standard output and standard error.
fn codegen(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = outbox_tests::OutboxProcess::command().into_std();
    let Output { status, stdout, stderr } =
        command.arg("codegen").args(args).current_dir(folder).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_file_is_written_checked_and_named_when_it_is_out_of_date() {
    let folder = consumer(GOOD);
    let folder = folder.path();
    let (code, _, stderr) = codegen(folder, &["--check"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("events.rs is out of date: it is not there")
            && stderr.contains("run `outbox codegen`"),
        "{stderr}"
    );
    assert!(!folder.join("events.rs").exists(), "a check writes nothing");

    let (code, stdout, stderr) = codegen(folder, &[]);
    assert_eq!((code, stdout.trim()), (Some(0), "events.rs: written"), "{stderr}");
    let first = fs::read_to_string(folder.join("events.rs")).unwrap();
    assert!(first.contains("pub trait CrmHandler") && first.contains("pub cents: Option<i64>"), "{first}");
    assert_eq!(codegen(folder, &["--check"]).0, Some(0));
    assert_eq!(codegen(folder, &[]).1.trim(), "events.rs: up to date");

    // A minor of the pinned major.
    schema(
        folder,
        "v1.1",
        r#"{"cents": {"type": "integer", "format": "int64"}, "note": {"type": "string"}}"#,
    );
    let (code, stdout, stderr) = codegen(folder, &["--check"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    for part in ["changed  order.placed", "from v1.0 sha256:", "to   v1.1 sha256:", "run `outbox codegen`"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let (code, stdout, _) = codegen(folder, &["--check", "--format", "json"]);
    let json: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &json["state"], &json["pins"][0]["change"]),
        (Some(1), &json!("out of date"), &json!("changed"))
    );
    let (code, stdout, _) = codegen(folder, &[]);
    assert!(code == Some(0) && stdout.starts_with("events.rs: written\n  changed  order.placed"), "{stdout}");

    // Another pin.
    configure(folder, &GOOD.replace("= 1", "= 2"));
    let (code, _, stderr) = codegen(folder, &["--check"]);
    assert!(code == Some(1) && stderr.contains("to   v2.0 sha256:"), "{stderr}");
    assert_eq!(codegen(folder, &[]).0, Some(0));

    // An edit.
    let file = fs::read_to_string(folder.join("events.rs")).unwrap();
    fs::write(folder.join("events.rs"), file.replace("f64", "f32")).unwrap();
    let (code, _, stderr) = codegen(folder, &["--check"]);
    assert!(code == Some(1) && stderr.contains("pins and schemas are the same, but line "), "{stderr}");
}

#[test]
fn another_language_goes_to_a_file_of_its_own() {
    let folder = consumer(GOOD);
    let (code, stdout, stderr) = codegen(folder.path(), &["--lang", "ts"]);
    assert_eq!((code, stdout.trim()), (Some(0), "events.ts: written"), "{stderr}");
    let text = fs::read_to_string(folder.path().join("events.ts")).unwrap();
    assert!(
        text.contains("//     outbox codegen --lang ts\n") && text.contains("export interface CrmHandler"),
        "{text}"
    );
    assert_eq!(codegen(folder.path(), &["--lang", "ts", "--check"]).0, Some(0));
    assert!(!folder.path().join("events.rs").exists());
}

#[test]
fn what_cannot_be_generated_is_told_with_a_way_out() {
    let folder = consumer(&GOOD.replace("}", ", \"order.lost\" = 1 }"));
    let folder = folder.path();
    schema(folder, "v1.1", r#"{"odd": {"if": {}}}"#);
    let (code, stdout, stderr) = codegen(folder, &[]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("no event type `order.lost`; it has order.placed"), "{stderr}");
    let key = "\"order.placed/v1#/properties/odd\"";
    assert!(stderr.contains("order.placed v1, `/properties/odd/if`") && stderr.contains(key), "{stderr}");
    assert!(!folder.join("events.rs").exists());

    configure(folder, &format!("{GOOD}types = {{ {key} = \"crate::Odd\" }}\n"));
    assert_eq!(codegen(folder, &[]).0, Some(0));
    let text = fs::read_to_string(folder.join("events.rs")).unwrap();
    assert!(text.contains("pub odd: Option<crate::Odd>,"), "{text}");

    schema(folder, "v1.1", "{}");
    configure(folder, &GOOD.replace("events.rs", "nowhere/events.rs"));
    let (code, _, stderr) = codegen(folder, &[]);
    assert!(code == Some(2) && stderr.contains("create its folder"), "{stderr}");
    fs::write(folder.join("outbox.toml"), "").unwrap();
    let (code, _, stderr) = codegen(folder, &[]);
    assert!(code == Some(2) && stderr.contains("add a [codegen] with consumer, output and pins"), "{stderr}");
    fs::remove_dir_all(folder.join("schemas")).unwrap();
    configure(folder, GOOD);
    let (code, _, stderr) = codegen(folder, &[]);
    assert!(code == Some(2) && stderr.contains("no schema registry"), "{stderr}");
}

#[test]
fn the_example_is_up_to_date() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/consumer");
    let (code, stdout, stderr) = codegen(&example, &["--check"]);
    assert_eq!((code, stdout.trim()), (Some(0), "src/events.rs: up to date"), "{stderr}");
}
