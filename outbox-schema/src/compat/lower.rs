//! A schema in the small form that the prover reasons about: which alternatives it offers, each of one type, with the
//! constraints of that type. What has no place in the form is kept by name, as [`Alt::opaque`]: a writer may be taken for
//! freer than it is, a reader never.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use super::decimal::Decimal;
use super::world::{FALSE, Loc, MAX_ALTERNATIVES, TRUE, World};
use crate::document::{OPEN_ENUM, is_annotation};
use crate::formats::RANGES;

/// One alternative: values of one type, or some literals.
#[derive(Clone, Debug)]
pub(super) struct Alt<'a> {
    pub(super) shape: Shape<'a>,
    /// Literals that are not among the values.
    pub(super) excluded: Vec<Value>,
    /// Schemas that the values do not match.
    pub(super) nots: Vec<Loc>,
    /// Keywords that constrain the values in a way that this form has no place for.
    pub(super) opaque: Vec<(Loc, &'a str)>,
    /// The branch of a union that offers it.
    pub(super) branch: Option<Loc>,
}

#[derive(Clone, Debug)]
pub(super) enum Shape<'a> {
    /// Exactly these; `null`, `true` and `false` are always told so.
    Literals(Vec<Value>),
    Number(Numbers<'a>),
    Text(Texts<'a>),
    List(Lists),
    Object(Objects<'a>),
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) value: Decimal,
    pub(super) exclusive: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Numbers<'a> {
    /// Written without fraction and exponent.
    pub(super) integer: bool,
    pub(super) format: Option<&'a str>,
    pub(super) min: Option<Bound>,
    pub(super) max: Option<Bound>,
    pub(super) steps: Vec<Decimal>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Texts<'a> {
    pub(super) min: u64,
    pub(super) max: Option<u64>,
    pub(super) patterns: BTreeSet<&'a str>,
    pub(super) formats: BTreeSet<&'a str>,
    /// The known values of an open enum.
    pub(super) known: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) layers: Vec<(Rc<Slots>, bool)>,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
    pub(super) unique: bool,
}

/// What one schema says about items.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) prefix: Vec<Loc>,
    pub(super) rest: Option<Loc>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Objects<'a> {
    /// Each with whether the writer's closure goes on below it.
    pub(super) layers: Vec<(Rc<Layer<'a>>, bool)>,
    pub(super) required: BTreeSet<&'a str>,
    /// The second must be there if the first is.
    pub(super) dependents: BTreeSet<(&'a str, &'a str)>,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
    /// Schemas of the members' names.
    pub(super) names: Vec<Loc>,
    /// A schema speaks of objects, so that its silence about further members means that there are none.
    pub(super) declared: bool,
    /// Names that other alternatives, which may hold at the same time, declare.
    pub(super) also: Vec<Rc<Layer<'a>>>,
    /// The known variants of an open enum that are named by a member.
    pub(super) known: Option<Vec<Value>>,
}

/// What one schema says about members. `None` is no constraint.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer<'a> {
    pub(super) members: BTreeMap<&'a str, Option<Loc>>,
    pub(super) patterns: Vec<(&'a str, Option<Loc>)>,
    pub(super) rest: Option<Loc>,
    /// It says something about members that it does not declare.
    pub(super) explicit: bool,
    /// It is the writer's closure.
    pub(super) closure: bool,
}

impl<'a> Alt<'a> {
    pub(super) fn of(shape: Shape<'a>) -> Self {
        Self { shape, excluded: Vec::new(), nots: Vec::new(), opaque: Vec::new(), branch: None }
    }

    /// Every value, by type.
    pub(super) fn any() -> Vec<Self> {
        [
            Shape::Literals(vec![Value::Null, Value::Bool(false), Value::Bool(true)]),
            Shape::Number(Numbers::default()),
            Shape::Text(Texts::default()),
            Shape::List(Lists::default()),
            Shape::Object(Objects::default()),
        ]
        .map(Alt::of)
        .into()
    }

    /// Whether a keyword that this form has no place for may declare members.
    pub(super) fn hides_members(&self) -> bool {
        let hides = |keyword: &str| {
            matches!(keyword, "if" | "dependentSchemas" | "$ref" | "allOf" | "anyOf" | "patternProperties")
        };
        self.opaque.iter().any(|(_, keyword)| hides(keyword))
    }

