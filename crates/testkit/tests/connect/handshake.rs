//! Tests servers that stop responding or close the connection in the middle of a handshake: the attempt ends within its
//! limit, and the connection is closed.

use crate::certificates::{authority, server};
use crate::server::connect;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// The point of the handshake at which the server stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Accepted,
    TlsRequested,
    TlsOffered,
    TlsDone,
    StartupRead,
    ScramRequested,
    HalfMessage,
}

const STOPS: [Stop; 7] = [
    Stop::Accepted,
    Stop::TlsRequested,
    Stop::TlsOffered,
    Stop::TlsDone,
    Stop::StartupRead,
    Stop::ScramRequested,
    Stop::HalfMessage,
];

/// What the server does at that point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Hangs,
    Closes,
}

/// Far more than the limit of an attempt, which is one second.
const DEADLINE: Duration = Duration::from_secs(60);

fn acceptor() -> TlsAcceptor {
    let identity = server(&authority("A"), &["localhost"], "db", 2100);
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key));
    TlsAcceptor::from(Arc::new(config.unwrap()))
}

/// Waits until the client closes the connection.
async fn wait_for_end(mut stream: impl AsyncRead + Unpin) {
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

async fn end(mut stream: impl AsyncRead + AsyncWrite + Unpin, way: Way) {
    if way == Way::Closes {
        let _ = stream.shutdown().await;
    }
    wait_for_end(stream).await;
}

/// Serves one connection up to `stop`. Returns when the connection is closed.
async fn serve(mut stream: TcpStream, stop: Stop, way: Way, acceptor: TlsAcceptor) {
    let mut buffer = [0; 1024];
    if stop == Stop::Accepted {
        return end(stream, way).await;
    }
    stream.read_exact(&mut buffer[..8]).await.unwrap();
    if stop == Stop::TlsRequested {
        return end(stream, way).await;
    }
    stream.write_all(b"S").await.unwrap();
    if stop == Stop::TlsOffered {
        return end(stream, way).await;
    }
    let mut stream = acceptor.accept(stream).await.unwrap();
    if stop == Stop::TlsDone {
        return end(stream, way).await;
    }
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    let message: &[u8] = match stop {
        Stop::ScramRequested => b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
        Stop::HalfMessage => b"R\0\0",
        Stop::Accepted | Stop::TlsRequested | Stop::TlsOffered | Stop::TlsDone | Stop::StartupRead => b"",
    };
    stream.write_all(message).await.unwrap();
    stream.flush().await.unwrap();
    end(stream, way).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_disappears_in_a_handshake_leaves_no_connection() {
    let acceptor = acceptor();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for way in [Way::Closes, Way::Hangs] {
        for stop in STOPS {
            let url = format!("postgres://u:p@127.0.0.1:{port}/d?sslmode=require&connect_timeout=1");
            let client = tokio::spawn(async move { connect(&url).await });
            let (stream, _) = listener.accept().await.unwrap();
            // Ends only when the client has closed its side.
            let served = tokio::time::timeout(DEADLINE, serve(stream, stop, way, acceptor.clone())).await;
            assert!(served.is_ok(), "{way:?} {stop:?}: the connection was not closed");
            let error = client.await.unwrap().expect_err("a failure");
            let is_timeout = error.contains("within 1 s (connect_timeout)");
            assert_eq!(is_timeout, way == Way::Hangs, "{way:?} {stop:?}: {error}");
            assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
        }
    }
}
