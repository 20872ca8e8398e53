//! Random schemas and changes of them, held against an oracle that knows nothing of the provers: what is said to be
//! compatible has no counterexample among values that are guided by both schemas.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::{Map, Value, json};

use super::decide::prove;
use super::decimal::{Decimal, same_value};
use super::same::Sameness;
use super::second::{Answer, Canonical, SecondProver, is_circular};
use super::world::World;
use super::{Direction, Rule, Verdict, compare};
use crate::formats::RANGES;

/// Pairs of schemas that our own prover alone decides.
const PAIRS: u64 = 20_000;
/// Pairs that are compared in full, with the second prover and payloads.
const FULL_PAIRS: u64 = 600;
/// Values tried for one direction that is said to be compatible.
const VALUES: usize = 12;

/// A sequence that its seed decides (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "1"];
const TEXTS: [&str; 6] = ["", "a", "A", "B", "12", "abc"];
const FORMATS: [(&str, &str); 4] = [
    ("uuid", "0193f0c4-5b7e-7b6e-9d2b-0a4d3c1b2a19"),
    ("date", "2024-02-29"),
    ("ipv4", "127.0.0.1"),
    ("ip", "::1"),
];
const PATTERNS: [&str; 3] = ["^\\d+$", "^[A-Z]+$", "^a"];
const INTEGERS: [&str; 6] = ["int8", "uint8", "int32", "uint32", "int64", "uint64"];

fn document(dice: &mut Dice) -> Value {
    let mut root = object(dice, 3);
    if dice.chance(20) {
        root = union(dice, 2);
    }
    root["$defs"] = json!({ "A": schema(dice, 2), "B": object(dice, 2) });
    root
}

fn schema(dice: &mut Dice, depth: usize) -> Value {
    if dice.chance(12) {
        return unusual(dice, depth);
    }
    let kinds = if depth == 0 { 9 } else { 18 };
    match dice.below(kinds) {
        0 | 1 => number(dice),
        2 | 3 => text(dice),
        4 => json!({"type": "boolean"}),
        5 => json!({"enum": [dice.pick(&TEXTS), dice.pick(&TEXTS), dice.below(3)]}),
        6 => json!({"const": dice.pick(&TEXTS)}),
        7 => json!({"type": ["string", "null"]}),
        8 => [json!(true), json!({}), json!({"type": "object"}), json!({"not": {"enum": ["a", 1]}})]
            [dice.below(4)]
        .clone(),
        9 => {
            let mut list = json!({"type": "array", "items": schema(dice, depth - 1)});
            some_of(
                dice,
                &mut list,
                &[("minItems", json!(1)), ("maxItems", json!(2)), ("uniqueItems", json!(true))],
            );
            list
        }
        10 => {
            let slots = [schema(dice, depth - 1), schema(dice, depth - 1)];
            let mut tuple = json!({"type": "array", "prefixItems": slots});
            some_of(
                dice,
                &mut tuple,
                &[("minItems", json!(2)), ("maxItems", json!(2)), ("items", json!(false))],
            );
            tuple
        }
        11 => json!({"type": "object", "additionalProperties": schema(dice, depth - 1)}),
        12 => json!({"anyOf": [schema(dice, depth - 1), {"type": "null"}]}),
        13 => json!({"anyOf": [schema(dice, depth - 1), schema(dice, depth - 1)]}),
        14 => json!({"$ref": format!("#/$defs/{}", dice.pick(&["A", "B"]))}),
        15 => union(dice, depth - 1),
        16 => json!({"allOf": [object(dice, depth - 1), object(dice, depth - 1)]}),
        _ => object(dice, depth - 1),
    }
}

