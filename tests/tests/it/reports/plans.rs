//! No plan that the server may choose takes more rows than were asked for, or more work than the rows are worth.

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, Change, Claim, ClaimRequest, LaneRead, Read, Registration, ResetTo, Start,
};
use outbox_sdk::{Backend as _, Lane, Tables, Timestamp};
use outbox_tests::{PgTestDb, Proxy};
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use super::count;
use crate::databases::TestDb as _;
use crate::relay::World;

/// Every way in which the planner can be led astray, one at a time and all at once.
const ASTRAY: [&str; 8] =
    ["hashjoin", "mergejoin", "nestloop", "sort", "material", "indexscan", "bitmapscan", "seqscan"];

async fn run(conn: &mut PgConnection, sql: &str) {
    PgTestDb::execute(conn, sql).await.unwrap();
}

fn read(gaps: &[(i64, i64)], above: i64) -> Read<'_> {
    Read {
        gaps,
        above,
        limit: 10,
        max_bytes: 1 << 20,
        max_payload_bytes: 1 << 20,
        without_payloads: false,
        notices: false,
    }
}

fn lane_read(lane: &Lane) -> LaneRead<'_> {
    LaneRead {
        lane,
        from: 1,
        through: i64::MAX,
        limit: 10,
        max_bytes: 1 << 20,
        max_payload_bytes: 1 << 20,
        without_payloads: false,
    }
}

fn lane(n: usize) -> Lane {
    Lane::aggregate(None, "customer", &n.to_string())
}

/// Events of ten aggregates by turns, in one statement, and not a word to the planner.
async fn load(conn: &mut PgConnection, rows: usize) {
    let load = format!(
        "ALTER TABLE outbox.event SET (autovacuum_enabled = false);
         ALTER TABLE outbox.stall SET (autovacuum_enabled = false);
         INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload)
         SELECT 'customer.changed', 'customer', (n % 10)::text, '{{}}' FROM generate_series(1, {rows}) AS n"
    );
    run(conn, &load).await;
}

/// What each statement answers, under the settings of the connection.
async fn answers_are_exact(conn: &mut PgConnection, tables: &Tables, under: &str) {
    let gaps = [(3, 5), (8, 9), (100, 400)];
    let batch = Postgres::read(conn, tables, &read(&gaps, 500)).await.unwrap();
    let ids: Vec<i64> = batch.events.iter().map(|event| event.envelope.id).collect();
    assert_eq!(ids, [3, 4, 8, 100, 101, 102, 103, 104, 105, 106], "{under}");
    let batch = Postgres::read(conn, tables, &read(&[(3, 5)], 500)).await.unwrap();
    let ids: Vec<i64> = batch.events.iter().map(|event| event.envelope.id).collect();
    assert_eq!(ids, [3, 4, 501, 502, 503, 504, 505, 506, 507, 508], "{under}");
    let lane = lane(7);
    let page = Postgres::read_lane(conn, tables, &lane_read(&lane)).await.unwrap();
    let ids: Vec<i64> = page.events.iter().map(|event| event.envelope.id).collect();
    assert_eq!(ids, [7, 17, 27, 37, 47, 57, 67, 77, 87, 97], "{under}");
    let asked: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    let due = Postgres::due_stalls(conn, tables, "crm", &asked).await.unwrap();
    assert!(due.len() == 2 && due.iter().all(|stall| asked.contains(&stall.lane)), "{under}: {due:?}");
    let claim = ClaimRequest {
        consumer: "crm",
        slot: 0,
        slots: 1,
        owner: "relay",
        lease: Duration::ZERO,
        config: "{}",
    };
    let claimed = Postgres::claim(conn, tables, &claim).await.unwrap();
    assert!(
        matches!(&claimed, Claim::Claimed(claimed) if claimed.stalls.len() == 202),
        "{under}: {claimed:?}"
    );
    let owned = "SELECT count(*) FROM outbox.consumer WHERE owner IS NOT NULL";
    assert_eq!(PgTestDb::count(conn, owned).await, 1, "{under}: one slot was claimed");
}

