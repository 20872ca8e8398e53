//! Random faults under load, in an order that the seed decides.

use std::time::Duration;

use outbox_sdk::backend::Decision;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::evidence::{FaultKind, now};
use crate::relays::{LEASE, Program};
use crate::world::World;

/// How long and how much.
pub(crate) struct Plan {
    pub(crate) length: Duration,
    /// At least so many processes are killed, however long it takes.
    pub(crate) kills: usize,
}

/// The first third with one relay, the rest with three; beside them one with a handler.
pub(crate) async fn run(world: &mut World, rng: &mut StdRng, plan: &Plan) -> Result<(), Failure> {
    let killed_before = world.count(|kind| *kind == FaultKind::Kill);
    world.start(Program::Webhook)?;
    world.start(Program::Handler)?;
    let begun = Instant::now();
    loop {
        let killed = world.count(|kind| *kind == FaultKind::Kill) - killed_before;
        let done = begun.elapsed().as_secs_f32() / plan.length.as_secs_f32();
        if done >= 1.0 && killed >= plan.kills {
            return Ok(());
        }
        if world.relays.len() < 4 && (done > 1.0 / 3.0 || killed * 3 > plan.kills.max(1)) {
            world.start(Program::Webhook)?;
        }
        strike(world, rng).await?;
        sleep(Duration::from_millis(rng.random_range(20..350))).await;
    }
}

async fn strike(world: &mut World, rng: &mut StdRng) -> Result<(), Failure> {
    let any = rng.random_range(0..world.relays.len());
    match rng.random_range(0..100) {
        0..50 => {
            // Mostly whoever has work in its hands.
            let owner = world.owner().await?;
            let place = owner.filter(|_| rng.random_bool(0.7)).unwrap_or(any);
            world.kill(place).await
        }
        50..57 => {
            let place = world.owner().await?.unwrap_or(any);
            world.freeze(place, LEASE.mul_f64(rng.random_range(1.1..2.0))).await
        }
        57..64 => world.roll(any).await,
        64..70 => world.cut(FaultKind::RelayBackends).await,
        70..75 => world.cut(FaultKind::WriterBackends).await,
        75..82 => {
            // Ids that stay open behind everybody's back, and may never come.
            let (writers, length) =
                (world.writers.clone(), Duration::from_millis(rng.random_range(200..1_500)));
            let mut own = StdRng::seed_from_u64(rng.random());
            let from = now();
            tokio::spawn(async move { writers.transaction(&mut own, 4, length, 0.5).await });
            world.note(from, FaultKind::LongTransaction, None);
            Ok(())
        }
        82..88 => {
            let from = now();
            world.writers.transaction(rng, 60, Duration::ZERO, 0.1).await;
            world.note(from, FaultKind::Burst, None);
            Ok(())
        }
        88..92 => world.decide(Decision::Replay, rng.random_range(1..6)).await.map(|_| ()),
        92..94 => world.decide(Decision::Discard, 1).await.map(|_| ()),
        94..97 => world.compact(rng.random_range(0.1..0.5)).await,
        _ => world.resize(rng.random_range(1..4)).await,
    }
}
