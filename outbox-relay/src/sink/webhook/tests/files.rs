//! Secrets and headers in files that change.

use std::path::Path;

use outbox_sdk::webhook::ReceiveError;

use super::*;

fn accepts(secret: &str, (headers, body): &(HeaderMap, Bytes)) -> bool {
    let receiver = Receiver::new(Secret::parse(secret).unwrap());
    match receiver.receive(headers, body, SystemTime::now()) {
        Ok(_) => true,
        Err(ReceiveError::Signature(_)) => false,
        Err(other) => panic!("{other}"),
    }
}

/// As tools do it that write files others read: a new file takes the name of the old one.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

async fn sent(sink: &WebhookSink, seen: &Seen) -> (HeaderMap, Bytes) {
    assert_eq!(deliver(sink, &event()).await, Outcome::Delivered);
    seen.lock().unwrap().pop().unwrap()
}

#[tokio::test]
async fn a_secret_that_is_exchanged_signs_beside_the_new_one_for_a_while() {
    let (address, seen) = receiver().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    replace(&file, &format!("{OLD_SECRET}\n"));
    let mut config = config(format!("http://{address}/204"));
    config.secrets = vec![Credential::File(file.clone())];
    config.secret_overlap = Duration::from_secs(3600);
    let sink = sink(config);
    let signed_by = async |now| {
        sink.keeper.look(now);
        let request = sent(&sink, &seen).await;
        let signatures = request.0[WEBHOOK_SIGNATURE].to_str().unwrap().split(' ').count();
        (accepts(OLD_SECRET, &request), accepts(SECRET, &request), signatures)
    };
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(signed_by(start).await, (true, false, 1));
    replace(&file, SECRET);
    assert_eq!(signed_by(start).await, (true, true, 2), "whoever follows first is verified");
    // What cannot be used changes nothing, and ends no overlap.
    replace(&file, "whsec_broken");
    assert_eq!(signed_by(after(1)).await, (true, true, 2));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(signed_by(after(2)).await, (true, true, 2));
    replace(&file, SECRET);
    assert_eq!(signed_by(after(3599)).await, (true, true, 2));
    assert_eq!(signed_by(after(3600)).await, (false, true, 1), "the overlap is over");
    replace(&file, OLD_SECRET);
    assert_eq!(signed_by(after(3700)).await, (true, true, 2));
    replace(&file, SECRET);
    assert_eq!(signed_by(after(3701)).await, (true, true, 2), "once each, also after there and back");
}

#[tokio::test]
async fn headers_come_along_and_are_read_again_from_files() {
    let (address, seen) = receiver().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    replace(&file, "Bearer one\n");
    let mut config = config(format!("http://{address}/204"));
    config.headers = vec![
        ("x-tenant".parse().unwrap(), HeaderValue::from_static("acme").into()),
        ("authorization".parse().unwrap(), Credential::File(file.clone())),
    ];
    let sink = sink(config);
    let (headers, _) = sent(&sink, &seen).await;
    assert_eq!(
        (&headers["x-tenant"], &headers["authorization"]),
        (&"acme".parse().unwrap(), &"Bearer one".parse().unwrap())
    );
    assert!(!headers.contains_key("accept-encoding"), "compression stays off");
    for (text, expected) in
        [("Bearer two", "Bearer two"), ("two\nlines", "Bearer two"), ("Bearer three", "Bearer three")]
    {
        replace(&file, text);
        sink.keeper.look(Instant::now());
        assert_eq!(sent(&sink, &seen).await.0["authorization"], expected);
    }
}

#[tokio::test]
async fn what_a_receiver_says_is_quoted_only_when_asked_for() {
    let answer = hostile(|stream| {
        stream
            .write_all(b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 100000\r\n\r\nno\x1b[31m\r\nline ")?;
        stream.write_all(&[b'x'; 100_000])
    });
    for keep in [false, true] {
        let mut config = config(format!("http://{answer}/"));
        config.keep_response = keep;
        let error = error_of(deliver(&sink(config), &event()).await);
        assert_eq!(error.contains("it said: no\\u{1b}[31m\\r\\nline xxx"), keep, "{error}");
        assert!(error.len() < 2_400 && !error.contains('\u{1b}'), "{}", error.len());
    }
}
