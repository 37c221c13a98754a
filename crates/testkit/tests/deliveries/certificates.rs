//! Tests deliveries to receivers that require a client certificate, with TLS 1.2 and TLS 1.3.

use crate::requests::authenticate;
use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_services::sender::{KeepAlive, Sender, Trust};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Receiver, accept_tls, read_request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::io;
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

type Authority = CertifiedIssuer<'static, KeyPair>;
type Presented = mpsc::UnboundedSender<CertificateDer<'static>>;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// Creates a client certificate. Returns it with the `auth` of a subscription that uses it.
fn client(authority: &Authority) -> (CertificateDer<'static>, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["client.example".to_owned()]).expect("parameters");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    let auth = serde_json::json!({"mtls": {"certificate": certificate.pem(), "key": key.serialize_pem()}})
        .to_string();
    (certificate.der().clone(), auth)
}

/// Creates an acceptor that requires a client certificate of the same authority as its own.
fn acceptor(authority: &Authority, version: &'static SupportedProtocolVersion) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("parameters");
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
async fn serve(stream: TcpStream, acceptor: TlsAcceptor, presented: Presented) -> io::Result<()> {
    let mut session = accept_tls(&acceptor, stream).await?;
    while read_request(&mut session).await?.is_some() {
        let chain = session.get_ref().1.peer_certificates();
        let certificate = chain.and_then(|chain| chain.first()).expect("a certificate");
        let _ = presented.send(certificate.clone().into_owned());
        session.write_all(OK).await?;
        session.flush().await?;
    }
    Ok(())
}

/// Returns a sender that trusts `authority`.
fn sender(authority: &Authority) -> Sender {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("a file");
    let trust = Trust::nobody().with_ca_file(file.path()).expect("an authority");
    Sender::new(Setup::default().policy, trust, KeepAlive::default()).expect("a sender")
}

pub(crate) async fn a_client_certificate_is_presented<S: Stores>(h: Harness<S>) {
    let (ours, theirs) = (authority(), authority());
    let mut rig = Rig::with(h, Setup { sender: Some(sender(&ours)), ..Setup::default() });
    for (name, version) in [("tls12", &TLS12), ("tls13", &TLS13)] {
        let (acceptor, (presented, mut presents)) = (acceptor(&ours, version), mpsc::unbounded_channel());
        let receiver = Receiver::raw(move |stream| serve(stream, acceptor.clone(), presented.clone())).await;
        let url = format!("https://127.0.0.1:{}/", receiver.address().port());
        let id = rig.subscribe(name, &url).await;
        let ((certificate, right), (_, wrong)) = (client(&ours), client(&theirs));
        // A key of another certificate.
        let mixed: serde_json::Value = serde_json::from_str(&right).expect("JSON");
        let other: serde_json::Value = serde_json::from_str(&wrong).expect("JSON");
        let mixed = serde_json::json!({"mtls": {
            "certificate": mixed["mtls"]["certificate"], "key": other["mtls"]["key"]
        }})
        .to_string();
        let rows = [
            (&right, SagaStatus::Completed, ""),
            (&wrong, SagaStatus::PendingRetry, "TLS_FAILED"),
            (&mixed, SagaStatus::PendingRetry, "CREDENTIALS_INVALID"),
        ];
        for (auth, status, code) in rows {
            authenticate(&mut rig, id, auth).await;
            let event = rig.publish(name).await;
            rig.until_quiet().await;
            assert_eq!(rig.fate_of(event).await, (status, 1, code.to_owned()), "{name}");
        }
        assert_eq!(presents.try_recv().ok(), Some(certificate), "{name}");
        assert!(presents.try_recv().is_err(), "{name}: one request");
    }
    rig.h.check_invariants().await;
}
