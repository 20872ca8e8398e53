//! Both documents at once: their schemas by number, conjunctions of schemas as states, and what can be asked of a state:
//! its alternatives, whether a value is among them, whether there is any.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::decimal::{Decimal, same_value};
use super::lower::{
    ANY, Alt, Layer, Lists, NUMBER, OBJECT, Objects, Shape, TEXT, declared_names, kind_of, opaque_any, types,
};
use crate::document::{is_annotation, join, resolve};
use crate::formats::options;

/// A schema of either document, by number.
pub(super) type Loc = u32;
/// The schema that nothing matches.
pub(super) const FALSE: Loc = 0;
/// The schema that everything matches.
pub(super) const TRUE: Loc = 1;

/// More alternatives than this are not told apart.
pub(super) const MAX_ALTERNATIVES: usize = 4_096;
/// How deep schemas that apply to the same value may be nested.
const MAX_NESTING: u32 = 40;
/// How deep values are followed.
const MAX_DEPTH: u32 = 64;

/// A conjunction of schemas, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct State(u32);

/// A schema in a conjunction, and whether it stands for what its writer can write.
pub(super) type Item = (Loc, bool);

struct Node<'a> {
    content: Content<'a>,
    parent: Loc,
    step: &'a str,
    name: Option<String>,
    root: Loc,
}

enum Content<'a> {
    Schema(&'a Value),
    /// Exactly these literals, or anything but them: made where values are told apart.
    Only(Vec<Value>),
    Not(Vec<Value>),
}

/// What can be seen of a schema without looking far.
#[derive(Debug, Default)]
struct Brief<'a> {
    kinds: u8,
    literals: Option<Vec<Value>>,
    excluded: Vec<Value>,
    required: Vec<&'a str>,
    members: BTreeMap<&'a str, Vec<Loc>>,
    /// Each the only names that an object can have.
    closed: Vec<Vec<&'a str>>,
    /// Each a union, one branch of which holds.
    unions: Vec<Vec<Loc>>,
}