    pub(super) fn kinds(&self) -> u8 {
        match &self.shape {
            Shape::Literals(values) => values.iter().fold(0, |kinds, value| kinds | kind_of(value)),
            Shape::Number(_) => NUMBER,
            Shape::Text(_) => TEXT,
            Shape::List(_) => LIST,
            Shape::Object(_) => OBJECT,
        }
    }
}

pub(super) const NULL: u8 = 1;
pub(super) const BOOL: u8 = 2;
pub(super) const NUMBER: u8 = 4;
pub(super) const TEXT: u8 = 8;
pub(super) const LIST: u8 = 16;
pub(super) const OBJECT: u8 = 32;
pub(super) const ANY: u8 = 63;
/// Only beside [`NUMBER`]: no fractions.
pub(super) const WHOLE: u8 = 64;

pub(super) fn kind_of(value: &Value) -> u8 {
    match value {
        Value::Null => NULL,
        Value::Bool(_) => BOOL,
        Value::Number(_) => NUMBER,
        Value::String(_) => TEXT,
        Value::Array(_) => LIST,
        Value::Object(_) => OBJECT,
    }
}

/// The types that a schema names; `None` if the keyword is not understood.
pub(super) fn types(schema: &Map<String, Value>) -> Option<u8> {
    let one = |name: &Value| {
        Some(match name.as_str()? {
            "null" => NULL,
            "boolean" => BOOL,
            "integer" => NUMBER | WHOLE,
            "number" => NUMBER,
            "string" => TEXT,
            "array" => LIST,
            "object" => OBJECT,
            _ => return None,
        })
    };
    match schema.get("type") {
        None => Some(ANY),
        Some(Value::Array(names)) => {
            let all = names.iter().map(one).collect::<Option<Vec<_>>>()?;
            let fractions = all.contains(&NUMBER);
            let kinds = all.into_iter().fold(0, |kinds, kind| kinds | kind);
            Some(if fractions { kinds & !WHOLE } else { kinds })
        }
        Some(name) => one(name),
    }
}

/// Of which types a keyword that is not understood can constrain the values.
fn concerns(keyword: &str) -> u8 {
    match keyword {
        "contains" | "unevaluatedItems" | "items" | "prefixItems" | "uniqueItems" => LIST,
        "dependentSchemas" | "properties" | "patternProperties" | "required" => OBJECT,
        "pattern" | "contentEncoding" | "contentMediaType" | "contentSchema" => TEXT,
        _ => ANY,
    }
}

fn count(value: &Value) -> Option<u64> {
    u64::try_from(Decimal::of_value(value)?.as_i128()?).ok()
}

/// The tighter of two ends. `low` ends are tighter the greater they are.
fn tighter(a: Option<Bound>, b: Option<Bound>, low: bool) -> Option<Bound> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let order = if low { b.value.cmp(&a.value) } else { a.value.cmp(&b.value) };
            Some(if order.is_lt() || order.is_eq() && a.exclusive { a } else { b })
        }
        (a, b) => a.or(b),
    }
}

impl Numbers<'_> {
    /// The ends of a range of integers are integers, and included.
    fn fold(&mut self) {
        if !self.integer {
            return;
        }
        for (bound, low) in [(&mut self.min, true), (&mut self.max, false)] {
            let Some(bound) = bound else { continue };
            if !bound.value.is_integer() {
                *bound = Bound { value: bound.value.rounded(low), exclusive: false };
            } else if bound.exclusive
                && let Some(value) = bound.value.stepped(low)
            {
                *bound = Bound { value, exclusive: false };
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!((self.min, self.max), (Some(min), Some(max))
            if min.value > max.value || min.value == max.value && (min.exclusive || max.exclusive))
    }

    pub(super) fn has(&self, n: Decimal) -> Option<bool> {
        let inside = self.min.is_none_or(|min| if min.exclusive { n > min.value } else { n >= min.value })
            && self.max.is_none_or(|max| if max.exclusive { n < max.value } else { n <= max.value })
            && (!self.integer || n.is_integer());
        if !inside {
            return Some(false);
        }
        let mut sure = true;
        for step in &self.steps {
            match n.is_multiple_of(*step) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => sure = false,
            }
        }
        sure.then_some(true)
    }

    fn meet(&self, other: &Self) -> Self {
        let mut met = Self {
            integer: self.integer || other.integer,
            format: self.format.or(other.format),
            min: tighter(self.min, other.min, true),
            max: tighter(self.max, other.max, false),
            steps: self.steps.iter().chain(&other.steps).copied().collect(),
        };
        met.steps.dedup();
        met.fold();
        met
    }
}

fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

impl<'a> World<'a> {
    /// What a schema object says by its own keywords, without what it refers to and combines.
    fn own_alternatives(&mut self, loc: Loc, schema: &'a Map<String, Value>) -> Vec<Alt<'a>> {
        let mut opaque: Vec<(Loc, &'a str)> = Vec::new();
        let mut kinds = types(schema).unwrap_or(ANY);
        let typed = schema.contains_key("type");
        let mut numbers = Numbers { integer: kinds & WHOLE != 0, ..Numbers::default() };
        let mut texts = Texts::default();
        let mut lists = Lists::default();
        let mut objects = Objects { declared: typed && kinds & OBJECT != 0, ..Objects::default() };
        let mut layer = Layer::default();
        let mut slots = Slots::default();
        let mut literals: Option<Vec<Value>> = None;
        let mut excluded = Vec::new();
        let mut nots = Vec::new();
        let in_place = ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "contains"]
            .iter()
            .any(|keyword| schema.contains_key(*keyword));

        for (keyword, value) in schema {
            let understood = match keyword.as_str() {
                "type" => types(schema).is_some(),
                "enum" | "const" => {
                    let values: &[Value] = match (keyword.as_str(), value) {
                        ("enum", Value::Array(values)) => values,
                        ("enum", _) => &[],
                        (_, value) => std::slice::from_ref(value),
                    };
                    let values = values.iter().filter(|value| {
                        literals
                            .as_ref()
                            .is_none_or(|known| known.iter().any(|k| super::decimal::same_value(k, value)))
                    });
                    literals = Some(values.cloned().collect());
                    value.is_array() || keyword == "const"
                }
                "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => Decimal::of_value(value)
                    .is_some_and(|limit| {
                        let low = keyword.ends_with("inimum");
                        let bound = Some(Bound { value: limit, exclusive: keyword.starts_with('e') });
                        let end = if low { &mut numbers.min } else { &mut numbers.max };
                        *end = tighter(*end, bound, low);
                        true
                    }),
                "multipleOf" => {
                    Decimal::of_value(value).filter(|step| *step > Decimal::ZERO).is_some_and(|step| {
                        numbers.steps.push(step);
                        true
                    })
                }
                "minLength" => count(value).map(|n| texts.min = n).is_some(),
                "maxLength" => count(value).map(|n| texts.max = Some(n)).is_some(),
                "minItems" => count(value).map(|n| lists.min = n).is_some(),
                "maxItems" => count(value).map(|n| lists.max = Some(n)).is_some(),
                "minProperties" => count(value).map(|n| objects.min = n).is_some(),
                "maxProperties" => count(value).map(|n| objects.max = Some(n)).is_some(),
                "pattern" => value.as_str().is_some_and(|pattern| texts.patterns.insert(pattern)),
                "format" => value.as_str().is_some_and(|format| {
                    match RANGES.iter().find(|(name, ..)| *name == format) {
                        Some(&(name, min, max)) => {
                            if !typed || numbers.integer {
                                numbers.integer = true;
                                numbers.format = Some(name);
                                let end = |value| Some(Bound { value, exclusive: false });
                                numbers.min = tighter(numbers.min, end(Decimal::of_i128(min)), true);
                                numbers.max = tighter(numbers.max, end(Decimal::of_u128(max)), false);
                            }
                        }
                        None if matches!(format, "float" | "double") => {}
                        None => {
                            texts.formats.insert(format);
                        }
                    }
                    true
                }),
                "uniqueItems" => value.as_bool().map(|unique| lists.unique = unique).is_some(),
                "items" => {
                    slots.rest = Some(self.child(loc, value, keyword, None));
                    value.is_object() || value.is_boolean()
                }
                "prefixItems" => value.as_array().is_some_and(|list| {
                    for (i, slot) in list.iter().enumerate() {
                        slots.prefix.push(self.child_at(loc, slot, keyword, i));
                    }
                    true
                }),
                "properties" => value.as_object().is_some_and(|named| {
                    objects.declared = true;
                    for (name, member) in named {
                        let member = self.child(loc, member, keyword, Some(name));
                        layer.members.insert(name, Some(member));
                    }
                    true
                }),
                "patternProperties" => value.as_object().is_some_and(|named| {
                    objects.declared = true;
                    let mut known = true;
                    for (pattern, member) in named {
                        let member = self.child(loc, member, keyword, Some(pattern));
                        layer.patterns.push((pattern, Some(member)));
                        known &= self.text_is(false, pattern, "").is_some();
                    }
                    known
                }),
                "additionalProperties" => {
                    layer.explicit = true;
                    if *value != Value::Bool(true) {
                        layer.rest = Some(self.child(loc, value, keyword, None));
                    }
                    value.is_object() || value.is_boolean()
                }
                // Combined with what the schemas beside it declare, see `combined`.
                "unevaluatedProperties" => true,
                "unevaluatedItems" if !in_place => {
                    if !schema.contains_key("items") {
                        slots.rest = Some(self.child(loc, value, keyword, None));
                    }
                    true
                }
                "required" => value.as_array().is_some_and(|names| {
                    objects.required.extend(names.iter().filter_map(Value::as_str));
                    names.iter().all(Value::is_string)
                }),
                "dependentRequired" => value.as_object().is_some_and(|dependents| {
                    for (name, needed) in dependents {
                        for needed in needed.as_array().into_iter().flatten().filter_map(Value::as_str) {
                            objects.dependents.insert((name, needed));
                        }
                    }
                    true
                }),
                "propertyNames" => {
                    objects.names.push(self.child(loc, value, keyword, None));
                    true
                }
                OPEN_ENUM => value.as_array().is_some_and(|known| {
                    if kinds & TEXT != 0 && typed {
                        texts.known = Some(known.clone());
                    }
                    if kinds & OBJECT != 0 && typed {
                        objects.known = Some(known.clone());
                    }
                    true
                }),
                "not" => {
                    let not = self.child(loc, value, keyword, None);
                    match value {
                        Value::Bool(allowed) => kinds = if *allowed { 0 } else { kinds },
                        Value::Object(inner) if inner.keys().all(|k| k == "type" || is_annotation(k)) => {
                            match types(inner) {
                                Some(gone) if gone & WHOLE == 0 => kinds &= !gone,
                                _ => nots.push(not),
                            }
                        }
                        _ => {
                            let alts = self.alternatives(not);
                            let literal = |alt: &Alt<'a>| match &alt.shape {
                                Shape::Literals(values) if alt.opaque.is_empty() && alt.nots.is_empty() => {
                                    Some(values.clone())
                                }
                                _ => None,
                            };
                            match alts.iter().map(literal).collect::<Option<Vec<_>>>() {
                                Some(values) => excluded.extend(values.into_iter().flatten()),
                                None => nots.push(not),
                            }
                        }
                    }
                    true
                }
                "$ref" | "allOf" | "anyOf" | "oneOf" | "$defs" | "definitions" | "default" | "$id" => {
                    keyword != "$id" || loc == self.root(loc)
                }
                // Together with `if` alone; and with `contains` alone.
                "then" | "else" => true,
                "minContains" | "maxContains" => true,
                other => is_annotation(other),
            };
            if !understood {
                opaque.push((loc, keyword));
            }
        }
        if kinds & ANY == 0 {
            return Vec::new();
        }
        // Which members are the remaining ones cannot be told beside a pattern that cannot be tried.
        if opaque.contains(&(loc, "patternProperties")) {
            layer.rest = None;
        }
        numbers.fold();
        if !slots.prefix.is_empty() || slots.rest.is_some() {
            lists.layers.push((Rc::new(slots), false));
        }
        if !layer.members.is_empty() || !layer.patterns.is_empty() || layer.explicit {
            objects.layers.push((Rc::new(layer), false));
        }
        let mut constants = Vec::new();
        if kinds & NULL != 0 {
            constants.push(Value::Null);
        }
        if kinds & BOOL != 0 {
            constants.extend([Value::Bool(false), Value::Bool(true)]);
        }
        let shapes = [
            (NULL | BOOL, Shape::Literals(constants)),
            (NUMBER, Shape::Number(numbers)),
            (TEXT, Shape::Text(texts)),
            (LIST, Shape::List(lists)),
            (OBJECT, Shape::Object(objects)),
        ];
        let alts: Vec<_> = shapes
            .into_iter()
            .filter(|(kind, _)| kinds & kind != 0)
            .map(|(kind, shape)| Alt {
                shape,
                excluded: excluded.iter().filter(|value| kind_of(value) & kind != 0).cloned().collect(),
                nots: nots.clone(),
                opaque: opaque.iter().filter(|(_, keyword)| concerns(keyword) & kind != 0).copied().collect(),
                branch: None,
            })
            .collect();
        match literals {
            Some(values) => self.product(&[Alt::of(Shape::Literals(values))], &alts),
            None => alts,
        }
    }

