//! Migrating: once, whoever begins, and never half.

use std::time::Duration;

use outbox_sdk::backend::Deduplicate as _;
use outbox_sdk::{Backend as _, MigrateError, Migrator, Tables};
use outbox_tests::PgTestDb;

use super::{Outbox, TestDb, event, everything};

super::on_every_database! {
    eight_starters_migrate_an_empty_database_once
    a_second_run_finds_nothing_to_do
    checking_lists_what_is_missing_and_writes_nothing
    the_inbox_set_stands_alone
    tables_of_a_newer_release_are_left_alone
    a_migration_with_another_text_is_noticed
    a_run_that_is_dropped_leaves_nothing_open
}

fn names(migrations: &[outbox_sdk::MigrationName]) -> Vec<String> {
    migrations.iter().map(ToString::to_string).collect()
}

async fn eight_starters_migrate_an_empty_database_once<T: TestDb + 'static>() {
    for _ in 0..5 {
        let db = T::create().await;
        let mut starters = tokio::task::JoinSet::new();
        for _ in 0..8 {
            // Each with a pool of its own, as processes have.
            let pool = db.connect();
            let pool = pool.await;
            starters.spawn(async move { Migrator::outbox().run(&pool).await.unwrap().applied.len() });
        }
        let applied: Vec<_> = starters.join_all().await;
        assert_eq!(applied.iter().sum::<usize>(), 1, "{applied:?}");
    }
}

async fn a_second_run_finds_nothing_to_do<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    assert_eq!(names(&Migrator::outbox().run(&pool).await.unwrap().applied), ["0001_outbox"]);
    assert!(Migrator::outbox().run(&pool).await.unwrap().applied.is_empty());
    drop((pool, db));
}

async fn checking_lists_what_is_missing_and_writes_nothing<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    for _ in 0..2 {
        assert_eq!(names(&Migrator::outbox().check(&pool).await.unwrap()), ["0001_outbox"]);
    }
    Migrator::outbox().run(&pool).await.unwrap();
    assert!(Migrator::outbox().check(&pool).await.unwrap().is_empty());
    assert_eq!(names(&Migrator::inbox().check(&pool).await.unwrap()), ["0001_inbox"]);
    drop((pool, db));
}

async fn the_inbox_set_stands_alone<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    assert_eq!(names(&Migrator::inbox().run(&pool).await.unwrap().applied), ["0001_inbox"]);
    let mut conn = pool.acquire().await.unwrap();
    let tables = Tables::default();
    assert!(T::Db::inbox_insert(&mut *conn, &tables, "crm", event("1").event_id, None).await.unwrap());
    T::Db::read(&mut *conn, &tables, &everything()).await.unwrap_err();
    drop(conn);
    assert_eq!(names(&Migrator::outbox().run(&pool).await.unwrap().applied), ["0001_outbox"], "beside it");
    drop((pool, db));
}

async fn tables_of_a_newer_release_are_left_alone<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let insert = format!(
        "INSERT INTO {0} (version, description, success, checksum, execution_time)
         SELECT 999, 'later', success, checksum, 0 FROM {0}",
        T::table("migrations")
    );
    outbox.execute(&insert).await;
    for result in [
        Migrator::outbox().run(&outbox.pool).await.map(|_| ()),
        Migrator::outbox().check(&outbox.pool).await.map(|_| ()),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, MigrateError::TooNew { version: 999 }), "{error}");
        assert!(error.to_string().contains("upgrade"), "{error}");
    }
}

async fn a_migration_with_another_text_is_noticed<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.execute(&format!("UPDATE {} SET checksum = {}", T::table("migrations"), T::BYTES)).await;
    let error = Migrator::outbox().run(&outbox.pool).await.unwrap_err();
    assert!(matches!(error, MigrateError::Changed { version: 1 }), "{error}");
}

