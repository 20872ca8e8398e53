//! Masks secrets in the text of a configuration before any of it is shown in a report.
//!
//! Two ways, because neither sees everything: by key (a secret in any spelling), and by shape (a secret under a wrong
//! key, or in a message that quotes it).

use std::ops::Range;

use super::document::{Node, Place, Table, Value};

/// Words in a key that make its value a secret.
const SECRET_KEYS: [&str; 5] = ["secret", "password", "passwd", "token", "credential"];

/// The text with every byte of the spans, and of everything in the shape of a secret, replaced by `*`. The length
/// stays, so spans stay valid.
pub(super) fn redact(text: &str, secrets: &[Range<usize>]) -> String {
    let mut spans = secrets.to_vec();
    by_shape(text, &mut spans);
    let mut bytes = text.as_bytes().to_vec();
    for span in spans {
        for byte in bytes.iter_mut().take(span.end).skip(span.start).filter(|byte| !b"\r\n".contains(byte)) {
            *byte = b'*';
        }
    }
    // Spans end on character boundaries, so whole characters were replaced.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the literals of secret keys are in a file that parses.
pub(super) fn secrets_in(tree: &Table) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    by_key(tree, &mut spans);
    spans
}

/// Whether a text names a secret instead of being one.
fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// Whether a key in lower case says that its value is a secret.
pub(super) fn is_secret_key(key: &str) -> bool {
    SECRET_KEYS.iter().any(|word| key.contains(word))
}

fn by_key(table: &Table, spans: &mut Vec<Range<usize>>) {
    for (key, entry) in table {
        let key = key.to_lowercase();
        if is_secret_key(&key) || key == "headers" {
            literals(&entry.node, spans);
        } else {
            tables_in(&entry.node, spans);
        }
    }
}

fn tables_in(node: &Node, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Table(table) => by_key(table, spans),
        Value::List(items) => items.iter().for_each(|item| tables_in(item, spans)),
        _ => {}
    }
}

/// The places of all literals below a secret key, without their quotes.
fn literals(node: &Node, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::String(text) if is_reference(text) => {}
        Value::Table(table) => table.values().for_each(|entry| literals(&entry.node, spans)),
        Value::List(items) => items.iter().for_each(|item| literals(item, spans)),
        Value::String(_) => {
            if let Place::File(span) = &node.place {
                spans.push(span.start + 1..span.end.saturating_sub(1));
            }
        }
        _ => {
            if let Place::File(span) = &node.place {
                spans.push(span.clone());
            }
        }
    }
}

fn by_shape(text: &str, spans: &mut Vec<Range<usize>>) {
    for (start, marker) in ["whsec_", "whsk_"].into_iter().flat_map(|marker| text.match_indices(marker)) {
        spans.push(run(text, start + marker.len(), |c| c.is_ascii_alphanumeric() || "+/=_-".contains(c)));
    }
    for (start, marker) in text.match_indices("://") {
        let authority = run(text, start + marker.len(), |c| !c.is_whitespace() && !"\"'".contains(c));
        let Some(user_info) = text[authority.clone()].rfind('@') else { continue };
        let user_info = authority.start..authority.start + user_info;
        // Only the password where there is a plain user name, for that helps to recognise the entry.
        let password =
            text[user_info.clone()].find(':').map_or(user_info.start, |colon| user_info.start + colon + 1);
        spans.push(password..user_info.end);
    }
    for (start, marker) in text.match_indices("password=") {
        spans.push(run(text, start + marker.len(), |c| !c.is_whitespace() && !"&\"'".contains(c)));
    }
}

/// In a file that does not parse: everything from a key with a secret's name to the end of its list or line.
pub(super) fn after_secret_keys(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    let lower = text.to_ascii_lowercase();
    for word in SECRET_KEYS {
        for (start, _) in lower.match_indices(word) {
            let Some(equals) = lower[start..].find(['=', '\n']).map(|offset| start + offset) else {
                continue;
            };
            if lower[equals..].starts_with('\n') {
                continue;
            }
            let value = &lower[equals + 1..];
            let end = if value.trim_start_matches([' ', '\t']).starts_with('[') { ']' } else { '\n' };
            spans.push(run(text, equals + 1, |c| c != end));
        }
    }
    spans
}

/// The characters from `start` on that fit.
fn run(text: &str, start: usize, fits: impl Fn(char) -> bool) -> Range<usize> {
    let length = text[start..].find(|c| !fits(c)).unwrap_or(text.len() - start);
    start..start + length
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    fn parsed(text: &str) -> String {
        redact(text, &secrets_in(&parse(text).unwrap()))
    }

    #[test]
    fn secrets_by_key() {
        assert_eq!(parsed("secrets = [\"env:A\", \"hünter\"]"), "secrets = [\"env:A\", \"*******\"]");
        assert_eq!(parsed("Api_Token = 12345"), "Api_Token = *****");
        assert_eq!(parsed("[w.headers]\nX-Key = \"abc\""), "[w.headers]\nX-Key = \"***\"");
        assert_eq!(
            parsed("[[c]]\nw = { password = 'a b', n = 'x' }"),
            "[[c]]\nw = { password = '***', n = 'x' }"
        );
        assert_eq!(parsed("secret.key = \"a\"\nname = \"b\""), "secret.key = \"*\"\nname = \"b\"");
    }

    #[test]
    fn secrets_by_shape() {
        assert_eq!(parsed("a = \"whsec_Ab+/9=\""), "a = \"whsec_******\"");
        assert_eq!(parsed("a = \"whsk_Ab+/9=\""), "a = \"whsk_******\"");
        assert_eq!(parsed("a = \"pg://me:p@ss@host/db\""), "a = \"pg://me:****@host/db\"");
        assert_eq!(parsed("a = \"https://key@host/\""), "a = \"https://***@host/\"");
        assert_eq!(parsed("a = \"pg://h/d?password=x&b=1\""), "a = \"pg://h/d?password=*&b=1\"");
        assert_eq!(parsed("a = \"https://host/x\" # me@home"), "a = \"https://host/x\" # me@home");
    }

    #[test]
    fn a_broken_file_is_masked_from_the_key_on() {
        let broken = |text| redact(text, &after_secret_keys(text));
        assert_eq!(broken("secrets = [\"abc\nd\"]\nx = 1 2"), "secrets =******\n**]\nx = 1 2");
        assert_eq!(broken("password = \"abc\nx = 1 2"), "password =*****\nx = 1 2");
        assert_eq!(broken("# our secrets\nx = 1 2"), "# our secrets\nx = 1 2");
    }
}
