//! What people see.

use super::*;

#[test]
fn a_file_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let error = Config::load(folder.path().join("none.toml"), ENV).unwrap_err();
    assert!(matches!(&error, ConfigError::Read { path, .. } if path.ends_with("none.toml")));
    assert!(error.findings().is_empty());
    assert!(error.render(false).starts_with("error: the configuration file "), "{error}");
}

#[test]
fn no_secret_is_shown() {
    let url = "postgres://app:hunter2@h/db";
    for text in [
        format!("[database]\nurl = \"{url}\"\nx = 1"),
        format!("[database]\nurl = \"env:{url}\""),
        format!("database = {{ url = \"{url}\", x = 1 }}"),
        "[[consumer]]\nname = \"crm\"\nsecrets = [\"hunter2\"]".to_owned(),
        "[consumer.webhook]\nsecrets = [\"hunter2\", 1]".to_owned(),
        "[relay]\nwebhook_token = \"hunter2\"".to_owned(),
        "[[consumer]]\nname = \"whsec_hunter2!\"".to_owned(),
        "secrets = [\"hunter2]\n[".to_owned(),
        "password = \"hunter2".to_owned(),
    ] {
        let error = parse(&text).unwrap_err();
        for shown in [error.to_string(), error.render(true), format!("{error:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
    let config = parse(&format!("[database]\nurl = \"{url}\"")).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
}

#[test]
fn a_quoted_control_character_does_not_reach_the_terminal() {
    let error = parse("[[consumer]]\nname = \"a\\u001b[31m\"").unwrap_err();
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    assert!(!error.findings()[0].message().contains('\u{1b}'), "{error}");
}

#[test]
fn the_report_of_a_file() {
    let text = "\
# größe
relay = { leas = \"1s\", poll_min = \"2m\" }
[[consumer]]
name = \"crm\"
[[consumer]]
name = \"crm\"
";
    let expected = "\
error: unknown key `leas` in [relay]
 --> outbox.toml:2:11
  |
2 | relay = { leas = \"1s\", poll_min = \"2m\" }
  |           ^^^^
  |
  = help: did you mean `lease`?

error: `poll_min` is above `poll_max`
 --> outbox.toml:2:35
  |
2 | relay = { leas = \"1s\", poll_min = \"2m\" }
  |                                   ^^^^
  |
  = help: raise `poll_max` or lower `poll_min`; what is not written has its default

error: the consumer name `crm` is used twice
 --> outbox.toml:6:8
  |
4 | name = \"crm\"
  |        ----- first used here
5 | [[consumer]]
6 | name = \"crm\"
  |        ^^^^^
  |
  = help: give every consumer a name of its own

3 mistakes in the configuration outbox.toml";
    let error = parse(text).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.render(false), expected);
    assert!(error.render(true).contains("\u{1b}["));
}

#[test]
fn the_report_of_the_environment() {
    let error = with_env("[relay]\nname = \"x\"", &[("OUTBOX__RELAY__NAME__Y", "1"), ("OUTBOX__A__B", "2")]);
    let expected = "\
error: OUTBOX__A__B: unknown key `a` in the configuration
 |
 = help: remove it; the keys here are database, relay, registry, codegen, retention, consumer

error: OUTBOX__RELAY__NAME__Y: `name` has a value already, so no key below it can be set
 --> outbox.toml:2:8
  |
2 | name = \"x\"
  |        --- the value
  |
  = help: set either the whole value or the keys below it, not both

2 mistakes in the configuration outbox.toml";
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn the_report_of_a_syntax_error_and_of_something_missing() {
    let expected = "\
error: not valid TOML: unclosed table, expected `]`
 --> outbox.toml:1:7
  |
1 | [relay
  |       ^
  |
  = help: correct the TOML syntax; everything else is checked after that

1 mistake in the configuration outbox.toml";
    assert_eq!(parse("[relay").unwrap_err().to_string(), expected);

    let expected = "\
error: no database is configured
--> outbox.toml
 = help: add url = \"env:DATABASE_URL\" to [database], or give --database

1 mistake in the configuration outbox.toml";
    assert_eq!(parse("").unwrap().require_database().unwrap_err().to_string(), expected);
}
