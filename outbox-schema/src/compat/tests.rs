//! Every rule once, with its pointer, its direction and a payload; and what must not depend on size or depth.

use serde_json::{Map, Value, json};

use super::{Comparison, Direction, Finding, Rule, Severity, Side, Verdict, compare, report};

/// An object with one member `v`, required.
#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn of(schema: Value) -> Value {
    json!({"type": "object", "properties": {"v": schema}, "required": ["v"]})
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` makes values")]
fn struct_of(members: Value, required: Value) -> Value {
    json!({"type": "object", "properties": members, "required": required})
}

#[track_caller]
fn found(comparison: &Comparison, rule: Rule, severity: Severity, direction: Option<Direction>) -> &Finding {
    let mut found = comparison.findings.iter();
    found
        .find(|f| (f.rule, f.severity, f.direction) == (rule, severity, direction))
        .unwrap_or_else(|| panic!("no {rule:?} {direction:?} in {:#?}", comparison.findings))
}

/// A change that breaks one direction by one rule, and the other one by another.
#[track_caller]
fn breaks(old: &Value, new: &Value, backward: Option<(Rule, &str)>, forward: Option<(Rule, &str)>) {
    let comparison = compare(old, new);
    let sides = [(Direction::Backward, backward, (old, new)), (Direction::Forward, forward, (new, old))];
    for (direction, wanted, (writer, reader)) in sides {
        let Some((rule, pointer)) = wanted else {
            assert_eq!(comparison.verdict(direction), Verdict::Compatible, "{:#?}", comparison.findings);
            continue;
        };
        assert_eq!(comparison.verdict(direction), Verdict::Breaking, "{:#?}", comparison.findings);
        let finding = found(&comparison, rule, Severity::Breaking, Some(direction));
        assert_eq!(finding.pointer, pointer, "{finding:?}");
        let document = if finding.side == Side::Old { old } else { new };
        assert!(document.pointer(&finding.pointer).is_some(), "{finding:?} points to nothing");
        assert!(finding.help.as_ref().is_some_and(|help| help.contains("new major")), "{finding:?}");
        let witness = finding.witness.as_ref().unwrap_or_else(|| panic!("no payload: {finding:?}"));
        let valid = |schema: &Value| {
            crate::formats::options().build(&crate::formats::with_integers(schema)).unwrap().is_valid(witness)
        };
        assert!(valid(writer) && !valid(reader), "{witness} shows nothing");
    }
}

/// A change that breaks nobody, and what is said about it.
#[track_caller]
fn told(old: &Value, new: &Value, rule: Rule, severity: Severity, pointer: &str) {
    let comparison = compare(old, new);
    let finding = found(&comparison, rule, severity, None);
    assert_eq!(finding.pointer, pointer);
    assert_eq!(finding.help.is_some(), severity == Severity::Warning);
}

#[track_caller]
fn undecided(old: &Value, new: &Value, rule: Rule, direction: Direction) {
    let comparison = compare(old, new);
    assert_eq!(comparison.verdict(direction), Verdict::Undecided, "{:#?}", comparison.findings);
    let finding = found(&comparison, rule, Severity::Undecided, Some(direction));
    assert!(finding.message.starts_with("cannot prove compatible (treated as breaking)"), "{finding:?}");
}

#[test]
fn members() {
    let a = json!({"type": "string"});
    let one = struct_of(json!({"a": a}), json!(["a"]));
    let optional = struct_of(json!({"a": a, "b": {"type": "integer"}}), json!(["a"]));
    let both = struct_of(json!({"a": a, "b": {"type": "integer"}}), json!(["a", "b"]));
    told(&one, &optional, Rule::FieldAddedOptional, Severity::Note, "/properties/b");
    assert!(compare(&one, &optional).is_full());
    told(&optional, &one, Rule::FieldRemovedOptional, Severity::Warning, "/properties/b");
    breaks(&one, &both, Some((Rule::FieldAddedRequired, "/properties/b")), None);
    breaks(&both, &one, None, Some((Rule::FieldRemovedRequired, "/properties/b")));
    breaks(&optional, &both, Some((Rule::RequiredAdded, "/required")), None);
    breaks(&both, &optional, None, Some((Rule::RequiredRemoved, "/required")));

    let mut closed = (one.clone(), optional.clone());
    closed.0["additionalProperties"] = json!(false);
    closed.1["additionalProperties"] = json!(false);
    breaks(&closed.0, &closed.1, None, Some((Rule::FieldAddedClosed, "/properties/b")));
    breaks(&closed.1, &closed.0, Some((Rule::FieldRemovedClosed, "/properties/b")), None);
    told(&one, &closed.0, Rule::ObjectClosed, Severity::Warning, "/additionalProperties");
    told(&closed.0, &one, Rule::ObjectOpened, Severity::Note, "");
    assert!(compare(&one, &closed.0).is_full());
    let mut open = one.clone();
    open["additionalProperties"] = json!(true);
    breaks(&open, &closed.0, Some((Rule::ObjectClosed, "/additionalProperties")), None);
    breaks(&closed.0, &open, None, Some((Rule::ObjectOpened, "/additionalProperties")));

    let renamed = struct_of(json!({"a": a, "c": {"type": "integer"}}), json!(["a"]));
    told(&optional, &renamed, Rule::MeaningRisk, Severity::Warning, "/properties/b");
    let never = json!({"type": "object", "required": ["a"]});
    told(&one, &never, Rule::MeaningRisk, Severity::Warning, "");
}

#[test]
fn defaults() {
    let with = |default: Value| struct_of(json!({"a": {"type": "integer", "default": default}}), json!([]));
    let without = struct_of(json!({"a": {"type": "integer"}}), json!([]));
    told(&with(json!(1)), &with(json!(2)), Rule::DefaultChanged, Severity::Warning, "/properties/a/default");
    told(&without, &with(json!(1)), Rule::DefaultAdded, Severity::Note, "/properties/a/default");
    told(&with(json!(1)), &without, Rule::DefaultRemoved, Severity::Note, "/properties/a/default");
    let deep = |default: Value| of(json!({"type": "array", "items": with(default)}));
    let place = "/properties/v/items/properties/a/default";
    told(&deep(json!(1)), &deep(json!(2)), Rule::DefaultChanged, Severity::Warning, place);
}

#[test]
fn types() {
    let (text, null) = (json!({"type": "string"}), json!({"type": ["string", "null"]}));
    let place = "/properties/v/type";
    breaks(&of(text.clone()), &of(null.clone()), None, Some((Rule::NullAdded, place)));
    breaks(&of(null), &of(text.clone()), Some((Rule::NullRemoved, place)), None);
    let (whole, number) = (of(json!({"type": "integer"})), of(json!({"type": "number"})));
    breaks(&whole, &number, None, Some((Rule::TypeWidened, place)));
    breaks(&number, &whole, Some((Rule::TypeNarrowed, place)), None);
    told(&whole, &number, Rule::TypeWidened, Severity::Warning, "/properties/v");
    breaks(&whole, &of(text.clone()), Some((Rule::TypeChanged, place)), Some((Rule::TypeChanged, place)));
    let either = of(json!({"type": ["string", "integer"]}));
    breaks(&of(text.clone()), &either, None, Some((Rule::TypeWidened, place)));
    breaks(&either, &of(text), Some((Rule::TypeNarrowed, place)), None);
}

#[test]
fn numbers() {
    let integer = |format: &str| of(json!({"type": "integer", "format": format}));
    breaks(&integer("uint32"), &integer("uint64"), None, Some((Rule::IntRange, "/properties/v/format")));
    breaks(&integer("int64"), &integer("int32"), Some((Rule::IntRange, "/properties/v/format")), None);
    let comparison = compare(&integer("uint32"), &integer("uint64"));
    assert!(comparison.findings[0].message.contains("4294967296 is lost"), "{:?}", comparison.findings[0]);
    assert!(
        compare(&integer("uint8"), &of(json!({"type": "integer", "minimum": 0, "maximum": 255}))).is_full()
    );
    let (loose, tight) = (of(json!({"type": "number"})), of(json!({"type": "number", "minimum": 0.5})));
    breaks(&loose, &tight, Some((Rule::NumBound, "/properties/v/minimum")), None);
    breaks(&tight, &loose, None, Some((Rule::NumBound, "/properties/v/minimum")));
    let step = |n: u8| of(json!({"type": "integer", "multipleOf": n}));
    breaks(&step(2), &step(4), Some((Rule::MultipleOf, "/properties/v/multipleOf")), None);
    breaks(&step(4), &step(2), None, Some((Rule::MultipleOf, "/properties/v/multipleOf")));
    let most = |n: u64| of(json!({"type": "integer", "minimum": 0, "maximum": n}));
    breaks(&most(1 << 53), &most((1 << 53) + 1), None, Some((Rule::IntRange, "/properties/v/maximum")));
}

#[test]
fn texts() {
    let text = of(json!({"type": "string"}));
    let with = |keyword: &str, value: Value| of(json!({"type": "string", keyword: value}));
    breaks(&text, &with("minLength", json!(1)), Some((Rule::Length, "/properties/v/minLength")), None);
    breaks(&with("maxLength", json!(5)), &text, None, Some((Rule::Length, "/properties/v/maxLength")));
    let place = "/properties/v/format";
    breaks(&text, &with("format", json!("uuid")), Some((Rule::FormatAdded, place)), None);
    breaks(&with("format", json!("uuid")), &text, None, Some((Rule::FormatRemoved, place)));
    let changed = Some((Rule::FormatChanged, place));
    breaks(&with("format", json!("date")), &with("format", json!("date-time")), changed, changed);
    breaks(&with("format", json!("ipv4")), &with("format", json!("ip")), None, changed);
    let place = "/properties/v/pattern";
    breaks(&text, &with("pattern", json!("^[A-Z]$")), Some((Rule::PatternAdded, place)), None);
    breaks(&with("pattern", json!("^[A-Z]$")), &text, None, Some((Rule::PatternRemoved, place)));
    let (one, other) = (with("pattern", json!("^[0-9]{2}$")), with("pattern", json!("^([0-9]{2})$")));
    undecided(&one, &other, Rule::PatternChanged, Direction::Backward);
    let values = of(json!({"enum": ["AB", "CD"]}));
    assert_eq!(compare(&values, &with("pattern", json!("^[A-Z]+$"))).backward, Verdict::Compatible);
    let unknown = with("format", json!("colour"));
    assert_eq!(compare(&text, &unknown).backward, Verdict::Undecided);
}

#[test]
fn enums() {
    let values = |list: Value| of(json!({"type": "string", "enum": list}));
    let (two, three) = (values(json!(["a", "b"])), values(json!(["a", "b", "c"])));
    breaks(&two, &three, None, Some((Rule::EnumValueAdded, "/properties/v/enum")));
    breaks(&three, &two, Some((Rule::EnumValueRemoved, "/properties/v/enum")), None);
    let documented = of(json!({"oneOf": [{"const": "b", "description": "B"}, {"const": "a"}]}));
    assert!(compare(&two, &documented).is_full());

    let open = |list: Value| of(json!({"type": "string", "x-outbox-known": list}));
    assert!(compare(&open(json!(["a"])), &open(json!(["a", "b"]))).is_full());
    assert!(compare(&open(json!(["a", "b"])), &open(json!(["a"]))).is_full());
    breaks(&two, &open(json!(["a", "b"])), None, Some((Rule::EnumOpened, "/properties/v")));
    breaks(&open(json!(["a", "b"])), &two, Some((Rule::EnumClosed, "/properties/v")), None);
}

fn internal(tag: &str, variants: &[(&str, Value)], open: bool) -> Value {
    let known: Vec<_> = variants.iter().map(|(name, _)| json!(name)).collect();
    let mut list: Vec<Value> = variants
        .iter()
        .map(|(name, content)| json!({
            "type": "object", "properties": {tag: {"type": "string", "const": name}, "x": content}, "required": [tag, "x"],
        }))
        .collect();
    if open {
        list.push(json!({
            "type": "object", "required": [tag],
            "properties": {tag: {"type": "string", "not": {"enum": known}, "x-outbox-known": known}},
        }));
    }
    json!({ "oneOf": list })
}

fn external(variants: &[(&str, Value)]) -> Value {
    let variants = variants.iter().map(|(name, content)| json!({
        "type": "object", "properties": {*name: content}, "required": [name], "additionalProperties": false,
    }));
    json!({"oneOf": variants.collect::<Vec<_>>()})
}

fn adjacent(content: &str) -> Value {
    let variants = ["A", "B"].map(|name| json!({
        "type": "object", "properties": {"t": {"const": name}, content: {"type": "integer"}}, "required": ["t", content],
    }));
    json!({ "oneOf": variants })
}

#[test]
fn variants() {
    let (int, text) = (json!({"type": "integer"}), json!({"type": "string"}));
    let two = [("A", int.clone()), ("B", text.clone())];
    let three = [("A", int.clone()), ("B", text.clone()), ("C", int.clone())];
    for (small, large) in
        [(internal("k", &two, false), internal("k", &three, false)), (external(&two), external(&three))]
    {
        breaks(&small, &large, None, Some((Rule::VariantAdded, "/oneOf/2")));
        breaks(&large, &small, Some((Rule::VariantRemoved, "/oneOf/2")), None);
    }
    let changed = [("B", text.clone()), ("A", json!({"type": "number"}))];
    breaks(
        &internal("k", &two, false),
        &internal("k", &changed, false),
        None,
        Some((Rule::TypeWidened, "/oneOf/1/properties/x/type")),
    );
    let root = "";
    let renamed = Some((Rule::TagRenamed, root));
    breaks(&internal("k", &two, false), &internal("type", &two, false), renamed, renamed);
    let tagging = Some((Rule::TaggingChanged, root));
    breaks(&external(&two), &internal("k", &two, false), tagging, tagging);
    let content = Some((Rule::ContentRenamed, root));
    breaks(&adjacent("c"), &adjacent("data"), content, content);

    // An open enum gets variants, whatever their content.
    assert!(compare(&internal("k", &two, true), &internal("k", &three, true)).is_full());
    assert!(compare(&internal("k", &three, true), &internal("k", &two, true)).is_full());
    breaks(
        &internal("k", &two, false),
        &internal("k", &two, true),
        None,
        Some((Rule::EnumOpened, "/oneOf/2")),
    );
    let other = [("A", text), ("B", json!({"type": "string"}))];
    assert_eq!(compare(&internal("k", &two, true), &internal("k", &other, true)).worst(), Verdict::Breaking);

    let outside = |list: &[(&str, Value)]| {
        let contents: Map<String, Value> =
            list.iter().map(|(name, body)| ((*name).to_owned(), body.clone())).collect();
        let known: Vec<_> = contents.keys().cloned().collect();
        of(json!({"oneOf": [
            {"type": "string", "x-outbox-known": ["None"]},
            {"type": "object", "properties": contents, "minProperties": 1, "maxProperties": 1, "x-outbox-known": known},
        ]}))
    };
    assert!(compare(&outside(&two), &outside(&three)).is_full());
    assert!(compare(&outside(&three), &outside(&two)).is_full());
    assert_eq!(compare(&of(external(&two)), &outside(&two)).forward, Verdict::Breaking);
}

#[test]
fn untagged() {
    let alternatives = |list: &[Value]| of(json!({ "anyOf": list }));
    let (a, b) = (
        struct_of(json!({"a": {"type": "integer"}}), json!(["a"])),
        struct_of(json!({"b": {"type": "integer"}}), json!(["b"])),
    );
    let (one, two) = (alternatives(std::slice::from_ref(&a)), alternatives(&[a.clone(), b.clone()]));
    breaks(&one, &two, None, Some((Rule::UntaggedAltAdded, "/properties/v/anyOf/1")));
    breaks(&two, &one, Some((Rule::UntaggedAltRemoved, "/properties/v/anyOf/1")), None);
    told(&two, &alternatives(&[b, a]), Rule::UntaggedOrder, Severity::Warning, "/properties/v/anyOf");
    let number = of(json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}));
    let overlap =
        of(json!({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}, {"type": "string"}]}));
    breaks(
        &number,
        &overlap,
        Some((Rule::OneofOverlap, "/properties/v/oneOf/0")),
        Some((Rule::TypeWidened, "/properties/v/oneOf/1/type")),
    );
}

#[test]
fn lists_and_maps() {
    let list = |keyword: &str, value: Value| {
        of(json!({"type": "array", "items": {"type": "integer"}, keyword: value}))
    };
    let plain = of(json!({"type": "array", "items": {"type": "integer"}}));
    breaks(&plain, &list("minItems", json!(1)), Some((Rule::ItemsCount, "/properties/v/minItems")), None);
    breaks(
        &plain,
        &list("uniqueItems", json!(true)),
        Some((Rule::UniqueAdded, "/properties/v/uniqueItems")),
        None,
    );
    breaks(
        &list("uniqueItems", json!(true)),
        &plain,
        None,
        Some((Rule::UniqueRemoved, "/properties/v/uniqueItems")),
    );
    breaks(
        &plain,
        &of(json!({"type": "array", "items": {"type": "number"}})),
        None,
        Some((Rule::TypeWidened, "/properties/v/items/type")),
    );
    let tuple = |slots: Value| {
        let n = slots.as_array().unwrap().len();
        of(json!({"type": "array", "prefixItems": slots, "minItems": n, "maxItems": n}))
    };
    let (two, three) =
        (tuple(json!([{"type": "integer"}, true])), tuple(json!([{"type": "integer"}, true, true])));
    let length = Some((Rule::TupleLength, "/properties/v/prefixItems"));
    breaks(&two, &three, length, length);
    let slot = Some((Rule::TypeChanged, "/properties/v/prefixItems/0/type"));
    breaks(&two, &tuple(json!([{"type": "string"}, true])), slot, slot);

    let map = |value: Value| of(json!({"type": "object", "additionalProperties": value}));
    let (numbers, keyed) = (
        map(json!({"type": "integer"})),
        of(
            json!({"type": "object", "patternProperties": {"^\\d+$": {"type": "integer"}}, "additionalProperties": false}),
        ),
    );
    breaks(&numbers, &keyed, Some((Rule::MapKey, "/properties/v/additionalProperties")), None);
    let place = "/properties/v/additionalProperties/type";
    breaks(&numbers, &map(json!({"type": "number"})), None, Some((Rule::TypeWidened, place)));
    let one = of(struct_of(json!({"a": {"type": "string"}}), json!(["a"])));
    let place = "/properties/v/additionalProperties/type";
    let (there, back) = (compare(&one, &numbers), compare(&numbers, &one));
    assert_eq!(
        found(&there, Rule::StructToMap, Severity::Breaking, Some(Direction::Backward)).pointer,
        place
    );
    found(&back, Rule::MapToStruct, Severity::Breaking, Some(Direction::Backward));
    let counted = |n: u8| of(json!({"type": "object", "additionalProperties": true, "maxProperties": n}));
    breaks(&counted(3), &counted(2), Some((Rule::PropsCount, "/properties/v/maxProperties")), None);

    let catch_all = json!({"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": "string"}});
    let mut declared = catch_all.clone();
    declared["properties"]["note"] = json!({"type": "integer"});
    let place = "/properties/note/type";
    breaks(&catch_all, &declared, Some((Rule::CatchAllType, place)), Some((Rule::CatchAllType, place)));
}

#[test]
fn keywords_that_are_not_understood() {
    let with = |keyword: &str, value: Value| of(json!({"type": "array", keyword: value}));
    let (one, other) =
        (with("contains", json!({"type": "integer"})), with("contains", json!({"type": "boolean"})));
    assert_ne!(compare(&one, &other).backward, Verdict::Compatible);
    let mut same = one.clone();
    same["properties"]["w"] = json!({"type": "string"});
    assert!(compare(&one, &same).is_full(), "what is the same need not be understood");
    let unknown = of(json!({"type": "string", "future": 1}));
    undecided(&of(json!({"type": "string"})), &unknown, Rule::KeywordUnsupported, Direction::Backward);
    let dead = of(json!({"$ref": "#/$defs/Missing"}));
    assert_eq!(compare(&of(json!({"type": "string"})), &dead).backward, Verdict::Undecided);
    let circle =
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}});
    assert_ne!(compare(&json!({"type": "string"}), &circle).backward, Verdict::Compatible);
}

/// Changes that break old readers or stored events in ways that stand beside a keyword, not in it.
#[test]
fn what_is_not_proved_is_not_compatible() {
    let backward = |old: &Value, new: &Value| compare(old, new).backward;
    let pair =
        |slots: usize| json!({"type": "array", "prefixItems": vec![json!({"type": "integer"}); slots]});
    let closed_list = |target: Value| json!({"type": "object", "properties": {"v": {"$ref": "#/$defs/T", "unevaluatedItems": false}}, "$defs": {"T": target}});
    let (k, int, text) = (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "string"}));
    let conditional = json!({"if": {"required": ["k"]}, "then": {"properties": {"b": int}}});
    let mut frees = conditional.clone();
    frees["type"] = json!("object");
    frees["properties"] = json!({"k": k});
    let inside = json!({
        "type": "object", "properties": {"k": k}, "allOf": [conditional], "unevaluatedProperties": false,
    });
    let both = json!({"type": "object", "properties": {"k": k, "b": text}});
    let deep = |levels: usize, root: &str, leaf: Value| {
        let inner = (0..levels).fold(leaf, |inner, _| json!({"allOf": [inner]}));
        json!({"type": root, "allOf": [inner]})
    };
    for (old, new) in [
        (closed_list(pair(2)), closed_list(pair(1))),
        (frees, both.clone()),
        (inside, both),
        (
            of(json!({"type": "array", "contains": int, "unevaluatedItems": false})),
            of(json!({"type": "array", "items": text})),
        ),
        (
            of(int.clone()),
            of(
                json!({"anyOf": [{"type": "number", "maximum": 5}, {"type": "number", "exclusiveMinimum": 6}]}),
            ),
        ),
        (of(json!({"const": 1e15})), of(int.clone())),
        (
            of(json!({"const": "a"})),
            of(
                json!({"oneOf": [{"const": "a"}, {"type": "string", "not": {"enum": ["a"], "minLength": 5}}]}),
            ),
        ),
        (of(text.clone()), of(json!({"anyOf": {"const": "x"}}))),
        (of(json!({"enum": "x"})), of(text)),
        (of(json!({"type": "number", "multipleOf": 1})), of(int)),
    ] {
        assert_ne!(backward(&old, &new), Verdict::Compatible, "{old} -> {new}");
    }
    for levels in [38, 39, 40, 41] {
        let (old, new) = (
            of(deep(levels, "string", json!({"maxLength": 5}))),
            of(deep(levels, "string", json!({"maxLength": 3}))),
        );
        assert_ne!(backward(&old, &new), Verdict::Compatible, "{levels}");
    }
}

#[test]
fn members_that_need_others() {
    let members = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    let free = struct_of(members.clone(), json!([]));
    let mut bound = free.clone();
    bound["dependentRequired"] = json!({"a": ["b"]});
    breaks(&free, &bound, Some((Rule::KeywordUnsupported, "/dependentRequired")), None);
    let complete = struct_of(members, json!(["b"]));
    assert_eq!(compare(&complete, &bound).backward, Verdict::Compatible, "`b` is always there");
}

#[test]
fn size_and_depth_end_in_undecided() {
    let nested = |depth: usize, leaf: &str| (0..depth).fold(json!({"type": leaf}), |inner, _| of(inner));
    for depth in [20, 60, 80, 400] {
        let comparison = compare(&nested(depth, "integer"), &nested(depth, "number"));
        assert_ne!(comparison.forward, Verdict::Compatible, "{depth}");
        if depth > 80 {
            assert!(comparison.findings.iter().any(|f| f.rule == Rule::TooComplex), "{depth}");
        }
    }
    let all_of = |depth: usize, leaf: &str| {
        (0..depth).fold(json!({"type": leaf}), |inner, _| json!({"allOf": [inner]}))
    };
    assert_ne!(compare(&all_of(90, "number"), &all_of(90, "integer")).backward, Verdict::Compatible);
    let mut definitions = Map::new();
    for n in 0..24 {
        let next = json!({"$ref": format!("#/$defs/{}", n + 1)});
        definitions.insert(n.to_string(), json!({"anyOf": [next, next]}));
    }
    definitions.insert("24".to_owned(), json!({"type": "integer"}));
    let mut bomb = json!({"$ref": "#/$defs/0", "$defs": definitions});
    let before = bomb.clone();
    bomb["$defs"]["24"] = json!({"type": "number"});
    assert_ne!(compare(&before, &bomb).forward, Verdict::Compatible);
}

#[test]
fn every_rule_has_a_name_of_its_own() {
    let names: std::collections::BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.id()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')));
}

#[test]
fn reports_show_rule_place_payload_and_help() {
    let (old, new) =
        (struct_of(json!({}), json!([])), struct_of(json!({"t": {"type": "integer"}}), json!(["t"])));
    let comparison = compare(&old, &new);
    let text = "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"t\": {\"type\": \"integer\"}\n  },\n  \"required\": [\"t\"]\n}";
    let (from, to) = (
        report::Source { name: "v1.0.json", text: None },
        report::Source { name: "v1.1.json", text: Some(text) },
    );
    assert_eq!(
        report::text(&comparison, from, to),
        "error[field-added-required] (backward): stored events lack `t`, which the new reader requires\n \
         --> v1.1.json:4 at /properties/t\n  |\n4 |     \"t\": {\"type\": \"integer\"}\n  |\n  = for example: {}\n  \
         = help: make it optional (`Option`, or `#[serde(default)]`), or make it a new major (schema_version + 1)\n\n\
         v1.0.json -> v1.1.json: backward breaking, forward compatible\n"
    );
    assert_eq!(
        report::github(&comparison, from, to),
        "::error file=v1.1.json,line=4,title=field-added-required::/properties/t: stored events lack `t`, which the new \
         reader requires%0A-> make it optional (`Option`, or `#[serde(default)]`), or make it a new major \
         (schema_version + 1)\n"
    );
    let json = report::json(&comparison);
    assert_eq!((&json["backward"], &json["forward"]), (&json!("breaking"), &json!("compatible")));
    assert_eq!(
        (&json["findings"][0]["rule"], &json["findings"][0]["side"], &json["findings"][0]["witness"]),
        (&json!("field-added-required"), &json!("new"), &json!({}))
    );
}

