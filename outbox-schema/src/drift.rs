//! Struct against registry folder, as one call: what the test does that the derive macro generates.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::bless::{self, BlessError, broken, next_major};
pub use crate::compare::{Claim, Drift, compare};
use crate::compat::Verdict;
use crate::compat::gate::Candidate;
use crate::registry::{Registry, RegistryError};

/// Checks that the registry says what `claim` says; with `bless`, makes it so.
///
/// `manifest_dir` is the folder of the struct's crate, from which the registry is found; `registry_override` is the
/// value of `OUTBOX_REGISTRY`, `bless` whether `OUTBOX_BLESS` is set, `ci` whether `CI` is. The environment is the
/// caller's to read.
///
/// # Errors
/// [`DriftFailure`], whose `Debug` is the report: a test that returns it prints it.
pub fn run(
    claim: &Claim<'_>,
    manifest_dir: &Path,
    registry_override: Option<&Path>,
    bless: bool,
    ci: bool,
) -> Result<(), DriftFailure> {
    let fail = |cause| DriftFailure(Box::new(Report { place: Place::of(claim), cause }));
    let registry =
        Registry::locate(manifest_dir, registry_override).map_err(|error| fail(Cause::Registry(error)))?;
    if bless {
        return match bless::write(&registry, claim, ci) {
            Ok(_) => Ok(()),
            Err(error) => Err(fail(Cause::Bless(error))),
        };
    }
    match compare(&registry, claim) {
        Drift::Same => Ok(()),
        drift => {
            let minors = registry.minors(claim.event_type, claim.schema_version);
            let compatibility = registry.settings().compatibility_of(claim.event_type);
            let candidate = matches!(drift, Drift::Changed { .. })
                .then(|| Candidate::of(&claim.schema, minors, compatibility));
            let (root, next_major) = (registry.root().to_owned(), next_major(&registry, claim));
            Err(fail(Cause::Drift { drift, root, candidate, next_major }))
        }
    }
}

/// Why the test of a struct's schema fails. `Debug` and `Display` are the same report of several lines.
pub struct DriftFailure(Box<Report>);

impl DriftFailure {
    /// The difference, if it is one that made the test fail, and not the folder or a refused blessing.
    #[must_use]
    pub fn drift(&self) -> Option<&Drift> {
        match &self.0.cause {
            Cause::Drift { drift, .. } => Some(drift),
            Cause::Registry(_) | Cause::Bless(_) => None,
        }
    }
}

struct Report {
    place: Place,
    cause: Cause,
}

enum Cause {
    Registry(RegistryError),
    Bless(BlessError),
    Drift { drift: Drift, root: PathBuf, candidate: Option<Candidate>, next_major: u32 },
}

/// The event and where its struct is.
struct Place {
    event_type: String,
    schema_version: u32,
    source: String,
}

impl Place {
    fn of(claim: &Claim<'_>) -> Self {
        Self {
            event_type: claim.event_type.to_owned(),
            schema_version: claim.schema_version,
            source: format!("{}:{}, struct {}", claim.file, claim.line, claim.rust_type),
        }
    }
}

impl fmt::Display for DriftFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { event_type, schema_version, source } = &self.0.place;
        writeln!(f, "schema drift: {event_type} v{schema_version}\n  --> {source}")?;
        match &self.0.cause {
            Cause::Registry(error) => write!(f, "{error}"),
            Cause::Bless(error) => write_chain(f, error),
            Cause::Drift { drift, root, candidate, next_major } => {
                write_drift(f, drift, root)?;
                candidate
                    .as_ref()
                    .map_or(Ok(()), |candidate| write_verdict(f, candidate, *schema_version, *next_major))
            }
        }
    }
}

fn write_drift(f: &mut fmt::Formatter<'_>, drift: &Drift, root: &Path) -> fmt::Result {
    // The folder's own name says enough, and reads the same on every machine.
    let shown = |path: &Path| {
        let base = root.parent().filter(|base| !base.as_os_str().is_empty());
        base.and_then(|base| path.strip_prefix(base).ok()).unwrap_or(path).display().to_string()
    };
    match drift {
        Drift::Same => Ok(()),
        Drift::Missing { path, known_majors } => {
            writeln!(f, "there is no {}", shown(path))?;
            if !known_majors.is_empty() {
                let majors: Vec<String> = known_majors.iter().map(|major| format!("v{major}")).collect();
                writeln!(f, "majors with a schema: {}", majors.join(", "))?;
            }
            write!(f, "help: accept the struct's schema and commit the file: {COMMAND}")
        }
        Drift::AnnotationsDiffer { path, lines } => {
            writeln!(f, "{} means the same, but describes it in other words:", shown(path))?;
            write_lines(f, lines)?;
            write!(f, "help: write the new words, which makes no new revision: {COMMAND}")
        }
        Drift::Changed { path, lines } => {
            writeln!(f, "{} -> struct", shown(path))?;
            write_lines(f, lines)
        }
    }
}

