//! What ARCHITECTURE.md says: its map names every folder and every source file, and its invariants hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates of the product, in the order of their imports.
const CRATES: [&str; 4] = ["outbox-schema", "outbox-derive", "outbox-sdk", "outbox-relay"];
/// One case per file, in folders by theme: the map names the folder above them.
const UI_CASES: &str = "tests/compile/tests/ui";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of the Rust files of each folder, by the folder's path from the root.
fn rust_files() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for top in CRATES.into_iter().chain(["tests", "examples"]) {
        collect(&root(), top, &mut found);
    }
    found
}

fn collect(root: &Path, folder: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            if name != "node_modules" {
                collect(root, &format!("{folder}/{name}"), found);
            }
        } else if name.ends_with(".rs") {
            found.entry(folder.to_owned()).or_default().insert(name);
        }
    }
}

/// The code map: each folder's heading and the files that the first column of its table names.
fn map() -> BTreeMap<String, BTreeSet<String>> {
    let text = read("ARCHITECTURE.md");
    let mut map: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folder = None;
    for line in text.lines() {
        if line.starts_with('#') {
            folder = line
                .strip_prefix("### `")
                .and_then(|rest| rest.split_once("/`"))
                .map(|(path, _)| path.to_owned());
            if let Some(path) = &folder {
                map.entry(path.clone()).or_default();
            }
        } else if let (Some(path), Some(row)) = (&folder, line.strip_prefix("| `")) {
            let first = row.split('|').next().unwrap_or_default();
            let names = first.split('`').filter(|part| part.contains('.')).map(str::to_owned);
            map.entry(path.clone()).or_default().extend(names);
        }
    }
    map
}

fn is_test(folder: &str) -> bool {
    folder.split('/').any(|part| part == "tests")
}

/// Source files of the crates without their tests, and their text without comments and unit tests.
fn sources() -> Vec<(String, String)> {
    let files = rust_files();
    let product = files.iter().filter(|(folder, _)| !is_test(folder) && !folder.starts_with("examples"));
    let paths = product.flat_map(|(folder, names)| names.iter().map(move |name| format!("{folder}/{name}")));
    paths
        .filter(|path| !path.ends_with("/tests.rs"))
        .map(|path| {
            let text = read(&path);
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            (path, code.join("\n"))
        })
        .collect()
}

/// Where any of these texts stands in the code, except under paths that begin like `allowed`.
fn strays(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let outside =
        sources().into_iter().filter(|(path, _)| !allowed.iter().any(|prefix| path.starts_with(prefix)));
    let found = outside.filter_map(|(path, code)| {
        let word = words.iter().find(|word| code.contains(**word))?;
        Some(format!("{path}: {word}"))
    });
    found.collect()
}

#[test]
fn the_map_names_every_folder_and_every_source_file() {
    let map = map();
    for (folder, files) in rust_files() {
        if folder.starts_with(UI_CASES) {
            continue;
        }
        let Some(named) = map.get(&folder) else { panic!("ARCHITECTURE.md has no heading `{folder}/`") };
        if !is_test(&folder) {
            let missing: Vec<_> = files.difference(named).collect();
            assert!(missing.is_empty(), "ARCHITECTURE.md does not name {missing:?} under `{folder}/`");
        }
    }
}

#[test]
fn the_map_names_nothing_that_is_not_there() {
    let map = map();
    assert!(map.len() > 20, "the map was read: {map:?}");
    for (folder, files) in map {
        assert!(root().join(&folder).is_dir(), "there is no folder {folder}");
        for file in files {
            assert!(root().join(&folder).join(&file).exists(), "there is no {folder}/{file}");
        }
    }
}

#[test]
fn sql_text_lies_in_the_backends_alone() {
    let sql = ["SELECT ", "INSERT INTO", "DELETE FROM", "CREATE TABLE", "UPDATE outbox"];
    // The demo's sample service and its consumer are applications, with tables of their own.
    let strays = strays(&sql, &["outbox-sdk/src/backend/", "outbox-relay/src/bin/outbox/demo/"]);
    assert!(strays.is_empty(), "SQL outside the backends: {strays:?}");
    let backend = sources().into_iter().filter(|(path, _)| path.starts_with("outbox-sdk/src/backend/"));
    let texts = backend.filter(|(_, code)| sql.iter().any(|word| code.contains(word)));
    let texts: Vec<_> = texts.map(|(path, _)| path).collect();
    assert!(texts.is_empty(), "SQL in Rust instead of a .sql file: {texts:?}");
}

