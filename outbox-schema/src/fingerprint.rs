//! The identity of a schema: two documents that differ only in what has no meaning have the same fingerprint.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::document::{Place, is_annotation, is_set, join, place, resolve, sorted, sorted_data, sorted_set};

/// A SHA-256 sum, shown as `sha256:<64 hexadecimal digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The sum of `parts`, each with its length before it, so that no two lists of parts run into each other.
    pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let digits = text.strip_prefix("sha256:").map(str::as_bytes).ok_or(NotADigest)?;
        let mut sum = [0; 32];
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != sum.len() || !rest.is_empty() {
            return Err(NotADigest);
        }
        for (byte, pair) in sum.iter_mut().zip(pairs) {
            *byte = pair.iter().try_fold(0, |byte, digit| match digit {
                b'0'..=b'9' => Ok(byte << 4 | (digit - b'0')),
                b'a'..=b'f' => Ok(byte << 4 | (digit - b'a' + 10)),
                _ => Err(NotADigest),
            })?;
        }
        Ok(Self(sum))
    }
}

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint, expected `sha256:` and 64 hexadecimal digits; copy it from `outbox schema list`")]
pub struct NotADigest;

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The sum of a schema's [normal form](normal_form): equal for documents that mean the same.
///
/// ```
/// use outbox_schema::Fingerprint;
/// use serde_json::json;
///
/// let a = json!({"type": "object", "title": "A", "required": ["x", "y"]});
/// let b = json!({"required": ["y", "x"], "type": "object"});
/// assert_eq!(Fingerprint::of(&a), Fingerprint::of(&b));
/// assert_ne!(Fingerprint::of(&a), Fingerprint::of(&json!({"type": "object"})));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(Digest);

