//! The derive: what it generates.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::process::Command;

use outbox_sdk::{OutboxEvent, ToTenantId};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// Stands in for the SDK, to see what a generated test asks for.
mod recorded {
    pub(crate) mod __private {
        use std::cell::{Cell, RefCell};

        pub(crate) use outbox_sdk::__private::{
            JsonSchema, SchemaGenerator, SchemaSource, SchemaTest, event, schema_test,
        };

        thread_local! {
            /// What the last test of this thread asked for.
            pub(crate) static ASKED: RefCell<Option<String>> = const { RefCell::new(None) };
            /// Whether tests of this thread find drift.
            pub(crate) static FAILING: Cell<bool> = const { Cell::new(false) };
        }

        #[derive(Debug)]
        pub(crate) struct SchemaTestFailure;

        pub(crate) fn check_schema(test: &SchemaTest) -> Result<(), SchemaTestFailure> {
            let schema = (test.schema.schema)(&mut SchemaGenerator::default());
            assert!(test.rust_type.ends_with(&*(test.schema.name)()), "{}", test.rust_type);
            assert!((test.schema.id)().contains(&*(test.schema.name)()));
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/derive.rs");
            assert!(source.ends_with(test.file), "{}", test.file);
            let text = std::fs::read_to_string(source).unwrap();
            let line = text.lines().nth(test.line as usize - 1).unwrap_or_default().trim();
            assert_eq!(test.manifest_dir, env!("CARGO_MANIFEST_DIR"));
            let asked = format!(
                "{} v{}; {}; {line} requires {}",
                test.event_type,
                test.schema_version,
                test.rust_type,
                schema.get("required").cloned().unwrap_or_default()
            );
            ASKED.set(Some(asked));
            if FAILING.get() { Err(SchemaTestFailure) } else { Ok(()) }
        }
    }
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "entity.thing.moved", schema_version = 3, aggregate_type = "thing", crate = "recorded")]
struct ThingMoved {
    #[outbox(aggregate_id)]
    id: u64,
    #[outbox(tenant_id)]
    tenant: Uuid,
    place: String,
}

mod nested {
    use super::{JsonSchema, OutboxEvent, Serialize, recorded};

    #[derive(Serialize, JsonSchema, OutboxEvent)]
    #[outbox(aggregate_type = "thing", schema_version = 3, crate = "recorded")]
    pub(crate) struct ThingSignedUp<'a> {
        pub(crate) name: &'a str,
    }

    pub(crate) fn schema_test() -> Result<(), recorded::__private::SchemaTestFailure> {
        outbox_schema_thing__signed_up_v3()
    }
}

/// The generated test, too, names nothing that a module can leave out or take for itself.
#[no_implicit_prelude]
mod bare {
    #[derive(::outbox_sdk::OutboxEvent)]
    #[outbox(aggregate_type = "thing", schema_version = 3, crate = "crate::recorded")]
    pub(crate) struct ThingSent {
        #[outbox(aggregate_id)]
        pub(crate) r#type: ::std::string::String,
    }

    impl ::serde::Serialize for ThingSent {
        fn serialize<S: ::serde::Serializer>(&self, to: S) -> ::std::result::Result<S::Ok, S::Error> {
            to.serialize_unit()
        }
    }

    impl ::schemars::JsonSchema for ThingSent {
        fn schema_name() -> ::std::borrow::Cow<'static, str> {
            ::std::borrow::Cow::Borrowed("ThingSent")
        }

        fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
            ::std::default::Default::default()
        }
    }
}

/// An id type of the user's own, with a tenant that may be nobody.
#[derive(Serialize, JsonSchema)]
struct Owner(Option<Uuid>);

impl ToTenantId for Owner {
    fn to_tenant_id(&self) -> Option<Uuid> {
        self.0
    }
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(aggregate_type = "platform", unregistered)]
struct PlatformStarted {
    #[outbox(tenant_id)]
    owner: Owner,
}

#[test]
fn an_event_knows_its_name_version_and_ids() {
    let tenant = Uuid::from_u128(9);
    let event = ThingMoved { id: 7, tenant, place: "attic".to_owned() };
    assert_eq!(ThingMoved::EVENT_TYPE, "entity.thing.moved");
    assert_eq!(ThingMoved::SCHEMA_VERSION, 3);
    assert_eq!(ThingMoved::AGGREGATE_TYPE, "thing");
    assert_eq!(event.aggregate_id().as_deref(), Some("7"));
    assert_eq!(event.tenant_id(), Some(tenant));
    assert_eq!(event.place, "attic");
}

#[test]
fn what_is_not_said_has_a_default() {
    assert_eq!(nested::ThingSignedUp::EVENT_TYPE, "thing.signed_up");
    assert_eq!(PlatformStarted::SCHEMA_VERSION, 1);
    assert_eq!(nested::ThingSignedUp { name: "a" }.tenant_id(), None);

    let tenant = Uuid::from_u128(9);
    let event = PlatformStarted { owner: Owner(Some(tenant)) };
    assert_eq!((event.aggregate_id(), event.tenant_id()), (None, Some(tenant)));
    assert_eq!(PlatformStarted { owner: Owner(None) }.tenant_id(), None);
    assert_eq!(bare::ThingSent { r#type: "a".to_owned() }.aggregate_id().as_deref(), Some("a"));
}

#[test]
fn a_schema_test_asks_for_the_struct_and_where_it_stands() {
    use recorded::__private::ASKED;

    outbox_schema_entity__thing__moved_v3().unwrap();
    assert_eq!(
        ASKED.take().unwrap(),
        r#"entity.thing.moved v3; derive::ThingMoved; struct ThingMoved { requires ["id","tenant","place"]"#
    );
    nested::schema_test().unwrap();
    assert_eq!(
        ASKED.take().unwrap(),
        r#"thing.signed_up v3; derive::nested::ThingSignedUp; pub(crate) struct ThingSignedUp<'a> { requires ["name"]"#
    );
}

#[test]
fn a_schema_test_hands_the_failure_on() {
    use recorded::__private::FAILING;

    FAILING.set(true);
    assert!(outbox_schema_entity__thing__moved_v3().is_err());
}

#[test]
fn the_harness_runs_the_schema_tests_of_registered_events_only() {
    let list = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let tests: Vec<_> = list.lines().filter(|line| line.contains("outbox_schema_")).collect();
    assert_eq!(
        tests,
        [
            "bare::outbox_schema_thing__sent_v3: test",
            "nested::outbox_schema_thing__signed_up_v3: test",
            "outbox_schema_entity__thing__moved_v3: test"
        ]
    );
}
