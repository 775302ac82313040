//! Where an address leads: into the machine, a private network, or the internet.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The class of an address. A list of addresses has the class of its farthest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressClass {
    /// The machine itself.
    Loopback,
    /// A network that is not the internet: private, shared (100.64/10), link-local, unique
    /// local.
    Private,
    /// Everything else.
    Public,
}

impl AddressClass {
    /// The class of one address. An IPv4 address inside an IPv6 one counts as itself; the
    /// unspecified address leads to the machine.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => of_v4(address),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(inner) => of_v4(inner),
                None => of_v6(address),
            },
        }
    }

    /// The class of all of `addresses`; `None` when there are none.
    pub fn of_all(addresses: &[IpAddr]) -> Option<Self> {
        addresses.iter().copied().map(Self::of).max()
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Public => "public",
        })
    }
}

/// Whether the host of an address is the machine itself, as far as its text says.
pub(crate) fn is_loopback(host: &str) -> bool {
    if let Some(address) = literal(host) {
        return AddressClass::of(address) == AddressClass::Loopback;
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// `host` as an address, when it is one; with or without brackets.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let inner = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(host).parse().ok()
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, ..] = address.octets();
    let shared = a == 100 && (64..128).contains(&b);
    if address.is_loopback() || address.is_unspecified() {
        AddressClass::Loopback
    } else if address.is_private() || address.is_link_local() || shared {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    let first = address.segments()[0];
    if address.is_loopback() || address.is_unspecified() {
        AddressClass::Loopback
    } else if first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80 {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        use AddressClass::{Loopback, Private, Public};
        let rows = [
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("0.0.0.0", Loopback),
            ("::1", Loopback),
            ("::", Loopback),
            ("::ffff:127.0.0.1", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("169.254.169.254", Private),
            ("100.64.0.1", Private),
            ("100.127.255.255", Private),
            ("::ffff:10.0.0.1", Private),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fe80::1", Private),
            ("172.32.0.1", Public),
            ("100.63.255.255", Public),
            ("100.128.0.1", Public),
            ("8.8.8.8", Public),
            ("::ffff:8.8.8.8", Public),
            ("2001:db8::1", Public),
        ];
        for (text, class) in rows {
            assert_eq!(AddressClass::of(text.parse().unwrap()), class, "{text}");
        }
    }

    #[test]
    fn a_list_has_the_class_of_its_farthest_address() {
        let all = |texts: &[&str]| {
            let addresses: Vec<_> = texts.iter().map(|t| t.parse().unwrap()).collect();
            AddressClass::of_all(&addresses)
        };
        assert_eq!(all(&[]), None);
        assert_eq!(all(&["127.0.0.1", "::1"]), Some(AddressClass::Loopback));
        assert_eq!(all(&["127.0.0.1", "10.0.0.1"]), Some(AddressClass::Private));
        assert_eq!(all(&["8.8.8.8", "10.0.0.1"]), Some(AddressClass::Public));
    }
}
