//! Types to Rust's text, as rustfmt writes it under its default settings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::default::{Expression, expression};
use super::error::SchemaWithoutType as Problem;
use super::model::{
    Body, Content, Docs, Enum, Field, Flattened, Int, Ip, Item, ItemId, Key, Model, Moment, PinModel,
    Presence, Struct, Tagging, Texts, Type, Types, Variant,
};
use super::names::{Scope, raw, snake};
use super::{CodegenError, Decimal, Options, buffered, dispatch, header};

/// What rustfmt breaks lines at.
const WIDTH: usize = 100;

/// What is narrower rustfmt breaks nowhere; between this and [`WIDTH`] it depends.
pub(crate) const SAFE_WIDTH: usize = 96;

/// The widest body of a variant that rustfmt leaves on one line.
const VARIANT_WIDTH: usize = 35;

pub(crate) fn file(model: &Model, options: &Options) -> Result<String, Vec<CodegenError>> {
    let mut text = header::header(model, options);
    text.push_str(
        "\n#![allow(dead_code, deprecated, missing_docs, unreachable_pub)]\n#![allow(unused_qualifications, clippy::all, \
         clippy::pedantic, rustdoc::all)]\n\n",
    );
    text.push_str(&dispatch::rust(model, options));
    let mut errors = Vec::new();
    for pin in &model.pins {
        let _ = write!(text, "\n/// {} v{}.\npub mod {} {{\n", pin.event_type, pin.major, pin.name);
        let mut module = Module::of(pin, options);
        let items: Vec<String> = (0..pin.types.0.len()).map(|id| module.item(id)).collect();
        text.push_str(&indented(&items.join("\n")));
        text.push_str("}\n");
        errors.extend(module.problems.into_iter().map(|schema| CodegenError::Schema {
            event_type: pin.event_type.to_string(),
            major: pin.major,
            pointer: format!("{schema}/default"),
            schema,
            problem: Problem::Default,
        }));
    }
    if errors.is_empty() { Ok(text) } else { Err(errors) }
}

/// One level deeper; items whose lines become too long, or that hold an expression of any shape, keep their form.
fn indented(text: &str) -> String {
    let mut indented = String::new();
    for line in text.lines() {
        if !line.is_empty() {
            indented.push_str("    ");
            indented.push_str(line);
        }
        indented.push('\n');
    }
    indented
}

/// The types of one pin.
struct Module<'m> {
    types: &'m Types,
    options: &'m Options,
    in_sets: BTreeSet<ItemId>,
    /// Names of functions that give defaults.
    functions: Scope,
    /// Pointers of defaults that cannot be written.
    problems: Vec<String>,
}

impl<'m> Module<'m> {
    fn of(pin: &'m PinModel, options: &'m Options) -> Self {
        let (types, in_sets) = (&pin.types, pin.types.in_sets());
        Self { types, options, in_sets, functions: Scope::default(), problems: Vec::new() }
    }

    fn item(&mut self, id: ItemId) -> String {
        let types = self.types;
        let item = types.get(id);
        let boxed = types.boxed(id);
        let mut after = String::new();
        let body = match &item.body {
            Body::Struct(body) => {
                let head = format!("{}pub struct {} ", self.derive(id, &[]), item.name);
                head + &self.structure(body, &boxed, &item.name, "pub ", &mut after)
            }
            Body::Newtype(ty) => {
                format!("{}pub struct {}(pub {});\n", self.derive(id, &[]), item.name, self.ty(ty, &boxed))
            }
            Body::Unit => format!("{}pub struct {};\n", self.derive(id, &["Copy", "Eq"]), item.name),
            Body::Texts(texts) => self.texts(id, item, texts),
            Body::Numbers(numbers) => {
                numbers_impl(item, numbers, self.options.serialize, &mut after);
                let into = if self.options.serialize { "#[serde(into = \"i64\")]\n" } else { "" };
                let derive = self.derive(id, &["Copy", "Eq"]);
                let mut text =
                    format!("{derive}#[serde(try_from = \"i64\")]\n{into}pub enum {} {{\n", item.name);
                numbers.iter().for_each(|(_, ident)| text.push_str(&format!("    {ident},\n")));
                text + "}\n"
            }
            Body::Enum(body) => self.enumeration(id, item, body, &boxed, &mut after),
        };
        kept(&doc_lines(&item.docs, 0), &body, 4) + &after
    }

