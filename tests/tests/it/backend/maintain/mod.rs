//! Recorder and retention: what is written down, what is deleted, and above all what is not.

mod duties;
mod lanes;
mod model;
mod record;
mod retain;

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Change, Changed, Compacted, Compaction, Keep, Maintain, Recorded, Recording, ResetTo,
    Start,
};
use outbox_sdk::{Lane, NewEnvelope, Progress};

use super::{Outbox, TestDb, event};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The tables in any state, without an owner.
struct Stage<T: TestDb> {
    outbox: Outbox<T>,
}

impl<T: TestDb> Stage<T> {
    /// One event of each of these aggregates, with ids from 1.
    async fn with(aggregates: &[&str]) -> Self {
        let events: Vec<_> = aggregates.iter().map(|aggregate| event(aggregate)).collect();
        Self::with_events(&events).await
    }

    async fn with_events(events: &[NewEnvelope]) -> Self {
        let stage = Self { outbox: Outbox::migrated().await };
        stage.outbox.append_all(events).await;
        stage
    }

    /// A registered consumer that has settled the ids below `until`.
    async fn consumer(&self, name: &str, until: i64) {
        self.outbox.register(name, Some(Start::Earliest)).await;
        self.settled(name, &[(1, until)]).await;
    }

    async fn settled(&self, name: &str, ranges: &[(i64, i64)]) {
        self.set(name, "settled", ranges).await;
    }

    async fn void(&self, name: &str, ranges: &[(i64, i64)]) {
        self.set(name, "void", ranges).await;
    }

    async fn set(&self, name: &str, column: &str, ranges: &[(i64, i64)]) {
        let ids = ids::<T>(ranges);
        let table = T::table("consumer");
        self.outbox.execute(&format!("UPDATE {table} SET {column} = '{ids}' WHERE name = '{name}'")).await;
    }

    /// A further slot of a consumer.
    async fn slot(&self, name: &str, slot: i32, ranges: &[(i64, i64)]) {
        let (table, ids) = (T::table("consumer"), ids::<T>(ranges));
        let insert = format!(
            "INSERT INTO {table} (name, slot, slots, settled, epoch) VALUES ('{name}', {slot}, 2, '{ids}', 99)"
        );
        self.outbox.execute(&insert).await;
    }

    async fn remove(&self, name: &str) {
        for (table, column) in [("consumer", "name"), ("stall", "consumer")] {
            let table = T::table(table);
            self.outbox.execute(&format!("DELETE FROM {table} WHERE {column} = '{name}'")).await;
        }
    }

    async fn stall(&self, consumer: &str, lane: &Lane, head: i64, blocked: bool) {
        let key = lane.key().replace('\'', "''");
        let single = matches!(lane, Lane::Single(_));
        let insert = format!(
            "INSERT INTO {} (consumer, lane, head_id, available_at, blocked, single) \
             SELECT '{consumer}', '{key}', {head}, max(created_at), {blocked}, {single} FROM {}",
            T::table("stall"),
            T::table("event")
        );
        self.outbox.execute(&insert).await;
    }

    async fn no_stalls(&self) {
        self.outbox.execute(&format!("DELETE FROM {}", T::table("stall"))).await;
    }

    /// A dead letter that failed `hours` ago.
    async fn letter(&self, consumer: &str, id: i64, state: &str, hours: i64) {
        let insert = format!(
            "INSERT INTO {} (consumer, event_id, reason, attempts, max_attempts, last_error, failed_at, state) \
             SELECT '{consumer}', {id}, 'rejected', {hours}, 9, 'no: {consumer}', \
             max(created_at) - {hours} * {}, '{state}' FROM {}",
            T::table("dead_letter"),
            T::HOUR,
            T::table("event")
        );
        self.outbox.execute(&insert).await;
    }

    /// What operators and owners do when they change a dead letter.
    async fn decide(&self, consumer: &str, id: i64, state: &str) {
        let update = format!(
            "UPDATE {} SET state = '{state}', recorded = false WHERE consumer = '{consumer}' AND event_id = {id}",
            T::table("dead_letter")
        );
        self.outbox.execute(&update).await;
    }

