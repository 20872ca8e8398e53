//! From a schema to types. What has no type is refused with its pointer; nothing is guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::error::SchemaWithoutType as Problem;
use super::model::{
    Body, Docs, Field, Flattened, Int, Ip, Item, ItemId, Key, Moment, Presence, Struct, Text, Texts, Type,
    Types,
};
use super::names::{Scope, identifiers, pascal, snake};
use super::{alternatives, buffered, parts};
use crate::document::{OPEN_ENUM, is_annotation, join, percent_decode, resolve, sorted};

/// The pattern that schemars gives a decimal number.
const DECIMAL: &str = r"^-?\d+(\.\d+)?([eE]\d+)?$";

/// Rust's tuples can be compared and printed up to here.
const LONGEST_TUPLE: usize = 12;

/// Keywords that decide on the type.
const TYPING: [&str; 18] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "enum",
    "format",
    "items",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "type",
    "uniqueItems",
    OPEN_ENUM,
];

/// Keywords that only narrow the values of a type: the relay checks them, a reader need not.
const NARROWING: [&str; 13] = [
    "default",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
];

/// Formats of strings that stay strings.
const TEXT_FORMATS: [&str; 15] = [
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "zoned-date-time",
];

/// What decides on types beside the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    /// Types by `<event type>/v<major>#<pointer>`.
    pub(crate) types: &'a BTreeMap<String, String>,
    /// `<event type>/v<major>`.
    pub(crate) document: &'a str,
    /// Whether decimals have a type of their own.
    pub(crate) decimal: bool,
}

/// The types of a schema document, and which of the given ones were used.
pub(crate) fn lower(
    document: &Value,
    root: String,
    given: Given<'_>,
) -> Result<(Types, BTreeSet<String>), Vec<Found>> {
    let mut lower = Lower {
        document,
        given,
        used: BTreeSet::new(),
        types: Types::default(),
        by_pointer: HashMap::new(),
        definitions: HashMap::new(),
        scope: Scope::of_types(),
        problems: Vec::new(),
    };
    lower.scope.take(root.clone());
    lower.name_definitions();
    lower.named(String::new(), document, root);
    lower.problems.extend(buffered::problems(&lower.types));
    lower.problems.extend(parts::problems(&lower.types));
    if lower.problems.is_empty() { Ok((lower.types, lower.used)) } else { Err(lower.problems) }
}

/// A schema without a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where the schema is.
    pub(crate) schema: String,
    /// Where in it the reason is.
    pub(crate) pointer: String,
    pub(crate) problem: Problem,
}

/// A place in the document and what a type there would be called.
#[derive(Debug, Clone)]
pub(crate) struct At {
    pub(crate) pointer: String,
    pub(crate) name: String,
}

impl At {
    /// Below, with the same name.
    pub(crate) fn step(&self, step: impl std::fmt::Display) -> Self {
        Self { pointer: join(&self.pointer, step), name: self.name.clone() }
    }

    /// The same place, with a longer name.
    pub(crate) fn called(&self, name: &str) -> Self {
        Self { pointer: self.pointer.clone(), name: format!("{}{}", self.name, pascal(name)) }
    }
}

/// What a schema came to: a type that needs no name, or one that does.
#[derive(Debug)]
pub(crate) enum Shape {
    Type(Type),
    Body(Body),
}

impl From<Type> for Shape {
    fn from(ty: Type) -> Self {
        Self::Type(ty)
    }
}

pub(crate) struct Lower<'a> {
    document: &'a Value,
    given: Given<'a>,
    used: BTreeSet<String>,
    types: Types,
    by_pointer: HashMap<String, ItemId>,
    /// Names of `$defs`, by pointer, taken before all others.
    definitions: HashMap<String, String>,
    scope: Scope,
    problems: Vec<Found>,
}

