//! What operators see.

use crate::progress::Progress;

/// A slot of a consumer, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRow {
    /// The consumer.
    pub name: String,
    /// The slot.
    pub slot: i32,
    /// The owner, if a lease is running.
    pub owner: Option<String>,
    /// What is settled.
    pub settled: Progress,
    /// How many lanes wait.
    pub stalled_lanes: u64,
    /// How many of its dead letters are in state `dead`.
    pub dead_letters: u64,
}

/// A dead letter, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The consumer for which the event is dead.
    pub consumer: String,
    /// The event's id.
    pub event_id: i64,
    /// As [`DeadReason::as_str`](super::DeadReason::as_str).
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong.
    pub last_error: String,
    /// `dead`, `replay`, `replayed`, `discarded` or `reset`.
    pub state: String,
}
