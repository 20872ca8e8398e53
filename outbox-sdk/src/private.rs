//! What generated code calls. Not part of the public interface: it changes with the derive.

use std::borrow::Cow;
use std::fmt;

pub use schemars::{JsonSchema, Schema, SchemaGenerator};
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
    pub schema: SchemaSource,
}

/// What schemars knows about the struct. Function pointers, so that no code is generated once per event.
#[derive(Clone, Copy)]
pub struct SchemaSource {
    pub name: fn() -> Cow<'static, str>,
    pub id: fn() -> Cow<'static, str>,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

/// Why a generated test fails. The test harness prints its `Debug` form, so that is the report as text.
pub struct SchemaTestFailure(pub(crate) String);

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
    crate::schema_test::check(test, &crate::schema_test::Settings::from_env())
}
