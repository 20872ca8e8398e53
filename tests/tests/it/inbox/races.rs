//! The same events handed to two processes, or two pools, at once, at every isolation level of PostgreSQL: one effect each,
//! and no attempt is burned. `OUTBOX_TEST_RACES` is the number of rounds.

use std::process::Stdio;

use outbox_sdk::{Effect, Envelope, Handler, HandlerError, Inbox, Migrator};
use outbox_tests::{PATIENCE, PgTestDb, TestDb as _};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use uuid::Uuid;

use super::event;

const LEVELS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

fn rounds() -> usize {
    std::env::var("OUTBOX_TEST_RACES").map_or(60, |rounds| rounds.parse().unwrap())
}

/// A row for each event, and a row that all of them change.
struct Counting;

impl Handler<Postgres> for Counting {
    async fn handle(&self, event: &Envelope, tx: &mut Transaction<'_, Postgres>) -> Result<(), HandlerError> {
        sqlx::query("INSERT INTO effect VALUES ($1)").bind(event.event_id).execute(&mut **tx).await?;
        sqlx::query("UPDATE total SET n = n + 1").execute(&mut **tx).await?;
        Ok(())
    }
}

struct Race {
    inboxes: [Inbox<Postgres>; 2],
    pool: PgPool,
    db: PgTestDb,
}

impl Race {
    async fn new(level: &str) -> Self {
        let db = PgTestDb::new().await;
        let pool = db.pool().await;
        Migrator::inbox().run(&pool).await.unwrap();
        let tables =
            "CREATE TABLE effect (event_id uuid); CREATE TABLE total (n int); INSERT INTO total VALUES (0)";
        sqlx::raw_sql(tables).execute(&pool).await.unwrap();
        let inbox = async || {
            let options = db.options().options([("default_transaction_isolation", level)]);
            let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await.unwrap();
            let set: String =
                sqlx::query_scalar("SHOW transaction_isolation").fetch_one(&pool).await.unwrap();
            assert_eq!(set, level);
            Inbox::new(pool, "crm")
        };
        Self { inboxes: [inbox().await, inbox().await], pool, db }
    }

    /// Effects, different events among them, and the number in the row that all change.
    async fn effects(&self) -> (i64, i64, i32) {
        let count = "SELECT count(*), count(DISTINCT event_id), (SELECT n FROM total) FROM effect";
        sqlx::query_as(count).fetch_one(&self.pool).await.unwrap()
    }
}

/// The process `inbox-contender`.
struct Contender {
    _process: Child,
    events: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Contender {
    async fn start(race: &Race, level: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inbox-contender"));
        command.args([race.db.address(), level]).kill_on_drop(true);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (events, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut contender = Self { _process: process, events, answers: BufReader::new(answers).lines() };
        assert_eq!(contender.answer().await, level);
        contender
    }

    async fn answer(&mut self) -> String {
        let answer = timeout(PATIENCE, self.answers.next_line()).await.expect("a contender answers");
        answer.unwrap().expect("a contender goes on")
    }
}

#[tokio::test]
async fn two_processes_that_handle_the_same_event_have_one_effect() {
    for level in LEVELS {
        let race = Race::new(level).await;
        let mut contenders = [Contender::start(&race, level).await, Contender::start(&race, level).await];
        for round in 0..rounds() {
            // The one that is told first takes turns.
            contenders.swap(0, 1);
            let event = format!("{}\n", Uuid::now_v7());
            for contender in &mut contenders {
                contender.events.write_all(event.as_bytes()).await.unwrap();
            }
            let answers = [contenders[0].answer().await, contenders[1].answer().await];
            let winner = answers.iter().position(|answer| answer == "done");
            let winner = winner.unwrap_or_else(|| panic!("{level}, {round}: {answers:?}"));
            assert_eq!(answers[1 - winner], "already processed", "{level}, {round}");
        }
        let rounds = rounds();
        let (effects, different, total) = race.effects().await;
        assert_eq!((effects, different, total), (rounds as i64, rounds as i64, rounds as i32), "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_with_the_same_events_have_one_effect_each() {
    const EVENTS: usize = 20;
    for level in LEVELS {
        let race = Race::new(level).await;
        let rounds = rounds().div_ceil(10);
        for round in 0..rounds {
            let events: Vec<_> = (0..EVENTS).map(|n| event("", &n.to_string(), "")).collect();
            // Overlapping halves, the one from the end, with events of their own.
            let mut second: Vec<_> = events[EVENTS / 4..].to_vec();
            second.reverse();
            let batches = [events[..EVENTS * 3 / 4].to_vec(), second];
            let contenders: Vec<_> = race
                .inboxes
                .iter()
                .cloned()
                .zip(batches)
                .map(|(inbox, batch)| {
                    tokio::spawn(async move {
                        let results = inbox.handle_all(&Counting, &batch).await?;
                        let done =
                            batch.iter().zip(results).map(|(event, result)| Ok((event.event_id, result?)));
                        done.collect::<Result<Vec<(Uuid, Effect)>, HandlerError>>()
                    })
                })
                .collect();
            let mut done: Vec<_> = Vec::new();
            for contender in contenders {
                let effects = contender.await.unwrap();
                let effects = effects.unwrap_or_else(|error| panic!("{level}, {round}: {error}"));
                done.extend(
                    effects.into_iter().filter(|(_, effect)| *effect == Effect::Done).map(|(id, _)| id),
                );
            }
            done.sort();
            let mut expected: Vec<_> = events.iter().map(|event| event.event_id).collect();
            expected.sort();
            assert_eq!(done, expected, "{level}, {round}");
        }
        let all = rounds * EVENTS;
        assert_eq!(race.effects().await, (all as i64, all as i64, all as i32), "{level}");
    }
}