impl Lower<'_> {
    fn name_definitions(&mut self) {
        for keyword in ["$defs", "definitions"] {
            let Some(Value::Object(definitions)) = self.document.get(keyword) else { continue };
            let names: Vec<&str> = sorted(definitions).into_iter().map(|(name, _)| name.as_str()).collect();
            let scope = std::mem::take(&mut self.scope);
            let (idents, scope) = identifiers(names.iter().copied(), pascal, scope);
            self.scope = scope;
            for (name, ident) in names.into_iter().zip(idents) {
                self.definitions.insert(join(&join("", keyword), name), ident);
            }
        }
    }

    pub(crate) fn document(&self) -> &Value {
        self.document
    }

    /// Notes that a schema has no type, because of a keyword of it or, with an empty one, as a whole.
    pub(crate) fn refuse<T>(&mut self, at: &At, keyword: &str, problem: Problem) -> Option<T> {
        let schema = at.pointer.clone();
        let pointer = if keyword.is_empty() { schema.clone() } else { join(&schema, keyword) };
        self.problems.push(Found { schema, pointer, problem });
        None
    }

    /// The item of a schema that is referred to, lowered the first time.
    fn named(&mut self, pointer: String, schema: &Value, name: String) -> ItemId {
        let id = self.types.0.len();
        self.by_pointer.insert(pointer.clone(), id);
        self.types.0.push(Item {
            name: name.clone(),
            docs: docs(schema),
            body: Body::Unit,
            pointer: pointer.clone(),
        });
        let body = match self.shape(schema, &At { pointer, name }) {
            Some(Shape::Body(body)) => body,
            Some(Shape::Type(Type::Unit)) | None => Body::Unit,
            Some(Shape::Type(ty)) => Body::Newtype(ty),
        };
        self.types.0[id].body = body;
        id
    }

    fn reference(&mut self, target: &str, at: &At) -> Option<Type> {
        let mut target = target;
        let mut seen = BTreeSet::new();
        loop {
            if !seen.insert(target.to_owned()) {
                return self.refuse(at, "", Problem::Circle);
            }
            let Some(schema) = resolve(self.document, target) else {
                return self.refuse(at, "", Problem::Circle);
            };
            let Some(pointer) = percent_decode(target.trim_start_matches('#')) else {
                return self.refuse(at, "", Problem::Circle);
            };
            if let Some(&id) = self.by_pointer.get(&pointer) {
                return Some(Type::Named(id));
            }
            if let Some(given) = self.given(&pointer) {
                return Some(given);
            }
            match only_reference(schema) {
                Some(next) => target = next,
                None => {
                    let taken = self.definitions.get(&pointer).cloned();
                    let name = taken.unwrap_or_else(|| {
                        let last = pointer.rsplit('/').next().unwrap_or_default();
                        self.scope.take(pascal(last))
                    });
                    return Some(Type::Named(self.named(pointer, schema, name)));
                }
            }
        }
    }

    fn given(&mut self, pointer: &str) -> Option<Type> {
        let key = format!("{}#{pointer}", self.given.document);
        let ty = self.given.types.get(&key)?.clone();
        self.used.insert(key);
        Some(Type::Given(ty))
    }

    /// The type of a schema; one that needs a name gets the place's.
    pub(crate) fn ty(&mut self, schema: &Value, at: &At) -> Option<Type> {
        match self.shape(schema, at)? {
            Shape::Type(ty) => Some(ty),
            Shape::Body(body) => Some(self.name(body, schema, at)),
        }
    }

    pub(crate) fn name(&mut self, body: Body, schema: &Value, at: &At) -> Type {
        let name = self.scope.take(at.name.clone());
        self.types.0.push(Item { name, docs: docs(schema), body, pointer: at.pointer.clone() });
        Type::Named(self.types.0.len() - 1)
    }

    pub(crate) fn shape(&mut self, schema: &Value, at: &At) -> Option<Shape> {
        if let Some(given) = self.given(&at.pointer) {
            return Some(given.into());
        }
        let object = match schema {
            Value::Bool(true) => return Some(Type::Any.into()),
            Value::Object(object) => object,
            _ => return self.refuse(at, "", Problem::Never),
        };
        if object.get("not").is_some_and(|not| not == &Value::Bool(true) || is_anything(not)) {
            return self.refuse(at, "", Problem::Never);
        }
        self.keywords(object, at)?;
        if is_anything(schema) {
            return Some(Type::Any.into());
        }
        if let Some(reference) = only_reference(schema) {
            return self.reference(reference, at).map(Into::into);
        }
        if let Some((rest, pointer)) = alternatives::without_null(object, at) {
            let inner = self.ty(&rest, &pointer)?;
            return Some(option(inner).into());
        }
        if let Some(literals) = literals(object) {
            return self.literals(&literals, object, at);
        }
        if object.contains_key(OPEN_ENUM) && object.get("type").is_some_and(|ty| ty == "string") {
            return Some(Shape::Body(Body::Texts(alternatives::open_texts(object))));
        }
        let beside = ["properties", "required", "additionalProperties", "$ref", "patternProperties"];
        if !beside.iter().any(|keyword| object.contains_key(*keyword)) {
            let combined: Vec<_> =
                ["oneOf", "anyOf", "allOf"].into_iter().filter(|key| object.contains_key(*key)).collect();
            if let [keyword] = combined[..] {
                let list = object.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                match (keyword, list) {
                    (_, [only]) if keyword != "oneOf" => return self.shape(only, &at.step(keyword).step(0)),
                    ("allOf", _) => {}
                    _ => return alternatives::union(self, keyword, list, at),
                }
            }
        }
        self.by_type(object, at)
    }

    /// Refuses what decides on types and is not understood.
    pub(crate) fn keywords(&mut self, object: &Map<String, Value>, at: &At) -> Option<()> {
        let mut all = Some(());
        for (keyword, value) in sorted(object) {
            let name = keyword.as_str();
            let closes = name == "unevaluatedProperties" && value == &Value::Bool(false);
            if !(closes || is_annotation(name) || TYPING.contains(&name) || NARROWING.contains(&name)) {
                all = self.refuse(at, keyword, Problem::Keyword(keyword.clone()));
            }
        }
        all
    }

    fn literals(&mut self, values: &[Value], object: &Map<String, Value>, at: &At) -> Option<Shape> {
        if values.iter().all(Value::is_string) {
            let texts =
                values.iter().filter_map(Value::as_str).map(|value| (value, docs_of_value(object, values)));
            return Some(Shape::Body(Body::Texts(texts_of(texts.collect(), false))));
        }
        if values.iter().all(Value::is_boolean) && !values.is_empty() {
            return Some(Type::Bool.into());
        }
        let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
        if numbers.len() != values.len() || numbers.is_empty() {
            return self.refuse(at, "", Problem::Literals);
        }
        let mut seen = BTreeSet::new();
        let variants = numbers.into_iter().filter(|number| seen.insert(*number)).map(|number| {
            let sign = if number < 0 { "Minus" } else { "N" };
            (number, format!("{sign}{}", number.unsigned_abs()))
        });
        Some(Shape::Body(Body::Numbers(variants.collect())))
    }

    fn by_type(&mut self, object: &Map<String, Value>, at: &At) -> Option<Shape> {
        let name = match object.get("type") {
            Some(Value::String(name)) => name.as_str(),
            Some(Value::Array(names)) => {
                let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
                return match names[..] {
                    [only] => self.of_type(only, object, at),
                    ["string", "number"] | ["number", "string"]
                        if self.given.decimal && is_decimal(object) =>
                    {
                        Some(Type::Decimal.into())
                    }
                    _ => alternatives::of_types(self, &names, object, at),
                };
            }
            _ if ["properties", "additionalProperties", "patternProperties", "required", "$ref", "allOf"]
                .iter()
                .any(|keyword| object.contains_key(*keyword)) =>
            {
                "object"
            }
            _ if object.contains_key("items") || object.contains_key("prefixItems") => "array",
            _ => return self.refuse(at, "", Problem::NoType),
        };
        self.of_type(name, object, at)
    }

    pub(crate) fn of_type(&mut self, name: &str, object: &Map<String, Value>, at: &At) -> Option<Shape> {
        let format = object.get("format").and_then(Value::as_str);
        let ty = match name {
            "null" => Type::Unit,
            "boolean" => Type::Bool,
            "number" => match format {
                None | Some("float" | "double") => Type::Float,
                Some(other) => {
                    return self.refuse(at, "format", Problem::Format(other.to_owned()));
                }
            },
            "integer" => match int(format, object) {
                Some(int) => Type::Int(int),
                None => {
                    let format = format.unwrap_or_default().to_owned();
                    return self.refuse(at, "format", Problem::Format(format));
                }
            },
            "string" => match format {
                None if self.given.decimal && is_decimal(object) => Type::Decimal,
                None if length(object, "minLength") == Some(1) && length(object, "maxLength") == Some(1) => {
                    Type::Char
                }
                None => Type::String,
                Some("uuid") => Type::Uuid,
                Some("date-time") => Type::Time(Moment::Instant),
                Some("date") => Type::Time(Moment::Date),
                Some("partial-date-time") => Type::Time(Moment::DateTime),
                Some("partial-time") => Type::Time(Moment::Time),
                Some("ip") => Type::Ip(Ip::Any),
                Some("ipv4") => Type::Ip(Ip::V4),
                Some("ipv6") => Type::Ip(Ip::V6),
                Some(text) if TEXT_FORMATS.contains(&text) => Type::String,
                Some(other) => {
                    return self.refuse(at, "format", Problem::Format(other.to_owned()));
                }
            },
            "array" => return self.array(object, at).map(Into::into),
            "object" => return self.object(object, at),
            other => return self.refuse(at, "type", Problem::Type(other.to_owned())),
        };
        Some(ty.into())
    }

    fn array(&mut self, object: &Map<String, Value>, at: &At) -> Option<Type> {
        let (min, max) = (length(object, "minItems"), length(object, "maxItems"));
        if let Some(Value::Array(first)) =
            object.get("prefixItems").filter(|first| **first != Value::Array(vec![]))
        {
            if min != Some(first.len()) || max != min {
                return self.refuse(at, "prefixItems", Problem::OpenTuple);
            }
            if first.len() > LONGEST_TUPLE {
                return self.refuse(at, "prefixItems", Problem::LongTuple);
            }
            let types = first.iter().enumerate().map(|(i, schema)| {
                let at = at.step("prefixItems").step(i).called(&i.to_string());
                self.ty(schema, &at)
            });
            // All of them, so that all problems are found.
            let types: Vec<Option<Type>> = types.collect();
            return types.into_iter().collect::<Option<_>>().map(Type::Tuple);
        }
        let element = match object.get("items") {
            Some(schema) => self.ty(schema, &at.step("items").called("item"))?,
            None if max == Some(0) => Type::Unit,
            None => Type::Any,
        };
        let element = Box::new(element);
        Some(match max {
            Some(n) if n <= 32 && (min == max || n == 0) => Type::Array(element, n),
            _ if object.get("uniqueItems").is_some_and(|unique| unique == &Value::Bool(true)) => {
                Type::Set(element)
            }
            _ => Type::List(element),
        })
    }

    fn object(&mut self, object: &Map<String, Value>, at: &At) -> Option<Shape> {
        let has = |keyword: &str| match object.get(keyword) {
            Some(Value::Object(named)) => !named.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Bool(false)) | None => false,
            Some(_) => true,
        };
        if ["properties", "required", "$ref", "oneOf", "anyOf", "allOf"].into_iter().any(has) {
            return self.structure(object, at, &[]).map(|body| Shape::Body(Body::Struct(body)));
        }
        let patterns =
            object.get("patternProperties").and_then(Value::as_object).map(sorted).unwrap_or_default();
        match (patterns[..].first(), object.get("additionalProperties")) {
            (Some((pattern, schema)), Some(Value::Bool(false))) if patterns.len() == 1 => {
                let key = match pattern.as_str() {
                    r"^-?\d+$" => Key::Signed,
                    r"^\d+$" => Key::Unsigned,
                    _ => Key::Text,
                };
                let value = self.ty(schema, &at.step("patternProperties").step(pattern).called("value"))?;
                Some(Type::Map(key, Box::new(value)).into())
            }
            (Some(_), _) => self.refuse(at, "patternProperties", Problem::Patterns),
            (None, None | Some(Value::Bool(false))) => Some(Shape::Body(Body::Struct(Struct::default()))),
            (None, Some(schema)) => {
                let value = self.ty(schema, &at.step("additionalProperties").called("value"))?;
                Some(Type::Map(Key::Text, Box::new(value)).into())
            }
        }
    }

    /// The members of an object, except those in `skip`.
    pub(crate) fn structure(
        &mut self,
        object: &Map<String, Value>,
        at: &At,
        skip: &[&str],
    ) -> Option<Struct> {
        if object.contains_key("patternProperties") {
            return self.refuse(at, "patternProperties", Problem::Patterns);
        }
        let properties = object.get("properties").and_then(Value::as_object).map(sorted).unwrap_or_default();
        let properties: BTreeMap<&str, &Value> =
            properties.into_iter().map(|(name, ty)| (name.as_str(), ty)).collect();
        let required: BTreeSet<&str> = alternatives::required(object).collect();
        let names: BTreeSet<&str> = properties.keys().copied().chain(required.iter().copied()).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !skip.contains(name)).collect();
        let (idents, mut scope) = identifiers(names.iter().copied(), snake, Scope::default());

        let mut complete = true;
        let mut fields = Vec::new();
        for (name, ident) in names.into_iter().zip(idents) {
            let schema = properties.get(name).copied().unwrap_or(&Value::Bool(true));
            let place = at.step("properties").step(name).called(name);
            let Some(ty) = self.ty(schema, &place) else {
                complete = false;
                continue;
            };
            let (presence, ty) = match schema.get("default") {
                _ if required.contains(name) => (Presence::Required, ty),
                // Nobody knows how to write a value of a type that was given.
                Some(default) if !default.is_null() && !matches!(ty, Type::Given(_)) => {
                    (Presence::Default(default.clone()), ty)
                }
                _ => (Presence::Optional, unwrapped(ty)),
            };
            fields.push(Field {
                member: name.to_owned(),
                ident,
                docs: docs(schema),
                ty,
                presence,
                pointer: place.pointer,
            });
        }
        let flattened = self.flattened(object, at, &mut scope)?;
        complete.then_some(Struct { fields, flattened })
    }

    /// What stands beside the members: references, alternatives, and the type of members without a name.
    fn flattened(
        &mut self,
        object: &Map<String, Value>,
        at: &At,
        scope: &mut Scope,
    ) -> Option<Vec<Flattened>> {
        let mut parts: Vec<(&str, Value, At)> = Vec::new();
        let only = |keyword: &str, value: &Value| {
            Value::Object(Map::from_iter([(keyword.to_owned(), value.clone())]))
        };
        for keyword in ["$ref", "oneOf", "anyOf"] {
            if let Some(value) = object.get(keyword) {
                parts.push((keyword, only(keyword, value), at.clone()));
            }
        }
        if let Some(Value::Array(all)) = object.get("allOf") {
            let all =
                all.iter().enumerate().map(|(i, part)| ("allOf", part.clone(), at.step("allOf").step(i)));
            parts.extend(all);
        }
        let mut flattened = Vec::new();
        for (keyword, schema, place) in parts {
            let ident = scope
                .take(alternatives::tag_of(&schema).map_or_else(|| "variant".to_owned(), |tag| snake(&tag)));
            let (schema, place, optional) = alternatives::absent(schema, place);
            let ty = self.ty(&schema, &place.called(&ident))?;
            if !matches!(ty, Type::Named(_) | Type::Given(_)) {
                return self.refuse(at, keyword, Problem::Parts);
            }
            let ty = if optional { option(ty) } else { ty };
            flattened.push(Flattened { ident, ty });
        }
        if let Some(schema) =
            object.get("additionalProperties").filter(|schema| **schema != Value::Bool(false))
        {
            let ident = scope.take("additional".to_owned());
            let value = self.ty(schema, &at.step("additionalProperties").called("value"))?;
            flattened.push(Flattened { ident, ty: Type::Map(Key::Text, Box::new(value)) });
        }
        Some(flattened)
    }
}

