//! What README.md and the examples' headers tell people to write works. The Rust code of the README is a
//! documentation test of the examples.

use std::fs;
use std::path::Path;

use outbox_relay::config::Config;
use outbox_sdk::{JsonEvent, Migrator, Once, Outbox, OutboxEvent};
use outbox_tests::PgTestDb;

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)).unwrap()
}

/// The only fenced block of this language that contains `word`.
pub(crate) fn block(text: &str, language: &str, word: &str) -> String {
    let fence = format!("```{language}\n");
    let fences = text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    let found: Vec<_> = fences.filter(|block| block.contains(word)).collect();
    assert_eq!(found.len(), 1, "blocks of {language} with {word}");
    found[0].to_owned()
}

fn assert_configures(toml: &str, secret: &'static str) {
    let env = [("DATABASE_URL", "sqlite://shop.db"), (secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    let config =
        Config::parse("outbox.toml", toml, env).unwrap_or_else(|error| panic!("{}", error.render(false)));
    config.require_database().unwrap();
    let consumers = config.require_consumers().unwrap();
    assert_eq!(consumers[0].webhook.as_ref().unwrap().url, "http://127.0.0.1:8080/hooks");
}

#[test]
fn the_configuration_in_the_readme_is_accepted() {
    assert_configures(&block(&read("README.md"), "toml", "[[consumer]]"), "BILLING_SECRET");
}

#[test]
fn the_configuration_in_the_receivers_header_is_accepted() {
    let header = read("examples/webhook_receiver.rs").replace("//! ", "").replace("//!", "");
    assert_configures(&block(&header, "toml", "[[consumer]]"), "OUTBOX_WEBHOOK_SECRET");
}

#[test]
fn the_consumer_in_the_readme_is_the_example() {
    let readme = read("README.md");
    let handler = block(&readme, "rust,ignore", "impl events::BillingHandler");
    assert!(read("examples/consumer/src/lib.rs").contains(&handler), "{handler}");
    let codegen =
        |text: &str| Config::parse("outbox.toml", text, [("", ""); 0]).unwrap().codegen.unwrap().options;
    let toml = block(&readme, "toml", "[codegen]");
    assert_eq!(codegen(&toml), codegen(&read("examples/consumer/outbox.toml")));
}

#[tokio::test]
async fn the_sql_in_the_readme_publishes() {
    let db = PgTestDb::new().await;
    let pool = db.pool().await;
    Migrator::outbox().run(&pool).await.unwrap();
    let sql = block(&read("README.md"), "sql", "outbox.publish");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    let events: Vec<(String, String)> =
        sqlx::query_as("SELECT event_type, aggregate_id FROM outbox.event").fetch_all(&pool).await.unwrap();
    assert_eq!(events, [("invoice.paid".to_owned(), "7".to_owned())]);
}

#[derive(serde::Serialize, schemars::JsonSchema, OutboxEvent)]
#[outbox(event_type = "order.placed", aggregate_type = "order", unregistered)]
pub(crate) struct OrderPlaced {
    #[outbox(aggregate_id)]
    pub(crate) order_id: i64,
}

#[tokio::test]
async fn the_rights_in_the_readme_are_enough_to_publish() {
    let db = PgTestDb::new().await;
    let pool = db.pool().await;
    Migrator::outbox().run(&pool).await.unwrap();
    // Roles belong to the whole server, so they are taken back with everything else.
    let mut tx = pool.begin().await.unwrap();
    sqlx::raw_sql("CREATE ROLE app; CREATE ROLE relay").execute(&mut *tx).await.unwrap();
    let grants = block(&read("README.md"), "sql", "GRANT");
    sqlx::raw_sql(sqlx::AssertSqlSafe(grants)).execute(&mut *tx).await.unwrap();
    sqlx::raw_sql("SET LOCAL ROLE app").execute(&mut *tx).await.unwrap();
    let event = JsonEvent::new("invoice.paid", 1, "invoice", "{}").aggregate_id("7");
    Outbox::new().publish_json(&mut tx, &event).await.unwrap();
    for once in [false, true] {
        let order = OrderPlaced { order_id: 7 };
        let answer = Outbox::new().publish_once(&mut tx, "place-order:7", &order).await.unwrap();
        assert_eq!(matches!(answer, Once::Repeated { .. }), once);
    }
    sqlx::raw_sql("SELECT outbox.publish('invoice.paid', '{}', 'invoice')").execute(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
}

#[test]
fn the_versions_in_the_readme_are_those_of_the_workspace() {
    let (readme, workspace) = (read("README.md"), read("Cargo.toml"));
    let rust =
        workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(readme.contains(&format!("Rust {rust} or newer")), "the README names another Rust than {rust}");
    let dependencies = block(&readme, "toml", "[dev-dependencies]");
    let sqlx = workspace.lines().find_map(|line| line.strip_prefix("sqlx = { version = ")).unwrap();
    let sqlx = sqlx.split(',').next().unwrap();
    assert!(
        dependencies.contains(&format!("sqlx = {{ version = {sqlx},")),
        "the README names another sqlx than {sqlx}"
    );
}

#[test]
fn examples_stay_short() {
    for name in ["publish", "relay_in_process", "webhook_receiver"] {
        let lines = read(&format!("examples/{name}.rs")).lines().count();
        assert!(lines < 80, "examples/{name}.rs has {lines} lines");
    }
}
