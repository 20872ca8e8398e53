//! Registering, claiming and settling: who owns a slot, and what a write of its owner changes.

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Claim, ClaimRequest, DeadReason, Due, NewDeadLetter, Operate as _, Pause, Registered,
    Registration, Settled, Settlement, Stall, StallRow, Start,
};
use outbox_sdk::{Backend, Lane, Progress};
use outbox_tests::eventually;
use uuid::Uuid;

use super::{LONG, Outbox, TestDb, event, everything, renewal};

super::on_every_database! {
    the_first_consumer_starts_at_the_beginning
    a_later_consumer_has_to_say_where_it_starts
    now_settles_what_is_there
    a_time_settles_what_was_before
    a_slot_has_one_owner
    a_slot_goes_to_the_configuration_that_is_registered
    a_lease_that_is_over_can_be_taken
    epochs_never_come_back
    settling_stores_the_whole_set
    a_zombie_changes_nothing
    a_write_that_fails_in_the_middle_leaves_nothing
    a_write_without_its_anchor_is_refused
    stalls_are_replaced_and_deleted
    the_longest_lane_can_wait
    the_wait_for_a_schema_is_counted_from_its_beginning
    a_pause_lasts_until_it_is_ended
    a_released_slot_is_free_at_once
}

async fn the_first_consumer_starts_at_the_beginning<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(3).await;
    assert_eq!(outbox.register("crm", None).await, Registered::New);
    assert_eq!(outbox.register("crm", None).await, Registered::Existing);
    assert_eq!(outbox.register("crm", Some(Start::Now)).await, Registered::Existing);
    let claimed = outbox.claim("crm").await;
    assert_eq!((claimed.settled, claimed.void), (Progress::new(), Progress::new()));
    assert!(claimed.stalls.is_empty() && claimed.paused_for.is_none() && claimed.clean);
    assert_eq!(claimed.attempts, 0);
    let checks = claimed.checks;
    assert!(checks.sequence_uncached && checks.sees_all_rows && checks.primary);
    assert_eq!(checks.last_id, outbox.read(&everything()).await.events[2].envelope.id);
}

async fn a_later_consumer_has_to_say_where_it_starts<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let named = |name: &str, start, config: &str| Registration {
        name: name.to_owned(),
        start,
        config: config.to_owned(),
        slots: 1,
        required_for_retention: false,
    };
    let register = async |consumers: &[Registration]| {
        T::Db::register(&mut *outbox.conn().await, &outbox.tables, consumers).await.unwrap()
    };
    // All of the first call are first.
    assert_eq!(register(&[named("a", None, "{}"), named("b", None, "{}")]).await, [Registered::New; 2]);
    outbox.some_events(3).await;
    let needed = Registered::StartNeeded { stored_events: 3 };
    let refused =
        [named("a", None, r#"{"x": 1}"#), named("c", Some(Start::Now), "{}"), named("d", None, "{}")];
    assert_eq!(register(&refused).await[2], needed);
    let names: Vec<_> = consumers(&outbox).await.into_iter().map(|consumer| consumer.name).collect();
    assert_eq!(names, ["a", "b"], "nothing was written");
    let configured = format!("SELECT count(*) FROM {} WHERE config <> '{{}}'", T::table("consumer"));
    assert_eq!(T::count(&mut *outbox.conn().await, &configured).await, 0, "no configuration either");
    let accepted = [refused[0].clone(), refused[1].clone(), named("d", Some(Start::Earliest), "{}")];
    assert_eq!(register(&accepted).await, [Registered::Existing, Registered::New, Registered::New]);
    assert_eq!(T::count(&mut *outbox.conn().await, &configured).await, 1);
    assert_eq!(outbox.claim("d").await.settled, Progress::new());
}

async fn consumers<T: TestDb>(outbox: &Outbox<T>) -> Vec<outbox_sdk::backend::ConsumerRow> {
    T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap()
}

async fn now_settles_what_is_there<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("early", Some(Start::Now)).await;
    assert_eq!(outbox.claim("early").await.settled, Progress::new(), "there was nothing");
    let before = outbox.some_events(3).await;
    outbox.register("crm", Some(Start::Now)).await;
    let after = outbox.some_events(2).await;
    let settled = outbox.claim("crm").await.settled;
    assert!(before.iter().all(|event| settled.contains(event.id)), "{settled:?}");
    assert!(after.iter().all(|event| !settled.contains(event.id)), "{settled:?}");
}

