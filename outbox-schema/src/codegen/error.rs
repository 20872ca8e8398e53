//! Why no code can be written, and what to do.

use std::fmt;

/// Why no code can be written. Each text ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// The consumer's name does not make names of types.
    #[error("`{0}` is not a consumer name; use 1 to 63 of a-z, 0-9, `_` and `-`, and begin with a letter")]
    Consumer(String),
    /// Nothing is pinned.
    #[error("no event is pinned, so there is nothing to generate; pin an event type to a major")]
    NoPins,
    /// The registry has no such event type.
    #[error("the registry has no event type `{event_type}`; {}", nearest(known))]
    UnknownType {
        /// The pinned event type.
        event_type: String,
        /// The event types of the registry.
        known: Vec<String>,
    },
    /// The registry has no such major.
    #[error(
        "the registry has no major {major} of `{event_type}`; pin one of {majors:?}, or bring your copy of the registry up \
         to date"
    )]
    UnknownMajor {
        /// The pinned event type.
        event_type: String,
        /// The pinned major.
        major: u32,
        /// The majors that are there.
        majors: Vec<u32>,
    },
    /// A part of a schema has no type.
    #[error(
        "{event_type} v{major}, `{pointer}`: {problem}; or give the type yourself: types = {{ \"{event_type}/v{major}#{schema}\" \
         = \"...\" }}"
    )]
    Schema {
        /// The pinned event type.
        event_type: String,
        /// The pinned major.
        major: u32,
        /// The schema without a type, as a JSON pointer.
        schema: String,
        /// Where in it the reason is.
        pointer: String,
        /// What it is.
        problem: SchemaWithoutType,
    },
    /// A type was given for a place that no schema has.
    #[error(
        "a type is given for `{key}`, where no pinned schema has a type; write \"<event type>/v<major>#<pointer>\", or remove \
         it"
    )]
    GivenInVain {
        /// The place.
        key: String,
    },
}

/// The end of a sentence that names what is there.
fn nearest(known: &[String]) -> String {
    match known {
        [] => "it is empty: copy the producer's folder".to_owned(),
        known => format!("it has {}", known.join(", ")),
    }
}

/// Why a part of a schema has no type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaWithoutType {
    /// A keyword that says something about types that no type can say.
    Keyword(String),
    /// A format that is not known, or not for this type.
    Format(String),
    /// A `type` that is not known.
    Type(String),
    /// Constraints without a type.
    NoType,
    /// No value is valid.
    Never,
    /// Literals of different types, or literals that are lists or objects.
    Literals,
    /// A reference that leads in a circle.
    Circle,
    /// The alternatives cannot be told apart.
    Alternatives,
    /// A list whose first elements have types of their own, and that may be longer or shorter.
    OpenTuple,
    /// A list with more than 12 elements that have types of their own.
    LongTuple,
    /// Members by pattern beside members by name.
    Patterns,
    /// Parts of an `allOf` that are no objects.
    Parts,
    /// A member that is in two parts of one object.
    Overlap(String),
    /// A default that does not fit its type, or that cannot be written in the generated language.
    Default,
    /// 128-bit integers or maps with integer keys in a place that must be read twice.
    Buffered(&'static str),
}

impl fmt::Display for SchemaWithoutType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => write!(f, "the keyword `{keyword}` has no counterpart in a type; take it out"),
            Self::Format(format) => write!(f, "the format `{format}` is none of the type's; use a known one or none"),
            Self::Type(name) => write!(f, "the type `{name}` is not known; use one of JSON Schema's"),
            Self::NoType => f.write_str("constraints without a `type`; add one, or use `true` for any value"),
            Self::Never => f.write_str("no value is valid here; take the member out"),
            Self::Literals => f.write_str("literals that are not all strings, all integers or all booleans; use one type"),
            Self::Circle => f.write_str("the reference leads back to itself; let it lead to a schema"),
            Self::Alternatives => f.write_str(
                "the alternatives cannot be told apart; give them a tag, or use `anyOf` where the first match counts",
            ),
            Self::OpenTuple => {
                f.write_str("a tuple without a fixed length; set `minItems` and `maxItems` to the number of `prefixItems`")
            }
            Self::LongTuple => f.write_str("a tuple of more than 12 elements; give them names, as members of an object"),
            Self::Patterns => f.write_str("members by pattern beside others; put them into a member of their own"),
            Self::Parts => f.write_str("an `allOf` of other things than objects; write what they come to together"),
            Self::Overlap(member) => {
                write!(f, "the member `{member}` is in two parts of one object; leave it in one of them")
            }
            Self::Default => f.write_str("a `default` that cannot be written as a value of the type; correct it"),
            Self::Buffered(what) => write!(
                f,
                "{what} inside an alternative, which must be read twice, cannot be read; put them outside of it, or into a \
                 string"
            ),
        }
    }
}
