//! What an event may be. One check for every way to publish, so that a row that some reader could not take is never
//! written.

/// Limits on a payload's text, checked at publish.
///
/// ```
/// use outbox_sdk::Limits;
///
/// let limits = Limits::default().max_bytes(64 * 1024);
/// assert!(limits.check(r#"{"code":"A-1"}"#).is_ok());
/// assert!(limits.check("[1]").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    max_bytes: usize,
    max_depth: usize,
}

/// The most digits with which a number may print, its exponent written out. PostgreSQL stores `1e131071` in 8 bytes and
/// prints 131,072 digits: a payload of such numbers would be thousands of times larger for its readers than for its
/// writer. Enough for every 64-bit float.
const MAX_DIGITS: usize = 330;
/// The longest W3C `traceparent` and `tracestate`.
const MAX_TRACEPARENT_BYTES: usize = 55;
const MAX_TRACESTATE_BYTES: usize = 512;
/// The longest key of a publish that must happen once.
const MAX_KEY_BYTES: usize = 255;
/// The largest actor.
const MAX_ACTOR_BYTES: usize = 64 * 1024;

/// The longest aggregate type and the longest aggregate id, in bytes; the tables refuse longer ones too. Both make up a
/// lane's key, escaped as JSON, and the key must fit into an index entry.
const MAX_AGGREGATE_BYTES: usize = 255;

impl Default for Limits {
    /// 1 MiB and 100 levels.
    fn default() -> Self {
        Self { max_bytes: 1024 * 1024, max_depth: 100 }
    }
}

impl Limits {
    /// The largest payload, in bytes of JSON text.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// The deepest nesting of objects and arrays; an object without inner ones has depth 1. At most 120 has an effect
    /// that every reader can follow: parsers commonly stop at 127.
    #[must_use]
    pub fn max_depth(mut self, levels: usize) -> Self {
        self.max_depth = levels;
        self
    }

    /// Checks a text that is JSON already (as written by a serializer) or is going to be parsed afterwards.
    ///
    /// # Errors
    /// The first limit that the text breaks.
    pub fn check(&self, payload: &str) -> Result<(), LimitError> {
        if payload.len() > self.max_bytes {
            return Err(LimitError::TooLarge { bytes: payload.len(), limit: self.max_bytes });
        }
        if !payload.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
            return Err(LimitError::NotAnObject);
        }
        let bytes = payload.as_bytes();
        let mut depth = 0_usize;
        // What the exponents add when the numbers are printed.
        let mut printed = payload.len();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    at = check_string(bytes, at + 1)?;
                    continue;
                }
                b'{' | b'[' => {
                    depth += 1;
                    if depth > self.max_depth {
                        return Err(LimitError::TooDeep { limit: self.max_depth });
                    }
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'-' | b'0'..=b'9' => {
                    let (end, exponent) = check_number(bytes, at)?;
                    printed = printed.saturating_add(exponent);
                    if printed > self.max_bytes {
                        return Err(LimitError::TooLarge { bytes: printed, limit: self.max_bytes });
                    }
                    at = end;
                    continue;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }
}

/// Checks what says which aggregate an event is about.
///
/// # Errors
/// The first rule that it breaks.
pub(crate) fn check_aggregate(aggregate_type: &str, aggregate_id: Option<&str>) -> Result<(), LimitError> {
    if aggregate_type.len() > MAX_AGGREGATE_BYTES {
        return Err(LimitError::AggregateType { bytes: aggregate_type.len() });
    }
    if aggregate_type.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(LimitError::AggregateTypeControl);
    }
    match aggregate_id {
        Some("") => Err(LimitError::AggregateIdEmpty),
        Some(id) if id.len() > MAX_AGGREGATE_BYTES => Err(LimitError::AggregateId { bytes: id.len() }),
        Some(id) if id.contains('\0') => Err(LimitError::AggregateIdNul),
        _ => Ok(()),
    }
}

/// Checks the key of a publish that must happen once.
///
/// # Errors
/// [`LimitError::IdempotencyKey`].
pub(crate) fn check_key(key: &str) -> Result<(), LimitError> {
    let fits = (1..=MAX_KEY_BYTES).contains(&key.len()) && !key.contains('\0');
    if fits { Ok(()) } else { Err(LimitError::IdempotencyKey { bytes: key.len() }) }
}

