//! Connects to a PostgreSQL server: tries the hosts of a URL in turn, negotiates TLS, logs in, and checks that the
//! server is writable.

use crate::postgres::conn::failure::{ConnectError, HostFailure};
use crate::postgres::conn::monitor::{
    ConnectFailure, ConnectedServer, ConnectionMonitor, TlsSession, Verified,
};
use crate::postgres::conn::password::{LoginTarget, PasswordSource};
use crate::postgres::conn::socket::{Socket, SocketPlace};
use crate::postgres::conn::tls::{EncryptedSocket, Handshake, MaybeHandshake, TlsContext};
use crate::postgres::conn::url::{
    ChannelBinding, ConnectionUrl, Host, Negotiation, Place, SessionAttributes, SslMode,
};
use posthaste_core::ports::{StoreError, StoreResult};
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_postgres::config::{SslMode as DriverSslMode, SslNegotiation as DriverNegotiation};
use tokio_postgres::{Client, Config, Connection, SimpleQueryMessage};

/// The message that requests TLS: length 8 and the code 80877103.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The part of a connection that transfers messages. It must be polled.
pub(crate) type Transport = Connection<Socket, EncryptedSocket>;

/// Checks that a URL can be parsed. The files that it names are not read.
///
/// # Errors
///
/// Returns a description of the problem, without any value that may be a password.
pub fn check_url(url: &str) -> Result<(), String> {
    ConnectionUrl::parse(url).map(drop)
}

/// Returns the names of the user and the database in a URL, or `None` if it does not contain both.
pub fn user_and_database(url: &str) -> Option<(String, String)> {
    let url = ConnectionUrl::parse(url).ok()?;
    url.user.zip(url.database)
}

/// A way to connect to the server of a URL.
pub(crate) struct Connector {
    url: ConnectionUrl,
    /// `None` if TLS is disabled.
    tls: Option<TlsContext>,
    /// Where the password comes from.
    password: PasswordSource,
    program: String,
    monitor: ConnectionMonitor,
    /// The index of the host to try first: that of the last connection, or the one after a failed attempt.
    last_host: AtomicUsize,
}

/// Whether a connection attempt uses TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encryption {
    /// Only TLS.
    Required,
    /// TLS if the server offers it.
    IfOffered,
    Never,
}

