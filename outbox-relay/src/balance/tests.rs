//! Relays that come, go, stand still and come back, by steps that are drawn at random.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// Slots and relays, in memory. Every look is true at the moment of the decision.
#[derive(Debug, Default)]
struct Cluster {
    slots: Vec<SlotView>,
    relays: BTreeMap<String, Member>,
}

#[derive(Debug)]
struct Member {
    balance: Balance,
    /// Alive, but it claims nothing and gives nothing back.
    stuck: bool,
    consumers: BTreeSet<String>,
}

impl Cluster {
    fn new(consumers: &[(&str, u16)]) -> Self {
        let slots = consumers.iter().flat_map(|&(consumer, slots)| {
            (0..i32::from(slots)).map(move |slot| SlotView {
                consumer: consumer.to_owned(),
                slot,
                slots,
                owner: None,
                lease_left: Duration::ZERO,
                wanted: false,
                runnable_by: Vec::new(),
            })
        });
        Self { slots: slots.collect(), relays: BTreeMap::new() }
    }

    fn consumers(&self) -> Vec<String> {
        let mut names: Vec<_> = self.slots.iter().map(|slot| slot.consumer.clone()).collect();
        names.dedup();
        names
    }

    fn join(&mut self, name: &str, consumers: impl IntoIterator<Item = String>) {
        let (balance, consumers) = (Balance::new(name), consumers.into_iter().collect());
        self.relays.insert(name.to_owned(), Member { balance, stuck: false, consumers });
    }

    fn join_all(&mut self, names: &[&str]) {
        for name in names {
            self.join(name, self.consumers());
        }
    }

    fn leave(&mut self, name: &str, clean: bool) {
        self.relays.remove(name);
        for slot in self.slots.iter_mut().filter(|slot| slot.owner.as_deref() == Some(name)) {
            slot.lease_left = Duration::ZERO;
            if clean {
                slot.owner = None;
            }
        }
    }

    /// What a look would show of who can run what.
    fn show(&mut self) {
        for slot in &mut self.slots {
            let can = |member: &Member| member.consumers.contains(&slot.consumer);
            slot.runnable_by =
                self.relays.iter().filter(|(_, m)| can(m)).map(|(name, _)| name.clone()).collect();
        }
    }

    /// One look of a relay and what follows from it. Whether anything moved.
    fn look(&mut self, name: &str) -> bool {
        self.show();
        let Some(member) = self.relays.get_mut(name) else { return false };
        let decision = member.balance.decide(&self.slots, |_| true, false);
        if member.stuck {
            return false;
        }
        let moved = !decision.claim.is_empty() || decision.give_back.is_some();
        for slot in &mut self.slots {
            if decision.claim.contains(&key(slot)) {
                assert!(!is_owned(slot), "claims only what is free");
                assert!(slot.runnable_by.iter().any(|runner| runner == name));
                (slot.owner, slot.lease_left) = (Some(name.to_owned()), LEASE);
            } else if decision.give_back == Some(key(slot)) {
                assert_eq!(slot.owner.as_deref(), Some(name), "gives back only what it has");
                (slot.owner, slot.lease_left) = (None, Duration::ZERO);
            }
        }
        moved
    }

    /// Every relay looks once. Whether anything moved.
    fn round(&mut self) -> bool {
        let names: Vec<_> = self.relays.keys().cloned().collect();
        let mut moved = false;
        for name in names {
            moved |= self.look(&name);
        }
        moved
    }

    fn settle(&mut self) {
        for _ in 0..4 * self.slots.len() + 20 {
            self.round();
        }
        // Without a relay nobody looks.
        self.show();
    }

    fn load(&self, name: &str) -> usize {
        self.slots.iter().filter(|slot| is_owned(slot) && slot.owner.as_deref() == Some(name)).count()
    }

    fn loads(&self) -> Vec<usize> {
        self.relays.keys().map(|name| self.load(name)).collect()
    }

