//! Several relays: who owns which slot, what a change of the number of slots keeps, and what operators do to consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_relay::consumer::{ConsumerSpec, Start};
use outbox_relay::operate::{ConsumerError, Drain, Operator, ResetTo, Rest};
use outbox_relay::sink::Outcome;
use outbox_relay::{Relay, RelayError, Settings};
use outbox_tests::{Gauges, PATIENCE, PgTestDb, RecordingSink, RunningRelay, eventually, quick_settings};

use super::order::assert_in_order;
use super::{World, changed, crm, delivering, ids, named};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    relays_share_slots_evenly_and_take_over
    a_graceful_stop_hands_over_within_polls
    another_number_of_slots_keeps_order_and_loses_nothing
    a_one_shot_run_drains_every_slot
    an_older_configuration_is_not_claimed
    a_one_shot_run_ends_when_its_consumer_is_configured_anew
    a_reset_delivers_again_exactly_what_lies_behind
    a_removed_consumer_begins_anew
    a_renamed_consumer_goes_on
    a_required_consumer_is_kept
    an_operator_pauses_and_resumes
    a_consumer_that_nobody_runs_is_counted
    a_change_names_who_is_in_its_way
}

/// Time enough for the machine, far above what is promised.
fn settings(name: &str) -> Settings {
    let mut settings = delivering(quick_settings());
    settings.name = name.to_owned();
    settings
}

impl<T: TestDb> World<T> {
    fn relay(&self, name: &str, consumers: &[ConsumerSpec], sink: &Arc<RecordingSink>) -> Relay<T::Db> {
        let mut builder = self.builder_with(settings(name));
        for consumer in consumers {
            builder = builder.consumer(consumer.clone(), sink.clone());
        }
        builder.build().unwrap()
    }

    /// How many slots each relay owns.
    async fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for slot in self.consumers().await {
            *shares.entry(slot.owner.unwrap_or_default()).or_default() += 1;
        }
        shares
    }

    async fn shared(&self, expected: &[(&str, usize)]) {
        let expected: BTreeMap<_, _> = expected.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        eventually(&format!("the shares are {expected:?}"), async || self.shares().await == expected).await;
    }

    /// Waits until the relay has looked this many times from now on.
    async fn looked(&self, relay: &str, times: usize) {
        let mut seen = BTreeSet::new();
        let seen_until =
            format!("SELECT CAST(seen_until AS text) FROM {} WHERE name = '{relay}'", T::table("relay"));
        eventually(&format!("{relay} has looked"), async || {
            seen.extend(T::texts(&mut self.pool.acquire().await.unwrap(), &seen_until).await);
            seen.len() > times
        })
        .await;
    }

    fn operator(&self) -> Operator<T::Db> {
        Operator::new(self.pool.clone())
    }

    /// Waits until every slot has settled all of these.
    async fn all_settled(&self, consumer: &str, ids: &[i64]) {
        eventually("every slot has settled everything", async || {
            let rows = self.consumers().await;
            let slots: Vec<_> = rows.iter().filter(|row| row.name == consumer).collect();
            let through = |id: &i64| slots.iter().all(|slot| slot.settled.contains(*id));
            !slots.is_empty() && slots.iter().all(|slot| slot.stalled_lanes == 0) && ids.iter().all(through)
        })
        .await;
    }
}

fn spread(name: &str, slots: u16) -> ConsumerSpec {
    named(name).slots(slots).unwrap().start(Start::Earliest)
}

async fn relays_share_slots_evenly_and_take_over<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let consumers: Vec<_> =
        ["a", "b", "c", "d", "e"].iter().map(|name| spread(name, 1)).chain([spread("f", 4)]).collect();
    let first = RunningRelay::start(world.relay("first", &consumers, &sink));
    world.shared(&[("first", 9)]).await;
    let second = RunningRelay::start(world.relay("second", &consumers, &sink));
    eventually("both have their share", async || {
        let shares = world.shares().await;
        matches!((shares.get("first"), shares.get("second")), (Some(4 | 5), Some(4 | 5)))
    })
    .await;
    let third = RunningRelay::start(world.relay("third", &consumers, &sink));
    world.shared(&[("first", 3), ("second", 3), ("third", 3)]).await;

    second.crash().await;
    let crashed = Instant::now();
    eventually("the others have taken over", async || {
        let shares = world.shares().await;
        shares.get("first").copied().unwrap_or(0) + shares.get("third").copied().unwrap_or(0) == 9
    })
    .await;
    let promised = quick_settings().lease + quick_settings().poll_max + Duration::from_secs(1);
    assert!(crashed.elapsed() < promised * 5, "{:?}", crashed.elapsed());
    eventually("the shares are even again", async || {
        let shares = world.shares().await;
        matches!((shares.get("first"), shares.get("third")), (Some(4 | 5), Some(4 | 5)))
    })
    .await;
    let published = ids(&world.publish(&["1", "2", "3", "4", "1", "2"]).await);
    for consumer in ["a", "f"] {
        world.all_settled(consumer, &published).await;
    }
    first.stop().await;
    third.stop().await;
    assert!(world.shares().await.keys().all(String::is_empty), "everything was given back");
    let relays = format!("SELECT count(*) FROM {}", T::table("relay"));
    assert_eq!(T::count(&mut world.pool.acquire().await.unwrap(), &relays).await, 1, "only the crashed one");
}

