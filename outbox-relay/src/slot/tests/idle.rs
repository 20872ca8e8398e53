//! The gate, the breaker and the slot together, by a clock of their own: whatever the destination does, nobody comes back
//! for a time that is over, and nobody sleeps while something may go.

use std::time::{Duration, Instant};

use outbox_sdk::Lane;
use outbox_sdk::backend::Holders;
use proptest::prelude::*;

use super::super::{Bounds, Slot, Verdict};
use super::bench::BOUNDS;
use super::database::{Database, NewEvent, lane_of};
use super::model::config;
use crate::breaker::{Answered, Breaker};
use crate::gate::Gate;
use crate::sink::Outcome;

const TURN: Duration = Duration::from_millis(10);
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
    /// Another engine has the turn in so many of ten tries.
    others: usize,
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
        0_usize..10,
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
    next_turn: Option<Instant>,
    now: Instant,
) -> Gate<'a> {
    Gate { slot, breaker, held_until, next_turn, most: scene.most, now }
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
    let (mut turn, mut next_turn, mut tries) = (false, start, 0);
    let mut said = scene.says.iter().cycle();
    let mut sends: Vec<OnItsWay> = Vec::new();
    let mut parked: Vec<(Instant, Lane)> = Vec::new();
    let (mut now, mut idle) = (start, 0);
    while now < start + Duration::from_secs(120) {
        let mut did = slot.has_changes();
        slot.committed();
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
        if turn && !slot.is_counting() && !slot.has_changes() {
            (turn, next_turn) = (false, now + TURN);
        }
        if slot.is_cautious()
            && slot.may_send()
            && gate(scene, &slot, &breaker, held_until, (!turn).then_some(next_turn), now).room() > 0
        {
            if !turn && now >= next_turn {
                tries += 1;
                turn = tries % 10 >= scene.others;
                next_turn = now + TURN;
                did = true;
            }
            if turn && let Some(lane) = slot.next_to_count() {
                slot.count(&lane, false);
                did = true;
            }
        }
        let mut room = gate(scene, &slot, &breaker, held_until, (!turn).then_some(next_turn), now).room();
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
        idle += usize::from(!did);
        let opens = gate(scene, &slot, &breaker, held_until, (!turn).then_some(next_turn), now).opens();
        assert!(
            opens.is_none_or(|at| at > now),
            "comes back for a time that is over, {:?} ago",
            opens.map(|at| now - at)
        );
        let waits = slot.has_next()
            || gate(scene, &slot, &breaker, held_until, (!turn).then_some(next_turn), now).counts();
        assert!(
            !waits || opens.is_some() || !sends.is_empty() || slot.has_changes(),
            "sleeps although something waits: {slot:?} {breaker:?}"
        );
        // What is written comes back a moment later.
        let changes = slot.has_changes().then_some(now + Duration::from_millis(1));
        let answers = sends.iter().map(|send| send.answered.max(now + Duration::from_micros(1)));
        let next = answers.chain(parked.iter().map(|(due, _)| *due)).chain(opens).chain(changes).min();
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
