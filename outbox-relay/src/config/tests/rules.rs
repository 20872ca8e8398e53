//! One finding for every rule about the file.

use super::*;

#[test]
fn every_rule_has_its_finding() {
    let crm = |lines: &str| format!("{CRM}{lines}");
    let hook = |url: &str, lines: &str| {
        format!("{CRM}[consumer.webhook]\nurl = \"{url}\"\nsecrets = [\"env:CRM_SECRET\"]\n{lines}")
    };
    let keys = |secrets: &str| {
        format!("{CRM}[consumer.webhook]\nurl = \"https://a.example/\"\nsecrets = {secrets}\n")
    };
    let code = |lines: &str| format!("[codegen]\npins = {{ \"a.done\" = 1 }}\n{lines}");
    let full = |line: &str| code(&format!("consumer = \"crm\"\noutput = \"a.rs\"\n{line}"));
    let good = "https://a.example/";
    for (text, expected) in [
        // Shape of the file.
        (
            "leese = 1".to_owned(),
            "1:1 unknown key `leese` in the configuration / remove it; the keys here are",
        ),
        ("[relya]".to_owned(), "1:2 unknown key `relya` in the configuration / did you mean `relay`?"),
        ("relay = 1".to_owned(), "1:9 `relay` must be a table, not an integer / write a section [relay]"),
        (
            "[consumer]\nname = \"crm\"".to_owned(),
            "1:1 `consumer` must be a list of tables, not a table / write [[con",
        ),
        (
            "consumer = [1]".to_owned(),
            "1:13 an entry of `consumer` must be a table, not an integer / write [[con",
        ),
        ("[relay]\nleese = \"3s\"".to_owned(), "2:1 unknown key `leese` in [relay] / did you mean `lease`?"),
        // Kinds and values.
        (
            "[relay]\nlease = 30".to_owned(),
            "2:9 `lease` must be a duration, not an integer / write a duration such",
        ),
        (
            "[relay]\nlease = \"30x\"".to_owned(),
            "2:9 `lease` is not a duration: the unit `x` is unknown / write",
        ),
        ("[relay]\nlease = \"0s\"".to_owned(), "2:9 `lease` must be longer than zero / write a duration"),
        (
            "[relay]\nread_rows = \"5\"".to_owned(),
            "2:13 `read_rows` must be an integer, not a string / write a whole",
        ),
        (
            "[relay]\nread_rows = 0".to_owned(),
            "2:13 `read_rows` is out of range / write a whole number from 1 to",
        ),
        ("[retention]\ndays = 0".to_owned(), "2:8 `days` is out of range / write a whole number from 1 to"),
        ("[retention]\ndays = -3".to_owned(), "2:8 `days` is out of range / write a whole number from 1 to"),
        ("[retention]\nday = 3".to_owned(), "2:1 unknown key `day` in [retention] / did you mean `days`?"),
        (
            "[retention.event_types]\n\"a.b\" = 0".to_owned(),
            "2:9 the time of `a.b` is out of range / write a whole number from 1 to",
        ),
        (
            "[retention.event_types]\n\"a*\" = 5".to_owned(),
            "2:1 `a*` is not an event pattern / write an event type",
        ),
        (
            format!("[relay]\nread_rows = {}", "9".repeat(50)),
            "2:13 `read_rows` is out of range / write a whole",
        ),
        (
            "[relay]\nread_bytes = -1".to_owned(),
            "2:14 `read_bytes` is not a number of bytes / write a number",
        ),
        ("[relay]\nread_bytes = 0".to_owned(), "2:14 `read_bytes` must not be 0 / write a number of bytes"),
        (
            "[relay]\nread_bytes = true".to_owned(),
            "2:14 `read_bytes` must be a size, not a boolean / write a",
        ),
        (
            "[relay]\nread_bytes = \"8 mb\"".to_owned(),
            "2:14 `read_bytes` is not a size: the unit `mb` is unknown",
        ),
        (
            "[relay]\nname = 1.5".to_owned(),
            "2:8 `name` must be a string, not a float / put the value into quotes",
        ),
        ("[relay]\nname = \"\"".to_owned(), "2:8 `name` is not a name / use 1 to 255 bytes"),
        ("[relay]\nsource = \"a b\"".to_owned(), "2:10 `source` is not a CloudEvents source / use a URI"),
        (
            "[registry]\nmissing = \"drop\"".to_owned(),
            "2:11 `missing` cannot be \"drop\" / write \"wait\" or \"deliver\"",
        ),
        (
            "[registry]\nmissing = 1".to_owned(),
            "2:11 `missing` must be a string, not an integer / write \"wait\"",
        ),
        (
            "[registry]\nundeclared = \"drop\"".to_owned(),
            "2:14 `undeclared` cannot be \"drop\" / write \"count\" or \"refuse\"",
        ),
        ("[registry]\nmissing_after = \"0s\"".to_owned(), "2:17 `missing_after` must be longer than zero"),
        ("[registry]\npath = \"\"".to_owned(), "2:8 `path` is empty / name the folder"),
        (
            "[registry]\nbase_url = \"schemas\"".to_owned(),
            "2:12 `base_url` is not an http or https URL / use",
        ),
        ("[database]\nschema = \"pg_x\"".to_owned(), "2:10 `schema` is not a schema name / use 1 to 63"),
        (
            "[database]\nurl = \"mysql://h\"".to_owned(),
            "2:7 `url` is not the address of a PostgreSQL or SQLite",
        ),
        (
            "[database]\nurl = \"env:NONE\"".to_owned(),
            "2:7 `url` cannot be resolved: the environment variable `NONE`",
        ),
        (
            "[database]\nurl = \"file:none\"".to_owned(),
            "2:7 `url` cannot be resolved: the file `none` cannot be read",
        ),
        // Consumers.
        ("[[consumer]]".to_owned(), "1:1 `name` is missing in [[consumer]] / write name = "),
        ("[[consumer]]\nname = \"2\"".to_owned(), "2:8 `name` is not a consumer name: \"2\" / write name = "),
        (
            crm("events = []"),
            "3:10 `events` is empty, so the consumer receives nothing / write an event type",
        ),
        (crm("events = \"*\""), "3:10 `events` must be a list, not a string / write a list"),
        (
            crm("events = [\"*\", \"a\"]"),
            "3:16 an entry of `events` is not an event pattern: \"a\" / write an event",
        ),
        (crm("pins = { x = 1 }"), "3:10 `x` is not an event type / write one event type"),
        (crm("pins = { \"a.*\" = 1 }"), "3:10 `a.*` is not an event type / write one event type"),
        (crm("pins = { \"a.b\" = 0 }"), "3:18 the pin of `a.b` is out of range / write a whole number"),
        (
            crm("events = [\"a.c\"]\npins = { \"a.b\" = 1 }"),
            "4:10 `a.b` is pinned, but `events` does not cover it",
        ),
        (crm("max_in_flight = 0"), "3:17 `max_in_flight` is out of range / write a whole number"),
        (crm("slots = 65"), "3:9 `slots` is out of range / write a whole number from 1 to 64"),
        (crm("ordering = \"global\""), "3:12 `ordering` cannot be \"global\" / write \"lane\" or \"none\""),
        (crm("on_dead = \"stop\""), "3:11 `on_dead` cannot be \"stop\" / write \"continue\" or \"block\""),
        (crm("other_majors = \"x\""), "3:16 `other_majors` cannot be \"x\" / write \"dead\" or \"skip\""),
        (
            crm("start = \"later\""),
            "3:9 `start` is not a beginning: `later` is not a time / write \"earliest\"",
        ),
        (crm("start = 2026-01-01"), "3:9 `start` is not a beginning: `2026-01-01` is not a time / write"),
        (
            crm("start = 2026-01-01T00:00:00"),
            "3:9 `start` is not a beginning: the time `2026-01-01T00:00:00` has no",
        ),
        (crm("start = 5"), "3:9 `start` must be a string, not an integer / write \"earliest\""),
        (
            crm("timeout = \"26s\""),
            "3:11 `timeout` (26s) is too long for the relay's `lease` (30s) / set `timeout` to",
        ),
        // Retry.
        (crm("retry = {}\nretry.x = 1"), "4:1 not valid TOML: "),
        (
            crm("retry = { attempts = 1 }"),
            "3:11 unknown key `attempts` in [consumer.retry] / remove it; the keys",
        ),
        (crm("retry = { schedule = [] }"), "3:22 `schedule` is empty / write at least one duration"),
        (
            crm("retry = { schedule = [\"0s\"] }"),
            "3:23 an entry of `schedule` must be longer than zero / write",
        ),
        (crm("retry = { base = \"1s\" }"), "3:9 `cap` is missing in [consumer.retry] / write base"),
        (crm("retry = { cap = \"1s\" }"), "3:9 `base` is missing in [consumer.retry] / write base"),
        (
            crm("retry = { base = \"2s\", cap = \"1s\" }"),
            "3:18 `base` is above `cap` / raise `cap` or lower `base`",
        ),
        (
            crm("retry = { schedule = [\"1s\"], base = \"2s\" }"),
            "3:22 `schedule` excludes `base` and `cap` / write base",
        ),
        (
            crm("retry = { max_attempts = 0 }"),
            "3:26 `max_attempts` is out of range / write a whole number from 1",
        ),
        (
            crm("on_dead_for = { x = \"block\" }"),
            "3:17 `x` is not an event pattern / write an event type such as",
        ),
        (
            crm("on_dead_for = { \"order.placed\" = \"stop\" }"),
            "3:34 `on_dead_for` of `order.placed` cannot be \"stop\" / write \"continue\" or \"block\"",
        ),
        (crm("[consumer.retry_for.x]"), "3:21 `x` is not an event pattern / write an event type such as"),
        (
            crm("retry_for = { \"a.b\" = 3 }"),
            "3:23 the policy of `a.b` must be a table, not an integer / write a",
        ),
        // Webhooks.
        (
            crm("[consumer.webhook]\nsecrets = [\"env:CRM_SECRET\"]"),
            "3:1 `url` is missing in [consumer.webhook] / add",
        ),
        (
            crm("[consumer.webhook]\nurl = \"https://a.example/\""),
            "3:1 `secrets` is missing in [consumer.webhook] / add",
        ),
        (keys("[]"), "5:11 `secrets` is empty, so requests could not be signed / add secrets"),
        (
            keys(&format!("[\"{KEY}\"]")),
            "5:12 an entry of `secrets` is a secret in plain sight / write \"env:NAME\"",
        ),
        (
            keys("[\"env:NONE\"]"),
            "5:12 an entry of `secrets` cannot be resolved: the environment variable `NONE` is",
        ),
        (
            keys("[\"env:NO_KEY\"]"),
            "5:12 an entry of `secrets` names a value that is not a signing secret / a webhook",
        ),
        (hook("a.example", ""), "4:7 `url` is not a URL: relative URL without a base / write the receiver's"),
        (
            crm("rate_limit = \"5/d\"\n"),
            "3:14 `rate_limit` is not a rate: \"5/d\" / write a number and a unit",
        ),
        (
            hook(good, "allow_networks = [\"10.0.0.1/8\"]"),
            "6:19 an entry of `allow_networks` is not a network: the address has bits behind its prefix: write the network as \
             `10.0.0.0/8`",
        ),
        (
            hook(good, "headers = { content-type = \"a/b\" }"),
            "6:13 the header `content-type` cannot be set / the relay sets it; choose another name",
        ),
        (
            hook(good, "headers = { webhook-id = \"1\" }"),
            "6:13 the header `webhook-id` cannot be set / the relay sets it",
        ),
        (
            hook(good, "headers = { Connection = \"close\" }"),
            "6:13 the header `Connection` cannot be set / it is about the connection",
        ),
        (
            hook(good, "headers = { \"a b\" = \"1\" }"),
            "6:13 the header `a b` is not the name of a header / write a name of letters",
        ),
        (
            hook(good, "headers = { X-A = \"1\\r\\nX-B: 2\" }"),
            "6:19 the header `X-A` has a value that no header can have / write one line",
        ),
        (
            hook(good, "headers = { Authorization = \"Bearer x\" }"),
            "6:29 the header `Authorization` is a secret in plain sight / write \"env:NAME\"",
        ),
        (
            hook(good, "headers = { X-Api-Key = \"env:NONE\" }"),
            "6:25 the header `X-Api-Key` cannot be resolved: the environment variable `NONE` is not set / set the",
        ),
        (
            hook(good, "ca_file = \"none.pem\""),
            "6:11 `ca_file` cannot be read: entity not found / write the path of a PEM file",
        ),
        (
            hook(good, "client_key_file = \"/dev/null\""),
            "6:19 `client_certificate_file` is missing: a certificate and its key belong together / add client_certificate_file",
        ),
        (
            hook("http://a.example/", "allow_private_addresses = true\nca_file = \"/dev/null\""),
            "7:11 `url` is plain http, which knows no certificates / use https, or leave the file out",
        ),
        (hook("ftp://a.example/", ""), "4:7 `url` has the scheme `ftp` / use https"),
        (hook("https://u:p@a.example/", ""), "4:7 `url` contains a user or password / remove it"),
        (
            hook("http://a.example/", ""),
            "4:7 `url` is plain http, so events would travel readable for all / use https",
        ),
        (
            hook(good, "connect_timeout = \"16s\""),
            "6:19 `connect_timeout` (16s) is not below `timeout` (15s) / lower it",
        ),
        (
            hook(good, "format = \"xml\""),
            "6:10 `format` cannot be \"xml\" / write \"cloudevents\" or \"cloudevents-binary\" or \"plain\"",
        ),
        (
            hook(good, "allow_private_addresses = \"yes\""),
            "6:27 `allow_private_addresses` must be true or false, not a string / write true",
        ),
        (
            format!("[[consumer]]\nname = \"crm\"\ntimeout = \"10s\"\n{HOOK}timeout = \"11s\""),
            "7:11 `timeout` of the webhook (11s) is above `timeout` of its consumer (10s) / lower this one",
        ),
        // Between keys.
        (
            format!("{CRM}{CRM}"),
            "4:8 the consumer name `crm` is used twice / give every consumer a name of its own",
        ),
        (
            "[relay]\npoll_min = \"2s\"".to_owned(),
            "2:12 `poll_min` is above `poll_max` / raise `poll_max` or lower",
        ),
        (
            "[relay]\npoll_max = \"1ms\"".to_owned(),
            "2:12 `poll_min` is above `poll_max` / raise `poll_max` or lower",
        ),
        (
            "[relay]\nwindow_rows = 10".to_owned(),
            "2:15 `read_rows` is above `window_rows` / raise `window_rows`",
        ),
        ("[relay]\nread_bytes = \"1 GiB\"".to_owned(), "2:14 `read_bytes` is above `window_bytes` / raise"),
        // Code for a consumer.
        (
            "[codegen]\nconsumer = \"crm\"\noutput = \"a.rs\"".to_owned(),
            "1:1 `pins` is missing in [codegen] / pin each",
        ),
        (code("output = \"a.rs\""), "1:1 `consumer` is missing in [codegen] / write name"),
        (code("consumer = \"crm\""), "1:1 `output` is missing in [codegen] / name the file"),
        (code("output = \"\"\nconsumer = \"crm\""), "3:10 `output` is empty / name the file"),
        (code("output = \"a.rs\"\nconsumer = \"Crm\""), "4:12 `consumer` is not a consumer name"),
        (full("language = \"go\""), "5:12 `language` cannot be \"go\" / write \"rust\" or \"ts\""),
        (full("database = \"mysql\""), "5:12 `database` cannot be \"mysql\" / write \"postgres\" or"),
        (full("time = \"jiff\""), "5:8 `time` cannot be \"jiff\" / write \"text\" or \"chrono\""),
        (full("decimal = 1"), "5:11 `decimal` must be a string, not an integer / write \"text\" or"),
        (full("serialise = true"), "5:1 unknown key `serialise` in [codegen] / did you mean `serialize`?"),
        (full("types = { \"a.done/v1#\" = 1 }"), "5:26 the type for `a.done/v1#` must be a string, not an"),
        (
            "[codegen]\nconsumer = \"crm\"\noutput = \"a.rs\"\npins = { \"a.*\" = 1 }".to_owned(),
            "4:10 `a.*` is not an event type / write one event type",
        ),
        (
            "[codegen]\nconsumer = \"crm\"\noutput = \"a.rs\"\npins = { \"a.done\" = 0 }".to_owned(),
            "4:21 the pin of `a.done` is out of range / write a whole number",
        ),
    ] {
        let found = findings(parse(&text));
        let [finding] = found.as_slice() else { panic!("not one finding for {text:?}: {found:#?}") };
        assert!(finding.starts_with(expected), "{text:?}\n found  {finding}\n wanted {expected}");
    }
}

