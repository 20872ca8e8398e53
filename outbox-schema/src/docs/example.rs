//! An example payload: the schema's own, else one that is made up and valid.

use serde_json::{Map, Value, json};

use crate::document::{OPEN_ENUM, resolve, sorted};
use crate::formats::{options, with_integers};

/// How deep a made-up payload goes; deeper only what is required.
const MAX_DEPTH: usize = 4;

/// The deepest that is tried at all: what is required without end has no value.
const TOO_DEEP: usize = 24;

/// A valid payload; `None` where none can be made up, as for a text with a pattern.
pub(super) fn of(document: &Value) -> Option<Value> {
    let validator = options().build(&with_integers(document)).ok()?;
    let own =
        document.get("examples").and_then(Value::as_array).and_then(|examples| examples.first()).cloned();
    let valid = |payload: &Value| validator.is_valid(payload);
    own.filter(valid).or_else(|| make(document, document, 0).filter(valid))
}

fn make(root: &Value, schema: &Value, depth: usize) -> Option<Value> {
    let Value::Object(object) = schema else { return (schema == &Value::Bool(true)).then(|| json!("..")) };
    if depth > TOO_DEEP {
        return None;
    }
    for keyword in ["const", "default"] {
        if let Some(value) = object.get(keyword).filter(|value| keyword == "const" || !value.is_null()) {
            return Some(value.clone());
        }
    }
    for keyword in ["examples", "enum", OPEN_ENUM] {
        // The document's own examples have been tried.
        if depth == 0 && keyword == "examples" {
            continue;
        }
        if let Some(first) = object.get(keyword).and_then(Value::as_array).and_then(|values| values.first()) {
            return Some(first.clone());
        }
    }
    let mut parts: Vec<Value> = Vec::new();
    if let Some(target) = object.get("$ref").and_then(Value::as_str) {
        parts.push(make(root, resolve(root, target)?, depth + 1)?);
    }
    for part in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        parts.push(make(root, part, depth + 1)?);
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(alternatives) = object.get(keyword).and_then(Value::as_array) {
            // Something says more than nothing.
            let filled = alternatives.iter().filter(|a| a.get("type") != Some(&json!("null")));
            let mut made = filled.filter_map(|alternative| make(root, alternative, depth + 1));
            parts.push(made.next()?);
        }
    }
    let kind = match object.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ if object.contains_key("properties") => Some("object"),
        _ => None,
    };
    if let Some(kind) = kind {
        // What a reference or an alternative has made already is more exact than the bare type.
        if kind == "object" || parts.is_empty() {
            parts.push(of_kind(root, object, kind, depth)?);
        }
    }
    let mut merged = Map::new();
    let mut scalar = None;
    for part in parts {
        match part {
            Value::Object(members) => merged.extend(members),
            other => scalar = Some(other),
        }
    }
    match scalar {
        Some(scalar) if merged.is_empty() => Some(scalar),
        None if merged.is_empty() && kind != Some("object") => Some(json!("..")),
        _ => Some(Value::Object(merged)),
    }
}

fn of_kind(root: &Value, object: &Map<String, Value>, kind: &str, depth: usize) -> Option<Value> {
    let size = |keyword: &str| object.get(keyword).and_then(Value::as_u64);
    Some(match kind {
        "null" => Value::Null,
        "boolean" => json!(true),
        "string" => text(object)?,
        "integer" | "number" => number(object),
        "array" => {
            if let Some(slots) = object.get("prefixItems").and_then(Value::as_array) {
                return slots.iter().map(|slot| make(root, slot, depth + 1)).collect();
            }
            let wanted = size("minItems").unwrap_or(u64::from(depth < MAX_DEPTH));
            let wanted = usize::try_from(wanted).ok().filter(|wanted| *wanted <= 16)?;
            let item = object.get("items").cloned().unwrap_or(Value::Bool(true));
            if wanted == 0 {
                return Some(json!([]));
            }
            match make(root, &item, depth + 1) {
                Some(value) => Value::Array(vec![value; wanted]),
                None if size("minItems").unwrap_or(0) == 0 => json!([]),
                None => return None,
            }
        }
        "object" => {
            let required: Vec<&str> = object
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let mut members = Map::new();
            for (name, schema) in
                object.get("properties").and_then(Value::as_object).map(sorted).unwrap_or_default()
            {
                let needed = required.contains(&name.as_str());
                if !needed && depth >= MAX_DEPTH {
                    continue;
                }
                match make(root, schema, depth + 1) {
                    Some(value) => _ = members.insert(name.clone(), value),
                    None if needed => return None,
                    None => {}
                }
            }
            if let (true, Some(of @ Value::Object(_))) =
                (members.is_empty(), object.get("additionalProperties"))
                && let Some(value) = make(root, of, depth + 1)
            {
                members.insert("name".to_owned(), value);
            }
            Value::Object(members)
        }
        _ => return None,
    })
}

fn text(object: &Map<String, Value>) -> Option<Value> {
    if object.contains_key("pattern") {
        return None;
    }
    let format = object.get("format").and_then(Value::as_str);
    let text = match format {
        Some("uuid") => "01937f0a-7c00-7000-8000-000000000001",
        Some("date-time") => "2026-12-01T08:30:00Z",
        Some("partial-date-time") => "2026-12-01T08:30:00",
        Some("zoned-date-time") => "2026-12-01T08:30:00+01:00[Europe/Berlin]",
        Some("date") => "2026-12-01",
        Some("time") => "08:30:00Z",
        Some("partial-time") => "08:30:00",
        Some("duration") => "P1D",
        Some("email") => "ada@example.com",
        Some("uri" | "uri-reference" | "iri") => "https://example.com/",
        Some("hostname") => "example.com",
        Some("ip" | "ipv4") => "192.0.2.1",
        Some("ipv6") => "2001:db8::1",
        _ => "text",
    };
    let length = |keyword: &str| {
        object.get(keyword).and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok())
    };
    let mut text = text.to_owned();
    if format.is_none() {
        let least = length("minLength").unwrap_or(0).min(64);
        while text.len() < least {
            text.push('x');
        }
        text.truncate(length("maxLength").unwrap_or(usize::MAX));
    }
    Some(Value::from(text))
}

fn number(object: &Map<String, Value>) -> Value {
    let bound = |keyword: &str| object.get(keyword).and_then(Value::as_i64);
    if let Some(step) = bound("multipleOf") {
        return json!(step);
    }
    let low = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|low| low.saturating_add(1)));
    let high = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|high| high.saturating_sub(1)));
    json!(1_i64.max(low.unwrap_or(1)).min(high.unwrap_or(i64::MAX)))
}
