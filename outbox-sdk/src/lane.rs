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

/// The slot of an event, from 0, in a consumer with this many slots: a fixed function of the event's row, whatever the
/// consumer's ordering. `lane` is that of the row ([`Envelope::lane`](crate::Envelope::lane)): an event of an aggregate
/// belongs to its aggregate's slot also when it is delivered alone, being delayed or late.
///
/// The function never changes, since stored progress depends on it: 64-bit FNV-1a over the bytes of
/// [`Lane::key`], then the finalizer of MurmurHash3 (FNV alone leaves the low bits uneven), modulo `slots`.
///
/// ```
/// use outbox_sdk::{Lane, slot_of};
///
/// let lane = Lane::aggregate(None, "customer", "42");
/// assert_eq!(slot_of(&lane, 1), 0);
/// assert!((0..4).contains(&slot_of(&lane, 4)));
/// ```
#[must_use]
pub fn slot_of(lane: &Lane, slots: u16) -> i32 {
    if slots <= 1 {
        return 0;
    }
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let mut hash = lane.key().bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    // Below 65,536, so it fits.
    (hash % u64::from(slots)) as i32
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

    #[test]
    fn a_slot_is_the_same_for_ever() {
        let tenant = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let lanes = [
            Lane::Single(1),
            Lane::Single(i64::MAX),
            Lane::aggregate(None, "customer", "42"),
            Lane::aggregate(Some(tenant), "customer", "42"),
            Lane::aggregate(None, "größe", "\"\\\n"),
        ];
        let slots = |slots| lanes.each_ref().map(|lane| slot_of(lane, slots));
        assert_eq!([1, 0].map(slots), [[0; 5]; 2]);
        assert_eq!(slots(2), [1, 1, 0, 0, 0]);
        assert_eq!(slots(3), [2, 0, 1, 0, 0]);
        assert_eq!(slots(64), [23, 7, 56, 14, 60]);
    }

    #[test]
    fn slots_are_filled_evenly() {
        for slots in [2, 3, 4, 7, 16, 64] {
            let mut counts = vec![0_i32; usize::from(slots)];
            for n in 0..20_000 {
                for lane in [Lane::Single(n), Lane::aggregate(None, "customer", &n.to_string())] {
                    counts[usize::try_from(slot_of(&lane, slots)).unwrap()] += 1;
                }
            }
            let expected = 40_000 / i32::from(slots);
            // Six standard deviations of a fair draw.
            let allowed = 6 * f64::from(expected).sqrt() as i32;
            assert!(counts.iter().all(|count| (count - expected).abs() < allowed), "{slots}: {counts:?}");
        }
    }
}
