//! Two slots that share a read: joining, leaving, crashing, falling behind, in any order. Each slot has a world of its
//! own; what writers do happens in both, so that their databases hold the same events.

use std::collections::VecDeque;
use std::rc::Rc;

use outbox_sdk::Progress;
use outbox_sdk::backend::Holders;
use proptest::prelude::*;
use uuid::Uuid;

use super::super::{Admission, Cursor, Page};
use super::bench::LOOSE;
use super::database::{Database, NewEvent};
use super::model::{answer, config};
use super::world::{Fate, NO_AGGREGATE, Setting, Step, World};

/// How many pages a slot may be behind.
const PAGES: usize = 2;
const AGGREGATES: u8 = 2;

/// Who may join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// As the cursor says.
    Admitted,
    /// Whoever has read as far, whatever it misses.
    Any,
    /// The same, and what it misses it reads itself, beside the shared read.
    AnyWithReadsOfItsOwn,
}

#[derive(Debug, Clone)]
enum Act {
    /// What happens to the database.
    Both(Step),
    /// What one owner does.
    One(usize, Step),
    Join(usize),
    Leave(usize),
    Take(usize),
    ReadGaps(usize),
    /// Holders; the read may follow, or fail.
    List,
    Read {
        limit: usize,
        keep: usize,
    },
}

struct Side {
    world: World,
    /// The pages that it was given and has not taken; `None` = no seat.
    seat: Option<VecDeque<Rc<Page>>>,
    /// Whether pages still come.
    fed: bool,
    epoch: i64,
}

impl Side {
    fn leave(&mut self) {
        self.seat = None;
        self.fed = false;
    }
}

struct Pair {
    rule: Rule,
    sides: [Side; 2],
    cursor: Option<Cursor>,
    holders: Option<Holders>,
}

impl Pair {
    fn new(rule: Rule, setting: Setting) -> Self {
        let side = || {
            let world = World::new(setting);
            Side { epoch: world.epoch, world, seat: None, fed: false }
        };
        Self { rule, sides: [side(), side()], cursor: None, holders: None }
    }

    fn act(&mut self, act: &Act) {
        let list = self.holders.take();
        match act {
            Act::Both(step) => {
                self.sides.iter_mut().for_each(|side| side.world.step(step));
                self.holders = list;
            }
            &Act::One(which, ref step) => {
                let side = &mut self.sides[which];
                // Who has a seat reads nothing itself.
                if side.seat.is_none() || !matches!(step, Step::List | Step::Read { .. } | Step::Cycle(_)) {
                    side.world.step(step);
                }
                self.holders = list;
            }
            &Act::Join(which) => self.join(which),
            &Act::Leave(which) => self.sides[which].leave(),
            &Act::Take(which) => self.take(which),
            &Act::ReadGaps(which) => {
                if self.rule == Rule::AnyWithReadsOfItsOwn && self.sides[which].seat.is_some() {
                    self.sides[which].world.read_gaps();
                }
            }
            Act::List => {
                if self.cursor.as_ref().is_some_and(Cursor::has_gaps) {
                    self.holders = Some(self.sides[0].world.db.holders());
                }
            }
            &Act::Read { limit, keep } => self.read(list, limit, keep),
        }
        let clock = self.sides.iter().map(|side| side.world.db.clock).max().unwrap_or_default();
        for side in &mut self.sides {
            side.world.db.clock = clock;
            if side.world.epoch != side.epoch {
                side.epoch = side.world.epoch;
                side.leave();
            }
        }
        if self.sides.iter().all(|side| !side.fed) {
            self.cursor = None;
        }
    }

    fn finish(&mut self) {
        self.sides.iter_mut().for_each(|side| side.world.finish());
    }

    fn join(&mut self, which: usize) {
        let side = &mut self.sides[which];
        if side.seat.is_some() {
            return;
        }
        let mut place = side.world.slot.cursor().place();
        let cursor = self.cursor.get_or_insert_with(|| Cursor::at(&place));
        if self.rule != Rule::Admitted {
            place.gaps.clear();
        }
        if cursor.admit(&place) == Admission::Joined {
            side.seat = Some(VecDeque::new());
            side.fed = true;
        }
    }

    fn read(&mut self, list: Option<Holders>, limit: usize, keep: usize) {
        let Some(cursor) = &mut self.cursor else { return };
        let db = &self.sides[0].world.db;
        let mut holders = Holders { primary: true, ..Holders::default() };
        if cursor.has_gaps() {
            holders = list.unwrap_or_else(|| db.holders());
        }
        let batch = db.read(&cursor.gap_ranges(), cursor.hwm(), limit, keep);
        let Ok(page) = cursor.read(batch, &holders) else {
            assert!(
                self.sides.iter().any(|side| side.fed && side.world.deceived),
                "distrust without a reason"
            );
            self.sides.iter_mut().for_each(Side::leave);
            return;
        };
        let page = Rc::new(page);
        for side in &mut self.sides {
            match &mut side.seat {
                Some(pages) if side.fed && pages.len() < PAGES => pages.push_back(Rc::clone(&page)),
                // It takes what it was given, and reads for itself from there.
                _ => side.fed = false,
            }
        }
    }

    fn take(&mut self, which: usize) {
        let side = &mut self.sides[which];
        let page = side.seat.as_mut().and_then(VecDeque::pop_front);
        if !page.map_or(side.fed, |page| side.world.take_page(&page)) {
            side.leave();
        }
    }
}

