//! What generated code calls. Not part of the public interface: it changes with the derive.

use std::fmt;

pub use schemars::{Schema, SchemaGenerator};
pub use uuid::Uuid;

use crate::event::OutboxEvent;

/// Fails to compile unless `Older` is an older major of the event type of `Newest`.
pub const fn assert_older<Newest: OutboxEvent, Older: OutboxEvent>() {
    assert!(
        is_same(Newest::EVENT_TYPE, Older::EVENT_TYPE),
        "`also_as` names an event of another type: an older major has the same event_type"
    );
    assert!(
        Older::SCHEMA_VERSION < Newest::SCHEMA_VERSION,
        "`also_as` names an event whose schema_version is not below this one's"
    );
}

/// Fails to compile when two of these majors are the same.
pub const fn assert_distinct(majors: &[u32]) {
    let mut rest = majors;
    while let [first, others @ ..] = rest {
        let mut left = others;
        while let [other, behind @ ..] = left {
            assert!(*first != *other, "`also_as` names two events of one schema_version");
            left = behind;
        }
        rest = others;
    }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        match (a, b) {
            ([], []) => return true,
            ([first, behind @ ..], [other, rest @ ..]) if *first == *other => (a, b) = (behind, rest),
            _ => return false,
        }
    }
}

/// A struct that claims an event type and version, as its generated test describes it.
pub struct SchemaTest {
    pub event_type: &'static str,
    pub schema_version: u32,
    /// Path of the struct, for messages.
    pub rust_type: &'static str,
    pub file: &'static str,
    pub line: u32,
    /// Where the search for the registry folder begins.
    pub manifest_dir: &'static str,
    /// Yields the schema of the struct; a function pointer, so that nothing here is compiled once per event.
    pub schema: fn(SchemaGenerator) -> Schema,
}

/// Why a generated test fails. The test harness prints its `Debug` form, so that is the report as text.
pub struct SchemaTestFailure(String);

impl fmt::Debug for SchemaTestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for SchemaTestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Compares the schema of a struct with the committed one.
///
/// # Errors
/// The report of what differs and what to do, or of why nothing could be compared.
#[cfg(not(feature = "testing"))]
pub fn check_schema(_test: &SchemaTest) -> Result<(), SchemaTestFailure> {
    Err(SchemaTestFailure(
        concat!(
            "the schema test of an outbox event needs a feature of outbox-sdk; add to Cargo.toml (with the path or git source \
             of your own line, if it has one)\n\n",
            "[dev-dependencies]\n",
            "outbox-sdk = { version = \"",
            env!("CARGO_PKG_VERSION_MAJOR"),
            ".",
            env!("CARGO_PKG_VERSION_MINOR"),
            "\", features = [\"testing\"] }\n"
        )
        .to_owned(),
    ))
}

/// Compares the schema of a struct with the committed one. `OUTBOX_BLESS=1` writes it instead, which `CI` forbids;
/// `OUTBOX_REGISTRY` names the folder, which else is searched upwards from the crate's manifest.
///
/// # Errors
/// The report of what differs and what to do, or of why nothing could be compared.
#[cfg(feature = "testing")]
pub fn check_schema(test: &SchemaTest) -> Result<(), SchemaTestFailure> {
    testing::check(test, &testing::Settings::from_env())
}

#[cfg(feature = "testing")]
mod testing {
    use std::env;
    use std::fmt::Write;
    use std::path::{Path, PathBuf};

    use outbox_schema::drift;
    use schemars::generate::SchemaSettings;
    use serde_json::{Map, Value};

    use super::{SchemaTest, SchemaTestFailure};
    use crate::open_enum::PROBLEM;

    /// What the environment asks of every schema test.
    pub(super) struct Settings {
        pub(super) registry: Option<PathBuf>,
        pub(super) bless: bool,
        pub(super) ci: bool,
    }

    impl Settings {
        pub(super) fn from_env() -> Self {
            Self {
                registry: env::var_os("OUTBOX_REGISTRY").filter(|path| !path.is_empty()).map(PathBuf::from),
                bless: is_on("OUTBOX_BLESS"),
                ci: is_on("CI"),
            }
        }
    }

    fn is_on(name: &str) -> bool {
        env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0" && value != "false")
    }