/// What no Rust type is described by, and what a file written by hand may say.
fn unusual(dice: &mut Dice, depth: usize) -> Value {
    let literals = [
        json!({"a": 1}),
        json!({"a": "A"}),
        json!({"a": {"b": 1.0}}),
        json!([1.0]),
        json!([1, "a"]),
        json!(1.0),
        json!(2.0),
        json!(1),
        Value::Null,
    ];
    let literal = |dice: &mut Dice| dice.pick(&literals).clone();
    let kinds = if depth == 0 { 6 } else { 14 };
    let below = depth.saturating_sub(1);
    match dice.below(kinds) {
        0 => json!({ "const": literal(dice) }),
        1 => json!({"enum": [literal(dice), literal(dice), dice.pick(&TEXTS)]}),
        2 => json!({"type": ["object", "null"], "enum": [literal(dice), literal(dice)]}),
        3 => {
            let mut number = json!({"type": "number", "multipleOf": dice.pick(&[1, 2, 5])});
            some_of(dice, &mut number, &[("minimum", json!(1)), ("maximum", json!(1))]);
            number
        }
        4 => json!({"const": literal(dice), "type": dice.pick(&["integer", "object", "array", "number"])}),
        5 => json!({"enum": [literal(dice), literal(dice)], "unevaluatedProperties": dice.chance(50)}),
        6 => {
            let mut list =
                json!({"type": "array", "items": schema(dice, below), "contains": schema(dice, below)});
            some_of(dice, &mut list, &[("minContains", json!(2)), ("maxContains", json!(1))]);
            list
        }
        7 => {
            let mut choice = object(dice, below);
            choice["if"] = object(dice, 0);
            choice["then"] = object(dice, below);
            if dice.chance(50) {
                choice["else"] = object(dice, below);
            }
            choice
        }
        8 => json!({"allOf": [object(dice, below), object(dice, below)], "unevaluatedProperties": false}),
        9 => json!({"type": "array", "prefixItems": [schema(dice, below)], "unevaluatedItems": false}),
        10 => {
            let mut named = object(dice, below);
            named["propertyNames"] = json!({"pattern": dice.pick(&PATTERNS)});
            named
        }
        11 => {
            let mut dependent = object(dice, below);
            dependent["dependentSchemas"] = json!({ "a": object(dice, below) });
            dependent
        }
        12 => {
            let mut patterns =
                json!({"type": "object", "patternProperties": {*dice.pick(&PATTERNS): schema(dice, below)}});
            some_of(dice, &mut patterns, &[("additionalProperties", json!(false))]);
            patterns
        }
        _ => {
            json!({"const": literal(dice), "properties": {"a": schema(dice, below)}, "items": schema(dice, below)})
        }
    }
}

fn some_of(dice: &mut Dice, schema: &mut Value, keywords: &[(&str, Value)]) {
    for (keyword, value) in keywords {
        if dice.chance(40) {
            schema[*keyword] = value.clone();
        }
    }
}

fn number(dice: &mut Dice) -> Value {
    let mut number = if dice.chance(75) { json!({"type": "integer"}) } else { json!({"type": "number"}) };
    if dice.chance(40) {
        number["format"] = json!(dice.pick(&INTEGERS));
    }
    let low = dice.below(4);
    some_of(
        dice,
        &mut number,
        &[("minimum", json!(low)), ("maximum", json!(low + 3)), ("exclusiveMinimum", json!(0))],
    );
    if dice.chance(10) {
        number["multipleOf"] = json!(dice.pick(&[2, 4, 6]));
    }
    number
}

fn text(dice: &mut Dice) -> Value {
    let mut text = json!({"type": "string"});
    match dice.below(6) {
        0 => text["format"] = json!(dice.pick(&FORMATS).0),
        1 => text["pattern"] = json!(dice.pick(&PATTERNS)),
        2 => some_of(dice, &mut text, &[("minLength", json!(1)), ("maxLength", json!(3))]),
        3 => text["enum"] = json!([dice.pick(&TEXTS), dice.pick(&TEXTS)]),
        _ => {}
    }
    text
}

fn object(dice: &mut Dice, depth: usize) -> Value {
    let mut members = Map::new();
    let mut required = BTreeSet::new();
    for _ in 0..=dice.below(3) {
        let name = dice.pick(&NAMES);
        members.insert((*name).to_owned(), schema(dice, depth.saturating_sub(1)));
        if dice.chance(55) {
            required.insert(*name);
        }
    }
    let mut object = json!({"type": "object", "properties": members, "required": required});
    match dice.below(12) {
        0 | 1 => object["additionalProperties"] = json!(false),
        2 => object["additionalProperties"] = schema(dice, 0),
        3 => object["patternProperties"] = json!({ "^\\d+$": schema(dice, 0) }),
        4 => object["unevaluatedProperties"] = json!(false),
        5 => object["minProperties"] = json!(1),
        6 => object["dependentRequired"] = json!({"a": ["b"]}),
        _ => {}
    }
    object
}

