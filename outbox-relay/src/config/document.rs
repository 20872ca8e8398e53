//! The configuration as a tree of values that remember where they were written: in the file or in the environment.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Bytes of the file.
    File(Range<usize>),
    /// An environment variable.
    Env(String),
    /// Nowhere in particular: what is missing, or concerns the whole configuration.
    Whole,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    String(String),
    Integer(i128),
    Float,
    Boolean(bool),
    /// A date, a time, or both, in the form of RFC 3339.
    Datetime(String),
    List(Vec<Node>),
    Table(Table),
    /// The text of an environment variable; whoever reads it knows which type it should have.
    Text(String),
}

impl Value {
    /// The kind with its article, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::String(_) => "a string",
            Self::Integer(_) => "an integer",
            Self::Float => "a float",
            Self::Boolean(_) => "a boolean",
            Self::Datetime(_) => "a date and time",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Text(_) => "a text",
        }
    }
}

/// A value and its place. For a table written with a header, the place is the header.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Place,
}

/// A value under a key.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Place,
    pub(crate) node: Node,
}

pub(crate) type Table = BTreeMap<String, Entry>;

/// A mistake of TOML itself.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    pub(crate) span: Range<usize>,
}

/// Parses the file, with every mistake that the TOML parser finds in one pass.
pub(crate) fn parse(text: &str) -> Result<Table, Vec<SyntaxError>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(own_table(table.get_ref(), &Place::File));
    }
    let located = |error: toml::de::Error| SyntaxError {
        message: error.message().to_owned(),
        span: error.span().unwrap_or(0..0),
    };
    Err(errors.into_iter().map(located).collect())
}

/// Parses the text of an environment variable as one TOML value; everything in it has the variable's place.
pub(crate) fn parse_value(text: &str, place: &Place) -> Result<Node, String> {
    let value = DeValue::parse(text).map_err(|error| error.message().to_owned())?;
    Ok(own_value(&value, &|_| place.clone()))
}

fn own_table(table: &DeTable<'_>, at: &dyn Fn(Range<usize>) -> Place) -> Table {
    let own = |(key, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        (key.get_ref().to_string(), Entry { key: at(key.span()), node: own_value(value, at) })
    };
    table.iter().map(own).collect()
}

fn own_value(value: &Spanned<DeValue<'_>>, at: &dyn Fn(Range<usize>) -> Place) -> Node {
    let owned = match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        // A number beyond 128 bits is out of every range that is checked later.
        DeValue::Integer(number) => {
            Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
        }
        DeValue::Float(_) => Value::Float,
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::Datetime(time.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| own_value(item, at)).collect()),
        DeValue::Table(table) => Value::Table(own_table(table, at)),
    };
    Node { value: owned, place: at(value.span()) }
}
