//! Every rule that a user can break. What comes out is an event that can be expanded without a decision.

use outbox_schema::event_type::{check_shape, check_tense, derive_name};
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Field, Fields, FieldsNamed, Generics, Ident, LitStr, Type};

use crate::ctxt::Ctxt;
use crate::parse::{FieldAttrs, SchemaVersion, Slot, StructAttrs};
use crate::serde_attrs::{self, ForeignKey};

/// The largest schema version that makes sense: a larger one is a date or a typing mistake.
const MAX_SCHEMA_VERSION: u32 = 9999;

/// An event that breaks no rule.
pub(crate) struct Event<'a> {
    pub(crate) ident: &'a Ident,
    /// Lifetimes only.
    pub(crate) generics: &'a Generics,
    pub(crate) event_type: String,
    pub(crate) schema_version: u32,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: Option<&'a Field>,
    pub(crate) tenant_id: Option<&'a Field>,
    /// Events of older majors that are stored beside this one.
    pub(crate) also_as: Vec<Type>,
    /// Whether the struct is held against the registry by a generated test.
    pub(crate) registered: bool,
}

impl<'a> Event<'a> {
    /// Checks everything and reports every mistake; `None` if there was one.
    pub(crate) fn check(input: &'a DeriveInput, attrs: &mut StructAttrs, ctxt: &mut Ctxt) -> Option<Self> {
        let fields = named_fields(input, ctxt);
        let marked = fields.map(|fields| Marked::check(fields, attrs, ctxt));
        no_type_parameters(&input.generics, ctxt);
        let container = serde_attrs::parse(&input.attrs);
        json_object_of_its_own_fields(&container, ctxt);
        if let Some(fields) = fields {
            fits_its_own_schema(&container, fields, ctxt);
        }
        // An enum or a tuple struct is rewritten anyway; its name and keys are judged then.
        let event_type = fields.and_then(|_| event_type(&input.ident, &attrs.event_type, ctxt));
        let schema_version = schema_version(&attrs.schema_version, ctxt);
        let aggregate_type = fields.and_then(|_| aggregate_type(&input.ident, &attrs.aggregate_type, ctxt));
        let marked = marked?;
        let event = Self {
            ident: &input.ident,
            generics: &input.generics,
            event_type: event_type?,
            schema_version: schema_version?,
            aggregate_type: aggregate_type?,
            aggregate_id: marked.aggregate_id,
            tenant_id: marked.tenant_id,
            also_as: match &attrs.also_as {
                Slot::Given(types) => types.clone(),
                Slot::Absent | Slot::Invalid => Vec::new(),
            },
            registered: matches!(attrs.unregistered, Slot::Absent),
        };
        ctxt.is_clean().then_some(event)
    }
}

/// The table holds JSON objects, so an event is a struct with named fields.
fn named_fields<'a>(input: &'a DeriveInput, ctxt: &mut Ctxt) -> Option<&'a FieldsNamed> {
    let ident = &input.ident;
    match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => return Some(fields),
            Fields::Unnamed(fields) => ctxt.error_with_help(
                fields,
                "an event payload must be a JSON object, and a tuple struct is an array or a bare value",
                "give the fields names",
            ),
            Fields::Unit => ctxt.error_with_help(
                ident,
                "an event payload must be a JSON object, and a unit struct is `null`",
                format_args!("write `struct {ident} {{}}`"),
            ),
        },
        Data::Enum(data) => ctxt.error_with_help(
            data.enum_token,
            "an enum cannot be one event: each event type has one payload schema",
            "derive on one struct per variant",
        ),
        Data::Union(data) => ctxt.error_with_help(
            data.union_token,
            "a union cannot be an event: it has no JSON form",
            "derive on a struct with named fields",
        ),
    }
    None
}

fn no_type_parameters(generics: &Generics, ctxt: &mut Ctxt) {
    if has_type_parameters(generics) {
        ctxt.error_with_help(
            generics,
            "an event payload cannot be generic: one event type and version has exactly one schema",
            "derive on a concrete struct; lifetimes are fine",
        );
    }
}

