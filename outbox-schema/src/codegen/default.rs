//! A schema's `default` as a Rust expression of its type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::Time;
use super::model::{Body, Content, Int, Ip, Key, Moment, Presence, Struct, Tagging, Type, Types};
use super::names::raw;

/// How a default is written.
pub(crate) enum Expression {
    /// It is what `Default` gives.
    Trivial,
    /// An expression on one line.
    Simple(String),
    /// An expression that rustfmt might break.
    Long(String),
}

/// `None` if the value does not fit the type, or the type has no literals.
pub(crate) fn expression(
    types: &Types,
    time: Time,
    ty: &Type,
    value: &Value,
    boxed: bool,
) -> Option<Expression> {
    if is_trivial(ty, value) && !boxed {
        return Some(Expression::Trivial);
    }
    let text = Literals { types, time }.literal(ty, value)?;
    Some(if text.len() <= 60 && !text.contains(['{', '[', '!']) {
        Expression::Simple(text)
    } else {
        Expression::Long(text)
    })
}

fn is_trivial(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Option(_) | Type::Unit, Value::Null) => true,
        (Type::Bool, value) => value == &Value::Bool(false),
        (Type::Int(_), value) => value.as_i64() == Some(0),
        (Type::Float, value) => value.as_f64() == Some(0.0) && !value.to_string().starts_with('-'),
        (Type::String, Value::String(text)) => text.is_empty(),
        (Type::List(_) | Type::Set(_), Value::Array(list)) => list.is_empty(),
        (Type::Map(..), Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

/// What an expression depends on beside its type.
struct Literals<'t> {
    types: &'t Types,
    time: Time,
}

