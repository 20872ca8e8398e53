//! The relay: consumers and their sinks, put together and run.

mod check;
mod error;
mod registering;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use outbox_sdk::{Backend, Hint, Migratable, Tables};
use sqlx::Pool;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

pub use self::error::{RegistrationProblem, RelayError};
use crate::attempt::{Consumer, MissingSchema};
use crate::chain::chain;
use crate::company::{Company, FreeSlots};
use crate::consumer::ConsumerSpec;
use crate::history::History;
use crate::listener;
use crate::maintenance::{Recorder, RetainFor, Retention};
use crate::ownership::Ownership;
use crate::schemas::Schemas;
use crate::session::{Session, limited};
use crate::shared_read::SharedRead;
use crate::sink::Sink;

/// How often the registry folder is looked at.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// How a relay runs. Start from the default and change what must be.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The relay's name in leases; unique among running relays. Default: host name, process id and a random part.
    pub name: String,
    /// How long a lease runs without being renewed: how soon another relay takes over after a crash. It is renewed at
    /// a third. Default 30 s.
    pub lease: Duration,
    /// The pause between reads while events come. Default 10 ms.
    pub poll_min: Duration,
    /// The pause between reads when nothing has come for a while. Default 1 s.
    pub poll_max: Duration,
    /// The most events of one read. Default 500.
    pub read_rows: u32,
    /// The most payload bytes of one read, and the largest payload that is carried. Default 8 MiB.
    pub read_bytes: u64,
    /// The most events of one consumer in memory. Default 10,000.
    pub window_rows: usize,
    /// The most payload bytes of one consumer in memory. Default 64 MiB.
    pub window_bytes: usize,
    /// How long a shutdown waits for what is in flight. Default 30 s.
    pub grace: Duration,
    /// The time limit of one database call: at most a third of the lease. Default 4 s.
    pub deadline: Duration,
    /// How often an owner looks for rows whose ids were given up; only while there are such ids. Default 60 s.
    pub sweep_interval: Duration,
    /// Whether to listen for the notifications of `Hint::notify`: one more connection per relay, and events of other
    /// processes start at once instead of at the next poll. Needs a session of its own, so leave it off behind a pooler
    /// in transaction mode. Without effect on SQLite. Default off.
    pub listen: bool,
    /// What happens to events that the registry has no schema for.
    pub missing_schema: MissingSchema,
    /// Whether this relay takes turns at writing down what events have come to. If none does, `status` stays `pending`,
    /// and retention counts from `created_at`: set it alike in all relays. Default on.
    pub recorder: bool,
    /// How many attempts of each event and consumer are remembered for `outbox why`, the newest; those that went well at
    /// once are not. 0 keeps no history. Default 20.
    pub attempt_history: u32,
    /// How long events are kept after they are done with. Default 10 days.
    pub retention: RetainFor,
    /// Where randomness for jitter comes from: uniform in `0.0..1.0`.
    pub random: fn() -> f64,
}

impl Default for Settings {
    fn default() -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "relay".to_owned());
        Self {
            name: format!("{host}-{}-{:08x}", std::process::id(), rand::random::<u32>()),
            lease: Duration::from_secs(30),
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_secs(1),
            read_rows: 500,
            read_bytes: 8 * 1024 * 1024,
            window_rows: 10_000,
            window_bytes: 64 * 1024 * 1024,
            grace: Duration::from_secs(30),
            deadline: Duration::from_secs(4),
            sweep_interval: Duration::from_secs(60),
            listen: false,
            missing_schema: MissingSchema::default(),
            recorder: true,
            attempt_history: 20,
            retention: RetainFor::default(),
            random: rand::random::<f64>,
        }
    }
}

/// Reads committed events and delivers them to every consumer.
///
/// ```no_run
/// use std::sync::Arc;
/// use outbox_relay::{ConsumerSpec, Relay, Schemas};
/// # use outbox_relay::sink::Sink;
///
/// # async fn run(pool: sqlx::PgPool, sink: Arc<dyn Sink>) -> Result<(), Box<dyn std::error::Error>> {
/// let relay = Relay::builder(pool)
///     .schemas(Schemas::open("schemas")?)
///     .consumer(ConsumerSpec::new("crm")?.events(["entity.customer.*"])?, sink)
///     .build()?;
/// relay.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Relay<DB: Backend> {
    pool: Pool<DB>,
    tables: Tables,
    settings: Arc<Settings>,
    schemas: Schemas,
    consumers: Vec<Arc<Consumer>>,
    committed: Arc<watch::Sender<()>>,
    /// Woken when a consumer has settled something.
    settled: Arc<Notify>,
}