pub(super) struct World<'a> {
    nodes: Vec<Node<'a>>,
    by_address: HashMap<usize, Loc>,
    states: HashMap<Box<[Item]>, State>,
    items: Vec<Rc<[Item]>>,
    alternatives: HashMap<Loc, Option<Rc<[Alt<'a>]>>>,
    expansions: HashMap<State, Rc<[Alt<'a>]>>,
    briefs: HashMap<Loc, Option<Rc<Brief<'a>>>>,
    empty: HashMap<State, bool>,
    /// States found to be empty, in the order of finding, so that what rested on a wrong guess can be taken back.
    empty_trail: Vec<State>,
    texts: HashMap<(bool, &'a str), Option<Validator>>,
    nesting: u32,
    depth: u32,
}

impl<'a> World<'a> {
    pub(super) fn new() -> Self {
        let boolean =
            |content| Node { content: Content::Schema(content), parent: 0, step: "", name: None, root: 0 };
        Self {
            nodes: vec![boolean(&Value::Bool(false)), boolean(&Value::Bool(true))],
            by_address: HashMap::new(),
            states: HashMap::new(),
            items: Vec::new(),
            alternatives: HashMap::new(),
            expansions: HashMap::new(),
            briefs: HashMap::new(),
            empty: HashMap::new(),
            empty_trail: Vec::new(),
            texts: HashMap::new(),
            nesting: 0,
            depth: 0,
        }
    }

    fn add(&mut self, node: Node<'a>) -> Loc {
        let loc = Loc::try_from(self.nodes.len()).unwrap_or(Loc::MAX);
        self.nodes.push(node);
        loc
    }

    /// Takes a document in, and gives the number of its root.
    pub(super) fn document(&mut self, document: &'a Value) -> Loc {
        let loc =
            self.add(Node { content: Content::Schema(document), parent: 0, step: "", name: None, root: 0 });
        self.nodes[loc as usize].root = loc;
        self.by_address.insert(std::ptr::from_ref(document).addr(), loc);
        loc
    }

    pub(super) fn child(&mut self, parent: Loc, schema: &'a Value, step: &'a str, name: Option<&str>) -> Loc {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(known) = self.by_address.get(&address) {
            return *known;
        }
        let root = self.nodes[parent as usize].root;
        let loc = self.add(Node {
            content: Content::Schema(schema),
            parent,
            step,
            name: name.map(str::to_owned),
            root,
        });
        self.by_address.insert(address, loc);
        loc
    }

    pub(super) fn child_at(&mut self, parent: Loc, schema: &'a Value, step: &'a str, index: usize) -> Loc {
        self.child(parent, schema, step, Some(&index.to_string()))
    }

    /// The schema that a reference names.
    pub(super) fn referred(&mut self, from: Loc, target: &'a str) -> Option<Loc> {
        let root = self.nodes[from as usize].root;
        let Content::Schema(document) = self.nodes[root as usize].content else { return None };
        let schema = resolve(document, target)?;
        if std::ptr::eq(schema, document) {
            return Some(root);
        }
        Some(self.child(root, schema, target.strip_prefix("#/")?, None))
    }

    pub(super) fn root(&self, loc: Loc) -> Loc {
        self.nodes[loc as usize].root
    }

    /// Where a schema is in its document.
    pub(super) fn pointer(&self, loc: Loc) -> String {
        let node = &self.nodes[loc as usize];
        if loc == node.root || loc <= TRUE {
            return String::new();
        }
        if node.parent == node.root && node.step.contains('/') {
            return format!("/{}", node.step);
        }
        let mut pointer = self.pointer(node.parent);
        if !node.step.is_empty() {
            // A reference is a pointer already.
            pointer = join(&pointer, node.step);
        }
        match &node.name {
            Some(name) => join(&pointer, name),
            None => pointer,
        }
    }

    pub(super) fn schema(&self, loc: Loc) -> &'a Value {
        match &self.nodes[loc as usize].content {
            Content::Schema(schema) => schema,
            Content::Only(_) | Content::Not(_) => &Value::Bool(true),
        }
    }

    pub(super) fn object(&self, loc: Loc) -> Option<&'a Map<String, Value>> {
        self.schema(loc).as_object()
    }

    fn made(&mut self, content: Content<'a>) -> Loc {
        self.add(Node { content, parent: 0, step: "", name: None, root: 0 })
    }

    /// A schema of exactly these literals.
    pub(super) fn only(&mut self, values: Vec<Value>) -> Loc {
        self.made(Content::Only(values))
    }

    /// A schema of everything but these literals.
    pub(super) fn all_but(&mut self, values: Vec<Value>) -> Loc {
        self.made(Content::Not(values))
    }

    pub(super) fn state(&mut self, items: &[Item]) -> State {
        let mut items: Vec<Item> = items.iter().copied().filter(|(loc, _)| *loc != TRUE).collect();
        items.sort_unstable();
        items.dedup();
        if let Some(state) = self.states.get(items.as_slice()) {
            return *state;
        }
        let state = State(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
        self.items.push(items.as_slice().into());
        self.states.insert(items.into(), state);
        state
    }

    pub(super) fn items(&self, state: State) -> Rc<[Item]> {
        Rc::clone(&self.items[state.0 as usize])
    }

    /// What a schema offers, whoever uses it.
    pub(super) fn alternatives(&mut self, loc: Loc) -> Rc<[Alt<'a>]> {
        match self.alternatives.get(&loc) {
            Some(Some(known)) => return Rc::clone(known),
            // A schema that refers to itself for the same value says nothing by that.
            Some(None) => return opaque_any(loc, "$ref").into(),
            None => {}
        }
        if self.nesting >= MAX_NESTING {
            return opaque_any(loc, "allOf").into();
        }
        self.alternatives.insert(loc, None);
        self.nesting += 1;
        let alternatives: Rc<[Alt<'a>]> = match &self.nodes[loc as usize].content {
            Content::Schema(_) => self.combined(loc),
            Content::Only(values) => vec![Alt::of(Shape::Literals(values.clone()))],
            Content::Not(values) => {
                let values = values.clone();
                let mut alts = Alt::any();
                for alt in &mut alts {
                    let kinds = alt.kinds();
                    alt.excluded.extend(values.iter().filter(|v| kind_of(v) & kinds != 0).cloned());
                    if let Shape::Literals(literals) = &mut alt.shape {
                        literals.retain(|literal| !values.contains(literal));
                    }
                }
                alts
            }
        }
        .into();
        self.nesting -= 1;
        self.alternatives.insert(loc, Some(Rc::clone(&alternatives)));
        alternatives
    }

    /// What both lists allow.
    pub(super) fn product(&mut self, a: &[Alt<'a>], b: &[Alt<'a>]) -> Vec<Alt<'a>> {
        let mut product = Vec::new();
        for a in a {
            for b in b {
                if a.kinds() & b.kinds() == 0 {
                    continue;
                }
                if let Some(met) = self.meet(a, b) {
                    product.push(met);
                }
                if product.len() > MAX_ALTERNATIVES {
                    return opaque_any(TRUE, "anyOf");
                }
            }
        }
        product
    }

    /// The alternatives of a state. What stands for a writer has no members but those that are declared.
    pub(super) fn expand(&mut self, state: State) -> Rc<[Alt<'a>]> {
        if let Some(known) = self.expansions.get(&state) {
            return Rc::clone(known);
        }
        let items = self.items(state);
        let mut alts = Alt::any();
        let mut first = true;
        for writer in [true, false] {
            for (loc, _) in items.iter().filter(|(_, is_writer)| *is_writer == writer) {
                let mut theirs = self.alternatives(*loc).to_vec();
                if writer {
                    theirs.iter_mut().for_each(write);
                }
                alts = if first { theirs } else { self.product(&alts, &theirs) };
                first = false;
            }
            if writer && !first {
                alts.iter_mut().for_each(close);
            }
        }
        let expansion: Rc<[Alt<'a>]> = gathered(alts).into();
        self.expansions.insert(state, Rc::clone(&expansion));
        expansion
    }

    /// The state of one member of an object.
    pub(super) fn member(&mut self, objects: &Objects<'a>, name: &str) -> State {
        let mut items: Vec<Item> = Vec::new();
        for (layer, writer) in &objects.layers {
            let mut declared = false;
            if let Some(member) = layer.members.get(name) {
                declared = true;
                items.extend(member.map(|loc| (loc, *writer)));
            }
            for (pattern, member) in &layer.patterns {
                if self.text_is(false, pattern, name) == Some(true) {
                    declared = true;
                    items.extend(member.map(|loc| (loc, *writer)));
                }
            }
            if !declared {
                items.extend(layer.rest.map(|loc| (loc, *writer)));
            }
        }
        self.state(&items)
    }

    /// The state of one item of a list; beyond the prefix, of all further ones.
    pub(super) fn item(&mut self, lists: &Lists, index: usize) -> State {
        let items: Vec<Item> = lists
            .layers
            .iter()
            .filter_map(|(slots, writer)| Some((slots.prefix.get(index).copied().or(slots.rest)?, *writer)))
            .collect();
        self.state(&items)
    }

    /// Whether a state plainly refuses everything.
    pub(super) fn is_false(&self, state: State) -> bool {
        self.items[state.0 as usize].iter().any(|(loc, _)| *self.schema(*loc) == Value::Bool(false))
    }

    /// Whether a state provably has no value. A value that would have to hold itself does not exist.
    pub(super) fn is_empty(&mut self, state: State) -> bool {
        if let Some(known) = self.empty.get(&state) {
            return *known;
        }
        if self.depth >= MAX_DEPTH {
            return false;
        }
        self.depth += 1;
        self.empty.insert(state, true);
        let mark = self.empty_trail.len();
        let empty = self.expand(state).iter().all(|alt| self.alt_is_empty(alt));
        self.depth -= 1;
        if empty {
            self.empty_trail.push(state);
        } else {
            // What was found to be empty since then may rest on the wrong guess about this one.
            for wrong in self.empty_trail.split_off(mark) {
                self.empty.remove(&wrong);
            }
            self.empty.insert(state, false);
        }
        empty
    }

    pub(super) fn alt_is_empty(&mut self, alt: &Alt<'a>) -> bool {
        match &alt.shape {
            Shape::Literals(values) => values.is_empty(),
            Shape::Number(numbers) => numbers.is_empty(),
            Shape::Text(texts) => texts.max.is_some_and(|max| max < texts.min),
            Shape::List(lists) => {
                let most = self.most_items(lists);
                most.is_some_and(|most| most < lists.min)
            }
            Shape::Object(objects) => {
                if objects.max.is_some_and(|max| max < objects.min.max(objects.required.len() as u64)) {
                    return true;
                }
                let required: Vec<&str> = objects.required.iter().copied().collect();
                required.into_iter().any(|name| {
                    let member = self.member(objects, name);
                    self.is_empty(member)
                })
            }
        }
    }

    /// The most items that a list can have.
    pub(super) fn most_items(&mut self, lists: &Lists) -> Option<u64> {
        let slots = lists.layers.iter().map(|(slots, _)| slots.prefix.len()).max().unwrap_or(0);
        for index in 0..=slots {
            if lists.max.is_some_and(|max| max <= index as u64) {
                break;
            }
            let item = self.item(lists, index);
            if self.is_empty(item) {
                return Some(index as u64);
            }
        }
        lists.max
    }

    /// Whether a value is among a state's; `None` if that cannot be told.
    pub(super) fn has(&mut self, state: State, value: &Value) -> Option<bool> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let alts = self.expand(state);
        let mut answer = Some(false);
        for alt in alts.iter() {
            match self.alt_has(alt, value) {
                Some(true) => {
                    answer = Some(true);
                    break;
                }
                Some(false) => {}
                None => answer = None,
            }
        }
        self.depth -= 1;
        answer
    }

    pub(super) fn alt_has(&mut self, alt: &Alt<'a>, value: &Value) -> Option<bool> {
        if alt.excluded.iter().any(|out| same_value(out, value)) {
            return Some(false);
        }
        let mut answer = match (&alt.shape, value) {
            (Shape::Literals(values), value) => Some(values.iter().any(|known| same_value(known, value))),
            (Shape::Number(numbers), Value::Number(n)) => {
                let has = numbers.has(Decimal::of(n)?);
                // JSON Schema takes 1.0 for an integer, the Rust types do not, and the validator refuses it as far as integers
                // have a form of their own.
                if has == Some(true)
                    && numbers.integer
                    && n.is_f64()
                    && n.as_f64().is_some_and(|n| n >= i64::MIN as f64 && n < u64::MAX as f64)
                {
                    None
                } else {
                    has
                }
            }
            (Shape::Text(texts), Value::String(text)) => {
                let length = text.chars().count() as u64;
                let mut fits = Some(length >= texts.min && texts.max.is_none_or(|max| length <= max));
                let checks = texts
                    .patterns
                    .iter()
                    .map(|p| (false, *p))
                    .chain(texts.formats.iter().map(|f| (true, *f)));
                for (format, check) in checks {
                    fits = both(fits, self.text_is(format, check, text));
                }
                fits
            }
            (Shape::List(lists), Value::Array(values)) => {
                let length = values.len() as u64;
                let repeated =
                    || values.iter().enumerate().any(|(i, a)| values[..i].iter().any(|b| same_value(a, b)));
                if length < lists.min
                    || lists.max.is_some_and(|max| length > max)
                    || lists.unique && repeated()
                {
                    return Some(false);
                }
                let mut fits = Some(true);
                for (i, value) in values.iter().enumerate() {
                    let item = self.item(lists, i);
                    fits = both(fits, self.has(item, value));
                }
                fits
            }
            (Shape::Object(objects), Value::Object(members)) => {
                let size = members.len() as u64;
                if size < objects.min
                    || objects.max.is_some_and(|max| size > max)
                    || objects.required.iter().any(|name| !members.contains_key(*name))
                    || objects
                        .dependents
                        .iter()
                        .any(|(name, needed)| members.contains_key(*name) && !members.contains_key(*needed))
                {
                    return Some(false);
                }
                let mut fits = Some(true);
                for (name, value) in members {
                    let member = self.member(objects, name);
                    fits = both(fits, self.has(member, value));
                    for schema in &objects.names {
                        let names = self.state(&[(*schema, false)]);
                        fits = both(fits, self.has(names, &Value::from(name.as_str())));
                    }
                }
                fits
            }
            _ => Some(false),
        };
        for not in &alt.nots {
            let not = self.state(&[(*not, false)]);
            answer = both(answer, self.has(not, value).map(|has| !has));
        }
        if alt.opaque.is_empty() { answer } else { both(answer, None) }
    }

    /// Whether a text has a format, or matches a pattern; `None` if there is no such format or pattern.
    pub(super) fn text_is(&mut self, format: bool, check: &'a str, text: &str) -> Option<bool> {
        let validator = self.texts.entry((format, check)).or_insert_with(|| {
            let keyword = if format { "format" } else { "pattern" };
            options().build(&json!({ keyword: check })).ok()
        });
        Some(validator.as_ref()?.is_valid(&Value::from(text)))
    }

    /// What can be seen of a schema without looking far.
    fn brief(&mut self, loc: Loc) -> Rc<Brief<'a>> {
        match self.briefs.get(&loc) {
            Some(Some(known)) => return Rc::clone(known),
            Some(None) => return Rc::new(Brief { kinds: ANY, ..Brief::default() }),
            None => {}
        }
        self.briefs.insert(loc, None);
        let mut brief = Brief { kinds: ANY, ..Brief::default() };
        match self.schema(loc) {
            Value::Bool(false) => brief.kinds = 0,
            Value::Object(schema) if self.nesting < MAX_NESTING => {
                self.nesting += 1;
                self.look(loc, schema, &mut brief);
                self.nesting -= 1;
            }
            _ => {}
        }
        let brief = Rc::new(brief);
        self.briefs.insert(loc, Some(Rc::clone(&brief)));
        brief
    }

    fn look(&mut self, loc: Loc, schema: &'a Map<String, Value>, brief: &mut Brief<'a>) {
        let kinds = types(schema).unwrap_or(ANY);
        brief.kinds = kinds & ANY;
        match (schema.get("const"), schema.get("enum")) {
            (Some(value), _) => brief.literals = Some(vec![value.clone()]),
            (None, Some(Value::Array(values))) => brief.literals = Some(values.clone()),
            _ => {}
        }
        if let Some(Value::Object(not)) = schema.get("not")
            && not.keys().all(|keyword| keyword == "enum" || is_annotation(keyword))
            && let Some(Value::Array(out)) = not.get("enum")
        {
            brief.excluded.clone_from(out);
        }
        brief.required.extend(
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str),
        );
        let members = schema.get("properties").and_then(Value::as_object);
        for (name, member) in members.into_iter().flatten() {
            let member = self.child(loc, member, "properties", Some(name));
            brief.members.entry(name).or_default().push(member);
        }
        if schema.get("additionalProperties") == Some(&Value::Bool(false))
            && !schema.contains_key("patternProperties")
        {
            brief.closed.push(members.into_iter().flatten().map(|(name, _)| name.as_str()).collect());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.get(keyword) {
                let branches = branches.iter().enumerate();
                brief
                    .unions
                    .push(branches.map(|(i, branch)| self.child_at(loc, branch, keyword, i)).collect());
            }
        }
        let mut parts = Vec::new();
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            parts.extend(self.referred(loc, target));
        }
        for (i, part) in schema.get("allOf").and_then(Value::as_array).into_iter().flatten().enumerate() {
            parts.push(self.child_at(loc, part, "allOf", i));
        }
        for part in parts {
            let part = self.brief(part);
            brief.kinds &= part.kinds;
            if brief.literals.is_none() {
                brief.literals.clone_from(&part.literals);
            }
            brief.excluded.extend(part.excluded.iter().cloned());
            brief.required.extend(&part.required);
            for (name, locs) in &part.members {
                brief.members.entry(name).or_default().extend(locs);
            }
            brief.closed.extend(part.closed.iter().cloned());
            brief.unions.extend(part.unions.iter().cloned());
        }
    }

    /// Whether no value matches two of the schemas, as far as that can be seen.
    pub(super) fn are_apart(&mut self, schemas: &[Loc]) -> bool {
        self.overlaps(schemas).iter().all(Vec::is_empty)
    }

    /// For each schema the others that are not provably apart from it.
    pub(super) fn overlaps(&mut self, schemas: &[Loc]) -> Vec<Vec<usize>> {
        let briefs: Vec<Rc<Brief<'a>>> = schemas.iter().map(|schema| self.brief(*schema)).collect();
        let mut overlaps = vec![Vec::new(); schemas.len()];
        let mut seen = HashSet::new();
        let mut texts = briefs.iter().map(|brief| brief.literals.as_deref().unwrap_or(&[Value::Null]));
        let distinct = texts
            .all(|values| values.iter().all(|value| value.is_string() && seen.insert(value.to_string())));
        if distinct || self.have_tag(&briefs) {
            return overlaps;
        }
        for i in 0..briefs.len() {
            for j in 0..i {
                if !self.apart(&briefs[i], &briefs[j], 4) {
                    overlaps[i].push(j);
                    overlaps[j].push(i);
                }
            }
        }
        overlaps
    }

    /// Whether every one has a literal of its own in the same required member.
    fn have_tag(&mut self, briefs: &[Rc<Brief<'a>>]) -> bool {
        let Some(first) = briefs.first() else { return true };
        first.required.clone().into_iter().any(|name| {
            let mut seen = HashSet::new();
            briefs.iter().all(|brief| {
                brief.kinds == OBJECT
                    && brief.required.contains(&name)
                    && brief.members.get(name).is_some_and(|locs| {
                        locs.iter().any(|loc| match self.brief(*loc).literals.as_deref() {
                            Some([Value::String(one)]) => seen.insert(one.clone()),
                            _ => false,
                        })
                    })
            })
        })
    }

    /// Whether no value matches both, as far as that can be seen.
    fn apart(&mut self, a: &Brief<'a>, b: &Brief<'a>, depth: u8) -> bool {
        let kinds = a.kinds & b.kinds;
        if kinds == 0 {
            return true;
        }
        for (one, other) in [(a, b), (b, a)] {
            if let Some(values) = &one.literals {
                let possible = |value: &&Value| {
                    kind_of(value) & kinds != 0
                        && !other.excluded.iter().any(|out| same_value(out, value))
                        && other
                            .literals
                            .as_ref()
                            .is_none_or(|known| known.iter().any(|k| same_value(k, value)))
                };
                if !values.iter().any(|value| possible(&value)) {
                    return true;
                }
            }
        }
        if depth == 0 {
            return false;
        }
        for (one, other) in [(a, b), (b, a)] {
            for branches in one.unions.iter().filter(|branches| branches.len() <= 64) {
                let all_apart = branches.iter().all(|branch| {
                    let branch = self.brief(*branch);
                    self.apart(&branch, other, depth - 1)
                });
                if all_apart {
                    return true;
                }
            }
        }
        if kinds != OBJECT {
            return false;
        }
        for (one, other) in [(a, b), (b, a)] {
            if one.closed.iter().any(|names| other.required.iter().any(|name| !names.contains(name))) {
                return true;
            }
        }
        a.required.iter().filter(|name| b.required.contains(name)).any(|name| {
            let none = Vec::new();
            let theirs = b.members.get(name).unwrap_or(&none).clone();
            a.members.get(name).unwrap_or(&none).iter().any(|mine| {
                let mine = self.brief(*mine);
                theirs.iter().any(|theirs| {
                    let theirs = self.brief(*theirs);
                    self.apart(&mine, &theirs, depth - 1)
                })
            })
        })
    }
}

