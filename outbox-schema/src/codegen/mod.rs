//! Code for consumers: from the registry and a consumer's pins to types, one handler with a method per pin, and the
//! dispatch between them. Text in, text out.
//!
//! ```
//! use outbox_schema::Registry;
//! use outbox_schema::codegen::{self, CodegenError, Options};
//!
//! let options = Options::new("crm").pin("entity.customer.updated", 2);
//! let refused = codegen::rust(&Registry::empty(), &options).unwrap_err();
//! assert!(matches!(&refused[..], [CodegenError::UnknownType { .. }]));
//! ```
//!
//! A schema becomes types in three steps: `lower` makes names and types of it and refuses what has no type, `rust` and
//! `typescript` make text of those, and [`difference`] compares a file with what it should be.

mod alternatives;
mod buffered;
mod default;
mod dispatch;
mod error;
mod header;
mod lower;
mod model;
mod names;
mod parts;
mod rust;
#[cfg(test)]
mod tests;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};

use self::model::{Model, PinModel};
use self::names::{identifiers, pascal, snake};
use crate::registry::{Registry, SchemaFile};

pub use self::error::{CodegenError, SchemaWithoutType};
pub use self::header::{Difference, PinChange, difference};

/// What is generated, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The consumer's name: of its handler, and in messages.
    pub consumer: String,
    /// The major that the consumer reads, by event type.
    pub pins: BTreeMap<String, u32>,
    /// Whose transactions the handler gets. Rust only.
    pub database: Database,
    /// What dates and times become. Rust only.
    pub time: Time,
    /// What decimal numbers become. Rust only.
    pub decimal: Decimal,
    /// Whether the types can also be written: for tests of a consumer. Rust only.
    pub serialize: bool,
    /// Types for places in schemas, as `<event type>/v<major>#<pointer>`: the way out where a schema has no type, or not
    /// the wanted one. Taken as they are; a member with such a type and a default is an `Option`.
    pub types: BTreeMap<String, String>,
    /// The command in the file's header, to be run when something changed.
    pub command: String,
}

impl Options {
    /// Options without pins: PostgreSQL, times and decimals as text, types that can only be read.
    #[must_use]
    pub fn new(consumer: impl Into<String>) -> Self {
        Self {
            consumer: consumer.into(),
            pins: BTreeMap::new(),
            database: Database::default(),
            time: Time::default(),
            decimal: Decimal::default(),
            serialize: false,
            types: BTreeMap::new(),
            command: "outbox codegen".to_owned(),
        }
    }

    /// Pins an event type to a major.
    #[must_use]
    pub fn pin(mut self, event_type: impl Into<String>, major: u32) -> Self {
        self.pins.insert(event_type.into(), major);
        self
    }
}

/// Whose transactions a handler gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Database {
    /// `sqlx::Postgres`.
    #[default]
    Postgres,
    /// `sqlx::Sqlite`.
    Sqlite,
}

/// What dates and times become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Time {
    /// `String`.
    #[default]
    Text,
    /// Types of `chrono`, with its feature `serde`.
    Chrono,
}

/// What decimal numbers become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decimal {
    /// The string or number as it came.
    #[default]
    Text,
    /// `rust_decimal::Decimal`, with its feature `serde`.
    RustDecimal,
}

/// Writes the Rust file of a consumer: clean under rustfmt's default settings.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn rust(registry: &Registry, options: &Options) -> Result<String, Vec<CodegenError>> {
    let decimal = options.decimal == Decimal::RustDecimal;
    let model = model(registry, options, decimal)?;
    rust::file(&model, options)
}

/// Writes the TypeScript file of a consumer: clean under `tsc --strict`, with no dependency but Node's own modules.
///
/// # Errors
/// Everything that is wrong, at once.
pub fn typescript(registry: &Registry, options: &Options) -> Result<String, Vec<CodegenError>> {
    let model = model(registry, options, false)?;
    Ok(typescript::file(&model, options))
}

fn model(registry: &Registry, options: &Options, decimal: bool) -> Result<Model, Vec<CodegenError>> {
    let mut errors = Vec::new();
    if !is_consumer_name(&options.consumer) {
        errors.push(CodegenError::Consumer(options.consumer.clone()));
    }
    if options.pins.is_empty() {
        errors.push(CodegenError::NoPins);
    }
    let mut files = Vec::new();
    for (event_type, &major) in &options.pins {
        match registry.newest(event_type, major) {
            Some(file) => files.push(file),
            None => errors.push(unknown(registry, event_type, major)),
        }
    }
    let mut pins = Vec::new();
    let mut used = BTreeSet::new();
    for (file, name) in files.iter().zip(module_names(&files)) {
        let document = format!("{}/v{}", file.event_type, file.major);
        let given = lower::Given { types: &options.types, document: &document, decimal };
        match lower::lower(&file.schema, payload_name(file), given) {
            Ok((types, given)) => {
                used.extend(given);
                let (event_type, fingerprint) = (file.event_type.clone(), file.fingerprint);
                pins.push(PinModel {
                    event_type,
                    major: file.major,
                    minor: file.minor,
                    fingerprint,
                    name,
                    types,
                });
            }
            Err(found) => errors.extend(found.into_iter().map(|found| schema_error(file, found))),
        }
    }
    // A place below a refused one was not looked at.
    if errors.is_empty() {
        let vain = options.types.keys().filter(|key| !used.contains(*key));
        errors.extend(vain.map(|key| CodegenError::GivenInVain { key: key.clone() }));
    }
    if errors.is_empty() { Ok(Model { consumer: options.consumer.clone(), pins }) } else { Err(errors) }
}

fn schema_error(file: &SchemaFile, found: lower::Found) -> CodegenError {
    CodegenError::Schema {
        event_type: file.event_type.to_string(),
        major: file.major,
        schema: found.schema,
        pointer: found.pointer,
        problem: found.problem,
    }
}

fn is_consumer_name(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

fn unknown(registry: &Registry, event_type: &str, major: u32) -> CodegenError {
    let majors: Vec<u32> = registry.majors(event_type).collect();
    let event_type = event_type.to_owned();
    if majors.is_empty() {
        let known = registry.event_types().map(ToString::to_string).collect();
        CodegenError::UnknownType { event_type, known }
    } else {
        CodegenError::UnknownMajor { event_type, major, majors }
    }
}

/// `entity_customer_updated_v2`. Two event types of which both would be called the same have numbers, in their order.
fn module_names(files: &[&SchemaFile]) -> Vec<String> {
    let names: Vec<String> =
        files.iter().map(|file| format!("{}.v{}", file.event_type, file.major)).collect();
    identifiers(names.iter().map(String::as_str), snake, names::Scope::default()).0
}

/// `entity.customer.updated` is a `CustomerUpdated`: the module's name has the rest.
fn payload_name(file: &SchemaFile) -> String {
    let event_type = &file.event_type;
    pascal(&format!("{}.{}", event_type.kind().unwrap_or(event_type.object()), event_type.verb()))
}
