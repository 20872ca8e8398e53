//! Which slots this relay owns: looks at who runs what, and starts and ends the owners that [`Balance`] asks for. One
//! task per relay, and one statement per look, whatever the number of consumers.

mod resizing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::backend::{Heartbeat, SlotView};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::attempt::Consumer;
use crate::balance::{Balance, Decision, SlotKey, is_owned, key};
use crate::chain::chain;
use crate::company::Company;
use crate::owner::{End, Ended, Owner};
use crate::relay::RelayError;
use crate::retry::Backoff;
use crate::session::{Session, SessionError, within};
use crate::telemetry;

/// How often consumers are named that nobody runs.
const COMPLAIN_EVERY: Duration = Duration::from_secs(3600);
/// How much later than the end of a lease to look, so that it is over.
const AFTERWARDS: Duration = Duration::from_millis(20);

/// Keeps this relay's share of the slots.
pub(crate) struct Ownership<DB: Backend> {
    consumers: BTreeMap<String, Arc<Consumer>>,
    company: Arc<Company<DB>>,
    shutdown: CancellationToken,
    /// What this relay can run, as the database compares it.
    can_run: String,
    balance: Balance,
    owners: JoinSet<Ended>,
    /// Ends the owner of a slot.
    running: BTreeMap<SlotKey, CancellationToken>,
    /// The slot that is being given back for the sake of balance.
    giving: Option<SlotKey>,
    /// Slots that are left alone for a while.
    resting: BTreeMap<SlotKey, Instant>,
    /// With `once`: slots in which nothing is left to do.
    done: BTreeSet<SlotKey>,
    /// Resizes on their way, and whose slots were asked for.
    resizes: JoinSet<String>,
    resizing: BTreeSet<String>,
    asked: BTreeSet<String>,
    /// Consumers that this relay was told about but cannot run, each said once.
    told: BTreeSet<String>,
    complained: Option<Instant>,
    processed: u64,
}

impl<DB: Backend> Ownership<DB> {
    pub(crate) fn new(
        consumers: &[Arc<Consumer>],
        company: Arc<Company<DB>>,
        shutdown: CancellationToken,
    ) -> Self {
        let consumers: BTreeMap<_, _> =
            consumers.iter().map(|consumer| (consumer.spec.name.to_string(), Arc::clone(consumer))).collect();
        let can_run = consumers.iter().map(|(name, consumer)| (name.clone(), consumer.spec.stored()));
        Self {
            can_run: serde_json::Value::Object(can_run.collect()).to_string(),
            balance: Balance::new(&company.settings.name),
            consumers,
            company,
            shutdown,
            owners: JoinSet::new(),
            running: BTreeMap::new(),
            giving: None,
            resting: BTreeMap::new(),
            done: BTreeSet::new(),
            resizes: JoinSet::new(),
            resizing: BTreeSet::new(),
            asked: BTreeSet::new(),
            told: BTreeSet::new(),
            complained: None,
            processed: 0,
        }
    }

    /// Looks and acts until shutdown (or, with `once`, until nothing is left to do); then waits until every slot is given
    /// back. Returns how many events were delivered or became dead.
    ///
    /// # Errors
    /// When an owner panicked; with `once`, when a consumer cannot be run safely.
    pub(crate) async fn run(mut self) -> Result<u64, RelayError> {
        let settings = Arc::clone(&self.company.settings);
        let mut session = self.session();
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        while !self.shutdown.is_cancelled() {
            let pause = match self.look(&mut session).await {
                Ok(view) => {
                    backoff.succeeded();
                    if self.company.once && self.is_done(&view) {
                        let changed = self.changed(&view);
                        let processed = self.end(&mut session).await?;
                        return changed.map_or(Ok(processed), |consumer| {
                            Err(RelayError::ConfigurationChanged { consumer })
                        });
                    }
                    self.act(&view)
                }
                Err(error) => {
                    let pause = backoff.failed((settings.random)()).min(settings.poll_max * 5);
                    tracing::warn!(error = chain(&error), retry_in = ?pause, "cannot look which slots are free");
                    pause
                }
            };
            self.wait(pause).await?;
        }
        self.end(&mut session).await
    }

    /// Says that this relay is alive, and looks.
    async fn look(&self, session: &mut Session<DB>) -> Result<Vec<SlotView>, SessionError> {
        let settings = &self.company.settings;
        let heartbeat = Heartbeat {
            relay: &settings.name,
            // One that is about to end is not counted on.
            lease: if self.company.once { Duration::ZERO } else { settings.lease },
            consumers: &self.can_run,
        };
        let mut conn = session.connect().await?;
        let view = within(settings.deadline, DB::look(&mut conn, &self.company.tables, &heartbeat)).await?;
        session.keep(conn);
        Ok(view)
    }

