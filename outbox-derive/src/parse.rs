//! Reads `#[outbox(..)]`: which keys are given, where, with what kind of value.
//!
//! A wrong *kind* of value is reported and parsing goes on; a *syntax* error ends the attribute. Neither makes a
//! key count as missing, so that one mistake gives one error.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, ExprLit, ExprUnary, Ident, Lit, LitInt, LitStr, Path, Token, Type, UnOp, parenthesized,
    token,
};

use crate::ctxt::Ctxt;
use crate::key::{Key, Place};
use crate::suggest;

/// What is known about one key. `Invalid` is neither missing nor usable: its mistake is reported already.
#[derive(Default)]
pub(crate) enum Slot<T> {
    #[default]
    Absent,
    Invalid,
    Given(T),
}

impl<T> Slot<T> {
    /// Takes the first value; a second one is an error. `None` is a value whose mistake is reported already.
    fn fill(&mut self, entry: &Entry, ctxt: &mut Ctxt, read: impl FnOnce(&Entry, &mut Ctxt) -> Option<T>) {
        match self {
            Self::Absent => *self = read(entry, ctxt).map_or(Self::Invalid, Self::Given),
            Self::Invalid | Self::Given(_) => {
                ctxt.error(&entry.ident, format_args!("`{}` is given twice", entry.key.name()));
            }
        }
    }

    fn spoil(&mut self) {
        if matches!(self, Self::Absent) {
            *self = Self::Invalid;
        }
    }
}

/// The `#[outbox(..)]` attributes of the struct.
#[derive(Default)]
pub(crate) struct StructAttrs {
    pub(crate) event_type: Slot<LitStr>,
    pub(crate) schema_version: Slot<SchemaVersion>,
    pub(crate) aggregate_type: Slot<LitStr>,
    pub(crate) also_as: Slot<Vec<Type>>,
    pub(crate) sdk: Slot<SdkPath>,
    pub(crate) unregistered: Slot<Ident>,
}

impl StructAttrs {
    pub(crate) fn parse(attrs: &[Attribute], ctxt: &mut Ctxt) -> Self {
        let mut slots = Self::default();
        let read = Entries::read(attrs, Place::Struct, ctxt);
        for entry in &read.entries {
            match entry.key {
                Key::EventType => slots.event_type.fill(entry, ctxt, Entry::searchable_string),
                Key::SchemaVersion => slots.schema_version.fill(entry, ctxt, Entry::integer),
                Key::AggregateType => slots.aggregate_type.fill(entry, ctxt, Entry::searchable_string),
                Key::AlsoAs => slots.also_as.fill(entry, ctxt, Entry::types),
                Key::Crate => slots.sdk.fill(entry, ctxt, Entry::sdk_path),
                Key::Unregistered => slots.unregistered.fill(entry, ctxt, Entry::flag),
                Key::AggregateId | Key::TenantId => {}
            }
        }
        slots.excuse(&read.doubtful);
        slots
    }

    /// Keys that a reported mistake may have meant do not count as missing.
    pub(crate) fn excuse(&mut self, doubtful: &[Key]) {
        for key in doubtful {
            match key {
                Key::EventType => self.event_type.spoil(),
                Key::SchemaVersion => self.schema_version.spoil(),
                Key::AggregateType => self.aggregate_type.spoil(),
                Key::AlsoAs => self.also_as.spoil(),
                Key::Crate => self.sdk.spoil(),
                Key::Unregistered | Key::AggregateId | Key::TenantId => {}
            }
        }
    }
}

/// The `#[outbox(..)]` attributes of one field. A flag holds its own key, for messages.
#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) aggregate_id: Slot<Ident>,
    pub(crate) tenant_id: Slot<Ident>,
    /// Keys of the struct that were given here by mistake.
    pub(crate) doubtful: Vec<Key>,
}

impl FieldAttrs {
    pub(crate) fn parse(attrs: &[Attribute], ctxt: &mut Ctxt) -> Self {
        let mut slots = Self::default();
        let read = Entries::read(attrs, Place::Field, ctxt);
        for entry in &read.entries {
            match entry.key {
                Key::AggregateId => slots.aggregate_id.fill(entry, ctxt, Entry::flag),
                Key::TenantId => slots.tenant_id.fill(entry, ctxt, Entry::flag),
                _ => {}
            }
        }
        slots.doubtful = read.doubtful;
        slots
    }
}

/// The number in `schema_version`; `Negative` and what does not fit are left to the model to refuse.
pub(crate) enum SchemaVersion {
    Literal(LitInt),
    Negative(Expr),
}

/// The path under which the generated code finds the SDK.
pub(crate) struct SdkPath {
    path: TokenStream,
    span: Span,
}

