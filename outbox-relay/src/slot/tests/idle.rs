//! The gate, the breaker and the slot together, by a clock of their own: whatever the destination does, nobody comes back
//! for a time that is over, and nobody sleeps while something may go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::Lane;
use outbox_sdk::backend::Holders;
use proptest::prelude::*;
use tokio::sync::Semaphore;

use super::super::{Bounds, Slot, Verdict};
use super::bench::BOUNDS;
use super::database::{Database, NewEvent, lane_of};
use super::model::config;
use crate::breaker::{Answered, Breaker};
use crate::gate::Gate;
use crate::sink::Outcome;
use crate::turn::Turn;

const RETRY: Duration = Duration::from_secs(30);

/// What a destination says, and after how many milliseconds.
#[derive(Debug, Clone, Copy)]
enum Says {
    Delivered(u64),
    Fails(u64),
    Away(u64),
}

#[derive(Debug, Clone)]
struct Scene {
    events: Vec<u8>,
    says: Vec<Says>,
    most: usize,
    /// How many events go one at a time at first.
    caution: usize,
    /// An operator's pause, in milliseconds from the start.
    held: Option<u64>,
    /// How many other engines have their turn before this one, each for 10 ms.
    others: u32,
}

fn scene() -> impl Strategy<Value = Scene> {
    let says = prop_oneof![
        1 => (0_u64..50).prop_map(Says::Delivered),
        3 => prop_oneof![0_u64..50, 900..30_000_u64].prop_map(Says::Fails),
        1 => (0_u64..5_000).prop_map(Says::Away),
    ];
    (
        prop::collection::vec(0_u8..20, 0..60),
        prop_oneof![
            prop::collection::vec(says, 1..30),
            Just(vec![Says::Fails(1)]),
            Just(vec![Says::Fails(20_000)]),
            Just(vec![Says::Away(1)]),
        ],
        prop_oneof![Just(1_usize), Just(2), Just(32)],
        prop_oneof![2 => Just(0_usize), 1 => 1_usize..40],
        prop::option::weighted(0.3, 0_u64..60_000),
        0_u32..10,
    )
        .prop_map(|(events, says, most, caution, held, others)| Scene {
            events,
            says,
            most,
            caution,
            held,
            others,
        })
}

struct OnItsWay {
    answered: Instant,
    sent: Instant,
    lane: Lane,
    says: Says,
    attempts: u32,
}

fn gate<'a>(
    scene: &Scene,
    slot: &'a Slot,
    breaker: &'a Breaker,
    held_until: Option<Instant>,
    now: Instant,
) -> Gate<'a> {
    Gate { slot, breaker, held_until, rate: None, most: scene.most, now }
}