    fn derive(&self, id: ItemId, more: &[&str]) -> String {
        let mut derives = vec!["Debug", "Clone", "PartialEq"];
        derives.extend(more);
        if self.in_sets.contains(&id) {
            derives.extend(["Eq", "PartialOrd", "Ord"]);
        }
        if self.options.serialize {
            derives.push("serde::Serialize");
        }
        derives.push("serde::Deserialize");
        let mut seen = BTreeSet::new();
        derives.retain(|name| seen.insert(*name));
        format!("#[derive({})]\n", derives.join(", "))
    }

    fn texts(&self, id: ItemId, item: &Item, texts: &Texts) -> String {
        let more: &[&str] = if texts.open { &["Eq", "Hash"] } else { &["Copy", "Eq", "Hash"] };
        let mut text = format!("{}pub enum {} {{\n", self.derive(id, more), item.name);
        for value in &texts.values {
            text.push_str(&doc_lines(&value.docs, 4));
            if value.ident != value.value {
                let _ = writeln!(text, "    #[serde(rename = {:?})]", value.value);
            }
            let _ = writeln!(text, "    {},", value.ident);
        }
        if texts.open {
            text.push_str(
                "    /// A value that the schema does not know.\n    #[serde(untagged)]\n    Unknown(String),\n",
            );
        }
        text + "}\n"
    }

    fn enumeration(
        &mut self,
        id: ItemId,
        item: &Item,
        body: &Enum,
        boxed: &BTreeSet<ItemId>,
        after: &mut String,
    ) -> String {
        let mut text = self.derive(id, &[]);
        let by_hand = body.open && body.tagging != Tagging::Untagged;
        if by_hand {
            text.push_str("#[serde(remote = \"Self\")]\n");
            open_impl(item, body, self.options.serialize, after);
        }
        match &body.tagging {
            Tagging::External => {}
            Tagging::Internal { tag } => text.push_str(&format!("#[serde(tag = {tag:?})]\n")),
            Tagging::Adjacent { tag, content } => {
                text.push_str(&format!("#[serde(tag = {tag:?})]\n#[serde(content = {content:?})]\n"));
            }
            Tagging::Untagged => text.push_str("#[serde(untagged)]\n"),
        }
        let _ = writeln!(text, "pub enum {} {{", item.name);
        let mut variants = Vec::new();
        for variant in &body.variants {
            variants.push(self.variant(variant, item, boxed, body.tagging == Tagging::Untagged, after));
        }
        // Where some variants have several lines and others one, rustfmt gives every member a line of its own.
        let several = |text: &str| text.lines().count() > 1;
        let mut lines: BTreeSet<bool> = variants.iter().map(|(_, short)| several(short)).collect();
        lines.extend(body.open.then_some(true));
        for (long, short) in &variants {
            text.push_str(if lines.len() > 1 { long } else { short });
        }
        if body.open {
            text.push_str("    /// A variant that the schema does not know: the whole value.\n");
            if by_hand {
                text.push_str("    #[serde(skip)]\n");
            }
            text.push_str("    Unknown(serde_json::Value),\n");
        }
        text + "}\n"
    }

    /// The variant with each member on a line of its own, and with its members on one line, if they fit there.
    fn variant(
        &mut self,
        variant: &Variant,
        item: &Item,
        boxed: &BTreeSet<ItemId>,
        untagged: bool,
        after: &mut String,
    ) -> (String, String) {
        let mut text = doc_lines(&variant.docs, 4);
        if !untagged && variant.ident != variant.tag {
            let _ = writeln!(text, "    #[serde(rename = {:?})]", variant.tag);
        }
        let ident = &variant.ident;
        let mut short = None;
        match &variant.content {
            Content::Unit => {
                let _ = writeln!(text, "    {ident},");
            }
            Content::Newtype(ty) => {
                let _ = writeln!(text, "    {ident}({}),", self.ty(ty, boxed));
            }
            Content::Tuple(types) => {
                let types: Vec<_> = types.iter().map(|ty| self.ty(ty, boxed)).collect();
                let _ = writeln!(text, "    {ident}({}),", types.join(", "));
            }
            Content::Struct(body) => {
                let name = format!("{}{ident}", item.name);
                let members = self.structure(body, boxed, &name, "", after);
                if let Some(members) = on_one_line(&members) {
                    short = Some(format!("{text}    {ident} {members},\n"));
                }
                let _ = writeln!(text, "    {ident} {},", indented(&members).trim());
            }
        }
        let short = short.unwrap_or_else(|| text.clone());
        (text, short)
    }