impl SdkPath {
    /// `use <path> as _sdk;`, spanned so that a wrong path is reported at the literal that holds it.
    pub(crate) fn import(&self) -> TokenStream {
        let path = &self.path;
        quote_spanned!(self.span=> use #path as _sdk;)
    }
}

impl Default for SdkPath {
    fn default() -> Self {
        Self { path: quote!(::outbox_sdk), span: Span::call_site() }
    }
}

impl ToTokens for SdkPath {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        self.path.to_tokens(tokens);
    }
}

/// A known key in its right place, with whatever was given as its value.
struct Entry {
    key: Key,
    ident: Ident,
    value: Value,
}

enum Value {
    /// `key`
    Bare,
    /// `key = ..`
    Assigned(Expr),
    /// `key(..)`
    List(TokenStream),
}

impl Entry {
    fn searchable_string(&self, ctxt: &mut Ctxt) -> Option<LitStr> {
        self.string("so that it can be found by searching the code", ctxt)
    }

    fn string(&self, reason: &str, ctxt: &mut Ctxt) -> Option<LitStr> {
        match &self.value {
            Value::Assigned(Expr::Lit(ExprLit { lit: Lit::Str(literal), .. })) => Some(literal.clone()),
            _ => {
                let name = self.key.name();
                self.wrong_kind(format_args!("`{name}` must be a string literal, {reason}"), ctxt);
                None
            }
        }
    }

    fn sdk_path(&self, ctxt: &mut Ctxt) -> Option<SdkPath> {
        let literal = self.string("which holds the path to the SDK", ctxt)?;
        match literal.parse_with(Path::parse_mod_style) {
            Ok(path) => Some(SdkPath { path: path.into_token_stream(), span: literal.span() }),
            Err(_) => {
                let help = format_args!("write it as in `{}`", self.key.example());
                ctxt.error_with_help(&literal, "`crate` does not hold a path", help);
                None
            }
        }
    }

    fn integer(&self, ctxt: &mut Ctxt) -> Option<SchemaVersion> {
        match &self.value {
            Value::Assigned(Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }))
                if literal.suffix().is_empty() =>
            {
                Some(SchemaVersion::Literal(literal.clone()))
            }
            Value::Assigned(expr @ Expr::Unary(ExprUnary { op: UnOp::Neg(_), .. })) => {
                Some(SchemaVersion::Negative(expr.clone()))
            }
            Value::Assigned(Expr::Lit(ExprLit { lit: Lit::Float(literal), .. })) => {
                ctxt.error_with_help(
                    literal,
                    "a schema version is a major: whole numbers only",
                    "additive changes keep the number, breaking ones take the next",
                );
                None
            }
            _ => {
                let example = self.key.example();
                self.wrong_kind(
                    format_args!("`schema_version` must be an integer literal, as in `{example}`"),
                    ctxt,
                );
                None
            }
        }
    }

    /// One type or several.
    fn types(&self, ctxt: &mut Ctxt) -> Option<Vec<Type>> {
        let example = self.key.example();
        let types = match &self.value {
            Value::List(tokens) => {
                Punctuated::<Type, Token![,]>::parse_terminated.parse2(tokens.clone()).ok()
            }
            Value::Bare => {
                self.wrong_kind("", ctxt);
                return None;
            }
            Value::Assigned(_) => None,
        };
        let Some(types) = types else {
            self.wrong_kind(format_args!("`also_as` names types, as in `{example}`"), ctxt);
            return None;
        };
        if types.is_empty() {
            ctxt.error_with_help(
                &self.ident,
                "`also_as` names no type",
                format_args!("write it as in `{example}`"),
            );
            return None;
        }
        Some(types.into_iter().collect())
    }

    fn flag(&self, ctxt: &mut Ctxt) -> Option<Ident> {
        if matches!(self.value, Value::Bare) {
            return Some(self.ident.clone());
        }
        let (name, place) = (self.key.name(), self.key.place().name());
        ctxt.error_with_help(
            self.at(),
            format_args!("`{name}` marks a {place} and takes no value"),
            format_args!("write `#[outbox({name})]`"),
        );
        None
    }

    fn wrong_kind(&self, message: impl std::fmt::Display, ctxt: &mut Ctxt) {
        match &self.value {
            Value::Assigned(_) => ctxt.error(self.at(), message),
            Value::List(_) if self.key == Key::AlsoAs => ctxt.error(self.at(), message),
            Value::Bare | Value::List(_) => {
                let name = self.key.name();
                ctxt.error_with_help(
                    self.at(),
                    format_args!("`{name}` needs a value"),
                    format_args!("write it as in `{}`", self.key.example()),
                );
            }
        }
    }

    /// The tokens that a message about the value underlines.
    fn at(&self) -> &dyn ToTokens {
        match &self.value {
            Value::Assigned(expr) => expr,
            Value::List(tokens) if !tokens.is_empty() => tokens,
            Value::Bare | Value::List(_) => &self.ident,
        }
    }
}