/// One of serde's taggings.
fn union(dice: &mut Dice, depth: usize) -> Value {
    let tags = ["A", "B", "C"];
    let count = 2 + dice.below(2);
    let style = dice.below(4);
    let variants: Vec<Value> = tags[..count]
        .iter()
        .map(|tag| match style {
            0 => {
                let content = schema(dice, depth.saturating_sub(1));
                json!({"type": "object", "properties": {*tag: content}, "required": [tag], "additionalProperties": false})
            }
            1 => {
                let mut variant = object(dice, depth);
                variant["properties"]["t"] = json!({"type": "string", "const": tag});
                variant["required"].as_array_mut().unwrap().push(json!("t"));
                variant
            }
            2 => json!({
                "type": "object", "properties": {"t": {"const": tag}, "c": schema(dice, depth.saturating_sub(1))},
                "required": ["t", "c"],
            }),
            _ => object(dice, depth),
        })
        .collect();
    let keyword = if style == 3 { *dice.pick(&["anyOf", "oneOf"]) } else { "oneOf" };
    json!({ keyword: variants })
}

/// Changes a random part of a document.
fn mutate(dice: &mut Dice, document: &mut Value) {
    let mut places = Vec::new();
    crate::document::for_each_schema(document, "", &mut |pointer, _| places.push(pointer.to_owned()));
    let pointer = dice.pick(&places).clone();
    let Some(place) = document.pointer_mut(&pointer) else { return };
    let fresh = schema(dice, 1);
    let Some(schema) = place.as_object_mut() else { return };
    let name = *dice.pick(&NAMES);
    let members =
        schema.get("properties").and_then(Value::as_object).map(|m| m.keys().cloned().collect::<Vec<_>>());
    match (dice.below(14), members) {
        (0..=2, Some(_)) => {
            schema["properties"][name] = fresh;
            if dice.chance(30)
                && let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut)
                && !required.contains(&json!(name))
            {
                required.push(json!(name));
            }
        }
        (3 | 4, Some(members)) if !members.is_empty() => {
            let gone = dice.pick(&members).clone();
            schema.get_mut("properties").and_then(Value::as_object_mut).unwrap().remove(&gone);
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| *name != json!(gone));
            }
        }
        (5 | 6, Some(members)) if !members.is_empty() => {
            let name = json!(dice.pick(&members));
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                match required.iter().position(|known| *known == name) {
                    Some(at) => drop(required.remove(at)),
                    None => required.push(name),
                }
            }
        }
        (7, Some(_)) => {
            let rest = [json!(false), json!(true), fresh][dice.below(3)].clone();
            schema.insert("additionalProperties".to_owned(), rest);
        }
        (8, _) => {
            for keyword in ["minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"] {
                if let Some(limit) = schema.get(keyword).and_then(Value::as_u64) {
                    schema[keyword] = json!((limit + dice.next() % 3).saturating_sub(1));
                }
            }
        }
        (9, _) => {
            for keyword in ["anyOf", "oneOf", "enum", "prefixItems", "allOf"] {
                if let Some(list) = schema.get_mut(keyword).and_then(Value::as_array_mut) {
                    match dice.below(3) {
                        0 if list.len() > 1 => drop(list.remove(dice.below(list.len()))),
                        1 => list.reverse(),
                        _ if keyword == "enum" => list.push(json!(dice.pick(&TEXTS))),
                        _ => list.push(fresh.clone()),
                    }
                }
            }
        }
        (10, _) => {
            if let Some(format) = schema.get_mut("format") {
                *format = json!(dice.pick(&INTEGERS));
            } else if schema.get("type") == Some(&json!("string")) {
                schema.insert("format".to_owned(), json!(dice.pick(&FORMATS).0));
            }
        }
        (11, _) => {
            let inner = Value::Object(schema.clone());
            if !pointer.is_empty() {
                *place = json!({"anyOf": [inner, {"type": "null"}]});
            }
        }
        (12, _) => {
            for keyword in [
                "additionalProperties",
                "unevaluatedProperties",
                "pattern",
                "format",
                "uniqueItems",
                "maxItems",
            ] {
                if schema.contains_key(keyword) && dice.chance(50) {
                    schema.remove(keyword);
                }
            }
        }
        _ => {
            if !pointer.is_empty() && pointer != "/$defs/B" {
                *place = fresh;
            }
        }
    }
}

/// How a schema is read by the oracle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Reader,
    /// As a writer, and closed here.
    Writer,
    /// As a writer, and closed by what it is a part of.
    Part,
}

