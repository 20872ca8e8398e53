//! The name of an event: `<object>.<verb>` or `<object>.<type>.<verb>`.
//!
//! The derive macro uses this file at compile time, so it needs nothing but `std`. Two strengths of rule live
//! here: [`check_shape`] is the grammar and holds everywhere, [`check_tense`] and [`derive_name`] are English and
//! concern the derive only.

use std::borrow::Borrow;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

pub use crate::tense::{NameError, TenseError, check_tense, derive_name};

/// The longest event type, in bytes.
pub const MAX_LEN: usize = 200;

/// The name of an event, checked: two or three segments of lower snake_case joined by dots.
///
/// ```
/// use outbox_schema::EventType;
///
/// let name = EventType::new("entity.customer.updated")?;
/// assert_eq!((name.object(), name.kind(), name.verb()), ("entity", Some("customer"), "updated"));
/// assert!(EventType::new("Customer.updated").is_err());
/// # Ok::<(), outbox_schema::ShapeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "registry", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "registry", serde(try_from = "String", into = "String"))]
pub struct EventType(String);

impl EventType {
    /// Checks `name` against the grammar.
    ///
    /// # Errors
    /// What [`check_shape`] finds.
    pub fn new(name: impl Into<String>) -> Result<Self, ShapeError> {
        let name = name.into();
        check_shape(&name)?;
        Ok(Self(name))
    }

    /// The whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment: what the event is about.
    #[must_use]
    pub fn object(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }

    /// The middle segment, if there are three: which kind of object.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        let mut segments = self.0.split('.');
        match (segments.next(), segments.next(), segments.next()) {
            (Some(_), Some(kind), Some(_)) => Some(kind),
            _ => None,
        }
    }

    /// The last segment: what happened.
    #[must_use]
    pub fn verb(&self) -> &str {
        verb_of(&self.0)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl AsRef<str> for EventType {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for EventType {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventType {
    type Err = ShapeError;

    fn from_str(name: &str) -> Result<Self, ShapeError> {
        Self::new(name)
    }
}

impl TryFrom<String> for EventType {
    type Error = ShapeError;

    fn try_from(name: String) -> Result<Self, ShapeError> {
        Self::new(name)
    }
}

impl From<EventType> for String {
    fn from(name: EventType) -> Self {
        name.0
    }
}

/// The last segment of a name; the name itself if it has no dot.
pub(crate) fn verb_of(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Why a text is not an event type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// There is no text at all.
    Empty,
    /// The name has more than [`MAX_LEN`] bytes.
    TooLong {
        /// Bytes it has.
        len: usize,
    },
    /// The name has neither two nor three segments.
    SegmentCount {
        /// The name as given.
        name: String,
        /// Segments it has.
        count: usize,
    },
    /// Two dots in a row, or one at an end.
    EmptySegment {
        /// The name as given.
        name: String,
    },
    /// A segment is not lower snake_case.
    BadSegment {
        /// The name as given.
        name: String,
        /// The first segment that is wrong.
        segment: String,
        /// The whole name as it should be written, if that can be told.
        suggestion: Option<String>,
    },
}

impl ShapeError {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Empty | Self::SegmentCount { .. } => {
                "write what changed and what happened to it, as in `customer.updated` or `entity.customer.updated`"
                    .to_owned()
            }
            Self::TooLong { .. } => format!("shorten it to {MAX_LEN} bytes"),
            Self::EmptySegment { .. } => "put a word between the dots, and none at the ends".to_owned(),
            Self::BadSegment { suggestion: Some(name), .. } => format!("write `{name}`"),
            Self::BadSegment { suggestion: None, .. } => {
                "use a-z, then a-z, 0-9 and single underscores, as in `customer.signed_up`".to_owned()
            }
        }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the event type is empty")?,
            Self::TooLong { len } => {
                write!(f, "the event type has {len} bytes, at most {MAX_LEN} are allowed")?;
            }
            Self::SegmentCount { name, count } => {
                let noun = if *count == 1 { "segment" } else { "segments" };
                write!(
                    f,
                    "event type `{}` has {count} {noun}, expected `<object>.<verb>` or `<object>.<type>.<verb>`",
                    name.escape_debug()
                )?;
            }
            Self::EmptySegment { name } => {
                write!(f, "event type `{}` has an empty segment", name.escape_debug())?;
            }
            Self::BadSegment { name, segment, .. } => write!(
                f,
                "segment `{}` of event type `{}` is not lower snake_case",
                segment.escape_debug(),
                name.escape_debug()
            )?,
        }
        write!(f, "\nhelp: {}", self.help())
    }
}

