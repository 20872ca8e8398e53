//! The structural prover: whether everything that one side writes is accepted by the other.
//!
//! Inclusion is proved alternative by alternative and member by member. A pair of states that is met again inside itself
//! is assumed to hold, which is sound because a value is finite: what rested on the assumption is taken back if the pair
//! fails. Nothing follows from silence: each constraint of the reader must be met by the writer, and whatever the
//! small form has no place for is not met.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::Value;

use super::finding::{Direction, Rule, Side};
use super::lower::{Alt, Layer, Shape};
use super::same::Sameness;
use super::world::{FALSE, Loc, State, World};

/// How many pairs of states are looked at.
const MAX_PAIRS: usize = 100_000;
/// How deep values are followed.
const MAX_DEPTH: usize = 64;
/// How many reasons are kept.
const MAX_REASONS: usize = 200;
/// How many times an alternative is split into cases.
const MAX_SPLITS: u8 = 3;

/// How an alternative came to be looked at.
#[derive(Clone, Copy)]
struct Case {
    /// It is the writer's only one of its type.
    only: bool,
    /// How many times it was split into cases.
    splits: u8,
}

impl Case {
    fn deeper(self) -> Self {
        Self { splits: self.splits + 1, ..self }
    }
}

/// Where both sides are, for pointers.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) writer: Loc,
    pub(super) reader: Loc,
}

/// One step into a value: which alternative it is of, and where in it.
#[derive(Clone, Debug)]
pub(super) struct Step<'a> {
    pub(super) alt: Rc<Alt<'a>>,
    pub(super) to: To<'a>,
}

