//! Any order of what writers, owners, operators and time do, with recorder and retention in between: what they write is
//! exactly what a plain model of the rules says.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use outbox_sdk::Lane;
use outbox_tests::SqliteTestDb;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::{Stage, event, lane, recording};

const CONSUMERS: [&str; 3] = ["a", "b", "c"];
const LANES: [&str; 2] = ["x", "y"];
const STATES: [&str; 5] = ["dead", "replay", "replayed", "discarded", "reset"];

#[derive(Debug, Clone, Copy)]
enum Step {
    Publish(usize),
    Register(usize),
    Remove(usize),
    /// Everything that exists, or every other id.
    Settle(usize, bool),
    Reset(usize, i64),
    Void(usize, i64),
    Stall(usize, usize, i64),
    Single(usize, i64),
    Resume(usize),
    Letter(usize, i64, usize),
    Acknowledge(usize, i64),
    Days,
    /// A batch of so many.
    Batch(u32),
    Record,
    Compact,
}

fn any_step(rng: &mut StdRng) -> Step {
    let consumer = rng.random_range(0..CONSUMERS.len());
    let id = rng.random_range(1..9);
    match rng.random_range(0..35) {
        0..4 => Step::Publish(rng.random_range(0..LANES.len())),
        4..6 => Step::Register(consumer),
        6 => Step::Remove(consumer),
        7..13 => Step::Settle(consumer, rng.random_bool(0.5)),
        13 => Step::Reset(consumer, id),
        14 => Step::Void(consumer, id),
        15 => Step::Stall(consumer, rng.random_range(0..LANES.len()), id),
        16 => Step::Single(consumer, id),
        17..19 => Step::Resume(consumer),
        19..22 => Step::Letter(consumer, id, rng.random_range(0..STATES.len())),
        22..24 => Step::Acknowledge(consumer, id),
        24..27 => Step::Days,
        27..29 => Step::Batch(rng.random_range(1..4)),
        29..32 => Step::Record,
        _ => Step::Compact,
    }
}

#[derive(Debug, Default, Clone)]
struct Consumer {
    settled: BTreeSet<i64>,
    void: BTreeSet<i64>,
    stalls: BTreeMap<usize, i64>,
    singles: BTreeSet<i64>,
}

#[derive(Debug, Clone)]
struct Event {
    lane: usize,
    status: &'static str,
    /// Its time is over, counted from its birth and from its dispatch.
    old: (bool, bool),
}

#[derive(Debug, Clone)]
struct Letter {
    state: &'static str,
    /// Whether it was acknowledged, and long ago.
    acknowledged: Option<bool>,
    recorded: bool,
}

#[derive(Debug, Default)]
struct Model {
    last: i64,
    events: BTreeMap<i64, Event>,
    consumers: BTreeMap<usize, Consumer>,
    letters: BTreeMap<(usize, i64), Letter>,
}

impl Model {
    fn is_through(&self, id: i64) -> bool {
        let lane = self.events[&id].lane;
        !self.consumers.is_empty()
            && self.consumers.values().all(|consumer| {
                consumer.settled.contains(&id)
                    && !consumer.void.contains(&id)
                    && !consumer.singles.contains(&id)
                    && consumer.stalls.get(&lane).is_none_or(|head| *head > id)
            })
    }

    fn letters_of(&self, id: i64) -> impl Iterator<Item = (usize, &Letter)> {
        let of_event = self.letters.iter().filter(move |((_, about), _)| *about == id);
        of_event.map(|((consumer, _), letter)| (*consumer, letter))
    }

