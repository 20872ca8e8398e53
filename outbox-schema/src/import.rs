//! A foreign schema as a file of the registry: draft-07 or 2020-12 in, one self-contained 2020-12 document out.
//!
//! What a keyword means is kept, or the keyword is refused with its pointer. Draft-07 ignores what it does not know and
//! what stands beside a `$ref`; such keywords are left out and listed.

mod reference;

use std::fmt;

use jsonschema::{Draft, ValidationOptions};
use serde_json::{Map, Value};

use self::reference::{Definitions, step_into};
use crate::document::{self, DIALECT, Place, is_annotation, join, names_type, place, sorted};
use crate::formats::{options, with_integers};
use crate::violation::{clip, compile_text};

/// What `$schema` of a draft-07 document says, up to scheme and empty fragment.
const DRAFT_07: &str = "//json-schema.org/draft-07/schema";

/// An imported schema.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Imported {
    /// A document that the registry takes.
    pub schema: Value,
    /// Pointers into the source of keywords that mean nothing in its dialect and were left out.
    pub ignored: Vec<String>,
}

/// Why a schema cannot be imported: everything at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError(Vec<Refusal>);

impl ImportError {
    /// What stands in the way, at least one.
    #[must_use]
    pub fn refusals(&self) -> &[Refusal] {
        &self.0
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the schema cannot be imported:")?;
        self.0.iter().try_for_each(|refusal| write!(f, "\n  `{}`: {}", refusal.pointer, refusal.reason))
    }
}

impl std::error::Error for ImportError {}

/// One thing that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The keyword, from the root of the source; of [`RefusalReason::Schema`], from the root of the result.
    pub pointer: String,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a keyword cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefusalReason {
    /// There is nothing at the pointer, or no schema.
    #[error("no schema is here; give the pointer of one, such as /definitions/order")]
    NotASchema,
    /// The source does not say which dialect it is of, or is of another one.
    #[error("must name draft-07 or 2020-12; correct `$schema`, or convert the schema first")]
    Dialect,
    /// The schema does not describe JSON objects.
    #[error("an event's payload is a JSON object; import the schema of an object")]
    NotAnObject,
    /// A keyword that the registry does not take, or that the source's dialect does not have.
    #[error("this keyword is not of the source's dialect, or not supported; express it otherwise")]
    Keyword,
    /// The value is of another kind than the dialect says.
    #[error("this form of the keyword is not of the source's dialect; write it as the dialect does")]
    Form,
    /// A reference that leaves the document.
    #[error("`{0}` is outside of this file; bundle the schemas into one file first")]
    External(String),
    /// A reference to nothing, or to something that is no schema.
    #[error("no schema is at `{0}`; correct the reference")]
    Dead(String),
    /// A format that nothing here can check.
    #[error("format `{0}` is not known, so nothing would check it; use `pattern`, or remove it")]
    Format(String),
    /// The result is not one that the registry takes or a validator compiles.
    #[error("{0}")]
    Schema(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Draft07,
    Draft202012,
}

/// Makes one document of the registry out of the schema at `pointer` of `document`; `""` is the whole of it.
///
/// ```
/// use outbox_schema::import::import;
/// use serde_json::json;
///
/// let foreign = json!({
///     "$schema": "http://json-schema.org/draft-07/schema#",
///     "definitions": {
///         "order": {"type": "object", "properties": {"id": {"$ref": "#/definitions/id"}}},
///         "id": {"type": "integer"},
///         "unused": {"type": "string"},
///     },
/// });
/// let imported = import(&foreign, "/definitions/order")?;
/// assert_eq!(imported.schema, json!({
///     "$schema": "https://json-schema.org/draft/2020-12/schema",
///     "$defs": {"id": {"type": "integer"}},
///     "type": "object",
///     "properties": {"id": {"$ref": "#/$defs/id"}},
/// }));
/// # Ok::<(), outbox_schema::import::ImportError>(())
/// ```
///
/// # Errors
/// [`ImportError`] with every keyword that stands in the way.
pub fn import(document: &Value, pointer: &str) -> Result<Imported, ImportError> {
    let dialect = dialect(document).map_err(|refusal| ImportError(vec![refusal]))?;
    let Some(entry) = step_into(document, pointer, dialect).and_then(Value::as_object) else {
        let pointer = if pointer.is_empty() { "/" } else { pointer }.to_owned();
        return Err(ImportError(vec![Refusal { pointer, reason: RefusalReason::NotASchema }]));
    };
    let mut import = Import {
        dialect,
        definitions: Definitions::new(document, pointer),
        options: options(),
        refused: Vec::new(),
        ignored: Vec::new(),
    };
    if entry.get("type").is_some_and(|kind| !names_type(kind, "object")) {
        import.refuse(join(pointer, "type"), RefusalReason::NotAnObject);
    }
    let mut root = import.object(entry, pointer);
    let mut definitions = Map::new();
    while let Some((name, schema, at)) = import.definitions.next() {
        let schema = import.schema(schema, &at);
        definitions.insert(name, schema);
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), Value::Object(definitions));
    }
    root.insert("$schema".to_owned(), Value::from(DIALECT));
    let schema = document::tidy(&Value::Object(root), true);
    if import.refused.is_empty() {
        import.check(&schema);
    }
    let Import { refused, mut ignored, .. } = import;
    ignored.sort();
    if refused.is_empty() { Ok(Imported { schema, ignored }) } else { Err(ImportError(refused)) }
}

