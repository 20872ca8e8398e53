//! The compiled schemas that payloads are validated against, reloaded when the registry folder changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

pub use outbox_schema::validate::UndeclaredMembers;
use outbox_schema::validate::{CompileErrors, Undeclared, Unreadable, Validators, Verdict, Violations};
use outbox_schema::{Digest, Fingerprint, Registry, RegistryError};
use outbox_sdk::Envelope;
use tokio::sync::watch;

use crate::doubt::{Doubts, Fault, IN_A_ROW};
use crate::telemetry;

/// Compiled schemas, shared by every consumer of a relay. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Schemas {
    source: Option<Arc<PathBuf>>,
    current: Arc<RwLock<Arc<Loaded>>>,
    /// Told when an event that waits for a schema may have one.
    changes: Arc<watch::Sender<u64>>,
    undeclared: UndeclaredMembers,
}

/// What was loaded at one time, and what was learned of it since.
#[derive(Debug, Default)]
struct Loaded {
    digest: Option<Digest>,
    validators: Validators,
    /// The newest schema of each type and major.
    newest: HashMap<String, BTreeMap<u32, Fingerprint>>,
    /// Event types that nobody publishes any more.
    removed: HashSet<String>,
    doubts: Doubts,
    /// Types and majors whose undeclared members were told.
    told: Mutex<HashSet<(String, u32)>>,
}

/// What an event's payload is, and what is to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Validity {
    /// It goes.
    Valid,
    /// It does not.
    Invalid(Violations),
    /// It has members that must not be there.
    Refused(Undeclared),
    /// It violates a schema that so many events in a row violate that the schema may be what is wrong.
    InDoubt(String),
    /// The registry has no schema for it.
    Unknown {
        /// The majors of its type that have one.
        known_majors: Vec<u32>,
    },
    /// It is no JSON.
    Unreadable(Unreadable),
}

/// What the registry has to say about a pin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pinned {
    /// There is such a major, or no registry to ask.
    Good,
    /// There is, but nobody publishes the type any more.
    Unpublished,
    /// There is no such event type.
    UnknownType,
    /// There are these majors of it.
    UnknownMajor(Vec<u32>),
}

/// What validating one event came to, for all consumers that share the event.
#[derive(Debug, Default)]
pub(crate) struct Checked(OnceLock<ByThese>);

/// It counts for the schemas that it was found by and the major that it was found for.
#[derive(Debug)]
struct ByThese {
    loaded: Arc<Loaded>,
    major: u32,
    validity: Validity,
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
        let loaded = Loaded::new(&Registry::open(&path)?)?;
        Ok(Self { source: Some(Arc::new(path)), ..Self::of(loaded) })
    }

    /// No schemas at all: every event type is unknown. For relays whose consumers deliver without validation.
    #[must_use]
    pub fn none() -> Self {
        Self::of(Loaded::default())
    }

    fn of(loaded: Loaded) -> Self {
        Self {
            source: None,
            current: Arc::new(RwLock::new(Arc::new(loaded))),
            changes: Arc::default(),
            undeclared: UndeclaredMembers::default(),
        }
    }

    /// What happens to members that a schema does not declare, instead of being counted.
    #[must_use]
    pub fn undeclared(mut self, undeclared: UndeclaredMembers) -> Self {
        self.undeclared = undeclared;
        self
    }

    /// Looks at the folder again; swaps the whole set when it changed and all of it compiles. True = swapped.
    ///
    /// # Errors
    /// The problems of the folder; the set stays as it was.
    pub fn reload(&self) -> Result<bool, SchemasError> {
        let Some(path) = &self.source else { return Ok(false) };
        let registry = Registry::open(path.as_path())?;
        if self.current().digest == Some(registry.digest()) {
            return Ok(false);
        }
        let before = self.current();
        let mut loaded = Loaded::new(&registry)?;
        loaded.doubts = before.doubts.of_the_same(|event_type, major| {
            let fingerprint = |loaded: &Loaded| loaded.newest.get(event_type)?.get(&major).copied();
            fingerprint(&before) == fingerprint(&loaded)
        });
        telemetry::schemas_in_doubt(loaded.doubts.in_doubt());
        let loaded = Arc::new(loaded);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        self.changes.send_modify(|generation| *generation += 1);
        Ok(true)
    }

    /// Changes when an event that waits for a schema, or for a better one, may have it.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How often they have changed so far.
    pub(crate) fn generation(&self) -> u64 {
        *self.changes.borrow()
    }

    /// What the registry has to say about a pin.
    pub(crate) fn pinned(&self, event_type: &str, major: u32) -> Pinned {
        let loaded = self.current();
        if loaded.digest.is_none() {
            return Pinned::Good;
        }
        match loaded.newest.get(event_type) {
            _ if loaded.removed.contains(event_type) => Pinned::Unpublished,
            None => Pinned::UnknownType,
            Some(majors) if majors.contains_key(&major) => Pinned::Good,
            Some(majors) => Pinned::UnknownMajor(majors.keys().copied().collect()),
        }
    }

    /// A payload was valid, which may end the doubt in its schema.
    fn valid(&self, loaded: &Loaded, event_type: &str, major: u32) {
        if loaded.valid(event_type, major) {
            self.changes.send_modify(|generation| *generation += 1);
        }
    }

    fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the payload of `event` is, by the schema of its type and major. With `checked` it is found out once, whoever
    /// asks first; but again by schemas that were loaded since.
    pub(crate) fn check(&self, checked: Option<&Checked>, event: &Envelope) -> Validity {
        let loaded = self.current();
        let Some(Checked(shared)) = checked else { return self.find(&loaded, event) };
        let major = event.schema_version;
        let shared = shared.get_or_init(|| {
            let validity = self.find(&loaded, event);
            ByThese { loaded: Arc::clone(&loaded), major, validity }
        });
        if shared.major == major && Arc::ptr_eq(&shared.loaded, &loaded) {
            shared.validity.clone()
        } else {
            self.find(&loaded, event)
        }
    }

    fn find(&self, loaded: &Loaded, event: &Envelope) -> Validity {
        let (event_type, major) = (event.event_type.as_str(), event.schema_version);
        match loaded.validators.check(event_type, major, &event.payload) {
            Verdict::Valid => {
                self.valid(loaded, event_type, major);
                Validity::Valid
            }
            Verdict::Undeclared(members) if self.undeclared == UndeclaredMembers::Count => {
                self.valid(loaded, event_type, major);
                loaded.tell(event_type, major, &members);
                Validity::Valid
            }
            Verdict::Undeclared(members) => {
                loaded.violated(event, &members).unwrap_or(Validity::Refused(members))
            }
            Verdict::Invalid(violations) => {
                loaded.violated(event, &violations).unwrap_or(Validity::Invalid(violations))
            }
            Verdict::Unknown { known_majors } => Validity::Unknown { known_majors },
            Verdict::Unreadable(why) => Validity::Unreadable(why),
        }
    }
}

