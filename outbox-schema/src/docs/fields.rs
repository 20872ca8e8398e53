//! The fields of a schema, flat: one row each, with the path that leads to it.

use serde_json::{Map, Value};

use crate::document::{OPEN_ENUM, resolve, sorted};

/// One row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// `address.street`, `lines[].amount`, `labels{}`; a variant in brackets, as in `payment(card).number`.
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) required: bool,
    pub(super) constraints: String,
    pub(super) meaning: String,
}

/// How deep the rows go; deeper fields are found in the file.
const MAX_DEPTH: usize = 6;

pub(super) fn of(document: &Value) -> Vec<Field> {
    let mut walk = Walk { root: document, within: Vec::new(), fields: Vec::new() };
    walk.members(document, "");
    walk.fields
}

struct Walk<'a> {
    root: &'a Value,
    /// The schemas around the current one, so that a circle ends.
    within: Vec<&'a Value>,
    fields: Vec<Field>,
}

impl<'a> Walk<'a> {
    /// Adds the fields inside of `schema`, whatever kind of value it is.
    fn members(&mut self, schema: &'a Value, path: &str) {
        if self.within.len() >= MAX_DEPTH || self.within.iter().any(|outer| std::ptr::eq(*outer, schema)) {
            return;
        }
        self.within.push(schema);
        for object in self.parts(schema) {
            if let Some(Value::Object(properties)) = object.get("properties") {
                let required = names(object.get("required"));
                for (name, field) in sorted(properties) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.field(field, &below, required.contains(&name.as_str()));
                }
            }
            let inner = [("additionalProperties", "{}"), ("items", "[]")];
            for (keyword, suffix) in inner {
                if let Some(schema @ Value::Object(_)) = object.get(keyword) {
                    self.members(schema, &format!("{path}{suffix}"));
                }
            }
            for keyword in ["oneOf", "anyOf"] {
                let alternatives: Vec<&Value> = object
                    .get(keyword)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter(|a| !is_null(a))
                    .collect();
                let several = alternatives.len() > 1;
                for alternative in alternatives {
                    let name = if several {
                        format!("{path}({})", self.label(alternative))
                    } else {
                        path.to_owned()
                    };
                    self.members(alternative, &name);
                }
            }
        }
        self.within.pop();
    }

    fn field(&mut self, schema: &'a Value, path: &str, required: bool) {
        let (mut constraints, mut meaning) = (Vec::new(), String::new());
        for object in self.parts(schema) {
            constraints.extend(constraints_of(object));
            if meaning.is_empty() {
                meaning = object.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
            }
            if object.get("deprecated") == Some(&Value::Bool(true)) {
                meaning = format!("Deprecated. {meaning}");
            }
        }
        let kind = self.kind(schema, 0);
        self.fields.push(Field {
            path: path.to_owned(),
            kind,
            required,
            constraints: constraints.join(", "),
            meaning,
        });
        self.members(schema, path);
    }

    /// The objects that all apply where `schema` does: itself, what it refers to, and under `allOf`.
    fn parts(&self, schema: &'a Value) -> Vec<&'a Map<String, Value>> {
        let mut parts: Vec<&'a Map<String, Value>> = Vec::new();
        let mut waiting = vec![schema];
        while let Some(schema) = waiting.pop() {
            let Value::Object(object) = schema else { continue };
            // Each part once, so that a circle of references ends.
            if parts.iter().any(|part| std::ptr::eq(*part, object)) {
                continue;
            }
            parts.push(object);
            waiting.extend(object.get("allOf").and_then(Value::as_array).into_iter().flatten().rev());
            waiting.extend(object.get("$ref").and_then(Value::as_str).and_then(|to| resolve(self.root, to)));
        }
        parts
    }

    fn kind(&self, schema: &'a Value, depth: usize) -> String {
        if depth > 3 {
            return "..".to_owned();
        }
        let mut kinds = Vec::new();
        for object in self.parts(schema) {
            let format = object.get("format").and_then(Value::as_str);
            for name in names(object.get("type")) {
                let inner = |keyword: &str| object.get(keyword).map(|inner| self.kind(inner, depth + 1));
                let inner = match name {
                    "array" => inner("items").map(|items| format!("array of {items}")),
                    "object" if !object.contains_key("properties") => inner("additionalProperties")
                        .filter(|of| !of.is_empty())
                        .map(|of| format!("map of {of}")),
                    _ => format.filter(|_| name != "null").map(|format| format!("{name} ({format})")),
                };
                kinds.push(inner.unwrap_or_else(|| name.to_owned()));
            }
            for keyword in ["oneOf", "anyOf"] {
                let alternatives = object.get(keyword).and_then(Value::as_array).into_iter().flatten();
                kinds.extend(alternatives.map(|alternative| self.kind(alternative, depth + 1)));
            }
            if kinds.is_empty() && object.contains_key("const") {
                kinds.push("constant".to_owned());
            }
        }
        let mut once: Vec<String> = Vec::new();
        for kind in kinds {
            if !once.contains(&kind) {
                once.push(kind);
            }
        }
        if once.is_empty() { "any".to_owned() } else { once.join(" or ") }
    }

    /// What an alternative is called: its title, its constant, the name that it refers to, its only member.
    fn label(&self, alternative: &'a Value) -> String {
        let own = alternative.get("title").and_then(Value::as_str).map(str::to_owned);
        let target = alternative.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next());
        let tag = || {
            let parts = self.parts(alternative);
            let mut members = parts
                .iter()
                .filter_map(|part| part.get("properties").and_then(Value::as_object))
                .flat_map(|properties| properties.values());
            members.find_map(|member| member.get("const").and_then(Value::as_str)).map(str::to_owned)
        };
        let member = || {
            let properties = alternative.get("properties")?.as_object()?;
            (properties.len() == 1).then(|| properties.keys().next().cloned()).flatten()
        };
        let constant =
            || alternative.get("const").map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
        tag()
            .or(own)
            .or_else(|| target.map(str::to_owned))
            .or_else(member)
            .or_else(constant)
            .unwrap_or_else(|| self.kind(alternative, 1))
    }
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// The texts of a keyword that has one or a list of them.
fn names(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn constraints_of(object: &Map<String, Value>) -> Vec<String> {
    let mut said = Vec::new();
    let list = |values: &Value| {
        let values = values.as_array().into_iter().flatten();
        values
            .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(", ")
    };
    for (keyword, value) in sorted(object) {
        let text = match keyword.as_str() {
            "enum" => format!("one of {}", list(value)),
            OPEN_ENUM => format!("known so far: {}", list(value)),
            "const" => format!("always {value}"),
            "default" => format!("default {value}"),
            "minimum" => format!("at least {value}"),
            "maximum" => format!("at most {value}"),
            "exclusiveMinimum" => format!("above {value}"),
            "exclusiveMaximum" => format!("below {value}"),
            "multipleOf" => format!("multiple of {value}"),
            "minLength" => format!("at least {value} characters"),
            "maxLength" => format!("at most {value} characters"),
            "minItems" => format!("at least {value} items"),
            "maxItems" => format!("at most {value} items"),
            "uniqueItems" if *value == Value::Bool(true) => "no item twice".to_owned(),
            "minProperties" => format!("at least {value} members"),
            "maxProperties" => format!("at most {value} members"),
            "pattern" => format!("matches {}", value.as_str().unwrap_or_default()),
            "additionalProperties" if *value == Value::Bool(false) => "no other members".to_owned(),
            _ => continue,
        };
        said.push(text);
    }
    // Alternatives that are constants read as one list.
    for keyword in ["oneOf", "anyOf"] {
        let alternatives =
            object.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let constants: Vec<String> = alternatives
            .iter()
            .filter_map(|a| a.get("const"))
            .map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
            .collect();
        if !constants.is_empty() && constants.len() == alternatives.len() {
            said.push(format!("one of {}", constants.join(", ")));
        }
    }
    said
}