    /// What one schema offers, with what it refers to and combines; without the writer's closure.
    pub(super) fn combined(&mut self, loc: Loc) -> Vec<Alt<'a>> {
        let schema = match loc {
            FALSE => return Vec::new(),
            TRUE => return Alt::any(),
            _ => self.schema(loc),
        };
        let schema = match schema {
            Value::Bool(true) => return Alt::any(),
            Value::Bool(false) => return Vec::new(),
            Value::Object(schema) => schema,
            _ => return opaque_any(loc, "type"),
        };
        let mut alts = self.own_alternatives(loc, schema);
        if let Some(target) = schema.get("$ref") {
            let found = target.as_str().and_then(|target| self.referred(loc, target));
            let theirs = match found {
                Some(target) => self.alternatives(target).to_vec(),
                None => opaque_any(loc, "$ref"),
            };
            alts = self.product(&theirs, &alts);
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            for (i, part) in parts.iter().enumerate() {
                let part = self.child_at(loc, part, "allOf", i);
                let theirs = self.alternatives(part);
                alts = self.product(&alts, &theirs);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.get(keyword) {
                let branches: Vec<_> = branches
                    .iter()
                    .enumerate()
                    .map(|(i, branch)| self.child_at(loc, branch, keyword, i))
                    .collect();
                let union = self.union(&branches, keyword == "oneOf");
                alts = self.product(&alts, &union);
            }
        }
        if let Some(rest) = schema.get("unevaluatedProperties") {
            let rest = self.child(loc, rest, "unevaluatedProperties", None);
            for alt in &mut alts {
                close_unevaluated(alt, loc, rest);
            }
        }
        alts
    }

