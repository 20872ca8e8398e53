//! Pulls typed values out of the tree, section by section, and collects what is wrong instead of stopping at it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::document::{Entry, Node, Place, Table, Value, parse_value};
use super::error::{Finding, Findings};
use super::suggest::nearest;
use super::units;

pub(super) const DURATION_HELP: &str =
    "write a duration such as \"250ms\", \"30s\", \"5m\", \"1h30m\" or \"7d\"";
const SIZE_HELP: &str = "write a number of bytes, or a size such as \"512 KiB\" or \"8 MiB\"";

/// What a key turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field<T> {
    /// Not written.
    Absent,
    /// Written and refused: a finding exists, and no rule that needs the value may add another.
    Invalid,
    /// Written, with its place.
    Given(T, Place),
}

impl<T> Field<T> {
    pub(super) fn given(self) -> Option<T> {
        match self {
            Self::Given(value, _) => Some(value),
            Self::Absent | Self::Invalid => None,
        }
    }

    pub(super) fn or(self, default: T) -> T {
        self.given().unwrap_or(default)
    }

    pub(super) fn place(&self) -> Option<&Place> {
        match self {
            Self::Given(_, place) => Some(place),
            Self::Absent | Self::Invalid => None,
        }
    }
}

impl<T: Clone> Field<T> {
    /// The value that rules between keys look at: nothing when it was refused.
    pub(super) fn known(&self, default: T) -> Option<T> {
        match self {
            Self::Given(value, _) => Some(value.clone()),
            Self::Absent => Some(default),
            Self::Invalid => None,
        }
    }
}

/// Why a value is refused: the sentence goes on after the key, the help says what to write.
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) help: String,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    fn kind(wanted: &str, value: &Value, help: &str) -> Self {
        Self::new(format!("must be {wanted}, not {}", value.kind()), help)
    }
}

/// One table of the configuration while it is being read. Whatever nobody has asked for is an unknown key.
pub(super) struct Section<'a> {
    title: String,
    place: Place,
    table: Table,
    known: Vec<&'static str>,
    findings: &'a Findings,
}

impl<'a> Section<'a> {
    /// `title` is how the table is called in messages, `place` its header.
    pub(super) fn new(title: impl Into<String>, place: Place, table: Table, findings: &'a Findings) -> Self {
        Self { title: title.into(), place, table, known: Vec::new(), findings }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a key was written and not read yet.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Reads a key with a conversion of the caller's.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        convert: impl FnOnce(&Value) -> Result<T, Problem>,
    ) -> Field<T> {
        match self.take(key) {
            None => Field::Absent,
            Some(entry) => read_node(&format!("`{key}`"), entry.node, convert, self.findings),
        }
    }

    /// A string that must satisfy a condition.
    pub(super) fn checked(
        &mut self,
        key: &'static str,
        fits: impl FnOnce(&str) -> bool,
        (message, help): (&str, &str),
    ) -> Field<String> {
        self.read(key, |value| {
            let text = as_text(value)?;
            if fits(text) { Ok(text.to_owned()) } else { Err(Problem::new(message, help)) }
        })
    }

    pub(super) fn integer<N: TryFrom<i128>>(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i128>,
    ) -> Field<N> {
        self.read(key, |value| as_integer(value, range))
    }

    pub(super) fn bool(&mut self, key: &'static str) -> Field<bool> {
        const HELP: &str = "write true or false";
        self.read(key, |value| match value {
            Value::Boolean(flag) => Ok(*flag),
            Value::Text(text) => text.parse().map_err(|_| Problem::new("must be true or false", HELP)),
            _ => Err(Problem::kind("true or false", value, HELP)),
        })
    }

    /// A duration longer than zero.
    pub(super) fn duration(&mut self, key: &'static str) -> Field<Duration> {
        self.read(key, as_positive_duration)
    }

    /// A duration that may be zero.
    pub(super) fn duration_or_zero(&mut self, key: &'static str) -> Field<Duration> {
        self.read(key, as_duration)
    }

