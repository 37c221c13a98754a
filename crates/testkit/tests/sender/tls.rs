//! Tests the verification of certificates, failed TLS handshakes, and the reuse of TLS sessions.

use std::io;
use std::sync::Arc;

use posthaste_services::egress::EgressPolicy;
use posthaste_services::sender::{Egress, EgressProxy, KeepAlive, ReadUpTo, Sender, Trust};
use posthaste_testkit::connect_proxy::ConnectProxy;
use posthaste_testkit::receiver::{Receiver, read_request};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::senders::{OK, PATIENT, SHORT, Scripted, code, deliver, send, sender_with};

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority")
}

/// Creates an acceptor with a new certificate for `name`, valid until the start of `until_year`.
fn acceptor(authority: &Authority, name: &str, until_year: i32) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new([name.to_owned()]).expect("parameters");
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(until_year, 1, 1);
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().and_then(
            |builder| builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key),
        );
    TlsAcceptor::from(Arc::new(config.expect("a server")))
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    let mut session = acceptor.accept(stream).await?;
    while read_request(&mut session).await?.is_some() {
        session.write_all(OK).await?;
        session.flush().await?;
    }
    Ok(())
}

/// Returns a trust in only `authority`, read from a file.
fn trusting(authority: &Authority) -> Trust {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("a file");
    Trust::nobody().with_ca_file(file.path()).expect("an authority")
}

/// Returns a sender that trusts only `authority` and resolves every name to 127.0.0.1.
pub(crate) fn believing(authority: Option<&Authority>) -> Sender {
    let trust = authority.map_or_else(Trust::nobody, trusting);
    sender_with(Scripted::new(&[&["127.0.0.1"]]), trust)
}

/// Through a proxy, the TLS session is with the receiver: it is for the name, although the proxy sees the address.
#[tokio::test]
async fn a_session_through_a_proxy_is_for_the_name() {
    let ours = authority();
    let (said, mut names) = mpsc::unbounded_channel();
    let acceptor = acceptor(&ours, "receiver.example", 2100);
    let receiver = Receiver::raw(move |stream| {
        let (acceptor, said) = (acceptor.clone(), said.clone());
        async move {
            let mut session = acceptor.accept(stream).await?;
            let _ = said.send(session.get_ref().1.server_name().map(str::to_owned));
            while read_request(&mut session).await?.is_some() {
                session.write_all(OK).await?;
                session.flush().await?;
            }
            Ok(())
        }
    })
    .await;
    let proxy = ConnectProxy::to(receiver.address()).await;
    let egress = Egress {
        proxy: Some(EgressProxy::parse(&proxy.url()).expect("a URL")),
        ..Egress::from(EgressPolicy::default())
    };
    let resolver = Scripted::new(&[&["8.8.8.8"]]);
    let sender = Sender::with_resolver(egress, trusting(&ours), KeepAlive::default(), resolver);
    let sender = sender.expect("a sender");
    assert_eq!(code(&deliver(&sender, "https://receiver.example/hook").await), "200");
    assert_eq!(names.recv().await, Some(Some("receiver.example".to_owned())));
    assert_eq!(code(&deliver(&sender, "https://other.example/hook").await), "TLS_FAILED");
    assert_eq!(proxy.targets(), ["8.8.8.8:443"; 2]);
}

#[tokio::test]
async fn certificates_are_verified() {
    let (ours, theirs) = (authority(), authority());
    let rows = [
        ("no authority is trusted", None, "receiver.example", "receiver.example", 2100, "TLS_FAILED"),
        (
            "another authority is trusted",
            Some(&theirs),
            "receiver.example",
            "receiver.example",
            2100,
            "TLS_FAILED",
        ),
        ("the authority is trusted", Some(&ours), "receiver.example", "receiver.example", 2100, "200"),
        ("it is for another name", Some(&ours), "other.example", "receiver.example", 2100, "TLS_FAILED"),
        ("it is a wild card", Some(&ours), "*.receiver.example", "a.receiver.example", 2100, "200"),
        ("it has expired", Some(&ours), "receiver.example", "receiver.example", 2001, "TLS_FAILED"),
        ("the name is absolute", Some(&ours), "receiver.example", "receiver.example.", 2100, "200"),
        ("it is for an address", Some(&ours), "127.0.0.1", "127.0.0.1", 2100, "200"),
        (
            "it is for a name, not for the address",
            Some(&ours),
            "receiver.example",
            "127.0.0.1",
            2100,
            "TLS_FAILED",
        ),
    ];
    for (what, believed, named, host, until_year, expected) in rows {
        let acceptor = acceptor(&ours, named, until_year);
        let receiver = Receiver::raw(move |stream| serve(stream, acceptor.clone())).await;
        let url = format!("https://{host}:{}/", receiver.address().port());
        let exchange = deliver(&believing(believed), &url).await;
        assert_eq!(code(&exchange), expected, "{what}");
        assert_eq!(exchange.bytes_written, expected == "200", "{what}");
    }
}

#[tokio::test]
async fn a_failed_handshake_sends_nothing() {
    let stalling = Receiver::raw(|mut stream| async move {
        stream.read_exact(&mut [0; 5]).await?;
        std::future::pending().await
    })
    .await;
    let plain = Receiver::raw(|mut stream| async move {
        stream.read_exact(&mut [0; 5]).await?;
        stream.write_all(OK).await?;
        std::future::pending().await
    })
    .await;
    let closing = Receiver::raw(|mut stream| async move {
        stream.read_exact(&mut [0; 5]).await?;
        Ok(())
    })
    .await;
    let rows = [
        ("a handshake that stalls", stalling, "TIMEOUT"),
        ("no TLS at all", plain, "TLS_FAILED"),
        ("a close within the handshake", closing, "TLS_FAILED"),
    ];
    for (what, receiver, expected) in rows {
        let url = format!("https://receiver.example:{}/", receiver.address().port());
        let deadline = if expected == "TIMEOUT" { SHORT } else { PATIENT };
        let exchange = send(&believing(None), &url, ReadUpTo::Status, deadline).await;
        assert_eq!((code(&exchange).as_str(), exchange.bytes_written), (expected, false), "{what}");
    }
}

#[tokio::test]
async fn sessions_are_reused_and_a_closed_one_costs_no_attempt() {
    let authority = authority();
    let acceptor = acceptor(&authority, "receiver.example", 2100);
    let keeping = acceptor.clone();
    let receiver = Receiver::raw(move |stream| serve(stream, keeping.clone())).await;
    let url = format!("https://receiver.example:{}/", receiver.address().port());
    let sender = believing(Some(&authority));
    for _ in 0..20 {
        assert_eq!(code(&deliver(&sender, &url).await), "200");
    }
    assert_eq!(receiver.accepted(), 1);

    let (closed, mut is_closed) = mpsc::unbounded_channel();
    let receiver = Receiver::raw(move |stream| {
        let (acceptor, closed) = (acceptor.clone(), closed.clone());
        async move {
            let mut session = acceptor.accept(stream).await?;
            read_request(&mut session).await?;
            session.write_all(OK).await?;
            session.shutdown().await?;
            drop(session);
            let _ = closed.send(());
            Ok(())
        }
    })
    .await;
    let url = format!("https://receiver.example:{}/", receiver.address().port());
    for _ in 0..20 {
        let sender = believing(Some(&authority));
        for _ in 0..2 {
            assert_eq!(code(&deliver(&sender, &url).await), "200");
            is_closed.recv().await;
        }
    }
    assert_eq!(receiver.accepted(), 40);
}
