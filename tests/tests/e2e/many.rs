//! Very many waiting lanes: no call takes longer than it may, and memory stays bounded.

use outbox_tests::{Receiver, TestDb, eventually, on_every_database};

use crate::stage::Stage;

on_every_database! {
    a_hundred_thousand_waiting_lanes_fit
}

/// What the process may take: as it is, and for each lane.
#[cfg(target_os = "linux")]
const MEMORY_KB: [u64; 2] = [80_000, 1];

/// How many lanes: `scripts/soak` tries more.
fn lanes() -> u64 {
    std::env::var("OUTBOX_TEST_LANES").map_or(100_000, |lanes| lanes.parse().unwrap())
}

/// A relay takes over a slot with so many lanes of which nothing is due but one, which it delivers at once.
async fn a_hundred_thousand_waiting_lanes_fit<T: TestDb>() {
    let (stage, lanes) = (Stage::<T>::new().await, lanes());
    let receiver = Receiver::start().await;
    let mut first = stage.relay(&receiver.url(), "30s", "5s");
    let event = stage.publish(&["due"]).await.remove(0);
    stage.settled(event.id).await;
    first.kill9().await;
    let stalls = format!(
        "INSERT INTO {stall} (consumer, lane, head_id, available_at) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {lanes}) \
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
        stage.consumer().await.is_some_and(|row| row.stalled_lanes == lanes)
    })
    .await;
    assert_eq!(receiver.requests().len(), 2, "again, as its stall row says");
    #[cfg(target_os = "linux")]
    {
        let (peak, [base, each]) = (relay.peak_memory_kb(), MEMORY_KB);
        assert!(peak < base + each * lanes, "{peak} kB for {lanes} waiting lanes");
    }
    relay.kill9().await;
}