/// No payload is made for the pattern of `p`, so that the word of the second prover stands.
fn beside_a_pattern(v: Value) -> Value {
    let p = json!({"type": "string", "pattern": "^[0-9a-f]{40}$"});
    let mut of = of(v);
    of["properties"]["p"] = p;
    of["required"] = json!(["p", "v"]);
    of
}

#[test]
fn a_number_written_with_a_fraction_is_no_integer() {
    let int = json!({"type": "integer"});
    let pairs = [
        (json!({"type": "number", "multipleOf": 5}), json!({"type": "integer", "multipleOf": 5})),
        (json!({"type": "number", "minimum": 1, "maximum": 1}), int.clone()),
        (json!({"const": [1.0]}), json!({"type": "array", "items": int})),
        (json!({"type": "number", "multipleOf": 1}), int.clone()),
        (json!({"enum": [1.0, 2.0]}), int.clone()),
        (json!({"const": 1.0}), json!({"const": 1.0, "type": "integer"})),
        (json!({"const": [1.0]}), json!({"const": [1.0], "items": int})),
        (json!({"const": {"a": 1.0}}), json!({"const": {"a": 1.0}, "properties": {"a": int}})),
        (json!({"const": 1.0}), json!({"const": 1.0, "format": "uint8"})),
    ];
    for (old, new) in pairs {
        for (wrap, expected) in
            [(of as fn(Value) -> Value, Verdict::Breaking), (beside_a_pattern, Verdict::Undecided)]
        {
            let comparison = compare(&wrap(old.clone()), &wrap(new.clone()));
            assert_eq!(comparison.backward, expected, "{old} -> {new}: {comparison:?}");
            assert!(
                comparison.findings.iter().all(|finding| finding.rule != Rule::InternalDisagreement),
                "{old} -> {new}: {comparison:?}"
            );
        }
    }
}

