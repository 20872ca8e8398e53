//! Which registry folder a command works on.

use std::path::{Path, PathBuf};

use outbox_relay::config::Config;
use outbox_schema::Registry;

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
        let failed = |error| Failure::usage(format!("error: {error}"));
        if let Some(folder) = self.given() {
            return Registry::open(folder).map_err(failed);
        }
        if let Some(config) = config {
            return Registry::open(&config.registry.path).map_err(failed);
        }
        let here = std::env::current_dir().map_err(|error| {
            Failure::usage(format!("error: there is no current folder: {error}; go to one"))
        })?;
        if Path::new("schemas/registry.toml").exists() {
            return Registry::open("schemas").map_err(failed);
        }
        Registry::locate(&here, None).map_err(failed)
    }
}
