//! Dead letters that go again: what an owner asks for, and what it writes of them.

use outbox_sdk::backend::{
    DeadReason, DiscardedHead, Due, Fence, LetterFilter, NewDeadLetter, Operate as _, ReplayRead,
    ReplayRequest, ReplayResult, Settlement, Stall,
};
use outbox_sdk::{Backend, Lane, Progress, slot_of};
use std::time::Duration;

use super::{Outbox, TestDb, event, renewal};

super::on_every_database! {
    requests_come_by_id_and_in_pages
    a_slot_gets_the_requests_of_its_events
    a_delivered_replay_is_replayed
    a_failed_replay_is_dead_anew
    a_refused_replay_is_dead_as_before
    what_an_operator_has_decided_since_stands
    a_counted_attempt_is_dead_until_it_is_known
    a_counted_attempt_can_be_taken_back
    discarded_heads_are_those_of_blocked_lanes
}

fn dead(event_id: i64, attempts: u32, last_error: &str) -> NewDeadLetter {
    NewDeadLetter {
        event_id,
        reason: DeadReason::Attempts,
        attempts,
        max_attempts: 10,
        last_error: last_error.to_owned(),
    }
}

/// A consumer with the dead letters 1 to 5, each after ten attempts; 1, 3 and 5 are to go again.
struct Letters<T: TestDb> {
    outbox: Outbox<T>,
    fence: Fence,
}

/// State, attempts, error, acknowledged, recorded.
type Row = (String, u32, String, bool, bool);

impl<T: TestDb> Letters<T> {
    async fn new() -> Self {
        let outbox = Outbox::<T>::migrated().await;
        let claimed = outbox.claimed().await;
        let empty = Progress::new();
        let letters: Vec<_> = (1..=5).map(|id| dead(id, 10, "no")).collect();
        let settlement = Settlement { dead: &letters, ..renewal(&claimed.fence, &empty, &empty) };
        let fence = outbox.settle_done(&settlement).await;
        let table = T::table("dead_letter");
        let old = format!(
            "UPDATE {table} SET recorded = TRUE, acknowledged_at = failed_at, failed_at = failed_at - {}",
            T::HOUR
        );
        outbox.execute(&old).await;
        outbox.execute(&format!("UPDATE {table} SET state = 'replay' WHERE event_id IN (1, 3, 5)")).await;
        Self { outbox, fence }
    }

    async fn write(&mut self, result: ReplayResult) {
        let empty = Progress::new();
        let settlement = Settlement { replays: &[result], ..renewal(&self.fence, &empty, &empty) };
        self.fence = self.outbox.settle_done(&settlement).await;
    }

    async fn row(&self, event_id: i64) -> Row {
        let mut conn = self.outbox.conn().await;
        let all = T::Db::dead_letters(&mut conn, &self.outbox.tables, &LetterFilter::default(), None, 100)
            .await
            .unwrap();
        let letter = all.into_iter().find(|letter| letter.event_id == event_id).unwrap();
        let mut is = async |condition: &str| {
            let table = T::table("dead_letter");
            let sql = format!("SELECT count(*) FROM {table} WHERE event_id = {event_id} AND {condition}");
            T::count(&mut conn, &sql).await == 1
        };
        let acknowledged = is("acknowledged_at IS NOT NULL").await;
        (letter.state.to_string(), letter.attempts, letter.last_error, acknowledged, is("recorded").await)
    }

    /// Whether the letter failed after the others.
    async fn failed_anew(&self, event_id: i64) -> bool {
        let table = T::table("dead_letter");
        let sql = format!(
            "SELECT count(*) FROM {table} WHERE event_id = {event_id} AND failed_at > (SELECT max(failed_at) FROM \
             {table} WHERE event_id <> {event_id})"
        );
        T::count(&mut *self.outbox.conn().await, &sql).await == 1
    }
}

fn row(state: &str, attempts: u32, last_error: &str, acknowledged: bool, recorded: bool) -> Row {
    (state.to_owned(), attempts, last_error.to_owned(), acknowledged, recorded)
}

async fn requests_come_by_id_and_in_pages<T: TestDb>() {
    let letters = Letters::<T>::new().await;
    let asked = async |consumer, after, limit| {
        let mut conn = letters.outbox.conn().await;
        let read = ReplayRead { consumer, slot: 0, slots: 1, after, limit };
        let page = T::Db::replay_requests(&mut conn, &letters.outbox.tables, &read).await.unwrap();
        (page.requests, page.more)
    };
    let [one, three, five] = [1, 3, 5].map(|event_id| ReplayRequest { event_id, attempts: 10 });
    assert_eq!(asked("crm", 0, 2).await, (vec![one, three], Some(3)));
    assert_eq!(asked("crm", 3, 2).await, (vec![five], None));
    assert_eq!(asked("other", 0, 2).await, (vec![], None));
}

