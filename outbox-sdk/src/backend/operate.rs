//! What operators see.

use sqlx::{Database, Error};
use std::future::Future;

use super::sealed::Sealed;
use crate::progress::Progress;
use crate::tables::Tables;

/// The statements behind what operators ask and do. Operators write only what a dead letter becomes; all progress is
/// its owner's.
pub trait Operate: Database + Sealed {
    /// Every slot of every registered consumer, by name and slot.
    fn consumers(
        conn: &mut Self::Connection,
        tables: &Tables,
    ) -> impl Future<Output = Result<Vec<ConsumerRow>, Error>> + Send;

    /// Dead letters, newest failure first; of one consumer or of all.
    fn dead_letters(
        conn: &mut Self::Connection,
        tables: &Tables,
        consumer: Option<&str>,
        limit: u32,
    ) -> impl Future<Output = Result<Vec<DeadLetter>, Error>> + Send;
}

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
