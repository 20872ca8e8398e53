//! Webhook deliveries: what a relay sends and how a service receives it.
//!
//! Both sides use the same code. A delivery is an HTTP POST whose body is a CloudEvent (or another [`Format`]) and whose
//! headers carry a [Standard Webhooks](https://www.standardwebhooks.com) signature, so that any
//! Standard Webhooks library in any language can verify it.
//!
//! | header | meaning |
//! |---|---|
//! | `webhook-id` | the event id, the same in every attempt: deduplicate by it |
//! | `webhook-timestamp` | Unix seconds at which this attempt was signed |
//! | `webhook-signature` | `v1,<base64>`, or `v1a,<base64>` of an ed25519 key; several, separated by a space, while a secret rotates |
//! | `outbox-attempt` | which attempt this is, from 1; not covered by the signature |
//! | `outbox-replay` | `true` when an operator sent a dead letter again, else absent; not covered by the signature |
//!
//! To receive, give a [`Receiver`] the secrets and hand it headers and body; an [`Endpoint`] also hands the event to a
//! handler behind the inbox, and says what to answer. For axum the feature `axum` has both. Answer 2xx only after the effect
//! of the event is committed. 410 pauses the consumer until an operator resumes it; anything else is sent again, unless the
//! answer has the header `webhook-delivery: abort-message`: then the event is a dead letter at once.

#[cfg(feature = "axum")]
pub mod axum;
mod endpoint;
mod receive;
mod retry_after;
mod secret;
mod sign;
mod wire;

pub use endpoint::{Endpoint, EndpointError};
pub use receive::{DEFAULT_MAX_BYTES, Delivery, ReceiveError, Receiver};
pub use retry_after::retry_after;
pub use secret::{Secret, SecretError, Secrets};
pub use sign::{DEFAULT_TOLERANCE, VerifyError, sign, verify};
pub use wire::{CLOUDEVENTS_JSON, Format, JSON, Source, WireError, body, headers, parse, parse_binary};

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
/// In the answer: with the value [`ABORT_MESSAGE`], a receiver says that it never takes this event.
pub const WEBHOOK_DELIVERY: &str = "webhook-delivery";
/// The value of [`WEBHOOK_DELIVERY`] with which a sender gives the event up.
pub const ABORT_MESSAGE: &str = "abort-message";