impl Loaded {
    fn new(registry: &Registry) -> Result<Self, CompileErrors> {
        let validators = Validators::compile(registry)?;
        let mut newest: HashMap<String, BTreeMap<u32, Fingerprint>> = HashMap::new();
        for file in registry.newest_of_each() {
            newest.entry(file.event_type.to_string()).or_default().insert(file.major, file.fingerprint);
        }
        let removed = registry.event_types().filter(|of| registry.tombstone(of.as_str()).is_some());
        let removed = removed.map(ToString::to_string).collect();
        Ok(Self { digest: Some(registry.digest()), validators, newest, removed, ..Self::default() })
    }

    /// Notes a valid payload; true = its schema was in doubt until now.
    fn valid(&self, event_type: &str, major: u32) -> bool {
        let trusted = self.doubts.valid(event_type, major);
        if trusted {
            telemetry::schemas_in_doubt(self.doubts.in_doubt());
            tracing::info!(event_type, major, "a payload was valid: its schema is no longer in doubt");
        }
        trusted
    }

    /// Counts a violation; tells if the event must wait.
    fn violated(&self, event: &Envelope, what: &impl fmt::Display) -> Option<Validity> {
        let (event_type, major) = (event.event_type.as_str(), event.schema_version);
        let Fault::Schema { news } = self.doubts.violated(event_type, major, event.id) else { return None };
        if news {
            telemetry::schemas_in_doubt(self.doubts.in_doubt());
            tracing::error!(
                event_type,
                major,
                violation = %what,
                "{IN_A_ROW} events in a row violate their schema, and none was valid: further ones wait. If the schema is \
                 wrong, correct its file; if the producer is, stop it"
            );
        }
        Some(Validity::InDoubt(format!(
            "{what}; {IN_A_ROW} events of its type and major in a row violated the schema before it, so this one waits: \
             correct the schema or the producer"
        )))
    }

    /// Counts members that the schema does not declare; the first of each type and major are named.
    fn tell(&self, event_type: &str, major: u32, members: &Undeclared) {
        telemetry::undeclared(members.count());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(&(event_type.to_owned(), major)) {
            told.insert((event_type.to_owned(), major));
            tracing::warn!(
                event_type,
                major,
                "an event was delivered though {members}: the producer may be a minor ahead of this relay's registry; \
                 further ones are only counted"
            );
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
        let check =
            |major, payload| schemas.check(Some(&checked), &Envelope::example("a.changed", major, payload));
        assert_eq!(check(1, "{}"), Validity::Valid);
        assert_eq!(check(1, "nonsense"), Validity::Valid, "the payload is not looked at again");
        assert!(matches!(check(2, "{}"), Validity::Unknown { .. }));

        write(1, r#", "required": ["n"]"#);
        assert!(schemas.reload().unwrap());
        assert!(matches!(check(1, "{}"), Validity::Invalid(_)), "an old verdict does not count");
        fs::remove_dir_all(&folder).unwrap();
    }
}