impl Connector {
    /// Parses the URL and reads the certificates that it names. `program` is the application name of the connections.
    pub(crate) fn new(url: &str, program: &str, monitor: &ConnectionMonitor) -> StoreResult<Self> {
        let unusable = |reason| StoreError::Unusable {
            what: format!("the URL of the PostgreSQL database cannot be used: {reason}"),
        };
        let url = ConnectionUrl::parse(url).map_err(unusable)?;
        let tls = match url.tls.mode {
            SslMode::Disable => None,
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                Some(TlsContext::load(&url.tls).map_err(unusable)?)
            }
        };
        let (program, monitor) = (program.to_owned(), monitor.clone());
        let password = PasswordSource::Url;
        Ok(Self { url, tls, password, program, monitor, last_host: AtomicUsize::new(0) })
    }

    /// Takes the password from another source than the URL. Returns an error if the URL contains one, too.
    pub(crate) fn with_password(self, password: &PasswordSource) -> StoreResult<Self> {
        match password.conflict(self.url.password.is_some()) {
            Some(what) => Err(StoreError::Unusable { what }),
            None => Ok(Self { password: password.clone(), ..self }),
        }
    }

    /// Connects to the first suitable host. `setup` is executed on the new connection.
    pub(crate) async fn connect(&self, setup: Option<&str>) -> Result<(Client, Transport), ConnectError> {
        // Boxed, because the future is too large to be part of every call's future.
        let connected = Box::pin(self.try_hosts(setup)).await;
        match &connected {
            Ok((_, _, server)) => self.monitor.connected(&self.program, server.clone()),
            Err(error) => self.monitor.failed(error.reason()),
        }
        connected.map(|(client, transport, _)| (client, transport))
    }

    async fn try_hosts(
        &self,
        setup: Option<&str>,
    ) -> Result<(Client, Transport, ConnectedServer), ConnectError> {
        let mut failures = Vec::new();
        let first = match self.url.session {
            SessionAttributes::Any => 0,
            SessionAttributes::ReadWrite | SessionAttributes::Primary => {
                self.last_host.load(Ordering::Relaxed)
            }
        };
        let count = self.url.hosts.len();
        for (at, host) in self.url.hosts.iter().enumerate().cycle().skip(first).take(count) {
            let next = AdvanceHost { last_host: &self.last_host, next: (at + 1) % count };
            match self.try_host(host, setup).await {
                Ok(connected) => {
                    drop(next);
                    self.last_host.store(at, Ordering::Relaxed);
                    self.monitor.used(&self.url.hosts, at);
                    return Ok(connected);
                }
                Err(failure) => {
                    let is_final = failure.is_final();
                    failures.push((host.to_string(), failure));
                    // As in libpq, a refused login ends the search.
                    if is_final {
                        break;
                    }
                }
            }
        }
        Err(ConnectError::new(failures))
    }

    /// Tries every address of a host. The limit holds for each address.
    async fn try_host(
        &self,
        host: &Host,
        setup: Option<&str>,
    ) -> Result<(Client, Transport, ConnectedServer), HostFailure> {
        let limit = self.url.connect_timeout;
        let resolved = timeout(limit, SocketPlace::resolve(&host.place, host.port)).await;
        let places = match resolved {
            Err(_) => {
                return Err(HostFailure::new(ConnectFailure::Dns, "the host name was not resolved in time"));
            }
            Ok(Err(error)) => {
                return Err(HostFailure::new(
                    ConnectFailure::Dns,
                    format!("the host name cannot be resolved: {error}"),
                ));
            }
            Ok(Ok(places)) => places,
        };
        let password = self.read_password(host).await?;
        let password = password.as_deref();
        let mut last = HostFailure::new(ConnectFailure::Dns, "the host name has no address");
        for place in places {
            match timeout(limit, self.try_place(host, &place, password, setup)).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(failure)) if failure.is_final() => return Err(failure),
                Ok(Err(failure)) => last = failure,
                Err(_) => {
                    let text = format!("no connection within {} s (connect_timeout)", limit.as_secs());
                    last = HostFailure::new(ConnectFailure::Timeout, text);
                }
            }
        }
        Err(last)
    }

    /// Returns the password for a connection to a host, or `None` if none is set. The limit of a host does not include
    /// it.
    async fn read_password(&self, host: &Host) -> Result<Option<String>, HostFailure> {
        let name = host.name();
        let user = self.url.user.as_deref().unwrap_or_default();
        let database = self.url.database.as_deref().unwrap_or(user);
        let target = LoginTarget { host: &name, port: host.port, user, database };
        match self.password.read(target).await {
            Ok(None) => Ok(self.url.password.clone()),
            Ok(password) => Ok(password),
            Err(error) => Err(HostFailure::new(ConnectFailure::Password, error.to_string())),
        }
    }

    /// Connects to an address. With `sslmode=prefer`, connects again without TLS if the server refuses a connection
    /// with TLS.
    async fn try_place(
        &self,
        host: &Host,
        place: &SocketPlace,
        password: Option<&str>,
        setup: Option<&str>,
    ) -> Result<(Client, Transport, ConnectedServer), HostFailure> {
        let encryption = match (self.url.tls.mode, place) {
            (SslMode::Disable, _) | (_, SocketPlace::Unix(_)) => Encryption::Never,
            (SslMode::Prefer, SocketPlace::Tcp(_)) => Encryption::IfOffered,
            (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, SocketPlace::Tcp(_)) => {
                Encryption::Required
            }
        };
        match Box::pin(self.log_in(host, place, password, encryption)).await {
            Err(failure) if encryption == Encryption::IfOffered && failure.allows_plain_text() => {
                let plain = Box::pin(self.log_in(host, place, password, Encryption::Never)).await;
                self.prepare(plain.map_err(|plain| plain.after(&failure))?, host, place, setup).await
            }
            logged_in => self.prepare(logged_in?, host, place, setup).await,
        }
    }

    async fn log_in(
        &self,
        host: &Host,
        place: &SocketPlace,
        password: Option<&str>,
        encryption: Encryption,
    ) -> Result<LoggedIn, HostFailure> {
        let mut socket = Socket::open(place, &self.url).await.map_err(|error| HostFailure::io(&error))?;
        let encrypted = encryption != Encryption::Never && self.negotiate(&mut socket, encryption).await?;
        if !encrypted && !place.is_local() {
            socket.refuse_clear_text_password();
        }
        let session = Arc::new(OnceLock::new());
        let mut config = self.driver_config(password);
        let mode = if encrypted { DriverSslMode::Require } else { DriverSslMode::Disable };
        config.ssl_mode(mode).ssl_negotiation(DriverNegotiation::Direct);
        let handshake = if encrypted { self.handshake(host, place, &session)? } else { None };
        let connected = config.connect_raw(socket, MaybeHandshake(handshake)).await;
        let (client, transport) = connected.map_err(|error| HostFailure::driver(&error))?;
        Ok(LoggedIn { client, transport, tls: session.get().cloned() })
    }

    /// Requests TLS from the server. Returns whether the handshake may begin.
    async fn negotiate(&self, socket: &mut Socket, encryption: Encryption) -> Result<bool, HostFailure> {
        if self.url.tls.negotiation == Negotiation::Direct {
            return Ok(true);
        }
        let io = |error: std::io::Error| HostFailure::io(&error);
        socket.write_all(&SSL_REQUEST).await.map_err(io)?;
        let mode = self.url.tls.mode.name();
        match socket.read_u8().await.map_err(io)? {
            b'S' => Ok(true),
            b'N' if encryption == Encryption::IfOffered => Ok(false),
            b'N' => {
                let text = format!("the server does not support TLS, which sslmode={mode} requires");
                Err(HostFailure::new(ConnectFailure::Tls, text))
            }
            // Also the error of a server that cannot start another process.
            _ => Err(HostFailure::new(ConnectFailure::Server, "the server refused the request for TLS")),
        }
    }

    fn driver_config(&self, password: Option<&str>) -> Config {
        let mut config = Config::new();
        config.application_name(&self.program).channel_binding(match self.url.tls.channel_binding {
            ChannelBinding::Disable => tokio_postgres::config::ChannelBinding::Disable,
            ChannelBinding::Prefer => tokio_postgres::config::ChannelBinding::Prefer,
            ChannelBinding::Require => tokio_postgres::config::ChannelBinding::Require,
        });
        let url = &self.url;
        url.user.as_ref().map(|user| config.user(user));
        password.map(|password| config.password(password));
        url.database.as_ref().map(|database| config.dbname(database));
        url.options.as_ref().map(|options| config.options(options));
        config
    }

    /// Returns the TLS handshake for a host, or `None` if TLS is disabled. The handshake writes to `session`.
    fn handshake(
        &self,
        host: &Host,
        place: &SocketPlace,
        session: &Arc<OnceLock<TlsSession>>,
    ) -> Result<Option<Handshake>, HostFailure> {
        let (Some(tls), Place::Tcp { name, .. }) = (&self.tls, &host.place) else {
            return Ok(None);
        };
        let server_name = match (ServerName::try_from(name.clone()), place) {
            (Ok(server_name), _) => server_name,
            // A name that is not compared with the certificate may be any text that can be resolved.
            (Err(_), SocketPlace::Tcp(address)) if tls.verified() != Verified::Host => address.ip().into(),
            (Err(_), SocketPlace::Tcp(_) | SocketPlace::Unix(_)) => {
                let text = format!("{name:?} is not a host name that a certificate can have");
                return Err(HostFailure::new(ConnectFailure::Tls, text));
            }
        };
        Ok(Some(Handshake {
            config: tls.config(),
            name: server_name,
            verified: tls.verified(),
            needs_alpn: self.url.tls.negotiation == Negotiation::Direct,
            session: Arc::clone(session),
        }))
    }

    /// Checks that the server is writable if the URL requests that, and executes `setup`.
    async fn prepare(
        &self,
        logged_in: LoggedIn,
        host: &Host,
        place: &SocketPlace,
        setup: Option<&str>,
    ) -> Result<(Client, Transport, ConnectedServer), HostFailure> {
        let LoggedIn { client, mut transport, tls } = logged_in;
        if self.url.session != SessionAttributes::Any {
            let rows = run(&mut transport, client.simple_query(SESSION_STATE)).await?;
            if let Err(failure) = check_session(self.url.session, &rows) {
                // Log out, so that the server does not log a lost connection.
                drop(client);
                let _ = transport.await;
                return Err(failure);
            }
        }
        if let Some(setup) = setup {
            run(&mut transport, client.batch_execute(setup)).await?;
        }
        let server = ConnectedServer { host: host.name(), port: host.port, address: place.address(), tls };
        Ok((client, transport, server))
    }
}