#[tokio::test]
async fn no_plan_takes_more_rows_than_were_asked_for() {
    let world = World::<PgTestDb>::new().await;
    let tables = Tables::default();
    let mut conn = world.pool.acquire().await.unwrap();
    let consumers: Vec<_> = ["crm", "erp", "dwh"]
        .map(|name| Registration {
            name: name.to_owned(),
            slots: 1,
            start: None,
            config: "{}".to_owned(),
            required_for_retention: false,
        })
        .to_vec();
    Postgres::register(&mut conn, &tables, &consumers).await.unwrap();
    load(&mut conn, 5_000).await;
    let stalls = "INSERT INTO outbox.stall (consumer, lane, head_id, available_at)
        SELECT 'crm', lane, 1, now() FROM (SELECT 'a' UNION ALL SELECT 'b' UNION ALL
            SELECT 'other ' || n FROM generate_series(1, 200) AS n) AS lanes (lane)";
    run(&mut conn, stalls).await;
    // A plan against every cost would be compiled, which takes long and changes nothing.
    run(&mut conn, "SET jit = off").await;
    for analysed in [false, true] {
        if analysed {
            run(&mut conn, "ANALYZE outbox.event; ANALYZE outbox.stall; ANALYZE outbox.consumer").await;
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            run(&mut conn, &format!("SET plan_cache_mode = {mode}")).await;
            answers_are_exact(&mut conn, &tables, mode).await;
            for switch in ASTRAY {
                run(&mut conn, &format!("SET enable_{switch} = off")).await;
                answers_are_exact(&mut conn, &tables, &format!("{mode}, no {switch}, analysed: {analysed}"))
                    .await;
                run(&mut conn, &format!("RESET enable_{switch}")).await;
            }
            let all: Vec<_> = ASTRAY.iter().map(|switch| format!("SET enable_{switch} = off")).collect();
            run(&mut conn, &all.join("; ")).await;
            answers_are_exact(&mut conn, &tables, &format!("{mode}, nothing at all")).await;
            let all: Vec<_> = ASTRAY.iter().map(|switch| format!("RESET enable_{switch}")).collect();
            run(&mut conn, &all.join("; ")).await;
        }
    }
}

/// A statement as the relay sends it, found by words that no other one has.
fn statement(seen: &[String], words: &[&str]) -> String {
    let found = seen.iter().find(|sql| words.iter().all(|word| sql.contains(word)));
    found.unwrap_or_else(|| panic!("no statement with {words:?}")).clone()
}

/// Runs the statement with these values and judges its plan.
async fn plan_is_modest(conn: &mut PgConnection, name: &str, sql: &str, values: &str) {
    plan_touches(500, conn, name, sql, values).await;
}

/// The same, for as many blocks.
async fn plan_touches(blocks: u64, conn: &mut PgConnection, name: &str, sql: &str, values: &str) {
    run(conn, &format!("DEALLOCATE ALL; PREPARE asked AS {sql}")).await;
    for mode in ["force_custom_plan", "force_generic_plan"] {
        run(conn, &format!("SET plan_cache_mode = {mode}")).await;
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked ({values})");
        let mut plan = Value::Null;
        // The second run finds everything in memory.
        for _ in 0..2 {
            run(conn, "BEGIN").await;
            let text: sqlx::types::Json<Value> = sqlx::query_scalar(AssertSqlSafe(explain.clone()))
                .persistent(false)
                .fetch_one(&mut *conn)
                .await
                .unwrap();
            plan = text.0[0]["Plan"].clone();
            run(conn, "ROLLBACK").await;
        }
        let buffers = ["Shared Hit Blocks", "Shared Read Blocks"]
            .map(|key| plan[key].as_u64().unwrap())
            .iter()
            .sum::<u64>();
        assert!(buffers < blocks, "{name}, {mode}: {buffers} buffers in {plan:#}");
        let mut nodes = vec![&plan];
        while let Some(node) = nodes.pop() {
            if node["Actual Loops"].as_f64() == Some(0.0) {
                continue; // The way that was not taken.
            }
            let kind = node["Node Type"].as_str().unwrap();
            let relation = node["Relation Name"].as_str().unwrap_or_default();
            let large = ["event", "stall", "dead_letter"].contains(&relation);
            assert!(kind != "Seq Scan" || !large, "{name}, {mode}: reads all of {relation}: {plan:#}");
            let rows = node["Actual Rows"].as_f64().unwrap();
            assert!(!kind.contains("Sort") || rows <= 1_000.0, "{name}, {mode}: sorts {rows} rows: {plan:#}");
            let removed = node["Rows Removed by Filter"].as_f64().unwrap_or_default();
            assert!(removed <= 1_000.0, "{name}, {mode}: looks at {removed} rows in vain: {plan:#}");
            nodes.extend(node["Plans"].as_array().into_iter().flatten());
        }
    }
}

