//! Which slots a relay takes and which it gives back, decided by each relay for itself from what all of them see alike.
//! Pure: no IO, no clock; time is counted in looks.
//!
//! A free slot goes to the least loaded relay that can run it. Every relay computes the same assignment, so that no two
//! go for one slot; and whoever sees a slot free a second time takes it, so that a relay which is stuck strands nothing.
//! A slot is given back, one at a time in the whole cluster, only when a relay that can run it has at least two fewer
//! than its owner: each such move makes the shares more even, and none is ever undone by another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outbox_sdk::backend::SlotView;

/// A slot of a consumer.
pub(crate) type SlotKey = (String, i32);

/// For how many looks a relay that did not take a slot is not given another; doubled each time, up to the second.
const PATIENCE: (u32, u32) = (8, 64);

/// What a relay remembers from look to look.
#[derive(Debug)]
pub(crate) struct Balance {
    me: String,
    /// Free slots that the last look left to another relay.
    left: BTreeSet<SlotKey>,
    /// What was given back last, and for whom.
    given: Option<(SlotKey, String)>,
    /// Relays that did not take what was given back for them.
    reluctant: BTreeMap<String, Patience>,
}

#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Looks until it is given something again.
    left: u32,
    /// How many it will be the next time.
    next: u32,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Free slots to claim.
    pub(crate) claim: Vec<SlotKey>,
    /// A slot to drain and give back.
    pub(crate) give_back: Option<SlotKey>,
    /// This relay takes part in something that is not done: it should look again soon.
    pub(crate) again_soon: bool,
}

/// A look, taken apart.
struct Scene<'v> {
    view: &'v [SlotView],
    /// Who can be counted on: alive, and not known to have let a lease run out.
    live: BTreeSet<&'v str>,
    /// How many slots each relay owns.
    load: BTreeMap<&'v str, usize>,
}

impl Balance {
    pub(crate) fn new(me: &str) -> Self {
        Self { me: me.to_owned(), left: BTreeSet::new(), given: None, reluctant: BTreeMap::new() }
    }

    /// Decides from one look. `claimable` says which of the free slots can be claimed at all; `draining`: the slot that
    /// was given back last is still on its way.
    pub(crate) fn decide(
        &mut self,
        view: &[SlotView],
        claimable: impl Fn(&SlotView) -> bool,
        draining: bool,
    ) -> Decision {
        for patience in self.reluctant.values_mut() {
            patience.left = patience.left.saturating_sub(1);
        }
        let mut scene = Scene::of(view, &self.me, &claimable);
        let mut decision = Decision { again_soon: draining, ..Decision::default() };
        let mut left = BTreeSet::new();
        let mut free_for_live = false;
        for slot in view.iter().filter(|slot| !is_owned(slot) && claimable(slot)) {
            let Some(first) = scene.least_loaded(slot) else { continue };
            free_for_live = true;
            let me = slot.runnable_by.iter().find(|name| **name == self.me);
            let taker = me.filter(|_| self.left.contains(&key(slot))).map_or(first, String::as_str);
            if taker == self.me {
                decision.claim.push(key(slot));
            } else if me.is_some() {
                left.insert(key(slot));
                decision.again_soon = true;
            }
            *scene.load.entry(taker).or_default() += 1;
        }
        self.left = left;
        self.note_given(view, &decision.claim);
        // What is free is shared out first: it may put the shares right.
        if !free_for_live && !draining {
            self.even_out(&scene, &mut decision);
        }
        decision
    }

    /// Whether the slot that was given back last found the relay that it was meant for.
    fn note_given(&mut self, view: &[SlotView], claim: &[SlotKey]) {
        let Some((given, to)) = &self.given else { return };
        if claim.contains(given) {
            let patience = self.reluctant.entry(to.clone()).or_insert(Patience { left: 0, next: PATIENCE.0 });
            patience.left = patience.next;
            patience.next = (patience.next * 2).min(PATIENCE.1);
            self.given = None;
        } else if view
            .iter()
            .any(|slot| key(slot) == *given && is_owned(slot) && slot.owner.as_ref() != Some(&self.me))
        {
            self.reluctant.remove(to);
            self.given = None;
        }
    }

