//! What an answer means, or that none came.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{HeaderMap, RETRY_AFTER};
use outbox_sdk::webhook::{ABORT_MESSAGE, WEBHOOK_DELIVERY, retry_after};

use super::guard::Refused;
use super::tls;
use crate::sink::Outcome;

/// What a complete head of an answer means.
pub(super) fn judge(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Outcome {
    if status.is_success() {
        return Outcome::Delivered;
    }
    let advice = match status.as_u16() {
        300..=399 => "redirects are never followed: set the URL that answers itself",
        401 | 403 => "check that the receiver holds one of this consumer's secrets, and both clocks",
        404 | 405 => "check the URL's path",
        408 | 425 | 429 => "give the receiver more room, or lower max_in_flight",
        410 => "it takes no more events",
        _ if is_given_up(headers) => "it never takes this event: look up in its log why it refuses",
        413 => "raise the receiver's size limit",
        415 => "check which body format the receiver reads",
        500..=599 => "look into the receiver's log",
        _ => "look up in the receiver's log why it refuses",
    };
    // Only the standard phrase of a status: the receiver's own could hold anything.
    let error = match status.canonical_reason() {
        Some(reason) => format!("the receiver answered {} {reason}: {advice}", status.as_u16()),
        None => format!("the receiver answered {}: {advice}", status.as_u16()),
    };
    if status == StatusCode::GONE {
        return Outcome::Gone { error };
    }
    if is_given_up(headers) {
        return Outcome::Reject { error };
    }
    let after = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    Outcome::Retry { error, after: after.and_then(|value| retry_after(value, now)) }
}

/// Whether the receiver says that it never takes this event.
fn is_given_up(headers: &HeaderMap) -> bool {
    headers
        .get(WEBHOOK_DELIVERY)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(ABORT_MESSAGE.as_bytes()))
}

/// The outcome with what the receiver has said to it.
pub(super) fn quoting(outcome: Outcome, said: &[u8]) -> Outcome {
    if said.is_empty() {
        return outcome;
    }
    let quoted = |error: String| format!("{error}; it said: {}", printable(said));
    match outcome {
        Outcome::Delivered => Outcome::Delivered,
        Outcome::Retry { error, after } => Outcome::Retry { error: quoted(error), after },
        Outcome::Reject { error } => Outcome::Reject { error: quoted(error) },
        Outcome::Gone { error } => Outcome::Gone { error: quoted(error) },
        Outcome::Unavailable { error, after } => Outcome::Unavailable { error: quoted(error), after },
    }
}

/// Nothing in it that a terminal or a log would obey.
fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for c in String::from_utf8_lossy(bytes).chars() {
        // Marks that turn the direction of writing, or show nothing, hide what stands there.
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hides { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

/// Why no answer came. Only the kinds of the errors are used: their texts hold the URL.
pub(super) fn unanswered(error: &reqwest::Error, connect_timeout: Duration, timeout: Duration) -> Outcome {
    // With TLS 1.3 a receiver refuses a client's certificate only after the client takes the handshake for done; no request
    // was read then.
    if let Some(refused) = find::<rustls::Error>(error).filter(|error| tls::is_about_certificate(error)) {
        let error = format!("no connection: {}", tls::describe(refused));
        return Outcome::Unavailable { error, after: None };
    }
    if !error.is_connect() {
        let error = if error.is_timeout() {
            format!(
                "no complete answer within {timeout:?}, outcome unknown: have the receiver answer sooner, \
                 or raise the webhook's timeout"
            )
        } else {
            "the connection broke before an answer was read, outcome unknown: \
             check the receiver and what lies between"
                .to_owned()
        };
        return Outcome::Retry { error, after: None };
    }
    let cause = if find::<Refused>(error).is_some() {
        "no connection: the host's name leads to no public address: set allow_private_addresses = true or list its network in \
         allow_networks if the receiver is internal (where clouds keep credentials, the address by itself)"
            .to_owned()
    } else if let Some(tls) = find::<rustls::Error>(error) {
        format!("no connection: {}", tls::describe(tls))
    } else if error.is_dns() {
        "no connection: the host's name cannot be resolved: check the URL's host and the DNS".to_owned()
    } else if error.is_timeout() {
        format!(
            "no connection within {connect_timeout:?}: check the receiver and the network, or raise connect_timeout"
        )
    } else {
        let kind = find::<io::Error>(error).map_or(io::ErrorKind::Other, io::Error::kind);
        format!("no connection ({kind}): check that the receiver runs, and the URL's host and port")
    };
    Outcome::Unavailable { error: cause, after: None }
}

/// The first error of a type among an error and its causes.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    successors(Some(error), |error| cause(*error)).find_map(|error| error.downcast_ref())
}

/// Unlike `source`, which skips it, this gives the error that an [`io::Error`] wraps.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_date_to_wait_for_counts_from_now() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let headers =
            HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("Sun, 06 Nov 1994 08:50:37 GMT"))]);
        let outcome = judge(StatusCode::TOO_MANY_REQUESTS, &headers, now);
        let Outcome::Retry { after, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(after, Some(Duration::from_secs(60)));
    }

    #[test]
    fn one_event_is_given_up_by_header_whatever_the_status_and_410_is_about_all() {
        let now = SystemTime::UNIX_EPOCH;
        let headers = HeaderMap::from_iter([(
            http::HeaderName::from_static(WEBHOOK_DELIVERY),
            HeaderValue::from_static("Abort-Message"),
        )]);
        let judged = |status: u16| judge(StatusCode::from_u16(status).unwrap(), &headers, now);
        for status in [400, 404, 422, 500, 503] {
            assert!(matches!(judged(status), Outcome::Reject { .. }), "{status}");
        }
        assert!(matches!(judged(410), Outcome::Gone { .. }));
        assert_eq!(judged(204), Outcome::Delivered);
    }

    #[test]
    fn what_is_quoted_is_printable() {
        let said = printable(b"no\r\n\x1b[31mred\x00 \xff \xe2\x80\xaeevil");
        assert_eq!(said, "no\\r\\n\\u{1b}[31mred\\u{0} \u{fffd} \\u{202e}evil");
        let outcome = quoting(Outcome::Reject { error: "422".into() }, b"why\n");
        assert_eq!(outcome, Outcome::Reject { error: "422; it said: why\\n".into() });
    }
}
