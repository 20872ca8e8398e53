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
use crate::suggest;

/// A key of `#[outbox(..)]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    EventType,
    SchemaVersion,
    AggregateType,
    AlsoAs,
    Crate,
    Unregistered,
    AggregateId,
    TenantId,
}

/// What the attribute stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Struct,
    Field,
}

impl Key {
    const ALL: [Self; 8] = [
        Self::EventType,
        Self::SchemaVersion,
        Self::AggregateType,
        Self::AlsoAs,
        Self::Crate,
        Self::Unregistered,
        Self::AggregateId,
        Self::TenantId,
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::EventType => "event_type",
            Self::SchemaVersion => "schema_version",
            Self::AggregateType => "aggregate_type",
            Self::AlsoAs => "also_as",
            Self::Crate => "crate",
            Self::Unregistered => "unregistered",
            Self::AggregateId => "aggregate_id",
            Self::TenantId => "tenant_id",
        }
    }

    fn place(self) -> Place {
        match self {
            Self::AggregateId | Self::TenantId => Place::Field,
            _ => Place::Struct,
        }
    }

    /// A flag takes no value.
    fn is_flag(self) -> bool {
        matches!(self, Self::Unregistered | Self::AggregateId | Self::TenantId)
    }

    /// The key as one writes it.
    fn example(self) -> &'static str {
        match self {
            Self::EventType => "event_type = \"customer.updated\"",
            Self::SchemaVersion => "schema_version = 2",
            Self::AggregateType => "aggregate_type = \"customer\"",
            Self::AlsoAs => "also_as = CustomerUpdatedV1",
            Self::Crate => "crate = \"::outbox_sdk\"",
            Self::Unregistered | Self::AggregateId | Self::TenantId => self.name(),
        }
    }
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Field => "field",
        }
    }

    fn keys(self) -> impl Iterator<Item = Key> {
        Key::ALL.into_iter().filter(move |key| key.place() == self)
    }
}

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
mod tests {
    use quote::ToTokens;
    use syn::{Attribute, LitStr, parse_quote};

    use super::{FieldAttrs, SchemaVersion, Slot, StructAttrs};
    use crate::ctxt::Ctxt;

    fn on_struct(attrs: &[Attribute]) -> (StructAttrs, Vec<String>) {
        let mut ctxt = Ctxt::default();
        let attrs = StructAttrs::parse(attrs, &mut ctxt);
        (attrs, ctxt.messages())
    }

    fn on_field(attrs: &[Attribute]) -> (FieldAttrs, Vec<String>) {
        let mut ctxt = Ctxt::default();
        let attrs = FieldAttrs::parse(attrs, &mut ctxt);
        (attrs, ctxt.messages())
    }

    fn text(slot: &Slot<LitStr>) -> String {
        match slot {
            Slot::Absent => "absent".to_owned(),
            Slot::Invalid => "invalid".to_owned(),
            Slot::Given(literal) => literal.value(),
        }
    }

    #[test]
    fn keys_may_be_spread_over_attributes() {
        let (attrs, messages) = on_struct(&[
            parse_quote!(#[serde(rename_all = "camelCase")]),
            parse_quote!(#[outbox(event_type = "a.updated", schema_version = 12,)]),
            parse_quote!(#[outbox(crate = "crate::sdk", aggregate_type = "a", unregistered)]),
            parse_quote!(#[outbox()]),
        ]);
        assert!(messages.is_empty(), "{messages:?}");
        assert_eq!(text(&attrs.event_type), "a.updated");
        assert_eq!(text(&attrs.aggregate_type), "a");
        assert!(matches!(attrs.unregistered, Slot::Given(_)));
        let Slot::Given(SchemaVersion::Literal(version)) = attrs.schema_version else { panic!("no version") };
        assert_eq!(version.base10_digits(), "12");
        let Slot::Given(sdk) = attrs.sdk else { panic!("no path") };
        assert_eq!(sdk.to_token_stream().to_string(), "crate :: sdk");
        assert_eq!(sdk.import().to_string(), "use crate :: sdk as _sdk ;");
    }

    #[test]
    fn a_wrong_kind_is_reported_alone_and_parsing_goes_on() {
        let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(
            event_type = NAME, schema_version = "2", aggregate_type("a"), crate, unregistered = true
        )])]);
        assert_eq!(
            messages,
            [
                "`event_type` must be a string literal, so that it can be found by searching the code",
                "`schema_version` must be an integer literal, as in `schema_version = 2`",
                "`aggregate_type` needs a value\nhelp: write it as in `aggregate_type = \"customer\"`",
                "`crate` needs a value\nhelp: write it as in `crate = \"::outbox_sdk\"`",
                "`unregistered` marks a struct and takes no value\nhelp: write `#[outbox(unregistered)]`",
            ]
        );
        assert_eq!(text(&attrs.event_type), "invalid");
        assert_eq!(text(&attrs.aggregate_type), "invalid");
        assert!(matches!(attrs.schema_version, Slot::Invalid));
        assert!(matches!(attrs.sdk, Slot::Invalid));
    }

