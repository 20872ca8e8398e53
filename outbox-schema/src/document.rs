//! A schema document: where schemas sit inside it, and which documents the registry accepts.
//!
//! A keyword is only a keyword at a schema's own level: `properties: {title: ..}` has a member called title, and
//! what stands under `const` is data. Everything that walks a schema goes through [`place`], so that this is decided
//! once.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::branching::{Branches, MAX_BRANCHES};

/// The one dialect of the registry.
pub(crate) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What the value of a keyword holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One schema.
    Schema,
    /// A list of schemas.
    List,
    /// Names with a schema each.
    Named,
    /// No schema.
    Data,
}

pub(crate) fn place(keyword: &str) -> Place {
    match keyword {
        "additionalProperties"
        | "items"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "propertyNames"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contentSchema" => Place::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Place::List,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => Place::Named,
        _ => Place::Data,
    }
}

/// Whether a keyword only describes: dropping it changes neither what is valid nor what absence means.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "$schema"
            | "title"
            | "description"
            | "examples"
            | "deprecated"
            | "readOnly"
            | "writeOnly"
            | "$comment"
    ) || (keyword.starts_with("x-") && keyword != OPEN_ENUM)
}

/// The known values of an open enum: the one extension that has a meaning.
pub(crate) const OPEN_ENUM: &str = "x-outbox-known";

/// Whether the list under a keyword is a set, so that its order means nothing.
pub(crate) fn is_set(keyword: &str) -> bool {
    matches!(keyword, "required" | "enum" | "type" | OPEN_ENUM)
}

/// Whether the value of a keyword `type` names this type, alone or among others.
pub(crate) fn names_type(kind: &Value, name: &str) -> bool {
    match kind {
        Value::String(only) => only == name,
        Value::Array(several) => several.iter().any(|one| one == name),
        _ => false,
    }
}

/// The members of an object, sorted by name whatever order the map keeps.
pub(crate) fn sorted(object: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members
}

/// `pointer` with one more step.
pub(crate) fn join(pointer: &str, step: impl fmt::Display) -> String {
    format!("{pointer}/{}", step.to_string().replace('~', "~0").replace('/', "~1"))
}

/// Calls `visit` with each schema of a document that is an object, outermost first, and its pointer.
pub(crate) fn for_each_schema(
    schema: &Value,
    pointer: &str,
    visit: &mut impl FnMut(&str, &Map<String, Value>),
) {
    let Value::Object(object) = schema else { return };
    visit(pointer, object);
    for (keyword, value) in sorted(object) {
        let below = join(pointer, keyword);
        match (place(keyword), value) {
            (Place::Schema, schema) => for_each_schema(schema, &below, visit),
            (Place::List, Value::Array(list)) => {
                for (i, schema) in list.iter().enumerate() {
                    for_each_schema(schema, &join(&below, i), visit);
                }
            }
            (Place::Named, Value::Object(named)) => {
                for (name, schema) in sorted(named) {
                    for_each_schema(schema, &join(&below, name), visit);
                }
            }
            _ => {}
        }
    }
}

/// The schema that a local `$ref` names: `None` if it leaves the document or does not end at a schema.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = percent_decode(reference.strip_prefix('#')?)?;
    if pointer.is_empty() {
        return Some(root);
    }
    let mut steps =
        pointer.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut schema = root;
    while let Some(keyword) = steps.next() {
        let value = schema.get(&keyword)?;
        schema = match place(&keyword) {
            Place::Schema => value,
            Place::List => value.get(steps.next()?.parse::<usize>().ok()?)?,
            Place::Named => value.get(steps.next()?)?,
            Place::Data => return None,
        };
    }
    Some(schema)
}

pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (digits, tail) = rest.split_at_checked(2)?;
            rest = tail;
            let digits =
                std::str::from_utf8(digits).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The document as it is committed: members sorted everywhere, `required` sorted. With `annotations` false they are
/// left out.
#[cfg(any(test, feature = "compat", feature = "import"))]
pub(crate) fn tidy(schema: &Value, annotations: bool) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut tidied = Map::new();
    for (keyword, value) in sorted(object) {
        if !annotations && is_annotation(keyword) {
            continue;
        }
        let value = match (place(keyword), value) {
            (Place::Schema, schema) => tidy(schema, annotations),
            (Place::List, Value::Array(list)) => {
                list.iter().map(|schema| tidy(schema, annotations)).collect()
            }
            (Place::Named, Value::Object(named)) => {
                sorted(named).into_iter().map(|(name, s)| (name.clone(), tidy(s, annotations))).collect()
            }
            (_, Value::Array(names)) if keyword == "required" => sorted_set(names),
            (_, data) => sorted_data(data),
        };
        tidied.insert(keyword.clone(), value);
    }
    Value::Object(tidied)
}

/// Data with the members of its objects sorted.
pub(crate) fn sorted_data(data: &Value) -> Value {
    match data {
        Value::Array(list) => list.iter().map(sorted_data).collect(),
        Value::Object(object) => {
            sorted(object).into_iter().map(|(k, v)| (k.clone(), sorted_data(v))).collect()
        }
        scalar => scalar.clone(),
    }
}