async fn a_graceful_stop_hands_over_within_polls<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    // A lease that nobody waits for.
    let relay = |name: &str| {
        let mut settings = settings(name);
        settings.lease = PATIENCE * 10;
        world.builder_with(settings).consumer(crm(), sink.clone()).build().unwrap()
    };
    let first = RunningRelay::start(relay("first"));
    world.shared(&[("first", 1)]).await;
    let second = RunningRelay::start(relay("second"));
    world.looked("second", 1).await;
    first.stop().await;
    world.shared(&[("second", 1)]).await;
    second.stop().await;
}

async fn another_number_of_slots_keeps_order_and_loses_nothing<T: TestDb>() {
    let world = World::<T>::new().await;
    // Some events fail at first: lanes wait while the slots change.
    let sink = RecordingSink::scripted(|call| {
        if call.id() % 7 == 0 && call.attempt == 1 {
            Outcome::Retry { error: "no".into(), after: None }
        } else {
            Outcome::Delivered
        }
    });
    let aggregates: Vec<String> = (0..12).map(|n| n.to_string()).chain([String::new()]).collect();
    let aggregates: Vec<&str> = aggregates.iter().map(String::as_str).collect();
    let mut published = Vec::new();
    let mut before: Option<RunningRelay> = None;
    for (round, slots) in [1, 3, 2].into_iter().enumerate() {
        published.extend(ids(&world.publish(&aggregates).await));
        let name = format!("relay-{round}");
        let relay = RunningRelay::start(world.relay(&name, &[spread("crm", slots)], &sink));
        published.extend(ids(&world.publish(&aggregates).await));
        // The earlier relay is asked, and gives way while it runs.
        world.shared(&[(&name, usize::from(slots))]).await;
        published.extend(ids(&world.publish(&aggregates).await));
        if let Some(before) = before.replace(relay) {
            before.stop().await;
        }
    }
    world.all_settled("crm", &published).await;
    before.unwrap().stop().await;
    let mut delivered = sink.delivered();
    assert_in_order(&sink.calls());
    assert_eq!(sink.overlaps(), 0);
    delivered.sort_unstable();
    assert_eq!(delivered, published, "each once");
}

async fn a_one_shot_run_drains_every_slot<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "2", "3", "4", "5", "", ""]).await);
    let sink = RecordingSink::new();
    let consumers = [spread("crm", 3), spread("mail", 1)];
    assert_eq!(world.relay("once", &consumers, &sink).run_once().await.unwrap(), 14);
    for consumer in ["crm", "mail"] {
        world.all_settled(consumer, &published).await;
    }
    assert_eq!(world.shares().await, BTreeMap::from([(String::new(), 4)]));
    // Another number of slots, in one go.
    world.publish(&["1", "6"]).await;
    assert_eq!(world.relay("once", &[spread("crm", 2)], &sink).run_once().await.unwrap(), 2);
    assert_in_order(&sink.calls());
}

async fn a_one_shot_run_ends_when_its_consumer_is_configured_anew<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let holder = RunningRelay::start(world.relay("holder", &[crm()], &sink));
    world.shared(&[("holder", 1)]).await;
    let mail = named("mail").start(Start::Earliest);
    let once = world.relay("once", &[crm().events(["customer.*"]).unwrap(), mail], &sink);
    let once = tokio::spawn(async move { once.run_once().await });
    eventually("its configuration is registered", async || {
        let row = world.consumer("crm").await;
        row.config.contains("customer.*")
    })
    .await;
    let spec = crm().events(["customer.changed"]).unwrap();
    let newer = RunningRelay::start(world.relay("newer", &[spec], &sink));
    let ended = tokio::time::timeout(PATIENCE, once).await.expect("it ends").unwrap();
    assert!(
        matches!(&ended, Err(RelayError::ConfigurationChanged { consumer }) if consumer == "crm"),
        "{ended:?}"
    );
    newer.stop().await;
    holder.stop().await;
    // Its other slots were given back.
    assert!(world.shares().await.keys().all(String::is_empty), "{:?}", world.shares().await);
}

