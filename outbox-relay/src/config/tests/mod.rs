mod environment;
mod reports;
mod rules;

use std::path::PathBuf;
use std::time::Duration;

use outbox_sdk::webhook::{Format, Secrets, sign};

use super::*;
use crate::consumer::{OnDead, Ordering, OtherMajors, Start};
use crate::maintenance::RetainFor;
use crate::retry::{RetryPolicy, Schedule};
use crate::sink::webhook::{Credential, WebhookConfig};
use crate::{MissingSchema, UndeclaredMembers};

const KEY: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
const OTHER_KEY: &str = "whsec_YWJjZGVmMDEyMzQ1Njc4OTAxMjM0NTY3";
const ENV: [(&str, &str); 3] = [("CRM_SECRET", KEY), ("NEXT_SECRET", OTHER_KEY), ("NO_KEY", "hunter2")];

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse("outbox.toml", text, ENV)
}

/// Each finding as `line:column message / help`, or `NAME message / help` in the environment.
fn findings(result: Result<Config, ConfigError>) -> Vec<String> {
    let error = result.expect_err("the configuration has mistakes");
    let line = |finding: &Finding| {
        let place = match (finding.location(), finding.variable()) {
            (Some((line, column)), _) => format!("{line}:{column}"),
            (None, Some(variable)) => variable.to_owned(),
            (None, None) => "-".to_owned(),
        };
        format!("{place} {} / {}", finding.message(), finding.help())
    };
    error.findings().iter().map(line).collect()
}

fn with_env(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::parse("outbox.toml", text, ENV.iter().chain(variables).copied())
}

const CRM: &str = "[[consumer]]\nname = \"crm\"\n";
const HOOK: &str =
    "[consumer.webhook]\nurl = \"https://crm.example/hooks\"\nsecrets = [\"env:CRM_SECRET\"]\n";

#[test]
fn an_empty_file_has_every_default() {
    let config = parse("").unwrap();
    assert_eq!(config.database, DatabaseConfig::default());
    assert_eq!(config.relay, RelayConfig::default());
    assert_eq!(config.registry, RegistryConfig::default());
    assert!(config.consumers.is_empty());

    let relay = config.relay;
    assert_eq!((relay.name, relay.source.as_str()), (None, "/outbox"));
    assert_eq!((relay.lease, relay.grace), (Duration::from_secs(30), Duration::from_secs(30)));
    assert_eq!((relay.poll_min, relay.poll_max), (Duration::from_millis(10), Duration::from_secs(1)));
    assert_eq!((relay.read_rows, relay.read_bytes), (500, 8_388_608));
    assert_eq!((relay.window_rows, relay.window_bytes), (10_000, 67_108_864));
    assert_eq!(
        (config.database.schema.as_str(), config.database.deadline, config.database.pooled),
        ("outbox", Duration::from_secs(4), false)
    );
    assert_eq!(config.registry.path, PathBuf::from("schemas"));
    assert_eq!(config.registry.missing, MissingSchema::Wait { dead_after: Duration::from_secs(86_400) });
}

#[test]
fn a_short_consumer_has_every_default() {
    let config = parse(&format!("{CRM}{HOOK}")).unwrap();
    let [crm] = config.require_consumers().unwrap() else { panic!("one consumer") };
    assert_eq!(crm.spec, crate::consumer::ConsumerSpec::new("crm").unwrap());
    let webhook = crm.webhook.as_ref().unwrap();
    assert!(!webhook.allow_private_addresses);
    assert_eq!((webhook.connect_timeout, webhook.timeout), (Duration::from_secs(5), Duration::from_secs(15)));
    assert_eq!(webhook.format, Format::CloudEvents);
}

const FULL: &str = r#"
[database]
url = "postgres://app:pw@localhost/app"
schema = "events"
deadline = "2s"

[relay]
name = "relay-1"
source = "https://shop.example/outbox"
lease = "1m"
poll_min = "20ms"
poll_max = "2s"
read_rows = 100
read_bytes = "1 MiB"
window_rows = 2_000
window_bytes = 0x200000
grace = "0s"
listen = true
recorder = false
attempt_history = 7

[retention]
days = 30
event_types = { "order.*" = 365, "*" = 60 }

[registry]
path = "contracts/schemas"
missing_after = "1h30m"
undeclared = "refuse"
base_url = "https://schemas.example/"