async fn a_time_settles_what_was_before<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(2).await;
    let created = async || {
        let events = outbox.read(&everything()).await.events;
        events.iter().map(|row| (row.envelope.id, row.envelope.created_at)).collect::<Vec<_>>()
    };
    // The clock may stand still for a millisecond.
    eventually("an event is younger than the first", async || {
        outbox.append(&event("1")).await;
        let created = created().await;
        created.last().map(|last| last.1) > created.first().map(|first| first.1)
    })
    .await;
    let created = created().await;
    let time = created.last().unwrap().1;
    outbox.register("crm", Some(Start::At(time))).await;
    let settled = outbox.claim("crm").await.settled;
    for (id, at) in created {
        assert_eq!(settled.contains(id), at < time, "{id} of {at:?} in {settled:?}");
    }
    let past = outbox_sdk::Timestamp::from_micros(0);
    outbox.register("all", Some(Start::At(past))).await;
    assert!(outbox.claim("all").await.settled.is_empty());
    let future = outbox_sdk::Timestamp::from_micros(time.micros() + 3_600_000_000);
    outbox.register("none", Some(Start::At(future))).await;
    let settled = outbox.claim("none").await.settled;
    assert!(outbox.read(&everything()).await.events.iter().all(|row| settled.contains(row.envelope.id)));
}

async fn a_slot_has_one_owner<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claim = ClaimRequest { consumer: "crm", slot: 0, owner: "a", lease: LONG, config: "{}", slots: 1 };
    assert_eq!(outbox.ask(&claim).await, Claim::Unregistered);
    outbox.register("crm", None).await;
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..8 {
        let (pool, tables) = (outbox.pool.clone(), outbox.tables.clone());
        claims.spawn(async move {
            let owner = n.to_string();
            let claim = ClaimRequest { owner: &owner, ..claim };
            let mut conn = pool.acquire().await.unwrap();
            matches!(T::Db::claim(&mut *conn, &tables, &claim).await.unwrap(), Claim::Claimed(_))
        });
    }
    let won = claims.join_all().await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    assert_eq!(outbox.ask(&claim).await, Claim::Taken);
    assert_eq!(outbox.ask(&ClaimRequest { slot: 1, ..claim }).await, Claim::Unregistered);
}

async fn a_slot_goes_to_the_configuration_that_is_registered<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let (old, new) = (r#"{"majors": {"customer.updated": 1}}"#, r#"{"majors": {"customer.updated": 2}}"#);
    let with = |config| ClaimRequest { consumer: "crm", slot: 0, owner: "a", lease: LONG, config, slots: 1 };
    outbox.configure("crm", None, old).await;
    assert_eq!(outbox.ask(&with(new)).await, Claim::OtherConfig);
    let Claim::Claimed(claimed) = outbox.ask(&with(old)).await else { panic!("a free slot") };

    // Another relay brings another configuration, while the lease is running and afterwards.
    outbox.configure("crm", None, new).await;
    assert_eq!(outbox.ask(&with(old)).await, Claim::OtherConfig);
    assert_eq!(outbox.ask(&with(new)).await, Claim::Taken);
    let empty = Progress::new();
    outbox.settle_done(&Settlement { release: true, ..renewal(&claimed.fence, &empty, &empty) }).await;
    assert_eq!(outbox.ask(&with(old)).await, Claim::OtherConfig);
    assert_eq!(consumers(&outbox).await[0].owner, None, "a refused claim writes nothing");
    // The same one again changes nothing.
    outbox.configure("crm", None, new).await;
    let Claim::Claimed(next) = outbox.ask(&with(new)).await else { panic!("a free slot") };
    assert!(next.clean && next.fence.epoch > claimed.fence.epoch);
}

