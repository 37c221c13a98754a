//! Tests URLs with several hosts: the writable one is found, and found again after it has changed.

use crate::server::connect;
use futures_util::future::{join, join_all};
use posthaste_core::ports::IngestStore as _;
use posthaste_core::ports::Stores as _;
use posthaste_store::postgres::{ConnectionMonitor, PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::fixtures::{T0, event};
use posthaste_testkit::postgres::{client, shared_roles};
use posthaste_testkit::private_server::PrivateServer;

fn url(servers: &[&PrivateServer], parameters: &str) -> String {
    let folder =
        |server: &&PrivateServer| server.socket().parent().unwrap().display().to_string().replace('/', "%2F");
    let hosts: Vec<String> = servers.iter().map(folder).collect();
    format!("postgres://posthaste_owner@{}/postgres?{parameters}", hosts.join(","))
}

async fn set_read_only(server: &PrivateServer, value: &str) {
    let admin = client(&server.admin_url("postgres")).await;
    let sql =
        format!("SET transaction_read_only = off; ALTER SYSTEM SET default_transaction_read_only = {value}");
    for statement in sql.split("; ") {
        admin.batch_execute(statement).await.unwrap();
    }
    server.pg_ctl(&["reload"]);
}

/// Waits until new connections to the server are writable or not.
async fn wait_for_read_only(server: &PrivateServer, expected: &str) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        let admin = client(&server.admin_url("postgres")).await;
        let row = admin.query_one("SHOW transaction_read_only", &[]).await.unwrap();
        if row.get::<_, String>(0) == expected {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "the setting was not read");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn first_writable_host_is_used() {
    let (read_only, writable) = (PrivateServer::start("ro"), PrivateServer::start("rw"));
    set_read_only(&read_only, "on").await;
    wait_for_read_only(&read_only, "on").await;
    let host = |server: &PrivateServer| server.socket().parent().unwrap().display().to_string();
    for (parameters, expected) in [
        ("target_session_attrs=any", &read_only),
        ("target_session_attrs=read-write", &writable),
        // Not a standby, only read-only.
        ("target_session_attrs=primary", &read_only),
        ("", &writable),
    ] {
        let connected = connect(&url(&[&read_only, &writable], parameters)).await.unwrap();
        assert_eq!(connected.host, host(expected), "{parameters}");
        assert!(connected.is_local() && connected.tls.is_none());
    }
    let error = connect(&url(&[&read_only, &read_only], "")).await.unwrap_err();
    assert_eq!(error.matches("the server is read-only").count(), 2, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_hosts_are_skipped_and_named() {
    let server = PrivateServer::start("skip");
    let folder = server.socket().parent().unwrap().display().to_string().replace('/', "%2F");
    let connected =
        connect(&format!("postgres://posthaste_owner@127.0.0.1:1,no.such.host.invalid,{folder}/postgres"))
            .await;
    connected.expect("the third host");
    let error =
        connect("postgres://posthaste_owner@127.0.0.1:1,no.such.host.invalid/postgres").await.unwrap_err();
    for part in ["127.0.0.1:1: ", "refused", "no.such.host.invalid:5432: the host name cannot be resolved"] {
        assert!(error.contains(part), "{error}");
    }
    // As in libpq, a refused login ends the search.
    let error = connect(&format!("postgres://nobody_here@{folder},127.0.0.1:1/postgres")).await.unwrap_err();
    assert!(error.contains("nobody_here") && !error.contains("127.0.0.1:1"), "{error}");
}

/// Uses all connections of two pools: one that writes, and one that only reads.
async fn use_all_connections(store: &PostgresStore) {
    let inserts =
        (0..8).map(|_| async { store.ingest().insert_events(vec![vec![event("a")]], T0).await.map(drop) });
    let reads = (0..8).map(|_| async { store.now().await.map(drop) });
    let (inserted, read) = join(join_all(inserts), join_all(reads)).await;
    for outcome in inserted.into_iter().chain(read) {
        outcome.expect("a call that is repeated on another connection");
    }
}

async fn connections(server: &PrivateServer) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'posthaste %'";
    client(&server.admin_url("postgres")).await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_becomes_read_only_is_left_by_all_connections() {
    let (first, second) = (PrivateServer::start("first"), PrivateServer::start("second"));
    for server in [&first, &second] {
        migrate(&server.url("postgres"), &shared_roles()).await.unwrap();
    }
    let monitor = ConnectionMonitor::default();
    let options =
        PostgresOptions { monitor: monitor.clone(), ..PostgresOptions::new(url(&[&first, &second], "")) };
    let store = PostgresStore::connect(&options).await.unwrap();
    use_all_connections(&store).await;
    assert_eq!(monitor.failovers(), 0);
    for (read_only, writable) in [(&first, &second), (&second, &first)] {
        assert!(connections(read_only).await > 0);
        set_read_only(writable, "off").await;
        wait_for_read_only(writable, "off").await;
        set_read_only(read_only, "on").await;
        wait_for_read_only(read_only, "on").await;
        // A connection may read the changed setting a moment later.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while connections(read_only).await > 0 {
            use_all_connections(&store).await;
            assert!(std::time::Instant::now() < deadline, "the read-only server is still used");
        }
        assert_eq!(
            Some(writable.socket().parent().unwrap().display().to_string()),
            monitor.server().map(|server| server.host)
        );
    }
    assert_eq!(monitor.failovers(), 2);
}
