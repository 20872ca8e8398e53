//! The database is away when the relay starts, or goes away later: it says so and resumes by itself.

use outbox_tests::{PgTestDb, Receiver};

use crate::stage::{Stage, sorted_ids};

#[tokio::test]
async fn a_relay_waits_for_its_database_and_says_so() {
    let stage = Stage::<PgTestDb>::new().await;
    let receiver = Receiver::start().await;
    let mut published = stage.publish(&["1", "2", "1"]).await;
    stage.db.take_away().await;
    let mut relay = stage.relay(&receiver.url(), "2s", "1500ms");
    let line = relay.wait_for_line("why it waits", |line| line.contains("the database is away")).await;
    assert!(line.contains("WARN") && line.contains("retry_in"), "{line}");
    stage.db.bring_back().await;
    stage.settled(published[2].id).await;

    stage.db.take_away().await;
    relay.wait_for_line("that it went away", |line| line.contains("nothing new is read")).await;
    stage.db.bring_back().await;
    published.extend(stage.publish(&["1", "2", "1"]).await);
    stage.settled(published[5].id).await;

    relay.terminate().await;
    assert_eq!(relay.wait_exit().await.code(), Some(0), "{:#?}", relay.stderr());
    assert_eq!(sorted_ids(&receiver.stop().await), (1..=6).collect::<Vec<_>>(), "each once");
}

#[tokio::test]
async fn a_relay_that_never_reached_its_database_can_be_stopped() {
    let stage = Stage::<PgTestDb>::new().await;
    stage.db.take_away().await;
    let mut relay = stage.relay("http://127.0.0.1:1/hook", "2s", "1500ms");
    relay.wait_for_line("why it waits", |line| line.contains("the database is away")).await;
    relay.terminate().await;
    assert_eq!(relay.wait_exit().await.code(), Some(0), "{:#?}", relay.stderr());
}
