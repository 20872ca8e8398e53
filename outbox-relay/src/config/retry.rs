//! `retry` of a consumer and `[consumer.retry_for."event type"]`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::document::{Place, Value};
use super::error::{Finding, Findings};
use super::reader::{Field, Section, as_positive_duration};
use super::sections::not_above;
use crate::consumer::EventPattern;
use crate::retry::{RetryPolicy, Schedule};

const BOTH_HELP: &str =
    "write base = \"5s\" and cap = \"1h\", or a schedule such as [\"5s\", \"1m\", \"1h\"]";

/// The consumer's policy and its overrides. An override takes what it does not write from the consumer's policy.
pub(super) fn of_consumer(section: &mut Section<'_>) -> (RetryPolicy, BTreeMap<EventPattern, RetryPolicy>) {
    let findings = section.findings();
    let policy = match section.table("retry", "[consumer.retry]") {
        Some(table) => policy(table, RetryPolicy::default()),
        None => RetryPolicy::default(),
    };
    let mut overrides = BTreeMap::new();
    let Some(table) = section.table("retry_for", "[consumer.retry_for]") else { return (policy, overrides) };
    for (key, entry) in table.entries() {
        let pattern = key.parse::<EventPattern>();
        if pattern.is_err() {
            let help =
                "write an event type such as [consumer.retry_for.\"entity.customer.updated\"], or a pattern";
            findings.push(Finding::new(entry.key, format!("`{key}` is not an event pattern"), help));
        }
        let Some(table) = as_table(&key, entry.node.place, entry.node.value, findings) else { continue };
        let special = self::policy(table, policy.clone());
        if let Ok(pattern) = pattern {
            overrides.insert(pattern, special);
        }
    }
    (policy, overrides)
}

fn as_table<'a>(key: &str, place: Place, value: Value, findings: &'a Findings) -> Option<Section<'a>> {
    let title = format!("[consumer.retry_for.\"{key}\"]");
    if let Value::Table(table) = value {
        return Some(Section::new(title, place, table, findings));
    }
    let message = format!("the policy of `{key}` must be a table, not {}", value.kind());
    findings.push(Finding::new(place, message, "write a table such as { max_attempts = 3 }"));
    None
}

fn policy(mut section: Section<'_>, inherited: RetryPolicy) -> RetryPolicy {
    let list = section.list("schedule", as_positive_duration);
    let base = section.duration("base");
    let cap = section.duration("cap");
    let max_attempts = section.integer("max_attempts", 1..=1_000_000);
    let schedule = schedule(&section, list, base, cap);
    section.finish();
    RetryPolicy {
        schedule: schedule.unwrap_or(inherited.schedule),
        max_attempts: max_attempts.or(inherited.max_attempts),
    }
}

fn schedule(
    section: &Section<'_>,
    list: Field<Vec<(Duration, Place)>>,
    base: Field<Duration>,
    cap: Field<Duration>,
) -> Option<Schedule> {
    match (list, base, cap) {
        (Field::Absent, Field::Absent, Field::Absent) => None,
        (Field::Given(steps, place), Field::Absent, Field::Absent) => {
            if steps.is_empty() {
                section.refuse(place, "`schedule` is empty", "write at least one duration, such as [\"1m\"]");
            }
            Some(Schedule::List(steps.into_iter().map(|(step, _)| step).collect()))
        }
        (Field::Invalid, Field::Absent, Field::Absent) => None,
        (Field::Absent, base, cap) => {
            // Where one is missing, the defaults make the rule hold, and the finding is about what is missing.
            not_above(section, ("base", &base, Duration::ZERO), ("cap", &cap, Duration::MAX));
            let base = section.require("base", base, BOTH_HELP);
            let cap = section.require("cap", cap, BOTH_HELP);
            Some(Schedule::Exponential { base: base?, cap: cap? })
        }
        (list, base, cap) => {
            let place = list.place().or(base.place()).or(cap.place()).unwrap_or(section.place());
            section.refuse(place.clone(), "`schedule` excludes `base` and `cap`", BOTH_HELP);
            None
        }
    }
}
