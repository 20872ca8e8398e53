//! `outbox demo`: the main job, from the business change to its effect at a consumer, with a crash in the middle.
//!
//! What runs: a sample service (`service`, `customer`) that follows a plan (`plan`) and publishes events (`events`);
//! the relay, as a process of its own (`relay`); a consumer that takes webhooks (`receiver`). In the end the promises
//! (`promises`) are judged by what both databases and the consumer's journal say (`evidence`), and the account is given
//! (`account`).

mod account;
mod customer;
mod error;
mod events;
mod evidence;
mod plan;
mod promises;
mod receiver;
mod relay;
mod service;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_relay::sink::{Answer, Delivery, Sink as _};
use outbox_sdk::Envelope;
use outbox_sdk::webhook::Secret;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::account::{Account, Verdict};
use self::error::DemoError;
use self::evidence::{Evidence, standing};
use self::plan::{CUSTOMERS, Plan, WRITERS};
use self::receiver::{CrmReceiver, Holding};
use self::relay::RelayProcess;
use self::service::{Ledger, MasterData};
use crate::OutputFormat;
use crate::database::sqlite_file;
use crate::exit::Failure;

const CONSUMER: &str = "crm";
const DATABASE_FILE: &str = "master_data.db";
const CONSUMER_FILE: &str = "crm.db";
const REGISTRY_FOLDER: &str = "schemas";

/// How long everything may take. It takes a few seconds, most of which are the lease of the relay that is killed.
const LIMIT: Duration = Duration::from_secs(45);
/// How often a state is asked for that nothing announces.
const POLL: Duration = Duration::from_millis(25);
/// The receiver keeps these answers back, so that the kill certainly comes between delivery and settle.
const HOLDING: Holding = Holding { after_effects: 80, answers: 4 };

/// Arguments of `outbox demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keep the databases, schemas, configuration and logs for inspection.
    #[arg(long)]
    keep: bool,
}

pub(crate) async fn demo(args: Args, format: OutputFormat) -> Result<(), Failure> {
    let began = Instant::now();
    let folder = tempfile::Builder::new()
        .prefix("outbox-demo-")
        .tempdir()
        .map_err(|source| DemoError::Folder { path: std::env::temp_dir(), source }.failure(None))?;
    let interrupted = interrupted().map_err(|error| error.failure(None))?;
    let mut account = Account::new(format);
    let limit = Limit { ends: began + LIMIT };
    let ended = tokio::select! {
        ended = story(folder.path(), &mut account, limit) => ended,
        () = interrupted => Err(DemoError::Interrupted),
    };
    let ended = ended.and_then(|verdict| {
        let broken = verdict.broken();
        let kept = (args.keep || broken > 0).then(|| folder.path());
        let printed = account.close(&verdict, began.elapsed(), kept);
        if broken > 0 {
            return Err(DemoError::Broken { broken, of: verdict.promises.len() });
        }
        printed
    });
    match ended {
        Ok(()) => {
            if args.keep {
                let _ = folder.keep();
            }
            Ok(())
        }
        Err(DemoError::Interrupted) if !args.keep => Err(DemoError::Interrupted.failure(None)),
        Err(error) => Err(error.failure(Some(&folder.keep()))),
    }
}

