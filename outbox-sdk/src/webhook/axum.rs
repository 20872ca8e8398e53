//! For axum: an extractor, so that a handler runs only for verified deliveries; and an endpoint behind a route.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::{Delivery, Endpoint, EndpointError, ReceiveError, Receiver};
use crate::backend::Backend;
use crate::consume::Handler;

/// A verified delivery as an argument of an axum handler.
///
/// The [`Receiver`] comes from the router's state. A delivery that is not accepted is answered with the status and the
/// text of its [`ReceiveError`], and the handler does not run. The receiver's own size limit counts, not axum's
/// `DefaultBodyLimit`. How long a body may take to arrive is the server's business: put a time limit on the route.
///
/// To hand it to a handler behind the inbox, [`handle`] does all of that. Otherwise: answer 2xx only after the effect of the event is committed, best together with its row in the inbox; any other
/// answer makes the relay send it again.
///
/// ```
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use outbox_sdk::webhook::axum::Verified;
/// use outbox_sdk::webhook::{Receiver, Secret};
///
/// async fn hook(Verified(delivery): Verified) -> StatusCode {
///     let event = delivery.envelope;
///     println!("{} {}", event.event_type, event.payload);
///     StatusCode::NO_CONTENT
/// }
///
/// let receiver = Receiver::new(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?);
/// let app: Router = Router::new().route("/hooks", post(hook)).with_state(Arc::new(receiver));
/// # Ok::<(), outbox_sdk::webhook::SecretError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified(pub Delivery);

impl<S> FromRequest<S> for Verified
where
    S: Send + Sync,
    Arc<Receiver>: FromRef<S>,
{
    type Rejection = ReceiveError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ReceiveError> {
        let receiver = Arc::<Receiver>::from_ref(state);
        let (parts, body) = request.into_parts();
        let body = read(body, receiver.limit()).await?;
        receiver.receive(&parts.headers, &body, SystemTime::now()).map(Self)
    }
}

/// Has the endpoint handle a request: 204 once the effect is committed, now or by an earlier delivery.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::extract::{Request, State};
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use outbox_sdk::webhook::axum::handle;
/// use outbox_sdk::webhook::{Endpoint, EndpointError};
/// # use outbox_sdk::Handler;
/// # use sqlx::Sqlite;
///
/// async fn hook<H: Handler<Sqlite>>(
///     State(endpoint): State<Arc<Endpoint<Sqlite, H>>>,
///     request: Request,
/// ) -> Result<StatusCode, EndpointError> {
///     handle(&endpoint, request).await.inspect_err(|refused| eprintln!("{refused}"))
/// }
///
/// # fn app<H: Handler<Sqlite>>(endpoint: Endpoint<Sqlite, H>) -> Router {
/// Router::new().route("/hooks", post(hook::<H>)).with_state(Arc::new(endpoint))
/// # }
/// ```
///
/// # Errors
/// [`EndpointError`], which is a response too: its status, headers and answer.
pub async fn handle<DB: Backend, H: Handler<DB>>(
    endpoint: &Endpoint<DB, H>,
    request: Request,
) -> Result<StatusCode, EndpointError> {
    let (parts, body) = request.into_parts();
    let body = read(body, endpoint.limit()).await.map_err(EndpointError::Receive)?;
    endpoint.handle(&parts.headers, &body, SystemTime::now()).await.map(|_| StatusCode::NO_CONTENT)
}

impl IntoResponse for EndpointError {
    fn into_response(self) -> Response {
        (self.status(), self.headers(), self.answer()).into_response()
    }
}

impl IntoResponse for ReceiveError {
    fn into_response(self) -> Response {
        (self.status(), self.to_string()).into_response()
    }
}