fn option(ty: Type) -> Type {
    match ty {
        Type::Option(_) => ty,
        other => Type::Option(Box::new(other)),
    }
}

fn unwrapped(ty: Type) -> Type {
    match ty {
        Type::Option(inner) => *inner,
        other => other,
    }
}

/// What a schema says for people.
pub(crate) fn docs(schema: &Value) -> Docs {
    Docs {
        description: schema.get("description").and_then(Value::as_str).map(str::to_owned),
        deprecated: schema.get("deprecated").and_then(Value::as_bool).unwrap_or(false),
    }
}

/// A description beside one literal is the literal's.
fn docs_of_value(object: &Map<String, Value>, values: &[Value]) -> Docs {
    if values.len() == 1 { docs(&Value::Object(object.clone())) } else { Docs::default() }
}

/// The variants of strings, with their names.
pub(crate) fn texts_of(values: Vec<(&str, Docs)>, open: bool) -> Texts {
    let mut seen = BTreeSet::new();
    let values: Vec<_> = values.into_iter().filter(|(value, _)| seen.insert(*value)).collect();
    let scope = alternatives::variant_scope(open);
    let (idents, _) = identifiers(values.iter().map(|(value, _)| *value), pascal, scope);
    let values = values.into_iter().zip(idents);
    let values = values.map(|((value, docs), ident)| Text { value: value.to_owned(), ident, docs });
    Texts { values: values.collect(), open }
}

