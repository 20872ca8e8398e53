//! The event that the examples publish, and a test that keeps the README's code compiling.

use outbox_sdk::OutboxEvent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A customer has placed an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, OutboxEvent)]
#[outbox(event_type = "order.placed", aggregate_type = "order")]
pub struct OrderPlaced {
    /// Which order.
    #[outbox(aggregate_id)]
    pub order_id: Uuid,
    /// Who ordered.
    pub customer: String,
    /// What it costs, in cents.
    pub total_cents: i64,
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
