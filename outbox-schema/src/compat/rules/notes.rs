//! What changed without breaking anybody, and what of it may not have been meant.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;

use super::{listed, short};
use crate::compat::finding::{Finding, Rule, Severity, Side};
use crate::compat::lower::{Alt, Lists, NUMBER, Numbers, Objects, Shape};
use crate::compat::same::Sameness;
use crate::compat::world::{Loc, State, World};
use crate::document::join;

/// How deep values are followed.
const MAX_DEPTH: usize = 32;
/// How many findings are kept.
const MAX_FINDINGS: usize = 100;

/// Walks both documents side by side, as far as their parts correspond.
pub(in crate::compat) struct Notes<'w, 'a> {
    world: &'w mut World<'a>,
    same: Sameness,
    seen: HashSet<(State, State)>,
    depth: usize,
    findings: Vec<Finding>,
}

/// Notes and warnings about a change, whatever its verdict.
pub(in crate::compat) fn notes(world: &mut World<'_>, old: Loc, new: Loc) -> Vec<Finding> {
    let mut notes = Notes {
        world,
        same: Sameness::with_defaults(),
        seen: HashSet::new(),
        depth: 0,
        findings: Vec::new(),
    };
    notes.pair(old, new);
    for (root, side) in [(old, Side::Old), (new, Side::New)] {
        let written = notes.world.state(&[(root, true)]);
        if notes.world.is_empty(written) {
            notes.warn(
                Rule::MeaningRisk,
                side,
                String::new(),
                "no payload can be written by this schema, so nothing can break by it".to_owned(),
                "declare the members that are required",
            );
        }
    }
    notes.findings
}

