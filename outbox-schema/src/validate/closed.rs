//! The writer's form of a schema: the same schema, with every object closed that is silent about further members.
//!
//! A reader takes members that its schema does not declare, since a producer may be a minor ahead. Whoever wants to know
//! of such members asks this form. What it accepts the schema itself accepts, if [`Closed::alone`] says so; else both
//! have to be asked.

use serde_json::{Map, Value, json};

use crate::document::{Place, is_annotation, names_type, place};

/// A schema in writer's form.
#[derive(Debug)]
pub(super) struct Closed {
    pub(super) schema: Value,
    /// Whether a payload that this form accepts needs no second look with the schema itself.
    pub(super) alone: bool,
}

/// What a definition is called that is closed for itself: where it stands alone, and not as a part of something.
const SUFFIX: &str = "..closed";
const DEFINITIONS: &str = "#/$defs/";

/// The writer's form; `None` if the document refers to places that are not definitions, which closing would change.
pub(super) fn close(schema: &Value) -> Option<Closed> {
    let Value::Object(root) = schema else { return None };
    let mut closing = Closing { alone: true, foreign: false };
    let mut closed = closing.value(schema);
    if let Some(Value::Object(definitions)) = root.get("$defs") {
        let mut both = Map::new();
        for (name, definition) in definitions {
            let taken = both.insert(name.clone(), closing.part(definition)).is_some()
                | both.insert(format!("{name}{SUFFIX}"), closing.value(definition)).is_some();
            closing.foreign |= taken;
        }
        closed["$defs"] = Value::Object(both);
    }
    (!closing.foreign).then_some(Closed { schema: closed, alone: closing.alone })
}

struct Closing {
    alone: bool,
    foreign: bool,
}

impl Closing {
    /// A schema that describes a whole value.
    fn value(&mut self, schema: &Value) -> Value {
        let Value::Object(object) = schema else { return schema.clone() };
        if let Some(alone) = bare(object, "$ref").and_then(Value::as_str) {
            return match definition(alone) {
                Some(name) => json!({ "$ref": format!("{DEFINITIONS}{name}{SUFFIX}") }),
                // The document's root is closed for itself.
                None if alone == "#" => schema.clone(),
                None => {
                    self.foreign = true;
                    schema.clone()
                }
            };
        }
        // What one alternative takes is then declared by it alone, and an `anyOf` of closed forms takes no more than before.
        if let Some(Value::Array(alternatives)) = bare(object, "anyOf") {
            let alternatives = alternatives.iter().map(|schema| self.value(schema)).collect::<Vec<_>>();
            return json!({ "anyOf": alternatives });
        }
        let mut closed = self.members(object);
        if object.contains_key("additionalProperties") || object.contains_key("unevaluatedProperties") {
            return Value::Object(closed);
        }
        if object.keys().any(|keyword| is_in_place(keyword) && keyword != "not" && keyword != "if") {
            closed.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
        } else if describes_objects(object) {
            closed.insert("additionalProperties".to_owned(), Value::Bool(false));
            // Without it the validator says that something is not allowed, and not what.
            closed.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        }
        Value::Object(closed)
    }

    /// A schema that is a part of the description of a value, whose other parts may declare members too.
    fn part(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Object(object) => Value::Object(self.members(object)),
            _ => schema.clone(),
        }
    }

    /// One alternative of several. If it takes any object, it declares every member.
    fn alternative(&mut self, schema: &Value) -> Value {
        match schema {
            Value::Bool(true) => json!({ "additionalProperties": true }),
            Value::Object(object)
                if !object.contains_key("type")
                    && !describes_objects(object)
                    && !object.keys().any(|keyword| is_in_place(keyword) || is_literal(keyword)) =>
            {
                let mut open = self.members(object);
                open.insert("additionalProperties".to_owned(), Value::Bool(true));
                Value::Object(open)
            }
            _ => self.part(schema),
        }
    }

    fn members(&mut self, object: &Map<String, Value>) -> Map<String, Value> {
        let mut closed = Map::new();
        for (keyword, value) in object {
            self.alone &= !may_widen(keyword);
            let value = match (keyword.as_str(), value) {
                // A narrower schema in one of these takes more in the whole. And definitions are closed once, at the root.
                ("not" | "if" | "contains" | "propertyNames" | "$defs" | "definitions", _) => value.clone(),
                ("$ref", Value::String(target)) => {
                    self.foreign |= definition(target).is_none();
                    value.clone()
                }
                ("anyOf", Value::Array(list)) => list.iter().map(|schema| self.alternative(schema)).collect(),
                ("oneOf", Value::Array(list)) => {
                    self.alone &= are_disjoint(list);
                    list.iter().map(|schema| self.alternative(schema)).collect()
                }
                ("allOf", Value::Array(list)) => list.iter().map(|schema| self.part(schema)).collect(),
                ("then" | "else", schema) => self.part(schema),
                ("dependentSchemas", Value::Object(named)) => {
                    named.iter().map(|(name, schema)| (name.clone(), self.part(schema))).collect()
                }
                (_, schema) if place(keyword) == Place::Schema => self.value(schema),
                (_, Value::Array(list)) if place(keyword) == Place::List => {
                    list.iter().map(|schema| self.value(schema)).collect()
                }
                (_, Value::Object(named)) if place(keyword) == Place::Named => {
                    named.iter().map(|(name, schema)| (name.clone(), self.value(schema))).collect()
                }
                (_, data) => data.clone(),
            };
            closed.insert(keyword.clone(), value);
        }
        closed
    }
}

