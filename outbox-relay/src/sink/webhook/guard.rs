//! Which addresses a webhook may reach. The addresses that were checked are the ones that are dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The address policy of one sink: the public internet, or everything.
///
/// As the client's resolver it sees every name before a connection is made, so a name that answers differently the
/// next time gains nothing. A literal address in a URL never reaches a resolver: [`check_literal`](Self::check_literal)
/// is for that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guard {
    pub(super) allow_private: bool,
}

/// No address is left that may be dialled.
#[derive(Debug, thiserror::Error)]
#[error("the address is not public: set allow_private_addresses = true if the receiver is internal")]
pub(super) struct Refused;

impl Guard {
    /// Checks a URL's host if it is an address; a name passes, it is checked when it is resolved.
    pub(super) fn check_literal(self, host: &str) -> Result<(), Refused> {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) if !self.admits(address) => Err(Refused),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Those of a name's addresses that may be dialled.
    fn admitted(self, resolved: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        let admitted: Vec<_> = resolved.filter(|address| self.admits(address.ip())).collect();
        if admitted.is_empty() { Err(Refused) } else { Ok(admitted) }
    }

    fn admits(self, address: IpAddr) -> bool {
        self.allow_private || is_public(address)
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = *self;
        Box::pin(async move {
            // Port 0 stands for "the URL's port".
            let resolved = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Addrs = Box::new(guard.admitted(resolved)?.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether an address belongs to the public internet, by the special-purpose registries of IANA.
///
/// An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4) is as public as the one it carries.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224.., ..] // this network, private, loopback, multicast and reserved
            | [100, 64..=127, ..] // shared by carriers
            | [169, 254, ..] // link-local, where clouds keep their credentials
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [192, 0, 0 | 2, _] // protocol assignments, documentation
            | [192, 88, 99, _] // 6to4 relays
            | [198, 18 | 19, ..] // benchmarks
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [168, 63, 129, 16] // a cloud's host agent under a public number
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => embedded(high, low), // mapped
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low), // NAT64
        [0x2002, high, low, ..] => embedded(high, low),            // 6to4
        [0x2001, 0..=0x1ff, ..] => false,                          // protocol assignments, Teredo among them
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,    // documentation
        // Only 2000::/3 is given out as global unicast; everything else is local, multicast or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAPS: [&str; 52] = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::8.8.8.8",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2002:c0a8:101::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];

    const PUBLIC: [&str; 16] = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "100.63.255.255",
        "100.128.0.0",
        "168.63.129.17",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
    ];

    const CLOSED: Guard = Guard { allow_private: false };
    const OPEN: Guard = Guard { allow_private: true };

    #[test]
    fn traps_are_not_public_and_their_neighbours_are() {
        for trap in TRAPS {
            assert!(!is_public(trap.parse().unwrap()), "{trap}");
        }
        for public in PUBLIC {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn literals_are_checked_in_the_form_that_urls_have() {
        for trap in TRAPS {
            let host = if trap.contains(':') { format!("[{trap}]") } else { trap.to_owned() };
            assert!(CLOSED.check_literal(&host).is_err(), "{host}");
            assert!(OPEN.check_literal(&host).is_ok(), "{host}");
        }
        for host in ["8.8.8.8", "[2606:4700:4700::1111]", "localhost", "10.0.0.1.example"] {
            assert!(CLOSED.check_literal(host).is_ok(), "{host}");
        }
    }

    #[test]
    fn only_checked_addresses_are_left_to_dial() {
        let [public, private]: [SocketAddr; 2] =
            ["8.8.8.8:0", "10.0.0.1:0"].map(|text| text.parse().unwrap());
        assert_eq!(CLOSED.admitted([private, public].into_iter()).unwrap(), [public]);
        assert!(CLOSED.admitted([private].into_iter()).is_err());
        assert!(CLOSED.admitted([].into_iter()).is_err());
        assert_eq!(OPEN.admitted([private].into_iter()).unwrap(), [private]);
    }

    #[tokio::test]
    async fn a_name_for_the_own_machine_is_refused_by_the_resolver() {
        let name = || "localhost".parse::<Name>().unwrap();
        let refused = CLOSED.resolve(name()).await.err().unwrap();
        assert!(refused.is::<Refused>(), "{refused}");
        assert!(OPEN.resolve(name()).await.unwrap().all(|address| address.ip().is_loopback()));
    }
}
