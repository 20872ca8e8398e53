//! Publish typed domain events inside the caller's own transaction, and consume them exactly once.

pub mod backend;
mod consume;
mod context;
mod envelope;
mod error;
mod event;
mod finite;
pub mod generated;
mod hint;
mod inbox;
#[doc(hidden)]
pub mod injection;
mod lane;
mod limits;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrate;
mod older;
mod open_enum;
mod outbox;
mod progress;
#[cfg(feature = "testing")]
mod schema_test;
#[cfg(feature = "postgres")]
mod statement;
mod tables;
#[cfg(feature = "testing")]
pub mod testing;
mod trace;
#[cfg(feature = "validate")]
pub mod validated;
#[cfg(feature = "webhook")]
pub mod webhook;

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;

pub use backend::Backend;
pub use consume::{Handler, HandlerError, Received, Rejection};
pub use context::Context;
pub use envelope::{Envelope, NewEnvelope, Once, Published, Timestamp};
pub use error::PublishError;
pub use event::{OutboxEvent, ToAggregateId, ToTenantId};
pub use hint::Hint;
pub use inbox::{EarlierFailed, Effect, Forget, Inbox, InboxBuilder, InboxError};
pub use lane::{AggregateKey, Lane, slot_of};
pub use limits::{LimitError, Limits};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use migrate::{Migratable, MigrateError, Migrated, MigrationName, Migrator};
pub use older::OlderPayloads;
pub use open_enum::open_enum;
pub use outbox::{JsonEvent, Outbox};
pub use progress::{Progress, ProgressError};
#[cfg(feature = "postgres")]
pub use statement::{Statement, StatementValue};
pub use tables::{SchemaNameError, Tables, TenantSettingError};

#[cfg(feature = "derive")]
pub use outbox_derive::OutboxEvent;
