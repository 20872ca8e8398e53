//! What operators see of a running relay, and what they do with what it gave up.

use outbox_relay::consumer::OnDead;
use outbox_relay::operate::{EventRef, OperateError, Operator, Search, UnreadableBy};
use outbox_relay::retry::{RetryPolicy, Schedule};
use outbox_relay::sink::Outcome;
use outbox_schema::{Registry, Validators};
use outbox_sdk::backend::{Decision, LetterFilter, LetterKey, LetterState};
use outbox_tests::{Call, RecordingSink, RunningRelay, eventually};
use std::time::Duration;
use uuid::Uuid;

use super::{World, changed, crm, ids};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    a_dead_event_is_explained_and_decided_about_once
    a_waiting_lane_names_its_head_and_the_next_attempt
    consumers_show_who_runs_them_and_what_is_left
    an_event_is_found_by_its_event_id
    letters_are_decided_about_in_steps
    an_uncommitted_event_is_no_event
    a_replay_that_was_asked_for_is_delivered
    what_waits_in_a_lane_is_backlog
    attempts_that_did_not_go_well_are_remembered
    a_lane_behind_a_dead_event_says_so_and_goes_on_when_it_is_discarded
}

fn operator<T: TestDb>(world: &World<T>) -> Operator<T::Db> {
    Operator::new(world.pool.clone()).named("ada")
}

fn letter(id: i64) -> LetterKey {
    LetterKey { id, consumer: "crm".to_owned() }
}

fn reject(ids: Vec<i64>) -> impl Fn(&Call) -> Outcome {
    move |call| {
        if ids.contains(&call.id()) {
            Outcome::Reject { error: "not a customer".to_owned() }
        } else {
            Outcome::Delivered
        }
    }
}

/// The verdict and the sentences for the only consumer.
async fn why<T: TestDb>(world: &World<T>, id: i64) -> (&'static str, String) {
    let why = operator(world).why(EventRef::Id(id), Search::ByTime, &[crm()]).await.unwrap();
    assert_eq!(why.consumers.len(), 1, "{why:?}");
    (why.consumers[0].verdict.name(), why.consumers[0].text())
}

async fn a_dead_event_is_explained_and_decided_about_once<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "1", "2"]).await);
    let (dead, later) = (published[0], published[1]);
    assert_eq!(why(&world, dead).await.0, "not_registered");
    world.drain(&RecordingSink::scripted(reject(vec![dead]))).await;

    let (verdict, text) = why(&world, dead).await;
    assert_eq!(verdict, "dead");
    assert!(text.contains("not a customer") && text.contains("outbox dead replay"), "{text}");
    assert_eq!(why(&world, later).await.0, "delivered");

    let operator = operator(&world);
    let (shown, event) = operator.dead_letter(&letter(dead), true).await.unwrap();
    assert_eq!((shown.state, shown.reason.as_str()), (LetterState::Dead, "rejected"));
    assert_eq!(event.unwrap().envelope.payload, r#"{"n": 0}"#);

    let decided = operator.decide(&letter(dead), Decision::Replay).await.unwrap();
    assert!(!decided.beyond_inbox);
    let (verdict, text) = why(&world, dead).await;
    assert_eq!(verdict, "replay_asked");
    assert!(text.contains("by ada") && text.contains("No running relay"), "{text}");
    for decision in [Decision::Replay, Decision::Discard, Decision::Acknowledge] {
        let error = operator.decide(&letter(dead), decision).await.unwrap_err();
        assert!(matches!(error, OperateError::NotDead { state: LetterState::Replay, .. }), "{error:?}");
        assert!(error.is_not_found());
    }
    let error = operator.decide(&letter(later), Decision::Discard).await.unwrap_err();
    assert!(matches!(error, OperateError::NoLetter(_)), "{error:?}");
    let error = operator.dead_letter(&letter(later), false).await.unwrap_err();
    assert!(matches!(error, OperateError::NoLetter(_)), "{error:?}");
}

