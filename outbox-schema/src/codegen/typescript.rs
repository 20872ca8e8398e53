//! Types to TypeScript's text, for receivers of webhooks that are not Rust.
//!
//! The payloads are what `JSON.parse` gives: the relay has validated them. So types only describe, and whole numbers
//! beyond 2^53 are not exact.

use std::fmt::Write as _;

use serde_json::Value;

use super::Options;
use super::header;
use super::model::{
    Body, Content, Docs, Enum, Field, Item, Model, PinModel, Presence, Struct, Tagging, Texts, Type, Types,
    Variant,
};
use super::names::pascal;

const TEMPLATE: &str = include_str!("templates/receive.ts.txt");

pub(crate) fn file(model: &Model, options: &Options) -> String {
    let of_each = |text: &dyn Fn(&PinModel) -> String| -> String { model.pins.iter().map(text).collect() };
    // The consumer's name is lower case, so no word of the template is in it; what schemas say comes last.
    let body = TEMPLATE
        .replace("NAME", &pascal(&model.consumer))
        .replace("\"CONSUMER\"", &quoted(&model.consumer))
        .replace("`CONSUMER`", &format!("`{}`", model.consumer))
        .replace("\nPINS]", &format!("\n{}]", of_each(&pin)))
        .replace("\nARMS", &format!("\n{}", of_each(&arm)))
        .replace("\nMETHODS", &format!("\n{}", of_each(&method)));
    let mut text = format!("{}/* eslint-disable */\n\n{body}", header::header(model, options));
    for pin in &model.pins {
        let _ = write!(
            text,
            "\n/** {} v{}. */\nexport declare namespace {} {{\n",
            pin.event_type, pin.major, pin.name
        );
        let items: Vec<String> =
            pin.types.0.iter().map(|item| Module { types: &pin.types }.item(item)).collect();
        for line in items.join("\n").lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            let _ = writeln!(text, "{indent}{line}");
        }
        text.push_str("}\n");
    }
    text
}

fn payload(pin: &PinModel) -> String {
    format!("{}.{}", pin.name, pin.types.get(0).name)
}

fn pin(pin: &PinModel) -> String {
    format!("  [{}, {}],\n", quoted(pin.event_type.as_str()), pin.major)
}

fn method(pin: &PinModel) -> String {
    let mut description = pin.types.get(0).docs.description.clone().unwrap_or_default();
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    let _ = write!(description, "`{}` v{}.", pin.event_type, pin.major);
    let docs = doc(&Docs { description: Some(description), deprecated: false }, None, "  ");
    format!("{docs}  {}(event: Received<{}>): void | Promise<void>;\n", pin.name, payload(pin))
}

fn arm(pin: &PinModel) -> String {
    format!(
        "    case {}:\n      await handler.{}(event as Received<{}>);\n      return {{ status: 204 }};\n",
        quoted(&format!("{} v{}", pin.event_type, pin.major)),
        pin.name,
        payload(pin)
    )
}

/// A string literal: JSON's are TypeScript's.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn key(member: &str) -> String {
    let plain = member.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$')
        && member.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    if plain { member.to_owned() } else { quoted(member) }
}

fn doc(docs: &Docs, default: Option<&Value>, indent: &str) -> String {
    let mut lines: Vec<String> = docs
        .description
        .as_deref()
        .unwrap_or_default()
        .trim()
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.extend(default.map(|value| format!("@defaultValue `{value}`: what absence means")));
    lines.extend(docs.deprecated.then(|| "@deprecated".to_owned()));
    // Nothing may end the comment.
    let lines: Vec<String> = lines.into_iter().map(|line| line.replace("*/", "* /")).collect();
    match &lines[..] {
        [] => String::new(),
        [only] => format!("{indent}/** {only} */\n"),
        lines => {
            let mut text = format!("{indent}/**\n");
            for line in lines {
                let space = if line.is_empty() { "" } else { " " };
                let _ = writeln!(text, "{indent} *{space}{line}");
            }
            text + indent + " */\n"
        }
    }
}

struct Module<'m> {
    types: &'m Types,
}

