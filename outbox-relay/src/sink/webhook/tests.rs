mod certificates;
mod files;
mod names;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::thread;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::post;
use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use outbox_sdk::Envelope;
use outbox_sdk::webhook::{Format, Receiver, Secret, Secrets};

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD_SECRET: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";

/// The first key of RFC 8032, section 7.1.
const PRIVATE_KEY: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const PUBLIC_KEY: &str = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

/// What a hostile receiver does with a connection.
type Answer = fn(&mut TcpStream) -> io::Result<()>;

/// A request as the receiver saw it.
type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

fn config(url: String) -> WebhookConfig {
    let mut config = WebhookConfig::new(url, Secret::parse(SECRET).unwrap());
    config.allow_private_addresses = true;
    config
}

fn short(url: String) -> WebhookConfig {
    let mut config = config(url);
    config.connect_timeout = Duration::from_millis(250);
    config.timeout = Duration::from_millis(300);
    config
}

fn sink(config: WebhookConfig) -> WebhookSink {
    WebhookSink::new(config).unwrap()
}

async fn deliver(sink: &WebhookSink, envelope: &Envelope) -> Outcome {
    sink.deliver(Delivery { envelope, attempt: 1, replay: false, answer: &crate::sink::Answer::default() })
        .await
}

fn event() -> Envelope {
    Envelope::example("customer.updated", 1, "{\"canary\":\"canary-payload\"}")
}

/// Answers `/<status>` with that status and `/retry/<text>` with a 503 that asks to wait; keeps what it saw.
async fn receiver() -> (SocketAddr, Seen) {
    async fn status(
        State(seen): State<Seen>,
        Path(code): Path<u16>,
        headers: HeaderMap,
        body: Bytes,
    ) -> impl IntoResponse {
        seen.lock().unwrap().push((headers, body));
        (StatusCode::from_u16(code).unwrap(), "canary-answer")
    }
    async fn retry(Path(wait): Path<String>) -> impl IntoResponse {
        (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, wait)])
    }
    let seen = Seen::default();
    let router = Router::new()
        .route("/{code}", post(status))
        .route("/retry/{wait}", post(retry))
        .with_state(Arc::clone(&seen));
    (serve(router).await, seen)
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, router).into_future());
    address
}

/// Reads each request's head, then does with the connection whatever `answer` does.
fn hostile(answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut request = [0; 16 * 1024];
                // The client may hang up at any moment; that is what these receivers are for.
                let _ = stream.read(&mut request).and_then(|_| answer(&mut stream));
            });
        }
    });
    address
}

/// Counts connections and answers none.
fn trap() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    thread::spawn(move || {
        for _ in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, connections)
}

fn dead_port() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap()
}

fn error_of(outcome: Outcome) -> String {
    match outcome {
        Outcome::Delivered => panic!("delivered"),
        Outcome::Retry { error, .. }
        | Outcome::Reject { error }
        | Outcome::Gone { error }
        | Outcome::Unavailable { error, .. } => error,
    }
}

#[tokio::test]
async fn every_status_has_its_outcome() {
    let (address, seen) = receiver().await;
    let (mut sent, event) = (0, event());
    for code in (200..=208)
        .chain([226, 299])
        .chain(300..=308)
        .chain(400..=431)
        .chain([451, 499])
        .chain(500..=511)
        .chain([599, 999])
    {
        let outcome = deliver(&sink(config(format!("http://{address}/{code}"))), &event).await;
        sent += 1;
        match (code, &outcome) {
            (200..=299, Outcome::Delivered) => {}
            (410, Outcome::Gone { error }) => assert!(error.contains("410 Gone"), "{error}"),
            (300..=409 | 411.., Outcome::Retry { error, after: None }) => {
                assert!(error.contains(&code.to_string()), "{error}");
                assert!(error.contains(": ") && !error.contains("canary"), "{error}");
            }
            _ => panic!("{code}: {outcome:?}"),
        }
    }
    assert_eq!(seen.lock().unwrap().len(), sent);
}

