//! The environment over the file: `OUTBOX__RELAY__LEASE=20s` sets `lease` in `[relay]`,
//! `OUTBOX__CONSUMER__CRM__WEBHOOK__URL` sets the URL of the consumer named `crm`.
//!
//! Only the place of a value is decided here. Its type, and whether the key exists at all, are found by whoever reads
//! the merged tree, as for the file.

use super::document::{Entry, Node, Place, Table, Value};
use super::error::{Finding, Findings};
use super::secret::Environment;
use super::suggest::nearest;

const PREFIX: &str = "OUTBOX__";

/// Lays all `OUTBOX__` variables over the tree.
pub(super) fn overlay(root: &mut Table, env: &Environment, findings: &Findings) {
    for (name, path, text) in env.prefixed(PREFIX) {
        let place = Place::Env(name.to_owned());
        let Some(text) = text else {
            findings.push(Finding::new(
                place,
                "the value is not UTF-8 text",
                "set the variable to plain text",
            ));
            continue;
        };
        let keys: Vec<String> = path.split("__").map(str::to_lowercase).collect();
        match keys.split_first() {
            Some((first, rest)) if first == "consumer" => set_in_consumer(root, rest, text, &place, findings),
            _ => set(root, &keys, text, &place, findings),
        }
    }
}

fn set_in_consumer(root: &mut Table, keys: &[String], text: &str, place: &Place, findings: &Findings) {
    let refuse = |message: &str, help: &str| findings.push(Finding::new(place.clone(), message, help));
    let Some((consumer, keys)) = keys.split_first().filter(|(_, keys)| !keys.is_empty()) else {
        let help = "name the consumer and the key, such as `OUTBOX__CONSUMER__CRM__MAX_IN_FLIGHT`";
        return refuse("the variable does not say which key of which consumer", help);
    };
    if keys == ["name"] {
        let help = "unset the variable; a consumer is renamed in the file, which makes a new one";
        return refuse("a consumer's name cannot be set from the environment", help);
    }
    let mut consumers: Vec<(String, &mut Table)> =
        match root.get_mut("consumer").map(|entry| &mut entry.node.value) {
            Some(Value::List(items)) => items.iter_mut().filter_map(named_table).collect(),
            _ => Vec::new(),
        };
    let names: Vec<String> = consumers.iter().map(|(name, _)| name.clone()).collect();
    let mut matching = consumers.iter_mut().filter(|(name, _)| normal(name) == normal(consumer));
    match (matching.next(), matching.next()) {
        (Some((_, table)), None) => set(table, keys, text, place, findings),
        (Some((first, _)), Some((second, _))) if first != second => {
            let message = format!("the variable means both the consumer `{first}` and `{second}`");
            refuse(&message, "set the key in the file, or rename one of the two");
        }
        // Two consumers of one name: that is a finding of its own.
        (Some(_), Some(_)) => {}
        (None, _) => {
            let help = match nearest(consumer, names.iter().map(String::as_str)) {
                Some(name) => {
                    format!("did you mean `{name}`? The environment changes consumers, the file names them")
                }
                None => {
                    "add the consumer to the file: the environment changes consumers, the file names them"
                        .into()
                }
            };
            refuse(&format!("there is no consumer named `{consumer}`"), &help);
        }
    }
}

fn named_table(node: &mut Node) -> Option<(String, &mut Table)> {
    let Value::Table(table) = &mut node.value else { return None };
    let Value::String(name) = &table.get("name")?.node.value else { return None };
    Some((name.clone(), table))
}

/// Names compare without case, and with `-` as `_`, which variable names cannot contain.
fn normal(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

fn set(table: &mut Table, keys: &[String], text: &str, place: &Place, findings: &Findings) {
    let Some((key, rest)) = keys.split_first() else { return };
    if rest.is_empty() {
        let node = Node { value: Value::Text(text.to_owned()), place: place.clone() };
        table.insert(key.clone(), Entry { key: place.clone(), node });
        return;
    }
    let entry = table.entry(key.clone()).or_insert_with(|| Entry {
        key: place.clone(),
        node: Node { value: Value::Table(Table::new()), place: place.clone() },
    });
    if let Value::Table(inner) = &mut entry.node.value {
        return set(inner, rest, text, place, findings);
    }
    let message = format!("`{key}` has a value already, so no key below it can be set");
    let help = "set either the whole value or the keys below it, not both";
    findings.push(Finding::new(place.clone(), message, help).related(entry.node.place.clone(), "the value"));
}