#[test]
fn time_limits_without_a_value_stay_below_those_with_one() {
    let short = parse(&format!("[relay]\nlease = \"3s\"\n{CRM}timeout = \"2s\"\n{HOOK}")).unwrap();
    let webhook = short.consumers[0].webhook.as_ref().unwrap();
    assert_eq!((webhook.timeout, webhook.connect_timeout), (Duration::from_secs(2), Duration::from_secs(1)));

    let found = findings(parse(&format!("[relay]\nlease = \"10s\"\n{CRM}{HOOK}")));
    let expected = "3:1 `timeout` (25s) is too long for the relay's `lease` (10s) / \
                    set `timeout` to at most 8s (five sixths of the lease), or raise `lease` in [relay]";
    assert_eq!(found, [expected]);
}

#[test]
fn a_database_call_may_take_a_third_of_the_lease_at_most() {
    let with =
        |lease: &str, deadline: &str| parse(&format!("[relay]\n{lease}[database]\n{deadline}{CRM}{HOOK}"));
    let deadline = |config: Config| config.database.deadline;
    let seconds = Duration::from_secs;
    assert_eq!(deadline(with("", "").unwrap()), seconds(4));
    assert_eq!(deadline(with("lease = \"60s\"\n", "deadline = \"20s\"\n").unwrap()), seconds(20));
    let short = "[relay]\nlease = \"6s\"\n[[consumer]]\nname = \"crm\"\ntimeout = \"2s\"\n";
    assert_eq!(deadline(parse(&format!("{short}{HOOK}")).unwrap()), seconds(2), "the default follows");

    let found = findings(with("lease = \"60s\"\n", "deadline = \"21s\"\n"));
    let expected = "4:12 `deadline` (21s) is above a third of the relay's `lease` / \
                    set `deadline` to at most 20s, or raise `lease` in [relay]";
    assert_eq!(found, [expected]);
    let found = findings(with("", "deadline = \"11s\"\n"));
    assert!(found[0].starts_with("3:12 `deadline` (11s) is above a third"), "{found:#?}");
    assert_eq!(findings(with("lease = \"x\"\n", "deadline = \"21s\"\n")).len(), 1, "only the lease is wrong");
}

