//! Code for consumers: what producers write is read by the generated types and written back equal.
//!
//! `producers.rs` has each construct; `tests/data/codegen` is the registry of its schemas, `generated.rs` the code. Both
//! follow the producers with `OUTBOX_BLESS=1 cargo test -p outbox-tests --all-features --test it codegen`.

#[rustfmt::skip]
mod generated;
mod producers;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use outbox_schema::Registry;
use outbox_schema::codegen::{self, Decimal, Options, Time};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use producers::*;

const COMMAND: &str = "OUTBOX_BLESS=1 cargo test -p outbox-tests --all-features --test it codegen";

fn blessing() -> bool {
    std::env::var_os("OUTBOX_BLESS").is_some()
}

fn path(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// Holds a file to what it should be.
fn keep(path: &Path, text: &str) {
    if blessing() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let file = fs::read_to_string(path).ok();
    if let Some(difference) = codegen::difference(file.as_deref(), text) {
        panic!("{} is out of date: {difference}\nrun {COMMAND}", path.display());
    }
}

fn options() -> Options {
    let mut options = Options::new("proof");
    for (event_type, _) in SCHEMAS {
        options = options.pin(*event_type, 1);
    }
    options.time = Time::Chrono;
    options.decimal = Decimal::RustDecimal;
    options.serialize = true;
    options.command = COMMAND.to_owned();
    options
}

fn schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

type Schema = fn() -> Value;

const SCHEMAS: &[(&str, Schema)] = &[
    ("proof.collections.sent", schema::<CollectionsSent>),
    ("proof.defaults.sent", schema::<DefaultsSent>),
    ("proof.enums.sent", schema::<EnumsSent>),
    ("proof.extras.sent", schema::<ExtrasSent>),
    ("proof.flattened.sent", schema::<FlattenedSent>),
    ("proof.growing.sent", schema::<GrowingSent>),
    ("proof.literals.sent", schema::<LiteralsSent>),
    ("proof.maybe.sent", schema::<MaybeSent>),
    ("proof.names.sent", schema::<NamesSent>),
    ("proof.numbers.sent", schema::<NumbersSent>),
    ("proof.open.sent", schema::<OpenSent>),
    ("proof.tagged.sent", schema::<TaggedSent>),
    ("proof.texts.sent", schema::<TextsSent>),
    ("proof.tree.sent", schema::<TreeSent>),
    ("proof.wrappers.sent", schema::<WrappersSent>),
];

#[test]
fn the_generated_code_is_what_the_producers_schemas_give() {
    let registry = path("data/codegen");
    for (event_type, schema) in SCHEMAS {
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        keep(&registry.join(event_type).join("v1.0.json"), &text);
    }
    let registry = Registry::open(registry).unwrap();
    let text = codegen::rust(&registry, &options()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    keep(&path("tests/it/codegen/generated.rs"), &text);
    let pins: Vec<_> = SCHEMAS.iter().map(|(event_type, _)| (*event_type, 1)).collect();
    assert_eq!((generated::CONSUMER, generated::PINS), ("proof", &pins[..]));
}

/// Without the members that are null: an absent one and a null one mean the same to serde's `Option`.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            members.map(|(name, value)| (name, without_nulls(value))).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        scalar => scalar,
    }
}

/// What the producer writes is read by the generated type and written back equal; a member that it does not know is left.
fn there_and_back<P, G>(event: &P) -> G
where
    P: Serialize,
    G: Serialize + DeserializeOwned + Clone + PartialEq + Debug,
{
    let text = serde_json::to_string(event).unwrap();
    let read: G = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let back = serde_json::to_string(&read).unwrap();
    let values = [&back, &text].map(|text| without_nulls(serde_json::from_str(text).unwrap()));
    assert_eq!(values[0], values[1]);
    assert_eq!(serde_json::from_str::<G>(&back).unwrap(), read);
    read
}

fn with_a_stranger<P: Serialize, G: DeserializeOwned + PartialEq + Debug>(event: &P, read: &G) {
    let mut value = serde_json::to_value(event).unwrap();
    value["a member of a later minor"] = json!({"x": [1]});
    assert_eq!(&serde_json::from_str::<G>(&value.to_string()).unwrap(), read);
}

