use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::document::DIALECT;

fn registry(files: &[(&str, Value)]) -> (TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("registry.toml"), "").unwrap();
    for (name, schema) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut schema = schema.clone();
        schema["$schema"] = json!(DIALECT);
        fs::write(path, schema.to_string()).unwrap();
    }
    let registry = Registry::open(dir.path()).unwrap();
    (dir, registry)
}

fn rows(schema: &Value) -> Vec<String> {
    let row = |field: fields::Field| {
        format!("{} | {} | {} | {}", field.path, field.kind, field.required, field.constraints)
    };
    fields::of(schema).into_iter().map(row).collect()
}

#[test]
fn fields_are_rows_with_the_path_that_leads_to_them() {
    let schema = json!({
        "type": "object",
        "required": ["id", "payment"],
        "properties": {
            "id": {"type": "string", "format": "uuid"},
            "note": {"type": ["string", "null"], "maxLength": 9, "default": null},
            "address": {"$ref": "#/$defs/Address"},
            "lines": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"cents": {"type": "integer", "format": "int64", "minimum": 0}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "plan": {"type": "string", "x-outbox-known": ["free", "paid"]},
            "payment": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]},
                {"type": "object", "properties": {"kind": {"const": "cash"}}, "required": ["kind"]},
            ]},
            "tree": {"$ref": "#/$defs/Node"},
        },
        "$defs": {
            "Address": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]},
            "Node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}},
        },
    });
    let rows = rows(&schema);
    for expected in [
        "id | string (uuid) | true | ",
        "note | string or null | false | default null, at most 9 characters",
        "address | object | false | ",
        "address.street | string | true | ",
        "lines | array of object | false | at least 1 items",
        "lines[].cents | integer (int64) | false | at least 0",
        "labels | map of string | false | ",
        "plan | string | false | known so far: free, paid",
        "payment | object | true | ",
        "payment(card).number | string | true | ",
        "payment(cash).kind | constant | true | always \"cash\"",
        "tree.next | object or null | false | ",
    ] {
        assert!(rows.iter().any(|row| row == expected), "{expected}\n{rows:#?}");
    }
    assert!(rows.len() < 20, "a circle ends: {rows:#?}");
}

#[test]
fn examples_are_valid_or_left_out() {
    let schema = |extra: Value| {
        let mut schema = json!({"$schema": DIALECT, "type": "object"});
        schema.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        schema
    };
    let own = schema(json!({"properties": {"a": {"type": "integer"}}, "examples": [{"a": 7}]}));
    assert_eq!(example::of(&own), Some(json!({"a": 7})));
    let wrong = schema(json!({"properties": {"a": {"type": "integer"}}, "examples": [{"a": "7"}]}));
    assert_eq!(example::of(&wrong), Some(json!({"a": 1})), "its own one is not valid");
    let made = schema(json!({
        "properties": {
            "id": {"type": "string", "format": "uuid"}, "at": {"type": "string", "format": "date-time"},
            "n": {"type": "integer", "minimum": 5}, "name": {"type": "string", "minLength": 8},
            "kind": {"oneOf": [{"const": "a"}, {"const": "b"}]}, "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/B"}]},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "minItems": 2, "maxItems": 2},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "code": {"type": "string", "pattern": "^x$"},
        },
        "required": ["id", "at", "n", "name", "kind", "maybe", "pair"],
        "$defs": {"B": {"type": "object", "properties": {"b": {"type": "number"}}, "required": ["b"]}},
    }));
    let payload = example::of(&made).unwrap();
    assert_eq!(
        (&payload["n"], &payload["kind"], &payload["maybe"]["b"]),
        (&json!(5), &json!("a"), &json!(1))
    );
    assert!(payload.get("code").is_none(), "nothing is made up for a pattern");
    let none = schema(json!({"properties": {"a": {"type": "string", "pattern": "^x$"}}, "required": ["a"]}));
    assert_eq!(example::of(&none), None);
    let endless = schema(json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}));
    assert_eq!(example::of(&endless), None);
}

#[test]
fn a_page_tells_versions_changes_and_readers() {
    let first = json!({"type": "object", "properties": {"a|b": {"type": "string", "description": "x | <b>y</b>\nz"}}});
    let mut second = first.clone();
    second["description"] = json!("A thing has changed.");
    second["properties"]["c"] = json!({"type": "string", "pattern": "^(x|y)$"});
    let (dir, registry) = registry(&[
        ("thing.changed/v1.0.json", first.clone()),
        ("thing.changed/v1.1.json", second),
        ("thing.changed/v2.0.json", json!({"type": "object"})),
        ("thing.gone/v1.0.json", first),
    ]);
    fs::write(dir.path().join("thing.gone/removed.toml"), "date = 2026-12-01\nreason = \"nobody read it\"")
        .unwrap();
    let registry = Registry::open(registry.root()).unwrap();
    let reader = |consumer: &str, major| Reader { consumer: consumer.to_owned(), major };
    let readers = |name: &str| {
        Some(if name == "thing.changed" {
            vec![reader("crm", Some(1)), reader("audit", None)]
        } else {
            Vec::new()
        })
    };
    let pages = pages(&registry, readers);
    let names: Vec<_> = pages.iter().map(|page| page.file_name.as_str()).collect();
    assert_eq!(names, ["thing.changed.md", "thing.gone.md", "README.md"]);
    assert!(pages.iter().all(|page| page.text.starts_with(MARK)));
    let [changed, gone, index] = pages.as_slice() else { panic!() };
    let rows: Vec<&str> =
        changed.text.lines().filter(|line| line.starts_with("| v1") || line.starts_with("| v2")).collect();
    assert!(rows[0].starts_with("| v2.0 | `sha256:") && rows[0].ends_with("| `audit` |"), "{rows:#?}");
    assert!(rows[1].starts_with("| v1.1 ") && rows[1].ends_with("| `crm`, `audit` |"), "{rows:#?}");
    assert!(rows[2].starts_with("| v1.0 ") && rows[2].ends_with("|  |"), "{rows:#?}");
    assert!(
        changed.text.contains("\n| `a\\|b` | string | no |  | x \\| &lt;b>y&lt;/b> z |\n"),
        "{}",
        changed.text
    );
    assert!(
        changed.text.contains(
            "### Changes\n\nv1.1:\n\n- `/properties/c added: {\"pattern\":\"^(x|y)$\",\"type\":\"string\"}`\n"
        ),
        "{}",
        changed.text
    );
    assert!(gone.text.contains("**No longer published since 2026-12-01:** nobody read it"));
    assert!(gone.text.contains("No consumer reads it."));
    assert!(
        index.text.contains("| [thing.gone](thing.gone.md) | v1 | no longer published since 2026-12-01 |")
    );
    let unknown = super::pages(&registry, |_| None);
    assert!(!unknown.iter().any(|page| page.text.contains("read by")));
}
