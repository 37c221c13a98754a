//! [`Kind`]s of network settings: socket addresses, CIDR lists, ports, the URLs of the broker and of the proxy, the
//! headers for the broker, and the names by which receivers know this installation.

use super::Kind;
use http::{HeaderName, HeaderValue};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use posthaste_services::egress::{AllowedPorts, Blocked, EgressPolicy, OwnAddresses};
use posthaste_services::sender::EgressProxy;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// A socket address.
#[derive(Debug)]
pub(in crate::settings) struct Listen;

impl Kind for Listen {
    type Value = SocketAddr;
    const METAVAR: &'static str = "ADDRESS";

    fn read(&self, text: &str) -> Result<SocketAddr, String> {
        text.parse().map_err(|_| format!("an {}", self.accepts()))
    }

    fn accepts(&self) -> String {
        "IP address and port, such as 127.0.0.1:8080 or [::]:8080".to_owned()
    }
}

/// A list of networks in CIDR notation.
#[derive(Debug)]
pub(in crate::settings) struct Networks;

/// The maximum number of networks in a list. The destination address of every request is compared with each network.
const NETWORKS_MAX: usize = 256;

impl Kind for Networks {
    type Value = Vec<IpNet>;
    const METAVAR: &'static str = "CIDRS";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<Vec<IpNet>, String> {
        let networks: Result<Vec<IpNet>, _> =
            text.split(',').map(|part| part.trim().parse::<IpNet>().map(|net| net.trunc())).collect();
        networks.ok().filter(|networks| networks.len() <= NETWORKS_MAX).ok_or_else(|| self.accepts())
    }

    fn accepts(&self) -> String {
        format!("up to {NETWORKS_MAX} networks separated by commas, such as 10.0.0.0/8,fd00::/8")
    }
}

/// A list of ports, or `any`.
#[derive(Debug)]
pub(in crate::settings) struct Ports;

/// The maximum number of ports in a list.
const PORTS_MAX: usize = 64;

impl Kind for Ports {
    type Value = AllowedPorts;
    const METAVAR: &'static str = "PORTS";
    const SEPARATOR: Option<&'static str> = Some(",");

    fn read(&self, text: &str) -> Result<AllowedPorts, String> {
        if text == "any" {
            return Ok(AllowedPorts::Any);
        }
        let port = |part: &str| {
            let part = part.trim();
            let is_plain = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u16>().ok().filter(|port| is_plain && *port > 0)
        };
        let ports: Option<BTreeSet<u16>> = text.split(',').map(port).collect();
        let ports = ports.filter(|ports| ports.len() <= PORTS_MAX).ok_or_else(|| self.accepts())?;
        Ok(AllowedPorts::Only(ports))
    }

    fn accepts(&self) -> String {
        format!("any, or up to {PORTS_MAX} ports from 1 to 65535 separated by commas, such as 443,8443")
    }
}

/// The URL of the proxy for outgoing requests.
#[derive(Debug)]
pub(in crate::settings) struct ProxyAt;

impl Kind for ProxyAt {
    type Value = EgressProxy;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<EgressProxy, String> {
        EgressProxy::parse(text).map_err(|reason| format!("an {}, but {reason}", self.accepts()))
    }

    fn accepts(&self) -> String {
        "http URL such as http://proxy.example:3128 or http://user:password@proxy.example:3128".to_owned()
    }
}

/// The URL of the broker. Only its syntax is checked here; `combination` checks it against the egress policy.
#[derive(Debug)]
pub(in crate::settings) struct BrokerAt;

impl Kind for BrokerAt {
    type Value = String;
    const METAVAR: &'static str = "URL";

    fn read(&self, text: &str) -> Result<String, String> {
        let expected = format!("an {}", self.accepts());
        if text.contains('?') {
            return Err(format!("{expected}, without a query: put secrets into the headers"));
        }
        let anything = EgressPolicy {
            allow_http: true,
            allow_cidrs: vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            ..EgressPolicy::default()
        };
        match anything.check_url(text, &OwnAddresses::default()) {
            Ok(_) => Ok(text.to_owned()),
            // The scheme may be part of a secret that was entered here by mistake.
            Err(Blocked::Scheme(_)) => Err(expected),
            Err(blocked) => Err(format!("{expected} ({blocked})")),
        }
    }

    fn accepts(&self) -> String {
        "https URL such as https://broker.example/orders".to_owned()
    }
}

