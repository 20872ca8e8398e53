//! What operators and consumers see: due lanes, the inbox, consumers, dead letters.

use std::time::Duration;

use outbox_sdk::backend::{
    DeadReason, Deduplicate as _, Due, NewDeadLetter, Operate as _, Settlement, Stall, Start,
};
use outbox_sdk::{Backend, Migrator, Progress};
use uuid::Uuid;

use super::{LONG, Outbox, TestDb, renewal};

super::on_every_database! {
    due_stalls_are_those_asked_for
    the_inbox_takes_an_event_once
    consumers_are_listed_with_their_troubles
    dead_letters_come_newest_first
    an_event_can_die_again
}

fn stall(lane: &str, due: Duration) -> Stall {
    Stall {
        lane: lane.to_owned(),
        head_id: 1,
        attempts: 1,
        due: Due::In(due),
        blocked: false,
        single: false,
        schema_missing: false,
        last_error: None,
    }
}

fn dead(event_id: i64) -> NewDeadLetter {
    NewDeadLetter {
        event_id,
        reason: DeadReason::SchemaViolation,
        attempts: 1,
        max_attempts: 10,
        last_error: "/name is missing".to_owned(),
    }
}

async fn due_stalls_are_those_asked_for<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    let empty = Progress::new();
    let stalls = [stall("[1]", Duration::ZERO), stall("[2]", LONG), stall("[3]", Duration::ZERO)];
    outbox.settle_done(&Settlement { stalls: &stalls, ..renewal(&claimed.fence, &empty, &empty) }).await;
    let asked = ["[2]", "[1]", "[9]"].map(str::to_owned);
    let answer = T::Db::due_stalls(&mut *outbox.conn().await, &outbox.tables, "crm", &asked).await.unwrap();
    assert_eq!(answer.iter().map(|due| due.lane.as_str()).collect::<Vec<_>>(), ["[1]", "[2]"]);
    assert_eq!(answer[0].due_in, Duration::ZERO);
    assert!(answer[1].due_in <= LONG && answer[1].due_in > LONG / 2);
    let others = T::Db::due_stalls(&mut *outbox.conn().await, &outbox.tables, "other", &asked).await.unwrap();
    assert!(others.is_empty());
}

async fn the_inbox_takes_an_event_once<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    Migrator::inbox().run(&outbox.pool).await.unwrap();
    let (event, tables) = (Uuid::now_v7(), &outbox.tables);
    let mut tx = T::Db::begin_write(&outbox.pool).await.unwrap();
    assert!(T::Db::inbox_insert(&mut tx, tables, "crm", event).await.unwrap());
    assert!(!T::Db::inbox_insert(&mut tx, tables, "crm", event).await.unwrap());
    tx.rollback().await.unwrap();
    let mut conn = outbox.conn().await;
    assert!(
        T::Db::inbox_insert(&mut *conn, tables, "crm", event).await.unwrap(),
        "the first was rolled back"
    );
    assert!(!T::Db::inbox_insert(&mut *conn, tables, "crm", event).await.unwrap());
    assert!(T::Db::inbox_insert(&mut *conn, tables, "billing", event).await.unwrap());
    assert!(T::Db::inbox_insert(&mut *conn, tables, "crm", Uuid::now_v7()).await.unwrap());
}

async fn consumers_are_listed_with_their_troubles<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let claimed = outbox.claimed().await;
    outbox.register("billing", Some(Start::Earliest)).await;
    let (settled, empty) = (Progress::from_iter([1, 2, 5]), Progress::new());
    let (stalls, letters) = ([stall("[1]", LONG), stall("[2]", LONG)], [dead(5), dead(6), dead(7)]);
    let write = Settlement { stalls: &stalls, dead: &letters, ..renewal(&claimed.fence, &settled, &empty) };
    let fence = outbox.settle_done(&write).await;
    outbox
        .execute(&format!("UPDATE {} SET state = 'discarded' WHERE event_id = 6", T::table("dead_letter")))
        .await;
    let rows = T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| (row.name.as_str(), row.slot)).collect::<Vec<_>>(),
        [("billing", 0), ("crm", 0)]
    );
    let troubles: Vec<_> = rows.iter().map(|row| (row.stalled_lanes, row.dead_letters)).collect();
    assert_eq!(troubles, [(0, 0), (2, 2)]);
    assert_eq!((rows[0].owner.as_deref(), rows[1].owner.as_deref()), (None, Some("relay")));
    assert_eq!(rows[1].settled, settled);
    // A lease that is over names no owner.
    outbox.settle_done(&Settlement { lease: Duration::ZERO, ..renewal(&fence, &settled, &empty) }).await;
    outbox_tests::eventually("the lease is over", async || {
        let rows = T::Db::consumers(&mut *outbox.conn().await, &outbox.tables).await.unwrap();
        rows[1].owner.is_none()
    })
    .await;
}

async fn dead_letters_come_newest_first<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let empty = Progress::new();
    let mut fence = outbox.claimed().await.fence;
    for ids in [[3, 4], [1, 2]] {
        let letters = ids.map(dead);
        fence = outbox.settle_done(&Settlement { dead: &letters, ..renewal(&fence, &empty, &empty) }).await;
        // The next ones fail later, also where the clock stands still for a millisecond.
        let earlier = format!("UPDATE {} SET failed_at = failed_at - {}", T::table("dead_letter"), T::HOUR);
        outbox.execute(&earlier).await;
    }
    outbox.register("billing", Some(Start::Earliest)).await;
    let billing = outbox.claim("billing").await.fence;
    let letters = [dead(9)];
    let write = Settlement { consumer: "billing", dead: &letters, ..renewal(&billing, &empty, &empty) };
    outbox.settle_done(&write).await;

    let list = async |consumer, limit| {
        let rows =
            T::Db::dead_letters(&mut *outbox.conn().await, &outbox.tables, consumer, limit).await.unwrap();
        rows.iter().map(|row| row.event_id).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 100).await, [9, 2, 1, 4, 3]);
    assert_eq!(list(Some("crm"), 3).await, [2, 1, 4]);
    assert_eq!(list(Some("nobody"), 3).await, [] as [i64; 0]);
    let first =
        T::Db::dead_letters(&mut *outbox.conn().await, &outbox.tables, None, 1).await.unwrap().remove(0);
    assert_eq!(
        (first.consumer.as_str(), first.reason.as_str(), first.attempts),
        ("billing", "schema_violation", 1)
    );
    assert_eq!((first.last_error.as_str(), first.state.as_str()), ("/name is missing", "dead"));
}

async fn an_event_can_die_again<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let empty = Progress::new();
    let fence = outbox.claimed().await.fence;
    let fence = outbox.settle_done(&Settlement { dead: &[dead(1)], ..renewal(&fence, &empty, &empty) }).await;
    outbox.execute(&format!("UPDATE {} SET state = 'replay'", T::table("dead_letter"))).await;
    let again = [NewDeadLetter {
        reason: DeadReason::Attempts,
        attempts: 11,
        last_error: "500".to_owned(),
        ..dead(1)
    }];
    outbox.settle_done(&Settlement { dead: &again, ..renewal(&fence, &empty, &empty) }).await;
    let rows = T::Db::dead_letters(&mut *outbox.conn().await, &outbox.tables, None, 100).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].reason.as_str(), rows[0].attempts), ("attempts", 11));
    assert_eq!((rows[0].last_error.as_str(), rows[0].state.as_str()), ("500", "dead"));
}
