//! The compiler's settings: which formats there are, and that an `integer` is one.

use std::net::IpAddr;
use std::sync::LazyLock;

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Value, json};

use crate::document::{Place, for_each_schema, join, names_type, place};

/// Formats of numbers that are no integers: every JSON number is one.
const FLOATS: [&str; 2] = ["float", "double"];

/// Stands beside an `integer` in the compiled form only.
pub(crate) const INTEGER: &str = "x-outbox-integer";

pub(crate) fn options() -> ValidationOptions<'static> {
    let mut options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(PatternOptions::regex())
        .with_format("ip", |text| text.parse::<IpAddr>().is_ok())
        .with_format("partial-date-time", is_partial_date_time)
        .with_format("partial-time", is_partial_time)
        .with_format("zoned-date-time", is_zoned_date_time)
        .with_keyword(INTEGER, |_, format, _| Ok(Box::new(Integer::of(format.as_str().unwrap_or_default()))));
    // Formats of numbers say nothing of a string.
    for (format, ..) in RANGES {
        options = options.with_format(format, |_| true);
    }
    for format in FLOATS {
        options = options.with_format(format, |_| true);
    }
    options
}

fn is_date_time(text: &str) -> bool {
    // The library has this check, but hands it out only as a schema.
    static DATE_TIME: LazyLock<Option<Validator>> = LazyLock::new(|| {
        jsonschema::options().should_validate_formats(true).build(&json!({"format": "date-time"})).ok()
    });
    DATE_TIME.as_ref().is_some_and(|validator| validator.is_valid(&Value::from(text)))
}

/// A date and a time without offset, as in `2026-12-01T08:30:00.5`.
fn is_partial_date_time(text: &str) -> bool {
    is_date_time(&format!("{text}Z"))
}

/// A time without offset.
fn is_partial_time(text: &str) -> bool {
    is_partial_date_time(&format!("2000-01-01T{text}"))
}

/// A date, a time, an offset and at least one suffix in brackets, as in `2026-12-01T08:30:00+01:00[Europe/Berlin]`.
fn is_zoned_date_time(text: &str) -> bool {
    let Some((date_time, suffixes)) = text.split_once('[') else { return false };
    let Some(suffixes) = suffixes.strip_suffix(']') else { return false };
    is_date_time(date_time)
        && suffixes.split("][").all(|suffix| {
            !suffix.is_empty()
                && suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b"!=/_+-.:".contains(&b))
        })
}

/// The formats of a schema that nothing checks, each with its pointer.
pub(crate) fn unknown_formats(options: &ValidationOptions<'_>, schema: &Value) -> Vec<(String, String)> {
    let mut unknown = Vec::new();
    for_each_schema(schema, "", &mut |pointer, schema| {
        if let Some(Value::String(format)) = schema.get("format")
            && !options.is_known_format(Draft::Draft202012, format)
        {
            unknown.push((join(pointer, "format"), format.clone()));
        }
    });
    unknown
}

/// The schema with [`INTEGER`] beside each `integer`.
pub(crate) fn with_integers(schema: &Value) -> Value {
    let Value::Object(object) = schema else { return schema.clone() };
    let mut extended = Map::new();
    for (keyword, value) in object {
        let value = match (place(keyword), value) {
            (Place::Schema, schema) => with_integers(schema),
            (Place::List, Value::Array(list)) => list.iter().map(with_integers).collect(),
            (Place::Named, Value::Object(named)) => {
                named.iter().map(|(name, schema)| (name.clone(), with_integers(schema))).collect()
            }
            (_, data) => data.clone(),
        };
        extended.insert(keyword.clone(), value);
    }
    extended.remove(INTEGER);
    let format =
        object.get("format").and_then(Value::as_str).filter(|f| RANGES.iter().any(|(name, ..)| name == f));
    let names = |name: &str| object.get("type").is_some_and(|kind| names_type(kind, name));
    if names("integer") && !names("number") || format.is_some() && !object.contains_key("type") {
        extended.insert(INTEGER.to_owned(), Value::from(format.unwrap_or_default()));
    }
    Value::Object(extended)
}

