//! What the command says and how it ends when it cannot do what it was asked.

use std::path::Path;

use outbox_tests::{OutboxProcess, PgTestDb, SqliteTestDb, TestDb, on_every_database};
use tempfile::TempDir;

use crate::stage::SECRET;

on_every_database! {
    a_relay_needs_migrated_tables_and_names_the_command
    migrate_is_repeatable_and_can_be_checked
    migrate_makes_the_inbox_alone
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

async fn outbox(args: &[&str], env: &[(&str, &str)]) -> Ended {
    let mut command = OutboxProcess::command();
    let mut process = OutboxProcess::spawn(command.args(args).envs(env.iter().copied()));
    let code = process.wait_exit().await.code();
    Ended { code, stdout: process.stdout().join("\n"), stderr: process.stderr().join("\n") }
}

/// A folder with a configuration of these lines, and an empty registry.
fn folder(config: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("outbox.toml"), config).unwrap();
    std::fs::create_dir(folder.path().join("schemas")).unwrap();
    std::fs::write(folder.path().join("schemas/registry.toml"), "").unwrap();
    folder
}

async fn run(folder: &Path, env: &[(&str, &str)]) -> Ended {
    let path = folder.join("outbox.toml");
    outbox(&["run", "--config", path.to_str().unwrap()], env).await
}

const CONSUMER: &str = "[[consumer]]\nname = \"crm\"\n[consumer.webhook]\nurl = \"https://crm.example/hooks\"\n\
    secrets = [\"env:STAGE_SECRET\"]\n";

async fn tables<T: TestDb>(db: &T) -> i64 {
    const POSTGRES: &str = "SELECT count(*) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace \
        WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')";
    const SQLITE: &str = "SELECT count(*) FROM sqlite_schema";
    let pool = db.connect().await;
    T::count(&mut pool.acquire().await.unwrap(), if T::CONCURRENT_WRITERS { POSTGRES } else { SQLITE }).await
}