    /// `{`, the members, `}`.
    fn structure(
        &mut self,
        body: &Struct,
        boxed: &BTreeSet<ItemId>,
        owner: &str,
        visibility: &str,
        after: &mut String,
    ) -> String {
        if body.fields.is_empty() && body.flattened.is_empty() {
            return "{}\n".to_owned();
        }
        let mut text = "{\n".to_owned();
        for field in &body.fields {
            text.push_str(&self.field(field, boxed, owner, visibility, after));
        }
        for Flattened { ident, ty } in &body.flattened {
            text.push_str("    #[serde(flatten)]\n");
            text.push_str(&member_line(visibility, &raw(ident), &self.ty(ty, boxed)));
        }
        text + "}\n"
    }

    fn field(
        &mut self,
        field: &Field,
        boxed: &BTreeSet<ItemId>,
        owner: &str,
        visibility: &str,
        after: &mut String,
    ) -> String {
        let mut text = doc_lines(&field.docs, 4);
        let mut attribute = |argument: &str| {
            let _ = writeln!(text, "    #[serde({argument})]");
        };
        let ident = raw(&field.ident);
        if ident.trim_start_matches("r#") != field.member {
            attribute(&format!("rename = {:?}", field.member));
        }
        let mut ty = self.ty(&field.ty, boxed);
        let keys = buffered::has_integer_keys(&field.ty);
        match &field.presence {
            Presence::Required if keys => {
                attribute("deserialize_with = \"outbox_sdk::generated::integer_keys\"");
            }
            Presence::Required => {}
            Presence::Optional => {
                ty = format!("Option<{ty}>");
                if keys {
                    attribute("default");
                    attribute("deserialize_with = \"outbox_sdk::generated::optional_integer_keys\"");
                }
                if self.options.serialize {
                    attribute("skip_serializing_if = \"Option::is_none\"");
                }
            }
            Presence::Default(value) => {
                if keys {
                    attribute("deserialize_with = \"outbox_sdk::generated::integer_keys\"");
                }
                let is_boxed = matches!(&field.ty, Type::Named(id) if boxed.contains(id));
                let time = self.options.time;
                match expression(self.types, time, &field.ty, value, is_boxed) {
                    Some(Expression::Trivial) => attribute("default"),
                    Some(Expression::Simple(value)) => {
                        let name = self.functions.take(default_name(owner, &field.ident));
                        attribute(&format!("default = {name:?}"));
                        let function = format!("fn {name}() -> {ty} {{\n    {value}\n}}\n");
                        after.push('\n');
                        after.push_str(&kept("", &function, 4));
                    }
                    Some(Expression::Long(value)) => {
                        let name = self.functions.take(default_name(owner, &field.ident));
                        attribute(&format!("default = {name:?}"));
                        let _ =
                            write!(after, "\n#[rustfmt::skip]\nfn {name}() -> {ty} {{\n    {value}\n}}\n");
                    }
                    None => self.problems.push(field.pointer.clone()),
                }
            }
        }
        text + &member_line(visibility, &ident, &ty)
    }

