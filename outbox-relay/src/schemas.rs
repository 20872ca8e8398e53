//! The compiled schemas that payloads are validated against, reloaded when the registry folder changes.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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

/// What validating one event came to, for all consumers that share the event.
#[derive(Debug, Default)]
pub(crate) struct Checked(OnceLock<ByThese>);

/// A verdict counts for the schemas that gave it and the major that it was given for.
#[derive(Debug)]
struct ByThese {
    validators: Arc<Validators>,
    major: u32,
    verdict: Verdict,
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

    /// What a payload is, by the schema of its type and major. With `checked` it is found out once, whoever asks first;
    /// but again by schemas that were loaded since.
    pub(crate) fn check(
        &self,
        checked: Option<&Checked>,
        event_type: &str,
        major: u32,
        payload: &str,
    ) -> Verdict {
        let validators = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).validators);
        let verdict = || validators.check(event_type, major, payload);
        let Some(Checked(shared)) = checked else { return verdict() };
        let shared = shared.get_or_init(|| {
            let verdict = verdict();
            ByThese { validators: Arc::clone(&validators), major, verdict }
        });
        if shared.major == major && Arc::ptr_eq(&shared.validators, &validators) {
            shared.verdict.clone()
        } else {
            verdict()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_shared_verdict_counts_for_the_schemas_and_the_major_that_it_was_given_for() {
        let folder = std::env::temp_dir().join(format!("outbox-schemas-{:016x}", rand::random::<u64>()));
        let write = |minor: u32, rest: &str| {
            let schema = format!(
                r#"{{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"{rest}}}"#
            );
            fs::write(folder.join(format!("a.changed/v1.{minor}.json")), schema + "\n").unwrap();
        };
        fs::create_dir_all(folder.join("a.changed")).unwrap();
        fs::write(folder.join("registry.toml"), "compatibility = \"full\"\n").unwrap();
        write(0, "");
        let schemas = Schemas::open(&folder).unwrap();
        let checked = Checked::default();
        let check = |major, payload| schemas.check(Some(&checked), "a.changed", major, payload);
        assert_eq!(check(1, "{}"), Verdict::Valid);
        assert_eq!(check(1, "nonsense"), Verdict::Valid, "the payload is not looked at again");
        assert!(matches!(check(2, "{}"), Verdict::Unknown { .. }));

        write(1, r#", "required": ["n"]"#);
        assert!(schemas.reload().unwrap());
        assert!(matches!(check(1, "{}"), Verdict::Invalid(_)), "an old verdict does not count");
        fs::remove_dir_all(&folder).unwrap();
    }
}
