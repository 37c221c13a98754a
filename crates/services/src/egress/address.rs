//! The addresses that are not public, from the IANA special-purpose address registries (IPv4 and IPv6) as of
//! 2026. For IPv6, every address outside the global unicast block is refused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The rule that refuses an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressRule {
    Unspecified,
    ThisNetwork,
    Private,
    CarrierNat,
    Loopback,
    LinkLocal,
    Metadata,
    ProtocolAssignments,
    Documentation,
    Benchmarking,
    Multicast,
    Broadcast,
    Reserved,
    UniqueLocal,
    SiteLocal,
    Ipv4Mapped,
    Ipv4Compatible,
    Ipv4Translated,
    Nat64,
    SixToFour,
    Teredo,
    Discard,
    SegmentRouting,
    /// An address of a network interface of this host.
    ThisHost,
}

impl fmt::Display for AddressRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "the unspecified address",
            Self::ThisNetwork => "in 0.0.0.0/8 (this network)",
            Self::Private => "in a private network (RFC 1918)",
            Self::CarrierNat => "in the carrier-grade NAT range (100.64.0.0/10)",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata service",
            Self::ProtocolAssignments => "in a block for protocol assignments",
            Self::Documentation => "in a block for documentation",
            Self::Benchmarking => "in a block for benchmarking",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "the broadcast address",
            Self::Reserved => "in a reserved block",
            Self::UniqueLocal => "a unique local address (fc00::/7)",
            Self::SiteLocal => "a site-local address (fec0::/10)",
            Self::Ipv4Mapped => "an IPv4-mapped address",
            Self::Ipv4Compatible => "an IPv4-compatible address",
            Self::Ipv4Translated => "an IPv4-translated address",
            Self::Nat64 => "a NAT64 address",
            Self::SixToFour => "a 6to4 address",
            Self::Teredo => "a Teredo address",
            Self::Discard => "in the discard-only block",
            Self::SegmentRouting => "a segment routing address",
            Self::ThisHost => "an address of this host",
        })
    }
}

use AddressRule as Rule;

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u32, rule: Rule) -> (u32, u32, Rule) {
    (Ipv4Addr::new(a, b, c, d).to_bits(), prefix, rule)
}

/// The IPv4 blocks that are refused, as network, prefix length and rule. The first match applies, so single
/// addresses come before the blocks that contain them.
const IPV4: &[(u32, u32, Rule)] = &[
    v4(0, 0, 0, 0, 32, Rule::Unspecified),
    v4(0, 0, 0, 0, 8, Rule::ThisNetwork),
    v4(10, 0, 0, 0, 8, Rule::Private),
    v4(100, 64, 0, 0, 10, Rule::CarrierNat),
    v4(127, 0, 0, 0, 8, Rule::Loopback),
    v4(169, 254, 169, 254, 32, Rule::Metadata),
    v4(169, 254, 0, 0, 16, Rule::LinkLocal),
    v4(172, 16, 0, 0, 12, Rule::Private),
    v4(192, 0, 0, 0, 24, Rule::ProtocolAssignments),
    v4(192, 0, 2, 0, 24, Rule::Documentation),
    // The 6to4 relay anycast prefix, deprecated in 2015 (RFC 7526).
    v4(192, 88, 99, 0, 24, Rule::SixToFour),
    v4(192, 168, 0, 0, 16, Rule::Private),
    v4(198, 18, 0, 0, 15, Rule::Benchmarking),
    v4(198, 51, 100, 0, 24, Rule::Documentation),
    v4(203, 0, 113, 0, 24, Rule::Documentation),
    // A public address, but within Azure it is the address of a platform service.
    v4(168, 63, 129, 16, 32, Rule::Metadata),
    v4(224, 0, 0, 0, 4, Rule::Multicast),
    v4(255, 255, 255, 255, 32, Rule::Broadcast),
    v4(240, 0, 0, 0, 4, Rule::Reserved),
];

const fn v6(segments: [u16; 8], prefix: u32, rule: Rule) -> (u128, u32, Rule) {
    let [a, b, c, d, e, f, g, h] = segments;
    (Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits(), prefix, rule)
}

const IPV6: &[(u128, u32, Rule)] = &[
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Rule::Unspecified),
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Rule::Loopback),
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Rule::Ipv4Mapped),
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Rule::Ipv4Translated),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Rule::Ipv4Compatible),
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Rule::Nat64),
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Rule::Nat64),
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Rule::Discard),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Rule::Teredo),
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, Rule::Benchmarking),
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Rule::ProtocolAssignments),
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Rule::Documentation),
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Rule::SixToFour),
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Rule::Documentation),
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Rule::SegmentRouting),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Rule::Metadata),
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Rule::Metadata),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Rule::UniqueLocal),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Rule::LinkLocal),
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Rule::SiteLocal),
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Rule::Multicast),
];

/// The block that contains all global unicast IPv6 addresses: 2000::/3.
const IPV6_PUBLIC: (u128, u32) = (0x2000_u128 << 112, 3);

/// Returns the built-in rule that refuses `address`, or `None` if the address is public.
pub(super) fn refused_by(address: IpAddr) -> Option<AddressRule> {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            // No row has the prefix length 0, for which this shift would overflow.
            let row = IPV4.iter().find(|(net, prefix, _)| (bits ^ net) >> (32 - prefix) == 0);
            row.map(|(_, _, rule)| *rule)
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let fits = |net: u128, prefix: u32| (bits ^ net) >> (128 - prefix) == 0;
            let row = IPV6.iter().find(|(net, prefix, _)| fits(*net, *prefix)).map(|(_, _, rule)| *rule);
            let (net, prefix) = IPV6_PUBLIC;
            row.or_else(|| (!fits(net, prefix)).then_some(Rule::Reserved))
        }
    }
}

/// Returns the IPv4 address embedded in an IPv4-mapped or IPv4-compatible address.
pub(super) fn wrapped_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(wrapping) = address else { return None };
    let [.., a, b, c, d] = wrapping.octets();
    let wraps = matches!(refused_by(address), Some(Rule::Ipv4Mapped | Rule::Ipv4Compatible));
    wraps.then_some(Ipv4Addr::new(a, b, c, d))
}

/// Returns the IPv4 addresses to which a gateway may translate `address`: the address embedded in an
/// IPv4-mapped, IPv4-compatible, IPv4-translated, NAT64 (with a prefix of 96 bits) or 6to4 address, and the
/// server and the client of a Teredo address.
pub(super) fn embedded_ipv4(address: IpAddr) -> [Option<Ipv4Addr>; 2] {
    let IpAddr::V6(address) = address else { return [None, None] };
    let bits = address.to_bits();
    // Keeps the low 32 bits.
    let at = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    match refused_by(IpAddr::V6(address)) {
        Some(Rule::Ipv4Mapped | Rule::Ipv4Compatible | Rule::Ipv4Translated | Rule::Nat64) => {
            [Some(at(0)), None]
        }
        Some(Rule::SixToFour) => [Some(at(80)), None],
        // The address of the client is stored inverted (RFC 4380, section 4).
        Some(Rule::Teredo) => [Some(at(64)), Some(Ipv4Addr::from_bits(!at(0).to_bits()))],
        Some(_) | None => [None, None],
    }
}
