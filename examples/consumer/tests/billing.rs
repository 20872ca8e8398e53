//! The generated code is up to date, and each event has its effect once.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use outbox_example_consumer::{Billing, events};
use outbox_relay::config::Config;
use outbox_schema::{Registry, codegen};
use outbox_sdk::{Effect, Envelope, HandlerError, Inbox, Migrator, Rejection};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

#[test]
fn the_generated_code_is_up_to_date() {
    let config = Config::load("outbox.toml", [("", ""); 0]).unwrap();
    let wanted = config.require_codegen().unwrap();
    let text = codegen::rust(&Registry::open(&config.registry.path).unwrap(), &wanted.options).unwrap();
    let file = std::fs::read_to_string(&wanted.output).ok();
    assert_eq!(codegen::difference(file.as_deref(), &text), None, "run `outbox codegen` in this folder");
}

#[tokio::test]
async fn each_event_has_its_effect_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("billing.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file).await.unwrap();
    Migrator::inbox().run(&pool).await.unwrap();
    let table =
        "CREATE TABLE invoice (order_id BLOB, customer TEXT, cents INTEGER, closed INTEGER DEFAULT 0)";
    sqlx::query(table).execute(&pool).await.unwrap();

    let (inbox, handler) = (Inbox::new(pool.clone(), events::CONSUMER), events::handler(Billing));
    let event = |event_type: &str, major: u32, cents: &str| {
        let id = "0193f0c4-5b7e-7b6e-9d2b-0a4d3c1b2a19";
        let payload = format!(r#"{{"order_id":"{id}","customer":"Ada","total_cents":{cents},"later":true}}"#);
        Envelope::example(event_type, major, &payload)
    };
    let placed = event("order.placed", 1, "4200");
    assert_eq!(inbox.handle(&handler, &placed).await.unwrap(), Effect::Done);
    assert_eq!(inbox.handle(&handler, &placed).await.unwrap(), Effect::AlreadyProcessed);

    let refused = async |event: Envelope| match inbox.handle(&handler, &event).await {
        Err(HandlerError::Reject(rejection)) => rejection,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(event("order.placed", 1, "-1")).await, Rejection::Refused(_)));
    assert!(matches!(refused(event("order.placed", 1, "\"many\"")).await, Rejection::Undecodable { .. }));
    let pinned = async |event| match refused(event).await {
        Rejection::NotPinned { pinned, .. } => pinned,
        other => panic!("{other:?}"),
    };
    assert_eq!(pinned(event("order.placed", 2, "1")).await, Some(1));
    assert_eq!(pinned(event("order.cancelled", 1, "1")).await, None);

    let cents: Vec<i64> = sqlx::query_scalar("SELECT cents FROM invoice").fetch_all(&pool).await.unwrap();
    assert_eq!(cents, [4200]);
}
