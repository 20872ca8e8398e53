//! Who runs what, and changes of consumers: what they keep, what they take away, and that nobody gets in between.

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Change, Changed, Claim, ClaimRequest, Claimed, DeadReason, Due, Heartbeat,
    NewDeadLetter, Operate as _, Pause, PausedBy, Registered, Registration, ResetTo, Settled, Settlement,
    SlotOwner, SlotView, Stall, StallRead, Start,
};
use outbox_sdk::{Backend as _, Lane, NewEnvelope, Progress, slot_of};
use outbox_tests::eventually;

use super::{LONG, Outbox, TestDb, event, renewal};

super::on_every_database! {
    a_relay_sees_who_runs_what
    relays_that_ended_long_ago_are_forgotten
    a_slot_that_is_asked_for_is_left_alone_for_a_while
    a_claim_names_the_number_of_slots
    a_claim_gets_the_lanes_of_its_slot
    very_many_waiting_lanes_come_by_pages
    a_change_waits_for_owners_unless_it_is_forced
    resizing_keeps_what_each_slot_settled_of_its_own_lanes
    a_reset_takes_back_exactly_what_lies_behind
    a_reset_to_a_time_begins_with_the_first_event_of_it
    a_removed_consumer_is_forgotten_and_may_begin_anew
    a_renamed_consumer_keeps_everything
    a_pause_by_operator_or_receiver_is_not_the_breakers
}

impl<T: TestDb> Outbox<T> {
    async fn spread(&self, name: &str, slots: u16) -> Registered {
        let consumer = Registration {
            name: name.to_owned(),
            start: Some(Start::Earliest),
            config: "{}".to_owned(),
            slots,
            required_for_retention: false,
        };
        T::Db::register(&mut *self.conn().await, &self.tables, &[consumer]).await.unwrap().remove(0)
    }

    async fn claim_slot(&self, consumer: &str, slot: i32, slots: u16) -> Claimed {
        let claim = ClaimRequest { consumer, slot, owner: "relay", lease: LONG, config: "{}", slots };
        match self.ask(&claim).await {
            Claim::Claimed(claimed) => *claimed,
            refused => panic!("slot {slot} of {slots}: {refused:?}"),
        }
    }

    async fn look(&self, relay: &str, lease: Duration, consumers: &str) -> Vec<SlotView> {
        let heartbeat = Heartbeat { relay, lease, consumers };
        T::Db::look(&mut *self.conn().await, &self.tables, &heartbeat).await.unwrap()
    }

    async fn want(&self, by: &str, hold: Duration) -> Vec<SlotOwner> {
        T::Db::want(&mut *self.conn().await, &self.tables, "crm", by, hold).await.unwrap()
    }

    async fn change(&self, change: Change<'_>, force: bool) -> Changed {
        T::Db::change(&mut *self.conn().await, &self.tables, "crm", &change, force).await.unwrap()
    }

    /// Everything that owners and operators write, as text.
    async fn everything_written(&self) -> Vec<String> {
        let mut all = Vec::new();
        for table in ["consumer", "stall", "dead_letter"] {
            all.extend(T::rows_as_text(&mut *self.conn().await, &T::table(table)).await);
        }
        all
    }
}

