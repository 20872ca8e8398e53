//! Writing what was accepted into the registry folder.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compare::{Claim, Drift, compare};
use crate::document::{self, SchemaProblem, tidy};
use crate::event_type::{EventType, ShapeError};
use crate::registry::{MAX_FILE_LEN, Registry, file_name};

/// What blessing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blessed {
    /// The file already says the same.
    Unchanged,
    /// A new file: the first of its major, or the next minor.
    Created(PathBuf),
    /// The newest minor was written anew: only annotations changed, or git does not track it yet.
    Rewritten(PathBuf),
}

/// Why nothing was blessed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlessError {
    /// What is accepted in CI was reviewed by nobody.
    #[error(
        "schemas are not blessed in CI; run `OUTBOX_BLESS=1 cargo test` on your machine and commit the files"
    )]
    Ci,
    /// The claim's name is not an event type.
    #[error(transparent)]
    Name(#[from] ShapeError),
    /// Majors start at 1.
    #[error("schema versions start at 1; set `schema_version` to 1 or more")]
    ZeroVersion,
    /// The registry would not take the schema.
    #[error("the schema of {rust_type} cannot be committed:{}", list(problems))]
    Schema {
        /// The struct.
        rust_type: String,
        /// Everything that is wrong with it.
        problems: Vec<SchemaProblem>,
    },
    /// The schema has more bytes than a registry reads.
    #[error("the schema has {len} bytes, at most {MAX_FILE_LEN} are read; split the event")]
    TooLarge {
        /// Bytes it has.
        len: usize,
    },
    /// There are no more minors.
    #[error("minor {minor} is the last one of its major; set the next `schema_version`")]
    OutOfMinors {
        /// The newest minor.
        minor: u32,
    },
    /// The file cannot be written.
    #[error("{} cannot be written; check the permissions of its folder", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
}

