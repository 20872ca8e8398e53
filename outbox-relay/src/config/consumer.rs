//! `[[consumer]]` and what belongs to it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use outbox_sdk::webhook::Source;

use super::document::{Place, Value};
use super::error::{Finding, Findings};
use super::reader::{Field, Problem, Section, as_integer, as_text, as_word, read_node};
use super::retry;
use super::secret::Environment;
use super::units;
use super::webhook::webhook;
use crate::consumer::{
    ConsumerName, ConsumerSpec, DEFAULT_TIMEOUT, EventFilter, EventPattern, MAX_SLOTS, OnDead, Ordering,
    OtherMajors, Start,
};
use crate::sink::webhook::WebhookConfig;

const PATTERN_HELP: &str = "write an event type such as \"entity.customer.updated\", a prefix such as \
                            \"entity.customer.*\", or \"*\" for all";
const EVENT_TYPE_HELP: &str =
    "write one event type of two or three parts, such as \"entity.customer.updated\"";

const RATE_HELP: &str = "write a number and a unit, such as \"50/s\", \"600/m\" or \"1000/h\"";

/// A consumer of the configuration, with its destination.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConsumerConfig {
    /// The consumer.
    pub spec: ConsumerSpec,
    /// `[consumer.webhook]`: where its events go.
    pub webhook: Option<WebhookConfig>,
    pub(super) place: Place,
}

/// What consumers are read with.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) env: &'a Environment,
    pub(super) folder: &'a Path,
    /// What CloudEvents say about where they come from.
    pub(super) source: &'a Source,
    /// The relay's lease and where it was written; `None` when it was refused.
    pub(super) lease: Option<(Duration, Option<&'a Place>)>,
}

pub(super) fn consumers(sections: Vec<Section<'_>>, context: Context<'_>) -> Vec<ConsumerConfig> {
    let mut first_use: BTreeMap<ConsumerName, Place> = BTreeMap::new();
    let mut consumers = Vec::new();
    for mut section in sections {
        let name = section.read("name", |value| parsed(value, "a consumer name", NAME_HELP));
        if let Field::Given(name, place) = &name {
            if let Some(first) = first_use.get(name) {
                let message = format!("the consumer name `{name}` is used twice");
                let finding = Finding::new(place.clone(), message, "give every consumer a name of its own");
                section.findings().push(finding.related(first.clone(), "first used here"));
            } else {
                first_use.insert(name.clone(), place.clone());
            }
        }
        let name = section.require("name", name, NAME_HELP);
        consumers.extend(consumer(section, name, context));
    }
    consumers
}

pub(super) const NAME_HELP: &str =
    "write name = \"...\" with 1 to 63 of a-z, 0-9, _ and -, beginning with a letter, such as \"crm\"";

/// Reads everything, so that all is checked, and gives nothing when there is no name to keep progress under.
fn consumer(
    mut section: Section<'_>,
    name: Option<ConsumerName>,
    context: Context<'_>,
) -> Option<ConsumerConfig> {
    let place = section.place().clone();
    let events =
        section.list("events", |value| parsed::<EventPattern>(value, "an event pattern", PATTERN_HELP));
    let pins = pins(&mut section, "[consumer.pins]");
    let max_in_flight = section.integer::<usize>("max_in_flight", 1..=10_000);
    let rate_limit = section.read("rate_limit", |value| {
        let text = as_text(value)?;
        text.parse().map_err(|_| Problem::new(format!("is not a rate: \"{text}\""), RATE_HELP))
    });
    let slots = section.integer::<u16>("slots", 1..=i128::from(MAX_SLOTS));
    let required_for_retention = section.bool("required_for_retention");
    let ordering = section.one_of("ordering", &[("lane", Ordering::Lane), ("none", Ordering::None)]);
    let on_dead = section.one_of("on_dead", ON_DEAD);
    let on_dead_for = on_dead_for(&mut section);
    let other_majors =
        section.one_of("other_majors", &[("dead", OtherMajors::Dead), ("skip", OtherMajors::Skip)]);
    let start = section.read("start", start);
    let timeout = section.duration("timeout");
    let (policy, overrides) = retry::of_consumer(&mut section);
    let limit = timeout.known(DEFAULT_TIMEOUT);
    let webhook_section = section.table("webhook", "[consumer.webhook]");
    let webhook = webhook_section.and_then(|section| webhook(section, limit, context));

    let filter = filter(&section, &events);
    if let Some(filter) = &filter {
        pins_within(filter, &pins, section.findings());
    }
    below_lease(&timeout, &section, context);
    section.finish();

    let mut spec = ConsumerSpec::named(name?);
    spec.events = filter.unwrap_or(spec.events);
    spec.pins = pins.into_iter().map(|(event_type, (major, _))| (event_type, major)).collect();
    spec.max_in_flight = max_in_flight.or(spec.max_in_flight);
    spec.rate_limit = rate_limit.given();
    spec.slots = slots.or(spec.slots);
    spec.required_for_retention = required_for_retention.or(spec.required_for_retention);
    spec.ordering = ordering.or(spec.ordering);
    spec.on_dead = on_dead.or(spec.on_dead);
    spec.on_dead_for = on_dead_for;
    spec.other_majors = other_majors.or(spec.other_majors);
    spec.start = start.given();
    spec.timeout = timeout.or(spec.timeout);
    spec.retry = policy;
    spec.retry_for = overrides;
    let webhook = webhook.map(|webhook| WebhookConfig { name: spec.name.to_string(), ..webhook });
    Some(ConsumerConfig { spec, webhook, place })
}

