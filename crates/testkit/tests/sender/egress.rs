//! Tests the address policy with tables of URLs and addresses. Each entry is checked both at the creation of a
//! subscription and before a request is sent.

use std::collections::HashSet;
use std::net::IpAddr;

use posthaste_core::outcome::{AttemptOutcome, Failure};
use posthaste_services::egress::{AddressRule, AllowedPorts, Blocked, EgressPolicy, OwnAddresses};
use posthaste_services::sender::{Egress, EgressProxy, KeepAlive, Resolve, Resolving, Sender, Trust};
use posthaste_testkit::connect_proxy::{ConnectProxy, ProxyAnswer};

use crate::senders::deliver;

use AddressRule as Rule;

/// Address rules, each with addresses that it refuses, including the first and last address of each block.
const REFUSED: &[(Rule, &[&str])] = &[
    (Rule::Unspecified, &["0.0.0.0", "::"]),
    (Rule::ThisNetwork, &["0.0.0.1", "0.255.255.255"]),
    (Rule::Private, &["10.0.0.0", "10.255.255.255", "172.16.0.0", "172.31.255.255", "192.168.0.0"]),
    (Rule::Private, &["192.168.255.255"]),
    (Rule::CarrierNat, &["100.64.0.0", "100.100.100.200", "100.127.255.255"]),
    (Rule::Loopback, &["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1"]),
    (Rule::LinkLocal, &["169.254.0.0", "169.254.170.2", "169.254.255.255", "fe80::", "fe80::1", "febf::1"]),
    (Rule::Metadata, &["169.254.169.254", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"]),
    (Rule::ProtocolAssignments, &["192.0.0.0", "192.0.0.192", "192.0.0.255"]),
    (Rule::ProtocolAssignments, &["2001:1::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1"]),
    (Rule::Documentation, &["192.0.2.0", "192.0.2.255", "198.51.100.0", "198.51.100.255", "203.0.113.0"]),
    (Rule::Documentation, &["203.0.113.255", "2001:db8::", "2001:db8:ffff::1", "3fff::", "3fff:fff::1"]),
    (Rule::SixToFour, &["192.88.99.0", "192.88.99.255", "2002::", "2002:a00:1::1", "2002:808:808::1"]),
    (Rule::Benchmarking, &["198.18.0.0", "198.19.255.255", "2001:2::1"]),
    (Rule::Multicast, &["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1", "ffff::"]),
    (Rule::Broadcast, &["255.255.255.255"]),
    (Rule::Reserved, &["240.0.0.0", "255.255.255.254", "1::", "200::1", "4000::1", "8000::1", "fe00::1"]),
    (Rule::Reserved, &["100:0:0:1::1", "64:ff9b:2::1", "::1:0:0:0:0"]),
    (Rule::UniqueLocal, &["fc00::", "fd12:3456::1", "fdff:ffff::1"]),
    (Rule::SiteLocal, &["fec0::", "feff::1"]),
    (Rule::Ipv4Mapped, &["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8"]),
    (Rule::Ipv4Compatible, &["::127.0.0.1", "::10.0.0.1", "::8.8.8.8", "::2"]),
    (Rule::Ipv4Translated, &["::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8"]),
    (Rule::Nat64, &["64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::", "64:ff9b:1:ffff::7f00:1"]),
    (Rule::Teredo, &["2001::", "2001:0:4136:e378:8000:63bf:3fff:fdd2"]),
    (Rule::Discard, &["100::", "100::ffff"]),
    (Rule::SegmentRouting, &["5f00::", "5f00:ffff::1"]),
];

/// Public addresses: those adjacent to the blocks in [`REFUSED`], and some well-known ones.
const PUBLIC: &[&str] = &[
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2001:db7:ffff::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700:4700::1111",
    "2a00::1",
    "3ffe::1",
    "3fff:1000::1",
];

/// The port of a URL without one.
const PORT: u16 = 443;

fn own() -> OwnAddresses {
    OwnAddresses::default()
}

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("https://{address}/hook"),
        IpAddr::V6(address) => format!("https://[{address}]/hook"),
    }
}

/// A resolver that returns the same addresses for every name.
struct Answers(Vec<IpAddr>);

