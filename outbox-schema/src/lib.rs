//! Facts about events, for everything else in the outbox toolkit: what they may be called, which schemas are
//! committed, whether a payload is as its schema says, whether a struct still is. No SQL, no network, no async.
//!
//! | feature | brings | needs |
//! |---|---|---|
//! | none | [`EventType`] and the rules for its name | `std` only, for the derive macro |
//! | `registry` | `Registry`: the folder of schemas, safely read; `Fingerprint`: the identity of a schema's meaning | serde, TOML, SHA-256 |
//! | `validate` | `Validators`: payloads against the newest schemas; includes `registry` | a JSON Schema engine |
//! | `compat` | `compat`: what a changed schema breaks, for whom; includes `validate` | git, if there is one |
//! | `drift` | `drift` and `bless`: a struct's schema against the folder, and into it; includes `compat` | as `compat` |
//! | `docs` | `docs` and `asyncapi`: the registry as pages and as an AsyncAPI document; includes `compat` | as `compat` |
//! | `import` | `import`: foreign schemas as files of the registry; includes `validate` | as `validate` |
//! | `codegen` | `codegen`: types and handlers for consumers, in Rust and TypeScript; includes `registry` | nothing more |

#[cfg(feature = "docs")]
pub mod asyncapi;
#[cfg(feature = "drift")]
pub mod bless;
#[cfg(feature = "registry")]
mod branching;
#[cfg(feature = "codegen")]
pub mod codegen;
#[cfg(feature = "compat")]
mod compare;
#[cfg(feature = "compat")]
pub mod compat;
#[cfg(feature = "docs")]
pub mod docs;
#[cfg(feature = "registry")]
mod document;
#[cfg(feature = "drift")]
pub mod drift;
pub mod event_type;
#[cfg(feature = "registry")]
pub mod fingerprint;
#[cfg(feature = "validate")]
mod formats;
#[cfg(feature = "compat")]
mod git;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "registry")]
pub mod registry;
mod tense;
#[cfg(feature = "validate")]
pub mod validate;
#[cfg(feature = "validate")]
mod violation;

#[cfg(feature = "registry")]
pub use document::{SchemaProblem, parse as parse_schema};
pub use event_type::{
    EventType, NameError, ShapeError, TenseError, check_shape, check_tense, derive_name, is_well_formed,
};
#[cfg(feature = "registry")]
pub use fingerprint::{Digest, Fingerprint};
#[cfg(feature = "compat")]
pub use git::GitError;
#[cfg(feature = "registry")]
pub use registry::{
    Compatibility, Override, Problem, Reason, Registry, RegistryError, SchemaFile, Settings, Tombstone,
};
#[cfg(feature = "validate")]
pub use validate::{
    CompileError, CompileErrors, CompileProblem, Undeclared, UndeclaredMembers, Unreadable, Validators,
    Verdict, Violation, Violations,
};
