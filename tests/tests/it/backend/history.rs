//! The attempt history: bounded, in order, and gone with its event.

use std::time::Duration;

use outbox_sdk::backend::{
    Administer as _, AttemptOutcome, AttemptRow, Change, Changed, History as _, NewAttempt,
};

use super::{Outbox, TestDb};

super::on_every_database! {
    attempts_are_remembered_in_their_order
    the_oldest_of_each_event_and_consumer_are_forgotten
    an_event_that_is_gone_gets_no_history
    a_history_goes_with_its_consumer
}

fn attempt(consumer: &str, event_id: i64, attempt: u32) -> NewAttempt {
    NewAttempt {
        event_id,
        consumer: consumer.to_owned(),
        attempt,
        replay: false,
        outcome: AttemptOutcome::Failed,
        status: None,
        error: Some(format!("error {attempt}")),
        ended_ago: Duration::ZERO,
        duration: Duration::from_micros(1_500),
    }
}

impl<T: TestDb> Outbox<T> {
    async fn note(&self, attempts: &[NewAttempt], keep: u32) {
        let mut conn = self.conn().await;
        <T::Db as outbox_sdk::backend::History>::note_attempts(&mut conn, &self.tables, attempts, keep)
            .await
            .unwrap();
    }

    async fn attempts(&self, event_id: i64) -> Vec<AttemptRow> {
        T::Db::attempts(&mut *self.conn().await, &self.tables, event_id).await.unwrap()
    }

    async fn numbers(&self, event_id: i64) -> Vec<(String, u32)> {
        self.attempts(event_id).await.into_iter().map(|row| (row.consumer, row.attempt)).collect()
    }
}

fn of(consumer: &str, numbers: impl IntoIterator<Item = u32>) -> Vec<(String, u32)> {
    numbers.into_iter().map(|number| (consumer.to_owned(), number)).collect()
}

async fn attempts_are_remembered_in_their_order<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let published = outbox.some_events(2).await;
    let (first, second) = (published[0].id, published[1].id);
    let answered = NewAttempt {
        replay: true,
        outcome: AttemptOutcome::Unavailable,
        status: Some(503),
        error: None,
        ended_ago: Duration::from_secs(60),
        ..attempt("crm", first, 2)
    };
    outbox.note(&[attempt("crm", first, 1), attempt("mail", second, 1), answered], 9).await;
    outbox.note(&[], 9).await;
    let rows = outbox.attempts(first).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let early = &rows[0];
    assert_eq!(
        (early.outcome.as_str(), early.status, early.error.as_deref(), early.replay, early.duration),
        ("failed", None, Some("error 1"), false, Duration::from_micros(1_500))
    );
    let late = &rows[1];
    assert_eq!(
        (late.outcome.as_str(), late.status, late.error.as_deref(), late.replay),
        ("unavailable", Some(503), None, true)
    );
    let apart = early.ended_at.micros() - late.ended_at.micros();
    assert!((60_000_000 - 1_000_000..60_000_000 + 1_000_000).contains(&apart), "{apart} us");
    assert_eq!(outbox.numbers(second).await, of("mail", [1]));
}

async fn the_oldest_of_each_event_and_consumer_are_forgotten<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let id = outbox.some_events(1).await[0].id;
    outbox.note(&[attempt("crm", id, 1), attempt("crm", id, 2), attempt("mail", id, 1)], 3).await;
    let more: Vec<_> = (3..=4).map(|number| attempt("crm", id, number)).collect();
    outbox.note(&more, 3).await;
    let expected = [of("crm", 2..=4), of("mail", [1])].concat();
    assert_eq!(outbox.numbers(id).await, expected);
    // More than are kept, at once.
    let many: Vec<_> = (5..=9).map(|number| attempt("crm", id, number)).collect();
    outbox.note(&many, 3).await;
    let expected = [of("crm", 7..=9), of("mail", [1])].concat();
    assert_eq!(outbox.numbers(id).await, expected);
}

async fn an_event_that_is_gone_gets_no_history<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    let id = outbox.some_events(1).await[0].id;
    outbox.note(&[attempt("crm", id + 1, 1), attempt("crm", id, 1)], 3).await;
    assert_eq!((outbox.numbers(id + 1).await, outbox.rows("delivery_attempt").await), (Vec::new(), 1));
}

async fn a_history_goes_with_its_consumer<T: TestDb>() {
    let outbox = Outbox::<T>::migrated().await;
    outbox.claimed().await;
    let id = outbox.some_events(1).await[0].id;
    outbox.note(&[attempt("crm", id, 1), attempt("mail", id, 1)], 3).await;
    for (name, change) in
        [("crm", Change::Rename { to: "sales" }), ("sales", Change::Remove { even_if_required: false })]
    {
        let changed = T::Db::change(&mut *outbox.conn().await, &outbox.tables, name, &change, true).await;
        assert!(matches!(changed.unwrap(), Changed::Done { .. }));
        let left = if name == "crm" { of("sales", [1]) } else { Vec::new() };
        assert_eq!(outbox.numbers(id).await, [of("mail", [1]), left].concat());
    }
}