/// Whether a schema says nothing but for people.
fn is_anything(schema: &Value) -> bool {
    schema.as_object().is_some_and(|object| {
        object.keys().all(|keyword| {
            is_annotation(keyword) || ["default", "$defs", "definitions"].contains(&keyword.as_str())
        })
    })
}

/// The target of a schema that is nothing but a reference.
fn only_reference(schema: &Value) -> Option<&str> {
    let object = schema.as_object()?;
    let target = object.get("$ref")?.as_str()?;
    let alone = |keyword: &String| {
        is_annotation(keyword) || ["$ref", "default", "$defs", "definitions"].contains(&keyword.as_str())
    };
    object.keys().all(alone).then_some(target)
}

/// The values of `enum` or `const`.
fn literals(object: &Map<String, Value>) -> Option<Vec<Value>> {
    match (object.get("const"), object.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

fn length(object: &Map<String, Value>, keyword: &str) -> Option<usize> {
    usize::try_from(object.get(keyword)?.as_u64()?).ok()
}

fn is_decimal(object: &Map<String, Value>) -> bool {
    object.get("pattern").is_some_and(|pattern| pattern == DECIMAL)
}

/// The width that a format names; without one, 64 bits, or what the bounds need.
fn int(format: Option<&str>, object: &Map<String, Value>) -> Option<Int> {
    Some(match format {
        Some("int8") => Int::I8,
        Some("int16") => Int::I16,
        Some("int32") => Int::I32,
        Some("int64" | "int") => Int::I64,
        Some("int128") => Int::I128,
        Some("uint8") => Int::U8,
        Some("uint16") => Int::U16,
        Some("uint32") => Int::U32,
        Some("uint64" | "uint") => Int::U64,
        Some("uint128") => Int::U128,
        Some(_) => return None,
        None => {
            let bound = |keyword: &str| {
                let number = object.get(keyword)?;
                // Beyond 128 bits it is as good as the nearest.
                number.to_string().parse().ok().or_else(|| number.as_f64().map(|bound| bound as i128))
            };
            let above = |limit: i128| {
                bound("maximum").is_some_and(|most| most > limit)
                    || bound("exclusiveMaximum").is_some_and(|end| end - 1 > limit)
            };
            let from = [bound("minimum"), bound("exclusiveMinimum")].into_iter().flatten().max();
            match from {
                Some(0..) if above(u64::MAX.into()) => Int::U128,
                Some(0..) => Int::U64,
                Some(from) if from < i64::MIN.into() => Int::I128,
                _ if above(i64::MAX.into()) => Int::I128,
                _ => Int::I64,
            }
        }
    })
}