/// Walks a JSON string from behind its opening quote to behind its closing one.
fn check_string(bytes: &[u8], mut at: usize) -> Result<usize, LimitError> {
    // Whether a `\uD8xx`..`\uDBxx` waits for its second half.
    let mut high_surrogate = false;
    while let Some(&byte) = bytes.get(at) {
        let unit = if byte == b'\\' && bytes.get(at + 1) == Some(&b'u') { hex4(bytes, at + 2) } else { None };
        match unit {
            Some(0) => return Err(LimitError::Nul),
            Some(0xDC00..=0xDFFF) if high_surrogate => high_surrogate = false,
            Some(0xDC00..=0xDFFF) => return Err(LimitError::LoneSurrogate),
            _ if high_surrogate => return Err(LimitError::LoneSurrogate),
            Some(0xD800..=0xDBFF) => high_surrogate = true,
            _ => {}
        }
        at += match (unit, byte) {
            (Some(_), _) => 6,
            (None, b'\\') => 2,
            (None, b'"') => return Ok(at + 1),
            (None, _) => 1,
        };
    }
    // The text ends inside a string: the parser says so.
    Ok(at)
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
    digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Walks a number from its first character to behind its last one; also tells its exponent.
fn check_number(bytes: &[u8], at: usize) -> Result<(usize, usize), LimitError> {
    let of_number = |byte: &u8| matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9' | b'e' | b'E');
    let end =
        bytes.iter().skip(at).position(|byte| !of_number(byte)).map_or(bytes.len(), |length| at + length);
    let number = bytes.get(at..end).unwrap_or_default();
    let split = number.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(number.len());
    let (digits, power) = number.split_at(split);
    let mut exponent = 0_usize;
    for digit in power.iter().filter(|byte| byte.is_ascii_digit()) {
        exponent = exponent.saturating_mul(10).saturating_add(usize::from(digit - b'0'));
    }
    let digits = digits.iter().filter(|byte| byte.is_ascii_digit()).count();
    // Many readers know 64-bit floats only; those that are short enough to be one are looked at closely.
    let finite =
        || std::str::from_utf8(number).ok().and_then(|text| text.parse().ok()).is_none_or(f64::is_finite);
    if digits.saturating_add(exponent) > MAX_DIGITS || (exponent > 290 && !finite()) {
        return Err(LimitError::NumberTooLarge { limit: MAX_DIGITS });
    }
    Ok((end, exponent))
}

/// Checks what belongs to the operation: it travels with each of its events.
///
/// # Errors
/// The first rule that it breaks.
pub(crate) fn check_context(
    actor: Option<&str>,
    traceparent: Option<&str>,
    tracestate: Option<&str>,
) -> Result<(), LimitError> {
    let plain =
        |text: &str, most: usize| text.len() <= most && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if traceparent.is_some_and(|text| !plain(text, MAX_TRACEPARENT_BYTES))
        || tracestate.is_some_and(|text| !plain(text, MAX_TRACESTATE_BYTES))
    {
        return Err(LimitError::Trace);
    }
    // Wrapped in an object, an actor obeys the rules of a payload, whatever JSON it is.
    match actor {
        Some(actor) => Limits::default()
            .max_bytes(MAX_ACTOR_BYTES)
            .check(&format!("{{\"\":{actor}}}"))
            .map_err(|_| LimitError::Actor),
        None => Ok(()),
    }
}

/// An event that breaks a limit. Never holds a part of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// It is not a JSON object.
    #[error("the payload is not a JSON object; wrap it in one, since readers add members to objects only")]
    NotAnObject,
    /// It is larger than allowed.
    #[error(
        "the payload has {bytes} bytes, more than the limit of {limit}; publish a reference to large data, or raise \
         `Limits::max_bytes` here and at every reader"
    )]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// It is nested deeper than allowed.
    #[error("the payload is nested deeper than {limit} levels; flatten it, or raise `Limits::max_depth`")]
    TooDeep {
        /// The limit in levels.
        limit: usize,
    },
    /// It holds the character U+0000, which PostgreSQL's jsonb cannot store.
    #[error(
        "the payload holds a NUL character (U+0000), which no database stores in JSON; remove it before publishing"
    )]
    Nul,
    /// It holds half of a surrogate pair, which is no character.
    #[error(
        "the payload holds a lone surrogate escape (half of a character); repair the text before publishing"
    )]
    LoneSurrogate,
    /// It holds a float that is NaN or infinite, which JSON cannot write.
    #[error(
        "the payload holds a float that is NaN or infinite, and JSON has no such number; make the field an `Option` and leave \
         it out, or refuse the value before publishing"
    )]
    NotFinite,
    /// It holds a number that would print as more digits than readers take.
    #[error(
        "the payload holds a number of more than {limit} digits, its exponent written out, or beyond a 64-bit float; send it \
         as a string, or scale it"
    )]
    NumberTooLarge {
        /// The most digits.
        limit: usize,
    },
    /// The idempotency key is empty, too long, or holds a NUL character.
    #[error(
        "the idempotency key has {bytes} bytes or holds a NUL character; give 1 to 255 bytes, such as the operation's name and \
         the request's id"
    )]
    IdempotencyKey {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The context's actor is too large, too deep, or holds what no database stores.
    #[error(
        "the actor is larger than 64 KiB or breaks another rule of payloads (depth, NUL, lone surrogates, huge numbers); \
         name who acted, and keep the rest in your own tables"
    )]
    Actor,
    /// The context's trace is not as W3C Trace Context writes it.
    #[error(
        "the trace context is not as W3C writes it: `traceparent` has at most 55 and `tracestate` at most 512 bytes of \
         printable ASCII; hand on the headers as they are"
    )]
    Trace,
    /// The aggregate type is too long.
    #[error(
        "the aggregate type has {bytes} bytes, more than the limit of 255; give the kind of aggregate a short name, such \
         as `customer`"
    )]
    AggregateType {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The aggregate type holds a control character.
    #[error(
        "the aggregate type holds a control character, which would do harm in logs and messages; give the kind of \
         aggregate a plain name, such as `customer`"
    )]
    AggregateTypeControl,
    /// The aggregate id is too long.
    #[error(
        "the aggregate id has {bytes} bytes, more than the limit of 255; use a shorter key of the aggregate, or a hash \
         of the long one"
    )]
    AggregateId {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The aggregate id is the empty string.
    #[error("an empty aggregate id is no id; leave it out or give the real one")]
    AggregateIdEmpty,
    /// The aggregate id holds the character U+0000.
    #[error(
        "the aggregate id holds a NUL character (U+0000), which PostgreSQL does not store; give the real id"
    )]
    AggregateIdNul,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(payload: &str) -> Result<(), LimitError> {
        Limits::default().check(payload)
    }

    #[test]
    fn takes_what_readers_take() {
        for good in [
            "{}",
            " \n{\"a\":[1,2,{\"b\":null}]}",
            r#"{"text":"\"quoted\" \\u0000 \u00e9 \ud83d\ude00 é 😀","e":true,"f":false}"#,
            r#"{"n":[1e2,1E+308,-2.5e-307,1.7976931348623157e308,18446744073709551616,0.1]}"#,
            r#"{"e1e999999":"1e999999"}"#,
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn names_the_limit_that_is_broken() {
        for (bad, error) in [
            ("", LimitError::NotAnObject),
            ("[]", LimitError::NotAnObject),
            ("null", LimitError::NotAnObject),
            (r#"{"a":"\u0000"}"#, LimitError::Nul),
            (r#"{"\u0000":1}"#, LimitError::Nul),
            (r#"{"a":"\ud800"}"#, LimitError::LoneSurrogate),
            (r#"{"a":"\ud800x"}"#, LimitError::LoneSurrogate),
            (r#"{"a":"\ud800\ud800\udc00"}"#, LimitError::LoneSurrogate),
            (r#"{"a":"\udc00"}"#, LimitError::LoneSurrogate),
            (r#"{"a":"\uD800\n"}"#, LimitError::LoneSurrogate),
            (r#"{"a":1e309}"#, LimitError::NumberTooLarge { limit: 330 }),
            (r#"{"a":[1.5E-99999999999999999999999]}"#, LimitError::NumberTooLarge { limit: 330 }),
        ] {
            assert_eq!(check(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn counts_bytes_and_levels() {
        let limits = Limits::default().max_bytes(10).max_depth(2);
        assert_eq!(limits.check(r#"{"a":"bc"}"#), Ok(()));
        assert_eq!(limits.check(r#"{"a":"bcd"}"#), Err(LimitError::TooLarge { bytes: 11, limit: 10 }));
        assert_eq!(limits.check(r#"{"a":[]}"#), Ok(()));
        assert_eq!(limits.check(r#"{"a":[[]]}"#), Err(LimitError::TooDeep { limit: 2 }));
        assert_eq!(limits.check(r#"{"a":"[["}"#), Ok(()));
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(99), "]".repeat(99));
        assert_eq!(check(&deep), Ok(()));
        let deeper = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
        assert_eq!(check(&deeper), Err(LimitError::TooDeep { limit: 100 }));
    }

    #[test]
    fn numbers_count_as_they_print() {
        let limits = Limits::default().max_bytes(600);
        assert_eq!(limits.check(r#"{"a":[1e290,1e290]}"#), Ok(()));
        assert_eq!(
            limits.check(r#"{"a":[1e290,1e290,1e2]}"#),
            Err(LimitError::TooLarge { bytes: 23 + 290 + 290, limit: 600 })
        );
        let digits = |n: usize| format!("{{\"a\":{}}}", "7".repeat(n));
        assert_eq!(check(&digits(309)), Ok(()));
        assert_eq!(check(&digits(331)), Err(LimitError::NumberTooLarge { limit: 330 }));
    }

    #[test]
    fn a_context_is_small_and_plain() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(check_context(Some(r#""service""#), Some(parent), Some("a=b")), Ok(()));
        assert_eq!(check_context(None, Some(&format!("{parent}0")), None), Err(LimitError::Trace));
        assert_eq!(check_context(None, Some("a\0"), None), Err(LimitError::Trace));
        assert_eq!(check_context(None, None, Some(&"x".repeat(513))), Err(LimitError::Trace));
        let large = format!("\"{}\"", "x".repeat(64 * 1024));
        for actor in [large.as_str(), r#""\u0000""#, "[1e999]"] {
            assert_eq!(check_context(Some(actor), None, None), Err(LimitError::Actor));
        }
    }

    #[test]
    fn an_aggregate_fits_into_the_key_of_its_lane() {
        let (longest, too_long) = ("\u{e9}".repeat(127) + "x", "\u{e9}".repeat(128));
        let control: String = (1..=31_u8).chain([127]).map(char::from).collect();
        for (kind, id, answer) in [
            ("customer", None, Ok(())),
            ("", Some("7"), Ok(())),
            (longest.as_str(), Some(longest.as_str()), Ok(())),
            ("customer", Some(control.as_str()), Ok(())),
            (&too_long, Some("7"), Err(LimitError::AggregateType { bytes: 256 })),
            ("cust\nomer", None, Err(LimitError::AggregateTypeControl)),
            ("cust\0omer", None, Err(LimitError::AggregateTypeControl)),
            ("cust\u{7f}omer", None, Err(LimitError::AggregateTypeControl)),
            ("customer", Some(&too_long), Err(LimitError::AggregateId { bytes: 256 })),
            ("customer", Some(""), Err(LimitError::AggregateIdEmpty)),
            ("customer", Some("a\0"), Err(LimitError::AggregateIdNul)),
        ] {
            assert_eq!(check_aggregate(kind, id), answer, "{kind:?} {id:?}");
        }
    }

    #[test]
    fn broken_text_never_panics() {
        for broken in ["{", "{\"", "{\"\\", "{\"\\u", "{\"\\u12", "{\"\\ud800", "{1e", "{e", "{\"\\u+123\"}"]
        {
            let _ = check(broken);
        }
    }
}
