use super::*;
use serde_json::json;
use std::fs;
use tempfile::TempDir;

/// A registry with these schemas: file below the root, and schema without `$schema`.
fn registry(files: &[(&str, Value)]) -> (TempDir, Registry) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("registry.toml"), "").unwrap();
    for (name, schema) in files {
        let mut schema = schema.clone();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, schema.to_string()).unwrap();
    }
    let registry = Registry::open(dir.path()).unwrap();
    (dir, registry)
}

fn validators(schema: Value) -> Validators {
    Validators::compile(&registry(&[("thing.changed/v1.0.json", schema)]).1).unwrap()
}

/// What is wrong with a payload, as `pointer keyword: text` lines.
fn violations(schema: Value, payload: &str) -> Vec<String> {
    match validators(schema).check("thing.changed", 1, payload) {
        Verdict::Invalid(violations) => {
            violations.as_slice().iter().map(|v| format!("{} {}: {}", v.pointer, v.keyword, v.text)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_newest_minor_of_each_major_counts() {
    let object = |required: &[&str]| json!({"type": "object", "properties": {"old": true, "new": true}, "required": required});
    let (_dir, registry) = registry(&[
        ("thing.changed/v1.0.json", object(&["old"])),
        ("thing.changed/v1.1.json", object(&["new"])),
        ("thing.changed/v3.0.json", object(&[])),
    ]);
    let validators = Validators::compile(&registry).unwrap();
    assert_eq!(validators.check("thing.changed", 1, r#"{"new": 1}"#), Verdict::Valid);
    assert!(matches!(validators.check("thing.changed", 1, r#"{"old": 1}"#), Verdict::Invalid(_)));
    assert_eq!(validators.check("thing.changed", 3, "{}"), Verdict::Valid);
    assert_eq!(validators.check("thing.changed", 2, "{}"), Verdict::Unknown { known_majors: vec![1, 3] });
    assert_eq!(validators.check("other.changed", 1, "not json"), Verdict::Unknown { known_majors: vec![] });
    let none = Validators::compile(&Registry::empty()).unwrap();
    assert_eq!(none.check("thing.changed", 1, "{}"), Verdict::Unknown { known_majors: vec![] });
}

#[test]
fn reader_form_lets_undeclared_members_and_unknown_values_of_open_enums_pass() {
    let schema = json!({
        "type": "object",
        "properties": {"state": {"type": "string", "x-outbox-known": ["open", "closed"]}},
    });
    let validators = validators(schema);
    assert_eq!(undeclared(&validators, &json!({"state": "new"})), Some(vec![]));
    assert_eq!(undeclared(&validators, &json!({"state": "new", "extra": 1})), Some(vec!["/extra".into()]));
}

#[test]
fn violations_are_told_from_the_schema_s_side() {
    let schema = json!({
        "type": "object",
        "required": ["code"],
        "properties": {
            "entity_id": {"type": ["string", "null"]},
            "level": {"enum": ["low", "high"]},
            "id": {"type": "string", "format": "uuid"},
            "count": {"type": "integer", "format": "uint8"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "nested": {"$ref": "#/$defs/Nested"},
            "prices": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        },
        "$defs": {"Nested": {"type": "object", "additionalProperties": false, "properties": {}}},
    });
    let payload = r#"{"entity_id": 7, "level": "SECRET", "id": "SECRET", "count": 256, "name": "SECRET",
        "nested": {"surplus": "SECRET"}, "prices": {"a/b": -424242}}"#;
    let mut found = violations(schema, payload);
    found.sort();
    assert_eq!(
        found,
        [
            " /required: missing member `code`",
            "/count /properties/count/type: expected an integer of the format `uint8`, written without fraction and \
             exponent",
            "/entity_id /properties/entity_id/type: wrong type, expected null or string",
            "/id /properties/id/format: not a valid `uuid`",
            "/level /properties/level/enum: not one of the allowed values \"low\", \"high\"",
            "/name /properties/name/maxLength: longer than 5 characters",
            "/name /properties/name/pattern: does not match the pattern `^[a-z]+$`",
            "/nested /$defs/Nested/additionalProperties: member `surplus` not allowed",
            "/prices/a~1b /properties/prices/additionalProperties/minimum: less than 0",
        ]
    );
}

#[test]
fn one_mistake_is_one_violation() {
    let schema = json!({"properties": {
        "a": {"type": "integer"}, "b": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255},
    }});
    assert_eq!(
        violations(schema.clone(), r#"{"a": 1.5}"#),
        ["/a /properties/a/type: wrong type, expected integer"]
    );
    assert_eq!(violations(schema.clone(), r#"{"b": 256}"#), ["/b /properties/b/maximum: greater than 255"]);
    let [whole] = violations(schema, r#"{"a": 1.0}"#).try_into().unwrap();
    assert!(whole.ends_with("expected an integer, written without fraction and exponent"), "{whole}");
}

#[test]
fn no_text_holds_a_value_of_the_payload() {
    // One schema per keyword, each refusing a payload that is full of the same mark.
    let mark = "5ECRE7";
    let schemas = [
        json!({"items": false}),
        json!({"prefixItems": [true], "items": false}),
        json!({"unevaluatedItems": false}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"oneOf": [{"items": {"const": 1}}, {"items": {"enum": [2]}}]}),
        json!({"oneOf": [true, true]}),
        json!({"const": ["other"]}),
        json!({"contains": {"const": 1}}),
        json!({"items": {"enum": ["a"]}}),
        json!({"items": {"type": "integer"}}),
        json!({"items": {"format": "uuid"}}),
        json!({"items": {"pattern": "^x$"}}),
        json!({"items": {"maxLength": 1}}),
        json!({"items": {"minLength": 99}}),
        json!({"maxItems": 1}),
        json!({"minItems": 9}),
        json!({"not": {"type": "array"}}),
        json!({"uniqueItems": true}),
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}),
        json!({"if": true, "then": {"maxItems": 1}}),
    ];
    for schema in schemas {
        let payload = json!({"list": [mark, mark]}).to_string();
        let validators = validators(json!({"properties": {"list": relocated(&schema)}}));
        let verdict = validators.check("thing.changed", 1, &payload);
        let Verdict::Invalid(violations) = &verdict else { panic!("{schema}: {verdict:?}") };
        assert!(!violations.to_string().contains(mark), "{violations}");
        assert!(!format!("{verdict:?}").contains(mark), "{verdict:?}");
        assert!(!violations.to_string().is_empty());
    }
}

/// A schema with its reference to `$defs` made to fit below `properties/list`.
fn relocated(schema: &Value) -> Value {
    serde_json::from_str(&schema.to_string().replace("#/$defs", "#/properties/list/$defs")).unwrap()
}

#[test]
fn the_meant_alternative_is_explained() {
    let tagged = |tag: &str, member: &str| {
        json!({"type": "object", "required": ["kind", member],
               "properties": {"kind": {"const": tag}, member: {"type": "integer"}}})
    };
    let internal = json!({"oneOf": [tagged("card", "last4"), tagged("iban", "number")]});
    assert_eq!(
        violations(internal.clone(), r#"{"kind": "iban", "number": "x"}"#),
        ["/number /oneOf/1/properties/number/type: wrong type, expected integer"]
    );
    assert_eq!(
        violations(internal.clone(), r#"{"kind": "iban"}"#),
        [" /oneOf/1/required: missing member `number`"]
    );
    assert_eq!(
        violations(internal, r#"{"kind": "cash"}"#),
        ["/kind /oneOf: not one of the allowed values \"card\", \"iban\""]
    );

    let named = |name: &str| {
        json!({"type": "object", "required": [name], "additionalProperties": false,
               "properties": {name: {"type": "object", "required": ["x"]}}})
    };
    let external = json!({"oneOf": [named("Card"), named("Iban")]});
    assert_eq!(
        violations(external, r#"{"Iban": {}}"#),
        ["/Iban /oneOf/1/properties/Iban/required: missing member `x`"]
    );

    let optional = json!({"properties": {"a": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
        "$defs": {"A": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    assert_eq!(
        violations(optional, r#"{"a": {"n": "x"}}"#),
        ["/a/n /$defs/A/properties/n/type: wrong type, expected integer"]
    );
}

#[test]
fn violations_and_their_texts_are_bounded() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let long = "k".repeat(10_000);
    let members: Vec<String> =
        (0..25).map(|i| format!("\"\n{long}{i}\": \"x\"").replace('\n', "\\n")).collect();
    let verdict = validators(schema).check("thing.changed", 1, &format!("{{{}}}", members.join(",")));
    let Verdict::Invalid(violations) = verdict else { panic!() };
    assert_eq!((violations.as_slice().len(), violations.more()), (10, 15));
    let text = violations.to_string();
    assert!(text.ends_with("; and 15 more"), "{text}");
    assert!(text.len() < 10 * 400, "{}", text.len());
    assert!(!text.contains('\n'));
}

#[test]
fn what_is_not_json_is_unreadable() {
    let validators = validators(json!({}));
    let check = |payload: &str| validators.check("thing.changed", 1, payload);
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert_eq!(check(&nested(MAX_DEPTH)), Verdict::Valid);
    assert_eq!(check(&nested(MAX_DEPTH + 1)), Verdict::Unreadable(Unreadable::TooDeep));
    assert_eq!(check(&"{\"a\":".repeat(1_000_000)), Verdict::Unreadable(Unreadable::TooDeep));
    for bad in ["", "{", "{}{}", "nul", "\"\\ud800\"", "1e999", "\u{0}"] {
        assert!(matches!(check(bad), Verdict::Unreadable(Unreadable::NotJson { .. })), "{bad}");
    }
    assert_eq!(check("{\n  x}"), Verdict::Unreadable(Unreadable::NotJson { line: 2, column: 3 }));
    let brackets = format!("{{\"a\": \"{}\\\"\", ]", "[".repeat(500));
    assert!(matches!(check(&brackets), Verdict::Unreadable(Unreadable::NotJson { .. })));
}

#[test]
fn all_schemas_that_do_not_compile_are_reported() {
    let (dir, registry) = registry(&[
        ("a.changed/v1.0.json", json!({"type": "objekt"})),
        ("b.changed/v1.0.json", json!({"properties": {"x": {"format": "colour"}, "y": {"format": "iban"}}})),
        ("c.changed/v1.0.json", json!({"properties": {"x": {"pattern": "(?=a)b"}}})),
        ("d.changed/v1.0.json", json!({"properties": {"x": {"pattern": "(a)\\1"}}})),
        ("e.changed/v1.0.json", json!({"type": "object"})),
        ("f.changed/v1.0.json", json!({"properties": {"x": {"pattern": "(unclosed"}}})),
        ("g.changed/v1.0.json", json!({"minimum": "1"})),
    ]);
    let errors = Validators::compile(&registry).unwrap_err();
    let found: Vec<(String, &CompileProblem)> = errors
        .as_slice()
        .iter()
        .map(|e| (e.path.strip_prefix(dir.path()).unwrap().display().to_string(), &e.problem))
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| &name[..1]).collect();
    assert_eq!(names, ["a", "b", "b", "c", "d", "f", "g"], "{errors}");
    let unknown = |pointer: &str, format: &str| CompileProblem::UnknownFormat {
        pointer: pointer.to_owned(),
        format: format.to_owned(),
    };
    assert_eq!(found[1].1, &unknown("/properties/x/format", "colour"));
    assert_eq!(found[2].1, &unknown("/properties/y/format", "iban"));
    let text = errors.to_string();
    assert!(text.contains("a.changed/v1.0.json: `/type`: "), "{text}");
    assert!(text.matches("linear time").count() >= 2, "{text}");
}

#[test]
fn hostile_patterns_run_in_linear_time() {
    let validators = validators(json!({"properties": {"x": {"pattern": "^(a+)+$"}}}));
    let payload = json!({"x": format!("{}!", "a".repeat(50_000))}).to_string();
    assert!(matches!(validators.check("thing.changed", 1, &payload), Verdict::Invalid(_)));
}

#[test]
fn nothing_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.json");
    fs::write(&file, "{}").unwrap();
    for target in ["https://example.invalid/a.json".to_owned(), format!("file://{}", file.display())] {
        assert!(options().build(&json!({"$ref": target})).is_err(), "{target}");
    }
}

#[test]
fn validators_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Validators>();
    shared::<Verdict>();
}

/// Where a valid payload has members that its schema does not declare; `None` if it is not valid.
fn undeclared(validators: &Validators, payload: &Value) -> Option<Vec<String>> {
    match validators.check("thing.changed", 1, &payload.to_string()) {
        Verdict::Valid => Some(vec![]),
        Verdict::Undeclared(members) => Some(members.pointers().to_vec()),
        _ => None,
    }
}

#[test]
fn undeclared_members_are_told_wherever_they_are() {
    let validators = validators(json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "address": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Address"}},
            "anything": true,
            "payment": {"oneOf": [
                {"type": "object", "properties": {"by": {"const": "card"}, "last4": {"type": "string"}}, "required": ["by"]},
                {"type": "object", "properties": {"by": {"const": "cash"}}, "required": ["by"]},
            ]},
            "parent": {"$ref": "#"},
        },
        "$defs": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
    }));
    let told = |payload: &Value| undeclared(&validators, payload);
    let full = json!({
        "id": 1, "address": {"city": "x"}, "labels": {"a": "b"}, "lines": [{"city": "y"}],
        "anything": {"deep": {"er": 1}}, "payment": {"by": "card", "last4": "4242"}, "parent": {"id": 2},
    });
    assert_eq!(told(&full), Some(vec![]));
    assert_eq!(told(&json!({"id": 1, "new": 1, "newer": 2})), Some(vec!["/new".into(), "/newer".into()]));
    assert_eq!(
        told(&json!({"id": 1, "address": {"city": "x", "zip": 1}})),
        Some(vec!["/address/zip".into()])
    );
    assert_eq!(told(&json!({"id": 1, "address": null})), Some(vec![]));
    assert_eq!(
        told(&json!({"id": 1, "lines": [{"city": "x"}, {"city": "y", "a/b": 1}]})),
        Some(vec!["/lines/1/a~1b".into()])
    );
    assert_eq!(
        told(&json!({"id": 1, "payment": {"by": "cash", "last4": "1"}})),
        Some(vec!["/payment/last4".into()])
    );
    assert_eq!(
        told(&json!({"id": 1, "parent": {"id": 2, "parent": {"id": 3, "x": 1}}})),
        Some(vec!["/parent/parent/x".into()])
    );
    assert_eq!(told(&json!({"new": 1})), None, "what is missing is a violation all the same");
}

#[test]
fn members_of_all_parts_are_declared() {
    let validators = validators(json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "allOf": [{"$ref": "#/$defs/Audit"}],
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "a": true}, "required": ["kind"]},
            {"properties": {"kind": {"const": "b"}, "b": true}, "required": ["kind"]},
        ],
        "$defs": {"Audit": {"type": "object", "properties": {"by": {"type": "string"}}}},
    }));
    let told = |payload: &Value| undeclared(&validators, payload);
    assert_eq!(told(&json!({"id": 1, "by": "x", "kind": "a", "a": 1})), Some(vec![]));
    assert_eq!(told(&json!({"kind": "b", "a": 1})), Some(vec!["/a".into()]));
}

#[test]
fn what_two_alternatives_take_is_refused_also_where_closing_would_leave_one() {
    let validators = validators(json!({
        "type": "object",
        "oneOf": [
            {"properties": {"v": {"type": "object", "properties": {"x": true}}}},
            {"properties": {"v": {"type": "object", "properties": {"y": true}}}},
        ],
    }));
    assert_eq!(undeclared(&validators, &json!({"v": {"y": 1}})), None);
}

#[test]
fn a_list_of_undeclared_members_is_bounded_and_says_how_many_more() {
    let validators = validators(json!({"type": "object"}));
    let payload: serde_json::Map<String, Value> = (0..25).map(|i| (format!("m{i:02}"), json!(i))).collect();
    match validators.check("thing.changed", 1, &Value::Object(payload).to_string()) {
        Verdict::Undeclared(members) => {
            assert_eq!((members.pointers().len(), members.count()), (MAX_VIOLATIONS, 25));
            assert!(members.to_string().ends_with("`/m09`, and 15 more"), "{members}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_schema_refuses_is_refused_though_closing_takes_it() {
    let holds_a = json!({"type": "object", "properties": {"in": {"type": "object", "properties": {"a": true}}}, "required": ["in"]});
    let schema =
        |member: Value| json!({"type": "object", "properties": {"p": member}, "$defs": {"X": holds_a}});
    let target = json!({"$ref": "#/$defs/X"});
    for (member, refused) in [
        (json!({"not": target}), json!({"in": {"b": 1}})),
        (json!({"if": target, "then": false}), json!({"in": {"b": 1}})),
        (json!({"contains": target, "maxContains": 0, "minContains": 0}), json!([{"in": {"b": 1}}])),
        (
            json!({"properties": {"a": true}, "anyOf": [true, {"required": ["b"]}], "unevaluatedProperties": false}),
            json!({"x": 1}),
        ),
    ] {
        let validators = validators(schema(member.clone()));
        assert_eq!(undeclared(&validators, &json!({"p": refused})), None, "{member}");
    }
}

#[test]
fn a_reference_into_a_definition_compiles() {
    let validators = validators(json!({
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/A/properties/x"}},
        "$defs": {"A": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }));
    assert_eq!(undeclared(&validators, &json!({"p": 1})), Some(vec![]));
    assert_eq!(undeclared(&validators, &json!({"p": "1"})), None);
}