fn list(problems: &[SchemaProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// Makes the registry say what `claim` says.
///
/// - The major has no file: it gets minor 0.
/// - Only annotations differ: the newest minor is rewritten.
/// - The meaning differs: the newest minor is rewritten if git certainly does not track it, else the next minor is
///   written. Without git it is always the next minor.
///
/// Files have sorted members and end in a line feed; they appear at once or not at all. `ci` refuses everything, since
/// what CI blesses nobody has seen.
///
/// # Errors
/// [`BlessError`]; nothing was written then.
pub fn write(registry: &Registry, claim: &Claim<'_>, ci: bool) -> Result<Blessed, BlessError> {
    write_with(registry, claim, ci, OsStr::new("git"))
}

fn write_with(registry: &Registry, claim: &Claim<'_>, ci: bool, git: &OsStr) -> Result<Blessed, BlessError> {
    if ci {
        return Err(BlessError::Ci);
    }
    // The name becomes a folder, so it is checked whoever made the claim.
    EventType::new(claim.event_type)?;
    if claim.schema_version == 0 {
        return Err(BlessError::ZeroVersion);
    }
    let drift = compare(registry, claim);
    if drift == Drift::Same {
        return Ok(Blessed::Unchanged);
    }
    let text = text_of(claim)?;
    match drift {
        Drift::Same => Ok(Blessed::Unchanged),
        Drift::Missing { path, .. } => create(path, &text),
        Drift::AnnotationsDiffer { path, .. } => rewrite(path, &text),
        Drift::Changed { path, .. } if is_untracked(git, &path) => rewrite(path, &text),
        Drift::Changed { path, .. } => {
            let minor =
                registry.newest(claim.event_type, claim.schema_version).map_or(0, |newest| newest.minor);
            let next = minor.checked_add(1).ok_or(BlessError::OutOfMinors { minor })?;
            create(path.with_file_name(file_name(claim.schema_version, next)), &text)
        }
    }
}

/// The file's text: sorted, indented, and something that the registry will read again.
fn text_of(claim: &Claim<'_>) -> Result<String, BlessError> {
    let tidied = tidy(&claim.schema, true);
    let mut text = format!("{tidied:#}");
    text.push('\n');
    let mut problems = document::problems(&tidied);
    // Reading back finds what a value can hold and a file cannot, such as nesting without end.
    problems.extend(document::parse(text.as_bytes()).err());
    if !problems.is_empty() {
        return Err(BlessError::Schema { rust_type: claim.rust_type.to_owned(), problems });
    }
    if text.len() as u64 > MAX_FILE_LEN {
        return Err(BlessError::TooLarge { len: text.len() });
    }
    Ok(text)
}

fn create(path: PathBuf, text: &str) -> Result<Blessed, BlessError> {
    replace(&path, text)?;
    Ok(Blessed::Created(path))
}

fn rewrite(path: PathBuf, text: &str) -> Result<Blessed, BlessError> {
    replace(&path, text)?;
    Ok(Blessed::Rewritten(path))
}

/// Puts a file in place by renaming. The name it is written under is hidden, so an open registry overlooks it.
fn replace(path: &Path, text: &str) -> Result<(), BlessError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let hidden = format!(".bless-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let temporary = path.with_file_name(hidden);
    let put = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    put().map_err(|source| {
        // Best effort: the first failure is the one to report, and a hidden file does no harm.
        let _ = fs::remove_file(&temporary);
        BlessError::Write { path: path.to_owned(), source }
    })
}

/// Whether git says that it does not know the file. No git and no repository are no such answer.
fn is_untracked(git: &OsStr, path: &Path) -> bool {
    /// What `ls-files --error-unmatch` exits with for a file that is not in the index.
    const UNMATCHED: i32 = 1;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
    Command::new(git)
        .args(["ls-files", "--error-unmatch", "--"])
        .arg(name)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.code() == Some(UNMATCHED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tempfile::TempDir;

    const NO_GIT: &str = "outbox-there-is-no-such-program";

    fn claim(schema: &Value) -> Claim<'static> {
        let mut schema = schema.clone();
        schema["$schema"] = json!(document::DIALECT);
        Claim {
            event_type: "thing.changed",
            schema_version: 1,
            rust_type: "crate::ThingChanged",
            file: "src/lib.rs",
            line: 7,
            schema,
        }
    }

    fn folder() -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("registry.toml"), "").unwrap();
        dir
    }

    /// Blesses with the registry as it is now; gives the outcome's kind and file name.
    fn bless(dir: &TempDir, claim: &Claim<'_>, git: &str) -> (char, String) {
        let registry = Registry::open(dir.path()).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        match write_with(&registry, claim, false, OsStr::new(git)).unwrap() {
            Blessed::Unchanged => ('=', String::new()),
            Blessed::Created(path) => ('+', name(&path)),
            Blessed::Rewritten(path) => ('~', name(&path)),
        }
    }

    fn git(dir: &TempDir, args: &[&str]) {
        let done =
            Command::new("git").args(args).current_dir(dir.path()).stdout(Stdio::null()).status().unwrap();
        assert!(done.success(), "git {args:?}");
    }

    fn is(kind: char, name: &str) -> (char, String) {
        (kind, name.to_owned())
    }

    #[test]
    fn the_first_file_of_a_major_is_minor_0_sorted_and_readable() {
        let dir = folder();
        let claimed = claim(&json!({
            "type": "object", "title": "T", "required": ["b", "a"],
            "properties": {"b": {"$ref": "#/$defs/Z"}, "a": true}, "$defs": {"Z": {}, "A": {}},
        }));
        assert_eq!(bless(&dir, &claimed, NO_GIT), is('+', "v1.0.json"));
        let text = fs::read_to_string(dir.path().join("thing.changed/v1.0.json")).unwrap();
        assert_eq!(
            text,
            r##"{
  "$defs": {
    "A": {},
    "Z": {}
  },
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "properties": {
    "a": true,
    "b": {
      "$ref": "#/$defs/Z"
    }
  },
  "required": [
    "a",
    "b"
  ],
  "title": "T",
  "type": "object"
}
"##
        );
        assert_eq!(bless(&dir, &claimed, NO_GIT), is('=', ""));
        let second = Claim { schema_version: 2, ..claimed };
        assert_eq!(bless(&dir, &second, NO_GIT), is('+', "v2.0.json"));
        let left: Vec<_> = fs::read_dir(dir.path().join("thing.changed")).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn annotations_are_rewritten_in_place_and_a_meaning_gets_the_next_minor() {
        let dir = folder();
        assert_eq!(bless(&dir, &claim(&json!({"title": "A"})), NO_GIT), is('+', "v1.0.json"));
        assert_eq!(bless(&dir, &claim(&json!({"title": "B"})), NO_GIT), is('~', "v1.0.json"));
        assert_eq!(bless(&dir, &claim(&json!({"title": "B"})), NO_GIT), is('=', ""));
        assert_eq!(bless(&dir, &claim(&json!({"type": "object"})), NO_GIT), is('+', "v1.1.json"));
        // A folder outside any repository: git is there, and knows nothing.
        assert_eq!(bless(&dir, &claim(&json!({"minProperties": 1})), "git"), is('+', "v1.2.json"));
    }

    #[test]
    fn only_what_git_does_not_track_is_rewritten_with_another_meaning() {
        let dir = folder();
        git(&dir, &["init", "--quiet"]);
        assert_eq!(bless(&dir, &claim(&json!({})), "git"), is('+', "v1.0.json"));
        assert_eq!(bless(&dir, &claim(&json!({"minProperties": 1})), "git"), is('~', "v1.0.json"));
        git(&dir, &["add", "."]);
        assert_eq!(bless(&dir, &claim(&json!({"minProperties": 2})), "git"), is('+', "v1.1.json"));
        assert_eq!(bless(&dir, &claim(&json!({"minProperties": 3})), "git"), is('~', "v1.1.json"));
        let kept = fs::read_to_string(dir.path().join("thing.changed/v1.0.json")).unwrap();
        assert!(kept.contains("\"minProperties\": 1"), "{kept}");
    }

    #[test]
    fn what_cannot_be_committed_is_refused_and_nothing_is_written() {
        let dir = folder();
        let registry = Registry::open(dir.path()).unwrap();
        let good = claim(&json!({}));
        assert!(matches!(write(&registry, &good, true), Err(BlessError::Ci)));
        let named = Claim { event_type: "../../etc", ..good.clone() };
        assert!(matches!(write(&registry, &named, false), Err(BlessError::Name(_))));
        let zero = Claim { schema_version: 0, ..good.clone() };
        assert!(matches!(write(&registry, &zero, false), Err(BlessError::ZeroVersion)));
        let foreign = claim(&json!({"$id": "x", "$ref": "https://example.com/a"}));
        let error = write(&registry, &foreign, false).unwrap_err();
        assert!(matches!(&error, BlessError::Schema { problems, .. } if problems.len() == 2), "{error}");
        let large = claim(&json!({"description": "x".repeat(1024 * 1024)}));
        assert!(matches!(write(&registry, &large, false), Err(BlessError::TooLarge { .. })));
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"items": deep});
        }
        assert!(matches!(write(&registry, &claim(&deep), false), Err(BlessError::Schema { .. })));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing_behind() {
        let dir = folder();
        let registry = Registry::open(dir.path()).unwrap();
        fs::write(dir.path().join("thing.changed"), "a file where the folder belongs").unwrap();
        let error = write(&registry, &claim(&json!({})), false).unwrap_err();
        assert!(
            matches!(&error, BlessError::Write { path, .. } if path.ends_with("thing.changed/v1.0.json"))
        );
        // The target is a folder: the file was written, and could not be renamed.
        fs::remove_file(dir.path().join("thing.changed")).unwrap();
        fs::create_dir_all(dir.path().join("thing.changed/v1.0.json")).unwrap();
        assert!(matches!(write(&registry, &claim(&json!({})), false), Err(BlessError::Write { .. })));
        assert_eq!(fs::read_dir(dir.path().join("thing.changed")).unwrap().count(), 1);
    }
}