async fn a_lease_that_is_over_can_be_taken<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("crm", None).await;
    let first = outbox.try_claim("crm", "a", Duration::ZERO).await.unwrap();
    assert!(first.clean, "nobody had it before");
    let second = outbox.take_over("crm").await;
    assert!(!second.clean, "the owner before gave nothing back");
    assert!(first.fence.epoch < second.fence.epoch);
    // A renewal counts from the write.
    let (settled, void) = (Progress::new(), Progress::new());
    let short = Settlement { lease: Duration::ZERO, ..renewal(&second.fence, &settled, &void) };
    outbox.settle_done(&short).await;
    assert!(!outbox.take_over("crm").await.clean);
}

async fn epochs_never_come_back<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut last = 0;
    for round in 0..3 {
        for name in ["a", "b"] {
            outbox.register(name, Some(Start::Earliest)).await;
            let epoch = outbox.claim(name).await.fence.epoch;
            assert!(epoch > last, "round {round} of {name}: {epoch} after {last}");
            last = epoch;
        }
        outbox.execute(&format!("DELETE FROM {}", T::table("consumer"))).await;
    }
}

async fn settling_stores_the_whole_set<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    let (mut settled, mut void) = (Progress::new(), Progress::new());
    let mut fence = claimed.fence;
    for (from, until) in [(1, 5), (7, 8), (100, 4_000_000_000)] {
        settled.insert_range(from, until);
        void.insert(from);
        let next = outbox.settle_done(&renewal(&fence, &settled, &void)).await;
        assert_eq!((next.epoch, next.rev), (fence.epoch, fence.rev + 1));
        fence = next;
    }
    assert_eq!(consumers(&outbox).await[0].settled, settled);
    settled.remove(7);
    let last = outbox.settle_done(&Settlement { release: true, ..renewal(&fence, &settled, &void) }).await;
    let again = outbox.claim("crm").await;
    assert_eq!((again.settled, again.void), (settled, void));
    assert!(again.fence.rev > last.rev);
}

fn stall(lane: &str, head_id: i64) -> Stall {
    Stall {
        lane: lane.to_owned(),
        head_id,
        attempts: 1,
        due: Due::In(LONG),
        blocked: false,
        single: false,
        schema_missing: false,
        last_error: Some("refused".to_owned()),
    }
}

async fn a_zombie_changes_nothing<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("crm", None).await;
    let zombie = outbox.try_claim("crm", "zombie", Duration::ZERO).await.unwrap();
    let owner = outbox.take_over("crm").await;
    let (settled, void) = (Progress::from_iter([1, 2]), Progress::new());
    let kept = [stall("[1]", 1)];
    let fence =
        outbox.settle_done(&Settlement { stalls: &kept, ..renewal(&owner.fence, &settled, &void) }).await;

    let (stolen, pause) =
        (Progress::from_iter([9]), Pause { length: LONG, attempts: 3, reason: Some("down") });
    let dead = [NewDeadLetter {
        event_id: 9,
        reason: DeadReason::Rejected,
        attempts: 1,
        max_attempts: 10,
        last_error: "no".to_owned(),
    }];
    let (parked, resumed) = ([stall("[2]", 2)], ["[1]".to_owned()]);
    // Another owner's epoch, and the owner's own epoch with a write too few.
    for stale in [&zombie.fence, &owner.fence] {
        let everything = Settlement {
            pause: Some(pause),
            stalls: &parked,
            resumed: &resumed,
            dead: &dead,
            release: true,
            ..renewal(stale, &stolen, &stolen)
        };
        for write in [everything, renewal(stale, &stolen, &stolen)] {
            let Settled::Refused { now: Some(now) } = outbox.settle(&write).await else {
                panic!("it was written")
            };
            assert_eq!((now.fence.epoch, now.fence.rev, now.anchored), (fence.epoch, fence.rev, true));
        }
    }
    assert_eq!((outbox.rows("stall").await, outbox.rows("dead_letter").await), (1, 0));
    let row = &consumers(&outbox).await[0];
    assert_eq!((row.owner.as_deref(), &row.settled), (Some("successor"), &settled));
    let next = outbox.settle(&renewal(&fence, &settled, &void)).await;
    assert!(matches!(next, Settled::Done { paused_for: None, .. }), "{next:?}");

    outbox.execute(&format!("DELETE FROM {}", T::table("consumer"))).await;
    let gone = outbox.settle(&renewal(&fence, &settled, &void)).await;
    assert_eq!(gone, Settled::Refused { now: None });
}