#[test]
fn literals_of_objects_keep_their_members_and_their_constraints() {
    let object = |a: u8| json!({"type": "object", "const": {"a": a}});
    let nullable = |list: Value| json!({"type": ["object", "null"], "enum": list});
    let closed = json!({"enum": [{"a": 1}], "unevaluatedProperties": false});
    for (old, new) in [
        (object(1), object(2)),
        (nullable(json!([{"a": 1}, null])), nullable(json!([null]))),
        (json!({"enum": [{"a": 1}]}), closed.clone()),
        (json!({"enum": [{"a": 1}]}), json!({"allOf": [closed]})),
        (json!({"enum": [{"a": 1}]}), json!({"anyOf": [closed, {"type": "string"}]})),
    ] {
        for wrap in [of, beside_a_pattern] {
            let comparison = compare(&wrap(old.clone()), &wrap(new.clone()));
            assert_ne!(comparison.backward, Verdict::Compatible, "{old} -> {new}");
        }
    }
}

#[test]
fn a_format_that_the_engine_does_not_know_counts_beside_a_literal() {
    for format in ["ip", "partial-date-time", "date", "email", "uri", "iban"] {
        let (old, new) = (json!({"const": "A"}), json!({"const": "A", "format": format}));
        let comparison = compare(&beside_a_pattern(old), &beside_a_pattern(new));
        assert_ne!(comparison.backward, Verdict::Compatible, "{format}");
    }
}

