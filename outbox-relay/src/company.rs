//! What the owners of a relay's slots share with each other, and with the task that starts and ends them.

use std::collections::BTreeSet;
use std::sync::Arc;

use outbox_sdk::{Backend, Tables};
use sqlx::Pool;
use tokio::sync::{Notify, Semaphore, watch};

use crate::attempt::Consumer;
use crate::history::History;
use crate::relay::Settings;
use crate::schemas::Schemas;
use crate::session::Session;
use crate::shared_read::SharedRead;

/// A relay's connections, settings and signals.
pub(crate) struct Company<DB: Backend> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) pool: Pool<DB>,
    pub(crate) tables: Tables,
    pub(crate) schemas: Schemas,
    /// Where attempts are noted for people.
    pub(crate) history: History,
    /// The read that slots near the head share; `None` = each reads for itself.
    pub(crate) shared: Option<SharedRead>,
    /// Something was committed.
    pub(crate) committed: watch::Receiver<()>,
    /// A read has shown free slots.
    pub(crate) free_slots: Arc<FreeSlots>,
    /// Who of the slots that go one at a time after a crash may have an event on its way: if two had, the one that ends
    /// the process would have an attempt of the other counted.
    pub(crate) careful: Arc<Semaphore>,
    /// Give everything back as soon as nothing is left to do.
    pub(crate) once: bool,
}

impl<DB: Backend> Company<DB> {
    pub(crate) fn session(&self) -> Session<DB> {
        Session::new(self.pool.clone(), self.tables.clone(), self.settings.deadline)
    }
}

/// Tells the relay that a slot of one of its consumers was seen free.
pub(crate) struct FreeSlots {
    consumers: BTreeSet<String>,
    pub(crate) seen: Notify,
}

impl FreeSlots {
    pub(crate) fn of(consumers: &[Arc<Consumer>]) -> Self {
        let names = consumers.iter().map(|consumer| consumer.spec.name.to_string());
        Self { consumers: names.collect(), seen: Notify::new() }
    }

    /// A read has shown that these consumers have free slots.
    pub(crate) fn noticed(&self, consumers: &[String]) {
        if consumers.iter().any(|name| self.consumers.contains(name)) {
            self.seen.notify_one();
        }
    }
}