/// The integer formats and their ranges, both ends included.
pub(crate) const RANGES: [(&str, i128, u128); 12] = [
    ("int8", i8::MIN as i128, i8::MAX as u128),
    ("int16", i16::MIN as i128, i16::MAX as u128),
    ("int32", i32::MIN as i128, i32::MAX as u128),
    ("int64", i64::MIN as i128, i64::MAX as u128),
    ("int128", i128::MIN, i128::MAX as u128),
    ("int", i64::MIN as i128, i64::MAX as u128),
    ("uint8", 0, u8::MAX as u128),
    ("uint16", 0, u16::MAX as u128),
    ("uint32", 0, u32::MAX as u128),
    ("uint64", 0, u64::MAX as u128),
    ("uint128", 0, u128::MAX),
    ("uint", 0, u64::MAX as u128),
];

/// The range of an integer format; without a format, of any integer.
struct Integer {
    format: &'static str,
    range: Option<(i128, u128)>,
}

impl Integer {
    fn of(format: &str) -> Self {
        let known = RANGES.iter().find(|(name, ..)| *name == format);
        known.map_or(Self { format: "", range: None }, |&(format, min, max)| Self {
            format,
            range: Some((min, max)),
        })
    }
}

impl<'i> Keyword<'i> for Integer {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if Keyword::is_valid(self, instance) {
            return Ok(());
        }
        Err(ValidationError::custom(match self.format {
            "" => "expected an integer, written without fraction and exponent".to_owned(),
            format => {
                format!("expected an integer of the format `{format}`, written without fraction and exponent")
            }
        }))
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let Value::Number(number) = instance else { return true };
        if let Some(n) = number.as_i128() {
            return self
                .range
                .is_none_or(|(min, max)| n >= min && u128::try_from(n).map_or(true, |n| n <= max));
        }
        // Beyond 64 bits a number is read as a float. The largest ones of 128 bits are rounded up, to the end of the range
        // as a float.
        number.as_f64().is_some_and(|n| {
            let beyond = n >= u64::MAX as f64 || n < i64::MIN as f64;
            let fits = |(min, max)| max > u128::from(u64::MAX) && n >= min as f64 && n <= max as f64;
            beyond && self.range.is_none_or(fits)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schema: &Value, good: &[&str], bad: &[&str]) {
        let validator = options().build(&with_integers(schema)).unwrap();
        for text in good {
            assert!(validator.is_valid(&serde_json::from_str(text).unwrap()), "{schema} refuses {text}");
        }
        for text in bad {
            assert!(!validator.is_valid(&serde_json::from_str(text).unwrap()), "{schema} accepts {text}");
        }
    }

    #[test]
    fn integer_formats_are_ranges() {
        for (format, good, bad) in [
            ("int8", ["-128", "127"], ["-129", "128"]),
            ("int16", ["-32768", "32767"], ["-32769", "32768"]),
            ("int32", ["-2147483648", "2147483647"], ["-2147483649", "2147483648"]),
            (
                "int64",
                ["-9223372036854775808", "9223372036854775807"],
                ["-9223372036854775809", "9223372036854775808"],
            ),
            ("int", ["-9223372036854775808", "9223372036854775807"], ["-1e30", "9223372036854775808"]),
            (
                "int128",
                ["-170141183460469231731687303715884105728", "99999999999999999999"],
                ["-1e39", "2e38"],
            ),
            ("uint8", ["0", "255"], ["-1", "256"]),
            ("uint16", ["0", "65535"], ["-1", "65536"]),
            ("uint32", ["0", "4294967295"], ["-1", "4294967296"]),
            ("uint64", ["0", "18446744073709551615"], ["-1", "18446744073709551616"]),
            ("uint", ["0", "18446744073709551615"], ["-1", "18446744073709551616"]),
            ("uint128", ["0", "99999999999999999999"], ["-1", "4e38"]),
            ("int128", ["170141183460469231731687303715884105727", "-1"], ["2e38", "-2e38"]),
            ("uint128", ["340282366920938463463374607431768211455", "0"], ["-1e20", "3.5e38"]),
        ] {
            check(&json!({"type": "integer", "format": format}), &good, &bad);
            check(&json!({"format": format}), &[good[0], good[1], "\"text\""], &bad);
            check(
                &json!({"type": ["integer", "null"], "format": format}),
                &[good[0], "null"],
                &[bad[0], "\"1\""],
            );
        }
        check(&json!({"type": "number", "format": "int32"}), &["0.5", "2147483648"], &[]);
        check(&json!({"type": "number", "format": "double"}), &["0.5", "1"], &["\"1\""]);
        check(&json!({"type": "string", "format": "int32"}), &["\"1\""], &["1"]);
    }

    #[test]
    fn an_integer_has_neither_fraction_nor_exponent() {
        check(
            &json!({"type": "integer"}),
            &["1", "-1", "99999999999999999999"],
            &["1.0", "1.5", "1e2", "-0.0"],
        );
        check(&json!({"type": ["integer", "number"]}), &["1", "1.0", "1.5"], &["\"1\""]);
        check(
            &json!({"items": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]}}),
            &["[1, true]"],
            &["[1.0]"],
        );
        check(&json!({"x-outbox-integer": "int8"}), &["1000"], &[]);
        check(&json!({"const": {"type": "integer"}}), &["{\"type\": \"integer\"}"], &["1"]);
    }

    #[test]
    fn formats_of_strings_are_asserted() {
        let string = |format: &str, good: &[&str], bad: &[&str]| {
            let quoted =
                |texts: &[&str]| texts.iter().map(|text| json!(text).to_string()).collect::<Vec<_>>();
            let (good, bad) = (quoted(good), quoted(bad));
            check(
                &json!({"type": "string", "format": format}),
                &good.iter().map(String::as_str).collect::<Vec<_>>(),
                &bad.iter().map(String::as_str).collect::<Vec<_>>(),
            );
        };
        string("uuid", &["0193f0c4-5b7e-7b6e-9d2b-0a4d3c1b2a19"], &["0193f0c4", ""]);
        string(
            "date-time",
            &["2026-12-01T08:30:00Z", "2026-12-01T08:30:00.123+01:00"],
            &["2026-12-01", "2026-12-01T08:30:00"],
        );
        string("date", &["2024-02-29"], &["2023-02-29", "2026-1-1"]);
        string("time", &["08:30:00Z"], &["08:30:00", "25:00:00Z"]);
        string(
            "partial-date-time",
            &["2026-12-01T08:30:00", "2026-12-01T08:30:00.5"],
            &["2026-12-01T08:30:00Z", "2026-12-01"],
        );
        string("partial-date-time", &[], &["2026-12-01T08:30:00+01:00", "2026-12-01T08:30:00z", ""]);
        string(
            "partial-time",
            &["08:30:00", "08:30:00.5"],
            &["08:30:00Z", "08:30:00+01:00", "08:30", "24:00:00"],
        );
        string(
            "zoned-date-time",
            &["2026-12-01T08:30:00+01:00[Europe/Berlin]"],
            &["2026-12-01T08:30:00+01:00", "2026-12-01T08:30:00+01:00[]"],
        );
        string(
            "zoned-date-time",
            &["2026-12-01T08:30:00Z[UTC][u-ca=gregory]"],
            &["[UTC]", "2026-12-01T08:30:00Z[U TC]"],
        );
        string("ip", &["127.0.0.1", "::1"], &["127.0.0", "localhost"]);
        string("ipv4", &["127.0.0.1"], &["::1"]);
        string("ipv6", &["::1"], &["127.0.0.1"]);
        string("uri", &["https://example.com/a"], &["not a uri"]);
        string("email", &["a@example.com"], &["a"]);
        string("duration", &["P1D"], &["1 day"]);
    }

    #[test]
    fn unknown_formats_are_named() {
        let schema = json!({
            "properties": {"a": {"format": "colour"}, "format": {"format": "uuid"}, "b": {"items": {"format": "iban"}}},
            "const": {"format": "data"},
        });
        let expected = [("/properties/a/format", "colour"), ("/properties/b/items/format", "iban")];
        assert_eq!(unknown_formats(&options(), &schema), expected.map(|(p, f)| (p.to_owned(), f.to_owned())));
    }
}
