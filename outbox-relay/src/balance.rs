//! Which slots a relay takes and which it gives back, decided by each relay for itself from what all of them see alike.
//! Pure: no IO, no clock; time is counted in looks.
//!
//! A free slot goes to the least loaded relay that can run it. Every relay computes the same assignment, so that no two
//! go for one slot; and whoever sees a slot free a second time takes it, so that a relay which is stuck strands nothing.
//! A slot is given back, one at a time in the whole cluster, only when a relay that can run it has at least two fewer
//! than its owner: each such move makes the shares more even, and none is ever undone by another.

#[cfg(test)]
mod tests;

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