#[test]
fn every_statement_has_the_same_name_on_both_databases_or_a_reason() {
    let names = |database: &str| -> BTreeSet<String> {
        let folder = root().join("outbox-sdk/src/backend").join(database);
        let files =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        files.filter(|name| name.ends_with(".sql")).collect()
    };
    let text = read("ARCHITECTURE.md");
    let (postgres, sqlite) = (names("postgres"), names("sqlite"));
    assert!(postgres.intersection(&sqlite).count() > 15, "the folders were read");
    for name in postgres.symmetric_difference(&sqlite) {
        assert!(
            text.contains(&format!("`{name}`")),
            "ARCHITECTURE.md does not say why {name} has no counterpart"
        );
    }
}

#[test]
fn only_telemetry_names_metrics() {
    let strays = strays(&["counter!(", "gauge!(", "histogram!("], &["outbox-relay/src/telemetry.rs"]);
    assert!(strays.is_empty(), "{strays:?}");
}

/// Leases, retries and retention go by the database's clock and by lengths of time; signatures, metrics and what a
/// person types need the wall clock.
#[test]
fn no_clock_of_the_machine_decides() {
    let words = ["SystemTime::now", "Utc::now", "Local::now"];
    let allowed = [
        "outbox-relay/src/sink/webhook/",
        "outbox-relay/src/telemetry.rs",
        "outbox-relay/src/bin/outbox/",
        "outbox-sdk/src/webhook/",
    ];
    let strays = strays(&words, &allowed);
    assert!(strays.is_empty(), "{strays:?}");
}

#[test]
fn only_the_binary_reads_arguments_prints_and_exits() {
    let words = ["println!(", "print!(", "env::args", "process::exit", "ExitCode", "clap::"];
    let strays = strays(&words, &["outbox-relay/src/bin/"]);
    assert!(strays.is_empty(), "{strays:?}");
}

#[test]
fn the_slot_has_no_io_no_clock_and_no_async() {
    let words = ["async ", ".await", "tokio", "sqlx", "std::fs", "std::net", "Instant::now", "SystemTime"];
    let slot: Vec<_> =
        sources().into_iter().filter(|(path, _)| path.starts_with("outbox-relay/src/slot/")).collect();
    assert!(slot.len() >= 3, "the slot was found");
    for (path, code) in slot {
        let found: Vec<_> = words.iter().filter(|word| code.contains(**word)).collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}

/// What a crate depends on outside of its tests.
fn dependencies(of: &str) -> BTreeSet<String> {
    let text = read(&format!("{of}/Cargo.toml"));
    let section = text.split("\n[dependencies]\n").nth(1).unwrap().split("\n[").next().unwrap().to_owned();
    let names = section.lines().filter_map(|line| line.split_once(['.', ' ', '=']));
    names.map(|(name, _)| name.to_owned()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn imports_go_one_way() {
    for (at, name) in CRATES.iter().enumerate() {
        let ours: Vec<_> =
            dependencies(name).into_iter().filter(|name| name.starts_with("outbox-")).collect();
        let later = ours.iter().find(|ours| !CRATES[..at].contains(&ours.as_str()));
        assert_eq!(later, None, "{name} depends on a crate that comes after it");
    }
}

#[test]
fn the_schema_and_derive_crates_have_no_database_and_no_network() {
    let schema = dependencies("outbox-schema");
    assert!(schema.contains("serde_json"), "the section was read: {schema:?}");
    for (name, dependencies) in [("outbox-schema", schema), ("outbox-derive", dependencies("outbox-derive"))]
    {
        for heavy in ["sqlx", "reqwest", "tokio", "hyper", "axum"] {
            assert!(!dependencies.contains(heavy), "{name} depends on {heavy}");
        }
    }
    let derive = sources().into_iter().filter(|(path, _)| path.starts_with("outbox-derive/"));
    for (path, code) in derive {
        for io in ["std::fs", "std::env", "std::net", "std::process", "include_str!"] {
            assert!(!code.contains(io), "{path} does IO: {io}");
        }
    }
}

#[test]
fn every_crash_point_and_planted_fault_is_there_and_has_its_test() {
    use outbox_sdk::injection::{CRASH_POINTS, FAULTS};

    const LISTS: &str = "outbox-sdk/src/injection.rs";
    let code: String =
        sources().into_iter().filter(|(path, _)| path != LISTS).map(|(_, code)| code).collect();
    for name in CRASH_POINTS.iter().chain(FAULTS) {
        assert!(code.contains(&format!("\"{name}\"")), "nothing asks for {name}");
    }
    let script = read("scripts/planted");
    let table = script.split("<<'TABLE'\n").nth(1).unwrap().split("TABLE\n").next().unwrap();
    let tested: BTreeSet<_> = table.lines().map(|line| line.split('|').next().unwrap().trim()).collect();
    assert_eq!(tested, FAULTS.iter().copied().collect(), "scripts/planted");
}