/// The definition that a reference names, if it names a whole one.
fn definition(target: &str) -> Option<&str> {
    target.strip_prefix(DEFINITIONS).filter(|name| !name.contains('/'))
}

/// The value of `keyword`, if a schema says nothing else.
fn bare<'a>(object: &'a Map<String, Value>, keyword: &str) -> Option<&'a Value> {
    let says_more =
        |other: &String| other != keyword && !is_annotation(other) && other != "$defs" && other != "default";
    if object.keys().any(says_more) { None } else { object.get(keyword) }
}

/// Whether a keyword's schemas describe the same value as the schema that it stands in.
fn is_in_place(keyword: &str) -> bool {
    matches!(
        keyword,
        "$ref" | "allOf" | "anyOf" | "oneOf" | "if" | "then" | "else" | "dependentSchemas" | "not"
    )
}

/// Whether a schema with this keyword may take more when something below or beside it takes less: what it refers to is
/// closed like everything else, and an alternative that takes any object declares every member.
fn may_widen(keyword: &str) -> bool {
    matches!(
        keyword,
        "not" | "if" | "contains" | "propertyNames" | "unevaluatedProperties" | "unevaluatedItems"
    )
}

fn is_literal(keyword: &str) -> bool {
    matches!(keyword, "const" | "enum")
}

fn describes_objects(object: &Map<String, Value>) -> bool {
    let is_object = object.get("type").is_some_and(|kind| names_type(kind, "object"));
    is_object && !object.keys().any(|keyword| is_literal(keyword))
        || ["properties", "patternProperties", "required"].iter().any(|keyword| object.contains_key(*keyword))
}

/// Whether a value that fits one of the alternatives can fit no other one, also when none of them is closed.
fn are_disjoint(alternatives: &[Value]) -> bool {
    alternatives
        .iter()
        .enumerate()
        .all(|(i, one)| alternatives.iter().skip(i + 1).all(|other| exclude_each_other(one, other)))
}

fn exclude_each_other(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return one == &Value::Bool(false) || other == &Value::Bool(false);
    };
    if let (Some(one), Some(other)) = (literals(one), literals(other)) {
        return one.iter().all(|value| !other.contains(value));
    }
    if let (Some(one), Some(other)) = (types(one), types(other))
        && one.iter().all(|name| !other.contains(name))
    {
        return true;
    }
    let tagged = one.get("properties").and_then(Value::as_object).into_iter().flatten().any(|(name, _)| {
        let (Some(one), Some(other)) = (tag(one, name), tag(other, name)) else { return false };
        one.iter().all(|value| !other.contains(value))
    });
    // Externally tagged: each is closed already and demands a member that the other one refuses.
    let refuses = |closed: &Map<String, Value>, demanding: &Map<String, Value>| {
        closed.get("additionalProperties") == Some(&Value::Bool(false))
            && !closed.contains_key("patternProperties")
            && demanding.get("required").and_then(Value::as_array).into_iter().flatten().any(|name| {
                let declared = closed.get("properties").and_then(Value::as_object);
                name.as_str().is_some_and(|name| !declared.is_some_and(|members| members.contains_key(name)))
            })
    };
    tagged
        || types(one).is_some_and(|names| names == ["object"])
            && types(other).is_some_and(|names| names == ["object"])
            && (refuses(one, other) || refuses(other, one))
}