/// JSON Schema as far as the generator speaks it, once more and plainly.
struct Oracle<'a> {
    root: &'a Value,
    /// A member counts as declared wherever some branch declares it, also where another branch holds: the most that a
    /// writer may write, instead of the least.
    most: bool,
}

impl Oracle<'_> {
    fn accepts(&self, schema: &Value, value: &Value, mode: Mode, depth: u32) -> bool {
        let Value::Object(schema) = schema else { return *schema == json!(true) };
        if depth > 40 {
            return false;
        }
        let in_place = if mode == Mode::Reader { Mode::Reader } else { Mode::Part };
        // A member that two schemas describe may have what either declares.
        let shared = mode == Mode::Part
            || ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"]
                .iter()
                .any(|keyword| schema.contains_key(*keyword));
        let below = if mode == Mode::Reader || self.most && shared { Mode::Reader } else { Mode::Writer };
        let here = |schema: &Value, mode: Mode| self.accepts(schema, value, mode, depth + 1);
        let there = |schema: &Value, value: &Value| self.accepts(schema, value, below, depth + 1);
        let keyword = |name: &str| schema.get(name);
        let count = |name: &str| keyword(name).and_then(Value::as_u64);
        let list =
            |name: &str| keyword(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let number = Decimal::of_value(value);
        let has_type = |name: &str| match name {
            "integer" => number.is_some_and(Decimal::is_integer) && !has_fraction(value),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            _ => value.is_object(),
        };
        let fits = match keyword("type") {
            None => true,
            Some(Value::String(name)) => has_type(name),
            Some(names) => names.as_array().unwrap().iter().any(|name| has_type(name.as_str().unwrap())),
        } && keyword("const").is_none_or(|only| same_value(only, value))
            && keyword("enum").is_none_or(|_| list("enum").iter().any(|known| same_value(known, value)))
            && keyword("not").is_none_or(|not| !here(not, Mode::Reader))
            && list("allOf").iter().all(|part| here(part, in_place))
            && keyword("anyOf").is_none_or(|_| list("anyOf").iter().any(|branch| here(branch, in_place)))
            && keyword("oneOf").is_none_or(|_| {
                list("oneOf").iter().filter(|branch| here(branch, Mode::Reader)).count() == 1
                    && list("oneOf").iter().any(|branch| here(branch, in_place))
            })
            && keyword("$ref").is_none_or(|target| here(self.target(target), in_place))
            && keyword("if").is_none_or(|condition| {
                let next = if here(condition, Mode::Reader) { "then" } else { "else" };
                keyword(next).is_none_or(|schema| here(schema, in_place))
            });
        if !fits {
            return false;
        }
        let typed_integer = keyword("type").is_none_or(|t| *t == json!("integer"));
        match value {
            Value::Number(_) => {
                let n = number.unwrap();
                let bound = |name: &str| keyword(name).and_then(Decimal::of_value);
                let range =
                    keyword("format").and_then(|format| RANGES.iter().find(|(name, ..)| format == name));
                bound("minimum").is_none_or(|min| n >= min)
                    && bound("maximum").is_none_or(|max| n <= max)
                    && bound("exclusiveMinimum").is_none_or(|min| n > min)
                    && bound("multipleOf").is_none_or(|step| n.is_multiple_of(step) == Some(true))
                    && range.is_none_or(|&(_, min, max)| {
                        !typed_integer
                            || n.is_integer()
                                && !value.is_f64()
                                && n >= Decimal::of_i128(min)
                                && n <= Decimal::of_u128(max)
                    })
            }
            Value::String(text) => {
                let length = text.chars().count() as u64;
                count("minLength").is_none_or(|min| length >= min)
                    && count("maxLength").is_none_or(|max| length <= max)
                    && keyword("pattern").is_none_or(|pattern| matches(pattern.as_str().unwrap(), text))
                    && keyword("format").is_none_or(|format| match format.as_str().unwrap() {
                        "ip" => text.parse::<std::net::IpAddr>().is_ok(),
                        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
                        "uuid" => text.len() == 36,
                        "date" => text.len() == 10,
                        _ => true,
                    })
            }
            Value::Array(values) => {
                let slots = list("prefixItems");
                count("minItems").is_none_or(|min| values.len() as u64 >= min)
                    && count("maxItems").is_none_or(|max| values.len() as u64 <= max)
                    && (keyword("uniqueItems") != Some(&json!(true))
                        || values
                            .iter()
                            .enumerate()
                            .all(|(i, a)| !values[..i].iter().any(|b| same_value(a, b))))
                    && values.iter().enumerate().all(|(i, value)| {
                        let rest = keyword("items").or(keyword("unevaluatedItems"));
                        slots.get(i).or(rest).is_none_or(|schema| there(schema, value))
                    })
                    && keyword("contains").is_none_or(|one| {
                        let fits = |value: &&Value| self.accepts(one, value, Mode::Reader, depth + 1);
                        let found = values.iter().filter(fits).count() as u64;
                        found >= count("minContains").unwrap_or(1)
                            && count("maxContains").is_none_or(|max| found <= max)
                    })
            }
            Value::Object(members) => {
                let named = |name: &str| keyword(name).and_then(Value::as_object);
                let patterns = || named("patternProperties").into_iter().flatten();
                let evaluated =
                    keyword("unevaluatedProperties").map(|_| self.declared(schema, value, depth, false));
                list("required").iter().all(|name| members.contains_key(name.as_str().unwrap()))
                    && count("minProperties").is_none_or(|min| members.len() as u64 >= min)
                    && named("dependentRequired").into_iter().flatten().all(|(name, needed)| {
                        !members.contains_key(name)
                            || needed
                                .as_array()
                                .unwrap()
                                .iter()
                                .all(|n| members.contains_key(n.as_str().unwrap()))
                    })
                    && named("dependentSchemas")
                        .into_iter()
                        .flatten()
                        .all(|(name, schema)| !members.contains_key(name) || here(schema, in_place))
                    && keyword("propertyNames").is_none_or(|names| {
                        let fits = |name: &String| self.accepts(names, &json!(name), Mode::Reader, depth + 1);
                        members.keys().all(fits)
                    })
                    && members.iter().all(|(name, value)| {
                        let declared = named("properties").and_then(|members| members.get(name));
                        let mut known = declared.is_some();
                        let mut fits = declared.is_none_or(|schema| there(schema, value));
                        for (_, schema) in patterns().filter(|(pattern, _)| matches(pattern, name)) {
                            known = true;
                            fits &= there(schema, value);
                        }
                        if !known && let Some(rest) = keyword("additionalProperties") {
                            fits &= there(rest, value);
                        }
                        let hidden = evaluated.as_ref().is_some_and(|known| !known.covers(name));
                        fits && !(hidden && keyword("unevaluatedProperties") == Some(&json!(false)))
                    })
                    && (mode != Mode::Writer || {
                        let known = self.declared(schema, value, depth, self.most);
                        !known.object
                            || known.literal
                            || known.explicit
                            || members.keys().all(|name| known.covers(name))
                    })
            }
            _ => true,
        }
    }

    fn target(&self, target: &Value) -> &Value {
        self.root.pointer(target.as_str().unwrap().strip_prefix('#').unwrap()).unwrap()
    }

    /// What a schema declares, by the branches that the value fits: the least that a writer may write.
    fn declared(&self, schema: &Map<String, Value>, value: &Value, depth: u32, most: bool) -> Known {
        let mut known = Known::default();
        let names = |keyword: &str| -> Vec<String> {
            schema
                .get(keyword)
                .and_then(Value::as_object)
                .map(|m| m.keys().cloned().collect())
                .unwrap_or_default()
        };
        known.names.extend(names("properties"));
        known.patterns.extend(names("patternProperties"));
        known.object = schema.get("type") == Some(&json!("object")) || schema.contains_key("properties");
        known.explicit = schema.contains_key("additionalProperties");
        let list = |name: &str| schema.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut parts = list("allOf");
        parts.extend(schema.get("$ref").map(|target| self.target(target).clone()));
        for keyword in ["anyOf", "oneOf"] {
            let fits = |b: &Value| most || self.accepts(b, value, Mode::Reader, depth + 1);
            parts.extend(list(keyword).into_iter().filter(fits));
        }
        if let Some(condition) = schema.get("if") {
            let holds = self.accepts(condition, value, Mode::Reader, depth + 1);
            let used: &[&str] = match holds {
                _ if most => &["if", "then", "else"],
                true => &["if", "then"],
                false => &["else"],
            };
            parts.extend(used.iter().filter_map(|keyword| schema.get(*keyword)).cloned());
        }
        for (name, part) in schema.get("dependentSchemas").and_then(Value::as_object).into_iter().flatten() {
            if most || value.get(name).is_some() {
                parts.push(part.clone());
            }
        }
        // The most that a writer may write: where it is not told what is declared, anything.
        let untold = ["if", "dependentSchemas", "unevaluatedProperties"];
        known.explicit |= most && untold.iter().any(|keyword| schema.contains_key(*keyword));
        known.literal = schema.contains_key("const") || schema.contains_key("enum");
        for part in parts {
            if let Value::Object(part) = part
                && depth < 40
            {
                let theirs = self.declared(&part, value, depth + 1, most);
                known.literal |= theirs.literal;
                known.names.extend(theirs.names);
                known.patterns.extend(theirs.patterns);
                known.object |= theirs.object;
                known.explicit |= theirs.explicit;
            }
        }
        known
    }
}

