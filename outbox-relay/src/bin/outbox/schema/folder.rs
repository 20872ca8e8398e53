//! Which registry folder a command works on.

use std::path::{Path, PathBuf};

use outbox_relay::config::Config;
use outbox_schema::{Registry, RegistryError};

use crate::exit::Failure;

/// The variable that names the folder, for the generated tests too.
pub(super) const VARIABLE: &str = "OUTBOX_REGISTRY";

/// What the arguments say about the folder.
pub(super) struct Folder {
    given: Option<PathBuf>,
}

impl Folder {
    pub(super) fn new(argument: Option<PathBuf>) -> Self {
        let from_env = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { given: argument.or_else(from_env) }
    }

    /// The folder that was named, there or not.
    pub(super) fn given(&self) -> Option<&Path> {
        self.given.as_deref()
    }

    /// Opens the registry. A folder below the current one is named from there, as reports show it.
    pub(super) fn open(&self, config: Option<&Config>) -> Result<Registry, Failure> {
        self.try_open(config)?.map_err(|error| failed(&error))
    }

    /// The same, with what is wrong with the folder for reports.
    pub(super) fn try_open(
        &self,
        config: Option<&Config>,
    ) -> Result<Result<Registry, RegistryError>, Failure> {
        if let Some(folder) = self.given() {
            return Ok(Registry::open(folder));
        }
        if let Some(config) = config {
            return Ok(Registry::open(&config.registry.path));
        }
        let here = std::env::current_dir().map_err(|error| {
            Failure::usage(format!("error: there is no current folder: {error}; go to one"))
        })?;
        if Path::new("schemas/registry.toml").exists() {
            return Ok(Registry::open("schemas"));
        }
        Ok(Registry::locate(&here, None))
    }
}

/// A folder that cannot be used.
pub(super) fn failed(error: &RegistryError) -> Failure {
    Failure::usage(format!("error: {error}"))
}
