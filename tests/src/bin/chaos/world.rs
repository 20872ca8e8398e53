//! One database with writers, a receiver and relays around it, and what is done to them.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outbox_relay::maintenance::{MaintenanceError, Retention};
use outbox_sdk::backend::{Decision, LetterFilter, LetterState, Operate as _};
use outbox_sdk::{Migrator, Tables};
use outbox_tests::PgTestDb;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Row as _};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::Failure;
use crate::check::{HANDLER, WEBHOOK};
use crate::evidence::{Consumer, Dead, Event, Evidence, Fault, FaultKind, Micros, Snapshot, Turn, now};
use crate::receiver::Receiver;
use crate::relays::{Program, Relay, Stage, limits, turns};
use crate::writers::{EVENT_TYPE, Writers};

const SIGTERM: i32 = 15;

/// How long anything may take before the run is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const BUSINESS: &str = "CREATE SCHEMA chaos; \
    CREATE TABLE chaos.business (tx bigint NOT NULL); \
    CREATE TABLE chaos.effect (event_id bigint NOT NULL); CREATE SEQUENCE chaos.calls";

/// The names of the sessions, so that they can be told apart.
const WRITER: &str = "chaos-writer";
const OBSERVER: &str = "chaos-observer";

pub(crate) struct World {
    pub(crate) writers: Writers,
    pub(crate) receiver: Receiver,
    pub(crate) relays: Vec<Relay>,
    stage: Stage,
    pool: PgPool,
    incarnations: u32,
    faults: Vec<Fault>,
    aged_below: i64,
    snapshots: Arc<Mutex<Vec<Snapshot>>>,
    watching: CancellationToken,
    // Last, so that it outlives what is above.
    _db: PgTestDb,
}

impl World {
    /// A fresh database, and in `folder` what relays need and their logs.
    pub(crate) async fn new(seed: u64, folder: &Path) -> Result<Self, Failure> {
        let db = PgTestDb::new().await;
        let connect = async |name: &str, connections| {
            let options = db.options().application_name(name);
            PgPoolOptions::new().max_connections(connections).connect_with(options).await
        };
        let pool = connect(OBSERVER, 4).await?;
        Migrator::outbox().run(&pool).await.map_err(Failure::new)?;
        Migrator::inbox().run(&pool).await.map_err(Failure::new)?;
        sqlx::raw_sql(BUSINESS).execute(&pool).await?;
        let writers = Writers::new(connect(WRITER, 8).await?);
        let stage = Stage::prepare(folder, db.url(), EVENT_TYPE)?;
        let world = Self {
            writers,
            receiver: Receiver::start(seed).await?,
            relays: Vec::new(),
            stage,
            pool,
            incarnations: 0,
            faults: Vec::new(),
            aged_below: 0,
            snapshots: Arc::default(),
            watching: CancellationToken::new(),
            _db: db,
        };
        world.watch();
        Ok(world)
    }

