//! A schema's `default` as a Rust expression of its type.

use serde_json::Value;

use super::model::{Body, Content, Int, Presence, Struct, Tagging, Type, Types};
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
pub(crate) fn expression(types: &Types, ty: &Type, value: &Value, boxed: bool) -> Option<Expression> {
    if is_trivial(ty, value) && !boxed {
        return Some(Expression::Trivial);
    }
    let text = literal(types, ty, value)?;
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

fn literal(types: &Types, ty: &Type, value: &Value) -> Option<String> {
    Some(match (ty, value) {
        (Type::Unit, Value::Null) => "()".to_owned(),
        (Type::Option(_), Value::Null) => "None".to_owned(),
        (Type::Option(inner), value) => format!("Some({})", literal(types, inner, value)?),
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
        (Type::Decimal, value) => decimal(value)?,
        (Type::List(element), Value::Array(list)) => format!("vec![{}]", all(types, element, list)?),
        (Type::Array(element, n), Value::Array(list)) if list.len() == *n => {
            format!("[{}]", all(types, element, list)?)
        }
        (Type::Set(element), Value::Array(list)) if types.is_ordered(element) => {
            format!("std::collections::BTreeSet::from([{}])", all(types, element, list)?)
        }
        (Type::Set(element), Value::Array(list)) => format!("vec![{}]", all(types, element, list)?),
        (Type::Tuple(parts), Value::Array(list)) if parts.len() == list.len() => {
            let parts: Option<Vec<_>> =
                parts.iter().zip(list).map(|(ty, value)| literal(types, ty, value)).collect();
            let comma = if list.len() == 1 { "," } else { "" };
            format!("({}{comma})", parts?.join(", "))
        }
        (Type::Map(key, element), Value::Object(map)) => {
            let pairs: Option<Vec<_>> = crate::document::sorted(map)
                .into_iter()
                .map(|(name, value)| {
                    let key = match key {
                        super::model::Key::Text => format!("{name:?}.to_owned()"),
                        super::model::Key::Signed => name.parse::<i64>().ok()?.to_string(),
                        super::model::Key::Unsigned => name.parse::<u64>().ok()?.to_string(),
                    };
                    Some(format!("({key}, {})", literal(types, element, value)?))
                })
                .collect();
            format!("std::collections::BTreeMap::from([{}])", pairs?.join(", "))
        }
        (Type::Named(id), value) => {
            let item = types.get(*id);
            // What holds itself would need boxes here.
            if !types.boxed(*id).is_empty() {
                return None;
            }
            named(types, &item.name, &item.body, value)?
        }
        (Type::Any, Value::Null) => "serde_json::Value::Null".to_owned(),
        (Type::Any, value) => {
            format!("serde_json::from_str({:?}).unwrap_or_default()", value.to_string())
        }
        _ => return None,
    })
}

fn all(types: &Types, element: &Type, list: &[Value]) -> Option<String> {
    let all: Option<Vec<_>> = list.iter().map(|value| literal(types, element, value)).collect();
    Some(all?.join(", "))
}

fn named(types: &Types, name: &str, body: &Body, value: &Value) -> Option<String> {
    Some(match body {
        Body::Unit if value.is_null() => name.to_owned(),
        Body::Newtype(ty) => format!("{name}({})", literal(types, ty, value)?),
        Body::Struct(body) => format!("{name} {}", members(types, body, value)?),
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
                    format!("{name}::{}({})", variant.ident, literal(types, ty, value)?)
                }
                (Content::Struct(body), Some(value)) => {
                    format!("{name}::{} {}", variant.ident, members(types, body, value)?)
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
                Content::Newtype(ty) => format!("{name}::{}({})", variant.ident, literal(types, ty, value)?),
                Content::Struct(body) => {
                    format!("{name}::{} {}", variant.ident, members(types, body, value)?)
                }
                Content::Tuple(_) => return None,
            }
        }
        Body::Unit => return None,
    })
}

/// `{ a: 1, b: None }`.
fn members(types: &Types, body: &Struct, value: &Value) -> Option<String> {
    let object = value.as_object()?;
    if !body.flattened.is_empty() {
        return None;
    }
    let mut members = Vec::new();
    for field in &body.fields {
        let value = match (object.get(&field.member), &field.presence) {
            (None | Some(Value::Null), Presence::Optional) => "None".to_owned(),
            (Some(value), Presence::Optional) => format!("Some({})", literal(types, &field.ty, value)?),
            (Some(value), _) | (None, Presence::Default(value)) => literal(types, &field.ty, value)?,
            (None, Presence::Required) => return None,
        };
        members.push(format!("{}: {value}", raw(&field.ident)));
    }
    Some(if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) })
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
