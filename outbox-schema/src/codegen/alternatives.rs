//! Which enum a list of alternatives is: serde's four taggings, strings, or a value that may be null.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::error::SchemaWithoutType as Problem;
use super::lower::{At, Lower, Shape, docs, texts_of};
use super::model::{Body, Content, Docs, Enum, Tagging, Texts, Type, Variant};
use super::names::{Scope, identifiers, pascal};
use crate::document::{OPEN_ENUM, resolve, sorted};

/// What each known value of an open enum means.
const DESCRIPTIONS: &str = "x-outbox-descriptions";

/// The names under `required`.
pub(crate) fn required(object: &Map<String, Value>) -> impl Iterator<Item = &str> {
    object.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|ty| ty == "null") || schema.get("const").is_some_and(Value::is_null)
}

/// What is left of a schema that also takes `null`, and where it is; `None` if it does not, or takes nothing else.
pub(crate) fn without_null(object: &Map<String, Value>, at: &At) -> Option<(Value, At)> {
    if let Some(Value::Array(types)) = object.get("type") {
        let rest: Vec<Value> = types.iter().filter(|ty| *ty != "null").cloned().collect();
        if rest.len() == types.len() || rest.is_empty() {
            return None;
        }
        let mut object = object.clone();
        let ty = if let [only] = &rest[..] { only.clone() } else { Value::Array(rest) };
        object.insert("type".to_owned(), ty);
        if let Some(Value::Array(values)) = object.get_mut("enum") {
            values.retain(|value| !value.is_null());
        }
        return Some((Value::Object(object), at.clone()));
    }
    if object.contains_key("properties") || object.contains_key("$ref") {
        return None;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(list)) = object.get(keyword)
            && let [a, b] = &list[..]
        {
            match (is_null(a), is_null(b)) {
                (false, true) => return Some((a.clone(), at.step(keyword).step(0))),
                (true, false) => return Some((b.clone(), at.step(keyword).step(1))),
                _ => {}
            }
        }
    }
    None
}

/// Alternatives beside members that may also not be there: `anyOf: [X, {}]`.
pub(crate) fn absent(schema: Value, at: At) -> (Value, At, bool) {
    if let Some(Value::Array(list)) = schema.get("anyOf")
        && let [some, Value::Object(none)] = &list[..]
        && none.is_empty()
    {
        return (some.clone(), at.step("anyOf").step(0), true);
    }
    (schema, at, false)
}

/// The constant string that a member must be.
fn constant<'s>(alternative: &'s Value, member: &str) -> Option<&'s str> {
    let object = alternative.as_object()?;
    let value = object.get("properties")?.get(member)?;
    let value = match (value.get("const"), value.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => value,
        (None, Some(values)) if values.len() == 1 => values.first()?,
        _ => return None,
    };
    required(object).any(|name| name == member).then_some(value.as_str()?)
}

/// The tag of a schema of alternatives, if they have one.
pub(crate) fn tag_of(schema: &Value) -> Option<String> {
    let list = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    if let [only, Value::Object(none)] = &list[..]
        && none.is_empty()
    {
        return tag_of(only);
    }
    let (known, _) = split_open(list);
    common_tag(known)
}

/// The member in which every alternative has a constant of its own.
fn common_tag(list: &[Value]) -> Option<String> {
    let properties = list.first()?.get("properties")?.as_object()?;
    let mut names = sorted(properties).into_iter().map(|(name, _)| name);
    let is_tag = |name: &&String| {
        let constants: Option<BTreeSet<&str>> =
            list.iter().map(|alternative| constant(alternative, name)).collect();
        constants.is_some_and(|constants| constants.len() == list.len())
    };
    names.find(is_tag).cloned()
}

/// The known alternatives, and whether the last one stands for those to come.
fn split_open(list: &[Value]) -> (&[Value], bool) {
    let Some((last, known)) = list.split_last() else { return (list, false) };
    let in_member = last.get("properties").and_then(Value::as_object).is_some_and(|properties| {
        properties.len() == 1 && properties.values().all(|member| member.get(OPEN_ENUM).is_some())
    });
    let anything = last.as_object().is_some_and(|object| object.len() == 1 && object.contains_key(OPEN_ENUM));
    if in_member || anything { (known, true) } else { (list, false) }
}