    /// A number of bytes, at least 1.
    pub(super) fn bytes(&mut self, key: &'static str) -> Field<u64> {
        self.read(key, |value| {
            let size = match value {
                Value::Integer(number) => {
                    u64::try_from(*number).map_err(|_| Problem::new("is not a number of bytes", SIZE_HELP))?
                }
                Value::String(text) | Value::Text(text) => units::bytes(text)
                    .map_err(|error| Problem::new(format!("is not a size: {error}"), SIZE_HELP))?,
                _ => return Err(Problem::kind("a size", value, SIZE_HELP)),
            };
            if size == 0 { Err(Problem::new("must not be 0", SIZE_HELP)) } else { Ok(size) }
        })
    }

    /// One of some words.
    pub(super) fn one_of<T: Copy>(&mut self, key: &'static str, options: &[(&str, T)]) -> Field<T> {
        self.read(key, |value| as_word(value, options))
    }

    /// A list whose entries are converted one by one; every entry that is refused is a finding. In the environment
    /// it is written as TOML (`["a", "b"]`) or with commas (`a, b`).
    pub(super) fn list<T>(
        &mut self,
        key: &'static str,
        mut convert: impl FnMut(&Value) -> Result<T, Problem>,
    ) -> Field<Vec<(T, Place)>> {
        let Some(entry) = self.take(key) else { return Field::Absent };
        let place = entry.node.place.clone();
        let Some(node) = self.shaped(key, entry.node, '[') else { return Field::Invalid };
        let items = match node.value {
            Value::List(items) => items,
            Value::Text(text) => {
                let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
                texts.map(|text| Node { value: Value::Text(text.to_owned()), place: place.clone() }).collect()
            }
            value => {
                let problem = Problem::kind("a list", &value, "write a list such as [\"a\", \"b\"]");
                report(&format!("`{key}`"), place, problem, self.findings);
                return Field::Invalid;
            }
        };
        let wanted = items.len();
        let name = format!("an entry of `{key}`");
        let good: Vec<_> = items
            .into_iter()
            .filter_map(|item| match read_node(&name, item, &mut convert, self.findings) {
                Field::Given(value, place) => Some((value, place)),
                Field::Absent | Field::Invalid => None,
            })
            .collect();
        if good.len() == wanted { Field::Given(good, place) } else { Field::Invalid }
    }

