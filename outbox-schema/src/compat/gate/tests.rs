use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::git::GitError;
use crate::git::tests::{git, repository};
use crate::{Fingerprint, document};

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn schema(rest: &serde_json::Value) -> String {
    let mut schema = json!({"$schema": document::DIALECT, "type": "object"});
    schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    format!("{schema:#}\n")
}

/// A schema of one required member of this type.
fn of(kind: &str) -> String {
    schema(&json!({"properties": {"a": {"type": kind}}, "required": ["a"]}))
}

/// A schema of optional members of these types, `-` for none.
fn optional(members: &[(&str, &str)]) -> String {
    let members: serde_json::Map<_, _> =
        members.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    schema(&json!({"properties": members}))
}

fn folder(settings: &str, files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "registry.toml", settings);
    files.iter().for_each(|(name, text)| write(dir.path(), name, text));
    dir
}

fn checked(dir: &TempDir) -> Report {
    check(&Registry::open(dir.path()).unwrap(), None)
}

fn fingerprint(text: &str) -> Fingerprint {
    Fingerprint::of(&serde_json::from_str(text).unwrap())
}

/// The pairs that fail, as `old>new`.
fn failing(report: &Report) -> Vec<String> {
    let failing = report.pairs.iter().filter(|pair| pair.verdict != Verdict::Compatible);
    failing.map(|pair| format!("{}.{}>{}", pair.major, pair.old.minor, pair.new.minor)).collect()
}

#[test]
fn every_minor_is_compared_with_all_earlier_ones_of_its_major() {
    // Each step is full; from the first to the last one, readers break.
    let dir = folder(
        "",
        &[
            ("a.changed/v1.0.json", &optional(&[("x", "string")])),
            ("a.changed/v1.1.json", &optional(&[])),
            ("a.changed/v1.2.json", &optional(&[("x", "integer")])),
            ("a.changed/v2.0.json", &of("integer")),
            ("b.changed/v1.0.json", &of("string")),
        ],
    );
    let report = checked(&dir);
    assert_eq!((report.event_types, report.compared), (2, 3));
    assert_eq!(failing(&report), ["1.0>2"], "{report:#?}");
    assert_eq!((report.passes(), report.verdict()), (false, Verdict::Breaking));
    fs::remove_file(dir.path().join("a.changed/v1.2.json")).unwrap();
    assert!(checked(&dir).passes());
}