#[tokio::test]
async fn the_receivers_wish_to_wait_is_passed_on_and_garbage_is_not() {
    let (address, _) = receiver().await;
    for (wait, expected) in [
        ("7", Some(Duration::from_secs(7))),
        ("Sun,%2006%20Nov%201994%2008:49:37%20GMT", Some(Duration::ZERO)),
        ("soon", None),
        ("-3", None),
    ] {
        let outcome = deliver(&sink(config(format!("http://{address}/retry/{wait}"))), &event()).await;
        let Outcome::Retry { after, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(after, expected, "{wait}");
    }
}

#[tokio::test]
async fn the_exact_bytes_are_signed_in_every_attempt() {
    let payload = "{\"z\": 1.10, \"a\" :1e2,\"big\":9007199254740993,\"bigger\":18446744073709551616,\
        \"text\":\"é \u{1f600} \u{2028} </script> \\u00e9\"}";
    let (address, seen) = receiver().await;
    let mut envelope = Envelope::example("customer.updated", 1, payload);
    envelope.actor = Some("{\"name\": \"Zoë\"}".into());
    for format in [Format::CloudEvents, Format::CloudEventsBinary, Format::Plain] {
        let mut config = config(format!("http://{address}/204"));
        config.format = format;
        config.secrets = Secrets::parse([SECRET, OLD_SECRET, PRIVATE_KEY])
            .unwrap()
            .into_iter()
            .map(Credential::Given)
            .collect();
        let sink = sink(config);
        for (attempt, replay) in [(1, false), (2, false), (3, true)] {
            let outcome = sink
                .deliver(Delivery {
                    envelope: &envelope,
                    attempt,
                    replay,
                    answer: &crate::sink::Answer::default(),
                })
                .await;
            assert_eq!(outcome, Outcome::Delivered);
            let (headers, body) = seen.lock().unwrap().pop().unwrap();
            assert!(body.windows(payload.len()).any(|window| window == payload.as_bytes()));
            assert_eq!(headers["content-length"], body.len().to_string());
            assert_eq!(headers["content-type"], format.media_type());
            assert_eq!(headers["user-agent"], concat!("outbox-relay/", env!("CARGO_PKG_VERSION")));
            assert_eq!(headers.get("outbox-replay").is_some(), replay);
            for secret in [SECRET, OLD_SECRET, PUBLIC_KEY] {
                let receiver = Receiver::new(Secret::parse(secret).unwrap()).binary_mode(true);
                let received = receiver.receive(&headers, &body, SystemTime::now()).unwrap();
                assert_eq!(
                    (received.envelope, received.attempt, received.replay),
                    (envelope.clone(), attempt, replay)
                );
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_is_a_failed_attempt_and_never_followed() {
    let (target, connections) = trap();
    for code in [301, 302, 303, 307, 308] {
        let answer = (StatusCode::from_u16(code).unwrap(), [("location", format!("http://{target}/"))]);
        let router = Router::new().route("/", post(move || async move { answer }));
        let outcome = deliver(&sink(config(format!("http://{}/", serve(router).await))), &event()).await;
        let Outcome::Retry { error, .. } = outcome else { panic!("{outcome:?}") };
        assert!(error.contains("redirects are never followed"), "{error}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_before_a_connection_is_made() {
    let (target, connections) = trap();
    let mut closed = config(format!("https://localhost:{}/", target.port()));
    closed.allow_private_addresses = false;
    let outcome = deliver(&sink(closed), &event()).await;
    let Outcome::Unavailable { error, after: None } = outcome else { panic!("{outcome:?}") };
    assert!(error.contains("no public address"), "{error}");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_receiver_that_is_not_there_is_unavailable() {
    let not_tls = hostile(|stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let (mute, _) = trap();
    for (config, expected) in [
        (config(format!("http://{}/", dead_port())), "connection refused"),
        (config("http://no-such-host.invalid/".into()), "cannot be resolved"),
        (config(format!("https://{not_tls}/")), "does not speak TLS"),
        (config(format!("https://{mute}/")), "no connection"),
        (short(format!("https://{}/", hostile(|stream| stream.read_exact(&mut [0])))), "within 250ms"),
    ] {
        let outcome = deliver(&sink(config), &event()).await;
        let Outcome::Unavailable { error, after: None } = outcome else { panic!("{expected}: {outcome:?}") };
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn whatever_breaks_after_the_connection_was_made_has_an_unknown_outcome() {
    fn drip(stream: &mut TcpStream) -> io::Result<()> {
        loop {
            stream.write_all(b"x")?;
            thread::sleep(Duration::from_millis(20));
        }
    }
    let receivers: [(&str, Answer); 6] = [
        ("no complete answer", |stream| stream.read_exact(&mut [0])),
        ("no complete answer", |stream| {
            stream.write_all(b"HTTP/1.1 200 O")?;
            drip(stream)
        }),
        ("no complete answer", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nslow: ")?;
            drip(stream)
        }),
        ("broke", |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                stream.write_all(b"endless: headers\r\n")?;
            }
        }),
        ("broke", |_| Ok(())),
        ("broke", |stream| stream.write_all(b"this is not HTTP\r\n\r\n")),
    ];
    for (expected, answer) in receivers {
        let started = Instant::now();
        let outcome = deliver(&sink(short(format!("http://{}/", hostile(answer)))), &event()).await;
        assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
        let Outcome::Retry { error, after: None } = outcome else { panic!("{expected}: {outcome:?}") };
        assert!(error.contains(expected) && error.contains("outcome unknown"), "{error}");
    }
}

#[tokio::test]
async fn a_complete_head_with_2xx_is_delivered_whatever_the_body_does() {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    let receivers: [Answer; 4] = [
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"1\r\nx\r\n")?;
                thread::sleep(Duration::from_millis(20));
            }
        },
        |stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
            loop {
                stream.write_all(b"10000\r\n")?;
                stream.write_all(&[b'x'; 0x10000])?;
                stream.write_all(b"\r\n")?;
                WRITTEN.fetch_add(0x10000, Ordering::SeqCst);
            }
        },
        |stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\nx"),
        |stream| stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnot a chunk"),
    ];
    for answer in receivers {
        let sink = sink(config(format!("http://{}/", hostile(answer))));
        let started = Instant::now();
        assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
    // What the kernel buffers on both ends included.
    assert!(WRITTEN.load(Ordering::SeqCst) < 32 * 1024 * 1024);
}

#[tokio::test]
async fn a_connection_is_used_again_when_a_short_body_comes_after_the_head() {
    static REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // It takes one connection only: a second one would never be answered.
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            request.extend_from_slice(&piece[..read]);
            if request.ends_with(b"}}") {
                request.clear();
                REQUESTS.fetch_add(1, Ordering::SeqCst);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").unwrap();
                thread::sleep(Duration::from_millis(20));
                stream.write_all(b"ok").unwrap();
            }
        }
    });
    let sink = sink(config(format!("http://{address}/")));
    for _ in 0..3 {
        assert_eq!(deliver(&sink, &event()).await, Outcome::Delivered);
    }
    assert_eq!(REQUESTS.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn no_error_text_holds_url_secret_or_payload() {
    let (address, _) = receiver().await;
    let (mute, _) = trap();
    for place in [address, mute, dead_port()] {
        let url = format!("http://{place}/retry/canary-path?token=canary-query");
        for text in [
            error_of(deliver(&sink(short(url.clone())), &event()).await),
            format!("{:?}", sink(short(url.clone()))),
            format!("{:?}", config(url)),
        ] {
            for secret in ["canary", "MfKQ", &place.port().to_string()] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_when_the_sink_is_made() {
    let refused = |url: &str, allow: bool| {
        let mut config = config(url.to_owned());
        config.allow_private_addresses = allow;
        WebhookSink::new(config).unwrap_err()
    };
    for url in
        ["https://user@crm.example/", "https://user:canary@crm.example/", "https://:canary@crm.example/"]
    {
        let error = refused(url, true);
        assert!(
            matches!(error, WebhookConfigError::UserInfo) && !error.to_string().contains("canary"),
            "{url}"
        );
    }
    for url in ["", "canary", "crm.example/hooks", "https://", "http:///"] {
        assert!(matches!(refused(url, true), WebhookConfigError::Url), "{url}");
    }
    assert!(
        matches!(refused("ftp://crm.example/", true), WebhookConfigError::Scheme(scheme) if scheme == "ftp")
    );
    assert!(matches!(refused("http://crm.example/", false), WebhookConfigError::PlainHttp));
    // The last four are spellings of 127.0.0.1 that a URL turns into an address.
    for host in ["10.0.0.1", "[::1]", "[::ffff:10.0.0.1]", "127.1", "0x7f.1", "2130706433", "0177.0.0.1"] {
        let refused = refused(&format!("https://{host}/canary"), false);
        assert!(matches!(refused, WebhookConfigError::PrivateAddress), "{host}: {refused:?}");
        assert!(!format!("{refused} {refused:?}").contains("canary"));
    }
    for (connect, total) in [(0, 5), (5, 5), (6, 5)] {
        let mut config = config("https://crm.example/".to_owned());
        config.connect_timeout = Duration::from_secs(connect);
        config.timeout = Duration::from_secs(total);
        assert!(matches!(WebhookSink::new(config), Err(WebhookConfigError::Timeouts)));
    }
}
