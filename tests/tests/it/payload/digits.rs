//! Numbers survive digit for digit: from the struct through the table, the relay and the wire to the receiver.

use std::collections::BTreeMap;

use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_sdk::OutboxEvent;
use outbox_sdk::webhook::Secret;
use outbox_tests::{Receiver, eventually};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rust_decimal::Decimal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::databases::{TestDb, on_every_database};
use crate::relay::{World, crm};

on_every_database! {
    numbers_arrive_digit_for_digit
}

#[derive(Serialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "numbers.sent", aggregate_type = "numbers", unregistered)]
struct Numbers {
    signed: Vec<i64>,
    unsigned: Vec<u64>,
    wide: Vec<i128>,
    single: Vec<f32>,
    double: Vec<f64>,
    /// Written as they stand here, as a type of another library may.
    #[schemars(with = "Vec<f64>")]
    exact: Vec<Box<RawValue>>,
    prices: Vec<Decimal>,
}

/// Digits without zeros at the ends, and where the point stands: `1.50` and `15e-1` are one number, `1.5` and `1.49..` two.
/// A zero has no sign: PostgreSQL keeps none.
fn number(text: &str) -> (bool, String, i64) {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let without_end = digits.trim_end_matches('0');
    let exponent: i64 = exponent.parse::<i64>().unwrap() - i64::try_from(fraction.len()).unwrap()
        + i64::try_from(digits.len() - without_end.len()).unwrap();
    let digits = without_end.trim_start_matches('0').to_owned();
    if digits.is_empty() { (false, digits, 0) } else { (negative, digits, exponent) }
}

type Texts = BTreeMap<String, Vec<Box<RawValue>>>;

fn some<T: std::fmt::Debug>(
    of: impl Strategy<Value = T>,
    runner: &mut TestRunner,
) -> impl Iterator<Item = T> {
    (0..100).map(move |_| of.new_tree(runner).unwrap().current())
}

fn event() -> Numbers {
    use proptest::num::{f32, f64};
    let mut runner = TestRunner::deterministic();
    let runner = &mut runner;
    let double = f64::NORMAL | f64::SUBNORMAL | f64::NEGATIVE;
    let single = f32::NORMAL | f32::SUBNORMAL | f32::NEGATIVE;
    let exact = ["0.10", "1.000", "123456789012345678901234567890.0123456789", "-0.00", "1e-20", "12E+20"];
    Numbers {
        signed: [i64::MIN, i64::MAX, -1, 0, 9_007_199_254_740_993]
            .into_iter()
            .chain(some(any::<i64>(), runner))
            .collect(),
        unsigned: [u64::MAX, 0].into_iter().chain(some(any::<u64>(), runner)).collect(),
        wide: [i128::MIN, i128::MAX].into_iter().chain(some(any::<i128>(), runner)).collect(),
        single: [0.1, f32::MAX, f32::MIN_POSITIVE].into_iter().chain(some(single, runner)).collect(),
        double: [0.1, 1e23, f64::MAX, 5e-324, -2.5e-8].into_iter().chain(some(double, runner)).collect(),
        exact: exact.map(|text| RawValue::from_string(text.to_owned()).unwrap()).into(),
        prices: some((any::<i64>(), 0_u32..=28), runner)
            .map(|(digits, scale)| Decimal::new(digits, scale))
            .collect(),
    }
}

async fn numbers_arrive_digit_for_digit<T: TestDb>() {
    let world = World::<T>::new().await;
    let event = event();
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    world.outbox.publish(&mut tx, &event).await.unwrap();
    world.outbox.commit(tx).await.unwrap();

    let receiver = Receiver::start().await;
    let secret = Secret::parse("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3").unwrap();
    let mut config = WebhookConfig::new(format!("http://{}/hook", receiver.addr()), secret);
    config.allow_private_addresses = true;
    let sink = std::sync::Arc::new(WebhookSink::new(config).unwrap());
    world.builder().consumer(crm(), sink).build().unwrap().run_once().await.unwrap();
    eventually("the event has arrived", async || receiver.requests().len() == 1).await;

    #[derive(Deserialize)]
    struct Body {
        data: Texts,
    }
    let arrived: Body = serde_json::from_slice(&receiver.requests()[0].body).unwrap();
    let written: Texts = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
    assert_eq!(arrived.data.keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
    for (name, written) in written {
        let texts = |of: &[Box<RawValue>]| of.iter().map(|text| text.get().to_owned()).collect::<Vec<_>>();
        let (written, arrived) = (texts(&written), texts(&arrived.data[&name]));
        if ["signed", "unsigned", "wide", "prices"].contains(&name.as_str()) {
            assert_eq!(arrived, written, "{name}: to the letter");
        }
        let numbers =
            |of: &[String]| of.iter().map(|text| number(text.trim_matches('"'))).collect::<Vec<_>>();
        assert_eq!(numbers(&arrived), numbers(&written), "{name}");
    }
}

#[test]
fn two_texts_are_one_number_or_two() {
    for (one, other) in [("1.50", "15e-1"), ("0", "0.00"), ("1200", "12E+2"), ("-0.0", "0"), ("100", "1e2")] {
        assert_eq!(number(one), number(other), "{one} {other}");
    }
    for (one, other) in
        [("1.5", "1.49"), ("0.1", "-0.1"), ("10", "1"), ("9007199254740993", "9007199254740992")]
    {
        assert_ne!(number(one), number(other), "{one} {other}");
    }
}
