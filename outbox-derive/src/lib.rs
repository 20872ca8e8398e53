//! `#[derive(OutboxEvent)]`, the derive behind `outbox_sdk::OutboxEvent`. Use it through `outbox-sdk`: the
//! generated code names that crate.
//!
//! The way of a struct: `input` reads the item, `parse` its attributes, `model` checks every rule, `expand` writes the impl. The
//! macro reads no files and knows no types; what it cannot see, the schema of the payload, is compared with the
//! registry by a test that it generates.

mod ctxt;
mod expand;
mod input;
mod key;
mod model;
mod parse;
mod serde_attrs;
mod suggest;

use ctxt::Ctxt;
use input::Input;
use parse::{Slot, StructAttrs};
use proc_macro2::TokenStream;
use syn::parse_macro_input;

/// Makes a struct with named fields an outbox event.
///
/// ```text
/// use outbox_sdk::OutboxEvent;
/// use schemars::JsonSchema;
/// use serde::Serialize;
/// use uuid::Uuid;
///
/// #[derive(Serialize, JsonSchema, OutboxEvent)]
/// #[outbox(event_type = "entity.customer.updated", schema_version = 2, aggregate_type = "customer")]
/// pub struct CustomerUpdated {
///     #[outbox(aggregate_id)]
///     customer_id: Uuid,
///     #[outbox(tenant_id)]
///     tenant: Uuid,
///     name: String,
/// }
/// ```
///
/// | key | where | value | without it |
/// | --- | --- | --- | --- |
/// | `event_type` | struct | string literal `<object>.<verb>` or `<object>.<type>.<verb>`, lower snake_case, the verb in the past tense | from the struct's name: `CustomerUpdated` is `customer.updated` |
/// | `schema_version` | struct | integer literal from 1 to 9999, the schema's major: the next one when a change breaks readers | 1 |
/// | `aggregate_type` | struct | string literal: what kind of thing the event is about | an error, it must be given |
/// | `also_as` | struct | one type or several: `also_as = CustomerUpdatedV1`, `also_as(V2, V1)` | readers of older majors get nothing |
/// | `crate` | struct | path in a string, for crates that re-export the SDK | `"::outbox_sdk"` |
/// | `unregistered` | struct | none | the schema test is generated |
/// | `aggregate_id` | field | none; the type implements `ToAggregateId` | an event without aggregate, which has no order |
/// | `tenant_id` | field | none; the type implements `ToTenantId` | the tenant comes from the context of the operation |
///
/// Say `event_type` wherever a rename of the struct must not rename the event. The struct also derives
/// `serde::Serialize` and `schemars::JsonSchema`. It may borrow (`struct CustomerUpdated<'a>`), but not be
/// generic over types: one event type and version has one schema.
///
/// # The schema test
///
/// Unless the struct is `unregistered`, `cargo test` runs `outbox_schema_<event_type>_v<schema_version>`, each dot
/// as two underscores, next to the struct. It fails when the struct and the committed schema in the registry folder
/// differ, and needs the SDK's feature `testing` under `[dev-dependencies]`. Two structs that claim the same type and
/// version do not compile under test if they stand in one module (error E0428); elsewhere in the crate, the test of
/// one of them fails and names both. A struct inside a function cannot have the test: mark it, and events that exist
/// for a test or an example, `unregistered`.
///
/// # Older majors
///
/// A breaking change takes the next `schema_version`. With `also_as` the event goes on being stored as its older majors
/// too, in the same row, and each consumer gets the major that it pins. The older struct stays an event of its own, with
/// the same `event_type` and its own `schema_version`, and is made from the newest by `From<&Newest> for Older`; both
/// are checked when the program is compiled.
///
/// # What serde may do
///
/// Renaming, flattening, skipping and the like are serde's business and appear in the schema. Refused is what
/// makes the payload something else than an object of these fields (`transparent`, `into`, `from`, `try_from`,
/// `remote`), what closes the schema (`deny_unknown_fields`), and what makes a stored event fail its own schema:
/// `skip_serializing_if` without `default` on a field that is not an `Option`, and a name for writing that
/// differs from the one for reading.
#[proc_macro_derive(OutboxEvent, attributes(outbox))]
pub fn derive_outbox_event(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derive(&parse_macro_input!(input as Input)).into()
}

fn derive(input: &Input) -> TokenStream {
    let mut ctxt = Ctxt::default();
    let mut attrs = StructAttrs::parse(&input.attrs, &mut ctxt);
    let event = model::Event::check(input, &mut attrs, &mut ctxt);
    let sdk = match attrs.sdk {
        Slot::Given(path) => Some(path),
        Slot::Absent => Some(parse::SdkPath::default()),
        Slot::Invalid => None,
    };
    match (event, &sdk) {
        (Some(event), Some(sdk)) => expand::event(&event, sdk),
        _ => {
            let mut tokens = ctxt.into_compile_errors();
            tokens.extend(sdk.map(|sdk| expand::fallback(input, &sdk)));
            tokens
        }
    }
}
