//! `outbox dead`: dead letters.

mod filter;
mod show;

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use clap::Subcommand;
use outbox_relay::operate::{EventRef, Operator, Search, Step};
use outbox_sdk::Backend;
use outbox_sdk::backend::{Decision, LetterFilter, LetterKey, LetterState};
use serde_json::json;

use self::filter::FilterArgs;
use crate::OutputFormat;
use crate::database::Database;
use crate::exit::Failure;
use crate::output::{self, Table};
use crate::target::{self, Target};

/// How many letters one step of a discard or an acknowledgement takes.
const STEP: u32 = 500;

/// Arguments of `outbox dead`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count them, by consumer, reason and state.
    #[command(after_help = "Examples:\n  outbox dead count\n  outbox dead count --consumer crm --state dead")]
    Count {
        #[command(flatten)]
        filter: FilterArgs,
    },
    /// List them, newest failure first: those nobody has decided about, unless --state says otherwise.
    #[command(
        after_help = "Examples:\n  outbox dead list --consumer crm\n  outbox dead list --type 'entity.customer.*' \
                            --failed-after 2h --state all"
    )]
    List {
        #[command(flatten)]
        filter: FilterArgs,
        /// How many.
        #[arg(long, value_name = "N", default_value = "50")]
        limit: NonZeroU32,
        /// Go on behind the page that printed this.
        #[arg(long, value_name = "CURSOR")]
        before: Option<filter::Cursor>,
    },
    /// Show one with its event.
    #[command(
        after_help = "Examples:\n  outbox dead show 17\n  outbox dead show 17 --consumer crm --payload"
    )]
    Show {
        /// The event's id, or its event_id.
        #[arg(value_name = "EVENT")]
        event: EventRef,
        /// The consumer; needed when the event is dead for several.
        #[arg(long, value_name = "NAME")]
        consumer: Option<String>,
        /// Print the payload too.
        #[arg(long)]
        payload: bool,
    },
    /// Deliver them once more: one, or all that a filter finds, in the order of their ids.
    ///
    /// The owner of the consumer's slot delivers them, marked as a replay. An inbox drops what it has seen: where the
    /// effect is to happen again, call `Inbox::forget` in the consumer's database first.
    #[command(
        after_help = "Examples:\n  outbox dead replay 17 --consumer crm\n  outbox dead replay --consumer crm \
                            --reason attempts --failed-after 2h --rate 20 --yes"
    )]
    Replay {
        #[command(flatten)]
        choice: Choice,
        /// How many a second, at most.
        #[arg(long, value_name = "N", default_value = "50")]
        rate: NonZeroU32,
    },
    /// Give them up: one, or all that a filter finds. A lane that one of them blocks goes on.
    #[command(
        after_help = "Examples:\n  outbox dead discard 17 --consumer crm\n  outbox dead discard --consumer crm \
                            --type order.placed --yes"
    )]
    Discard {
        #[command(flatten)]
        choice: Choice,
    },
    /// Let retention delete the events of letters that are dead or discarded: one, or all that a filter finds.
    ///
    /// The state stays. Nothing dead is deleted before it is acknowledged; replaying takes the acknowledgement back.
    #[command(
        after_help = "Examples:\n  outbox dead ack 17 --consumer crm\n  outbox dead ack --state discarded --yes"
    )]
    Ack {
        #[command(flatten)]
        choice: Choice,
    },
}

/// One letter, or those that a filter finds.
#[derive(Debug, clap::Args)]
struct Choice {
    /// One event, by id or event_id.
    #[arg(value_name = "EVENT")]
    event: Option<EventRef>,
    #[command(flatten)]
    filter: FilterArgs,
    /// All of them, where no filter is given.
    #[arg(long)]
    all: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn dead(args: Args, format: OutputFormat) -> Result<(), Failure> {
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
        Command::Count { filter } => count(&operator, &filter.filter(None)?, format).await,
        Command::List { filter, limit, before } => {
            let filter = filter.filter(Some(LetterState::Dead))?;
            let page = operator.dead_letters(&filter, before.as_ref().map(|c| &c.0), limit.get()).await?;
            show::list(&page, format)
        }
        Command::Show { event, consumer, payload } => {
            let key = key(&operator, event, consumer).await?;
            let (letter, event) = operator.dead_letter(&key, payload).await?;
            show::one(&letter, event.as_ref(), payload, format)
        }
        Command::Replay { choice, rate } => {
            decide(&operator, choice, Decision::Replay, rate.get(), format).await
        }
        Command::Discard { choice } => decide(&operator, choice, Decision::Discard, STEP, format).await,
        Command::Ack { choice } => decide(&operator, choice, Decision::Acknowledge, STEP, format).await,
    }
}

async fn count<DB: Backend>(
    operator: &Operator<DB>,
    filter: &LetterFilter,
    format: OutputFormat,
) -> Result<(), Failure> {
    let counts = operator.dead_letter_counts(filter).await?;
    let text = || {
        if counts.is_empty() {
            return "no dead letters".to_owned();
        }
        let mut table = Table::new(["CONSUMER", "REASON", "STATE", "LETTERS", "ACKNOWLEDGED"]);
        for count in &counts {
            table.row([
                count.consumer.clone(),
                count.reason.clone(),
                count.state.to_string(),
                count.letters.to_string(),
                count.acknowledged.to_string(),
            ]);
        }
        table.render()
    };
    output::result(format, text, || {
        let counts: Vec<_> = counts
            .iter()
            .map(|count| {
                json!({
                    "consumer": count.consumer, "reason": count.reason, "state": count.state.as_str(),
                    "letters": count.letters, "acknowledged": count.acknowledged,
                })
            })
            .collect();
        json!({ "counts": counts })
    })
}

