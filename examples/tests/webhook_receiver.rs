//! The webhook receiver: what the relay's own sink posts is verified and takes effect once.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

#[path = "../webhook_receiver.rs"]
#[expect(dead_code, reason = "the test has a `main` of its own")]
mod webhook_receiver;

use outbox_relay::sink::webhook::{WebhookConfig, WebhookSink};
use outbox_relay::sink::{Answer, Delivery, Outcome, Sink};
use outbox_sdk::Envelope;
use outbox_sdk::webhook::Secret;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::sync::oneshot;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";

async fn post(url: &str, secret: &str, envelope: &Envelope) -> Outcome {
    let mut config = WebhookConfig::new(url, Secret::parse(secret).unwrap());
    config.allow_private_addresses = true;
    let sink = WebhookSink::new(config).unwrap();
    sink.deliver(Delivery { envelope, attempt: 1, replay: false, answer: &Answer::default() }).await
}

#[tokio::test]
async fn a_signed_delivery_takes_effect_once_and_an_unsigned_one_never() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("receiver.db"));
    let pool = SqlitePool::connect_with(file.create_if_missing(true)).await.unwrap();
    let app = webhook_receiver::app(pool.clone(), SECRET).await.unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving =
        axum::serve(listener, app).with_graceful_shutdown(async { stopped.await.unwrap_or_default() });
    let serving = tokio::spawn(serving.into_future());

    let event = Envelope::example("order.placed", 1, r#"{"customer":"Ada"}"#);
    assert!(matches!(post(&url, OTHER, &event).await, Outcome::Retry { .. }), "signed with another secret");
    assert_eq!(post(&url, SECRET, &event).await, Outcome::Delivered);
    assert_eq!(post(&url, SECRET, &event).await, Outcome::Delivered, "what was seen before is taken again");

    let received: Vec<String> =
        sqlx::query_scalar("SELECT payload FROM received").fetch_all(&pool).await.unwrap();
    assert_eq!(received, [event.payload]);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}
