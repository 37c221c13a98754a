//! Parses the URL of a PostgreSQL server. The syntax and the meaning of the parameters are those of libpq. Parameters
//! that Posthaste does not support are refused by name, and environment variables such as `PGSSLMODE` are not read.

mod parameters;

use parameters::{Keyword, Parameters, decode};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

const DEFAULT_PORT: u16 = 5432;
/// The limit for connecting to one address: socket, TLS, authentication and the check for a writable server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which unacknowledged data closes a connection (`TCP_USER_TIMEOUT`).
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// The idle time before the first keepalive probe, the time between probes, and the number of probes. On Linux,
/// `TCP_USER_TIMEOUT` replaces the number.
const KEEPALIVE: Keepalive =
    Keepalive { idle: Duration::from_secs(5), interval: Duration::from_secs(2), retries: 3 };

/// The parsed URL. Its `Debug` output omits the password.
#[derive(Clone)]
pub(crate) struct ConnectionUrl {
    pub(crate) hosts: Vec<Host>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) options: Option<String>,
    pub(crate) tls: TlsParameters,
    pub(crate) session: SessionAttributes,
    pub(crate) connect_timeout: Duration,
    /// `None` for the default of the operating system.
    pub(crate) tcp_user_timeout: Option<Duration>,
    /// `None` if keepalive probes are disabled.
    pub(crate) keepalive: Option<Keepalive>,
}

impl std::fmt::Debug for ConnectionUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionUrl")
            .field("hosts", &self.hosts)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host name or an address. With `hostaddr`, the name is only compared with the certificate.
    Tcp { name: String, address: Option<IpAddr> },
    /// The folder of a Unix socket.
    Unix(PathBuf),
}

impl Host {
    /// Returns the host as written in the URL, or the folder of a Unix socket.
    pub(crate) fn name(&self) -> String {
        match &self.place {
            Place::Tcp { name, .. } => name.clone(),
            Place::Unix(folder) => folder.display().to_string(),
        }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Place::Tcp { name, .. } if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Place::Tcp { name, .. } => write!(f, "{name}:{}", self.port),
            Place::Unix(folder) => write!(f, "{}/.s.PGSQL.{}", folder.display(), self.port),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keepalive {
    pub(crate) idle: Duration,
    pub(crate) interval: Duration,
    pub(crate) retries: u32,
}

/// The parameters whose names start with `ssl`, and `channel_binding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsParameters {
    pub(crate) mode: SslMode,
    pub(crate) roots: RootCertificates,
    pub(crate) client: Option<ClientCertificate>,
    pub(crate) negotiation: Negotiation,
    pub(crate) channel_binding: ChannelBinding,
}

/// The parameter `sslmode`, in ascending order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Keyword for SslMode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];
}

impl SslMode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }
}

/// The parameter `sslrootcert`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootCertificates {
    /// The certificate of the server is not verified.
    Unset,
    System,
    File(PathBuf),
}

/// The parameters `sslcert` and `sslkey`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// The parameter `sslnegotiation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Negotiation {
    Postgres,
    Direct,
}

impl Keyword for Negotiation {
    const ALL: &'static [(&'static str, Self)] = &[("postgres", Self::Postgres), ("direct", Self::Direct)];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

impl Keyword for ChannelBinding {
    const ALL: &'static [(&'static str, Self)] =
        &[("disable", Self::Disable), ("prefer", Self::Prefer), ("require", Self::Require)];
}

/// The parameter `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionAttributes {
    Any,
    ReadWrite,
    Primary,
}

impl Keyword for SessionAttributes {
    const ALL: &'static [(&'static str, Self)] =
        &[("any", Self::Any), ("read-write", Self::ReadWrite), ("primary", Self::Primary)];
}

