//! Tests the order of the egress rules with a table: denied networks, allowed networks, built-in ranges, addresses of
//! this host, ports. Each row is checked as a literal address in a URL, and as the address of a name when a request is
//! sent. Requests go through a proxy, so that public addresses can be used.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use posthaste_services::egress::{AddressRule as Rule, AllowedPorts, Blocked, EgressPolicy, OwnAddresses};
use posthaste_testkit::connect_proxy::ConnectProxy;

use crate::senders::{OK, Scripted, answering, code, deliver, proxied};

/// The rule that refuses an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Nothing,
    Denied(&'static str),
    Address(Rule),
    Port,
}

const V4: &str = "9.9.0.0/16";
const V6: &str = "2620:fe::/32";
const INNER: &str = "10.66.0.0/16";
const MAPPED: &str = "::ffff:7.7.7.0/120";

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().expect("a network")).collect()
}

fn policy() -> EgressPolicy {
    EgressPolicy {
        allow_http: true,
        deny_cidrs: nets(&[V4, V6, INNER, MAPPED]),
        allow_cidrs: nets(&["10.0.0.0/8", "64:ff9b::/96", "5.5.5.5/32", "2001::/32"]),
        allow_ports: AllowedPorts::Only([443, 8443].into()),
    }
}

fn own() -> OwnAddresses {
    ["5.5.5.5", "6.6.6.6", "2a00::6", "10.0.0.6", "9.9.0.6"]
        .into_iter()
        .map(|text| text.parse::<IpAddr>().expect("an address"))
        .collect()
}

#[rustfmt::skip]
const ROWS: &[(&str, u16, By)] = &[
    ("8.8.8.8", 443, By::Nothing),
    ("8.8.8.8", 8443, By::Nothing),
    ("8.8.8.8", 80, By::Port),
    ("8.8.8.8", 22, By::Port),
    ("8.8.8.8", 65535, By::Port),
    ("2606:4700:4700::1111", 443, By::Nothing),
    ("2606:4700:4700::1111", 444, By::Port),
    ("9.8.255.255", 443, By::Nothing),
    ("9.9.0.0", 443, By::Denied(V4)),
    ("9.9.9.9", 8443, By::Denied(V4)),
    ("9.9.9.9", 80, By::Denied(V4)),
    ("9.9.255.255", 443, By::Denied(V4)),
    ("9.10.0.0", 443, By::Nothing),
    ("2620:fe::9", 443, By::Denied(V6)),
    ("2620:ff::9", 443, By::Nothing),
    // IPv6 addresses that lead to a denied IPv4 address.
    ("::ffff:9.9.9.9", 443, By::Denied(V4)),
    ("::9.9.9.9", 443, By::Denied(V4)),
    ("::ffff:0:9.9.9.9", 443, By::Denied(V4)),
    ("64:ff9b::9.9.9.9", 443, By::Denied(V4)),
    ("64:ff9b:1::9.9.9.9", 443, By::Denied(V4)),
    ("2002:909:909::1", 443, By::Denied(V4)),
    // The server and the client of a Teredo address.
    ("2001:0:909:909:8000::", 443, By::Denied(V4)),
    ("2001:0:808:808:8000:63bf:f6f6:f6f6", 443, By::Denied(V4)),
    ("2001:0:808:808:8000:63bf:f7f7:f7f7", 22, By::Nothing),
    // A denied network in the notation of IPv6.
    ("7.7.7.7", 443, By::Denied(MAPPED)),
    ("7.7.8.7", 443, By::Nothing),
    // Allowed networks allow any port, but not denied networks inside.
    ("10.1.2.3", 443, By::Nothing),
    ("10.1.2.3", 80, By::Nothing),
    ("10.1.2.3", 9000, By::Nothing),
    ("::ffff:10.1.2.3", 9000, By::Nothing),
    ("64:ff9b::8.8.8.8", 22, By::Nothing),
    ("10.66.0.1", 443, By::Denied(INNER)),
    ("::ffff:10.66.0.1", 443, By::Denied(INNER)),
    ("64:ff9b::10.66.0.1", 443, By::Denied(INNER)),
    // Built-in ranges come before ports.
    ("192.168.0.1", 443, By::Address(Rule::Private)),
    ("192.168.0.1", 80, By::Address(Rule::Private)),
    ("127.0.0.1", 443, By::Address(Rule::Loopback)),
    ("169.254.169.254", 80, By::Address(Rule::Metadata)),
    ("::ffff:8.8.8.8", 443, By::Address(Rule::Ipv4Mapped)),
    // Addresses of this host.
    ("6.6.6.6", 443, By::Address(Rule::ThisHost)),
    ("6.6.6.6", 80, By::Address(Rule::ThisHost)),
    ("::ffff:6.6.6.6", 443, By::Address(Rule::Ipv4Mapped)),
    ("2a00::6", 8443, By::Address(Rule::ThisHost)),
    ("2a00::7", 8443, By::Nothing),
    ("5.5.5.5", 22, By::Nothing),
    ("10.0.0.6", 22, By::Nothing),
    ("9.9.0.6", 443, By::Denied(V4)),
];