async fn a_relay_sees_who_runs_what<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.configure("crm", None, r#"{"b": 1, "a": [2]}"#).await;
    outbox.spread("mail", 2).await;
    let claim = ClaimRequest { consumer: "mail", slot: 1, owner: "a", lease: LONG, config: "{}", slots: 2 };
    assert!(matches!(outbox.ask(&claim).await, Claim::Claimed(_)));
    let short = ClaimRequest { slot: 0, owner: "gone", lease: Duration::ZERO, ..claim };
    assert!(matches!(outbox.ask(&short).await, Claim::Claimed(_)));

    assert_eq!(outbox.look("a", LONG, r#"{"mail": {}, "crm": {"b": 2}}"#).await.len(), 3);
    outbox.look("once", Duration::ZERO, r#"{"mail": {}}"#).await;
    let view = outbox.look("b", LONG, r#"{"mail": {}, "crm": {"b": 1, "a": [2]}, "new": {}}"#).await;
    let names: Vec<_> = view.iter().map(|slot| (slot.consumer.as_str(), slot.slot, slot.slots)).collect();
    assert_eq!(names, [("crm", 0, 1), ("mail", 0, 2), ("mail", 1, 2)]);
    let runnable: Vec<_> = view.iter().map(|slot| slot.runnable_by.join(" ")).collect();
    assert_eq!(runnable, ["b", "a b", "a b"], "another configuration, or only a look, does not count");
    let owners: Vec<_> = view.iter().map(|slot| slot.owner.as_deref()).collect();
    assert_eq!(owners, [None, Some("gone"), Some("a")]);
    assert_eq!([view[0].lease_left, view[1].lease_left], [Duration::ZERO; 2]);
    assert!(view[2].lease_left > LONG / 2 && view[2].lease_left <= LONG);
    assert!(view.iter().all(|slot| !slot.wanted));

    T::Db::leave(&mut *outbox.conn().await, &outbox.tables, "a").await.unwrap();
    T::Db::want(&mut *outbox.conn().await, &outbox.tables, "mail", "x", LONG).await.unwrap();
    let view = outbox.look("b", LONG, r#"{"mail": {"v": 2}}"#).await;
    assert!(view.iter().all(|slot| slot.runnable_by.is_empty()), "{view:?}");
    assert_eq!(view.iter().map(|slot| slot.wanted).collect::<Vec<_>>(), [false, true, true]);
}

async fn relays_that_ended_long_ago_are_forgotten<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    for name in ["old", "fresh"] {
        outbox.look(name, Duration::ZERO, "{}").await;
    }
    let relay = T::table("relay");
    let back = format!("UPDATE {relay} SET seen_until = seen_until - 2 * {} WHERE name = 'old'", T::HOUR);
    outbox.execute(&back).await;
    outbox.register("crm", None).await;
    let names = T::texts(&mut *outbox.conn().await, &format!("SELECT name FROM {relay}")).await;
    assert_eq!(names, ["fresh"]);
}

async fn a_slot_that_is_asked_for_is_left_alone_for_a_while<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    assert!(outbox.want("x", LONG).await.is_empty(), "there is no such consumer");
    let owner = outbox.claimed().await;
    let asked = outbox.want("x", LONG).await;
    assert_eq!((asked.len(), asked[0].slot, asked[0].owner.as_deref()), (1, 0, Some("relay")));
    assert!(asked[0].lease_left > LONG / 2);
    let empty = Progress::new();
    let Settled::Done { fence, wanted, .. } = outbox.settle(&renewal(&owner.fence, &empty, &empty)).await
    else {
        panic!("an owner that is asked is still the owner")
    };
    assert!(wanted);
    outbox.settle_done(&Settlement { release: true, ..renewal(&fence, &empty, &empty) }).await;
    let claim = ClaimRequest { consumer: "crm", slot: 0, owner: "b", lease: LONG, config: "{}", slots: 1 };
    assert_eq!(outbox.ask(&claim).await, Claim::Wanted, "given back, and still asked for");
    assert_eq!(outbox.want("x", LONG).await[0].owner, None);

    assert!(outbox.want("y", Duration::ZERO).await.is_empty(), "only who asked can take it back");
    assert_eq!(outbox.ask(&claim).await, Claim::Wanted);
    assert_eq!(outbox.want("x", Duration::ZERO).await.len(), 1);
    let Claim::Claimed(owner) = outbox.ask(&claim).await else { panic!("nobody asks any more") };

    // What nobody takes back ends by itself, for the owner and for others.
    outbox.want("x", Duration::from_micros(1)).await;
    let mut fence = owner.fence;
    eventually("the request is over", async || {
        let Settled::Done { fence: next, wanted, .. } = outbox.settle(&renewal(&fence, &empty, &empty)).await
        else {
            panic!("the owner")
        };
        fence = next;
        !wanted
    })
    .await;
    outbox.settle_done(&Settlement { release: true, ..renewal(&fence, &empty, &empty) }).await;
    assert!(matches!(outbox.ask(&claim).await, Claim::Claimed(_)));
    assert!(!outbox.look("b", LONG, "{}").await[0].wanted);
}

async fn a_claim_names_the_number_of_slots<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.spread("crm", 2).await;
    let claim =
        |slot, slots| ClaimRequest { consumer: "crm", slot, owner: "a", lease: LONG, config: "{}", slots };
    assert_eq!(outbox.ask(&claim(0, 1)).await, Claim::OtherSlots);
    assert_eq!(outbox.ask(&claim(2, 3)).await, Claim::Unregistered);
    let [first, second] = [outbox.claim_slot("crm", 0, 2).await, outbox.claim_slot("crm", 1, 2).await];
    assert_ne!(first.fence.epoch, second.fence.epoch);
    assert_eq!(outbox.spread("crm", 5).await, Registered::Existing);
    assert_eq!(outbox.ask(&claim(1, 2)).await, Claim::Taken, "registering changes no slots");
}

fn parked(lane: &Lane, head_id: i64) -> Stall {
    Stall {
        lane: lane.key(),
        head_id,
        attempts: 1,
        due: Due::In(LONG),
        blocked: false,
        single: matches!(lane, Lane::Single(_)),
        schema_missing: false,
        last_error: None,
    }
}

fn without_aggregate() -> NewEnvelope {
    let mut alone = event("x");
    alone.aggregate_id = None;
    alone
}

async fn a_claim_gets_the_lanes_of_its_slot<T: TestDb>() {
    const SLOTS: u16 = 4;
    let outbox = Outbox::<T>::migrated().await;
    outbox.register("crm", None).await;
    let owner = outbox.claim("crm").await;
    let aggregates: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    let mut stalls = Vec::new();
    let mut expected = Vec::new();
    for aggregate in &aggregates {
        let lane = Lane::aggregate(None, "customer", aggregate);
        let published = outbox.append(&event(aggregate)).await;
        // The aggregate's lane, and one of its events alone: the same slot.
        for lane_of_row in [lane.clone(), Lane::Single(published.id)] {
            stalls.push(parked(&lane_of_row, published.id));
            expected.push((lane_of_row.key(), slot_of(&lane, SLOTS)));
        }
        let alone = Lane::Single(outbox.append(&without_aggregate()).await.id);
        let Lane::Single(id) = alone else { unreachable!() };
        stalls.push(parked(&alone, id));
        expected.push((alone.key(), slot_of(&alone, SLOTS)));
    }
    stalls.push(parked(&Lane::Single(1_000), 1_000));
    expected.push(("[1000]".to_owned(), 0));
    let empty = Progress::new();
    let all = Settlement { stalls: &stalls, release: true, ..renewal(&owner.fence, &empty, &empty) };
    outbox.settle_done(&all).await;
    assert_eq!(outbox.change(Change::Resize { slots: SLOTS }, false).await, Changed::Done { forced: false });
    let mut found = Vec::new();
    for slot in 0..i32::from(SLOTS) {
        let claimed = outbox.claim_slot("crm", slot, SLOTS).await;
        found.extend(claimed.stalls.into_iter().map(|stall| (stall.lane, slot)));
    }
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert!((0..4).all(|slot| found.iter().any(|(_, of)| *of == slot)), "the case covers every slot");
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

/// Writes everything that an owner can write.
async fn refused_whatever_it_writes<T: TestDb>(outbox: &Outbox<T>, zombie: &Claimed, slot: i32) {
    let before = outbox.everything_written().await;
    let (stolen, void) = (Progress::from_iter([1, 2, 3, 99]), Progress::from_iter([99]));
    let (stalls, resumed, dead) = ([parked(&Lane::Single(99), 99)], ["[1]".to_owned()], [dead(99)]);
    for rev in [0, 1, zombie.fence.rev] {
        let fence = outbox_sdk::backend::Fence { rev, ..zombie.fence.clone() };
        let write = Settlement {
            slot,
            pause: Some(Pause { length: LONG, attempts: 1, reason: None }),
            stalls: &stalls,
            resumed: &resumed,
            dead: &dead,
            release: true,
            ..renewal(&fence, &stolen, &void)
        };
        assert!(matches!(outbox.settle(&write).await, Settled::Refused { .. }));
    }
    assert_eq!(outbox.everything_written().await, before, "a zombie changes no row of any table");
}

async fn very_many_waiting_lanes_come_by_pages<T: TestDb>() {
    const LANES: usize = 10_500;
    let outbox = Outbox::<T>::migrated().await;
    outbox.spread("crm", 2).await;
    let (table, lane) = (T::table("stall"), |n: &str| format!("'[null,\"customer\",\"' || {n} || '\"]'"));
    let insert = format!(
        "INSERT INTO {table} (consumer, lane, head_id, available_at) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {LANES}) \
         SELECT 'crm', {}, n, {} FROM numbers",
        lane("n"),
        T::NOW
    );
    outbox.execute(&insert).await;
    let mut found = std::collections::BTreeMap::new();
    for slot in [0, 1] {
        let claimed = outbox.claim_slot("crm", slot, 2).await;
        let (mut stalls, mut more, mut pages) = (claimed.stalls, claimed.more_stalls, 1);
        while let Some(after) = more {
            let read = StallRead { consumer: "crm", slot, slots: 2, after: &after };
            let page = T::Db::stalls(&mut *outbox.conn().await, &outbox.tables, &read).await.unwrap();
            stalls.extend(page.stalls);
            (more, pages) = (page.more, pages + 1);
        }
        assert_eq!(pages, 3, "5,000 rows in each");
        for stall in stalls {
            assert_eq!(slot_of(&Lane::parse(&stall.lane).unwrap(), 2), slot);
            assert_eq!(found.insert(stall.lane, stall.head_id), None, "each once");
        }
    }
    assert_eq!(found.len(), LANES);
}

async fn a_change_waits_for_owners_unless_it_is_forced<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let changes = [
        Change::Resize { slots: 3 },
        Change::Reset(ResetTo::Id(1)),
        Change::Rename { to: "other" },
        Change::Remove { even_if_required: false },
    ];
    for change in changes {
        assert_eq!(outbox.change(change, true).await, Changed::Unregistered);
    }
    for change in changes {
        outbox.spread("crm", 2).await;
        let zombie = outbox.claim_slot("crm", 1, 2).await;
        let before = outbox.everything_written().await;
        let Changed::Owned(owned) = outbox.change(change, false).await else { panic!("{change:?}") };
        assert_eq!((owned.len(), owned[0].slot, owned[0].owner.as_deref()), (1, 1, Some("relay")));
        assert_eq!(outbox.everything_written().await, before);
        assert_eq!(outbox.change(change, true).await, Changed::Done { forced: true });
        refused_whatever_it_writes(&outbox, &zombie, 1).await;
        for name in ["crm", "other"] {
            let remove = Change::Remove { even_if_required: false };
            T::Db::change(&mut *outbox.conn().await, &outbox.tables, name, &remove, true).await.unwrap();
        }
    }
    // A lease that is over needs no force; the one who had it is a zombie too.
    outbox.spread("crm", 1).await;
    let zombie = outbox.try_claim("crm", "a", Duration::ZERO).await.unwrap();
    assert_eq!(outbox.change(changes[3], false).await, Changed::Done { forced: false });
    outbox.spread("crm", 1).await;
    refused_whatever_it_writes(&outbox, &zombie, 0).await;
    assert!(outbox.claim("crm").await.fence.epoch > zombie.fence.epoch);
}

async fn resizing_keeps_what_each_slot_settled_of_its_own_lanes<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.spread("crm", 2).await;
    let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let events: Vec<_> = names.iter().map(|name| event(name)).collect();
    let published = outbox.append_all(&events).await;
    let slot_of_event = |at: usize, slots| slot_of(&Lane::aggregate(None, "customer", &names[at]), slots);
    // Slot 0 is through with all but the last two ids, slot 1 with the first half; 100 has no row, 50 no writer.
    let last = published[11].id;
    let mut settled = [Progress::new(), Progress::new()];
    settled[0].insert_range(1, last - 1);
    settled[0].insert(last + 100);
    settled[1].insert_range(1, published[6].id);
    // Of the dead gaps 3 to 6 only the slot of the row counts; two have none.
    let void = [Progress::from_iter([3, 4, last + 50]), Progress::from_iter([5, 6, last + 51])];
    let stalls = [parked(&Lane::aggregate(None, "customer", "0"), published[0].id)];
    for slot in [0, 1] {
        let owner = outbox.claim_slot("crm", slot, 2).await;
        let at = usize::try_from(slot).unwrap();
        let write = Settlement {
            slot,
            release: true,
            stalls: if slot == 0 { &stalls } else { &[] },
            ..renewal(&owner.fence, &settled[at], &void[at])
        };
        outbox.settle_done(&write).await;
    }
    outbox.want("x", LONG).await;
    assert_eq!(outbox.change(Change::Resize { slots: 3 }, false).await, Changed::Done { forced: false });

    let mut expected = Progress::from_iter([last + 100]);
    for id in 1..=last {
        let at = published.iter().position(|event| event.id == id);
        let by = at.map_or(0, |at| usize::try_from(slot_of_event(at, 2)).unwrap());
        if settled[by].contains(id) {
            expected.insert(id);
        }
    }
    let given_up = [(3, 0), (4, 0), (5, 1), (6, 1)].into_iter().filter(|(id, by)| {
        let at = published.iter().position(|event| event.id == *id).unwrap();
        slot_of_event(at, 2) == *by
    });
    let given_up = Progress::from_iter(given_up.map(|(id, _)| id).chain([last + 50, last + 51]));
    assert!(given_up.ranges().map(|(from, until)| until - from).sum::<i64>() < 6, "the case is not trivial");
    assert_ne!((&expected, &expected), (&settled[0], &settled[1]), "the case is not trivial");
    let mut epochs = Vec::new();
    for slot in 0..3 {
        let claimed = outbox.claim_slot("crm", slot, 3).await;
        assert_eq!((&claimed.settled, claimed.fence.rev), (&expected, 1), "slot {slot}");
        assert_eq!(claimed.void, given_up);
        assert_eq!(claimed.stalls.len(), usize::from(slot == slot_of_event(0, 3)));
        epochs.push(claimed.fence.epoch);
    }
    // The same again changes nothing, also while the slots are owned: another relay asked for the same.
    let before = outbox.everything_written().await;
    assert_eq!(outbox.change(Change::Resize { slots: 3 }, false).await, Changed::Done { forced: false });
    assert_eq!(outbox.everything_written().await, before);

    assert_eq!(outbox.change(Change::Resize { slots: 1 }, true).await, Changed::Done { forced: true });
    let one = outbox.claim("crm").await;
    assert_eq!((one.settled, one.stalls.len()), (expected, 1));
    assert!(epochs.iter().all(|epoch| *epoch < one.fence.epoch));
    assert_eq!(outbox.rows("consumer").await, 1);
}

async fn a_reset_takes_back_exactly_what_lies_behind<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.spread("crm", 2).await;
    let settled = Progress::from_iter(1..20);
    let void = Progress::from_iter([2, 12]);
    let stalls = [4, 9, 10, 11].map(|id| parked(&Lane::Single(id), id));
    let letters = [3, 9, 10, 18].map(dead);
    for slot in [0, 1] {
        let owner = outbox.claim_slot("crm", slot, 2).await;
        let write = Settlement {
            slot,
            stalls: &stalls,
            dead: &letters,
            release: true,
            ..renewal(&owner.fence, &settled, &void)
        };
        outbox.settle_done(&write).await;
    }
    outbox.execute(&format!("UPDATE {} SET recorded = TRUE", T::table("dead_letter"))).await;
    assert_eq!(outbox.change(Change::Reset(ResetTo::Id(10)), false).await, Changed::Done { forced: false });
    let mut heads = Vec::new();
    for slot in [0, 1] {
        let claimed = outbox.claim_slot("crm", slot, 2).await;
        assert_eq!(claimed.settled.to_multirange(), "{[1,10)}");
        assert_eq!(claimed.void, Progress::from_iter([2]));
        heads.extend(claimed.stalls.into_iter().map(|stall| stall.head_id));
    }
    heads.sort_unstable();
    assert_eq!(heads, [4, 9]);
    let letters = outbox.letters("recorded").await;
    assert_eq!(letters, ["10 reset false", "18 reset false", "3 dead true", "9 dead true"]);
}

