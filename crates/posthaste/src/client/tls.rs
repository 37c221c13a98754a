//! Opens TLS connections to servers with an https URL. Like deliveries, they trust the system's certificate authorities
//! and those in `POSTHASTE_CA_FILE`.

use anyhow::Context as _;
use posthaste_services::sender::Trust;
use std::path::Path;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// Performs the TLS handshake and verifies the certificate.
pub(super) async fn connect(name: &str, stream: TcpStream) -> anyhow::Result<TlsStream<TcpStream>> {
    let mut trust = Trust::system();
    if let Some(file) = std::env::var_os("POSTHASTE_CA_FILE").filter(|file| !file.is_empty()) {
        trust = trust.with_ca_file(Path::new(&file)).context("POSTHASTE_CA_FILE")?;
    }
    let connector = TlsConnector::from(trust.client_config()?);
    let name = ServerName::try_from(name.to_owned())?;
    connector.connect(name, stream).await.context("the TLS handshake failed")
}
