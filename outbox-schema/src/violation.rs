//! What a validator found, told without the payload's values: from the schema's side, with pointers.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use crate::document::join;
use crate::formats::INTEGER;

/// How many violations of one payload are kept; the rest is counted.
pub const MAX_VIOLATIONS: usize = 10;

/// What is wrong with a payload: at least one violation, at most [`MAX_VIOLATIONS`] of them in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations {
    list: Vec<Violation>,
    more: usize,
}

impl Violations {
    /// Explains what a validator found.
    pub(crate) fn of<'e>(errors: impl Iterator<Item = ValidationError<'e>>) -> Self {
        let mut violations = Self { list: Vec::new(), more: 0 };
        errors.for_each(|error| violations.explain(&error, 0));
        violations
    }

    /// The violations that were kept.
    #[must_use]
    pub fn as_slice(&self) -> &[Violation] {
        &self.list
    }

    /// How many more there are.
    #[must_use]
    pub fn more(&self) -> usize {
        self.more
    }

    /// Adds what `error` means. Of alternatives, the one that the payload means is explained, if that can be told.
    fn explain(&mut self, error: &ValidationError<'_>, nesting: usize) {
        if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
            error.kind()
            && nesting < 16
            && let Some(branch) = meant_branch(error, context)
            && !branch.is_empty()
        {
            branch.iter().for_each(|cause| self.explain(cause, nesting + 1));
            return;
        }
        if let ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } =
            error.kind()
            && let Some((pointer, known)) = unknown_tag(error, context)
            && self.list.len() < MAX_VIOLATIONS
        {
            let text = clip(&one_of(&Value::Array(known)), 300);
            self.list.push(Violation { pointer, keyword: keyword_path(error), text });
            return;
        }
        let pointer = error.instance_path().to_string();
        // What is no integer at all, or outside `minimum` and `maximum`, has been told already.
        if error.schema_path().as_str().ends_with(INTEGER) && self.list.iter().any(|v| v.pointer == pointer) {
            return;
        }
        if self.list.len() == MAX_VIOLATIONS {
            self.more += 1;
            return;
        }
        self.list.push(Violation {
            pointer,
            keyword: keyword_path(error),
            text: clip(&text_of(error.kind()), 300),
        });
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.list.iter().enumerate() {
            write!(f, "{}{violation}", if i == 0 { "" } else { "; " })?;
        }
        if self.more > 0 {
            write!(f, "; and {} more", self.more)?;
        }
        Ok(())
    }
}

/// Members of a payload that its schema does not declare: where they are, at most [`MAX_VIOLATIONS`] of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared {
    pointers: Vec<String>,
    more: usize,
}

impl Undeclared {
    /// From what the closed form of the schema refuses.
    pub(crate) fn of<'e>(errors: impl Iterator<Item = ValidationError<'e>>) -> Self {
        let mut undeclared = Self { pointers: Vec::new(), more: 0 };
        errors.for_each(|error| undeclared.add(&error, 0));
        undeclared
    }

    fn add(&mut self, error: &ValidationError<'_>, nesting: usize) {
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    let pointer = join(&error.instance_path().to_string(), name);
                    if self.pointers.contains(&pointer) {
                        continue;
                    }
                    if self.pointers.len() == MAX_VIOLATIONS {
                        self.more += 1;
                    } else {
                        self.pointers.push(pointer);
                    }
                }
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
                if nesting < 16 =>
            {
                let branch = meant_branch(error, context).unwrap_or_default();
                branch.iter().for_each(|cause| self.add(cause, nesting + 1));
            }
            _ => {}
        }
    }

    /// Where the members are, as JSON pointers into the payload. Empty if it cannot be told which alternative of the
    /// schema the payload means.
    #[must_use]
    pub fn pointers(&self) -> &[String] {
        &self.pointers
    }

    /// How many members there are, at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        (self.pointers.len() + self.more).max(1)
    }
}

