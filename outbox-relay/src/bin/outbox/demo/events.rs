//! The events of the sample service: structs whose fields are the payload, and the registry folder that they make.

use std::any::type_name;
use std::path::Path;

use outbox_schema::Registry;
use outbox_schema::bless;
use outbox_schema::drift::Claim;
use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};

use super::error::DemoError;

/// Who made a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Actor {
    /// What kind of principal it is, such as `user` or `service`.
    pub(super) principal_type: String,
    /// Which one.
    pub(super) principal_id: String,
}

/// What a customer is like at one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(super) struct CustomerState {
    /// The company's name.
    pub(super) name: String,
    /// Where it is.
    pub(super) city: String,
    /// How much it may owe, in cents.
    pub(super) credit_limit: i64,
}

/// A customer was entered.
#[derive(Debug, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "entity.customer.created", aggregate_type = "customer")]
pub(super) struct CustomerCreated {
    /// Whose customer it is.
    pub(super) tenant_key: String,
    /// Always `customer`.
    pub(super) entity_type: String,
    /// Which customer.
    #[outbox(aggregate_id)]
    pub(super) entity_id: i64,
    /// The number by which people know it.
    pub(super) code: String,
    /// 1, and one more with each later change.
    pub(super) version: u32,
    /// What it is like.
    pub(super) after: CustomerState,
    /// Who did it.
    pub(super) actor: Actor,
}

/// A customer was changed.
#[derive(Debug, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "entity.customer.updated", aggregate_type = "customer")]
pub(super) struct CustomerUpdated {
    /// Whose customer it is.
    pub(super) tenant_key: String,
    /// Always `customer`.
    pub(super) entity_type: String,
    /// Which customer.
    #[outbox(aggregate_id)]
    pub(super) entity_id: i64,
    /// The number by which people know it.
    pub(super) code: String,
    /// The version that the change made.
    pub(super) version: u32,
    /// What it was like.
    pub(super) before: CustomerState,
    /// What it is like now.
    pub(super) after: CustomerState,
    /// Who did it.
    pub(super) actor: Actor,
}

/// A customer was put away.
#[derive(Debug, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "entity.customer.archived", aggregate_type = "customer")]
pub(super) struct CustomerArchived {
    /// Whose customer it is.
    pub(super) tenant_key: String,
    /// Always `customer`.
    pub(super) entity_type: String,
    /// Which customer.
    #[outbox(aggregate_id)]
    pub(super) entity_id: i64,
    /// The number by which people know it.
    pub(super) code: String,
    /// The version that the change made.
    pub(super) version: u32,
    /// What it was like.
    pub(super) before: CustomerState,
    /// Who did it.
    pub(super) actor: Actor,
}

/// A principal may do something with an entity.
#[derive(Debug, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "permission.granted", aggregate_type = "principal")]
pub(super) struct PermissionGranted {
    /// In whose data it counts.
    pub(super) tenant_key: String,
    /// What kind of principal gets it.
    pub(super) principal_type: String,
    /// Which principal gets it.
    #[outbox(aggregate_id)]
    pub(super) principal_id: String,
    /// What it may do.
    pub(super) permission: String,
    /// With what kind of entity.
    pub(super) entity_type: String,
    /// With which entity.
    pub(super) entity_id: i64,
    /// Who did it.
    pub(super) actor: Actor,
}

/// Makes `folder` a registry that holds the schemas of all four.
pub(super) fn write_registry(folder: &Path) -> Result<(), DemoError> {
    let prepared = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join("registry.toml"), "compatibility = \"full\"\n"));
    prepared.map_err(|source| DemoError::Folder { path: folder.to_owned(), source })?;
    let registry = Registry::open(folder)?;
    bless_schema::<CustomerCreated>(&registry)?;
    bless_schema::<CustomerUpdated>(&registry)?;
    bless_schema::<CustomerArchived>(&registry)?;
    bless_schema::<PermissionGranted>(&registry)?;
    Ok(())
}

/// What `OUTBOX_BLESS=1 cargo test` does for a struct: its reading contract becomes a file of the registry.
fn bless_schema<E: OutboxEvent>(registry: &Registry) -> Result<(), DemoError> {
    let contract = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let claim = Claim {
        event_type: E::EVENT_TYPE,
        schema_version: E::SCHEMA_VERSION,
        rust_type: type_name::<E>(),
        file: file!(),
        line: line!(),
        schema: contract.into_root_schema_for::<E>().to_value(),
    };
    bless::write(registry, &claim, false)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_registry_is_the_committed_one() {
        let folder = tempfile::tempdir().unwrap();
        write_registry(folder.path()).unwrap();
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
        let written = Registry::open(folder.path()).unwrap();
        assert_eq!(written.files().count(), 4);
        for file in written.files() {
            let path = file.path.strip_prefix(folder.path()).unwrap();
            let ours = std::fs::read_to_string(&file.path).unwrap();
            assert_eq!(ours, std::fs::read_to_string(committed.join(path)).unwrap(), "{}", path.display());
        }
    }
}