impl<T: TestDb> Outbox<T> {
    /// Every dead letter with its state and one column of truth.
    async fn letters(&self, column: &str) -> Vec<String> {
        let letters = format!(
            "SELECT CAST(event_id AS text) || ' ' || state || CASE WHEN {column} THEN ' true' ELSE ' false' END \
             FROM {} ORDER BY 1",
            T::table("dead_letter")
        );
        T::texts(&mut *self.conn().await, &letters).await
    }
}

async fn a_reset_to_a_time_begins_with_the_first_event_of_it<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let owner = outbox.claimed().await;
    let first = outbox.append(&event("1")).await;
    let created = async |id: i64| {
        let events = outbox.read(&super::everything()).await.events;
        events.iter().find(|row| row.envelope.id == id).unwrap().envelope.created_at
    };
    let mut second = first;
    eventually("an event is younger than the first", async || {
        second = outbox.append(&event("1")).await;
        created(second.id).await > created(first.id).await
    })
    .await;
    let settled = Progress::from_iter(1..=second.id);
    let empty = Progress::new();
    outbox.settle_done(&Settlement { release: true, ..renewal(&owner.fence, &settled, &empty) }).await;
    let future = outbox_sdk::Timestamp::from_micros(created(second.id).await.micros() + 3_600_000_000);
    outbox.change(Change::Reset(ResetTo::Time(future)), false).await;
    assert_eq!(outbox.rows_settled().await, settled, "nothing is that young");
    outbox.change(Change::Reset(ResetTo::Time(created(second.id).await)), false).await;
    assert_eq!(outbox.rows_settled().await, Progress::from_iter(1..second.id));
    let past = outbox_sdk::Timestamp::from_micros(0);
    outbox.change(Change::Reset(ResetTo::Time(past)), false).await;
    let settled = outbox.rows_settled().await;
    assert_eq!(settled, Progress::from_iter(1..first.id));
}