impl fmt::Display for Undeclared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it has members that the schema does not declare")?;
        for (i, pointer) in self.pointers.iter().enumerate() {
            write!(f, "{} `{}`", if i == 0 { ":" } else { "," }, clip(pointer, 200))?;
        }
        if self.more > 0 {
            write!(f, ", and {} more", self.more)?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a payload. Says nothing of the payload's values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Where in the payload, as a JSON pointer.
    pub pointer: String,
    /// Which keyword of the schema, as a JSON pointer.
    pub keyword: String,
    /// What the schema expects there.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "payload: {}", self.text),
            pointer => write!(f, "`{}`: {}", clip(pointer, 200), self.text),
        }
    }
}

/// The branch that a payload means, though it does not fit: the only one that neither the type nor a tag rules out.
fn meant_branch<'e>(
    error: &ValidationError<'_>,
    branches: &'e [Vec<ValidationError<'static>>],
) -> Option<&'e [ValidationError<'static>]> {
    let here = error.instance_path().to_string();
    let is_here = |cause: &ValidationError<'_>| cause.instance_path().to_string() == here;
    // A tag is a constant in the value itself or directly below it.
    let is_tag = |cause: &ValidationError<'_>| {
        let pointer = cause.instance_path().to_string();
        pointer.strip_prefix(&here).is_some_and(|below| below.matches('/').count() <= 1)
    };
    let ruled_out = |cause: &ValidationError<'_>| match cause.kind() {
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => is_tag(cause),
        ValidationErrorKind::Type { .. } => is_here(cause),
        _ => false,
    };
    let missing = |cause: &ValidationError<'_>| {
        matches!(cause.kind(), ValidationErrorKind::Required { .. }) && is_here(cause)
    };
    let left: Vec<_> = branches.iter().filter(|causes| !causes.iter().any(ruled_out)).collect();
    match left.as_slice() {
        [one] => Some(one.as_slice()),
        [] => None,
        several => {
            // Externally tagged: the branches that miss their own name are out.
            let mut present = several.iter().filter(|causes| !causes.iter().any(missing));
            match (present.next(), present.next()) {
                (Some(one), None) => Some(one.as_slice()),
                _ => None,
            }
        }
    }
}

/// The tag that rules every branch out, and the values that the branches know: it is a new variant, or a wrong one.
fn unknown_tag(
    error: &ValidationError<'_>,
    branches: &[Vec<ValidationError<'static>>],
) -> Option<(String, Vec<Value>)> {
    let here = error.instance_path().to_string();
    let tags = |causes: &[ValidationError<'static>]| -> Vec<(String, Value)> {
        let constants = causes.iter().filter_map(|cause| match cause.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                Some((cause.instance_path().to_string(), (**expected_value).clone()))
            }
            _ => None,
        });
        constants
            .filter(|(pointer, _)| {
                pointer.strip_prefix(&here).is_some_and(|below| below.matches('/').count() == 1)
            })
            .collect()
    };
    let (first, others) = branches.split_first()?;
    tags(first).into_iter().find_map(|(pointer, value)| {
        let mut known = vec![value];
        for causes in others {
            known.push(tags(causes).into_iter().find(|(place, _)| *place == pointer)?.1);
        }
        Some((pointer, known))
    })
}

fn keyword_path(error: &ValidationError<'_>) -> String {
    let path = error.schema_path().to_string();
    match path.strip_suffix(INTEGER) {
        Some(schema) => format!("{schema}type"),
        None => path,
    }
}

