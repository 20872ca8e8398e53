//! Which headers a configuration may not set.

use http::HeaderName;

/// Why a header is not the configuration's to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reserved {
    /// The relay says it of each delivery.
    #[error("the relay sets it; choose another name")]
    Relay,
    /// It belongs to the connection.
    #[error("it is about the connection, not about the request; leave it out")]
    Connection,
}

/// The relay's own, and what would change how its request is read.
const OWN: [&str; 8] = [
    "accept-encoding",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "host",
    "range",
    "user-agent",
];
const OWN_PREFIXES: [&str; 3] = ["webhook-", "outbox-", "ce-"];
/// Hop by hop, as RFC 9110 has it, and their kin.
const CONNECTION: [&str; 11] = [
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Reserved {
    /// Whether a configuration may set the header.
    pub(crate) fn check(name: &HeaderName) -> Result<(), Self> {
        let name = name.as_str();
        if CONNECTION.contains(&name) {
            Err(Self::Connection)
        } else if OWN.contains(&name) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            Err(Self::Relay)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_relays_own_and_the_connections_are_reserved_and_others_are_not() {
        let checked = |name: &str| Reserved::check(&name.parse().unwrap());
        for own in
            ["Content-Type", "webhook-signature", "outbox-anything", "ce-type", "HOST", "accept-encoding"]
        {
            assert_eq!(checked(own), Err(Reserved::Relay), "{own}");
        }
        for hop in ["Connection", "transfer-encoding", "TE", "upgrade", "proxy-authorization"] {
            assert_eq!(checked(hop), Err(Reserved::Connection), "{hop}");
        }
        for free in ["authorization", "x-api-key", "accept", "traceparent", "x-webhook-id"] {
            assert_eq!(checked(free), Ok(()), "{free}");
        }
    }
}
