//! The second prover: the canonical form of the JSON Schema engine, behind a trait of its own. It works in another way
//! than ours, so each can show the other's mistakes. Its interface is experimental, hence the exact version.

use std::collections::BTreeSet;

use jsonschema::canonical::{self, CanonicalSchema, Containment};
use jsonschema::{Draft, PatternOptions};
use serde_json::{Map, Value, json};

use super::lower::{OBJECT, WHOLE, types};
use super::world::{Loc, World};
use crate::document::{OPEN_ENUM, Place, is_annotation, place};
use crate::formats::RANGES;

/// How deep schemas are followed.
const MAX_DEPTH: u32 = 100;

/// The keywords that the engine takes as this one does.
const KEYWORDS: &[&str] = &[
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];

/// What another way to decide inclusion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Unknown,
}

/// Another way to decide whether a reader accepts everything that a writer writes.
pub(super) trait SecondProver {
    fn covers(&self) -> Answer;
    /// A schema of what the reader refuses of the writer's values.
    fn lost(&self) -> Option<Value>;
}

/// Both sides in canonical form.
pub(super) struct Canonical {
    writer: CanonicalSchema,
    reader: CanonicalSchema,
}

impl Canonical {
    /// `None` if a schema is beyond what the canonical form can say.
    pub(super) fn of(world: &mut World<'_>, writer: Loc, reader: Loc) -> Option<Self> {
        let form = |schema: &Value| {
            canonical::options()
                .with_draft(Draft::Draft202012)
                .offline()
                .should_validate_formats(true)
                .with_pattern_options(PatternOptions::regex())
                .canonicalize(schema)
                .ok()
        };
        let mut lower = |root, closing| {
            let mut lowering = Lowering { world, closing, strange: false, queue: Vec::new() };
            let lowered = lowering.document(root);
            (!lowering.strange).then_some(lowered)
        };
        let (writer, reader) = (lower(writer, true)?, lower(reader, false)?);
        Some(Self { writer: form(&writer)?, reader: form(&reader)? })
    }
}

impl SecondProver for Canonical {
    fn covers(&self) -> Answer {
        match self.reader.covers(&self.writer) {
            Ok(Containment::Yes) => Answer::Yes,
            Ok(Containment::No) => Answer::No,
            Ok(Containment::Unknown) | Err(_) => Answer::Unknown,
        }
    }

    fn lost(&self) -> Option<Value> {
        self.writer.subtract(&self.reader).ok().map(|lost| lost.to_json_schema())
    }
}

/// Rewrites a document for the engine: ranges for integer formats, the writer's closure, no reference to the root. A
/// schema becomes a definition in up to two forms: as a value of its own, which is closed, and as a part of a larger
/// one, which is closed there.
struct Lowering<'w, 'a> {
    world: &'w mut World<'a>,
    closing: bool,
    /// There is something that the engine would pass over.
    strange: bool,
    queue: Vec<(Loc, bool)>,
}

/// The members that an object declares, with everything that applies to the same value.
#[derive(Clone, Default)]
struct Declared<'a> {
    names: BTreeSet<&'a str>,
    patterns: BTreeSet<&'a str>,
    unions: Vec<Vec<Loc>>,
    /// It speaks of objects.
    object: bool,
    /// It says itself what else there may be.
    explicit: bool,
}