async fn a_write_that_fails_in_the_middle_leaves_nothing<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    outbox.execute(&format!("DROP TABLE {}", T::table("dead_letter"))).await;
    let (settled, void) = (Progress::from_iter([1, 2]), Progress::new());
    let parked = [stall("[1]", 1)];
    let dead = [NewDeadLetter {
        event_id: 2,
        reason: DeadReason::Rejected,
        attempts: 1,
        max_attempts: 10,
        last_error: "no".to_owned(),
    }];
    let write = Settlement { stalls: &parked, dead: &dead, ..renewal(&claimed.fence, &settled, &void) };
    let mut conn = outbox.conn().await;
    T::Db::settle(&mut conn, &outbox.tables, &write).await.unwrap_err();
    drop(conn);
    assert_eq!(outbox.rows("stall").await, 0);
    // Nor is the row settled: its rev is still the one that was claimed.
    outbox.settle_done(&renewal(&claimed.fence, &void, &void)).await;
}

async fn a_write_without_its_anchor_is_refused<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let events = outbox.some_events(3).await;
    let claimed = outbox.claimed().await;
    let (empty, upper) = (Progress::new(), events[2]);
    let anchored =
        |fence, anchor, settled| Settlement { anchor: Some(anchor), ..renewal(fence, settled, &empty) };

    let there = (upper.id, upper.event_id);
    let fence = outbox.settle_done(&anchored(&claimed.fence, there, &empty)).await;
    let with_all = Progress::from_iter(events.iter().map(|event| event.id));
    for lost in [(upper.id, Uuid::now_v7()), (upper.id + 1, upper.event_id)] {
        // What is settled by this very write proves nothing.
        let write = anchored(&fence, lost, &with_all);
        let Settled::Refused { now: Some(now) } = outbox.settle(&write).await else {
            panic!("it was written")
        };
        assert!(!now.anchored);
        assert_eq!(now.fence.rev, fence.rev);
    }
    let fence = outbox.settle_done(&anchored(&fence, there, &with_all)).await;
    outbox.execute(&format!("DELETE FROM {}", T::table("event"))).await;
    // Retention may take a row that is settled.
    outbox.settle_done(&anchored(&fence, there, &with_all)).await;
}

