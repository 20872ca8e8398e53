//! A payload that shows a break: made from the place where the proof failed, and shown only if it is one.

use std::collections::HashSet;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::decimal::Decimal;
use super::lower::{Alt, Lists, Numbers, Objects, Shape, Texts};
use super::prove::{Reason, Step, To};
use super::world::{State, World};
use crate::document::OPEN_ENUM;
use crate::formats::{options, with_integers};

/// How many values are tried for one reason.
const MAX_TRIES: usize = 160;
/// How deep values are made.
const MAX_DEPTH: u32 = 24;

/// Texts that some format or pattern may want, or refuse.
const SAMPLES: [&str; 26] = [
    "",
    "a",
    "A",
    "0",
    "1",
    "-1",
    "ab",
    "AB",
    "abc",
    "ABC",
    "ABCD",
    "a1",
    "00",
    "0.5",
    "x-a",
    "a b",
    "a@example.com",
    "2024-02-29",
    "2024-02-29T10:00:00Z",
    "2024-02-29T10:00:00",
    "10:00:00Z",
    "10:00:00",
    "127.0.0.1",
    "::1",
    "https://example.com/",
    "0193f0c4-5b7e-7b6e-9d2b-0a4d3c1b2a19",
];

/// Decides whether a payload is a witness: by the validator, and by what a writer can write.
pub(super) struct Judge {
    writer: State,
    old: Validator,
    new: Validator,
    /// Values that the reader's open enums know: a writer that does not know them does not write them.
    known: HashSet<String>,
}

impl Judge {
    /// `None` if one of the schemas cannot be used to validate.
    pub(super) fn of(writer: State, schema: &Value, reader: &Value) -> Option<Self> {
        let build = |schema: &Value| options().build(&with_integers(schema)).ok();
        let mut known = HashSet::new();
        crate::document::for_each_schema(reader, "", &mut |_, schema| {
            known.extend(
                schema.get(OPEN_ENUM).and_then(Value::as_array).into_iter().flatten().map(Value::to_string),
            );
        });
        Some(Self { writer, old: build(schema)?, new: build(reader)?, known })
    }

    /// Whether the writer can write the payload and the reader refuses it.
    pub(super) fn is_witness(&self, world: &mut World<'_>, payload: &Value) -> bool {
        self.old.is_valid(payload)
            && !self.new.is_valid(payload)
            && world.has(self.writer, payload) != Some(false)
            && (self.known.is_empty() || !self.names_unknown(world, self.writer, payload, 0))
    }

    /// Whether a payload uses, in an open enum of the writer, a value that only the reader knows.
    fn names_unknown(&self, world: &mut World<'_>, state: State, payload: &Value, depth: u32) -> bool {
        if depth > MAX_DEPTH {
            return true;
        }
        world.expand(state).iter().any(|alt| match (&alt.shape, payload) {
            (Shape::Text(texts), Value::String(_)) => {
                texts.known.as_ref().is_some_and(|known| !known.contains(payload))
                    && self.known.contains(&payload.to_string())
            }
            (Shape::Object(objects), Value::Object(members)) => members.iter().any(|(name, value)| {
                let text = Value::from(name.as_str());
                let variant = objects.known.as_ref().is_some_and(|known| !known.contains(&text))
                    && self.known.contains(&text.to_string());
                let member = world.member(objects, name);
                variant || self.names_unknown(world, member, value, depth + 1)
            }),
            (Shape::List(lists), Value::Array(values)) => values.iter().enumerate().any(|(i, value)| {
                let item = world.item(lists, i);
                self.names_unknown(world, item, value, depth + 1)
            }),
            _ => false,
        })
    }

