//! Each situation, and the sentence for it.

use std::time::Duration;

use outbox_sdk::backend::{
    ConsumerRow, EventRow, LetterState, LetterSummary, PauseState, SlotStanding, StallState, Standing, Writer,
};
use outbox_sdk::{Envelope, Timestamp};

use super::{Explanation, explain};
use crate::consumer::ConsumerSpec;

const ID: i64 = 20;
const MINUTE: Duration = Duration::from_secs(60);

fn event() -> EventRow {
    let mut envelope = Envelope::example("order.placed", 2, "{}");
    envelope.id = ID;
    envelope.aggregate_id = Some("7".to_owned());
    EventRow {
        envelope,
        older_majors: vec![1],
        status: "pending".to_owned(),
        attempts: 0,
        last_error: None,
        dispatched_at: None,
        available_at: Timestamp::from_micros(0),
        created_by: None,
    }
}

/// A slot that is owned, has settled everything, and knows nothing special of the event.
fn slot() -> SlotStanding {
    SlotStanding {
        consumer: ConsumerRow {
            name: "crm".to_owned(),
            slot: 0,
            slots: 1,
            owner: Some("r1".to_owned()),
            lease_for: MINUTE,
            wanted: None,
            paused: None,
            attempts: 0,
            last_error: None,
            config: r#"{"filter": ["order.*"], "pins": {}, "ordering": "lane"}"#.to_owned(),
            required_for_retention: false,
            registered_at: Timestamp::from_micros(0),
            settled: (1..=30).collect(),
            stalled_lanes: 0,
            blocked_lanes: 0,
            dead_letters: 0,
            able_relays: vec!["r1".to_owned()],
            other_relays: Vec::new(),
        },
        void: false,
        skipped: false,
        stall: None,
        head_letter: None,
        single: None,
        letter: None,
    }
}

fn unsettled() -> SlotStanding {
    let mut slot = slot();
    slot.consumer.settled = (1..=10).collect();
    slot
}

fn stall(head_id: i64) -> StallState {
    StallState {
        head_id,
        attempts: 3,
        due_in: 4 * MINUTE,
        blocked: false,
        schema_missing_for: None,
        last_error: Some("status 503.".to_owned()),
    }
}

fn letter(state: LetterState) -> LetterSummary {
    LetterSummary {
        reason: "attempts".to_owned(),
        state,
        attempts: 10,
        max_attempts: 10,
        last_error: "status 500".to_owned(),
        failed_at: Timestamp::from_micros(0),
        decided_by: Some("ada".to_owned()),
    }
}

fn explained(event: Option<&EventRow>, slot: SlotStanding, writers: &[Writer]) -> Explanation {
    let status = event.map(|event| event.status.clone());
    let standing = Standing { status, last_id: 30, slots: vec![slot] };
    let known = [ConsumerSpec::new("crm").unwrap()];
    explain(ID, event, &standing, writers, &known).remove(0)
}

/// The verdict's name, and everything that is said.
fn said(event: &EventRow, change: impl FnOnce(&mut SlotStanding)) -> (&'static str, String) {
    let mut slot = slot();
    change(&mut slot);
    let explanation = explained(Some(event), slot, &[]);
    (explanation.verdict.name(), explanation.text())
}