impl Fingerprint {
    /// The fingerprint of a schema document.
    #[must_use]
    pub fn of(document: &Value) -> Self {
        Self(Digest::of_parts([normal_form(document).to_string().as_bytes()]))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Fingerprint {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        text.parse().map(Self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What remains of a schema document when everything without meaning is taken away.
///
/// - Annotations go: `$schema`, `title`, `description`, `examples`, `deprecated`, `readOnly`, `writeOnly`,
///   `$comment` and `x-*`. `x-outbox-known` stays, and so does `default`, since it says what absence means.
/// - Members are sorted by name; `required`, `enum`, `type` and `x-outbox-known` are sets.
/// - The schemas that a `$ref` names are numbered by first visit, and nothing else is left of `$defs`.
///
/// The order under `oneOf`, `anyOf` and `allOf` stays: readers try the alternatives of an untagged enum in order.
#[must_use]
pub fn normal_form(document: &Value) -> Value {
    let mut numbering = Numbering { root: document, numbers: HashMap::new(), queue: Vec::new() };
    let mut normal = numbering.schema(document);
    let mut definitions = Map::new();
    // The queue grows while it is worked through: a definition may be the first to name another.
    while let Some(&definition) = numbering.queue.get(definitions.len()) {
        let name = format!("{:06}", definitions.len());
        let schema = numbering.schema(definition);
        definitions.insert(name, schema);
    }
    if !definitions.is_empty()
        && let Value::Object(normal) = &mut normal
    {
        normal.insert("$defs".to_owned(), Value::Object(definitions));
    }
    sorted_data(&normal)
}

/// Numbers the targets of references in the order in which a walk of the normal form meets them.
struct Numbering<'a> {
    root: &'a Value,
    /// By address, since two spellings may name the same schema.
    numbers: HashMap<*const Value, usize>,
    queue: Vec<&'a Value>,
}

impl<'a> Numbering<'a> {
    fn schema(&mut self, schema: &Value) -> Value {
        let Value::Object(object) = schema else { return schema.clone() };
        let mut normal = Map::new();
        for (keyword, value) in sorted(object) {
            if is_annotation(keyword) || matches!(keyword.as_str(), "$defs" | "definitions") {
                continue;
            }
            let value = match (place(keyword), value) {
                (Place::Schema, schema) => self.schema(schema),
                (Place::List, Value::Array(list)) => list.iter().map(|schema| self.schema(schema)).collect(),
                (Place::Named, Value::Object(named)) => sorted(named)
                    .into_iter()
                    .map(|(name, schema)| (name.clone(), self.schema(schema)))
                    .collect(),
                (_, Value::String(target)) if keyword == "$ref" => self.reference(target),
                (_, Value::Array(list)) if is_set(keyword) => sorted_set(list),
                (_, data) => sorted_data(data),
            };
            normal.insert(keyword.clone(), value);
        }
        Value::Object(normal)
    }

    fn reference(&mut self, target: &str) -> Value {
        let Some(schema) = resolve(self.root, target) else { return json!(target) };
        if std::ptr::eq(schema, self.root) {
            return json!("#");
        }
        let number = *self.numbers.entry(schema).or_insert_with(|| {
            self.queue.push(schema);
            self.queue.len() - 1
        });
        json!(format!("#{}", join("/$defs", format_args!("{number:06}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &Value, b: &Value) {
        assert_eq!(Fingerprint::of(a), Fingerprint::of(b), "{}\n{}", normal_form(a), normal_form(b));
    }

    fn different(a: &Value, b: &Value) {
        assert_ne!(Fingerprint::of(a), Fingerprint::of(b), "{}", normal_form(a));
    }

    #[test]
    fn it_is_shown_as_sha256() {
        let text = Fingerprint::of(&json!({})).to_string();
        let digits = text.strip_prefix("sha256:").unwrap();
        assert_eq!(digits.len(), 64);
        assert!(digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{text}");
        assert_eq!(format!("{:?}", Fingerprint::of(&json!({}))), text);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let digest = |parts: [&'static [u8]; 2]| Digest::of_parts(parts);
        assert_ne!(digest([b"ab", b"c"]), digest([b"a", b"bc"]));
    }

    #[test]
    fn annotations_have_no_meaning() {
        for keyword in [
            "$schema",
            "title",
            "description",
            "examples",
            "deprecated",
            "readOnly",
            "writeOnly",
            "$comment",
            "x-a",
        ] {
            same(&json!({"properties": {"a": {keyword: "x"}}}), &json!({"properties": {"a": {}}}));
            // The same word as a member's name, or in data, is no keyword.
            different(&json!({"properties": {keyword: {}}}), &json!({"properties": {}}));
            different(&json!({"patternProperties": {keyword: {}}}), &json!({"patternProperties": {}}));
            different(&json!({"const": {keyword: 1}}), &json!({"const": {}}));
            different(&json!({"enum": [{keyword: 1}]}), &json!({"enum": [{}]}));
            different(&json!({"default": {keyword: 1}}), &json!({"default": {}}));
        }
        different(&json!({"x-outbox-known": ["a"]}), &json!({"x-outbox-known": ["b"]}));
        different(&json!({"default": 1}), &json!({"default": 2}));
        different(&json!({"default": 1}), &json!({}));
    }

    #[test]
    fn order_has_no_meaning_where_json_schema_gives_it_none() {
        same(&json!({"required": ["a", "b"]}), &json!({"required": ["b", "a"]}));
        same(&json!({"enum": ["a", 1]}), &json!({"enum": [1, "a"]}));
        same(&json!({"type": ["null", "string"]}), &json!({"type": ["string", "null"]}));
        same(&json!({"x-outbox-known": ["a", "b"]}), &json!({"x-outbox-known": ["b", "a"]}));
        different(&json!({"const": ["a", "b"]}), &json!({"const": ["b", "a"]}));
        different(&json!({"prefixItems": [{}, true]}), &json!({"prefixItems": [true, {}]}));
        different(&json!({"properties": {"required": {"const": [1, 2]}}}), &json!({"properties": {}}));
        let mut backwards = Map::new();
        backwards.insert("b".to_owned(), json!(1));
        backwards.insert("a".to_owned(), json!(2));
        assert_eq!(normal_form(&json!({"const": backwards})).to_string(), r#"{"const":{"a":2,"b":1}}"#);
    }

    #[test]
    fn the_names_of_definitions_have_no_meaning() {
        let one = json!({
            "properties": {"x": {"$ref": "#/$defs/Zebra"}, "y": {"$ref": "#/$defs/Ape"}},
            "$defs": {"Ape": {"items": {"$ref": "#/$defs/Zebra"}}, "Zebra": {"type": "string"}, "Unused": {}},
        });
        let two = json!({
            "properties": {"x": {"$ref": "#/definitions/A"}, "y": {"$ref": "#/definitions/B%20b"}},
            "definitions": {"B b": {"items": {"$ref": "#/definitions/A"}}, "A": {"type": "string", "title": "A"}},
        });
        same(&one, &two);
        let swapped = json!({
            "properties": {"x": {"$ref": "#/$defs/Ape"}, "y": {"$ref": "#/$defs/Zebra"}},
            "$defs": one["$defs"],
        });
        different(&one, &swapped);
        let changed =
            json!({"properties": one["properties"], "$defs": {"Ape": {}, "Zebra": {"type": "string"}}});
        different(&one, &changed);
    }

    #[test]
    fn recursion_ends_and_references_to_nothing_stay() {
        let tree = |name: &str| {
            let target = format!("#/$defs/{name}");
            json!({"$ref": target, "$defs": {name: {"items": {"$ref": target}, "not": {"$ref": "#"}}}})
        };
        same(&tree("A"), &tree("B"));
        different(&json!({"$ref": "#/$defs/A"}), &json!({"$ref": "#/$defs/B"}));
        assert_eq!(normal_form(&json!(true)), json!(true));
    }
}
