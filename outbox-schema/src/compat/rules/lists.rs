//! Lists and tuples: how many items, which ones, whether they may repeat.

use crate::compat::finding::Rule;
use crate::compat::lower::{Alt, Lists};
use crate::compat::prove::{At, Prover, To};
use crate::compat::rules::NEW_MAJOR;
use crate::compat::world::State;

impl<'a> Prover<'_, 'a> {
    pub(in crate::compat) fn lists_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Lists,
        theirs: &Lists,
        reader: State,
        at: At,
    ) -> bool {
        let mut within = true;
        let slots =
            |lists: &Lists| lists.layers.iter().map(|(slots, _)| slots.prefix.len()).max().unwrap_or(0);
        let (own_slots, their_slots) = (slots(mine), slots(theirs));
        let (most, their_most) = (self.world.most_items(mine), self.world.most_items(theirs));
        let too_many = their_most.is_some_and(|limit| most.is_none_or(|most| most > limit));
        if mine.min < theirs.min || too_many {
            let tuple = own_slots > 0 && their_slots > 0;
            let rule = if tuple { Rule::TupleLength } else { Rule::ItemsCount };
            let counts = |min: u64, max: Option<u64>| match max {
                Some(max) if max == min => format!("{min} items"),
                Some(max) => format!("{min} to {max} items"),
                None => format!("{min} items or more"),
            };
            let message = format!(
                "{} have {}, and {} accepts {}",
                self.writers(),
                counts(mine.min, most),
                self.readers(),
                counts(theirs.min, their_most)
            );
            let help =
                if tuple { "keep the tuple, and add a member beside it" } else { "keep the number of items" };
            let keyword = match (tuple, too_many) {
                (true, _) => "prefixItems",
                (false, true) => "maxItems",
                (false, false) => "minItems",
            };
            let reason = self.in_either(rule, at, keyword, message, format!("{help}, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        if theirs.unique && !mine.unique && most.is_none_or(|most| most > 1) {
            let rule = self.either(Rule::UniqueAdded, Rule::UniqueRemoved);
            let message = format!("{} may repeat an item, which {} refuses", self.writers(), self.readers());
            let help = self.either("keep it a list", "keep it a set");
            let reason = self.in_either(rule, at, "uniqueItems", message, format!("{help}, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for index in 0..=own_slots.max(their_slots) {
            if most.is_some_and(|most| most <= index as u64) {
                break;
            }
            if their_most.is_some_and(|limit| limit <= index as u64) {
                break; // Told above.
            }
            let (own, their) = (self.world.item(mine, index), self.world.item(theirs, index));
            within &= self.prove_in(alt, To::Item(index), own, their, at);
        }
        within
    }
}
