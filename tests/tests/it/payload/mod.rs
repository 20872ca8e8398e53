//! Payloads from the struct to the receiver: what serde writes fits the schema, no digit changes on the way, and enums
//! that may grow do.

mod digits;
mod open_enums;
mod written;

use outbox_schema::drift::{self, Claim};
use outbox_schema::{Registry, Validators};
use outbox_sdk::OutboxEvent;
use schemars::generate::SchemaSettings;
use tempfile::TempDir;

/// A registry folder of the test's own.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("registry.toml"), "compatibility = \"full\"\n").unwrap();
        Self(folder)
    }

    /// Commits the schema of an event, as its generated test does when it is blessed.
    fn commit<E: OutboxEvent>(self) -> Self {
        let schema =
            SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<E>();
        let claim = Claim {
            event_type: E::EVENT_TYPE,
            schema_version: E::SCHEMA_VERSION,
            rust_type: std::any::type_name::<E>(),
            file: file!(),
            line: 1,
            schema: schema.to_value(),
        };
        drift::run(&claim, self.0.path(), Some(self.0.path()), true, false).unwrap();
        self
    }

    fn validators(&self) -> Validators {
        Validators::compile(&Registry::open(self.0.path()).unwrap()).unwrap()
    }
}
