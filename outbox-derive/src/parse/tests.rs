//! What is read, and what is said about what cannot be.

use quote::ToTokens;
use syn::{Attribute, LitStr, parse_quote};

use super::{FieldAttrs, SchemaVersion, Slot, StructAttrs};
use crate::ctxt::Ctxt;

fn on_struct(attrs: &[Attribute]) -> (StructAttrs, Vec<String>) {
    let mut ctxt = Ctxt::default();
    let attrs = StructAttrs::parse(attrs, &mut ctxt);
    (attrs, ctxt.messages())
}

fn on_field(attrs: &[Attribute]) -> (FieldAttrs, Vec<String>) {
    let mut ctxt = Ctxt::default();
    let attrs = FieldAttrs::parse(attrs, &mut ctxt);
    (attrs, ctxt.messages())
}

fn text(slot: &Slot<LitStr>) -> String {
    match slot {
        Slot::Absent => "absent".to_owned(),
        Slot::Invalid => "invalid".to_owned(),
        Slot::Given(literal) => literal.value(),
    }
}

#[test]
fn keys_may_be_spread_over_attributes() {
    let (attrs, messages) = on_struct(&[
        parse_quote!(#[serde(rename_all = "camelCase")]),
        parse_quote!(#[outbox(event_type = "a.updated", schema_version = 12,)]),
        parse_quote!(#[outbox(crate = "crate::sdk", aggregate_type = "a", unregistered)]),
        parse_quote!(#[outbox()]),
    ]);
    assert!(messages.is_empty(), "{messages:?}");
    assert_eq!(text(&attrs.event_type), "a.updated");
    assert_eq!(text(&attrs.aggregate_type), "a");
    assert!(matches!(attrs.unregistered, Slot::Given(_)));
    let Slot::Given(SchemaVersion::Literal(version)) = attrs.schema_version else { panic!("no version") };
    assert_eq!(version.base10_digits(), "12");
    let Slot::Given(sdk) = attrs.sdk else { panic!("no path") };
    assert_eq!(sdk.to_token_stream().to_string(), "crate :: sdk");
    assert_eq!(sdk.import().to_string(), "use crate :: sdk as _sdk ;");
}

#[test]
fn a_wrong_kind_is_reported_alone_and_parsing_goes_on() {
    let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(
        event_type = NAME, schema_version = "2", aggregate_type("a"), crate, unregistered = true
    )])]);
    assert_eq!(
        messages,
        [
            "`event_type` must be a string literal, so that it can be found by searching the code",
            "`schema_version` must be an integer literal, as in `schema_version = 2`",
            "`aggregate_type` needs a value\nhelp: write it as in `aggregate_type = \"customer\"`",
            "`crate` needs a value\nhelp: write it as in `crate = \"::outbox_sdk\"`",
            "`unregistered` marks a struct and takes no value\nhelp: write `#[outbox(unregistered)]`",
        ]
    );
    assert_eq!(text(&attrs.event_type), "invalid");
    assert_eq!(text(&attrs.aggregate_type), "invalid");
    assert!(matches!(attrs.schema_version, Slot::Invalid));
    assert!(matches!(attrs.sdk, Slot::Invalid));
}