    fn status_of(&self, id: i64) -> &'static str {
        let states: Vec<_> = self
            .letters_of(id)
            .filter(|(consumer, _)| self.consumers.contains_key(consumer))
            .map(|(_, letter)| letter.state)
            .collect();
        if states.iter().any(|state| matches!(*state, "dead" | "replay")) {
            "failed"
        } else if states.contains(&"discarded") {
            "skipped"
        } else {
            "dispatched"
        }
    }

    /// What the recorder must write: pending events, and those with a letter that changed.
    fn record(&mut self) {
        let due: Vec<_> = self
            .events
            .iter()
            .filter(|(id, event)| {
                self.is_through(**id)
                    && (event.status == "pending"
                        || self.letters_of(**id).any(|(_, letter)| !letter.recorded))
            })
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let status = self.status_of(id);
            let event = self.events.get_mut(&id).unwrap();
            (event.status, event.old.1) = (status, false);
            for ((_, about), letter) in &mut self.letters {
                letter.recorded |= *about == id;
            }
        }
    }

    fn is_expired(&self, id: i64) -> bool {
        let event = &self.events[&id];
        let speaking: Vec<_> = self
            .letters_of(id)
            .filter(|(_, letter)| matches!(letter.state, "dead" | "replay" | "discarded"))
            .collect();
        let in_time = match event.status {
            "pending" => false,
            "dispatched" => event.old.1,
            _ => !speaking.is_empty(),
        };
        in_time
            && event.old.0
            && self.is_through(id)
            && speaking.iter().all(|(consumer, letter)| {
                letter.acknowledged == Some(true)
                    && !(letter.state == "replay" && self.consumers.contains_key(consumer))
            })
    }
}

struct World {
    stage: Stage<SqliteTestDb>,
    model: Model,
}

impl World {
    async fn take(&mut self, step: Step) {
        let (stage, model) = (&self.stage, &mut self.model);
        match step {
            Step::Publish(lane) => {
                model.last = stage.outbox.append(&event(LANES[lane])).await.id;
                model.events.insert(model.last, Event { lane, status: "pending", old: (false, false) });
            }
            Step::Register(consumer) => {
                if let Entry::Vacant(new) = model.consumers.entry(consumer) {
                    stage.consumer(CONSUMERS[consumer], 1).await;
                    new.insert(Consumer::default());
                }
            }
            Step::Remove(consumer) => {
                stage.remove(CONSUMERS[consumer]).await;
                model.consumers.remove(&consumer);
            }
            Step::Letter(consumer, id, state) => {
                // No event of its own is needed: it may be deleted, or come later.
                let (name, state) = (CONSUMERS[consumer], STATES[state]);
                if let Some(letter) = model.letters.get_mut(&(consumer, id)) {
                    stage.decide(name, id, state).await;
                    (letter.state, letter.recorded) = (state, false);
                } else if model.events.contains_key(&id) {
                    stage.letter(name, id, state, 1).await;
                    let letter = Letter { state, acknowledged: None, recorded: false };
                    model.letters.insert((consumer, id), letter);
                }
            }
            Step::Acknowledge(consumer, id) => {
                if let Some(letter) = model.letters.get_mut(&(consumer, id)) {
                    stage.acknowledged_now(CONSUMERS[consumer], id).await;
                    letter.acknowledged = Some(false);
                }
            }
            Step::Days => {
                stage.days_pass(20).await;
                for event in model.events.values_mut() {
                    event.old = (true, event.status == "dispatched");
                }
                for letter in model.letters.values_mut() {
                    letter.acknowledged = letter.acknowledged.map(|_| true);
                }
            }
            Step::Batch(limit) => {
                let before = stage.statuses_by_id().await;
                stage.record_batch(recording(limit)).await.unwrap();
                let after = stage.statuses_by_id().await;
                // A batch records a part of what a pass would.
                for (id, status) in &after {
                    if before[id] != *status {
                        assert!(model.is_through(*id), "{id} became {status}");
                        assert_eq!(status.as_str(), model.status_of(*id));
                    }
                }
                // Which part it was is the pass's business: complete it.
                self.record().await;
            }
            Step::Record => self.record().await,
            Step::Compact => {
                let expired: BTreeSet<_> =
                    model.events.keys().copied().filter(|id| model.is_expired(*id)).collect();
                let left: BTreeSet<_> = stage.compact().await.into_iter().collect();
                let kept: BTreeSet<_> =
                    model.events.keys().copied().filter(|id| !expired.contains(id)).collect();
                assert_eq!(&left, &kept, "deleted are exactly the expired ones");
                model.events.retain(|id, _| kept.contains(id));
                model.letters.retain(|(_, id), _| !expired.contains(id));
                let letters = stage.outbox.rows("dead_letter").await;
                assert_eq!(letters, i64::try_from(model.letters.len()).unwrap());
            }
            Step::Settle(consumer, all) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                row.settled.extend((1..=model.last).filter(|id| all || id % 2 == 1));
                stage.store(consumer, row).await;
            }
            Step::Reset(consumer, from) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                row.settled.retain(|id| *id < from);
                row.void.retain(|id| *id < from);
                stage.store(consumer, row).await;
            }
            Step::Void(consumer, id) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                // Given up, or swept.
                if !row.void.insert(id) {
                    row.void.remove(&id);
                }
                stage.store(consumer, row).await;
            }
            Step::Stall(consumer, lane, head) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                row.stalls.insert(lane, head);
                stage.store(consumer, row).await;
            }
            Step::Single(consumer, id) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                row.singles.insert(id);
                stage.store(consumer, row).await;
            }
            Step::Resume(consumer) => {
                let Some(row) = model.consumers.get_mut(&consumer) else { return };
                row.stalls.clear();
                row.singles.clear();
                stage.store(consumer, row).await;
            }
        }
    }

    /// To the end of the pass, and a whole one.
    async fn record(&mut self) {
        for _ in 0..2 {
            self.stage.record().await;
        }
        self.model.record();
        let statuses = self.stage.statuses_by_id().await;
        for (id, event) in &self.model.events {
            assert_eq!(statuses[id].as_str(), event.status, "event {id}");
        }
    }
}

