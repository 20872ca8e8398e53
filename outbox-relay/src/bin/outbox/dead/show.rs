//! Dead letters as text and as JSON.

use outbox_relay::operate::LetterPage;
use outbox_sdk::backend::{DeadLetter, EventRow, LetterEvent};
use serde_json::{Value, json};

use super::filter::Cursor;
use crate::OutputFormat;
use crate::event;
use crate::exit::Failure;
use crate::output::{self, Table, exact_time, fields, time};

/// One page.
pub(crate) fn list(page: &LetterPage, format: OutputFormat) -> Result<(), Failure> {
    let next = page.next.clone().map(|cursor| Cursor(cursor).to_string());
    let text = || {
        if page.letters.is_empty() {
            return "no dead letters".to_owned();
        }
        let mut table =
            Table::new(["EVENT", "CONSUMER", "FAILED", "STATE", "REASON", "ATTEMPTS", "TYPE", "ERROR"]);
        for letter in &page.letters {
            table.row([
                letter.event_id.to_string(),
                letter.consumer.clone(),
                time(letter.failed_at),
                letter.state.to_string(),
                letter.reason.clone(),
                letter.attempts.to_string(),
                letter
                    .event
                    .as_ref()
                    .map_or_else(|| "(not stored)".to_owned(), |event| event.event_type.clone()),
                letter.last_error.clone(),
            ]);
        }
        table.render()
    };
    output::result(
        format,
        text,
        || json!({ "letters": page.letters.iter().map(value).collect::<Vec<_>>(), "next": next }),
    )?;
    if let (OutputFormat::Text, Some(next)) = (format, &next) {
        output::remark(&format!("there are more: add --before {next}"));
    }
    Ok(())
}

/// One letter and its event.
pub(crate) fn one(
    letter: &DeadLetter,
    event: Option<&EventRow>,
    with_payload: bool,
    format: OutputFormat,
) -> Result<(), Failure> {
    let text = || {
        let optional = |time: Option<_>| time.map(exact_time).unwrap_or_default();
        let mut text = fields(&[
            ("event", letter.event_id.to_string()),
            ("consumer", letter.consumer.clone()),
            ("state", letter.state.to_string()),
            ("reason", letter.reason.clone()),
            ("attempts", format!("{} of {}", letter.attempts, letter.max_attempts)),
            ("error", letter.last_error.clone()),
            ("failed at", exact_time(letter.failed_at)),
            ("acknowledged at", optional(letter.acknowledged_at)),
            ("decided at", optional(letter.decided_at)),
            ("decided by", letter.decided_by.clone().unwrap_or_default()),
        ]);
        text.push('\n');
        match event {
            Some(event) => text.push_str(&event::text(event, with_payload)),
            None => text.push_str("The event is not stored any more.\n"),
        }
        text
    };
    output::result(format, text, || {
        let mut value = value(letter);
        if let Some(event) = event {
            value["event"] = event::value(event, with_payload);
        }
        value
    })
}

fn value(letter: &DeadLetter) -> Value {
    json!({
        "id": letter.event_id,
        "consumer": letter.consumer,
        "state": letter.state.as_str(),
        "reason": letter.reason,
        "attempts": letter.attempts,
        "max_attempts": letter.max_attempts,
        "last_error": letter.last_error,
        "failed_at": exact_time(letter.failed_at),
        "acknowledged_at": letter.acknowledged_at.map(exact_time),
        "decided_at": letter.decided_at.map(exact_time),
        "decided_by": letter.decided_by,
        "event": letter.event.as_ref().map(event_value),
    })
}

fn event_value(event: &LetterEvent) -> Value {
    json!({
        "event_id": event.event_id,
        "event_type": event.event_type,
        "schema_version": event.schema_version,
        "tenant_id": event.tenant_id,
        "aggregate_type": event.aggregate_type,
        "aggregate_id": event.aggregate_id,
        "created_at": exact_time(event.created_at),
    })
}
