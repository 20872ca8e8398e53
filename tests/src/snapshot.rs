use outbox_sdk::{Lane, Progress};

use crate::TestDb;

/// What a consumer is through with at one moment: what no later delivery may repeat.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    settled: Progress,
    /// Lanes that wait, and their heads: the events from there on are settled because the row stands for them.
    stalls: Vec<(Lane, i64)>,
}

impl Snapshot {
    /// Takes it of a registered consumer.
    ///
    /// # Panics
    /// When the database refuses or holds something else.
    pub async fn take<T: TestDb>(conn: &mut <T::Db as sqlx::Database>::Connection, consumer: &str) -> Self {
        // One statement, so that both tables are seen at the same moment.
        let sql = format!(
            "SELECT CAST(settled AS text) FROM {} WHERE name = '{consumer}' \
             UNION ALL SELECT CAST(head_id AS text) || ' ' || lane FROM {} WHERE consumer = '{consumer}'",
            T::table("consumer"),
            T::table("stall"),
        );
        let mut snapshot = Self::default();
        for text in T::texts(conn, &sql).await {
            match text.split_once(" [") {
                Some((head, lane)) => {
                    let lane = Lane::parse(&format!("[{lane}")).expect("the key of a lane");
                    snapshot.stalls.push((lane, head.parse().expect("an id")));
                }
                None if text.starts_with('{') => {
                    snapshot.settled = Progress::from_multirange(&text).expect("a multirange");
                }
                None => snapshot.settled = Progress::from_json(&text).expect("JSON ranges"),
            }
        }
        snapshot
    }

    /// Whether the consumer is through with this event: settled, and not because its lane waits.
    pub fn is_through(&self, lane: &Lane, id: i64) -> bool {
        let covers = |(stalled, head): &(Lane, i64)| match stalled {
            Lane::Single(single) => *single == id,
            Lane::Aggregate(_) => stalled == lane && id >= *head,
        };
        self.settled.contains(id) && !self.stalls.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stall_row_stands_for_is_not_through() {
        let lane = |id| Lane::aggregate(None, "customer", id);
        let settled = Progress::from_multirange("{[1,10)}").unwrap();
        let snapshot = Snapshot { settled, stalls: vec![(lane("1"), 5), (Lane::Single(7), 7)] };
        assert!(snapshot.is_through(&lane("1"), 4) && !snapshot.is_through(&lane("1"), 5));
        assert!(snapshot.is_through(&lane("2"), 6) && !snapshot.is_through(&lane("2"), 10));
        assert!(!snapshot.is_through(&lane("2"), 7), "it failed alone");
    }
}