/// Runs it for two minutes as the engine does; returns how many passes did nothing.
fn run(scene: &Scene) -> usize {
    let mut database = Database::new();
    for &aggregate in &scene.events {
        database.publish(NewEvent::of(aggregate));
    }
    let start = Instant::now();
    let bounds = Bounds { caution: scene.caution, ..BOUNDS };
    let mut slot = Slot::claimed(&database.claim(1), bounds, start).unwrap();
    let batch = database.read(&[], 0, 10_000, 10_000);
    slot.accept(batch, &Holders::default(), |event| lane_of(event, true)).unwrap();
    let mut breaker = Breaker::claimed(None, 0, start);
    let held_until = scene.held.map(|held| start + Duration::from_millis(held));
    let turns = Arc::new(Semaphore::new(1));
    // Who has the turn meanwhile, and until when.
    let (mut turn, mut other) = (Turn::None, None);
    let mut said = scene.says.iter().cycle();
    let mut sends: Vec<OnItsWay> = Vec::new();
    let mut parked: Vec<(Instant, Lane)> = Vec::new();
    let (mut now, mut idle) = (start, 0);
    while now < start + Duration::from_secs(120) {
        let mut did = slot.has_changes();
        slot.committed();
        turn.end(slot.is_counting());
        breaker.written_blindly();
        sends.sort_by_key(|send| send.answered);
        let answered = sends.partition_point(|send| send.answered <= now);
        for OnItsWay { sent, lane, says, attempts, .. } in sends.drain(..answered) {
            did = true;
            let outcome = match says {
                Says::Delivered(_) => Outcome::Delivered,
                Says::Fails(_) => Outcome::Retry { error: String::new(), after: None },
                Says::Away(_) => Outcome::Unavailable { error: String::new(), after: None },
            };
            breaker.note(Answered { lane: &lane, sent, outcome: &outcome }, now, 0.5);
            let verdict = match says {
                Says::Delivered(_) => Verdict::Delivered,
                Says::Fails(_) => {
                    parked.push((now + RETRY, lane.clone()));
                    Verdict::Park {
                        attempts: attempts + 1,
                        delay: RETRY,
                        error: String::new(),
                        schema_missing_since: None,
                    }
                }
                Says::Away(_) => Verdict::Unavailable,
            };
            slot.answer(&lane, verdict, false);
        }
        parked.retain(|(due, lane)| {
            did |= *due <= now;
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
        // As `engine/caution.rs` does.
        slot.leave_caution();
        turn.end(slot.is_counting() || slot.has_changes());
        other = other.filter(|(_, until)| *until > now);
        if gate(scene, &slot, &breaker, held_until, now).room() == 0 {
            slot.recall();
        }
        let may_count = {
            let gate = gate(scene, &slot, &breaker, held_until, now);
            gate.counts() && gate.room() > 0
        };
        if !may_count {
            turn.leave_unused();
        } else {
            if matches!(turn, Turn::None)
                && scene.others > 0
                && let Ok(permit) = Arc::clone(&turns).try_acquire_owned()
            {
                other = Some((permit, now + scene.others * Duration::from_millis(10)));
                did = true;
            }
            if turn.ask(&turns) {
                did = true;
                if let Some(lane) = slot.next_to_count() {
                    slot.count(&lane, false);
                }
                if slot.is_counting() {
                    turn.uses();
                }
                turn.leave_unused();
            }
        }
        let mut room = gate(scene, &slot, &breaker, held_until, now).room();
        if slot.has_next() && breaker.is_probing() && room > 0 {
            breaker.probed(now);
        }
        while room > 0
            && let Some(send) = slot.next_send()
        {
            room -= 1;
            did = true;
            let says = *said.next().unwrap();
            let (Says::Delivered(takes) | Says::Fails(takes) | Says::Away(takes)) = says;
            let answered = now + Duration::from_millis(takes);
            sends.push(OnItsWay { answered, sent: now, lane: send.lane, says, attempts: send.attempts });
        }
        let stuck = gate(scene, &slot, &breaker, held_until, now).room() == 0
            && sends.is_empty()
            && !slot.has_changes();
        assert!(!stuck || !matches!(turn, Turn::Ours { .. }), "keeps the turn and makes nothing of it");
        idle += usize::from(!did);
        let opens = gate(scene, &slot, &breaker, held_until, now).opens();
        assert!(
            opens.is_none_or(|at| at > now),
            "comes back for a time that is over, {:?} ago",
            opens.map(|at| now - at)
        );
        let waits = slot.has_next() || gate(scene, &slot, &breaker, held_until, now).counts();
        let granted = match turn {
            Turn::Queued(_) => other.as_ref().map(|(_, until)| *until),
            Turn::None | Turn::Ours { .. } => None,
        };
        assert!(
            !waits || opens.is_some() || granted.is_some() || !sends.is_empty() || slot.has_changes(),
            "sleeps although something waits: {slot:?} {breaker:?}"
        );
        // What is written comes back a moment later.
        let changes = slot.has_changes().then_some(now + Duration::from_millis(1));
        let answers = sends.iter().map(|send| send.answered.max(now + Duration::from_micros(1)));
        let next = answers
            .chain(parked.iter().map(|(due, _)| *due))
            .chain(opens)
            .chain(granted)
            .chain(changes)
            .min();
        now = next.unwrap_or(start + Duration::from_secs(120));
    }
    idle
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nobody_comes_back_for_a_time_that_is_over_nor_sleeps_through_one(scene in scene()) {
        let idle = run(&scene);
        prop_assert!(idle < 200, "{idle} passes did nothing");
    }
}
