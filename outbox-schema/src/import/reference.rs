//! Where references of a foreign schema lead, and the names that their targets get.

use std::collections::HashMap;

use serde_json::Value;

use super::{Dialect, RefusalReason};
use crate::document::{self, Place, join};

/// The schemas that references pull in, each once.
pub(super) struct Definitions<'a> {
    root: &'a Value,
    /// The name of each target, by its pointer; the empty one is the imported schema itself.
    names: HashMap<String, String>,
    /// Not yet taken: name, schema, pointer.
    waiting: Vec<(String, &'a Value, String)>,
}

impl<'a> Definitions<'a> {
    pub(super) fn new(root: &'a Value, entry: &str) -> Self {
        Self { root, names: HashMap::from([(normal(entry), String::new())]), waiting: Vec::new() }
    }

    /// The next one that is named and not yet taken.
    pub(super) fn next(&mut self) -> Option<(String, &'a Value, String)> {
        self.waiting.pop()
    }

    /// What a `$ref` to `target` is called in the imported document.
    pub(super) fn reference(&mut self, target: &Value, dialect: Dialect) -> Result<String, RefusalReason> {
        let Some(text) = target.as_str() else { return Err(RefusalReason::Form) };
        let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
        let own = self.root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#'));
        if !address.is_empty() && Some(address) != own {
            return Err(RefusalReason::External(text.to_owned()));
        }
        let dead = || RefusalReason::Dead(text.to_owned());
        let pointer = document::percent_decode(fragment).ok_or_else(dead)?;
        let schema = step_into(self.root, &pointer, dialect).ok_or_else(dead)?;
        let pointer = normal(&pointer);
        if let Some(name) = self.names.get(&pointer) {
            return Ok(local(name));
        }
        let name = self.free_name(&pointer);
        self.names.insert(pointer.clone(), name.clone());
        self.waiting.push((name.clone(), schema, pointer));
        Ok(local(&name))
    }

    /// The last step of the pointer in letters that need no escape in a reference; numbered if it is taken.
    fn free_name(&self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-$".contains(c) { c } else { '_' };
        let stem: String = last.chars().map(plain).collect();
        let stem = if stem.is_empty() { "root".to_owned() } else { stem };
        let taken = |name: &String| self.names.values().any(|known| known == name);
        let numbered = (2_u32..).map(|n| format!("{stem}_{n}"));
        std::iter::once(stem.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(stem)
    }
}

fn local(name: &str) -> String {
    if name.is_empty() { "#".to_owned() } else { format!("#/$defs/{name}") }
}

/// A pointer in its one spelling.
fn normal(pointer: &str) -> String {
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    steps.fold(String::new(), |pointer, step| join(&pointer, step))
}

/// The schema at a pointer, if the way there leads through schemas.
pub(super) fn step_into<'a>(root: &'a Value, pointer: &str, dialect: Dialect) -> Option<&'a Value> {
    let mut schema = root;
    if !pointer.is_empty() {
        let mut steps =
            pointer.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        while let Some(keyword) = steps.next() {
            let value = schema.get(&keyword)?;
            schema = match place_in(&keyword, value, dialect) {
                Place::Schema => value,
                Place::List => value.get(steps.next()?.parse::<usize>().ok()?)?,
                Place::Named => value.get(steps.next()?)?,
                Place::Data => return None,
            };
        }
    }
    (schema.is_object() || schema.is_boolean()).then_some(schema)
}

fn place_in(keyword: &str, value: &Value, dialect: Dialect) -> Place {
    match keyword {
        "items" if dialect == Dialect::Draft07 && value.is_array() => Place::List,
        "additionalItems" if dialect == Dialect::Draft07 => Place::Schema,
        "dependencies" if dialect == Dialect::Draft07 => Place::Named,
        _ => document::place(keyword),
    }
}