    #[test]
    fn one_type_or_several() {
        let types = |attr: Attribute| {
            let (attrs, messages) = on_struct(&[attr]);
            assert!(messages.is_empty(), "{messages:?}");
            let Slot::Given(types) = attrs.also_as else { panic!("no types") };
            types.iter().map(|ty| ty.to_token_stream().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            types(parse_quote!(#[outbox(also_as = v1::Updated, aggregate_type = "a")])),
            ["v1 :: Updated"]
        );
        assert_eq!(types(parse_quote!(#[outbox(also_as(V2<'a>, V1),)])), ["V2 < 'a >", "V1"]);
        for (attr, message) in [
            (
                parse_quote!(#[outbox(also_as = "V1")]),
                "`also_as` names types, as in `also_as = CustomerUpdatedV1`",
            ),
            (
                parse_quote!(#[outbox(also_as("V1"))]),
                "`also_as` names types, as in `also_as = CustomerUpdatedV1`",
            ),
            (
                parse_quote!(#[outbox(also_as)]),
                "`also_as` needs a value\nhelp: write it as in `also_as = CustomerUpdatedV1`",
            ),
            (
                parse_quote!(#[outbox(also_as())]),
                "`also_as` names no type\nhelp: write it as in `also_as = CustomerUpdatedV1`",
            ),
            (parse_quote!(#[outbox(also_as = V1, also_as = V2)]), "`also_as` is given twice"),
        ] {
            let (_, messages) = on_struct(&[attr]);
            assert_eq!(messages, [message]);
        }
    }

    #[test]
    fn version_literals() {
        for (tokens, message) in [
            ("1.2", "a schema version is a major: whole numbers only"),
            ("2u32", "`schema_version` must be an integer literal"),
            ("1 + 1", "`schema_version` must be an integer literal"),
            ("(2)", "`schema_version` must be an integer literal"),
            ("true", "`schema_version` must be an integer literal"),
        ] {
            let value: syn::Expr = syn::parse_str(tokens).unwrap();
            let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(schema_version = #value)])]);
            assert_eq!(messages.len(), 1, "{tokens}");
            assert!(messages[0].starts_with(message), "{tokens}: {messages:?}");
            assert!(matches!(attrs.schema_version, Slot::Invalid), "{tokens}");
        }
        let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(schema_version = -1)])]);
        assert!(messages.is_empty());
        assert!(matches!(attrs.schema_version, Slot::Given(SchemaVersion::Negative(_))));
    }

    #[test]
    fn a_syntax_error_ends_the_attribute_and_nothing_is_called_missing() {
        let broken: [(Attribute, &str); 4] = [
            (parse_quote!(#[outbox]), "expected attribute arguments in parentheses: `outbox(...)`"),
            (parse_quote!(#[outbox(event_type: "a.updated")]), "expected `=`"),
            (parse_quote!(#[outbox(event_type = "a.updated" schema_version = 2)]), "expected `,`"),
            (parse_quote!(#[outbox(unregistered false)]), "expected `,`"),
        ];
        for (attr, message) in broken {
            let (attrs, messages) = on_struct(&[attr]);
            assert_eq!(messages, [message]);
            assert!(!matches!(attrs.aggregate_type, Slot::Absent), "{message}");
            assert!(!matches!(attrs.event_type, Slot::Absent), "{message}");
        }
    }

    #[test]
    fn an_unknown_key_is_named_and_what_it_meant_is_not_missing() {
        let (attrs, messages) =
            on_struct(&[parse_quote!(#[outbox(event_typ = "a.updated", name(x, y), other)])]);
        let all = "help: the keys of a struct are `event_type`, `schema_version`, `aggregate_type`, `also_as`, `crate`, `unregistered`";
        assert_eq!(
            messages,
            [
                "unknown `outbox` key `event_typ`\nhelp: did you mean `event_type`?".to_owned(),
                format!("unknown `outbox` key `name`\n{all}"),
                format!("unknown `outbox` key `other`\n{all}"),
            ]
        );
        assert_eq!(text(&attrs.event_type), "invalid");
        assert_eq!(text(&attrs.aggregate_type), "absent");
    }

    #[test]
    fn the_first_of_two_values_stays() {
        let (attrs, messages) = on_struct(&[
            parse_quote!(#[outbox(event_type = "a.updated")]),
            parse_quote!(#[outbox(event_type = 3)]),
        ]);
        assert_eq!(messages, ["`event_type` is given twice"]);
        assert_eq!(text(&attrs.event_type), "a.updated");
    }

    #[test]
    fn keys_in_the_wrong_place() {
        let (_, messages) = on_struct(&[parse_quote!(#[outbox(aggregate_id, tenant_id = "tenant")])]);
        assert_eq!(
            messages,
            [
                "`aggregate_id` belongs on a field, not here",
                "`tenant_id` marks a field and takes no value\nhelp: put `#[outbox(tenant_id)]` on the field `tenant`",
            ]
        );
        let (attrs, messages) = on_field(&[parse_quote!(#[outbox(aggregate_type = "a", aggregate_id)])]);
        assert_eq!(messages, ["`aggregate_type` belongs on a struct, not here"]);
        assert!(matches!(attrs.aggregate_id, Slot::Given(_)));
    }

    #[test]
    fn flags_take_no_value() {
        for attr in [
            parse_quote!(#[outbox(aggregate_id = "id")]),
            parse_quote!(#[outbox(aggregate_id = true)]),
            parse_quote!(#[outbox(aggregate_id(id))]),
        ] {
            let (attrs, messages) = on_field(&[attr]);
            assert_eq!(
                messages,
                ["`aggregate_id` marks a field and takes no value\nhelp: write `#[outbox(aggregate_id)]`"]
            );
            assert!(matches!(attrs.aggregate_id, Slot::Invalid));
        }
        let (_, messages) = on_field(&[parse_quote!(#[outbox(tenant_id, tenant_id)])]);
        assert_eq!(messages, ["`tenant_id` is given twice"]);
    }

    #[test]
    fn the_sdk_path_must_be_a_path() {
        for path in ["", "a b", "::", "1", "a::<T>"] {
            let (attrs, messages) = on_struct(&[parse_quote!(#[outbox(crate = #path)])]);
            assert_eq!(
                messages,
                ["`crate` does not hold a path\nhelp: write it as in `crate = \"::outbox_sdk\"`"],
                "{path}"
            );
            assert!(matches!(attrs.sdk, Slot::Invalid));
        }
    }
}
