//! The lane of an event: what is delivered strictly in order, one at a time.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

/// What is delivered one at a time and in id order: the events of one aggregate of one tenant, or a single event that
/// waits for nothing (one without aggregate, a delayed one, one that arrived late).
///
/// Cloning is cheap.
///
/// ```
/// use outbox_sdk::Lane;
///
/// let lane = Lane::aggregate(None, "customer", "42");
/// assert_eq!(lane.key(), r#"[null,"customer","42"]"#);
/// assert_eq!(Lane::parse(&lane.key()), Some(lane));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Every undelayed event of an aggregate.
    Aggregate(Arc<AggregateKey>),
    /// The event with this id, alone.
    Single(i64),
}

/// Which aggregate a lane is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AggregateKey {
    /// The tenant; `None` for events of the platform.
    pub tenant_id: Option<Uuid>,
    /// The kind of aggregate.
    pub aggregate_type: String,
    /// The aggregate's id as text.
    pub aggregate_id: String,
}

impl Lane {
    /// The lane of an aggregate.
    #[must_use]
    pub fn aggregate(tenant_id: Option<Uuid>, aggregate_type: &str, aggregate_id: &str) -> Self {
        Self::Aggregate(Arc::new(AggregateKey {
            tenant_id,
            aggregate_type: aggregate_type.to_owned(),
            aggregate_id: aggregate_id.to_owned(),
        }))
    }

    /// The text under which a stall row names the lane: a JSON array, so that no two lanes share one.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Single(id) => format!("[{id}]"),
            Self::Aggregate(key) => Value::from(vec![
                key.tenant_id.map_or(Value::Null, |tenant| Value::from(tenant.to_string())),
                Value::from(key.aggregate_type.as_str()),
                Value::from(key.aggregate_id.as_str()),
            ])
            .to_string(),
        }
    }

    /// Reads the text that [`key`](Self::key) writes; `None` when it is anything else.
    #[must_use]
    pub fn parse(key: &str) -> Option<Self> {
        if let Ok([id]) = serde_json::from_str::<[i64; 1]>(key) {
            return Some(Self::Single(id));
        }
        let (tenant_id, aggregate_type, aggregate_id) = serde_json::from_str(key).ok()?;
        Some(Self::Aggregate(Arc::new(AggregateKey { tenant_id, aggregate_type, aggregate_id })))
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_never_clash() {
        let tenant = Uuid::from_u128(7);
        let lanes = [
            Lane::Single(42),
            Lane::aggregate(None, "customer", "42"),
            Lane::aggregate(Some(tenant), "customer", "42"),
            Lane::aggregate(None, "a\",\"b", "c"),
            Lane::aggregate(None, "a", "b\",\"c"),
            Lane::aggregate(None, "", "[1]"),
        ];
        for lane in &lanes {
            assert_eq!(Lane::parse(&lane.key()).as_ref(), Some(lane));
            assert_eq!(lanes.iter().filter(|other| other.key() == lane.key()).count(), 1);
        }
        for bad in ["", "[]", "7", "[1,2]", "[\"not a uuid\",\"a\",\"b\"]"] {
            assert_eq!(Lane::parse(bad), None, "{bad}");
        }
    }
}
