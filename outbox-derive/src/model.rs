//! Every rule that a user can break. What comes out is an event that can be expanded without a decision.

use outbox_schema::event_type::{check_shape, check_tense, derive_name};
use syn::ext::IdentExt;
use syn::{Generics, Ident, LitStr, Type};

use crate::ctxt::Ctxt;
use crate::input::{Field, Input, Shape};
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
    pub(crate) fn check(input: &'a Input, attrs: &mut StructAttrs, ctxt: &mut Ctxt) -> Option<Self> {
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
fn named_fields<'a>(input: &'a Input, ctxt: &mut Ctxt) -> Option<&'a [Field]> {
    let ident = &input.ident;
    match &input.shape {
        Shape::Named(fields) => return Some(fields),
        Shape::Tuple(fields) => ctxt.error_with_help(
            fields,
            "an event payload must be a JSON object, and a tuple struct is an array or a bare value",
            "give the fields names",
        ),
        Shape::Unit => ctxt.error_with_help(
            ident,
            "an event payload must be a JSON object, and a unit struct is `null`",
            format_args!("write `struct {ident} {{}}`"),
        ),
        Shape::Enum(keyword) => ctxt.error_with_help(
            keyword,
            "an enum cannot be one event: each event type has one payload schema",
            "derive on one struct per variant",
        ),
        Shape::Union(keyword) => ctxt.error_with_help(
            keyword,
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
fn fits_its_own_schema(container: &[ForeignKey], fields: &[Field], ctxt: &mut Ctxt) {
    one_name(container, ctxt);
    let all_default = container.iter().any(|key| key.is("default"));
    for field in fields {
        let keys = serde_attrs::parse(&field.attrs);
        one_name(&keys, ctxt);
        let may_be_missing = all_default
            || field.ty.as_ref().is_some_and(is_option)
            || keys.iter().any(|key| key.is("default") || key.is("skip"));
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
    fn check(fields: &'a [Field], attrs: &mut StructAttrs, ctxt: &mut Ctxt) -> Self {
        let mut marked = Self::default();
        for field in fields {
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
    match marked.map(|first| &first.ident) {
        Some(first) => {
            ctxt.error(key, format_args!("only one field can be the `{key}`; `{first}` already is"));
        }
        None => *marked = Some(field),
    }
}

#[cfg(test)]
mod tests;