/// Whether readers survive a change, and so what to do.
fn write_verdict(
    f: &mut fmt::Formatter<'_>,
    candidate: &Candidate,
    version: u32,
    next_major: u32,
) -> fmt::Result {
    if candidate.verdict == Verdict::Compatible {
        let minors = match candidate.against.len() {
            0 => "nothing is owed to readers here (`compatibility = \"none\"`)".to_owned(),
            1 => format!("readers survive it: compatible with the one minor of v{version}"),
            several => format!("readers survive it: compatible with all {several} minors of v{version}"),
        };
        return write!(
            f,
            "{minors}\nhelp: undo the change, or accept it as a revision of v{version}: {COMMAND}"
        );
    }
    write!(f, "{}", candidate.text())?;
    write!(
        f,
        "v{version} {}\nhelp: undo the change, or set `schema_version = {next_major}` and accept it: {COMMAND}\n      \
         if the newest minor of v{version} is not on the base branch yet, that command may still rewrite it",
        broken(candidate.verdict)
    )
}

/// The differences, as many as one still reads.
fn write_lines(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().take(MAX_LINES).try_for_each(|line| writeln!(f, "  {line}"))?;
    match lines.len().saturating_sub(MAX_LINES) {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more"),
    }
}

/// How many differences are shown.
const MAX_LINES: usize = 40;

/// What accepts the schemas of all structs.
const COMMAND: &str = "OUTBOX_BLESS=1 cargo test";

/// An error and what caused it, a line each.
fn write_chain(f: &mut fmt::Formatter<'_>, error: &dyn std::error::Error) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, "\ncaused by: {error}")?;
        cause = error.source();
    }
    Ok(())
}

