use std::fs;

use serde::Deserialize;
use serde_json::value::RawValue;

const FILE: &str = "OUTBOX_TEST_GITHUB_EXAMPLES";
const SCHEMAS: &str = "OUTBOX_TEST_GITHUB_SCHEMAS";
const NO_FILE: &str =
    "no real payloads for tests: run ./scripts/test; ./scripts/test quick leaves these tests out";

/// One real GitHub webhook payload and what it is published as.
#[derive(Clone, Debug)]
pub struct Example {
    /// `github.<kind>.<action>`, or `github.<kind>` for a payload without action.
    pub event_type: String,
    /// Aggregate type and id: the repository, else the sender; none when the payload names neither.
    pub aggregate: Option<(&'static str, u64)>,
    /// The payload's JSON text, untouched.
    pub payload: String,
}

#[derive(Deserialize)]
struct Kind {
    name: String,
    examples: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Head {
    action: Option<String>,
    repository: Option<Identified>,
    sender: Option<Identified>,
}

#[derive(Deserialize)]
struct Identified {
    id: u64,
}

/// All payloads of the file that `OUTBOX_TEST_GITHUB_EXAMPLES` names, in its order.
///
/// # Panics
/// When the variable is not set (the text says what to run) or the file is not what it should be.
pub fn github_examples() -> Vec<Example> {
    parse(&read(FILE))
}

/// The schemas of GitHub's webhooks, in the file that `OUTBOX_TEST_GITHUB_SCHEMAS` names.
///
/// # Panics
/// When the variable is not set (the text says what to run) or the file is not what it should be.
pub fn github_schemas() -> serde_json::Value {
    serde_json::from_str(&read(SCHEMAS)).expect("a JSON Schema")
}

fn read(variable: &str) -> String {
    let path = std::env::var_os(variable).unwrap_or_else(|| panic!("{NO_FILE}"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

fn parse(text: &str) -> Vec<Example> {
    let kinds: Vec<Kind> = serde_json::from_str(text).expect("a list of webhook kinds with examples");
    kinds.iter().flat_map(|kind| kind.examples.iter().map(|payload| example(&kind.name, payload))).collect()
}

fn example(kind: &str, payload: &RawValue) -> Example {
    let head: Head = serde_json::from_str(payload.get()).expect("a webhook payload");
    let name = match head.action {
        Some(action) => format!("{kind}.{action}"),
        None => kind.to_owned(),
    };
    let repository = head.repository.map(|repository| ("repository", repository.id));
    Example {
        event_type: format!("github.{}", name.replace('-', "_")),
        aggregate: repository.or(head.sender.map(|sender| ("sender", sender.id))),
        payload: payload.get().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(kind: &str, payload: &str) -> Example {
        let text = format!(r#"[{{"name": "{kind}", "actions": [], "examples": [{payload}]}}]"#);
        parse(&text).pop().unwrap()
    }

    #[test]
    fn the_event_type_is_kind_and_action() {
        let with = only("check-run", r#"{"action": "re-requested"}"#);
        assert_eq!(with.event_type, "github.check_run.re_requested");
        assert_eq!(only("push", "{}").event_type, "github.push");
    }

    #[test]
    fn the_aggregate_is_the_repository_else_the_sender() {
        let both = only("star", r#"{"repository": {"id": 7}, "sender": {"id": 8}}"#);
        assert_eq!(both.aggregate, Some(("repository", 7)));
        assert_eq!(only("star", r#"{"sender": {"id": 8}}"#).aggregate, Some(("sender", 8)));
        assert_eq!(only("star", "{}").aggregate, None);
    }

    #[test]
    fn the_payload_keeps_every_digit() {
        let payload = r#"{"score": 32.000, "big": 12345678901234567890123}"#;
        assert_eq!(only("star", payload).payload, payload);
    }

    #[test]
    fn real_input_is_what_the_tests_count_on() {
        let examples = github_examples();
        let without_aggregate = examples.iter().filter(|example| example.aggregate.is_none()).count();
        assert_eq!((examples.len(), without_aggregate), (329, 4));
    }
}
