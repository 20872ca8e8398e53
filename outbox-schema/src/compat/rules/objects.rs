//! Objects: members, maps, what is required, what else may be there.

use std::collections::BTreeSet;

use crate::compat::finding::{Rule, Side};
use crate::compat::lower::{Alt, Objects, Shape, Texts};
use crate::compat::prove::{At, Prover, Reason, To};
use crate::compat::rules::NEW_MAJOR;
use crate::compat::world::{Item, Loc, State};
use crate::document::join;

impl<'a> Prover<'_, 'a> {
    pub(in crate::compat) fn objects_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        reader: State,
        at: At,
    ) -> bool {
        let mut within = self.required_within(alt, mine, theirs, reader, at);
        within &= self.counts_within(alt, mine, theirs, reader, at);
        let named: BTreeSet<&'a str> =
            names(mine).chain(names(theirs)).chain(mine.required.iter().copied()).collect();
        for name in &named {
            within &= self.member_within(alt, name, mine, theirs, at);
        }
        within & self.unnamed_within(alt, &named, mine, theirs, at)
    }

    fn required_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        reader: State,
        at: At,
    ) -> bool {
        let mut within = true;
        for name in theirs.required.difference(&mine.required) {
            within = false;
            let declared = names(mine).any(|own| own == *name);
            let (rule, message, help) = match (declared, self.is_backward()) {
                (false, true) => (
                    Rule::FieldAddedRequired,
                    format!("stored events lack `{name}`, which the new reader requires"),
                    "make it optional (`Option`, or `#[serde(default)]`)",
                ),
                (true, true) => (
                    Rule::RequiredAdded,
                    format!("stored events may lack `{name}`, which the new reader requires"),
                    "keep it optional; a `default` in the schema does not help a reader that insists on the member",
                ),
                (false, false) => (
                    Rule::FieldRemovedRequired,
                    format!("new events lack `{name}`, which a pinned reader requires"),
                    "keep sending it, marked as deprecated",
                ),
                (true, false) => (
                    Rule::RequiredRemoved,
                    format!("new events may lack `{name}`, which a pinned reader requires"),
                    "keep it required",
                ),
            };
            let reason = self.of_member(rule, rule != Rule::FieldRemovedRequired, at, name, message, help);
            self.fail_at(alt, reader, reason);
        }
        for (name, needed) in &theirs.dependents {
            let has_not = || !mine.required.contains(name);
            let met = mine.required.contains(needed)
                || mine.dependents.contains(&(*name, *needed))
                || has_not() && {
                    let member = self.world.member(mine, name);
                    self.world.is_empty(member)
                };
            if !met {
                let message = format!(
                    "{} may have `{name}` without `{needed}`, which {} refuses",
                    self.writers(),
                    self.readers()
                );
                let help = format!("keep the dependency, {NEW_MAJOR}");
                let reason = self.in_either(Rule::KeywordUnsupported, at, "dependentRequired", message, help);
                self.fail_at(alt, reader, reason);
                within = false;
            }
        }
        within
    }

    fn counts_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        reader: State,
        at: At,
    ) -> bool {
        let least = mine.min.max(mine.required.len() as u64);
        let most = self.most_members(mine);
        let few = least < theirs.min;
        if !few && theirs.max.is_none_or(|limit| most.is_some_and(|most| most <= limit)) {
            return true;
        }
        let message =
            format!("{} may have a number of members that {} refuses", self.writers(), self.readers());
        let keyword = if few { "minProperties" } else { "maxProperties" };
        let reason =
            self.in_either(Rule::PropsCount, at, keyword, message, format!("keep `{keyword}`, {NEW_MAJOR}"));
        self.fail_at(alt, reader, reason);
        false
    }

    /// The most members that an object can have.
    fn most_members(&mut self, objects: &Objects<'a>) -> Option<u64> {
        let closed = objects.layers.iter().any(|(layer, _)| {
            layer.patterns.is_empty()
                && layer.rest.is_some_and(|rest| {
                    let rest = self.world.state(&[(rest, false)]);
                    self.world.is_empty(rest)
                })
        });
        let declared = closed.then(|| names(objects).collect::<BTreeSet<_>>().len() as u64);
        declared.into_iter().chain(objects.max).min()
    }

    /// A reason about a member: where it is declared, or the object's `required`.
    fn of_member(
        &self,
        rule: Rule,
        new: bool,
        at: At,
        name: &str,
        message: String,
        help: &str,
    ) -> Reason<'a> {
        let loc = if new { self.new_side(at) } else { self.old_side(at) };
        let keyword = if matches!(rule, Rule::RequiredAdded | Rule::RequiredRemoved) {
            "required"
        } else {
            "properties"
        };
        let declared = |loc: Loc| {
            self.world
                .object(loc)
                .and_then(|schema| schema.get("properties"))
                .is_some_and(|members| members.get(name).is_some())
        };
        let pointer = match keyword {
            "properties" if declared(loc) => join(&join(&self.world.pointer(loc), keyword), name),
            _ => self.keyword(loc, keyword),
        };
        Reason {
            rule,
            side: if new { Side::New } else { Side::Old },
            pointer,
            message,
            help: Some(format!("{help}, {NEW_MAJOR}")),
            path: Vec::new(),
            end: None,
        }
    }

    fn member_within(
        &mut self,
        alt: &Alt<'a>,
        name: &'a str,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        at: At,
    ) -> bool {
        let (own, their) = (self.world.member(mine, name), self.world.member(theirs, name));
        if self.world.is_false(own) || self.world.items(their).is_empty() && theirs.names.is_empty() {
            return true;
        }
        let declared = |objects: &Objects<'a>| names(objects).any(|known| known == name);
        let (own_declares, they_declare) = (declared(mine), declared(theirs));
        if self.world.is_false(their) && !self.world.is_empty(own) {
            let closed = self.either(Rule::FieldRemovedClosed, Rule::FieldAddedClosed);
            let rule = self.map_rule(mine, theirs, they_declare).unwrap_or(closed);
            let message = format!(
                "{} may have `{name}`, and {} refuses members that it does not know",
                self.writers(),
                self.readers()
            );
            let help = self.either(
                "open the object (no `deny_unknown_fields`)",
                "readers that refuse unknown members cannot be given more: drop `deny_unknown_fields` in a new major",
            );
            let reason = self.of_member(rule, !self.is_backward(), at, name, message, help);
            self.fail_in(alt, To::Member(name), reason);
            return false;
        }
        let first = self.reasons.len();
        let at_member = self.member_at(name, at);
        let mut within = self.prove_in(alt, To::Member(name), own, their, at_member);
        if !within && own_declares != they_declare {
            let rule = self.map_rule(mine, theirs, they_declare).unwrap_or(Rule::CatchAllType);
            for reason in self.reasons.iter_mut().skip(first) {
                reason.rule = rule;
            }
        }
        for schema in &theirs.names {
            let state = self.world.state(&[(*schema, false)]);
            if self.world.has(state, &name.into()) != Some(true) && !self.world.is_empty(own) {
                let message =
                    format!("{} may have `{name}`, a name that {} refuses", self.writers(), self.readers());
                let reason = self.in_either(
                    Rule::MapKey,
                    at,
                    "propertyNames",
                    message,
                    format!("keep the names, {NEW_MAJOR}"),
                );
                self.fail_in(alt, To::Member(name), reason);
                within = false;
            }
        }
        within
    }

    /// Where a member is declared, or the object.
    fn member_at(&mut self, name: &'a str, at: At) -> At {
        let mut side = |loc: Loc| {
            let members = self.world.object(loc).and_then(|schema| schema.get("properties"));
            match members.and_then(|members| members.get(name)) {
                Some(member) => self.world.child(loc, member, "properties", Some(name)),
                None => loc,
            }
        };
        At { writer: side(at.writer), reader: side(at.reader) }
    }

    /// A struct on one side and a map on the other is told as such.
    fn map_rule(&self, mine: &Objects<'a>, theirs: &Objects<'a>, they_declare: bool) -> Option<Rule> {
        let (map, other) = if they_declare { (mine, theirs) } else { (theirs, mine) };
        if !is_map(map) || is_map(other) {
            return None;
        }
        Some(match (they_declare, self.is_backward()) {
            (true, true) | (false, false) => Rule::MapToStruct,
            (true, false) | (false, true) => Rule::StructToMap,
        })
    }

    /// Members that neither side names, one kind of name after the other.
    fn unnamed_within(
        &mut self,
        alt: &Alt<'a>,
        named: &BTreeSet<&'a str>,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        at: At,
    ) -> bool {
        let mut patterns: BTreeSet<Option<&'a str>> = BTreeSet::from([None]);
        patterns
            .extend(mine.layers.iter().flat_map(|(layer, _)| layer.patterns.iter().map(|(p, _)| Some(*p))));
        let mut within = true;
        for pattern in patterns {
            let own = self.unnamed(mine, pattern);
            if self.world.is_false(own) || self.world.is_empty(own) {
                continue;
            }
            within &= self.names_within(alt, pattern, mine, theirs, at);
            let their = self.demands(theirs, pattern);
            if self.world.items(their).is_empty() {
                continue;
            }
            if self.world.is_false(their) {
                let rule = if is_map(theirs) {
                    Rule::MapKey
                } else {
                    let (closed, map) = (
                        self.either(Rule::ObjectClosed, Rule::ObjectOpened),
                        self.either(Rule::MapToStruct, Rule::StructToMap),
                    );
                    if is_map(mine) && !is_map(theirs) && !named.is_empty() { map } else { closed }
                };
                let keys = pattern.map_or(String::new(), |pattern| format!(" matching `{pattern}`"));
                let message = format!(
                    "{} may have members{keys} that {} does not know and refuses",
                    self.writers(),
                    self.readers()
                );
                let help = self.either("keep the object open", "keep the object closed");
                let reason =
                    self.in_new(rule, at, "additionalProperties", message, format!("{help}, {NEW_MAJOR}"));
                self.fail_in(alt, To::Unnamed(pattern), reason);
                within = false;
            } else {
                within &= self.prove_in(alt, To::Unnamed(pattern), own, their, at);
            }
        }
        within
    }

    /// Whether names of a kind are accepted.
    fn names_within(
        &mut self,
        alt: &Alt<'a>,
        pattern: Option<&'a str>,
        mine: &Objects<'a>,
        theirs: &Objects<'a>,
        at: At,
    ) -> bool {
        if theirs.names.is_empty() {
            return true;
        }
        let texts =
            Alt::of(Shape::Text(Texts { patterns: pattern.into_iter().collect(), ..Texts::default() }));
        let own: Vec<Item> = mine.names.iter().map(|loc| (*loc, false)).collect();
        let (own, their) = (
            self.world.state(&own),
            self.world.state(&theirs.names.iter().map(|loc| (*loc, false)).collect::<Vec<_>>()),
        );
        let own = self.world.expand(own);
        let own = self.world.product(&[texts], &own);
        let first = self.reasons.len();
        let within = self.all_within(&own, their, at);
        self.reasons.truncate(first);
        if !within {
            let message =
                format!("{} may have names of members that {} refuses", self.writers(), self.readers());
            let reason = self.in_either(
                Rule::MapKey,
                at,
                "propertyNames",
                message,
                format!("keep the names, {NEW_MAJOR}"),
            );
            self.fail_in(alt, To::Unnamed(pattern), reason);
        }
        within
    }

    /// What is written under names of a kind: those that match a pattern, or none of them.
    fn unnamed(&mut self, objects: &Objects<'a>, pattern: Option<&str>) -> State {
        let mut items: Vec<Item> = Vec::new();
        for (layer, writer) in &objects.layers {
            let matching: Vec<_> = layer.patterns.iter().filter(|(own, _)| Some(*own) == pattern).collect();
            if matching.is_empty() {
                // A name that matches `pattern` may match another one of this layer: then its rest says nothing.
                if pattern.is_none() || layer.patterns.is_empty() {
                    items.extend(layer.rest.map(|loc| (loc, *writer)));
                }
            }
            items.extend(matching.iter().filter_map(|(_, member)| member.map(|loc| (loc, *writer))));
        }
        self.world.state(&items)
    }

    /// What may be asked of members with names of a kind.
    fn demands(&mut self, objects: &Objects<'a>, pattern: Option<&str>) -> State {
        let mut items: Vec<Item> = Vec::new();
        for (layer, writer) in &objects.layers {
            items.extend(layer.patterns.iter().filter_map(|(_, member)| member.map(|loc| (loc, *writer))));
            if !layer.patterns.iter().any(|(own, _)| Some(*own) == pattern) {
                items.extend(layer.rest.map(|loc| (loc, *writer)));
            }
        }
        self.world.state(&items)
    }
}

/// The names that an object's schemas declare.
fn names<'o, 'a>(objects: &'o Objects<'a>) -> impl Iterator<Item = &'a str> + use<'o, 'a> {
    objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied())
}

/// Whether an object is a map: it declares no member, and says what the others are.
fn is_map(objects: &Objects<'_>) -> bool {
    names(objects).next().is_none()
        && objects
            .layers
            .iter()
            .any(|(layer, _)| layer.explicit && layer.rest.is_some() || !layer.patterns.is_empty())
}