    /// A table below this one.
    pub(super) fn table(&mut self, key: &'static str, title: &str) -> Option<Section<'a>> {
        let entry = self.take(key)?;
        let node = self.shaped(key, entry.node, '{')?;
        match node.value {
            Value::Table(table) => Some(Section::new(title, node.place, table, self.findings)),
            value => {
                let help = format!("write a section {title}, or a table such as {{ key = \"value\" }}");
                report(
                    &format!("`{key}`"),
                    node.place,
                    Problem::kind("a table", &value, &help),
                    self.findings,
                );
                None
            }
        }
    }

    /// The tables of a `[[key]]`.
    pub(super) fn tables(&mut self, key: &'static str) -> Vec<Section<'a>> {
        let title = format!("[[{key}]]");
        let Some(entry) = self.take(key) else { return Vec::new() };
        let help = format!("write {title}, with two brackets, once for each {key}");
        let items = match entry.node.value {
            Value::List(items) => items,
            value => {
                let problem = Problem::kind("a list of tables", &value, &help);
                report(&format!("`{key}`"), entry.node.place, problem, self.findings);
                return Vec::new();
            }
        };
        let mut sections = Vec::new();
        for item in items {
            match item.value {
                Value::Table(table) => {
                    sections.push(Section::new(title.as_str(), item.place, table, self.findings));
                }
                value => {
                    let problem = Problem::kind("a table", &value, &help);
                    report(&format!("an entry of `{key}`"), item.place, problem, self.findings);
                }
            }
        }
        sections
    }

    /// All entries, for a table whose keys are names that the user chooses.
    pub(super) fn entries(mut self) -> impl Iterator<Item = (String, Entry)> {
        std::mem::take(&mut self.table).into_iter()
    }

    /// The value of a key that must be there.
    pub(super) fn require<T>(&self, key: &str, field: Field<T>, help: &str) -> Option<T> {
        if matches!(field, Field::Absent) {
            self.refuse(self.place.clone(), format!("`{key}` is missing in {}", self.title), help);
        }
        field.given()
    }

    pub(super) fn refuse(&self, place: Place, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.findings.push(Finding::new(place, message, help));
    }

    pub(super) fn findings(&self) -> &'a Findings {
        self.findings
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self) {
        for (key, entry) in &self.table {
            let help = match nearest(key, self.known.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("remove it; the keys here are {}", self.known.join(", ")),
            };
            let places = match &entry.key {
                Place::Env(_) => variables(&entry.node),
                Place::File(_) | Place::Whole => vec![entry.key.clone()],
            };
            for place in places {
                let message = format!("unknown key `{key}` in {}", self.title);
                self.findings.push(Finding::new(place, message, help.as_str()));
            }
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Entry> {
        self.known.push(key);
        self.table.remove(key)
    }

    /// The text of a variable parsed as TOML where it begins like the list or table that is wanted; any other node
    /// as it is.
    fn shaped(&self, key: &str, node: Node, opening: char) -> Option<Node> {
        let Value::Text(text) = &node.value else { return Some(node) };
        if !text.trim_start().starts_with(opening) {
            return Some(node);
        }
        match parse_value(text.trim(), &node.place) {
            Ok(parsed) => Some(parsed),
            Err(message) => {
                let problem =
                    Problem::new(format!("is not valid TOML: {message}"), "correct the variable's value");
                report(&format!("`{key}`"), node.place, problem, self.findings);
                None
            }
        }
    }
}

/// Reads one value; what is refused becomes a finding that begins with `name`.
pub(super) fn read_node<T>(
    name: &str,
    node: Node,
    convert: impl FnOnce(&Value) -> Result<T, Problem>,
    findings: &Findings,
) -> Field<T> {
    match convert(&node.value) {
        Ok(value) => Field::Given(value, node.place),
        Err(problem) => {
            report(name, node.place, problem, findings);
            Field::Invalid
        }
    }
}

fn report(name: &str, place: Place, problem: Problem, findings: &Findings) {
    findings.push(Finding::new(place, format!("{name} {}", problem.message), problem.help));
}

pub(super) fn as_text(value: &Value) -> Result<&str, Problem> {
    match value {
        Value::String(text) | Value::Text(text) => Ok(text),
        _ => Err(Problem::kind("a string", value, "put the value into quotes")),
    }
}

pub(super) fn as_word<T: Copy>(value: &Value, options: &[(&str, T)]) -> Result<T, Problem> {
    let words: Vec<String> = options.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    let help = format!("write {}", words.join(" or "));
    let text = as_text(value).map_err(|problem| Problem::new(problem.message, help.as_str()))?;
    let found = options.iter().find(|(word, _)| *word == text).map(|(_, option)| *option);
    found.ok_or_else(|| Problem::new(format!("cannot be \"{text}\""), help))
}

pub(super) fn as_integer<N: TryFrom<i128>>(value: &Value, range: RangeInclusive<i128>) -> Result<N, Problem> {
    let (low, high) = (range.start(), range.end());
    let help = format!("write a whole number from {low} to {high}, without quotes");
    let number = match value {
        Value::Integer(number) => *number,
        Value::Text(text) => {
            text.parse().map_err(|_| Problem::new("is not a whole number", help.as_str()))?
        }
        _ => return Err(Problem::kind("an integer", value, &help)),
    };
    match N::try_from(number) {
        Ok(fitting) if range.contains(&number) => Ok(fitting),
        _ => Err(Problem::new("is out of range", help)),
    }
}

pub(super) fn as_duration(value: &Value) -> Result<Duration, Problem> {
    match value {
        Value::String(text) | Value::Text(text) => units::duration(text)
            .map_err(|error| Problem::new(format!("is not a duration: {error}"), DURATION_HELP)),
        _ => Err(Problem::kind("a duration", value, DURATION_HELP)),
    }
}

pub(super) fn as_positive_duration(value: &Value) -> Result<Duration, Problem> {
    let duration = as_duration(value)?;
    if duration.is_zero() {
        Err(Problem::new("must be longer than zero", DURATION_HELP))
    } else {
        Ok(duration)
    }
}

/// The variables that a value of the environment was put together from.
fn variables(node: &Node) -> Vec<Place> {
    match &node.value {
        Value::Table(table) if !table.is_empty() => {
            table.values().flat_map(|entry| variables(&entry.node)).collect()
        }
        _ => vec![node.place.clone()],
    }
}
