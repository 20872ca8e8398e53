//! Each rule, broken once.

use syn::parse_quote;

use super::Event;
use crate::ctxt::Ctxt;
use crate::input::{Field, Input};
use crate::parse::StructAttrs;

/// Name, version, aggregate type, the fields of aggregate and tenant id, registered.
type Summary = (String, u32, String, Option<String>, Option<String>, bool);

fn check(input: &Input) -> Result<Summary, Vec<String>> {
    let mut ctxt = Ctxt::default();
    let mut attrs = StructAttrs::parse(&input.attrs, &mut ctxt);
    let event = Event::check(input, &mut attrs, &mut ctxt);
    assert_eq!(event.is_some(), ctxt.is_clean(), "an event if and only if no error");
    let name = |field: &Field| field.ident.to_string();
    event.ok_or_else(|| ctxt.messages()).map(|event| {
        (
            event.event_type,
            event.schema_version,
            event.aggregate_type,
            event.aggregate_id.map(name),
            event.tenant_id.map(name),
            event.registered,
        )
    })
}

fn messages(input: &Input) -> Vec<String> {
    check(input).expect_err("the input is wrong")
}

/// The first line of the only message.
fn only(input: &Input) -> String {
    let messages = messages(input);
    assert_eq!(messages.len(), 1, "{messages:?}");
    messages[0].lines().next().unwrap_or_default().to_owned()
}

#[test]
fn everything_given() {
    let input = parse_quote! {
        #[outbox(event_type = "entity.customer.updated", schema_version = 9999, aggregate_type = "customer")]
        #[outbox(unregistered)]
        struct Whatever<'a> {
            #[outbox(aggregate_id)]
            customer_id: &'a str,
            #[outbox(tenant_id)]
            r#type: Uuid,
        }
    };
    assert_eq!(
        check(&input),
        Ok((
            "entity.customer.updated".to_owned(),
            9999,
            "customer".to_owned(),
            Some("customer_id".to_owned()),
            Some("r#type".to_owned()),
            false
        ))
    );
}