/// As the Rust types have it, 1.0 is no integer; what is beyond 64 bits has no other form.
fn has_fraction(value: &Value) -> bool {
    value.is_f64() && value.as_f64().is_some_and(|n| n >= i64::MIN as f64 && n < u64::MAX as f64)
}

#[derive(Default)]
struct Known {
    names: BTreeSet<String>,
    patterns: BTreeSet<String>,
    object: bool,
    explicit: bool,
    /// A literal has the members that it has.
    literal: bool,
}

impl Known {
    fn covers(&self, name: &str) -> bool {
        self.explicit
            || self.names.contains(name)
            || self.patterns.iter().any(|pattern| matches(pattern, name))
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^\\d+$" => !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()),
        "^[A-Z]+$" => !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase()),
        _ => text.starts_with('a'),
    }
}

/// Values near a schema, with the edges of both.
struct Values<'a> {
    root: &'a Value,
    numbers: Vec<Value>,
    texts: Vec<Value>,
}

impl<'a> Values<'a> {
    fn of(root: &'a Value, other: &Value) -> Self {
        let mut numbers: Vec<Value> = [0, 1, 2, 4, 6, 12, 127, 128, 255, 256].map(Value::from).into();
        numbers.extend([
            json!(0.5),
            json!(-1),
            json!(2_147_483_648_u64),
            json!(4_294_967_296_u64),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(5),
            json!(1.0),
            json!(2.0),
            json!(5.0),
        ]);
        let mut texts: Vec<Value> = TEXTS.map(Value::from).into();
        texts.extend(FORMATS.map(|(_, sample)| Value::from(sample)));
        texts.push("toolong".into());
        let mut collect = |_: &str, schema: &Map<String, Value>| {
            for keyword in ["minimum", "maximum", "exclusiveMinimum"] {
                if let Some(limit) = schema.get(keyword).and_then(Value::as_i64) {
                    numbers.extend([limit - 1, limit, limit + 1].map(Value::from));
                }
            }
        };
        crate::document::for_each_schema(root, "", &mut collect);
        crate::document::for_each_schema(other, "", &mut collect);
        Self { root, numbers, texts }
    }

