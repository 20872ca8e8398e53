//! Webhook deliveries: what a relay sends and how a service receives it.
//!
//! Both sides use the same code. A delivery is an HTTP POST whose body is a CloudEvent (or the [plain](Format::Plain)
//! form) and whose headers carry a [Standard Webhooks](https://www.standardwebhooks.com) signature, so that any
//! Standard Webhooks library in any language can verify it.
//!
//! | header | meaning |
//! |---|---|
//! | `webhook-id` | the event id, the same in every attempt: deduplicate by it |
//! | `webhook-timestamp` | Unix seconds at which this attempt was signed |
//! | `webhook-signature` | `v1,<base64>`, several of them, separated by a space, while a secret rotates |
//! | `outbox-attempt` | which attempt this is, from 1; not covered by the signature |
//! | `outbox-replay` | `true` when an operator sent a dead letter again, else absent; not covered by the signature |
//!
//! To receive, give a [`Receiver`] the secrets and hand it headers and body; an [`Endpoint`] also hands the event to a
//! handler behind the inbox, and says what to answer. For axum the feature `axum` has both. Answer 2xx only after the effect
//! of the event is committed; anything else is sent again.

#[cfg(feature = "axum")]
pub mod axum;
mod endpoint;
mod receive;
mod retry_after;
mod sign;
mod wire;

pub use endpoint::{Endpoint, EndpointError};
pub use receive::{DEFAULT_MAX_BYTES, Delivery, ReceiveError, Receiver};
pub use retry_after::retry_after;
pub use sign::{DEFAULT_TOLERANCE, Secret, SecretError, Secrets, VerifyError, sign, verify};
pub use wire::{CLOUDEVENTS_JSON, Format, JSON, Source, WireError, body, parse};

/// The event id, the same in every attempt.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Unix seconds at which the attempt was signed.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// The signatures of the attempt, separated by spaces.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// The number of the attempt, from 1.
pub const OUTBOX_ATTEMPT: &str = "outbox-attempt";
/// `true` when an operator sent a dead letter again.
pub const OUTBOX_REPLAY: &str = "outbox-replay";