async fn an_older_configuration_is_not_claimed<T: TestDb>() {
    let world = World::<T>::new().await;
    let (old, new) = (RecordingSink::new(), RecordingSink::new());
    let older = RunningRelay::start(world.relay("older", &[crm()], &old));
    world.shared(&[("older", 1)]).await;
    let spec = crm().events(["customer.*"]).unwrap();
    let newer = RunningRelay::start(world.relay("newer", &[spec], &new));
    world.looked("newer", 1).await;
    // The slot comes free while both are there: only the newer one takes it.
    world.operator().reset("crm", ResetTo::Id(i64::MAX), Drain::default()).await.unwrap();
    world.shared(&[("newer", 1)]).await;
    newer.stop().await;
    world.looked("older", 3).await;
    world.shared(&[("", 1)]).await;
    older.stop().await;
}

async fn a_reset_delivers_again_exactly_what_lies_behind<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "2", "1", "2", "3"]).await);
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.relay("relay", &[spread("crm", 2)], &sink));
    world.all_settled("crm", &published).await;
    let from = published[2];
    let rest = world.operator().reset("crm", ResetTo::Id(from), Drain::default()).await.unwrap();
    assert_eq!(rest, Rest::Drained, "the running relay gave the slots back");
    sink.wait_for_delivered(8).await;
    world.all_settled("crm", &published).await;
    relay.stop().await;
    let delivered = sink.delivered();
    let (mut once, mut again) = (delivered[..5].to_vec(), delivered[5..].to_vec());
    once.sort_unstable();
    again.sort_unstable();
    assert_eq!((once.as_slice(), again.as_slice()), (&published[..], &published[2..]));
}

async fn a_removed_consumer_begins_anew<T: TestDb>() {
    let world = World::<T>::new().await;
    let published = ids(&world.publish(&["1", "2"]).await);
    let sink = RecordingSink::new();
    let relay = RunningRelay::start(world.relay("relay", &[crm()], &sink));
    world.all_settled("crm", &published).await;
    let operator = world.operator();
    operator.remove("crm", false, Drain::default()).await.unwrap();
    assert!(world.consumers().await.is_empty());
    let missing = operator.remove("crm", false, Drain::default()).await;
    assert!(matches!(missing, Err(ConsumerError::Unregistered { .. })), "{missing:?}");
    relay.stop().await;
    world.drain(&sink).await;
    let mut delivered = sink.delivered();
    delivered.sort_unstable();
    assert_eq!(delivered, [published[0], published[0], published[1], published[1]]);
}

async fn a_renamed_consumer_goes_on<T: TestDb>() {
    let world = World::<T>::new().await;
    world.publish(&["1", "2"]).await;
    let sink = RecordingSink::new();
    world.drain(&sink).await;
    let operator = world.operator();
    let bad = operator.rename("crm", "Not A Name", Drain::default()).await;
    assert!(matches!(bad, Err(ConsumerError::Name(_))), "{bad:?}");
    operator.rename("crm", "sales", Drain::default()).await.unwrap();
    let more = world.publish(&["1"]).await;
    world.relay("relay", &[named("sales")], &sink).run_once().await.unwrap();
    assert_eq!(sink.delivered(), [1, 2, more[0].id]);
}

async fn a_required_consumer_is_kept<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let required = crm().required_for_retention(true);
    world.relay("relay", &[required], &sink).run_once().await.unwrap();
    let operator = world.operator();
    let refused = operator.remove("crm", false, Drain { force: true, ..Drain::default() }).await;
    assert!(matches!(refused, Err(ConsumerError::Required { .. })), "{refused:?}");
    assert_eq!(world.consumers().await.len(), 1);
    operator.remove("crm", true, Drain::default()).await.unwrap();
    assert!(world.consumers().await.is_empty());
}