#[test]
fn a_member_that_two_schemas_describe_is_closed_by_both() {
    let part = |name: &str, kind: &str| {
        struct_of(json!({"d": struct_of(json!({name: {"type": kind}}), json!([]))}), json!([]))
    };
    let both = |kind: &str| json!({"allOf": [part("x", kind), part("y", "integer")]});
    let keyed = |kind: &str| {
        json!({
            "type": "object", "properties": {"1": struct_of(json!({"x": {"type": kind}}), json!([]))},
            "patternProperties": {"^\\d$": struct_of(json!({"y": {"type": "integer"}}), json!([]))},
        })
    };
    for (old, new) in [(both("integer"), both("string")), (keyed("integer"), keyed("string"))] {
        let comparison = compare(&beside_a_pattern(old), &beside_a_pattern(new));
        assert_ne!(comparison.backward, Verdict::Compatible);
    }
}

#[test]
fn what_a_list_contains_is_not_closed() {
    let inner = |closed: bool| {
        let mut a = json!({"type": "object", "properties": {"b": {"type": "integer"}}});
        if closed {
            a["additionalProperties"] = json!(false);
        }
        json!({"type": "object", "properties": {"a": a}, "required": ["a"]})
    };
    let list = |contains: Value| {
        let mut schema = of(json!({
            "type": "array", "items": {"type": "object", "additionalProperties": true}, "contains": contains,
        }));
        schema["$defs"] = json!({"X": inner(false)});
        schema
    };
    let comparison = compare(&list(json!({"$ref": "#/$defs/X"})), &list(inner(true)));
    assert_ne!(comparison.backward, Verdict::Compatible);
}