/// What the generated type wrote is the producer's event again.
fn home<P: DeserializeOwned + PartialEq + Debug, G: Serialize>(event: &P, read: &G) {
    assert_eq!(&serde_json::from_str::<P>(&serde_json::to_string(read).unwrap()).unwrap(), event);
}

fn inner() -> Inner {
    Inner { count: 3, name: "Ada".into(), tags: vec!["a".into()] }
}

#[test]
fn numbers() {
    let event = NumbersSent {
        a: i8::MIN,
        b: i16::MIN,
        c: i32::MIN,
        d: i64::MIN,
        e: i128::MIN,
        f: u8::MAX,
        g: u16::MAX,
        h: u32::MAX,
        i: u64::MAX,
        j: u128::MAX,
        k: isize::MIN,
        l: usize::MAX,
        m: 0.1,
        n: -1.5e300,
        o: 7.try_into().unwrap(),
        p: 5,
    };
    let text = serde_json::to_string(&event).unwrap();
    let read: generated::proof_numbers_sent_v1::NumbersSent = serde_json::from_str(&text).unwrap();
    // As text, since a JSON value holds no 128 bits.
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    home(&event, &read);
    let _: (i8, i128, u16, u128, i64, u64, f64) = (read.a, read.e, read.g, read.j, read.k, read.l, read.m);
}

#[test]
fn texts() {
    let event = TextsSent {
        string: "Zoë\n".into(),
        letter: 'ß',
        uuid: uuid::Uuid::from_u128(7),
        at: "2026-12-01T08:30:00.123456Z".parse().unwrap(),
        local: "2026-12-01T08:30:00+05:30".parse().unwrap(),
        date: "2024-02-29".parse().unwrap(),
        date_time: "2026-12-01T08:30:00.5".parse().unwrap(),
        time: "23:59:59".parse().unwrap(),
        day: chrono::Weekday::Wed,
        maybe_day: Some(chrono::Weekday::Sun),
        price: "12.50".parse().unwrap(),
        discount: Some("-0.001".parse().unwrap()),
        ip: "::1".parse().unwrap(),
        v4: "127.0.0.1".parse().unwrap(),
        v6: "2001:db8::1".parse().unwrap(),
        code: "abc".into(),
        anything: json!({"deep": [1, null, {"x": 1.5}]}),
        flag: true,
        nothing: (),
    };
    let read: generated::proof_texts_sent_v1::TextsSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    assert_eq!((read.local.offset().local_minus_utc(), read.price.scale(), read.letter), (19_800, 2, 'ß'));
    let mut value = serde_json::to_value(&event).unwrap();
    value["price"] = json!(12.5);
    let read: generated::proof_texts_sent_v1::TextsSent = serde_json::from_value(value).unwrap();
    assert_eq!(read.price, "12.5".parse().unwrap(), "a decimal may come as a number");
    let read: generated::proof_texts_sent_v1::TextsSent =
        there_and_back(&TextsSent { maybe_day: None, discount: None, ..event });
    assert_eq!((read.maybe_day, read.discount), (None, None));
}

