//! Reads committed events from the outbox and delivers them to every consumer: strictly in order per aggregate, at
//! least once, whatever crashes.
//!
//! How an event travels: the owner of a consumer's slot reads by cursor in one snapshot ([`Relay`]); the slot's state
//! machine says which event may go now; the payload is validated against the registry ([`Schemas`]); a [`sink`]
//! delivers it; what it answered is settled in one fenced transaction. A failed event parks its lane and nothing else.

mod appetite;
mod attempt;
mod balance;
mod breaker;
mod chain;
mod company;
#[cfg(feature = "cli")]
pub mod config;
pub mod consumer;
mod doubt;
mod engine;
mod gate;
mod history;
mod listener;
pub mod maintenance;
pub mod operate;
mod owner;
mod ownership;
mod pace;
mod rate;
mod reader;
mod refused;
mod relay;
pub mod retry;
mod schemas;
mod session;
mod shared_read;
pub mod sink;
mod slot;
mod telemetry;
mod turn;
mod wakes;

pub use attempt::MissingSchema;
pub use chain::chain;
pub use consumer::ConsumerSpec;
pub use rate::{RateLimit, RateLimitError};
pub use refused::advice;
pub use relay::{RegistrationProblem, Relay, RelayBuilder, RelayError, Settings};
pub use schemas::{Schemas, SchemasError, UndeclaredMembers};