/// 50,000 events that are not due, and what is due among them.
#[tokio::test]
async fn a_backlog_that_is_not_due_costs_a_read_nothing() {
    const ROWS: i64 = 50_000;
    let world = World::<PgTestDb>::new().await;
    let tables = Tables::default();
    let proxy = Proxy::start(world.db.server_addr()).await;
    let mut through = super::pool_through(&world, &proxy, 1).await.acquire().await.unwrap();
    let consumer = Registration {
        name: "crm".to_owned(),
        slots: 1,
        start: None,
        config: "{}".to_owned(),
        required_for_retention: false,
    };
    Postgres::register(&mut through, &tables, &[consumer]).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    // Each aggregate has ten of them; each event waits alone, as after a read by the consumer.
    let backlog = format!(
        "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload, available_at)
         SELECT 'customer.changed', 'customer', (n % 5000)::text, '{{}}', now() + interval '1 day'
         FROM generate_series(1, {ROWS}) AS n;
         INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload)
         SELECT 'customer.changed', 'customer', (n % 10)::text, '{{}}' FROM generate_series(1, 100) AS n;
         INSERT INTO outbox.stall (consumer, lane, head_id, available_at, single)
         SELECT 'crm', '[' || id || ']', id, available_at, true FROM outbox.event WHERE available_at > created_at;
         ANALYZE outbox.event; ANALYZE outbox.stall"
    );
    run(&mut conn, &backlog).await;
    assert_eq!(count(&world, "SELECT count(*) FROM outbox.stall").await, ROWS);

    let lane = lane(7);
    Postgres::read(&mut through, &tables, &read(&[(3, 5)], ROWS)).await.unwrap();
    let page = Postgres::read_lane(&mut through, &tables, &lane_read(&lane)).await.unwrap();
    assert_eq!(page.events.len(), 10);
    Postgres::due_stalls(&mut through, &tables, "crm", &["[1]".to_owned()]).await.unwrap();
    let seen = proxy.statements();
    let read = statement(&seen, &["unnest($6::bigint[], $7::bigint[])"]);
    for notices in [false, true] {
        let values = format!("500, 8388608, 8388608, false, {ROWS}, '{{3,100}}', '{{5,200}}', {notices}");
        plan_is_modest(&mut conn, "read", &read, &values).await;
    }
    let lane = statement(&seen, &["aggregate_id = $9"]);
    plan_is_modest(&mut conn, "lane", &lane, "64, 8388608, 8388608, false, 1, 60000, NULL, 'customer', '7'")
        .await;
    let keys: Vec<_> = (1..=64).map(|n| format!("\"[{}]\"", n * 700)).collect();
    let due = statement(&seen, &["lane = ANY ($2)"]);
    plan_is_modest(&mut conn, "due stalls", &due, &format!("'crm', '{{{}}}'", keys.join(","))).await;
}