/// Makes the next search begin with another host, unless this attempt succeeds. Also if it is cancelled: a caller that
/// waits less than the limit would otherwise never reach the second host.
struct AdvanceHost<'a> {
    last_host: &'a AtomicUsize,
    next: usize,
}

impl Drop for AdvanceHost<'_> {
    fn drop(&mut self) {
        self.last_host.store(self.next, Ordering::Relaxed);
    }
}

struct LoggedIn {
    client: Client,
    transport: Transport,
    tls: Option<TlsSession>,
}

/// Reads whether the server is a standby, and whether transactions are read-only.
const SESSION_STATE: &str =
    "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')";

fn check_session(wanted: SessionAttributes, rows: &[SimpleQueryMessage]) -> Result<(), HostFailure> {
    let row = rows.iter().find_map(
        |message| {
            if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None }
        },
    );
    let value = |at: usize| row.and_then(|row| row.get(at));
    let is_standby = value(0) != Some("f");
    let is_read_only = wanted == SessionAttributes::ReadWrite && value(1) != Some("off");
    if is_standby {
        return Err(HostFailure::new(ConnectFailure::ReadOnly, "the server is a standby"));
    }
    if is_read_only {
        return Err(HostFailure::new(ConnectFailure::ReadOnly, "the server is read-only"));
    }
    Ok(())
}

/// Runs a query while transferring its messages.
async fn run<T>(
    transport: &mut Transport,
    query: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, HostFailure> {
    let transfer = async {
        loop {
            match poll_fn(|context| transport.poll_message(context)).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return HostFailure::driver(&error),
                None => {
                    return HostFailure::new(ConnectFailure::Unreachable, "the server closed the connection");
                }
            }
        }
    };
    tokio::select! {
        biased;
        result = query => result.map_err(|error| HostFailure::driver(&error)),
        failure = transfer => Err(failure),
    }
}