impl Stage<SqliteTestDb> {
    async fn statuses_by_id(&self) -> BTreeMap<i64, String> {
        self.stored_ids().await.into_iter().zip(self.statuses().await).collect()
    }

    async fn acknowledged_now(&self, consumer: &str, id: i64) {
        let now = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";
        let update = format!(
            "UPDATE outbox_dead_letter SET acknowledged_at = {now} WHERE consumer = '{consumer}' AND event_id = {id}"
        );
        self.outbox.execute(&update).await;
    }

    /// The consumer's row and stall rows as the model has them.
    async fn store(&self, consumer: usize, row: &Consumer) {
        let name = CONSUMERS[consumer];
        let ranges = |ids: &BTreeSet<i64>| ids.iter().map(|id| (*id, *id + 1)).collect::<Vec<_>>();
        self.settled(name, &ranges(&row.settled)).await;
        self.void(name, &ranges(&row.void)).await;
        self.outbox.execute(&format!("DELETE FROM outbox_stall WHERE consumer = '{name}'")).await;
        let lanes = row.stalls.iter().map(|(at, head)| (lane(LANES[*at]), *head));
        for (lane, head) in lanes.chain(row.singles.iter().map(|id| (Lane::Single(*id), *id))) {
            let insert = format!(
                "INSERT INTO outbox_stall (consumer, lane, head_id, available_at, single) \
                 VALUES ('{name}', '{}', {head}, 0, {})",
                lane.key(),
                matches!(lane, Lane::Single(_))
            );
            self.outbox.execute(&insert).await;
        }
    }
}

/// As many courses as a second or two allow; one that fails is run alone by its seed.
const SEEDS: std::ops::Range<u64> = 0..40;

#[tokio::test]
async fn recorder_and_retention_do_what_the_rules_say() {
    for seed in SEEDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = World { stage: Stage::with(&[]).await, model: Model::default() };
        for _ in 0..rng.random_range(10..60) {
            let step = any_step(&mut rng);
            // Shown with the panic of a failed test.
            println!("seed {seed}: {step:?}");
            world.take(step).await;
        }
    }
}