/// The values of the member `name`, if each object of the schema has one of a list.
fn tag<'a>(object: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a Value>> {
    let required = object.get("required")?.as_array()?;
    required.iter().find(|member| *member == name)?;
    literals(object.get("properties")?.get(name)?.as_object()?)
}

/// All values that a schema allows, if it lists them.
fn literals(object: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (object.get("const"), object.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(list))) => Some(list.iter().collect()),
        _ => None,
    }
}

/// The types that a schema allows, if it says so; a number may be an integer too.
fn types(object: &Map<String, Value>) -> Option<Vec<&str>> {
    let mut names: Vec<&str> = match object.get("type")? {
        Value::String(only) => vec![only],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    if names.contains(&"number") {
        names.push("integer");
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(schema: &Value) -> (Value, bool) {
        let closed = close(schema).unwrap();
        (closed.schema, closed.alone)
    }

    #[test]
    fn what_is_silent_is_closed_and_what_speaks_is_not() {
        let (schema, alone) = closed(&json!({"type": "object", "properties": {
            "address": {"type": "object", "properties": {"city": {"type": "string"}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "anything": true,
            "any_object": {"type": "object", "additionalProperties": true},
            "literal": {"const": {"a": 1}},
        }}));
        assert!(alone);
        assert_eq!(schema["additionalProperties"], json!(false));
        let member = |name: &str| schema["properties"][name].clone();
        assert_eq!(member("address")["additionalProperties"], json!(false));
        assert_eq!(member("labels")["additionalProperties"], json!({"type": "string"}));
        assert_eq!((member("anything"), member("literal")), (json!(true), json!({"const": {"a": 1}})));
        assert_eq!(member("any_object")["additionalProperties"], json!(true));
    }

    #[test]
    fn parts_of_a_description_are_closed_together() {
        let (schema, _) = closed(&json!({
            "type": "object",
            "properties": {"a": true, "inner": {"$ref": "#/$defs/Part"}},
            "allOf": [{"$ref": "#/$defs/Part"}],
            "$defs": {"Part": {"type": "object", "properties": {"b": {"$ref": "#/$defs/Part"}}}},
        }));
        assert_eq!(schema["unevaluatedProperties"], json!(false));
        assert_eq!(schema["allOf"][0], json!({"$ref": "#/$defs/Part"}));
        assert_eq!(schema["$defs"]["Part"].get("additionalProperties"), None);
        let alone = json!({"$ref": "#/$defs/Part..closed"});
        assert_eq!(
            (&schema["properties"]["inner"], &schema["$defs"]["Part"]["properties"]["b"]),
            (&alone, &alone)
        );
        assert_eq!(schema["$defs"]["Part..closed"]["additionalProperties"], json!(false));
    }

    #[test]
    fn overlapping_alternatives_need_a_second_look() {
        let of = |alternatives: &Value| closed(&json!({"type": "object", "oneOf": alternatives})).1;
        let tagged = |tag: &str| json!({"type": "object", "properties": {"t": {"const": tag}, "v": true}, "required": ["t"]});
        assert!(of(&json!([tagged("a"), tagged("b")])));
        assert!(!of(&json!([tagged("a"), tagged("a")])));
        let mut optional = tagged("b");
        optional["required"] = json!([]);
        assert!(!of(&json!([tagged("a"), optional])), "the tag may be absent");
        let external = |name: &str| json!({"type": "object", "properties": {name: true}, "required": [name], "additionalProperties": false});
        assert!(of(&json!([external("a"), external("b"), {"enum": ["c"], "type": "string"}])));
        assert!(!of(&json!([{"type": "integer"}, {"type": "number"}])));
        assert!(!of(&json!([true, external("a")])));
    }

    #[test]
    fn nothing_is_closed_where_that_would_take_more() {
        let inner = json!({"type": "object", "properties": {"a": true}});
        let (schema, _) = closed(&json!({"properties": {
            "not": {"not": inner}, "if": {"if": inner}, "contains": {"contains": inner},
        }}));
        for keyword in ["not", "if", "contains"] {
            let member = &schema["properties"][keyword];
            assert_eq!(member, &json!({keyword: inner}));
        }
        assert!(close(&json!({"properties": {"a": {"$ref": "#/properties/b"}, "b": inner}})).is_none());
        let inside = json!({"properties": {"a": {"$ref": "#/$defs/B/properties/c"}}, "$defs": {"B": inner}});
        assert!(close(&inside).is_none());
    }
}