impl<T: TestDb> Outbox<T> {
    async fn rows_settled(&self) -> Progress {
        let mut rows = T::Db::consumers(&mut *self.conn().await, &self.tables).await.unwrap();
        rows.remove(0).settled
    }
}

async fn a_removed_consumer_is_forgotten_and_may_begin_anew<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.some_events(3).await;
    let audit = Registration {
        name: "crm".to_owned(),
        start: None,
        config: "{}".to_owned(),
        slots: 1,
        required_for_retention: true,
    };
    T::Db::register(&mut *outbox.conn().await, &outbox.tables, &[audit]).await.unwrap();
    let owner = outbox.claim("crm").await;
    let (settled, empty) = (Progress::from_iter(1..=3), Progress::new());
    let (stalls, letters) = ([parked(&Lane::Single(2), 2)], [dead(1)]);
    let write = Settlement {
        stalls: &stalls,
        dead: &letters,
        release: true,
        ..renewal(&owner.fence, &settled, &empty)
    };
    outbox.settle_done(&write).await;
    for force in [false, true] {
        let remove = Change::Remove { even_if_required: false };
        assert_eq!(outbox.change(remove, force).await, Changed::Required, "force is about owners");
    }
    let remove = Change::Remove { even_if_required: true };
    assert_eq!(outbox.change(remove, false).await, Changed::Done { forced: false });
    assert_eq!(outbox.rows("consumer").await + outbox.rows("stall").await, 0);
    assert_eq!(outbox.rows("dead_letter").await, 1, "dead letters stay");
    outbox.spread("crm", 1).await;
    let anew = outbox.claim("crm").await;
    assert!(anew.settled.is_empty() && anew.stalls.is_empty() && anew.clean);
    refused_whatever_it_writes(&outbox, &owner, 0).await;
    // A later registration decides whether it is required.
    let remove = Change::Remove { even_if_required: false };
    assert_eq!(outbox.change(remove, true).await, Changed::Done { forced: true });
}

