//! What the code that `outbox codegen` writes calls, beside the types of this crate's root.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;

/// Reads a map whose keys are integers. JSON has them as text, which serde cannot read as numbers where it must look at a
/// value twice, as inside tagged enums.
///
/// # Errors
/// As the deserializer, or a key that is no integer of the type.
pub fn integer_keys<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    K: FromStr<Err: Display> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    parsed(BTreeMap::deserialize(deserializer)?)
}

/// As [`integer_keys`], for a map that may be absent.
///
/// # Errors
/// As [`integer_keys`].
pub fn optional_integer_keys<'de, K, V, D>(deserializer: D) -> Result<Option<BTreeMap<K, V>>, D::Error>
where
    K: FromStr<Err: Display> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer)?.map(parsed).transpose()
}

fn parsed<K: FromStr<Err: Display> + Ord, V, E: Error>(
    map: BTreeMap<String, V>,
) -> Result<BTreeMap<K, V>, E> {
    let parse = |(key, value): (String, V)| Ok((key.parse().map_err(E::custom)?, value));
    map.into_iter().map(parse).collect()
}

/// The tag of an enum that is tagged by the member `name`.
#[must_use]
pub fn tag<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

/// The variant of an enum that is tagged by the name of its only member, or by being a string.
#[must_use]
pub fn key(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        Value::Object(members) if members.len() == 1 => members.keys().next().map(String::as_str),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "kind")]
    enum Stock {
        Counted {
            #[serde(deserialize_with = "integer_keys")]
            shelves: BTreeMap<u64, i64>,
            #[serde(default, deserialize_with = "optional_integer_keys")]
            lost: Option<BTreeMap<i64, bool>>,
        },
    }

    #[test]
    fn integer_keys_are_read_inside_tagged_enums() {
        let read = |text: &str| serde_json::from_str::<Stock>(text);
        let shelves = BTreeMap::from([(7, 1), (18_446_744_073_709_551_615, -1)]);
        let expected = Stock::Counted { shelves: shelves.clone(), lost: Some(BTreeMap::from([(-3, true)])) };
        let text = r#"{"kind":"Counted","shelves":{"7":1,"18446744073709551615":-1},"lost":{"-3":true}}"#;
        assert_eq!(read(text).unwrap(), expected);
        let text = r#"{"kind":"Counted","shelves":{"7":1,"18446744073709551615":-1}}"#;
        assert_eq!(read(text).unwrap(), Stock::Counted { shelves, lost: None });
        for wrong in [r#"{"seven":1}"#, r#"{"-1":1}"#, r#"{"1":"x"}"#, "7"] {
            assert!(read(&format!(r#"{{"kind":"Counted","shelves":{wrong}}}"#)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tags_are_found() {
        assert_eq!(tag(&json!({"kind": "a", "x": 1}), "kind"), Some("a"));
        assert_eq!((tag(&json!({"kind": 1}), "kind"), tag(&json!("kind"), "kind")), (None, None));
        assert_eq!((key(&json!("a")), key(&json!({"a": 1}))), (Some("a"), Some("a")));
        assert_eq!((key(&json!({"a": 1, "b": 2})), key(&json!({})), key(&json!(1))), (None, None, None));
    }
}
