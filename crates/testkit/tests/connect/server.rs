//! A server with TLS on a TCP port, and connections to it with Posthaste's connector.

use crate::certificates::{Authority, Folder, Identity};
use posthaste_core::ports::ListenStore as _;
use posthaste_store::postgres::{ConnectedServer, ConnectionMonitor, PostgresListener};
use posthaste_testkit::postgres::{OWNER, client};
use posthaste_testkit::private_server::PrivateServer;

pub(crate) const USER: &str = OWNER;
const PASSWORD: &str = "hush";

/// A server that accepts logins with a password over TCP.
pub(crate) struct TlsServer {
    server: PrivateServer,
    port: u16,
}

/// The TLS settings of a server.
pub(crate) struct TlsSettings<'a> {
    /// `None` if the server does not support TLS.
    pub(crate) identity: Option<&'a Identity>,
    /// The authority whose client certificates the server requires.
    pub(crate) clients: Option<&'a Authority>,
}

impl TlsServer {
    pub(crate) async fn start(what: &str) -> Self {
        let server = PrivateServer::start(what);
        let admin = client(&server.admin_url("postgres")).await;
        admin.batch_execute(&format!("ALTER ROLE {USER} PASSWORD '{PASSWORD}'")).await.expect("a password");
        drop(admin);
        let port = posthaste_testkit::fleet::free_address().port();
        server.restart_with(&format!("listen_addresses = '127.0.0.1'\nport = {port}"));
        Self { server, port }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Restarts the server with other TLS settings.
    pub(crate) fn configure(&self, settings: &TlsSettings<'_>) {
        let mut lines = String::from("ssl = off\n");
        if let Some(identity) = settings.identity {
            self.server.replace("server.crt", &identity.certificate);
            self.server.replace("server.key", &identity.key);
            lines = "ssl = on\n".to_owned();
        }
        let rule = match settings.clients {
            None => "host all all 127.0.0.1/32 scram-sha-256\n",
            Some(authority) => {
                self.server.replace("clients.crt", &authority.pem());
                lines += "ssl_ca_file = 'clients.crt'\n";
                "hostssl all all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"
            }
        };
        self.server.replace("pg_hba.conf", rule);
        self.server.restart_with(&lines);
    }

    /// Returns a URL with the given host and parameters.
    pub(crate) fn url(&self, host: &str, parameters: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@{host}:{}/postgres?{parameters}", self.port)
    }
}

/// Connects with Posthaste's connector.
pub(crate) async fn connect(url: &str) -> Result<ConnectedServer, String> {
    let monitor = ConnectionMonitor::default();
    let mut listener = PostgresListener::new(url, &monitor).map_err(|error| error.to_string())?;
    listener.next_announcements().await.map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
        format!("{error}{cause}")
    })?;
    Ok(monitor.server().expect("a connected server"))
}

/// Returns the parameters for a client certificate.
pub(crate) fn client_parameters(folder: &Folder, identity: &Identity) -> String {
    let certificate = folder.write("client.crt", &identity.certificate, 0o644);
    let key = folder.write("client.key", &identity.key, 0o600);
    format!("sslcert={}&sslkey={}", certificate.display(), key.display())
}