async fn a_renamed_consumer_keeps_everything<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let owner = outbox.claimed().await;
    let (settled, void) = (Progress::from_iter(1..=9), Progress::from_iter([5]));
    let (stalls, letters) = ([parked(&Lane::Single(2), 2)], [dead(1)]);
    let write = Settlement {
        stalls: &stalls,
        dead: &letters,
        release: true,
        ..renewal(&owner.fence, &settled, &void)
    };
    outbox.settle_done(&write).await;
    outbox.spread("mail", 1).await;
    assert_eq!(outbox.change(Change::Rename { to: "mail" }, true).await, Changed::NameTaken);
    assert_eq!(outbox.change(Change::Rename { to: "crm" }, true).await, Changed::NameTaken);
    let to = Change::Rename { to: "sales" };
    assert_eq!(outbox.change(to, false).await, Changed::Done { forced: false });
    assert_eq!(outbox.change(to, false).await, Changed::Unregistered);
    let renamed = outbox.claim("sales").await;
    assert_eq!((&renamed.settled, &renamed.void, renamed.stalls.len()), (&settled, &void, 1));
    assert!(renamed.fence.epoch > owner.fence.epoch);
    let of_sales = format!("SELECT count(*) FROM {} WHERE consumer = 'sales'", T::table("dead_letter"));
    assert_eq!(T::count(&mut *outbox.conn().await, &of_sales).await, 1);
    // The old name is free, but the dead letters keep the new one taken after a removal.
    outbox.spread("crm", 1).await;
    let remove = Change::Remove { even_if_required: false };
    T::Db::change(&mut *outbox.conn().await, &outbox.tables, "sales", &remove, true).await.unwrap();
    assert_eq!(outbox.change(to, false).await, Changed::NameTaken);
}

