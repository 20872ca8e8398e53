//! A process dies at each crash point, alone and among three.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use outbox_sdk::backend::Decision;
use outbox_sdk::injection::CRASH_POINTS;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use crate::Failure;
use crate::evidence::{FaultKind, now};
use crate::relays::Program;
use crate::world::{PATIENCE, World};

const SIGABRT: i32 = 6;
/// How long a process may take to come to its crash point before the others are killed.
const TURN: Duration = Duration::from_secs(4);

/// Every point with one and with three relays; `passes` times each, at a pass that the seed chooses.
pub(crate) async fn run(world: &mut World, rng: &mut StdRng, passes: u32) -> Result<(), Failure> {
    for _ in 0..passes {
        for relays in [1, 3] {
            for point in CRASH_POINTS {
                let nth = rng.random_range(1..4);
                crash(world, point, nth, relays).await?;
            }
        }
    }
    Ok(())
}

async fn crash(world: &mut World, point: &str, nth: u32, relays: u32) -> Result<(), Failure> {
    let program = match point {
        "in_compact" => Program::Compact,
        _ if point.starts_with("handler") => Program::Handler,
        _ => Program::Webhook,
    };
    // Some points are passed only once in the life of a process, or rarely.
    let rare = matches!(point, "claimed" | "renewed" | "drain_start" | "in_compact" | "replay_sent");
    let nth = if rare { 1 } else { nth };
    if program == Program::Compact {
        world.age(0.3).await?;
    }
    let begun = Instant::now();
    // A lease is renewed by itself only where nothing else is written.
    world.writers.pause(point == "renewed");
    let mut doomed = world.launch(program, Some(&format!("{point}:{nth}")))?;
    let mut others = Vec::new();
    if program != Program::Compact && (relays > 1 || point == "drain_start") {
        let what = format!("relay {} owns the slot", doomed.incarnation);
        until(&what, async || Ok(world.owns(&doomed).await? || doomed.has_ended())).await?;
    }
    for _ in 1..relays {
        others.push(world.launch(program, None)?);
    }
    if point == "drain_start" {
        doomed.signal("TERM").await?;
    }
    let mut turn_over = Instant::now() + TURN;
    let status = loop {
        if let Ok(status) = timeout(TURN / 20, doomed.ended()).await {
            break status?;
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::text(format!("no relay came to the crash point {point}:{nth}")));
        }
        if point == "replay_sent" {
            world.decide(Decision::Replay, 1).await?;
        }
        if Instant::now() < turn_over {
            continue;
        }
        turn_over = Instant::now() + TURN;
        // On a busy machine it may have lost its lease to one of the others.
        for mut other in std::mem::take(&mut others) {
            world.kill_for_good(&mut other).await?;
            others.push(world.launch(program, None)?);
        }
    };
    if status.signal() != Some(SIGABRT) {
        return Err(Failure::text(format!(
            "a relay ended with {status} before the crash point {point}:{nth}"
        )));
    }
    world.note(now(), FaultKind::Crash(format!("{point}:{nth}")), Some(doomed.incarnation));
    world.look().await?;
    world.writers.pause(false);
    if program == Program::Webhook && !others.is_empty() {
        let (receiver, dead) = (world.receiver.clone(), doomed.incarnation);
        let what = format!("another relay goes on after {point}:{nth}");
        until(&what, async || Ok(receiver.has_heard(|incarnation| incarnation > dead))).await?;
    }
    for mut other in others {
        world.kill_for_good(&mut other).await?;
    }
    println!("  {point:<18} nth {nth}, {relays} relays: {:.1} s", begun.elapsed().as_secs_f32());
    Ok(())
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let begun = Instant::now();
    while !holds().await? {
        if begun.elapsed() > PATIENCE {
            return Err(Failure::text(format!("waited in vain until {what}")));
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