/// An enum of strings that may grow.
pub(crate) fn open_texts(object: &Map<String, Value>) -> Texts {
    let values =
        object.get(OPEN_ENUM).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let description = |value: &str| Docs {
        description: object
            .get(DESCRIPTIONS)
            .and_then(|all| all.get(value))
            .and_then(Value::as_str)
            .map(str::to_owned),
        deprecated: false,
    };
    texts_of(values.map(|value| (value, description(value))).collect(), true)
}

/// The strings of alternatives that are nothing else.
fn texts(list: &[Value]) -> Option<Vec<(&str, Docs)>> {
    let mut texts = Vec::new();
    for alternative in list {
        let object = alternative.as_object()?;
        if let Some(value) = object.get("const") {
            texts.push((value.as_str()?, docs(alternative)));
        } else {
            for value in object.get("enum")?.as_array()? {
                texts.push((value.as_str()?, Docs::default()));
            }
        }
    }
    Some(texts)
}

/// The enum of a list under `oneOf` or `anyOf`.
pub(crate) fn union(lower: &mut Lower<'_>, keyword: &str, list: &[Value], at: &At) -> Option<Shape> {
    let place = at.step(keyword);
    if let Some(texts) = texts(list) {
        return Some(Shape::Body(Body::Texts(texts_of(texts, false))));
    }
    let (known, open) = split_open(list);
    if let Some(tag) = common_tag(known) {
        return by_tag(lower, known, tag, open, &place).map(enum_shape);
    }
    if keyword == "oneOf" {
        if let Some(members) = external(list) {
            return by_member(lower, members, &place).map(enum_shape);
        }
        if !apart(lower.document(), known) {
            return lower.refuse(at, keyword, Problem::Alternatives);
        }
    }
    untagged(lower, known, open, &place).map(enum_shape)
}

fn enum_shape(body: Enum) -> Shape {
    Shape::Body(Body::Enum(body))
}

/// The scope of variants.
pub(crate) fn variant_scope(open: bool) -> Scope {
    let mut scope = Scope::default();
    scope.take("Self".to_owned());
    if open {
        scope.take("Unknown".to_owned());
    }
    scope
}

fn by_tag(lower: &mut Lower<'_>, list: &[Value], tag: String, open: bool, at: &At) -> Option<Enum> {
    let tags: Vec<&str> = list.iter().filter_map(|alternative| constant(alternative, &tag)).collect();
    let (idents, _) = identifiers(tags.iter().copied(), pascal, variant_scope(open));
    let content = content_member(list, &tag);
    let mut variants = Vec::new();
    let mut complete = true;
    for (i, (value, ident)) in tags.into_iter().zip(idents).enumerate() {
        let alternative = &list[i];
        let place = at.step(i).called(value);
        let Some(object) = alternative.as_object() else { continue };
        complete &= lower.keywords(object, &place).is_some();
        let inside = match &content {
            Some(content) => match object.get("properties").and_then(|properties| properties.get(content)) {
                Some(schema) => content_of(lower, schema, &place.step("properties").step(content)),
                None => Some(Content::Unit),
            },
            None => beside_tag(lower, object, &tag, &place),
        };
        match inside {
            Some(content) => {
                variants.push(Variant { tag: value.to_owned(), ident, docs: docs(alternative), content });
            }
            None => complete = false,
        }
    }
    let tagging = match content {
        Some(content) => Tagging::Adjacent { tag, content },
        None => Tagging::Internal { tag },
    };
    complete.then_some(Enum { tagging, variants, open })
}

/// The one member beside the tag, where every variant with content has it and at least one holds more than a scalar there.
/// Other enums are read the same with their members inside the variant.
fn content_member(list: &[Value], tag: &str) -> Option<String> {
    let mut content: Option<&String> = None;
    let mut structured = false;
    for alternative in list {
        let object = alternative.as_object()?;
        let extra = ["$ref", "oneOf", "anyOf", "allOf", "additionalProperties", "patternProperties"];
        if extra.iter().any(|keyword| object.get(*keyword).is_some_and(|value| value != &Value::Bool(false)))
        {
            return None;
        }
        let properties = object.get("properties")?.as_object()?;
        let mut others = properties.iter().filter(|(name, _)| *name != tag);
        let Some((name, schema)) = others.next() else { continue };
        let same = content.is_none_or(|content| content == name);
        if others.next().is_some() || !same || !required(object).any(|required| required == name) {
            return None;
        }
        content = Some(name);
        structured |= ["$ref", "properties", "items", "prefixItems", "oneOf", "anyOf"]
            .iter()
            .any(|keyword| schema.get(keyword).is_some());
    }
    content.filter(|_| structured).cloned()
}