    /// The type's text; what lies in its own cycle is in a `Box`.
    fn ty(&self, ty: &Type, boxed: &BTreeSet<ItemId>) -> String {
        let none = BTreeSet::new();
        let chrono = self.options.time == super::Time::Chrono;
        match ty {
            Type::Unit => "()".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Int(int) => int_name(*int).to_owned(),
            Type::Float => "f64".to_owned(),
            Type::String => "String".to_owned(),
            Type::Char => "char".to_owned(),
            Type::Uuid => "uuid::Uuid".to_owned(),
            Type::Time(time) if chrono => time_name(*time).to_owned(),
            Type::Time(_) => "String".to_owned(),
            Type::Decimal if self.options.decimal == Decimal::RustDecimal => {
                "rust_decimal::Decimal".to_owned()
            }
            Type::Decimal => "String".to_owned(),
            Type::Ip(Ip::Any) => "std::net::IpAddr".to_owned(),
            Type::Ip(Ip::V4) => "std::net::Ipv4Addr".to_owned(),
            Type::Ip(Ip::V6) => "std::net::Ipv6Addr".to_owned(),
            Type::Any => "serde_json::Value".to_owned(),
            Type::Option(inner) => format!("Option<{}>", self.ty(inner, boxed)),
            Type::List(element) => format!("Vec<{}>", self.ty(element, &none)),
            Type::Set(element) if self.types.is_ordered(element) => {
                format!("std::collections::BTreeSet<{}>", self.ty(element, &none))
            }
            Type::Set(element) => format!("Vec<{}>", self.ty(element, &none)),
            Type::Array(element, n) => format!("[{}; {n}]", self.ty(element, boxed)),
            Type::Tuple(types) => {
                let types: Vec<_> = types.iter().map(|ty| self.ty(ty, boxed)).collect();
                let comma = if types.len() == 1 { "," } else { "" };
                format!("({}{comma})", types.join(", "))
            }
            Type::Map(key, value) => {
                let key = match key {
                    Key::Text => "String",
                    Key::Signed => "i64",
                    Key::Unsigned => "u64",
                };
                format!("std::collections::BTreeMap<{key}, {}>", self.ty(value, &none))
            }
            Type::Named(id) if boxed.contains(id) => format!("Box<{}>", self.types.get(*id).name),
            Type::Named(id) => self.types.get(*id).name.clone(),
            Type::Given(given) => given.clone(),
        }
    }
}

/// An item behind its docs; one with a line that rustfmt would break in a way of its own is kept from it.
fn kept(docs: &str, item: &str, indent: usize) -> String {
    let comment = |line: &str| line.trim_start().starts_with("///");
    let long = |line: &str| !comment(line) && line.chars().count() + indent > SAFE_WIDTH;
    let skip = if item.lines().any(long) { "#[rustfmt::skip]\n" } else { "" };
    format!("{docs}{skip}{item}")
}

/// A member; a type that does not fit goes to a line of its own. One level deeper than it will be is right for structs and
/// safe for variants.
fn member_line(visibility: &str, ident: &str, ty: &str) -> String {
    let line = format!("    {visibility}{ident}: {ty},");
    let indent = if visibility.is_empty() { 8 } else { 4 };
    if line.chars().count() + indent <= WIDTH {
        return line + "\n";
    }
    format!("    {visibility}{ident}:\n        {ty},\n")
}

/// The members of a variant, if they are as short as rustfmt wants them for one line.
fn on_one_line(members: &str) -> Option<String> {
    let inner = members.strip_prefix("{\n")?.strip_suffix("}\n")?;
    let lines: Vec<&str> = inner.lines().map(str::trim).collect();
    let joined = lines.join(" ");
    let joined = joined.trim_end_matches(',');
    let plain = lines.iter().all(|line| !line.starts_with(['#', '/']) && line.ends_with(','));
    (plain && joined.len() <= VARIANT_WIDTH).then(|| format!("{{ {joined} }}"))
}

fn default_name(owner: &str, field: &str) -> String {
    format!("default_{}_{field}", snake(owner))
}

/// Doc comments of a description. Nothing in it is run as a test of the consumer's.
pub(crate) fn doc_lines(docs: &Docs, indent: usize) -> String {
    let mut text = String::new();
    let mut fenced = false;
    // rustc takes neither a carriage return in a comment nor what makes text run the other way.
    let direction = ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    let taken = |c: &char| !direction.iter().any(|range| range.contains(c));
    let description = docs.description.as_deref().unwrap_or_default().replace('\r', " ");
    let description: String = description.chars().filter(taken).collect();
    for line in description.trim().lines() {
        let trimmed = line.trim_end();
        let inner = trimmed.trim_start();
        let fence = inner.starts_with("```") || inner.starts_with("~~~");
        let line = if fence && !fenced {
            format!("{}text", &inner[..3])
        } else if fenced {
            trimmed.to_owned()
        } else {
            // Four spaces would make it code.
            let spaces = (trimmed.len() - inner.len()).min(3);
            format!("{}{inner}", " ".repeat(spaces))
        };
        fenced ^= fence;
        let space = if line.is_empty() { "" } else { " " };
        let _ = writeln!(text, "{:indent$}///{space}{line}", "");
    }
    if fenced {
        let _ = writeln!(text, "{:indent$}/// ```", "");
    }
    if docs.deprecated {
        let _ = writeln!(text, "{:indent$}#[deprecated]", "");
    }
    text
}