/// Each slot goes through the letters of all, and gets those of its own events.
async fn a_slot_gets_the_requests_of_its_events<T: TestDb>() {
    const SLOTS: u16 = 3;
    let outbox = Outbox::<T>::migrated().await;
    let names: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let published = outbox.append_all(&names.iter().map(|name| event(name)).collect::<Vec<_>>()).await;
    let gone = published[39].id + 1;
    let insert = format!(
        "INSERT INTO {} (consumer, event_id, reason, attempts, max_attempts, last_error, state) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {gone}) \
         SELECT 'crm', n, 'rejected', 1, 1, 'no', 'replay' FROM numbers",
        T::table("dead_letter")
    );
    outbox.execute(&insert).await;
    let mut found = Vec::new();
    for slot in 0..i32::from(SLOTS) {
        let mut after = 0;
        loop {
            let read = ReplayRead { consumer: "crm", slot, slots: SLOTS, after, limit: 4 };
            let page =
                T::Db::replay_requests(&mut *outbox.conn().await, &outbox.tables, &read).await.unwrap();
            assert!(page.requests.len() <= 4);
            for request in page.requests {
                assert!(request.event_id > after);
                found.push((request.event_id, slot));
            }
            let Some(more) = page.more else { break };
            after = more;
        }
    }
    found.sort_unstable();
    let of = |name: &String| slot_of(&Lane::aggregate(None, "customer", name), SLOTS);
    let mut expected: Vec<_> =
        published.iter().zip(&names).map(|(event, name)| (event.id, of(name))).collect();
    expected.push((gone, 0));
    assert_eq!(found, expected, "each letter once, and one without an event is slot 0's");
}

async fn a_delivered_replay_is_replayed<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    letters.write(ReplayResult::Delivered { event_id: 3, attempts: 11, counted: false }).await;
    assert_eq!(letters.row(3).await, row("replayed", 11, "no", true, false));
    assert_eq!(letters.row(1).await, row("replay", 10, "no", true, true));
    assert!(!letters.failed_anew(3).await);
}

async fn a_failed_replay_is_dead_anew<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    letters.write(ReplayResult::Failed { letter: dead(3, 11, "still no"), counted: None }).await;
    assert_eq!(letters.row(3).await, row("dead", 11, "still no", false, false));
    assert!(letters.failed_anew(3).await);
}

async fn a_refused_replay_is_dead_as_before<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    letters.write(ReplayResult::Refused { event_id: 3, error: "gone".to_owned() }).await;
    assert_eq!(letters.row(3).await, row("dead", 10, "gone", false, false));
}

async fn what_an_operator_has_decided_since_stands<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    let table = T::table("dead_letter");
    letters.outbox.execute(&format!("UPDATE {table} SET state = 'discarded' WHERE event_id = 3")).await;
    letters.write(ReplayResult::Delivered { event_id: 3, attempts: 11, counted: false }).await;
    assert_eq!(letters.row(3).await, row("discarded", 10, "no", true, true));
    letters.write(ReplayResult::Failed { letter: dead(2, 11, "still no"), counted: None }).await;
    assert_eq!(letters.row(2).await, row("dead", 10, "no", true, true), "nobody asked for it");
}

async fn a_counted_attempt_is_dead_until_it_is_known<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    for event_id in [1, 3] {
        letters.write(ReplayResult::Counted { event_id, attempts: 11 }).await;
    }
    let (state, attempts, error, ..) = letters.row(3).await;
    assert_eq!((state.as_str(), attempts), ("dead", 11));
    assert!(error.contains("the process ended"), "{error}");
    letters.write(ReplayResult::Delivered { event_id: 1, attempts: 11, counted: true }).await;
    assert_eq!(letters.row(1).await.0, "replayed");
    letters.write(ReplayResult::Failed { letter: dead(3, 11, "still no"), counted: Some(11) }).await;
    assert_eq!(letters.row(3).await, row("dead", 11, "still no", false, false));
    letters.write(ReplayResult::Delivered { event_id: 2, attempts: 11, counted: true }).await;
    assert_eq!(letters.row(2).await.0, "dead", "its attempt was never counted");
}

async fn a_counted_attempt_can_be_taken_back<T: TestDb>() {
    let mut letters = Letters::<T>::new().await;
    letters.write(ReplayResult::Counted { event_id: 3, attempts: 11 }).await;
    letters.write(ReplayResult::Recalled { event_id: 3, attempts: 10 }).await;
    let (state, attempts, ..) = letters.row(3).await;
    assert_eq!((state.as_str(), attempts), ("replay", 10));
}

async fn discarded_heads_are_those_of_blocked_lanes<T: TestDb>() {
    let letters = Letters::<T>::new().await;
    let stall = |lane: &str, head_id, blocked| Stall {
        lane: lane.to_owned(),
        head_id,
        attempts: 0,
        due: Due::In(Duration::ZERO),
        blocked,
        single: false,
        schema_missing: false,
        last_error: None,
    };
    let stalls = [stall("[1]", 1, true), stall("[2]", 2, true), stall("[4]", 4, false)];
    let empty = Progress::new();
    letters
        .outbox
        .settle_done(&Settlement { stalls: &stalls, ..renewal(&letters.fence, &empty, &empty) })
        .await;
    let table = T::table("dead_letter");
    letters
        .outbox
        .execute(&format!(
            "UPDATE {table} SET state = 'discarded', recorded = FALSE WHERE event_id IN (2, 4, 5)"
        ))
        .await;
    let mut conn = letters.outbox.conn().await;
    let heads = T::Db::discarded_heads(&mut conn, &letters.outbox.tables, "crm").await.unwrap();
    assert_eq!(heads, [DiscardedHead { lane: "[2]".to_owned(), head_id: 2 }]);
    assert_eq!(T::Db::discarded_heads(&mut conn, &letters.outbox.tables, "other").await.unwrap(), []);
}
