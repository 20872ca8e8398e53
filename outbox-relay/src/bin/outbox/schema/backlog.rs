//! What `outbox schema check --database` adds: stored events against the registry.

use outbox_relay::config::{Config, Secret};
use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::operate::{Backlog, Unreadable, UnreadableBy};
use outbox_schema::Validators;
use serde_json::{Value, json};

use crate::database::Database;
use crate::exit::Failure;
use crate::output;
use crate::target;

pub(super) async fn check(
    url: &str,
    schema: Option<&str>,
    config: Option<&Config>,
    validators: &Validators,
) -> Result<Backlog, Failure> {
    let tables = target::tables(schema, config)?;
    let consumers: Vec<&ConsumerSpec> = config
        .map(|config| config.consumers.iter().map(|consumer| &consumer.spec).collect())
        .unwrap_or_default();
    let backlog = match Database::open(&Secret::new(url), false, 2)? {
        Database::Postgres(pool) => target::operator(pool, tables).backlog(validators, &consumers).await,
        Database::Sqlite(pool) => target::operator(pool, tables).backlog(validators, &consumers).await,
    };
    Ok(backlog?)
}

/// What cannot be read, a line each. Violations name places of the schema, never values of a payload.
pub(super) fn lines(backlog: &Backlog) -> Vec<String> {
    let mut lines = Vec::new();
    for unreadable in &backlog.unreadable {
        let Unreadable { event_type, major, events, first_id, by } = unreadable;
        let why = match by {
            UnreadableBy::NoSchema => "there is no schema of this major; commit one".to_owned(),
            UnreadableBy::Violation(violation) => format!("violates its schema: {violation}"),
            UnreadableBy::NotJson => "is not readable as JSON".to_owned(),
            UnreadableBy::MajorMissing { consumer, pinned } => {
                format!(
                    "consumer `{consumer}` pins v{pinned} and has not had it; change the pin, or set other_majors"
                )
            }
        };
        let line =
            format!("error[backlog]: {events} events of {event_type} v{major} (first: id {first_id}): {why}");
        lines.push(output::escaped(&line));
    }
    lines
}

/// For people.
pub(super) fn text(backlog: &Backlog) -> String {
    let mut text: String = lines(backlog).into_iter().map(|line| line + "\n").collect();
    let verdict = if backlog.unreadable.is_empty() { "all readable" } else { "not all readable" };
    text.push_str(&format!("{} stored events checked: {verdict}\n", backlog.checked));
    text
}

/// For programs.
pub(super) fn value(backlog: &Backlog) -> Value {
    let unreadable = backlog.unreadable.iter().map(|unreadable| {
        let mut value = json!({
            "event_type": unreadable.event_type,
            "major": unreadable.major,
            "events": unreadable.events,
            "first_id": unreadable.first_id,
        });
        match &unreadable.by {
            UnreadableBy::NoSchema => value["reason"] = json!("schema_missing"),
            UnreadableBy::NotJson => value["reason"] = json!("undecodable"),
            UnreadableBy::Violation(violation) => {
                value["reason"] = json!("schema_violation");
                value["violation"] = json!(violation);
            }
            UnreadableBy::MajorMissing { consumer, pinned } => {
                value["reason"] = json!("major_missing");
                value["consumer"] = json!(consumer);
                value["pinned"] = json!(pinned);
            }
        }
        value
    });
    json!({"checked": backlog.checked, "unreadable": unreadable.collect::<Vec<_>>()})
}
