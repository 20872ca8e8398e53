//! Payloads of older majors, stored in the same row as the newest: readers that still pin one get it from there.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::envelope::Envelope;
use crate::error::PublishError;
use crate::event::OutboxEvent;
use crate::finite::to_json;
use crate::limits::Limits;

/// Collects the older forms of one event while it is published; see [`OutboxEvent::older_payloads`].
#[derive(Debug)]
pub struct OlderPayloads {
    limits: Limits,
    /// The members so far, each `"major":payload`.
    members: String,
}

impl OlderPayloads {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, members: String::new() }
    }

    /// Adds the event as an older major sees it.
    ///
    /// # Errors
    /// It cannot be written as JSON, or breaks a limit: the same as for the event itself.
    pub fn add<E: OutboxEvent>(&mut self, event: &E) -> Result<(), PublishError> {
        let payload = to_json(event)?;
        self.limits.check(&payload)?;
        let separator = if self.members.is_empty() { "" } else { "," };
        self.members.push_str(&format!("{separator}\"{}\":{payload}", E::SCHEMA_VERSION));
        Ok(())
    }

    /// The text of the column: an object from major to payload; `None` without any.
    pub(crate) fn into_text(self) -> Option<String> {
        (!self.members.is_empty()).then(|| format!("{{{}}}", self.members))
    }
}

impl Envelope {
    /// The majors in which the event can be read: its own and those stored beside it, from the newest. Members of
    /// `older_payloads` that are no major (written by plain SQL) do not count.
    #[must_use]
    pub fn majors(&self) -> Vec<u32> {
        let mut majors: Vec<_> = self.older().into_keys().chain([self.schema_version]).collect();
        majors.sort_unstable_by(|a, b| b.cmp(a));
        majors.dedup();
        majors
    }

    /// The event as a reader of `major` sees it, every digit as it is stored; `None` when it does not carry that major.
    ///
    /// ```
    /// use outbox_sdk::Envelope;
    ///
    /// let mut envelope = Envelope::example("customer.updated", 2, r#"{"names":["Ada"]}"#);
    /// envelope.older_payloads = Some(r#"{"1": {"name": "Ada"}}"#.into());
    /// assert_eq!(envelope.majors(), [2, 1]);
    /// let first = envelope.in_major(1).map(|envelope| (envelope.schema_version, envelope.payload));
    /// assert_eq!(first, Some((1, r#"{"name": "Ada"}"#.into())));
    /// assert_eq!(envelope.in_major(3), None);
    /// ```
    #[must_use]
    pub fn in_major(&self, major: u32) -> Option<Self> {
        if major == self.schema_version {
            return Some(self.clone());
        }
        let payload = self.older().remove(&major)?.get().to_owned();
        Some(Self { payload, schema_version: major, older_payloads: None, ..self.clone() })
    }

    fn older(&self) -> BTreeMap<u32, &RawValue> {
        by_major(self.older_payloads.as_deref())
    }
}

/// The payloads in the text of `older_payloads`.
pub(crate) fn by_major(text: Option<&str>) -> BTreeMap<u32, &RawValue> {
    let members: BTreeMap<&str, &RawValue> = serde_json::from_str(text.unwrap_or("{}")).unwrap_or_default();
    let major = |(key, payload): (&str, _)| Some((key.parse().ok().filter(|major| *major > 0)?, payload));
    members.into_iter().filter_map(major).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_major_does_not_count() {
        let mut envelope = Envelope::example("a.moved", 3, "{}");
        for text in [r#"{"0":{},"-1":{},"x":{},"4294967296":{}}"#, "[]", "7", "{", r#"{"\u0031":{}}"#] {
            envelope.older_payloads = Some(text.to_owned());
            assert_eq!(envelope.majors(), [3], "{text}");
            assert_eq!(envelope.in_major(1), None);
        }
    }

    #[test]
    fn the_own_payload_wins_over_one_beside_it() {
        let mut envelope = Envelope::example("a.moved", 3, r#"{"own":1}"#);
        envelope.older_payloads = Some(r#"{"3":{"other":1},"2":{"a":1.10}}"#.to_owned());
        assert_eq!(envelope.majors(), [3, 2]);
        assert_eq!(envelope.in_major(3).unwrap().payload, r#"{"own":1}"#);
        assert_eq!(envelope.in_major(2).unwrap().payload, r#"{"a":1.10}"#);
    }
}