/// The filter as far as it is known: all events without `events`, nothing when an entry was refused.
fn filter(section: &Section<'_>, events: &Field<Vec<(EventPattern, Place)>>) -> Option<EventFilter> {
    match events {
        Field::Absent => Some(EventFilter::all()),
        Field::Invalid => None,
        Field::Given(patterns, place) => {
            let filter = EventFilter::new(patterns.iter().map(|(pattern, _)| pattern.clone()).collect());
            if filter.is_err() {
                section.refuse(
                    place.clone(),
                    "`events` is empty, so the consumer receives nothing",
                    PATTERN_HELP,
                );
            }
            filter.ok()
        }
    }
}

pub(super) type Pins = BTreeMap<String, (u32, Place)>;

/// The majors by event type; `title` is how the table is called in messages.
pub(super) fn pins(section: &mut Section<'_>, title: &str) -> Pins {
    let findings = section.findings();
    let Some(table) = section.table("pins", title) else { return Pins::new() };
    let mut pins = Pins::new();
    for (event_type, entry) in table.entries() {
        let exact = event_type.parse::<EventPattern>().is_ok_and(|pattern| pattern.is_exact());
        if !exact {
            let message = format!("`{event_type}` is not an event type");
            findings.push(Finding::new(entry.key.clone(), message, EVENT_TYPE_HELP));
        }
        let name = format!("the pin of `{event_type}`");
        let major =
            read_node(&name, entry.node, |value| as_integer(value, 1..=i128::from(i32::MAX)), findings);
        if let (true, Some(major)) = (exact, major.given()) {
            pins.insert(event_type, (major, entry.key));
        }
    }
    pins
}

const ON_DEAD: &[(&str, OnDead)] = &[("continue", OnDead::Continue), ("block", OnDead::Block)];

fn on_dead_for(section: &mut Section<'_>) -> BTreeMap<EventPattern, OnDead> {
    let findings = section.findings();
    let Some(table) = section.table("on_dead_for", "[consumer.on_dead_for]") else { return BTreeMap::new() };
    let mut settings = BTreeMap::new();
    for (key, entry) in table.entries() {
        let pattern = key.parse::<EventPattern>();
        if pattern.is_err() {
            findings.push(Finding::new(entry.key, format!("`{key}` is not an event pattern"), PATTERN_HELP));
        }
        let name = format!("`on_dead_for` of `{key}`");
        let setting = read_node(&name, entry.node, |value| as_word(value, ON_DEAD), findings);
        if let (Ok(pattern), Some(setting)) = (pattern, setting.given()) {
            settings.insert(pattern, setting);
        }
    }
    settings
}

fn pins_within(filter: &EventFilter, pins: &Pins, findings: &Findings) {
    for (event_type, (_, place)) in pins.iter().filter(|(event_type, _)| !filter.matches(event_type)) {
        let message = format!("`{event_type}` is pinned, but `events` does not cover it");
        findings.push(Finding::new(place.clone(), message, "add it to `events`, or remove the pin"));
    }
}

fn start(value: &Value) -> Result<Start, Problem> {
    const HELP: &str =
        "write \"earliest\", \"now\", or a time with its offset such as \"2026-01-31T08:00:00Z\"";
    let at = match value {
        Value::Datetime(text) => units::time(text),
        _ => match as_text(value).map_err(|problem| Problem::new(problem.message, HELP))? {
            "earliest" => return Ok(Start::Earliest),
            "now" => return Ok(Start::Now),
            text => units::time(text),
        },
    };
    at.map(Start::At).map_err(|error| Problem::new(format!("is not a beginning: {error}"), HELP))
}

/// A sink that worked as long as its lease could be at work when the next owner begins. A sixth of the lease stays
/// for the renewal and for the answer's way into the database.
fn below_lease(timeout: &Field<Duration>, section: &Section<'_>, context: Context<'_>) {
    let (Some(limit), Some((lease, lease_place))) = (timeout.known(DEFAULT_TIMEOUT), context.lease) else {
        return;
    };
    let longest = lease - lease / 6;
    if limit <= longest {
        return;
    }
    let place = timeout.place().unwrap_or(section.place()).clone();
    let [limit, lease, longest] = [limit, lease, longest].map(units::show);
    let message = format!("`timeout` ({limit}) is too long for the relay's `lease` ({lease})");
    let help =
        format!("set `timeout` to at most {longest} (five sixths of the lease), or raise `lease` in [relay]");
    let finding = Finding::new(place, message, help);
    section.findings().push(match lease_place {
        Some(place) => finding.related(place.clone(), "the lease"),
        None => finding,
    });
}

pub(super) fn parsed<T: std::str::FromStr>(value: &Value, what: &str, help: &str) -> Result<T, Problem> {
    let text = as_text(value)?;
    text.parse().map_err(|_| Problem::new(format!("is not {what}: \"{text}\""), help))
}
