//! Many events in one transaction, on every database.

use outbox_sdk::{EarlierFailed, Effect, Envelope, HandlerError, Inbox};
use outbox_tests::PgTestDb;

use super::{Obedient, World, event};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    an_event_that_fails_undoes_no_other
    nothing_of_an_aggregate_passes_an_event_that_is_to_come_again
    the_same_event_twice_in_a_batch_has_one_effect
    a_handler_that_ends_the_transaction_spoils_only_its_own_event
    what_a_handler_commits_notes_no_event_behind_it
    an_empty_batch_is_nothing
}

/// In short: `done`, `before`, `earlier failed`, or the error.
async fn handled<T: TestDb + 'static>(
    inbox: &Inbox<T::Db>,
    handler: &Obedient<T>,
    events: &[Envelope],
) -> Vec<String> {
    let results = inbox.handle_all(handler, events).await.unwrap();
    let short = |result: Result<Effect, HandlerError>| match result {
        Ok(Effect::Done) => "done".to_owned(),
        Ok(Effect::AlreadyProcessed) => "before".to_owned(),
        Err(HandlerError::Retry(error)) if error.is::<EarlierFailed>() => "earlier failed".to_owned(),
        Err(error) => error.to_string(),
    };
    results.into_iter().map(short).collect()
}

async fn an_event_that_fails_undoes_no_other<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let inbox = world.inbox();
    let known = event("known", "0", "");
    inbox.handle(&Obedient::<T>::new(), &known).await.unwrap();
    let whats =
        ["", "retry", "", "reject", "unavailable", "keep a savepoint", "give up a savepoint", "doom", ""];
    let mut events: Vec<_> =
        whats.iter().enumerate().map(|(n, what)| event(&n.to_string(), &n.to_string(), what)).collect();
    events.push(known);
    let answers = handled(&inbox, &Obedient::<T>::new(), &events).await;
    let swallowed = answers[7].clone();
    assert!(swallowed.starts_with("retry: ") && swallowed.contains("return its error"), "{swallowed}");
    let down = "unavailable: the mail server is down";
    let expected = [
        "done",
        "retry: not yet",
        "done",
        "rejected: never",
        down,
        "done",
        "done",
        &swallowed,
        "done",
        "before",
    ];
    assert_eq!(answers, expected);
    assert_eq!(world.effects().await, ["0", "2", "5", "6", "8", "known", "part"]);

    let answers = handled(&inbox, &Obedient::<T>::calm(), &events).await;
    let expected =
        ["before", "done", "before", "done", "done", "before", "before", "done", "before", "before"];
    assert_eq!(answers, expected, "what failed left no row");
}

async fn nothing_of_an_aggregate_passes_an_event_that_is_to_come_again<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let mut events = [
        event("1", "a", "retry"),
        event("2", "b", "reject"),
        event("3", "a", ""),
        event("4", "b", ""),
        event("5", "c", ""),
        event("6", "a", ""),
    ];
    let answers = handled(&world.inbox(), &Obedient::<T>::new(), &events).await;
    let (failed, held) = ("retry: not yet", "earlier failed");
    assert_eq!(answers, [failed, "rejected: never", held, "done", "done", held]);
    assert_eq!(world.effects().await, ["4", "5"]);
    let answers = handled(&world.inbox(), &Obedient::<T>::calm(), &events).await;
    assert_eq!(answers, ["done", "done", "done", "before", "before", "done"]);

    // Also where they are handled one by one, since the transaction was spoiled.
    events = [
        ("1", "a", "retry"),
        ("2", "b", "rollback"),
        ("3", "a", ""),
        ("4", "b", ""),
        ("5", "c", ""),
        ("6", "c", ""),
    ]
    .map(|(name, aggregate, what)| event(name, aggregate, what));
    let answers = handled(&world.inbox(), &Obedient::<T>::new(), &events).await;
    assert_eq!((answers[0].as_str(), answers[2].as_str(), answers[3].as_str()), (failed, held, held));
    assert_eq!(answers[4..], ["done", "done"]);
}

async fn the_same_event_twice_in_a_batch_has_one_effect<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let (good, bad) = (event("good", "1", ""), event("bad", "2", "reject"));
    let events = [good.clone(), bad.clone(), good, bad];
    let answers = handled(&world.inbox(), &Obedient::<T>::new(), &events).await;
    assert_eq!(answers, ["done", "rejected: never", "before", "earlier failed"]);
    assert_eq!(world.effects().await, ["good"]);
}

async fn a_handler_that_ends_the_transaction_spoils_only_its_own_event<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let events = [event("1", "1", ""), event("2", "2", "rollback"), event("3", "3", "")];
    let answers = handled(&world.inbox(), &Obedient::<T>::new(), &events).await;
    assert!(answers[1].starts_with("retry: "), "{answers:?}");
    assert_eq!((answers[0].as_str(), answers[2].as_str()), ("done", "done"));
    assert_eq!(world.effects().await, ["1", "3"]);
    assert_eq!(handled(&world.inbox(), &Obedient::<T>::calm(), &events).await, ["before", "done", "before"]);
}

/// Whether the handler goes on, ignores what its commit came to, or ends there, as a process does.
async fn what_a_handler_commits_notes_no_event_behind_it<T: TestDb + 'static>() {
    for what in ["commit", "try to commit", "commit and fail", "commit and hang"] {
        let world = World::<T>::new().await;
        let events = [event("1", "1", ""), event("2", "2", what), event("3", "3", ""), event("4", "2", "")];
        let (inbox, handler) = (world.inbox(), Obedient::<T>::new());
        if what == "commit and hang" {
            tokio::select! {
                _ = inbox.handle_all(&handler, &events) => panic!("the handler hangs"),
                () = handler.hanging.notified() => {}
            }
        } else {
            let answers = handled(&inbox, &handler, &events).await;
            assert_eq!(
                (answers[0] != "earlier failed", answers[2].as_str()),
                (true, "done"),
                "{what}: {answers:?}"
            );
        }
        let answers = handled(&inbox, &Obedient::<T>::calm(), &events).await;
        assert!(
            answers.iter().all(|answer| ["done", "before"].contains(&answer.as_str())),
            "{what}: {answers:?}"
        );
        assert_eq!(world.effects().await, ["1", "2", "3", "4"], "{what}: each once");
    }
}

async fn an_empty_batch_is_nothing<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    assert_eq!(handled(&world.inbox(), &Obedient::<T>::new(), &[]).await, [""; 0]);
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_spoils_only_its_own_event() {
    let world = World::<PgTestDb>::new().await;
    let tables = "CREATE TABLE parent (id int PRIMARY KEY);
        CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(tables).execute(&world.pool).await.unwrap();
    let events = [event("1", "1", ""), event("2", "2", "break a deferred constraint"), event("3", "3", "")];
    let answers = handled(&world.inbox(), &Obedient::<PgTestDb>::new(), &events).await;
    assert!(answers[1].contains("23503"), "{answers:?}");
    assert_eq!((answers[0].as_str(), answers[2].as_str()), ("done", "done"));
    assert_eq!(world.effects().await, ["1", "3"]);
}