/// From the empty folder to the verdict.
async fn story(folder: &Path, account: &mut Account, limit: Limit) -> Result<Verdict, DemoError> {
    let database = sqlite_file(&folder.join(DATABASE_FILE));
    let consumer_database = sqlite_file(&folder.join(CONSUMER_FILE));

    account.step(
        "A service and its database",
        "One SQLite file holds the tables of a small master-data service (customer, permission_grant, audit_log) and, \
         beside them, those of the outbox. Being in one database is the point: what happened, who did it and the event \
         that tells others commit together or not at all.",
    );
    let service = MasterData::create(database.clone()).await?;

    account.step(
        "A registry of schemas",
        "Each event is a Rust struct; its JSON Schema is derived from it and committed as a file. The relay checks \
         every payload against these files before anybody else sees it.",
    );
    events::write_registry(&folder.join(REGISTRY_FOLDER))?;

    account.step(
        "A consumer",
        "A CRM with a database of its own takes events as signed webhooks. It verifies each signature. The note that \
         an event was processed (its inbox) and the effect of the event commit together, so that a second delivery of \
         the same event changes nothing.",
    );
    let secret = relay::new_secret();
    let receiver = CrmReceiver::start(consumer_database.clone(), Secret::parse(&secret)?, HOLDING).await?;
    forge(&receiver.url(0)).await?;
    account.result(&format!(
        "It listens on {}. Somebody without the secret sent it an event: {} refused.",
        receiver.address,
        receiver.refused()
    ));

    account.step(
        "A relay, as a process of its own",
        "`outbox run` reads committed events, validates, delivers, and writes down what is settled. It needs nothing \
         but the database, the registry and a configuration file.",
    );
    relay::write_config(folder, &receiver.url(1))?;
    let mut first = RelayProcess::start(folder, 1, &receiver.url(1), &secret)?;
    account.result(&format!("Relay 1 runs, process {}.", first.pid()));

    account.step(
        &format!("{WRITERS} writers change {CUSTOMERS} customers"),
        "Each change is one transaction: the row, its audit row, its events (entity.customer.created, .updated, \
         .archived, permission.granted). Some requests are refused at the last moment, after the publish: they roll \
         back, and their events must never arrive. An old import script publishes an update whose `version` is a text.",
    );
    let killed = CancellationToken::new();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(service.clone().ask(Plan::of(writer), killed.clone()));
    }

    account.step(
        "The relay is killed at the worst moment",
        "The consumer has done its work for a few events, but its answers are still on their way. Then the relay is \
         killed with SIGKILL: it can neither finish nor clean up, and nobody knows that these events arrived.",
    );
    let in_flight = poll(async || {
        first.still_runs()?;
        Ok(receiver.held() == HOLDING.answers)
    });
    limit.wait("the moment at which answers are on their way", in_flight).await?;
    let pid = first.pid();
    first.kill().await?;
    let settled_at_kill = standing(&database).await?.settled;
    account.result(&format!("Process {pid} is dead; {} answers never reached it.", receiver.held()));
    killed.cancel();

    account.step(
        "Another relay takes over",
        "The service goes on publishing; it does not depend on the relay. Relay 2 waits until the lease of relay 1 has \
         run out, and begins with everything that is not settled. What relay 1 had sent comes a second time: that is \
         what at least once means, and what the inbox is for.",
    );
    receiver.let_go();
    let mut second = RelayProcess::start(folder, 2, &receiver.url(2), &secret)?;
    account.result(&format!("Relay 2 runs, process {}.", second.pid()));
    let mut ledger = Ledger::default();
    let written = async {
        while let Some(writer) = writers.join_next().await {
            ledger.add(writer??);
        }
        Ok(())
    };
    limit.wait("the end of the writers", written).await?;
    let stored = evidence::stored(&database).await?;
    let settled = poll(async || {
        second.still_runs()?;
        Ok(standing(&database).await?.is_done(stored.iter().map(|event| event.id)))
    });
    limit.wait("the settling of every event", settled).await?;
    let dead = evidence::dead_letters(&database).await?;
    for letter in &dead {
        account.result(&format!(
            "Event {} is a dead letter, {}: {}. The events behind it went on.",
            letter.event_id, letter.reason, letter.last_error
        ));
    }

    account.step(
        "The relay is told to stop",
        "SIGTERM: nothing new is sent, what is in flight is settled, and what it held is given back, so that the next \
         relay begins at once.",
    );
    limit.wait("the end of relay 2", second.stop()).await?;
    account.result("Relay 2 ended with exit code 0.");

    let evidence = Evidence {
        ledger,
        stored,
        changes: evidence::changes(&database).await?,
        arrivals: receiver.arrivals(),
        refused: receiver.refused(),
        held: receiver.held(),
        effects: evidence::effects(&consumer_database).await?,
        customers: evidence::customers(&database).await?,
        copies: evidence::copies(&consumer_database).await?,
        dead,
        settled_at_kill,
        standing: standing(&database).await?,
    };
    drop(receiver);
    tokio::join!(database.close(), consumer_database.close());
    Ok(Verdict::of(&evidence, promises::judge(&evidence)))
}

/// Sends an event as the relay would, signed with a secret that the receiver does not have.
async fn forge(url: &str) -> Result<(), DemoError> {
    let mut config = WebhookConfig::new(url, Secret::parse(&relay::new_secret())?);
    config.allow_private_addresses = true;
    let event = Envelope::example("entity.customer.created", 1, "{}");
    // Whether it was taken is the receiver's to say.
    WebhookSink::new(config)?
        .deliver(Delivery { envelope: &event, attempt: 1, replay: false, answer: &Answer::default() })
        .await;
    Ok(())
}

/// The time that is left for everything.
#[derive(Clone, Copy)]
struct Limit {
    ends: Instant,
}

impl Limit {
    async fn wait<T>(
        self,
        awaited: &'static str,
        ending: impl Future<Output = Result<T, DemoError>>,
    ) -> Result<T, DemoError> {
        let ended = tokio::time::timeout_at(self.ends, ending).await;
        ended.unwrap_or(Err(DemoError::Limit { awaited, limit: LIMIT }))
    }
}

/// Asks again and again, until it holds.
async fn poll(mut holds: impl AsyncFnMut() -> Result<bool, DemoError>) -> Result<(), DemoError> {
    while !holds().await? {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Resolves on Ctrl-C or SIGTERM: nothing of a demo that is not wanted any more stays behind.
fn interrupted() -> Result<impl Future<Output = ()>, DemoError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DemoError::Listen)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(DemoError::Listen)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