impl Module<'_> {
    fn item(&self, item: &Item) -> String {
        let name = &item.name;
        let docs = doc(&item.docs, None, "");
        match &item.body {
            Body::Struct(body) if body.flattened.is_empty() => {
                format!("{docs}interface {name} {}\n", self.members(&[], body, ""))
            }
            Body::Struct(body) => format!("{docs}type {name} = {};\n", self.structure(&[], body, "")),
            Body::Newtype(ty) => format!("{docs}type {name} = {};\n", self.ty(ty)),
            Body::Unit => format!("{docs}type {name} = null;\n"),
            Body::Texts(texts) => format!("{docs}type {name} ={};\n", text_union(texts)),
            Body::Numbers(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(|(number, _)| number.to_string()).collect();
                format!("{docs}type {name} = {};\n", numbers.join(" | "))
            }
            Body::Enum(body) => format!("{docs}type {name} ={};\n", self.enumeration(body)),
        }
    }

    /// The members between braces, `before` them all.
    fn members(&self, before: &[String], body: &Struct, indent: &str) -> String {
        let mut text = "{\n".to_owned();
        before.iter().for_each(|member| text.push_str(&format!("{indent}  {member};\n")));
        for field in &body.fields {
            text.push_str(&self.field(field, &format!("{indent}  ")));
        }
        if before.is_empty() && body.fields.is_empty() { "{}".to_owned() } else { text + indent + "}" }
    }

    /// The members and what is flattened among them.
    fn structure(&self, before: &[String], body: &Struct, indent: &str) -> String {
        let mut parts = vec![self.members(before, body, indent)];
        parts.extend(body.flattened.iter().map(|flattened| match &flattened.ty {
            Type::Option(inner) => format!("({} | {{}})", self.ty(inner)),
            ty => self.ty(ty),
        }));
        parts.join(" & ")
    }

    fn field(&self, field: &Field, indent: &str) -> String {
        let (mark, default) = match &field.presence {
            Presence::Required => ("", None),
            Presence::Optional => ("?", None),
            Presence::Default(value) => ("?", Some(value)),
        };
        let or_null = if matches!(field.presence, Presence::Optional) { " | null" } else { "" };
        format!(
            "{}{indent}{}{mark}: {}{or_null};\n",
            doc(&field.docs, default, indent),
            key(&field.member),
            self.ty(&field.ty)
        )
    }

    fn enumeration(&self, body: &Enum) -> String {
        let mut text = String::new();
        for variant in &body.variants {
            let _ = write!(
                text,
                "\n{}  | {}",
                doc(&variant.docs, None, "  "),
                self.variant(&body.tagging, variant)
            );
        }
        if body.open {
            let open = match &body.tagging {
                Tagging::External => "(string & {})\n  | { [variant: string]: unknown }".to_owned(),
                Tagging::Internal { tag } | Tagging::Adjacent { tag, .. } => {
                    format!("{{ {}: string & {{}}; [member: string]: unknown }}", key(tag))
                }
                Tagging::Untagged => "unknown".to_owned(),
            };
            let _ = write!(text, "\n  /** A variant that the schema does not know. */\n  | {open}");
        }
        text
    }

    fn variant(&self, tagging: &Tagging, variant: &Variant) -> String {
        let tag = quoted(&variant.tag);
        match (tagging, &variant.content) {
            (Tagging::External, Content::Unit) => tag,
            (Tagging::External, content) => format!("{{ {}: {} }}", key(&variant.tag), self.content(content)),
            (Tagging::Internal { tag: name }, content) => {
                let before = format!("{}: {tag}", key(name));
                match content {
                    Content::Unit => format!("{{ {before} }}"),
                    Content::Struct(body) => self.structure(&[before], body, "    "),
                    content => format!("({{ {before} }} & {})", self.content(content)),
                }
            }
            (Tagging::Adjacent { tag: name, .. }, Content::Unit) => format!("{{ {}: {tag} }}", key(name)),
            (Tagging::Adjacent { tag: name, content: member }, content) => {
                format!("{{ {}: {tag}; {}: {} }}", key(name), key(member), self.content(content))
            }
            (Tagging::Untagged, content) => self.content(content),
        }
    }

    fn content(&self, content: &Content) -> String {
        match content {
            Content::Unit => "null".to_owned(),
            Content::Newtype(ty) => self.ty(ty),
            Content::Tuple(types) => self.tuple(types),
            Content::Struct(body) => self.structure(&[], body, "    "),
        }
    }

    fn tuple(&self, types: &[Type]) -> String {
        let types: Vec<String> = types.iter().map(|ty| self.ty(ty)).collect();
        format!("[{}]", types.join(", "))
    }

    fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::Unit => "null".to_owned(),
            Type::Bool => "boolean".to_owned(),
            Type::Int(_) | Type::Float => "number".to_owned(),
            Type::String | Type::Char | Type::Uuid | Type::Time(_) | Type::Ip(_) | Type::Decimal => {
                "string".to_owned()
            }
            Type::Any => "unknown".to_owned(),
            Type::Option(inner) => format!("({} | null)", self.ty(inner)),
            Type::List(element) | Type::Set(element) => format!("{}[]", self.ty(element)),
            Type::Array(element, n) => self.tuple(&vec![(**element).clone(); *n]),
            Type::Tuple(types) => self.tuple(types),
            Type::Map(_, value) => format!("{{ [key: string]: {} }}", self.ty(value)),
            Type::Named(id) => self.types.get(*id).name.clone(),
            Type::Given(given) => format!("({given})"),
        }
    }
}

fn text_union(texts: &Texts) -> String {
    let mut text = String::new();
    for value in &texts.values {
        let _ = write!(text, "\n{}  | {}", doc(&value.docs, None, "  "), quoted(&value.value));
    }
    if texts.open {
        text.push_str("\n  /** A value that the schema does not know. */\n  | (string & {})");
    }
    text
}
