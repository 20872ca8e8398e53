//! The real payloads, through everything: publish, validate, deliver, sign; compared digit for digit.

use std::collections::{BTreeMap, BTreeSet};

use outbox_sdk::{JsonEvent, Published};
use outbox_tests::{Example, Receiver, TestDb, github_examples, on_every_database};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use standardwebhooks::Webhook;

use crate::stage::{SECRET, Stage};

on_every_database! {
    real_input_arrives_once_in_order_and_digit_for_digit
}

/// What is compared of a body; `data` as it was sent.
#[derive(Deserialize)]
struct Body<'a> {
    id: String,
    sequence: String,
    r#type: String,
    subject: Option<String>,
    #[serde(borrow)]
    data: &'a RawValue,
}

fn event(example: &Example) -> JsonEvent {
    match example.aggregate {
        Some((kind, id)) => {
            JsonEvent::new(&example.event_type, 1, kind, &example.payload).aggregate_id(id.to_string())
        }
        None => JsonEvent::new(&example.event_type, 1, "github", &example.payload),
    }
}

async fn publish<T: TestDb>(stage: &Stage<T>, examples: &[Example]) -> Vec<Published> {
    let mut published = Vec::new();
    for some in examples.chunks(10) {
        let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
        for example in some {
            published.push(stage.outbox.publish_json(&mut tx, &event(example)).await.unwrap());
        }
        stage.outbox.commit(tx).await.unwrap();
    }
    published
}

async fn real_input_arrives_once_in_order_and_digit_for_digit<T: TestDb>() {
    let examples = github_examples();
    let stage = Stage::<T>::new().await;
    stage
        .write_registry(&examples.iter().map(|example| example.event_type.as_str()).collect::<BTreeSet<_>>());
    let receiver = Receiver::start().await;
    let mut relay = stage.relay(&receiver.url(), "30s", "20s");
    let published = publish(&stage, &examples).await;
    stage.settled(published.last().unwrap().id).await;
    relay.terminate().await;
    assert!(relay.wait_exit().await.success(), "{:#?}", relay.stderr());
    let requests = receiver.stop().await;
    assert_eq!((requests.len(), stage.dead_letters().await), (329, 0), "every payload once");

    let sql = format!("SELECT CAST(payload AS text) FROM {} ORDER BY id", T::table("event"));
    let stored = T::texts(&mut stage.pool.acquire().await.unwrap(), &sql).await;
    let expected: BTreeMap<_, _> =
        published.iter().zip(examples.iter().zip(&stored)).map(|(p, e)| (p.id, (p, e))).collect();
    let webhook = Webhook::new(SECRET).unwrap();
    let mut seen = BTreeSet::new();
    let mut latest = BTreeMap::new();
    for request in &requests {
        webhook.verify(&request.body, &request.headers).expect("a valid signature");
        let body: Body<'_> = serde_json::from_slice(&request.body).unwrap();
        let id: i64 = body.sequence.parse().unwrap();
        let (published, (example, stored)) = expected[&id];
        assert!(seen.insert(id), "{id} came twice");
        assert_eq!(body.id, published.event_id.to_string());
        assert_eq!(request.header("webhook-id"), body.id);
        assert_eq!(body.r#type, example.event_type);
        assert_eq!(body.subject, example.aggregate.map(|(_, id)| id.to_string()));
        assert_eq!(body.data.get(), stored, "{}: digit for digit", body.r#type);
        let [sent, given] =
            [body.data.get(), &example.payload].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert!(sent == given, "{}: what was published", body.r#type);
        if example.aggregate.is_some() {
            let before = latest.insert(example.aggregate, id).unwrap_or(0);
            assert!(before < id, "{:?}: {id} after {before}", example.aggregate);
        }
    }
    assert!(latest.len() > 10, "real aggregates");
}
