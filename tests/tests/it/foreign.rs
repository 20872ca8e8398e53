//! Receivers with nothing of ours, in Python and Node: they verify with `standardwebhooks` and read with `cloudevents` what
//! the relay sends.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use outbox_relay::consumer::Start;
use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_sdk::webhook::Secret;
use outbox_sdk::{Context, JsonEvent};
use outbox_tests::{PATIENCE, RunningRelay, SqliteTestDb, eventually, quick_settings};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use uuid::Uuid;

use crate::relay::{World, delivering, named};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
const FOREIGN: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";

/// A receiver's process; it ends with this value.
struct Foreign {
    _process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Foreign {
    async fn start(program: &Path, script: &str) -> Self {
        let mut command = Command::new(program);
        command.arg(data(script)).env("SECRET", SECRET).stdout(Stdio::piped()).kill_on_drop(true);
        let spawned = command.spawn();
        let mut process = spawned.unwrap_or_else(|error| {
            panic!("{} does not start ({error}): run ./scripts/test, which fetches it", program.display())
        });
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut foreign = Self { _process: process, lines, url: String::new() };
        foreign.url = format!("http://127.0.0.1:{}/hooks", foreign.next().await);
        foreign
    }

    /// What it has printed next.
    async fn next(&mut self) -> Value {
        let line =
            timeout(PATIENCE, self.lines.next_line()).await.expect("the receiver prints a line").unwrap();
        serde_json::from_str(&line.expect("the receiver goes on: its packages come with ./scripts/test"))
            .unwrap()
    }

    fn sink(&self, secret: &str) -> Arc<WebhookSink> {
        let mut config = WebhookConfig::new(self.url.as_str(), Secret::parse(secret).unwrap());
        config.allow_private_addresses = true;
        config.connect_timeout = Duration::from_secs(10);
        config.timeout = Duration::from_secs(20);
        Arc::new(WebhookSink::new(config).unwrap())
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

async fn verifies_and_reads(program: &Path, script: &str) {
    let mut receiver = Foreign::start(program, script).await;
    let world = World::<SqliteTestDb>::new().await;
    let (tenant, correlation) = (Uuid::now_v7(), Uuid::now_v7());
    let context = Context::new().tenant_id(tenant).correlation_id(correlation).audit_log_id(7);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let context = context.trace(trace, None).actor(&json!({"id": "ada"})).unwrap();
    let event =
        JsonEvent::new("customer.renamed", 3, "customer", r#"{"name":"Zoë \"é\"","tags":[1,null,{}]}"#);
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let outbox = world.outbox.clone().with_context(context);
    let published = outbox.publish_json(&mut tx, &event.aggregate_id("42")).await.unwrap();
    world.outbox.commit(tx).await.unwrap();

    let relay = deliver(&world, "crm", receiver.sink(SECRET));
    let read = receiver.next().await;
    relay.stop().await;
    let text = |name: &str| match &read[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for (name, expected) in [
        ("specversion", "1.0".to_owned()),
        ("id", published.event_id.to_string()),
        ("source", "/outbox".to_owned()),
        ("type", "customer.renamed".to_owned()),
        ("subject", "42".to_owned()),
        ("datacontenttype", "application/json".to_owned()),
        ("schemaversion", "3".to_owned()),
        ("aggregatetype", "customer".to_owned()),
        ("tenantid", tenant.to_string()),
        ("correlationid", correlation.to_string()),
        ("auditlogid", "7".to_owned()),
        ("actor", r#"{"id":"ada"}"#.to_owned()),
        ("traceparent", trace.to_owned()),
        ("sequence", format!("{:019}", published.id)),
    ] {
        assert_eq!(text(name), expected, "{name}: {read}");
    }
    assert!(text("time").starts_with("20"), "{read}");
    assert_eq!(read["data"], json!({"name": "Zoë \"é\"", "tags": [1, null, {}]}));

    let relay = deliver(&world, "forger", receiver.sink(FOREIGN));
    for _ in 0..3 {
        assert_eq!(
            receiver.next().await,
            json!("forged"),
            "a wrong secret can be put right: it is tried again"
        );
    }
    eventually("the forged event is dead", async || world.dead().await.len() == 1).await;
    relay.stop().await;
    assert_eq!(world.dead().await[0].reason, "attempts");
}

/// A relay that gives the receiver's first answer the time that a busy machine takes.
fn deliver(world: &World<SqliteTestDb>, consumer: &str, sink: Arc<WebhookSink>) -> RunningRelay {
    let mut settings = delivering(quick_settings());
    settings.lease = Duration::from_secs(30);
    let spec = named(consumer).start(Start::Earliest).timeout(Duration::from_secs(20)).unwrap();
    RunningRelay::start(world.builder_with(settings).consumer(spec, sink).build().unwrap())
}

#[tokio::test]
async fn real_input_of_a_python_receiver() {
    verifies_and_reads(&data("venv/bin/python"), "receiver.py").await;
}

#[tokio::test]
async fn real_input_of_a_node_receiver() {
    verifies_and_reads(Path::new("node"), "receiver.mjs").await;
}
