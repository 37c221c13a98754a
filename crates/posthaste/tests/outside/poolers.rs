//! Tests what `docs/poolers.md` states about PgBouncer 1.18: session mode works, and transaction mode is refused before
//! anything changes.

use crate::served::{PATIENCE, ROOT_KEY, Served};
use crate::world;
use posthaste_testkit::commands::{MIGRATE, run};
use posthaste_testkit::direct::Direct;
use posthaste_testkit::fleet;
use posthaste_testkit::pgbouncer::{PgBouncer, PoolMode};
use posthaste_testkit::postgres::{OWNER, client, url_with};
use posthaste_testkit::private_server::PrivateServer;
use posthaste_testkit::processes::Program;
use posthaste_testkit::receiver::Receiver;

const ROUTER: &str = "a_router";

/// A server with a login for one role, and PgBouncer in front of it.
struct Pooled {
    direct: String,
    pooled: String,
    _bouncer: PgBouncer,
    _server: PrivateServer,
}

async fn pooled(mode: PoolMode) -> Pooled {
    let server = PrivateServer::start("pooled");
    let direct = server.url("postgres");
    run(MIGRATE, &[("POSTHASTE_DATABASE_URL", &direct)], "").expect(0);
    let login = format!("CREATE ROLE {ROUTER} LOGIN IN ROLE router_worker");
    client(&server.admin_url("postgres")).await.batch_execute(&login).await.expect("a login");
    let bouncer = PgBouncer::start(&server, mode, &[OWNER, ROUTER]);
    let pooled = url_with(&direct, None, Some(bouncer.address));
    Pooled { direct, pooled, _bouncer: bouncer, _server: server }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_mode_works_with_a_common_login_and_with_own_logins() {
    let Pooled { direct, pooled, .. } = &pooled(PoolMode::Session).await;
    run(MIGRATE, &[("POSTHASTE_DATABASE_URL", pooled)], "").expect(0);
    let own = [
        ("POSTHASTE_DATABASE_URL", pooled.as_str()),
        ("POSTHASTE_DATABASE_URL_DIRECT", direct.as_str()),
        ("POSTHASTE_LISTEN", "127.0.0.1:0"),
        ("POSTHASTE_ROOT_KEY", ROOT_KEY),
    ];
    let served = Served::over(tempfile::tempdir().expect("a folder"), pooled, &own).await;
    let receiver = Receiver::start(world::answer).await;
    world::deliver_and_dead_letter(&served, &receiver);
    let router = url_with(pooled, Some(ROUTER), None);
    let own = fleet::settings(&[("POSTHASTE_DATABASE_URL_ROUTER", &router)]);
    let process = Program::find().serve("router", "router", &own);
    assert!(process.serves(PATIENCE).await, "{:#?}", process.lines());
    // The server lists the clients of the pooler under the names of the pools, and one that bypasses it.
    let direct = Direct::postgres(direct).await;
    let listeners =
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN posthaste' AND client_addr IS NULL";
    direct.until("a process listens", listeners, 1, PATIENCE).await;
}

/// Starts a process that must exit, and returns what it printed.
async fn refusal(roles: &str, settings: &[(&str, &str)]) -> String {
    let mut process = Program::find().serve("refused", roles, &fleet::settings(settings));
    let status = process.end(PATIENCE).await.expect("an end");
    assert!(!status.success(), "{:#?}", process.lines());
    process.lines().iter().map(|line| format!("{}\n", line.text)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_mode_without_prepared_statements_is_refused() {
    let Pooled { direct, pooled, .. } = &pooled(PoolMode::Transaction).await;
    // A process that is started again finds the statements of the one before.
    for _ in 0..3 {
        let text = refusal("all", &[("POSTHASTE_DATABASE_URL", pooled)]).await;
        assert!(text.contains("set a login for each role") && text.contains("docs/poolers.md"), "{text}");
    }
    let router = url_with(pooled, Some(ROUTER), None);
    let text = refusal("router", &[("POSTHASTE_DATABASE_URL_ROUTER", &router)]).await;
    assert!(text.contains("does not support prepared statements") && text.contains("session mode"), "{text}");
    let ran = run(MIGRATE, &[("POSTHASTE_DATABASE_URL", pooled)], "");
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("POSTHASTE_DATABASE_URL_DIRECT"), "{}", ran.stderr);
    let both =
        [("POSTHASTE_DATABASE_URL", pooled.as_str()), ("POSTHASTE_DATABASE_URL_DIRECT", direct.as_str())];
    run(MIGRATE, &both, "").expect(0);
    // Later clients of the pooler get server connections without a role, a setting or a lock.
    let direct = Direct::postgres(direct).await;
    assert_eq!(direct.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").await, 0);
    let mut clients = Vec::new();
    for _ in 0..10 {
        let client = client(pooled).await;
        client.batch_execute("BEGIN").await.expect("a transaction");
        let state = "SELECT current_user::text, current_setting('lock_timeout')";
        let row = client.query_one(state, &[]).await.expect("a row");
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), (OWNER, "0"));
        clients.push(client);
    }
}