    fn make(&self, dice: &mut Dice, schema: &Value, depth: usize) -> Value {
        let Value::Object(schema) = schema else { return self.any(dice) };
        if depth == 0 {
            return self.any(dice);
        }
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        for keyword in ["enum", "anyOf", "oneOf"] {
            if let Some(Value::Array(list)) = schema.get(keyword)
                && !list.is_empty()
            {
                let one = dice.pick(list);
                let made = if keyword == "enum" { one.clone() } else { self.make(dice, one, depth - 1) };
                return self.with_members(dice, schema, made, depth);
            }
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(&target[1..]).unwrap();
            return self.make(dice, target, depth - 1);
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            let mut made = json!({});
            for part in parts {
                if let (Value::Object(made), Value::Object(more)) =
                    (&mut made, self.make(dice, part, depth - 1))
                {
                    made.extend(more);
                }
            }
            return made;
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => dice.pick(kinds).as_str().unwrap().to_owned(),
            Some(kind) => kind.as_str().unwrap().to_owned(),
            None => return self.any(dice),
        };
        match kind.as_str() {
            "integer" | "number" => dice.pick(&self.numbers).clone(),
            "string" => dice.pick(&self.texts).clone(),
            "boolean" => json!(dice.chance(50)),
            "null" => Value::Null,
            "array" => {
                let slots = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                let length = if dice.chance(70) { slots.max(dice.below(3)) } else { dice.below(4) };
                let item = |i: usize| {
                    schema
                        .get("prefixItems")
                        .and_then(|slots| slots.get(i))
                        .or(schema.get("items"))
                        .unwrap_or(&Value::Bool(true))
                };
                let wanted = schema.get("contains");
                (0..length)
                    .map(|i| match wanted {
                        Some(one) if dice.chance(40) => self.make(dice, one, depth - 1),
                        _ => self.make(dice, item(i), depth - 1),
                    })
                    .collect()
            }
            _ => self.with_members(dice, schema, json!({}), depth),
        }
    }

