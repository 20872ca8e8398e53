//! The life of consumers: pause, resume, reset, rename, remove.

use std::time::{Duration, Instant};

use outbox_sdk::Backend;
use outbox_sdk::backend::{Change, Changed, PausedBy, SlotOwner};

use super::{OperateError, Operator};

pub use outbox_sdk::backend::ResetTo;

/// How often to look whether a consumer's owners have given their slots back.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// For how much longer than the waiting nobody may claim the slots: the change comes in between.
const MARGIN: Duration = Duration::from_secs(10);
/// How long a change itself may take.
const CHANGE_DEADLINE: Duration = Duration::from_secs(60);

/// How a change gets the consumer to rest: the relays that own its slots are asked to finish what is in flight and give
/// them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long to wait for that. Relays hear of it at their next write, at the latest after a third of their lease.
    pub wait: Duration,
    /// Change the consumer after the waiting even if somebody still owns a slot: what is in flight there may be
    /// delivered twice, and out of order with what comes after the change.
    pub force: bool,
}

impl Default for Drain {
    /// Waits for a minute, and forces nothing.
    fn default() -> Self {
        Self { wait: Duration::from_secs(60), force: false }
    }
}

/// Whether a change had to be forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Every slot had been given back, or its lease was over.
    Drained,
    /// Some slot was owned: what was in flight there may come twice.
    Forced,
}

