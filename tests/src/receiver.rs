use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::PATIENCE;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its place in the order of arrival, from 0.
    pub index: usize,
    /// The path that was asked for.
    pub path: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, byte for byte.
    pub body: Bytes,
}

impl Received {
    /// A header's text.
    ///
    /// # Panics
    /// When the header is missing or not text.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("request {} lacks {name}", self.index));
        value.to_str().expect("a header of visible characters")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }
}

/// What the receiver does with a request, decided by the test's policy.
#[derive(Debug)]
pub enum Answer {
    /// Sends this response at once.
    Reply(Response),
    /// Sends this response when the test cancels the token.
    Held(CancellationToken, Response),
    /// Keeps the connection open and says nothing until the receiver stops.
    Silence,
}

impl From<StatusCode> for Answer {
    fn from(status: StatusCode) -> Self {
        Self::Reply(status.into_response())
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self::Reply(response)
    }
}

type Policy = Box<dyn FnMut(&Received) -> Answer + Send>;

struct Journal {
    requests: Vec<Received>,
    policy: Policy,
}

struct Shared {
    journal: Mutex<Journal>,
    arrived: Notify,
    stopped: CancellationToken,
}

impl Shared {
    // A policy that panicked fails the test by its missing answer; the journal stays readable.
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An HTTP receiver on a loopback port that journals every request and answers by a script. Dropping it stops
/// it.
pub struct Receiver {
    addr: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<std::io::Result<()>>,
}

impl Receiver {
    /// Starts on a free port and answers everything with 204.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn start() -> Self {
        Self::scripted(|_| StatusCode::NO_CONTENT).await
    }

    /// Starts on a free port and answers by `policy`, which sees one request at a time, in order of arrival.
    ///
    /// # Panics
    /// When no port can be had.
    pub async fn scripted<A: Into<Answer>>(policy: impl FnMut(&Received) -> A + Send + 'static) -> Self {
        Self::scripted_at((Ipv4Addr::LOCALHOST, 0).into(), policy).await
    }

    /// As [`Receiver::scripted`] at a given address: that of a stopped receiver, to bring it back.
    ///
    /// # Panics
    /// When the address is taken.
    pub async fn scripted_at<A: Into<Answer>>(
        addr: SocketAddr,
        mut policy: impl FnMut(&Received) -> A + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(addr).await.expect("bind the receiver's address");
        let addr = listener.local_addr().expect("the receiver's address");
        let policy: Policy = Box::new(move |request| policy(request).into());
        let shared = Arc::new(Shared {
            journal: Mutex::new(Journal { requests: Vec::new(), policy }),
            arrived: Notify::new(),
            stopped: CancellationToken::new(),
        });
        let routes = Router::new()
            .fallback(receive)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let stopped = shared.stopped.clone().cancelled_owned();
        let server =
            tokio::spawn(axum::serve(listener, routes).with_graceful_shutdown(stopped).into_future());
        Self { addr, shared, server }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL to send webhooks to.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.addr)
    }

    /// Everything that arrived until now, in order.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.journal().requests.clone()
    }

    /// Waits until the journal satisfies `enough`, and gives it out; every arrival asks anew.
    ///
    /// # Panics
    /// When that has not happened after [`PATIENCE`]; `what` says in the text what was waited for.
    pub async fn wait_until(&self, what: &str, mut enough: impl FnMut(&[Received]) -> bool) -> Vec<Received> {
        let satisfied = async {
            loop {
                // Registered before the look at the journal, so an arrival after the look wakes it.
                let mut arrived = std::pin::pin!(self.shared.arrived.notified());
                arrived.as_mut().enable();
                if enough(&self.shared.journal().requests) {
                    return;
                }
                arrived.await;
            }
        };
        let in_time = timeout(PATIENCE, satisfied).await.is_ok();
        let requests = self.requests();
        let arrived = requests.len();
        assert!(in_time, "waited {} s in vain until {what}; {arrived} requests arrived", PATIENCE.as_secs());
        requests
    }

    /// Stops and gives out the journal; afterwards the port refuses connections.
    ///
    /// # Panics
    /// When the server failed.
    pub async fn stop(mut self) -> Vec<Received> {
        self.shared.stopped.cancel();
        (&mut self.server).await.expect("the receiver's task").expect("the receiver's server");
        self.requests()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
    }
}

