//! Where requests may go: the one policy before everything that leaves. The API asks it when a URL is
//! given, the [`crate::sender`] asks it before every request, with the addresses that the name has then.
//! Pure: it resolves nothing and connects to nothing.

mod address;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderValue;
use http::uri::PathAndQuery;
use ipnet::IpNet;
use posthaste_core::outcome::Failure;
use url::{Host, Position, Url};

pub use address::AddressRule;

/// What an operator lets through beyond public addresses over https. The default lets nothing through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    pub allow_http: bool,
    /// Addresses in these networks may be reached whatever rule refuses them.
    pub allow_cidrs: Vec<IpNet>,
}

/// Why a URL, or what its name resolves to, is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("the URL cannot be read: {0}")]
    NotAUrl(String),
    #[error("the URL must use https (http needs POSTHASTE_ALLOW_HTTP=true), not {0}")]
    Scheme(String),
    #[error("the URL must not carry a user name or a password")]
    UserInfo,
    #[error("the URL must not have a fragment (the part after #)")]
    Fragment,
    #[error("the host name breaks the rules of DNS: 1 to 63 characters in each label, 253 in all")]
    Name,
    #[error("port 0 cannot be connected to")]
    Port,
    #[error("{name} is this machine, unless POSTHASTE_ALLOW_CIDRS holds its loopback address")]
    LocalName { name: String },
    #[error("{address} is {rule}, unless POSTHASTE_ALLOW_CIDRS holds it")]
    Address { address: IpAddr, rule: AddressRule },
    #[error("the name has no address")]
    NoAddress,
}

impl Blocked {
    /// The code of an attempt that ends here: what may not be reached differs from what is no URL.
    pub const fn failure(&self) -> Failure {
        match self {
            Self::LocalName { .. } | Self::Address { .. } => Failure::BlockedAddress,
            Self::NoAddress => Failure::DnsFailed,
            Self::NotAUrl(_)
            | Self::Scheme(_)
            | Self::UserInfo
            | Self::Fragment
            | Self::Name
            | Self::Port => Failure::UrlInvalid,
        }
    }
}

/// A URL that passed, in the parts that a connection and a request need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub(crate) tls: bool,
    pub(crate) host: DestinationHost,
    pub(crate) port: u16,
    /// For the `host` header: the port only where it is not the scheme's own.
    pub(crate) authority: HeaderValue,
    /// What connections are kept under: scheme, host and port.
    pub(crate) origin: String,
    pub(crate) path: PathAndQuery,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DestinationHost {
    Name(String),
    Address(IpAddr),
}

impl EgressPolicy {
    /// Judges a URL without looking its name up. The parser has read every spelling of an address
    /// (decimal, octal, hexadecimal, short, full-width, percent-encoded) into the address itself by the
    /// time the rules see it, and it is the parsed host that is connected to: nothing reads it twice.
    pub fn check_url(&self, text: &str) -> Result<Destination, Blocked> {
        let url = Url::parse(text).map_err(|error| Blocked::NotAUrl(error.to_string()))?;
        let (tls, default_port) = match url.scheme() {
            "https" => (true, 443),
            "http" if self.allow_http => (false, 80),
            other => return Err(Blocked::Scheme(other.to_owned())),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Blocked::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(Blocked::Fragment);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => self.check_name(name)?,
            Some(Host::Ipv4(address)) => self.check_literal(IpAddr::V4(address))?,
            Some(Host::Ipv6(address)) => self.check_literal(IpAddr::V6(address))?,
            None => return Err(Blocked::NotAUrl("it names no host".to_owned())),
        };
        let port = url.port().unwrap_or(default_port);
        if port == 0 {
            return Err(Blocked::Port);
        }
        let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery])
            .map_err(|error| Blocked::NotAUrl(error.to_string()))?;
        let bare = match &host {
            DestinationHost::Name(name) => name.clone(),
            DestinationHost::Address(IpAddr::V4(address)) => address.to_string(),
            DestinationHost::Address(IpAddr::V6(address)) => format!("[{address}]"),
        };
        let origin = format!("{}://{bare}:{port}", url.scheme());
        let authority = if port == default_port { bare } else { format!("{bare}:{port}") };
        let authority =
            HeaderValue::try_from(authority).map_err(|error| Blocked::NotAUrl(error.to_string()))?;
        Ok(Destination { tls, host, port, authority, origin, path })
    }

    /// Judges what a name resolved to. One bad answer spoils all: whoever mixes public and private
    /// answers waits for us to pick the private one.
    pub fn check_addresses(&self, addresses: &[IpAddr]) -> Result<(), Blocked> {
        if addresses.is_empty() {
            return Err(Blocked::NoAddress);
        }
        addresses.iter().try_for_each(|address| self.check_address(*address))
    }

    pub fn check_address(&self, address: IpAddr) -> Result<(), Blocked> {
        match address::refused_by(address) {
            Some(rule) if !self.is_allowed(address) => Err(Blocked::Address { address, rule }),
            Some(_) | None => Ok(()),
        }
    }

    fn check_literal(&self, address: IpAddr) -> Result<DestinationHost, Blocked> {
        self.check_address(address).map(|()| DestinationHost::Address(address))
    }

    /// The final dot of an absolute name says nothing to a receiver, and no certificate has it.
    fn check_name(&self, name: &str) -> Result<DestinationHost, Blocked> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let label_fits = |label: &str| (1..=63).contains(&label.len());
        if name.len() > 253 || !name.split('.').all(label_fits) {
            return Err(Blocked::Name);
        }
        // Known before any look-up, so it can be said when the URL is given (RFC 6761, 6.3).
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        if is_local && !loopback.into_iter().any(|address| self.is_allowed(address)) {
            return Err(Blocked::LocalName { name: name.to_owned() });
        }
        Ok(DestinationHost::Name(name.to_owned()))
    }

    /// An IPv4 address in IPv6 clothes is reached over IPv4, so a network of IPv4 allows it too.
    fn is_allowed(&self, address: IpAddr) -> bool {
        let inner = address::wrapped_ipv4(address).map(IpAddr::V4);
        let holds = |net: &IpNet| net.contains(&address) || inner.is_some_and(|inner| net.contains(&inner));
        self.allow_cidrs.iter().any(holds)
    }
}