/// Puts a [`Relay`] together.
pub struct RelayBuilder<DB: Backend> {
    pool: Pool<DB>,
    tables: Tables,
    settings: Settings,
    schemas: Schemas,
    consumers: Vec<Consumer>,
    settled: Arc<Notify>,
}

impl<DB: Backend> RelayBuilder<DB> {
    /// Uses these tables instead of the default ones.
    #[must_use]
    pub fn tables(mut self, tables: Tables) -> Self {
        self.tables = tables;
        self
    }

    /// Runs with these settings instead of the default ones.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Validates payloads against these schemas. Without any, every event type is unknown and waits for its schema,
    /// unless [`Settings::missing_schema`] says otherwise.
    #[must_use]
    pub fn schemas(mut self, schemas: Schemas) -> Self {
        self.schemas = schemas;
        self
    }

    /// Adds a consumer and where its events go.
    #[must_use]
    pub fn consumer(mut self, spec: ConsumerSpec, sink: Arc<dyn Sink>) -> Self {
        let settled = Arc::clone(&self.settled);
        self.consumers.push(Consumer { spec, sink, settled });
        self
    }

    /// Checks everything that can be checked without the database.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn build(self) -> Result<Relay<DB>, RelayError> {
        let settings = self.settings;
        if self.consumers.is_empty() {
            return Err(RelayError::NoConsumer);
        }
        let zero = [
            ("lease", settings.lease.is_zero()),
            ("poll_min", settings.poll_min.is_zero()),
            ("poll_max", settings.poll_max.is_zero()),
            ("read_rows", settings.read_rows == 0),
            ("read_bytes", settings.read_bytes == 0),
            ("window_rows", settings.window_rows == 0),
            ("window_bytes", settings.window_bytes == 0),
            ("deadline", settings.deadline.is_zero()),
        ];
        if let Some((name, _)) = zero.into_iter().find(|(_, zero)| *zero) {
            return Err(RelayError::ZeroSetting(name));
        }
        let Settings { deadline, lease, .. } = settings;
        if deadline > lease / 3 {
            return Err(RelayError::DeadlineAboveLease { deadline, lease });
        }
        let specs = || self.consumers.iter().map(|consumer| &consumer.spec);
        let problems = check::problems(specs(), &self.schemas, settings.missing_schema);
        if !problems.is_empty() {
            return Err(RelayError::Registration(problems));
        }
        for spec in specs() {
            if spec.timeout >= settings.lease {
                return Err(RelayError::TimeoutAboveLease {
                    consumer: spec.name.to_string(),
                    timeout: spec.timeout,
                    lease: settings.lease,
                });
            }
        }
        Ok(Relay {
            pool: self.pool,
            tables: limited(&self.tables, settings.deadline),
            settings: Arc::new(settings),
            schemas: self.schemas,
            consumers: self.consumers.into_iter().map(Arc::new).collect(),
            committed: Arc::new(watch::Sender::new(())),
            settled: self.settled,
        })
    }
}

impl<DB: Migratable> Relay<DB> {
    /// Begins a relay on this database. It takes one connection out of the pool for itself, one for each slot that it runs,
    /// and one for the read that several of them share, and keeps them; so does listening.
    #[must_use]
    pub fn builder(pool: Pool<DB>) -> RelayBuilder<DB> {
        RelayBuilder {
            pool,
            tables: Tables::default(),
            settings: Settings::default(),
            schemas: Schemas::none(),
            consumers: Vec::new(),
            settled: Arc::default(),
        }
    }

    /// Wakes this relay after a commit in the same process: give it to `Outbox::with_hint`.
    #[must_use]
    pub fn hint(&self) -> Hint {
        let committed = Arc::clone(&self.committed);
        Hint::poke(move || committed.send_replace(()))
    }

    /// The consumers without which nothing may be deleted.
    fn required(&self) -> Vec<String> {
        let specs = self.consumers.iter().map(|consumer| &consumer.spec);
        specs.filter(|spec| spec.required_for_retention).map(|spec| spec.name.to_string()).collect()
    }

