//! The proxy for outgoing requests (`POSTHASTE_EGRESS_PROXY`). Opens a tunnel to an address that the address
//! policy has already checked: the proxy is given the address and never the name, so it resolves nothing.
//! Called by [`super::connect`] instead of a direct connection. The proxy itself is exempt from the policy.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Url};

use super::log_pause::LogPause;
use super::resolve::Resolve;
use super::status_line::StatusLine;
use crate::egress::DestinationHost;

/// The maximum size of the proxy's response to CONNECT, in bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The maximum time for connecting to the proxy, which is usually near.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// An HTTP proxy with support for CONNECT.
#[derive(Clone, PartialEq, Eq)]
pub struct EgressProxy {
    host: DestinationHost,
    port: u16,
    /// The value of the header `Proxy-Authorization`.
    authorization: Option<String>,
}

/// The reason why a text is not the URL of a proxy. Contains no part of the text, which may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadProxyUrl {
    #[error("it is not a URL with a host")]
    NotAUrl,
    #[error("its scheme is not http; a proxy over TLS is not supported")]
    Scheme,
    #[error("it has a path, a query or a fragment")]
    Path,
    #[error("its port is 0")]
    Port,
    #[error("its user name or password contains a control character, or the user name a colon")]
    Login,
}

impl EgressProxy {
    /// Parses a URL such as `http://user:password@proxy.example:3128`. The default port is 80.
    pub fn parse(text: &str) -> Result<Self, BadProxyUrl> {
        let url = Url::parse(text).map_err(|_| BadProxyUrl::NotAUrl)?;
        if url.scheme() != "http" {
            return Err(BadProxyUrl::Scheme);
        }
        let host = match url.host().ok_or(BadProxyUrl::NotAUrl)? {
            Host::Domain(name) => DestinationHost::Name(name.to_owned()),
            Host::Ipv4(address) => DestinationHost::Address(IpAddr::V4(address)),
            Host::Ipv6(address) => DestinationHost::Address(IpAddr::V6(address)),
        };
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(BadProxyUrl::Path);
        }
        let port = url.port().unwrap_or(80);
        if port == 0 {
            return Err(BadProxyUrl::Port);
        }
        let has_login = !url.username().is_empty() || url.password().is_some();
        let login = || basic(url.username(), url.password().unwrap_or_default()).ok_or(BadProxyUrl::Login);
        let authorization = has_login.then(login).transpose()?;
        Ok(Self { host, port, authorization })
    }

    /// Returns the request for a tunnel to `target`.
    fn connect_request(&self, target: SocketAddr) -> String {
        let login = self.authorization.as_ref();
        let login = login.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n")
    }

    async fn addresses(&self, resolver: &dyn Resolve) -> io::Result<Vec<IpAddr>> {
        match &self.host {
            DestinationHost::Address(address) => Ok(vec![*address]),
            DestinationHost::Name(name) => resolver.resolve(name).await,
        }
    }

    async fn connect(&self, resolver: &dyn Resolve) -> io::Result<TcpStream> {
        let mut result = Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        for address in self.addresses(resolver).await? {
            result = TcpStream::connect(SocketAddr::new(address, self.port)).await;
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

/// Returns the credentials for the scheme Basic (RFC 7617), whose user name cannot contain a colon.
fn basic(user: &str, password: &str) -> Option<String> {
    let (user, password) = (percent_decoded(user), percent_decoded(password));
    let has_control = |text: &[u8]| text.iter().any(u8::is_ascii_control);
    if has_control(&user) || has_control(&password) || user.contains(&b':') {
        return None;
    }
    Some(format!("Basic {}", STANDARD.encode([&user[..], b":", &password].concat())))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        if let (b'%', [high, low, behind @ ..]) = (first, behind)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            // Two hexadecimal digits fit into a byte.
            bytes.push((high * 16 + low) as u8);
            rest = behind;
        } else {
            bytes.push(*first);
        }
    }
    bytes
}

/// Formats host and port, without the login.
impl fmt::Display for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            DestinationHost::Name(name) => write!(f, "{name}:{}", self.port),
            DestinationHost::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
        }
    }
}

impl fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EgressProxy({self})")
    }
}

/// Opens tunnels through a proxy, and logs failures.
#[derive(Debug)]
pub(super) struct Tunnels {
    proxy: EgressProxy,
    failure_logged: LogPause,
}

/// The reason why there is no tunnel.
#[derive(Debug, thiserror::Error)]
enum TunnelError {
    #[error("egress proxy cannot be reached, request failed")]
    Unreachable(#[source] io::Error),
    #[error("egress proxy refused the tunnel, request failed")]
    Refused(u16),
    #[error("egress proxy sent an invalid response, request failed")]
    Invalid,
}

impl Tunnels {
    pub(super) fn new(proxy: EgressProxy) -> Self {
        Self { proxy, failure_logged: LogPause::default() }
    }

