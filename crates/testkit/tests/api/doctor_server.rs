//! The checks of the database server, on real servers with each fault.

use crate::doctor::{NOW_S, run_all_roles};
use crate::server::{Options, TestApi};
use posthaste_core::ports::{
    ConnectedServer, InsightStore as _, Observed, ServerFacts, Standby, Stores as _, TlsSession, Verified,
};
use posthaste_services::doctor::{ConnectionDemand, ROLES};
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{ConnectionMonitor, PostgresOptions, PostgresStore, migrate};
use posthaste_testkit::fixtures::at;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::postgres::{as_admin, client, migrated_database, shared_roles, url_with};
use posthaste_testkit::private_server::{Flushing, PrivateServer};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the checks on a database with one process that runs every role.
async fn diagnose(url: &str, change: impl FnOnce(&mut PostgresOptions)) -> Value {
    let h = Harness::postgres_at(url.to_owned(), change).await;
    let by_role = ROLES.map(|role| (role, if role == "api" { 24 } else { 4 })).to_vec();
    let connections = Some(ConnectionDemand { by_role, per_process: 1 });
    let api = TestApi::start_with(h, Options { connections, ..Options::default() }).await;
    run_all_roles(&api.h).await;
    api.clock.set(at(NOW_S + 1));
    api.get("/v1/doctor").expect(200).await
}

/// Asserts that a check has this status and that its text contains these words.
#[track_caller]
fn has(diagnosis: &Value, name: &str, status: &str, words: &str) {
    let checks = diagnosis["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {diagnosis:#}"));
    assert_eq!(check["status"], status, "{check:#}");
    assert!(check["found"].as_str().is_some_and(|found| found.contains(words)), "{words:?} in {check:#}");
    assert_eq!(check["to_do"].is_string(), status != "ok", "{check:#}");
}

