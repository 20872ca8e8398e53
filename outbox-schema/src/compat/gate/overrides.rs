//! Which findings an override silences, and which overrides silence nothing.

use super::counts;
use crate::compat::finding::{Comparison, Finding, Severity};
use crate::event_type::EventType;
use crate::fingerprint::Fingerprint;
use crate::registry::{Compatibility, Override, Registry, SchemaFile};

/// An override, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverrideUse {
    /// The event type beside whose schemas it stands.
    pub event_type: EventType,
    /// What it says.
    pub entry: Override,
    /// What it does.
    pub state: OverrideState,
}

/// What an override does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideState {
    /// It silences a finding.
    Applied,
    /// No finding fits: an error, so that none lies in wait for a later change.
    Unused,
    /// A finding fits, but a payload proves it and the override does not say that its author has seen that.
    NotAcknowledged,
}

impl OverrideState {
    /// The word in reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unused => "unused",
            Self::NotAcknowledged => "not acknowledged",
        }
    }
}

/// All overrides of a registry while its findings go by.
pub(super) struct Uses(Vec<OverrideUse>);

impl Uses {
    pub(super) fn of(registry: &Registry) -> Self {
        let unused = |(event_type, entry): (&EventType, &Override)| OverrideUse {
            event_type: event_type.clone(),
            entry: entry.clone(),
            state: OverrideState::Unused,
        };
        Self(registry.overrides().map(unused).collect())
    }

    /// For each finding whether it is silenced.
    pub(super) fn apply(
        &mut self,
        old: &SchemaFile,
        new: &SchemaFile,
        comparison: &Comparison,
        compatibility: Compatibility,
    ) -> Vec<bool> {
        let key = (&new.event_type, new.major, old.fingerprint, new.fingerprint);
        let findings = comparison.findings.iter();
        findings.map(|finding| fails(finding, compatibility) && self.silences(key, finding)).collect()
    }

    fn silences(&mut self, key: (&EventType, u32, Fingerprint, Fingerprint), finding: &Finding) -> bool {
        let mut silenced = false;
        for used in &mut self.0 {
            let entry = &used.entry;
            let fits = (&used.event_type, entry.major, entry.old, entry.new) == key
                && entry.rule == finding.rule.id()
                && entry.pointer == finding.pointer;
            if !fits {
                continue;
            }
            if finding.witness.is_none() || entry.acknowledge_witness {
                silenced = true;
                if used.state == OverrideState::Unused {
                    used.state = OverrideState::Applied;
                }
            } else {
                used.state = OverrideState::NotAcknowledged;
            }
        }
        silenced
    }

    pub(super) fn finish(self) -> Vec<OverrideUse> {
        self.0
    }
}

/// Whether a finding makes the check fail.
fn fails(finding: &Finding, compatibility: Compatibility) -> bool {
    finding.severity >= Severity::Undecided
        && finding.direction.is_some_and(|direction| counts(compatibility, direction))
}
