//! The breaker and the slot together, by a clock of their own: failing lanes do not keep a healthy destination closed,
//! and a destination that fails for all is left alone.

use std::time::{Duration, Instant};

use outbox_sdk::Lane;
use outbox_sdk::backend::Holders;

use super::super::{Slot, Verdict};
use super::bench::BOUNDS;
use super::database::{Database, NewEvent, lane_of};
use crate::breaker::{Answered, Breaker};
use crate::retry::{RetryPolicy, Schedule};
use crate::sink::Outcome;

/// Aggregates below this one fail always.
const FAILING: u8 = 200;
const AT_ONCE: usize = 32;
const MILLISECOND: Duration = Duration::from_millis(1);

/// What a destination was asked.
#[derive(Default)]
struct Seen {
    /// When each event was delivered, from the start on.
    delivered: Vec<Duration>,
    failed: usize,
}

struct OnItsWay {
    answered: Instant,
    sent: Instant,
    lane: Lane,
    attempts: u32,
    fails: bool,
}

/// Publishes one event for each failing aggregate and ten for each healthy one behind them, and runs it for `length`.
fn run(healthy: u8, failing_takes: Duration, policy: &RetryPolicy, length: Duration, seed: u64) -> Seen {
    let mut database = Database::new();
    for aggregate in 0..FAILING {
        database.publish(NewEvent::of(aggregate));
    }
    for aggregate in (FAILING..FAILING + healthy).flat_map(|aggregate| [aggregate; 10]) {
        database.publish(NewEvent::of(aggregate));
    }
    let start = Instant::now();
    let mut slot = Slot::claimed(&database.claim(1), BOUNDS, start).unwrap();
    let batch = database.read(&[], 0, 10_000, 10_000);
    slot.accept(batch, &Holders::default(), |event| lane_of(event, true)).unwrap();
    let mut breaker = Breaker::claimed(None, 0, start);
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5555;
    let mut random = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(random >> 33).unwrap()) / f64::from(1_u32 << 31)
    };
    let mut sends: Vec<OnItsWay> = Vec::new();
    let mut waiting: Vec<(Instant, Lane)> = Vec::new();
    let mut seen = Seen::default();
    let mut now = start;
    while now < start + length {
        waiting.retain(|(due, lane)| {
            if *due <= now {
                slot.due(lane);
            }
            *due > now
        });
        while let Some((lane, from)) = slot.next_resume() {
            let page = database.read_lane(&lane, from, slot.hwm(), 100);
            slot.resumed(&lane, page, |_| true);
        }
        breaker.look(now);
        let mut room = breaker.room(AT_ONCE, slot.in_flight(), now);
        if breaker.is_probing() && room > 0 {
            slot.draw(random());
            breaker.probed(now);
        }
        while room > 0
            && let Some(send) = slot.next_send()
        {
            room -= 1;
            let aggregate = send.event.envelope.aggregate_id.as_ref().and_then(|id| id.parse::<u8>().ok());
            let fails = aggregate.is_some_and(|aggregate| aggregate < FAILING);
            let answered = now + if fails { failing_takes } else { MILLISECOND };
            sends.push(OnItsWay { answered, sent: now, lane: send.lane, attempts: send.attempts, fails });
        }
        let next = [sends.iter().map(|send| send.answered).min(), waiting.iter().map(|(due, _)| *due).min()]
            .into_iter()
            .flatten()
            .chain(breaker.next_room(now))
            .min();
        now = next.unwrap_or(start + length).max(now + MILLISECOND / 10);
        sends.sort_by_key(|send| send.answered);
        let answered = sends.partition_point(|send| send.answered <= now);
        for OnItsWay { sent, lane, attempts, fails, .. } in sends.drain(..answered) {
            let failure = Outcome::Retry { error: "status 500".into(), after: None };
            let outcome = if fails { failure } else { Outcome::Delivered };
            breaker.note(Answered { lane: &lane, sent, outcome: &outcome }, now, random());
            let verdict = if outcome == Outcome::Delivered {
                seen.delivered.push(now - start);
                Verdict::Delivered
            } else {
                seen.failed += 1;
                let (attempts, delay) = (attempts + 1, policy.delay(attempts + 1, random()));
                waiting.push((now + delay, lane.clone()));
                Verdict::Park { attempts, delay, error: String::new(), schema_missing_since: None }
            };
            slot.answer(&lane, verdict, false);
            slot.committed();
        }
    }
    seen
}

#[test]
fn two_hundred_failing_lanes_in_front_do_not_hold_up_twenty_healthy_ones_for_long() {
    for seed in 0..5 {
        let policy = RetryPolicy::default();
        let seen = run(20, 5 * MILLISECOND, &policy, Duration::from_secs(60), seed);
        assert_eq!(seen.delivered.len(), 200, "seed {seed}");
        assert!(seen.delivered.last() < Some(&Duration::from_secs(10)), "seed {seed}: {:?}", seen.delivered);
        assert!(seen.failed <= 400, "seed {seed}: {} failures, which are two attempts of each", seen.failed);
    }
}

#[test]
fn nor_do_failing_lanes_that_hang_for_ten_seconds() {
    for seed in 0..5 {
        let policy = RetryPolicy::default();
        let seen = run(20, Duration::from_secs(10), &policy, Duration::from_secs(600), seed);
        assert_eq!(seen.delivered.len(), 200, "seed {seed}");
        // The first 32 hang until 10 s, and all 200 of them for a minute, 32 at a time.
        assert!(seen.delivered.first() < Some(&Duration::from_secs(60)), "seed {seed}: {:?}", seen.delivered);
        assert!(seen.delivered.last() < Some(&Duration::from_secs(240)), "seed {seed}: {:?}", seen.delivered);
    }
}

#[test]
fn a_destination_that_fails_for_all_is_asked_twice_a_second() {
    let policy =
        RetryPolicy { schedule: Schedule::List(vec![Duration::from_secs(1)]), max_attempts: u32::MAX };
    let seen = run(0, 5 * MILLISECOND, &policy, Duration::from_secs(600), 1);
    assert!(seen.delivered.is_empty());
    // 32 before it opens, four shorter pauses, then twenty every ten seconds.
    assert!((1_000..1_350).contains(&seen.failed), "{}", seen.failed);
}
