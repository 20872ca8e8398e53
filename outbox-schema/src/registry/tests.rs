use super::*;
use tempfile::TempDir;

const SCHEMA: &str = r#"{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}"#;

const REMOVED: &str = "date = 2026-12-01\nreason = \"gone\"\n";

/// A registry folder with these files besides an empty `registry.toml`.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), SETTINGS_FILE, "");
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    dir
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn problems(dir: &TempDir) -> Vec<(String, Reason)> {
    match Registry::open(dir.path()) {
        Err(RegistryError::Invalid { root, problems }) => {
            assert_eq!(root, dir.path());
            let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            problems.into_iter().map(|p| (name(&p.path), p.reason)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_are_listed_by_type_major_and_minor() {
    let dir = folder(&[
        ("customer.updated/v1.0.json", SCHEMA),
        ("customer.updated/v1.10.json", SCHEMA),
        ("customer.updated/v1.9.json", SCHEMA),
        ("customer.updated/v10.0.json", SCHEMA),
        ("customer.updated/v2.0.json", SCHEMA),
        ("customer.updated/overrides.toml", ""),
        ("customer.deleted/v1.0.json", SCHEMA),
        ("customer.deleted/removed.toml", REMOVED),
        ("customer.archived/removed.toml", REMOVED),
        ("README.md", "our events"),
        (".git/HEAD", ""),
        ("customer.updated/.v1.0.json.swp", "anything"),
    ]);
    let registry = Registry::open(dir.path()).unwrap();
    let types: Vec<&str> = registry.event_types().map(EventType::as_str).collect();
    assert_eq!(types, ["customer.deleted", "customer.updated"]);
    assert_eq!(registry.majors("customer.updated").collect::<Vec<_>>(), [1, 2, 10]);
    assert_eq!(registry.majors("unknown.type").count(), 0);
    let newest = registry.newest("customer.updated", 1).unwrap();
    assert_eq!((newest.major, newest.minor), (1, 10));
    assert_eq!(newest.path, dir.path().join("customer.updated/v1.10.json"));
    assert_eq!(newest.event_type.as_str(), "customer.updated");
    assert_eq!(newest.fingerprint, Fingerprint::of(&newest.schema));
    assert!(registry.newest("customer.updated", 3).is_none());
    assert!(registry.newest("unknown.type", 1).is_none());
    let all: Vec<(u32, u32)> = registry.files().skip(1).map(|f| (f.major, f.minor)).collect();
    assert_eq!(all, [(1, 0), (1, 9), (1, 10), (2, 0), (10, 0)]);
    let newest: Vec<(u32, u32)> = registry.newest_of_each().map(|f| (f.major, f.minor)).collect();
    assert_eq!(newest, [(1, 0), (1, 10), (2, 0), (10, 0)]);
}

#[test]
fn all_problems_are_reported_at_once() {
    let dir = folder(&[
        (SETTINGS_FILE, "compatibility = \"full\"\ncompatibilty = \"full\"\n"),
        ("Customer.updated/v1.0.json", SCHEMA),
        ("customer.deleted/v0.1.json", SCHEMA),
        ("customer.deleted/v01.0.json", SCHEMA),
        ("customer.deleted/v1.00.json", SCHEMA),
        ("customer.deleted/v1.json", SCHEMA),
        ("customer.deleted/v+1.0.json", SCHEMA),
        ("customer.deleted/v1.0.JSON", SCHEMA),
        ("customer.deleted/v4294967296.0.json", SCHEMA),
        ("customer.deleted/notes.md", ""),
        ("customer.deleted/deeper/v1.0.json", SCHEMA),
        ("customer.updated/v1.0.json", r#"{"type": "object"}"#),
        ("customer.updated/v2.0.json", "{"),
        ("customer.updated/v3.0.json", "[]"),
        ("customer.updated/v4.0.json", r#"{"$id": "x", "items": {"$ref": "https://example.com"}}"#),
        ("customer.updated/v5.0.json", r#"{"a": 1, "a": 1}"#),
        ("customer.updated/v6.0.json/inner", ""),
        ("customer.updated/removed.toml/inner", ""),
        ("stray.json", SCHEMA),
    ]);
    let found = problems(&dir);
    let by_name =
        |name: &str| -> Vec<&Reason> { found.iter().filter(|(n, _)| n == name).map(|(_, r)| r).collect() };
    for name in ["v0.1.json", "v01.0.json", "v1.00.json", "v1.json", "v+1.0.json", "v1.0.JSON"] {
        assert_eq!(by_name(&format!("customer.deleted/{name}")), [&Reason::NotInType], "{name}");
    }
    for name in ["v4294967296.0.json", "notes.md", "deeper"] {
        assert_eq!(by_name(&format!("customer.deleted/{name}")), [&Reason::NotInType], "{name}");
    }
    assert!(
        matches!(by_name(SETTINGS_FILE).as_slice(), [Reason::Settings(text)] if text.contains("line 2, column 1"))
    );
    assert!(matches!(by_name("Customer.updated").as_slice(), [Reason::Name(ShapeError::BadSegment { .. })]));
    assert_eq!(by_name("stray.json"), [&Reason::NotInRoot]);
    let schema = |name: &str| by_name(&format!("customer.updated/{name}"));
    assert!(matches!(schema("v1.0.json").as_slice(), [Reason::Schema(SchemaProblem::Dialect { .. })]));
    assert!(matches!(schema("v2.0.json").as_slice(), [Reason::Schema(SchemaProblem::NotJson(_))]));
    assert_eq!(schema("v3.0.json"), [&Reason::Schema(SchemaProblem::NotAnObject)]);
    assert_eq!(schema("v4.0.json").len(), 3);
    assert!(matches!(schema("v5.0.json").as_slice(), [Reason::Schema(SchemaProblem::NotJson(_))]));
    assert_eq!(schema("v6.0.json"), [&Reason::NotAFile]);
    assert_eq!(schema("removed.toml"), [&Reason::NotAFile]);
    assert_eq!(found.len(), 21, "{found:#?}");

    let text = Registry::open(dir.path()).unwrap_err().to_string();
    assert!(text.contains("has 21 problems:\n"), "{text}");
    assert!(text.contains("stray.json: has no place here"), "{text}");
    assert!(text.contains("compatibilty"), "{text}");
}

#[test]
fn settings_are_strict() {
    let read = |text: &str| decisions::parse::<Settings>(text.as_bytes());
    assert_eq!(read("").unwrap(), Settings::default());
    assert_eq!(Settings::default().base, "origin/main");
    let all = read("compatibility = \"backward\"\nbase = \"v1.2\"\n").unwrap();
    assert_eq!((all.compatibility, all.base.as_str()), (Compatibility::Backward, "v1.2"));
    for bad in [
        "compatibility = \"Full\"",
        "compatibility = 1",
        "base = \"\"",
        "base = \"--upload-pack=x\"",
        "base = \"a b\"",
        "[registry]\nbase = \"a\"",
        "[compatibility_for]\n\"Customer\" = \"full\"",
        "[compatibility_for]\n\"customer.updated\" = \"some\"",
        "compatibility = \"full\"\ncompatibility = \"full\"",
        "compatibility",
    ] {
        let Err(text) = read(bad) else { panic!("{bad}") };
        assert!(text.contains("line "), "{text}");
    }
    assert!(decisions::parse::<Settings>(b"\xff").is_err());
}

#[test]
fn what_people_decided_is_read_and_half_written_files_are_refused() {
    let fingerprint = Fingerprint::of(&serde_json::from_str(SCHEMA).unwrap());
    let entry = format!(
        "[[1]]\nrule = \"pattern-changed\"\npointer = \"/pattern\"\nold = \"{fingerprint}\"\nnew = \"{fingerprint}\"\n\
         reason = \"r\"\nauthor = \"a\"\ndate = 2026-12-01\n"
    );
    let dir = folder(&[
        (SETTINGS_FILE, "compatibility = \"none\"\n[compatibility_for]\n\"customer.updated\" = \"forward\""),
        ("customer.updated/v1.0.json", SCHEMA),
        ("customer.updated/overrides.toml", &entry),
        ("customer.deleted/removed.toml", REMOVED),
    ]);
    let registry = Registry::open(dir.path()).unwrap();
    let settings = registry.settings();
    assert_eq!(settings.compatibility_of("customer.updated"), Compatibility::Forward);
    assert_eq!(settings.compatibility_of("customer.deleted"), Compatibility::None);
    let [(event_type, found)] = registry.overrides().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((event_type.as_str(), found.major, found.old), ("customer.updated", 1, fingerprint));
    assert_eq!(registry.tombstone("customer.deleted").unwrap().reason, "gone");
    assert_eq!(registry.tombstone("customer.updated"), None);
    assert_eq!(registry.minors("customer.updated", 1).len(), 1);
    assert!(registry.minors("customer.updated", 2).is_empty());

    write(dir.path(), SETTINGS_FILE, "[compatibility_for]\n\"customer.update\" = \"none\"");
    write(dir.path(), "customer.updated/overrides.toml", "[[1]]\nrule = \"a\"");
    write(dir.path(), "customer.deleted/removed.toml", "date = 2026-12-01");
    let found = problems(&dir);
    assert!(
        matches!(
            &found[..],
            [(_, Reason::Removed(_)), (_, Reason::Overrides(_)), (name, Reason::UnknownType(_))] if name == SETTINGS_FILE
        ),
        "{found:#?}"
    );
}

#[test]
fn files_over_the_limit_are_refused() {
    let at_limit = format!("{SCHEMA}{}", " ".repeat(usize::try_from(MAX_FILE_LEN).unwrap() - SCHEMA.len()));
    let dir = folder(&[("customer.updated/v1.0.json", &at_limit)]);
    assert_eq!(Registry::open(dir.path()).unwrap().files().count(), 1);
    write(dir.path(), "customer.updated/v1.0.json", &format!("{at_limit} "));
    assert_eq!(problems(&dir), [("customer.updated/v1.0.json".to_owned(), Reason::TooLarge)]);
}

#[cfg(unix)]
#[test]
fn links_may_not_lead_out() {
    use std::os::unix::fs::symlink;

    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "v1.0.json", SCHEMA);
    let dir = folder(&[("customer.updated/v1.0.json", SCHEMA)]);
    let at = |name: &str| dir.path().join(name);
    symlink("v1.0.json", at("customer.updated/v2.0.json")).unwrap();
    assert_eq!(Registry::open(dir.path()).unwrap().majors("customer.updated").count(), 2);

    symlink(outside.path().join("v1.0.json"), at("customer.updated/v3.0.json")).unwrap();
    symlink(outside.path(), at("customer.deleted")).unwrap();
    symlink("nowhere", at("customer.updated/v4.0.json")).unwrap();
    let expected = [
        ("customer.deleted", Reason::Outside),
        ("customer.updated/v3.0.json", Reason::Outside),
        ("customer.updated/v4.0.json", Reason::Io(io::ErrorKind::NotFound)),
    ];
    assert_eq!(problems(&dir), expected.map(|(name, reason)| (name.to_owned(), reason)));
}

#[test]
fn the_registry_is_found_from_below() {
    let top = tempfile::tempdir().unwrap();
    write(top.path(), "schemas/registry.toml", "");
    write(top.path(), "other/registry.toml", "base = \"other\"");
    write(top.path(), "crates/a/schemas/not-a-registry.txt", "");
    let start = top.path().join("crates/a");
    let root = |given: Option<&Path>| Registry::locate(&start, given).unwrap().root().to_owned();

    assert_eq!(root(None), top.path().join("schemas"));
    assert_eq!(root(Some(Path::new(""))), top.path().join("schemas"));
    assert_eq!(root(Some(Path::new("other"))), top.path().join("other"));
    assert_eq!(root(Some(&top.path().join("other"))), top.path().join("other"));
    write(top.path(), "crates/a/schemas/registry.toml", "");
    fs::remove_file(start.join("schemas/not-a-registry.txt")).unwrap();
    assert_eq!(root(None), start.join("schemas"));

    let missing = top.path().join("missing");
    assert_eq!(
        Registry::locate(&start, Some(&missing)).unwrap_err(),
        RegistryError::NotFound { looked: missing.clone() }
    );
    let error = Registry::open(&missing).unwrap_err();
    assert_eq!(error, RegistryError::NotFound { looked: missing });
    assert!(
        error.to_string().contains("help: run `outbox schema init`, or create a folder `schemas`"),
        "{error}"
    );
}

#[test]
fn the_digest_changes_with_every_file_and_only_with_files() {
    let files = [
        ("customer.updated/v1.0.json", SCHEMA),
        ("customer.updated/overrides.toml", ""),
        ("customer.updated/removed.toml", REMOVED),
    ];
    let dir = folder(&files);
    let digest = || Registry::open(dir.path()).unwrap().digest();
    let first = digest();
    assert_eq!(first, digest());
    assert_eq!(first, Registry::open(folder(&files).path()).unwrap().digest(), "it depends on the place");
    let mut seen = vec![first];
    for (name, text) in [
        ("customer.updated/v1.0.json", format!("{SCHEMA}\n")),
        ("customer.updated/overrides.toml", "# none".to_owned()),
        ("customer.updated/removed.toml", REMOVED.replace("gone", "given up")),
        (SETTINGS_FILE, "base = \"x\"".to_owned()),
        ("customer.updated/v1.1.json", SCHEMA.to_owned()),
        ("customer.deleted/v1.0.json", SCHEMA.to_owned()),
    ] {
        write(dir.path(), name, &text);
        let next = digest();
        assert!(!seen.contains(&next), "{name}");
        seen.push(next);
    }
    write(dir.path(), "README.md", "text");
    assert_eq!(Some(&digest()), seen.last());
}

#[test]
fn an_empty_registry_knows_nothing() {
    let empty = Registry::empty();
    assert_eq!((empty.files().count(), empty.event_types().count()), (0, 0));
    assert!(empty.newest("customer.updated", 1).is_none());
    assert_eq!(empty.settings(), &Settings::default());
}
