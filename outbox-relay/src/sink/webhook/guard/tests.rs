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

const METADATA: [&str; 12] = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
];

const CLOSED: Policy = Policy { allow_private: false, networks: Vec::new(), plain_http: false };
const OPEN: Policy = Policy { allow_private: true, networks: Vec::new(), plain_http: false };

fn listing(networks: &[&str]) -> Policy {
    Policy { networks: networks.iter().map(|text| text.parse().unwrap()).collect(), ..CLOSED }
}

fn admits(policy: &Policy, address: &str) -> bool {
    policy.admits(address.parse().unwrap())
}

#[test]
fn listed_networks_are_reached_and_nothing_beside_them() {
    let policy = listing(&["10.1.0.0/16", "192.168.7.9", "fd00:1::/64"]);
    for inside in ["10.1.0.0", "10.1.255.255", "192.168.7.9", "fd00:1::9", "::ffff:10.1.2.3", "8.8.8.8"] {
        assert!(admits(&policy, inside), "{inside}");
    }
    for outside in
        ["10.0.255.255", "10.2.0.0", "192.168.7.8", "fd00:1:0:1::9", "64:ff9b::10.1.2.3", "127.0.0.1"]
    {
        assert!(!admits(&policy, outside), "{outside}");
    }
    let readable = Policy { plain_http: true, ..policy };
    assert!(admits(&readable, "10.1.2.3") && !admits(&readable, "8.8.8.8"), "plain http stays inside");
}

#[test]
fn metadata_addresses_are_reached_only_where_they_are_listed_by_themselves() {
    for address in METADATA {
        for policy in [&CLOSED, &OPEN, &listing(&["0.0.0.0/0", "::/0", "169.254.0.0/16"])] {
            assert!(!admits(policy, address), "{address}");
        }
    }
    let listed = listing(&["169.254.169.254", "fd00:ec2::254/128"]);
    for address in ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254"] {
        assert!(admits(&listed, address), "{address}");
    }
    assert!(!admits(&listed, "169.254.170.2"));
}

#[test]
fn networks_are_read_strictly() {
    for wrong in ["", "10.0.0.0/33", "10.0.0.0/", "10/8", "localhost", "10.0.0.0/255.0.0.0", "::/129"] {
        assert_eq!(wrong.parse::<Network>(), Err(NetworkError::NotANetwork), "{wrong}");
    }
    let error = "10.1.2.3/16".parse::<Network>().unwrap_err();
    assert!(error.to_string().contains("`10.1.0.0/16`"), "{error}");
}

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
        assert_eq!(OPEN.check_literal(&host).is_ok(), !is_metadata(trap.parse().unwrap()), "{host}");
    }
    for host in ["8.8.8.8", "[2606:4700:4700::1111]", "localhost", "10.0.0.1.example"] {
        assert!(CLOSED.check_literal(host).is_ok(), "{host}");
    }
}

#[test]
fn only_checked_addresses_are_left_to_dial() {
    let [public, private]: [SocketAddr; 2] = ["8.8.8.8:0", "10.0.0.1:0"].map(|text| text.parse().unwrap());
    assert_eq!(CLOSED.admitted(vec![private, public]).unwrap(), [public]);
    assert!(CLOSED.admitted(vec![private]).is_err());
    assert!(CLOSED.admitted(vec![]).is_err());
    assert_eq!(OPEN.admitted(vec![private]).unwrap(), [private]);
}

#[tokio::test]
async fn a_name_for_the_own_machine_is_refused_by_the_resolver() {
    let name = || "localhost".parse::<Name>().unwrap();
    let guard = |policy| Guard { policy: Arc::new(policy), lookup: Arc::new(SystemLookup) };
    let refused = guard(CLOSED).resolve(name()).await.err().unwrap();
    assert!(refused.is::<Refused>(), "{refused}");
    assert!(guard(OPEN).resolve(name()).await.unwrap().all(|address| address.ip().is_loopback()));
}
