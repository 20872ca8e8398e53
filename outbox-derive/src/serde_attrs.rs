//! What serde and schemars were told about the struct, as far as it changes whether a payload fits its own
//! schema. Syntax errors in foreign attributes are theirs to report.

use proc_macro2::{Span, TokenStream};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Expr, Ident, LitStr, Token, parenthesized, token};

/// One key inside `#[serde(..)]` or `#[schemars(..)]`.
pub(crate) struct ForeignKey {
    pub(crate) ident: Ident,
    /// `true` in `rename(serialize = "a", deserialize = "b")`: written under another name than read.
    pub(crate) renames_one_way: bool,
}

impl ForeignKey {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.ident == name
    }
}

/// Every key of the `serde` and `schemars` attributes, in order.
pub(crate) fn parse(attrs: &[Attribute]) -> Vec<ForeignKey> {
    let mut keys = Vec::new();
    for attr in attrs {
        if attr.path().is_ident("serde") || attr.path().is_ident("schemars") {
            // What was read before a syntax error counts; the error itself is reported by the attribute's owner.
            let _ = attr.parse_nested_meta(|meta| {
                keys.push(key(&meta)?);
                Ok(())
            });
        }
    }
    keys
}

fn key(meta: &ParseNestedMeta<'_>) -> syn::Result<ForeignKey> {
    let ident = meta.path.get_ident().cloned().unwrap_or_else(|| Ident::new("_", Span::call_site()));
    let mut renames_one_way = false;
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(token::Paren) {
        let content;
        parenthesized!(content in meta.input);
        if ident == "rename" || ident == "rename_all" {
            renames_one_way = differs(&content)?;
        } else {
            content.parse::<TokenStream>()?;
        }
    }
    Ok(ForeignKey { ident, renames_one_way })
}

/// Whether `serialize = ".."` and `deserialize = ".."` differ; a missing one is the unchanged name.
fn differs(content: syn::parse::ParseStream<'_>) -> syn::Result<bool> {
    let (mut written, mut read) = (None, None);
    while !content.is_empty() {
        let direction = content.call(Ident::parse_any)?;
        content.parse::<Token![=]>()?;
        let name = content.parse::<LitStr>()?.value();
        if direction == "serialize" {
            written = Some(name);
        } else {
            read = Some(name);
        }
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(written != read)
}