#[test]
#[expect(deprecated, reason = "the member is deprecated on purpose")]
fn names() {
    let event = NamesSent {
        first_name: "Ada".into(),
        kind: 1,
        this: 2,
        size: 3,
        dashed: 4,
        scored: 5,
        empty: 6,
        quoted: 7,
        old: Some(8),
    };
    let read: generated::proof_names_sent_v1::NamesSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    assert_eq!((read.first_name.as_str(), read.r#type, read.self_, read.gr_u00f6_u00df_e), ("Ada", 1, 2, 3));
    assert_eq!((read.foo_bar2, read.foo_bar, read.empty, read.n2nd_quoted, read.old), (4, 5, 6, 7, Some(8)));
}

#[test]
fn absence_means_the_same_to_both() {
    let read: generated::proof_defaults_sent_v1::DefaultsSent = serde_json::from_str("{}").unwrap();
    let event: DefaultsSent = serde_json::from_str("{}").unwrap();
    let [read_value, event_value] =
        [serde_json::to_value(&read).unwrap(), serde_json::to_value(&event).unwrap()].map(without_nulls);
    assert_eq!(read_value, event_value);
    assert_eq!((read.seven, read.half, read.some, read.inner.count), (7, 0.5, Some(4), 0));
    home(&event, &read);
    let event = DefaultsSent {
        option: Some("a".into()),
        skipped: Some("b".into()),
        seven: 8,
        two: Vec::new(),
        inner: inner(),
        some: None,
        word: Word::Done,
        ..event
    };
    let read: generated::proof_defaults_sent_v1::DefaultsSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    assert_eq!((read.seven, read.option.as_deref(), read.skipped.as_deref()), (8, Some("a"), Some("b")));
}

#[test]
fn collections() {
    let event = CollectionsSent {
        list: vec![Some(inner()), None],
        maybe: Some(vec![1]),
        set: BTreeSet::from(["a".into(), "b".into()]),
        words: BTreeSet::from([Letter::B, Letter::A]),
        floats: vec![0.1, -0.0],
        array: [1, 2, 3],
        tuple: (1, "x".into()),
        single: (9,),
        nested: (1, (inner(), [true, false])),
        map: BTreeMap::from([("k".into(), inner())]),
        signed: BTreeMap::from([(-5, 1), (7, 2)]),
        unsigned: BTreeMap::from([(u32::MAX, inner())]),
        maybe_keys: Some(BTreeMap::from([(1, 1)])),
        by_id: BTreeMap::from([(uuid::Uuid::from_u128(1), 1)]),
        object: serde_json::Map::from_iter([("x".to_owned(), json!([1]))]),
    };
    let read: generated::proof_collections_sent_v1::CollectionsSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    let _: (&BTreeSet<String>, &[u8; 3], &BTreeMap<i64, u8>, u8) =
        (&read.set, &read.array, &read.signed, read.single.0);
    assert!(read.words.contains(&generated::proof_collections_sent_v1::Letter::A));
    let read: generated::proof_collections_sent_v1::CollectionsSent =
        there_and_back(&CollectionsSent { maybe: None, maybe_keys: None, ..event });
    assert_eq!((read.maybe, read.maybe_keys), (None, None));
}

#[test]
fn wrappers() {
    let event = WrappersSent {
        email: Email("a@example.org".into()),
        pair: Pair(1, "x".into()),
        meters: Meters { value: 1.5 },
        marker: Marker,
        nothing: Nothing {},
        page: Page { items: vec![1], next: Some("n".into()) },
        pages: Page { items: vec![Page { items: vec![inner()], next: None }], next: None },
        result: Err("no".into()),
        wait: std::time::Duration::new(5, 7),
        range: 1..4,
        bound: std::ops::Bound::Excluded(3),
        boxed: Box::new(inner()),
        option: prelude::Option { text: "x".into() },
    };
    let read: generated::proof_wrappers_sent_v1::WrappersSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    assert_eq!((read.email.0.as_str(), read.option.text.as_str()), ("a@example.org", "x"));
    let event = WrappersSent { result: Ok(1), bound: std::ops::Bound::Unbounded, ..event };
    there_and_back::<_, generated::proof_wrappers_sent_v1::WrappersSent>(&event);
}

#[test]
fn recursion() {
    let leaf = TreeSent {
        value: 1,
        next: None,
        children: Vec::new(),
        forest: Forest(vec![Forest(Vec::new())]),
        even: Some(Box::new(Even {
            odd: Some(Box::new(Odd { even: (1, Some(Box::new(Even { odd: None }))) })),
        })),
        expression: Expression::Product {
            left: Box::new(Expression::Negated(Box::new(Expression::Number(3)))),
            right: Box::new(Expression::Sum(vec![Expression::Number(1)])),
        },
    };
    let event =
        TreeSent { next: Some(Box::new(leaf.clone())), children: vec![leaf.clone(), leaf.clone()], ..leaf };
    let read: generated::proof_tree_sent_v1::TreeSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    assert_eq!(read.next.unwrap().forest.0.len(), 1);
}

#[test]
fn enums() {
    let event = EnumsSent {
        plain: Word::NotYet,
        external: vec![
            External::Nothing,
            External::Documented,
            External::Number(1),
            External::Maybe(None),
            External::Maybe(Some(1)),
            External::Pair(1, "x".into()),
            External::Inner(inner()),
            External::ByHand { name: "x".into(), count: None },
            External::Empty {},
        ],
        internal: vec![
            Internal::Nothing,
            Internal::ByHand { full_name: "x".into(), how_many: 1 },
            Internal::Inner(inner()),
            Internal::Counted { shelves: BTreeMap::from([(7, 1)]) },
            Internal::Flattened { own: 1, inner: inner() },
            Internal::Open { rest: BTreeMap::from([("a".into(), 1)]) },
        ],
        adjacent: vec![
            Adjacent::Nothing,
            Adjacent::Number(1),
            Adjacent::Pair(1, "x".into()),
            Adjacent::Inner(inner()),
            Adjacent::ByHand { name: "x".into() },
        ],
        untagged: vec![
            Untagged::Nothing,
            Untagged::Number(1),
            Untagged::Text("x".into()),
            Untagged::Pair(1, 2),
            Untagged::Inner(inner()),
            Untagged::Flag { set: true },
            Untagged::List(vec!["x".into()]),
        ],
        only: Only::One,
        alone: Alone::One { a: 1 },
        nested: Outer::Inside(Inside::A { x: 1 }),
        mixed: vec![Mixed::A { x: 1 }, Mixed::U, Mixed::Other("x".into())],
    };
    let read: generated::proof_enums_sent_v1::EnumsSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    use generated::proof_enums_sent_v1 as g;
    assert_eq!(read.external[1], g::External::Documented);
    assert_eq!(read.external[5], g::External::Pair(1, "x".into()));
    assert!(matches!(&read.external[7], g::External::ByHand { name, count: None } if name == "x"));
    assert!(matches!(&read.internal[1], g::Internal::ByHand { full_name, how_many: 1 } if full_name == "x"));
    assert!(matches!(&read.internal[2], g::Internal::Inner(inner) if inner.count == 3));
    assert!(matches!(&read.internal[3], g::Internal::Counted { shelves } if shelves[&7] == 1));
    assert!(matches!(&read.adjacent[3], g::Adjacent::Inner(inner) if inner.count == 3));
    assert!(matches!(&read.adjacent[4], g::Adjacent::ByHand { name } if name == "x"));
    assert!(matches!(&read.untagged[0], g::Untagged::Null));
    assert!(matches!(&read.untagged[4], g::Untagged::Inner(inner) if inner.count == 3));
    for (member, wrong) in [
        ("plain", json!("nothing like it")),
        ("external", json!([{"Robot": 1}])),
        ("internal", json!([{"kind": "robot"}])),
        ("internal", json!([{"kind": "by_hand"}])),
        ("adjacent", json!([{"t": "Inner", "c": 1}])),
        ("untagged", json!([1.5])),
    ] {
        let mut value = serde_json::to_value(&event).unwrap();
        value[member] = wrong;
        assert!(serde_json::from_value::<g::EnumsSent>(value).is_err(), "{member}");
    }
}

#[test]
fn flattened_members() {
    for (internal, external) in [
        (Inside::A { x: 1 }, Choice::Left { left: 1 }),
        (Inside::B, Choice::Right(Meta { actor: "Ada".into() })),
    ] {
        let event = FlattenedSent { id: 1, inner: inner(), internal, external };
        let read: generated::proof_flattened_sent_v1::FlattenedSent = there_and_back(&event);
        with_a_stranger(&event, &read);
        home(&event, &read);
    }
    for adjacent in [Adjacent::Nothing, Adjacent::Pair(1, "x".into()), Adjacent::Inner(inner())] {
        let event = TaggedSent { id: 1, adjacent };
        let read: generated::proof_tagged_sent_v1::TaggedSent = there_and_back(&event);
        with_a_stranger(&event, &read);
        home(&event, &read);
    }
    for (inside, meta) in [(None, None), (Some(Inside::A { x: 1 }), Some(Meta { actor: "Ada".into() }))] {
        let event = MaybeSent { id: 1, inside, meta };
        let read: generated::proof_maybe_sent_v1::MaybeSent = there_and_back(&event);
        with_a_stranger(&event, &read);
        home(&event, &read);
    }
    let event = ExtrasSent { id: 1, rest: BTreeMap::from([("a".into(), Choice::Left { left: 1 })]) };
    let read: generated::proof_extras_sent_v1::ExtrasSent = there_and_back(&event);
    home(&event, &read);
    assert_eq!(read.additional.len(), 1);
    let event = OpenSent { id: 1, rest: BTreeMap::from([("a".into(), json!([null, {"b": 1}]))]) };
    let read: generated::proof_open_sent_v1::OpenSent = there_and_back(&event);
    home(&event, &read);
}

#[test]
fn literals() {
    let event = LiteralsSent { level: -1, entity: "order".into(), flag: true };
    let read: generated::proof_literals_sent_v1::LiteralsSent = there_and_back(&event);
    assert_eq!(read.level, generated::proof_literals_sent_v1::LiteralsSentLevel::Minus1);
    let unknown = r#"{"level": 3, "entity": "order", "flag": true}"#;
    assert!(serde_json::from_str::<generated::proof_literals_sent_v1::LiteralsSent>(unknown).is_err());
}

#[test]
fn what_a_later_minor_adds_to_an_open_enum_is_kept() {
    use generated::proof_growing_sent_v1 as g;
    let event = GrowingSent {
        plan: Plan::Free,
        external: vec![
            OpenExternal::Nothing,
            OpenExternal::ByHand { name: "x".into() },
            OpenExternal::Robot(1),
        ],
        internal: vec![OpenInternal::Nothing, OpenInternal::ByHand { name: "x".into() }],
        adjacent: vec![OpenAdjacent::Nothing, OpenAdjacent::Inner(inner())],
        untagged: vec![OpenUntagged::Text("x".into()), OpenUntagged::Number(1)],
    };
    let read: g::GrowingSent = there_and_back(&event);
    with_a_stranger(&event, &read);
    home(&event, &read);
    assert_eq!(read.plan, g::Plan::Free);
    assert!(matches!(&read.external[2], g::OpenExternal::Robot(1)));

    let later = json!({
        "plan": "Gold",
        "external": ["Later", {"Later": {"x": 1}}, "Nothing"],
        "internal": [{"kind": "Later", "x": 1}, {"kind": "Nothing"}],
        "adjacent": [{"kind": "Later", "of": [1]}],
        "untagged": [{"x": 1}, "text"],
    });
    let read: g::GrowingSent = there_and_back(&later);
    assert_eq!(read.plan, g::Plan::Unknown("Gold".into()));
    assert!(matches!(
        &read.external[..],
        [g::OpenExternal::Unknown(_), g::OpenExternal::Unknown(_), g::OpenExternal::Nothing]
    ));
    assert!(
        matches!(&read.internal[..], [g::OpenInternal::Unknown(value), g::OpenInternal::Nothing] if value["x"] == 1)
    );
    assert!(matches!(&read.adjacent[..], [g::OpenAdjacent::Unknown(_)]));
    assert!(matches!(&read.untagged[..], [g::OpenUntagged::Unknown(_), g::OpenUntagged::Text(_)]));

    // A known variant with other content is no unknown one.
    for (member, wrong) in [
        ("plan", json!(1)),
        ("external", json!([{"ByHand": {"name": 1}}])),
        ("external", json!([{"A": 1, "B": 1}])),
        ("internal", json!([{"kind": "ByHand", "name": 1}])),
        ("internal", json!([{"name": "x"}])),
        ("adjacent", json!([{"kind": "Inner", "of": 1}])),
    ] {
        let mut value = later.clone();
        value[member] = wrong;
        assert!(serde_json::from_value::<g::GrowingSent>(value).is_err(), "{member}");
    }
}
