//! Enums that may grow: a reader takes a variant that it does not know instead of refusing the event.

use schemars::Schema;
use serde_json::{Map, Value, json};

/// The values that are known today, for documentation and generated code; nothing is refused by it.
const KNOWN: &str = "x-outbox-known";
/// What each known value means, where the enum's variants have doc comments.
const DESCRIPTIONS: &str = "x-outbox-descriptions";
/// Why an enum cannot be open; the schema test fails with it.
pub(crate) const PROBLEM: &str = "x-outbox-open-enum-problem";

/// Makes an enum inside a payload open: adding a variant later is then no breaking change. For `#[schemars(transform)]`:
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema)]
/// #[schemars(transform = outbox_sdk::open_enum)]
/// enum Plan {
///     Free,
///     Paid,
/// }
///
/// let schema = schemars::schema_for!(Plan).to_value();
/// assert_eq!((&schema["type"], &schema["x-outbox-known"]), (&"string".into(), &serde_json::json!(["Free", "Paid"])));
/// ```
///
/// Readers must be ready for a variant that they do not know; generated consumers have an arm for it, and in handwritten
/// ones `#[serde(other)]` or a string does. It works on enums of unit variants, with and without doc comments, and on each
/// of serde's four taggings. Of a known variant the content is checked, of an unknown one only where its tag stands. On
/// anything else the schema test of the event fails. Opening an enum that readers know as closed is a breaking change
/// itself.
pub fn open_enum(schema: &mut Schema) {
    let object = schema.ensure_object();
    if let Err(problem) = open(object) {
        object.insert(PROBLEM.to_owned(), problem.into());
    }
}

fn open(schema: &mut Map<String, Value>) -> Result<(), &'static str> {
    const NOT_AN_ENUM: &str = "`open_enum` stands on a type that is no enum; put it on the enum itself";
    const NOT_TEXTS: &str = "`open_enum` stands on an enum that is written as something else than strings; write its \
                             variants by name";
    const OPTIONAL: &str = "`open_enum` stands on an `Option`; put it on the enum inside";
    if let Some(Value::Array(values)) = schema.get("enum") {
        if values.contains(&Value::Null) {
            return Err(OPTIONAL);
        }
        return open_texts(schema, "enum").ok_or(NOT_TEXTS);
    }
    if schema.contains_key("const") {
        return open_texts(schema, "const").ok_or(NOT_TEXTS);
    }
    if let Some(Value::Array(alternatives)) = schema.get_mut("anyOf") {
        // As schemars writes an `Option`: the type by its reference, or null.
        if matches!(alternatives.as_slice(), [of, null] if of.get("$ref").is_some() && *null == json!({"type": "null"}))
        {
            return Err(OPTIONAL);
        }
        alternatives.push(json!({ KNOWN: [] }));
        return Ok(());
    }
    let Some(Value::Array(variants)) = schema.remove("oneOf") else { return Err(NOT_AN_ENUM) };
    if let Some(tag) = common_tag(&variants) {
        tagged(schema, &tag, variants);
        return Ok(());
    }
    externally_tagged(schema, variants)
}

/// A string where there were the values of `keyword`; `None`, and no change, if one of them is no string.
fn open_texts(schema: &mut Map<String, Value>, keyword: &str) -> Option<()> {
    let values = match schema.get(keyword)? {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    };
    if !values.iter().all(Value::is_string) {
        return None;
    }
    schema.remove(keyword);
    schema.insert("type".to_owned(), "string".into());
    schema.insert(KNOWN.to_owned(), Value::Array(values));
    Some(())
}

/// The member in which every variant has a constant of its own: the tag, inside or beside the content.
fn common_tag(variants: &[Value]) -> Option<String> {
    let properties = variants.first()?.get("properties")?.as_object()?;
    let is_tag = |name: &&String| variants.iter().all(|variant| tag_value(variant, name).is_some());
    properties.keys().find(is_tag).cloned()
}

