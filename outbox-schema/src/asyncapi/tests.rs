use super::*;
use std::fs;

fn registry(schema: &Value) -> (tempfile::TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("registry.toml"), "").unwrap();
    fs::create_dir(dir.path().join("thing.changed")).unwrap();
    let mut schema = schema.clone();
    schema["$schema"] = json!(crate::document::DIALECT);
    fs::write(dir.path().join("thing.changed/v1.0.json"), schema.to_string()).unwrap();
    let registry = Registry::open(dir.path()).unwrap();
    (dir, registry)
}

fn made(schema: &Value) -> Value {
    let (_dir, registry) = registry(schema);
    document(&registry, Info { title: "T", version: "1" })
}

#[test]
fn a_major_is_a_message_of_its_type_s_channel() {
    let made = made(&json!({"type": "object", "description": "First.\nSecond."}));
    let channel = &made["channels"]["thing.changed"];
    assert_eq!(channel["messages"]["v1"]["$ref"], "#/components/messages/thing.changed.v1");
    let message = &made["components"]["messages"]["thing.changed.v1"];
    assert_eq!(message["summary"], "First.");
    let payload = &message["payload"]["properties"];
    assert_eq!(payload["data"]["$ref"], "#/components/schemas/thing.changed.v1");
    assert_eq!(
        (&payload["type"]["const"], &payload["schemaversion"]["const"]),
        (&json!("thing.changed"), &json!(1))
    );
    let operation = &made["operations"]["publish.thing.changed"];
    assert_eq!(operation["messages"][0]["$ref"], "#/channels/thing.changed/messages/v1");
}

#[test]
fn schemas_are_written_with_the_keywords_of_draft_07() {
    let made = made(&json!({
        "type": "object",
        "properties": {
            "pair": {"prefixItems": [{"type": "string"}], "items": false},
            "node": {"$ref": "#/$defs/Node", "description": "d", "allOf": [{"minProperties": 1}]},
            "again": {"$ref": "#/$defs/Node"},
            "own": {"$ref": "#"},
            "$ref": {"const": {"$ref": "data"}},
        },
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": {"required": ["c"]}, "d": true},
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}}, "Unused": {}},
    }));
    let node = json!({"$ref": "#/components/schemas/thing.changed.v1.1"});
    assert_eq!(
        made["components"]["schemas"]["thing.changed.v1"],
        json!({
            "type": "object",
            "properties": {
                "pair": {"items": [{"type": "string"}], "additionalItems": false},
                "node": {"description": "d", "allOf": [node, {"minProperties": 1}]},
                "again": node,
                "own": {"$ref": "#/components/schemas/thing.changed.v1"},
                "$ref": {"const": {"$ref": "data"}},
            },
            "dependencies": {"a": {"allOf": [{"required": ["b"]}, {"required": ["c"]}]}, "d": true},
        })
    );
    let schemas = made["components"]["schemas"].as_object().unwrap();
    assert_eq!(schemas["thing.changed.v1.1"], json!({"properties": {"next": node}}));
    assert_eq!(schemas.len(), 3, "cloudevent, the payload, Node");
}