    /// Notes again and again what the webhook's consumer is through with.
    fn watch(&self) {
        let (pool, snapshots, stop) = (self.pool.clone(), Arc::clone(&self.snapshots), self.watching.clone());
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                if let Ok(Some(snapshot)) = snapshot(&pool).await {
                    snapshots.lock().unwrap_or_else(PoisonError::into_inner).push(snapshot);
                }
                sleep(Duration::from_millis(150)).await;
            }
        });
    }

    // --- relays --------------------------------------------------------------------------------------------------------

    /// Starts a relay and keeps it; gives out its number.
    pub(crate) fn start(&mut self, program: Program) -> Result<u32, Failure> {
        let relay = self.launch(program, None)?;
        let incarnation = relay.incarnation;
        self.relays.push(relay);
        Ok(incarnation)
    }

    /// Starts a relay, which may be told where to die.
    pub(crate) fn launch(&mut self, program: Program, crash_point: Option<&str>) -> Result<Relay, Failure> {
        self.incarnations += 1;
        let url = self.receiver.url(self.incarnations);
        Ok(self.stage.start(program, self.incarnations, &url, crash_point)?)
    }

    /// The relay that owns the webhook's consumer, by its place among those that run.
    pub(crate) async fn owner(&self) -> Result<Option<usize>, Failure> {
        let owner: Option<String> = sqlx::query_scalar(
            "SELECT max(owner) FROM outbox.consumer WHERE name = $1 AND lease_until > now()",
        )
        .bind(WEBHOOK)
        .fetch_one(&self.pool)
        .await?;
        let name = |relay: &Relay| format!("relay-{}", relay.incarnation);
        Ok(self.relays.iter().position(|relay| Some(name(relay)) == owner))
    }

    /// Whether this relay was the last to own the slot of its consumer.
    pub(crate) async fn owns(&self, relay: &Relay) -> Result<bool, Failure> {
        let consumer = if relay.program == Program::Webhook { WEBHOOK } else { HANDLER };
        let owns =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM outbox.consumer WHERE name = $1 AND owner = $2)")
                .bind(consumer)
                .bind(format!("relay-{}", relay.incarnation));
        Ok(owns.fetch_one(&self.pool).await?)
    }

    /// Kills a relay and lets another one take its place.
    pub(crate) async fn kill(&mut self, place: usize) -> Result<(), Failure> {
        let mut relay = self.relays.swap_remove(place);
        self.kill_for_good(&mut relay).await?;
        self.start(relay.program)?;
        Ok(())
    }

    pub(crate) async fn kill_for_good(&mut self, relay: &mut Relay) -> Result<(), Failure> {
        let from = now();
        relay.kill().await?;
        self.note(from, FaultKind::Kill, Some(relay.incarnation));
        self.look().await
    }

    /// Stops a process for longer than its lease.
    pub(crate) async fn freeze(&mut self, place: usize, length: Duration) -> Result<(), Failure> {
        let incarnation = self.relays[place].incarnation;
        let from = now();
        self.relays[place].signal("STOP").await?;
        sleep(length).await;
        self.relays[place].signal("CONT").await?;
        self.note(from, FaultKind::Stop, Some(incarnation));
        self.look().await
    }

    /// Ends a relay in order, and starts another one in its place.
    pub(crate) async fn roll(&mut self, place: usize) -> Result<(), Failure> {
        let mut relay = self.relays.swap_remove(place);
        let from = now();
        self.start(relay.program)?;
        self.end(&mut relay).await?;
        self.note(from, FaultKind::Roll, Some(relay.incarnation));
        Ok(())
    }

    async fn end(&self, relay: &mut Relay) -> Result<(), Failure> {
        relay.signal("TERM").await?;
        let ended = tokio::time::timeout(PATIENCE, relay.ended()).await;
        match ended {
            // A process that is told to end before it listens for that owns nothing yet: copies would stay unexplained.
            Ok(Ok(status)) if status.success() || status.signal() == Some(SIGTERM) => Ok(()),
            Ok(Ok(status)) => Err(Failure::text(format!("relay {} ended with {status}", relay.incarnation))),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::text(format!("relay {} does not end on SIGTERM", relay.incarnation))),
        }
    }

    // --- faults ----------------------------------------------------------------------------------------------------------

    /// Ends a fault that began at `from`.
    pub(crate) fn note(&mut self, from: Micros, kind: FaultKind, incarnation: Option<u32>) {
        self.faults.push(Fault { from, until: now(), kind, incarnation });
    }

    pub(crate) fn count(&self, fits: impl Fn(&FaultKind) -> bool) -> usize {
        self.faults.iter().filter(|fault| fits(&fault.kind)).count()
    }

    /// Ends the database sessions of the relays, or of the writers.
    pub(crate) async fn cut(&mut self, kind: FaultKind) -> Result<(), Failure> {
        let from = now();
        let sessions = if kind == FaultKind::WriterBackends { WRITER } else { "outbox" };
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name = $1",
        )
        .bind(sessions)
        .execute(&self.pool)
        .await?;
        self.note(from, kind, None);
        Ok(())
    }

    // --- operators ---------------------------------------------------------------------------------------------------------

    /// Decides about some of the webhook consumer's dead letters; how many there were.
    pub(crate) async fn decide(&mut self, decision: Decision, most: u32) -> Result<usize, Failure> {
        let from = now();
        let mut conn = self.pool.acquire().await?;
        let filter = LetterFilter {
            consumer: Some(WEBHOOK.to_owned()),
            state: Some(LetterState::Dead),
            ..LetterFilter::default()
        };
        let tables = Tables::default();
        let dead = Postgres::dead_letter_keys(&mut conn, &tables, &filter, None, most).await?;
        let keys: Vec<_> = dead.into_iter().map(|aged| aged.key).collect();
        let decided = Postgres::decide(&mut conn, &tables, &keys, decision, None).await?.len();
        let kind = if decision == Decision::Replay { FaultKind::Replay } else { FaultKind::Discard };
        self.note(from, kind, None);
        Ok(decided)
    }

    /// Makes the first part of the events old, those that are done with.
    pub(crate) async fn age(&mut self, part: f64) -> Result<(), Failure> {
        let below: i64 = sqlx::query_scalar(
            "SELECT coalesce(min(id) + ((max(id) - min(id)) * $1)::bigint, 0) FROM outbox.event",
        )
        .bind(part)
        .fetch_one(&self.pool)
        .await?;
        self.aged_below = self.aged_below.max(below);
        sqlx::query(
            "UPDATE outbox.event SET created_at = created_at - interval '20 days', \
                 available_at = available_at - interval '20 days', dispatched_at = dispatched_at - interval '20 days' \
             WHERE id < $1 AND status = 'dispatched'",
        )
        .bind(below)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Has what is old deleted.
    pub(crate) async fn compact(&mut self, part: f64) -> Result<(), Failure> {
        let from = now();
        self.age(part).await?;
        match Retention::new(self.pool.clone()).run_once().await {
            // A process that is killed at it, or works at it, is no defect.
            Ok(_) | Err(MaintenanceError::Busy) => {}
            Err(error) => return Err(Failure::new(error)),
        }
        self.note(from, FaultKind::Retention, None);
        Ok(())
    }

    /// Gives the webhook's consumer another number of slots: one relay after the other begins anew with it.
    pub(crate) async fn resize(&mut self, slots: u16) -> Result<(), Failure> {
        let from = now();
        self.stage.slots = slots;
        for _ in 0..self.relays.len() {
            let mut relay = self.relays.remove(0);
            if relay.program == Program::Webhook {
                self.start(relay.program)?;
                self.end(&mut relay).await?;
            } else {
                self.relays.push(relay);
            }
        }
        self.note(from, FaultKind::Resize, None);
        Ok(())
    }

    /// Notes at once what the consumer is through with.
    pub(crate) async fn look(&self) -> Result<(), Failure> {
        if let Some(snapshot) = snapshot(&self.pool).await? {
            self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).push(snapshot);
        }
        Ok(())
    }

    // --- the end -----------------------------------------------------------------------------------------------------------

    /// Waits until nothing is left to deliver; false when that takes too long, which the checker will then find.
    pub(crate) async fn drained(&self) -> Result<bool, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM outbox.consumer, (SELECT coalesce(max(id), 0) AS last FROM outbox.event) AS event \
                 WHERE NOT settled @> int8range(1, greatest(last, 1) + 1)",
            )
            .fetch_one(&self.pool)
            .await?;
            let stalled: i64 = sqlx::query_scalar(
                "SELECT (SELECT count(*) FROM outbox.stall) \
                    + (SELECT count(*) FROM outbox.dead_letter WHERE state = 'replay' OR NOT recorded)",
            )
            .fetch_one(&self.pool)
            .await?;
            if waiting == 0 && stalled == 0 {
                return Ok(true);
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(false)
    }

    /// Ends all relays in order and collects what the run leaves behind.
    pub(crate) async fn finish(mut self, seed: u64) -> Result<Evidence, Failure> {
        for mut relay in std::mem::take(&mut self.relays) {
            self.end(&mut relay).await?;
        }
        self.watching.cancel();
        let mut snapshots =
            std::mem::take(&mut *self.snapshots.lock().unwrap_or_else(PoisonError::into_inner));
        snapshots.sort_by_key(|snapshot| snapshot.at);
        let ids = async |sql: &'static str| sqlx::query_scalar::<_, i64>(sql).fetch_all(&self.pool).await;
        let business = ids("SELECT tx FROM chaos.business").await?;
        let events = sqlx::query("SELECT id, status::text FROM outbox.event ORDER BY id");
        let dead = sqlx::query("SELECT consumer, event_id, state FROM outbox.dead_letter ORDER BY event_id");
        let consumers = sqlx::query(
            "SELECT name, settled::text, (SELECT count(*) FROM outbox.stall WHERE consumer = name) FROM outbox.consumer",
        );
        Ok(Evidence {
            seed,
            limits: limits(),
            writes: self.writers.journal(),
            arrivals: self.receiver.arrivals(),
            faults: self.faults.clone(),
            turns: self.turns().await?,
            aged_below: self.aged_below,
            snapshots,
            effects: ids("SELECT event_id FROM chaos.effect").await?,
            business: business.into_iter().map(i64::unsigned_abs).collect(),
            events: events
                .fetch_all(&self.pool)
                .await?
                .iter()
                .map(|row| Event { id: row.get(0), status: row.get(1) })
                .collect(),
            dead: dead
                .fetch_all(&self.pool)
                .await?
                .iter()
                .map(|row| Dead { consumer: row.get(0), id: row.get(1), state: row.get(2) })
                .collect(),
            consumers: consumers
                .fetch_all(&self.pool)
                .await?
                .iter()
                .map(|row| Consumer {
                    name: row.get(0),
                    settled: row.get(1),
                    stalled_lanes: row.get::<i64, _>(2).unsigned_abs(),
                })
                .collect(),
            idle_in_transaction: ids("SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND state LIKE 'idle in transaction%'")
            .await?
            .into_iter()
            .sum(),
        })
    }

    /// What the logs say about ownership. The database reads their times.
    async fn turns(&self) -> Result<Vec<Turn>, Failure> {
        let mut found = Vec::new();
        for incarnation in 1..=self.incarnations {
            let log = self.stage.folder.join(format!("logs/{incarnation}.log"));
            found.extend(turns(&log).into_iter().map(|(time, kind)| (incarnation, time, kind)));
        }
        let times: Vec<String> = found.iter().map(|(_, time, _)| time.clone()).collect();
        let at: Vec<i64> = sqlx::query_scalar(
            "SELECT (extract(epoch FROM time::timestamptz) * 1000000)::bigint \
             FROM unnest($1::text[]) WITH ORDINALITY AS log (time, line) ORDER BY line",
        )
        .bind(times)
        .fetch_all(&self.pool)
        .await?;
        if at.is_empty() {
            return Err(Failure::text("the relays' logs tell no claim: were the words changed?"));
        }
        let mut turns: Vec<Turn> = found
            .into_iter()
            .zip(at)
            .map(|((incarnation, _, kind), at)| Turn { at, incarnation, kind })
            .collect();
        turns.sort_by_key(|turn| turn.at);
        Ok(turns)
    }
}

/// One statement, so that both tables are seen at the same moment.
async fn snapshot(pool: &PgPool) -> sqlx::Result<Option<Snapshot>> {
    let rows = sqlx::query(
        "SELECT NULL, settled::text, slot::bigint AS number FROM outbox.consumer WHERE name = $1 \
         UNION ALL SELECT lane, NULL, head_id FROM outbox.stall WHERE consumer = $1 ORDER BY number",
    )
    .bind(WEBHOOK)
    .fetch_all(pool)
    .await?;
    let mut found = BTreeMap::new();
    let mut slots = Vec::new();
    for row in &rows {
        match row.get::<Option<String>, _>(0) {
            Some(lane) => {
                found.insert(lane, row.get::<i64, _>(2));
            }
            None => slots.push(row.get::<String, _>(1)),
        }
    }
    let stalls = found.into_iter().collect();
    Ok((!slots.is_empty()).then(|| Snapshot { at: now(), slots, stalls }))
}