#[test]
fn a_pattern_that_cannot_be_tried_is_not_passed_over() {
    let old = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut new = old.clone();
    new["patternProperties"] = json!({"^(?!x)": {"type": "integer"}});
    assert_eq!(compare(&old, &new).backward, Verdict::Undecided);
    let mut closed = new.clone();
    closed["additionalProperties"] = json!(false);
    assert_eq!(compare(&new, &closed).backward, Verdict::Undecided);
}

#[test]
fn schemas_that_lead_back_to_themselves_end() {
    let mut circle = json!({"properties": {"c": {"items": {"$ref": "#/$defs/A"}}}});
    circle["$defs"] = json!({"A": {"oneOf": [{"$ref": "#/$defs/A"}]}});
    assert_eq!(
        compare(&json!({"properties": {"c": {"type": "array"}}}), &circle).backward,
        Verdict::Undecided
    );
    let own = |x: &str| {
        let b = json!({"type": "object", "properties": {"t": {"const": "B"}, "x": {"type": x}}, "required": ["t", "x"]});
        let a = json!({"type": "object", "properties": {"t": {"const": "A"}}, "required": ["t"], "$ref": "#/$defs/E"});
        json!({"$ref": "#/$defs/E", "$defs": {"E": {"oneOf": [a, b]}}})
    };
    assert_ne!(compare(&own("integer"), &own("string")).worst(), Verdict::Compatible);
    let (old, new) = (own("integer"), own("string"));
    let mut world = super::world::World::new();
    let (from, to) = (world.document(&old), world.document(&new));
    assert!(super::second::Canonical::of(&mut world, from, to).is_none(), "the walk ends by itself");
}

