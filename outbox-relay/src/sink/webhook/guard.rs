//! Which addresses a webhook may reach. The addresses that were checked are the ones that are dialled.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// A range of addresses, as `10.1.0.0/16`, `fd00:1::/64`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// A text is no [`Network`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// It is neither a network nor an address.
    #[error(
        "this is neither a network nor an address: write it as `10.1.0.0/16`, `fd00:1::/64` or `10.1.2.3`"
    )]
    NotANetwork,
    /// It has bits behind its prefix, so that one of the two is a mistake.
    #[error("the address has bits behind its prefix: write the network as `{0}`, or the address alone")]
    HostBits(IpNet),
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(IpNet::from(address)));
        }
        let network: IpNet = text.parse().map_err(|_| NetworkError::NotANetwork)?;
        if network.addr() == network.network() {
            Ok(Self(network))
        } else {
            Err(NetworkError::HostBits(network.trunc()))
        }
    }
}

impl Network {
    fn is_exactly(&self, address: IpAddr) -> bool {
        self.0.prefix_len() == self.0.max_prefix_len() && self.0.addr() == address
    }
}

/// What one sink may reach: the public internet, listed networks, or everything but the addresses at which clouds hand out
/// credentials.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    pub(super) allow_private: bool,
    pub(super) networks: Vec<Network>,
    /// Whether events travel readable: then nothing public is dialled, unless everything is allowed.
    pub(super) plain_http: bool,
}

/// No address is left that may be dialled.
#[derive(Debug, thiserror::Error)]
#[error(
    "the address is not public: set allow_private_addresses = true or list its network in allow_networks if the receiver is \
     internal"
)]
pub(super) struct Refused;

impl Policy {
    /// Checks a URL's host if it is an address; a name passes, it is checked when it is resolved.
    pub(super) fn check_literal(&self, host: &str) -> Result<(), Refused> {
        match host.trim_matches(['[', ']']).parse() {
            Ok(address) if !self.admits(address) => Err(Refused),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Those of a name's addresses that may be dialled.
    fn admitted(&self, resolved: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
        let admitted: Vec<_> = resolved.into_iter().filter(|address| self.admits(address.ip())).collect();
        if admitted.is_empty() { Err(Refused) } else { Ok(admitted) }
    }

    fn admits(&self, address: IpAddr) -> bool {
        // A mapped address is dialled as the IPv4 address that it is.
        let address = address.to_canonical();
        if is_metadata(address) {
            return self.networks.iter().any(|network| network.is_exactly(address));
        }
        self.allow_private
            || self.networks.iter().any(|network| network.0.contains(&address))
            || (!self.plain_http && is_public(address))
    }
}

/// Looks names up. Tests answer themselves.
pub(crate) trait Lookup: Send + Sync + 'static {
    /// The addresses of a name, with port 0, which stands for the URL's.
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// As the machine is set up.
pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let name = name.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
    }
}

/// The client's resolver: it sees every name before a connection is made, so a name that answers differently the next time
/// gains nothing. A literal address in a URL never reaches a resolver: [`Policy::check_literal`] is for that.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) policy: Arc<Policy>,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (policy, lookup) = (Arc::clone(&self.policy), self.lookup.lookup(name.as_str()));
        Box::pin(async move {
            let addresses: Addrs = Box::new(policy.admitted(lookup.await?)?.into_iter());
            Ok(addresses)
        })
    }
}

/// Whether a cloud tells its machines their credentials there, also behind an IPv6 address that carries an IPv4 address.
fn is_metadata(address: IpAddr) -> bool {
    const V4: [[u8; 4]; 6] = [
        [169, 254, 169, 254], // nearly all
        [169, 254, 170, 2],   // containers on AWS
        [169, 254, 170, 23],
        [100, 100, 100, 200], // Alibaba
        [168, 63, 129, 16],   // Azure's host agent
        [192, 0, 0, 192],     // Oracle
    ];
    const V6: [[u16; 8]; 3] = [
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], // AWS
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],
        [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], // Google
    ];
    match address {
        IpAddr::V4(v4) => V4.contains(&v4.octets()),
        IpAddr::V6(v6) => {
            V6.contains(&v6.segments()) || carried(v6).is_some_and(|v4| V4.contains(&v4.octets()))
        }
    }
}

/// The IPv4 address that an IPv6 address stands for.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let (high, low) = match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] => (high, low), // mapped
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => (high, low), // NAT64
        [0x2002, high, low, ..] => (high, low),            // 6to4
        _ => return None,
    };
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    Some(Ipv4Addr::new(a, b, c, d))
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
    if let Some(v4) = carried(address) {
        return is_public_v4(v4);
    }
    match address.segments() {
        [0x2001, 0..=0x1ff, ..] => false, // protocol assignments, Teredo among them
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false, // documentation
        // Only 2000::/3 is given out as global unicast; everything else is local, multicast or reserved.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests;
