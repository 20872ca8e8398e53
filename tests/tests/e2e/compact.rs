//! `outbox compact`: what it deletes, what it says, and how it ends.

use outbox_tests::{OutboxProcess, PgTestDb, Receiver, TestDb, eventually, on_every_database};

use crate::stage::Stage;

on_every_database! {
    expired_events_are_counted_and_deleted
    nothing_is_deleted_before_a_required_consumer_is_registered
}

/// Code, standard output and standard error of `outbox compact` with these arguments.
async fn compact<T: TestDb>(stage: &Stage<T>, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = OutboxProcess::command();
    command.arg("compact").args(args).args(["--config", "compact.toml"]).current_dir(stage.folder.path());
    command.env("STAGE_DATABASE", stage.db.address());
    let mut process = OutboxProcess::spawn(&mut command);
    let code = process.wait_exit().await.code();
    (code, process.stdout().join("\n"), process.stderr().join("\n"))
}

fn configure<T: TestDb>(stage: &Stage<T>, more: &str) {
    let text = format!("[database]\nurl = \"env:STAGE_DATABASE\"\n{more}");
    std::fs::write(stage.folder.path().join("compact.toml"), text).unwrap();
}

/// Two events that were delivered, and are older than any rule.
async fn delivered<T: TestDb>() -> Stage<T> {
    let stage = Stage::<T>::new().await;
    let receiver = Receiver::start().await;
    stage.publish(&["1", "1"]).await;
    let relay = stage.relay(&receiver.url(), "10s", "2s");
    let dispatched = format!("SELECT count(*) FROM {} WHERE status = 'dispatched'", T::table("event"));
    eventually("both are recorded", async || {
        T::count(&mut stage.pool.acquire().await.unwrap(), &dispatched).await == 2
    })
    .await;
    drop(relay);
    let ago = format!("20 * 24 * {}", T::HOUR);
    let older = format!(
        "UPDATE {} SET created_at = created_at - {ago}, available_at = available_at - {ago}, \
         dispatched_at = dispatched_at - {ago}",
        T::table("event")
    );
    T::execute(&mut stage.pool.acquire().await.unwrap(), &older).await.unwrap();
    stage
}

async fn stored<T: TestDb>(stage: &Stage<T>) -> i64 {
    let count = format!("SELECT count(*) FROM {}", T::table("event"));
    T::count(&mut stage.pool.acquire().await.unwrap(), &count).await
}

async fn expired_events_are_counted_and_deleted<T: TestDb>() {
    let stage = delivered::<T>().await;
    configure(&stage, "[retention]\nevent_types = { \"customer.*\" = 30 }\n");
    let (code, stdout, stderr) = compact(&stage, &[]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "0 events deleted"), "{stderr}");
    configure(&stage, "");
    let (code, stdout, _) = compact(&stage, &["--dry-run"]).await;
    let text = "           2  customer.changed\n2 events would be deleted";
    assert_eq!((code, stdout.as_str()), (Some(0), text.trim_start_matches('\n')));
    let (code, stdout, _) = compact(&stage, &["--dry-run", "--format", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &json["by_type"]["customer.changed"]), (Some(0), &serde_json::json!(2)));
    assert_eq!(stored(&stage).await, 2);
    let (code, stdout, _) = compact(&stage, &["--format", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &json["deleted"], &json["dry_run"]), (Some(0), &2.into(), &false.into()));
    assert_eq!(stored(&stage).await, 0);
}

async fn nothing_is_deleted_before_a_required_consumer_is_registered<T: TestDb>() {
    let stage = delivered::<T>().await;
    configure(&stage, "[[consumer]]\nname = \"audit\"\nrequired_for_retention = true\n");
    let (code, stdout, stderr) = compact(&stage, &[]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("`audit`") && stdout.ends_with("0 events deleted"), "{stdout}");
    assert_eq!(stored(&stage).await, 2);
}

#[tokio::test]
async fn a_failed_run_says_why_and_exits_3() {
    let stage = delivered::<PgTestDb>().await;
    configure(&stage, "[relay]\nrecorder = false\n");
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                  $$ BEGIN RAISE insufficient_privilege; END $$; \
                  CREATE TRIGGER refuse BEFORE DELETE ON outbox.event FOR EACH ROW EXECUTE FUNCTION refuse()";
    PgTestDb::execute(&mut stage.pool.acquire().await.unwrap(), refuse).await.unwrap();
    let (code, stdout, stderr) = compact(&stage, &[]).await;
    assert_eq!((code, stdout.as_str()), (Some(3), ""), "{stderr}");
    assert!(
        stderr.contains("the role lacks a right") && stderr.contains("insufficient_privilege"),
        "{stderr}"
    );
    assert_eq!(stored(&stage).await, 2);
}