fn int_name(int: Int) -> &'static str {
    match int {
        Int::I8 => "i8",
        Int::I16 => "i16",
        Int::I32 => "i32",
        Int::I64 => "i64",
        Int::I128 => "i128",
        Int::U8 => "u8",
        Int::U16 => "u16",
        Int::U32 => "u32",
        Int::U64 => "u64",
        Int::U128 => "u128",
    }
}

fn time_name(time: Moment) -> &'static str {
    match time {
        Moment::Instant => "chrono::DateTime<chrono::FixedOffset>",
        Moment::Date => "chrono::NaiveDate",
        Moment::DateTime => "chrono::NaiveDateTime",
        Moment::Time => "chrono::NaiveTime",
    }
}

/// Integers to variants and back.
fn numbers_impl(item: &Item, numbers: &[(i64, String)], serialize: bool, after: &mut String) {
    let name = &item.name;
    let _ = write!(
        after,
        "\nimpl TryFrom<i64> for {name} {{\n    type Error = &'static str;\n\n    fn try_from(value: i64) -> Result<Self, \
         Self::Error> {{\n        match value {{\n"
    );
    for (number, ident) in numbers {
        let _ = writeln!(after, "            {number} => Ok(Self::{ident}),");
    }
    after
        .push_str("            _ => Err(\"a number that the schema does not know\"),\n        }\n    }\n}\n");
    if serialize {
        let _ = write!(
            after,
            "\nimpl From<{name}> for i64 {{\n    fn from(value: {name}) -> Self {{\n        match value {{\n"
        );
        for (number, ident) in numbers {
            let _ = writeln!(after, "            {name}::{ident} => {number},");
        }
        after.push_str("        }\n    }\n}\n");
    }
}

/// Reading (and writing) of an enum that may grow: a known tag must have its content, an unknown one may have any.
fn open_impl(item: &Item, body: &Enum, serialize: bool, after: &mut String) {
    let name = &item.name;
    let (find, missing) = match &body.tagging {
        Tagging::Internal { tag } | Tagging::Adjacent { tag, .. } => {
            (format!("outbox_sdk::generated::tag(&value, {tag:?})"), "no tag")
        }
        Tagging::External | Tagging::Untagged => {
            ("outbox_sdk::generated::key(&value)".to_owned(), "no variant")
        }
    };
    let mut text = format!(
        "impl<'de> serde::Deserialize<'de> for {name} {{\n    fn deserialize<D>(deserializer: D) -> Result<Self, D::Error>\n    \
         where\n        D: serde::Deserializer<'de>,\n    {{\n        let value = \
         serde_json::Value::deserialize(deserializer)?;\n        let known = match {find} {{\n"
    );
    for variant in &body.variants {
        let _ = writeln!(text, "            Some({:?}) => true,", variant.tag);
    }
    let _ = write!(
        text,
        "            Some(_) => false,\n            None => return Err(serde::de::Error::custom({missing:?})),\n        }};\n        \
         if known {{\n            Self::deserialize(value).map_err(serde::de::Error::custom)\n        }} else {{\n            \
         Ok(Self::Unknown(value))\n        }}\n    }}\n}}\n"
    );
    after.push('\n');
    after.push_str(&kept("", &text, 4));
    if serialize {
        let _ = write!(
            after,
            "\nimpl serde::Serialize for {name} {{\n    fn serialize<S>(&self, serializer: S) -> Result<S::Ok, S::Error>\n    \
             where\n        S: serde::Serializer,\n    {{\n        match self {{\n            Self::Unknown(value) => \
             serde::Serialize::serialize(value, serializer),\n            known => Self::serialize(known, serializer),\n        \
             }}\n    }}\n}}\n"
        );
    }
}