/// Headers for requests to the broker, in the form `Name: value`. They are separated by semicolons, or by line breaks
/// if a value contains a semicolon.
#[derive(Debug)]
pub(in crate::settings) struct Headers;

/// The maximum number of headers for requests to the broker.
const HEADERS_MAX: usize = 32;

/// Headers that the sender sets itself. Duplicates could change the framing or the identity of a request.
const RESERVED: [&str; 9] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "te",
    "transfer-encoding",
    "upgrade",
];

impl Kind for Headers {
    type Value = Vec<(HeaderName, HeaderValue)>;
    const METAVAR: &'static str = "HEADERS";
    const SEPARATOR: Option<&'static str> = Some("\n");

    fn read(&self, text: &str) -> Result<Self::Value, String> {
        let separator = if text.contains('\n') { '\n' } else { ';' };
        let lines: Vec<&str> = text.split(separator).map(str::trim).filter(|line| !line.is_empty()).collect();
        let headers: Option<Self::Value> = lines.iter().map(|line| header(line)).collect();
        let headers = headers
            .filter(|headers| (1..=HEADERS_MAX).contains(&headers.len()))
            .ok_or_else(|| self.accepts())?;
        match headers.iter().find(|(name, _)| RESERVED.contains(&name.as_str())) {
            Some((name, _)) => Err(format!("headers other than {name}, which Posthaste sets itself")),
            None => Ok(headers),
        }
    }

    fn accepts(&self) -> String {
        format!("up to {HEADERS_MAX} headers as Name: value, separated by semicolons or line breaks")
    }
}

/// A DNS host name, without a scheme or a port.
#[derive(Debug)]
pub(in crate::settings) struct HostName;

impl Kind for HostName {
    type Value = String;
    const METAVAR: &'static str = "NAME";

    fn read(&self, text: &str) -> Result<String, String> {
        let name = text.to_ascii_lowercase();
        if is_host_name(&name) { Ok(name) } else { Err(format!("a {}", self.accepts())) }
    }

    fn accepts(&self) -> String {
        "DNS host name such as events.example.com, without a scheme or a port".to_owned()
    }
}

/// Returns whether text is a host name of RFC 1123. A name whose last label is a number would be an address.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    name.len() <= 253 && name.split('.').all(is_label) && !name.rsplit('.').next().is_some_and(is_number)
}

/// A URI reference (RFC 3986) that is not empty, such as `posthaste` or `https://events.example.com/`.
#[derive(Debug)]
pub(in crate::settings) struct UriReference;

/// The maximum length of a URI reference, in bytes.
const URI_REFERENCE_BYTES_MAX: usize = 500;

impl Kind for UriReference {
    type Value = String;
    const METAVAR: &'static str = "URI";

    fn read(&self, text: &str) -> Result<String, String> {
        if is_uri_reference(text) { Ok(text.to_owned()) } else { Err(format!("a {}", self.accepts())) }
    }

    fn accepts(&self) -> String {
        format!(
            "URI reference of 1 to {URI_REFERENCE_BYTES_MAX} characters, such as posthaste or https://example.com/"
        )
    }
}

