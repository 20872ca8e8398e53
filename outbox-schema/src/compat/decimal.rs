//! Exact decimal numbers: bounds are compared as they are written, not as floats.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// `mantissa * 10^exponent`, negated if `negative`. The mantissa ends in a digit that is not zero; zero is
/// `0 * 10^0`, not negative. So equal numbers are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decimal {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl Decimal {
    pub(super) const ZERO: Self = Self { negative: false, mantissa: 0, exponent: 0 };
    pub(super) const ONE: Self = Self { negative: false, mantissa: 1, exponent: 0 };

    fn new(negative: bool, mut mantissa: u128, mut exponent: i32) -> Self {
        if mantissa == 0 {
            return Self::ZERO;
        }
        while mantissa.is_multiple_of(10) {
            mantissa /= 10;
            exponent = exponent.saturating_add(1);
        }
        Self { negative, mantissa, exponent }
    }

    pub(super) fn of_i128(n: i128) -> Self {
        Self::new(n < 0, n.unsigned_abs(), 0)
    }

    pub(super) fn of_u128(n: u128) -> Self {
        Self::new(false, n, 0)
    }

    /// As written, as far as `serde_json` keeps it.
    pub(super) fn of(number: &Number) -> Option<Self> {
        if let Some(n) = number.as_i128() {
            return Some(Self::of_i128(n));
        }
        let text = number.to_string();
        let (text, exponent) = match text.split_once(['e', 'E']) {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
            None => (text.as_str(), 0),
        };
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mantissa = format!("{whole}{fraction}").parse::<u128>().ok()?;
        Some(Self::new(negative, mantissa, exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?))
    }

    pub(super) fn of_value(value: &Value) -> Option<Self> {
        Self::of(value.as_number()?)
    }

    pub(super) fn is_integer(self) -> bool {
        self.exponent >= 0
    }

    pub(super) fn as_i128(self) -> Option<i128> {
        let magnitude =
            self.mantissa.checked_mul(10_u128.checked_pow(u32::try_from(self.exponent).ok()?)?)?;
        let n = i128::try_from(magnitude).ok()?;
        Some(if self.negative { -n } else { n })
    }

    /// The nearest integer towards plus infinity, or minus infinity.
    pub(super) fn rounded(self, up: bool) -> Self {
        if self.is_integer() {
            return self;
        }
        let whole = 10_u128.checked_pow(self.exponent.unsigned_abs()).map_or(0, |unit| self.mantissa / unit);
        // It has a fraction, so rounding away from zero is one more.
        let away = up != self.negative;
        Self::new(self.negative, whole + u128::from(away), 0)
    }

    /// One more, or one less; `None` where that is not exact.
    pub(super) fn stepped(self, up: bool) -> Option<Self> {
        let n = self.as_i128()?;
        Some(Self::of_i128(if up { n.checked_add(1)? } else { n.checked_sub(1)? }))
    }

    /// Whether it is a multiple of `step`; `None` where that cannot be told exactly.
    pub(super) fn is_multiple_of(self, step: Self) -> Option<bool> {
        if self.mantissa == 0 {
            return Some(true);
        }
        if step.mantissa == 0 {
            return None;
        }
        let exponent = self.exponent.min(step.exponent);
        let scaled = |of: Self| {
            let power = u32::try_from(of.exponent.checked_sub(exponent)?).ok()?;
            of.mantissa.checked_mul(10_u128.checked_pow(power)?)
        };
        Some(scaled(self)?.is_multiple_of(scaled(step)?))
    }

    /// As a JSON number; beyond 64 bits as near as a float comes.
    pub(super) fn to_value(self) -> Option<Value> {
        if let Some(n) = self.as_i128() {
            if let Ok(n) = i64::try_from(n) {
                return Some(n.into());
            }
            if let Ok(n) = u64::try_from(n) {
                return Some(n.into());
            }
        }
        let sign = if self.negative { "-" } else { "" };
        let float: f64 = format!("{sign}{}e{}", self.mantissa, self.exponent).parse().ok()?;
        Number::from_f64(float).map(Value::Number)
    }

    fn magnitude_cmp(self, other: Self) -> Ordering {
        let digits = |of: Self| i64::from(of.mantissa.checked_ilog10().unwrap_or(0)) + i64::from(of.exponent);
        if self.mantissa == 0 || other.mantissa == 0 {
            return self.mantissa.cmp(&other.mantissa);
        }
        digits(self).cmp(&digits(other)).then_with(|| {
            // Of the same order, so one of the two can be written with the exponent of the other.
            let scale = |small: Self, large: Self| {
                10_u128
                    .checked_pow(large.exponent.abs_diff(small.exponent))
                    .and_then(|unit| large.mantissa.checked_mul(unit))
                    .map_or(Ordering::Greater, |scaled| scaled.cmp(&small.mantissa))
            };
            if self.exponent >= other.exponent { scale(other, self) } else { scale(self, other).reverse() }
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.magnitude_cmp(*other),
            (true, true) => other.magnitude_cmp(*self),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match usize::try_from(self.exponent) {
            Ok(zeros) if zeros <= 40 => write!(f, "{sign}{}{}", self.mantissa, "0".repeat(zeros)),
            Err(_) if self.exponent >= -40 => {
                let places = self.exponent.unsigned_abs() as usize;
                let digits = format!("{:0>width$}", self.mantissa, width = places + 1);
                let (whole, fraction) = digits.split_at(digits.len() - places);
                write!(f, "{sign}{whole}.{fraction}")
            }
            _ => write!(f, "{sign}{}e{}", self.mantissa, self.exponent),
        }
    }
}

/// Whether two values are the same to JSON Schema: `1` and `1.0` are.
pub(super) fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || matches!((Decimal::of(x), Decimal::of(y)), (Some(x), Some(y)) if x == y)
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same_value(a, b)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> Decimal {
        Decimal::of_value(&serde_json::from_str(text).unwrap()).unwrap()
    }

    #[test]
    fn order_is_exact() {
        let ascending = [
            "-1e300",
            "-18446744073709551615",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-0.1",
            "0",
            "1e-300",
            "0.1",
            "0.30000000000000004",
            "0.5",
            "1",
            "1.5",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551615",
            "1e20",
            "1e300",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(dec(a).cmp(&dec(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert!(Decimal::of_u128(u128::MAX) > Decimal::of_i128(i128::MAX));
        assert!(Decimal::of_u128(u128::MAX) < dec("9e38"));
        assert_eq!(dec("-0.0"), Decimal::ZERO);
        assert_eq!(dec("1.0"), Decimal::ONE);
    }

    #[test]
    fn rounding_steps_and_multiples() {
        for (text, up, down) in [
            ("1.5", "2", "1"),
            ("-1.5", "-1", "-2"),
            ("3", "3", "3"),
            ("0.001", "1", "0"),
            ("-1e-60", "0", "-1"),
        ] {
            assert_eq!((dec(text).rounded(true), dec(text).rounded(false)), (dec(up), dec(down)), "{text}");
        }
        assert_eq!(dec("10").stepped(false), Some(dec("9")));
        assert_eq!(dec("1e300").stepped(true), None);
        assert_eq!(dec("12").is_multiple_of(dec("4")), Some(true));
        assert_eq!(dec("0.3").is_multiple_of(dec("0.1")), Some(true));
        assert_eq!(dec("4").is_multiple_of(dec("6")), Some(false));
        assert_eq!(dec("1e300").is_multiple_of(dec("3e-300")), None);
    }

    #[test]
    fn they_are_shown_and_written_plainly() {
        for text in ["4294967296", "-0.5", "18446744073709551615", "1000", "0.001", "0"] {
            assert_eq!(dec(text).to_string(), text);
            assert_eq!(dec(text).to_value().unwrap().to_string(), text);
        }
        assert!(same_value(&serde_json::json!({"a": [1]}), &serde_json::json!({"a": [1.0]})));
        assert!(!same_value(&serde_json::json!([1]), &serde_json::json!([1, 1])));
    }
}
