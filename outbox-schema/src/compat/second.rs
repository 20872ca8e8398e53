//! The second prover: the canonical form of the JSON Schema engine, behind a trait of its own. It works in another way
//! than ours, so each can show the other's mistakes. Its interface is experimental, hence the exact version.

use std::collections::{BTreeSet, HashSet};

use jsonschema::canonical::{self, CanonicalSchema, Containment};
use jsonschema::{Draft, PatternOptions};
use serde_json::{Map, Value, json};

use super::lower::{ANY, NUMBER, OBJECT, WHOLE, types};
use super::world::{Loc, World};
use crate::branching::Branches;
use crate::document::{OPEN_ENUM, Place, for_each_schema, is_annotation, place};
use crate::formats::RANGES;

/// How deep schemas are followed.
const MAX_DEPTH: u32 = 100;
/// How many unions are closed, one inside the other.
const MAX_CLOSURES: u32 = 1_000;
/// How many alternatives one union may have: the engine compares them all with all, more than once.
const MAX_UNION: usize = 12;
/// How many schemas a document may have: the engine has no limit of time of its own.
const MAX_SCHEMAS: u32 = 400;

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

/// The formats that the engine knows, as the validator does.
const FORMATS: [&str; 8] = ["date", "date-time", "email", "ipv4", "ipv6", "time", "uri", "uuid"];

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
    /// The writer is taken for freer than it is, so that a value which it cannot write may be what is refused.
    wider: bool,
    /// To the engine `1.0` is an integer, to the validator it is none, and it may matter here.
    blurred: bool,
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
        if [writer, reader].into_iter().any(|root| is_circular(world.schema(root))) {
            return None;
        }
        let mut lower = |root, closing| {
            let mut lowering = Lowering::new(world, closing);
            let lowered = lowering.document(root);
            (!lowering.strange).then_some((lowered, lowering.integers, lowering.fractions, lowering.wider))
        };
        let (writer, integers, fractions, wider) = lower(writer, true)?;
        let (reader, their_integers, _, _) = lower(reader, false)?;
        let blurred = (integers || their_integers) && fractions;
        Some(Self { writer: form(&writer)?, reader: form(&reader)?, wider, blurred })
    }
}

impl SecondProver for Canonical {
    fn covers(&self) -> Answer {
        match self.reader.covers(&self.writer) {
            Ok(Containment::Yes) if !self.blurred => Answer::Yes,
            Ok(Containment::No) if !self.wider => Answer::No,
            Ok(_) | Err(_) => Answer::Unknown,
        }
    }

    fn lost(&self) -> Option<Value> {
        self.writer.subtract(&self.reader).ok().map(|lost| lost.to_json_schema())
    }
}

/// In which form a schema becomes a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    /// As a value of its own: closed, and so is what it holds.
    Closed,
    /// As a part of a larger schema, which is closed there; what it holds is closed.
    Part,
    /// As it stands: where a narrower schema would take more in the whole, and for readers.
    Plain,
}

/// Rewrites a document for the engine: ranges for integer formats, the writer's closure, no reference to the root.
struct Lowering<'w, 'a> {
    world: &'w mut World<'a>,
    closing: bool,
    /// There is something that the engine would pass over.
    strange: bool,
    /// Something is an integer, or is none.
    integers: bool,
    /// A number may be whole and yet written with a fraction or an exponent.
    fractions: bool,
    /// The writer is taken for freer than it is.
    wider: bool,
    schemas: u32,
    closures: u32,
    /// The schemas that are being closed, each inside the one before it.
    within: Vec<Loc>,
    queue: Vec<(Loc, Form)>,
    queued: HashSet<(Loc, Form)>,
}

/// The members that an object declares, with everything that applies to the same value.
#[derive(Clone, Default)]
struct Declared<'a> {
    seen: HashSet<Loc>,
    names: BTreeSet<&'a str>,
    patterns: BTreeSet<&'a str>,
    unions: Vec<Vec<Loc>>,
    /// It speaks of objects.
    object: bool,
    /// It says itself what else there may be.
    explicit: bool,
}

impl<'w, 'a> Lowering<'w, 'a> {
    fn new(world: &'w mut World<'a>, closing: bool) -> Self {
        Self {
            world,
            closing,
            strange: false,
            integers: false,
            fractions: false,
            wider: false,
            schemas: 0,
            closures: 0,
            within: Vec::new(),
            queue: Vec::new(),
            queued: HashSet::new(),
        }
    }

    fn document(&mut self, root: Loc) -> Value {
        let mut definitions = Map::new();
        let start = self.reference(root, if self.closing { Form::Closed } else { Form::Plain });
        let mut done = 0;
        while let Some((loc, form)) = self.queue.get(done).copied() {
            done += 1;
            let schema = self.schema(loc, form == Form::Closed, form != Form::Plain, 0);
            definitions.insert(definition(loc, form), schema);
        }
        json!({ "$ref": start, "$defs": definitions })
    }

    fn reference(&mut self, target: Loc, form: Form) -> Value {
        if self.queued.insert((target, form)) {
            self.queue.push((target, form));
        }
        json!(format!("#/$defs/{}", definition(target, form)))
    }

