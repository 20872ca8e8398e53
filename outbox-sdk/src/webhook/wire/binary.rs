//! CloudEvents in binary mode: the attributes are headers, the body is the payload.

use std::fmt::Write as _;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::cloud_event::{Arrived, Attribute, attributes};
use super::{JSON, Source, WireError, json};
use crate::envelope::Envelope;

const PREFIX: &str = "ce-";

/// `content-type` and the `ce-` headers.
pub(super) fn written(envelope: &Envelope, source: &Source) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(JSON))]);
    for (name, value) in attributes(envelope, source).filter(|(name, _)| *name != "datacontenttype") {
        let value = match value {
            Attribute::Text(text) => encoded(&text),
            Attribute::Integer(number) => number.to_string(),
        };
        // Lower-case letters, and printable ASCII: neither is ever refused.
        if let (Ok(name), Ok(value)) =
            (HeaderName::try_from(format!("{PREFIX}{name}")), HeaderValue::try_from(value))
        {
            headers.insert(name, value);
        }
    }
    headers
}

pub(super) fn parsed(headers: &HeaderMap, body: &[u8]) -> Result<Envelope, WireError> {
    let attribute = |name: &'static str| -> Result<Option<String>, WireError> {
        let value = headers.get(format!("{PREFIX}{name}"));
        value.map(|value| decoded(value.as_bytes()).ok_or(WireError::Invalid(name))).transpose()
    };
    let schemaversion = attribute("schemaversion")?.map(|text| text.parse());
    let arrived = Arrived {
        specversion: attribute("specversion")?,
        id: attribute("id")?,
        r#type: attribute("type")?,
        subject: attribute("subject")?,
        time: attribute("time")?,
        schemaversion: schemaversion.transpose().map_err(|_| WireError::Invalid("schemaversion"))?,
        aggregatetype: attribute("aggregatetype")?,
        tenantid: attribute("tenantid")?,
        correlationid: attribute("correlationid")?,
        causationid: attribute("causationid")?,
        auditlogid: attribute("auditlogid")?,
        actor: attribute("actor")?,
        sequence: attribute("sequence")?,
        traceparent: attribute("traceparent")?,
        tracestate: attribute("tracestate")?,
        data: None,
    };
    let data: &RawValue = json(body)?;
    arrived.envelope(data)
}

/// As the HTTP binding has it: `%XX` for each byte of the UTF-8 form of what is not printable ASCII, and for space, `"` and
/// `%`. So a line end never ends a header.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b'!'..=b'~') && !matches!(byte, b'"' | b'%') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// `None` when what is encoded is no UTF-8. A `%` that begins no code stays, as the binding wants it.
fn decoded(value: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|digits| {
            let text = std::str::from_utf8(digits)
                .ok()
                .filter(|text| text.bytes().all(|c| c.is_ascii_hexdigit()))?;
            u8::from_str_radix(text, 16).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_as_the_binding_says_and_come_back() {
        assert_eq!(
            encoded("Euro \u{20ac} \u{1f600}"),
            "Euro%20%E2%82%AC%20%F0%9F%98%80",
            "the binding's own example"
        );
        for text in ["", "plain-~!", "a\"b%c d", "\r\n\u{0}\u{7f}", "%41", "é"] {
            assert_eq!(decoded(encoded(text).as_bytes()).as_deref(), Some(text));
            assert!(encoded(text).bytes().all(|byte| byte.is_ascii_graphic()), "{text:?}");
        }
    }

    #[test]
    fn odd_codes_are_text_and_broken_utf_8_is_none() {
        for odd in ["%", "%4", "%zz", "%+1", "100%"] {
            assert_eq!(decoded(odd.as_bytes()).as_deref(), Some(odd));
        }
        assert_eq!(decoded(b"%e9"), None);
        assert_eq!(decoded(b"%c3%A9").as_deref(), Some("é"));
    }
}