    /// Opens a tunnel to `target`. Returns `None` if there is no tunnel; the reason is logged.
    pub(super) async fn open(&self, target: SocketAddr, resolver: &dyn Resolve) -> Option<TcpStream> {
        match self.try_open(target, resolver).await {
            Ok(tcp) => Some(tcp),
            Err(error) => {
                self.failure_logged.run(|| self.log(target, &error));
                None
            }
        }
    }

    fn log(&self, target: SocketAddr, error: &TunnelError) {
        let proxy = &self.proxy;
        match error {
            TunnelError::Unreachable(reason) => tracing::warn!(%proxy, %reason, "{error}"),
            TunnelError::Refused(status) => tracing::warn!(%proxy, %target, status, "{error}"),
            TunnelError::Invalid => tracing::warn!(%proxy, %target, "{error}"),
        }
    }

    async fn try_open(&self, target: SocketAddr, resolver: &dyn Resolve) -> Result<TcpStream, TunnelError> {
        let too_late = |_| TunnelError::Unreachable(io::ErrorKind::TimedOut.into());
        let mut tcp = timeout(CONNECT_MAX, self.proxy.connect(resolver))
            .await
            .map_err(too_late)?
            .map_err(TunnelError::Unreachable)?;
        let request = self.proxy.connect_request(target);
        tcp.write_all(request.as_bytes()).await.map_err(TunnelError::Unreachable)?;
        match read_status(&mut tcp).await.map_err(TunnelError::Unreachable)? {
            Some(200..=299) => Ok(tcp),
            Some(status) => Err(TunnelError::Refused(status)),
            None => Err(TunnelError::Invalid),
        }
    }
}

/// Reads the head of the response and returns its status. Returns `None` if the head is too long or not HTTP,
/// if the stream ends within it, or if data follows it: in a tunnel, the client sends first.
async fn read_status(tcp: &mut TcpStream) -> io::Result<Option<u16>> {
    let mut head = Vec::new();
    loop {
        if tcp.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let mut line = StatusLine::START;
            line.read(&head);
            let is_success = matches!(line.status(), Some(200..=299));
            // An error response has a body, which is not needed.
            return Ok(line.status().filter(|_| !is_success || end + 4 == head.len()));
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_proxies_are_parsed() {
        let target: SocketAddr = "[2606:4700:4700::1111]:8443".parse().expect("an address");
        let rows = [
            ("http://proxy.example:3128", "proxy.example:3128", None),
            ("http://proxy.example", "proxy.example:80", None),
            ("http://10.0.0.1:3128/", "10.0.0.1:3128", None),
            ("http://[fd00::1]:3128", "[fd00::1]:3128", None),
            ("http://user:secret@proxy.example:3128", "proxy.example:3128", Some("dXNlcjpzZWNyZXQ=")),
            ("http://user@proxy.example", "proxy.example:80", Some("dXNlcjo=")),
            ("http://a%40b:%C3%A4%2f%@proxy.example", "proxy.example:80", Some("YUBiOsOkLyU=")),
        ];
        for (text, shown, login) in rows {
            let proxy = EgressProxy::parse(text).expect(text);
            assert_eq!(proxy.to_string(), shown);
            assert_eq!(format!("{proxy:?}"), format!("EgressProxy({shown})"));
            let login = login.map(|login| format!("Proxy-Authorization: Basic {login}\r\n"));
            let expected =
                format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{}\r\n", login.unwrap_or_default());
            assert_eq!(proxy.connect_request(target), expected);
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for (text, expected) in [
            ("", BadProxyUrl::NotAUrl),
            ("proxy.example", BadProxyUrl::NotAUrl),
            ("proxy.example:3128", BadProxyUrl::Scheme),
            ("http://", BadProxyUrl::NotAUrl),
            ("https://proxy.example:3128", BadProxyUrl::Scheme),
            ("socks5://proxy.example", BadProxyUrl::Scheme),
            ("http://proxy.example/path", BadProxyUrl::Path),
            ("http://proxy.example/?a", BadProxyUrl::Path),
            ("http://proxy.example/#a", BadProxyUrl::Path),
            ("http://proxy.example:0", BadProxyUrl::Port),
            ("http://a%3Ab:c@proxy.example", BadProxyUrl::Login),
            ("http://a:b%0D%0AX-A:%20b@proxy.example", BadProxyUrl::Login),
        ] {
            assert_eq!(EgressProxy::parse(text), Err(expected), "{text}");
        }
    }
}