async fn read(store: &PostgresStore) -> ServerFacts {
    store.insight().server().await.expect("the state of the server").expect("a server")
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_lose_commits_are_found() {
    let server = PrivateServer::start_with("durability", Flushing::On, 16);
    let url = server.url("postgres");
    migrate(&url, &shared_roles()).await.expect("the migration");
    let diagnosis = diagnose(&url, |_| {}).await;
    has(&diagnosis, "durability", "ok", "flushed to disk");
    has(&diagnosis, "encryption", "ok", "does not leave this machine");
    has(&diagnosis, "wraparound", "ok", "transactions old");
    has(&diagnosis, "standbys", "ok", "no standby is attached");
    has(&diagnosis, "failover", "ok", "no standby is attached");
    client(&as_admin(&url))
        .await
        .batch_execute("ALTER DATABASE postgres SET synchronous_commit = off")
        .await
        .expect("SQL");
    has(&diagnose(&url, |_| {}).await, "durability", "warning", "synchronous_commit is off");
    server.restart_with("fsync = off\nfull_page_writes = off");
    let diagnosis = diagnose(&url, |_| {}).await;
    for words in ["fsync is off", "full_page_writes is off", "synchronous_commit is off"] {
        has(&diagnosis, "durability", "warning", words);
    }
    assert_eq!(diagnosis["healthy"], true, "{diagnosis:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_are_too_low_for_the_pools_are_found() {
    let url = migrated_database("limits").await;
    has(&diagnose(&url, |_| {}).await, "connections", "ok", "may open 45 connections");
    let (admin, name) = (client(&as_admin(&url)).await, url.rsplit('/').next().expect("a name"));
    let run =
        async |sql: String| admin.batch_execute(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    run(format!("ALTER DATABASE {name} CONNECTION LIMIT 44")).await;
    let words = "may open 45 connections, allowed are 44 (the CONNECTION LIMIT of the database)";
    has(&diagnose(&url, |_| {}).await, "connections", "warning", words);
    // The login of all roles.
    let roles = DbRole::COMPONENTS.map(DbRole::name).join(", ");
    run(format!("CREATE ROLE {name}_login LOGIN CONNECTION LIMIT 20 IN ROLE {roles}")).await;
    let login = url_with(&url, Some(&format!("{name}_login")), None);
    let diagnosis = diagnose(&url, |options| options.url = Some(login.clone())).await;
    has(&diagnosis, "connections", "warning", "allowed are 20 (the CONNECTION LIMIT of the login)");
    // A login of its own for one role has a part of the connections only.
    let viewer = (DbRole::Viewer, login);
    let diagnosis = diagnose(&url, |options| options.role_urls.push(viewer)).await;
    has(&diagnosis, "connections", "warning", "allowed are 44 (the CONNECTION LIMIT of the database)");

    let server = PrivateServer::start("limits");
    migrate(&server.url("postgres"), &shared_roles()).await.expect("the migration");
    server.restart_with("max_connections = 40\nsuperuser_reserved_connections = 5");
    let words = "allowed are 35 (max_connections, without the reserved ones)";
    has(&diagnose(&server.url("postgres"), |_| {}).await, "connections", "warning", words);
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_ids_close_to_the_wraparound_are_found() {
    let server = PrivateServer::start("wraparound");
    let url = server.url("postgres");
    migrate(&url, &shared_roles()).await.expect("the migration");
    // Otherwise autovacuum would freeze all rows at once.
    server.restart_with("autovacuum_freeze_max_age = 2000000000");
    server.restart_at_transaction(1_622 << 20);
    let diagnosis = diagnose(&url, |_| {}).await;
    has(&diagnosis, "wraparound", "problem", "the oldest transaction id is 170");
    assert_eq!(diagnosis["healthy"], false);
}

/// Polls the state of the standbys until it satisfies `condition`.
async fn until(store: &PostgresStore, condition: impl Fn(&Observed<Vec<Standby>>) -> bool) {
    let began = Instant::now();
    loop {
        let standbys = read(store).await.standbys;
        if condition(&standbys) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{standbys:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns whether there is one standby that satisfies `condition`.
fn only(standbys: &Observed<Vec<Standby>>, condition: impl FnOnce(&Standby) -> bool) -> bool {
    matches!(standbys, Observed::Seen(seen) if matches!(&seen[..], [standby] if condition(standby)))
}

#[tokio::test(flavor = "multi_thread")]
async fn standbys_and_what_a_failover_can_lose_are_found() {
    let primary = PrivateServer::start("primary");
    let store = primary.migrated_store().await;
    let url = primary.url("postgres");
    let admin = client(&as_admin(&url)).await;
    let run =
        async |sql: &str| admin.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let standby = primary.start_standby("standby");
    // Without pg_read_all_stats the role viewer sees that there is a standby, and nothing else.
    until(&store, |standbys| *standbys == Observed::Denied).await;
    let diagnosis = diagnose(&url, |_| {}).await;
    has(&diagnosis, "standbys", "warning", "not checked: standbys or backups are attached");
    assert!(diagnosis["checks"].as_array().expect("checks").iter().all(|check| check["name"] != "failover"));

    run("GRANT pg_read_all_stats TO viewer").await;
    until(&store, |standbys| only(standbys, |standby| standby.name == "standby")).await;
    let diagnosis = diagnose(&url, |_| {}).await;
    has(&diagnosis, "standbys", "ok", "1 standby keeps up");
    has(&diagnosis, "failover", "warning", "1 standby is attached and none is synchronous");
    assert_eq!(diagnosis["healthy"], true, "{diagnosis:#}");

    run("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
    run("SELECT pg_reload_conf()").await;
    until(&store, |standbys| only(standbys, |standby| standby.is_synchronous)).await;
    has(&diagnose(&url, |_| {}).await, "failover", "ok", "commits wait for a synchronous standby");
    run("ALTER DATABASE postgres SET synchronous_commit = local").await;
    has(&diagnose(&url, |_| {}).await, "failover", "warning", "synchronous_commit is local");

    // Replay stops, so the standby falls behind by what is written.
    let replica = client(&standby.admin_url("postgres")).await;
    replica.batch_execute("SELECT pg_wal_replay_pause()").await.expect("SQL");
    run("SELECT pg_logical_emit_message(false, 'doctor', repeat('x', 3000000))").await;
    until(&store, |standbys| only(standbys, |standby| standby.lag_bytes > 3_000_000)).await;

    let of_standby = PostgresStore::connect(&PostgresOptions::new(standby.url("postgres"))).await;
    assert!(read(&of_standby.expect("a store that only reads")).await.is_standby);
    assert!(!read(&store).await.is_standby);
}

/// Reports the TLS session of the last connection as the connector recorded it.
#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_connection_is_checked_and_shown() {
    let monitor = ConnectionMonitor::default();
    let shared = monitor.clone();
    let h = Harness::postgres_with("recorded", |options| options.monitor = shared).await;
    let api = TestApi::start(h).await;
    api.clock.set(at(NOW_S));
    // Opens the connection of the role viewer, which the following calls reuse.
    api.get("/v1/system").expect(200).await;
    let session = |verified, days: u64| TlsSession {
        version: "TLSv1.3",
        verified,
        expires: Some(at(NOW_S).after(Duration::from_secs(days * 86_400))),
    };
    for (tls, encryption, certificate) in [
        (None, ("warning", "db.example.com:5433 is not encrypted"), None),
        (Some(session(Verified::No, 90)), ("warning", "is not checked"), Some(("ok", "valid until"))),
        (
            Some(session(Verified::Host, 13)),
            ("ok", "TLSv1.3 to db.example.com"),
            Some(("warning", "in 13 days")),
        ),
        (
            Some(session(Verified::Host, 0)),
            ("ok", "verified"),
            Some(("problem", "expired at 2027-01-15T08:16:40")),
        ),
    ] {
        let address = "192.0.2.7:5433".parse().ok();
        let host = "db.example.com".to_owned();
        monitor
            .connected("posthaste viewer", ConnectedServer { host, port: 5433, address, tls: tls.clone() });
        let diagnosis = api.get("/v1/doctor?recent=true").expect(200).await;
        has(&diagnosis, "encryption", encryption.0, encryption.1);
        if let Some((status, words)) = certificate {
            has(&diagnosis, "certificate", status, words);
        }
        let system = api.get("/v1/system").expect(200).await;
        let database = &system["database"];
        assert_eq!((&database["host"], &database["port"]), (&json!("db.example.com"), &json!(5433)));
        assert_eq!(database["tls"]["in_use"], tls.is_some());
        assert_eq!(database["tls"]["version"], tls.as_ref().map_or(Value::Null, |_| json!("TLSv1.3")));
        let verified = tls.as_ref().map_or("none", |tls| tls.verified.as_str());
        assert_eq!(database["tls"]["verified"], verified);
        let expires = tls.and_then(|tls| tls.expires).map_or(Value::Null, |at| json!(at.to_string()));
        assert_eq!(database["tls"]["expires"], expires);
    }
}
