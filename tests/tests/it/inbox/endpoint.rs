//! From the bytes of a request to the committed effect, without a framework, on every database.

use std::time::{Duration, SystemTime};

use axum::http::{HeaderMap, HeaderName, StatusCode};
use outbox_sdk::webhook::{
    CLOUDEVENTS_JSON, Endpoint, Format, OUTBOX_ATTEMPT, Receiver, Secret, Secrets, Source, WEBHOOK_ID,
    WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, body, sign,
};
use outbox_sdk::{Effect, Envelope};

use super::{Obedient, World, event};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    an_effect_happens_once_however_often_the_request_comes
    each_answer_of_a_handler_has_its_status
    nothing_that_is_not_accepted_has_an_effect
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEXT_SECRET: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";

fn endpoint<T: TestDb + 'static>(world: &World<T>) -> Endpoint<T::Db, Obedient<T>> {
    let receiver = Receiver::new(Secrets::parse([NEXT_SECRET, SECRET]).unwrap()).max_bytes(10_000);
    Endpoint::new(receiver, world.inbox(), Obedient::new())
}

/// As a relay sends it, signed so many seconds ago with the secret that is on its way out.
fn request(event: &Envelope, age: u64) -> (HeaderMap, Vec<u8>) {
    let body = body(event, Format::CloudEvents, &Source::default());
    let signed = SystemTime::now() - Duration::from_secs(age);
    let seconds = signed.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let id = event.event_id.to_string();
    let signature = sign(&Secret::parse(SECRET).unwrap().into(), &id, seconds.try_into().unwrap(), &body);
    let mut headers = HeaderMap::new();
    headers.insert("content-type", CLOUDEVENTS_JSON.parse().unwrap());
    headers.insert(WEBHOOK_ID, id.parse().unwrap());
    headers.insert(WEBHOOK_TIMESTAMP, seconds.into());
    headers.insert(WEBHOOK_SIGNATURE, signature.parse().unwrap());
    headers.insert(OUTBOX_ATTEMPT, 1.into());
    (headers, body)
}

async fn an_effect_happens_once_however_often_the_request_comes<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let (headers, body) = request(&event("a", "1", ""), 0);
    for effect in [Effect::Done, Effect::AlreadyProcessed] {
        assert_eq!(endpoint(&world).handle(&headers, &body, SystemTime::now()).await.unwrap(), effect);
    }
    assert_eq!(world.effects().await, ["a"]);
}

async fn each_answer_of_a_handler_has_its_status<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    for (what, status, header) in [
        ("retry", 500, None),
        ("doom", 500, None),
        ("unavailable", 503, Some("retry-after")),
        ("reject", 422, Some("webhook-delivery")),
    ] {
        let (headers, body) = request(&event("a", "1", what), 0);
        let refused = endpoint(&world).handle(&headers, &body, SystemTime::now()).await.unwrap_err();
        assert_eq!(refused.status().as_u16(), status, "{refused}");
        assert_eq!(refused.headers().keys().map(HeaderName::as_str).next(), header);
    }
    assert!(world.effects().await.is_empty());
}

async fn nothing_that_is_not_accepted_has_an_effect<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let refused = async |headers: &HeaderMap, body: &[u8]| {
        endpoint(&world).handle(headers, body, SystemTime::now()).await.unwrap_err().status()
    };
    let (headers, mut body) = request(&event("a", "1", ""), 0);
    let last = body.len() - 1;
    body[last] = b' ';
    assert_eq!(refused(&headers, &body).await, StatusCode::UNAUTHORIZED, "another body");
    let (headers, body) = request(&event("a", "1", ""), 400);
    assert_eq!(refused(&headers, &body).await, StatusCode::UNAUTHORIZED, "too old");
    assert_eq!(refused(&HeaderMap::new(), &body).await, StatusCode::BAD_REQUEST, "unsigned");
    assert_eq!(refused(&headers, &[b' '; 10_001]).await, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(world.effects().await.is_empty());
}