async fn a_pause_by_operator_or_receiver_is_not_the_breakers<T: TestDb>() {
    for by in [PausedBy::Operator, PausedBy::Receiver] {
        a_pause_is_not_the_breakers::<T>(by).await;
    }
}

async fn a_pause_is_not_the_breakers<T: TestDb>(by: PausedBy) {
    let outbox = Outbox::<T>::migrated().await;
    let empty = Progress::new();
    let pause = async |length| {
        T::Db::pause(&mut *outbox.conn().await, &outbox.tables, "crm", length, "deploying", by).await.unwrap()
    };
    let resume = async || T::Db::resume(&mut *outbox.conn().await, &outbox.tables, "crm").await.unwrap();
    assert!(!pause(None).await && !resume().await, "there is no such consumer");
    let mut fence = outbox.claimed().await.fence;
    let mut write = async |change: Option<Pause<'_>>| {
        let settlement = Settlement { pause: change, ..renewal(&fence, &empty, &empty) };
        let Settled::Done { fence: next, paused_for, held, .. } = outbox.settle(&settlement).await else {
            panic!("the owner stays the owner")
        };
        fence = next;
        (paused_for, held)
    };
    let down = Pause { length: Duration::from_secs(60), attempts: 3, reason: Some("503") };
    let up = Pause { length: Duration::ZERO, attempts: 0, reason: None };
    let (left, held) = write(Some(down)).await;
    assert!(left.unwrap() <= down.length && !held, "the breaker's own");

    assert!(pause(None).await);
    let century = Duration::from_secs(100 * 365 * 86_400);
    for change in [None, Some(up), Some(down)] {
        let (left, held) = write(change).await;
        assert!(left.unwrap() > century && held, "{change:?}");
    }
    let reason = format!("SELECT pause_reason FROM {}", T::table("consumer"));
    assert_eq!(T::texts(&mut *outbox.conn().await, &reason).await, ["deploying"]);
    // A limited one ends at its time; only then the breaker's word counts again.
    assert!(pause(Some(LONG)).await);
    let (left, held) = write(Some(up)).await;
    assert!(left.unwrap() <= LONG && held);
    assert!(pause(Some(Duration::ZERO)).await);
    eventually("the pause is over", async || write(None).await.0.is_none()).await;
    let (left, held) = write(Some(down)).await;
    assert!(left.unwrap() <= down.length && !held);
    assert!(resume().await);
    assert_eq!(write(None).await, (None, false));
    let claimed = {
        outbox.settle_done(&Settlement { release: true, ..renewal(&fence, &empty, &empty) }).await;
        pause(None).await;
        outbox.claim("crm").await
    };
    assert!(claimed.held && claimed.paused_for.unwrap() > century && claimed.attempts == 0);
}
