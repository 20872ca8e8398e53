use super::*;
use serde_json::json;

const SEVEN: &str = "http://json-schema.org/draft-07/schema#";

fn seven(rest: Value) -> Value {
    with(SEVEN, rest)
}

fn with(dialect: &str, rest: Value) -> Value {
    let mut document = json!({"$schema": dialect});
    let Value::Object(rest) = rest else { panic!("an object") };
    document.as_object_mut().unwrap().extend(rest);
    document
}

/// The imported schema without `$schema`.
fn made(document: &Value, pointer: &str) -> Value {
    let mut schema = import(document, pointer).unwrap().schema;
    assert_eq!(schema.as_object_mut().unwrap().remove("$schema"), Some(json!(DIALECT)));
    schema
}

fn refusals(document: &Value, pointer: &str) -> Vec<(String, RefusalReason)> {
    let error = import(document, pointer).unwrap_err();
    error.refusals().iter().map(|refusal| (refusal.pointer.clone(), refusal.reason.clone())).collect()
}

#[test]
fn keywords_of_draft_07_become_those_of_2020_12() {
    let tuple = json!({"items": [{"type": "string"}, true], "additionalItems": {"type": "integer"}});
    let imported = seven(json!({
        "type": "object",
        "properties": {
            "pair": tuple,
            "list": {"items": {"type": "string"}, "additionalItems": false},
            "dependencies": {"type": "string"},
        },
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
        "if": {"required": ["a"]}, "then": {"required": ["c"]},
    }));
    assert_eq!(
        made(&imported, ""),
        json!({
            "type": "object",
            "properties": {
                "pair": {"prefixItems": [{"type": "string"}, true], "items": {"type": "integer"}},
                "list": {"items": {"type": "string"}},
                "dependencies": {"type": "string"},
            },
            "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"c": {"required": ["d"]}},
            "if": {"required": ["a"]}, "then": {"required": ["c"]},
        })
    );
    assert_eq!(import(&imported, "").unwrap().ignored, ["/properties/list/additionalItems"]);
}

#[test]
fn what_draft_07_ignores_is_left_out_and_listed() {
    let document = seven(json!({
        "type": "object", "tsType": "X",
        "properties": {"a": {"$ref": "#/definitions/A", "type": "string", "description": "kept", "default": 1}},
        "definitions": {"A": {"type": "integer", "$schema": SEVEN}},
    }));
    let imported = import(&document, "").unwrap();
    assert_eq!(imported.ignored, ["/properties/a/default", "/properties/a/type", "/tsType"]);
    assert_eq!(
        imported.schema["properties"]["a"],
        json!({"$ref": "#/$defs/A", "description": "kept"}),
        "a reference stands alone in draft-07"
    );
    let newer = with(
        DIALECT,
        json!({"properties": {"a": {"$ref": "#/$defs/A", "maximum": 3}}, "$defs": {"A": true}}),
    );
    assert_eq!(made(&newer, "")["properties"]["a"], json!({"$ref": "#/$defs/A", "maximum": 3}));
}

#[test]
fn references_are_pulled_in_once_under_names_that_need_no_escape() {
    let document = seven(json!({
        "$id": "https://example.com/all.json",
        "definitions": {
            "order": {
                "type": "object",
                "properties": {
                    "one": {"$ref": "#/definitions/a%20b"}, "same": {"$ref": "#/definitions/a b"},
                    "other": {"$ref": "#/definitions/more/definitions/a b"},
                    "own": {"$ref": "https://example.com/all.json#/definitions/order"},
                    "slot": {"$ref": "#/definitions/tuple/items/1"},
                },
            },
            "a b": {"type": "string"},
            "more": {"definitions": {"a b": {"anyOf": [{"$ref": "#/definitions/more/definitions/a b"}, true]}}},
            "tuple": {"items": [true, {"type": "null"}]},
            "unused": {"format": "nothing-knows-this"},
        },
    }));
    assert_eq!(
        made(&document, "/definitions/order"),
        json!({
            "type": "object",
            "properties": {
                "one": {"$ref": "#/$defs/a_b"}, "same": {"$ref": "#/$defs/a_b"}, "other": {"$ref": "#/$defs/a_b_2"},
                "own": {"$ref": "#"}, "slot": {"$ref": "#/$defs/1"},
            },
            "$defs": {
                "a_b": {"type": "string"}, "1": {"type": "null"},
                "a_b_2": {"anyOf": [{"$ref": "#/$defs/a_b_2"}, true]},
            },
        })
    );
}

#[test]
fn what_cannot_be_kept_is_refused_with_its_pointer() {
    let refused = |rest: Value, pointer: &str, reason: RefusalReason| {
        let document = seven(json!({"type": "object", "properties": {"a": rest}}));
        assert_eq!(refusals(&document, ""), [(format!("/properties/a{pointer}"), reason)], "{document}");
    };
    refused(json!({"minimum": 1, "exclusiveMinimum": true}), "/exclusiveMinimum", RefusalReason::Form);
    refused(json!({"required": true}), "/required", RefusalReason::Form);
    refused(json!({"nullable": true}), "/nullable", RefusalReason::Keyword);
    refused(json!({"prefixItems": [true]}), "/prefixItems", RefusalReason::Keyword);
    refused(json!({"$id": "#a"}), "/$id", RefusalReason::Keyword);
    refused(json!({"$schema": DIALECT}), "/$schema", RefusalReason::Dialect);
    refused(json!({"format": "cidr"}), "/format", RefusalReason::Format("cidr".into()));
    refused(json!({"allOf": {}}), "/allOf", RefusalReason::Form);
    refused(json!({"items": [3]}), "/items/0", RefusalReason::Form);
    for outside in ["other.json", "https://example.com/a.json#/definitions/a", "file:///etc/passwd"] {
        refused(json!({"$ref": outside}), "/$ref", RefusalReason::External(outside.into()));
    }
    for dead in ["#/definitions/none", "#/properties", "#anchor", "#/type"] {
        refused(json!({"$ref": dead}), "/$ref", RefusalReason::Dead(dead.into()));
    }
    let anchored = with(DIALECT, json!({"properties": {"a": {"$dynamicRef": "#a"}, "b": {"$anchor": "a"}}}));
    assert_eq!(refusals(&anchored, "").len(), 2);
    let pattern = seven(json!({"properties": {"a": {"pattern": "(?=a)"}}}));
    assert!(
        matches!(refusals(&pattern, "").as_slice(), [(at, RefusalReason::Schema(_))] if at == "/properties/a/pattern")
    );
}

#[test]
fn dialect_pointer_and_kind_are_checked_first() {
    for said in [
        json!(null),
        json!("http://json-schema.org/draft-04/schema#"),
        json!("https://json-schema.org/draft/2019-09/schema"),
    ] {
        let document = json!({"$schema": said, "type": "object"});
        assert_eq!(refusals(&document, ""), [("/$schema".into(), RefusalReason::Dialect)]);
    }
    let document = seven(json!({"definitions": {"a": {"type": ["string", "null"]}, "b": true}}));
    assert_eq!(
        refusals(&document, "/definitions/a"),
        [("/definitions/a/type".into(), RefusalReason::NotAnObject)]
    );
    for nothing in
        ["/definitions/b", "/definitions/c", "/definitions", "definitions/a", "/definitions/a/type"]
    {
        assert_eq!(refusals(&document, nothing), [(nothing.into(), RefusalReason::NotASchema)]);
    }
    let text = import(&document, "/definitions/c").unwrap_err().to_string();
    assert!(text.contains("\n  `/definitions/c`: no schema is here; give"), "{text}");
}
