//! The environment laid over the file.

use super::*;

#[test]
fn the_environment_overrides_the_file() {
    let text = format!("{CRM}max_in_flight = 4\n{HOOK}[[consumer]]\nname = \"my-search\"\n");
    let config = with_env(
        &text,
        &[
            ("OUTBOX__DATABASE__URL", "sqlite:app.db"),
            ("OUTBOX__RELAY__READ_ROWS", "7"),
            ("OUTBOX__RELAY__lease", "1m"),
            ("OUTBOX__REGISTRY__PATH", "elsewhere"),
            ("OUTBOX__CONSUMER__CRM__MAX_IN_FLIGHT", "9"),
            ("OUTBOX__CONSUMER__CRM__EVENTS", "entity.*, order.placed"),
            ("OUTBOX__CONSUMER__CRM__PINS", "{ \"order.placed\" = 2 }"),
            ("OUTBOX__CONSUMER__CRM__RETRY__SCHEDULE", "[\"1s\", \"2s\"]"),
            ("OUTBOX__CONSUMER__CRM__RETRY__MAX_ATTEMPTS", "3"),
            ("OUTBOX__CONSUMER__CRM__WEBHOOK__URL", "http://127.0.0.1:9/"),
            ("OUTBOX__CONSUMER__CRM__WEBHOOK__ALLOW_PRIVATE_ADDRESSES", "true"),
            ("OUTBOX__CONSUMER__My_Search__ON_DEAD", "block"),
            ("OUTBOX__CONSUMER__MY_SEARCH__START", "2026-12-01T01:02:03Z"),
            ("OUTBOX_LOG", "debug"),
        ],
    )
    .unwrap();
    assert_eq!(config.require_database().unwrap().expose(), "sqlite:app.db");
    assert_eq!((config.relay.read_rows, config.relay.lease), (7, Duration::from_secs(60)));
    assert_eq!(config.registry.path, PathBuf::from("elsewhere"));
    let [crm, search] = config.consumers.as_slice() else { panic!("two consumers") };
    assert_eq!(crm.spec.max_in_flight, 9);
    assert_eq!(crm.spec.stored()["filter"], serde_json::json!(["entity.*", "order.placed"]));
    assert_eq!(crm.spec.pinned("order.placed"), Some(2));
    let schedule = Schedule::List(vec![Duration::from_secs(1), Duration::from_secs(2)]);
    assert_eq!(crm.spec.retry, RetryPolicy { schedule, max_attempts: 3 });
    let webhook = crm.webhook.as_ref().unwrap();
    assert_eq!((webhook.url.as_str(), webhook.allow_private_addresses), ("http://127.0.0.1:9/", true));
    assert_eq!(search.spec.on_dead, OnDead::Block);
    assert_eq!(search.spec.start, Some(Start::At(1_796_086_923_000_000)));
}

#[test]
fn the_environment_alone_is_a_configuration() {
    let config = Config::from_env([("OUTBOX__DATABASE__URL", "sqlite:app.db")]).unwrap();
    assert!(config.require_database().is_ok());
    assert_eq!(config.registry.path, PathBuf::from("schemas"));
    let error = config.require_consumers().unwrap_err();
    assert!(error.to_string().ends_with("1 mistake in the configuration of the environment"), "{error}");
    let missing =
        findings(Config::from_env::<&str, &str>([]).and_then(|c| c.require_database().map(|_| c.clone())));
    assert_eq!(
        missing,
        ["- no database is configured / add url = \"env:DATABASE_URL\" to [database], or give --database"]
    );
}

