//! `[database]`, `[relay]`, `[registry]` and `[retention]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outbox_sdk::Tables;

use super::error::{Finding, Findings};
use super::reader::{Field, Problem, Section, as_integer, as_text, read_node};
use super::secret::{Environment, Secret, resolve};
use super::units;
use crate::maintenance::RetainFor;
use crate::{MissingSchema, UndeclaredMembers};

/// `[database]`: where the outbox is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseConfig {
    /// The address, `postgres://` or `sqlite:`; may contain a password.
    pub url: Option<Secret>,
    /// The PostgreSQL schema of the tables.
    pub schema: String,
    /// How long one statement of the relay may take.
    ///
    /// At most a third of the relay's lease, by default 4 s or that third.
    pub deadline: Duration,
    /// Whether a pooler in transaction mode that knows no prepared statements is in between (see `Tables::pooled`).
    pub pooled: bool,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self { url: None, schema: "outbox".to_owned(), deadline: Duration::from_secs(4), pooled: false }
    }
}

/// `[relay]`: the process that reads and delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayConfig {
    /// The name under which it is seen by other relays; by default the relay makes one of host and process.
    pub name: Option<String>,
    /// `source` of every CloudEvent.
    pub source: String,
    /// How long a slot stays with an owner that no longer renews.
    pub lease: Duration,
    /// The pause between reads while events come.
    pub poll_min: Duration,
    /// The longest pause between reads while nothing comes.
    pub poll_max: Duration,
    /// Rows of one read.
    pub read_rows: u32,
    /// Bytes of text of one read.
    pub read_bytes: u64,
    /// Events that a consumer may have in memory.
    pub window_rows: u32,
    /// Bytes of text that a consumer may have in memory.
    pub window_bytes: u64,
    /// How long deliveries on the way may take to end after a request to stop.
    pub grace: Duration,
    /// Whether to listen for the commits of other processes; not through a pooler in transaction mode.
    pub listen: bool,
    /// Whether to write down what events have come to.
    pub recorder: bool,
    /// How many attempts of each event and consumer are remembered; 0 = none.
    pub attempt_history: u32,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            name: None,
            source: "/outbox".to_owned(),
            lease: Duration::from_secs(30),
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_secs(1),
            read_rows: 500,
            read_bytes: 8 << 20,
            window_rows: 10_000,
            window_bytes: 64 << 20,
            grace: Duration::from_secs(30),
            listen: false,
            recorder: true,
            attempt_history: 20,
        }
    }
}

/// `[registry]`: the folder of schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryConfig {
    /// The folder; a relative path in the file begins beside the file.
    pub path: PathBuf,
    /// What happens to events without a schema: `missing` and `missing_after`.
    pub missing: MissingSchema,
    /// What happens to members that a schema does not declare.
    pub undeclared: UndeclaredMembers,
    /// Where the schemas are published; makes `dataschema` of a CloudEvent.
    pub base_url: Option<String>,
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::from("schemas"),
            missing: MissingSchema::default(),
            undeclared: UndeclaredMembers::default(),
            base_url: None,
        }
    }
}

/// Also returns the deadline as it was written, for the rule that it has with the lease.
pub(super) fn database(
    mut section: Section<'_>,
    env: &Environment,
    folder: &Path,
) -> (DatabaseConfig, Field<Duration>) {
    let default = DatabaseConfig::default();
    let is_schema_name = |text: &str| Tables::in_schema(text).is_ok();
    let schema_rule =
        ("is not a schema name", "use 1 to 63 bytes that do not begin with pg_, such as \"outbox\"");
    let deadline = section.duration("deadline");
    let config = DatabaseConfig {
        url: section.read("url", |value| database_url(as_text(value)?, env, folder)).given(),
        schema: section.checked("schema", is_schema_name, schema_rule).or(default.schema),
        deadline: default.deadline,
        pooled: section.bool("pooled").or(default.pooled),
    };
    section.finish();
    (config, deadline)
}