#[test]
fn the_setting_says_which_directions_count() {
    let files = [
        ("a.changed/v1.0.json", optional(&[("x", "integer")])),
        ("a.changed/v1.1.json", optional(&[("x", "number")])),
        ("b.changed/v1.0.json", optional(&[("x", "number")])),
        ("b.changed/v1.1.json", optional(&[("x", "integer")])),
    ];
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let failing_types = |settings: &str| {
        let report = checked(&folder(settings, &files));
        let failing = report.pairs.iter().filter(|pair| pair.verdict != Verdict::Compatible);
        failing.map(|pair| pair.event_type.as_str().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(failing_types(""), ["a.changed", "b.changed"]);
    assert_eq!(failing_types("compatibility = \"backward\""), ["b.changed"], "a new reader of old numbers");
    assert_eq!(failing_types("compatibility = \"forward\""), ["a.changed"]);
    assert_eq!(failing_types("compatibility = \"none\""), [""; 0]);
    let one = "compatibility = \"none\"\n[compatibility_for]\n\"a.changed\" = \"full\"";
    assert_eq!(failing_types(one), ["a.changed"]);
}

#[test]
fn what_cannot_be_proved_is_a_verdict_of_its_own_and_fails() {
    let pattern =
        |pattern: &str| schema(&json!({"properties": {"a": {"type": "string", "pattern": pattern}}}));
    let dir = folder(
        "",
        &[("a.changed/v1.0.json", &pattern("^a+b?c$")), ("a.changed/v1.1.json", &pattern("^(a|b)+c$"))],
    );
    let report = checked(&dir);
    assert_eq!(report.pairs.len(), 1);
    assert_ne!(report.pairs[0].verdict, Verdict::Compatible);
    assert!(!report.passes());
    let registry = Registry::open(dir.path()).unwrap();
    assert!(
        text(&report, &registry).contains("1 pairs of minors compared: 1 "),
        "{}",
        text(&report, &registry)
    );
}

/// The failing finding of the only pair.
fn finding(report: &Report) -> super::super::finding::Finding {
    let findings = &report.pairs[0].comparison.findings;
    findings.iter().find(|finding| finding.severity >= Severity::Undecided).unwrap().clone()
}

#[test]
fn an_override_silences_one_finding_of_two_fingerprints() {
    let (old, new) = (of("integer"), of("number"));
    let dir = folder(
        "compatibility = \"forward\"",
        &[("a.changed/v1.0.json", &old), ("a.changed/v1.1.json", &new)],
    );
    let report = checked(&dir);
    let finding = finding(&report);
    assert!(!report.passes() && finding.witness.is_some(), "{report:#?}");
    let entry = |old: &str, new: &str, more: &str| {
        format!(
            "[[1]]\nrule = \"{}\"\npointer = \"{}\"\nold = \"{}\"\nnew = \"{}\"\nreason = \"counted\"\nauthor = \"ada\"\n\
             date = 2026-12-01\n{more}\n",
            finding.rule.id(),
            finding.pointer,
            fingerprint(old),
            fingerprint(new)
        )
    };
    let state = |text: &str| {
        write(dir.path(), "a.changed/overrides.toml", text);
        let report = checked(&dir);
        let states: Vec<_> = report.overrides.iter().map(|used| used.state).collect();
        (report.passes(), report.verdict() == Verdict::Compatible, states)
    };
    let acknowledged = entry(&old, &new, "acknowledge_witness = true");
    assert_eq!(state(&acknowledged), (true, true, vec![OverrideState::Applied]));
    assert_eq!(state(&entry(&old, &new, "")), (false, false, vec![OverrideState::NotAcknowledged]));
    for wrong in [
        entry(&new, &old, "acknowledge_witness = true"),
        entry(&old, &old, "acknowledge_witness = true"),
        acknowledged.replace("[[1]]", "[[2]]"),
        acknowledged.replace(finding.rule.id(), "length"),
        acknowledged.replace("pointer = \"", "pointer = \"/x"),
    ] {
        assert_eq!(state(&wrong), (false, false, vec![OverrideState::Unused]), "{wrong}");
    }
    // It lapses with the next edit, and is in the way then.
    write(dir.path(), "a.changed/v1.1.json", &of("string"));
    assert_eq!(state(&acknowledged), (false, false, vec![OverrideState::Unused]));
    // An override of something that is fine is in the way too.
    write(dir.path(), "a.changed/v1.1.json", &old);
    assert_eq!(state(&acknowledged), (false, true, vec![OverrideState::Unused]));
}

#[test]
fn overrides_are_listed_in_every_form() {
    let (old, new) = (of("integer"), of("number"));
    let dir = folder(
        "compatibility = \"forward\"",
        &[("a.changed/v1.0.json", &old), ("a.changed/v1.1.json", &new)],
    );
    let found = finding(&checked(&dir));
    let entry = format!(
        "[[1]]\nrule = \"{}\"\npointer = \"{}\"\nold = \"{}\"\nnew = \"{}\"\nreason = \"counted\"\nauthor = \"ada\"\n\
         date = 2026-12-01\nacknowledge_witness = true\n",
        found.rule.id(),
        found.pointer,
        fingerprint(&old),
        fingerprint(&new)
    );
    write(dir.path(), "a.changed/overrides.toml", &entry);
    let registry = Registry::open(dir.path()).unwrap();
    let report = check(&registry, None);
    let shown = text(&report, &registry);
    assert!(
        shown.contains("override: a.changed v1, ") && shown.contains("counted (ada, 2026-12-01)"),
        "{shown}"
    );
    assert!(shown.ends_with("1 event types, 1 pairs of minors compared: all compatible\n"), "{shown}");
    let value = json(&report);
    assert_eq!((&value["passes"], &value["overrides"][0]["state"]), (&json!(true), &json!("applied")));
    assert_eq!(value["pairs"][0]["overridden"][0], json!(true));
    let annotations = github(&report, &registry);
    assert!(annotations.contains("::notice file=") && !annotations.contains("::error"), "{annotations}");
    write(dir.path(), "a.changed/v1.1.json", &old);
    let report = check(&Registry::open(dir.path()).unwrap(), None);
    let shown = github(&report, &registry);
    assert!(shown.starts_with("::error file=") && shown.contains("overrides.toml"), "{shown}");
}

#[test]
fn a_break_is_shown_once_with_its_file_and_payload() {
    let dir = folder(
        "",
        &[
            ("a.changed/v1.0.json", &of("integer")),
            (
                "a.changed/v1.1.json",
                &schema(&json!({"properties": {"a": {"type": "integer"}, "b": true}, "required": ["a"]})),
            ),
            ("a.changed/v1.2.json", &of("string")),
        ],
    );
    let registry = Registry::open(dir.path()).unwrap();
    let report = check(&registry, None);
    assert_eq!(failing(&report), ["1.1>2", "1.0>2"]);
    let shown = text(&report, &registry);
    assert_eq!(shown.matches("error[type-changed] (backward)").count(), 1, "{shown}");
    assert!(shown.contains("v1.2.json:") && shown.contains("= for example: {\"a\":"), "{shown}");
    let annotations = github(&report, &registry);
    assert!(
        annotations
            .lines()
            .all(|line| line.starts_with("::error file=") || line.starts_with("::warning file=")),
        "{annotations}"
    );
    assert!(annotations.contains("v1.2.json,line="), "{annotations}");
    assert_eq!(json(&report)["pairs"].as_array().unwrap().len(), report.pairs.len());
}

/// A repository whose `main` has committed these files in `schemas`.
fn committed(files: &[(&str, &str)]) -> TempDir {
    let dir = repository();
    write(dir.path(), "schemas/registry.toml", "");
    files.iter().for_each(|(name, text)| write(&dir.path().join("schemas"), name, text));
    git(dir.path(), &["add", "--all"]);
    git(dir.path(), &["commit", "--quiet", "-m", "schemas"]);
    git(dir.path(), &["checkout", "--quiet", "-b", "work"]);
    dir
}

/// What is found against `main`, as rule and path from the folder.
fn history(dir: &TempDir) -> Vec<(&'static str, String)> {
    let registry = Registry::open(dir.path().join("schemas")).unwrap();
    let report = check(&registry, Some(&Base::of(&registry, "main").unwrap()));
    assert_eq!(report.base, Some(("main".to_owned(), true)));
    assert_eq!(report.passes(), report.history.is_empty() && report.verdict() == Verdict::Compatible);
    let place = |path: &Path| path.strip_prefix(registry.root()).unwrap().to_str().unwrap().to_owned();
    report.history.iter().map(|finding| (finding.rule.id(), place(&finding.path))).collect()
}

#[test]
fn committed_revisions_are_append_only() {
    let dir = committed(&[
        ("a.changed/v1.0.json", &of("string")),
        ("a.changed/v1.1.json", &of("string")),
        ("b.changed/v1.0.json", &of("string")),
        ("c.changed/v1.0.json", &of("string")),
        ("d.changed/v1.0.json", &of("string")),
    ]);
    let root = dir.path().join("schemas");
    assert_eq!(history(&dir), []);
    let described = schema(&json!({
        "title": "T", "required": ["a"], "properties": {"a": {"type": "string", "description": "other words"}},
    }));
    write(&root, "a.changed/v1.0.json", &described);
    write(&root, "a.changed/v1.2.json", &optional(&[("b", "string")]));
    assert_eq!(history(&dir), [], "words may change, and revisions be added");

    write(&root, "b.changed/v1.0.json", &of("integer"));
    fs::remove_file(root.join("a.changed/v1.1.json")).unwrap();
    fs::remove_dir_all(root.join("c.changed")).unwrap();
    fs::remove_file(root.join("d.changed/v1.0.json")).unwrap();
    write(&root, "d.changed/removed.toml", "date = 2026-12-01\nreason = \"nobody read it\"\n");
    let expected = [
        ("revision-removed", "a.changed/v1.1.json".to_owned()),
        ("revision-rewritten", "b.changed/v1.0.json".to_owned()),
        ("event-removed", "c.changed".to_owned()),
    ];
    assert_eq!(history(&dir), expected);
    git(dir.path(), &["add", "--all"]);
    git(dir.path(), &["commit", "--quiet", "-m", "worse"]);
    assert_eq!(history(&dir), expected, "committing it does not help");
    let registry = Registry::open(&root).unwrap();
    let report = check(&registry, Some(&Base::of(&registry, "main").unwrap()));
    let shown = text(&report, &registry);
    assert!(shown.contains("| /properties/a/type") && shown.contains("\"string\" -> \"integer\""), "{shown}");
    assert_eq!(github(&report, &registry).matches("title=revision-").count(), 2);
}

#[test]
fn what_main_has_got_since_is_not_missed() {
    let dir = committed(&[("a.changed/v1.0.json", &of("string"))]);
    git(dir.path(), &["checkout", "--quiet", "main"]);
    write(dir.path(), "schemas/b.changed/v1.0.json", &of("string"));
    git(dir.path(), &["add", "--all"]);
    git(dir.path(), &["commit", "--quiet", "-m", "theirs"]);
    git(dir.path(), &["checkout", "--quiet", "work"]);
    assert_eq!(history(&dir), []);
}

#[test]
fn a_folder_that_git_has_not_seen_is_said_and_a_file_that_was_none_of_ours_protects_nobody() {
    let dir = repository();
    write(dir.path(), "schemas/registry.toml", "");
    write(dir.path(), "schemas/a.changed/v1.0.json", &of("string"));
    let registry = Registry::open(dir.path().join("schemas")).unwrap();
    let report = check(&registry, Some(&Base::of(&registry, "main").unwrap()));
    assert!(report.passes() && report.base == Some(("main".to_owned(), false)));
    assert!(text(&report, &registry).contains("the folder is not in `main`"));
    assert!(github(&report, &registry).starts_with("::notice::the folder is not in `main`"));
    assert_eq!(json(&report)["against_has_folder"], json!(false));

    let dir = committed(&[("a.changed/v1.0.json", "{\"type\": \"object\"}")]);
    write(dir.path(), "schemas/a.changed/v1.0.json", &of("string"));
    assert_eq!(history(&dir), []);
}

#[test]
fn a_folder_that_was_moved_is_not_taken_for_a_new_one() {
    let dir = committed(&[("a.changed/v1.0.json", &of("string"))]);
    let moved = |to: &str| Base::of(&Registry::open(dir.path().join(to)).unwrap(), "main");
    // Another registry beside it is new.
    write(dir.path(), "other/schemas/registry.toml", "");
    write(dir.path(), "other/schemas/b.changed/v1.0.json", &of("string"));
    assert!(moved("other/schemas").is_ok_and(|base| !base.has_folder()));
    // The same event types elsewhere, or a registry that is gone from where it was, are not.
    write(dir.path(), "events/registry.toml", "");
    write(dir.path(), "events/a.changed/v1.0.json", &of("integer"));
    let from_schemas = |found: Result<Base, GitError>| matches!(found, Err(GitError::Moved { elsewhere, .. }) if elsewhere == Path::new("schemas"));
    assert!(from_schemas(moved("events")));
    fs::remove_dir_all(dir.path().join("schemas")).unwrap();
    fs::remove_dir_all(dir.path().join("events/a.changed")).unwrap();
    assert!(from_schemas(moved("events")));
}

/// Names the folder to a hook that is this test once more.
const HOOK_FOLDER: &str = "OUTBOX_TEST_HOOK_FOLDER";

#[cfg(unix)]
#[test]
fn a_hook_in_a_linked_work_tree_sees_the_history() {
    use std::os::unix::fs::PermissionsExt as _;

    if let Some(folder) = std::env::var_os(HOOK_FOLDER) {
        let registry = Registry::open(PathBuf::from(folder)).unwrap();
        let report = check(&registry, Some(&Base::of(&registry, "main").unwrap()));
        let rules: Vec<_> = report.history.iter().map(|finding| finding.rule.id()).collect();
        fs::write(registry.root().join("../hook.txt"), rules.join(" ")).unwrap();
        return;
    }
    let dir = committed(&[("a.changed/v1.0.json", &of("string"))]);
    let linked = tempfile::tempdir().unwrap();
    let tree = linked.path().join("tree");
    git(dir.path(), &["worktree", "add", "--quiet", "-b", "linked", tree.to_str().unwrap(), "main"]);
    let hook = linked.path().join("hooks/pre-commit");
    let script = format!(
        "#!/bin/sh\n{HOOK_FOLDER}='{}' exec '{}' --exact compat::gate::tests::a_hook_in_a_linked_work_tree_sees_the_history\n",
        tree.join("schemas").display(),
        std::env::current_exe().unwrap().display(),
    );
    write(linked.path(), "hooks/pre-commit", &script);
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    write(&tree, "schemas/a.changed/v1.0.json", &of("integer"));
    let hooks = format!("core.hooksPath={}", linked.path().join("hooks").display());
    git(&tree, &["-c", &hooks, "commit", "--quiet", "-a", "-m", "rewritten"]);
    assert_eq!(fs::read_to_string(tree.join("hook.txt")).unwrap(), "revision-rewritten");
}

#[test]
fn a_shallow_clone_is_enough_unless_git_is_asked() {
    let dir = committed(&[("a.changed/v1.0.json", &of("string"))]);
    git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "mine"]);
    git(dir.path(), &["checkout", "--quiet", "main"]);
    git(dir.path(), &["commit", "--quiet", "--allow-empty", "-m", "theirs"]);
    let clone = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().display());
    git(clone.path(), &["clone", "--quiet", "--depth=1", "--branch=work", "--no-single-branch", &url, "."]);
    let registry = Registry::open(clone.path().join("schemas")).unwrap();
    assert!(check(&registry, None).passes());
    let error = Base::of(&registry, "origin/main").unwrap_err();
    assert!(
        error.to_string().contains("--unshallow") && error.to_string().contains("fetch-depth: 0"),
        "{error}"
    );
    git(clone.path(), &["fetch", "--quiet", "--unshallow"]);
    assert!(check(&registry, Some(&Base::of(&registry, "origin/main").unwrap())).passes());
}