fn dialect(document: &Value) -> Result<Dialect, Refusal> {
    let said = document.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let said = said.strip_suffix('#').unwrap_or(said);
    if said == DIALECT {
        return Ok(Dialect::Draft202012);
    }
    // Both schemes are in use.
    if said.strip_prefix("http:").or_else(|| said.strip_prefix("https:")) == Some(DRAFT_07) {
        return Ok(Dialect::Draft07);
    }
    Err(Refusal { pointer: "/$schema".to_owned(), reason: RefusalReason::Dialect })
}

struct Import<'a> {
    dialect: Dialect,
    definitions: Definitions<'a>,
    options: ValidationOptions<'static>,
    refused: Vec<Refusal>,
    ignored: Vec<String>,
}

impl<'a> Import<'a> {
    fn refuse(&mut self, pointer: String, reason: RefusalReason) {
        self.refused.push(Refusal { pointer, reason });
    }

    fn schema(&mut self, schema: &'a Value, at: &str) -> Value {
        match schema {
            Value::Object(object) => Value::Object(self.object(object, at)),
            Value::Bool(_) => schema.clone(),
            _ => {
                self.refuse(at.to_owned(), RefusalReason::Form);
                Value::Bool(true)
            }
        }
    }

    fn object(&mut self, object: &'a Map<String, Value>, at: &str) -> Map<String, Value> {
        let alone = self.dialect == Dialect::Draft07 && object.contains_key("$ref");
        let mut made = Map::new();
        for (keyword, value) in sorted(object) {
            let below = join(at, keyword);
            let says_nothing = is_annotation(keyword) || keyword == "$ref" || keyword == "$id";
            if alone && !says_nothing && !matches!(keyword.as_str(), "definitions" | "$defs") {
                self.ignored.push(below);
                continue;
            }
            self.keyword(keyword, value, object, &below, &mut made);
        }
        made
    }