/// Type or const parameters; a lifetime does not change the schema.
pub(crate) fn has_type_parameters(generics: &Generics) -> bool {
    generics.type_params().next().is_some() || generics.const_params().next().is_some()
}

fn json_object_of_its_own_fields(container: &[ForeignKey], ctxt: &mut Ctxt) {
    for key in container {
        let name = key.ident.unraw().to_string();
        let (message, help) = match name.as_str() {
            "transparent" => (
                "a `transparent` struct is not a JSON object".to_owned(),
                "remove `transparent`: the payload is an object with this one field",
            ),
            "into" | "from" | "try_from" => (
                format!(
                    "`{name}` makes another type the payload, so this struct would not be what is stored"
                ),
                "remove it, or derive `OutboxEvent` on that other type",
            ),
            "remote" => (
                "`remote` describes a type of another crate, not this struct".to_owned(),
                "copy what the event needs into a struct of your own",
            ),
            "deny_unknown_fields" => (
                "`deny_unknown_fields` closes the schema, so every added field would be a breaking change"
                    .to_owned(),
                "remove it",
            ),
            _ => continue,
        };
        ctxt.error_with_help(&key.ident, message, help);
    }
}

/// Stored events are validated against the schema for *reading*. It requires each field that has no default and
/// is no `Option`, under its name for reading.
fn fits_its_own_schema(container: &[ForeignKey], fields: &FieldsNamed, ctxt: &mut Ctxt) {
    one_name(container, ctxt);
    let all_default = container.iter().any(|key| key.is("default"));
    for field in &fields.named {
        let keys = serde_attrs::parse(&field.attrs);
        one_name(&keys, ctxt);
        let may_be_missing =
            all_default || is_option(&field.ty) || keys.iter().any(|key| key.is("default") || key.is("skip"));
        if may_be_missing || keys.iter().any(|key| key.is("skip_deserializing")) {
            continue;
        }
        for key in keys.iter().filter(|key| key.is("skip_serializing_if") || key.is("skip_serializing")) {
            let name = &key.ident;
            ctxt.error_with_help(
                name,
                format_args!(
                    "`{name}` leaves out a field that the schema requires: stored events would fail their own schema"
                ),
                "add `#[serde(default)]` to the field, or make it an `Option`",
            );
        }
    }
}

fn one_name(keys: &[ForeignKey], ctxt: &mut Ctxt) {
    for key in keys.iter().filter(|key| key.renames_one_way) {
        let name = &key.ident;
        ctxt.error_with_help(
            name,
            format_args!(
                "`{name}` gives other names for writing than for reading: stored events would fail their own schema"
            ),
            format_args!("give one for both, as in `{name} = \"..\"`"),
        );
    }
}

/// Literally an `Option`: what an alias stands for is unknown here.
fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Path(ty) => ty.path.segments.last().is_some_and(|segment| segment.ident == "Option"),
        Type::Group(group) => is_option(&group.elem),
        Type::Paren(paren) => is_option(&paren.elem),
        _ => false,
    }
}

fn event_type(ident: &Ident, slot: &Slot<LitStr>, ctxt: &mut Ctxt) -> Option<String> {
    match slot {
        Slot::Invalid => None,
        Slot::Given(literal) => {
            let name = literal.value();
            if let Err(error) = check_shape(&name) {
                ctxt.error(literal, error);
                return None;
            }
            if let Err(error) = check_tense(&name) {
                ctxt.error(literal, error);
                return None;
            }
            Some(name)
        }
        Slot::Absent => match derive_name(&ident.unraw().to_string()) {
            Ok(name) => Some(name),
            Err(error) => {
                ctxt.error(ident, error);
                None
            }
        },
    }
}