/// 500 event types with three minors each: what `outbox schema check` does in a large project.
#[test]
fn a_large_registry_is_checked_within_seconds() {
    use std::time::{Duration, Instant};

    /// What a release build on one machine of two processors needs at most.
    const PROMISE: Duration = Duration::from_secs(2);

    let dir = folder("", &[]);
    for n in 0..500 {
        for minor in 0..3 {
            let mut members = serde_json::Map::new();
            for field in 0..12 + minor {
                let kind = ["string", "integer", "boolean", "number"][field % 4];
                members.insert(
                    format!("field_{field}"),
                    json!({"type": [kind, "null"], "description": "what it means"}),
                );
            }
            members.insert("customer".to_owned(), json!({"$ref": "#/$defs/Customer"}));
            members.insert("kind".to_owned(), json!({"oneOf": [
                {"type": "object", "required": ["tag", "a"], "properties": {"tag": {"const": "A"}, "a": {"type": "integer", "format": "uint32"}}},
                {"type": "object", "required": ["tag"], "properties": {"tag": {"const": "B"}}},
            ]}));
            let text = schema(&json!({
                "properties": members, "required": ["customer", "kind"],
                "$defs": {"Customer": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string", "format": "uuid"}, "tags": {"type": "array", "items": {"type": "string"}},
                }}},
            }));
            write(dir.path(), &format!("entity.thing_{n}.changed/v1.{minor}.json"), &text);
        }
    }
    let begun = Instant::now();
    let registry = Registry::open(dir.path()).unwrap();
    let opened = begun.elapsed();
    let report = check(&registry, None);
    let took = begun.elapsed();
    println!(
        "{} pairs of {} event types: opened in {opened:?}, checked in {took:?}",
        report.compared, report.event_types
    );
    assert_eq!((report.event_types, report.compared, report.passes()), (500, 1500, true));
    // A build without optimization takes ten times as long.
    assert!(took < PROMISE * if cfg!(debug_assertions) { 50 } else { 5 }, "{took:?}");
}