#[test]
fn every_rule_of_the_environment_has_its_finding() {
    let text = format!("{CRM}{HOOK}[[consumer]]\nname = \"a-b\"\n[[consumer]]\nname = \"a_b\"\n");
    for (name, value, expected) in [
        ("OUTBOX__RELEY__LEASE", "1s", "unknown key `reley` in the configuration / did you mean `relay`?"),
        ("OUTBOX__RELAY__LEESE", "1s", "unknown key `leese` in [relay] / did you mean `lease`?"),
        ("OUTBOX__RELAY", "1s", "`relay` must be a table, not a text / write a section [relay]"),
        (
            "OUTBOX__RELAY__LEASE",
            "soon",
            "`lease` is not a duration: `soon` does not begin with a whole number",
        ),
        (
            "OUTBOX__RELAY__READ_ROWS",
            "many",
            "`read_rows` is not a whole number / write a whole number from 1",
        ),
        (
            "OUTBOX__",
            "1",
            "unknown key `` in the configuration / remove it; the keys here are database, relay",
        ),
        (
            "OUTBOX__CONSUMER",
            "1",
            "the variable does not say which key of which consumer / name the consumer",
        ),
        ("OUTBOX__CONSUMER__CRM", "1", "the variable does not say which key of which consumer / name the"),
        ("OUTBOX__CONSUMER__CMR__TIMEOUT", "1s", "there is no consumer named `cmr` / did you mean `crm`?"),
        (
            "OUTBOX__CONSUMER__SALES__TIMEOUT",
            "1s",
            "there is no consumer named `sales` / add the consumer to",
        ),
        (
            "OUTBOX__CONSUMER__A_B__TIMEOUT",
            "1s",
            "the variable means both the consumer `a-b` and `a_b` / set",
        ),
        ("OUTBOX__CONSUMER__CRM__NAME", "x", "a consumer's name cannot be set from the environment / unset"),
        ("OUTBOX__CONSUMER__CRM__EVENTS", "[\"a.b\"", "`events` is not valid TOML: unclosed array"),
        ("OUTBOX__CONSUMER__CRM__EVENTS", "", "`events` is empty, so the consumer receives nothing / write"),
        ("OUTBOX__CONSUMER__CRM__EVENTS", "a.b, x", "an entry of `events` is not an event pattern: \"x\""),
        (
            "OUTBOX__CONSUMER__CRM__PINS",
            "{ \"a.b\" = 0 }",
            "the pin of `a.b` is out of range / write a whole",
        ),
        ("OUTBOX__CONSUMER__CRM__WEBHOOK__SECRETS", KEY, "an entry of `secrets` is a secret in plain sight"),
        (
            "OUTBOX__CONSUMER__CRM__WEBHOOK__ALLOW_PRIVATE_ADDRESSES",
            "1",
            "`allow_private_addresses` must be true",
        ),
    ] {
        let found = findings(with_env(&text, &[(name, value)]));
        let [finding] = found.as_slice() else { panic!("not one finding for {name}: {found:#?}") };
        let expected = format!("{name} {expected}");
        assert!(finding.starts_with(&expected), "\n found  {finding}\n wanted {expected}");
        assert!(!finding.contains("whsec_MD"), "{finding}");
    }
}

#[test]
fn a_value_and_a_key_below_it_exclude_each_other() {
    let variables =
        [("OUTBOX__CONSUMER__CRM__RETRY", "{}"), ("OUTBOX__CONSUMER__CRM__RETRY__MAX_ATTEMPTS", "3")];
    let found = findings(with_env(CRM, &variables));
    let expected = "OUTBOX__CONSUMER__CRM__RETRY__MAX_ATTEMPTS `retry` has a value already, so no key below it can be set \
                    / set either the whole value or the keys below it, not both";
    assert_eq!(found, [expected]);
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_no_text() {
    use std::os::unix::ffi::OsStringExt as _;
    let env = [(OsString::from("OUTBOX__RELAY__NAME"), OsString::from_vec(vec![0xff]))];
    let found = findings(Config::parse("outbox.toml", "", env));
    assert_eq!(found, ["OUTBOX__RELAY__NAME the value is not UTF-8 text / set the variable to plain text"]);
}