    /// Does what a look calls for. Returns when to look again.
    fn act(&mut self, view: &[SlotView]) -> Duration {
        self.tell(view);
        let resizing = self.resize(view);
        let decision = if self.company.once { self.everything_free(view) } else { self.balanced(view) };
        let now = Instant::now();
        for slot in decision.claim {
            self.start(slot, now);
        }
        if let Some(slot) = decision.give_back
            && let Some(stop) = self.running.get(&slot)
        {
            tracing::info!(consumer = slot.0, slot = slot.1, "giving the slot to a relay that has fewer");
            stop.cancel();
            self.giving = Some(slot);
        }
        let settings = &self.company.settings;
        // One that owns nothing reads nothing, so nothing tells it of free slots.
        let soon = self.company.once || decision.again_soon || resizing || self.running.is_empty();
        let pause = if soon { settings.poll_max } else { settings.lease / 3 };
        let pause = pause.mul_f64(1.0 - 0.1 * (settings.random)());
        let foreign = view.iter().filter(|slot| is_owned(slot) && !self.running.contains_key(&key(slot)));
        let ends = foreign.filter(|slot| self.can_run(slot)).map(|slot| slot.lease_left + AFTERWARDS).min();
        ends.map_or(pause, |end| end.min(pause))
    }

    /// This relay's share.
    fn balanced(&mut self, view: &[SlotView]) -> Decision {
        let now = Instant::now();
        let Self { balance, consumers, resting, giving, .. } = self;
        resting.retain(|_, until| *until > now);
        let claimable =
            |slot: &SlotView| !slot.wanted && !resting.contains_key(&key(slot)) && fits(consumers, slot);
        balance.decide(view, claimable, giving.is_some())
    }

    /// All free slots of this relay's consumers in which something may be left to do.
    fn everything_free(&self, view: &[SlotView]) -> Decision {
        let free = view.iter().filter(|slot| {
            !is_owned(slot) && !slot.wanted && self.can_run(slot) && !self.done.contains(&key(slot))
        });
        Decision { claim: free.map(key).collect(), ..Decision::default() }
    }

    /// Whether nothing is left to do in any slot that this relay can run.
    fn is_done(&self, view: &[SlotView]) -> bool {
        self.running.is_empty()
            && view
                .iter()
                .filter(|slot| self.is_registered(slot))
                .all(|slot| fits(&self.consumers, slot) && self.done.contains(&key(slot)))
    }

    /// Whether the slot is of a consumer of this relay, with the configuration that it has here.
    fn is_registered(&self, slot: &SlotView) -> bool {
        self.consumers.contains_key(&slot.consumer) && slot.runnable_by.contains(&self.company.settings.name)
    }

    /// A consumer of this relay that somebody has registered otherwise since, or removed.
    fn changed(&self, view: &[SlotView]) -> Option<String> {
        let registered =
            |name: &String| view.iter().any(|slot| slot.consumer == *name && self.is_registered(slot));
        self.consumers.keys().find(|name| !registered(name)).cloned()
    }

    /// Whether this relay can run the slot as it is registered.
    fn can_run(&self, slot: &SlotView) -> bool {
        slot.runnable_by.contains(&self.company.settings.name) && fits(&self.consumers, slot)
    }

    fn start(&mut self, slot: SlotKey, now: Instant) {
        let Some(consumer) = self.consumers.get(&slot.0) else { return };
        if self.running.contains_key(&slot) || self.resting.get(&slot).is_some_and(|until| *until > now) {
            return;
        }
        let stop = self.shutdown.child_token();
        let owner = Owner {
            consumer: Arc::clone(consumer),
            company: Arc::clone(&self.company),
            slot: slot.1,
            committed: self.company.committed.clone(),
            stop: stop.clone(),
        };
        self.owners.spawn(owner.run());
        let consumer = slot.0.clone();
        self.running.insert(slot, stop);
        self.count(&consumer);
    }

    fn count(&self, consumer: &str) {
        telemetry::running_slots(consumer, self.running.keys().filter(|(name, _)| name == consumer).count());
    }