impl Error for ShapeError {}

/// Whether `name` is an event type; the same rules as [`check_shape`], usable in a `const`.
///
/// ```
/// const _: () = assert!(outbox_schema::is_well_formed("customer.updated"));
/// ```
#[must_use]
pub const fn is_well_formed(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_LEN {
        return false;
    }
    let mut segments = 1;
    // What the next byte follows: a letter or digit, or else the start of a segment or an underscore.
    let mut at_start = true;
    let mut after_underscore = false;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'a'..=b'z' => {
                at_start = false;
                after_underscore = false;
            }
            b'0'..=b'9' if !at_start => after_underscore = false,
            b'_' if !at_start && !after_underscore => after_underscore = true,
            b'.' if !at_start && !after_underscore => {
                segments += 1;
                at_start = true;
            }
            _ => return false,
        }
        i += 1;
    }
    !at_start && !after_underscore && (segments == 2 || segments == 3)
}

/// Checks `name` against the grammar and says what is wrong with it.
///
/// # Errors
/// The first rule that `name` breaks.
pub fn check_shape(name: &str) -> Result<(), ShapeError> {
    if is_well_formed(name) {
        return Ok(());
    }
    if name.is_empty() {
        return Err(ShapeError::Empty);
    }
    if name.len() > MAX_LEN {
        return Err(ShapeError::TooLong { len: name.len() });
    }
    let segments: Vec<&str> = name.split('.').collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(ShapeError::EmptySegment { name: name.to_owned() });
    }
    if let Some(segment) = segments.iter().find(|segment| !is_snake(segment)) {
        let fixed = segments.iter().map(|segment| words(segment).join("_")).collect::<Vec<_>>().join(".");
        return Err(ShapeError::BadSegment {
            name: name.to_owned(),
            segment: (*segment).to_owned(),
            suggestion: is_well_formed(&fixed).then_some(fixed),
        });
    }
    Err(ShapeError::SegmentCount { name: name.to_owned(), count: segments.len() })
}