    /// Runs until `shutdown` resolves; then starts nothing new, waits for what is in flight within the grace period,
    /// settles it and gives every slot back.
    ///
    /// A database that is away, now or later, is waited for.
    ///
    /// # Errors
    /// When the tables are missing or foreign, or a new consumer was not told where to begin.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), RelayError> {
        let token = CancellationToken::new();
        let _stop_when_dropped = token.clone().drop_guard();
        let mut running = Box::pin(self.start(&token, false));
        tokio::select! {
            ended = &mut running => return ended.map(|_| ()),
            () = shutdown => token.cancel(),
        }
        running.await.map(|_| ())
    }

    /// Drains: claims every slot of its consumers, delivers until nothing is due any more, and gives the slots back.
    /// Returns how many events were delivered or became dead. A slot that another relay holds is waited for.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_once(&self) -> Result<u64, RelayError> {
        let token = CancellationToken::new();
        let _stop_when_dropped = token.clone().drop_guard();
        self.start(&token, true).await
    }

    async fn start(&self, token: &CancellationToken, once: bool) -> Result<u64, RelayError> {
        self.register(token).await?;
        let free_slots = Arc::new(FreeSlots::of(&self.consumers));
        let session = Session::new(self.pool.clone(), self.tables.clone(), self.settings.deadline);
        let (shared, sharing) = SharedRead::new(
            &self.settings,
            &self.tables,
            session,
            self.committed.subscribe(),
            Arc::clone(&free_slots),
        );
        // A drain ends after the reads that it made itself; a slot alone has nobody to share with.
        let slots: usize = self.consumers.iter().map(|consumer| usize::from(consumer.spec.slots)).sum();
        let session = Session::new(self.pool.clone(), self.tables.clone(), self.settings.deadline);
        let (history, writer) = History::new(self.settings.attempt_history, session);
        // Ends by itself when nothing can be noted any more.
        let writing = writer.map(|writer| tokio::spawn(writer.run()));
        let company = Company {
            settings: Arc::clone(&self.settings),
            pool: self.pool.clone(),
            tables: self.tables.clone(),
            schemas: self.schemas.clone(),
            history,
            shared: (!once && slots > 1).then_some(shared),
            committed: self.committed.subscribe(),
            free_slots,
            careful: Arc::new(Semaphore::new(1)),
            once,
        };
        let running = Ownership::new(&self.consumers, Arc::new(company), token.clone()).run();
        let reloading = self.reload(token);
        let ended = tokio::select! {
            ended = running => ended,
            () = reloading => Ok(0),
            () = sharing.run() => Ok(0),
            () = self.listen() => Ok(0),
            () = self.maintain(token), if !once => Ok(0),
        };
        if let Some(writing) = writing {
            // What is not written by then is not worth waiting for.
            let _ = tokio::time::timeout(self.settings.deadline, writing).await;
        }
        ended
    }

    /// Records and deletes beside the consumers; never ends.
    async fn maintain(&self, token: &CancellationToken) {
        let Settings { deadline, recorder, ref retention, random, .. } = *self.settings;
        if !recorder {
            tracing::warn!(
                "the recorder is off: `status` stays `pending`, and retention counts from `created_at`; every other \
                 condition stays"
            );
        }
        let recording = async {
            if recorder {
                let recorder =
                    Recorder::new(self.pool.clone()).tables(self.tables.clone()).deadline(deadline);
                recorder.run(&self.settled, token, random).await;
            }
        };
        let retaining = Retention::new(self.pool.clone())
            .tables(self.tables.clone())
            .deadline(deadline)
            .retain(retention)
            .recorder(recorder)
            .require(self.required());
        tokio::join!(recording, retaining.run(token, random));
        std::future::pending::<()>().await;
    }

    /// Wakes the consumers when other processes say that they committed something; never ends.
    async fn listen(&self) {
        if self.settings.listen {
            let heard = || self.committed.send_replace(());
            listener::listen::<DB>(&self.pool, &self.tables, &self.settings, heard).await;
        }
        std::future::pending::<()>().await;
    }

    /// Looks at the registry folder now and then; never ends.
    async fn reload(&self, token: &CancellationToken) {
        let mut complained = false;
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            if token.is_cancelled() {
                std::future::pending::<()>().await;
            }
            let schemas = self.schemas.clone();
            match tokio::task::spawn_blocking(move || schemas.reload()).await {
                Ok(Ok(changed)) => {
                    complained = false;
                    if changed {
                        tracing::info!("the schema registry changed and was loaded");
                    }
                }
                Ok(Err(error)) if !complained => {
                    complained = true;
                    tracing::error!(
                        error = chain(&error),
                        "the schema registry has problems; keeping the last good one"
                    );
                }
                _ => {}
            }
        }
    }
}
