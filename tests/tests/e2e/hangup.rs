//! SIGHUP: the registry folder is looked at at once.

use std::collections::BTreeSet;

use outbox_sdk::JsonEvent;
use outbox_tests::{Receiver, TestDb, on_every_database};

use crate::stage::{CHANGED, Stage, sorted_ids};

on_every_database! {
    a_hangup_loads_the_registry_and_keeps_the_last_good_one
}

async fn a_hangup_loads_the_registry_and_keeps_the_last_good_one<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    let mut relay = stage.relay(&receiver.url(), "2s", "1500ms");
    stage.settled(stage.publish(&["1"]).await[0].id).await;

    let mut tx = stage.outbox.begin(&stage.pool).await.unwrap();
    let renamed = JsonEvent::new("customer.renamed", 1, "customer", "{}").aggregate_id("1");
    let waiting = stage.outbox.publish_json(&mut tx, &renamed).await.unwrap().id;
    stage.outbox.commit(tx).await.unwrap();
    relay.wait_for_line("that it waits for its schema", |line| line.contains("has no schema for")).await;

    let schema = stage.folder.path().join("schemas/customer.renamed/v1.0.json");
    std::fs::create_dir_all(schema.parent().unwrap()).unwrap();
    std::fs::write(&schema, "half a sch").unwrap();
    relay.hang_up().await;
    let line =
        relay.wait_for_line("what is wrong", |line| line.contains("SIGHUP: the schema registry has")).await;
    assert!(line.contains("ERROR") && line.contains("v1.0.json"), "{line}");

    stage.write_registry(&BTreeSet::from([CHANGED, "customer.renamed"]));
    relay.hang_up().await;
    // It may have looked by itself just before.
    let fine = |line: &str| {
        line.contains("SIGHUP: the schema registry changed") || line.contains("registry is as it was")
    };
    relay.wait_for_line("that it was looked at", fine).await;
    stage.settled(waiting).await;
    relay.terminate().await;
    assert_eq!(relay.wait_exit().await.code(), Some(0), "{:#?}", relay.stderr());
    assert_eq!(sorted_ids(&receiver.stop().await), [1, waiting]);
}
