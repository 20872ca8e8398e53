//! The TypeScript of the same schemas: it compiles under `tsc --strict`, and verifies and reads what the relay's own code
//! signs and writes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use outbox_schema::Registry;
use outbox_schema::codegen;
use outbox_sdk::Envelope;
use outbox_sdk::webhook::{Format, Secrets, Source, body, headers as webhook_headers, sign};
use serde_json::{Value, json};

use super::{keep, options, path};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLD: &str = "whsec_b3V0Ym94LXRlc3Qtc2VjcmV0LW51bWJlci10d28=";
/// The first key of RFC 8032, section 7.1.
const PRIVATE_KEY: &str = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
const PUBLIC_KEY: &str = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
const FOREIGN: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";

#[test]
fn the_generated_typescript_is_what_the_producers_schemas_give() {
    let registry = Registry::open(path("data/codegen")).unwrap();
    let text = codegen::typescript(&registry, &options()).unwrap_or_else(|errors| panic!("{errors:#?}"));
    keep(&path("tests/it/codegen/generated.ts"), &text);
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

/// A delivery, as the relay would post it.
#[derive(Clone)]
struct Post {
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    more: Value,
}

impl Post {
    fn new(envelope: &Envelope, format: Format, secret: &str, at: i64) -> Self {
        let body = body(envelope, format, &Source::default());
        let id = envelope.event_id.to_string();
        let signature = sign(&Secrets::parse([secret]).unwrap(), &id, at, &body);
        let mut headers: BTreeMap<String, String> = [
            ("webhook-id", id),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signature),
            ("outbox-attempt", "3".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        for (name, value) in &webhook_headers(envelope, format, &Source::default()) {
            headers.insert(name.to_string(), value.to_str().unwrap().to_owned());
        }
        Self { headers, body, more: json!({}) }
    }

    fn signed_again(mut self) -> Self {
        let id = self.headers["webhook-id"].clone();
        let at = self.headers["webhook-timestamp"].parse().unwrap();
        let signature = sign(&Secrets::parse([SECRET]).unwrap(), &id, at, &self.body);
        self.headers.insert("webhook-signature".to_owned(), signature);
        self
    }

    fn json(&self) -> Value {
        let mut case = json!({"headers": self.headers, "body": self.body});
        case.as_object_mut().unwrap().extend(self.more.as_object().unwrap().clone());
        case
    }
}

fn run(command: &mut Command) -> Vec<u8> {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; run ./scripts/test"));
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{command:?}: {stdout}{stderr}");
    out.stdout
}

/// The generated module, checked and compiled into `folder`.
fn compile(folder: &Path) {
    let modules = path("data/node_modules");
    assert!(
        modules.join("typescript").is_dir(),
        "no TypeScript for tests: run ./scripts/test; ./scripts/test quick leaves these tests out"
    );
    let strict = [
        "--strict",
        "--noUncheckedIndexedAccess",
        "--exactOptionalPropertyTypes",
        "--noUnusedLocals",
        "--noUnusedParameters",
        "--noImplicitReturns",
        "--noPropertyAccessFromIndexSignature",
        "--isolatedModules",
        "--erasableSyntaxOnly",
        "--module",
        "es2022",
        "--moduleResolution",
        "bundler",
        "--target",
        "es2022",
        "--types",
        "node",
    ];
    run(Command::new("node")
        .arg(modules.join("typescript/bin/tsc"))
        .args(strict)
        .arg("--typeRoots")
        .arg(modules.join("@types"))
        .arg("--outDir")
        .arg(folder)
        .arg(path("tests/it/codegen/generated.ts")));
    fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
}

#[test]
fn real_input_typescript_compiles_strictly_and_receives_what_the_relay_sends() {
    let folder = tempfile::tempdir().unwrap();
    compile(folder.path());

    let payload = r#"{"level": -1, "entity": "order", "flag": true}"#;
    let mut envelope = Envelope::example("proof.literals.sent", 1, payload);
    envelope.aggregate_id = Some("7".to_owned());
    let good = Post::new(&envelope, Format::CloudEvents, SECRET, now());
    let with = |change: &dyn Fn(&mut Post)| {
        let mut post = good.clone();
        change(&mut post);
        post
    };
    let event = |event_type: &str, major: u32| {
        Post::new(&Envelope::example(event_type, major, payload), Format::CloudEvents, SECRET, now())
    };
    let binary = |allowed: bool| {
        let mut post = Post::new(&envelope, Format::CloudEventsBinary, SECRET, now());
        post.more = json!({"binaryMode": allowed});
        post
    };
    let cases: Vec<(&str, Post, u16)> = vec![
        ("as it comes", good.clone(), 204),
        ("in the plain form", Post::new(&envelope, Format::Plain, SECRET, now()), 204),
        ("in binary mode", binary(true), 204),
        ("signed with a key", Post::new(&envelope, Format::CloudEvents, PRIVATE_KEY, now()), 204),
        ("in binary mode, which is not allowed", binary(false), 415),
        ("signed with the other secret", Post::new(&envelope, Format::CloudEvents, OLD, now()), 204),
        (
            "signed with both",
            with(&|post| {
                let own = post.headers["webhook-signature"].clone();
                post.headers.insert("webhook-signature".to_owned(), format!("v1,AAAA {own} v2,x"));
            }),
            204,
        ),
        ("signed with a foreign secret", Post::new(&envelope, Format::CloudEvents, FOREIGN, now()), 401),
        ("changed on the way", with(&|post| post.body.push(b' ')), 401),
        (
            "under another id",
            with(&|post| drop(post.headers.insert("webhook-id".to_owned(), "msg_1".to_owned()))),
            401,
        ),
        ("too old", Post::new(&envelope, Format::CloudEvents, SECRET, now() - 600), 401),
        ("too new", Post::new(&envelope, Format::CloudEvents, SECRET, now() + 600), 401),
        ("no signature", with(&|post| drop(post.headers.remove("webhook-signature"))), 400),
        (
            "no time",
            with(&|post| drop(post.headers.insert("webhook-timestamp".to_owned(), "soon".to_owned()))),
            400,
        ),
        (
            "signed under another id",
            with(&|post| drop(post.headers.insert("webhook-id".to_owned(), "msg_1".to_owned())))
                .signed_again(),
            400,
        ),
        ("no JSON", with(&|post| post.body = b"{".to_vec()).signed_again(), 400),
        ("no event", with(&|post| post.body = b"[1]".to_vec()).signed_again(), 400),
        (
            "another media type",
            with(&|post| drop(post.headers.insert("content-type".to_owned(), "text/plain".to_owned()))),
            415,
        ),
        ("too large", with(&|post| post.more = json!({"maxBytes": 10})), 413),
        ("another major", event("proof.literals.sent", 2), 422),
        ("another type", event("proof.other.sent", 1), 422),
        ("rejected", with(&|post| post.more = json!({"behave": "reject"})), 422),
        ("failed", with(&|post| post.more = json!({"behave": "throw"})), 500),
    ];
    let posts: Vec<Value> = cases.iter().map(|(_, post, _)| post.json()).collect();
    let input = json!({"secrets": [SECRET, OLD, PUBLIC_KEY], "cases": posts}).to_string();
    let mut node = Command::new("node")
        .arg(path("data/receive.mjs"))
        .arg(folder.path().join("generated.js"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    node.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = node.wait_with_output().unwrap();
    assert!(out.status.success());
    let answers: Vec<Value> = serde_json::from_slice(&out.stdout).unwrap();

    assert_eq!(answers.len(), cases.len());
    for ((what, post, status), answer) in cases.iter().zip(&answers) {
        assert_eq!(answer["status"], *status, "{what}: {answer}");
        let called = *status == 204 || post.more.get("behave").is_some();
        let calls = answer["calls"].as_array().unwrap();
        assert_eq!(calls.len(), usize::from(called), "{what}: {answer}");
        assert_eq!(answer.get("reason").is_some(), *status != 204, "{what}: {answer}");
        let given_up = json!({"webhook-delivery": "abort-message"});
        assert_eq!(answer.get("headers"), (*status == 422).then_some(&given_up), "{what}: {answer}");
    }
    for answer in &answers[..4] {
        let call = &answer["calls"][0];
        assert_eq!(call["method"], "proof_literals_sent_v1");
        let event = &call["event"];
        assert_eq!(event["payload"], serde_json::from_str::<Value>(payload).unwrap());
        assert_eq!(event["eventId"], envelope.event_id.to_string());
        assert_eq!(
            (&event["aggregateId"], &event["attempt"], &event["replay"]),
            (&json!("7"), &json!(3), &json!(false))
        );
    }
}