/// A list as a set: sorted by its JSON text, each value once.
pub(crate) fn sorted_set(list: &[Value]) -> Value {
    let mut values: Vec<Value> = list.iter().map(sorted_data).collect();
    values.sort_by_cached_key(Value::to_string);
    values.dedup();
    Value::Array(values)
}

/// Why a text is not a schema of the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaProblem {
    /// The text is not JSON, or names a member twice.
    #[error("not readable as JSON: {0}; correct the file, or remove it and bless again")]
    NotJson(String),
    /// The document is JSON, but no object.
    #[error("a schema file must hold a JSON object; correct the file, or remove it and bless again")]
    NotAnObject,
    /// The document describes no objects, and a payload is one.
    #[error(
        "`/type` must be \"object\", since a payload is a JSON object; put the value into a member of one"
    )]
    NotOfObjects,
    /// The document does not say that it is of the registry's dialect, or a part of it is of another one.
    #[error("`{pointer}` must be \"{DIALECT}\"; write it so")]
    Dialect {
        /// Where `$schema` is, or belongs.
        pointer: String,
    },
    /// A keyword that changes how references resolve.
    #[error("keyword `{pointer}` is not supported; use `$defs` and a local `$ref`")]
    Keyword {
        /// Where the keyword is.
        pointer: String,
    },
    /// A reference that leaves the document.
    #[error(
        "`{pointer}` refers to `{target}`, outside this file; copy that schema into `$defs` and refer to it there"
    )]
    ExternalRef {
        /// Where the reference is.
        pointer: String,
        /// What it names.
        target: String,
    },
    /// A reference to nothing, or to something that is not a schema.
    #[error("`{pointer}` refers to `{target}`, where no schema is; correct the reference")]
    DeadRef {
        /// Where the reference is.
        pointer: String,
        /// What it names.
        target: String,
    },
    /// More alternatives at one place than a validator can try.
    #[error(
        "`{pointer}` stands for more than {MAX_BRANCHES} alternatives, counting what it refers to; offer fewer, or tell \
         them apart by a tag"
    )]
    Branches {
        /// Where the outermost such schema is.
        pointer: String,
    },
}

/// Reads a document and refuses members that are named twice: readers disagree on which of the two counts.
///
/// # Errors
/// [`SchemaProblem::NotJson`].
pub fn parse(text: &[u8]) -> Result<Value, SchemaProblem> {
    if text.starts_with(b"\xEF\xBB\xBF") {
        return Err(SchemaProblem::NotJson(
            "it begins with a byte order mark, which JSON does not have".to_owned(),
        ));
    }
    serde_json::from_slice::<Strict>(text)
        .map(|strict| strict.0)
        .map_err(|e| SchemaProblem::NotJson(e.to_string()))
}

/// Everything that keeps a document out of the registry.
#[must_use]
pub(crate) fn problems(document: &Value) -> Vec<SchemaProblem> {
    let Value::Object(root) = document else { return vec![SchemaProblem::NotAnObject] };
    let mut problems = Vec::new();
    let mut branches = Branches::of(document);
    let mut too_many = false;
    if !root.contains_key("$schema") {
        problems.push(SchemaProblem::Dialect { pointer: "/$schema".to_owned() });
    }
    // A type that is none is told by the validator.
    let others = ["array", "boolean", "integer", "null", "number", "string"];
    if root
        .get("type")
        .is_some_and(|kind| !names_type(kind, "object") && others.iter().any(|name| names_type(kind, name)))
    {
        problems.push(SchemaProblem::NotOfObjects);
    }
    for_each_schema(document, "", &mut |pointer, schema| {
        if !too_many && branches.count_object(schema) > MAX_BRANCHES {
            too_many = true;
            problems.push(SchemaProblem::Branches { pointer: pointer.to_owned() });
        }
        for (keyword, value) in sorted(schema) {
            let pointer = || join(pointer, keyword);
            match keyword.as_str() {
                "$schema" if !value.as_str().is_some_and(is_dialect) => {
                    problems.push(SchemaProblem::Dialect { pointer: pointer() });
                }
                "$id" | "$anchor" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveRef"
                | "$recursiveAnchor" => {
                    problems.push(SchemaProblem::Keyword { pointer: pointer() });
                }
                "$ref" => {
                    let target = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    if !target.starts_with('#') {
                        problems.push(SchemaProblem::ExternalRef { pointer: pointer(), target });
                    } else if resolve(document, &target).is_none() {
                        problems.push(SchemaProblem::DeadRef { pointer: pointer(), target });
                    }
                }
                _ => {}
            }
        }
    });
    problems
}

/// Both spellings are in use; the empty fragment says nothing.
fn is_dialect(uri: &str) -> bool {
    uri.strip_suffix('#').unwrap_or(uri) == DIALECT
}

