//! Tokens out; no decisions.

use proc_macro2::{Group, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{GenericParam, Generics, Ident, Lifetime, Type};

use crate::input::{Field, Input};
use crate::model::{Event, has_type_parameters};
use crate::parse::SdkPath;

/// The impl, and the test that holds the struct against the registry. Both are written out by macros of the SDK, which get
/// what only the derive knows: rustc expands those much faster than it takes tokens over from here.
pub(crate) fn event(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
    let implementation = Implementation {
        event_type: &event.event_type,
        schema_version: event.schema_version,
        aggregate_type: &event.aggregate_type,
        aggregate_id: event.aggregate_id,
        tenant_id: event.tenant_id,
        older_payloads: older_payloads(event, sdk),
    }
    .expand(event.ident, event.generics, sdk);
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
pub(crate) fn fallback(input: &Input, sdk: &SdkPath) -> TokenStream {
    if has_type_parameters(&input.generics) {
        return TokenStream::new();
    }
    Implementation {
        event_type: "",
        schema_version: 1,
        aggregate_type: "",
        aggregate_id: None,
        tenant_id: None,
        older_payloads: TokenStream::new(),
    }
    .expand(&input.ident, &input.generics, sdk)
}

/// What the impl says.
struct Implementation<'a> {
    event_type: &'a str,
    schema_version: u32,
    aggregate_type: &'a str,
    aggregate_id: Option<&'a Field>,
    tenant_id: Option<&'a Field>,
    /// A whole method, or nothing.
    older_payloads: TokenStream,
}

impl Implementation<'_> {
    fn expand(&self, ident: &Ident, generics: &Generics, sdk: &SdkPath) -> TokenStream {
        let Self { event_type, schema_version, aggregate_type, older_payloads, .. } = self;
        let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
        let schema_version = Literal::u32_unsuffixed(*schema_version);
        let aggregate_id = self.aggregate_id.map_or_else(|| quote!(None), |id| member(id, &quote!(Some)));
        let tenant_id = self.tenant_id.map_or_else(|| quote!(=None), |id| member(id, &TokenStream::new()));
        quote! {
            #sdk::__private::event! {
                [#impl_generics] [#ident #ty_generics] [#where_clause]
                #event_type #schema_version #aggregate_type #aggregate_id, #tenant_id, #older_payloads
            }
        }
    }
}

/// A field that holds an id. A type that is none is reported at the field's type.
fn member(field: &Field, wrapped: &TokenStream) -> TokenStream {
    let (ty, member) = (&field.ty, &field.ident);
    quote!(#wrapped [#ty] #member)
}

/// The method that writes the older majors. A conversion that is missing is reported at the type's own place.
fn older_payloads(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
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
            older: &mut #sdk::OlderPayloads,
        ) -> ::core::result::Result<(), #sdk::PublishError> {
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

/// At module level, because a test inside `const _` never runs.
fn schema_test(event: &Event<'_>, sdk: &SdkPath) -> TokenStream {
    let Event { ident, event_type, schema_version, .. } = event;
    let name = Ident::new(&schema_test_name(event_type, *schema_version), Span::call_site());
    let rust_type = format!("::{}", ident.unraw());
    let schema_version = Literal::u32_unsuffixed(*schema_version);
    let line = quote_spanned!(ident.span()=> ::core::line!());
    let lifetimes = static_lifetimes(event.generics);
    quote! {
        #[cfg(test)]
        #sdk::__private::schema_test! {
            [#sdk] #name [#ident<#(#lifetimes),*>] #event_type #schema_version #rust_type [#line]
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