/// What an internally tagged variant holds beside its tag.
fn beside_tag(lower: &mut Lower<'_>, object: &Map<String, Value>, tag: &str, at: &At) -> Option<Content> {
    let content = lower.structure(object, at, &[tag])?;
    Some(match (content.fields.len(), &content.flattened[..]) {
        (0, []) => Content::Unit,
        (0, [only]) if object.contains_key("$ref") => Content::Newtype(only.ty.clone()),
        _ => Content::Struct(content),
    })
}

/// What a variant holds, from a schema of its own.
fn content_of(lower: &mut Lower<'_>, schema: &Value, at: &At) -> Option<Content> {
    Some(match lower.shape(schema, at)? {
        Shape::Body(Body::Struct(body)) => Content::Struct(body),
        Shape::Body(body) => Content::Newtype(lower.name(body, schema, at)),
        Shape::Type(Type::Tuple(types)) if types.len() > 1 => Content::Tuple(types),
        Shape::Type(ty) => Content::Newtype(ty),
    })
}

/// One variant of an externally tagged enum.
struct Member<'s> {
    tag: &'s str,
    docs: Docs,
    /// Where its schema is below the list, and the schema; a string alone has none.
    content: Option<(Vec<String>, &'s Value)>,
}

/// The variants, if each alternative is a string or an object with one member of its own.
fn external(list: &[Value]) -> Option<(Vec<Member<'_>>, bool)> {
    let mut members = Vec::new();
    let mut open = false;
    for (i, alternative) in list.iter().enumerate() {
        let object = alternative.as_object()?;
        if let Some(Value::Array(known)) = object.get(OPEN_ENUM) {
            open = true;
            match object.get("properties").and_then(Value::as_object) {
                Some(properties) => {
                    members.extend(sorted(properties).into_iter().map(|(name, schema)| Member {
                        tag: name,
                        docs: docs(schema),
                        content: Some((vec![i.to_string(), "properties".to_owned(), name.clone()], schema)),
                    }));
                }
                None => members.extend(known.iter().filter_map(Value::as_str).map(|tag| {
                    let description =
                        object.get(DESCRIPTIONS).and_then(|all| all.get(tag)).and_then(Value::as_str);
                    let docs = Docs { description: description.map(str::to_owned), deprecated: false };
                    Member { tag, docs, content: None }
                })),
            }
        } else if let Some(strings) = texts(std::slice::from_ref(alternative)) {
            members.extend(strings.into_iter().map(|(tag, docs)| Member { tag, docs, content: None }));
        } else {
            let properties = object.get("properties")?.as_object()?;
            let (name, schema) = properties.iter().next()?;
            let only = properties.len() == 1 && required(object).eq([name.as_str()]);
            let closed = object.get("additionalProperties").is_none_or(|extra| extra == &Value::Bool(false));
            if !only || !closed {
                return None;
            }
            let content = Some((vec![i.to_string(), "properties".to_owned(), name.clone()], schema));
            members.push(Member { tag: name, docs: docs(alternative), content });
        }
    }
    let tags: BTreeSet<&str> = members.iter().map(|member| member.tag).collect();
    (tags.len() == members.len()).then_some((members, open))
}

fn by_member(lower: &mut Lower<'_>, (members, open): (Vec<Member<'_>>, bool), at: &At) -> Option<Enum> {
    let tags: Vec<&str> = members.iter().map(|member| member.tag).collect();
    let (idents, _) = identifiers(tags.iter().copied(), pascal, variant_scope(open));
    let mut variants = Vec::new();
    let mut complete = true;
    for (member, ident) in members.into_iter().zip(idents) {
        let content = match member.content {
            None => Some(Content::Unit),
            Some((steps, schema)) => {
                let place = steps.iter().fold(at.clone(), |at, step| at.step(step));
                content_of(lower, schema, &place.called(member.tag))
            }
        };
        match content {
            Some(content) => {
                variants.push(Variant { tag: member.tag.to_owned(), ident, docs: member.docs, content });
            }
            None => complete = false,
        }
    }
    complete.then_some(Enum { tagging: Tagging::External, variants, open })
}

