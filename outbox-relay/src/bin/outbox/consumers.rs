//! `outbox consumers`: how far each consumer is, and who runs it.

use std::time::Duration;

use outbox_relay::operate::{ConsumerProgress, span};
use serde_json::{Value, json};

use crate::OutputFormat;
use crate::database::Database;
use crate::exit::Failure;
use crate::output::{self, Table, exact_time};
use crate::target::{self, Target};

/// Arguments of `outbox consumers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  outbox consumers\n  outbox consumers --format json")]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn consumers(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let opened = args.target.open(false)?;
    let rows = match opened.database {
        Database::Postgres(pool) => target::operator(pool, opened.tables).consumers().await?,
        Database::Sqlite(pool) => target::operator(pool, opened.tables).consumers().await?,
    };
    output::result(
        format,
        || text(&rows),
        || json!({ "consumers": rows.iter().map(value).collect::<Vec<_>>() }),
    )
}

fn text(rows: &[ConsumerProgress]) -> String {
    if rows.is_empty() {
        return "no consumer is registered; `outbox run` registers those of its configuration".to_owned();
    }
    let mut table = Table::new([
        "CONSUMER", "SLOT", "OWNER", "LEASE", "TO READ", "OLDEST", "STALLED", "BLOCKED", "DEAD", "REMARK",
    ]);
    for progress in rows {
        let row = &progress.row;
        table.row([
            row.name.clone(),
            if row.slots > 1 { format!("{} of {}", row.slot, row.slots) } else { row.slot.to_string() },
            row.owner.clone().unwrap_or_else(|| "-".to_owned()),
            row.owner.as_ref().map_or_else(|| "-".to_owned(), |_| span(row.lease_for)),
            if progress.more { format!("{}+", progress.unsettled) } else { progress.unsettled.to_string() },
            progress.oldest.map_or_else(|| "-".to_owned(), span),
            row.stalled_lanes.to_string(),
            row.blocked_lanes.to_string(),
            row.dead_letters.to_string(),
            progress
                .hindrances()
                .iter()
                .map(|hindrance| hindrance.text(&row.name))
                .collect::<Vec<_>>()
                .join(" "),
        ]);
    }
    table.render()
}

fn value(progress: &ConsumerProgress) -> Value {
    let row = &progress.row;
    let config: Value = serde_json::from_str(&row.config).unwrap_or_default();
    json!({
        "consumer": row.name,
        "slot": row.slot,
        "slots": row.slots,
        "owner": row.owner,
        "lease_seconds": row.owner.as_ref().map(|_| row.lease_for.as_secs_f64()),
        "wanted": row.wanted,
        "paused": row.paused.as_ref().map(|pause| json!({
            "by": pause.by,
            "until": (pause.length < Duration::from_secs(50 * 365 * 86_400)).then(|| exact_time(pause.until)),
            "reason": pause.reason,
        })),
        "attempts": row.attempts,
        "last_error": row.last_error,
        "settled": row.settled.to_multirange(),
        "unsettled": progress.unsettled,
        "unsettled_is_a_lower_bound": progress.more,
        "oldest_seconds": progress.oldest.map(|oldest| oldest.as_secs_f64()),
        "stalled_lanes": row.stalled_lanes,
        "blocked_lanes": row.blocked_lanes,
        "dead_letters": row.dead_letters,
        "required_for_retention": row.required_for_retention,
        "registered_at": exact_time(row.registered_at),
        "able_relays": row.able_relays,
        "other_relays": row.other_relays,
        "configuration": config,
    })
}
