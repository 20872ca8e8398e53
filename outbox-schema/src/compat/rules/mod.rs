//! One file per keyword family: what each constraint of a reader asks of a writer, and what is said where it is not met.

mod lists;
pub(super) mod notes;
pub(super) mod numbers;
mod objects;
mod texts;
mod unions;

use std::fmt::Display;
use std::rc::Rc;

use serde_json::Value;

use super::finding::{Direction, Rule, Side};
use super::lower::{Alt, Shape};
use super::prove::{At, Prover, Reason};
use super::world::{Loc, State};
use crate::document::join;

/// The way out that every breaking change has.
const NEW_MAJOR: &str = "or make it a new major (schema_version + 1)";

/// A value on one line, cut.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

pub(super) fn listed(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().take(5).map(short).collect();
    let more = values.len().saturating_sub(5);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

impl<'a> Prover<'_, 'a> {
    pub(super) fn is_backward(&self) -> bool {
        self.direction == Direction::Backward
    }

    /// One of two, by direction.
    pub(super) fn either<T>(&self, backward: T, forward: T) -> T {
        if self.is_backward() { backward } else { forward }
    }

    /// Who writes, in messages.
    pub(super) fn writers(&self) -> &'static str {
        self.either("stored events", "new events")
    }

    /// Who reads, in messages.
    pub(super) fn readers(&self) -> &'static str {
        self.either("the new reader", "a pinned reader")
    }

    /// Where a keyword is, or the schema that should have it.
    pub(super) fn keyword(&self, loc: Loc, keyword: &str) -> String {
        let pointer = self.world.pointer(loc);
        match self.world.object(loc) {
            Some(schema) if schema.contains_key(keyword) => join(&pointer, keyword),
            _ => pointer,
        }
    }

    /// A reason with its place in the new document.
    pub(super) fn in_new(
        &self,
        rule: Rule,
        at: At,
        keyword: &str,
        message: String,
        help: impl Display,
    ) -> Reason<'a> {
        let pointer = self.keyword(self.new_side(at), keyword);
        Reason {
            rule,
            side: Side::New,
            pointer,
            message,
            help: Some(help.to_string()),
            path: Vec::new(),
            end: None,
        }
    }

    /// A reason with its place in the old document, for what is no longer there.
    pub(super) fn in_old(
        &self,
        rule: Rule,
        at: At,
        keyword: &str,
        message: String,
        help: impl Display,
    ) -> Reason<'a> {
        let pointer = self.keyword(self.old_side(at), keyword);
        Reason { side: Side::Old, pointer, ..self.in_new(rule, at, keyword, message, help) }
    }

    /// A constraint that differs: in the new document where it has it, else in the old one.
    pub(super) fn in_either(
        &self,
        rule: Rule,
        at: At,
        keyword: &str,
        message: String,
        help: impl Display,
    ) -> Reason<'a> {
        let has = |loc: Loc| self.world.object(loc).is_some_and(|schema| schema.contains_key(keyword));
        if !has(self.new_side(at)) && has(self.old_side(at)) {
            self.in_old(rule, at, keyword, message, help)
        } else {
            self.in_new(rule, at, keyword, message, help)
        }
    }

    /// Adds a reason that shows itself in a value of the alternative.
    pub(super) fn fail_at(&mut self, alt: &Alt<'a>, reader: State, reason: Reason<'a>) {
        self.fail(Reason { end: Some((Rc::new(alt.clone()), reader)), ..reason });
    }

    /// What every reader's alternative asks, whatever its type: literals and schemas that must not be met, keywords
    /// that are not understood.
    pub(super) fn rest_within(&mut self, alt: &Alt<'a>, their: &Alt<'a>, reader: State, at: At) -> bool {
        let mut within = true;
        let out: Vec<_> = their
            .excluded
            .iter()
            .filter(|value| !alt.excluded.contains(value) && self.world.alt_has(alt, value) != Some(false))
            .cloned()
            .collect();
        if !out.is_empty() {
            let rule = self.either(Rule::EnumValueRemoved, Rule::EnumValueAdded);
            let message =
                format!("{} may be {}, which {} refuses", self.writers(), listed(&out), self.readers());
            let reason =
                self.in_either(rule, at, "not", message, format!("keep what is excluded, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for not in &their.nots {
            if alt.nots.iter().any(|mine| self.same.same(self.world, *mine, *not)) || self.misses(alt, *not) {
                continue;
            }
            let union = self.world.pointer(*not).contains("/oneOf/");
            let rule = if union { Rule::OneofOverlap } else { Rule::KeywordUnsupported };
            let message = if union {
                format!(
                    "{} may fit more than one alternative of a `oneOf` of {}",
                    self.writers(),
                    self.readers()
                )
            } else {
                format!("`not` differs, and whether {} miss it cannot be told", self.writers())
            };
            let help = if union {
                format!("tell the alternatives apart by a tag, or use `anyOf`, {NEW_MAJOR}")
            } else {
                format!("keep `not` as it is, {NEW_MAJOR}")
            };
            let reason = self.in_new(rule, at, if union { "oneOf" } else { "not" }, message, help);
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for (loc, keyword) in &their.opaque {
            let together: &[&str] = match *keyword {
                "if" => &["if", "then", "else"],
                "contains" => &["contains", "minContains", "maxContains"],
                keyword => &[keyword],
            };
            let met = alt.opaque.iter().any(|(mine, other)| {
                other == keyword && self.same.same_in(self.world, *mine, *loc, together)
            });
            // What these mean depends on what stands beside them, or they stand for a schema that was not looked into.
            let by_itself = !matches!(
                *keyword,
                "$ref"
                    | "allOf"
                    | "anyOf"
                    | "patternProperties"
                    | "unevaluatedProperties"
                    | "unevaluatedItems"
            );
            if !met || !by_itself {
                let message =
                    format!("`{keyword}` differs, and what that means for {} cannot be told", self.readers());
                let reason = self.in_either(
                    Rule::KeywordUnsupported,
                    at,
                    keyword,
                    message,
                    format!("keep `{keyword}` as it is, {NEW_MAJOR}"),
                );
                self.fail_at(alt, reader, reason);
                within = false;
            }
        }
        within
    }

    /// Whether no value of the alternative matches a schema.
    fn misses(&mut self, alt: &Alt<'a>, not: Loc) -> bool {
        self.world
            .alternatives(not)
            .iter()
            .all(|other| self.world.meet(alt, other).is_none_or(|met| self.world.alt_is_empty(&met)))
    }

    /// Some literals of the writer are refused.
    pub(super) fn literals_refused(
        &mut self,
        alt: &Alt<'a>,
        refused: &[Value],
        reader: State,
        theirs: &[Alt<'a>],
        at: At,
    ) {
        let (nulls, others): (Vec<_>, Vec<_>) = refused.iter().cloned().partition(Value::is_null);
        if !nulls.is_empty() {
            let rule = self.either(Rule::NullRemoved, Rule::NullAdded);
            let message = format!("{} may be null here, which {} refuses", self.writers(), self.readers());
            let help = self.either("keep it nullable (`Option`)", "do not make it nullable");
            let reason = self.in_new(rule, at, "type", message, format!("{help}, {NEW_MAJOR}"));
            self.fail_at(&Alt::of(Shape::Literals(nulls)), reader, reason);
        }
        if others.is_empty() {
            return;
        }
        let kinds = Alt::of(Shape::Literals(others.clone())).kinds();
        let there: Vec<_> = theirs.iter().filter(|their| their.kinds() & kinds != 0).collect();
        let part = Alt { shape: Shape::Literals(others.clone()), ..alt.clone() };
        if there.is_empty() {
            self.not_offered(&part, reader, theirs, at);
            return;
        }
        let rule = self.either(Rule::EnumValueRemoved, Rule::EnumValueAdded);
        let message =
            format!("{} may be {}, which {} refuses", self.writers(), listed(&others), self.readers());
        let help = self.either(
            "keep accepting the value",
            "let readers expect new values first (an open enum: `open_enum`)",
        );
        let keyword = if self.world.object(at.writer).is_some_and(|schema| schema.contains_key("const")) {
            "const"
        } else {
            "enum"
        };
        let help = format!("{help}, {NEW_MAJOR}");
        let reason = if self.is_backward() {
            self.in_old(rule, at, keyword, message, help)
        } else {
            self.in_new(rule, at, keyword, message, help)
        };
        self.fail_at(&part, reader, reason);
    }
}