impl<'a> Lowering<'_, 'a> {
    fn document(&mut self, root: Loc) -> Value {
        let mut definitions = Map::new();
        let start = self.reference(root, self.closing);
        let mut done = 0;
        while let Some((loc, closing)) = self.queue.get(done).copied() {
            done += 1;
            let name = definition(loc, closing);
            let schema = self.schema(loc, closing, self.closing, 0);
            definitions.insert(name, schema);
        }
        json!({ "$ref": start, "$defs": definitions })
    }

    fn reference(&mut self, target: Loc, closed: bool) -> Value {
        if !self.queue.contains(&(target, closed)) {
            self.queue.push((target, closed));
        }
        json!(format!("#/$defs/{}", definition(target, closed)))
    }

    /// `closed`: as a value of its own. `closing`: values below are closed.
    fn schema(&mut self, loc: Loc, closed: bool, closing: bool, depth: u32) -> Value {
        let Some(schema) = self.world.object(loc) else { return self.world.schema(loc).clone() };
        let mut lowered = Map::new();
        let mut all = Vec::new();
        for (keyword, value) in schema {
            let left_out = is_annotation(keyword)
                || matches!(keyword.as_str(), "$defs" | "definitions" | "default" | "$id" | OPEN_ENUM);
            // A writer of an open enum knows less than its schema allows; unknown keywords say nothing to the engine.
            self.strange |= depth > MAX_DEPTH
                || keyword == OPEN_ENUM && self.closing
                || !left_out && !KEYWORDS.contains(&keyword.as_str());
            if left_out || depth > MAX_DEPTH {
                continue;
            }
            let (closed, closing) = match keyword.as_str() {
                "not" | "if" | "contains" => (false, false),
                "allOf" | "anyOf" | "oneOf" | "then" | "else" | "dependentSchemas" => (false, closing),
                _ => (closing, closing),
            };
            let value = match (place(keyword), value) {
                (Place::Schema, value) => {
                    let child = self.world.child(loc, value, keyword, None);
                    self.schema(child, closed, closing, depth + 1)
                }
                (Place::List, Value::Array(list)) => {
                    let mut lowered = Vec::new();
                    for (i, value) in list.iter().enumerate() {
                        let child = self.world.child_at(loc, value, keyword, i);
                        lowered.push(self.schema(child, closed, closing, depth + 1));
                    }
                    Value::Array(lowered)
                }
                (Place::Named, Value::Object(named)) => {
                    let mut lowered = Map::new();
                    for (name, value) in named {
                        let child = self.world.child(loc, value, keyword, Some(name));
                        lowered.insert(name.clone(), self.schema(child, closed, closing, depth + 1));
                    }
                    Value::Object(lowered)
                }
                (_, Value::String(target)) if keyword == "$ref" => match self.world.referred(loc, target) {
                    Some(target) => self.reference(target, false),
                    None => value.clone(),
                },
                (_, Value::String(format)) if keyword == "format" => {
                    let typed =
                        types(schema).is_some_and(|kinds| kinds & WHOLE != 0) || !schema.contains_key("type");
                    match RANGES.iter().find(|(name, ..)| name == format) {
                        // Beyond 64 bits the engine has no exact numbers; a writer is freer without, a reader is not.
                        Some(&(_, min, max)) => {
                            let ends = (i64::try_from(min), u64::try_from(max));
                            match ends {
                                (Ok(min), Ok(max)) if typed => {
                                    all.push(json!({"minimum": min, "maximum": max}));
                                    if !schema.contains_key("type") && !self.closing {
                                        all.push(json!({"anyOf": [{"not": {"type": "number"}}, {"type": "integer"}]}));
                                    }
                                }
                                _ if typed && !self.closing => all.push(json!({"format": "outbox-unknown"})),
                                _ => {}
                            }
                            continue;
                        }
                        None if matches!(format.as_str(), "float" | "double") => continue,
                        None => value.clone(),
                    }
                }
                (_, value) => value.clone(),
            };
            lowered.insert(keyword.clone(), value);
        }
        if closed && self.closing {
            all.extend(self.closure(loc, &Declared::default()));
        }
        if all.is_empty() {
            return Value::Object(lowered);
        }
        all.insert(0, Value::Object(lowered));
        json!({ "allOf": all })
    }

    /// A schema that refuses undeclared members; `None` if there may be some.
    fn closure(&mut self, loc: Loc, around: &Declared<'a>) -> Option<Value> {
        let mut declared = Declared { unions: Vec::new(), ..around.clone() };
        self.declared(loc, &mut declared, 0);
        if let [branches] = declared.unions.clone().as_slice()
            && !declared.explicit
            && self.world.are_apart(branches)
        {
            let mut closed = Vec::new();
            for branch in branches {
                let mut all = vec![json!({ "$ref": self.reference(*branch, false) })];
                all.extend(self.closure(*branch, &declared));
                closed.push(json!({ "allOf": all }));
            }
            return Some(json!({ "anyOf": closed }));
        }
        let mut rounds = 0;
        while let Some(branches) = declared.unions.pop() {
            rounds += 1;
            if rounds > 1_000 {
                return None;
            }
            for branch in branches {
                self.declared(branch, &mut declared, 0);
            }
        }
        if declared.explicit || !declared.object {
            return None;
        }
        let any = |names: &BTreeSet<&str>| {
            names.iter().map(|name| ((*name).to_owned(), json!(true))).collect::<Map<_, _>>()
        };
        Some(json!({
            "properties": any(&declared.names), "patternProperties": any(&declared.patterns), "additionalProperties": false,
        }))
    }

    fn declared(&mut self, loc: Loc, declared: &mut Declared<'a>, depth: u32) {
        let Some(schema) = self.world.object(loc) else { return };
        if depth > MAX_DEPTH {
            declared.explicit = true;
            return;
        }
        let named =
            |keyword: &str| schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::keys);
        declared.names.extend(named("properties").map(String::as_str));
        declared.patterns.extend(named("patternProperties").map(String::as_str));
        declared.object |= schema.contains_key("properties")
            || schema.contains_key("patternProperties")
            || schema.contains_key("type") && types(schema).is_some_and(|kinds| kinds & OBJECT != 0);
        // What is declared under a condition may be there.
        declared.explicit |= ["additionalProperties", "unevaluatedProperties", "if", "dependentSchemas"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword));
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && let Some(target) = self.world.referred(loc, target)
        {
            self.declared(target, declared, depth + 1);
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(Value::Array(parts)) = schema.get(keyword) else { continue };
            let parts: Vec<Loc> = parts
                .iter()
                .enumerate()
                .map(|(i, part)| self.world.child_at(loc, part, keyword, i))
                .collect();
            if keyword == "allOf" {
                parts.into_iter().for_each(|part| self.declared(part, declared, depth + 1));
            } else {
                declared.unions.push(parts);
            }
        }
    }
}

fn definition(loc: Loc, closed: bool) -> String {
    format!("{}{loc}", if closed { "closed" } else { "part" })
}
