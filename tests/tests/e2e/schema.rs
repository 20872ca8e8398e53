//! `outbox schema`: the registry folder from the command line.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use outbox_sdk::{JsonEvent, Migrator, Outbox};
use outbox_tests::{OutboxProcess, TestDb, on_every_database};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::stage::SECRET;

on_every_database! {
    a_backlog_that_cannot_be_read_is_listed_without_its_payloads
    a_pin_counts_for_events_that_its_consumer_has_not_had
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const TYPE: &str = "customer.changed";

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A folder in which `outbox schema` is run, as in somebody's repository.
struct Project(TempDir);

impl Project {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A project with these optional members as the minors of [`TYPE`], from v1.0 on.
    fn with(minors: &[Value]) -> Self {
        let project = Self::new();
        project.write("schemas/registry.toml", "compatibility = \"full\"\nbase = \"main\"\n");
        for (minor, members) in minors.iter().enumerate() {
            project.minor(minor, members);
        }
        project
    }

    fn minor(&self, minor: usize, members: &Value) {
        let schema = json!({"$schema": DIALECT, "type": "object", "properties": members});
        self.write(&format!("schemas/{TYPE}/v1.{minor}.json"), &format!("{schema:#}\n"));
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    async fn schema(&self, args: &[&str]) -> Ended {
        self.schema_in(args, &[]).await
    }

    async fn schema_in(&self, args: &[&str], env: &[(&str, &str)]) -> Ended {
        let mut command = OutboxProcess::command();
        command.env_remove("OUTBOX_REGISTRY").env_remove("CI").env("STAGE_SECRET", SECRET);
        command.arg("schema").args(args).envs(env.iter().copied()).current_dir(self.path());
        let mut process = OutboxProcess::spawn(&mut command);
        let code = process.wait_exit().await.code();
        Ended { code, stdout: process.stdout().join("\n"), stderr: process.stderr().join("\n") }
    }

    async fn git(&self, args: &[&str]) {
        let identity =
            ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
        let mut command = Command::new("git");
        command
            .args(identity)
            .args(args)
            .current_dir(self.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        assert!(command.status().await.unwrap().success(), "git {args:?}");
    }

    /// Commits everything on `main`, and goes to a branch.
    async fn commit(&self) {
        self.git(&["init", "--quiet", "--initial-branch=main"]).await;
        self.git(&["add", "--all"]).await;
        self.git(&["commit", "--quiet", "-m", "schemas"]).await;
        self.git(&["checkout", "--quiet", "-b", "work"]).await;
    }
}

fn consumer(pin: &str) -> String {
    format!(
        "[registry]\npath = \"schemas\"\n[[consumer]]\nname = \"crm\"\nevents = [\"customer.*\"]\n{pin}\n[consumer.webhook]\n\
         url = \"https://crm.example/hooks\"\nsecrets = [\"env:STAGE_SECRET\"]\n"
    )
}

#[tokio::test]
async fn a_registry_is_made_once_and_named_where_there_is_none() {
    let project = Project::new();
    let ended = project.schema(&["list"]).await.expect(2);
    assert!(ended.stderr.contains("outbox schema init"), "{}", ended.stderr);
    let made = project.schema(&["init", "--format", "json"]).await.expect(0);
    assert_eq!(made.json(), json!({"registry": "schemas", "created": true}));
    let settings = project.read("schemas/registry.toml");
    assert!(settings.contains("\ncompatibility = \"full\"\n"), "{settings}");
    let again = project.schema(&["init"]).await.expect(0);
    assert!(again.stdout.contains("is a registry already"), "{}", again.stdout);
    assert_eq!(project.read("schemas/registry.toml"), settings);
    assert_eq!(project.schema(&["list"]).await.expect(0).stdout, "no schemas in schemas");
    project.schema(&["check"]).await.expect(0);
    project.schema(&["--registry", "elsewhere", "init"]).await.expect(0);
    assert!(project.path().join("elsewhere/registry.toml").exists());
    project.write("schemas/stray.txt", "");
    let ended = project.schema(&["check"]).await.expect(2);
    assert!(ended.stderr.contains("stray.txt: has no place here"), "{}", ended.stderr);
    project.schema_in(&["check"], &[("OUTBOX_REGISTRY", "elsewhere")]).await.expect(0);
}

#[tokio::test]
async fn the_list_shows_revisions_fingerprints_and_readers() {
    let project = Project::with(&[json!({}), json!({"a": {"type": "string"}})]);
    project
        .write("schemas/customer.gone/v1.0.json", &json!({"$schema": DIALECT, "type": "object"}).to_string());
    project.write("schemas/customer.gone/removed.toml", "date = 2026-12-01\nreason = \"nobody read it\"\n");
    let text = project.schema(&["list"]).await.expect(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(
        lines[1].starts_with("customer.changed") && lines[1].contains("v1.0") && lines[1].contains("sha256:"),
        "{text}"
    );
    assert!(lines[3].contains("until 2026-12-01"), "{text}");
    project.write("outbox.toml", &consumer("pins = { \"customer.changed\" = 1 }"));
    let value = project.schema(&["list", "--consumers", "--format", "json"]).await.expect(0).json();
    let schemas = value["schemas"].as_array().unwrap();
    assert_eq!(schemas[0]["consumers"], json!([]), "the newest minor is what is read");
    assert_eq!(schemas[1]["consumers"], json!([{"consumer": "crm", "pinned": true}]));
    assert_eq!(schemas[2]["removed"], "2026-12-01");
    let text = project.schema(&["list", "--consumers"]).await.expect(0).stdout;
    assert!(text.contains("crm (pinned)"), "{text}");
}

#[tokio::test]
async fn a_check_passes_or_says_what_breaks_and_where() {
    let project = Project::with(&[json!({}), json!({"a": {"type": "string"}})]);
    let ended = project.schema(&["check"]).await.expect(0);
    assert_eq!(ended.stdout, "1 event types, 1 pairs of minors compared: all compatible");
    assert_eq!(project.schema(&["check", "--format", "github"]).await.expect(0).stdout, "");

    project.minor(2, &json!({"a": {"type": "integer"}}));
    let ended = project.schema(&["check"]).await.expect(1);
    assert!(
        ended.stdout.contains("error[type-changed]") && ended.stdout.contains("v1.2.json:"),
        "{}",
        ended.stdout
    );
    assert!(ended.stderr.starts_with("error: the check of the registry failed"), "{}", ended.stderr);
    let value = project.schema(&["check", "--format", "json"]).await.expect(1).json();
    assert_eq!((&value["passes"], &value["verdict"]), (&json!(false), &json!("breaking")));
    let annotations = project.schema(&["check", "--format", "github"]).await.expect(1).stdout;
    assert!(
        annotations.starts_with("::error file=schemas/customer.changed/v1.2.json,line="),
        "from the current folder: {annotations}"
    );
    let ended = project.schema(&["list", "--format", "github"]).await.expect(2);
    assert!(ended.stderr.contains("schema check"), "{}", ended.stderr);

    project.write(
        "schemas/registry.toml",
        "compatibility = \"full\"\n[compatibility_for]\n\"customer.changed\" = \"none\"\n",
    );
    project.schema(&["check"]).await.expect(0);
    let unknown = json!({"a": {"type": "string", "format": "nobody-knows"}});
    project.minor(2, &unknown);
    let ended = project.schema(&["check"]).await.expect(1);
    assert!(ended.stdout.contains("nobody-knows"), "{}", ended.stdout);
    project.minor(2, &json!({}));
    project.write("outbox.toml", &consumer("pins = { \"customer.changed\" = 7 }"));
    let ended = project.schema(&["check", "--config", "outbox.toml"]).await.expect(1);
    assert!(ended.stdout.contains("pins v7 of `customer.changed`"), "{}", ended.stdout);
}

#[tokio::test]
async fn a_check_against_git_finds_what_was_committed_and_changed() {
    let project = Project::with(&[json!({}), json!({"a": {"type": "string"}})]);
    let ended = project.schema(&["check", "--against", "main"]).await.expect(2);
    assert!(ended.stderr.contains("no git work tree"), "{}", ended.stderr);
    project.commit().await;
    project.schema(&["check", "--against", "main"]).await.expect(0);
    project.schema(&["check", "--against"]).await.expect(0);
    let ended = project.schema(&["check", "--against", "v9"]).await.expect(2);
    assert!(ended.stderr.contains("no revision `v9`"), "{}", ended.stderr);
    project.schema(&["check", "--against=--all"]).await.expect(2);

    project.minor(0, &json!({"b": {"type": "string"}}));
    fs::remove_file(project.path().join(format!("schemas/{TYPE}/v1.1.json"))).unwrap();
    let ended = project.schema(&["check", "--against", "main", "--format", "json"]).await.expect(1);
    let rules: Vec<Value> =
        ended.json()["history"].as_array().unwrap().iter().map(|finding| finding["rule"].clone()).collect();
    assert_eq!(rules, ["revision-rewritten", "revision-removed"]);
    project.schema(&["check"]).await.expect(0);

    fs::remove_dir_all(project.path().join(format!("schemas/{TYPE}"))).unwrap();
    let ended = project.schema(&["check", "--against", "main"]).await.expect(1);
    assert!(
        ended.stdout.contains("error[event-removed]") && ended.stdout.contains("removed.toml"),
        "{}",
        ended.stdout
    );
    project
        .write(&format!("schemas/{TYPE}/removed.toml"), "date = 2026-12-01\nreason = \"nobody read it\"\n");
    project.schema(&["check", "--against", "main"]).await.expect(0);
}

#[tokio::test]
async fn two_schemas_are_compared_by_file_or_by_revision() {
    let project = Project::with(&[json!({"a": {"type": "integer"}}), json!({"a": {"type": "number"}})]);
    let (old, new) = (format!("{TYPE}@1.0"), format!("schemas/{TYPE}/v1.1.json"));
    let ended = project.schema(&["compat", &old, &new, "--format", "json"]).await.expect(1);
    let value = ended.json();
    let keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["backward", "findings", "forward"]);
    assert_eq!((&value["backward"], &value["forward"]), (&json!("compatible"), &json!("breaking")));
    assert!(ended.stderr.contains("schema_version"), "{}", ended.stderr);
    project.schema(&["compat", &old, &new, "--mode", "backward"]).await.expect(0);
    project.schema(&["compat", &new, &new]).await.expect(0);
    let annotations = project.schema(&["compat", &old, &new, "--format", "github"]).await.expect(1).stdout;
    assert!(annotations.starts_with("::error file="), "{annotations}");

    let diff = project.schema(&["diff", &old, &format!("{TYPE}@1")]).await.expect(0).stdout;
    assert!(diff.contains("/properties/a/type") && diff.contains("\"integer\" -> \"number\""), "{diff}");
    assert_eq!(project.schema(&["diff", &old, &old]).await.expect(0).stdout, "the same meaning");
    for missing in ["nowhere.json", "customer.changed@1.7", "customer.changed@x", "nobody.knew@1"] {
        let ended = project.schema(&["diff", &old, missing]).await.expect(2);
        assert!(ended.stderr.contains(missing), "{}", ended.stderr);
    }
    project.write("twice.json", r#"{"a": 1, "a": 2}"#);
    assert!(project.schema(&["compat", &old, "twice.json"]).await.expect(2).stderr.contains("given twice"));
}

#[tokio::test]
async fn a_foreign_schema_becomes_a_revision() {
    let project = Project::with(&[]);
    let foreign = |kind: &str| {
        json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {
                "order": {"type": "object", "tsType": "T", "properties": {"id": {"$ref": "#/definitions/id"}}},
                "id": {"type": kind},
            },
        })
        .to_string()
    };
    project.write("foreign.json", &foreign("integer"));
    let import = ["import", "foreign.json", "--type", "order.placed", "--pointer", "/definitions/order"];
    let ended = project.schema(&[&import[..], &["--format", "json"]].concat()).await.expect(0);
    assert_eq!(
        (&ended.json()["outcome"], &ended.json()["ignored"]),
        (&json!("created"), &json!(["/definitions/order/tsType"]))
    );
    let written: Value = serde_json::from_str(&project.read("schemas/order.placed/v1.0.json")).unwrap();
    assert_eq!(written["$defs"], json!({"id": {"type": "integer"}}));
    assert!(project.schema(&import).await.expect(0).stdout.contains("has it already"));
    project.schema(&["check"]).await.expect(0);

    project.write("foreign.json", &foreign("string"));
    let ended = project.schema(&import).await.expect(1);
    assert!(ended.stderr.contains("as the next major: --version 2"), "{}", ended.stderr);
    project.schema(&[&import[..], &["--version", "2"]].concat()).await.expect(0);
    assert!(project.path().join("schemas/order.placed/v2.0.json").exists());
    project
        .write("foreign.json", r#"{"$schema": "http://json-schema.org/draft-07/schema#", "nullable": true}"#);
    let ended = project.schema(&["import", "foreign.json", "--type", "order.changed"]).await.expect(1);
    assert!(ended.stderr.contains("`/nullable`"), "{}", ended.stderr);
    project.schema(&["import", "nowhere.json", "--type", "order.changed"]).await.expect(2);
    project.schema(&["import", "foreign.json", "--type", "Order"]).await.expect(1);
}

#[tokio::test]
async fn pages_are_written_checked_and_removed() {
    let project = Project::with(&[json!({"a": {"type": "string"}})]);
    let ended = project.schema(&["docs", "--check"]).await.expect(1);
    assert!(ended.stderr.contains("run `outbox schema docs`"), "{}", ended.stderr);
    assert!(!project.path().join("docs").exists());
    project.schema(&["docs"]).await.expect(0);
    let page = project.read(&format!("docs/events/{TYPE}.md"));
    assert!(page.contains("| `a` | string | no |") && !page.contains("read by"), "{page}");
    assert!(project.read("docs/events/README.md").contains(&format!("[{TYPE}]({TYPE}.md)")));
    project.schema(&["docs", "--check"]).await.expect(0);
    project.write("outbox.toml", &consumer(""));
    project.schema(&["docs", "--check", "--config", "outbox.toml"]).await.expect(1);
    project.schema(&["docs", "--config", "outbox.toml"]).await.expect(0);
    assert!(project.read(&format!("docs/events/{TYPE}.md")).contains("| `crm` |"));

    project.write("docs/events/notes.md", "ours");
    fs::remove_dir_all(project.path().join(format!("schemas/{TYPE}"))).unwrap();
    assert!(project.schema(&["docs", "--check"]).await.expect(1).stdout.contains("of no event type"));
    project.schema(&["docs"]).await.expect(0);
    assert!(!project.path().join(format!("docs/events/{TYPE}.md")).exists());
    assert_eq!(project.read("docs/events/notes.md"), "ours");
    project.write("docs/events/README.md", "somebody's own");
    let ended = project.schema(&["docs"]).await.expect(2);
    assert!(ended.stderr.contains("was not made by this command"), "{}", ended.stderr);
}

#[tokio::test]
async fn an_asyncapi_document_is_printed_written_and_checked() {
    let project = Project::with(&[json!({"a": {"type": "string"}})]);
    let printed = project.schema(&["asyncapi", "--title", "Shop"]).await.expect(0).json();
    assert_eq!((&printed["asyncapi"], &printed["info"]["title"]), (&json!("3.0.0"), &json!("Shop")));
    project.schema(&["asyncapi", "--output", "api.json", "--check"]).await.expect(1);
    project.schema(&["asyncapi", "--output", "api.json"]).await.expect(0);
    project.schema(&["asyncapi", "--output", "api.json", "--check"]).await.expect(0);
    project.minor(1, &json!({"a": {"type": "string"}, "b": {"type": "string"}}));
    project.schema(&["asyncapi", "--output", "api.json", "--check"]).await.expect(1);
}

/// A stand-in for cargo that notes how it was called, and does what the tests would do.
#[cfg(unix)]
#[tokio::test]
async fn blessing_runs_the_generated_tests_of_the_project() {
    use std::os::unix::fs::PermissionsExt as _;

    let project = Project::with(&[json!({})]);
    let schema = json!({"$schema": DIALECT, "type": "object"});
    project.write(
        "cargo",
        &format!(
            "#!/bin/sh\necho \"$OUTBOX_BLESS $*\" > called\nmkdir -p \"$OUTBOX_REGISTRY/order.placed\"\n\
             echo '{schema}' > \"$OUTBOX_REGISTRY/order.placed/v1.0.json\"\nexit $FAKE_EXIT\n"
        ),
    );
    let cargo = project.path().join("cargo");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let cargo = cargo.to_str().unwrap();
    let bless = ["bless", "--format", "json", "--", "-p", "crm"];
    let ended = project.schema_in(&bless, &[("CARGO", cargo), ("FAKE_EXIT", "0")]).await.expect(0);
    let created = json!({"outcome": "created", "path": "schemas/order.placed/v1.0.json"});
    assert_eq!(ended.json(), json!({"changed": [created], "passed": true}));
    assert_eq!(project.read("called"), "1 test --tests -p crm outbox_schema_\n");
    let ended = project.schema_in(&["bless"], &[("CARGO", cargo), ("FAKE_EXIT", "101")]).await.expect(1);
    assert_eq!(ended.stdout, "nothing to accept");

    fs::remove_file(project.path().join("called")).unwrap();
    let ended = project.schema_in(&["bless"], &[("CARGO", cargo), ("CI", "true")]).await.expect(1);
    assert!(ended.stderr.contains("what CI accepts nobody has seen"), "{}", ended.stderr);
    assert!(!project.path().join("called").exists());
    project.schema_in(&["bless"], &[("CARGO", "outbox-there-is-no-such-program")]).await.expect(2);
}

/// Publishes payloads of [`TYPE`] with these majors.
async fn publish<T: TestDb>(db: &T, events: &[(&str, u32, &str)]) {
    let pool = db.connect().await;
    Migrator::outbox().run(&pool).await.unwrap();
    let outbox = Outbox::new();
    let mut tx = outbox.begin(&pool).await.unwrap();
    for (event_type, major, payload) in events {
        let event = JsonEvent::new(*event_type, *major, "customer", *payload).aggregate_id("1");
        outbox.publish_json(&mut tx, &event).await.unwrap();
    }
    outbox.commit(tx).await.unwrap();
    pool.close().await;
}

async fn a_backlog_that_cannot_be_read_is_listed_without_its_payloads<T: TestDb>() {
    let db = T::create().await;
    let good = (TYPE, 1, r#"{"a": "x", "undeclared": true}"#);
    let mut events = vec![good; 250];
    events.extend([
        (TYPE, 1, r#"{"a": 4711}"#),
        (TYPE, 1, r#"{"a": 4712}"#),
        (TYPE, 2, r#"{"a": "x"}"#),
        ("customer.forgotten", 1, "{}"),
    ]);
    publish(&db, &events[..250]).await;
    let project = Project::with(&[json!({"a": {"type": "string"}})]);
    let check = ["check", "--database", db.address(), "--format", "json"];
    let value = project.schema(&check).await.expect(0).json();
    assert_eq!(value["backlog"], json!({"checked": 250, "unreadable": []}));

    publish(&db, &events[250..]).await;
    let ended = project.schema(&check).await.expect(1);
    let backlog = ended.json()["backlog"].clone();
    assert_eq!(backlog["checked"], 254);
    let found: Vec<_> = backlog["unreadable"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["event_type"].as_str(),
                entry["major"].as_u64(),
                entry["reason"].as_str(),
                entry["events"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Some(TYPE), Some(1), Some("schema_violation"), Some(2)),
            (Some(TYPE), Some(2), Some("schema_missing"), Some(1)),
            (Some("customer.forgotten"), Some(1), Some("schema_missing"), Some(1)),
        ]
    );
    let text = project.schema(&["check", "--database", db.address()]).await.expect(1);
    assert!(
        text.stdout.contains("error[backlog]: 2 events of customer.changed v1 (first: id 251)"),
        "{}",
        text.stdout
    );
    for out in [&ended.stdout, &text.stdout, &text.stderr] {
        assert!(!out.contains("4711") && !out.contains("4712"), "{out}");
    }
    // A registry that does not hold is told first; a database that is away is another code.
    project.schema(&["check", "--database", "postgres://nobody@127.0.0.1:1/x"]).await.expect(3);
}

async fn a_pin_counts_for_events_that_its_consumer_has_not_had<T: TestDb>() {
    let db = T::create().await;
    publish(&db, &[(TYPE, 1, "{}"), (TYPE, 1, "{}")]).await;
    let project = Project::with(&[json!({})]);
    project.write(
        &format!("schemas/{TYPE}/v2.0.json"),
        &json!({"$schema": DIALECT, "type": "object"}).to_string(),
    );
    let unreadable = async |pin: &str| {
        project.write("outbox.toml", &consumer(pin));
        let check = ["check", "--config", "outbox.toml", "--database", db.address(), "--format", "json"];
        let ended = project.schema(&check).await;
        let found = ended.json()["backlog"]["unreadable"].clone();
        assert_eq!(ended.code == Some(0), found == json!([]), "{}", ended.stdout);
        found
    };
    assert_eq!(unreadable("").await, json!([]));
    assert_eq!(unreadable("pins = { \"customer.changed\" = 1 }").await, json!([]));
    let found = unreadable("pins = { \"customer.changed\" = 2 }").await;
    assert_eq!(
        found,
        json!([{
            "event_type": TYPE, "major": 1, "events": 2, "first_id": 1, "reason": "major_missing", "consumer": "crm", "pinned": 2,
        }])
    );
    assert_eq!(unreadable("other_majors = \"skip\"\npins = { \"customer.changed\" = 2 }").await, json!([]));
}
