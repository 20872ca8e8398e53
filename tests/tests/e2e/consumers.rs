//! Several consumers: what is wrong with one is said, and the others go on.

use std::sync::Arc;
use std::time::Duration;

use outbox_relay::{ConsumerSpec, MissingSchema, Relay};
use outbox_tests::{OutboxProcess, Receiver, RecordingSink, TestDb, on_every_database, quick_settings};
use serde_json::Value;

use crate::stage::{Stage, sorted_ids};

on_every_database! {
    a_registered_consumer_that_nobody_runs_is_reported
    a_configuration_with_a_mistake_starts_no_consumer
    a_destination_that_cannot_be_spoken_to_delays_only_its_consumer
}

async fn outbox<T: TestDb>(stage: &Stage<T>, args: &[&str]) -> String {
    let mut command = OutboxProcess::command();
    let mut process = OutboxProcess::spawn(command.args(args).env("DATABASE_URL", stage.db.address()));
    assert_eq!(process.wait_exit().await.code(), Some(0), "{:#?}", process.stderr());
    process.stdout().join("\n")
}

async fn a_registered_consumer_that_nobody_runs_is_reported<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let mut settings = quick_settings();
    settings.missing_schema = MissingSchema::Deliver;
    let left = Relay::builder(stage.pool.clone()).settings(settings);
    let sink: Arc<RecordingSink> = RecordingSink::new();
    let spec = ConsumerSpec::new("left").unwrap().timeout(Duration::from_secs(1)).unwrap();
    let left = left.consumer(spec, sink).build().unwrap();
    left.run_once().await.unwrap();

    let receiver = Receiver::start().await;
    let relay = stage.relay_with(&receiver.url(), "lease = \"3s\"", "start = \"earliest\"\ntimeout = \"1s\"");
    let line = relay.wait_for_line("who is left", |line| line.contains("no running relay can run")).await;
    assert!(line.contains("WARN") && line.contains("left") && !line.contains("crm"), "{line}");
    assert!(line.contains("outbox consumer remove"), "{line}");
    let consumers: Value =
        serde_json::from_str(&outbox(&stage, &["consumers", "--format", "json"]).await).unwrap();
    let able = |name: &str| {
        let all = consumers["consumers"].as_array().unwrap();
        let row = all.iter().find(|row| row["consumer"] == name).unwrap();
        row["able_relays"].as_array().unwrap().len()
    };
    assert_eq!((able("left"), able("crm")), (0, 1), "{consumers}");
    let text = outbox(&stage, &["consumers"]).await;
    let remark = text.lines().find(|line| line.starts_with("left")).unwrap();
    assert!(remark.contains("No running relay"), "{text}");
}

/// Half a configuration would be a relay that silently does not deliver.
async fn a_configuration_with_a_mistake_starts_no_consumer<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    stage.publish(&["1"]).await;
    let broken = "[consumer.webhook]\nurl = \"http://127.0.0.1:1/\"\nallow_private_addresses = true\n\
        secrets = [\"env:STAGE_SECRET\"]\n[[consumer]]\nname = \"broken\"\nevents = [\"*.customer\"]";
    let mut relay = stage.relay_with(&receiver.url(), "", broken);
    assert_eq!(relay.wait_exit().await.code(), Some(2), "{:#?}", relay.stderr());
    assert!(relay.stderr().iter().any(|line| line.contains("*.customer")), "{:#?}", relay.stderr());
    assert!(stage.consumer().await.is_none(), "nobody is registered");
    assert_eq!(receiver.stop().await.len(), 0);
}

/// The receiver does not speak TLS.
async fn a_destination_that_cannot_be_spoken_to_delays_only_its_consumer<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    stage.publish(&["1", "2", "1"]).await;
    let other = format!(
        "[consumer.webhook]\nurl = \"{}\"\nallow_private_addresses = true\nsecrets = [\"env:STAGE_SECRET\"]\n\
         [[consumer]]\nname = \"other\"",
        receiver.url().replacen("http:", "https:", 1)
    );
    let mut relay = stage.relay_with(&receiver.url(), "", &other);
    let requests = receiver.wait_until("all events", |requests| requests.len() == 3).await;
    assert_eq!(sorted_ids(&requests), [1, 2, 3]);
    relay.wait_for_line("what is wrong", |line| line.contains("crm") && line.contains("WARN")).await;
    relay.terminate().await;
    assert_eq!(relay.wait_exit().await.code(), Some(0), "{:#?}", relay.stderr());
}
