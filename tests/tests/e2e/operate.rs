//! The commands of operators, on one database each: what they print, what they change, how they end.

use std::process::Stdio;
use std::time::Duration;

use outbox_relay::consumer::ConsumerSpec;
use outbox_relay::sink::Outcome;
use outbox_relay::{MissingSchema, Relay};
use outbox_tests::{OutboxProcess, RecordingSink, TestDb, on_every_database, quick_settings};
use serde_json::Value;

use crate::stage::Stage;

on_every_database! {
    operators_see_and_decide
}

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

async fn outbox(database: &str, args: &[&str]) -> Ended {
    let mut command = OutboxProcess::command();
    let mut process =
        OutboxProcess::spawn(command.args(args).env("DATABASE_URL", database).env("USER", "ada"));
    let code = process.wait_exit().await.code();
    Ended { code, stdout: process.stdout().join("\n"), stderr: process.stderr().join("\n") }
}

/// What a command that succeeds prints.
async fn said(database: &str, args: &[&str]) -> String {
    let ended = outbox(database, args).await;
    assert_eq!(ended.code, Some(0), "{args:?}\n{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 120), "{}", ended.stdout);
    ended.stdout
}

/// The same as JSON.
async fn json(database: &str, args: &[&str]) -> Value {
    let text = said_any_width(database, &[args, &["--format", "json"]].concat()).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}\n{text}"))
}

async fn said_any_width(database: &str, args: &[&str]) -> String {
    let ended = outbox(database, args).await;
    assert_eq!(ended.code, Some(0), "{args:?}\n{}\n{}", ended.stdout, ended.stderr);
    ended.stdout
}