async fn stalls_are_replaced_and_deleted<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut late = event("1");
    late.delay = Some(2 * LONG);
    let late = outbox.append(&late).await;
    let claimed = outbox.claimed().await;
    let empty = Progress::new();
    let lanes = [r#"[null,"customer","it's \"1\""]"#.to_owned(), "[2]".to_owned(), "[3]".to_owned()];
    let stalls = [
        stall(&lanes[0], 5),
        Stall {
            due: Due::AtAvailable,
            single: true,
            attempts: 0,
            last_error: None,
            ..stall(&lanes[1], late.id)
        },
        Stall { due: Due::In(Duration::ZERO), blocked: true, ..stall(&lanes[2], 3) },
    ];
    let fence =
        outbox.settle_done(&Settlement { stalls: &stalls, ..renewal(&claimed.fence, &empty, &empty) }).await;
    let lane = |stalls: &[StallRow], lane: &str| stalls.iter().find(|row| row.lane == lane).cloned();
    let stored = reclaimed(&outbox, &fence).await;
    let row = lane(&stored.stalls, &lanes[0]).unwrap();
    assert_eq!((row.head_id, row.attempts, row.blocked, row.single), (5, 1, false, false));
    assert!(row.due_in <= LONG && row.due_in > LONG / 2 && row.schema_missing_for.is_none());
    let row = lane(&stored.stalls, &lanes[1]).unwrap();
    assert_eq!((row.head_id, row.attempts, row.blocked, row.single), (late.id, 0, false, true));
    assert!(row.due_in <= 2 * LONG && row.due_in > LONG, "{:?}", row.due_in);
    let row = lane(&stored.stalls, &lanes[2]).unwrap();
    assert_eq!((row.due_in, row.blocked), (Duration::ZERO, true));

    let replaced = [
        Stall { due: Due::Unchanged, attempts: 7, ..stall(&lanes[0], 6) },
        Stall { due: Due::In(Duration::ZERO), ..stall(&lanes[1], late.id) },
        Stall { due: Due::Unchanged, ..stall("[4]", 4) },
    ];
    let write =
        Settlement { stalls: &replaced, resumed: &lanes[2..], ..renewal(&stored.fence, &empty, &empty) };
    let fence = outbox.settle_done(&write).await;
    let stored = reclaimed(&outbox, &fence).await;
    assert_eq!(stored.stalls.len(), 3);
    let row = lane(&stored.stalls, &lanes[0]).unwrap();
    assert_eq!((row.head_id, row.attempts), (6, 7));
    assert!(row.due_in <= LONG && row.due_in > LONG / 2, "unchanged, not {:?}", row.due_in);
    let row = lane(&stored.stalls, &lanes[1]).unwrap();
    assert_eq!((row.due_in, row.single), (Duration::ZERO, false));
    assert!(lane(&stored.stalls, &lanes[2]).is_none());
    assert_eq!(lane(&stored.stalls, "[4]").unwrap().due_in, Duration::ZERO, "nothing stored: now");
}

async fn the_longest_lane_can_wait<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let consumer = "c".repeat(63);
    outbox.register(&consumer, None).await;
    let mut claimed = outbox.claim(&consumer).await;
    let empty = Progress::new();
    let control: String = (1..32_u8).map(char::from).cycle().take(255).collect();
    // A text that does not compress: what the index stores may be as long as it looks.
    let mixed = |from: u32| -> String {
        (from..)
            .map(|n| if n.wrapping_mul(2_654_435_761) >> 16 & 1 == 0 { '"' } else { '\\' })
            .take(255)
            .collect()
    };
    let escaped: String =
        (1..u8::MAX).map(|n| char::from(1 + n.wrapping_mul(167) % 7)).chain(['\u{1}']).collect();
    let wide: String = (0..63_u32).filter_map(|n| char::from_u32(0x1_f300 + n * 7)).collect();
    let quotes = "\"".repeat(255);
    for (kind, id) in [
        (quotes.clone(), quotes.clone()),
        (quotes, control),
        (mixed(1), mixed(1_000)),
        (mixed(1), escaped),
        (wide.clone(), wide + "xyz"),
    ] {
        assert!(kind.len() <= 255 && id.len() == 255, "{} {}", kind.len(), id.len());
        let mut head = event(&id);
        (head.aggregate_type, head.tenant_id) = (kind, Some(Uuid::now_v7()));
        let published = outbox.append(&head).await;
        let lane = Lane::aggregate(head.tenant_id, &head.aggregate_type, &id);
        let stalls = [stall(&lane.key(), published.id)];
        let write = Settlement {
            consumer: &consumer,
            stalls: &stalls,
            release: true,
            ..renewal(&claimed.fence, &empty, &empty)
        };
        outbox.settle_done(&write).await;
        claimed = outbox.claim(&consumer).await;
        assert!(claimed.stalls.iter().any(|row| Lane::parse(&row.lane).as_ref() == Some(&lane)), "{lane}");
    }
    assert_eq!(claimed.stalls.len(), 5);
}