async fn an_operator_pauses_and_resumes<T: TestDb>() {
    let world = World::<T>::new().await;
    // Down at first, so that the breaker has something to say.
    let sink = RecordingSink::scripted(|call| match call.index {
        0 => Outcome::Unavailable { error: "down".into(), after: None },
        _ => Outcome::Delivered,
    });
    let operator = world.operator();
    let relay = RunningRelay::start(world.relay("relay", &[crm()], &sink));
    world.shared(&[("relay", 1)]).await;
    world.publish(&["1"]).await;
    sink.wait_until("the destination was tried", |calls| !calls.is_empty()).await;
    operator.pause("crm", None, "maintenance").await.unwrap();
    let paused = format!(
        "SELECT count(*) FROM {} WHERE paused_by = 'operator' AND pause_reason = 'maintenance' AND rev > {{rev}}",
        T::table("consumer")
    );
    let rev = format!("SELECT rev FROM {}", T::table("consumer"));
    let rev = T::count(&mut world.pool.acquire().await.unwrap(), &rev).await;
    eventually("the owner has written since", async || {
        let paused = paused.replace("{rev}", &(rev + 1).to_string());
        T::count(&mut world.pool.acquire().await.unwrap(), &paused).await == 1
    })
    .await;
    let tried = sink.calls().len();
    let published = world.publish(&["2", "3"]).await;
    // Longer than the breaker's own pause and some renewals: nothing is sent, no probe either.
    eventually("the lease was renewed some times", async || {
        let paused = paused.replace("{rev}", &(rev + 4).to_string());
        T::count(&mut world.pool.acquire().await.unwrap(), &paused).await == 1
    })
    .await;
    assert_eq!(sink.calls().len(), tried);
    operator.resume("crm").await.unwrap();
    sink.wait_for_delivered(3).await;
    world.all_settled("crm", &ids(&published)).await;
    relay.stop().await;
    assert!(matches!(operator.resume("other").await, Err(ConsumerError::Unregistered { .. })));
    assert!(matches!(operator.pause("other", None, "").await, Err(ConsumerError::Unregistered { .. })));
}

async fn a_consumer_that_nobody_runs_is_counted<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    let gauges = Gauges::default();
    // Of this thread, on which the whole relay runs.
    let _listening = gauges.listen();
    let gauge = || gauges.get("outbox_consumers_nobody_runs");
    world.relay("first", &[crm(), named("left")], &sink).run_once().await.unwrap();
    assert_eq!(gauge(), None, "a relay that drains once tells nobody");
    let relay = RunningRelay::start(world.relay("second", &[crm()], &sink));
    eventually("one is left", async || gauge() == Some(1.0)).await;
    let other = RunningRelay::start(world.relay("third", &[named("left")], &sink));
    eventually("somebody runs it", async || gauge() == Some(0.0)).await;
    other.stop().await;
    relay.stop().await;
}

async fn a_change_names_who_is_in_its_way<T: TestDb>() {
    let world = World::<T>::new().await;
    let sink = RecordingSink::new();
    sink.hold();
    let relay = RunningRelay::start(world.relay("busy", &[crm()], &sink));
    let published = world.publish(&["1"]).await;
    sink.wait_until("one is in flight", |calls| !calls.is_empty()).await;
    let operator = world.operator();
    let hurry = Drain { wait: Duration::from_millis(50), force: false };
    let refused = operator.reset("crm", ResetTo::Id(1), hurry).await;
    let Err(ConsumerError::Owned { consumer, owned }) = &refused else { panic!("{refused:?}") };
    assert_eq!((consumer.as_str(), owned.len(), owned[0].owner.as_deref()), ("crm", 1, Some("busy")));
    assert!(refused.unwrap_err().to_string().contains("slot 0 is owned by `busy`, whose lease runs"));
    // The request was taken back: the owner goes on, or the slot can be claimed again at once.
    sink.open();
    world.all_settled("crm", &ids(&published)).await;
    sink.hold();
    world.publish(&["1"]).await;
    sink.wait_until("another one is in flight", |calls| calls.len() == 2).await;
    let forced = operator.reset("crm", ResetTo::Id(1), Drain { force: true, ..hurry }).await.unwrap();
    assert_eq!(forced, Rest::Forced);
    sink.open();
    sink.wait_until("what was in flight comes again", |calls| {
        calls.iter().filter(|call| call.id() == published[0].id && call.outcome.is_some()).count() == 2
    })
    .await;
    relay.stop().await;
}

/// Only PostgreSQL has several writers: an id that was drawn and not committed when the consumer was registered.
#[tokio::test]
async fn a_consumer_that_starts_now_gets_what_commits_later_with_a_lower_id() {
    let world = World::<PgTestDb>::new().await;
    world.drain(&RecordingSink::new()).await;
    let mut open = world.outbox.begin(&world.pool).await.unwrap();
    let low = world.outbox.publish_json(&mut open, &changed("low", 0)).await.unwrap();
    let high = world.publish(&["high"]).await;
    assert!(low.id < high[0].id);
    let sink = RecordingSink::new();
    let late = named("late").start(Start::Now);
    let run = async || world.relay("relay", std::slice::from_ref(&late), &sink).run_once().await.unwrap();
    assert_eq!(run().await, 0, "what is visible is skipped");
    world.outbox.commit(open).await.unwrap();
    assert_eq!(run().await, 1);
    assert_eq!(sink.delivered(), [low.id]);
}