    /// The reading contract is what gets committed, validated and compared. Before that, what is written must fit it.
    pub(super) fn check(test: &SchemaTest, settings: &Settings) -> Result<(), SchemaTestFailure> {
        let read =
            (test.schema)(SchemaSettings::draft2020_12().for_deserialize().into_generator()).to_value();
        let written =
            (test.schema)(SchemaSettings::draft2020_12().for_serialize().into_generator()).to_value();
        fits_when_written(test, &read, &written)?;
        enums_can_be_open(test, &read)?;
        let claim = drift::Claim {
            event_type: test.event_type,
            schema_version: test.schema_version,
            rust_type: test.rust_type,
            file: test.file,
            line: test.line,
            schema: read,
        };
        drift::run(
            &claim,
            Path::new(test.manifest_dir),
            settings.registry.as_deref(),
            settings.bless,
            settings.ci,
        )
        .map_err(|failure| SchemaTestFailure(failure.to_string()))
    }

    /// The derive refuses such fields in the event itself; it cannot see into the types of fields.
    fn fits_when_written(test: &SchemaTest, read: &Value, written: &Value) -> Result<(), SchemaTestFailure> {
        let mut left_out = Vec::new();
        find_left_out(read, written, "", &mut left_out);
        if left_out.is_empty() {
            return Ok(());
        }
        left_out.sort();
        let SchemaTest { event_type, schema_version, rust_type, file, line, .. } = test;
        let mut report = format!(
            "schema drift: {event_type} v{schema_version}\n  --> {file}:{line}, struct {rust_type}\n\
             what is written can fail the struct's own schema: required, but left out or under another name\n"
        );
        for pointer in left_out {
            let _ = writeln!(report, "  {pointer}");
        }
        report.push_str(
            "help: beside `skip_serializing_if` or `skip_serializing` put `default`, or make the field an `Option`; \
             in `rename` give one name for both",
        );
        Err(SchemaTestFailure(report))
    }

    /// `open_enum` runs where no error can be returned; it leaves a word in the schema instead.
    fn enums_can_be_open(test: &SchemaTest, schema: &Value) -> Result<(), SchemaTestFailure> {
        let mut problems = Vec::new();
        find_problems(schema, "", &mut problems);
        let Some((pointer, problem)) = problems.first() else { return Ok(()) };
        let SchemaTest { event_type, schema_version, rust_type, file, line, .. } = test;
        Err(SchemaTestFailure(format!(
            "{event_type} v{schema_version}\n  --> {file}:{line}, struct {rust_type}\n{pointer}: {problem}"
        )))
    }

    fn find_problems(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
        match value {
            Value::Object(members) => {
                if let Some(problem) = members.get(PROBLEM).and_then(Value::as_str) {
                    found.push((if at.is_empty() { "/" } else { at }.to_owned(), problem.to_owned()));
                }
                members.iter().for_each(|(name, value)| find_problems(value, &format!("{at}/{name}"), found));
            }
            Value::Array(values) => {
                let each = values.iter().enumerate();
                each.for_each(|(index, value)| find_problems(value, &format!("{at}/{index}"), found));
            }
            _ => {}
        }
    }