fn by(checked: Result<(), Blocked>) -> By {
    match checked {
        Ok(()) => By::Nothing,
        Err(Blocked::Denied { network, .. }) => {
            let names = [V4, V6, INNER, MAPPED];
            let name = names.into_iter().find(|name| name.parse() == Ok(network));
            By::Denied(name.expect("a denied network"))
        }
        Err(Blocked::Address { rule, .. }) => By::Address(rule),
        Err(Blocked::PortRefused { .. }) => By::Port,
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn rules_apply_in_their_order() {
    let receiver = answering(OK).await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let mut reached = Vec::new();
    for (text, port, expected) in ROWS {
        let address: IpAddr = text.parse().expect("an address");
        let peer = SocketAddr::new(address, *port);
        assert_eq!(by(policy().check_address(address, *port, &own())), *expected, "{peer}");
        let checked = policy().check_url(&format!("http://{peer}/"), &own()).map(drop);
        assert_eq!(by(checked), *expected, "{peer} in a URL");
        let sender = proxied(policy(), own(), Scripted::new(&[&[text]]), &proxy.url());
        for url in [format!("http://{peer}/"), format!("http://receiver.example:{port}/")] {
            let exchange = deliver(&sender, &url).await;
            let is_allowed = *expected == By::Nothing;
            assert_eq!(code(&exchange), if is_allowed { "200" } else { "BLOCKED_ADDRESS" }, "{peer} {url}");
            if is_allowed {
                reached.push(peer.to_string());
            }
        }
    }
    assert_eq!(proxy.targets(), reached, "only checked addresses, and never a name");
}

#[test]
fn the_port_of_a_name_is_refused_at_creation_if_no_network_is_allowed() {
    let without = EgressPolicy { allow_cidrs: Vec::new(), ..policy() };
    for (url, with_networks, without_networks) in [
        ("https://receiver.example/", By::Nothing, By::Nothing),
        ("https://receiver.example:8443/", By::Nothing, By::Nothing),
        // The name may resolve to an address in an allowed network.
        ("https://receiver.example:9000/", By::Nothing, By::Port),
        ("http://receiver.example/", By::Nothing, By::Port),
    ] {
        assert_eq!(by(policy().check_url(url, &own()).map(drop)), with_networks, "{url}");
        assert_eq!(by(without.check_url(url, &own()).map(drop)), without_networks, "{url}");
    }
}

#[test]
fn local_names_are_refused_if_loopback_addresses_are_denied() {
    let allow_cidrs = nets(&["127.0.0.0/8", "::1/128"]);
    for (deny_cidrs, is_allowed) in
        [(nets(&[]), true), (nets(&["127.0.0.0/8"]), true), (nets(&["127.0.0.0/8", "::1/128"]), false)]
    {
        let policy = EgressPolicy { deny_cidrs, allow_cidrs: allow_cidrs.clone(), ..EgressPolicy::default() };
        let checked = policy.check_url("https://localhost:9000/", &own());
        assert_eq!(checked.is_ok(), is_allowed, "{policy:?}");
    }
}

#[test]
fn messages_name_the_rule_and_the_setting() {
    for (url, message) in [
        ("https://9.9.9.9/", "9.9.9.9 is in 9.9.0.0/16, which POSTHASTE_DENY_CIDRS refuses"),
        (
            "https://8.8.8.8:80/",
            "port 80 is refused: POSTHASTE_ALLOW_PORTS allows 443,8443, other ports need an address in \
             POSTHASTE_ALLOW_CIDRS",
        ),
        (
            "https://6.6.6.6/",
            "6.6.6.6 is an address of this host and is refused unless POSTHASTE_ALLOW_CIDRS contains it",
        ),
    ] {
        let blocked = policy().check_url(url, &own()).expect_err(url);
        assert_eq!(blocked.to_string(), message);
    }
}