fn schema_version(slot: &Slot<SchemaVersion>, ctxt: &mut Ctxt) -> Option<u32> {
    match slot {
        Slot::Absent => Some(1),
        Slot::Invalid => None,
        Slot::Given(SchemaVersion::Negative(expr)) => {
            ctxt.error(expr, "schema versions start at 1");
            None
        }
        Slot::Given(SchemaVersion::Literal(literal)) => match literal.base10_parse::<u32>() {
            Ok(0) => {
                ctxt.error(literal, "schema versions start at 1");
                None
            }
            Ok(version) if version <= MAX_SCHEMA_VERSION => Some(version),
            Ok(_) | Err(_) => {
                ctxt.error(literal, format_args!("schema versions end at {MAX_SCHEMA_VERSION}"));
                None
            }
        },
    }
}

fn aggregate_type(ident: &Ident, slot: &Slot<LitStr>, ctxt: &mut Ctxt) -> Option<String> {
    const HELP: &str =
        "name the aggregate that the event is about, as in `#[outbox(aggregate_type = \"customer\")]`";
    match slot {
        Slot::Invalid => None,
        Slot::Absent => {
            ctxt.error_with_help(ident, "`aggregate_type` is missing", HELP);
            None
        }
        Slot::Given(literal) => {
            let name = literal.value();
            if name.is_empty() {
                ctxt.error_with_help(literal, "`aggregate_type` is empty", HELP);
                return None;
            }
            if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
                ctxt.error_with_help(
                    literal,
                    "`aggregate_type` contains a space or a control character",
                    "use a plain word, as in `customer` or `service_plan`",
                );
                return None;
            }
            Some(name)
        }
    }
}

/// The fields that carry ids.
#[derive(Default)]
struct Marked<'a> {
    aggregate_id: Option<&'a Field>,
    tenant_id: Option<&'a Field>,
}

impl<'a> Marked<'a> {
    fn check(fields: &'a FieldsNamed, attrs: &mut StructAttrs, ctxt: &mut Ctxt) -> Self {
        let mut marked = Self::default();
        for field in &fields.named {
            let flags = FieldAttrs::parse(&field.attrs, ctxt);
            attrs.excuse(&flags.doubtful);
            mark(&mut marked.aggregate_id, field, &flags.aggregate_id, ctxt);
            mark(&mut marked.tenant_id, field, &flags.tenant_id, ctxt);
        }
        marked
    }
}

fn mark<'a>(marked: &mut Option<&'a Field>, field: &'a Field, flag: &Slot<Ident>, ctxt: &mut Ctxt) {
    let Slot::Given(key) = flag else { return };
    match marked.and_then(|first| first.ident.as_ref()) {
        Some(first) => {
            ctxt.error(key, format_args!("only one field can be the `{key}`; `{first}` already is"));
        }
        None => *marked = Some(field),
    }
}

#[cfg(test)]
mod tests {
    use syn::{DeriveInput, parse_quote};

    use super::Event;
    use crate::ctxt::Ctxt;
    use crate::parse::StructAttrs;

    /// Name, version, aggregate type, the fields of aggregate and tenant id, registered.
    type Summary = (String, u32, String, Option<String>, Option<String>, bool);

    fn check(input: &DeriveInput) -> Result<Summary, Vec<String>> {
        let mut ctxt = Ctxt::default();
        let mut attrs = StructAttrs::parse(&input.attrs, &mut ctxt);
        let event = Event::check(input, &mut attrs, &mut ctxt);
        assert_eq!(event.is_some(), ctxt.is_clean(), "an event if and only if no error");
        let name = |field: &syn::Field| field.ident.as_ref().map(ToString::to_string);
        event.ok_or_else(|| ctxt.messages()).map(|event| {
            (
                event.event_type,
                event.schema_version,
                event.aggregate_type,
                event.aggregate_id.and_then(name),
                event.tenant_id.and_then(name),
                event.registered,
            )
        })
    }

    fn messages(input: &DeriveInput) -> Vec<String> {
        check(input).expect_err("the input is wrong")
    }

    /// The first line of the only message.
    fn only(input: &DeriveInput) -> String {
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
                let input =
                    parse_quote! { #attr #[outbox(aggregate_type = "a")] struct ThingFound { a: u8 } };
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
}