/// Blocked lanes and dead letters by the thousand, half of them discarded and attended to long ago, and two decisions that
/// are new. A relay asks for such twice a second.
#[tokio::test]
async fn notices_do_not_go_over_dead_letters() {
    const LETTERS: i64 = 20_000;
    let world = World::<PgTestDb>::new().await;
    let tables = Tables::default();
    let proxy = Proxy::start(world.db.server_addr()).await;
    let mut through = super::pool_through(&world, &proxy, 1).await.acquire().await.unwrap();
    let consumers = ["crm", "erp"].map(|name| Registration {
        name: name.to_owned(),
        slots: 1,
        start: None,
        config: "{}".to_owned(),
        required_for_retention: false,
    });
    Postgres::register(&mut through, &tables, &consumers).await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    load(&mut conn, 5_000).await;
    run(&mut conn, "ANALYZE outbox.event").await;
    let letters = format!(
        "INSERT INTO outbox.stall (consumer, lane, head_id, available_at, blocked)
         SELECT 'crm', '[null,\"customer\",\"' || n || '\"]', n, now(), true FROM generate_series(1, {LETTERS}) AS n;
         INSERT INTO outbox.dead_letter
             (consumer, event_id, reason, attempts, max_attempts, last_error, state, recorded)
         SELECT 'crm', n, 'rejected', 1, 1, 'no', CASE WHEN n > {LETTERS} THEN 'discarded' ELSE 'dead' END, n > {LETTERS}
         FROM generate_series(1, 2 * {LETTERS}) AS n"
    );
    run(&mut conn, &letters).await;
    let asked = Read { notices: true, ..read(&[], 5_000) };
    for analysed in [false, true] {
        if analysed {
            run(&mut conn, "VACUUM (ANALYZE) outbox.stall, outbox.dead_letter, outbox.consumer").await;
        }
        for discarded in [false, true] {
            let state = if discarded { "discarded" } else { "dead" };
            let decide = format!(
                "UPDATE outbox.dead_letter SET state = '{state}', recorded = false WHERE event_id IN (5, 50)"
            );
            run(&mut conn, &decide).await;
            let batch = Postgres::read(&mut through, &tables, &asked).await.unwrap();
            assert_eq!(batch.notices.replays.contains(&"crm".to_owned()), discarded);
            let heads = Postgres::discarded_heads(&mut through, &tables, "crm").await.unwrap();
            assert_eq!(heads.len(), if discarded { 2 } else { 0 });
            let seen = proxy.statements();
            let read = statement(&seen, &["unnest($6::bigint[], $7::bigint[])"]);
            plan_is_modest(&mut conn, "read", &read, "500, 8388608, 8388608, false, 5000, '{}', '{}', true")
                .await;
            let heads = statement(&seen, &["SELECT head.lane, head.head_id"]);
            plan_is_modest(&mut conn, "discarded heads", &heads, "'crm'").await;
        }
    }
}

/// 50,000 events of a week: where a new consumer begins is found along the primary key, from the front, or by the index on
/// the time, and what it skips comes out of the index alone.
#[tokio::test]
async fn where_a_consumer_begins_is_found_by_index() {
    const ROWS: i64 = 50_000;
    let world = World::<PgTestDb>::new().await;
    let tables = Tables::default();
    let proxy = Proxy::start(world.db.server_addr()).await;
    let mut through = super::pool_through(&world, &proxy, 1).await.acquire().await.unwrap();
    let mut conn = world.pool.acquire().await.unwrap();
    let week = format!(
        "INSERT INTO outbox.event (event_type, aggregate_type, aggregate_id, payload, created_at, available_at)
         SELECT 'customer.changed', 'customer', (n % 5000)::text, '{{}}', at, at
         FROM generate_series(1, {ROWS}) AS n, LATERAL (SELECT now() - ({ROWS} - n) * interval '12 seconds') AS time (at)"
    );
    run(&mut conn, &week).await;
    run(&mut conn, "VACUUM (ANALYZE) outbox.event").await;
    let consumer = Registration {
        name: "crm".to_owned(),
        slots: 1,
        start: Some(Start::Now),
        config: "{}".to_owned(),
        required_for_retention: false,
    };
    Postgres::register(&mut through, &tables, &[consumer]).await.unwrap();
    let skipped = "SELECT count(*) FROM outbox.consumer WHERE settled = int8multirange(int8range(1, 50001))";
    assert_eq!(count(&world, skipped).await, 1);
    let reset = Change::Reset(ResetTo::Time(Timestamp::from_micros(0)));
    Postgres::change(&mut through, &tables, "crm", &reset, false).await.unwrap();

    let seen = proxy.statements();
    let register = statement(&seen, &["generate_series(0, $5 - 1)"]);
    let reset = statement(&seen, &["FROM (SELECT $1::timestamptz AS at) AS since"]);
    for since in
        ["NULL", "now()", "now() - interval '10 minutes'", "now() + interval '1 day'", "'2020-01-01'"]
    {
        let values = format!("'erp', '{{}}', true, {since}, 1, false");
        // Once over the index, and over the table as far as that is not known to be visible.
        plan_touches(2_000, &mut conn, "register", &register, &values).await;
        plan_is_modest(&mut conn, "reset", &reset, since).await;
    }
}