    /// A slot that would be better off with another relay.
    fn uneven(&self) -> Option<&SlotView> {
        self.slots.iter().find(|slot| {
            let owner = slot.owner.as_deref().filter(|_| is_owned(slot));
            let Some(owner) = owner else { return !slot.runnable_by.is_empty() };
            slot.runnable_by.iter().any(|other| self.load(other) + 2 <= self.load(owner))
        })
    }
}

#[test]
fn relays_that_start_together_share_at_once() {
    let mut cluster = Cluster::new(&[("a", 4), ("b", 4), ("c", 4)]);
    cluster.join_all(&["x", "y", "z"]);
    cluster.round();
    cluster.round();
    assert_eq!(cluster.loads(), [4, 4, 4]);
    assert!(!cluster.round());
}

#[test]
fn a_late_relay_gets_its_share_one_by_one() {
    let mut cluster = Cluster::new(&[("a", 4), ("b", 1), ("c", 1)]);
    cluster.join_all(&["x"]);
    cluster.round();
    assert_eq!(cluster.loads(), [6]);
    cluster.join_all(&["y"]);
    assert!(cluster.look("x"));
    assert_eq!(cluster.loads(), [5, 0], "one at a time");
    assert!(!cluster.look("x"), "not before the first one is taken");
    cluster.settle();
    assert_eq!(cluster.loads(), [3, 3]);
    let of_a = |name: &str| {
        cluster.slots.iter().filter(|s| s.consumer == "a" && s.owner.as_deref() == Some(name)).count()
    };
    assert!(of_a("x") >= 1 && of_a("y") >= 1, "a consumer with many slots is spread");
}

#[test]
fn only_who_has_most_gives_back() {
    let mut cluster = Cluster::new(&[("a", 8)]);
    cluster.join_all(&["x", "y"]);
    cluster.settle();
    cluster.join_all(&["z"]);
    cluster.look("z");
    // Both look at the same moment, before either has given anything back.
    let decisions = ["x", "y"].map(|name| {
        let balance = &mut cluster.relays.get_mut(name).unwrap().balance;
        balance.decide(&cluster.slots, |_| true, false)
    });
    assert_eq!(decisions.iter().filter(|decision| decision.give_back.is_some()).count(), 1);
    assert!(decisions.iter().all(|decision| decision.again_soon));
    let draining = Balance::new("y").decide(&cluster.slots, |_| true, true);
    assert_eq!((draining.give_back, draining.again_soon), (None, true), "one after the other");
}

#[test]
fn a_dead_relay_gets_nothing_and_a_stuck_one_strands_nothing() {
    let mut cluster = Cluster::new(&[("a", 6)]);
    cluster.join_all(&["x", "y", "z"]);
    cluster.settle();
    cluster.leave("z", false);
    // Its sign of life has not run out yet.
    cluster.join_all(&["z"]);
    cluster.relays.get_mut("z").unwrap().stuck = true;
    cluster.look("x");
    cluster.look("y");
    assert_eq!([cluster.load("x"), cluster.load("y")], [3, 3], "at once, and evenly");

    // Nothing tells that this one is stuck: it is waited for, once.
    let mut cluster = Cluster::new(&[("a", 6)]);
    cluster.join_all(&["x", "y"]);
    cluster.settle();
    cluster.join_all(&["z"]);
    cluster.relays.get_mut("z").unwrap().stuck = true;
    cluster.leave("y", true);
    cluster.look("x");
    assert_eq!(cluster.load("x"), 3);
    cluster.look("x");
    assert_eq!(cluster.load("x"), 6);
    // It is offered a slot now and then, ever more rarely.
    let moves = (0..1_000).filter(|_| cluster.look("x")).count();
    assert!((4..60).contains(&moves), "{moves}");
    assert!(cluster.load("x") >= 5);
}

#[test]
fn nobody_claims_what_cannot_be_claimed() {
    let mut cluster = Cluster::new(&[("a", 2)]);
    cluster.join_all(&["x"]);
    cluster.look("nobody");
    let decision = Balance::new("x").decide(&cluster.slots, |slot| slot.slot == 1, false);
    assert_eq!(decision.claim, [("a".to_owned(), 1)]);
}

