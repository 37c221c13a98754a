//! Tests that unusable certificate files are refused when the store is opened, and that changed files are read again.

use crate::certificates::{Folder, authority, client, server};
use crate::server::{TlsServer, TlsSettings, USER, client_parameters, connect};
use posthaste_store::postgres::{PostgresOptions, PostgresStore};

async fn refusal(parameters: &str) -> String {
    // Nothing listens on port 1: the files are read before the first connection.
    let url = format!("postgres://nobody@127.0.0.1:1/none?{parameters}");
    let refused = PostgresStore::connect(&PostgresOptions::new(url)).await.expect_err("a refusal");
    assert!(matches!(refused, posthaste_core::ports::StoreError::Unusable { .. }), "{refused:?}");
    refused.to_string()
}

#[tokio::test]
async fn unusable_files_are_refused_with_file_and_reason() {
    let folder = Folder::new();
    let authority = authority("A");
    let (one, two) = (client(&authority, "one"), client(&authority, "two"));
    let file = |name: &str, content: &str, mode| folder.write(name, content, mode).display().to_string();
    let (certificate, key) = (file("one.crt", &one.certificate, 0o644), file("one.key", &one.key, 0o600));
    let other_key = file("two.key", &two.key, 0o600);
    let public_key = file("public.key", &one.key, 0o644);
    let no_key = file("no.key", &one.certificate, 0o600);
    let text = file("text.crt", "hello", 0o644);
    let der = file("der.crt", "\u{30}\u{1}\u{2}", 0o644);
    let missing = folder.path().join("missing.crt").display().to_string();
    let directory = folder.path().display().to_string();
    let client = |certificate: &str, key: &str| format!("sslmode=require&sslcert={certificate}&sslkey={key}");
    for (parameters, file, reason) in [
        (format!("sslmode=verify-full&sslrootcert={missing}"), &missing, "No such file"),
        (format!("sslmode=require&sslrootcert={missing}"), &missing, "No such file"),
        (format!("sslmode=verify-full&sslrootcert={directory}"), &directory, "cannot be read"),
        (format!("sslmode=verify-full&sslrootcert={text}"), &text, "no certificate in PEM format"),
        (format!("sslmode=verify-full&sslrootcert={der}"), &der, "no certificate in PEM format"),
        (format!("sslmode=verify-full&sslrootcert={key}"), &key, "no certificate in PEM format"),
        (client(&missing, &key), &missing, "No such file"),
        (client(&certificate, &missing), &missing, "No such file"),
        (client(&certificate, &no_key), &no_key, "no private key in PEM format"),
        (client(&certificate, &other_key), &other_key, "does not fit"),
        (client(&certificate, &public_key), &public_key, "mode 0644"),
    ] {
        let message = refusal(&parameters).await;
        assert!(message.contains(file.as_str()) && message.contains(reason), "{parameters}: {message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renewed_files_are_used_for_the_next_connection() {
    let (old, new) = (authority("Old"), authority("New"));
    let folder = Folder::new();
    let roots = folder.write("roots.crt", &old.pem(), 0o644);
    let running = TlsServer::start("renewed").await;
    let identity = server(&new, &["localhost"], "db", 2100);
    running.configure(&TlsSettings { identity: Some(&identity), clients: Some(&new) });
    let client = client_parameters(&folder, &client(&new, USER));
    let url =
        running.url("localhost", &format!("sslmode=verify-full&sslrootcert={}&{client}", roots.display()));
    let monitor = posthaste_store::postgres::ConnectionMonitor::default();
    let mut listener = posthaste_store::postgres::PostgresListener::new(&url, &monitor).expect("a listener");
    let next = async |listener: &mut posthaste_store::postgres::PostgresListener| {
        posthaste_core::ports::ListenStore::next_announcements(listener).await
    };
    assert!(next(&mut listener).await.is_err());
    folder.write("roots.crt", &new.pem(), 0o644);
    next(&mut listener).await.expect("a connection with the renewed file");
    let tls = connect(&url).await.unwrap().tls.expect("TLS");
    assert_eq!(tls.version, "TLSv1.3");
    assert_eq!(tls.verified, posthaste_store::postgres::Verified::Host);
    // 2100-01-01
    assert_eq!(tls.expires.map(|time| time.micros() / 1_000_000), Some(4_102_444_800));
}