    /// The alternatives of all branches. With `one`, a value that more than one branch takes is out.
    fn union(&mut self, branches: &[Loc], one: bool) -> Vec<Alt<'a>> {
        let overlaps = self.overlaps(branches);
        let mut union = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            if union.len() > MAX_ALTERNATIVES {
                return opaque_any(*branch, "anyOf");
            }
            let mut also = Vec::new();
            for other in &overlaps[i] {
                for alt in self.alternatives(branches[*other]).iter() {
                    if let Shape::Object(objects) = &alt.shape {
                        also.extend(objects.layers.iter().map(|(layer, _)| Rc::clone(layer)));
                        also.extend(objects.also.iter().cloned());
                    }
                }
            }
            for alt in self.alternatives(*branch).iter() {
                let mut alt = alt.clone();
                if let Shape::Object(objects) = &mut alt.shape {
                    objects.also.extend(also.iter().cloned());
                }
                if one {
                    alt.nots.extend(overlaps[i].iter().map(|other| branches[*other]));
                }
                if branches.len() > 1 {
                    alt.branch = Some(alt.branch.unwrap_or(*branch));
                }
                union.push(alt);
            }
        }
        union
    }

    /// What both allow; `None` where that is plainly nothing.
    pub(super) fn meet(&mut self, a: &Alt<'a>, b: &Alt<'a>) -> Option<Alt<'a>> {
        let mut met = Alt {
            shape: Shape::Literals(Vec::new()),
            excluded: a.excluded.iter().chain(&b.excluded).cloned().collect(),
            nots: merged(&a.nots, &b.nots),
            opaque: merged(&a.opaque, &b.opaque),
            branch: a.branch.or(b.branch),
        };
        met.shape = match (&a.shape, &b.shape) {
            (Shape::Literals(values), _) | (_, Shape::Literals(values)) => {
                let (literal, other) = if matches!(a.shape, Shape::Literals(_)) { (a, b) } else { (b, a) };
                if literal.kinds() & other.kinds() == 0 {
                    return None;
                }
                let mut sure = true;
                let mut left = Vec::new();
                for value in values {
                    match self.alt_has(other, value) {
                        Some(true) => left.push(value.clone()),
                        Some(false) => {}
                        None => {
                            sure = false;
                            left.push(value.clone());
                        }
                    }
                }
                if left.is_empty() {
                    return None;
                }
                if sure {
                    met.excluded.clone_from(&literal.excluded);
                    met.nots.clone_from(&literal.nots);
                    met.opaque.clone_from(&literal.opaque);
                } else {
                    // Why it cannot be told may lie deep in the other: what is left of it is that.
                    let at = literal.branch.or(other.branch).unwrap_or(TRUE);
                    met.opaque.push((at, "const"));
                }
                Shape::Literals(left)
            }
            (Shape::Number(a), Shape::Number(b)) => {
                let met = a.meet(b);
                if met.is_empty() {
                    return None;
                }
                Shape::Number(met)
            }
            (Shape::Text(a), Shape::Text(b)) => {
                let met = Texts {
                    min: a.min.max(b.min),
                    max: least(a.max, b.max),
                    patterns: a.patterns.union(&b.patterns).copied().collect(),
                    formats: a.formats.union(&b.formats).copied().collect(),
                    known: a.known.clone().or_else(|| b.known.clone()),
                };
                if met.max.is_some_and(|max| max < met.min) {
                    return None;
                }
                Shape::Text(met)
            }
            (Shape::List(a), Shape::List(b)) => Shape::List(Lists {
                layers: a.layers.iter().chain(&b.layers).cloned().collect(),
                min: a.min.max(b.min),
                max: least(a.max, b.max),
                unique: a.unique || b.unique,
            }),
            (Shape::Object(a), Shape::Object(b)) => Shape::Object(Objects {
                layers: a.layers.iter().chain(&b.layers).cloned().collect(),
                required: a.required.union(&b.required).copied().collect(),
                dependents: a.dependents.union(&b.dependents).copied().collect(),
                min: a.min.max(b.min),
                max: least(a.max, b.max),
                names: merged(&a.names, &b.names),
                declared: a.declared || b.declared,
                also: a.also.iter().chain(&b.also).cloned().collect(),
                known: a.known.clone().or_else(|| b.known.clone()),
            }),
            _ => return None,
        };
        Some(met)
    }
}

