//! The name of a consumer.

use std::fmt;
use std::str::FromStr;

use super::SpecError;

/// The name under which a consumer's progress is kept: 1 to 63 bytes of `a-z`, `0-9`, `_` and `-`, beginning with
/// a letter. Renaming a consumer makes a new one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerName(String);

impl ConsumerName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConsumerName {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fits = text.len() <= 63
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        if fits { Ok(Self(text.to_owned())) } else { Err(SpecError::Name(text.to_owned())) }
    }
}

impl fmt::Display for ConsumerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