    /// A payload for one reason.
    pub(super) fn find<'a>(&self, world: &mut World<'a>, reason: &Reason<'a>) -> Option<Value> {
        let mut maker = Maker { world, making: HashSet::new(), depth: 0 };
        let mut ends = match &reason.end {
            Some((alt, reader)) => maker.variations(alt, *reader),
            None => {
                let last = reason.path.last()?;
                let state = maker.below(last);
                let any = maker.world.state(&[]);
                maker.all(state, any)
            }
        };
        ends.truncate(MAX_TRIES);
        let payloads: Vec<Value> = ends
            .into_iter()
            .filter_map(|end| reason.path.iter().rev().try_fold(end, |value, step| maker.around(step, value)))
            .collect();
        payloads.into_iter().find(|payload| self.is_witness(world, payload))
    }

    /// Some values of a schema of what is lost.
    pub(super) fn payloads<'a>(&self, world: &mut World<'a>, lost: &'a Value) -> Vec<Value> {
        let root = world.document(lost);
        let state = world.state(&[(root, false)]);
        let any = world.state(&[]);
        let mut payloads = Maker { world, making: HashSet::new(), depth: 0 }.all(state, any);
        payloads.truncate(MAX_TRIES);
        payloads
    }
}

/// Makes values of states.
struct Maker<'w, 'a> {
    world: &'w mut World<'a>,
    making: HashSet<State>,
    depth: u32,
}