fn is_uri_reference(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    // A percent sign is followed by two hexadecimal digits.
    let is_escape = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).take(2).count() == 2;
    // The part before the first colon, if no slash precedes it, is a scheme.
    let is_scheme = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    (1..=URI_REFERENCE_BYTES_MAX).contains(&text.len())
        && text.bytes().all(allowed)
        && text.split('%').skip(1).all(is_escape)
        && first.split_once(':').is_none_or(|(scheme, _)| is_scheme(scheme))
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value.trim()).ok().filter(|value| !value.is_empty())?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_are_parsed() {
        for text in ["127.0.0.1:8080", "[::]:80", "0.0.0.0:0"] {
            assert!(Listen.read(text).is_ok(), "{text}");
        }
        for text in ["", ":8080", "8080", "localhost:8080", "127.0.0.1", "::1:80", "1.2.3.4:70000"] {
            assert!(Listen.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_the_installation_are_checked() {
        assert_eq!(HostName.read("Events.Example.com").as_deref(), Ok("events.example.com"));
        assert!(HostName.read("localhost").is_ok() && HostName.read("xn--bcher-kva.example").is_ok());
        let long = format!("{}.example", "a".repeat(64));
        let rows = [
            "",
            "a b",
            "https://a.example",
            "a.example:443",
            "a..b",
            ".a",
            "a.",
            "-a.b",
            "a-.b",
            "a_b",
            "127.0.0.1",
        ];
        for text in rows.into_iter().chain(["é.example", "*", &long]) {
            assert!(HostName.read(text).is_err(), "{text}");
        }
        for text in
            ["posthaste", "/orders", "https://a.example/x?y#z", "urn:example:1", "//a/b", "a%20b", "./a:b"]
        {
            assert_eq!(UriReference.read(text).as_deref(), Ok(text), "{text}");
        }
        let long = "a".repeat(501);
        for text in ["", "a b", "a\nb", "é", "a%2", "a%zz", "1:b", ":b", "a\\b", "<a>", &long] {
            assert!(UriReference.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_are_parsed_and_truncated() {
        let check = |text: &str| {
            Networks.read(text).map(|nets| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1/32, fd00::/8", "127.0.0.1/32 fd00::/8"),
            ("10.1.2.3/8", "10.0.0.0/8"),
        ] {
            assert_eq!(check(text).as_deref(), Ok(shown));
        }
        let many = vec!["10.0.0.0/8"; 257].join(",");
        for text in
            ["", ",", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/8,", "10.0.0.0/8 fd00::/8", "example.com/8", &many]
        {
            assert!(check(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ports_are_a_set() {
        let check = |text: &str| Ports.read(text).map(|ports| ports.to_string());
        for (text, shown) in
            [("any", "any"), ("443", "443"), ("8443, 443,443", "443,8443"), ("1,65535", "1,65535")]
        {
            assert_eq!(check(text).as_deref(), Ok(shown));
        }
        let many = (1..=65).map(|port| port.to_string()).collect::<Vec<_>>().join(",");
        for text in
            ["", "0", "65536", "-1", "+443", "443,", "443;8443", "443-445", "https", "any,443", "ANY", &many]
        {
            let expected = "any, or up to 64 ports from 1 to 65535 separated by commas, such as 443,8443";
            assert_eq!(check(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn proxy_urls_are_parsed_and_messages_hide_them() {
        let proxy = ProxyAt.read("http://user:hush@proxy.example:3128").map(|proxy| format!("{proxy:?}"));
        assert_eq!(proxy.as_deref(), Ok("EgressProxy(proxy.example:3128)"));
        for text in [
            "hush",
            "https://u:hush@p.example",
            "http://u:hush@p.example/x",
            "http://u:hush%0A@p.example",
            "http://",
        ] {
            let message = ProxyAt.read(text).map_err(|message| message.replace("user:password", ""));
            assert!(
                message.is_err_and(|message| message.contains(", but ") && !message.contains("hush")),
                "{text}"
            );
        }
    }

    #[test]
    fn broker_urls_have_no_credentials_and_no_query() {
        for text in ["https://broker.example", "https://broker.example/v2/orders", "http://127.0.0.1:9000/"] {
            assert_eq!(BrokerAt.read(text).as_deref(), Ok(text));
        }
        for text in
            ["", "broker.example", "ftp://b.example", "https://u:hush@b.example", "https://b.example/?k=hush"]
        {
            let message = BrokerAt.read(text).err();
            assert!(message.is_some_and(|message| !message.contains("hush")), "{text}");
        }
    }

    #[test]
    fn headers_are_parsed_and_hidden() {
        let check = |text: &str| {
            let headers = Headers.read(text)?;
            let shown =
                headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap_or("?")));
            Ok::<_, String>(shown.collect::<Vec<_>>().join("|"))
        };
        for (text, shown) in [
            ("Authorization: Bearer a", "authorization=Bearer a"),
            ("X-A: 1; X-B: 2;", "x-a=1|x-b=2"),
            ("X-A: 1; q=2\nX-B: 3\n", "x-a=1; q=2|x-b=3"),
            ("X-A: http://b", "x-a=http://b"),
        ] {
            assert_eq!(check(text).as_deref(), Ok(shown));
        }
        let many = "X-A: 1;".repeat(33);
        for text in
            ["", ";", "hush", "X A: hush", "X-A:", "X-A: hu\u{1}sh", "Host: hush", "X-A: 1; hush", &many]
        {
            assert!(check(text).is_err_and(|message| !message.contains("hush")), "{text}");
        }
        assert_eq!(format!("{:?}", Headers.read("X-A: hush")), r#"Ok([("x-a", Sensitive)])"#);
    }
}