[[consumer]]
name = "crm"
events = ["entity.customer.*", "order.placed"]
pins = { "entity.customer.updated" = 1, "order.placed" = 3 }
max_in_flight = 8
rate_limit = "600/m"
slots = 4
required_for_retention = true
ordering = "none"
on_dead = "block"
on_dead_for = { "order.*" = "continue" }
timeout = "40s"
start = "now"
other_majors = "skip"
retry = { schedule = ["1m", "5m"], max_attempts = 4 }

[consumer.retry_for."order.placed"]
base = "1s"
cap = "1m"

[consumer.retry_for."entity.*"]
max_attempts = 2

[consumer.webhook]
url = "http://localhost:8080/hooks"
secrets = ["env:CRM_SECRET", "env:NEXT_SECRET"]
allow_private_addresses = true
connect_timeout = "1s"
timeout = "20s"
format = "plain"
secret_overlap = "2h"
keep_response = true
allow_networks = ["10.1.0.0/16", "fd00::7"]
headers = { Authorization = "env:CRM_SECRET", X-Tenant = "acme" }

[[consumer]]
name = "search"
start = 2026-12-01T03:02:03.5+02:00
"#;

/// The secrets, none of which is in a file.
fn given(webhook: &WebhookConfig) -> Secrets {
    let mut secrets = webhook.secrets.iter().map(|credential| match credential {
        Credential::Given(secret) => secret.clone(),
        Credential::File(path) => panic!("{path:?}"),
    });
    let first = Secrets::new(secrets.next().unwrap());
    secrets.fold(first, Secrets::and)
}

#[test]
fn files_are_named_from_the_configurations_folder_and_read_by_the_sink() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    std::fs::write(inside("key"), KEY).unwrap();
    std::fs::write(inside("ca.pem"), "").unwrap();
    let text = format!(
        "{CRM}[consumer.webhook]\nurl = \"https://a.example/\"\nsecrets = [\"file:key\"]\nca_file = \"ca.pem\"\n\
         client_certificate_file = \"ca.pem\"\nclient_key_file = \"key\"\nheaders = {{ X-Api-Key = \"file:key\" }}\n"
    );
    let config = Config::parse(inside("outbox.toml"), &text, ENV).unwrap();
    let webhook = config.require_consumers().unwrap()[0].webhook.clone().unwrap();
    assert!(matches!(&webhook.secrets[..], [Credential::File(path)] if *path == inside("key")));
    assert!(matches!(&webhook.headers[..], [(_, Credential::File(path))] if *path == inside("key")));
    let files = [webhook.ca_file, webhook.client_certificate_file, webhook.client_key_file];
    assert_eq!(files, ["ca.pem", "ca.pem", "key"].map(|name| Some(inside(name))));
}