    /// Gives a slot back if this relay is the one that has most.
    fn even_out(&mut self, scene: &Scene<'_>, decision: &mut Decision) {
        let waits = |name: &str| self.reluctant.get(name).is_none_or(|patience| patience.left == 0);
        let me = self.me.as_str();
        // From whom (the most loaded first), and to whom (the least loaded first) something could go.
        let mut moves = Vec::new();
        for slot in scene.view.iter().filter(|slot| is_owned(slot)) {
            let Some(owner) = slot.owner.as_deref().filter(|owner| scene.live.contains(owner)) else {
                continue;
            };
            for to in scene.eligible(slot) {
                if scene.load_of(to) + 2 <= scene.load_of(owner) && (owner != me || waits(to)) {
                    moves.push((owner, to, slot));
                }
            }
        }
        decision.again_soon |= moves.iter().any(|(owner, to, _)| *owner == me || *to == me);
        let Some(giver) =
            moves.iter().map(|(owner, ..)| *owner).max_by_key(|owner| (scene.load_of(owner), *owner))
        else {
            return;
        };
        if giver != me {
            return;
        }
        let of_consumer = |relay: &str, slot: &SlotView| {
            let same = |other: &&SlotView| {
                other.consumer == slot.consumer && is_owned(other) && other.owner.as_deref() == Some(relay)
            };
            scene.view.iter().filter(same).count()
        };
        let best = moves.iter().filter(|(owner, ..)| *owner == me).min_by_key(|(_, to, slot)| {
            // Of a consumer of which this relay has many slots and the other one few.
            let spread = of_consumer(me, slot).saturating_sub(of_consumer(to, slot));
            (scene.load_of(to), *to, Reverse(spread), key(slot))
        });
        if let Some((_, to, slot)) = best {
            decision.give_back = Some(key(slot));
            self.given = Some((key(slot), (*to).to_owned()));
        }
    }
}

impl<'v> Scene<'v> {
    fn of(view: &'v [SlotView], me: &str, claimable: impl Fn(&SlotView) -> bool) -> Self {
        let mut live: BTreeSet<&str> =
            view.iter().flat_map(|slot| &slot.runnable_by).map(String::as_str).collect();
        let mut load = BTreeMap::new();
        for slot in view {
            let Some(owner) = slot.owner.as_deref() else { continue };
            if is_owned(slot) {
                *load.entry(owner).or_default() += 1;
            } else if owner != me && !slot.runnable_by.is_empty() && claimable(slot) {
                // Until somebody takes the slot, which is soon.
                live.remove(owner);
            }
        }
        Self { view, live, load }
    }

    fn load_of(&self, relay: &str) -> usize {
        self.load.get(relay).copied().unwrap_or(0)
    }

    fn eligible(&self, slot: &'v SlotView) -> impl Iterator<Item = &'v str> {
        slot.runnable_by.iter().map(String::as_str).filter(|name| self.live.contains(name))
    }

    fn least_loaded(&self, slot: &'v SlotView) -> Option<&'v str> {
        self.eligible(slot).min_by_key(|name| (self.load_of(name), *name))
    }
}

/// Whether somebody's lease on it runs.
pub(crate) fn is_owned(slot: &SlotView) -> bool {
    slot.owner.is_some() && !slot.lease_left.is_zero()
}

pub(crate) fn key(slot: &SlotView) -> SlotKey {
    (slot.consumer.clone(), slot.slot)
}

#[cfg(test)]
mod tests {
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

        /// One look of a relay and what follows from it. Whether anything moved.
        fn look(&mut self, name: &str) -> bool {
            for slot in &mut self.slots {
                let can = |member: &Member| member.consumers.contains(&slot.consumer);
                slot.runnable_by =
                    self.relays.iter().filter(|(_, m)| can(m)).map(|(name, _)| name.clone()).collect();
            }
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
}