/// The time limit of a database call, and the rule that it is at most a third of the lease: a lease is renewed when a third
/// of it has passed, and one slow call must not cost it. A default follows the lease.
pub(super) fn deadline(written: Field<Duration>, lease: &Field<Duration>, findings: &Findings) -> Duration {
    let default = DatabaseConfig::default().deadline;
    let Some(longest) = lease.known(RelayConfig::default().lease).map(|lease| lease / 3) else {
        return written.or(default);
    };
    if let Field::Given(deadline, place) = &written
        && *deadline > longest
    {
        let [shown, longest] = [*deadline, longest].map(units::show);
        let message = format!("`deadline` ({shown}) is above a third of the relay's `lease`");
        let help = format!("set `deadline` to at most {longest}, or raise `lease` in [relay]");
        let finding = Finding::new(place.clone(), message, help);
        findings.push(match lease.place() {
            Some(lease) => finding.related(lease.clone(), "the lease"),
            None => finding,
        });
    }
    written.or(default.min(longest))
}

fn database_url(text: &str, env: &Environment, folder: &Path) -> Result<Secret, Problem> {
    let help = "set the variable or write the file, or give another place: \"env:NAME\" or \"file:PATH\"";
    let url = match resolve(text, env, folder) {
        Some(resolved) => {
            resolved.map_err(|error| Problem::new(format!("cannot be resolved: {error}"), help))?
        }
        None => Secret::new(text),
    };
    let schemes = ["postgres://", "postgresql://", "sqlite:"];
    if schemes.iter().any(|scheme| url.expose().starts_with(scheme)) {
        Ok(url)
    } else {
        let help =
            "use postgres://USER@HOST/DATABASE or sqlite://FILE, or name it by \"env:NAME\" or \"file:PATH\"";
        Err(Problem::new("is not the address of a PostgreSQL or SQLite database", help))
    }
}

/// Also returns the lease as it was written, for the rules that consumers have with it.
pub(super) fn relay(mut section: Section<'_>, pooled: bool) -> (RelayConfig, Field<Duration>) {
    let default = RelayConfig::default();
    let plain = |text: &str| !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control);
    let reference = |text: &str| plain(text) && !text.contains(char::is_whitespace);

    let name = section.checked("name", plain, ("is not a name", "use 1 to 255 bytes of plain text"));
    let source_help = "use a URI or a path without spaces, such as \"/outbox\"";
    let source = section.checked("source", reference, ("is not a CloudEvents source", source_help));
    let lease = section.duration("lease");
    let poll_min = section.duration("poll_min");
    let poll_max = section.duration("poll_max");
    let read_rows = section.integer("read_rows", 1..=100_000);
    let read_bytes = section.bytes("read_bytes");
    let window_rows = section.integer("window_rows", 1..=10_000_000);
    let window_bytes = section.bytes("window_bytes");
    let grace = section.duration_or_zero("grace");
    let listen = section.bool("listen");
    if pooled
        && listen.known(false) == Some(true)
        && let Some(place) = listen.place()
    {
        let message = "`listen` needs a session of its own, and `[database] pooled` says that there is none";
        let help = "remove `listen`: the relay polls; or connect it to the server itself and remove `pooled`";
        section.findings().push(Finding::new(place.clone(), message, help));
    }
    let recorder = section.bool("recorder");
    let attempt_history = section.integer("attempt_history", 0..=1_000);

    not_above(&section, ("poll_min", &poll_min, default.poll_min), ("poll_max", &poll_max, default.poll_max));
    not_above(
        &section,
        ("read_rows", &read_rows, default.read_rows),
        ("window_rows", &window_rows, default.window_rows),
    );
    not_above(
        &section,
        ("read_bytes", &read_bytes, default.read_bytes),
        ("window_bytes", &window_bytes, default.window_bytes),
    );
    section.finish();

    let config = RelayConfig {
        name: name.given(),
        source: source.or(default.source),
        lease: lease.clone().or(default.lease),
        poll_min: poll_min.or(default.poll_min),
        poll_max: poll_max.or(default.poll_max),
        read_rows: read_rows.or(default.read_rows),
        read_bytes: read_bytes.or(default.read_bytes),
        window_rows: window_rows.or(default.window_rows),
        window_bytes: window_bytes.or(default.window_bytes),
        grace: grace.or(default.grace),
        listen: listen.or(default.listen),
        recorder: recorder.or(default.recorder),
        attempt_history: attempt_history.or(default.attempt_history),
    };
    (config, lease)
}