/// Common shapes, larger than the second prover can be asked about.
#[test]
fn large_schemas_are_decided_in_time() {
    let tagged = |n: usize| {
        let variants: Vec<_> = (0..n).map(|n| json!({
            "type": "object", "properties": {"t": {"const": format!("v{n}")}, "x": {"type": "string"}},
            "required": ["t", "x"],
        })).collect();
        json!({ "oneOf": variants })
    };
    let started = std::time::Instant::now();
    for n in [11, 100, 200] {
        let comparison = compare(&tagged(n), &tagged(n + 1));
        assert_eq!(
            (comparison.backward, comparison.forward),
            (Verdict::Compatible, Verdict::Breaking),
            "{n}"
        );
        found(&comparison, Rule::VariantAdded, Severity::Breaking, Some(Direction::Forward));
    }
    let fields = |last: &str| {
        let mut members: Map<_, _> =
            (0..5_000).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
        members.insert("f4999".to_owned(), json!({"type": last}));
        struct_of(Value::Object(members), json!([]))
    };
    let comparison = compare(&fields("string"), &fields("integer"));
    assert_eq!((comparison.backward, comparison.forward), (Verdict::Breaking, Verdict::Breaking));
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn of_a_line_without_end_the_place_is_shown() {
    let members: Map<_, _> = (0..200).map(|n| (format!("f{n:03}"), json!({"type": "string"}))).collect();
    let old = struct_of(Value::Object(members), json!([]));
    let mut new = old.clone();
    new["properties"]["f100"] = json!({"type": "integer"});
    let minified = new.to_string();
    let (from, to) =
        (report::Source { name: "a", text: None }, report::Source { name: "b", text: Some(&minified) });
    let shown = report::text(&compare(&old, &new), from, to);
    assert!(shown.contains("\"f100\":{\"type\":\"integer\"}") && shown.contains("b:1 at"), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
}

#[test]
fn what_is_no_schema_is_not_called_too_large() {
    let comparison = compare(&json!({"type": "strin"}), &json!({"type": "string"}));
    let [backward, _] = comparison.findings.as_slice() else { panic!("{comparison:?}") };
    assert_eq!((comparison.worst(), backward.side), (Verdict::Undecided, Side::Old));
    assert!(backward.message.contains("no valid JSON Schema"), "{}", backward.message);
}