#[test]
fn a_full_file_gives_every_value() {
    let config = Config::parse("conf/outbox.toml", FULL, ENV).unwrap();
    assert_eq!(config.require_database().unwrap().expose(), "postgres://app:pw@localhost/app");
    assert_eq!(
        (config.database.schema.as_str(), config.database.deadline),
        ("events", Duration::from_secs(2))
    );
    let relay = RelayConfig {
        name: Some("relay-1".to_owned()),
        source: "https://shop.example/outbox".to_owned(),
        lease: Duration::from_secs(60),
        poll_min: Duration::from_millis(20),
        poll_max: Duration::from_secs(2),
        read_rows: 100,
        read_bytes: 1 << 20,
        window_rows: 2_000,
        window_bytes: 2 << 20,
        grace: Duration::ZERO,
        listen: true,
        recorder: false,
        attempt_history: 7,
    };
    assert_eq!(config.relay, relay);
    let registry = RegistryConfig {
        path: PathBuf::from("conf/contracts/schemas"),
        missing: MissingSchema::Wait { dead_after: Duration::from_secs(5400) },
        undeclared: UndeclaredMembers::Refuse,
        base_url: Some("https://schemas.example/".to_owned()),
    };
    let retention = RetainFor::days(30).unwrap();
    let retention = retention.event_type("order.*", 365).unwrap().event_type("*", 60).unwrap();
    assert_eq!(config.retention, retention);
    let registry_missing = registry.missing;
    assert_eq!(config.registry, registry);

    let [crm, search] = config.consumers.as_slice() else { panic!("two consumers") };
    let spec = &crm.spec;
    assert_eq!(spec.stored()["filter"], serde_json::json!(["entity.customer.*", "order.placed"]));
    assert_eq!((spec.pinned("entity.customer.updated"), spec.pinned("order.placed")), (Some(1), Some(3)));
    assert_eq!((spec.name.as_str(), spec.max_in_flight), ("crm", 8));
    assert_eq!(spec.rate_limit, Some("600/m".parse().unwrap()));
    assert_eq!((spec.slots, spec.required_for_retention), (4, true));
    assert_eq!(config.required_for_retention(), ["crm"]);
    assert_eq!((spec.ordering, spec.on_dead), (Ordering::None, OnDead::Block));
    assert_eq!(spec.on_dead_for("order.placed"), OnDead::Continue);
    assert_eq!(spec.on_dead_for("entity.customer.updated"), OnDead::Block);
    assert_eq!((spec.timeout, spec.start), (Duration::from_secs(40), Some(Start::Now)));
    assert_eq!(spec.other_majors, OtherMajors::Skip);
    let schedule = Schedule::List(vec![Duration::from_secs(60), Duration::from_secs(300)]);
    assert_eq!(spec.retry, RetryPolicy { schedule: schedule.clone(), max_attempts: 4 });
    let doubling = Schedule::Exponential { base: Duration::from_secs(1), cap: Duration::from_secs(60) };
    assert_eq!(spec.retry_for("order.placed"), &RetryPolicy { schedule: doubling, max_attempts: 4 });
    assert_eq!(spec.retry_for("entity.customer.updated"), &RetryPolicy { schedule, max_attempts: 2 });

    let webhook = crm.webhook.as_ref().unwrap();
    assert_eq!(webhook.url, "http://localhost:8080/hooks");
    let both = Secrets::parse([KEY, OTHER_KEY]).unwrap();
    assert_eq!(sign(&given(webhook), "id", 7, b"body"), sign(&both, "id", 7, b"body"));
    assert_eq!((webhook.name.as_str(), webhook.keep_response), ("crm", true));
    assert_eq!(webhook.secret_overlap, Duration::from_secs(7200));
    assert_eq!(webhook.allow_networks, ["10.1.0.0/16".parse().unwrap(), "fd00::7".parse().unwrap()]);
    let headers: Vec<_> = webhook
        .headers
        .iter()
        .map(|(name, value)| match value {
            Credential::Given(value) => (name.as_str(), value.to_str().unwrap()),
            Credential::File(path) => panic!("{path:?}"),
        })
        .collect();
    assert_eq!(headers, [("authorization", KEY), ("x-tenant", "acme")]);
    assert!(webhook.allow_private_addresses);
    assert_eq!((webhook.connect_timeout, webhook.timeout), (Duration::from_secs(1), Duration::from_secs(20)));
    assert_eq!(webhook.format, Format::Plain);
    assert_eq!(webhook.source.source, "https://shop.example/outbox");
    assert_eq!(webhook.source.dataschema_base.as_deref(), Some("https://schemas.example/"));

    let settings = config.settings();
    assert_eq!((settings.name.as_str(), settings.lease), ("relay-1", Duration::from_secs(60)));
    assert_eq!((settings.poll_min, settings.poll_max), (Duration::from_millis(20), Duration::from_secs(2)));
    assert_eq!((settings.read_rows, settings.read_bytes), (100, 1 << 20));
    assert_eq!((settings.window_rows, settings.window_bytes), (2_000, 2 << 20));
    assert_eq!((settings.grace, settings.deadline), (Duration::ZERO, Duration::from_secs(2)));
    assert_eq!(settings.missing_schema, registry_missing);
    assert_eq!((settings.recorder, settings.retention.days_of("order.placed")), (false, 365));

    assert_eq!(search.spec.start, Some(Start::At(1_796_086_923_500_000)));
    assert!(search.webhook.is_none());
    let homeless = findings(config.require_consumers().map(|_| config.clone()));
    let expected =
        "67:1 the consumer `search` has no destination / add a [consumer.webhook] with url and secrets";
    assert_eq!(homeless, [expected]);
}

#[test]
fn a_secret_file_lies_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("crm.key"), format!("{KEY}\n")).unwrap();
    let path = folder.path().join("outbox.toml");
    std::fs::write(&path, format!("{CRM}{HOOK}").replace("env:CRM_SECRET", "file:crm.key")).unwrap();
    let config = Config::load(&path, ENV).unwrap();
    let secrets = &config.consumers[0].webhook.as_ref().unwrap().secrets;
    assert!(matches!(&secrets[..], [Credential::File(file)] if *file == folder.path().join("crm.key")));
    assert_eq!(config.registry.path, folder.path().join("schemas"));
}

#[test]
fn events_without_a_schema_may_be_delivered() {
    let config = parse("[registry]\nmissing = \"deliver\"").unwrap();
    assert_eq!(config.registry.missing, MissingSchema::Deliver);
}
