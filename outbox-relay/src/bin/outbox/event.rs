//! `outbox event`: find and show events.

use std::num::NonZeroU32;

use clap::Subcommand;
use outbox_relay::operate::{EventPage, EventRef, Operator, Search};
use outbox_sdk::Backend;
use outbox_sdk::backend::{EventFilter, EventRow};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::OutputFormat;
use crate::arguments::{Aggregate, Moment, Pattern};
use crate::database::Database;
use crate::exit::Failure;
use crate::output::{self, Table, exact_time, fields, time};
use crate::target::{self, Target};

/// Arguments of `outbox event`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List events, newest first.
    ///
    /// An aggregate, a correlation id or (on PostgreSQL) a span of time is found by its index. Anything else is walked
    /// over from the newest event on, which takes its time where few events fit.
    #[command(
        after_help = "Examples:\n  outbox event list --aggregate customer/42\n  outbox event list --type \
                            'entity.customer.*' --created-after 2h --status failed"
    )]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// How many.
        #[arg(long, value_name = "N", default_value = "50")]
        limit: NonZeroU32,
        /// Only ids below this one: the next page.
        #[arg(long, value_name = "ID")]
        before: Option<i64>,
    },
    /// Show one event, by id or event_id.
    ///
    /// An event_id has no index. A version 7 is looked for among the events created within a day of its own time, which
    /// PostgreSQL finds by an index; --full looks in the whole table. Another version is looked for in the whole table.
    #[command(after_help = "Examples:\n  outbox event show 17\n  outbox event show \
                            01890a5d-ac96-774b-bcce-b302099a8057 --payload")]
    Show {
        /// Its id, or its event_id.
        #[arg(value_name = "EVENT")]
        event: EventRef,
        /// Look for an event_id in the whole table.
        #[arg(long)]
        full: bool,
        /// Print the payload too.
        #[arg(long)]
        payload: bool,
    },
}

/// Which events.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filter")]
struct FilterArgs {
    /// About this kind of aggregate, or this aggregate.
    #[arg(long, value_name = "TYPE[/ID]")]
    aggregate: Option<Aggregate>,
    /// Of this operation.
    #[arg(long, value_name = "UUID")]
    correlation: Option<Uuid>,
    /// Of this tenant.
    #[arg(long, value_name = "UUID")]
    tenant: Option<Uuid>,
    /// Of this event type: exact, a prefix such as `entity.customer.*`, or `*`.
    #[arg(long = "type", value_name = "PATTERN")]
    event_type: Option<Pattern>,
    /// Created at this time (RFC 3339) or later, or this long ago at most, such as 2h.
    #[arg(long, value_name = "TIME")]
    created_after: Option<Moment>,
    /// Created before this time (RFC 3339), or this long ago at least.
    #[arg(long, value_name = "TIME")]
    created_before: Option<Moment>,
    /// As the recorder wrote it.
    #[arg(long, value_parser = ["pending", "dispatched", "failed", "skipped"])]
    status: Option<String>,
}

impl FilterArgs {
    fn filter(self) -> EventFilter {
        let (aggregate_type, aggregate_id) =
            self.aggregate.map_or((None, None), |aggregate| (Some(aggregate.kind), aggregate.id));
        EventFilter {
            aggregate_type,
            aggregate_id,
            correlation_id: self.correlation,
            tenant_id: self.tenant,
            event_type: self.event_type.unwrap_or_default().0,
            created_from: self.created_after.map(|moment| moment.0),
            created_until: self.created_before.map(|moment| moment.0),
            status: self.status,
        }
    }
}

/// How to look for an event_id.
pub(crate) fn search(full: bool) -> Search {
    if full { Search::Everywhere } else { Search::ByTime }
}

pub(crate) async fn event(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let opened = args.target.open(false)?;
    match opened.database {
        Database::Postgres(pool) => run(target::operator(pool, opened.tables), args.command, format).await,
        Database::Sqlite(pool) => run(target::operator(pool, opened.tables), args.command, format).await,
    }
}

async fn run<DB: Backend>(
    operator: Operator<DB>,
    command: Command,
    format: OutputFormat,
) -> Result<(), Failure> {
    match command {
        Command::List { filter, limit, before } => {
            list(&operator.events(&filter.filter(), before, limit.get()).await?, format)
        }
        Command::Show { event, full, payload } => {
            let event = operator.event(event, search(full), payload).await?;
            output::result(format, || text(&event, payload), || value(&event, payload))
        }
    }
}