    fn with_members(&self, dice: &mut Dice, schema: &Map<String, Value>, made: Value, depth: usize) -> Value {
        let Value::Object(mut made) = made else { return made };
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&json!(name)) || dice.chance(50) {
                made.insert(name.clone(), self.make(dice, member, depth - 1));
            }
        }
        let dependent = schema.get("dependentSchemas").and_then(|named| named.get("a"));
        for part in
            ["if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword)).chain(dependent)
        {
            if dice.chance(50)
                && let Value::Object(more) = self.make(dice, part, depth - 1)
            {
                more.into_iter().for_each(|(name, value)| {
                    made.entry(name).or_insert(value);
                });
            }
        }
        if dice.chance(30) {
            let name = *dice.pick(&["a", "b", "c", "1", "7", "A", "zz"]);
            let pattern = schema.get("patternProperties").and_then(Value::as_object).and_then(|named| {
                named.iter().find(|(pattern, _)| matches(pattern, name)).map(|(_, schema)| schema)
            });
            let rest = pattern.or(schema.get("additionalProperties")).cloned().unwrap_or(json!(true));
            made.entry(name).or_insert_with(|| self.make(dice, &rest, 2));
        }
        Value::Object(made)
    }

    fn any(&self, dice: &mut Dice) -> Value {
        match dice.below(6) {
            0 => Value::Null,
            1 => dice.pick(&self.numbers).clone(),
            2 => dice.pick(&self.texts).clone(),
            3 => json!([dice.pick(&self.numbers)]),
            4 => json!({}),
            _ => json!({"a": dice.pick(&self.texts)}),
        }
    }
}

/// Seeds that are the same in every run, and some that are new in each.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let new = RandomState::new().hash_one(count) >> 1;
    (0..count).chain(new..new + count / 20)
}

fn pair(seed: u64) -> (Value, Value) {
    let mut dice = Dice(seed);
    let old = document(&mut dice);
    let mut new = old.clone();
    for _ in 0..=dice.below(2) {
        mutate(&mut dice, &mut new);
    }
    (old, new)
}

/// A value that the writer can write and the reader refuses, if one is found.
fn counterexample(dice: &mut Dice, writer: &Value, reader: &Value) -> Option<Value> {
    let values = Values::of(writer, reader);
    let (from, to) = (Oracle { root: writer, most: false }, Oracle { root: reader, most: false });
    (0..VALUES).map(|_| values.make(dice, writer, 6)).find(|value| {
        from.accepts(writer, value, Mode::Writer, 0) && !to.accepts(reader, value, Mode::Reader, 0)
    })
}

#[test]
fn what_is_proved_has_no_counterexample() {
    let mut proofs = 0;
    let mut refuted = 0;
    for seed in seeds(PAIRS) {
        let (old, new) = pair(seed);
        let mut dice = Dice(seed ^ 0x5EED);
        let mut world = World::new();
        let (from, to) = (world.document(&old), world.document(&new));
        let mut same = Sameness::default();
        let backward = prove(&mut world, &mut same, Direction::Backward, from, to).is_ok();
        let forward = prove(&mut world, &mut same, Direction::Forward, to, from).is_ok();
        for (proved, writer, reader) in [(backward, &old, &new), (forward, &new, &old)] {
            let found = counterexample(&mut dice, writer, reader);
            proofs += u64::from(proved);
            refuted += u64::from(found.is_some());
            assert!(
                !proved || found.is_none(),
                "seed {seed}: {} breaks what was proved\nwriter: {writer}\nreader: {reader}",
                found.unwrap_or_default()
            );
        }
    }
    assert!(
        proofs > PAIRS / 2 && refuted > PAIRS / 8,
        "the run shows little: {proofs} proofs, {refuted} refuted"
    );
}