/// A key with what was written and what holds otherwise.
pub(super) type Keyed<'f, T> = (&'f str, &'f Field<T>, T);

/// The rule that one value must not be above another one; reported where one of them was written.
pub(super) fn not_above<T: Clone + PartialOrd>(section: &Section<'_>, low: Keyed<'_, T>, high: Keyed<'_, T>) {
    let ((low_key, low, low_default), (high_key, high, high_default)) = (low, high);
    let (Some(low_value), Some(high_value)) = (low.known(low_default), high.known(high_default)) else {
        return;
    };
    if low_value <= high_value {
        return;
    }
    let place = low.place().or(high.place()).unwrap_or(section.place()).clone();
    let message = format!("`{low_key}` is above `{high_key}`");
    let help = format!("raise `{high_key}` or lower `{low_key}`; what is not written has its default");
    let finding = Finding::new(place, message, help);
    section.findings().push(match (low.place(), high.place()) {
        (Some(_), Some(high)) => finding.related(high.clone(), format!("`{high_key}` is set here")),
        _ => finding,
    });
}

pub(super) fn registry(mut section: Section<'_>, folder: &Path) -> RegistryConfig {
    let default = RegistryConfig::default();
    let path_help = "name the folder of the schemas, such as \"schemas\"";
    let url_help =
        "use the address under which the schemas are published, such as \"https://schemas.example/\"";
    let is_url =
        |text: &str| reqwest::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    let path = section.checked("path", |text| !text.is_empty(), ("is empty", path_help));
    let choices = [("count", UndeclaredMembers::Count), ("refuse", UndeclaredMembers::Refuse)];
    let waits = section.one_of("missing", &[("wait", true), ("deliver", false)]).or(true);
    let dead_after = section.duration("missing_after");
    let missing = match (waits, dead_after.given()) {
        (true, Some(dead_after)) => MissingSchema::Wait { dead_after },
        (true, None) => MissingSchema::default(),
        (false, _) => MissingSchema::Deliver,
    };
    let config = RegistryConfig {
        path: folder.join(path.given().map_or(default.path, PathBuf::from)),
        missing,
        undeclared: section.one_of("undeclared", &choices).or(default.undeclared),
        base_url: section.checked("base_url", is_url, ("is not an http or https URL", url_help)).given(),
    };
    section.finish();
    config
}

/// `[retention]`: `days`, and other numbers of days by event type.
pub(super) fn retention(mut section: Section<'_>) -> RetainFor {
    let findings = section.findings();
    let in_range = 1..=i128::from(RetainFor::MOST);
    let days = section.integer("days", in_range.clone());
    let table = section.table("event_types", "[retention.event_types]");
    section.finish();
    // What is out of range was reported, so that no other error is left.
    let mut retain = days.given().and_then(|days| RetainFor::days(days).ok()).unwrap_or_default();
    for (pattern, entry) in table.into_iter().flat_map(Section::entries) {
        let name = format!("the time of `{pattern}`");
        let days = read_node(&name, entry.node, |value| as_integer(value, in_range.clone()), findings);
        let Some(days) = days.given() else { continue };
        match retain.clone().event_type(&pattern, days) {
            Ok(longer) => retain = longer,
            Err(_) => {
                let help = "write an event type, a prefix such as \"entity.customer.*\", or \"*\"";
                findings.push(Finding::new(entry.key, format!("`{pattern}` is not an event pattern"), help));
            }
        }
    }
    retain
}