#[derive(Debug, Clone)]
enum Step {
    Join { relay: usize, consumers: u8 },
    Leave { relay: usize, clean: bool },
    Stick(usize),
    Look(usize),
}

fn steps(relays: usize) -> impl Strategy<Value = Vec<Step>> {
    let relay = 0..relays;
    let step = prop_oneof![
        2 => (relay.clone(), any::<u8>()).prop_map(|(relay, consumers)| Step::Join { relay, consumers }),
        1 => (relay.clone(), any::<bool>()).prop_map(|(relay, clean)| Step::Leave { relay, clean }),
        1 => relay.clone().prop_map(Step::Stick),
        6 => relay.prop_map(Step::Look),
    ];
    proptest::collection::vec(step, 0..60)
}

fn play(cluster: &mut Cluster, steps: Vec<Step>, all_run_everything: bool) {
    let names = cluster.consumers();
    for step in steps {
        match step {
            Step::Join { relay, consumers } => {
                let name = relay.to_string();
                if !cluster.relays.contains_key(&name) {
                    let runs = |at: usize| all_run_everything || consumers >> (at % 8) & 1 == 1;
                    let consumers = names.iter().enumerate().filter(|(at, _)| runs(*at));
                    cluster.join(&name, consumers.map(|(_, name)| name.clone()));
                }
            }
            Step::Leave { relay, clean } => cluster.leave(&relay.to_string(), clean),
            Step::Stick(relay) => {
                if let Some(member) = cluster.relays.get_mut(&relay.to_string()) {
                    member.stuck = true;
                }
            }
            Step::Look(relay) => {
                cluster.look(&relay.to_string());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happened_the_shares_become_even_and_stay_so(steps in steps(5)) {
        let mut cluster = Cluster::new(&[("a", 4), ("b", 4), ("c", 1), ("d", 4), ("e", 3)]);
        play(&mut cluster, steps, true);
        cluster.relays.values_mut().for_each(|member| member.stuck = false);
        cluster.join("last", cluster.consumers());
        // Longer than a relay that was stuck is distrusted.
        for _ in 0..PATIENCE.1 {
            cluster.round();
        }
        cluster.settle();
        let loads = cluster.loads();
        let share = 16_usize.div_ceil(loads.len());
        prop_assert_eq!(loads.iter().sum::<usize>(), 16);
        prop_assert!(loads.iter().all(|load| *load <= share), "{:?}", loads);
        prop_assert!((0..10).all(|_| !cluster.round()), "it stays so");
    }

    #[test]
    fn relays_that_cannot_run_everything_share_what_they_can(steps in steps(5)) {
        let mut cluster = Cluster::new(&[("a", 4), ("b", 2), ("c", 1), ("d", 4)]);
        play(&mut cluster, steps, false);
        cluster.relays.values_mut().for_each(|member| member.stuck = false);
        for _ in 0..PATIENCE.1 {
            cluster.round();
        }
        cluster.settle();
        let moved = (0..10).any(|_| cluster.round());
        prop_assert!(!moved, "{:?}", cluster);
        prop_assert!(cluster.uneven().is_none(), "{:?}", cluster.uneven());
    }

    #[test]
    fn a_stuck_relay_strands_no_slot(steps in steps(4)) {
        let mut cluster = Cluster::new(&[("a", 4), ("b", 2)]);
        play(&mut cluster, steps, true);
        cluster.join("last", cluster.consumers());
        for _ in 0..3 {
            cluster.round();
        }
        let mut free = 0;
        for _ in 0..200 {
            cluster.round();
            // One may be on offer.
            let owned_by = |slot: &SlotView| slot.owner.clone().and_then(|owner| cluster.relays.get(&owner).map(|_| owner));
            free = cluster.slots.iter().filter(|slot| owned_by(slot).is_none()).count();
            prop_assert!(free <= 1, "{:?}", cluster);
        }
        prop_assert!(free <= 1);
    }
}