fn list(page: &EventPage, format: OutputFormat) -> Result<(), Failure> {
    let text = || {
        if page.events.is_empty() {
            return "no events".to_owned();
        }
        let mut table = Table::new(["ID", "CREATED", "STATUS", "TYPE", "MAJOR", "AGGREGATE"]);
        for event in &page.events {
            let envelope = &event.envelope;
            table.row([
                envelope.id.to_string(),
                time(envelope.created_at),
                event.status.clone(),
                envelope.event_type.clone(),
                envelope.schema_version.to_string(),
                aggregate(event),
            ]);
        }
        table.render()
    };
    output::result(format, text, || {
        let events: Vec<Value> = page.events.iter().map(|event| value(event, false)).collect();
        json!({ "events": events, "next": page.next })
    })?;
    if let (OutputFormat::Text, Some(next)) = (format, page.next) {
        output::remark(&format!("there are more: add --before {next}"));
    }
    Ok(())
}

/// `TYPE/ID`, as `--aggregate` takes it.
fn aggregate(event: &EventRow) -> String {
    let envelope = &event.envelope;
    match &envelope.aggregate_id {
        Some(id) => format!("{}/{id}", envelope.aggregate_type),
        None => envelope.aggregate_type.clone(),
    }
}

/// An event for people.
pub(crate) fn text(event: &EventRow, with_payload: bool) -> String {
    let envelope = &event.envelope;
    let id = |id: Option<Uuid>| id.map(|id| id.to_string()).unwrap_or_default();
    let delayed = if event.is_delayed() { exact_time(event.available_at) } else { String::new() };
    let majors: Vec<String> = event.older_majors.iter().map(u32::to_string).collect();
    let mut text = fields(&[
        ("id", envelope.id.to_string()),
        ("event id", envelope.event_id.to_string()),
        ("type", envelope.event_type.clone()),
        ("major", envelope.schema_version.to_string()),
        ("older majors", majors.join(", ")),
        ("aggregate", aggregate(event)),
        ("tenant", id(envelope.tenant_id)),
        ("correlation", id(envelope.correlation_id)),
        ("causation", id(envelope.causation_id)),
        ("actor", envelope.actor.clone().unwrap_or_default()),
        ("audit log id", envelope.audit_log_id.map(|id| id.to_string()).unwrap_or_default()),
        ("traceparent", envelope.traceparent.clone().unwrap_or_default()),
        ("occurred at", exact_time(envelope.occurred_at)),
        ("created at", exact_time(envelope.created_at)),
        ("created by", event.created_by.clone().unwrap_or_default()),
        ("available at", delayed),
        ("status", event.status.clone()),
        ("dispatched at", event.dispatched_at.map(exact_time).unwrap_or_default()),
        ("failed attempts", if event.attempts > 0 { event.attempts.to_string() } else { String::new() }),
        ("last error", event.last_error.clone().unwrap_or_default()),
    ]);
    if with_payload {
        text.push_str(&fields(&[
            ("payload", envelope.payload.clone()),
            ("older payloads", envelope.older_payloads.clone().unwrap_or_default()),
        ]));
    }
    text
}

/// An event for programs. The payload stays the text that the database prints: a JSON value would change its numbers.
pub(crate) fn value(event: &EventRow, with_payload: bool) -> Value {
    let envelope = &event.envelope;
    let mut value = json!({
        "id": envelope.id,
        "event_id": envelope.event_id,
        "event_type": envelope.event_type,
        "schema_version": envelope.schema_version,
        "older_majors": event.older_majors,
        "aggregate_type": envelope.aggregate_type,
        "aggregate_id": envelope.aggregate_id,
        "tenant_id": envelope.tenant_id,
        "correlation_id": envelope.correlation_id,
        "causation_id": envelope.causation_id,
        "actor": envelope.actor,
        "audit_log_id": envelope.audit_log_id,
        "traceparent": envelope.traceparent,
        "tracestate": envelope.tracestate,
        "occurred_at": exact_time(envelope.occurred_at),
        "created_at": exact_time(envelope.created_at),
        "created_by": event.created_by,
        "available_at": exact_time(event.available_at),
        "status": event.status,
        "attempts": event.attempts,
        "last_error": event.last_error,
        "dispatched_at": event.dispatched_at.map(exact_time),
    });
    if with_payload {
        value["payload"] = json!(envelope.payload);
        value["older_payloads"] = json!(envelope.older_payloads);
    }
    value
}
