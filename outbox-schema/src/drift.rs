//! Struct against registry folder, as one call: what the test does that the derive macro generates.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::bless::{self, BlessError};
pub use crate::compare::{Claim, Drift, compare};
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
        drift => Err(fail(Cause::Drift { drift, root: registry.root().to_owned() })),
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
    Drift { drift: Drift, root: PathBuf },
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
            Cause::Drift { drift, root } => write_drift(f, drift, root, *schema_version),
        }
    }
}

fn write_drift(f: &mut fmt::Formatter<'_>, drift: &Drift, root: &Path, version: u32) -> fmt::Result {
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
            write_lines(f, lines)?;
            write!(
                f,
                "help: undo the change, or accept it as a revision of v{version}: {COMMAND}\n      \
                 if readers of v{version} would break, set `schema_version = {}` first",
                version.saturating_add(1)
            )
        }
    }
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
        assert!(text.contains("OUTBOX_BLESS=1 cargo test\n      if readers of v2 would break"), "{text}");
        assert!(text.ends_with("set `schema_version = 3` first"), "{text}");
        let failure = run(&new, &package, None, false, false).unwrap_err();
        assert!(matches!(failure.drift(), Some(Drift::Changed { lines, .. }) if lines.len() == 2));
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