/// What the schema expects, from the schema's side alone.
fn text_of(kind: &ValidationErrorKind) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::AdditionalItems { limit } => format!("more than {limit} items"),
        Kind::UnevaluatedItems { .. } => "items that the schema does not allow".to_owned(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            not_allowed(unexpected)
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            format!("none of the {} allowed forms", context.len())
        }
        Kind::OneOfMultipleValid { context } => {
            format!("more than one of the {} forms, of which exactly one is allowed", context.len())
        }
        Kind::Constant { expected_value } => format!("expected the constant {}", short(expected_value)),
        Kind::Contains => "too few or too many items of the form that is asked for".to_owned(),
        Kind::ContentEncoding { content_encoding } => format!("not encoded as `{content_encoding}`"),
        Kind::ContentMediaType { content_media_type } => {
            format!("not of the media type `{content_media_type}`")
        }
        Kind::FromUtf8 { .. } => "not UTF-8 after decoding".to_owned(),
        Kind::Custom { message, .. } => message.clone(),
        Kind::Enum { options } => one_of(options),
        Kind::ExclusiveMaximum { limit } => format!("not less than {}", short(limit)),
        Kind::ExclusiveMinimum { limit } => format!("not greater than {}", short(limit)),
        Kind::Maximum { limit } => format!("greater than {}", short(limit)),
        Kind::Minimum { limit } => format!("less than {}", short(limit)),
        Kind::MultipleOf { multiple_of } => format!("not a multiple of {multiple_of}"),
        Kind::FalseSchema => "nothing is allowed here".to_owned(),
        Kind::Format { format } => format!("not a valid `{format}`"),
        Kind::MaxItems { limit } => format!("more than {limit} items"),
        Kind::MinItems { limit } => format!("fewer than {limit} items"),
        Kind::MaxLength { limit } => format!("longer than {limit} characters"),
        Kind::MinLength { limit } => format!("shorter than {limit} characters"),
        Kind::MaxProperties { limit } => format!("more than {limit} members"),
        Kind::MinProperties { limit } => format!("fewer than {limit} members"),
        Kind::Not { .. } => "a form that the schema excludes".to_owned(),
        Kind::Pattern { pattern } => format!("does not match the pattern `{pattern}`"),
        Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. } => {
            "the pattern could not be evaluated".to_owned()
        }
        Kind::PropertyNames { error } => format!("a member's name is not allowed: {}", text_of(error.kind())),
        Kind::Required { property } => {
            format!("missing member `{}`", property.as_str().map_or_else(|| short(property), str::to_owned))
        }
        Kind::Type { kind } => format!("wrong type, expected {}", types(kind)),
        Kind::UniqueItems => "items are repeated".to_owned(),
        Kind::Referencing(_) => "a reference of the schema cannot be resolved".to_owned(),
    }
}

/// Why a schema does not compile. A schema holds no payload, so the library's own text, which quotes it, will do.
pub(crate) fn compile_text(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            "not a pattern that runs in linear time (no look-around, no back-references, no huge repeats)"
                .to_owned()
        }
        _ => clip(&error.to_string(), 300),
    }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(only) => only.as_str().to_owned(),
        TypeKind::Multiple(several) => several.iter().map(JsonType::as_str).collect::<Vec<_>>().join(" or "),
    }
}

fn one_of(options: &Value) -> String {
    match options.as_array().map(Vec::as_slice) {
        Some(options) if options.len() <= 8 => {
            let options: Vec<String> = options.iter().map(short).collect();
            format!("not one of the allowed values {}", options.join(", "))
        }
        _ => "not one of the allowed values".to_owned(),
    }
}

/// Names of members are part of a pointer as well, so they may be shown.
fn not_allowed(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{}`", clip(name, 60))).collect();
    let noun = if names.len() == 1 { "member" } else { "members" };
    let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
    format!("{noun} {}{more} not allowed", shown.join(", "))
}

/// A value of the schema.
fn short(value: &Value) -> String {
    clip(&value.to_string(), 60)
}

/// At most `max` characters of a text, on one line.
pub(crate) fn clip(text: &str, max: usize) -> String {
    let mut clipped: String =
        text.chars().take(max).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        clipped.push_str("..");
    }
    clipped
}
