//! The webhook's receiver: keeps a journal and answers by a rule that the seed decides.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use outbox_sdk::webhook::{ABORT_MESSAGE, OUTBOX_ATTEMPT, OUTBOX_REPLAY, WEBHOOK_DELIVERY};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::evidence::{Answer, Arrival, now};

/// A receiver on a loopback port, as long as the program runs.
#[derive(Clone)]
pub(crate) struct Receiver {
    addr: SocketAddr,
    journal: Arc<Mutex<Journal>>,
}

struct Journal {
    seed: u64,
    arrivals: Vec<Arrival>,
    refusals: HashMap<i64, u32>,
}

impl Receiver {
    pub(crate) async fn start(seed: u64) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let journal = Journal { seed, arrivals: Vec::new(), refusals: HashMap::new() };
        let receiver = Self { addr: listener.local_addr()?, journal: Arc::new(Mutex::new(journal)) };
        let routes = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(axum::serve(listener, routes).into_future());
        Ok(receiver)
    }

    /// Where a relay process sends to: the path says which one it was.
    pub(crate) fn url(&self, incarnation: u32) -> String {
        format!("http://{}/{incarnation}", self.addr)
    }

    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.journal().arrivals.clone()
    }

    /// Whether anything has come from a relay process that fits.
    pub(crate) fn has_heard(&self, fits: impl Fn(u32) -> bool) -> bool {
        self.journal().arrivals.iter().rev().any(|arrival| fits(arrival.incarnation))
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal {
    /// The same event gets the same treatment in each run with this seed: most are taken at once, some after a refusal or
    /// two, a few never. What an operator sends again is taken.
    fn answer(&mut self, id: i64, replay: bool) -> Answer {
        let chance = mixed(self.seed, id, 1) % 120;
        if chance < 2 && !replay {
            return Answer::Rejected;
        }
        let refusals = self.refusals.entry(id).or_default();
        if (2..14).contains(&chance) && u64::from(*refusals) <= chance % 2 {
            *refusals += 1;
            return Answer::Refused;
        }
        Answer::Accepted
    }
}

async fn receive(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let Some((arrival, seed)) = receiver.take(&uri, &headers, &body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    // Some answers take a while, so that a fault finds requests without answer.
    let slow = mixed(seed, arrival.id, 2) % 100;
    if slow < 12 {
        sleep(Duration::from_millis(5 * slow)).await;
    }
    match arrival.answer {
        Answer::Accepted => StatusCode::NO_CONTENT.into_response(),
        Answer::Refused => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Answer::Rejected => {
            (StatusCode::UNPROCESSABLE_ENTITY, [(WEBHOOK_DELIVERY, ABORT_MESSAGE)]).into_response()
        }
    }
}

impl Receiver {
    fn take(&self, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Option<(Arrival, u64)> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let event: serde_json::Value = serde_json::from_slice(body).ok()?;
        let id = event["sequence"].as_str()?.parse().ok()?;
        let replay = header(OUTBOX_REPLAY) == Some("true");
        let (incarnation, attempt) =
            (uri.path().trim_start_matches('/').parse().ok()?, header(OUTBOX_ATTEMPT)?.parse().ok()?);
        let lane = event["partitionkey"].as_str()?.to_owned();
        let mut journal = self.journal();
        let answer = journal.answer(id, replay);
        // The time is taken under the lock, so that the journal's order is the order of its times.
        let arrival = Arrival { at: now(), incarnation, id, lane, attempt, replay, answer };
        journal.arrivals.push(arrival.clone());
        Some((arrival, journal.seed))
    }
}

/// Numbers that look random and depend on nothing else.
fn mixed(seed: u64, id: i64, salt: u64) -> u64 {
    let mut x = seed
        ^ id.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ salt.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
