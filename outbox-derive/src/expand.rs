//! Tokens out; no decisions.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Field, GenericParam, Generics, Ident, Lifetime};

use crate::model::{Event, has_type_parameters};
use crate::parse::SdkPath;

/// The impl, and the test that holds the struct against the registry.
pub(crate) fn event(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
    let Event { ident, generics, event_type, schema_version, aggregate_type, .. } = event;
    let aggregate_id = event.aggregate_id.map_or_else(none, |field| {
        let id = checked_call(field, &quote!(_sdk::ToAggregateId), &quote!(to_aggregate_id));
        quote!(::core::option::Option::Some(#id))
    });
    let tenant_id = event
        .tenant_id
        .map_or_else(none, |field| checked_call(field, &quote!(_sdk::ToTenantId), &quote!(to_tenant_id)));
    let implementation = Implementation {
        event_type: event_type.to_token_stream(),
        schema_version: schema_version.to_token_stream(),
        aggregate_type: aggregate_type.to_token_stream(),
        aggregate_id,
        tenant_id,
    }
    .expand(ident, generics, sdk);
    let test = event.registered.then(|| schema_test(event, sdk));
    quote! {
        #implementation
        #test
    }
}

/// After an error: an impl that keeps rustc from reporting every use of the type as well. A generic struct gets
/// none, there it would only add errors about missing bounds.
pub(crate) fn fallback(input: &DeriveInput, sdk: &SdkPath) -> TokenStream {
    if has_type_parameters(&input.generics) {
        return TokenStream::new();
    }
    Implementation {
        event_type: "".to_token_stream(),
        schema_version: 1_u32.to_token_stream(),
        aggregate_type: "".to_token_stream(),
        aggregate_id: none(),
        tenant_id: none(),
    }
    .expand(&input.ident, &input.generics, sdk)
}

/// The right-hand sides of the impl.
struct Implementation {
    event_type: TokenStream,
    schema_version: TokenStream,
    aggregate_type: TokenStream,
    aggregate_id: TokenStream,
    tenant_id: TokenStream,
}

impl Implementation {
    fn expand(&self, ident: &Ident, generics: &Generics, sdk: &SdkPath) -> TokenStream {
        let Self { event_type, schema_version, aggregate_type, aggregate_id, tenant_id } = self;
        let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
        let import = sdk.import();
        quote! {
            #[doc(hidden)]
            #[allow(deprecated, unused_qualifications)]
            const _: () = {
                #import
                #[automatically_derived]
                impl #impl_generics _sdk::OutboxEvent for #ident #ty_generics #where_clause {
                    const EVENT_TYPE: &'static ::core::primitive::str = #event_type;
                    const SCHEMA_VERSION: ::core::primitive::u32 = #schema_version;
                    const AGGREGATE_TYPE: &'static ::core::primitive::str = #aggregate_type;
                    fn aggregate_id(&self) -> ::core::option::Option<::std::string::String> {
                        #aggregate_id
                    }
                    fn tenant_id(&self) -> ::core::option::Option<_sdk::__private::Uuid> {
                        #tenant_id
                    }
                }
            };
        }
    }
}

fn none() -> TokenStream {
    quote!(::core::option::Option::None)
}

/// `<FieldType as Trait>::method(&self.field)`: a type without the trait is reported at the field's type.
fn checked_call(field: &Field, to_id: &TokenStream, method: &TokenStream) -> TokenStream {
    let (ty, member) = (&field.ty, &field.ident);
    quote_spanned!(ty.span()=> <#ty as #to_id>::#method(&self.#member))
}

/// At module level, because a test inside `const _` never runs.
fn schema_test(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
    let Event { ident, event_type, schema_version, .. } = event;
    let name = format_ident!("outbox_schema_{}_v{}", event_type.replace('.', "_"), schema_version);
    let rust_type = format!("::{}", ident.unraw());
    let line = quote_spanned!(ident.span()=> ::core::line!());
    let lifetimes = event.generics.params.iter().filter_map(|param| match param {
        GenericParam::Lifetime(param) => Some(Lifetime::new("'static", param.lifetime.span())),
        GenericParam::Type(_) | GenericParam::Const(_) => None,
    });
    let import = sdk.import();
    quote! {
        #[cfg(test)]
        #[doc(hidden)]
        #[::core::prelude::v1::test]
        fn #name() -> ::core::result::Result<(), #sdk::__private::SchemaTestFailure> {
            #import
            _sdk::__private::check_schema(&_sdk::__private::SchemaTest {
                event_type: #event_type,
                schema_version: #schema_version,
                rust_type: ::core::concat!(::core::module_path!(), #rust_type),
                file: ::core::file!(),
                line: #line,
                manifest_dir: ::core::env!("CARGO_MANIFEST_DIR"),
                schema: _sdk::__private::SchemaGenerator::into_root_schema_for::<#ident<#(#lifetimes),*>>,
            })
        }
    }
}