/// How a command ends that finds nothing, or cannot be understood.
async fn refused(database: &str, args: &[&str], code: i32, part: &str) {
    let ended = outbox(database, args).await;
    assert_eq!(ended.code, Some(code), "{args:?}\n{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains(part), "{args:?}: `{part}` is not in\n{}", ended.stderr);
}

/// Events 1 to 4, of which 1 to 3 are dead for `crm`, an hour apart; the errors hold what a terminal would obey.
async fn with_dead_letters<T: TestDb>() -> Stage<T> {
    let stage = Stage::<T>::new().await;
    stage.publish(&["1", "1", "2", "3"]).await;
    let sink = RecordingSink::scripted(|call| {
        if call.id() == 4 {
            Outcome::Delivered
        } else {
            Outcome::Reject { error: "not a customer".to_owned() }
        }
    });
    let mut settings = quick_settings();
    settings.missing_schema = MissingSchema::Deliver;
    let relay = Relay::builder(stage.pool.clone())
        .settings(settings)
        .consumer(ConsumerSpec::new("crm").unwrap().timeout(Duration::from_secs(1)).unwrap(), sink)
        .build()
        .unwrap();
    relay.run_once().await.unwrap();
    let change = format!(
        "UPDATE {} SET last_error = 'not \x1b[31ma customer', failed_at = failed_at - {} * (10 - event_id)",
        T::table("dead_letter"),
        T::HOUR
    );
    T::execute(&mut stage.pool.acquire().await.unwrap(), &change).await.unwrap();
    stage
}

async fn operators_see_and_decide<T: TestDb>() {
    let empty = T::create().await;
    empty.connect().await.close().await;
    refused(empty.address(), &["dead", "list"], 3, "outbox migrate").await;

    let stage = with_dead_letters::<T>().await;
    let db = stage.db.address();

    // Consumers.
    let text = said(db, &["consumers"]).await;
    assert!(text.contains("CONSUMER") && text.contains("crm"), "{text}");
    let consumers = json(db, &["consumers"]).await;
    let crm = &consumers["consumers"][0];
    assert_eq!(
        (&crm["dead_letters"], &crm["unsettled"], &crm["owner"]),
        (&3.into(), &0.into(), &Value::Null)
    );

    // Seeing dead letters.
    let text = said(db, &["dead", "count"]).await;
    assert!(text.contains("rejected") && text.contains('3'), "{text}");
    let counts = json(db, &["dead", "count", "--consumer", "crm"]).await;
    assert_eq!(counts["counts"][0]["letters"], 3);
    let text = said(db, &["dead", "list"]).await;
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("\\u{1b}[31m") && !text.contains('\u{1b}'), "{text:?}");
    let page = json(db, &["dead", "list", "--limit", "2"]).await;
    assert_eq!(page["letters"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&page["letters"][0]["id"], &page["letters"][1]["id"]),
        (&3.into(), &2.into()),
        "newest first"
    );
    let rest = json(db, &["dead", "list", "--limit", "2", "--before", page["next"].as_str().unwrap()]).await;
    assert_eq!((rest["letters"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    let none = json(db, &["dead", "list", "--type", "order.*"]).await;
    assert_eq!(none["letters"], serde_json::json!([]));
    let text = said(db, &["dead", "show", "1"]).await;
    assert!(text.contains("customer/1") && !text.contains("payload"), "{text}");
    let shown = json(db, &["dead", "show", "1", "--consumer", "crm", "--payload"]).await;
    assert_eq!((&shown["state"], &shown["event"]["payload"]), (&"dead".into(), &"{}".into()));
    refused(db, &["dead", "show", "4"], 1, "no dead letter").await;
    refused(db, &["dead", "show", "4", "--consumer", "crm"], 1, "no dead letter").await;
    refused(db, &["dead", "show", "four"], 2, "names no event").await;

    // Deciding.
    let ended = outbox(db, &["dead", "replay", "1"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Inbox::forget"), "{}", ended.stderr);
    refused(db, &["dead", "replay", "1"], 1, "not dead but replay").await;
    refused(db, &["dead", "discard", "1", "--consumer", "crm"], 1, "not dead but replay").await;
    refused(db, &["dead", "replay"], 2, "--all").await;
    refused(db, &["dead", "replay", "2", "--type", "*"], 2, "both an event and a filter").await;
    refused(db, &["dead", "discard", "--consumer", "crm"], 2, "add --yes").await;
    let discarded = json(db, &["dead", "discard", "--id", "2", "--yes"]).await;
    assert_eq!(discarded["decided"], 1);
    let replayed = json(db, &["dead", "replay", "--all", "--yes", "--rate", "1000"]).await;
    assert_eq!((&replayed["decided"], &replayed["gone"]), (&1.into(), &0.into()));
    let states = json(db, &["dead", "list", "--state", "all"]).await;
    let letters = states["letters"].as_array().unwrap();
    let mut states: Vec<_> = letters
        .iter()
        .map(|letter| (letter["id"].as_i64().unwrap(), letter["state"].as_str().unwrap()))
        .collect();
    states.sort_unstable();
    assert_eq!(states, [(1, "replay"), (2, "discarded"), (3, "replay")]);
    said(db, &["dead", "ack", "2"]).await;
    refused(db, &["dead", "ack", "2"], 1, "acknowledged already").await;
    let acked = json(db, &["dead", "show", "2"]).await;
    assert!(acked["acknowledged_at"].as_str().unwrap().ends_with('Z') && acked["decided_by"].is_string());
    assert_eq!(said(db, &["dead", "list"]).await, "no dead letters");

    // Events.
    let text = said(db, &["event", "list", "--aggregate", "customer/1"]).await;
    assert_eq!(text.lines().count(), 3, "{text}");
    let page = json(db, &["event", "list", "--created-after", "1h", "--limit", "3"]).await;
    assert_eq!((&page["events"][0]["id"], &page["next"]), (&4.into(), &2.into()));
    let event = json(db, &["event", "show", "4"]).await;
    assert_eq!((&event["aggregate_id"], event.get("payload")), (&"3".into(), None));
    let by_event_id = said(db, &["event", "show", event["event_id"].as_str().unwrap(), "--payload"]).await;
    assert!(by_event_id.contains("payload") && by_event_id.contains("customer/3"), "{by_event_id}");
    refused(db, &["event", "show", "99"], 1, "no event 99").await;
    refused(db, &["event", "show", "01890a5d-ac96-774b-bcce-b302099a8057"], 1, "--full").await;
    refused(db, &["event", "list", "--created-after", "yesterday"], 2, "such as 2h").await;

    // Why.
    let text = said_any_width(db, &["why", "2"]).await;
    assert!(
        text.contains("discarded") && text.contains("crm") && text.contains("attempt 1: rejected"),
        "{text}"
    );
    let why = json(db, &["why", "2"]).await;
    let attempt = &why["consumers"][0]["attempts"][0];
    assert_eq!((&attempt["attempt"], &attempt["outcome"]), (&1.into(), &"rejected".into()));
    assert!(attempt["ended_at"].as_str().unwrap().ends_with('Z') && attempt["duration_seconds"].is_f64());
    let why = json(db, &["why", "4", "--consumer", "crm"]).await;
    assert_eq!((&why["id"], &why["consumers"][0]["verdict"]), (&4.into(), &"delivered".into()));
    refused(db, &["why", "4", "--consumer", "nobody"], 1, "outbox consumers").await;
    refused(db, &["why", "99"], 1, "no event 99").await;

    // Consumers' lives.
    said(db, &["consumer", "pause", "crm", "--for", "2h", "--reason", "moving"]).await;
    let paused = json(db, &["consumers"]).await["consumers"][0]["paused"].clone();
    assert_eq!((&paused["by"], &paused["reason"]), (&"operator".into(), &"moving".into()));
    said(db, &["consumer", "pause", "crm"]).await;
    let text = said(db, &["consumers"]).await;
    assert!(text.contains("paused by the"), "{text}");
    said(db, &["consumer", "resume", "crm"]).await;
    assert_eq!(json(db, &["consumers"]).await["consumers"][0]["paused"], Value::Null);
    refused(db, &["consumer", "reset", "crm", "--to", "1"], 2, "add --yes").await;
    refused(db, &["consumer", "reset", "crm", "--yes"], 2, "--to").await;
    let ended = outbox(db, &["consumer", "reset", "crm", "--to", "3", "--yes"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("Inbox::forget"), "{}", ended.stderr);
    let reset = json(db, &["dead", "show", "3"]).await;
    assert_eq!(reset["state"], "reset");
    let why = json(db, &["why", "4"]).await;
    assert_eq!(why["consumers"][0]["verdict"], "waiting");
    let renamed = json(db, &["consumer", "rename", "crm", "sales", "--yes"]).await;
    assert_eq!((&renamed["consumer"], &renamed["forced"]), (&"sales".into(), &false.into()));
    refused(db, &["consumer", "rename", "sales", "Not A Name", "--yes"], 2, "consumer name").await;
    said(db, &["consumer", "remove", "sales", "--yes"]).await;
    refused(db, &["consumer", "remove", "sales", "--yes"], 1, "outbox consumers").await;
    assert!(said_any_width(db, &["consumers"]).await.contains("no consumer is registered"));

    // Whoever has read enough closes the pipe.
    let mut command = std::process::Command::new(OutboxProcess::command().as_std().get_program());
    let mut child = command
        .args(["event", "list"])
        .env("DATABASE_URL", db)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}