impl<'a> Maker<'_, 'a> {
    /// The state that a step leads to.
    fn below(&mut self, step: &Step<'a>) -> State {
        match (&step.alt.shape, &step.to) {
            (Shape::Object(objects), To::Member(name)) => self.world.member(objects, name),
            (Shape::Object(objects), To::Unnamed(pattern)) => {
                let name = self.free_name(objects, *pattern);
                self.world.member(objects, &name)
            }
            (Shape::List(lists), To::Item(index)) => self.world.item(lists, *index),
            _ => self.world.state(&[]),
        }
    }

    /// A value of the step's alternative that has `value` where the step leads.
    fn around(&mut self, step: &Step<'a>, value: Value) -> Option<Value> {
        match (&step.alt.shape, &step.to) {
            (Shape::Object(objects), To::Member(name)) => {
                self.object(objects, Some(((*name).to_owned(), value)), &[])
            }
            (Shape::Object(objects), To::Unnamed(pattern)) => {
                let name = self.free_name(objects, *pattern);
                self.object(objects, Some((name, value)), &[])
            }
            (Shape::List(lists), To::Item(index)) => {
                let mut values = self.list(lists, (*index as u64).max(lists.min) as usize)?;
                if *index < values.len() {
                    values[*index] = value;
                } else {
                    values.push(value);
                }
                Some(Value::Array(values))
            }
            _ => None,
        }
    }

    /// A name that nothing declares, or that matches a pattern.
    fn free_name(&mut self, objects: &Objects<'a>, pattern: Option<&'a str>) -> String {
        let taken: HashSet<&str> =
            objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()).collect();
        let names = ["zz", "v", "m", "note"].into_iter().chain(SAMPLES).filter(|name| !taken.contains(name));
        let mut names = names.collect::<Vec<_>>().into_iter();
        let wanted = names.find(|name| match pattern {
            Some(pattern) => self.world.text_is(false, pattern, name) == Some(true),
            None => true,
        });
        wanted.unwrap_or("zz").to_owned()
    }

    /// The simplest value of a state.
    fn simplest(&mut self, state: State) -> Option<Value> {
        if self.depth > MAX_DEPTH || !self.making.insert(state) {
            return None;
        }
        self.depth += 1;
        let alts = self.world.expand(state);
        let value = alts.iter().find_map(|alt| {
            let value = self.simple(alt)?;
            (self.world.alt_has(alt, &value) != Some(false)).then_some(value)
        });
        self.depth -= 1;
        self.making.remove(&state);
        value
    }

    fn simple(&mut self, alt: &Alt<'a>) -> Option<Value> {
        match &alt.shape {
            Shape::Literals(values) => values.first().cloned(),
            Shape::Object(objects) => self.object(objects, None, &[]),
            Shape::List(lists) => Some(Value::Array(self.list(lists, usize::try_from(lists.min).ok()?)?)),
            Shape::Number(_) | Shape::Text(_) => {
                let values = self.scalars(alt);
                values.into_iter().find(|value| self.world.alt_has(alt, value) == Some(true))
            }
        }
    }

    fn object(
        &mut self,
        objects: &Objects<'a>,
        given: Option<(String, Value)>,
        wanted: &[&'a str],
    ) -> Option<Value> {
        let mut made = Map::new();
        made.extend(given);
        for name in objects.required.iter().chain(wanted) {
            if !made.contains_key(*name) {
                let member = self.world.member(objects, name);
                made.insert((*name).to_owned(), self.simplest(member)?);
            }
        }
        for _ in 0..4 {
            for (name, needed) in &objects.dependents {
                if made.contains_key(*name) && !made.contains_key(*needed) {
                    let member = self.world.member(objects, needed);
                    made.insert((*needed).to_owned(), self.simplest(member)?);
                }
            }
        }
        let names: Vec<&'a str> =
            objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()).collect();
        let spare = ["zz", "v", "m", "note", "0", "1", "2", "3"].into_iter();
        for name in names.into_iter().chain(spare) {
            if made.len() as u64 >= objects.min {
                break;
            }
            if !made.contains_key(name) {
                let member = self.world.member(objects, name);
                if let Some(value) = self.simplest(member) {
                    made.insert(name.to_owned(), value);
                }
            }
        }
        Some(Value::Object(made))
    }

    fn list(&mut self, lists: &Lists, length: usize) -> Option<Vec<Value>> {
        let mut made: Vec<Value> = Vec::new();
        for index in 0..length.min(64) {
            let item = self.world.item(lists, index);
            let mut value = self.simplest(item)?;
            if lists.unique && made.contains(&value) {
                let any = self.world.state(&[]);
                value = self.all(item, any).into_iter().find(|value| !made.contains(value))?;
            }
            made.push(value);
        }
        Some(made)
    }

    /// Values of a state, at its edges and at those of what reads them.
    fn all(&mut self, state: State, reader: State) -> Vec<Value> {
        if self.depth > MAX_DEPTH {
            return Vec::new();
        }
        self.depth += 1;
        let alts = self.world.expand(state);
        let values = alts.iter().flat_map(|alt| self.variations(alt, reader)).collect();
        self.depth -= 1;
        values
    }

    fn variations(&mut self, alt: &Alt<'a>, reader: State) -> Vec<Value> {
        let theirs = self.world.expand(reader);
        let mut values = match &alt.shape {
            Shape::Literals(values) => values.clone(),
            Shape::Number(_) | Shape::Text(_) => {
                let mut values = Vec::new();
                for their in theirs.iter() {
                    values.extend(self.scalars(their));
                    values.extend(their.excluded.iter().cloned());
                }
                let mut own = self.scalars(alt);
                own.append(&mut values);
                own
            }
            Shape::List(lists) => self.lists(lists, &theirs),
            Shape::Object(objects) => self.objects(objects, &theirs),
        };
        let mut seen = HashSet::new();
        values
            .retain(|value| seen.insert(value.to_string()) && self.world.alt_has(alt, value) != Some(false));
        values
    }

    fn lists(&mut self, lists: &Lists, theirs: &[Alt<'a>]) -> Vec<Value> {
        let mut lengths = vec![lists.min, lists.min + 1, 0, 1, 2];
        lengths.extend(lists.max);
        for their in theirs {
            if let Shape::List(their) = &their.shape {
                lengths.extend(their.max.map(|max| max.saturating_add(1)));
                lengths.push(their.min.saturating_sub(1));
            }
        }
        let mut values = Vec::new();
        for length in lengths.into_iter().filter(|length| *length <= 64) {
            values.extend(self.list(lists, length as usize).map(Value::Array));
        }
        // Every item once as something else.
        let lengths: &[usize] = if self.depth < 3 { &[1, 2] } else { &[] };
        for &length in lengths {
            let Some(base) = self.list(lists, length) else { continue };
            for index in 0..length {
                let item = self.world.item(lists, index);
                let any = self.world.state(&[]);
                for value in self.all(item, any).into_iter().take(8) {
                    let mut values_here = base.clone();
                    values_here[index] = value;
                    values.push(Value::Array(values_here));
                }
            }
        }
        values
    }

    fn objects(&mut self, objects: &Objects<'a>, theirs: &[Alt<'a>]) -> Vec<Value> {
        let mut names: Vec<&'a str> =
            objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()).collect();
        for their in theirs {
            if let Shape::Object(their) = &their.shape {
                names.extend(their.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()));
            }
        }
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(*name));
        let mut values: Vec<Value> = self.object(objects, None, &[]).into_iter().collect();
        let all: Vec<&'a str> = names
            .iter()
            .copied()
            .filter(|name| {
                let member = self.world.member(objects, name);
                !self.world.is_empty(member)
            })
            .collect();
        values.extend(self.object(objects, None, &all));
        for name in all.iter().take(40) {
            values.extend(self.object(objects, None, &[name]));
        }
        if self.depth < 3 {
            let any = self.world.state(&[]);
            for name in all.iter().take(40) {
                let member = self.world.member(objects, name);
                for value in self.all(member, any).into_iter().take(12) {
                    values.extend(self.object(objects, Some(((*name).to_owned(), value)), &[]));
                }
            }
        }
        let free = self.free_name(objects, None);
        let member = self.world.member(objects, &free);
        if let Some(value) = self.simplest(member) {
            values.extend(self.object(objects, Some((free.clone(), value)), &[]));
        }
        values
    }

    /// Numbers and texts near the edges of an alternative.
    fn scalars(&mut self, alt: &Alt<'a>) -> Vec<Value> {
        match &alt.shape {
            Shape::Number(numbers) => numbers_near(numbers),
            Shape::Text(texts) => texts_near(texts),
            Shape::Literals(values) => values.clone(),
            Shape::List(_) | Shape::Object(_) => Vec::new(),
        }
    }
}

