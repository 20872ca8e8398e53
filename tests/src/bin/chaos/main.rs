//! The crash test: the real relay and a real PostgreSQL, processes that die at named points and at random, and an
//! offline checker that holds what the writers, the receiver and the tables say against the promises.
//!
//! `scripts/chaos` sets up the database and starts it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

mod check;
mod evidence;
mod nemesis;
mod points;
mod receiver;
mod relays;
mod report;
mod world;
mod writers;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use evidence::Evidence;
use nemesis::Plan;
use relays::Program;
use world::World;

const USAGE: &str = "\
usage: chaos SEED SECONDS [--kills N] [--passes N] [--keep FOLDER]
       chaos check EVIDENCE.json

Kills relay processes at every crash point and at random, under load, and checks that nothing was lost, repeated
without a reason or reordered. The same SEED gives the same faults in the same order; their timing is the machine's.
  SECONDS         how long random faults go on
  --kills N       go on until so many processes were killed at random (default 0)
  --passes N      how often each crash point is tried, with one relay and with three (default 1; 0: not at all)
  --keep FOLDER   where evidence and logs of a run that fails are written (default: target/chaos)
  check           runs the checker on the evidence of an earlier run
It needs OUTBOX_TEST_DATABASE_URL; scripts/chaos sets that up.";

/// Why a run came to no verdict.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn new(error: impl std::error::Error) -> Self {
        Self(outbox_relay::chain(&error))
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self::new(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}

struct Arguments {
    seed: u64,
    plan: Plan,
    passes: u32,
    keep: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let judged = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check", file] => read(Path::new(file)).map(|evidence| report::print(&evidence)),
        words => match parse(words) {
            None => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
            Some(arguments) => run(&arguments),
        },
    };
    match judged {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(3)
        }
    }
}

fn parse(words: &[&str]) -> Option<Arguments> {
    let [seed, seconds, options @ ..] = words else { return None };
    let mut arguments = Arguments {
        seed: seed.parse().ok()?,
        plan: Plan { length: Duration::from_secs(seconds.parse().ok()?), kills: 0 },
        passes: 1,
        keep: PathBuf::from("target/chaos"),
    };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        let value = options.next()?;
        match *option {
            "--kills" => arguments.plan.kills = value.parse().ok()?,
            "--passes" => arguments.passes = value.parse().ok()?,
            "--keep" => arguments.keep = PathBuf::from(value),
            _ => return None,
        }
    }
    Some(arguments)
}

/// Runs all of it; true when every promise was kept.
fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    println!("seed {}", arguments.seed);
    let keep = arguments.keep.join(arguments.seed.to_string());
    let evidence = runtime.block_on(trouble(arguments, &keep))?;
    let kept = report::print(&evidence);
    let text = serde_json::to_vec(&evidence).map_err(Failure::new)?;
    if kept {
        std::fs::remove_dir_all(&keep)?;
    } else {
        std::fs::write(keep.join("evidence.json"), text)?;
        println!("evidence and logs: {}", keep.display());
    }
    Ok(kept)
}

/// Makes trouble, lets it end, and collects what it left behind; the logs go to `keep`.
async fn trouble(arguments: &Arguments, keep: &Path) -> Result<Evidence, Failure> {
    let seed = arguments.seed;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new(seed, keep).await?;
    let writing = world.writers.start(seed, 2, Duration::from_millis(110));
    if arguments.passes > 0 {
        println!("crash points");
        points::run(&mut world, &mut rng, arguments.passes).await?;
    }
    println!("random faults");
    nemesis::run(&mut world, &mut rng, &arguments.plan).await?;
    world.writers.stop();
    writing.join_all().await;
    // Whoever died last was perhaps the last.
    world.start(Program::Webhook)?;
    if !world.drained().await? {
        println!("events are left although the faults have stopped");
    }
    world.finish(seed).await
}

fn read(file: &Path) -> Result<Evidence, Failure> {
    serde_json::from_slice(&std::fs::read(file)?).map_err(Failure::new)
}