fn merged<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    let mut merged = a.to_vec();
    merged.extend(b.iter().filter(|item| !a.contains(item)).cloned());
    merged
}

pub(super) fn opaque_any<'a>(loc: Loc, keyword: &'a str) -> Vec<Alt<'a>> {
    let mut alts = Alt::any();
    for alt in &mut alts {
        alt.opaque.push((loc, keyword));
    }
    alts
}

fn close_unevaluated<'a>(alt: &mut Alt<'a>, loc: Loc, rest: Loc) {
    let hidden = alt.hides_members();
    // What a literal declares is not looked for: a writer may have it, and a reader has to be looked at more closely.
    if let Shape::Literals(values) = &alt.shape
        && values.iter().any(Value::is_object)
    {
        alt.opaque.push((loc, "unevaluatedProperties"));
    }
    let Shape::Object(objects) = &mut alt.shape else { return };
    if objects.layers.iter().any(|(layer, _)| layer.explicit && !layer.closure) {
        return;
    }
    // Which of the alternatives that may hold together declare a member is not known here: a writer may use all of
    // them, and a reader has to be looked at more closely.
    if hidden || !objects.also.is_empty() {
        alt.opaque.push((loc, "unevaluatedProperties"));
    }
    let mut layer = declared_names(objects);
    if !hidden {
        layer.rest = Some(rest);
    }
    layer.explicit = true;
    objects.layers.push((Rc::new(layer), false));
}

/// All names and patterns that an object declares, without what it says about them.
pub(super) fn declared_names<'a>(objects: &Objects<'a>) -> Layer<'a> {
    let mut layer = Layer::default();
    for declaring in objects.layers.iter().map(|(layer, _)| layer).chain(&objects.also) {
        layer.members.extend(declaring.members.keys().map(|name| (*name, None)));
        layer.patterns.extend(declaring.patterns.iter().map(|(pattern, _)| (*pattern, None)));
    }
    layer
}
