//! Tokens out; no decisions.

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{DeriveInput, Field, GenericParam, Generics, Ident, Lifetime, Type};

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
        older_payloads: older_payloads(event),
    }
    .expand(ident, generics, sdk);
    let older_majors = older_majors(event, sdk);
    let test = event.registered.then(|| schema_test(event, sdk));
    quote! {
        #implementation
        #older_majors
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
        older_payloads: TokenStream::new(),
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
    /// A whole method, or nothing.
    older_payloads: TokenStream,
}

impl Implementation {
    fn expand(&self, ident: &Ident, generics: &Generics, sdk: &SdkPath) -> TokenStream {
        let Self { event_type, schema_version, aggregate_type, aggregate_id, tenant_id, older_payloads } =
            self;
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
                    #older_payloads
                }
            };
        }
    }
}

/// The method that writes the older majors. A conversion that is missing is reported at the type's own place.
fn older_payloads(event: &Event<'_>) -> TokenStream {
    if event.also_as.is_empty() {
        return TokenStream::new();
    }
    let add = event.also_as.iter().map(|older| {
        quote_spanned! {older.span()=>
            older.add(&<#older as ::core::convert::From<&Self>>::from(self))?;
        }
    });
    quote! {
        fn older_payloads(
            &self,
            older: &mut _sdk::OlderPayloads,
        ) -> ::core::result::Result<(), _sdk::PublishError> {
            #(#add)*
            ::core::result::Result::Ok(())
        }
    }
}

/// Constants that do not evaluate unless each type of `also_as` is another older major of the same event type.
fn older_majors(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
    if event.also_as.is_empty() {
        return TokenStream::new();
    }
    let (ident, lifetimes) = (event.ident, static_lifetimes(event.generics));
    let older: Vec<_> = event.also_as.iter().map(with_static_lifetimes).collect();
    let checks = older.iter().map(|older| {
        quote_spanned! {older.span()=>
            const _: () = _sdk::__private::assert_older::<#ident<#(#lifetimes),*>, #older>();
        }
    });
    let import = sdk.import();
    quote! {
        const _: () = {
            #import
            #(#checks)*
            const _: () = _sdk::__private::assert_distinct(&[
                #(<#older as _sdk::OutboxEvent>::SCHEMA_VERSION),*
            ]);
        };
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
    let name = format_ident!("{}", schema_test_name(event_type, *schema_version));
    let rust_type = format!("::{}", ident.unraw());
    let line = quote_spanned!(ident.span()=> ::core::line!());
    let lifetimes = static_lifetimes(event.generics);
    let import = sdk.import();
    quote! {
        #[cfg(test)]
        #[doc(hidden)]
        #[allow(non_snake_case)]
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
                schema: _sdk::__private::SchemaSource {
                    name: <#ident<#(#lifetimes),*> as _sdk::__private::JsonSchema>::schema_name,
                    id: <#ident<#(#lifetimes),*> as _sdk::__private::JsonSchema>::schema_id,
                    schema: <#ident<#(#lifetimes),*> as _sdk::__private::JsonSchema>::json_schema,
                },
            })
        }
    }
}

/// One name per event type and version. Segments have single underscores, so two stand for a dot and nothing else.
fn schema_test_name(event_type: &str, schema_version: u32) -> String {
    format!("outbox_schema_{}_v{schema_version}", event_type.replace('.', "__"))
}

/// What to write for a struct's lifetimes where none is in scope.
fn static_lifetimes(generics: &Generics) -> Vec<Lifetime> {
    let lifetime = |param: &GenericParam| match param {
        GenericParam::Lifetime(param) => Some(Lifetime::new("'static", param.lifetime.span())),
        GenericParam::Type(_) | GenericParam::Const(_) => None,
    };
    generics.params.iter().filter_map(lifetime).collect()
}

/// The same type with every lifetime `'static`.
fn with_static_lifetimes(ty: &Type) -> TokenStream {
    fn replace(tokens: TokenStream) -> TokenStream {
        let mut replaced = Vec::new();
        let mut tokens = tokens.into_iter();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(tick) if tick.as_char() == '\'' => {
                    replaced.push(TokenTree::Punct(tick));
                    let name = tokens.next().map(|name| Ident::new("static", name.span()));
                    replaced.extend(name.map(TokenTree::Ident));
                }
                TokenTree::Group(group) => {
                    let mut inner = Group::new(group.delimiter(), replace(group.stream()));
                    inner.set_span(group.span());
                    replaced.push(TokenTree::Group(inner));
                }
                token => replaced.push(token),
            }
        }
        replaced.into_iter().collect()
    }
    replace(ty.to_token_stream())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_name_of_one_event_type_and_version() {
        let claims = [("a.b_c", 1), ("a_b.c", 1), ("a.b.c", 1), ("a.b_c", 11), ("a.b_c_v1", 1)];
        let names = claims.map(|(event_type, version)| schema_test_name(event_type, version));
        assert_eq!(names[0], "outbox_schema_a__b_c_v1");
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{names:?}");
        }
        // The same claim twice in one module is the same function twice: error E0428.
        assert_eq!(schema_test_name("a.b_c", 1), names[0]);
    }
}