#[test]
fn provers_and_payloads_agree() {
    let (mut asked, mut verdicts) = ([0; 3], [0; 3]);
    for seed in seeds(FULL_PAIRS) {
        let (old, new) = pair(seed);
        let comparison = compare(&old, &new);
        let swapped = compare(&new, &old);
        assert_eq!(
            (comparison.backward, comparison.forward),
            (swapped.forward, swapped.backward),
            "seed {seed}"
        );
        for (direction, writer, reader) in
            [(Direction::Backward, &old, &new), (Direction::Forward, &new, &old)]
        {
            let mut world = World::new();
            let (from, to) = (world.document(writer), world.document(reader));
            let answer =
                Canonical::of(&mut world, from, to).map_or(Answer::Unknown, |second| second.covers());
            let verdict = comparison.verdict(direction);
            asked[answer as usize] += 1;
            verdicts[verdict as usize] += 1;
            let wrong = match verdict {
                Verdict::Compatible => {
                    answer == Answer::No || counterexample(&mut Dice(seed), writer, reader).is_some()
                }
                Verdict::Breaking | Verdict::Undecided => answer == Answer::Yes,
            };
            assert!(
                !wrong,
                "seed {seed}, {direction:?}: {verdict:?} against {answer:?}\nold: {old}\nnew: {new}\n{comparison:?}"
            );
            let (from, to) = (Oracle { root: writer, most: true }, Oracle { root: reader, most: true });
            for finding in comparison.findings.iter().filter(|finding| finding.direction == Some(direction)) {
                assert_ne!(finding.rule, Rule::InternalDisagreement, "seed {seed}\nold: {old}\nnew: {new}");
                // What a schema means that leads back to itself for the same value is not agreed on: to the validator it is
                // everything, to the oracle nothing.
                if let Some(witness) = &finding.witness
                    && !is_circular(writer)
                    && !is_circular(reader)
                {
                    let shows = from.accepts(writer, witness, Mode::Writer, 0)
                        && !to.accepts(reader, witness, Mode::Reader, 0);
                    assert!(
                        shows,
                        "seed {seed}: {witness} shows nothing\nwriter: {writer}\nreader: {reader}"
                    );
                }
            }
        }
    }
    assert!(asked.iter().all(|n| *n > FULL_PAIRS / 20), "{asked:?}");
    let [compatible, undecided, breaking] = verdicts;
    assert!(compatible > FULL_PAIRS / 3 && breaking > FULL_PAIRS / 3, "{verdicts:?}");
    assert!(undecided * 5 < compatible + breaking, "too much is left open: {verdicts:?}");
}

#[test]
fn what_has_no_meaning_does_not_matter() {
    let proved = |writer: &Value, reader: &Value| {
        let mut world = World::new();
        let (from, to) = (world.document(writer), world.document(reader));
        prove(&mut world, &mut Sameness::default(), Direction::Backward, from, to).is_ok()
    };
    for seed in 0..PAIRS / 20 {
        let (old, new) = pair(seed);
        assert!(proved(&old, &old), "seed {seed}: {old}");
        assert!(compare(&new, &dressed(&new)).is_full(), "seed {seed}: {new}");
        assert_eq!(proved(&old, &new), proved(&old, &dressed(&new)), "seed {seed}\nold: {old}\nnew: {new}");
        assert_eq!(proved(&new, &old), proved(&dressed(&new), &old), "seed {seed}\nold: {old}\nnew: {new}");
    }
}

/// The same document with annotations, other names of definitions, and its members the other way round.
fn dressed(schema: &Value) -> Value {
    let renamed = schema.to_string().replace("#/$defs/", "#/$defs/New");
    let mut document: Value = serde_json::from_str(&renamed).unwrap();
    let definitions = document["$defs"].as_object().unwrap().clone();
    document["$defs"] = definitions.into_iter().map(|(name, body)| (format!("New{name}"), body)).collect();
    let mut places = Vec::new();
    crate::document::for_each_schema(&document, "", &mut |pointer, _| places.push(pointer.to_owned()));
    for place in places {
        let schema = document.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        schema.insert("description".to_owned(), json!("said"));
        let reversed: Vec<_> = std::mem::take(schema).into_iter().rev().collect();
        schema.extend(reversed);
    }
    document
}
