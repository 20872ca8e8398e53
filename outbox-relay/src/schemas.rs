//! The compiled schemas that payloads are validated against, reloaded when the registry folder changes.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use outbox_schema::validate::{CompileErrors, Validators, Verdict};
use outbox_schema::{Digest, Registry, RegistryError};

/// Compiled schemas, shared by every consumer of a relay. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Schemas {
    source: Option<Arc<PathBuf>>,
    current: Arc<RwLock<Current>>,
}

#[derive(Debug)]
struct Current {
    digest: Option<Digest>,
    validators: Arc<Validators>,
}

/// A registry folder that cannot be used. The relay keeps the last good set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemasError {
    /// The folder has problems.
    #[error("the schema registry cannot be opened")]
    Registry(#[from] RegistryError),
    /// Some of its schemas do not compile.
    #[error("the schema registry has schemas that cannot be compiled")]
    Compile(#[from] CompileErrors),
}

impl Schemas {
    /// Opens a registry folder and compiles the newest minor of each event type and major.
    ///
    /// # Errors
    /// All problems of the folder at once.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SchemasError> {
        let path = path.into();
        let registry = Registry::open(&path)?;
        let validators = Validators::compile(&registry)?;
        Ok(Self {
            source: Some(Arc::new(path)),
            current: Arc::new(RwLock::new(Current {
                digest: Some(registry.digest()),
                validators: Arc::new(validators),
            })),
        })
    }

    /// No schemas at all: every event type is unknown. For relays whose consumers deliver without validation.
    #[must_use]
    pub fn none() -> Self {
        let current = Current { digest: None, validators: Arc::new(Validators::default()) };
        Self { source: None, current: Arc::new(RwLock::new(current)) }
    }

    /// Looks at the folder again; swaps the whole set when it changed and all of it compiles. True = swapped.
    ///
    /// # Errors
    /// The problems of the folder; the set stays as it was.
    pub fn reload(&self) -> Result<bool, SchemasError> {
        let Some(path) = &self.source else { return Ok(false) };
        let registry = Registry::open(path.as_path())?;
        let digest = Some(registry.digest());
        if self.current.read().unwrap_or_else(PoisonError::into_inner).digest == digest {
            return Ok(false);
        }
        let validators = Arc::new(Validators::compile(&registry)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { digest, validators };
        Ok(true)
    }

    /// What a payload is, by the schema of its type and major.
    pub(crate) fn check(&self, event_type: &str, major: u32, payload: &str) -> Verdict {
        let validators = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).validators);
        validators.check(event_type, major, payload)
    }
}