async fn a_waiting_lane_names_its_head_and_the_next_attempt<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "1", "2"]).await);
    let head = published[0];
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == head {
            Outcome::Retry { error: "status 503".to_owned(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let schedule = Schedule::List(vec![Duration::from_secs(3600)]);
    let slow = crm().retry(RetryPolicy { schedule, max_attempts: 5 });
    let relay = world.builder().consumer(slow.clone(), sink).build().unwrap();
    relay.run_once().await.unwrap();
    let explained = async |id| {
        let why = operator(&world)
            .why(EventRef::Id(id), Search::ByTime, std::slice::from_ref(&slow))
            .await
            .unwrap();
        (why.consumers[0].verdict.name(), why.consumers[0].text())
    };
    let (verdict, text) = explained(published[1]).await;
    assert_eq!(verdict, "behind");
    let expected = format!("Blocked by event {head} of its lane: attempt 1 of 5 failed, the next in 1 h");
    assert!(text.starts_with(&expected) && text.contains("status 503"), "{text}");
    assert_eq!(explained(head).await.0, "retrying");
    assert_eq!(explained(published[2]).await.0, "delivered");
}

async fn consumers_show_who_runs_them_and_what_is_left<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    sink.hold();
    world.publish(&["1", "2", "2"]).await;
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    sink.wait_until("two lanes are at the sink", |calls| calls.len() == 2).await;
    let seen = operator(&world).consumers().await.unwrap().remove(0);
    assert_eq!((seen.row.name.as_str(), seen.unsettled, seen.more), ("crm", 3, false));
    assert!(seen.row.owner.is_some() && !seen.row.lease_for.is_zero(), "{seen:?}");
    assert!(seen.oldest.is_some());
    sink.open();
    eventually("everything is settled", async || {
        let seen = operator(&world).consumers().await.unwrap().remove(0);
        (seen.unsettled, seen.oldest) == (0, None)
    })
    .await;
    relay.stop().await;
}

async fn an_event_is_found_by_its_event_id<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = world.publish_event(&changed("1", 7)).await;
    let operator = operator(&world);
    let by = EventRef::EventId(published.event_id);
    let event = operator.event(by, Search::ByTime, true).await.unwrap();
    assert_eq!((event.envelope.id, event.envelope.payload.as_str()), (published.id, r#"{"n": 7}"#));
    assert_eq!(operator.event(by, Search::ByTime, false).await.unwrap().envelope.payload, "");

    // A row that is far from the time in its event_id is found in the whole table only.
    let mut conn = world.pool.acquire().await.unwrap();
    let days = format!("UPDATE {} SET created_at = created_at - 49 * {}", T::table("event"), T::HOUR);
    T::execute(&mut conn, &days).await.unwrap();
    drop(conn);
    let error = operator.event(by, Search::ByTime, false).await.unwrap_err();
    assert!(
        matches!(error, OperateError::NoEventByTime(_)) && error.to_string().contains("--full"),
        "{error:?}"
    );
    assert_eq!(operator.find(by, Search::Everywhere).await.unwrap(), published.id);

    let four = EventRef::EventId(Uuid::from_u128(0x4000_8000_0000_0000_0000));
    let error = operator.event(four, Search::ByTime, false).await.unwrap_err();
    assert!(matches!(error, OperateError::NoEvent(_)), "another version is looked for everywhere: {error:?}");
    let error = operator.event(EventRef::Id(99), Search::ByTime, false).await.unwrap_err();
    assert!(matches!(error, OperateError::NoEvent(EventRef::Id(99))), "{error:?}");
}

async fn letters_are_decided_about_in_steps<T: TestDb>() {
    let world = World::<T>::new().await;
    let dead = ids(&world.publish(&["1", "2", "3", "4", "5"]).await);
    world.drain(&RecordingSink::scripted(reject(dead.clone()))).await;
    let mut conn = world.pool.acquire().await.unwrap();
    let event = T::table("event");
    let old =
        format!("UPDATE {event} SET created_at = created_at - 721 * {} WHERE id = {}", T::HOUR, dead[1]);
    T::execute(&mut conn, &old).await.unwrap();
    T::execute(&mut conn, &format!("DELETE FROM {event} WHERE id = {}", dead[2])).await.unwrap();
    drop(conn);
    let operator = operator(&world);
    assert!(
        operator.decide(&letter(dead[2]), Decision::Replay).await.is_err_and(|error| error.is_not_found())
    );

    let mut walk = operator.decide_all(LetterFilter::default(), Decision::Replay);
    let first = walk.step(2).await.unwrap().unwrap();
    assert_eq!((first.decided, first.gone, first.beyond_inbox), (2, 0, 1));
    // Somebody else decides about one that the walk has not come to.
    operator.decide(&letter(dead[4]), Decision::Discard).await.unwrap();
    let second = walk.step(2).await.unwrap().unwrap();
    assert_eq!((second.decided, second.gone, second.beyond_inbox), (1, 1, 0));
    assert_eq!(walk.step(2).await.unwrap(), None);
    let page = operator.dead_letters(&LetterFilter::default(), None, 4).await.unwrap();
    assert_eq!(page.letters.len(), 4);
    let rest = operator.dead_letters(&LetterFilter::default(), page.next.as_ref(), 4).await.unwrap();
    assert_eq!((rest.letters.len(), rest.next), (1, None));
    let all = page.letters.iter().chain(&rest.letters);
    let mut states: Vec<_> = all.map(|letter| (letter.event_id, letter.state)).collect();
    states.sort_by_key(|(id, _)| *id);
    use LetterState::{Dead, Discarded, Replay};
    let expected: Vec<_> = dead.iter().copied().zip([Replay, Replay, Dead, Replay, Discarded]).collect();
    assert_eq!(states, expected);

    let mut walk = operator.decide_all(LetterFilter::default(), Decision::Acknowledge);
    let step = walk.step(100).await.unwrap().unwrap();
    assert_eq!((step.decided, step.passed_over), (2, 3), "the dead and the discarded one");
}

async fn an_uncommitted_event_is_no_event<T: TestDb>() {
    let world = World::<T>::new().await;
    world.drain(&RecordingSink::new()).await;
    assert_eq!(why(&world, 1).await.0, "not_drawn");
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let open = world.outbox.publish_json(&mut tx, &changed("1", 0)).await.unwrap();
    if T::CONCURRENT_WRITERS {
        let (verdict, text) = why(&world, open.id).await;
        assert_eq!(verdict, "not_committed");
        assert!(text.contains("idle in transaction"), "{text}");
        assert!(!text.contains("INSERT"), "no statement, which may hold a payload: {text}");
    }
    tx.rollback().await.unwrap();
    let verdict = why(&world, open.id).await.0;
    assert_eq!(verdict, if T::CONCURRENT_WRITERS { "rolled_back" } else { "not_drawn" });
}

/// From dead over the request to delivered, by the owner that runs or comes next.
async fn a_replay_that_was_asked_for_is_delivered<T: TestDb>() {
    let world = World::<T>::new().await;
    let dead = ids(&world.publish(&["1", "2"]).await);
    world.drain(&RecordingSink::scripted(reject(dead.clone()))).await;
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.builder().consumer(crm(), sink.clone()).build().unwrap());
    let operator = operator(&world);
    operator.decide(&letter(dead[0]), Decision::Replay).await.unwrap();
    eventually("the letter is replayed", async || {
        let (letter, _) = operator.dead_letter(&letter(dead[0]), false).await.unwrap();
        letter.state == LetterState::Replayed
    })
    .await;
    relay.stop().await;
    assert_eq!(sink.delivered(), [dead[0]], "nobody has decided about the other");
    assert_eq!(why(&world, dead[0]).await.0, "replayed");
    let error = operator.decide(&letter(dead[0]), Decision::Replay).await.unwrap_err();
    assert!(matches!(error, OperateError::NotDead { state: LetterState::Replayed, .. }), "{error:?}");
}

async fn a_lane_behind_a_dead_event_says_so_and_goes_on_when_it_is_discarded<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "1"]).await);
    let (head, next) = (published[0], published[1]);
    let sink = RecordingSink::scripted(reject(vec![head]));
    let blocking = crm().on_dead(OnDead::Block);
    let relay = world.builder().consumer(blocking.clone(), sink.clone()).build().unwrap();
    relay.run_once().await.unwrap();
    let (verdict, text) = why(&world, next).await;
    assert_eq!(verdict, "blocked");
    assert!(
        text.starts_with(&format!("Blocked by event {head} of its lane, which is dead (rejected)")),
        "{text}"
    );
    let (verdict, text) = why(&world, head).await;
    assert_eq!(verdict, "dead");
    assert!(text.contains("Its lane waits for the decision."), "{text}");

    operator(&world).decide(&letter(head), Decision::Discard).await.unwrap();
    let relay = RunningRelay::start(world.builder().consumer(blocking, sink.clone()).build().unwrap());
    sink.wait_for_delivered(1).await;
    relay.stop().await;
    assert_eq!(sink.delivered(), [next]);
    assert_eq!(why(&world, head).await.0, "discarded");
    assert_eq!(why(&world, next).await.0, "delivered");
}

