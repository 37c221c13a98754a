//! Tests the client with an HTTPS server, whose certificate must be trusted.

use posthaste_testkit::commands::run;
use posthaste_testkit::receiver::{Receiver, read_request};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::sync::Arc;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-length: 32\r\nconnection: close\r\n\r\n{\"items\":[],\"next_cursor\":null}\r\n";

/// Responds to every request with an empty list.
async fn serve(stream: TcpStream, acceptor: TlsAcceptor) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    read_request(&mut stream).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn untrusted_certificate_is_refused() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, cert.pem()).expect("a file");
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a configuration");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Receiver::raw(move |stream| serve(stream, acceptor.clone())).await;
    let url = format!("https://{}", server.address());
    tokio::task::spawn_blocking(move || {
        let file = file.to_str().expect("text");
        let ours = [("POSTHASTE_URL", url.as_str()), ("POSTHASTE_CA_FILE", file)];
        assert_eq!(run(&["event", "list"], &ours, "").expect(0).stdout, "no events\n");
        let untrusted = run(&["event", "list"], &ours[..1], "").expect(3);
        assert!(untrusted.stderr.contains("TLS handshake"), "{untrusted:?}");
    })
    .await
    .expect("an end");
}