/// Everything that `#[outbox(..)]` attributes of one item say; unknown and misplaced keys are reported.
struct Entries {
    entries: Vec<Entry>,
    /// Keys that may have been meant by a mistake which is reported already, so they do not count as missing.
    doubtful: Vec<Key>,
}

impl Entries {
    fn read(attrs: &[Attribute], place: Place, ctxt: &mut Ctxt) -> Self {
        let mut read = Self { entries: Vec::new(), doubtful: Vec::new() };
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("outbox")) {
            let result = attr.meta.require_list().and_then(|list| {
                list.parse_args_with(|input: ParseStream<'_>| {
                    while !input.is_empty() {
                        read.one(input, place, ctxt)?;
                        if !input.is_empty() {
                            input.parse::<Token![,]>()?;
                        }
                    }
                    Ok(())
                })
            });
            if let Err(error) = result {
                ctxt.syntax_error(error);
                read.doubtful.extend(place.keys());
            }
        }
        read
    }

    fn one(&mut self, input: ParseStream<'_>, place: Place, ctxt: &mut Ctxt) -> syn::Result<()> {
        let ident = input.call(Ident::parse_any)?;
        let Some(key) = Key::named(&ident.unraw().to_string()) else {
            self.unknown(&ident, place, ctxt);
            value(input, None)?;
            return Ok(());
        };
        let entry = Entry { key, value: value(input, Some(key))?, ident };
        if key.place() == place {
            self.entries.push(entry);
        } else {
            self.doubtful.push(key);
            misplaced(&entry, place, ctxt);
        }
        Ok(())
    }

    fn unknown(&mut self, ident: &Ident, place: Place, ctxt: &mut Ctxt) {
        let message = format!("unknown `outbox` key `{ident}`");
        match suggest::nearest(&ident.to_string(), Key::ALL.map(Key::name)) {
            Some(name) => {
                ctxt.error_with_help(ident, message, format_args!("did you mean `{name}`?"));
                self.doubtful.extend(Key::named(name));
            }
            None => {
                let keys: Vec<_> = place.keys().map(|key| format!("`{}`", key.name())).collect();
                let (place, keys) = (place.name(), keys.join(", "));
                ctxt.error_with_help(ident, message, format_args!("the keys of a {place} are {keys}"));
            }
        }
    }
}

fn misplaced(entry: &Entry, place: Place, ctxt: &mut Ctxt) {
    let name = entry.key.name();
    if let Value::Assigned(Expr::Lit(ExprLit { lit: Lit::Str(field), .. })) = &entry.value
        && place == Place::Struct
    {
        ctxt.error_with_help(
            field,
            format_args!("`{name}` marks a field and takes no value"),
            format_args!("put `#[outbox({name})]` on the field `{}`", field.value()),
        );
    } else {
        let home = entry.key.place().name();
        ctxt.error(&entry.ident, format_args!("`{name}` belongs on a {home}, not here"));
    }
}

/// What follows a key. A known key that needs a value and is followed by neither `=` nor the end is a syntax error.
fn value(input: ParseStream<'_>, key: Option<Key>) -> syn::Result<Value> {
    if input.peek(token::Paren) {
        let content;
        parenthesized!(content in input);
        return Ok(Value::List(content.parse()?));
    }
    let may_be_bare = key.is_none_or(Key::is_flag) || input.is_empty() || input.peek(Token![,]);
    if may_be_bare && !input.peek(Token![=]) {
        return Ok(Value::Bare);
    }
    input.parse::<Token![=]>()?;
    if key == Some(Key::AlsoAs) && !input.peek(Lit) {
        return Ok(Value::List(input.parse::<Type>()?.into_token_stream()));
    }
    if let Some((_, rest)) = input.cursor().literal()
        && (rest.eof() || rest.punct().is_some_and(|(punct, _)| punct.as_char() == ','))
    {
        // What is written nearly always; for one literal the parser of expressions has a long way.
        return Ok(Value::Assigned(Expr::Lit(ExprLit { attrs: Vec::new(), lit: input.parse()? })));
    }
    Ok(Value::Assigned(ungrouped(input.parse()?)))
}

/// A literal that a `macro_rules!` macro passes on arrives inside an invisible group.
fn ungrouped(mut expr: Expr) -> Expr {
    while let Expr::Group(group) = expr {
        expr = *group.expr;
    }
    expr
}

#[cfg(test)]
mod tests;