impl Literals<'_> {
    fn literal(&self, ty: &Type, value: &Value) -> Option<String> {
        Some(match (ty, value) {
            (Type::Unit, Value::Null) => "()".to_owned(),
            (Type::Option(_), Value::Null) => "None".to_owned(),
            (Type::Option(inner), value) => format!("Some({})", self.literal(inner, value)?),
            (Type::Bool, Value::Bool(flag)) => flag.to_string(),
            (Type::Int(int), Value::Number(number)) => {
                let number: i128 = number.to_string().parse().ok()?;
                in_range(*int, number).then(|| number.to_string())?
            }
            (Type::Float, Value::Number(number)) => format!("{:?}", number.as_f64()?),
            (Type::String, Value::String(text)) if text.is_empty() => "String::new()".to_owned(),
            (Type::String, Value::String(text)) => format!("{text:?}.to_owned()"),
            (Type::Char, Value::String(text)) => {
                let mut chars = text.chars();
                let (Some(only), None) = (chars.next(), chars.next()) else { return None };
                format!("{only:?}")
            }
            (Type::Uuid, Value::String(text)) => uuid(text)?,
            (Type::Ip(kind), Value::String(text)) => ip(*kind, text)?,
            (Type::Time(_), Value::String(text)) if self.time == Time::Text => format!("{text:?}.to_owned()"),
            (Type::Time(moment), Value::String(text)) => time(*moment, text)?,
            (Type::Decimal, value) => decimal(value)?,
            (Type::List(element), Value::Array(list)) => format!("vec![{}]", self.all(element, list)?),
            (Type::Array(element, n), Value::Array(list)) if list.len() == *n => {
                format!("[{}]", self.all(element, list)?)
            }
            (Type::Set(element), Value::Array(list)) if self.types.is_ordered(element) => {
                format!("std::collections::BTreeSet::from([{}])", self.all(element, list)?)
            }
            (Type::Set(element), Value::Array(list)) => format!("vec![{}]", self.all(element, list)?),
            (Type::Tuple(parts), Value::Array(list)) if parts.len() == list.len() => {
                let parts: Option<Vec<_>> =
                    parts.iter().zip(list).map(|(ty, value)| self.literal(ty, value)).collect();
                let comma = if list.len() == 1 { "," } else { "" };
                format!("({}{comma})", parts?.join(", "))
            }
            (Type::Map(key, element), Value::Object(map)) => {
                let pairs: Option<Vec<_>> = crate::document::sorted(map)
                    .into_iter()
                    .map(|(name, value)| {
                        let key = match key {
                            Key::Text => format!("{name:?}.to_owned()"),
                            Key::Signed => name.parse::<i64>().ok()?.to_string(),
                            Key::Unsigned => name.parse::<u64>().ok()?.to_string(),
                        };
                        Some(format!("({key}, {})", self.literal(element, value)?))
                    })
                    .collect();
                format!("std::collections::BTreeMap::from([{}])", pairs?.join(", "))
            }
            (Type::Named(id), value) => {
                let item = self.types.get(*id);
                // What holds itself would need boxes here.
                if !self.types.boxed(*id).is_empty() {
                    return None;
                }
                self.named(&item.name, &item.body, value)?
            }
            (Type::Any, Value::Null) => "serde_json::Value::Null".to_owned(),
            (Type::Any, value) => {
                format!("serde_json::from_str({:?}).unwrap_or_default()", value.to_string())
            }
            _ => return None,
        })
    }

    fn all(&self, element: &Type, list: &[Value]) -> Option<String> {
        let all: Option<Vec<_>> = list.iter().map(|value| self.literal(element, value)).collect();
        Some(all?.join(", "))
    }

    fn named(&self, name: &str, body: &Body, value: &Value) -> Option<String> {
        Some(match body {
            Body::Unit if value.is_null() => name.to_owned(),
            Body::Newtype(ty) => format!("{name}({})", self.literal(ty, value)?),
            Body::Struct(body) => format!("{name} {}", self.members(body, value)?),
            Body::Texts(texts) => {
                let text = value.as_str()?;
                match texts.values.iter().find(|known| known.value == text) {
                    Some(known) => format!("{name}::{}", known.ident),
                    None if texts.open => format!("{name}::Unknown({text:?}.to_owned())"),
                    None => return None,
                }
            }
            Body::Numbers(numbers) => {
                let number = value.as_i64()?;
                format!("{name}::{}", numbers.iter().find(|(known, _)| *known == number)?.1)
            }
            Body::Enum(body) if body.tagging == Tagging::External => {
                let (tag, content) = match value {
                    Value::String(tag) => (tag, None),
                    Value::Object(members) if members.len() == 1 => {
                        members.iter().next().map(|(tag, content)| (tag, Some(content)))?
                    }
                    _ => return None,
                };
                let variant = body.variants.iter().find(|variant| &variant.tag == tag)?;
                match (&variant.content, content) {
                    (Content::Unit, None) => format!("{name}::{}", variant.ident),
                    (Content::Newtype(ty), Some(value)) => {
                        format!("{name}::{}({})", variant.ident, self.literal(ty, value)?)
                    }
                    (Content::Struct(body), Some(value)) => {
                        format!("{name}::{} {}", variant.ident, self.members(body, value)?)
                    }
                    _ => return None,
                }
            }
            Body::Enum(body) => {
                let Tagging::Internal { tag } = &body.tagging else { return None };
                let value_of_tag = value.get(tag)?.as_str()?;
                let variant = body.variants.iter().find(|variant| variant.tag == value_of_tag)?;
                match &variant.content {
                    Content::Unit => format!("{name}::{}", variant.ident),
                    Content::Newtype(ty) => {
                        format!("{name}::{}({})", variant.ident, self.literal(ty, value)?)
                    }
                    Content::Struct(body) => {
                        format!("{name}::{} {}", variant.ident, self.members(body, value)?)
                    }
                    Content::Tuple(_) => return None,
                }
            }
            Body::Unit => return None,
        })
    }

    /// `{ a: 1, b: None }`.
    fn members(&self, body: &Struct, value: &Value) -> Option<String> {
        let object = value.as_object()?;
        if !body.flattened.is_empty() {
            return None;
        }
        let mut members = Vec::new();
        for field in &body.fields {
            let value = match (object.get(&field.member), &field.presence) {
                (None | Some(Value::Null), Presence::Optional) => "None".to_owned(),
                (Some(value), Presence::Optional) => format!("Some({})", self.literal(&field.ty, value)?),
                (Some(value), _) | (None, Presence::Default(value)) => self.literal(&field.ty, value)?,
                (None, Presence::Required) => return None,
            };
            members.push(format!("{}: {value}", raw(&field.ident)));
        }
        Some(if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) })
    }
}

