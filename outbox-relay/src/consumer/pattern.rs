//! Which event types a consumer wants.

use std::fmt;
use std::str::FromStr;

use outbox_schema::is_well_formed;

use super::SpecError;

/// Which event types are meant: one type, all below a prefix (`entity.customer.*`, one or more further parts), or
/// all (`*`).
///
/// ```
/// use outbox_relay::consumer::EventPattern;
///
/// let pattern: EventPattern = "entity.*".parse()?;
/// assert!(pattern.matches("entity.customer.updated"));
/// assert!(!pattern.matches("entity_audit.created"));
/// # Ok::<(), outbox_relay::consumer::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPattern(String);

impl EventPattern {
    /// Whether the pattern covers this event type.
    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(stem) => event_type.len() > stem.len() && event_type.starts_with(stem),
            None => self.0 == event_type,
        }
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern is one event type.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.0.ends_with('*')
    }

    /// How much of an event type the pattern fixes; of two patterns that match, the more exact one fixes more.
    pub(crate) fn exactness(&self) -> usize {
        self.0.trim_end_matches('*').len()
    }
}

impl FromStr for EventPattern {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let fits = match text.strip_suffix(".*") {
            // Good when one more part makes it an event type.
            Some(stem) => is_well_formed(&format!("{stem}.any")),
            None => text == "*" || is_well_formed(text),
        };
        if fits { Ok(Self(text.to_owned())) } else { Err(SpecError::Pattern(text.to_owned())) }
    }
}

impl fmt::Display for EventPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The patterns of a consumer: an event is wanted when one of them matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter(Vec<EventPattern>);

impl EventFilter {
    /// A filter of these patterns.
    ///
    /// # Errors
    /// [`SpecError::NoPatterns`] when there are none.
    pub fn new(patterns: Vec<EventPattern>) -> Result<Self, SpecError> {
        if patterns.is_empty() { Err(SpecError::NoPatterns) } else { Ok(Self(patterns)) }
    }

    /// The filter `*`.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![EventPattern("*".to_owned())])
    }

    /// Whether a pattern covers this event type.
    #[must_use]
    pub fn matches(&self, event_type: &str) -> bool {
        self.0.iter().any(|pattern| pattern.matches(event_type))
    }

    /// The patterns in the order in which they were given.
    #[must_use]
    pub fn patterns(&self) -> &[EventPattern] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> EventPattern {
        text.parse().unwrap()
    }

    #[test]
    fn patterns_that_are_none() {
        for bad in [
            "",
            ".",
            ".*",
            "**",
            "*.updated",
            "entity.*.updated",
            "entity.customer*",
            "entity..*",
            "entity.*.*",
            "Entity.*",
            "entity",
            "a.b.c.d",
            "a.b.c.*",
            "entity.customer.",
            " *",
            "entity.1x",
            "entity.customer.upd@",
        ] {
            assert_eq!(bad.parse::<EventPattern>(), Err(SpecError::Pattern(bad.to_owned())));
        }
    }

    #[test]
    fn matching() {
        let exact = pattern("entity.customer.updated");
        assert!(exact.matches("entity.customer.updated"));
        assert!(!exact.matches("entity.customer.updated_again"));
        assert!(!exact.matches("entity.customer"));

        let prefix = pattern("entity.customer.*");
        assert!(prefix.matches("entity.customer.updated"));
        assert!(!prefix.matches("entity.customer_group.updated"));
        assert!(!prefix.matches("entity.customer"));
        assert!(!prefix.matches("entity.customer."));

        let wide = pattern("entity.*");
        assert!(wide.matches("entity.created"));
        assert!(wide.matches("entity.customer.updated"));
        assert!(!wide.matches("entity"));

        assert!(pattern("*").matches("order.placed"));
    }
}