/// What waits behind a failed event counts as settled, since a stall row stands for it; a new pin meets it all the same.
async fn what_waits_in_a_lane_is_backlog<T: TestDb>() {
    let world = World::<T>::new().await;
    let mut published = ids(&world.publish(&["1", "1", "2"]).await);
    let mut tx = world.outbox.begin(&world.pool).await.unwrap();
    let reminder = world.outbox.delayed(Duration::from_secs(3600));
    published.push(reminder.publish_json(&mut tx, &changed("1", 0)).await.unwrap().id);
    world.outbox.commit(tx).await.unwrap();
    let failing = published[0];
    let sink = RecordingSink::scripted(move |call| {
        if call.id() == failing {
            Outcome::Retry { error: "503".into(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let patient = RetryPolicy { schedule: Schedule::List(vec![Duration::from_secs(3600)]), max_attempts: 9 };
    let relay = world.builder().consumer(crm().retry(patient), sink).build().unwrap();
    let relay = RunningRelay::start(relay);
    world.settled_but("crm", published[3], 2).await;
    relay.stop().await;

    let schemas = Validators::compile(&Registry::empty()).unwrap();
    let moved = crm().pin("customer.changed", 2).unwrap();
    let backlog = operator(&world).backlog(&schemas, &[&moved]).await.unwrap();
    let lacks = |by: &UnreadableBy| matches!(by, UnreadableBy::MajorMissing { pinned: 2, .. });
    let lacking: Vec<_> = backlog.unreadable.iter().filter(|entry| lacks(&entry.by)).collect();
    assert_eq!(lacking.len(), 1, "{backlog:?}");
    assert_eq!((lacking[0].events, lacking[0].first_id), (3, failing), "all but the delivered one");
}

async fn attempts_that_did_not_go_well_are_remembered<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "2", "3"]).await);
    let (failing, panicking) = (published[0], published[1]);
    let sink = RecordingSink::scripted(move |call| match (call.id(), call.attempt) {
        (id, 1) if id == failing => {
            Outcome::Retry { error: "503\u{7} from the receiver".into(), after: None }
        }
        (id, 1) if id == panicking => panic!("out of order"),
        (id, 2) if id == panicking => Outcome::Reject { error: "never".into() },
        _ => Outcome::Delivered,
    });
    world.drain(&sink).await;
    let attempts = async |id| {
        let why = operator(&world).why(EventRef::Id(id), Search::ByTime, &[]).await.unwrap();
        let rows = why.consumers[0].attempts.iter();
        rows.map(|row| (row.attempt, row.outcome.clone(), row.error.clone())).collect::<Vec<_>>()
    };
    let (failed, delivered) = ("failed".to_owned(), "delivered".to_owned());
    let error = Some("503  from the receiver".to_owned());
    assert_eq!(attempts(failing).await, [(1, failed.clone(), error), (2, delivered, None)]);
    let panicked = Some("the attempt panicked: out of order".to_owned());
    let never = (2, "rejected".to_owned(), Some("never".to_owned()));
    assert_eq!(attempts(panicking).await, [(1, failed, panicked), never]);
    assert_eq!(attempts(published[2]).await, [], "it went well at once");
}
