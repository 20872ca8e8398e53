//! `outbox why`: what holds one event.

use std::time::Duration;

use outbox_relay::ConsumerSpec;
use outbox_relay::operate::{EventRef, Explanation, Operator, Why};
use outbox_sdk::Backend;
use outbox_sdk::backend::AttemptRow;
use serde_json::{Value, json};

use crate::OutputFormat;
use crate::database::Database;
use crate::event::{self, search};
use crate::exit::Failure;
use crate::output::{self, escaped, exact_time};
use crate::target::{self, Target};

/// Arguments of `outbox why`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  outbox why 17\n  outbox why 01890a5d-ac96-774b-bcce-b302099a8057 --consumer crm"
)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// The event's id, or its event_id.
    #[arg(value_name = "EVENT")]
    event: EventRef,
    /// Only this consumer.
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Look for an event_id in the whole table, not only near its own time.
    #[arg(long)]
    full: bool,
}

pub(crate) async fn why(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let Args { target, event, consumer, full } = args;
    let opened = target.open(false)?;
    let known: Vec<ConsumerSpec> = opened
        .config
        .iter()
        .flat_map(|config| config.consumers.iter())
        .map(|consumer| consumer.spec.clone())
        .collect();
    let why = match opened.database {
        Database::Postgres(pool) => ask(target::operator(pool, opened.tables), event, full, &known).await?,
        Database::Sqlite(pool) => ask(target::operator(pool, opened.tables), event, full, &known).await?,
    };
    let wanted =
        |explanation: &&Explanation| consumer.as_ref().is_none_or(|name| explanation.consumer == *name);
    let chosen: Vec<&Explanation> = why.consumers.iter().filter(wanted).collect();
    if let (Some(name), true) = (&consumer, chosen.is_empty()) {
        return Err(Failure::check(format!(
            "error: no consumer `{name}` is registered\nhelp: `outbox consumers` lists them"
        )));
    }
    print(&why, &chosen, format)
}

async fn ask<DB: Backend>(
    operator: Operator<DB>,
    event: EventRef,
    full: bool,
    known: &[ConsumerSpec],
) -> Result<Why, Failure> {
    Ok(operator.why(event, search(full), known).await?)
}

fn print(why: &Why, chosen: &[&Explanation], format: OutputFormat) -> Result<(), Failure> {
    let text = || {
        let mut text = match &why.event {
            Some(row) => format!(
                "event {} {} of {}/{}, created {}: {}\n",
                why.id,
                escaped(&row.envelope.event_type),
                escaped(&row.envelope.aggregate_type),
                escaped(row.envelope.aggregate_id.as_deref().unwrap_or("-")),
                exact_time(row.envelope.created_at),
                row.status
            ),
            None => format!("no event {} is visible; the last id drawn is {}\n", why.id, why.last_id),
        };
        if chosen.is_empty() {
            text.push_str("\nNo consumer is registered. Start `outbox run` with a configuration.\n");
        }
        for explanation in chosen {
            text.push_str(&format!("\n{}", explanation.consumer));
            if let Some((owner, left)) = &explanation.owner {
                let slot = explanation.slot.unwrap_or(0);
                text.push_str(&format!(" (slot {slot} of {}, lease {} s)", escaped(owner), left.as_secs()));
            }
            text.push_str(&format!("\n  {}\n", escaped(&explanation.text())));
            for attempt in &explanation.attempts {
                text.push_str(&format!("  {}\n", line(attempt)));
            }
        }
        text
    };
    output::result(format, text, || {
        let consumers: Vec<_> = chosen
            .iter()
            .map(|explanation| {
                let (owner, left) = explanation.owner.clone().unzip();
                json!({
                    "consumer": explanation.consumer,
                    "slot": explanation.slot,
                    "owner": owner,
                    "lease_seconds": left.map(|left| left.as_secs_f64()),
                    "verdict": explanation.verdict.name(),
                    "text": explanation.text(),
                    "attempts": explanation.attempts.iter().map(value).collect::<Vec<_>>(),
                })
            })
            .collect();
        let writers: Vec<_> = why
            .writers
            .iter()
            .map(|writer| {
                json!({
                    "pid": writer.pid, "name": writer.name, "state": writer.state,
                    "open_seconds": writer.open_for.as_secs_f64(),
                })
            })
            .collect();
        json!({
            "id": why.id,
            "event": why.event.as_ref().map(|row| event::value(row, false)),
            "last_id": why.last_id,
            "writers": writers,
            "consumers": consumers,
        })
    })?;
    // Nothing is known of an event that is not there, whatever was printed about its id.
    if why.event.is_none() {
        return Err(Failure::check(format!(
            "error: no event {} is visible\nhelp: see what is said above",
            why.id
        )));
    }
    Ok(())
}

/// One attempt for people.
fn line(attempt: &AttemptRow) -> String {
    let mut text = format!(
        "{}  attempt {}{}: {}",
        exact_time(attempt.ended_at),
        attempt.attempt,
        if attempt.replay { " (replay)" } else { "" },
        escaped(&attempt.outcome)
    );
    if let Some(status) = attempt.status {
        text.push_str(&format!(", status {status}"));
    }
    text.push_str(&format!(", after {:?}", rounded(attempt.duration)));
    if let Some(error) = &attempt.error {
        text.push_str(&format!(": {}", escaped(error)));
    }
    text
}

/// To whole milliseconds, where there are any.
fn rounded(length: Duration) -> Duration {
    let millis = length.as_millis();
    if millis == 0 { length } else { Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)) }
}

fn value(attempt: &AttemptRow) -> Value {
    json!({
        "attempt": attempt.attempt,
        "replay": attempt.replay,
        "outcome": attempt.outcome,
        "status": attempt.status,
        "error": attempt.error,
        "ended_at": output::time(attempt.ended_at),
        "duration_seconds": attempt.duration.as_secs_f64(),
    })
}
