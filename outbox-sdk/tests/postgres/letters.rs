//! What a page of dead letters costs, by the server's own count of the rows that it fetched.

use outbox_sdk::Timestamp;
use outbox_sdk::backend::{LetterCursor, LetterFilter, LetterKey, LetterState, Operate as _};
use sqlx::{Connection, PgConnection, Postgres, Row};

use crate::{Db, run};

const LETTERS: i64 = 50_000;
const PAGE: u32 = 51;

/// Scans of the whole table, and rows fetched by an index, as far as the session has not reported them.
async fn cost(conn: &mut PgConnection) -> (i64, i64) {
    const COST: &str = "SELECT coalesce(sum(seq_scan), 0)::bigint, coalesce(sum(idx_tup_fetch), 0)::bigint \
                        FROM pg_stat_xact_user_tables WHERE relname = 'dead_letter'";
    let row = sqlx::query(COST).fetch_one(conn).await.unwrap();
    (row.get(0), row.get(1))
}

#[tokio::test]
async fn a_page_costs_the_same_however_many_letters_there_are() {
    let db = Db::new().await;
    // Ten of each moment, of two consumers; one in a thousand is not dead any more.
    db.run(&format!(
        "INSERT INTO {{s}}.dead_letter (consumer, event_id, reason, attempts, max_attempts, last_error, failed_at, state)
         SELECT CASE n % 2 WHEN 0 THEN 'billing' ELSE 'crm' END, n, 'attempts', 10, 10, '500',
                timestamptz '2026-01-01 00:00Z' + n / 10 * interval '1 second',
                CASE n % 1000 WHEN 0 THEN 'replayed' ELSE 'dead' END
         FROM generate_series(1, {LETTERS}) AS n"
    ))
    .await;
    db.run("ANALYZE {s}.dead_letter").await;
    let mut conn = db.connect().await;
    let moment = |seconds: i64| Timestamp::from_micros((1_767_225_600 + seconds) * 1_000_000);
    let middle = LetterCursor {
        failed_at: moment(LETTERS / 20),
        key: LetterKey { id: LETTERS / 2 + 5, consumer: "crm".to_owned() },
    };
    let all = LetterFilter::default();
    let dead = LetterFilter {
        consumer: Some("crm".to_owned()),
        state: Some(LetterState::Dead),
        reason: Some("attempts".to_owned()),
        ..all.clone()
    };
    for (filter, before) in [(&all, None), (&all, Some(&middle)), (&dead, None), (&dead, Some(&middle))] {
        // More often than it takes until a server would make one plan for every filter.
        for _ in 0..7 {
            run(&mut conn, "BEGIN").await;
            let begun = cost(&mut conn).await;
            let page = Postgres::dead_letters(&mut conn, &db.tables, filter, before, PAGE).await.unwrap();
            let ended = cost(&mut conn).await;
            let (scans, fetched) = (ended.0 - begun.0, ended.1 - begun.1);
            run(&mut conn, "ROLLBACK").await;
            assert_eq!(page.len(), 51);
            assert_eq!(scans, 0, "{filter:?}");
            assert!(fetched >= i64::from(PAGE), "the rows were counted: {fetched}");
            assert!(fetched <= 4 * i64::from(PAGE), "{fetched} rows for a page: {filter:?} {before:?}");
        }
    }
    for after in [None, Some(&middle.key)] {
        run(&mut conn, "BEGIN").await;
        let begun = cost(&mut conn).await;
        let keys = Postgres::dead_letter_keys(&mut conn, &db.tables, &all, after, PAGE).await.unwrap();
        let ended = cost(&mut conn).await;
        let (scans, fetched) = (ended.0 - begun.0, ended.1 - begun.1);
        run(&mut conn, "ROLLBACK").await;
        assert_eq!(keys.len(), 51);
        assert!(scans == 0 && fetched <= 2 * i64::from(PAGE), "{scans} scans, {fetched} rows");
    }
    conn.close().await.unwrap();
}