#[test]
fn one_type_or_several() {
    let types = |attr: Attribute| {
        let (attrs, messages) = on_struct(&[attr]);
        assert!(messages.is_empty(), "{messages:?}");
        let Slot::Given(types) = attrs.also_as else { panic!("no types") };
        types.iter().map(|ty| ty.to_token_stream().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        types(parse_quote!(#[outbox(also_as = v1::Updated, aggregate_type = "a")])),
        ["v1 :: Updated"]
    );
    assert_eq!(types(parse_quote!(#[outbox(also_as(V2<'a>, V1),)])), ["V2 < 'a >", "V1"]);
    for (attr, message) in [
        (
            parse_quote!(#[outbox(also_as = "V1")]),
            "`also_as` names types, as in `also_as = CustomerUpdatedV1`",
        ),
        (
            parse_quote!(#[outbox(also_as("V1"))]),
            "`also_as` names types, as in `also_as = CustomerUpdatedV1`",
        ),
        (
            parse_quote!(#[outbox(also_as)]),
            "`also_as` needs a value\nhelp: write it as in `also_as = CustomerUpdatedV1`",
        ),
        (
            parse_quote!(#[outbox(also_as())]),
            "`also_as` names no type\nhelp: write it as in `also_as = CustomerUpdatedV1`",
        ),
        (parse_quote!(#[outbox(also_as = V1, also_as = V2)]), "`also_as` is given twice"),
    ] {
        let (_, messages) = on_struct(&[attr]);
        assert_eq!(messages, [message]);
    }
}

#[test]
fn version_literals() {
    for (tokens, message) in [
        ("1.2", "a schema version is a major: whole numbers only"),
        ("2u32", "`schema_version` must be an integer literal"),
        ("1 + 1", "`schema_version` must be an integer literal"),
        ("(2)", "`schema_version` must be an integer literal"),
        ("true", "`schema_version` must be an integer literal"),
    ] {
        let value: syn::Expr = syn::parse_str(tokens).unwrap();
        let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(schema_version = #value)])]);
        assert_eq!(messages.len(), 1, "{tokens}");
        assert!(messages[0].starts_with(message), "{tokens}: {messages:?}");
        assert!(matches!(attrs.schema_version, Slot::Invalid), "{tokens}");
    }
    let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(schema_version = -1)])]);
    assert!(messages.is_empty());
    assert!(matches!(attrs.schema_version, Slot::Given(SchemaVersion::Negative(_))));
}

#[test]
fn a_syntax_error_ends_the_attribute_and_nothing_is_called_missing() {
    let broken: [(Attribute, &str); 4] = [
        (parse_quote!(#[outbox]), "expected attribute arguments in parentheses: `outbox(...)`"),
        (parse_quote!(#[outbox(event_type: "a.updated")]), "expected `=`"),
        (parse_quote!(#[outbox(event_type = "a.updated" schema_version = 2)]), "expected `,`"),
        (parse_quote!(#[outbox(unregistered false)]), "expected `,`"),
    ];
    for (attr, message) in broken {
        let (attrs, messages) = on_struct(&[attr]);
        assert_eq!(messages, [message]);
        assert!(!matches!(attrs.aggregate_type, Slot::Absent), "{message}");
        assert!(!matches!(attrs.event_type, Slot::Absent), "{message}");
    }
}

#[test]
fn an_unknown_key_is_named_and_what_it_meant_is_not_missing() {
    let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(event_typ = "a.updated", name(x, y), other)])]);
    let all = "help: the keys of a struct are `event_type`, `schema_version`, `aggregate_type`, `also_as`, `crate`, `unregistered`";
    assert_eq!(
        messages,
        [
            "unknown `outbox` key `event_typ`\nhelp: did you mean `event_type`?".to_owned(),
            format!("unknown `outbox` key `name`\n{all}"),
            format!("unknown `outbox` key `other`\n{all}"),
        ]
    );
    assert_eq!(text(&attrs.event_type), "invalid");
    assert_eq!(text(&attrs.aggregate_type), "absent");
}

#[test]
fn the_first_of_two_values_stays() {
    let (attrs, messages) = on_struct(&[
        parse_quote!(#[outbox(event_type = "a.updated")]),
        parse_quote!(#[outbox(event_type = 3)]),
    ]);
    assert_eq!(messages, ["`event_type` is given twice"]);
    assert_eq!(text(&attrs.event_type), "a.updated");
}

#[test]
fn keys_in_the_wrong_place() {
    let (_, messages) = on_struct(&[parse_quote!(#[outbox(aggregate_id, tenant_id = "tenant")])]);
    assert_eq!(
        messages,
        [
            "`aggregate_id` belongs on a field, not here",
            "`tenant_id` marks a field and takes no value\nhelp: put `#[outbox(tenant_id)]` on the field `tenant`",
        ]
    );
    let (attrs, messages) = on_field(&[parse_quote!(#[outbox(aggregate_type = "a", aggregate_id)])]);
    assert_eq!(messages, ["`aggregate_type` belongs on a struct, not here"]);
    assert!(matches!(attrs.aggregate_id, Slot::Given(_)));
}

#[test]
fn flags_take_no_value() {
    for attr in [
        parse_quote!(#[outbox(aggregate_id = "id")]),
        parse_quote!(#[outbox(aggregate_id = true)]),
        parse_quote!(#[outbox(aggregate_id(id))]),
    ] {
        let (attrs, messages) = on_field(&[attr]);
        assert_eq!(
            messages,
            ["`aggregate_id` marks a field and takes no value\nhelp: write `#[outbox(aggregate_id)]`"]
        );
        assert!(matches!(attrs.aggregate_id, Slot::Invalid));
    }
    let (_, messages) = on_field(&[parse_quote!(#[outbox(tenant_id, tenant_id)])]);
    assert_eq!(messages, ["`tenant_id` is given twice"]);
}

#[test]
fn the_sdk_path_must_be_a_path() {
    for path in ["", "a b", "::", "1", "a::<T>"] {
        let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(crate = #path)])]);
        assert_eq!(
            messages,
            ["`crate` does not hold a path\nhelp: write it as in `crate = \"::outbox_sdk\"`"],
            "{path}"
        );
        assert!(matches!(attrs.sdk, Slot::Invalid));
    }
}
