//! Tests what the store reports about the TLS session of its connections.

use crate::certificates::{Folder, authority, server};
use crate::server::{TlsServer, TlsSettings};
use posthaste_core::ports::{InsightStore as _, Stores as _, Verified};
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::postgres::shared_roles;

#[tokio::test(flavor = "multi_thread")]
async fn the_store_reports_what_was_verified() {
    let trusted = authority("Trusted Authority");
    let folder = Folder::new();
    let roots = format!("sslrootcert={}", folder.write("roots.crt", &trusted.pem(), 0o644).display());
    let identity = server(&trusted, &["localhost"], "db", 2100);
    let running = TlsServer::start("session").await;
    running.configure(&TlsSettings { identity: Some(&identity), clients: None });
    migrate(&running.url("localhost", &format!("sslmode=verify-full&{roots}")), &shared_roles())
        .await
        .expect("the migration");
    for (parameters, verified) in [
        ("sslmode=disable".to_owned(), None),
        ("sslmode=require".to_owned(), Some(Verified::No)),
        (format!("sslmode=verify-ca&{roots}"), Some(Verified::Authority)),
        (format!("sslmode=verify-full&{roots}"), Some(Verified::Host)),
    ] {
        let options = PostgresOptions::new(running.url("localhost", &parameters));
        let store = PostgresStore::connect(&options).await.expect("the store");
        let reported = store.insight().server().await.expect("the state of the server").expect("a server");
        let connected = reported.connected;
        assert_eq!((connected.host.as_str(), connected.port), ("localhost", running.port()), "{parameters}");
        assert!(connected.is_local(), "{connected:?}");
        assert_eq!(connected.tls.as_ref().map(|tls| tls.verified), verified, "{parameters}");
        // 2100-01-01
        let expires = connected.tls.and_then(|tls| tls.expires).map(|time| time.micros() / 1_000_000);
        assert_eq!(expires, verified.map(|_| 4_102_444_800), "{parameters}");
    }
}
