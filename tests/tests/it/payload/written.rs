//! Whatever serde writes for a derived event validates against the event's schema, and reads back.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use outbox_schema::{Validators, Verdict};
use outbox_sdk::{OutboxEvent, testing};
use proptest::collection::{btree_map, btree_set, hash_map, vec};
use proptest::prelude::*;
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Folder;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "numbers.written", aggregate_type = "numbers", unregistered)]
struct Numbers {
    signed: (i8, i16, i32, i64, isize),
    unsigned: (u8, u16, u32, u64, usize),
    wide: (i128, u128),
    nonzero: NonZeroU16,
    keyed: BTreeMap<i64, u8>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "floats.written", aggregate_type = "floats", unregistered)]
struct Floats {
    single: f32,
    double: f64,
    several: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[serde(rename_all = "camelCase")]
#[outbox(event_type = "attributes.written", aggregate_type = "attributes", unregistered)]
struct Attributes {
    plain_text: String,
    #[serde(rename = "the letter")]
    letter: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    nullable: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip)]
    forgotten: u8,
    #[serde(alias = "formerly")]
    renamed: u8,
    #[serde(default = "seven")]
    seven: u8,
    #[serde(with = "as_text")]
    #[schemars(with = "String")]
    count: u32,
    r#type: Box<str>,
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    more: BTreeMap<String, i32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Place {
    #[serde(default)]
    street: Cow<'static, str>,
    inner: Option<Box<Place>>,
}

fn seven() -> u8 {
    7
}

mod as_text {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn serialize<S: Serializer>(count: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(count)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "collections.written", aggregate_type = "collections", unregistered)]
struct Collections {
    pair: (bool, String),
    array: [u8; 3],
    set: BTreeSet<u16>,
    map: HashMap<String, Vec<Option<u8>>>,
    nested: Vec<Vec<()>>,
    result: Result<u8, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "choices.written", aggregate_type = "choices", unregistered)]
struct Choices {
    external: Vec<External>,
    internal: Vec<Internal>,
    adjacent: Vec<Adjacent>,
    untagged: Vec<Untagged>,
    open: (OpenUnits, OpenExternal, OpenInternal, OpenAdjacent),
}

macro_rules! choices {
    ($($(#[$attribute:meta])* $name:ident)*) => {$(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        $(#[$attribute])*
        enum $name {
            Nothing,
            #[serde(rename = "by hand")]
            Hand { name: String, times: Option<u8> },
            Robot(Serial),
        }

        impl $name {
            fn any() -> impl Strategy<Value = Self> {
                prop_oneof![
                    Just(Self::Nothing),
                    (text(), any::<Option<u8>>()).prop_map(|(name, times)| Self::Hand { name, times }),
                    any::<u32>().prop_map(|serial| Self::Robot(Serial { serial })),
                ]
            }
        }
    )*};
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Serial {
    serial: u32,
}

choices! {
    External
    #[serde(tag = "kind")] Internal
    #[serde(tag = "kind", content = "of")] Adjacent
    #[serde(untagged)] Untagged
    #[schemars(transform = outbox_sdk::open_enum)] OpenExternal
    #[serde(tag = "kind")] #[schemars(transform = outbox_sdk::open_enum)] OpenInternal
    #[serde(tag = "kind", content = "of")] #[schemars(transform = outbox_sdk::open_enum)] OpenAdjacent
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
#[schemars(transform = outbox_sdk::open_enum)]
enum OpenUnits {
    /// Pays nothing.
    FreeOfCharge,
    Paid,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "libraries.written", aggregate_type = "libraries", unregistered)]
struct Libraries {
    #[outbox(aggregate_id)]
    id: Uuid,
    at: DateTime<Utc>,
    local: NaiveDateTime,
    day: NaiveDate,
    hour: NaiveTime,
    price: Decimal,
    prices: Vec<Option<Decimal>>,
    address: IpAddr,
    took: Duration,
}

/// A payload may borrow what it is made of.
#[derive(Debug, Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "borrowed.written", aggregate_type = "borrowed", unregistered)]
struct Borrowed<'a> {
    #[outbox(aggregate_id)]
    id: &'a str,
    names: &'a [Cow<'a, str>],
}

/// Any text that an event may hold: PostgreSQL keeps no NUL.
fn text() -> impl Strategy<Value = String> {
    any::<String>().prop_map(|text| text.replace('\0', "\u{fffd}"))
}

fn integers() -> impl Strategy<Value = Numbers> {
    let wide = prop_oneof![any::<(i128, u128)>(), Just((i128::MIN, u128::MAX)), Just((i128::MAX, 0))];
    (any::<(i8, i16, i32, i64, isize)>(), any::<(u8, u16, u32, u64, usize)>(), wide, any::<NonZeroU16>())
        .prop_flat_map(|numbers| (Just(numbers), btree_map(any::<i64>(), any::<u8>(), 0..4)))
        .prop_map(|((signed, unsigned, wide, nonzero), keyed)| Numbers {
            signed,
            unsigned,
            wide,
            nonzero,
            keyed,
        })
}