#[derive(Clone, Debug)]
pub(super) enum To<'a> {
    Member(&'a str),
    /// A member that no schema names, matching a pattern if there is one.
    Unnamed(Option<&'a str>),
    Item(usize),
}

/// Why inclusion is not proved.
#[derive(Clone, Debug)]
pub(super) struct Reason<'a> {
    pub(super) rule: Rule,
    pub(super) side: Side,
    pub(super) pointer: String,
    pub(super) message: String,
    pub(super) help: Option<String>,
    /// The way from the root of a payload to where it fails.
    pub(super) path: Vec<Step<'a>>,
    /// What the writer may write there, and what the reader accepts.
    pub(super) end: Option<(Rc<Alt<'a>>, State)>,
}

pub(super) struct Prover<'w, 'a> {
    pub(super) world: &'w mut World<'a>,
    pub(super) same: &'w mut Sameness,
    pub(super) direction: Direction,
    pub(super) reasons: Vec<Reason<'a>>,
    path: Vec<Step<'a>>,
    proved: HashSet<(State, State)>,
    trail: Vec<(State, State)>,
    failed: HashMap<(State, State), Vec<Reason<'a>>>,
    pairs: usize,
    /// More than was looked at would have been needed.
    pub(super) exhausted: bool,
}

impl<'w, 'a> Prover<'w, 'a> {
    pub(super) fn new(world: &'w mut World<'a>, same: &'w mut Sameness, direction: Direction) -> Self {
        Self {
            world,
            same,
            direction,
            reasons: Vec::new(),
            path: Vec::new(),
            proved: HashSet::new(),
            trail: Vec::new(),
            failed: HashMap::new(),
            pairs: 0,
            exhausted: false,
        }
    }

    /// Whether the reader's state accepts all of the writer's; the reasons say why not.
    pub(super) fn prove(&mut self, writer: State, reader: State, at: At) -> bool {
        let pair = (writer, reader);
        if self.proved.contains(&pair) || self.same.plainly_within(self.world, writer, reader) {
            return true;
        }
        if let Some(known) = self.failed.get(&pair) {
            let here = self.path.clone();
            let again = known.iter().map(|reason| {
                let path = here.iter().chain(&reason.path).cloned().collect();
                Reason { path, ..reason.clone() }
            });
            let room = MAX_REASONS.saturating_sub(self.reasons.len());
            self.reasons.extend(again.take(room));
            return false;
        }
        self.pairs += 1;
        if self.pairs > MAX_PAIRS || self.path.len() >= MAX_DEPTH {
            self.exhausted = true;
            return false;
        }
        let at = At { writer: self.site(writer, at.writer), reader: self.site(reader, at.reader) };
        self.proved.insert(pair);
        let mark = self.trail.len();
        self.trail.push(pair);
        let first = self.reasons.len();
        let theirs = self.world.expand(reader);
        let mut proved = true;
        let mine = self.world.expand(writer);
        for alt in mine.iter() {
            if !self.world.alt_is_empty(alt) {
                let only = mine.iter().filter(|other| other.kinds() & alt.kinds() != 0).count() == 1;
                proved &= self.cover(alt, reader, &theirs, at, Case { only, splits: 0 });
            }
        }
        if !proved {
            self.name_style(writer, reader, at, first);
            for wrong in self.trail.split_off(mark) {
                self.proved.remove(&wrong);
            }
            if !self.exhausted {
                let depth = self.path.len();
                let reasons = self.reasons.get(first..).unwrap_or_default().iter();
                let inner = reasons.map(|reason| {
                    let path = reason.path.get(depth..).unwrap_or_default().to_vec();
                    Reason { path, ..reason.clone() }
                });
                self.failed.insert(pair, inner.collect());
            }
        }
        proved
    }

    /// The same one step further into the value.
    pub(super) fn prove_in(
        &mut self,
        alt: &Alt<'a>,
        to: To<'a>,
        writer: State,
        reader: State,
        at: At,
    ) -> bool {
        if self.same.plainly_within(self.world, writer, reader) || self.world.is_empty(writer) {
            return true;
        }
        self.path.push(Step { alt: Rc::new(alt.clone()), to });
        let proved = self.prove(writer, reader, at);
        self.path.pop();
        proved
    }

    /// Adds a reason that lies one step further into the value.
    pub(super) fn fail_in(&mut self, alt: &Alt<'a>, to: To<'a>, reason: Reason<'a>) {
        let mut reason = reason;
        reason.path = self.path.clone();
        reason.path.push(Step { alt: Rc::new(alt.clone()), to });
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(reason);
        }
    }

    pub(super) fn fail(&mut self, reason: Reason<'a>) {
        let reason = Reason { path: self.path.clone(), ..reason };
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(reason);
        }
    }

    /// Where a state is in its document, or what is around it.
    fn site(&self, state: State, around: Loc) -> Loc {
        let items = self.world.items(state);
        items.iter().map(|(loc, _)| *loc).find(|loc| self.world.root(*loc) != 0).unwrap_or(around)
    }

    /// Whether a state accepts each of a list of alternatives.
    pub(super) fn all_within(&mut self, alts: &[Alt<'a>], reader: State, at: At) -> bool {
        let theirs = self.world.expand(reader);
        alts.iter().all(|alt| {
            self.world.alt_is_empty(alt)
                || self.cover(alt, reader, &theirs, at, Case { only: true, splits: 0 })
        })
    }

    /// Whether the reader's alternatives together accept one of the writer's.
    fn cover(&mut self, alt: &Alt<'a>, reader: State, theirs: &[Alt<'a>], at: At, case: Case) -> bool {
        if let Shape::Literals(values) = &alt.shape {
            let refused: Vec<_> =
                values.iter().filter(|value| self.world.has(reader, value) != Some(true)).cloned().collect();
            if refused.is_empty() {
                return true;
            }
            self.literals_refused(alt, &refused, reader, theirs, at);
            return false;
        }
        let alt = &self.without_their_known(alt, theirs);
        if self.world.alt_is_empty(alt) {
            return true;
        }
        let tags = self.tags(alt);
        let of_kind: Vec<_> = theirs.iter().filter(|their| their.kinds() & alt.kinds() != 0).collect();
        let mut attempts = Vec::new();
        let first = self.reasons.len();
        for their in &of_kind {
            if matches!(their.shape, Shape::Literals(_)) || self.tags_differ(&tags, their) {
                continue;
            }
            if self.within(alt, their, reader, at) {
                self.reasons.truncate(first);
                return true;
            }
            attempts.push((their.branch, self.reasons.split_off(first)));
        }
        if self.finite_within(alt, reader) {
            return true;
        }
        let possible: Vec<_> = of_kind
            .iter()
            .filter(|their| self.world.meet(alt, their).is_some_and(|met| !self.world.alt_is_empty(&met)))
            .map(|their| (*their).clone())
            .collect();
        if case.splits < MAX_SPLITS && possible.len() > 1 && self.split(alt, reader, &possible, at, case) {
            self.reasons.truncate(first);
            return true;
        }
        self.reasons.truncate(first);
        // What is nearest is explained: the only alternative, the one with the same tag, or the one that misses least.
        let nearest = attempts.into_iter().min_by_key(|(_, reasons)| reasons.len());
        let misses_a_member = |reasons: &[Reason<'a>]| {
            use Rule::{FieldAddedRequired, FieldRemovedRequired, RequiredAdded, RequiredRemoved};
            let rules = [FieldAddedRequired, FieldRemovedRequired, RequiredAdded, RequiredRemoved];
            reasons.iter().any(|reason| rules.contains(&reason.rule))
        };
        match nearest {
            Some((_, reasons))
                if of_kind.len() == 1 && case.only
                    || !reasons.is_empty() && (!tags.is_empty() || !misses_a_member(&reasons)) =>
            {
                self.reasons.extend(reasons);
            }
            _ => self.not_offered(alt, reader, theirs, at),
        }
        false
    }

    /// Whether one of the reader's alternatives accepts one of the writer's.
    fn within(&mut self, alt: &Alt<'a>, their: &Alt<'a>, reader: State, at: At) -> bool {
        let at = At { writer: alt.branch.unwrap_or(at.writer), reader: their.branch.unwrap_or(at.reader) };
        let shape = match (&alt.shape, &their.shape) {
            (Shape::Number(a), Shape::Number(b)) => self.numbers_within(alt, a, b, reader, at),
            (Shape::Text(a), Shape::Text(b)) => self.texts_within(alt, a, b, reader, at),
            (Shape::List(a), Shape::List(b)) => self.lists_within(alt, a, b, reader, at),
            (Shape::Object(a), Shape::Object(b)) => self.objects_within(alt, a, b, reader, at),
            _ => false,
        };
        self.rest_within(alt, their, reader, at) && shape
    }

    /// A few values are looked at one by one.
    fn finite_within(&mut self, alt: &Alt<'a>, reader: State) -> bool {
        let values: Vec<Value> = match &alt.shape {
            Shape::Number(numbers) if numbers.integer => {
                let (Some(min), Some(max)) = (numbers.min, numbers.max) else { return false };
                let (Some(min), Some(max)) = (min.value.as_i128(), max.value.as_i128()) else { return false };
                if max.checked_sub(min).is_none_or(|span| span > 256) {
                    return false;
                }
                (min..=max).filter_map(|n| super::decimal::Decimal::of_i128(n).to_value()).collect()
            }
            Shape::Text(texts) if texts.max == Some(0) => vec!["".into()],
            Shape::List(lists) if self.world.most_items(lists) == Some(0) => vec![Value::Array(Vec::new())],
            _ => return false,
        };
        values.iter().all(|value| {
            self.world.alt_has(alt, value) == Some(false) || self.world.has(reader, value) == Some(true)
        })
    }

    /// Whether the alternative is covered case by case.
    fn split(&mut self, alt: &Alt<'a>, reader: State, theirs: &[Alt<'a>], at: At, case: Case) -> bool {
        match &alt.shape {
            Shape::Number(numbers) => super::rules::numbers::joined(numbers, theirs),
            Shape::Text(_) => {
                let literals: Vec<Value> = theirs.iter().flat_map(literals_of).collect();
                if literals.is_empty() {
                    return false;
                }
                let refused = |prover: &mut Self, value: &Value| {
                    prover.world.alt_has(alt, value) != Some(false)
                        && prover.world.has(reader, value) != Some(true)
                };
                if literals.iter().any(|value| refused(self, value)) {
                    return false;
                }
                let mut rest = alt.clone();
                rest.excluded.extend(literals);
                self.cover(&rest, reader, theirs, at, case.deeper())
            }
            Shape::Object(objects) => {
                let mut names: Vec<&'a str> = objects.required.iter().copied().collect();
                names.extend(objects.layers.iter().flat_map(|(layer, _)| layer.members.keys().copied()));
                names.truncate(64);
                let mut seen = HashSet::new();
                for name in names.into_iter().filter(|name| seen.insert(*name)) {
                    let Some(cases) = self.cases(objects, name, theirs) else { continue };
                    let covered = cases.into_iter().all(|value| {
                        let mut alt = alt.clone();
                        if let Shape::Object(objects) = &mut alt.shape {
                            let mut layer = Layer::default();
                            layer.members.insert(name, Some(value));
                            objects.layers.push((Rc::new(layer), false));
                            if value != FALSE {
                                objects.required.insert(name);
                            }
                        }
                        self.world.alt_is_empty(&alt) || self.cover(&alt, reader, theirs, at, case.deeper())
                    });
                    if covered {
                        return true;
                    }
                }
                false
            }
            Shape::Literals(_) | Shape::List(_) => false,
        }
    }

    /// The cases of a member by which the reader's alternatives tell themselves apart: each of their literals, anything
    /// else, and absence.
    fn cases(
        &mut self,
        objects: &super::lower::Objects<'a>,
        name: &'a str,
        theirs: &[Alt<'a>],
    ) -> Option<Vec<Loc>> {
        let mine = self.world.member(objects, name);
        let mine = self.world.expand(mine);
        let mut literals: Vec<Value> = Vec::new();
        for their in theirs {
            let Shape::Object(objects) = &their.shape else { continue };
            let member = self.world.member(objects, name);
            literals.extend(self.world.expand(member).iter().flat_map(literals_of));
        }
        literals.extend(mine.iter().flat_map(literals_of));
        let mut seen = HashSet::new();
        literals.retain(|value| seen.insert(value.to_string()));
        if literals.is_empty() || literals.len() > 64 {
            return None;
        }
        let mut cases: Vec<Loc> = literals.iter().map(|value| self.world.only(vec![value.clone()])).collect();
        cases.push(self.world.all_but(literals));
        if !objects.required.contains(name) {
            cases.push(FALSE);
        }
        Some(cases)
    }

    /// An open enum stands for values that neither side knows, not for those that only the other one does.
    fn without_their_known(&mut self, alt: &Alt<'a>, theirs: &[Alt<'a>]) -> Alt<'a> {
        let mut alt = alt.clone();
        match &mut alt.shape {
            Shape::Text(texts) => {
                if let Some(known) = &texts.known {
                    let known_there = theirs.iter().filter_map(|their| match &their.shape {
                        Shape::Text(texts) => texts.known.as_ref(),
                        _ => None,
                    });
                    alt.excluded
                        .extend(known_there.flatten().filter(|value| !known.contains(value)).cloned());
                }
            }
            Shape::Object(objects) => {
                if let Some(known) = &objects.known {
                    let known_there = theirs.iter().filter_map(|their| match &their.shape {
                        Shape::Object(their) => Some(their),
                        _ => None,
                    });
                    let mut layer = Layer::default();
                    for their in known_there {
                        for name in their.layers.iter().flat_map(|(layer, _)| layer.members.keys()) {
                            if their.known.is_some() && !known.iter().any(|k| k == *name) {
                                layer.members.insert(name, Some(FALSE));
                            }
                        }
                    }
                    objects.layers.push((Rc::new(layer), true));
                }
                self.without_their_tags(objects, theirs);
            }
            Shape::Literals(_) | Shape::Number(_) | Shape::List(_) => {}
        }
        alt
    }

    fn without_their_tags(&mut self, objects: &mut super::lower::Objects<'a>, theirs: &[Alt<'a>]) {
        for name in objects.required.clone() {
            let Some(known) = self.known_texts(objects, name) else { continue };
            let mut new_there = Vec::new();
            for their in theirs {
                let Shape::Object(their) = &their.shape else { continue };
                for value in self.known_texts(their, name).unwrap_or_default() {
                    if !known.contains(&value) {
                        new_there.push(value);
                    }
                }
            }
            if !new_there.is_empty() {
                let mut layer = Layer::default();
                layer.members.insert(name, Some(self.world.all_but(new_there)));
                objects.layers.push((Rc::new(layer), false));
            }
        }
    }

    /// The known values of a member that is an open enum.
    pub(super) fn known_texts(
        &mut self,
        objects: &super::lower::Objects<'a>,
        name: &str,
    ) -> Option<Vec<Value>> {
        let member = self.world.member(objects, name);
        self.world.expand(member).iter().find_map(|alt| match &alt.shape {
            Shape::Text(texts) => texts.known.clone(),
            _ => None,
        })
    }

    /// The members that have to be certain texts: what tells the variants of an enum apart.
    pub(super) fn tags(&mut self, alt: &Alt<'a>) -> Vec<(&'a str, Vec<Value>)> {
        let Shape::Object(objects) = &alt.shape else { return Vec::new() };
        let mut tags = Vec::new();
        for name in objects.required.iter().copied() {
            let member = self.world.member(objects, name);
            if let [Alt { shape: Shape::Literals(values), .. }] = &*self.world.expand(member)
                && values.iter().all(Value::is_string)
            {
                tags.push((name, values.clone()));
            }
        }
        tags
    }

    fn tags_differ(&mut self, tags: &[(&'a str, Vec<Value>)], their: &Alt<'a>) -> bool {
        !tags.is_empty()
            && self.tags(their).iter().any(|(name, theirs)| {
                tags.iter().any(|(tag, mine)| tag == name && !mine.iter().any(|value| theirs.contains(value)))
            })
    }

    /// The schema of the new document, where both sides have one.
    pub(super) fn new_side(&self, at: At) -> Loc {
        match self.direction {
            Direction::Backward => at.reader,
            Direction::Forward => at.writer,
        }
    }

    pub(super) fn old_side(&self, at: At) -> Loc {
        match self.direction {
            Direction::Backward => at.writer,
            Direction::Forward => at.reader,
        }
    }
}

pub(super) fn literals_of(alt: &Alt<'_>) -> Vec<Value> {
    match &alt.shape {
        Shape::Literals(values) => values.clone(),
        _ => Vec::new(),
    }
}
