//! What a relay process needs around it: a migrated database, a registry folder, a configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use outbox_sdk::backend::{ConsumerRow, LetterFilter, Operate as _};
use outbox_sdk::{JsonEvent, Lane, Migrator, Outbox, Published, Tables};
use outbox_tests::{OutboxProcess, Received, TestDb, eventually};
use sqlx::Pool;
use tempfile::TempDir;

/// Signs what the relays of these tests send.
pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

/// The one event type that needs no more than an object.
pub(crate) const CHANGED: &str = "customer.changed";

const SCHEMA: &str =
    "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\", \"type\": \"object\"}\n";

pub(crate) struct Stage<T: TestDb> {
    // Before the database, so that it closes first.
    pub(crate) pool: Pool<T::Db>,
    pub(crate) outbox: Outbox,
    pub(crate) db: T,
    pub(crate) folder: TempDir,
}

impl<T: TestDb> Stage<T> {
    pub(crate) async fn new() -> Self {
        let db = T::create().await;
        let pool = db.connect().await;
        Migrator::outbox().run(&pool).await.unwrap();
        let stage = Self { pool, outbox: Outbox::new(), db, folder: tempfile::tempdir().unwrap() };
        stage.write_registry(&BTreeSet::from([CHANGED]));
        stage
    }

    /// A folder in which major 1 of each type is any object.
    pub(crate) fn write_registry(&self, event_types: &BTreeSet<&str>) {
        let schemas = self.folder.path().join("schemas");
        for event_type in event_types {
            std::fs::create_dir_all(schemas.join(event_type)).unwrap();
            std::fs::write(schemas.join(event_type).join("v1.0.json"), SCHEMA).unwrap();
        }
        std::fs::write(schemas.join("registry.toml"), "compatibility = \"full\"\n").unwrap();
    }

    /// A relay process with one consumer, `crm`, that posts to `url`. `lease` and `timeout` as in the configuration.
    pub(crate) fn relay(&self, url: &str, lease: &str, timeout: &str) -> OutboxProcess {
        let relay = format!("lease = \"{lease}\"\npoll_max = \"50ms\"");
        let consumer = format!(
            r#"
            timeout = "{timeout}"
            max_in_flight = 8
            retry = {{ schedule = ["50ms"], max_attempts = 1000 }}
            "#
        );
        self.relay_with(url, &relay, &consumer)
    }

    /// The same with these lines in `[relay]` and in `[[consumer]]`.
    pub(crate) fn relay_with(&self, url: &str, relay: &str, consumer: &str) -> OutboxProcess {
        let text = format!(
            r#"
            [database]
            url = "env:STAGE_DATABASE"
            [relay]
            {relay}
            [registry]
            path = "schemas"
            [[consumer]]
            name = "crm"
            {consumer}
            [consumer.webhook]
            url = "{url}"
            secrets = ["env:STAGE_SECRET"]
            allow_private_addresses = true
            "#
        );
        let path: PathBuf = self.folder.path().join("outbox.toml");
        std::fs::write(&path, text).unwrap();
        let mut command = OutboxProcess::command();
        command.env("STAGE_DATABASE", self.db.address()).env("STAGE_SECRET", SECRET);
        OutboxProcess::spawn(command.args(["run", "--config"]).arg(path))
    }

    /// Publishes events of these aggregates in one transaction; the empty one is none.
    pub(crate) async fn publish(&self, aggregates: &[&str]) -> Vec<Published> {
        let mut tx = self.outbox.begin(&self.pool).await.unwrap();
        let mut published = Vec::new();
        for aggregate in aggregates {
            published.push(self.outbox.publish_json(&mut tx, &changed(aggregate)).await.unwrap());
        }
        self.outbox.commit(tx).await.unwrap();
        published
    }

    /// The consumer's row, once it is registered.
    pub(crate) async fn consumer(&self) -> Option<ConsumerRow> {
        let mut conn = self.pool.acquire().await.unwrap();
        T::Db::consumers(&mut conn, &Tables::default()).await.unwrap().pop()
    }

    /// Waits until the consumer has settled everything up to this id and no lane waits.
    pub(crate) async fn settled(&self, through: i64) {
        let all = format!("{{[1,{})}}", through + 1);
        eventually("everything is settled", async || {
            let row = self.consumer().await;
            row.is_some_and(|row| row.settled.to_multirange() == all && row.stalled_lanes == 0)
        })
        .await;
    }

    pub(crate) async fn dead_letters(&self) -> usize {
        let mut conn = self.pool.acquire().await.unwrap();
        T::Db::dead_letters(&mut conn, &Tables::default(), &LetterFilter::default(), None, 1_000)
            .await
            .unwrap()
            .len()
    }
}

pub(crate) fn changed(aggregate: &str) -> JsonEvent {
    let event = JsonEvent::new(CHANGED, 1, "customer", "{}");
    if aggregate.is_empty() { event } else { event.aggregate_id(aggregate) }
}

pub(crate) fn id(request: &Received) -> i64 {
    request.json()["sequence"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn lane(request: &Received) -> Lane {
    Lane::parse(request.json()["partitionkey"].as_str().unwrap()).unwrap()
}

/// All ids that arrived, lowest first, each as often as it came.
pub(crate) fn sorted_ids(requests: &[Received]) -> Vec<i64> {
    let mut ids: Vec<i64> = requests.iter().map(id).collect();
    ids.sort_unstable();
    ids
}

/// The ids of each lane as they first arrived.
pub(crate) fn first_arrivals(requests: &[Received]) -> BTreeMap<Lane, Vec<i64>> {
    let mut lanes = BTreeMap::<_, Vec<_>>::new();
    for request in requests {
        let ids = lanes.entry(lane(request)).or_default();
        if !ids.contains(&id(request)) {
            ids.push(id(request));
        }
    }
    lanes
}
