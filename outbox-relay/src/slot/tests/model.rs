//! Any order of writers, reads, answers, settles and faults.
//!
//! Some aggregates are written only under the lane's lock; the others also without it, so no order is promised there, but
//! nothing may be lost or repeated either.

use proptest::prelude::*;

use super::database::State;
use super::world::{Answer, Fate, NO_AGGREGATE, Setting, Step, World};

const AGGREGATES: u8 = 3;

pub(super) fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => Just(Answer::Delivered),
        3 => Just(Answer::Retry),
        1 => Just(Answer::Reject),
        1 => Just(Answer::SchemaMissing),
        1 => Just(Answer::Unavailable),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![4 => Just(Fate::Known), 1 => Just(Fate::Applied), 1 => Just(Fate::Lost)];
    let delay = prop_oneof![6 => Just(0_u64), 1 => 1_u64..4];
    prop_oneof![
        16 => (0_u8..3, prop_oneof![6 => 0..AGGREGATES, 1 => Just(NO_AGGREGATE)], any::<bool>(), prop::bool::weighted(0.85), delay, 0_usize..4).prop_map(
            |(writer, aggregate, locked, wanted, delay, size)| Step::Insert {
                writer, aggregate, locked, wanted, delay, size
            }
        ),
        3 => (0_u8..3).prop_map(Step::Commit),
        3 => (0_u8..3).prop_map(Step::End),
        8 => (0_u8..3).prop_map(Step::Finish),
        2 => (0_u8..3).prop_map(Step::RollBack),
        1 => (0_u8..3).prop_map(Step::Prepare),
        3 => (1_u64..4).prop_map(Step::Tick),
        4 => Just(Step::List),
        12 => (prop_oneof![1..3_usize, 1..7_usize], prop_oneof![3 => Just(9), 1 => 1..4_usize]).prop_map(|(limit, keep)| Step::Read { limit, keep }),
        10 => Just(Step::Send),
        10 => (0_usize..8, answer()).prop_map(|(which, answer)| Step::Answer(which, answer)),
        5 => fate.prop_map(Step::Settle),
        4 => Just(Step::Wake),
        4 => (1_usize..4, prop::bool::weighted(0.1)).prop_map(|(limit, fails)| Step::Resume { limit, fails }),
        5 => (1_usize..4).prop_map(Step::Awake),
        4 => answer().prop_map(Step::Cycle),
        1 => answer().prop_map(Step::Drain),
        1 => Just(Step::Reorder),
        1 => any::<bool>().prop_map(|received| Step::Crash { received }),
        1 => Just(Step::Usurp),
        3 => answer().prop_map(Step::Zombie),
        1 => any::<bool>().prop_map(Step::Pause),
        4 => (0_usize..4, prop_oneof![3 => Just(State::Replay), 1 => Just(State::Discarded)])
            .prop_map(|(which, state)| Step::Decide(which, state)),
        4 => (1_usize..4).prop_map(Step::CarryOut),
        1 => Just(Step::Retain),
        1 => (0_i64..8, any::<bool>()).prop_map(|(back, forced)| Step::Reset { back, forced }),
        2 => (0_usize..4, prop_oneof![6 => 0..AGGREGATES, 1 => Just(NO_AGGREGATE)], prop::bool::weighted(0.85)).prop_map(
            |(which, aggregate, wanted)| Step::Smuggle { which, aggregate, wanted }
        ),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
        1 => Just(Step::Sync),
        1 => Just(Step::LoseCommits),
    ]
}

pub(super) fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    // More with PROPTEST_CASES. A failing case prints itself: no file is needed to come back to it.
    ProptestConfig { cases: config.cases.max(CASES), failure_persistence: None, ..config }
}

const CASES: u32 = 2_000;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_nothing_is_lost_repeated_or_reordered(
        (aggregates, strict) in (1..=AGGREGATES).prop_flat_map(|n| (Just(n), 0..=n)),
        ordered in prop::bool::weighted(0.9),
        block in prop::bool::weighted(0.3),
        faults in any::<bool>(),
        lane_rows in prop_oneof![1 => 0_usize..4, 1 => Just(usize::MAX)],
        caution in prop_oneof![1 => Just(0_usize), 1 => 1_usize..12],
        foreign in prop::bool::weighted(0.2),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let setting = Setting { aggregates, strict, ordered, block, faults, lane_rows, caution, foreign };
        let mut world = World::new(setting);
        for step in &steps {
            world.step(step);
        }
        world.finish();
    }
}

/// The server loses a reset with everything else since its last flush. What was delivered and settled before stays
/// delivered; but the owner has seen the reset, and may send it once more until it notices.
#[test]
fn a_reset_that_the_server_has_lost_never_was() {
    for settled in [true, false] {
        for sends_on in [true, false] {
            lose_a_reset(settled, sends_on);
        }
    }
}

const ONE_LANE: Setting = Setting {
    aggregates: 1,
    strict: 0,
    ordered: false,
    block: false,
    faults: true,
    lane_rows: 1,
    caution: 0,
    foreign: false,
};

fn lose_a_reset(settled: bool, sends_on: bool) {
    let mut world = World::new(ONE_LANE);
    let deliver = [Step::Read { limit: 1, keep: 9 }, Step::Send, Step::Answer(0, Answer::Delivered)];
    let mut steps = vec![
        Step::Insert { writer: 2, aggregate: 0, locked: false, wanted: true, delay: 0, size: 0 },
        Step::Finish(2),
    ];
    steps.extend(deliver.clone());
    if settled {
        steps.push(Step::Settle(Fate::Known));
    }
    steps.extend([Step::Sync, Step::Reset { back: 0, forced: false }, Step::LoseCommits]);
    if sends_on {
        steps.extend(deliver);
    }
    for step in &steps {
        world.step(step);
    }
    world.finish();
}