    /// Waits until the next look is due: after `pause`, or when something has happened that calls for one.
    async fn wait(&mut self, pause: Duration) -> Result<(), RelayError> {
        let settings = Arc::clone(&self.company.settings);
        let mut at = Instant::now() + pause;
        // A free slot that is not for this relay stays in sight: no more than one look per poll for its sake.
        let not_before = Instant::now() + settings.poll_max;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(at.into()) => return Ok(()),
                () = self.shutdown.cancelled() => return Ok(()),
                () = self.company.free_slots.seen.notified() => at = at.min(not_before),
                Some(ended) = self.owners.join_next() => {
                    if let Some(pause) = self.ended(ended)? {
                        at = at.min(Instant::now() + pause);
                    }
                }
                Some(resized) = self.resizes.join_next() => {
                    self.resizing.remove(&resized.map_err(RelayError::Panicked)?);
                    at = at.min(not_before);
                }
            }
        }
    }

    /// Notes that an owner has ended. Returns when to look for its sake.
    fn ended(&mut self, ended: Result<Ended, JoinError>) -> Result<Option<Duration>, RelayError> {
        let Ended { slot, processed, end } = ended.map_err(RelayError::Panicked)?;
        self.processed += processed;
        self.running.remove(&slot);
        self.count(&slot.0);
        if self.giving.as_ref() == Some(&slot) {
            self.giving = None;
        }
        let settings = &self.company.settings;
        Ok(match end {
            End::Released if self.company.once => {
                self.done.insert(slot);
                Some(Duration::ZERO)
            }
            End::Released | End::Handed | End::Refused => Some(settings.poll_max),
            End::Lost => Some(Duration::ZERO),
            End::Failed(pause) => {
                self.resting.insert(slot, Instant::now() + pause);
                Some(pause)
            }
            End::Unsafe(problem) if self.company.once => {
                return Err(RelayError::Unsafe { consumer: slot.0, problem });
            }
            End::Unsafe(_) => {
                // The claim is left to run out: another relay would find the same.
                self.resting.insert(slot, Instant::now() + settings.lease);
                None
            }
        })
    }

    // --- telling ---------------------------------------------------------------------------------------------------

    /// Says what an operator should know: consumers that this relay cannot run, and those that nobody can.
    fn tell(&mut self, view: &[SlotView]) {
        let me = &self.company.settings.name;
        for name in self.consumers.keys() {
            let why = match view.iter().find(|slot| slot.consumer == *name) {
                None => "it is not registered any more",
                Some(slot) if !slot.runnable_by.contains(me) => {
                    "a relay that started later has registered another configuration"
                }
                Some(_) => {
                    self.told.remove(name);
                    continue;
                }
            };
            if self.told.insert(name.clone()) {
                tracing::warn!(consumer = name, "not claiming the consumer: {why}; restart this relay");
            }
        }
        if self.company.once {
            return;
        }
        let nobody: BTreeSet<&str> = view
            .iter()
            .filter(|slot| slot.runnable_by.is_empty())
            .map(|slot| slot.consumer.as_str())
            .collect();
        telemetry::consumers_nobody_runs(nobody.len());
        let now = Instant::now();
        if !nobody.is_empty() && self.complained.is_none_or(|last| now.duration_since(last) >= COMPLAIN_EVERY)
        {
            self.complained = Some(now);
            tracing::warn!(
                consumers = ?nobody,
                "registered consumers that no running relay can run: they hold back the recorder and retention; run them, \
                 or remove them with `outbox consumer remove`"
            );
        }
    }

    // --- the end ---------------------------------------------------------------------------------------------------

    /// Nobody counts on this relay any more; waits until its slots are given back.
    async fn end(mut self, session: &mut Session<DB>) -> Result<u64, RelayError> {
        if let Err(error) = self.leave(session).await {
            tracing::debug!(
                error = chain(&error),
                "could not say that this relay ends; its sign of life runs out"
            );
        }
        while let Some(ended) = self.owners.join_next().await {
            self.ended(ended)?;
        }
        Ok(self.processed)
    }

    async fn leave(&self, session: &mut Session<DB>) -> Result<(), SessionError> {
        let settings = &self.company.settings;
        let mut conn = session.connect().await?;
        within(settings.deadline, DB::leave(&mut conn, &self.company.tables, &settings.name)).await?;
        session.keep(conn);
        Ok(())
    }

    fn session(&self) -> Session<DB> {
        self.company.session()
    }
}

/// Whether the consumer has as many slots as every relay wants that has its configuration; one that this relay does not
/// know is others' business.
fn fits(consumers: &BTreeMap<String, Arc<Consumer>>, slot: &SlotView) -> bool {
    consumers.get(&slot.consumer).is_none_or(|consumer| consumer.spec.slots == slot.slots)
}
