//! The address policy: the URLs and addresses that requests may be sent to. The API checks URLs when they are
//! set; the [`crate::sender`] checks the resolved addresses before each connection, and the address of a
//! pooled connection before it is used again. Pure: no DNS lookups and no connections. The addresses of this
//! host are an argument.

mod address;
mod own;
mod ports;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::HeaderValue;
use http::uri::PathAndQuery;
use ipnet::IpNet;
use posthaste_core::outcome::Failure;
use url::{Host, Position, Url};

pub use address::AddressRule;
pub use own::OwnAddresses;
pub use ports::AllowedPorts;

/// The rules for destinations. The default allows public addresses over https on any port. For an address, the
/// first rule that applies decides: `deny_cidrs` refuses it, `allow_cidrs` allows it with any port, the built-in
/// ranges and the addresses of this host refuse it, and then `allow_ports` decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    pub allow_http: bool,
    /// Networks whose addresses are always refused.
    pub deny_cidrs: Vec<IpNet>,
    /// Networks whose addresses are allowed on any port, unless `deny_cidrs` contains them.
    pub allow_cidrs: Vec<IpNet>,
    /// The ports allowed for addresses outside `allow_cidrs`.
    pub allow_ports: AllowedPorts,
}

/// The reason why a URL, or an address that its host name resolves to, is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    #[error("the URL is invalid: {0}")]
    NotAUrl(String),
    #[error("the URL must use https (http needs POSTHASTE_ALLOW_HTTP=true), not {0}")]
    Scheme(String),
    #[error("the URL must not contain a user name or a password")]
    UserInfo,
    #[error("the URL must not have a fragment (the part after #)")]
    Fragment,
    #[error("the host name is invalid: labels must have 1 to 63 characters, the name at most 253")]
    Name,
    #[error("the port must be between 1 and 65535, not port 0")]
    Port,
    #[error(
        "{name} is this machine and is refused unless POSTHASTE_ALLOW_CIDRS contains its loopback address"
    )]
    LocalName { name: String },
    #[error("{address} is in {network}, which POSTHASTE_DENY_CIDRS refuses")]
    Denied { address: IpAddr, network: IpNet },
    #[error("{address} is {rule} and is refused unless POSTHASTE_ALLOW_CIDRS contains it")]
    Address { address: IpAddr, rule: AddressRule },
    #[error(
        "port {port} is refused: POSTHASTE_ALLOW_PORTS allows {allowed}, other ports need an address in POSTHASTE_ALLOW_CIDRS"
    )]
    PortRefused { port: u16, allowed: AllowedPorts },
    #[error("the host name has no address")]
    NoAddress,
}

