//! What a relay says of its pins when it starts.

use std::collections::BTreeSet;

use outbox_sdk::JsonEvent;
use outbox_tests::{TestDb, on_every_database};

use crate::stage::{CHANGED, Stage};

on_every_database! {
    a_pin_that_nobody_publishes_is_told
}

const NOWHERE: &str = "https://crm.example/hooks";

async fn a_pin_that_nobody_publishes_is_told<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let schemas = stage.folder.path().join("schemas");
    for major in [2, 3] {
        let first = schemas.join(CHANGED).join("v1.0.json");
        std::fs::copy(first, schemas.join(CHANGED).join(format!("v{major}.0.json"))).unwrap();
    }
    stage.write_registry(&BTreeSet::from(["customer.gone", "customer.merged"]));
    let removed = "date = 2026-12-01\nreason = \"nobody read it\"\n";
    std::fs::write(schemas.join("customer.gone/removed.toml"), removed).unwrap();
    let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
    stage.outbox.publish_json(&mut tx, &JsonEvent::new(CHANGED, 3, "customer", "{}")).await.unwrap();
    let older = format!("UPDATE {} SET older_payloads = '{{\"2\": {{}}}}'", T::table("event"));
    T::execute(&mut tx, &older).await.unwrap();
    stage.outbox.commit(tx).await.unwrap();

    // One that is published, one that is not, one whose type is gone, one of which nothing is known.
    let told = async |major: u32| {
        let pins = format!(
            "pins = {{ \"{CHANGED}\" = {major}, \"customer.gone\" = 1, \"customer.merged\" = 1 }}\nstart = \"now\""
        );
        let mut relay = stage.relay_with(NOWHERE, "", &pins);
        relay
            .wait_for_line("that the type is gone", |line| {
                line.contains("nobody publishes a pinned event type")
            })
            .await;
        stage.settled(1).await;
        relay.terminate().await;
        relay.wait_exit().await;
        let lines = relay.stderr().into_iter();
        lines.filter(|line| line.contains("nobody publishes the pinned major")).collect::<Vec<_>>()
    };
    let lines = told(1).await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("WARN") && lines[0].contains(CHANGED) && lines[0].contains("published={2, 3}"),
        "{lines:#?}"
    );
    assert_eq!(told(2).await, [""; 0], "as an older form");
    assert_eq!(told(3).await, [""; 0]);
}
