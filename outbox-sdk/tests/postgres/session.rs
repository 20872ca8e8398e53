use outbox_sdk::backend::{Administer as _, Fault, Registration, WriteOrder};
use outbox_sdk::{Backend, Tables};
use sqlx::{Connection, Postgres};

use crate::{Db, event, run};

#[tokio::test]
async fn an_open_transaction_is_noticed_however_it_was_begun() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    assert!(!Postgres::in_transaction(&mut conn).await.unwrap());
    let mut tx = conn.begin().await.unwrap();
    assert!(Postgres::in_transaction(&mut tx).await.unwrap());
    tx.rollback().await.unwrap();
    assert!(!Postgres::in_transaction(&mut conn).await.unwrap());
    run(&mut conn, "BEGIN").await;
    assert!(Postgres::in_transaction(&mut conn).await.unwrap());
    run(&mut conn, "SAVEPOINT mine").await;
    assert!(Postgres::in_transaction(&mut conn).await.unwrap());
    run(&mut conn, "ROLLBACK TO mine").await;
    sqlx::query("SELECT 1 / 0").execute(&mut conn).await.unwrap_err();
    assert!(Postgres::in_transaction(&mut conn).await.unwrap(), "failed, but open");
    run(&mut conn, "ROLLBACK").await;
    assert!(!Postgres::in_transaction(&mut conn).await.unwrap());
}

#[tokio::test]
async fn a_failed_transaction_is_noticed_before_its_commit() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    Postgres::ensure_usable(&mut conn).await.unwrap();
    let mut tx = conn.begin().await.unwrap();
    Postgres::append(&mut tx, &db.tables, &event("1"), WriteOrder::Aggregate).await.unwrap();
    Postgres::ensure_usable(&mut tx).await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    let error = Postgres::ensure_usable(&mut tx).await.unwrap_err();
    assert_eq!(Postgres::fault(&error), Fault::TransactionFailed);
    tx.commit().await.expect("the server answers ROLLBACK, which is why somebody must look before");
    assert_eq!(db.value::<i64>("SELECT count(*) FROM {s}.event").await, 0);
}

#[tokio::test]
async fn missing_tables_and_ended_sessions_are_told_apart() {
    let db = Db::new().await;
    let mut conn = db.connect().await;
    let elsewhere = Tables::in_schema("elsewhere").unwrap();
    let errors = [
        Postgres::append(&mut conn, &elsewhere, &event("1"), WriteOrder::Aggregate).await.unwrap_err(),
        Postgres::holders(&mut conn, &elsewhere).await.unwrap_err(),
        Postgres::register(&mut conn, &elsewhere, &[registration()]).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(Postgres::fault(&error), Fault::NotMigrated, "{error}");
    }
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut conn).await.unwrap();
    db.run(&format!("SELECT pg_terminate_backend({pid})")).await;
    let error = Postgres::ensure_usable(&mut conn).await.unwrap_err();
    assert_eq!(Postgres::fault(&error), Fault::Connection, "{error}");
}

fn registration() -> Registration {
    Registration {
        name: "crm".to_owned(),
        start: None,
        config: "{}".to_owned(),
        slots: 1,
        required_for_retention: false,
    }
}
