//! What a read tells beside the events: operators' decisions that wait, and slots that are free.

use std::time::Duration;

use outbox_sdk::Progress;
use outbox_sdk::backend::{
    Administer as _, DeadReason, Due, NewDeadLetter, Notices, Pause, Read, Settlement, Stall, Start,
};

use super::{Outbox, TestDb, everything, renewal};

super::on_every_database! {
    nothing_is_told_unasked
    a_consumer_with_a_replay_is_named
    a_blocked_lane_whose_head_was_discarded_names_its_consumer
    slots_that_can_be_claimed_are_named
    a_slot_that_somebody_asked_for_is_not_free
    a_consumer_that_an_operator_holds_is_named
}

async fn notices<T: TestDb>(outbox: &Outbox<T>) -> Notices {
    outbox.read(&Read { notices: true, ..everything() }).await.notices
}

fn dead(event_id: i64) -> NewDeadLetter {
    NewDeadLetter {
        event_id,
        reason: DeadReason::Rejected,
        attempts: 1,
        max_attempts: 10,
        last_error: "no".to_owned(),
    }
}

/// Claims the slot of `crm` and settles two dead letters, the first of them at the head of a blocked lane.
async fn with_dead_letters<T: TestDb>(outbox: &Outbox<T>) {
    let claimed = outbox.claimed().await;
    let empty = Progress::new();
    let blocked = Stall {
        lane: r#"[null,"customer","1"]"#.to_owned(),
        head_id: 7,
        attempts: 1,
        due: Due::In(Duration::ZERO),
        blocked: true,
        single: false,
        schema_missing: false,
        last_error: None,
    };
    let dead = [dead(7), dead(8)];
    let settlement = renewal(&claimed.fence, &empty, &empty);
    outbox.settle_done(&Settlement { dead: &dead, stalls: &[blocked], ..settlement }).await;
}

async fn decide<T: TestDb>(outbox: &Outbox<T>, event_id: i64, state: &str) {
    let table = T::table("dead_letter");
    outbox.execute(&format!("UPDATE {table} SET state = '{state}' WHERE event_id = {event_id}")).await;
}

async fn nothing_is_told_unasked<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("crm", None).await;
    assert_eq!(outbox.read(&everything()).await.notices, Notices::default());
    assert_eq!(notices(&outbox).await.free_slots, ["crm"]);
    outbox.some_events(2).await;
    let batch = outbox.read(&Read { notices: true, ..everything() }).await;
    assert_eq!(
        (batch.events.len(), batch.notices.free_slots),
        (2, vec!["crm".to_owned()]),
        "beside events too"
    );
}

async fn a_consumer_with_a_replay_is_named<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    with_dead_letters(&outbox).await;
    outbox.register("another", Some(Start::Earliest)).await;
    assert_eq!(notices(&outbox).await.replays, [""; 0]);
    decide(&outbox, 8, "replay").await;
    assert_eq!(notices(&outbox).await.replays, ["crm"]);
    decide(&outbox, 8, "replayed").await;
    assert_eq!(notices(&outbox).await.replays, [""; 0]);
}

async fn a_blocked_lane_whose_head_was_discarded_names_its_consumer<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    with_dead_letters(&outbox).await;
    decide(&outbox, 8, "discarded").await;
    assert_eq!(notices(&outbox).await.replays, [""; 0], "nothing waits for that one");
    decide(&outbox, 7, "discarded").await;
    assert_eq!(notices(&outbox).await.replays, ["crm"]);
    outbox.execute(&format!("UPDATE {} SET blocked = FALSE", T::table("stall"))).await;
    assert_eq!(notices(&outbox).await.replays, [""; 0], "the lane goes on");
}

async fn slots_that_can_be_claimed_are_named<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    for name in ["b", "a", "c"] {
        outbox.register(name, Some(Start::Earliest)).await;
    }
    assert_eq!(notices(&outbox).await.free_slots, ["a", "b", "c"]);
    outbox.claim("a").await;
    outbox.try_claim("c", "gone", Duration::ZERO).await;
    assert_eq!(notices(&outbox).await.free_slots, ["b", "c"], "one is taken, of another the lease is over");
}

async fn a_slot_that_somebody_asked_for_is_not_free<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("crm", None).await;
    let table = T::table("consumer");
    let ahead = format!("UPDATE {table} SET wanted = 'admin', wanted_until = registered_at + {}", T::HOUR);
    outbox.execute(&ahead).await;
    assert_eq!(notices(&outbox).await.free_slots, [""; 0]);
    outbox.execute(&format!("UPDATE {table} SET wanted_until = registered_at - {}", T::HOUR)).await;
    assert_eq!(notices(&outbox).await.free_slots, ["crm"]);
}

async fn a_consumer_that_an_operator_holds_is_named<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    outbox.register("another", Some(Start::Earliest)).await;
    let empty = Progress::new();
    let pause = Pause { length: Duration::from_secs(60), attempts: 1, reason: Some("down") };
    let settlement = Settlement { pause: Some(pause), ..renewal(&claimed.fence, &empty, &empty) };
    outbox.settle_done(&settlement).await;
    assert_eq!(notices(&outbox).await.held, [""; 0], "its owner knows of its breaker");
    let update = format!(
        "UPDATE {} SET paused_by = 'operator', paused_until = {} WHERE name = 'crm'",
        T::table("consumer"),
        if T::CONCURRENT_WRITERS { "'infinity'" } else { "9223372036854775807" }
    );
    outbox.execute(&update).await;
    assert_eq!(notices(&outbox).await.held, ["crm"]);
    T::Db::resume(&mut *outbox.conn().await, &outbox.tables, "crm").await.unwrap();
    assert_eq!(notices(&outbox).await.held, [""; 0]);
}