/// Marks what an alternative holds as what its writer can write.
fn write(alt: &mut Alt<'_>) {
    match &mut alt.shape {
        Shape::Object(objects) => objects.layers.iter_mut().for_each(|(_, writer)| *writer = true),
        Shape::List(lists) => lists.layers.iter_mut().for_each(|(_, writer)| *writer = true),
        Shape::Literals(_) | Shape::Number(_) | Shape::Text(_) => {}
    }
}

/// The writer's closure: no members but the declared ones, unless a schema says otherwise. An open enum may get
/// variants, which are members that it does not declare.
fn close(alt: &mut Alt<'_>) {
    if alt.hides_members() {
        return;
    }
    let Shape::Object(objects) = &mut alt.shape else { return };
    let mut layers = objects.layers.iter().map(|(layer, _)| layer).chain(&objects.also);
    if !objects.declared || objects.known.is_some() || layers.any(|layer| layer.explicit) {
        return;
    }
    let layer = Layer { rest: Some(FALSE), closure: true, ..declared_names(objects) };
    objects.layers.push((Rc::new(layer), true));
}

/// The same alternatives with one list of all literals that nothing else is said about.
fn gathered(alts: Vec<Alt<'_>>) -> Vec<Alt<'_>> {
    let mut literals: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    let mut gathered: Vec<Alt<'_>> = Vec::new();
    for alt in alts {
        match alt.shape {
            Shape::Literals(values) if alt.nots.is_empty() && alt.opaque.is_empty() => {
                let kept =
                    values.into_iter().filter(|value| !alt.excluded.iter().any(|out| same_value(out, value)));
                literals.extend(kept.filter(|value| seen.insert(value.to_string())));
            }
            _ => gathered.push(alt),
        }
    }
    if !literals.is_empty() {
        gathered.insert(0, Alt::of(Shape::Literals(literals)));
    }
    gathered
}

/// Both, where either may be unknown.
pub(super) fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// The names of a set of types.
pub(super) fn kind_names(kinds: u8) -> Vec<&'static str> {
    use super::lower::{BOOL, LIST, NULL};
    [
        (NULL, "null"),
        (BOOL, "boolean"),
        (NUMBER, "number"),
        (TEXT, "string"),
        (LIST, "array"),
        (OBJECT, "object"),
    ]
    .into_iter()
    .filter_map(|(kind, name)| (kinds & kind != 0).then_some(name))
    .collect()
}