impl Blocked {
    /// Returns the error code reported for an attempt that is refused for this reason.
    pub const fn failure(&self) -> Failure {
        match self {
            Self::LocalName { .. }
            | Self::Denied { .. }
            | Self::Address { .. }
            | Self::PortRefused { .. } => Failure::BlockedAddress,
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

/// An accepted URL, split into the parts needed for a connection and a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub(crate) tls: bool,
    pub(crate) host: DestinationHost,
    pub(crate) port: u16,
    /// The value of the `host` header. It includes the port only if that is not the default port of the
    /// scheme.
    pub(crate) authority: HeaderValue,
    /// The key for pooled connections: scheme, host and port.
    pub(crate) origin: String,
    pub(crate) path: PathAndQuery,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DestinationHost {
    Name(String),
    Address(IpAddr),
}

impl EgressPolicy {
    /// Checks a URL without resolving its host name. The URL parser normalizes every notation of an address
    /// (decimal, octal, hexadecimal, short, full-width, percent-encoded) before the rules are applied. The
    /// connection uses the parsed host, so no second parser can interpret it differently.
    pub fn check_url(&self, text: &str, own: &OwnAddresses) -> Result<Destination, Blocked> {
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
        let port = url.port().unwrap_or(default_port);
        if port == 0 {
            return Err(Blocked::Port);
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => self.check_name(name, port, own)?,
            Some(Host::Ipv4(address)) => self.check_literal(IpAddr::V4(address), port, own)?,
            Some(Host::Ipv6(address)) => self.check_literal(IpAddr::V6(address), port, own)?,
            None => return Err(Blocked::NotAUrl("it has no host".to_owned())),
        };
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

    /// Checks the addresses that a host name resolved to. If one address is refused, all of them are, because
    /// a name that mixes public and private addresses may be an attempt to reach a private address.
    pub fn check_addresses(
        &self,
        addresses: &[IpAddr],
        port: u16,
        own: &OwnAddresses,
    ) -> Result<(), Blocked> {
        if addresses.is_empty() {
            return Err(Blocked::NoAddress);
        }
        addresses.iter().try_for_each(|address| self.check_address(*address, port, own))
    }

    pub fn check_address(&self, address: IpAddr, port: u16, own: &OwnAddresses) -> Result<(), Blocked> {
        if let Some(network) = self.denied_by(address) {
            return Err(Blocked::Denied { address, network });
        }
        if self.is_allowed(address) {
            return Ok(());
        }
        let own_rule = || own.contains(address).then_some(AddressRule::ThisHost);
        match address::refused_by(address).or_else(own_rule) {
            Some(rule) => Err(Blocked::Address { address, rule }),
            None => self.check_port(port),
        }
    }

    fn check_port(&self, port: u16) -> Result<(), Blocked> {
        if self.allow_ports.contains(port) {
            return Ok(());
        }
        Err(Blocked::PortRefused { port, allowed: self.allow_ports.clone() })
    }

    fn check_literal(
        &self,
        address: IpAddr,
        port: u16,
        own: &OwnAddresses,
    ) -> Result<DestinationHost, Blocked> {
        self.check_address(address, port, own).map(|()| DestinationHost::Address(address))
    }

    /// Validates a host name and removes its trailing dot, which receivers do not need and certificates never
    /// contain.
    fn check_name(&self, name: &str, port: u16, own: &OwnAddresses) -> Result<DestinationHost, Blocked> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let label_fits = |label: &str| (1..=63).contains(&label.len());
        if name.len() > 253 || !name.split('.').all(label_fits) {
            return Err(Blocked::Name);
        }
        // These names need no lookup (RFC 6761, section 6.3), so the API can refuse the URL when it is set.
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        if is_local && !loopback.into_iter().any(|address| self.check_address(address, port, own).is_ok()) {
            return Err(Blocked::LocalName { name: name.to_owned() });
        }
        // The name may resolve to an address in `allow_cidrs`, for which any port is allowed.
        if self.allow_cidrs.is_empty() {
            self.check_port(port)?;
        }
        Ok(DestinationHost::Name(name.to_owned()))
    }

    /// Returns the network in `deny_cidrs` that contains `address`, in any notation: an IPv4 network also
    /// contains the IPv6 addresses that are translated to its addresses on the way.
    fn denied_by(&self, address: IpAddr) -> Option<IpNet> {
        if self.deny_cidrs.is_empty() {
            return None;
        }
        let embedded = address::embedded_ipv4(address).map(|inner| inner.map(IpAddr::V4));
        let mapped = match address {
            IpAddr::V4(address) => Some(IpAddr::V6(address.to_ipv6_mapped())),
            IpAddr::V6(_) => None,
        };
        let forms = [Some(address), mapped].into_iter().chain(embedded).flatten();
        forms.into_iter().find_map(|form| self.deny_cidrs.iter().find(|net| net.contains(&form)).copied())
    }

    /// Returns whether a network in the settings contains `address`. An IPv4-mapped address is reached over
    /// IPv4, so an IPv4 network also allows it.
    fn is_allowed(&self, address: IpAddr) -> bool {
        let inner = address::wrapped_ipv4(address).map(IpAddr::V4);
        let holds = |net: &IpNet| net.contains(&address) || inner.is_some_and(|inner| net.contains(&inner));
        self.allow_cidrs.iter().any(holds)
    }
}
