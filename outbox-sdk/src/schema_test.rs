//! What a generated schema test does: the struct against itself, against other structs, and against the registry.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use outbox_schema::compat::{self, Direction, Severity, Verdict};
use outbox_schema::drift;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use crate::__private::{SchemaSource, SchemaTest, SchemaTestFailure};
use crate::open_enum::PROBLEM;

/// What the environment asks of every schema test.
pub(crate) struct Settings {
    pub(crate) registry: Option<PathBuf>,
    pub(crate) bless: bool,
    pub(crate) ci: bool,
}

impl Settings {
    pub(crate) fn from_env() -> Self {
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
pub(crate) fn check(test: &SchemaTest, settings: &Settings) -> Result<(), SchemaTestFailure> {
    claimed_once(test)?;
    let read = root_schema(test.schema, SchemaSettings::draft2020_12().for_deserialize());
    let written = root_schema(test.schema, SchemaSettings::draft2020_12().for_serialize());
    fits_when_written(test, &read, &written)?;
    is_read_when_written(test, &read, &written)?;
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

/// The document for a struct, as `into_root_schema_for` makes it. That is generic, and compiled once per event it was most
/// of what events cost a test build; here it is compiled once, for a type that stands for the struct.
fn root_schema(of: SchemaSource, settings: SchemaSettings) -> Value {
    struct StandIn;

    thread_local! {
        static STRUCT: Cell<Option<SchemaSource>> = const { Cell::new(None) };
    }

    impl JsonSchema for StandIn {
        fn schema_name() -> Cow<'static, str> {
            STRUCT.get().map_or(Cow::Borrowed(""), |of| (of.name)())
        }

        fn schema_id() -> Cow<'static, str> {
            STRUCT.get().map_or(Cow::Borrowed(""), |of| (of.id)())
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            STRUCT.get().map_or_else(Schema::default, |of| (of.schema)(generator))
        }
    }

    STRUCT.set(Some(of));
    let schema = settings.into_generator().into_root_schema_for::<StandIn>().to_value();
    STRUCT.set(None);
    schema
}

/// The tests of one crate run in one process, where the second struct that claims a type and version meets the first.
fn claimed_once(test: &SchemaTest) -> Result<(), SchemaTestFailure> {
    /// By event type and version: where the struct is.
    static CLAIMED: Mutex<BTreeMap<(&str, u32), String>> = Mutex::new(BTreeMap::new());

    let SchemaTest { event_type, schema_version, rust_type, file, line, .. } = test;
    let here = format!("{file}:{line}, struct {rust_type}");
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    let first = claimed.entry((event_type, *schema_version)).or_insert_with(|| here.clone());
    if *first == here {
        return Ok(());
    }
    Err(SchemaTestFailure(format!(
        "two structs claim {event_type} v{schema_version}\n  --> {first}\n  --> {here}\n\
         help: an event type and version has one struct: share it, or give one of them another `event_type` or \
         `schema_version`; one that exists for a test or an example is `unregistered`"
    )))
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

/// Whether a reader takes everything that the struct writes, as far as that can be refuted: what is left out is found by
/// [`fits_when_written`], and what cannot be decided is not held against the struct.
fn is_read_when_written(test: &SchemaTest, read: &Value, written: &Value) -> Result<(), SchemaTestFailure> {
    let comparison = compat::compare(written, read);
    if comparison.backward != Verdict::Breaking {
        return Ok(());
    }
    let SchemaTest { event_type, schema_version, rust_type, file, line, .. } = test;
    let mut report = format!(
        "schema drift: {event_type} v{schema_version}\n  --> {file}:{line}, struct {rust_type}\n\
         what is written can fail the struct's own schema\n"
    );
    let failing = comparison.findings.iter().filter(|finding| {
        finding.severity == Severity::Breaking && finding.direction == Some(Direction::Backward)
    });
    for finding in failing {
        let pointer = if finding.pointer.is_empty() { "/" } else { &finding.pointer };
        let _ = writeln!(report, "  {pointer}: {}", finding.rule.id());
        if let Some(witness) = &finding.witness {
            let _ = writeln!(report, "    for example: {witness}");
        }
    }
    report.push_str(
        "help: have serde read and write the field in one form: one name, one type, one set of variants",
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
                found.extend(missing.filter_map(|name| Some(format!("{at}/properties/{}", name.as_str()?))));
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

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;
    use serde::Serialize;

    use super::root_schema;
    use super::{Settings, check};
    use crate::__private::{SchemaSource, SchemaTest, SchemaTestFailure};

    fn source<T: JsonSchema>() -> SchemaSource {
        SchemaSource { name: T::schema_name, id: T::schema_id, schema: T::json_schema }
    }

    fn claim<T: JsonSchema>() -> SchemaTest {
        SchemaTest {
            event_type: "thing.moved",
            schema_version: 2,
            rust_type: "app::ThingMoved",
            file: "src/thing.rs",
            line: 12,
            manifest_dir: env!("CARGO_MANIFEST_DIR"),
            schema: source::<T>(),
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
    fn a_field_that_is_read_in_another_form_than_it_is_written_is_found() {
        #[derive(Serialize, JsonSchema)]
        struct Outer {
            inner: Inner,
        }

        #[derive(Serialize, JsonSchema)]
        struct Inner {
            #[schemars(schema_with = "two_forms")]
            size: String,
        }

        fn two_forms(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            if generator.contract().is_serialize() {
                schemars::json_schema!({"type": "string"})
            } else {
                schemars::json_schema!({"type": "integer"})
            }
        }

        let folder = registry();
        let text = run::<Outer>(folder.path(), true).unwrap_err().to_string();
        assert!(text.contains("what is written can fail the struct's own schema\n"), "{text}");
        assert!(text.contains("/size/type: type-changed\n    for example: "), "{text}");
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

    #[test]
    fn two_structs_that_claim_one_type_and_version_are_named() {
        let folder = registry();
        let settings = || Settings { registry: Some(folder.path().to_owned()), bless: true, ci: false };
        let claim = |rust_type, line, schema_version| SchemaTest {
            event_type: "thing.claimed",
            schema_version,
            rust_type,
            file: "src/thing.rs",
            line,
            ..claim::<ThingMoved>()
        };
        check(&claim("app::a::ThingClaimed", 3, 1), &settings()).unwrap();
        check(&claim("app::a::ThingClaimed", 3, 1), &settings()).unwrap();
        check(&claim("app::a::ThingClaimed", 9, 2), &settings()).unwrap();
        let text = check(&claim("app::b::ThingClaimed", 20, 1), &settings()).unwrap_err().to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "two structs claim thing.claimed v1",
                "  --> src/thing.rs:3, struct app::a::ThingClaimed",
                "  --> src/thing.rs:20, struct app::b::ThingClaimed",
            ]
        );
        assert!(lines[3].starts_with("help: ") && lines.len() == 4, "{text}");
    }

    #[test]
    fn the_stand_in_gives_the_documents_of_the_struct() {
        #[derive(Serialize, JsonSchema)]
        struct Tree {
            name: String,
            place: Place,
            children: Vec<Tree>,
        }

        fn same<T: JsonSchema>() {
            for settings in [
                SchemaSettings::draft2020_12().for_deserialize(),
                SchemaSettings::draft2020_12().for_serialize(),
            ] {
                let expected = settings.clone().into_generator().into_root_schema_for::<T>().to_value();
                assert_eq!(root_schema(source::<T>(), settings), expected);
            }
        }

        same::<Tree>();
        same::<ThingMoved>();
        same::<Option<Tree>>();
    }
}