    /// Adds what a keyword means to `made`.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &'a Value,
        object: &'a Map<String, Value>,
        at: &str,
        made: &mut Map<String, Value>,
    ) {
        let draft07 = self.dialect == Dialect::Draft07;
        match keyword {
            // What is used of these is pulled in by reference.
            "definitions" | "$defs" => {}
            "$schema" => {
                let same = dialect(&Value::Object(object.clone())) == Ok(self.dialect);
                if !same {
                    self.refuse(at.to_owned(), RefusalReason::Dialect);
                }
            }
            // At the root it names the document; below, it would change what references mean.
            "$id" if at == "/$id" => {}
            "$ref" => match self.definitions.reference(value, self.dialect) {
                Ok(target) => {
                    made.insert("$ref".to_owned(), Value::from(target));
                }
                Err(reason) => self.refuse(at.to_owned(), reason),
            },
            "items" if draft07 && value.is_array() => {
                let slots = self.list(value, at);
                made.insert("prefixItems".to_owned(), slots);
            }
            "additionalItems" if draft07 => {
                if object.get("items").is_some_and(Value::is_array) {
                    let rest = self.schema(value, at);
                    made.insert("items".to_owned(), rest);
                } else {
                    self.ignored.push(at.to_owned());
                }
            }
            "dependencies" if draft07 => self.dependencies(value, at, made),
            "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                self.refuse(at.to_owned(), RefusalReason::Form);
            }
            "required" if !value.is_array() => self.refuse(at.to_owned(), RefusalReason::Form),
            "format" => self.format(value, at, made),
            _ if draft07 && NOT_IN_DRAFT_07.contains(&keyword) || ELSEWHERE.contains(&keyword) => {
                self.refuse(at.to_owned(), RefusalReason::Keyword);
            }
            _ => {
                let value = match place(keyword) {
                    Place::Schema => self.schema(value, at),
                    Place::List => self.list(value, at),
                    Place::Named => self.named(value, at),
                    Place::Data if is_annotation(keyword) || DATA.contains(&keyword) => value.clone(),
                    Place::Data => return self.ignored.push(at.to_owned()),
                };
                made.insert(keyword.to_owned(), value);
            }
        }
    }

    fn list(&mut self, value: &'a Value, at: &str) -> Value {
        let Value::Array(list) = value else {
            self.refuse(at.to_owned(), RefusalReason::Form);
            return Value::Null;
        };
        list.iter().enumerate().map(|(i, schema)| self.schema(schema, &join(at, i))).collect()
    }

    fn named(&mut self, value: &'a Value, at: &str) -> Value {
        let Value::Object(named) = value else {
            self.refuse(at.to_owned(), RefusalReason::Form);
            return Value::Null;
        };
        sorted(named)
            .into_iter()
            .map(|(name, schema)| (name.clone(), self.schema(schema, &join(at, name))))
            .collect()
    }

    /// One keyword of draft-07 that became two.
    fn dependencies(&mut self, value: &'a Value, at: &str, made: &mut Map<String, Value>) {
        let Value::Object(named) = value else { return self.refuse(at.to_owned(), RefusalReason::Form) };
        let (mut required, mut schemas) = (Map::new(), Map::new());
        for (name, value) in sorted(named) {
            if value.is_array() {
                required.insert(name.clone(), value.clone());
            } else {
                let schema = self.schema(value, &join(at, name));
                schemas.insert(name.clone(), schema);
            }
        }
        for (keyword, members) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
            if !members.is_empty() {
                made.insert(keyword.to_owned(), Value::Object(members));
            }
        }
    }

    fn format(&mut self, value: &Value, at: &str, made: &mut Map<String, Value>) {
        match value.as_str() {
            Some(format) if self.options.is_known_format(Draft::Draft202012, format) => {
                made.insert("format".to_owned(), value.clone());
            }
            Some(format) => self.refuse(at.to_owned(), RefusalReason::Format(clip(format, 60))),
            None => self.refuse(at.to_owned(), RefusalReason::Form),
        }
    }

    /// What only the whole result can show: alternatives without end, patterns that do not compile.
    fn check(&mut self, schema: &Value) {
        for problem in document::problems(schema) {
            self.refuse("/".to_owned(), RefusalReason::Schema(problem.to_string()));
        }
        if !self.refused.is_empty() {
            return;
        }
        if let Err(error) = self.options.build(&with_integers(schema)) {
            let text = format!("{}; correct the schema", compile_text(&error));
            self.refuse(error.instance_path().to_string(), RefusalReason::Schema(text));
        }
    }
}

/// Keywords of both dialects whose value is no schema.
const DATA: [&str; 21] = [
    document::OPEN_ENUM,
    "type",
    "enum",
    "const",
    "default",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "contentEncoding",
    "contentMediaType",
];

/// Keywords that draft-07 does not know: whoever wrote one meant a newer dialect than `$schema` says.
const NOT_IN_DRAFT_07: [&str; 9] = [
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "minContains",
    "maxContains",
    "contentSchema",
    "$anchor",
];

/// Keywords that change what is valid in a dialect that is not read here, or how references resolve.
const ELSEWHERE: [&str; 13] = [
    "$id",
    "id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
    "nullable",
    "discriminator",
    "extends",
    "disallow",
    "divisibleBy",
];

#[cfg(test)]
mod tests;
