//! Writing what was accepted into the registry folder.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compare::{Claim, Drift, compare};
use crate::compat::Verdict;
use crate::compat::gate::Candidate;
use crate::document::{self, SchemaProblem, tidy};
use crate::event_type::{EventType, ShapeError};
use crate::git::{Git, GitError};
use crate::registry::{MAX_FILE_LEN, REMOVED_FILE, Registry, SchemaFile, file_name};

/// What blessing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blessed {
    /// The file already says the same.
    Unchanged,
    /// A new file: the first of its major, or the next minor.
    Created(PathBuf),
    /// The newest minor was written anew: only annotations changed, or nobody else can have it yet.
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
    /// The event type is no longer published.
    #[error(
        "`{event_type}` was removed on {date}; give the event another type, or delete `{event_type}/{REMOVED_FILE}` first"
    )]
    Removed {
        /// The event type.
        event_type: String,
        /// Since when.
        date: String,
    },
    /// Readers of the major would break, or it cannot be proved that they do not.
    #[error(
        "{report}v{major} {}; set `schema_version = {next}` on {rust_type}, or make the change one that readers survive",
        broken(*verdict)
    )]
    Breaking {
        /// The struct.
        rust_type: String,
        /// The major.
        major: u32,
        /// The next free one.
        next: u32,
        /// [`Verdict::Breaking`] or [`Verdict::Undecided`].
        verdict: Verdict,
        /// What breaks, minor by minor.
        report: String,
    },
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

/// What a verdict that fails means for the readers of a major.
pub(crate) fn broken(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Undecided => "cannot be proved to stay readable (treated as breaking)",
        _ => "would break its readers",
    }
}

fn list(problems: &[SchemaProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}

/// Makes the registry say what `claim` says.
///
/// - The major has no file: it gets minor 0.
/// - Only annotations differ: the newest minor is rewritten.
/// - The meaning differs, and readers survive it: the newest minor is rewritten if nobody else can have it, else the next
///   minor is written. What the change owes to the minors that stay is what `compatibility` in `registry.toml` says.
/// - Readers break, or that they do not cannot be proved: refused, with the `schema_version` to set.
///
/// Nobody else can have a minor that is not in what HEAD and `base` of `registry.toml` have in common; where git does not
/// know `base`, one that git does not track. Without git it is always the next minor.
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
    if let Some(tombstone) = registry.tombstone(claim.event_type) {
        let (event_type, date) = (claim.event_type.to_owned(), tombstone.date.clone());
        return Err(BlessError::Removed { event_type, date });
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
        Drift::Changed { path, .. } => {
            let minors = registry.minors(claim.event_type, claim.schema_version);
            let own = is_own(git, &path, &registry.settings().base);
            // One that is rewritten leaves no reader behind.
            let kept = if own { minors.split_last().map_or(minors, |(_, kept)| kept) } else { minors };
            refuse_breaking(registry, claim, kept)?;
            if own {
                return rewrite(path, &text);
            }
            let minor = minors.last().map_or(0, |newest| newest.minor);
            let next = minor.checked_add(1).ok_or(BlessError::OutOfMinors { minor })?;
            create(path.with_file_name(file_name(claim.schema_version, next)), &text)
        }
    }
}

fn refuse_breaking(registry: &Registry, claim: &Claim<'_>, kept: &[SchemaFile]) -> Result<(), BlessError> {
    let compatibility = registry.settings().compatibility_of(claim.event_type);
    let candidate = Candidate::of(&claim.schema, kept, compatibility);
    if candidate.verdict == Verdict::Compatible {
        return Ok(());
    }
    Err(BlessError::Breaking {
        rust_type: claim.rust_type.to_owned(),
        major: claim.schema_version,
        next: next_major(registry, claim),
        verdict: candidate.verdict,
        report: candidate.text(),
    })
}

/// The first major above all that the event type has.
pub(crate) fn next_major(registry: &Registry, claim: &Claim<'_>) -> u32 {
    registry.majors(claim.event_type).max().unwrap_or(0).max(claim.schema_version).saturating_add(1)
}

