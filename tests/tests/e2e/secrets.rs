//! What a relay that fails in every way lets out: nothing that is secret, and nothing through a proxy of its environment.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use outbox_tests::{OutboxProcess, TestDb, eventually, on_every_database};

use crate::stage::Stage;

on_every_database! {
    no_output_of_a_failing_run_holds_a_secret_and_no_proxy_is_asked
}

/// Stands in every place that is secret: URL path and query, headers, signing secrets, answers.
const CANARY: &str = "c4n4ry";
/// `whsec_` and the base64 of bytes that hold the canary twice in clear text.
const SIGNING: &str = "whsec_YzRuNHJ5YzRuNHJ5YzRuNHJ5YzRuNHJ5YzRuNHJ5";

/// Answers every request with these bytes and hangs up.
fn answering(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 16 * 1024];
            // The relay may hang up first.
            let _ = stream.read(&mut request).and_then(|_| stream.write_all(answer.as_bytes()));
        }
    });
    address
}

/// Takes connections, answers none, and counts them.
fn mute() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    (address, connections)
}

async fn no_output_of_a_failing_run_holds_a_secret_and_no_proxy_is_asked<T: TestDb>() {
    let stage = Stage::<T>::new().await;
    let refused = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let (silent, _) = mute();
    let (proxy, proxied) = mute();
    let kinds: [(&str, String, &str); 9] = [
        (
            "status",
            format!(
                "http://{}",
                answering("HTTP/1.1 404 c4n4ry\r\nx-said: c4n4ry\r\ncontent-length: 6\r\n\r\nc4n4ry")
            ),
            "404 Not Found",
        ),
        (
            "redirect",
            format!("http://{}", answering("HTTP/1.1 307 x\r\nlocation: http://127.0.0.1/c4n4ry\r\n\r\n")),
            "never followed",
        ),
        (
            "abort",
            format!(
                "http://{}",
                answering("HTTP/1.1 422 x\r\nwebhook-delivery: abort-message\r\n\r\nc4n4ry")
            ),
            "422",
        ),
        ("gone", format!("http://{}", answering("HTTP/1.1 410 x\r\n\r\nc4n4ry")), "410 Gone"),
        ("garbage", format!("http://{}", answering("c4n4ry\r\n\r\n")), "connection broke"),
        ("silent", format!("http://{silent}"), "no complete answer"),
        ("refused", format!("http://{refused}"), "connection refused"),
        ("tls", format!("https://{}", answering("HTTP/1.1 400 x\r\n\r\n")), "does not speak TLS"),
        ("name", "http://no-such-host.invalid".to_owned(), "cannot be resolved"),
    ];
    let mut text = "[database]\nurl = \"env:STAGE_DATABASE\"\n[registry]\npath = \"schemas\"\n".to_owned();
    for (name, url, _) in &kinds {
        text.push_str(&format!(
            "[[consumer]]\nname = \"{name}\"\nretry = {{ schedule = [\"20ms\"], max_attempts = 2 }}\n\
             [consumer.webhook]\nurl = \"{url}/{CANARY}?token={CANARY}\"\nsecrets = [\"env:STAGE_SECRET\"]\n\
             allow_private_addresses = true\nconnect_timeout = \"200ms\"\ntimeout = \"300ms\"\n\
             headers = {{ Authorization = \"env:STAGE_TOKEN\", X-Free = \"{CANARY}\" }}\n"
        ));
    }
    let path = stage.folder.path().join("outbox.toml");
    std::fs::write(&path, text).unwrap();
    let proxy_url = format!("http://{proxy}");
    let start = |args: &[&str]| {
        let mut command = OutboxProcess::command();
        command
            .args(args)
            .env("STAGE_DATABASE", stage.db.address())
            .env("DATABASE_URL", stage.db.address())
            .env("STAGE_SECRET", SIGNING)
            .env("STAGE_TOKEN", format!("Bearer {CANARY}"))
            .env("RUST_LOG", "trace");
        for variable in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
            command.env(variable, &proxy_url);
        }
        OutboxProcess::spawn(&mut command)
    };
    let mut relay = start(&["run", "--config", path.to_str().unwrap()]);
    let published = stage.publish(&["1", "2"]).await;
    eventually("all that can be dead is dead", async || stage.dead_letters().await >= 10).await;
    // The others are paused; each says why in the log or in the database.
    let mut outputs = Vec::new();
    for args in [
        &["why", &published[0].id.to_string()][..],
        &["why", &published[1].id.to_string(), "--format", "json"],
        &["consumers"],
        &["consumers", "--format", "json"],
        &["dead", "list"],
        &["dead", "list", "--format", "json"],
    ] {
        let mut process = start(args);
        let code = process.wait_exit().await;
        let (out, err) = (process.stdout().join("\n"), process.stderr().join("\n"));
        assert!(code.success(), "{args:?}: {out}\n{err}");
        outputs.extend([out, err]);
    }
    relay.terminate().await;
    relay.wait_exit().await;
    outputs.extend([relay.stdout().join("\n"), relay.stderr().join("\n")]);
    let all = outputs.join("\n");
    for (name, _, said) in &kinds {
        assert!(all.contains(said), "{name} did not fail as it should: `{said}` is nowhere");
    }
    for secret in [CANARY, "YzRuNHJ5"] {
        let line = all.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "`{secret}`");
    }
    assert_eq!(proxied.load(Ordering::SeqCst), 0);
}