fn floats() -> impl Strategy<Value = Floats> {
    use proptest::num::{f32, f64};
    let double = f64::NORMAL | f64::SUBNORMAL | f64::ZERO | f64::NEGATIVE;
    let single = f32::NORMAL | f32::SUBNORMAL | f32::ZERO | f32::NEGATIVE;
    (single, double, vec(proptest::option::of(double), 0..4)).prop_map(|(single, double, several)| Floats {
        single,
        double,
        several,
    })
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let place = (text(), any::<bool>()).prop_map(|(street, nested)| {
        let inner = nested.then(|| Box::new(Place { street: Cow::Borrowed("in"), inner: None }));
        Place { street: street.into(), inner }
    });
    // Of a flattened map: none that is a field, too.
    let more = btree_map("x[a-z ]{0,5}", any::<i32>(), 0..3);
    let letter = any::<char>().prop_filter("no NUL", |letter| *letter != '\0');
    let texts = (text(), letter, proptest::option::of(text()), vec(text(), 0..3));
    let numbers = (any::<Option<bool>>(), any::<u8>(), any::<u8>(), any::<u32>());
    (texts, numbers, place, more).prop_map(|((plain_text, letter, note, tags), numbers, place, more)| {
        let (nullable, renamed, seven, count) = numbers;
        let r#type = plain_text.chars().rev().collect::<String>().into();
        let forgotten = 0;
        Attributes {
            plain_text,
            letter,
            note,
            nullable,
            tags,
            forgotten,
            renamed,
            seven,
            count,
            r#type,
            place,
            more,
        }
    })
}

fn collections() -> impl Strategy<Value = Collections> {
    let sets = (btree_set(any::<u16>(), 0..4), hash_map(text(), vec(any::<Option<u8>>(), 0..3), 0..3));
    let result = prop_oneof![any::<u8>().prop_map(Ok), text().prop_map(Err)];
    (any::<bool>(), text(), any::<[u8; 3]>(), sets, vec(vec(Just(()), 0..2), 0..3), result).prop_map(
        |(flag, name, array, (set, map), nested, result)| Collections {
            pair: (flag, name),
            array,
            set,
            map,
            nested,
            result,
        },
    )
}

fn choices() -> impl Strategy<Value = Choices> {
    let units = prop_oneof![Just(OpenUnits::FreeOfCharge), Just(OpenUnits::Paid)];
    let open = (units, OpenExternal::any(), OpenInternal::any(), OpenAdjacent::any());
    let closed = (
        vec(External::any(), 0..3),
        vec(Internal::any(), 0..3),
        vec(Adjacent::any(), 0..3),
        vec(Untagged::any(), 0..3),
    );
    (closed, open).prop_map(|((external, internal, adjacent, untagged), open)| Choices {
        external,
        internal,
        adjacent,
        untagged,
        open,
    })
}

fn libraries() -> impl Strategy<Value = Libraries> {
    // From the year 1 to 9999: others are no dates of RFC 3339, and the formats refuse them.
    let at = (-62_135_596_800_i64..=253_402_300_799, 0_u32..1_000_000_000)
        .prop_map(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos).unwrap());
    // Up to 28 digits, of which so many are behind the point.
    let decimal = || (any::<i64>(), 0_u32..=28).prop_map(|(digits, scale)| Decimal::new(digits, scale));
    let prices = (decimal(), vec(proptest::option::of(decimal()), 0..3));
    (any::<u128>(), at, prices, any::<IpAddr>(), any::<Duration>()).prop_map(
        |(id, at, prices, address, took)| {
            let local = at.naive_utc();
            let (price, prices) = prices;
            Libraries {
                id: Uuid::from_u128(id),
                at,
                local,
                day: local.date(),
                hour: local.time(),
                price,
                prices,
                address,
                took,
            }
        },
    )
}

/// The payload as the SDK writes it, if it fits the event's schema.
fn valid<E: OutboxEvent>(validators: &Validators, event: &E) -> Result<String, TestCaseError> {
    let envelope = testing::received(event).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let verdict = validators.check(&envelope.event_type, envelope.schema_version, &envelope.payload);
    prop_assert_eq!(verdict, Verdict::Valid, "{}", envelope.payload);
    Ok(envelope.payload)
}

fn reads_back<E>(validators: &Validators, event: &E) -> Result<(), TestCaseError>
where
    E: OutboxEvent + DeserializeOwned + PartialEq + Debug,
{
    let payload = valid(validators, event)?;
    let read: E = serde_json::from_str(&payload).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&read, event, "{}", payload);
    Ok(())
}

fn holds<E: OutboxEvent + Debug>(
    events: impl Strategy<Value = E>,
    check: fn(&Validators, &E) -> Result<(), TestCaseError>,
) {
    let validators = Folder::new().commit::<E>().validators();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(500));
    runner.run(&events, |event| check(&validators, &event)).unwrap();
}

#[test]
fn integers_of_all_widths() {
    holds(integers(), reads_back);
}

#[test]
fn floats_of_both_widths() {
    // The text is what counts: serde_json's own reader may be off by the last bit.
    holds(floats(), |validators, event| valid(validators, event).map(drop));
}

#[test]
fn what_serde_attributes_change() {
    holds(attributes(), reads_back);
}

#[test]
fn collections_of_every_kind() {
    holds(collections(), reads_back);
}

#[test]
fn enums_of_four_taggings_closed_and_open() {
    holds(choices(), reads_back);
}

#[test]
fn types_of_other_libraries() {
    holds(libraries(), reads_back);
}

#[test]
fn borrowed_payloads() {
    let validators = Folder::new().commit::<Borrowed<'static>>().validators();
    let names = [Cow::Borrowed("Ada"), Cow::Owned("Grace".to_owned())];
    let payload = valid(&validators, &Borrowed { id: "7", names: &names }).unwrap();
    assert_eq!(payload, r#"{"id":"7","names":["Ada","Grace"]}"#);
}