fn writers() -> impl Strategy<Value = Step> {
    let aggregate = prop_oneof![6 => 0..AGGREGATES, 1 => Just(NO_AGGREGATE)];
    prop_oneof![
        6 => (0_u8..3, aggregate, prop::bool::weighted(0.9)).prop_map(|(writer, aggregate, wanted)| {
            Step::Insert { writer, aggregate, locked: true, wanted, delay: 0, size: 1 }
        }),
        6 => (0_u8..3).prop_map(Step::Finish),
        1 => (0_u8..3).prop_map(Step::Commit),
        1 => (0_u8..3).prop_map(Step::End),
        2 => (0_u8..3).prop_map(Step::RollBack),
        1 => Just(Step::Tick(1)),
        1 => Just(Step::Restart),
        1 => Just(Step::Sync),
        1 => Just(Step::LoseCommits),
    ]
}

fn owners() -> impl Strategy<Value = Step> {
    let limits = || (prop_oneof![1..3_usize, 1..7_usize], 1..9_usize);
    prop_oneof![
        2 => Just(Step::List),
        8 => limits().prop_map(|(limit, keep)| Step::Read { limit, keep }),
        8 => Just(Step::Send),
        8 => (0_usize..8, answer()).prop_map(|(which, answer)| Step::Answer(which, answer)),
        6 => prop_oneof![Just(Fate::Known), Just(Fate::Applied), Just(Fate::Lost)].prop_map(Step::Settle),
        4 => (1_usize..4).prop_map(Step::Awake),
        1 => answer().prop_map(Step::Drain),
        1 => any::<bool>().prop_map(|received| Step::Crash { received }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let which = || 0..2_usize;
    let limits = (prop_oneof![1..3_usize, 1..7_usize], 1..9_usize);
    prop_oneof![
        14 => writers().prop_map(Act::Both),
        14 => (which(), owners()).prop_map(|(which, step)| Act::One(which, step)),
        6 => which().prop_map(Act::Join),
        1 => which().prop_map(Act::Leave),
        8 => which().prop_map(Act::Take),
        1 => which().prop_map(Act::ReadGaps),
        2 => Just(Act::List),
        8 => limits.prop_map(|(limit, keep)| Act::Read { limit, keep }),
    ]
}

const ORDERED: Setting = Setting { aggregates: AGGREGATES, strict: AGGREGATES, faults: false, ..LOOSE };

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 8, ..config() })]

    #[test]
    fn two_slots_that_share_a_read_lose_repeat_and_reorder_nothing(
        faults in any::<bool>(),
        acts in prop::collection::vec(act(), 1..100),
    ) {
        let mut pair = Pair::new(Rule::Admitted, Setting { faults, ..ORDERED });
        for act in &acts {
            pair.act(act);
        }
        pair.finish();
    }
}

/// The shared read has passed 1, the second slot misses it; 3 is of the same lane.
#[test]
fn joining_with_an_id_that_the_shared_read_has_passed_breaks_the_order() {
    let insert = |writer, aggregate| {
        Act::Both(Step::Insert { writer, aggregate, locked: true, wanted: true, delay: 0, size: 1 })
    };
    let finish = |writer| Act::Both(Step::Finish(writer));
    let alone = |which| Act::One(which, Step::Read { limit: 9, keep: 9 });
    let acts = [
        insert(0, 0),
        insert(1, NO_AGGREGATE),
        finish(1),
        alone(1),
        finish(0),
        alone(0),
        Act::Join(0),
        Act::Join(1),
        insert(2, 0),
        finish(2),
        Act::Read { limit: 9, keep: 9 },
        Act::Take(0),
        Act::Take(1),
        Act::One(1, Step::Send),
        Act::One(1, Step::Send),
        Act::ReadGaps(1),
    ];
    let run = |rule| {
        let mut pair = Pair::new(rule, ORDERED);
        acts.iter().for_each(|act| pair.act(act));
        pair.finish();
    };
    run(Rule::Admitted);
    for rule in [Rule::Any, Rule::AnyWithReadsOfItsOwn] {
        let broken = std::panic::catch_unwind(|| run(rule)).expect_err("the order is broken");
        assert_eq!(broken.downcast_ref::<String>().map(String::as_str), Some("3 goes before 1"), "{rule:?}");
    }
}

#[test]
fn who_is_ahead_waits_and_who_is_behind_reads_alone() {
    let mut db = Database::new();
    for _ in 0..3 {
        db.publish(NewEvent::of(0));
    }
    let none = Holders { primary: true, ..Holders::default() };
    let at = |limit| {
        let mut cursor = Cursor::behind(&Progress::new());
        let _ = cursor.read(db.read(&[], 0, limit, limit), &none);
        cursor
    };
    assert_eq!(at(2).admit(&at(3).place()), Admission::Ahead);
    assert_eq!(at(2).admit(&at(2).place()), Admission::Joined);
    assert_eq!(at(2).admit(&at(1).place()), Admission::Refused);
    let mut other_server = at(2).place();
    other_server.anchor = Some((2, Uuid::nil()));
    assert_eq!(at(2).admit(&other_server), Admission::Refused);

    let mut claimed = Cursor::behind(&(1..=2).collect());
    assert_eq!((claimed.admit(&at(2).place()), claimed.anchor()), (Admission::Joined, at(2).anchor()));
}