    /// Pointers of the properties that `read` requires and `written`, the same type's schema for writing, does not.
    fn find_left_out(read: &Value, written: &Value, at: &str, found: &mut Vec<String>) {
        match (read, written) {
            (Value::Object(read), Value::Object(written)) => {
                let required = |of: &Map<String, Value>| {
                    of.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
                };
                // Where one side is no struct the two describe different types, which says nothing.
                let is_struct = |of: &Map<String, Value>| {
                    of.get("type").is_some_and(|kind| kind == "object")
                        && !of.contains_key("additionalProperties")
                };
                if is_struct(read) && is_struct(written) {
                    let always_written = required(written);
                    let missing = required(read).into_iter().filter(|name| !always_written.contains(name));
                    found.extend(
                        missing.filter_map(|name| Some(format!("{at}/properties/{}", name.as_str()?))),
                    );
                }
                for (key, read) in read {
                    if let Some(written) = written.get(key) {
                        find_left_out(read, written, &format!("{at}/{key}"), found);
                    }
                }
            }
            // Of lists with different lengths it is unknown which belongs to which.
            (Value::Array(read), Value::Array(written)) if read.len() == written.len() => {
                for (index, (read, written)) in read.iter().zip(written).enumerate() {
                    find_left_out(read, written, &format!("{at}/{index}"), found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[cfg(feature = "testing")]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::testing::{Settings, check};
    use super::{SchemaGenerator, SchemaTest, SchemaTestFailure};

    fn claim<T: JsonSchema>() -> SchemaTest {
        SchemaTest {
            event_type: "thing.moved",
            schema_version: 2,
            rust_type: "app::ThingMoved",
            file: "src/thing.rs",
            line: 12,
            manifest_dir: env!("CARGO_MANIFEST_DIR"),
            schema: SchemaGenerator::into_root_schema_for::<T>,
        }
    }

    /// An empty registry folder of the test's own.
    fn registry() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("registry.toml"), "").unwrap();
        folder
    }

    fn run<T: JsonSchema>(registry: &std::path::Path, bless: bool) -> Result<(), SchemaTestFailure> {
        check(&claim::<T>(), &Settings { registry: Some(registry.to_owned()), bless, ci: false })
    }

    #[derive(Serialize, JsonSchema)]
    struct ThingMoved {
        place: Place,
        #[serde(default)]
        tags: Vec<String>,
        note: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        room: Option<u8>,
        by: By,
    }

    #[derive(Serialize, JsonSchema)]
    struct Place {
        name: String,
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        shelves: Vec<String>,
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind")]
    #[expect(dead_code, reason = "only its schema matters")]
    enum By {
        Hand { name: String },
        Robot { serial: u32 },
    }

    #[test]
    fn what_was_blessed_passes_and_a_change_is_reported() {
        #[derive(Serialize, JsonSchema)]
        struct ThingMovedLater {
            place: u8,
        }

        let folder = registry();
        assert!(run::<ThingMoved>(folder.path(), false).is_err(), "nothing is committed yet");
        run::<ThingMoved>(folder.path(), true).unwrap();
        run::<ThingMoved>(folder.path(), false).unwrap();
        let failure = run::<ThingMovedLater>(folder.path(), false).unwrap_err();
        let text = failure.to_string();
        assert!(text.contains("thing.moved"), "{text}");
        assert_eq!(format!("{failure:?}"), text, "the harness prints the debug form");
        assert_eq!(text.matches("\\n").count(), 0, "lines, not an escaped string");
    }

    #[test]
    fn nothing_is_blessed_in_ci() {
        let folder = registry();
        let settings = Settings { registry: Some(folder.path().to_owned()), bless: true, ci: true };
        assert!(check(&claim::<ThingMoved>(), &settings).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only registry.toml");
    }

    #[test]
    fn an_enum_that_cannot_be_open_is_named() {
        #[derive(Serialize, JsonSchema)]
        struct Outer {
            inner: Inner,
        }

        #[derive(Serialize, JsonSchema)]
        #[schemars(transform = crate::open_enum)]
        struct Inner {}

        let folder = registry();
        let text = run::<Outer>(folder.path(), true).unwrap_err().to_string();
        assert!(text.contains("\n/$defs/Inner: `open_enum` stands on a type that is no enum"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is blessed");
    }

    #[test]
    fn a_nested_type_that_can_fail_its_own_schema_is_found() {
        #[derive(Serialize, JsonSchema)]
        struct Outer {
            items: Vec<Item>,
            by: By,
        }

        #[derive(Serialize, JsonSchema)]
        struct Item {
            name: String,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            tags: Vec<String>,
            #[serde(rename(serialize = "amount"))]
            count: u32,
        }

        #[derive(Serialize, JsonSchema)]
        #[expect(dead_code, reason = "only its schema matters")]
        enum By {
            Hand {
                #[serde(skip_serializing)]
                name: String,
            },
        }

        let folder = registry();
        let text = run::<Outer>(folder.path(), true).unwrap_err().to_string();
        let text = text.lines().collect::<Vec<_>>();
        assert_eq!(
            text[..2],
            ["schema drift: thing.moved v2", "  --> src/thing.rs:12, struct app::ThingMoved"]
        );
        assert_eq!(
            text[3..6],
            [
                "  /$defs/By/oneOf/0/properties/Hand/properties/name",
                "  /$defs/Item/properties/count",
                "  /$defs/Item/properties/tags"
            ]
        );
        assert!(text[6].starts_with("help: ") && text.len() == 7, "{text:#?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "and nothing is blessed");
    }
}