impl ConnectionUrl {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// Returns a description of the problem. It contains no value that may be a password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or("it must start with postgres://")?;
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = address.split_once('/').unwrap_or((address, ""));
        let (login, hosts) =
            authority.split_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
        // An unencoded / or ? in the password would end the address early.
        if hosts.contains('@') || (login.is_none() && rest.contains('@')) {
            return Err(
                "the user name or password contains a character that must be percent-encoded: write @ as \
                        %40, / as %2F, ? as %3F, # as %23 and % as %25"
                    .to_owned(),
            );
        }
        let mut parameters = Parameters::parse(query)?;
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decode("user name", user)?, decode("password", password)?),
            None => (String::new(), String::new()),
        };
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let hosts = parse_hosts(hosts, &mut parameters)?;
        let session = parameters.keyword("target_session_attrs", "every Posthaste process writes")?;
        // Posthaste needs a writable server. With several hosts, the first one may be a standby.
        let default = if hosts.len() > 1 { SessionAttributes::ReadWrite } else { SessionAttributes::Any };
        let parsed = Self {
            hosts,
            user: parameters.take("user").or_else(|| some(user)),
            password: parameters.take("password").or_else(|| some(password)),
            database: parameters.take("dbname").or(some(decode("database", database)?)),
            options: parameters.take("options"),
            tls: TlsParameters::take(&mut parameters)?,
            session: session.unwrap_or(default),
            connect_timeout: parameters.seconds("connect_timeout", 1..=3600)?.unwrap_or(CONNECT_TIMEOUT),
            tcp_user_timeout: match parameters.number("tcp_user_timeout", 0..=i32::MAX.unsigned_abs())? {
                None => Some(TCP_USER_TIMEOUT),
                Some(0) => None,
                Some(milliseconds) => Some(Duration::from_millis(milliseconds.into())),
            },
            keepalive: parse_keepalive(&mut parameters)?,
        };
        parameters.finish()?;
        Ok(parsed)
    }
}

impl TlsParameters {
    fn take(parameters: &mut Parameters) -> Result<Self, String> {
        let jdbc = parameters.take("ssl").map(|value| match value.as_str() {
            "true" => Ok(SslMode::Require),
            _ => Err("the parameter ssl accepts only true, which means sslmode=require".to_owned()),
        });
        let weak = "it would connect without TLS although the server offers it; use prefer";
        let mode = match (parameters.keyword("sslmode", weak)?, jdbc.transpose()?) {
            (Some(_), Some(_)) => return Err("ssl and sslmode are both set: remove ssl".to_owned()),
            (mode, jdbc) => mode.or(jdbc),
        };
        let roots = match parameters.take("sslrootcert") {
            None => RootCertificates::Unset,
            Some(value) if value == "system" => RootCertificates::System,
            Some(file) => RootCertificates::File(file.into()),
        };
        let default = if roots == RootCertificates::System { SslMode::VerifyFull } else { SslMode::Prefer };
        let mode = mode.unwrap_or(default);
        let negotiation = parameters.keyword("sslnegotiation", "")?.unwrap_or(Negotiation::Postgres);
        let name = mode.name();
        if roots == RootCertificates::System && mode != SslMode::VerifyFull {
            return Err(format!(
                "sslmode={name} is too weak for sslrootcert=system: use sslmode=verify-full"
            ));
        }
        if roots == RootCertificates::Unset && mode >= SslMode::VerifyCa {
            return Err(format!(
                "sslmode={name} needs sslrootcert: the file with the certificate authority of the server, or system"
            ));
        }
        if negotiation == Negotiation::Direct && mode < SslMode::Require {
            return Err(format!(
                "sslmode={name} is too weak for sslnegotiation=direct: use sslmode=require or stronger"
            ));
        }
        let channel_binding = parameters.keyword("channel_binding", "")?.unwrap_or(ChannelBinding::Prefer);
        let client = match (parameters.take("sslcert"), parameters.take("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(ClientCertificate { certificate: certificate.into(), key: key.into() })
            }
            (Some(_), None) => return Err("sslcert needs sslkey, the file with the private key".to_owned()),
            (None, Some(_)) => return Err("sslkey needs sslcert, the file with the certificate".to_owned()),
        };
        Ok(Self { mode, roots, client, negotiation, channel_binding })
    }
}