#[test]
fn nothing_but_the_aggregate_type() {
    let input = parse_quote! { #[outbox(aggregate_type = "user")] struct r#UserSignedUp {} };
    assert_eq!(check(&input), Ok(("user.signed_up".to_owned(), 1, "user".to_owned(), None, None, true)));
}

#[test]
fn one_field_may_be_both_ids() {
    let input = parse_quote! {
        #[outbox(aggregate_type = "tenant")]
        struct TenantCreated { #[outbox(aggregate_id, tenant_id)] id: Uuid }
    };
    let both = Some("id".to_owned());
    assert_eq!(check(&input).map(|summary| (summary.3, summary.4)), Ok((both.clone(), both)));
}

#[test]
fn names() {
    for (event_type, message) in [
        ("customer", "event type `customer` has 1 segment"),
        ("", "the event type is empty"),
        ("entity.Customer.updated", "segment `Customer`"),
        ("customer.update", "`update` is not in the past tense"),
    ] {
        let input = parse_quote! {
            #[outbox(event_type = #event_type, aggregate_type = "a")] struct E {}
        };
        let found = only(&input);
        assert!(found.starts_with(message), "{event_type}: {found}");
    }
    let input = parse_quote! { #[outbox(aggregate_type = "a")] struct CustomerUpdate {} };
    assert!(only(&input).starts_with("cannot derive an event type from the name `CustomerUpdate`"));
}

#[test]
fn versions() {
    for (version, message) in [
        (quote::quote!(0), "schema versions start at 1"),
        (quote::quote!(-3), "schema versions start at 1"),
        (quote::quote!(10000), "schema versions end at 9999"),
        (quote::quote!(99999999999999999999), "schema versions end at 9999"),
    ] {
        let input = parse_quote! {
            #[outbox(event_type = "a.updated", schema_version = #version, aggregate_type = "a")] struct E {}
        };
        assert_eq!(only(&input), message, "{version}");
    }
}

#[test]
fn aggregate_types() {
    for (name, message) in [
        ("", "`aggregate_type` is empty"),
        ("a b", "`aggregate_type` contains a space or a control character"),
        ("a\0", "`aggregate_type` contains a space or a control character"),
    ] {
        let input = parse_quote! { #[outbox(aggregate_type = #name)] struct ThingUpdated {} };
        assert_eq!(only(&input), message, "{name:?}");
    }
    for name in ["customer", "Customer", "sales.order", "crm/customer"] {
        let input = parse_quote! { #[outbox(aggregate_type = #name)] struct ThingUpdated {} };
        assert!(check(&input).is_ok(), "{name}");
    }
    assert_eq!(only(&parse_quote! { struct ThingUpdated {} }), "`aggregate_type` is missing");
}

#[test]
fn shapes() {
    // One error each: what is wrong with the name or missing does not matter yet.
    for (input, message) in [
        (
            parse_quote! { struct Thing(u8); },
            "an event payload must be a JSON object, and a tuple struct is an array or a bare value",
        ),
        (
            parse_quote! { struct Thing; },
            "an event payload must be a JSON object, and a unit struct is `null`",
        ),
        (
            parse_quote! { enum Thing { A, B } },
            "an enum cannot be one event: each event type has one payload schema",
        ),
        (parse_quote! { union Thing { a: u8 } }, "a union cannot be an event: it has no JSON form"),
        (
            parse_quote! { #[outbox(aggregate_type = "a")] struct ThingFound<'a, T> { a: &'a T } },
            "an event payload cannot be generic: one event type and version has exactly one schema",
        ),
        (
            parse_quote! { #[outbox(aggregate_type = "a")] struct ThingFound<const N: usize> {} },
            "an event payload cannot be generic: one event type and version has exactly one schema",
        ),
    ] {
        assert_eq!(only(&input), message);
    }
}

#[test]
fn one_field_per_id() {
    let input = parse_quote! {
        #[outbox(aggregate_type = "a")]
        struct ThingFound {
            #[outbox(aggregate_id)] a: u8,
            #[outbox(aggregate_id)] b: u8,
            #[outbox(tenant_id)] c: Uuid,
            #[outbox(tenant_id)] d: Uuid,
        }
    };
    assert_eq!(
        messages(&input),
        [
            "only one field can be the `aggregate_id`; `a` already is",
            "only one field can be the `tenant_id`; `c` already is",
        ]
    );
}

#[test]
fn a_key_on_the_wrong_item_is_not_missing_as_well() {
    let input = parse_quote! { struct ThingFound { #[outbox(aggregate_type = "a")] a: u8 } };
    assert_eq!(only(&input), "`aggregate_type` belongs on a struct, not here");
    let input = parse_quote! { struct ThingFound { #[outbox(agregate_type = "a")] a: u8 } };
    assert_eq!(only(&input), "unknown `outbox` key `agregate_type`");
}

#[test]
fn serde_on_the_struct() {
    for (key, message) in [
        (quote::quote!(transparent), "a `transparent` struct is not a JSON object"),
        (quote::quote!(into = "T"), "`into` makes another type the payload"),
        (quote::quote!(from = "T"), "`from` makes another type the payload"),
        (quote::quote!(try_from = "T"), "`try_from` makes another type the payload"),
        (quote::quote!(remote = "T"), "`remote` describes a type of another crate"),
        (quote::quote!(deny_unknown_fields), "`deny_unknown_fields` closes the schema"),
        (
            quote::quote!(rename_all(serialize = "camelCase")),
            "`rename_all` gives other names for writing than for reading",
        ),
    ] {
        // Other keys around it, with values of all forms, change nothing.
        for attr in [
            quote::quote!(#[serde(crate = "a::b", bound(serialize = "", deserialize = ""), #key, default)]),
            quote::quote!(#[schemars(#key)]),
        ] {
            let input = parse_quote! { #attr #[outbox(aggregate_type = "a")] struct ThingFound { a: u8 } };
            let found = only(&input);
            assert!(found.starts_with(message), "{attr}: {found}");
        }
    }
    let input = parse_quote! {
        #[serde(rename = "x", rename_all = "camelCase", tag = "kind", default = "f::g")]
        #[serde(rename_all(serialize = "camelCase", deserialize = "camelCase"))]
        #[outbox(aggregate_type = "a")]
        struct ThingFound { #[serde(flatten)] a: u8, #[serde(rename = "c", alias = "d")] b: u8 }
    };
    assert!(check(&input).is_ok(), "{:?}", check(&input));
}

#[test]
fn a_field_that_may_be_left_out_must_not_be_required() {
    let refused = "a field that the schema requires: stored events would fail their own schema";
    for (field, key) in [
        (quote::quote!(#[serde(skip_serializing_if = "f")] a: Vec<u8>), "skip_serializing_if"),
        (quote::quote!(#[serde(skip_serializing_if = "f")] a: Maybe<u8>), "skip_serializing_if"),
        (
            quote::quote!(#[serde(rename = "b")] #[serde(skip_serializing_if = "f")] a: u8),
            "skip_serializing_if",
        ),
        (quote::quote!(#[serde(skip_serializing)] a: u8), "skip_serializing"),
    ] {
        let input = parse_quote! { #[outbox(aggregate_type = "a")] struct ThingFound { #field } };
        assert_eq!(only(&input), format!("`{key}` leaves out {refused}"), "{field}");
    }
    for field in [
        quote::quote!(#[serde(skip_serializing_if = "f")] a: Option<u8>),
        quote::quote!(#[serde(skip_serializing_if = "f")] a: std::option::Option<u8>),
        quote::quote!(#[serde(skip_serializing_if = "f", default)] a: Vec<u8>),
        quote::quote!(#[serde(default = "g")] #[serde(skip_serializing_if = "f")] a: Vec<u8>),
        quote::quote!(#[serde(skip_serializing, default)] a: u8),
        quote::quote!(#[serde(skip)] a: u8),
        quote::quote!(#[serde(skip_serializing, skip_deserializing)] a: u8),
    ] {
        let input = parse_quote! { #[outbox(aggregate_type = "a")] struct ThingFound { #field } };
        assert!(check(&input).is_ok(), "{field}");
    }
    let input = parse_quote! {
        #[serde(default)]
        #[outbox(aggregate_type = "a")]
        struct ThingFound { #[serde(skip_serializing_if = "f")] a: Vec<u8> }
    };
    assert!(check(&input).is_ok(), "a default of the struct is one of each field");
}

#[test]
fn a_field_has_one_name() {
    let input = parse_quote! {
        #[outbox(aggregate_type = "a")]
        struct ThingFound {
            #[serde(rename(serialize = "b"))] a: u8,
            #[serde(rename(serialize = "d", deserialize = "e"))] c: u8,
            #[serde(rename(serialize = "f", deserialize = "f"))] g: u8,
        }
    };
    assert_eq!(messages(&input).len(), 2);
}

#[test]
fn every_mistake_is_reported_once() {
    let input = parse_quote! {
        #[outbox(event_type = "Customer.updated", schema_version = 0, aggregat_type = "customer")]
        #[serde(deny_unknown_fields)]
        struct CustomerUpdated<T> {
            #[outbox(aggregate_id = "id")] id: T,
            #[outbox(tenant)] tenant: Uuid,
        }
    };
    let found = messages(&input);
    let expected = [
        "unknown `outbox` key `aggregat_type`",
        "`aggregate_id` marks a field",
        "unknown `outbox` key `tenant`",
        "an event payload cannot be generic",
        "`deny_unknown_fields` closes",
        "segment `Customer`",
        "schema versions start at 1",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}