fn assert_said((name, text): (&str, String), expected: &str, parts: &[&str]) {
    assert_eq!(name, expected, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    assert!(text.ends_with('.') && !text.contains("..") && !text.contains("  "), "{text}");
}

#[test]
fn what_is_through() {
    let event = event();
    assert_said(said(&event, |_| {}), "delivered", &["Nothing is to be done"]);
    assert_said(said(&event, |slot| slot.consumer.config = "{}".to_owned()), "delivered", &[]);
    let other = r#"{"filter": ["customer.*"], "pins": {}}"#;
    assert_said(said(&event, |slot| slot.consumer.config = other.to_owned()), "not_wanted", &["widen"]);
    let pinned = |major: u32| format!(r#"{{"filter": ["*"], "pins": {{"order.placed": {major}}}}}"#);
    assert_said(said(&event, |slot| slot.consumer.config = pinned(3)), "other_major", &["major 3"]);
    for carried in [1, 2] {
        assert_said(said(&event, |slot| slot.consumer.config = pinned(carried)), "delivered", &[]);
    }
    assert_said(said(&event, |slot| slot.skipped = true), "skipped", &["began behind it", "reset crm"]);
    let with = |state| said(&event, |slot| slot.letter = Some(letter(state)));
    assert_said(with(LetterState::Replayed), "replayed", &[]);
    assert_said(with(LetterState::Discarded), "discarded", &["by ada"]);
    assert_said(with(LetterState::Reset), "delivered", &[]);
}

#[test]
fn what_waits_in_its_lane() {
    let event = event();
    let long = StallState { attempts: 0, last_error: None, ..stall(17) };
    assert_said(
        said(&event, |slot| slot.stall = Some(long.clone())),
        "behind",
        &["Behind event 17 of its lane", "one after another"],
    );
    let schema = StallState { last_error: Some("no schema for `order.placed`".into()), ..long };
    assert_said(
        said(&event, |slot| slot.stall = Some(schema)),
        "behind",
        &["Behind event 17 of its lane, which waits: no schema"],
    );
    let unwanted = |slot: &mut SlotStanding| {
        slot.stall = Some(stall(17));
        slot.consumer.config = r#"{"filter": ["customer.*"], "pins": {}}"#.to_owned();
    };
    assert_said(said(&event, unwanted), "not_wanted", &[]);
    assert_said(
        said(&event, |slot| slot.stall = Some(stall(17))),
        "behind",
        &[
            "Blocked by event 17 of its lane: attempt 3 of 10 failed, the next in 4 min: status 503. Fix the receiver",
        ],
    );
    assert_said(
        said(&event, |slot| slot.stall = Some(stall(ID))),
        "retrying",
        &["Attempt 3 of 10 failed, the next in 4 min: status 503. Fix"],
    );
    assert_said(said(&event, |slot| slot.single = Some(stall(ID))), "retrying", &["Attempt 3"]);
    let due = StallState { due_in: Duration::ZERO, ..stall(ID) };
    assert_said(said(&event, |slot| slot.stall = Some(due)), "retrying", &["the next is due: status"]);
    let missing = StallState { schema_missing_for: Some(90 * MINUTE), last_error: None, ..stall(ID) };
    assert_said(
        said(&event, |slot| slot.stall = Some(missing)),
        "schema_missing",
        &["for 1 h 30 min", "add the file"],
    );
    let in_doubt = StallState { schema_missing_for: Some(90 * MINUTE), ..stall(ID) };
    assert_said(
        said(&event, |slot| slot.stall = Some(in_doubt)),
        "schema_missing",
        &["Waits for its schema, for 1 h 30 min so far; the next look in 4 min: status 503."],
    );
    let blocked = StallState { blocked: true, ..stall(17) };
    assert_said(
        said(&event, |slot| {
            slot.stall = Some(blocked.clone());
            slot.head_letter = Some(letter(LetterState::Dead));
        }),
        "blocked",
        &["event 17", "(attempts): status 500.", "`outbox dead replay 17 --consumer crm`"],
    );
    assert_said(
        said(&event, |slot| {
            slot.stall = Some(blocked);
            slot.head_letter = Some(letter(LetterState::Discarded));
        }),
        "blocked",
        &["has decided"],
    );
}

#[test]
fn what_is_dead() {
    let event = event();
    assert_said(
        said(&event, |slot| slot.letter = Some(letter(LetterState::Dead))),
        "dead",
        &["after 10 of 10 attempts: status 500. Decide: `outbox dead replay 20 --consumer crm`"],
    );
    assert_said(
        said(&event, |slot| {
            slot.letter = Some(letter(LetterState::Dead));
            slot.stall = Some(StallState { blocked: true, ..stall(ID) });
        }),
        "dead",
        &["Its lane waits for the decision."],
    );
    assert_said(
        said(&event, |slot| {
            slot.letter = Some(letter(LetterState::Replay));
            slot.consumer.owner = None;
            slot.consumer.able_relays.clear();
        }),
        "replay_asked",
        &["To be replayed by ada", "start one with it"],
    );
}

#[test]
fn a_delayed_event_waits_for_its_time_alone() {
    let mut event = event();
    event.available_at = Timestamp::from_micros(60_000_000);
    let waiting = StallState { attempts: 0, last_error: None, ..stall(ID) };
    assert_said(said(&event, |slot| slot.single = Some(waiting.clone())), "delayed", &["due in 4 min"]);
    let due = StallState { due_in: Duration::ZERO, ..waiting };
    assert_said(said(&event, |slot| slot.single = Some(due)), "waiting", &[]);
}

#[test]
fn what_is_not_settled_and_what_keeps_its_consumer() {
    let event = event();
    let said = |change: fn(&mut ConsumerRow)| {
        let mut slot = unsettled();
        change(&mut slot.consumer);
        let explanation = explained(Some(&event), slot, &[]);
        (explanation.verdict.name(), explanation.text())
    };
    assert_said(said(|_| {}), "waiting", &["Ask again"]);
    let pause = |length: u64, by: &str| {
        Some(PauseState {
            until: Timestamp::from_micros(0),
            length: Duration::from_secs(length),
            by: Some(by.to_owned()),
            reason: Some("10 failures".to_owned()),
        })
    };
    let mut held = unsettled();
    held.consumer.paused = pause(120, "breaker");
    let text = explained(Some(&event), held.clone(), &[]).text();
    assert_said(
        ("waiting", text),
        "waiting",
        &["paused by the breaker for another 2 min (10 failures); `outbox consumer resume crm`"],
    );
    held.consumer.paused = pause(100 * 365 * 86_400, "operator");
    assert_said(
        ("waiting", explained(Some(&event), held, &[]).text()),
        "waiting",
        &["by the operator until it is resumed"],
    );
    assert_said(said(|row| row.wanted = Some("resize".to_owned())), "waiting", &["`resize` asks"]);
    assert_said(said(|row| row.owner = None), "waiting", &["Nobody owns the slot; one of r1"]);
    assert_said(
        said(|row| {
            row.owner = None;
            row.other_relays = std::mem::take(&mut row.able_relays);
        }),
        "waiting",
        &["(r1) have another configuration"],
    );
    // What keeps a consumer is no matter for an event that is through.
    let mut through = slot();
    through.consumer.owner = None;
    assert_eq!(explained(Some(&event), through, &[]).hindrances, []);
}

#[test]
fn a_late_event_is_swept_up() {
    assert_said(said(&event(), |slot| slot.void = true), "came_late", &["sweep"]);
}

#[test]
fn an_id_without_an_event() {
    let writer = Writer {
        pid: Some(4711),
        name: "billing".to_owned(),
        state: "idle in transaction".to_owned(),
        open_for: 5 * MINUTE,
    };
    let said = |slot, writers: &[Writer]| {
        let explanation = explained(None, slot, writers);
        (explanation.verdict.name(), explanation.text())
    };
    assert_said(
        said(unsettled(), std::slice::from_ref(&writer)),
        "not_committed",
        &["process 4711 `billing` (idle in transaction, open for 5 min)", "end the one"],
    );
    assert_said(said(unsettled(), &[]), "rolled_back", &[]);
    let mut void = slot();
    void.void = true;
    assert_said(said(void, &[writer]), "rolled_back", &[]);
    assert_said(said(slot(), &[]), "gone", &["retention"]);
    let standing = Standing { status: None, last_id: ID - 1, slots: vec![unsettled()] };
    let explanation = explain(ID, None, &standing, &[], &[]).remove(0);
    assert_said((explanation.verdict.name(), explanation.text()), "not_drawn", &["the last one is 19"]);
}

#[test]
fn only_the_slot_of_the_event_speaks() {
    let event = event();
    let slots: Vec<SlotStanding> = (0..4)
        .map(|number| {
            let mut slot = slot();
            (slot.consumer.slot, slot.consumer.slots) = (number, 4);
            slot
        })
        .collect();
    let standing = Standing { status: Some("pending".to_owned()), last_id: 30, slots };
    let found = explain(ID, Some(&event), &standing, &[], &[]);
    let expected = outbox_sdk::slot_of(&event.envelope.lane(), 4);
    assert_eq!(found.iter().map(|found| found.slot).collect::<Vec<_>>(), [Some(expected)]);
    assert_eq!(explain(ID, None, &standing, &[], &[]).len(), 4, "whose it is cannot be told");
}

#[test]
fn a_consumer_of_the_configuration_alone_is_not_registered() {
    let standing = Standing { status: Some("pending".to_owned()), last_id: 30, slots: vec![slot()] };
    let known = [ConsumerSpec::new("billing").unwrap(), ConsumerSpec::new("crm").unwrap()];
    let found = explain(ID, Some(&event()), &standing, &[], &known);
    let names: Vec<_> = found.iter().map(|found| (found.consumer.as_str(), found.verdict.name())).collect();
    assert_eq!(names, [("billing", "not_registered"), ("crm", "delivered")]);
}