fn numbers_near(numbers: &Numbers<'_>) -> Vec<Value> {
    let mut near: Vec<Decimal> = vec![Decimal::ZERO, Decimal::ONE];
    for bound in [numbers.min, numbers.max].into_iter().flatten() {
        near.extend([bound.value.rounded(true), bound.value.rounded(false), bound.value]);
        near.extend([bound.value.stepped(true), bound.value.stepped(false)].into_iter().flatten());
    }
    for step in &numbers.steps {
        near.push(*step);
        if let Some(n) = step.as_i128() {
            near.extend([2, 3, 5, 7].map(|k| Decimal::of_i128(n.saturating_mul(k))));
            for bound in [numbers.min, numbers.max].into_iter().flatten() {
                if let Some(end) = bound.value.as_i128()
                    && n != 0
                {
                    let whole = end / n * n;
                    near.extend(
                        [whole.saturating_sub(n), whole, whole.saturating_add(n)].map(Decimal::of_i128),
                    );
                }
            }
        }
    }
    near.extend([2, 10, -1, 128, 4_294_967_296, 9_007_199_254_740_993].map(Decimal::of_i128));
    let mut values: Vec<Value> = near.into_iter().filter_map(Decimal::to_value).collect();
    if !numbers.integer {
        // Whole ones too: to a Rust integer 1.0 is none.
        let written: Vec<_> = values.iter().filter_map(Value::as_f64).map(|n| json!(n)).collect();
        values.extend(written);
        values.extend([json!(0.5), json!(-0.5), json!(1.5), json!(0.0), json!(1.0)]);
        for bound in [numbers.min, numbers.max].into_iter().flatten() {
            if let Some(Value::Number(n)) = bound.value.to_value()
                && let Some(n) = n.as_f64()
            {
                values.extend([json!(n), json!(n + 0.5), json!(n - 0.5)]);
            }
        }
    }
    values
}

fn texts_near(texts: &Texts<'_>) -> Vec<Value> {
    let mut values: Vec<Value> = SAMPLES.iter().copied().map(Value::from).collect();
    let lengths =
        [Some(texts.min), texts.min.checked_sub(1), texts.max, texts.max.and_then(|max| max.checked_add(1))];
    for length in lengths.into_iter().flatten().filter(|length| *length <= 10_000) {
        values.extend(["a", "0", "A"].map(|c| Value::from(c.repeat(length as usize))));
    }
    values.extend(texts.known.iter().flatten().cloned());
    values
}
