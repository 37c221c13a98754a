//! Tests client certificates against a server that requires them, with TLS 1.2 and TLS 1.3: the right certificate is
//! presented, a wrong one is refused, and connections and TLS sessions of one identity are not used for another.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use posthaste_core::Timestamp;
use posthaste_services::sender::{ClientIdentity, Exchange, OutgoingRequest, ReadUpTo, Sender};
use posthaste_testkit::receiver::{Receiver, accept_tls, read_request};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::senders::{OK, PATIENT, answering, code, sender};
use crate::tls::{Authority, authority, believing};

const CLOSE: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A client's certificate and key, as a customer would send them.
struct Client {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

fn client(authority: &Authority) -> Client {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["client.example".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    Client { certificate: certificate.pem(), key: key.serialize_pem(), der: certificate.der().clone() }
}

impl Client {
    fn identity(&self, sender: &Sender) -> ClientIdentity {
        sender.identity(&self.certificate, &self.key).expect("an identity")
    }
}

/// Creates an acceptor that requires a client certificate of the same authority as its own.
fn acceptor(authority: &Authority, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["receiver.example".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("an authority");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("a version")
        .with_client_cert_verifier(verifier.expect("a verifier"))
        .with_single_cert(vec![certificate.der().clone()], key);
    TlsAcceptor::from(Arc::new(config.expect("a server")))
}

/// Serves one connection, and reports the certificate of the client for each request.
async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    answer: &[u8],
    seen: mpsc::UnboundedSender<CertificateDer<'static>>,
) -> io::Result<()> {
    let mut session = accept_tls(&acceptor, stream).await?;
    while read_request(&mut session).await?.is_some() {
        let presented = session.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let _ = seen.send(presented.expect("a certificate").clone().into_owned());
        session.write_all(answer).await?;
        session.flush().await?;
    }
    Ok(())
}

/// Starts a server that requires a client certificate. Returns its URL and the certificates of the requests.
async fn start(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
    answer: &'static [u8],
) -> (Receiver, String, mpsc::UnboundedReceiver<CertificateDer<'static>>) {
    let (acceptor, (seen, sees)) = (acceptor(authority, version), mpsc::unbounded_channel());
    let serve = move |stream| serve(stream, acceptor.clone(), answer, seen.clone());
    let receiver = Receiver::raw(serve).await;
    let url = format!("https://receiver.example:{}/", receiver.address().port());
    (receiver, url, sees)
}

async fn send(sender: &Sender, url: &str, identity: Option<ClientIdentity>) -> Exchange {
    let body = Bytes::from_static(b"{}");
    let mut request = OutgoingRequest::post(HeaderMap::new(), body, ReadUpTo::Status, PATIENT);
    if let Some(identity) = identity {
        request = request.with_identity(identity);
    }
    sender.send_to_url(url, request, Timestamp::from_micros(0)).await
}

#[tokio::test]
async fn server_accepts_only_certificates_of_its_authority() {
    let (ours, theirs) = (authority(), authority());
    for version in VERSIONS {
        let rows = [
            ("its authority", Some(client(&ours)), "200"),
            ("another authority", Some(client(&theirs)), "TLS_FAILED"),
            ("no certificate", None, "TLS_FAILED"),
        ];
        for (what, client, expected) in rows {
            let (_receiver, url, mut sees) = start(&ours, version, OK).await;
            let sender = believing(Some(&ours));
            let identity = client.as_ref().map(|client| client.identity(&sender));
            let exchange = send(&sender, &url, identity).await;
            assert_eq!(code(&exchange), expected, "{what}, {version:?}");
            assert_eq!(sees.try_recv().ok(), client.filter(|_| expected == "200").map(|client| client.der));
        }
    }
}

#[tokio::test]
async fn connections_are_reused_for_the_same_identity_only() {
    let authority = authority();
    for version in VERSIONS {
        let (receiver, url, mut sees) = start(&authority, version, OK).await;
        let sender = believing(Some(&authority));
        let clients = [client(&authority), client(&authority)];
        for _ in 0..5 {
            for client in &clients {
                assert_eq!(code(&send(&sender, &url, Some(client.identity(&sender))).await), "200");
                assert_eq!(sees.recv().await.as_ref(), Some(&client.der));
            }
            assert_eq!(code(&send(&sender, &url, None).await), "TLS_FAILED", "none of the two is used");
        }
        assert_eq!(receiver.accepted(), 2 + 5, "one for each identity, and the refused ones");
        assert!(sees.try_recv().is_err());
    }
}

#[tokio::test]
async fn tls_sessions_are_not_resumed_for_another_identity() {
    let authority = authority();
    for version in VERSIONS {
        let (receiver, url, mut sees) = start(&authority, version, CLOSE).await;
        let sender = believing(Some(&authority));
        let clients = [client(&authority), client(&authority)];
        for _ in 0..5 {
            for client in &clients {
                assert_eq!(code(&send(&sender, &url, Some(client.identity(&sender))).await), "200");
                assert_eq!(sees.recv().await.as_ref(), Some(&client.der));
            }
        }
        assert_eq!(receiver.accepted(), 10, "a new connection for each request");
    }
}

#[tokio::test]
async fn an_identity_needs_tls() {
    let receiver = answering(OK).await;
    let sender = sender();
    let identity = client(&authority()).identity(&sender);
    let exchange = send(&sender, &receiver.url("/"), Some(identity)).await;
    assert_eq!((code(&exchange).as_str(), exchange.bytes_written), ("CREDENTIALS_INVALID", false));
    assert_eq!(receiver.accepted(), 0);
}