/// Gives the slot back and claims it again.
async fn reclaimed<T: TestDb>(
    outbox: &Outbox<T>,
    fence: &outbox_sdk::backend::Fence,
) -> outbox_sdk::backend::Claimed {
    let empty = Progress::new();
    outbox.settle_done(&Settlement { release: true, ..renewal(fence, &empty, &empty) }).await;
    outbox.claim("crm").await
}

async fn the_wait_for_a_schema_is_counted_from_its_beginning<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let mut claimed = outbox.claimed().await;
    let empty = Progress::new();
    let mut write = async |stall: Stall| {
        let stalls = [stall];
        let write = Settlement { stalls: &stalls, ..renewal(&claimed.fence, &empty, &empty) };
        let fence = outbox.settle_done(&write).await;
        claimed = reclaimed(&outbox, &fence).await;
        claimed.stalls[0].schema_missing_for
    };
    let waiting = |head_id| Stall { schema_missing: true, ..stall("[1]", head_id) };
    assert!(write(waiting(1)).await.is_some());
    // As if it had begun long ago.
    let earlier = format!("UPDATE {} SET missing_since = missing_since - {}", T::table("stall"), T::HOUR);
    outbox.execute(&earlier).await;
    let long = Duration::from_secs(3_500);
    assert!(write(waiting(1)).await.unwrap() > long, "the same head still waits");
    assert!(write(waiting(2)).await.unwrap() < long, "another head has waited since now");
    assert_eq!(write(stall("[1]", 2)).await, None);
    assert!(write(waiting(2)).await.unwrap() < long);
}

async fn a_pause_lasts_until_it_is_ended<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    let empty = Progress::new();
    let pause = Pause { length: LONG, attempts: 4, reason: Some("destination is down") };
    let paused = Settlement { pause: Some(pause), ..renewal(&claimed.fence, &empty, &empty) };
    let Settled::Done { fence, paused_for: Some(left), .. } = outbox.settle(&paused).await else {
        panic!("no pause")
    };
    assert!(left <= LONG && left > LONG / 2);
    let Settled::Done { fence, paused_for: Some(_), .. } =
        outbox.settle(&renewal(&fence, &empty, &empty)).await
    else {
        panic!("a write that says nothing of the pause ended it")
    };
    let again = reclaimed(&outbox, &fence).await;
    assert!(again.paused_for.is_some_and(|left| left <= LONG && left > LONG / 2));
    assert_eq!(again.attempts, 4);
    let ended = Pause { length: Duration::ZERO, attempts: 0, reason: None };
    let ended = Settlement { pause: Some(ended), ..renewal(&again.fence, &empty, &empty) };
    let Settled::Done { fence, paused_for: None, .. } = outbox.settle(&ended).await else {
        panic!("still paused")
    };
    let last = reclaimed(&outbox, &fence).await;
    assert_eq!((last.paused_for, last.attempts), (None, 0));
}

async fn a_released_slot_is_free_at_once<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    let (settled, empty) = (Progress::from_iter([1]), Progress::new());
    let fence =
        outbox.settle_done(&Settlement { release: true, ..renewal(&claimed.fence, &settled, &empty) }).await;
    assert_eq!(consumers(&outbox).await[0].owner, None);
    let next = outbox.try_claim("crm", "b", LONG).await.unwrap();
    assert!(next.clean);
    assert_eq!(next.settled, settled);
    let late = outbox.settle(&renewal(&fence, &empty, &empty)).await;
    assert!(matches!(late, Settled::Refused { .. }), "who released it owns it no more: {late:?}");
}
