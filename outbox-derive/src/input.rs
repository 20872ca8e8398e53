//! The item that the derive stands on, read as far as the rules need it. rustc has parsed it already, and types are most of
//! its tokens: `syn::DeriveInput` spends half of the derive's time on those that nobody asks for.

use proc_macro2::TokenTree;
use syn::buffer::Cursor;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, FieldsUnnamed, Generics, Ident, Token, Type, Visibility, WhereClause, braced, token};

/// A struct, enum or union.
pub(crate) struct Input {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) ident: Ident,
    pub(crate) generics: Generics,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    Named(Vec<Field>),
    Tuple(FieldsUnnamed),
    Unit,
    Enum(Token![enum]),
    Union(Ident),
}

/// A field with a name.
pub(crate) struct Field {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) ident: Ident,
    /// Given if an attribute makes the type matter.
    pub(crate) ty: Option<Type>,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        input.parse::<Visibility>()?;
        let keyword = Keyword::parse(input)?;
        let ident = input.parse()?;
        let mut generics: Generics = input.parse()?;
        generics.where_clause = where_clause(input)?;
        let shape = match keyword {
            Keyword::Enum(keyword) => Shape::Enum(keyword),
            Keyword::Union(keyword) => Shape::Union(keyword),
            Keyword::Struct if input.peek(token::Brace) => {
                let fields;
                braced!(fields in input);
                let fields = Punctuated::<Field, Token![,]>::parse_terminated(&fields)?;
                Shape::Named(fields.into_iter().collect())
            }
            Keyword::Struct if input.peek(token::Paren) => Shape::Tuple(input.parse()?),
            Keyword::Struct => Shape::Unit,
        };
        input.step(|rest| Ok(((), skip_until(*rest, |_| false))))?;
        Ok(Self { attrs, ident, generics, shape })
    }
}

enum Keyword {
    Struct,
    Enum(Token![enum]),
    Union(Ident),
}

impl Parse for Keyword {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Token![struct]) {
            return input.parse::<Token![struct]>().map(|_| Self::Struct);
        }
        if input.peek(Token![enum]) {
            return input.parse().map(Self::Enum);
        }
        input.parse().map(Self::Union)
    }
}

fn where_clause(input: ParseStream<'_>) -> syn::Result<Option<WhereClause>> {
    if input.peek(Token![where]) { input.parse().map(Some) } else { Ok(None) }
}

impl Parse for Field {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        input.parse::<Visibility>()?;
        let ident = input.parse()?;
        input.parse::<Token![:]>()?;
        let matters =
            |attr: &Attribute| ["outbox", "serde", "schemars"].iter().any(|of| attr.path().is_ident(of));
        let ty = if attrs.iter().any(matters) {
            Some(input.parse()?)
        } else {
            input.step(|rest| Ok(((), skip_until(*rest, |punct| punct == ','))))?;
            None
        };
        Ok(Self { attrs, ident, ty })
    }
}

/// What follows the tokens before the first punctuation mark that `ends`, outside of angle brackets.
fn skip_until(mut rest: Cursor<'_>, ends: impl Fn(char) -> bool) -> Cursor<'_> {
    let (mut open, mut before) = (0_usize, ' ');
    // A type that a `macro_rules!` macro passes on is one invisible group, so its tokens are not looked at.
    while let Some((token, next)) = rest.token_tree() {
        let punct = if let TokenTree::Punct(punct) = &token { punct.as_char() } else { ' ' };
        match punct {
            '<' => open += 1,
            // Of the arrow in `fn() -> T` it closes nothing.
            '>' if before != '-' => open = open.saturating_sub(1),
            punct if open == 0 && ends(punct) => return rest,
            _ => {}
        }
        (before, rest) = (punct, next);
    }
    rest
}

#[cfg(test)]
mod tests {
    use proc_macro2::{Delimiter, Group};
    use quote::{ToTokens, quote};
    use syn::parse_quote;

    use super::{Input, Shape};

    #[test]
    fn a_type_that_does_not_matter_ends_at_the_comma_behind_it() {
        let input: Input = parse_quote! {
            pub(crate) struct Moved<'a> where 'a: 'a {
                pub a: BTreeMap<u8, Vec<(u8, u8)>>,
                b: Pair<fn(u8, u8) -> u8, u8>,
                /// Text.
                pub(super) c: Box<dyn Fn(u8) -> Pair<u8, u8> + 'a>,
                d: <[u8; { 1 < 2 } as usize] as Of<u8, u8>>::Out,
                #[serde(default)]
                e: Pair<u8, u8>,
                f: Sized<{ 2 > 1 }, -1>,
                #[outbox(aggregate_id)]
                r#g: &'a str
            }
        };
        let Shape::Named(fields) = input.shape else { panic!("a struct with named fields") };
        let read = fields.iter().map(|field| {
            let ty = field.ty.as_ref().map(|ty| ty.to_token_stream().to_string());
            (field.ident.to_string(), ty.unwrap_or_default())
        });
        let expected = [
            ("a", ""),
            ("b", ""),
            ("c", ""),
            ("d", ""),
            ("e", "Pair < u8 , u8 >"),
            ("f", ""),
            ("r#g", "& 'a str"),
        ];
        assert_eq!(read.collect::<Vec<_>>(), expected.map(|(name, ty)| (name.to_owned(), ty.to_owned())));
        assert!(input.generics.where_clause.is_some());
    }

    #[test]
    fn a_type_that_a_macro_passes_on_hides_no_field() {
        let ty = Group::new(Delimiter::None, quote!(<A as B<u8, u8>>::C));
        let input: Input = parse_quote! { struct Moved { a: #ty, #[outbox(aggregate_id)] b: #ty, c: #ty } };
        let Shape::Named(fields) = input.shape else { panic!("a struct with named fields") };
        let names = fields.iter().map(|field| (field.ident.to_string(), field.ty.is_some()));
        let expected = [("a", false), ("b", true), ("c", false)];
        assert_eq!(names.collect::<Vec<_>>(), expected.map(|(name, read)| (name.to_owned(), read)));
    }

    #[test]
    fn what_is_no_struct_with_named_fields_is_read_to_its_end() {
        let shapes: [Input; 5] = [
            parse_quote!(
                pub struct A<'a>(u8, &'a str)
                where
                    'a: 'a;
            ),
            parse_quote!(
                struct A;
            ),
            parse_quote!(
                struct A
                where
                    u8: Copy;
            ),
            parse_quote!(
                enum A<T>
                where
                    T: Copy,
                {
                    B { c: u8 },
                    D(T),
                }
            ),
            parse_quote!(union A { b: u8, c: i8 }),
        ];
        let shapes = shapes.map(|input| match input.shape {
            Shape::Named(_) => "named",
            Shape::Tuple(_) => "tuple",
            Shape::Unit => "unit",
            Shape::Enum(_) => "enum",
            Shape::Union(_) => "union",
        });
        assert_eq!(shapes, ["tuple", "unit", "unit", "enum", "union"]);
    }
}