impl fmt::Debug for DriftFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DriftFailure {}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use tempfile::TempDir;

    fn claim(schema: &Value) -> Claim<'static> {
        let mut schema = schema.clone();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        Claim {
            event_type: "entity.customer.updated",
            schema_version: 2,
            rust_type: "crm::CustomerUpdated",
            file: "src/customer.rs",
            line: 12,
            schema,
        }
    }

    /// A workspace with a registry and a crate; `run` is given the crate's folder.
    fn workspace() -> (TempDir, PathBuf) {
        let top = tempfile::tempdir().unwrap();
        let package = top.path().join("crates/crm");
        fs::create_dir_all(&package).unwrap();
        fs::create_dir(top.path().join("schemas")).unwrap();
        fs::write(top.path().join("schemas/registry.toml"), "compatibility = \"full\"\n").unwrap();
        (top, package)
    }

    fn report(claim: &Claim<'_>, package: &Path) -> String {
        let failure = run(claim, package, None, false, false).unwrap_err();
        assert_eq!(format!("{failure:?}"), failure.to_string());
        failure.to_string()
    }

    #[test]
    fn a_missing_file_is_reported_then_blessed() {
        let (_top, package) = workspace();
        let claimed = claim(&json!({"type": "object"}));
        assert_eq!(
            report(&claimed, &package),
            "schema drift: entity.customer.updated v2\n  \
             --> src/customer.rs:12, struct crm::CustomerUpdated\n\
             there is no schemas/entity.customer.updated/v2.0.json\n\
             help: accept the struct's schema and commit the file: OUTBOX_BLESS=1 cargo test"
        );
        run(&claimed, &package, None, true, false).unwrap();
        run(&claimed, &package, None, false, false).unwrap();
        run(&claimed, &package, None, false, true).unwrap();
        let next = Claim { schema_version: 3, ..claimed };
        assert!(report(&next, &package).contains("\nmajors with a schema: v2\n"));
    }

    #[test]
    fn a_change_is_told_field_by_field() {
        let (_top, package) = workspace();
        let old = claim(&json!({"properties": {"limit": {"type": "integer", "description": "old"}}}));
        run(&old, &package, None, true, false).unwrap();
        let new = claim(&json!({
            "properties": {"limit": {"type": "string", "description": "new"}, "note": {"type": "string"}}
        }));
        let text = report(&new, &package);
        assert!(text.contains("\nschemas/entity.customer.updated/v2.0.json -> struct\n"), "{text}");
        assert!(
            text.contains("\n  /properties/limit/type                \"integer\" -> \"string\"\n"),
            "{text}"
        );
        assert!(
            text.contains("\n  /properties/note                      added: {\"type\":\"string\"}\n"),
            "{text}"
        );
        assert!(!text.contains("description"), "{text}");
        assert!(text.contains("error[type-changed] (backward): "), "{text}");
        assert!(text.contains("\nv2 would break its readers\nhelp: undo the change, or set `schema_version = 3` and accept it: OUTBOX_BLESS=1 cargo test\n"), "{text}");
        let failure = run(&new, &package, None, false, false).unwrap_err();
        assert!(matches!(failure.drift(), Some(Drift::Changed { lines, .. }) if lines.len() == 2));
    }

    #[test]
    fn a_change_that_readers_survive_is_said_to_be_one() {
        let (top, package) = workspace();
        let with = |members: &Value| claim(&json!({"type": "object", "properties": members}));
        run(&with(&json!({})), &package, None, true, false).unwrap();
        let one = with(&json!({"a": {"type": "string"}}));
        let text = report(&one, &package);
        assert!(
            text.ends_with(
                "readers survive it: compatible with the one minor of v2\nhelp: undo the change, or accept it as a revision of \
                 v2: OUTBOX_BLESS=1 cargo test"
            ),
            "{text}"
        );
        run(&one, &package, None, true, false).unwrap();
        let two = with(&json!({"a": {"type": "string"}, "b": {"type": "string"}}));
        assert!(report(&two, &package).contains("compatible with all 2 minors of v2"));
        fs::write(top.path().join("schemas/registry.toml"), "compatibility = \"none\"").unwrap();
        assert!(
            report(&with(&json!({"a": {"type": "integer"}})), &package)
                .contains("nothing is owed to readers")
        );
    }

    #[test]
    fn a_long_report_is_cut() {
        let (_top, package) = workspace();
        run(&claim(&json!({"properties": {}})), &package, None, true, false).unwrap();
        let many: serde_json::Map<_, _> = (0..45).map(|i| (format!("member{i}"), json!(true))).collect();
        let text = report(&claim(&json!({"properties": many})), &package);
        assert_eq!(text.matches("added: true").count(), MAX_LINES);
        assert!(text.contains("\n  and 5 more\n"), "{text}");
    }

    #[test]
    fn new_words_never_look_like_a_change_and_order_is_none() {
        let (_top, package) = workspace();
        let old = claim(&json!({"required": ["a", "b"], "title": "Old"}));
        run(&old, &package, None, true, false).unwrap();
        run(&claim(&json!({"title": "Old", "required": ["b", "a"]})), &package, None, false, false).unwrap();
        let text = report(&claim(&json!({"required": ["a", "b"], "title": "New"})), &package);
        assert!(text.contains("means the same, but describes it in other words:\n  /title "), "{text}");
        assert!(text.contains("\"Old\" -> \"New\""), "{text}");
        assert!(!text.contains("schema_version ="), "{text}");
    }

    #[test]
    fn ci_a_missing_registry_and_a_broken_one_fail_with_what_to_do() {
        let (top, package) = workspace();
        let claimed = claim(&json!({}));
        let failure = run(&claimed, &package, None, true, true).unwrap_err();
        assert!(failure.to_string().contains("not blessed in CI"), "{failure}");
        assert!(failure.drift().is_none());
        let elsewhere = tempfile::tempdir().unwrap();
        let failure =
            run(&claimed, elsewhere.path(), Some(&elsewhere.path().join("none")), true, false).unwrap_err();
        assert!(
            failure.to_string().contains("run `outbox schema init`, or create a folder `schemas`"),
            "{failure}"
        );
        run(&claimed, elsewhere.path(), Some(&top.path().join("schemas")), true, false).unwrap();
        fs::write(top.path().join("schemas/stray"), "").unwrap();
        assert!(report(&claimed, &package).contains("stray: has no place here"));
        let named = Claim { event_type: "Customer", ..claimed };
        fs::remove_file(top.path().join("schemas/stray")).unwrap();
        let failure = run(&named, &package, None, true, false).unwrap_err();
        assert!(failure.to_string().contains("\nsegment `Customer` of event type"), "{failure}");
    }
}