fn is_snake(segment: &str) -> bool {
    // Any one good segment is a name once another stands beside it; the length was looked at before.
    segment
        .split('_')
        .all(|word| !word.is_empty() && word.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9')))
        && segment.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The words of an identifier in any of the usual cases, in lower case: `HTTPRequest2Sent`, `http_request2-sent`.
pub(crate) fn words(identifier: &str) -> Vec<String> {
    let chars: Vec<char> = identifier.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let separator = matches!(c, '_' | '-' | ' ');
        let starts_word = c.is_uppercase()
            && i > 0
            && (!chars[i - 1].is_uppercase() || chars.get(i + 1).is_some_and(|next| next.is_lowercase()));
        if (separator || starts_word) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !separator {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 8] = [
        "customer.updated",
        "entity.customer.updated",
        "a.b",
        "customer.signed_up",
        "oauth2_client.key2_rotated",
        "customer.put_on_hold",
        "a1.b2.c3",
        "customer_has_service.created",
    ];

    #[test]
    fn good_names_pass_and_split() {
        for name in GOOD {
            assert_eq!(check_shape(name), Ok(()), "{name}");
            assert!(is_well_formed(name), "{name}");
            assert_eq!(EventType::new(name).unwrap().to_string(), name);
        }
        let two: EventType = "customer.signed_up".parse().unwrap();
        assert_eq!((two.object(), two.kind(), two.verb()), ("customer", None, "signed_up"));
        assert_eq!(two.as_ref(), "customer.signed_up");
        let three = EventType::new("entity.customer.updated").unwrap();
        assert_eq!((three.object(), three.kind(), three.verb()), ("entity", Some("customer"), "updated"));
        assert!(two < three);
    }

    #[test]
    fn bad_names_are_refused_with_the_reason_and_a_way_out() {
        let table: [(&str, &str, &str); 20] = [
            ("", "empty", "customer.updated"),
            ("customer", "has 1 segment,", "entity.customer.updated"),
            ("a.b.c.d", "has 4 segments,", "entity.customer.updated"),
            (".updated", "empty segment", "between the dots"),
            ("customer.", "empty segment", "between the dots"),
            ("customer..updated", "empty segment", "between the dots"),
            (".", "empty segment", "between the dots"),
            ("entity.Customer.updated", "segment `Customer`", "write `entity.customer.updated`"),
            ("CustomerFile.updated", "segment `CustomerFile`", "write `customer_file.updated`"),
            ("customer-file.updated", "segment `customer-file`", "write `customer_file.updated`"),
            ("customer.signed__up", "segment `signed__up`", "write `customer.signed_up`"),
            ("customer.updated_", "segment `updated_`", "write `customer.updated`"),
            ("_customer.updated", "segment `_customer`", "write `customer.updated`"),
            ("customer.HTTPCalled", "segment `HTTPCalled`", "write `customer.http_called`"),
            ("customer. updated", "segment ` updated`", "write `customer.updated`"),
            ("2fa.enabled", "segment `2fa`", "use a-z, then"),
            ("kunde.geändert", "segment `geändert`", "use a-z, then"),
            ("a/../b.c", "empty segment", "between the dots"),
            ("customer.up\ndated", "segment `up\\ndated`", "use a-z, then"),
            ("Customer", "segment `Customer`", "use a-z, then"),
        ];
        for (name, problem, help) in table {
            assert!(!is_well_formed(name), "{name}");
            let text = check_shape(name).unwrap_err().to_string();
            let (first, second) = text.split_once("\nhelp: ").unwrap();
            assert!(first.contains(problem), "{name}: {text}");
            assert!(second.contains(help), "{name}: {text}");
        }
    }

    #[test]
    fn the_length_is_bounded_at_200_bytes() {
        let longest = format!("{}.updated", "a".repeat(MAX_LEN - 8));
        assert_eq!(check_shape(&longest), Ok(()));
        assert_eq!(check_shape(&format!("a{longest}")), Err(ShapeError::TooLong { len: 201 }));
        assert!(!is_well_formed(&format!("a{longest}")));
    }

    #[test]
    fn the_const_check_and_the_explaining_check_agree() {
        let alphabet = ['a', 'Z', '_', '.', '1'];
        let mut names = vec![String::new()];
        for _ in 0..6 {
            let longer: Vec<String> =
                names.iter().flat_map(|n| alphabet.iter().map(move |c| format!("{n}{c}"))).collect();
            names.extend(longer);
            names.sort();
            names.dedup();
        }
        for name in names {
            let segments: Vec<&str> = name.split('.').collect();
            let by_rule = (2..=3).contains(&segments.len()) && segments.iter().all(|s| is_snake(s));
            assert_eq!(is_well_formed(&name), by_rule, "{name}");
            assert_eq!(check_shape(&name).is_ok(), by_rule, "{name}");
        }
    }

    #[cfg(feature = "registry")]
    #[test]
    fn serde_checks_the_grammar() {
        let name: EventType = serde_json::from_str(r#""customer.updated""#).unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), r#""customer.updated""#);
        assert!(serde_json::from_str::<EventType>(r#""Customer""#).is_err());
    }
}