/// The whole body, unless it is larger than `limit`: then no more than that is ever held.
async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ReceiveError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Err(ReceiveError::TooLarge { limit });
    }
    let mut bytes = Vec::with_capacity(announced);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| ReceiveError::Incomplete)?;
        if let Some(data) = frame.data_ref() {
            if data.len() > limit - bytes.len() {
                return Err(ReceiveError::TooLarge { limit });
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, SocketAddr, TcpStream};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::extract::State;
    use axum::routing::post;

    use super::*;
    use crate::Envelope;
    use crate::webhook::{CLOUDEVENTS_JSON, Format, Secret, Source, body, sign};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[derive(Clone)]
    struct App {
        receiver: Arc<Receiver>,
        handled: Arc<AtomicUsize>,
    }

    impl FromRef<App> for Arc<Receiver> {
        fn from_ref(app: &App) -> Self {
            Self::clone(&app.receiver)
        }
    }

    async fn hook(State(app): State<App>, Verified(delivery): Verified) -> String {
        app.handled.fetch_add(1, Ordering::SeqCst);
        delivery.envelope.payload
    }

    async fn serve(max_bytes: usize) -> (SocketAddr, App) {
        let receiver = Arc::new(Receiver::new(Secret::parse(SECRET).unwrap()).max_bytes(max_bytes));
        let app = App { receiver, handled: Arc::default() };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", post(hook)).with_state(app.clone());
        tokio::spawn(axum::serve(listener, router).into_future());
        (address, app)
    }

    /// Sends these bytes and reads to the end of the connection.
    async fn exchange(address: SocketAddr, request: Vec<u8>, hang_up: bool) -> String {
        let talk = move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&request).unwrap();
            if hang_up {
                stream.shutdown(Shutdown::Write).unwrap();
            }
            let mut answer = String::new();
            // A server may reset a connection that broke off; what came before counts.
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        tokio::task::spawn_blocking(talk).await.unwrap()
    }

    fn head(envelope: &Envelope, body: &[u8], framing: &str) -> Vec<u8> {
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let id = envelope.event_id.to_string();
        let signature = sign(&Secret::parse(SECRET).unwrap().into(), &id, seconds.try_into().unwrap(), body);
        format!(
            "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {CLOUDEVENTS_JSON}\r\n\
             webhook-id: {id}\r\nwebhook-timestamp: {seconds}\r\nwebhook-signature: {signature}\r\n{framing}\r\n\r\n"
        )
        .into_bytes()
    }

    fn event() -> (Envelope, Vec<u8>) {
        let envelope = Envelope::example("customer.updated", 1, "{\"name\":\"Zoë\",\"n\":1.10}");
        let body = body(&envelope, Format::CloudEvents, &Source::default());
        (envelope, body)
    }

    fn with_length(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
        [&head(envelope, body, &format!("content-length: {}", body.len())), body].concat()
    }

    fn chunked(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
        let mut request = head(envelope, body, "transfer-encoding: chunked");
        for piece in body.chunks(40) {
            request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            request.extend_from_slice(piece);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        request
    }

    #[tokio::test]
    async fn a_verified_delivery_reaches_the_handler() {
        let (address, app) = serve(10_000).await;
        let (envelope, body) = event();
        for request in [with_length(&envelope, &body), chunked(&envelope, &body)] {
            let answer = exchange(address, request, false).await;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&envelope.payload), "{answer}");
        }
        assert_eq!(app.handled.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn the_limit_holds_for_announced_and_for_chunked_bodies() {
        let (envelope, body) = event();
        for (limit, status) in [(body.len(), "200"), (body.len() - 1, "413")] {
            let (address, app) = serve(limit).await;
            for request in [with_length(&envelope, &body), chunked(&envelope, &body)] {
                let answer = exchange(address, request, false).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
            }
            assert_eq!(app.handled.load(Ordering::SeqCst), if status == "200" { 2 } else { 0 });
        }
    }

    #[tokio::test]
    async fn a_refusal_says_why_and_the_handler_does_not_run() {
        let (address, app) = serve(10_000).await;
        let (envelope, body) = event();
        let mut request = with_length(&envelope, &body);
        let last = request.len() - 2;
        request[last] = b' ';
        let answer = exchange(address, request, false).await;
        assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("same secret"), "{answer}");
        assert_eq!(app.handled.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_never_handled() {
        let (address, app) = serve(10_000).await;
        let (envelope, body) = event();
        for mut request in [with_length(&envelope, &body), chunked(&envelope, &body)] {
            request.truncate(request.len() - 6);
            let answer = exchange(address, request, true).await;
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{answer}");
        }
        assert_eq!(app.handled.load(Ordering::SeqCst), 0);
    }
}
