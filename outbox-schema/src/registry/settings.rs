//! `registry.toml`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::event_type::EventType;

/// What `registry.toml` says.
///
/// ```toml
/// compatibility = "full"
/// base = "origin/main"
///
/// [compatibility_for]
/// "entity.customer.updated" = "backward"
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Settings {
    /// What a new minor owes to all earlier ones of its major.
    pub compatibility: Compatibility,
    /// The same for single event types.
    #[serde(deserialize_with = "by_type")]
    pub compatibility_for: BTreeMap<EventType, Compatibility>,
    /// The git revision whose files may only change in annotations.
    #[serde(deserialize_with = "revision")]
    pub base: String,
}

impl Settings {
    /// What a new minor of this event type owes to all earlier ones of its major.
    #[must_use]
    pub fn compatibility_of(&self, event_type: &str) -> Compatibility {
        self.compatibility_for.get(event_type).copied().unwrap_or(self.compatibility)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            compatibility: Compatibility::Full,
            compatibility_for: BTreeMap::new(),
            base: "origin/main".to_owned(),
        }
    }
}

fn by_type<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<EventType, Compatibility>, D::Error> {
    let named = BTreeMap::<String, Compatibility>::deserialize(deserializer)?;
    named
        .into_iter()
        .map(|(name, mode)| Ok((EventType::new(&name).map_err(D::Error::custom)?, mode)))
        .collect()
}

/// Whether git can be given this as a revision: it goes there as an argument, so it must not look like an option.
#[must_use]
pub fn is_revision(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

fn revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let revision = String::deserialize(deserializer)?;
    if is_revision(&revision) {
        return Ok(revision);
    }
    Err(D::Error::custom("not a git revision, expected one like `origin/main`"))
}

/// What a new minor owes to all earlier ones of its major.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compatibility {
    /// Both directions.
    #[default]
    Full,
    /// A new reader accepts every stored event.
    Backward,
    /// A pinned reader accepts every new event.
    Forward,
    /// Nothing.
    None,
}

impl Compatibility {
    /// The word in `registry.toml`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Backward => "backward",
            Self::Forward => "forward",
            Self::None => "none",
        }
    }
}