#[test]
fn nobody_listens_through_a_pooler() {
    let found = findings(parse(&format!("[database]\npooled = true\n[relay]\nlisten = true\n{CRM}{HOOK}")));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].starts_with("4:") && found[0].contains("`listen` needs a session of its own"),
        "{found:#?}"
    );
    assert!(parse(&format!("[database]\npooled = true\n{CRM}{HOOK}")).unwrap().database.pooled);
}

#[test]
fn a_refused_value_starts_no_further_findings() {
    // With the defaults in place of what is refused, the rules between keys would be broken three times.
    let relay = "[relay]\nlease = \"x\"\npoll_min = \"x\"\npoll_max = \"1ms\"\n";
    let consumer = "timeout = \"28s\"\nevents = [1]\npins = { \"a.b\" = 1 }\n";
    let found = findings(parse(&format!("{relay}{CRM}{consumer}{HOOK}")));
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn all_mistakes_of_a_file_are_reported_in_its_order() {
    let text = r#"
relay = { leas = "1s", poll_min = "2m" }
[database]
url = "mysql://root:hunter2@h/"
[[consumer]]
name = "C R M"
events = ["a.b", "A.b", 3]
retry = { schedule = ["1 m"], max_attempts = "3" }
[consumer.webhook]
url = "crm"
secrets = ["hunter2", "env:NONE"]
[[consumers]]
"#;
    let places: Vec<_> = parse(text).unwrap_err().findings().iter().filter_map(Finding::location).collect();
    let expected = [
        (2, 11),
        (2, 35),
        (4, 7),
        (6, 8),
        (7, 18),
        (7, 25),
        (8, 23),
        (8, 46),
        (10, 7),
        (11, 12),
        (11, 23),
        (12, 3),
    ];
    assert_eq!(places, expected);
    let report = parse(text).unwrap_err().to_string();
    assert!(!report.contains("hunter2"), "{report}");
    assert!(report.ends_with("12 mistakes in the configuration outbox.toml"), "{report}");
}

#[test]
fn syntax_errors_come_in_the_same_form_and_all_at_once() {
    let text = "a = \n[relay]\nlease = \"1s\"\nlease = \"2s\"\n";
    let found = findings(parse(text));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("1:5 not valid TOML: "), "{found:#?}");
    assert!(found[1].starts_with("4:1 not valid TOML: duplicate key / correct"), "{found:#?}");
}