async fn a_run_that_is_dropped_leaves_nothing_open<T: TestDb>() {
    let db = T::create().await;
    let pool = db.connect().await;
    for micros in (0..20_000).step_by(700) {
        // Whether it came to an end in time does not matter.
        let run = tokio::time::timeout(Duration::from_micros(micros), async {
            Migrator::outbox().run(&pool).await.unwrap();
        });
        let finished = run.await.is_ok();
        let mut conn = pool.acquire().await.unwrap();
        assert!(!T::Db::in_transaction(&mut *conn).await.unwrap());
        if finished {
            break;
        }
    }
    Migrator::outbox().run(&pool).await.unwrap();
    assert!(Migrator::outbox().check(&pool).await.unwrap().is_empty());
    drop((pool, db));
}

#[tokio::test]
async fn a_database_in_memory_is_migrated_too() {
    let pool =
        sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    Migrator::outbox().run(&pool).await.unwrap();
    assert!(Migrator::outbox().check(&pool).await.unwrap().is_empty());
    let mut tx = sqlx::Sqlite::begin_write(&pool).await.unwrap();
    sqlx::Sqlite::append(&mut tx, &Tables::default(), &event("1"), Default::default()).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn any_schema_name_that_postgres_can_hold_works() {
    let db = PgTestDb::new().await;
    let pool = db.pool().await;
    let long = "s".repeat(63);
    for name in [
        "AA_OUTBOX_EVENT",
        "my-schema",
        "select",
        "tränen",
        &long,
        "a\"b",
        "\"; drop table x; --",
        "a.b",
        "{schema}",
        "it's $$",
    ] {
        let tables = Tables::in_schema(name).unwrap();
        let applied = Migrator::outbox().tables(&tables).run(&pool).await;
        assert_eq!(applied.unwrap_or_else(|error| panic!("{name}: {error:?}")).applied.len(), 1, "{name}");
        Migrator::inbox().tables(&tables).run(&pool).await.unwrap();
        assert!(Migrator::outbox().tables(&tables).check(&pool).await.unwrap().is_empty(), "{name}");
        let mut tx = pool.begin().await.unwrap();
        sqlx::Postgres::append(&mut tx, &tables, &event("1"), Default::default()).await.unwrap();
        tx.commit().await.unwrap();
        let mut conn = pool.acquire().await.unwrap();
        let read = sqlx::Postgres::read(&mut conn, &tables, &everything()).await.unwrap();
        assert_eq!(read.events.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_role_without_rights_finds_migrated_tables() {
    let db = PgTestDb::new().await;
    let pool = db.pool().await;
    Migrator::outbox().run(&pool).await.unwrap();
    let mut conn = pool.acquire().await.unwrap();
    let role = format!("reader_{}", db.name());
    PgTestDb::execute(
        &mut conn,
        &format!("CREATE ROLE {role}; GRANT USAGE ON SCHEMA outbox TO {role}; GRANT SELECT ON outbox.migrations TO {role}"),
    )
    .await
    .unwrap();
    drop(conn);
    let as_role =
        sqlx::postgres::PgPoolOptions::new().connect_with(db.options().options([("role", role.as_str())]));
    let as_role = as_role.await.unwrap();
    assert!(Migrator::outbox().run(&as_role).await.unwrap().applied.is_empty());
    as_role.close().await;
    let mut conn = pool.acquire().await.unwrap();
    PgTestDb::execute(&mut conn, &format!("DROP OWNED BY {role}; DROP ROLE {role}")).await.unwrap();
}

#[test]
fn a_setting_is_two_words() {
    for good in ["app.tenant_id", "a.b", "_x1.y_2"] {
        assert!(Tables::default().tenant_setting(good).is_ok(), "{good}");
    }
    let long = format!("a.{}", "b".repeat(62));
    for bad in ["", "tenant", "a.b.c", ".a", "a.", "a b.c", "a.b'", "a.{schema}", "ä.b", "1a.b", &long] {
        let error = Tables::default().tenant_setting(bad).unwrap_err();
        assert!(error.to_string().contains("app.tenant_id"), "{error}");
    }
}