/// Whether nobody but this work tree can have the file.
fn is_own(git: &OsStr, path: &Path, base: &str) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return false;
    };
    let git = Git::with(git, folder);
    match git.merge_base(base) {
        Ok(commit) => git.has(&commit, name).is_ok_and(|has| !has),
        Err(GitError::NoRevision(_) | GitError::NoCommonCommit(_)) => git.is_untracked(name),
        Err(_) => false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tests::{git, repository};
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

    /// A claim of optional members of these types.
    fn members(members: &[(&str, &str)]) -> Claim<'static> {
        let members: serde_json::Map<_, _> =
            members.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
        claim(&json!({"type": "object", "properties": members}))
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
        let dir = folder();
        assert_eq!(bless(&dir, &members(&[]), NO_GIT), is('+', "v1.0.json"));
        assert_eq!(bless(&dir, &members(&[("a", "string")]), NO_GIT), is('+', "v1.1.json"));
        // A folder outside any repository: git is there, and knows nothing.
        let more = members(&[("a", "string"), ("b", "string")]);
        assert_eq!(bless(&dir, &more, "git"), is('+', "v1.2.json"));
    }

    #[test]
    fn without_the_base_only_what_git_does_not_track_is_rewritten_with_another_meaning() {
        let dir = folder();
        git(dir.path(), &["init", "--quiet"]);
        assert_eq!(bless(&dir, &members(&[]), "git"), is('+', "v1.0.json"));
        assert_eq!(bless(&dir, &members(&[("a", "string")]), "git"), is('~', "v1.0.json"));
        git(dir.path(), &["add", "."]);
        let two = members(&[("a", "string"), ("b", "string")]);
        assert_eq!(bless(&dir, &two, "git"), is('+', "v1.1.json"));
        let three = members(&[("a", "string"), ("b", "string"), ("c", "string")]);
        assert_eq!(bless(&dir, &three, "git"), is('~', "v1.1.json"));
        let kept = fs::read_to_string(dir.path().join("thing.changed/v1.0.json")).unwrap();
        assert!(!kept.contains("\"b\""), "{kept}");
    }

    #[test]
    fn what_the_base_does_not_have_is_rewritten_committed_or_not() {
        let dir = repository();
        fs::write(dir.path().join("registry.toml"), "base = \"main\"").unwrap();
        fs::create_dir(dir.path().join("thing.changed")).unwrap();
        let commit = || {
            git(dir.path(), &["add", "--all"]);
            git(dir.path(), &["commit", "--quiet", "-m", "more"]);
        };
        assert_eq!(bless(&dir, &members(&[]), "git"), is('+', "v1.0.json"));
        commit();
        git(dir.path(), &["checkout", "--quiet", "-b", "work"]);
        assert_eq!(bless(&dir, &members(&[("a", "string")]), "git"), is('+', "v1.1.json"));
        commit();
        // Not on main: it may even change in a way that its own readers would not survive.
        assert_eq!(bless(&dir, &members(&[("a", "integer")]), "git"), is('~', "v1.1.json"));
        commit();
        git(dir.path(), &["checkout", "--quiet", "main"]);
        git(dir.path(), &["merge", "--quiet", "--ff-only", "work"]);
        let more = members(&[("a", "integer"), ("b", "string")]);
        assert_eq!(bless(&dir, &more, "git"), is('+', "v1.2.json"), "main has it now");
    }

    #[test]
    fn what_breaks_a_minor_that_stays_is_refused_with_the_version_to_set() {
        let dir = folder();
        let bless_now = |claim: &Claim<'_>| {
            write_with(&Registry::open(dir.path()).unwrap(), claim, false, OsStr::new(NO_GIT))
        };
        bless_now(&members(&[("a", "string")])).unwrap();
        bless_now(&members(&[])).unwrap();
        bless_now(&Claim { schema_version: 4, ..members(&[]) }).unwrap();
        // Suits v1.1, and not v1.0.
        let error = bless_now(&members(&[("a", "integer")])).unwrap_err();
        let BlessError::Breaking { major: 1, next: 5, verdict: Verdict::Breaking, .. } = &error else {
            panic!("{error:?}")
        };
        let text = error.to_string();
        assert!(text.contains("v1.0.json -> struct: backward breaking"), "{text}");
        assert!(text.ends_with("v1 would break its readers; set `schema_version = 5` on crate::ThingChanged, or make the change one that readers survive"), "{text}");
        assert_eq!(fs::read_dir(dir.path().join("thing.changed")).unwrap().count(), 3, "nothing was written");

        fs::write(dir.path().join("registry.toml"), "compatibility = \"none\"").unwrap();
        assert_eq!(bless(&dir, &members(&[("a", "integer")]), NO_GIT), is('+', "v1.2.json"));
        fs::write(dir.path().join("thing.changed/removed.toml"), "date = 2026-12-01\nreason = \"r\"")
            .unwrap();
        let error = bless_now(&members(&[])).unwrap_err();
        assert!(matches!(error, BlessError::Removed { .. }), "{error}");
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