async fn receive(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let answer = {
        let mut journal = shared.journal();
        let index = journal.requests.len();
        let request = Received { index, path: uri.path().to_owned(), headers, body };
        journal.requests.push(request.clone());
        (journal.policy)(&request)
    };
    shared.arrived.notify_waiters();
    match answer {
        Answer::Reply(response) => response,
        Answer::Held(until, response) => {
            until.cancelled().await;
            response
        }
        Answer::Silence => {
            shared.stopped.cancelled().await;
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header::RETRY_AFTER;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn post(addr: SocketAddr, body: &str) -> String {
        let mut connection = TcpStream::connect(addr).await.unwrap();
        let length = body.len();
        let head =
            format!("POST /hook HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}");
        connection.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        let mut response = String::new();
        connection.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn it_journals_in_order_and_answers_by_the_script() {
        let receiver = Receiver::scripted(|request| match request.index {
            0 => Answer::from((StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "7")]).into_response()),
            _ => StatusCode::OK.into(),
        })
        .await;
        let first = post(receiver.addr(), "1.000").await;
        assert!(first.starts_with("HTTP/1.1 429") && first.contains("retry-after: 7"), "{first}");
        assert!(post(receiver.addr(), "{}").await.starts_with("HTTP/1.1 200"));

        let requests = receiver.requests();
        let seen: Vec<_> = requests.iter().map(|request| (request.index, &request.body[..])).collect();
        assert_eq!(seen, [(0, &b"1.000"[..]), (1, &b"{}"[..])]);
        assert_eq!((requests[0].path.as_str(), requests[0].header("host")), ("/hook", "test"));
        assert_eq!(requests[1].json(), serde_json::json!({}));
    }

    #[tokio::test]
    async fn it_takes_bodies_beyond_the_usual_limit() {
        let receiver = Receiver::start().await;
        let body = "x".repeat(3 << 20);
        assert!(post(receiver.addr(), &body).await.starts_with("HTTP/1.1 204"));
        assert_eq!(receiver.requests()[0].body, body);
    }

    #[tokio::test]
    async fn an_arrival_wakes_the_waiting_test() {
        let receiver = Receiver::start().await;
        let addr = receiver.addr();
        let (requests, _) = tokio::join!(
            receiver.wait_until("one request", |requests| requests.len() == 1),
            post(addr, "late")
        );
        assert_eq!(requests[0].body, "late");
    }

    #[tokio::test]
    async fn it_holds_an_answer_until_the_test_says_so() {
        let go = CancellationToken::new();
        let until = go.clone();
        let receiver =
            Receiver::scripted(move |_| Answer::Held(until.clone(), StatusCode::OK.into_response())).await;
        let addr = receiver.addr();
        let held = tokio::spawn(async move { post(addr, "held").await });
        receiver.wait_until("the request", |requests| requests.len() == 1).await;
        assert!(!held.is_finished());
        go.cancel();
        assert!(held.await.unwrap().starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn it_stops_under_an_unanswered_request_and_comes_back() {
        let receiver = Receiver::scripted(|request| match request.index {
            0 => Answer::Silence,
            _ => StatusCode::OK.into(),
        })
        .await;
        let addr = receiver.addr();
        let unanswered = tokio::spawn(async move { post(addr, "first").await });
        receiver.wait_until("the request that gets no answer", |requests| requests.len() == 1).await;
        assert!(post(addr, "second").await.starts_with("HTTP/1.1 200"), "others are answered meanwhile");
        assert!(!unanswered.is_finished());

        assert_eq!(receiver.stop().await.len(), 2);
        assert!(unanswered.await.unwrap().starts_with("HTTP/1.1 503"));
        assert!(TcpStream::connect(addr).await.is_err());

        let _again = Receiver::scripted_at(addr, |_| StatusCode::OK).await;
        assert!(post(addr, "third").await.starts_with("HTTP/1.1 200"));
    }
}