fn untagged(lower: &mut Lower<'_>, list: &[Value], open: bool, at: &At) -> Option<Enum> {
    let mut scope = variant_scope(open);
    let mut variants = Vec::new();
    let mut complete = true;
    for (i, alternative) in list.iter().enumerate() {
        let place = at.step(i);
        let name = untagged_name(alternative);
        let content = match is_null(alternative) {
            true => Some(Content::Unit),
            false => content_of(lower, alternative, &place.called(&name)),
        };
        let Some(content) = content else {
            complete = false;
            continue;
        };
        variants.push(Variant {
            tag: String::new(),
            ident: scope.take(name),
            docs: docs(alternative),
            content,
        });
    }
    complete.then_some(Enum { tagging: Tagging::Untagged, variants, open })
}

/// What an alternative without a tag is called: by what it refers to, by its title, by its type.
fn untagged_name(alternative: &Value) -> String {
    let text = |keyword: &str| alternative.get(keyword).and_then(Value::as_str);
    if let Some(name) = text("$ref").and_then(|target| target.rsplit('/').next()).or_else(|| text("title")) {
        return pascal(name);
    }
    let name = match text("type") {
        Some("string") if alternative.get("enum").or_else(|| alternative.get("const")).is_some() => "Word",
        Some("string") => "Text",
        Some("integer" | "number") => "Number",
        Some("boolean") => "Flag",
        Some("array") if alternative.get("prefixItems").is_some() => "Tuple",
        Some("array") => "List",
        Some("object") if alternative.get("properties").is_none() => "Map",
        Some("object") => "Object",
        Some("null") => "Null",
        _ => "Other",
    };
    name.to_owned()
}

/// The enum of a schema that takes several types.
pub(crate) fn of_types(
    lower: &mut Lower<'_>,
    names: &[&str],
    object: &Map<String, Value>,
    at: &At,
) -> Option<Shape> {
    let alternatives: Vec<Value> = names
        .iter()
        .map(|name| {
            let mut alternative = object.clone();
            alternative.insert("type".to_owned(), Value::from(*name));
            for keyword in ["description", "title", "default", "deprecated"] {
                alternative.remove(keyword);
            }
            Value::Object(alternative)
        })
        .collect();
    let mut scope = variant_scope(false);
    let mut variants = Vec::new();
    for alternative in &alternatives {
        let name = untagged_name(alternative);
        let content =
            content_of(lower, alternative, &At { pointer: at.pointer.clone(), name: at.called(&name).name })?;
        variants.push(Variant {
            tag: String::new(),
            ident: scope.take(name),
            docs: Docs::default(),
            content,
        });
    }
    Some(enum_shape(Enum { tagging: Tagging::Untagged, variants, open: false }))
}

/// Whether no value can be of two of the alternatives, by JSON's types.
fn apart(document: &Value, list: &[Value]) -> bool {
    let kinds: Vec<Kinds> = list.iter().map(|alternative| Kinds::of(document, alternative, 0)).collect();
    kinds.iter().enumerate().all(|(i, a)| kinds[..i].iter().all(|b| a.0 & b.0 == 0))
}

/// A set of JSON's types.
struct Kinds(u8);

impl Kinds {
    const ALL: Self = Self(0b11_1111);

    fn of(document: &Value, schema: &Value, depth: u8) -> Self {
        // Deeper is a circle, or not worth following.
        let Some(object) = schema.as_object().filter(|_| depth < 16) else { return Self::ALL };
        let below = |schema: &Value| Self::of(document, schema, depth + 1).0;
        if let Some(Value::String(target)) = object.get("$ref") {
            return resolve(document, target).map_or(Self::ALL, |schema| Self(below(schema)));
        }
        if let Some(Value::Array(list)) = object.get("oneOf").or_else(|| object.get("anyOf")) {
            return Self(list.iter().map(below).fold(0, |all, one| all | one));
        }
        match object.get("type") {
            Some(Value::String(name)) => Self::named(name),
            Some(Value::Array(names)) => Self(
                names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(|name| Self::named(name).0)
                    .fold(0, |all, one| all | one),
            ),
            _ => Self::ALL,
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self(1),
            "boolean" => Self(2),
            "integer" | "number" => Self(4),
            "string" => Self(8),
            "array" => Self(16),
            "object" => Self(32),
            _ => Self::ALL,
        }
    }
}