/// Parses `host:port,host:port`. The parameters `host`, `hostaddr` and `port` take precedence.
fn parse_hosts(authority: &str, parameters: &mut Parameters) -> Result<Vec<Host>, String> {
    let mut entries: Vec<(String, Option<u16>)> =
        authority.split(',').map(parse_host).collect::<Result<_, String>>()?;
    if let Some(names) = parameters.take("host") {
        let ports: Vec<Option<u16>> = entries.iter().map(|(_, port)| *port).collect();
        let port_of = |at: usize| ports.get(at).copied().flatten();
        entries = names.split(',').enumerate().map(|(at, name)| (name.to_owned(), port_of(at))).collect();
    }
    let addresses = parameters.take("hostaddr");
    let addresses: Vec<&str> = addresses.as_deref().map(|list| list.split(',').collect()).unwrap_or_default();
    if entries.iter().all(|(name, _)| name.is_empty()) && !addresses.is_empty() {
        entries.resize(addresses.len(), (String::new(), None));
    }
    if !addresses.is_empty() && addresses.len() != entries.len() {
        return Err(format!("it has {} hosts but {} entries in hostaddr", entries.len(), addresses.len()));
    }
    if let Some(ports) = parameters.take("port") {
        let ports: Vec<u16> = ports.split(',').map(parse_port).collect::<Result<_, String>>()?;
        if ports.len() != 1 && ports.len() != entries.len() {
            return Err(format!("it has {} hosts but {} ports", entries.len(), ports.len()));
        }
        for (at, (_, port)) in entries.iter_mut().enumerate() {
            *port = ports.get(at).or(ports.first()).copied();
        }
    }
    let host = |(at, (name, port)): (usize, (String, Option<u16>))| {
        let address = match addresses.get(at).filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| format!("hostaddr {text:?} is not an IP address"))?),
        };
        let place = match (name, address) {
            (name, None) if name.is_empty() => return Err("it names no host".to_owned()),
            (name, None) if name.starts_with('/') => Place::Unix(name.into()),
            (name, address) => {
                let shown = address.map_or_else(String::new, |address: IpAddr| address.to_string());
                Place::Tcp { name: if name.is_empty() { shown } else { name }, address }
            }
        };
        Ok(Host { place, port: port.unwrap_or(DEFAULT_PORT) })
    };
    entries.into_iter().enumerate().map(host).collect()
}

/// Parses `host`, `host:port`, `[address]` or `[address]:port`.
fn parse_host(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("the bracket of an IPv6 address is not closed")?;
            let port = match after {
                "" => None,
                after => {
                    Some(after.strip_prefix(':').ok_or("a ] is not followed by a port or the next host")?)
                }
            };
            (host, port)
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.filter(|port| !port.is_empty()).map(parse_port).transpose()?;
    Ok((decode("host", host)?, port))
}

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "a port is not a number from 1 to 65535".to_owned())
}

fn parse_keepalive(parameters: &mut Parameters) -> Result<Option<Keepalive>, String> {
    let enabled = match parameters.take("keepalives").as_deref() {
        None | Some("1") => true,
        Some("0") => false,
        Some(_) => return Err("the parameter keepalives must be 0 or 1".to_owned()),
    };
    // The ranges that Linux accepts.
    let idle = parameters.seconds("keepalives_idle", 1..=32_767)?.unwrap_or(KEEPALIVE.idle);
    let interval = parameters.seconds("keepalives_interval", 1..=32_767)?.unwrap_or(KEEPALIVE.interval);
    let retries = parameters.number("keepalives_count", 1..=127)?.unwrap_or(KEEPALIVE.retries);
    Ok(enabled.then_some(Keepalive { idle, interval, retries }))
}

#[cfg(test)]
mod tests;