/// A JSON value whose objects name each member once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Value, E> {
        Number::from_f64(v).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut seen = HashSet::new();
        let mut object = Map::new();
        while let Some((name, Strict(value))) = map.next_entry::<String, Strict>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom(format_args!(
                    "member `{}` is given twice",
                    name.escape_debug()
                )));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document(extra: &Value) -> Value {
        let mut document = json!({"$schema": DIALECT, "type": "object"});
        document.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        document
    }

    #[test]
    fn a_self_contained_document_is_accepted() {
        let good = document(&json!({
            "properties": {"$id": {"type": "string"}, "a": {"$ref": "#/$defs/A%20b~1c"}, "self": {"$ref": "#"}},
            "const": {"$ref": "https://example.com", "$id": "x"},
            "$defs": {"A b/c": {"anyOf": [{"$ref": "#/properties/a"}, true]}},
        }));
        assert_eq!(problems(&good), []);
        let with_fragment = json!({"$schema": format!("{DIALECT}#")});
        assert_eq!(problems(&with_fragment), []);
    }

    #[test]
    fn each_problem_is_found_where_it_is() {
        let pointer = |p: &str| p.to_owned();
        assert_eq!(problems(&json!([])), [SchemaProblem::NotAnObject]);
        assert_eq!(problems(&json!({})), [SchemaProblem::Dialect { pointer: pointer("/$schema") }]);
        let draft7 = json!({"$schema": "http://json-schema.org/draft-07/schema#"});
        assert_eq!(problems(&draft7), [SchemaProblem::Dialect { pointer: pointer("/$schema") }]);
        for keyword in
            ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"]
        {
            let bad = document(&json!({"items": {"allOf": [{keyword: "x"}]}}));
            assert_eq!(
                problems(&bad),
                [SchemaProblem::Keyword { pointer: format!("/items/allOf/0/{keyword}") }],
                "{keyword}"
            );
        }
        for target in ["https://example.com/a.json", "other.json#/$defs/A", "file:///etc/passwd", ""] {
            let bad = document(&json!({"properties": {"a": {"$ref": target}}}));
            let found = problems(&bad);
            assert_eq!(
                found,
                [SchemaProblem::ExternalRef {
                    pointer: pointer("/properties/a/$ref"),
                    target: target.to_owned()
                }]
            );
        }
        for target in
            ["#/$defs/Missing", "#anchor", "#/default", "#/properties", "#/%zz", "#/$defs/A/anyOf/9"]
        {
            let bad = document(&json!({
                "properties": {"a": {"$ref": target}}, "default": {}, "$defs": {"A": {"anyOf": [true]}}
            }));
            let found = problems(&bad);
            assert!(matches!(found.as_slice(), [SchemaProblem::DeadRef { .. }]), "{target}: {found:?}");
        }
        let next =
            |n: u8| json!({"anyOf": [{"$ref": format!("#/$defs/{n}")}, {"$ref": format!("#/$defs/{n}")}]});
        let mut defs = Map::new();
        for n in 0..20 {
            defs.insert(n.to_string(), next(n + 1));
        }
        defs.insert("20".to_owned(), json!(true));
        let bomb = document(&json!({"properties": {"a": {"$ref": "#/$defs/0"}}, "$defs": defs}));
        assert!(matches!(problems(&bomb).as_slice(), [SchemaProblem::Branches { .. }]));
        assert_eq!(problems(&document(&json!({"type": "string"}))), [SchemaProblem::NotOfObjects]);
        assert_eq!(problems(&document(&json!({"type": ["object", "null"]}))), []);
        let marked = parse(b"\xEF\xBB\xBF{}").unwrap_err();
        assert!(marked.to_string().contains("byte order mark"), "{marked}");
        let all = problems(&json!({"$id": "a", "properties": {"b": {"$ref": "x"}, "c": {"$schema": "y"}}}));
        assert_eq!(all.len(), 4, "{all:?}");
    }

    #[test]
    fn a_member_given_twice_is_refused_at_any_depth() {
        let error = parse(br#"{"a": [{"b": 1, "b": 2}]}"#).unwrap_err();
        assert!(error.to_string().contains("member `b` is given twice at line 1"), "{error}");
        let text = r#"{"a":[1,-2,0.5,"x",null,true],"b":{"a":{}}}"#;
        assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert!(matches!(parse(b"{"), Err(SchemaProblem::NotJson(_))));
        assert!(matches!(parse("[".repeat(100_000).as_bytes()), Err(SchemaProblem::NotJson(_))));
    }

    #[test]
    fn tidy_sorts_and_keeps_data() {
        let mut backwards = Map::new();
        backwards.insert("z".to_owned(), json!({"title": "Z", "enum": ["b", "a"]}));
        backwards.insert("a".to_owned(), json!({"default": {"title": 1}}));
        let schema = json!({"required": ["z", "a"], "properties": backwards, "title": "T"});
        assert_eq!(
            tidy(&schema, true).to_string(),
            r#"{"properties":{"a":{"default":{"title":1}},"z":{"enum":["b","a"],"title":"Z"}},"required":["a","z"],"title":"T"}"#
        );
        assert_eq!(
            tidy(&schema, false).to_string(),
            r#"{"properties":{"a":{"default":{"title":1}},"z":{"enum":["b","a"]}},"required":["a","z"]}"#
        );
    }
}
