//! What a handler does with its transaction, and what counts as done, on every database.

use outbox_sdk::{Effect, HandlerError};

use super::{Obedient, World, event};
use crate::databases::{TestDb, on_every_database};

on_every_database! {
    what_a_handler_answers_decides
    an_error_that_was_swallowed_is_a_retry
    a_transaction_that_the_handler_ended_is_a_retry
    savepoints_of_a_handler_are_its_own_affair
}

async fn what_a_handler_answers_decides<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let inbox = world.inbox();
    for (what, expected) in [
        ("retry", "retry: not yet"),
        ("any error", "retry: out of range integral type conversion attempted"),
        ("reject", "rejected: never"),
        ("unavailable", "unavailable: the mail server is down"),
    ] {
        let event = event(what, "1", what);
        let error = inbox.handle(&Obedient::<T>::new(), &event).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!world.effects().await.contains(&what.to_owned()), "{what}: rolled back");
        let again = inbox.handle(&Obedient::<T>::calm(), &event).await.unwrap();
        assert_eq!(again, Effect::Done, "{what}: no row was left");
    }
}

async fn an_error_that_was_swallowed_is_a_retry<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    let event = event("a", "1", "doom");
    let error = world.inbox().handle(&Obedient::<T>::new(), &event).await.unwrap_err();
    assert!(
        matches!(error, HandlerError::Retry(_)) && error.to_string().contains("return its error"),
        "{error}"
    );
    assert_eq!(world.inbox().handle(&Obedient::<T>::calm(), &event).await.unwrap(), Effect::Done);
    assert_eq!(world.effects().await, ["a"]);
}

async fn a_transaction_that_the_handler_ended_is_a_retry<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    for (what, again) in [("rollback", Effect::Done), ("commit", Effect::AlreadyProcessed)] {
        let event = event(what, "1", what);
        let error = world.inbox().handle(&Obedient::<T>::new(), &event).await.unwrap_err();
        assert!(matches!(error, HandlerError::Retry(_)), "{what}: {error}");
        assert_eq!(world.inbox().handle(&Obedient::<T>::calm(), &event).await.unwrap(), again, "{what}");
    }
    assert_eq!(world.effects().await, ["commit", "rollback"], "each once");
}

async fn savepoints_of_a_handler_are_its_own_affair<T: TestDb + 'static>() {
    let world = World::<T>::new().await;
    for what in ["give up a savepoint", "recover in a savepoint", "keep a savepoint"] {
        let event = event(what, "1", what);
        for effect in [Effect::Done, Effect::AlreadyProcessed] {
            assert_eq!(world.inbox().handle(&Obedient::<T>::new(), &event).await.unwrap(), effect, "{what}");
        }
    }
    let effects = world.effects().await;
    assert_eq!(effects, ["give up a savepoint", "keep a savepoint", "part", "recover in a savepoint"]);
}
