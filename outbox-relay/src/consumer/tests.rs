//! What may be asked of a consumer, and what it stores.

use super::*;
use crate::retry::Schedule;

#[test]
fn names() {
    let longest = "a".repeat(63);
    for good in ["a", "crm", "crm-2_eu", longest.as_str()] {
        assert_eq!(good.parse::<ConsumerName>().map(|n| n.to_string()), Ok(good.to_owned()));
    }
    let too_long = "a".repeat(64);
    for bad in ["", "2crm", "-crm", "_crm", "Crm", "c.m", "c m", "crm\n", "çrm", too_long.as_str()] {
        assert_eq!(bad.parse::<ConsumerName>(), Err(SpecError::Name(bad.to_owned())));
    }
}

#[test]
fn a_filter_is_any_of_its_patterns() {
    let spec = ConsumerSpec::new("crm").unwrap().events(["order.placed", "entity.*"]).unwrap();
    assert_eq!(spec.wants("order.placed", 1), Want::Deliver);
    assert_eq!(spec.wants("entity.customer.updated", 7), Want::Deliver);
    assert_eq!(spec.wants("order.cancelled", 1), Want::Skip);
}

#[test]
fn generated_pins_are_all_that_is_read() {
    let reads = |pins| ConsumerSpec::new("crm").unwrap().reads(pins);
    let spec = reads(&[("order.placed", 2), ("order.paid", 1)]).unwrap();
    assert_eq!(spec.wants("order.placed", 2), Want::Deliver);
    assert_eq!(spec.wants("order.paid", 1), Want::Deliver);
    assert_ne!(spec.wants("order.placed", 1), Want::Deliver);
    assert_eq!(spec.wants("order.cancelled", 1), Want::Skip);
    assert_eq!(reads(&[]).unwrap_err(), SpecError::NoPatterns);
    let twice = reads(&[("order.placed", 1), ("order.paid", 1), ("order.placed", 2)]).unwrap_err();
    assert_eq!(twice, SpecError::PinnedTwice("order.placed".to_owned()));
    assert!(matches!(reads(&[("order.*", 1)]).unwrap_err(), SpecError::EventType(_)));
    assert!(matches!(reads(&[("order.placed", 0)]).unwrap_err(), SpecError::Major { .. }));
}

#[test]
fn a_pin_decides_by_major() {
    let spec = ConsumerSpec::new("crm").unwrap().events(["entity.*"]).unwrap();
    let spec = spec.pin("entity.created", 2).unwrap().pin("order.placed", 1).unwrap();
    assert_eq!(spec.wants("entity.created", 2), Want::Deliver);
    assert_eq!(spec.wants("entity.created", 1), Want::MajorMissing);
    assert_eq!(spec.wants("entity.updated", 9), Want::Deliver);
    assert_eq!(spec.wants("order.placed", 2), Want::Skip, "the filter comes before the pin");
    assert_eq!(spec.pinned("entity.created"), Some(2));
    assert_eq!(spec.pinned("entity.updated"), None);

    let spec = spec.other_majors(OtherMajors::Skip);
    assert_eq!(spec.wants("entity.created", 1), Want::Skip);
    assert_eq!(spec.wants("entity.created", 2), Want::Deliver);
}

#[test]
fn the_most_exact_retry_policy_wins() {
    let times = |max_attempts| RetryPolicy { schedule: Schedule::List(Vec::new()), max_attempts };
    let spec = ConsumerSpec::new("crm")
        .and_then(|spec| spec.retry(times(1)).override_retry("*", times(2)))
        .and_then(|spec| spec.override_retry("entity.*", times(3)))
        .and_then(|spec| spec.override_retry("entity.customer.*", times(4)))
        .and_then(|spec| spec.override_retry("entity.customer.updated", times(5)))
        .unwrap();
    let attempts = |event_type| spec.retry_for(event_type).max_attempts;
    assert_eq!(attempts("order.placed"), 2);
    assert_eq!(attempts("entity.created"), 3);
    assert_eq!(attempts("entity.customer.created"), 4);
    assert_eq!(attempts("entity.customer.updated"), 5);
    assert_eq!(ConsumerSpec::new("crm").unwrap().retry(times(1)).retry_for("order.placed").max_attempts, 1);
}

#[test]
fn the_most_exact_pattern_says_what_a_dead_letter_does() {
    let spec = ConsumerSpec::new("crm")
        .map(|spec| spec.on_dead(OnDead::Block))
        .and_then(|spec| spec.override_on_dead("entity.*", OnDead::Continue))
        .and_then(|spec| spec.override_on_dead("entity.customer.updated", OnDead::Block))
        .unwrap();
    assert_eq!(spec.on_dead_for("order.placed"), OnDead::Block);
    assert_eq!(spec.on_dead_for("entity.customer.created"), OnDead::Continue);
    assert_eq!(spec.on_dead_for("entity.customer.updated"), OnDead::Block);
}

#[test]
fn building_refuses_what_cannot_work() {
    let spec = || ConsumerSpec::new("crm").unwrap();
    assert_eq!(spec().events::<&str>([]).err(), Some(SpecError::NoPatterns));
    assert_eq!(spec().events(["order.placed", "x"]).err(), Some(SpecError::Pattern("x".to_owned())));
    assert_eq!(spec().pin("entity.*", 1).err(), Some(SpecError::EventType("entity.*".to_owned())));
    let no_major = SpecError::Major { event_type: "order.placed".to_owned(), major: 0 };
    assert_eq!(spec().pin("order.placed", 0).err(), Some(no_major));
    assert_eq!(spec().max_in_flight(0).err(), Some(SpecError::NoRoom));
    assert_eq!([0, 65].map(|n| spec().slots(n).err()), [0, 65].map(|n| Some(SpecError::Slots(n))));
    assert_eq!([1, 64].map(|n| spec().slots(n).unwrap().slots), [1, 64]);
    assert_eq!(spec().timeout(Duration::ZERO).err(), Some(SpecError::NoTime));
    assert_eq!(
        spec().override_retry("x", RetryPolicy::default()).err(),
        Some(SpecError::Pattern("x".to_owned()))
    );
    assert_eq!(spec().override_on_dead("x", OnDead::Block).err(), Some(SpecError::Pattern("x".to_owned())));
}

#[test]
fn the_stored_form() {
    let spec = ConsumerSpec::new("crm").unwrap().events(["entity.customer.*", "order.placed"]).unwrap();
    let spec = spec.pin("order.placed", 3).unwrap().ordering(Ordering::None).slots(5).unwrap();
    let spec = spec.override_on_dead("order.*", OnDead::Block).unwrap();
    assert_eq!(
        spec.stored(),
        serde_json::json!({
            "filter": ["entity.customer.*", "order.placed"],
            "pins": { "order.placed": 3 },
            "ordering": "none",
            "slots": 5,
            "on_dead": "continue",
            "on_dead_for": { "order.*": "block" },
        })
    );
    assert_eq!(
        ConsumerSpec::new("crm").unwrap().stored(),
        serde_json::json!({
            "filter": ["*"], "pins": {}, "ordering": "lane", "slots": 1, "on_dead": "continue", "on_dead_for": {},
        })
    );
}
