//! Alternatives: types, variants of enums, and how they are told apart.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::compat::finding::{Rule, Side};
use crate::compat::lower::{Alt, NULL, OBJECT, Shape, TEXT};
use crate::compat::prove::{At, Prover, Reason, literals_of};
use crate::compat::rules::{NEW_MAJOR, listed};
use crate::compat::world::{State, kind_names};

/// How the variants of an enum are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::compat) enum Style<'a> {
    /// By the name of the only member.
    External,
    /// By a member beside the content's members.
    Internal(&'a str),
    /// By a member beside one that holds the content.
    Adjacent(&'a str, &'a str),
}

impl<'a> Prover<'_, 'a> {
    /// No alternative of the reader is for this one of the writer.
    pub(in crate::compat) fn not_offered(
        &mut self,
        alt: &Alt<'a>,
        reader: State,
        theirs: &[Alt<'a>],
        at: At,
    ) {
        let kinds = theirs.iter().fold(0, |kinds, their| kinds | their.kinds());
        let at = At { writer: alt.branch.unwrap_or(at.writer), reader: at.reader };
        let mine = kind_names(alt.kinds()).join(" or ");
        if alt.kinds() & kinds == 0 {
            self.type_missing(alt, &mine, kinds, reader, at);
            return;
        }
        let known = match &alt.shape {
            Shape::Text(texts) => texts.known.is_some(),
            Shape::Object(objects) => {
                let mut required = objects.required.iter();
                objects.known.is_some() || required.any(|name| self.known_texts(objects, name).is_some())
            }
            _ => false,
        };
        let (rule, message, help) = if known {
            (
                self.either(Rule::EnumClosed, Rule::EnumOpened),
                format!(
                    "{} may have a value that is not known yet, which {} refuses",
                    self.writers(),
                    self.readers()
                ),
                self.either("keep the enum open", "open an enum in the major in which it is made"),
            )
        } else if alt.kinds() == OBJECT {
            match self.variant(alt) {
                Some(variant) => (
                    self.either(Rule::VariantRemoved, Rule::VariantAdded),
                    format!(
                        "{} may be the variant {variant}, which {} does not know",
                        self.writers(),
                        self.readers()
                    ),
                    self.either(
                        "keep reading the variant",
                        "let readers expect new variants first (an open enum: `open_enum`)",
                    ),
                ),
                None => (
                    self.either(Rule::UntaggedAltRemoved, Rule::UntaggedAltAdded),
                    format!(
                        "{} may be an object that no alternative of {} accepts",
                        self.writers(),
                        self.readers()
                    ),
                    self.either("keep the alternative", "tell the alternatives apart by a tag"),
                ),
            }
        } else {
            let values: Vec<Value> = theirs.iter().flat_map(literals_of).collect();
            let accepted =
                if values.is_empty() { "only some".to_owned() } else { format!("only {}", listed(&values)) };
            (
                self.either(Rule::TypeNarrowed, Rule::TypeWidened),
                format!(
                    "{} may be any {mine} here, and {} accepts {accepted}",
                    self.writers(),
                    self.readers()
                ),
                self.either("keep accepting all of them", "keep to the values that are known"),
            )
        };
        let help = format!("{help}, {NEW_MAJOR}");
        let reason = if self.is_backward() && !known {
            self.in_old(rule, at, "", message, help)
        } else {
            self.in_new(rule, at, "", message, help)
        };
        self.fail_at(alt, reader, reason);
    }

    fn type_missing(&mut self, alt: &Alt<'a>, mine: &str, kinds: u8, reader: State, at: At) {
        let untagged = alt.branch.is_some() && kinds & !NULL != 0;
        let own = self.own_kinds(at);
        let (rule, help) = if kinds & own == 0 || kinds == 0 {
            (Rule::TypeChanged, "put the new form into a member of its own, beside the old one")
        } else if untagged && alt.branch.is_some_and(|branch| self.world.pointer(branch).contains("/anyOf/"))
        {
            (
                self.either(Rule::UntaggedAltRemoved, Rule::UntaggedAltAdded),
                self.either("keep the alternative", "put the new form into a member of its own"),
            )
        } else {
            (
                self.either(Rule::TypeNarrowed, Rule::TypeWidened),
                self.either("keep accepting the type", "keep to the type"),
            )
        };
        let accepted = match kind_names(kinds).as_slice() {
            [] => "nothing".to_owned(),
            names => names.join(" or "),
        };
        let message =
            format!("{} may be {mine} here, and {} accepts {accepted}", self.writers(), self.readers());
        let reason = self.in_new(rule, at, "type", message, format!("{help}, {NEW_MAJOR}"));
        self.fail_at(alt, reader, reason);
    }

    /// The types that the writer offers at a place.
    fn own_kinds(&mut self, at: At) -> u8 {
        let state = self.world.state(&[(at.writer, true)]);
        self.world.expand(state).iter().fold(0, |kinds, alt| kinds | alt.kinds())
    }

    /// How a variant is called: by its tag, or by its only member.
    fn variant(&mut self, alt: &Alt<'a>) -> Option<String> {
        if let Some((tag, values)) = self.tags(alt).into_iter().next() {
            return Some(format!("`{tag}` = {}", listed(&values)));
        }
        external_name(alt).map(|name| format!("`{name}`"))
    }

    /// How the variants of a list of alternatives are told apart; `None` if that is no enum of structs.
    pub(in crate::compat) fn style(&mut self, alts: &[Alt<'a>]) -> Option<Style<'a>> {
        let objects: Vec<&Alt<'a>> =
            alts.iter().filter(|alt| matches!(alt.shape, Shape::Object(_))).collect();
        if objects.len() < 2 && !(objects.len() == 1 && alts.iter().any(|alt| alt.kinds() & TEXT != 0)) {
            return None;
        }
        let names: BTreeSet<_> = objects.iter().filter_map(|alt| external_name(alt)).collect();
        if names.len() == objects.len() {
            return Some(Style::External);
        }
        let first = self.tags(objects.first()?);
        for (tag, _) in first {
            let mut tagged = true;
            for alt in &objects {
                tagged &= self.tags(alt).iter().any(|(name, _)| *name == tag);
            }
            if tagged {
                let others: BTreeSet<&'a str> =
                    objects.iter().flat_map(|alt| declared(alt)).filter(|name| *name != tag).collect();
                let single = objects.iter().all(|alt| declared(alt).len() <= 2);
                return Some(match others.first() {
                    Some(content) if others.len() == 1 && single => Style::Adjacent(tag, content),
                    _ => Style::Internal(tag),
                });
            }
        }
        None
    }

    /// If both sides tell variants apart in different ways, that is the reason, and not what follows from it.
    pub(in crate::compat) fn name_style(&mut self, writer: State, reader: State, at: At, first: usize) {
        let (mine, theirs) = (self.world.expand(writer), self.world.expand(reader));
        let (Some(mine), Some(theirs)) = (self.style(&mine), self.style(&theirs)) else { return };
        if mine == theirs {
            return;
        }
        let (old, new) = if self.is_backward() { (&mine, &theirs) } else { (&theirs, &mine) };
        let (rule, message) = match (old, new) {
            (Style::Adjacent(a, b), Style::Adjacent(c, d)) if a == c => {
                (Rule::ContentRenamed, format!("the content of variants was in `{b}` and is in `{d}`"))
            }
            (Style::Internal(a) | Style::Adjacent(a, _), Style::Internal(b) | Style::Adjacent(b, _))
                if a != b =>
            {
                (Rule::TagRenamed, format!("variants were told apart by `{a}` and are by `{b}`"))
            }
            // Two variants that happen to have one more member each are not another tagging by that alone.
            (Style::Internal(_), Style::Internal(_)) => return,
            (Style::Internal(a) | Style::Adjacent(a, _), Style::Internal(b) | Style::Adjacent(b, _))
                if a == b && !self.moved(old, new, writer, reader) =>
            {
                return;
            }
            _ => (Rule::TaggingChanged, "variants are told apart in another way than before".to_owned()),
        };
        let Some(end) = self.reasons.get(first).cloned() else { return };
        self.reasons.truncate(first);
        let message = format!("{message}: {} reads neither as the other", self.readers());
        let pointer = self.world.pointer(self.new_side(at));
        let help = Some(format!("keep serde's `tag` and `content` as they were, {NEW_MAJOR}"));
        self.reasons.push(Reason { rule, side: Side::New, pointer, message, help, ..end });
    }

    /// Whether the content of variants has moved between a member of its own and the variant itself: they have no member
    /// but the tag in common.
    fn moved(&mut self, old: &Style<'a>, new: &Style<'a>, writer: State, reader: State) -> bool {
        let content = match (old, new) {
            (Style::Adjacent(_, content), Style::Internal(_))
            | (Style::Internal(_), Style::Adjacent(_, content)) => *content,
            _ => return false,
        };
        let internal = if matches!(old, Style::Internal(_)) == self.is_backward() { writer } else { reader };
        !self.world.expand(internal).iter().any(|alt| declared(alt).contains(content))
    }
}

/// The only member of an externally tagged variant.
fn external_name<'a>(alt: &Alt<'a>) -> Option<&'a str> {
    let Shape::Object(objects) = &alt.shape else { return None };
    let declared = declared(alt);
    let closed = objects.layers.iter().any(|(layer, _)| layer.rest.is_some() && layer.explicit);
    match (objects.required.iter().next(), objects.required.len()) {
        (Some(name), 1) if closed && declared.len() == 1 && declared.contains(name) => Some(name),
        _ => None,
    }
}

fn declared<'a>(alt: &Alt<'a>) -> BTreeSet<&'a str> {
    match &alt.shape {
        Shape::Object(objects) => {
            objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()).collect()
        }
        _ => BTreeSet::new(),
    }
}