impl<'a> Notes<'_, 'a> {
    fn add(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS && !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn note(&mut self, rule: Rule, side: Side, pointer: String, message: String) {
        let severity = Severity::Note;
        self.add(Finding {
            rule,
            severity,
            direction: None,
            side,
            pointer,
            message,
            help: None,
            witness: None,
        });
    }

    fn warn(&mut self, rule: Rule, side: Side, pointer: String, message: String, help: &str) {
        let (severity, help) = (Severity::Warning, Some(help.to_owned()));
        self.add(Finding { rule, severity, direction: None, side, pointer, message, help, witness: None });
    }

    /// Two schemas that stand for the same thing.
    fn pair(&mut self, old: Loc, new: Loc) {
        if self.depth >= MAX_DEPTH || self.same.same(self.world, old, new) {
            return;
        }
        let (from, to) = (self.world.state(&[(old, false)]), self.world.state(&[(new, false)]));
        if !self.seen.insert((from, to)) {
            return;
        }
        self.depth += 1;
        self.defaults(old, new);
        self.order(old, new);
        let (from, to) = (self.world.expand(from), self.world.expand(to));
        self.numbers(&from, &to, new);
        for alt in from.iter() {
            let Some(partner) = self.partner(alt, &from, &to) else { continue };
            match (&alt.shape, &partner.shape) {
                (Shape::Object(a), Shape::Object(b)) => {
                    let (old, new) = (alt.branch.unwrap_or(old), partner.branch.unwrap_or(new));
                    self.objects(a, b, old, new);
                }
                (Shape::List(a), Shape::List(b)) => self.lists(a, b),
                _ => {}
            }
        }
        self.depth -= 1;
    }

    /// The alternative that corresponds: the only one of its type, or the one with the same tag.
    fn partner(&mut self, alt: &Alt<'a>, from: &[Alt<'a>], to: &[Alt<'a>]) -> Option<Alt<'a>> {
        let of_type = |alts: &[Alt<'a>]| -> Vec<Alt<'a>> {
            alts.iter()
                .filter(|other| {
                    std::mem::discriminant(&other.shape) == std::mem::discriminant(&alt.shape)
                        && other.kinds() == alt.kinds()
                })
                .cloned()
                .collect()
        };
        let (here, there) = (of_type(from), of_type(to));
        match there.as_slice() {
            [only] if here.len() == 1 => Some(only.clone()),
            several => {
                let mine = self.tag(alt)?;
                several.iter().find(|other| self.tag(other).as_ref() == Some(&mine)).cloned()
            }
        }
    }

    /// What tells a variant apart: its constant members, or its only required one.
    fn tag(&mut self, alt: &Alt<'a>) -> Option<String> {
        let Shape::Object(objects) = &alt.shape else { return None };
        let mut tag = Vec::new();
        for name in &objects.required {
            let member = self.world.member(objects, name);
            if let [Alt { shape: Shape::Literals(values), .. }] = &*self.world.expand(member) {
                tag.push(format!("{name}={}", listed(values)));
            }
        }
        match (tag.is_empty(), objects.required.iter().next(), objects.required.len()) {
            (true, Some(only), 1) => Some((*only).to_owned()),
            (true, ..) => None,
            (false, ..) => Some(tag.join(",")),
        }
    }

    fn defaults(&mut self, old: Loc, new: Loc) {
        let default = |loc: Loc| self.world.object(loc).and_then(|schema| schema.get("default"));
        let pointer = |loc: Loc| join(&self.world.pointer(loc), "default");
        match (default(old), default(new)) {
            (Some(before), Some(after)) if before != after => {
                let message = format!(
                    "the default was {} and is {}: absence means another value now, also in stored events",
                    short(before),
                    short(after)
                );
                let pointer = pointer(new);
                self.warn(
                    Rule::DefaultChanged,
                    Side::New,
                    pointer,
                    message,
                    "write the value explicitly, or put the new meaning into a member of its own",
                );
            }
            (None, Some(after)) => {
                let message = format!(
                    "absence means {} now; generated types hold a value instead of an `Option`",
                    short(after)
                );
                let pointer = pointer(new);
                self.note(Rule::DefaultAdded, Side::New, pointer, message);
            }
            (Some(before), None) => {
                let message =
                    format!("absence meant {}; generated types hold an `Option` now", short(before));
                let pointer = pointer(old);
                self.note(Rule::DefaultRemoved, Side::Old, pointer, message);
            }
            _ => {}
        }
    }

    /// serde takes the first alternative that fits.
    fn order(&mut self, old: Loc, new: Loc) {
        let branches = |world: &mut World<'a>, loc: Loc| -> Vec<Loc> {
            let list = world.object(loc).and_then(|schema| schema.get("anyOf")).and_then(Value::as_array);
            list.into_iter()
                .flatten()
                .enumerate()
                .map(|(i, branch)| world.child_at(loc, branch, "anyOf", i))
                .collect()
        };
        let (before, after) = (branches(self.world, old), branches(self.world, new));
        // For each old alternative its place among the new ones.
        let places: Vec<usize> = before
            .iter()
            .filter_map(|old| after.iter().position(|new| self.same.same(self.world, *old, *new)))
            .collect();
        let reordered = places.windows(2).any(|pair| pair[0] > pair[1]);
        if reordered && !self.world.are_apart(&after) {
            let pointer = join(&self.world.pointer(new), "anyOf");
            self.warn(
                Rule::UntaggedOrder,
                Side::New,
                pointer,
                "alternatives without a tag are tried in another order: a payload that fits several is read as \
                 another one than before"
                    .to_owned(),
                "keep the order, and add alternatives at the end",
            );
        }
    }

    fn numbers(&mut self, from: &[Alt<'a>], to: &[Alt<'a>], new: Loc) {
        let number = |alts: &[Alt<'a>]| -> Option<Numbers<'a>> {
            let mut numbers =
                alts.iter().filter(|alt| alt.kinds() & NUMBER != 0).map(|alt| match &alt.shape {
                    Shape::Number(numbers) => Some(numbers.clone()),
                    _ => None,
                });
            match (numbers.next(), numbers.next()) {
                (Some(only), None) => only,
                _ => None,
            }
        };
        if let (Some(before), Some(after)) = (number(from), number(to))
            && before.integer
            && !after.integer
        {
            let pointer = self.world.pointer(new);
            self.warn(
                Rule::TypeWidened,
                Side::New,
                pointer,
                "integer became number: readers that hold a float lose digits of values beyond 2^53"
                    .to_owned(),
                "keep the integer, and put fractions into a member of its own",
            );
        }
    }

    fn lists(&mut self, old: &Lists, new: &Lists) {
        let slots =
            |lists: &Lists| lists.layers.iter().map(|(slots, _)| slots.prefix.len()).max().unwrap_or(0);
        for index in 0..=slots(old).max(slots(new)) {
            let (from, to) = (self.world.item(old, index), self.world.item(new, index));
            self.states(from, to);
        }
    }

    /// Two states that are one schema each.
    fn states(&mut self, from: State, to: State) {
        if let ([(from, _)], [(to, _)]) = (&*self.world.items(from), &*self.world.items(to)) {
            self.pair(*from, *to);
        }
    }

    fn objects(&mut self, old: &Objects<'a>, new: &Objects<'a>, from: Loc, to: Loc) {
        let names = |objects: &Objects<'a>| -> BTreeSet<&'a str> {
            objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()).collect()
        };
        let (before, after) = (names(old), names(new));
        for name in before.intersection(&after) {
            let (from, to) = (self.world.member(old, name), self.world.member(new, name));
            self.states(from, to);
        }
        let rest = |objects: &Objects<'a>| objects.layers.iter().find_map(|(layer, _)| layer.rest);
        if let (Some(from), Some(to)) = (rest(old), rest(new)) {
            self.pair(from, to);
        }
        let closed = |world: &World<'a>, objects: &Objects<'a>| {
            objects
                .layers
                .iter()
                .any(|(layer, _)| layer.rest.is_some_and(|rest| *world.schema(rest) == Value::Bool(false)))
        };
        let (was_closed, is_closed) = (closed(self.world, old), closed(self.world, new));
        if !was_closed && is_closed {
            let pointer = join(&self.world.pointer(to), "additionalProperties");
            self.warn(
                Rule::ObjectClosed,
                Side::New,
                pointer,
                "the object refuses members that it does not know now: every later addition will break its readers"
                    .to_owned(),
                "drop `deny_unknown_fields`",
            );
        } else if was_closed && !is_closed {
            let pointer = self.world.pointer(to);
            self.note(
                Rule::ObjectOpened,
                Side::New,
                pointer,
                "the object accepts members that it does not know now".to_owned(),
            );
        }
        let added: Vec<&'a str> = after.difference(&before).copied().collect();
        let removed: Vec<&'a str> = before.difference(&after).copied().collect();
        self.members(old, new, (from, &removed), (to, &added), was_closed);
    }

    fn members(
        &mut self,
        old: &Objects<'a>,
        new: &Objects<'a>,
        (from, removed): (Loc, &[&'a str]),
        (to, added): (Loc, &[&'a str]),
        was_closed: bool,
    ) {
        for name in added.iter().filter(|name| !new.required.contains(*name) && !was_closed) {
            let pointer = self.member_pointer(to, name);
            self.note(
                Rule::FieldAddedOptional,
                Side::New,
                pointer,
                format!("`{name}` was added, and is optional"),
            );
        }
        for name in removed.iter().filter(|name| !old.required.contains(*name)) {
            let pointer = self.member_pointer(from, name);
            let gone = self.world.member(old, name);
            if self.world.is_empty(gone) {
                continue;
            }
            let partner = added.iter().filter(|name| !new.required.contains(*name)).find(|added| {
                let member = self.world.member(new, added);
                self.same.plainly_within(self.world, gone, member)
                    && self.same.plainly_within(self.world, member, gone)
            });
            match partner {
                Some(added) => self.warn(
                    Rule::MeaningRisk,
                    Side::Old,
                    pointer,
                    format!(
                        "`{name}` was removed and `{added}` of the same type added: this looks like a rename, by which \
                         readers lose the data on both sides"
                    ),
                    "keep the old name (`#[serde(rename)]`), or send both for a while",
                ),
                None => self.warn(
                    Rule::FieldRemovedOptional,
                    Side::Old,
                    pointer,
                    format!("`{name}` is no longer sent: readers that use it see nothing from now on"),
                    "mark it as deprecated first; its name can only come back with the same schema",
                ),
            }
        }
    }

    fn member_pointer(&self, object: Loc, name: &str) -> String {
        let pointer = self.world.pointer(object);
        let members = self.world.object(object).and_then(|schema| schema.get("properties"));
        match members.and_then(|members| members.get(name)) {
            Some(_) => join(&join(&pointer, "properties"), name),
            None => pointer,
        }
    }
}
