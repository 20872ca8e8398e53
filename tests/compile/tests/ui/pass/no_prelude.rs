//! The generated code names nothing that a module can leave out or take for itself. Neither serde's nor
//! schemars' derive works here, hence the impls by hand.

#![no_implicit_prelude]
#![allow(non_camel_case_types)]

struct Option;
struct String;
struct Some;
struct None;
struct str;
struct u32;

#[derive(::outbox_sdk::OutboxEvent)]
#[outbox(aggregate_type = "thing")]
struct ThingMoved {
    #[outbox(aggregate_id)]
    id: ::std::string::String,
    #[outbox(tenant_id)]
    tenant: ::uuid::Uuid,
}

impl ::serde::Serialize for ThingMoved {
    fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl ::schemars::JsonSchema for ThingMoved {
    fn schema_name() -> ::std::borrow::Cow<'static, ::std::primitive::str> {
        ::std::borrow::Cow::Borrowed("ThingMoved")
    }

    fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
        ::std::default::Default::default()
    }
}

fn main() {
    use ::outbox_sdk::OutboxEvent;
    let _unused = (Option, String, Some, None, str, u32);
    let event = ThingMoved { id: ::std::string::String::new(), tenant: ::uuid::Uuid::nil() };
    ::std::assert!(event.aggregate_id().is_some());
    ::std::assert!(event.tenant_id().is_some());
}