/// The letter that an event and perhaps a consumer name.
async fn key<DB: Backend>(
    operator: &Operator<DB>,
    event: EventRef,
    consumer: Option<String>,
) -> Result<LetterKey, Failure> {
    let id = operator.find(event, Search::ByTime).await?;
    if let Some(consumer) = consumer {
        return Ok(LetterKey { id, consumer });
    }
    let filter = LetterFilter { ids: vec![id], ..LetterFilter::default() };
    let found = operator.dead_letters(&filter, None, 100).await?.letters;
    match &found[..] {
        [letter] => Ok(letter.key()),
        [] => Err(Failure::check(format!(
            "error: event {id} has no dead letter\nhelp: `outbox why {id}` tells where it is"
        ))),
        several => {
            let names: Vec<&str> = several.iter().map(|letter| letter.consumer.as_str()).collect();
            Err(Failure::usage(format!(
                "error: event {id} has dead letters of several consumers: {}\nhelp: name one with --consumer",
                names.join(", ")
            )))
        }
    }
}

async fn decide<DB: Backend>(
    operator: &Operator<DB>,
    choice: Choice,
    decision: Decision,
    step: u32,
    format: OutputFormat,
) -> Result<(), Failure> {
    if let Some(event) = choice.event {
        if choice.all || !choice.filter.is_only_consumer() {
            return Err(Failure::usage(
                "error: both an event and a filter are given\nhelp: give EVENT and, if need be, --consumer; or a \
                 filter alone, with --id for several events",
            ));
        }
        let key = key(operator, event, choice.filter.consumer.clone()).await?;
        let decided = operator.decide(&key, decision).await?;
        let total = Step { decided: 1, beyond_inbox: decided.beyond_inbox.into(), ..Step::default() };
        return report(decision, &total, format);
    }
    if choice.filter.is_empty() && !choice.all {
        return Err(Failure::usage(
            "error: neither an event nor a filter is given\nhelp: name an EVENT, or filter with --consumer, --type, \
             --reason and others, or take --all",
        ));
    }
    let filter = choice.filter.filter(match decision {
        Decision::Acknowledge => None,
        Decision::Replay | Decision::Discard => Some(LetterState::Dead),
    })?;
    if !choice.yes {
        confirm(operator, &filter, decision).await?;
    }
    let mut walk = operator.decide_all(filter, decision);
    let mut total = Step::default();
    loop {
        let began = Instant::now();
        let Some(done) = walk.step(step).await? else { break };
        total.decided += done.decided;
        total.passed_over += done.passed_over;
        total.gone += done.gone;
        total.beyond_inbox += done.beyond_inbox;
        output::remark(&format!("{} so far", total.decided));
        if decision == Decision::Replay {
            tokio::time::sleep(Duration::from_secs(1).saturating_sub(began.elapsed())).await;
        }
    }
    report(decision, &total, format)
}

/// Asks on the terminal; elsewhere nobody can answer.
async fn confirm<DB: Backend>(
    operator: &Operator<DB>,
    filter: &LetterFilter,
    decision: Decision,
) -> Result<(), Failure> {
    let state = |state| match decision {
        Decision::Acknowledge => matches!(state, LetterState::Dead | LetterState::Discarded),
        Decision::Replay | Decision::Discard => state == LetterState::Dead,
    };
    let counts = operator.dead_letter_counts(filter).await?;
    let letters: u64 = counts.iter().filter(|count| state(count.state)).map(|count| count.letters).sum();
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "error: {letters} letters are meant, and nobody is there to be asked\nhelp: add --yes"
        )));
    }
    let verb = match decision {
        Decision::Replay => "replay",
        Decision::Discard => "discard",
        Decision::Acknowledge => "acknowledge",
    };
    let mut err = io::stderr().lock();
    let _ = write!(err, "{verb} {letters} dead letters? [y/N] ").and_then(|()| err.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::check("nothing was changed; answer y, or give --yes"))
    }
}

fn report(decision: Decision, total: &Step, format: OutputFormat) -> Result<(), Failure> {
    let text = || {
        let what = match decision {
            Decision::Replay => "to be replayed by the owners of the slots",
            Decision::Discard => "discarded; `outbox dead ack` lets retention delete the events",
            Decision::Acknowledge => "acknowledged",
        };
        let mut text = format!("{} {what}\n", total.decided);
        let mut add = |number: u64, what: &str| {
            if number > 0 {
                text.push_str(&format!("{number} {what}\n"));
            }
        };
        add(
            total.passed_over,
            "left out: somebody decided about them meanwhile, or their state does not allow it",
        );
        add(total.gone, "not replayed: their events are not stored any more; discard them");
        add(
            total.beyond_inbox,
            "of them are older than 30 days, as long as an inbox remembers by default: their effect may happen twice",
        );
        text
    };
    if decision == Decision::Replay && total.decided > 0 {
        output::remark(INBOX);
    }
    output::result(format, text, || {
        json!({
            "decided": total.decided, "passed_over": total.passed_over, "gone": total.gone,
            "beyond_inbox": total.beyond_inbox,
        })
    })
}

/// What whoever delivers something again must know.
pub(crate) const INBOX: &str = "note: an inbox drops what it has seen; where the effect is to happen again, call \
                                `Inbox::forget` in the consumer's database first";