fn tag_value<'a>(variant: &'a Value, tag: &str) -> Option<&'a Value> {
    let required = variant.get("required")?.as_array()?;
    let value = variant.get("properties")?.get(tag)?.get("const").filter(|value| value.is_string())?;
    required.iter().any(|name| name == tag).then_some(value)
}

/// Known variants as they are; any other object with a string for its tag.
fn tagged(schema: &mut Map<String, Value>, tag: &str, mut variants: Vec<Value>) {
    let known: Vec<_> = variants.iter().filter_map(|variant| tag_value(variant, tag).cloned()).collect();
    variants.push(json!({
        "type": "object",
        "properties": { tag: { "type": "string", "not": { "enum": known }, KNOWN: known } },
        "required": [tag],
    }));
    schema.insert("oneOf".to_owned(), Value::Array(variants));
}

/// Unit variants are strings, the others objects with one member named by the variant.
fn externally_tagged(schema: &mut Map<String, Value>, variants: Vec<Value>) -> Result<(), &'static str> {
    const NOT_A_VARIANT: &str =
        "`open_enum` stands on an enum whose variants cannot be told apart; tag them with serde's `tag`";
    let (mut units, mut descriptions, mut contents) = (Vec::new(), Map::new(), Map::new());
    for variant in variants {
        let Value::Object(mut variant) = variant else { return Err(NOT_A_VARIANT) };
        if let Some(value @ Value::String(_)) = variant.remove("const") {
            if let (Some(name), Some(text)) = (value.as_str(), variant.remove("description")) {
                descriptions.insert(name.to_owned(), text);
            }
            units.push(value);
        } else if let Some(Value::Array(values)) = variant.remove("enum") {
            units.extend(values);
        } else {
            let Some(Value::Object(properties)) = variant.remove("properties") else {
                return Err(NOT_A_VARIANT);
            };
            let required = variant.get("required").and_then(Value::as_array).map_or(0, Vec::len);
            if properties.len() != 1 || required != 1 {
                return Err(NOT_A_VARIANT);
            }
            for (name, mut content) in properties {
                if let (Some(content), Some(text)) = (content.as_object_mut(), variant.remove("description"))
                {
                    content.entry("description").or_insert(text);
                }
                contents.insert(name, content);
            }
        }
    }
    let mut texts =
        Map::from_iter([("type".to_owned(), "string".into()), (KNOWN.to_owned(), Value::Array(units))]);
    if !descriptions.is_empty() {
        texts.insert(DESCRIPTIONS.to_owned(), Value::Object(descriptions));
    }
    if contents.is_empty() {
        schema.extend(texts);
        return Ok(());
    }
    let known: Vec<_> = contents.keys().cloned().collect();
    let object = json!({
        "type": "object", "properties": contents, "minProperties": 1, "maxProperties": 1, KNOWN: known,
    });
    schema.insert("oneOf".to_owned(), json!([texts, object]));
    Ok(())
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde::Serialize;

    use super::*;

    fn open_form<T: JsonSchema>() -> Value {
        let mut schema = schema_for!(T).to_value();
        for member in ["$schema", "title", "description"] {
            schema.as_object_mut().unwrap().remove(member);
        }
        schema
    }

    #[derive(Serialize, JsonSchema)]
    #[schemars(transform = open_enum)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Documented {
        /// Pays nothing.
        Free,
        Paid,
    }

    #[derive(Serialize, JsonSchema)]
    #[schemars(transform = open_enum)]
    enum Lonely {
        Only,
    }

    #[derive(Serialize, JsonSchema)]
    #[schemars(transform = open_enum)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum External {
        Nothing,
        /// By hand.
        Hand {
            name: String,
        },
        Robot(u32),
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind")]
    #[schemars(transform = open_enum)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Internal {
        Nothing,
        Hand { name: String },
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(tag = "kind", content = "of")]
    #[schemars(transform = open_enum)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Adjacent {
        Nothing,
        Hand(String),
    }

    #[derive(Serialize, JsonSchema)]
    #[serde(untagged)]
    #[schemars(transform = open_enum)]
    #[expect(dead_code, reason = "only its schema matters")]
    enum Untagged {
        Text(String),
        Number(u8),
    }

    #[test]
    fn unit_variants_become_a_string() {
        let documented = json!({
            "type": "string", "x-outbox-known": ["Free", "Paid"], "x-outbox-descriptions": {"Free": "Pays nothing."},
        });
        let known = |schema: &Value| {
            let mut known = schema["x-outbox-known"].as_array().unwrap().clone();
            known.sort_by_key(Value::to_string);
            known
        };
        let schema = open_form::<Documented>();
        assert_eq!(known(&schema), known(&documented));
        assert_eq!(schema["type"], "string");
        assert_eq!(schema["x-outbox-descriptions"], documented["x-outbox-descriptions"]);
        assert_eq!(open_form::<Lonely>(), json!({"type": "string", "x-outbox-known": ["Only"]}));
        assert_eq!(serde_json::to_value(Lonely::Only).unwrap(), "Only");
    }

    #[test]
    fn outside_the_tag_names_a_member() {
        let schema = open_form::<External>();
        let [texts, object] = schema["oneOf"].as_array().unwrap().as_slice() else { panic!("{schema}") };
        assert_eq!(texts, &json!({"type": "string", "x-outbox-known": ["Nothing"]}));
        assert_eq!(object["x-outbox-known"], json!(["Hand", "Robot"]));
        assert_eq!((&object["minProperties"], &object["maxProperties"]), (&json!(1), &json!(1)));
        assert_eq!(object["properties"]["Hand"]["description"], "By hand.");
        assert!(object.get("additionalProperties").is_none(), "another variant is one more member");
    }

    #[test]
    fn inside_and_beside_the_tag_is_a_member() {
        for schema in [open_form::<Internal>(), open_form::<Adjacent>()] {
            let variants = schema["oneOf"].as_array().unwrap();
            assert_eq!(variants.len(), 3);
            assert_eq!(
                variants[2],
                json!({
                    "type": "object",
                    "properties": {"kind": {
                        "type": "string",
                        "not": {"enum": ["Nothing", "Hand"]},
                        "x-outbox-known": ["Nothing", "Hand"],
                    }},
                    "required": ["kind"],
                })
            );
        }
    }

    #[test]
    fn without_a_tag_anything_may_come() {
        let schema = open_form::<Untagged>();
        let variants = schema["anyOf"].as_array().unwrap();
        assert_eq!((variants.len(), &variants[2]), (3, &json!({"x-outbox-known": []})));
    }

    #[test]
    fn what_cannot_be_open_stays_as_it_was_and_says_so() {
        let variant = json!({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]});
        for (schema, problem) in [
            (json!({"type": "integer", "enum": [1, 2]}), "something else than strings"),
            (json!({"enum": ["a", 1]}), "something else than strings"),
            (json!({"const": 1}), "something else than strings"),
            (json!({"type": ["string", "null"], "enum": ["a", null]}), "stands on an `Option`"),
            (json!({"anyOf": [{"$ref": "#/$defs/Plan"}, {"type": "null"}]}), "stands on an `Option`"),
            (json!({"$ref": "#/$defs/Plan"}), "no enum"),
            (json!({"type": "array", "items": {}}), "no enum"),
            (json!({"oneOf": [variant.clone(), variant]}), "cannot be told apart"),
        ] {
            let mut opened = Schema::try_from(schema.clone()).unwrap();
            open_enum(&mut opened);
            let mut opened = opened.to_value();
            let said = opened.as_object_mut().unwrap().remove(PROBLEM).unwrap_or_default();
            assert!(said.as_str().is_some_and(|said| said.contains(problem)), "{schema}: {said}");
            if schema.get("oneOf").is_none() {
                assert_eq!(opened, schema);
            }
        }
    }

    #[test]
    fn what_is_no_enum_is_said() {
        #[derive(Serialize, JsonSchema)]
        #[schemars(transform = open_enum)]
        struct Plain {
            name: String,
        }

        let schema = open_form::<Plain>();
        assert!(schema[PROBLEM].as_str().unwrap().contains("no enum"), "{schema}");
        assert_eq!(schema["properties"]["name"]["type"], "string", "the rest stays");
    }
}
