//! What generated code calls. Not part of the public interface: it changes with the derive.

use std::borrow::Cow;
use std::fmt;

pub use schemars::{JsonSchema, Schema, SchemaGenerator};
pub use uuid::Uuid;

pub use crate::__outbox_event as event;
pub use crate::__outbox_schema_test as schema_test;
use crate::event::OutboxEvent;

/// The impl of `OutboxEvent`, from what the derive has read. Names as the user's module may have taken are said in full.
/// A type that cannot be an id is reported where the field has it.
#[doc(hidden)]
#[macro_export]
macro_rules! __outbox_event {
    (
        [$($generics:tt)*] [$($event:tt)*] [$($bounds:tt)*]
        $event_type:literal $schema_version:literal $aggregate_type:literal
        $of_aggregate:ident $([$($aggregate_id:tt)*] $aggregate_member:ident)?,
        $([$($tenant_id:tt)*] $tenant_member:ident)? $(= $no_tenant:ident)?,
        $($older_payloads:tt)*
    ) => {
        #[automatically_derived]
        #[allow(deprecated, unused_qualifications)]
        impl $($generics)* $crate::OutboxEvent for $($event)* $($bounds)* {
            const EVENT_TYPE: &'static ::core::primitive::str = $event_type;
            const SCHEMA_VERSION: ::core::primitive::u32 = $schema_version;
            const AGGREGATE_TYPE: &'static ::core::primitive::str = $aggregate_type;
            fn aggregate_id(&self) -> ::core::option::Option<::std::string::String> {
                ::core::option::Option::$of_aggregate $((
                    <$($aggregate_id)* as $crate::ToAggregateId>::to_aggregate_id(&self.$aggregate_member)
                ))?
            }
            fn tenant_id(&self) -> ::core::option::Option<$crate::__private::Uuid> {
                $(<$($tenant_id)* as $crate::ToTenantId>::to_tenant_id(&self.$tenant_member))?
                $(::core::option::Option::$no_tenant)?
            }
            $($older_payloads)*
        }
    };
}

/// The test that holds a struct against the registry. `$sdk` is the path of the attribute `crate`; `$line` is the struct's,
/// which only the derive can say.
#[doc(hidden)]
#[macro_export]
macro_rules! __outbox_schema_test {
    (
        [$($sdk:tt)*] $name:ident [$($event:tt)*]
        $event_type:literal $schema_version:literal $rust_type:literal [$line:expr]
    ) => {
        #[doc(hidden)]
        #[allow(non_snake_case)]
        #[::core::prelude::v1::test]
        fn $name() -> ::core::result::Result<(), $($sdk)*::__private::SchemaTestFailure> {
            $($sdk)*::__private::check_schema(&$($sdk)*::__private::SchemaTest {
                event_type: $event_type,
                schema_version: $schema_version,
                rust_type: ::core::concat!(::core::module_path!(), $rust_type),
                file: ::core::file!(),
                line: $line,
                manifest_dir: ::core::env!("CARGO_MANIFEST_DIR"),
                schema: $($sdk)*::__private::SchemaSource {
                    name: <$($event)* as $($sdk)*::__private::JsonSchema>::schema_name,
                    id: <$($event)* as $($sdk)*::__private::JsonSchema>::schema_id,
                    schema: <$($event)* as $($sdk)*::__private::JsonSchema>::json_schema,
                },
            })
        }
    };
}

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