    async fn acknowledged(&self, consumer: &str, id: i64, days_ago: i64) {
        let update = format!(
            "UPDATE {} SET acknowledged_at = (SELECT max(created_at) FROM {}) - {days_ago} * 24 * {} \
             WHERE consumer = '{consumer}' AND event_id = {id}",
            T::table("dead_letter"),
            T::table("event"),
            T::HOUR
        );
        self.outbox.execute(&update).await;
    }

    async fn reset(&self, consumer: &str, first: i64) {
        let change = Change::Reset(ResetTo::Id(first));
        let mut conn = self.outbox.conn().await;
        let changed = T::Db::change(&mut *conn, &self.outbox.tables, consumer, &change, false).await.unwrap();
        assert_eq!(changed, Changed::Done { forced: false });
    }

    /// Makes everything older.
    async fn days_pass(&self, days: i64) {
        let ago = format!("{days} * 24 * {}", T::HOUR);
        let (event, letter) = (T::table("event"), T::table("dead_letter"));
        let update = format!(
            "UPDATE {event} SET created_at = created_at - {ago}, available_at = available_at - {ago}, \
             dispatched_at = dispatched_at - {ago}"
        );
        self.outbox.execute(&update).await;
        let update = format!("UPDATE {letter} SET acknowledged_at = acknowledged_at - {ago}");
        self.outbox.execute(&update).await;
    }

    async fn texts(&self, sql: &str) -> Vec<String> {
        T::texts(&mut *self.outbox.conn().await, sql).await
    }

    /// The statuses in the order of the ids.
    async fn statuses(&self) -> Vec<String> {
        self.texts(&format!("SELECT CAST(status AS text) FROM {} ORDER BY id", T::table("event"))).await
    }

    async fn stored_ids(&self) -> Vec<i64> {
        let sql = format!("SELECT CAST(id AS text) FROM {} ORDER BY id", T::table("event"));
        self.texts(&sql).await.iter().map(|id| id.parse().unwrap()).collect()
    }

    async fn record_batch(&self, recording: Recording) -> Option<Recorded> {
        T::Db::record(&mut *self.outbox.conn().await, &self.outbox.tables, &recording).await.unwrap()
    }

    /// One batch over everything; the next one begins anew.
    async fn record(&self) -> Recorded {
        let recorded = self.record_batch(recording(1_000)).await.expect("nobody else records");
        assert!(recorded.complete);
        recorded
    }

    async fn compact_batch(&self, compaction: &Compaction<'_>) -> Compacted {
        let mut conn = self.outbox.conn().await;
        T::Db::compact(&mut *conn, &self.outbox.tables, compaction).await.unwrap().expect("nobody else")
    }

    /// One batch over everything, with the default rule; the ids that are left.
    async fn compact(&self) -> Vec<i64> {
        self.compact_with(&compaction(&keep(10))).await
    }

    async fn compact_with(&self, compaction: &Compaction<'_>) -> Vec<i64> {
        let would = {
            let mut conn = self.outbox.conn().await;
            T::Db::compactable(&mut *conn, &self.outbox.tables, compaction).await.unwrap()
        };
        let would_delete: u64 = would.by_type.iter().map(|(_, events)| events).sum();
        let compacted = self.compact_batch(compaction).await;
        assert_eq!(would_delete, compacted.deleted, "the dry run tells what is deleted");
        assert_eq!(
            (would.scanned, would.position, would.done),
            (compacted.scanned, compacted.position, compacted.done)
        );
        self.stored_ids().await
    }
}

fn ids<T: TestDb>(ranges: &[(i64, i64)]) -> String {
    let mut ids = Progress::new();
    for (from, until) in ranges {
        ids.insert_range(*from, *until);
    }
    if T::CONCURRENT_WRITERS { ids.to_multirange() } else { ids.to_json() }
}

fn recording(limit: u32) -> Recording {
    Recording { limit, wrap: true, if_due: false }
}

/// Everything is kept for so many days.
fn keep(days: u32) -> [Keep; 1] {
    [Keep { stem: String::new(), exact: false, length: DAY * days }]
}

fn compaction(keep: &[Keep]) -> Compaction<'_> {
    Compaction { position: 0, limit: 1_000, keep, recorder: true, required: &[], hold: DAY }
}

fn lane(aggregate: &str) -> Lane {
    Lane::aggregate(None, "customer", aggregate)
}

/// What a batch that only dispatched answers.
fn dispatched(events: u64, held: u64) -> Recorded {
    Recorded { dispatched: events, held, complete: true, ..Recorded::default() }
}
