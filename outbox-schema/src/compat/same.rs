//! Whether two schemas are the same in writing, whatever their definitions are called: what need not be proved.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::decimal::same_value;
use super::world::{Loc, State, World};
use crate::document::{Place, is_annotation, is_set, place};

/// How deep schemas are followed.
const MAX_DEPTH: u32 = 100;

/// Pairs of schemas that were looked at. With `defaults`, what absence means counts too.
#[derive(Default)]
pub(super) struct Sameness {
    defaults: bool,
    known: HashMap<(Loc, Loc), bool>,
    /// Pairs that were found or assumed to be the same, in that order.
    trail: Vec<(Loc, Loc)>,
    depth: u32,
}

impl Sameness {
    pub(super) fn with_defaults() -> Self {
        Self { defaults: true, ..Self::default() }
    }

    /// Whether each schema of the reader's state is one of the writer's.
    pub(super) fn plainly_within(&mut self, world: &mut World<'_>, writer: State, reader: State) -> bool {
        let (writer, reader) = (world.items(writer), world.items(reader));
        reader.iter().all(|(theirs, _)| writer.iter().any(|(mine, _)| self.same(world, *mine, *theirs)))
    }

    pub(super) fn same(&mut self, world: &mut World<'_>, a: Loc, b: Loc) -> bool {
        let (a, b) = (target(world, a), target(world, b));
        if a == b {
            return true;
        }
        if let Some(known) = self.known.get(&(a, b)) {
            return *known;
        }
        if self.depth >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        // A pair that is met again inside itself is the same if everything else is.
        self.known.insert((a, b), true);
        let mark = self.trail.len();
        self.trail.push((a, b));
        let same = match (world.schema(a), world.schema(b)) {
            (Value::Object(x), Value::Object(y)) => self.same_objects(world, (a, x), (b, y), |_| true),
            (x, y) => x.is_boolean() && x == y && world.root(a) != 0 && world.root(b) != 0,
        };
        self.depth -= 1;
        if !same {
            for wrong in self.trail.split_off(mark) {
                self.known.remove(&wrong);
            }
            self.known.insert((a, b), false);
        }
        same
    }

    /// Whether two schemas say the same by some of their keywords.
    pub(super) fn same_in(&mut self, world: &mut World<'_>, a: Loc, b: Loc, keywords: &[&str]) -> bool {
        match (world.object(a), world.object(b)) {
            (Some(x), Some(y)) => {
                self.same_objects(world, (a, x), (b, y), |keyword| keywords.contains(&keyword))
            }
            _ => false,
        }
    }

    fn same_objects<'a>(
        &mut self,
        world: &mut World<'a>,
        (a, x): (Loc, &'a Map<String, Value>),
        (b, y): (Loc, &'a Map<String, Value>),
        wanted: impl Fn(&str) -> bool,
    ) -> bool {
        let defaults = self.defaults;
        let counts = |keyword: &&String| {
            wanted(keyword)
                && !is_annotation(keyword)
                && !matches!(keyword.as_str(), "$defs" | "definitions" | "$id")
                && (defaults || *keyword != "default")
        };
        x.keys().filter(counts).count() == y.keys().filter(counts).count()
            && x.iter().filter(|(keyword, _)| counts(keyword)).all(|(keyword, x)| {
                let Some(y) = y.get(keyword) else { return false };
                match (place(keyword), x, y) {
                    (Place::Schema, x, y) => {
                        let (a, b) = (world.child(a, x, keyword, None), world.child(b, y, keyword, None));
                        self.same(world, a, b)
                    }
                    (Place::List, Value::Array(x), Value::Array(y)) => {
                        x.len() == y.len()
                            && x.iter().zip(y).enumerate().all(|(i, (x, y))| {
                                let (a, b) =
                                    (world.child_at(a, x, keyword, i), world.child_at(b, y, keyword, i));
                                self.same(world, a, b)
                            })
                    }
                    (Place::Named, Value::Object(x), Value::Object(y)) => {
                        x.len() == y.len()
                            && x.iter().all(|(name, x)| {
                                let Some(y) = y.get(name) else { return false };
                                let a = world.child(a, x, keyword, Some(name));
                                let b = world.child(b, y, keyword, Some(name));
                                self.same(world, a, b)
                            })
                    }
                    (_, Value::String(x), Value::String(y)) if keyword == "$ref" => {
                        match (world.referred(a, x), world.referred(b, y)) {
                            (Some(a), Some(b)) => self.same(world, a, b),
                            _ => false,
                        }
                    }
                    (_, Value::Array(x), Value::Array(y)) if is_set(keyword) => {
                        let within = |x: &[Value], y: &[Value]| x.iter().all(|x| y.contains(x));
                        x == y || x.len() == y.len() && x.len() < 1_000 && within(x, y) && within(y, x)
                    }
                    (_, x, y) => same_value(x, y),
                }
            })
    }
}

/// What a schema that is nothing but a reference refers to.
fn target(world: &mut World<'_>, loc: Loc) -> Loc {
    let mut loc = loc;
    for _ in 0..16 {
        let Some(schema) = world.object(loc) else { break };
        let mut said = schema.iter().filter(|(keyword, _)| {
            !is_annotation(keyword) && !matches!(keyword.as_str(), "$defs" | "definitions")
        });
        let (Some((keyword, Value::String(target))), None) = (said.next(), said.next()) else { break };
        if keyword != "$ref" {
            break;
        }
        match world.referred(loc, target) {
            Some(target) => loc = target,
            None => break,
        }
    }
    loc
}
