//! Very many waiting lanes: no call takes longer than it may, and memory stays bounded.

use outbox_tests::{Receiver, TestDb, eventually, on_every_database};

use crate::stage::Stage;

on_every_database! {
    a_hundred_thousand_waiting_lanes_fit
}

const LANES: usize = 100_000;

/// What the process may take, with everything else that it needs.
#[cfg(target_os = "linux")]
const MEMORY_KB: u64 = 200_000;

/// A relay takes over a slot with so many lanes of which nothing is due but one, which it delivers at once.
async fn a_hundred_thousand_waiting_lanes_fit<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    let mut first = stage.relay(&receiver.url(), "30s", "5s");
    let event = stage.publish(&["due"]).await.remove(0);
    stage.settled(event.id).await;
    first.kill9().await;
    let stalls = format!(
        "INSERT INTO {stall} (consumer, lane, head_id, available_at) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {LANES}) \
         SELECT 'crm', '[null,\"customer\",\"' || n || '\"]', 1, {now} + {hour} FROM numbers; \
         INSERT INTO {stall} (consumer, lane, head_id, available_at) \
         VALUES ('crm', '[null,\"customer\",\"due\"]', {id}, {now}); \
         UPDATE {consumer} SET lease_until = {now}",
        stall = T::table("stall"),
        consumer = T::table("consumer"),
        now = T::NOW,
        hour = T::HOUR,
        id = event.id,
    );
    T::execute(&mut stage.pool.acquire().await.unwrap(), &stalls).await.unwrap();

    let mut relay = stage.relay(&receiver.url(), "30s", "5s");
    eventually("the lane that is due was resumed", async || {
        stage.consumer().await.is_some_and(|row| row.stalled_lanes == LANES as u64)
    })
    .await;
    assert_eq!(receiver.requests().len(), 2, "again, as its stall row says");
    #[cfg(target_os = "linux")]
    assert!(relay.peak_memory_kb() < MEMORY_KB, "{} kB", relay.peak_memory_kb());
    relay.kill9().await;
}