    /// What matters for whether `1.0` is an integer.
    fn note_numbers(&mut self, schema: &Map<String, Value>) {
        let literals = |keyword: &str| schema.get(keyword).into_iter();
        self.fractions |= literals("const").chain(literals("enum")).any(has_fraction);
        let kinds = types(schema).unwrap_or(ANY);
        let of_integers =
            schema.get("format").is_some_and(|format| RANGES.iter().any(|(name, ..)| format == name));
        let whole = kinds & WHOLE != 0 || of_integers && !schema.contains_key("type");
        self.integers |= whole;
        // What refers to others or combines them says by itself nothing about numbers, unless it speaks of them.
        let speaks = schema.contains_key("type")
            || ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "not"]
                .iter()
                .any(|keyword| schema.contains_key(*keyword));
        let listed = schema.contains_key("const") || schema.contains_key("enum");
        let combines =
            ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|keyword| schema.contains_key(*keyword));
        self.fractions |= kinds & NUMBER != 0 && !whole && !listed && (speaks || !combines);
    }

    /// `closed`: as a value of its own. `closing`: values below are closed.
    fn schema(&mut self, loc: Loc, closed: bool, closing: bool, depth: u32) -> Value {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            self.strange = true;
            return Value::Bool(true);
        }
        let Some(schema) = self.world.object(loc) else {
            self.fractions |= *self.world.schema(loc) == Value::Bool(true);
            return self.world.schema(loc).clone();
        };
        self.note_numbers(schema);
        let once = !closing || self.describes_once(loc, schema);
        self.wider |= !once;
        let closing = closing && once;
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
                    self.strange |= list.len() > MAX_UNION && matches!(keyword.as_str(), "anyOf" | "oneOf");
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
                    Some(target) => self.reference(target, if closing { Form::Part } else { Form::Plain }),
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
                                _ if typed && !self.closing => self.strange = true,
                                _ => {}
                            }
                            continue;
                        }
                        None if matches!(format.as_str(), "float" | "double") => continue,
                        // The engine drops a format that it does not know, where there is a literal beside it: a writer is
                        // freer without, a reader is not.
                        None if !FORMATS.contains(&format.as_str()) => {
                            self.strange |= !self.closing;
                            self.wider = true;
                            continue;
                        }
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

    /// Whether each value below is described by one schema. Where two describe the same member, one may declare what the
    /// other does not, and closing each by itself would leave nothing.
    fn describes_once(&mut self, loc: Loc, schema: &'a Map<String, Value>) -> bool {
        let own = ["properties", "patternProperties"].iter().filter(|keyword| schema.contains_key(**keyword));
        let others = ["additionalProperties", "items", "prefixItems"];
        let own = own.count().max(usize::from(others.iter().any(|keyword| schema.contains_key(*keyword))));
        let single = ["$ref", "if", "dependentSchemas"];
        let single = single.iter().filter(|keyword| schema.contains_key(**keyword)).count();
        let all = schema.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        let patterns = schema.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        let mut any = 0;
        for keyword in ["anyOf", "oneOf"] {
            let Some(Value::Array(branches)) = schema.get(keyword) else { continue };
            let branches: Vec<Loc> = branches
                .iter()
                .enumerate()
                .map(|(i, branch)| self.world.child_at(loc, branch, keyword, i))
                .collect();
            any += if self.world.are_apart(&branches) { 1 } else { 2 };
        }
        own.max(patterns) + single + all + any < 2
    }

    /// A schema that refuses undeclared members; `None` if there may be some.
    fn closure(&mut self, loc: Loc, around: &Declared<'a>) -> Option<Value> {
        self.closures += 1;
        if self.within.contains(&loc) || self.closures > MAX_CLOSURES {
            self.strange = true;
            return None;
        }
        self.within.push(loc);
        let closure = self.closed(loc, around);
        self.within.pop();
        closure
    }

    fn closed(&mut self, loc: Loc, around: &Declared<'a>) -> Option<Value> {
        let mut declared = Declared { unions: Vec::new(), seen: HashSet::new(), ..around.clone() };
        self.declared(loc, &mut declared, 0);
        if let [branches] = declared.unions.clone().as_slice()
            && !declared.explicit
            && self.world.are_apart(branches)
        {
            let mut closed = Vec::new();
            for branch in branches {
                let mut all = vec![json!({ "$ref": self.reference(*branch, Form::Part) })];
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
        if !declared.seen.insert(loc) {
            return;
        }
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
        // A literal has the members that it has.
        let literals = schema
            .get("const")
            .into_iter()
            .chain(schema.get("enum").and_then(Value::as_array).into_iter().flatten());
        declared.explicit |= literals.into_iter().any(Value::is_object);
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

/// Whether a schema of the document leads back to itself for the same value.
pub(super) fn is_circular(document: &Value) -> bool {
    let mut branches = Branches::of(document);
    for_each_schema(document, "", &mut |_, schema| {
        branches.count_object(schema);
    });
    branches.is_circular()
}

fn definition(loc: Loc, form: Form) -> String {
    let form = match form {
        Form::Closed => "closed",
        Form::Part => "part",
        Form::Plain => "plain",
    };
    format!("{form}{loc}")
}

/// Whether a literal holds a number that is written with a fraction or an exponent.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(values) => values.iter().any(has_fraction),
        Value::Object(members) => members.values().any(has_fraction),
        _ => false,
    }
}