impl Resolve for Answers {
    fn resolve<'a>(&'a self, _name: &'a str) -> Resolving<'a> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Sends a request to `url`, whose host name resolves to `resolved`, and returns the failure. The request is sent once
/// directly and once through `proxy`, with the same result.
///
/// # Panics
///
/// Panics if any data is sent.
async fn send(url: &str, resolved: &[IpAddr], proxy: &ConnectProxy) -> Failure {
    let mut failures = Vec::new();
    for proxy in [None, Some(EgressProxy::parse(&proxy.url()).expect("a URL"))] {
        let egress = Egress { proxy, ..Egress::from(EgressPolicy::default()) };
        let answers = Answers(resolved.to_vec());
        let sender = Sender::with_resolver(egress, Trust::nobody(), KeepAlive::default(), answers);
        let exchange = deliver(&sender.expect("a sender"), url).await;
        assert!(!exchange.bytes_written, "{url}");
        match exchange.outcome {
            AttemptOutcome::Failed { failure, .. } => failures.push(failure),
            delivered @ AttemptOutcome::Delivered { .. } => panic!("{url}: {delivered:?}"),
        }
    }
    assert_eq!(failures[0], failures[1], "{url}");
    failures[0]
}

/// Returns a proxy that opens no tunnels.
async fn closed_proxy() -> ConnectProxy {
    ConnectProxy::start(|_| ProxyAnswer::status(403)).await
}

#[tokio::test]
async fn refused_addresses_are_refused_at_creation_and_at_sending_unless_a_network_allows_them() {
    let (policy, proxy) = (EgressPolicy::default(), closed_proxy().await);
    for (rule, texts) in REFUSED {
        for text in *texts {
            let address = address(text);
            let blocked = Blocked::Address { address, rule: *rule };
            assert_eq!(
                policy.check_url(&literal(address), &own()),
                Err(blocked.clone()),
                "{text} at creation"
            );
            assert_eq!(
                policy.check_addresses(&[address], PORT, &own()),
                Err(blocked.clone()),
                "{text} at sending"
            );
            let mixed = [self::address("8.8.8.8"), address];
            assert_eq!(
                policy.check_addresses(&mixed, PORT, &own()),
                Err(blocked),
                "{text} behind a public one"
            );
            assert_eq!(send("https://example.com/", &mixed, &proxy).await, Failure::BlockedAddress, "{text}");
            assert_eq!(send(&literal(address), &[], &proxy).await, Failure::BlockedAddress, "{text}");
            let allowing = EgressPolicy { allow_cidrs: vec![address.into()], ..EgressPolicy::default() };
            assert!(allowing.check_url(&literal(address), &own()).is_ok(), "{text} allowed at creation");
            assert_eq!(allowing.check_addresses(&mixed, PORT, &own()), Ok(()), "{text} allowed at sending");
            let denying = EgressPolicy { deny_cidrs: vec![address.into()], ..allowing };
            assert_is_denied(&denying, address);
        }
    }
    assert_eq!(proxy.targets(), Vec::<String>::new());
}

/// Asserts that a policy whose list of denied networks contains only `address` refuses it for that reason.
fn assert_is_denied(denying: &EgressPolicy, address: IpAddr) {
    let denied = Blocked::Denied { address, network: address.into() };
    assert_eq!(denying.check_url(&literal(address), &own()), Err(denied.clone()), "{address} at creation");
    assert_eq!(denying.check_addresses(&[address], PORT, &own()), Err(denied), "{address} at sending");
}

#[test]
fn public_addresses_pass_unless_denied_or_of_this_host_or_on_another_port() {
    let policy = EgressPolicy::default();
    for text in PUBLIC {
        let address = address(text);
        let denying = EgressPolicy { deny_cidrs: vec![address.into()], ..EgressPolicy::default() };
        assert_is_denied(&denying, address);
        let own: OwnAddresses = [address].into_iter().collect();
        let refused = Err(Blocked::Address { address, rule: Rule::ThisHost });
        assert_eq!(policy.check_address(address, PORT, &own), refused, "{text} of this host");
        let allow_ports = AllowedPorts::Only([8443].into());
        let elsewhere = EgressPolicy { allow_ports: allow_ports.clone(), ..EgressPolicy::default() };
        let refused = Err(Blocked::PortRefused { port: PORT, allowed: allow_ports.clone() });
        assert_eq!(elsewhere.check_url(&literal(address), &self::own()), refused, "{text} on another port");
        assert_eq!(elsewhere.check_address(address, 8443, &self::own()), Ok(()), "{text} on its port");
        let allow_cidrs = vec![address.into()];
        let allowing = EgressPolicy { allow_cidrs, allow_ports, ..EgressPolicy::default() };
        assert_eq!(allowing.check_address(address, PORT, &own), Ok(()), "{text} allowed");
    }
    for text in PUBLIC {
        assert!(policy.check_url(&literal(address(text)), &own()).is_ok(), "{text} at creation");
        assert_eq!(policy.check_addresses(&[address(text)], PORT, &own()), Ok(()), "{text} at sending");
    }
    assert_eq!(policy.check_addresses(&[], PORT, &own()), Err(Blocked::NoAddress));
}

#[test]
fn an_ipv4_network_also_allows_its_mapped_ipv6_addresses() {
    let allow_cidrs = vec!["10.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_cidrs, ..EgressPolicy::default() };
    let rows = [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("::10.1.2.3", true),
        ("::ffff:11.1.2.3", false),
        ("::ffff:127.0.0.1", false),
        ("64:ff9b::10.1.2.3", false),
        ("2002:a01:203::1", false),
        ("192.168.0.1", false),
        ("::1", false),
    ];
    for (text, allowed) in rows {
        assert_eq!(policy.check_address(address(text), PORT, &own()).is_ok(), allowed, "{text}");
    }
}

/// The result of checking a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Unreadable,
    Scheme,
    UserInfo,
    Fragment,
    Name,
    Port,
    Local,
    Refused(Rule),
}

fn verdict(policy: &EgressPolicy, url: &str) -> Verdict {
    match policy.check_url(url, &own()) {
        Ok(_) => Verdict::Pass,
        Err(Blocked::NotAUrl(_)) => Verdict::Unreadable,
        Err(Blocked::Scheme(_)) => Verdict::Scheme,
        Err(Blocked::UserInfo) => Verdict::UserInfo,
        Err(Blocked::Fragment) => Verdict::Fragment,
        Err(Blocked::Name) => Verdict::Name,
        Err(Blocked::Port) => Verdict::Port,
        Err(Blocked::LocalName { .. }) => Verdict::Local,
        Err(Blocked::Address { rule, .. }) => Verdict::Refused(rule),
        Err(Blocked::Denied { .. } | Blocked::PortRefused { .. }) => panic!("{url}: no rule of the settings"),
        Err(Blocked::NoAddress) => panic!("{url}: not resolved"),
    }
}

const fn code(verdict: Verdict) -> Option<Failure> {
    match verdict {
        Verdict::Pass => None,
        Verdict::Local | Verdict::Refused(_) => Some(Failure::BlockedAddress),
        Verdict::Unreadable
        | Verdict::Scheme
        | Verdict::UserInfo
        | Verdict::Fragment
        | Verdict::Name
        | Verdict::Port => Some(Failure::UrlInvalid),
    }
}

const LOOPBACK: Verdict = Verdict::Refused(Rule::Loopback);
const PRIVATE: Verdict = Verdict::Refused(Rule::Private);
const METADATA: Verdict = Verdict::Refused(Rule::Metadata);

#[rustfmt::skip]
const URLS: &[(&str, Verdict)] = &[
    ("https://example.com/hook", Verdict::Pass),
    ("https://example.com", Verdict::Pass),
    ("https://example.com:8443/a/b?c=d&e=%20f", Verdict::Pass),
    ("HTTPS://EXAMPLE.COM/Hook", Verdict::Pass),
    ("hTtPs://example.com/", Verdict::Pass),
    ("https://example.com./hook", Verdict::Pass),
    ("https://bücher.example/", Verdict::Pass),
    ("https://xn--bcher-kva.example/", Verdict::Pass),
    ("https://例え.テスト/", Verdict::Pass),
    ("https://a_b.example.com/", Verdict::Pass),
    ("https://intranet/", Verdict::Pass),
    ("https://8.8.8.8/", Verdict::Pass),
    ("https://134744072/", Verdict::Pass),
    ("https://[2606:4700:4700::1111]/", Verdict::Pass),
    ("https:example.com/", Verdict::Pass),
    ("https:\\\\example.com\\hook", Verdict::Pass),
    ("  https://example.com/  ", Verdict::Pass),
    ("https://@example.com/", Verdict::Pass),
    ("https://127.0.0.1.example.com/", Verdict::Pass),
    ("https://localhost.example.com/", Verdict::Pass),
    ("https://example.com/http://127.0.0.1/", Verdict::Pass),
    ("https://example.com/?to=user@127.0.0.1", Verdict::Pass),
    ("http://example.com/", Verdict::Scheme),
    ("HTTP://example.com/", Verdict::Scheme),
    ("ftp://example.com/", Verdict::Scheme),
    ("file:///etc/passwd", Verdict::Scheme),
    ("gopher://127.0.0.1/", Verdict::Scheme),
    ("javascript:alert(1)", Verdict::Scheme),
    ("data:text/plain,x", Verdict::Scheme),
    ("ws://example.com/", Verdict::Scheme),
    ("unix:///run/docker.sock", Verdict::Scheme),
    ("https+unix://example.com/", Verdict::Scheme),
    ("https://user@example.com/", Verdict::UserInfo),
    ("https://user:secret@example.com/", Verdict::UserInfo),
    ("https://:secret@example.com/", Verdict::UserInfo),
    ("https://example.com@127.0.0.1/", Verdict::UserInfo),
    ("https://127.0.0.1%40example.com/", Verdict::Unreadable),
    ("https://example.com\\@127.0.0.1/", Verdict::Pass),
    ("https://example.com/#part", Verdict::Fragment),
    ("https://example.com/#", Verdict::Fragment),
    ("https://example.com#@127.0.0.1/", Verdict::Fragment),
    ("", Verdict::Unreadable),
    ("example.com/hook", Verdict::Unreadable),
    ("//example.com/hook", Verdict::Unreadable),
    ("https://", Verdict::Unreadable),
    ("https:///", Verdict::Unreadable),
    ("https://exa mple.com/", Verdict::Unreadable),
    ("https://example.com:65536/", Verdict::Unreadable),
    ("https://example.com:port/", Verdict::Unreadable),
    ("https://example.com:0/", Verdict::Port),
    ("https://a..example.com/", Verdict::Name),
    ("https://.example.com/", Verdict::Name),
    ("https://example.com../", Verdict::Name),
    ("https://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example/", Verdict::Name),
    ("https://[fe80::1%25eth0]/", Verdict::Unreadable),
    ("https://[fe80::1%eth0]/", Verdict::Unreadable),
    ("https://[::1/", Verdict::Unreadable),
    ("https://::1/", Verdict::Unreadable),
    ("https://[127.0.0.1]/", Verdict::Unreadable),
    ("https://256.256.256.256/", Verdict::Unreadable),
    ("https://1.2.3.4.5/", Verdict::Unreadable),
    ("https://4294967296/", Verdict::Unreadable),
    ("https://127.0.0.0x100/", Verdict::Unreadable),
    ("https://localhost/", Verdict::Local),
    ("https://LOCALHOST./", Verdict::Local),
    ("https://api.localhost:8443/", Verdict::Local),
    ("https://loc%61lhost/", Verdict::Local),
    ("https://ｌｏｃａｌｈｏｓｔ/", Verdict::Local),
    ("https://127.0.0.1/", LOOPBACK),
    ("https://127.0.0.1:8443/", LOOPBACK),
    ("https://127.0.0.1./", LOOPBACK),
    ("https://127.1/", LOOPBACK),
    ("https://127.0.1/", LOOPBACK),
    ("https://2130706433/", LOOPBACK),
    ("https://2130706433./", LOOPBACK),
    ("https://0x7f000001/", LOOPBACK),
    ("https://0X7F.1/", LOOPBACK),
    ("https://0x7f.0x0.0x0.0x1/", LOOPBACK),
    ("https://0177.0.0.1/", LOOPBACK),
    ("https://017700000001/", LOOPBACK),
    ("https://0177.0x0.1/", LOOPBACK),
    ("https://%31%32%37.0.0.1/", LOOPBACK),
    ("https://１２７.０.０.１/", LOOPBACK),
    ("https://127。0。0。1/", LOOPBACK),
    ("https://①②⑦.0.0.1/", LOOPBACK),
    ("https:\\\\127.0.0.1\\", LOOPBACK),
    ("https:127.0.0.1/", LOOPBACK),
    ("ht\ntps://127.\t0.0.1/", LOOPBACK),
    ("https://[::1]/", LOOPBACK),
    ("https://[0:0:0:0:0:0:0:1]/", LOOPBACK),
    ("https://[0000:0000::0001]/", LOOPBACK),
    ("https://0/", Verdict::Refused(Rule::Unspecified)),
    ("https://0.0.0.0/", Verdict::Refused(Rule::Unspecified)),
    ("https://[::]/", Verdict::Refused(Rule::Unspecified)),
    ("https://[::ffff:127.0.0.1]/", Verdict::Refused(Rule::Ipv4Mapped)),
    ("https://[::FFFF:7F00:1]/", Verdict::Refused(Rule::Ipv4Mapped)),
    ("https://[::ffff:0:0]/", Verdict::Refused(Rule::Ipv4Mapped)),
    ("https://[::127.0.0.1]/", Verdict::Refused(Rule::Ipv4Compatible)),
    ("https://[64:ff9b::7f00:1]/", Verdict::Refused(Rule::Nat64)),
    ("https://[64:ff9b:1::a9fe:a9fe]/", Verdict::Refused(Rule::Nat64)),
    ("https://[2002:7f00:1::]/", Verdict::Refused(Rule::SixToFour)),
    ("https://[2001:0:a9fe:a9fe::1]/", Verdict::Refused(Rule::Teredo)),
    ("https://[fe80::1]/", Verdict::Refused(Rule::LinkLocal)),
    ("https://[fd12:3456:789a::1]/", Verdict::Refused(Rule::UniqueLocal)),
    ("https://100.64.0.1/", Verdict::Refused(Rule::CarrierNat)),
    ("https://1681915905/", Verdict::Refused(Rule::CarrierNat)),
    ("https://10.0.0.1/", PRIVATE),
    ("https://012.0.0.1/", PRIVATE),
    ("https://0xa.1/", PRIVATE),
    ("https://192.168.1/", PRIVATE),
    ("https://3232235777/", PRIVATE),
    ("https://172.16.0.1/", PRIVATE),
    ("https://169.254.169.254/latest/meta-data/", METADATA),
    ("https://2852039166/", METADATA),
    ("https://0xA9FEA9FE/", METADATA),
    ("https://0251.0376.0251.0376/", METADATA),
    ("https://169.254.43518/", METADATA),
    ("https://[fd00:ec2::254]/", METADATA),
];

#[tokio::test]
async fn urls_in_every_spelling_are_classified() {
    let (policy, proxy) = (EgressPolicy::default(), closed_proxy().await);
    for (url, expected) in URLS {
        assert_eq!(verdict(&policy, url), *expected, "{url:?} at creation");
        let resolved = [address("127.0.0.1")];
        // A name that passed at creation now resolves to a loopback address. Refused URLs are still refused.
        let code = code(*expected).unwrap_or(Failure::BlockedAddress);
        if !matches!(*url, "https://8.8.8.8/" | "https://134744072/" | "https://[2606:4700:4700::1111]/") {
            assert_eq!(send(url, &resolved, &proxy).await, code, "{url:?} at sending");
        }
    }
    assert_eq!(proxy.targets(), Vec::<String>::new());
}

#[test]
fn settings_allow_exactly_what_they_name() {
    let allow_cidrs = vec!["127.0.0.0/8".parse().expect("a network")];
    let policy = EgressPolicy { allow_http: true, allow_cidrs, ..EgressPolicy::default() };
    let rows = [
        ("http://example.com/", Verdict::Pass),
        ("HTTP://127.0.0.1:8080/", Verdict::Pass),
        ("http://2130706433/", Verdict::Pass),
        ("https://localhost/", Verdict::Pass),
        ("https://[::ffff:127.0.0.1]/", Verdict::Pass),
        ("ftp://127.0.0.1/", Verdict::Scheme),
        ("http://user@127.0.0.1/", Verdict::UserInfo),
        ("http://[::1]/", LOOPBACK),
        ("http://10.0.0.1/", PRIVATE),
        ("http://169.254.169.254/", METADATA),
    ];
    for (url, expected) in rows {
        assert_eq!(verdict(&policy, url), expected, "{url}");
    }
}

#[test]
fn the_tables_are_large_and_have_no_duplicates() {
    let refused: Vec<_> = REFUSED.iter().flat_map(|(_, texts)| texts.iter()).collect();
    assert!(URLS.len() + refused.len() + PUBLIC.len() >= 200);
    let distinct: HashSet<_> = refused.iter().chain(&PUBLIC.iter().collect::<Vec<_>>()).copied().collect();
    assert_eq!(distinct.len(), refused.len() + PUBLIC.len());
    assert_eq!(URLS.iter().map(|(url, _)| url).collect::<HashSet<_>>().len(), URLS.len());
}