/// Why a consumer was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// No consumer of that name is registered.
    #[error("no consumer named `{consumer}` is registered; `outbox consumers` lists those that are")]
    Unregistered {
        /// The name.
        consumer: String,
    },
    /// Some slots were not given back in time.
    #[error(
        "consumer `{consumer}` was not changed: {}; wait for the relays to finish what is in flight, stop them, or force \
         the change", owners(.owned)
    )]
    Owned {
        /// The consumer.
        consumer: String,
        /// The slots that somebody still owns, with how long the leases run.
        owned: Vec<SlotOwner>,
    },
    /// Retention depends on the consumer.
    #[error(
        "consumer `{consumer}` is required for retention: once it is removed, events that it has not settled may be \
         deleted; say that you mean it"
    )]
    Required {
        /// The consumer.
        consumer: String,
    },
    /// The new name is not free.
    #[error(
        "the name `{name}` belongs to another consumer, or to dead letters of an earlier one; choose another"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The new name is none.
    #[error(transparent)]
    Name(#[from] crate::consumer::SpecError),
    /// The database could not be asked.
    #[error(transparent)]
    Operate(#[from] OperateError),
}

fn owners(owned: &[SlotOwner]) -> String {
    let slots = owned.iter().map(|slot| {
        let owner = slot.owner.as_deref().unwrap_or("nobody");
        format!("slot {} is owned by `{owner}`, whose lease runs {:.1?} more", slot.slot, slot.lease_left)
    });
    slots.collect::<Vec<_>>().join(", ")
}

impl<DB: Backend> Operator<DB> {
    /// Pauses a consumer for `length` from now on, or until [`resume`](Self::resume): nothing is sent to it. The relays
    /// that own its slots hear of it at their next write, at the latest after a third of their lease. What waits meanwhile
    /// burns no attempt, and the consumer's own pauses (its destination is down) neither end nor shorten this one.
    ///
    /// `reason` is shown with the consumer.
    ///
    /// # Errors
    /// [`ConsumerError::Unregistered`], and when the database could not be asked.
    pub async fn pause(
        &self,
        consumer: &str,
        length: Option<Duration>,
        reason: &str,
    ) -> Result<(), ConsumerError> {
        let mut conn = self.connect().await?;
        let found = self
            .within(DB::pause(&mut conn, &self.tables, consumer, length, reason, PausedBy::Operator))
            .await?;
        conn.keep();
        if found { Ok(()) } else { Err(unregistered(consumer)) }
    }

    /// Ends a consumer's pause, whoever paused it. Its relays hear of it as of [`pause`](Self::pause).
    ///
    /// # Errors
    /// [`ConsumerError::Unregistered`], and when the database could not be asked.
    pub async fn resume(&self, consumer: &str) -> Result<(), ConsumerError> {
        let mut conn = self.connect().await?;
        let found = self.within(DB::resume(&mut conn, &self.tables, consumer)).await?;
        conn.keep();
        if found { Ok(()) } else { Err(unregistered(consumer)) }
    }

    /// Delivers again, to this consumer alone, every event it wants from a point on. Waiting lanes and dead letters behind
    /// the point are forgotten: their events come again too.
    ///
    /// A consumer behind an inbox drops the events that it has processed already: forget them there first, or nothing
    /// will happen.
    ///
    /// # Errors
    /// [`ConsumerError::Unregistered`], [`ConsumerError::Owned`], and when the database could not be asked.
    pub async fn reset(&self, consumer: &str, to: ResetTo, drain: Drain) -> Result<Rest, ConsumerError> {
        self.change(consumer, &Change::Reset(to), drain).await
    }

    /// Gives a consumer another name, with its progress, its waiting lanes and its dead letters. Configure the relays with
    /// the new name before they are started again: the old one would be registered anew. An inbox knows what it has
    /// processed under the name that it was given, which stays.
    ///
    /// # Errors
    /// [`ConsumerError::Name`], [`ConsumerError::NameTaken`], [`ConsumerError::Unregistered`],
    /// [`ConsumerError::Owned`], and when the database could not be asked.
    pub async fn rename(&self, consumer: &str, to: &str, drain: Drain) -> Result<Rest, ConsumerError> {
        let name: crate::consumer::ConsumerName = to.parse()?;
        self.change(consumer, &Change::Rename { to: name.as_str() }, drain).await
    }

    /// Forgets a consumer and its waiting lanes, so that recorder and retention no longer wait for it. Its dead letters
    /// stay. Registered again, it begins where its configuration says. Remove it from the relays' configuration first: a
    /// relay that starts with it registers it again.
    ///
    /// One that is required for retention is refused unless `even_if_required`.
    ///
    /// # Errors
    /// [`ConsumerError::Required`], [`ConsumerError::Unregistered`], [`ConsumerError::Owned`], and when the database
    /// could not be asked.
    pub async fn remove(
        &self,
        consumer: &str,
        even_if_required: bool,
        drain: Drain,
    ) -> Result<Rest, ConsumerError> {
        self.change(consumer, &Change::Remove { even_if_required }, drain).await
    }

    /// Asks for the slots, waits for them, and makes the change.
    async fn change(&self, consumer: &str, change: &Change<'_>, drain: Drain) -> Result<Rest, ConsumerError> {
        let by = format!("operator-{:08x}", rand::random::<u32>());
        let until = Instant::now() + drain.wait;
        let mut changed = self.try_change(consumer, change, false).await?;
        let asked = matches!(changed, Changed::Owned(_));
        if asked {
            self.want(consumer, &by, drain.wait + MARGIN).await?;
        }
        while let Changed::Owned(_) = changed
            && Instant::now() < until
        {
            tokio::time::sleep(ASK_EVERY.min(until.saturating_duration_since(Instant::now()))).await;
            changed = self.try_change(consumer, change, false).await?;
        }
        if drain.force && matches!(changed, Changed::Owned(_)) {
            changed = self.try_change(consumer, change, true).await?;
        }
        if let Changed::Done { forced } = changed {
            return Ok(rest(consumer, forced));
        }
        if asked {
            self.want(consumer, &by, Duration::ZERO).await?;
        }
        let name = consumer.to_owned();
        Err(match (changed, change) {
            (Changed::Owned(owned), _) => ConsumerError::Owned { consumer: name, owned },
            (Changed::Required, _) => ConsumerError::Required { consumer: name },
            (Changed::NameTaken, Change::Rename { to }) => {
                ConsumerError::NameTaken { name: (*to).to_owned() }
            }
            _ => ConsumerError::Unregistered { consumer: name },
        })
    }

    async fn try_change(
        &self,
        consumer: &str,
        change: &Change<'_>,
        force: bool,
    ) -> Result<Changed, OperateError> {
        let mut conn = self.connect().await?;
        let patient = self.clone().deadline(self.deadline.max(CHANGE_DEADLINE));
        let changed = patient.within(DB::change(&mut conn, &self.tables, consumer, change, force)).await?;
        conn.keep();
        Ok(changed)
    }

    /// Asks for a consumer's slots; for no time, takes back that they were asked for.
    async fn want(&self, consumer: &str, by: &str, hold: Duration) -> Result<(), OperateError> {
        let mut conn = self.connect().await?;
        self.within(DB::want(&mut conn, &self.tables, consumer, by, hold)).await?;
        conn.keep();
        Ok(())
    }
}

fn unregistered(consumer: &str) -> ConsumerError {
    ConsumerError::Unregistered { consumer: consumer.to_owned() }
}

fn rest(consumer: &str, forced: bool) -> Rest {
    if !forced {
        return Rest::Drained;
    }
    crate::telemetry::forced_change(consumer);
    tracing::warn!(consumer, "changed while a relay owned a slot: what was in flight there may come twice");
    Rest::Forced
}
