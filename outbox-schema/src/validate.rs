//! Payloads against the registry: compiled once, in reader form.
//!
//! Reader form is the committed schema as it stands: members that it does not declare pass, since a producer may be a
//! minor ahead; they are told. Two things are stricter than JSON Schema alone, because the Rust types behind the schemas are: a
//! format is asserted (an unknown one does not compile), and an `integer` is written as one, so `1.0` is refused and
//! `int32`, `uint64` and so on are ranges. References are never fetched, and patterns run in linear time.
//!
//! Texts speak of the schema and of where in the payload something is wrong, never of the payload's values.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use jsonschema::{ValidationError, ValidationOptions, Validator};
use serde_json::Value;

use crate::formats::{options, unknown_formats, with_integers};
use crate::registry::Registry;
pub use crate::violation::{MAX_VIOLATIONS, Undeclared, Violation, Violations};
use crate::violation::{clip, compile_text};

mod closed;

/// The deepest payload that can be read, in nested arrays and objects.
pub const MAX_DEPTH: usize = 127;

/// One compiled schema per event type and major: the newest minor.
///
/// ```no_run
/// use outbox_schema::{Registry, Validators, Verdict};
///
/// let validators = Validators::compile(&Registry::open("schemas")?)?;
/// match validators.check("customer.updated", 1, r#"{"customer_id": "7"}"#) {
///     Verdict::Valid => {}
///     Verdict::Undeclared(members) => println!("valid, but {members}"),
///     Verdict::Invalid(violations) => eprintln!("{violations}"),
///     Verdict::Unknown { known_majors } => eprintln!("majors with a schema: {known_majors:?}"),
///     Verdict::Unreadable(reason) => eprintln!("{reason}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Validators {
    /// By event type; the majors ascend. Few majors, so a list is searched faster than a map.
    types: HashMap<String, Vec<(u32, Compiled)>>,
}

/// One schema in both its forms.
#[derive(Debug)]
struct Compiled {
    reader: Validator,
    /// The writer's form, and whether what it accepts needs no second look; absent where it cannot be told.
    closed: Option<(Validator, bool)>,
}

impl Compiled {
    fn new(options: &ValidationOptions<'_>, schema: &Value) -> Result<Self, ValidationError<'static>> {
        let reader = options.build(&with_integers(schema))?;
        let closed = match closed::close(schema) {
            Some(form) => Some((options.build(&with_integers(&form.schema))?, form.alone)),
            None => None,
        };
        Ok(Self { reader, closed })
    }

    fn check(&self, payload: &Value) -> Verdict {
        // Nearly every payload has what is declared and nothing else: one look, if it can be one.
        match &self.closed {
            Some((closed, true)) if closed.is_valid(payload) => Verdict::Valid,
            _ if !self.reader.is_valid(payload) => {
                Verdict::Invalid(Violations::of(self.reader.iter_errors(payload)))
            }
            Some((closed, alone)) if *alone || !closed.is_valid(payload) => {
                Verdict::Undeclared(Undeclared::of(closed.iter_errors(payload)))
            }
            _ => Verdict::Valid,
        }
    }
}

/// What a payload is, measured by the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As its schema says.
    Valid,
    /// As its schema says, and with members that it does not declare: the producer may be a minor ahead.
    Undeclared(Undeclared),
    /// Not as its schema says.
    Invalid(Violations),
    /// The registry has no schema for it.
    Unknown {
        /// The majors of the event type that have a schema, ascending.
        known_majors: Vec<u32>,
    },
    /// It cannot be read as JSON.
    Unreadable(Unreadable),
}

/// What happens to members of a payload that its schema does not declare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UndeclaredMembers {
    /// They pass and are counted: the producer may be a minor ahead of whoever validates.
    #[default]
    Count,
    /// The payload is refused: every producer's schema is committed before it is used.
    Refuse,
}

/// Why a payload cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// It is not JSON.
    #[error("the payload is not JSON (line {line}, column {column}); correct what the producer writes")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It is nested deeper than [`MAX_DEPTH`].
    #[error("the payload is nested deeper than {MAX_DEPTH} levels; make it flatter")]
    TooDeep,
}

impl Validators {
    /// Compiles the newest minor of every major.
    ///
    /// # Errors
    /// Every schema that does not compile, with its path.
    pub fn compile(registry: &Registry) -> Result<Self, CompileErrors> {
        let options = options();
        let mut types: HashMap<String, Vec<(u32, Compiled)>> = HashMap::new();
        let mut errors = Vec::new();
        for file in registry.newest_of_each() {
            let mut add = |problem| errors.push(CompileError { path: file.path.clone(), problem });
            let unknown = unknown_formats(&options, &file.schema);
            if !unknown.is_empty() {
                for (pointer, format) in unknown {
                    add(CompileProblem::UnknownFormat { pointer, format: clip(&format, 60) });
                }
                continue;
            }
            match Compiled::new(&options, &file.schema) {
                Ok(compiled) => {
                    types
                        .entry(file.event_type.as_str().to_owned())
                        .or_default()
                        .push((file.major, compiled));
                }
                Err(error) => add(CompileProblem::Schema {
                    pointer: error.instance_path().to_string(),
                    text: compile_text(&error),
                }),
            }
        }
        if errors.is_empty() { Ok(Self { types }) } else { Err(CompileErrors(errors)) }
    }

    /// Whether `payload`, a JSON text, is as the schema of this event type and major says.
    #[must_use]
    pub fn check(&self, event_type: &str, major: u32, payload: &str) -> Verdict {
        let majors = self.types.get(event_type).map(Vec::as_slice).unwrap_or_default();
        let Some((_, compiled)) = majors.iter().find(|(known, _)| *known == major) else {
            return Verdict::Unknown { known_majors: majors.iter().map(|(known, _)| *known).collect() };
        };
        let payload: Value = match serde_json::from_str(payload) {
            Ok(value) => value,
            Err(_) if depth(payload) > MAX_DEPTH => return Verdict::Unreadable(Unreadable::TooDeep),
            Err(error) => {
                return Verdict::Unreadable(Unreadable::NotJson {
                    line: error.line(),
                    column: error.column(),
                });
            }
        };
        compiled.check(&payload)
    }
}

/// Schemas that do not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileErrors(Vec<CompileError>);

impl CompileErrors {
    /// All of them, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[CompileError] {
        &self.0
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("schemas of the registry cannot be used to check payloads:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {}: {}", error.path.display(), error.problem))
    }
}

impl std::error::Error for CompileErrors {}

/// One schema that does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    /// The schema's file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: CompileProblem,
}

/// Why a schema does not compile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileProblem {
    /// A format that nothing here can check.
    #[error(
        "`{pointer}`: format `{format}` is not known, so nothing would check it; use `pattern`, or remove it"
    )]
    UnknownFormat {
        /// Where in the schema.
        pointer: String,
        /// The format.
        format: String,
    },
    /// Not a valid schema, or a pattern that cannot run in linear time.
    #[error("`{pointer}`: {text}; correct the schema")]
    Schema {
        /// Where in the schema.
        pointer: String,
        /// What is wrong there.
        text: String,
    },
}

/// How deep arrays and objects are nested in a text, read up to any error in it.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests;