#[tokio::test]
async fn a_broken_configuration_is_told_at_once_and_nothing_is_written() {
    let db = SqliteTestDb::new();
    let config = format!(
        "[database]\nurl = \"{}\"\n[relay]\nlease = \"soon\"\ncolour = 1\n[[consumer]]\nname = \"crm\"\n\
         max_in_flight = 0\n[consumer.webhook]\nurl = \"ftp://crm.example\"\nsecrets = [\"{SECRET}\"]\n",
        db.url()
    );
    let folder = folder(&config);
    let ended = run(folder.path(), &[]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for (line, about) in [(4, "lease"), (5, "colour"), (8, "max_in_flight"), (10, "url"), (11, "secrets")] {
        let place = format!("outbox.toml:{line}:");
        assert!(
            ended.stderr.contains(&place) && ended.stderr.contains(about),
            "{place} {about}\n{}",
            ended.stderr
        );
    }
    assert!(ended.stderr.matches('^').count() >= 5, "a caret for each\n{}", ended.stderr);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    assert!(!db.path().exists(), "nothing was written");
}

#[tokio::test]
async fn a_missing_registry_folder_is_told_before_the_database_is_asked() {
    let db = PgTestDb::new().await;
    let folder =
        folder(&format!("[database]\nurl = \"{}\"\n[registry]\npath = \"nowhere\"\n{CONSUMER}", db.url()));
    let ended = run(folder.path(), &[("STAGE_SECRET", SECRET)]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("nowhere"), "{}", ended.stderr);
    assert_eq!(tables(&db).await, 0);
}

#[tokio::test]
async fn a_configuration_without_consumers_or_file_ends_with_2() {
    let empty = folder("[database]\nurl = \"sqlite://x.db\"\n");
    let ended = run(empty.path(), &[]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("[[consumer]]"), "{}", ended.stderr);

    let ended = run(&empty.path().join("nowhere"), &[]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("outbox.toml"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_database_of_another_kind_ends_with_2() {
    let ended = outbox(&["migrate", "--database", "mysql://app:hunter2@localhost/app"], &[]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("postgres://") && ended.stderr.contains("sqlite://"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);

    let folder = folder(&format!("[database]\nurl = \"mysql://app:hunter2@localhost/app\"\n{CONSUMER}"));
    let ended = run(folder.path(), &[("STAGE_SECRET", SECRET)]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("outbox.toml:2:"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);

    let ended = outbox(&["compact", "--database", "postgres://nobody@127.0.0.1:1/nothing"], &[]).await;
    assert_eq!(ended.code, Some(2), "no rules: {ended:?}");
    assert!(ended.stderr.contains("--config"), "{}", ended.stderr);

    let ended = outbox(&["migrate"], &[]).await;
    assert_eq!(ended.code, Some(2), "no database at all: {ended:?}");
    assert!(ended.stderr.contains("--database"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_server_that_does_not_let_the_relay_in_is_told_apart_from_one_that_is_away() {
    let db = PgTestDb::new().await;
    let missing = format!("{}x", db.url());
    let unknown = db.url().replace("://postgres", "://nobody");
    assert_ne!(unknown, db.url());
    for (url, advice) in [(missing, "has no such database"), (unknown, "does not let the role in")] {
        let folder = folder(&format!("[database]\nurl = \"{url}\"\n{CONSUMER}"));
        let config = folder.path().join("outbox.toml").display().to_string();
        for command in ["migrate", "consumers", "compact"] {
            let ended = outbox(&[command, "--config", &config], &[("STAGE_SECRET", SECRET)]).await;
            assert_eq!(ended.code, Some(3), "{ended:?}");
            assert!(ended.stderr.contains(advice) && ended.stderr.contains("correct"), "{}", ended.stderr);
        }

        let mut command = OutboxProcess::command();
        command.env("STAGE_SECRET", SECRET).args(["run", "--config"]).arg(folder.path().join("outbox.toml"));
        let mut relay = OutboxProcess::spawn(&mut command);
        let line = relay.wait_for_line("what is wrong", |line| line.contains("cannot start")).await;
        assert!(line.contains("ERROR") && line.contains(advice), "{line}");
        let mut tries = 0;
        let again = |line: &str| {
            tries += usize::from(line.contains("cannot start"));
            tries == 3
        };
        relay.wait_for_line("that it goes on trying", again).await;
        relay.terminate().await;
        assert_eq!(relay.wait_exit().await.code(), Some(0));
    }
}

/// A disk that is full, as far as a program can see.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_demo_whose_account_cannot_be_printed_fails() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = OutboxProcess::command();
    let demo = command.arg("demo").stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let ended = demo.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(stderr.contains("the account could not be printed"), "{stderr}");
}

/// Nothing listens on port 1.
#[tokio::test]
async fn no_failure_tells_a_secret() {
    const URL: &str = "postgres://app:hunter2@127.0.0.1:1/app";
    let ended = outbox(&["migrate", "--database", URL], &[]).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);

    let config = format!("[database]\nurl = \"env:STAGE_DATABASE\"\n{CONSUMER}");
    let folder = folder(&config);
    let bad = "whsec_dG9vIHNob3J0";
    let ended = run(folder.path(), &[("STAGE_DATABASE", URL), ("STAGE_SECRET", bad)]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(!ended.stderr.contains(bad) && !ended.stderr.contains("hunter2"), "{}", ended.stderr);

    let mut command = OutboxProcess::command();
    command.env("STAGE_DATABASE", URL).env("STAGE_SECRET", SECRET).env("RUST_LOG", "debug");
    let mut relay =
        OutboxProcess::spawn(command.args(["run", "--config"]).arg(folder.path().join("outbox.toml")));
    relay.wait_for_line("that the database is away", |line| line.contains("the database is away")).await;
    relay.terminate().await;
    assert_eq!(relay.wait_exit().await.code(), Some(0));
    let log = relay.stderr().join("\n");
    assert!(!log.contains("hunter2") && !log.contains(SECRET) && !log.contains("MDEyMzQ1"), "{log}");
}

async fn a_relay_needs_migrated_tables_and_names_the_command<T: TestDb>() {
    let db = T::create().await;
    db.connect().await.close().await;
    let folder = folder(&format!("[database]\nurl = \"env:STAGE_DATABASE\"\n{CONSUMER}"));
    let ended = run(folder.path(), &[("STAGE_DATABASE", db.address()), ("STAGE_SECRET", SECRET)]).await;
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.stderr.contains("outbox migrate"), "{}", ended.stderr);
    assert_eq!(tables(&db).await, 0, "the relay never migrates");
}

async fn migrate_is_repeatable_and_can_be_checked<T: TestDb>() {
    let db = T::create().await;
    db.connect().await.close().await;
    let migrate = async |more: &[&str]| {
        let ended = outbox(&[&["migrate", "--database", db.address()], more].concat(), &[]).await;
        (ended.code, ended.stdout, ended.stderr)
    };
    let (code, stdout, stderr) = migrate(&["--check"]).await;
    assert_eq!((code, stdout.as_str()), (Some(1), "missing 0001_outbox"), "{stderr}");
    assert!(stderr.contains("run `outbox migrate`"), "{stderr}");
    assert_eq!(tables(&db).await, 0, "a check changes nothing");

    let (code, stdout, stderr) = migrate(&["--format", "json"]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), r#"{"applied":["0001_outbox"]}"#), "{stderr}");
    let made = tables(&db).await;
    assert!(made > 0);

    let (code, stdout, stderr) = migrate(&[]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "the tables are up to date"), "{stderr}");
    let (code, stdout, stderr) = migrate(&["--check", "--format", "json"]).await;
    assert_eq!((code, stdout.as_str()), (Some(0), r#"{"missing":[]}"#), "{stderr}");
    assert_eq!(tables(&db).await, made);
}

async fn migrate_makes_the_inbox_alone<T: TestDb>() {
    let db = T::create().await;
    db.connect().await.close().await;
    let inbox = ["migrate", "--inbox", "--database", db.address()];
    let before = outbox(&[&inbox[..], &["--check"]].concat(), &[]).await;
    assert_eq!(before.code, Some(1), "{before:?}");
    assert!(before.stderr.contains("outbox migrate --inbox"), "{}", before.stderr);
    let ended = outbox(&inbox, &[]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let after = outbox(&[&inbox[..], &["--check"]].concat(), &[]).await;
    assert_eq!(after.code, Some(0), "{after:?}");

    let pool = db.connect().await;
    let mut conn = pool.acquire().await.unwrap();
    assert_eq!(
        T::count(&mut conn, &format!("SELECT count(*) FROM {}", T::table("processed_event"))).await,
        0
    );
    let events = format!("SELECT count(*) FROM {}", T::table("event"));
    assert!(T::execute(&mut conn, &events).await.is_err(), "a consumer's database holds no events");
}