fn in_range(int: Int, number: i128) -> bool {
    match int {
        Int::I8 => i8::try_from(number).is_ok(),
        Int::I16 => i16::try_from(number).is_ok(),
        Int::I32 => i32::try_from(number).is_ok(),
        Int::I64 => i64::try_from(number).is_ok(),
        Int::I128 => true,
        Int::U8 => u8::try_from(number).is_ok(),
        Int::U16 => u16::try_from(number).is_ok(),
        Int::U32 => u32::try_from(number).is_ok(),
        Int::U64 => u64::try_from(number).is_ok(),
        Int::U128 => number >= 0,
    }
}

fn uuid(text: &str) -> Option<String> {
    let shape = text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let digits = text.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| shape && digits.len() == 32)?;
    Some(format!("uuid::Uuid::from_u128(0x{number:032x})"))
}

/// A decimal without exponent, by its digits.
fn decimal(value: &Value) -> Option<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
    (fraction.len() <= 28).then(|| format!("rust_decimal::Decimal::new({digits}, {})", fraction.len()))
}

fn ip(kind: Ip, text: &str) -> Option<String> {
    let v4 = |address: Ipv4Addr| {
        let [a, b, c, d] = address.octets();
        format!("std::net::Ipv4Addr::new({a}, {b}, {c}, {d})")
    };
    let v6 = |address: Ipv6Addr| format!("std::net::Ipv6Addr::from_bits({:#x})", address.to_bits());
    Some(match kind {
        Ip::V4 => v4(text.parse().ok()?),
        Ip::V6 => v6(text.parse().ok()?),
        Ip::Any => match text.parse().ok()? {
            IpAddr::V4(address) => format!("std::net::IpAddr::V4({})", v4(address)),
            IpAddr::V6(address) => format!("std::net::IpAddr::V6({})", v6(address)),
        },
    })
}

/// A time as the reader's library reads it. What that cannot read has no expression: none is guessed.
fn time(moment: Moment, text: &str) -> Option<String> {
    let (date, time) = match moment {
        Moment::Date => (Some(text), None),
        Moment::Time => (None, Some(text)),
        Moment::DateTime | Moment::Instant => {
            let (date, time) = text.split_once('T')?;
            (Some(date), Some(time))
        }
    };
    if !date.is_none_or(is_date) || !time.is_none_or(|time| is_time(time, moment == Moment::Instant)) {
        return None;
    }
    Some(match moment {
        Moment::Instant => format!("chrono::DateTime::parse_from_rfc3339({text:?}).unwrap_or_default()"),
        Moment::Date => format!("{text:?}.parse::<chrono::NaiveDate>().unwrap_or_default()"),
        Moment::DateTime => format!("{text:?}.parse::<chrono::NaiveDateTime>().unwrap_or_default()"),
        Moment::Time => format!("{text:?}.parse::<chrono::NaiveTime>().unwrap_or_default()"),
    })
}

/// So many digits, which come to a number of the range.
fn digits(text: &str, n: usize, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
    let plain = text.len() == n && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| plain && range.contains(number))
}

/// `2026-12-01`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let (Some(year), Some(month)) = (digits(year, 4, 0..=9999), digits(month, 2, 1..=12)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    digits(day, 2, 1..=days).is_some()
}

/// `12:30:00.5`, with an offset such as `Z` or `+01:00` where there must be one.
fn is_time(text: &str, offset: bool) -> bool {
    let (text, rest) = match text.find(['Z', '+', '-']) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let hours_and_minutes = |text: &str| {
        let (hours, minutes) = text.split_once(':')?;
        digits(hours, 2, 0..=23).and(digits(minutes, 2, 0..=59))
    };
    let offset_fits = match rest {
        "" => !offset,
        "Z" => offset,
        rest => offset && hours_and_minutes(&rest[1..]).is_some(),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (minutes, seconds) = whole.rsplit_once(':').unwrap_or_default();
    offset_fits
        && hours_and_minutes(minutes).is_some()
        && digits(seconds, 2, 0..=59).is_some()
        && digits(fraction, fraction.len(), 0..=999_999_999).is_some()
}