#[test]
fn the_code_of_a_consumer_is_configured() {
    use outbox_schema::codegen::{Database, Decimal, Options, Time};

    assert!(parse("").unwrap().codegen.is_none());
    let refused = parse("").unwrap().require_codegen().unwrap_err();
    assert!(refused.to_string().contains("[codegen]") || !refused.findings().is_empty());
    let lines =
        "consumer = \"crm\"\noutput = \"src/events.rs\"\n[codegen.pins]\n\"entity.customer.updated\" = 2\n";
    let config = Config::parse("etc/outbox.toml", &format!("[codegen]\n{lines}"), ENV).unwrap();
    let codegen = config.require_codegen().unwrap();
    assert_eq!(codegen.options, Options::new("crm").pin("entity.customer.updated", 2));
    assert_eq!(
        (codegen.output.as_path(), codegen.language),
        (Path::new("etc/src/events.rs"), Language::Rust)
    );

    let settings = "database = \"sqlite\"\ntime = \"chrono\"\ndecimal = \"rust_decimal\"\nserialize = true\nlanguage = \"ts\"\n\
                    types = { \"a.done/v1#/properties/x\" = \"crate::X\" }\n";
    let config = parse(&format!("[codegen]\n{settings}{lines}")).unwrap();
    let codegen = config.require_codegen().unwrap();
    let mut expected = Options::new("crm").pin("entity.customer.updated", 2);
    (expected.database, expected.time, expected.decimal) =
        (Database::Sqlite, Time::Chrono, Decimal::RustDecimal);
    expected.serialize = true;
    expected.types.insert("a.done/v1#/properties/x".to_owned(), "crate::X".to_owned());
    assert_eq!((&codegen.options, codegen.language), (&expected, Language::TypeScript));
}
