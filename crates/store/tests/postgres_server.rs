//! What only a server of its own can show: roles made by eight databases at once, pools that outlive a
//! restart, and which commits wait for the disk.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use posthaste_core::audit::Actor;
use posthaste_core::event::{EventType, NewEvent};
use posthaste_core::json::JsonText;
use posthaste_core::ports::{
    Claim, CleanerStore as _, IngestStore as _, JobReport, LeaseTake, OrchestratorStore as _, Quota,
    ReaderStore as _, Report, ResultTake, RouteTake, RouterStore as _, Stores as _, SubscriptionStore as _,
    Verification, WorkerStore as _,
};
use posthaste_core::retry::RetryPolicy;
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret};
use posthaste_core::{EventId, LeaseToken, SubscriptionId, Timestamp, WorkerId};
use posthaste_store::grants::Role;
use posthaste_store::postgres::{PostgresOptions, PostgresStore, migrate};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

const T0: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run the tests with `scripts/with-postgres cargo test …`")
    })
}

/// A cluster of its own beside the one that the tests share; whatever still runs at the end is stopped with it.
struct Server {
    data: PathBuf,
    port: u16,
}

impl Server {
    fn start(name: &str) -> Self {
        let beside = PathBuf::from(setting("POSTHASTE_TEST_POSTGRES_DATA"));
        let data = beside.with_file_name(format!("{name}-{}", std::process::id()));
        let port = free_port();
        let server = Self { data, port };
        server.program("initdb", &["-U", "posthaste_test", "--auth=trust", "--encoding=UTF8", "--no-sync"]);
        server.start_again();
        server
    }

    /// Runs a program of the server on its folder, as the user it runs as.
    fn program(&self, program: &str, arguments: &[&str]) {
        let bin = PathBuf::from(setting("POSTHASTE_TEST_POSTGRES_BIN")).join(program);
        let user = setting("POSTHASTE_TEST_POSTGRES_USER");
        let is_ours = std::env::var("USER").is_ok_and(|name| name == user) || !is_root();
        let mut command = if is_ours {
            Command::new(bin)
        } else {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &user, "--regid", &user, "--init-groups"]).arg(bin);
            command
        };
        let folder = self.data.parent().expect("a folder above");
        let ended =
            command.arg("-D").arg(&self.data).args(arguments).current_dir(folder).stdout(Stdio::null());
        assert!(ended.stderr(Stdio::null()).status().expect(program).success(), "{program} failed");
    }

    fn start_again(&self) {
        // The log writer sleeps, so that only commits that ask for it reach the disk.
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c wal_writer_delay=10s -c fsync=off",
            self.port
        );
        let log = self.data.join("log");
        self.program("pg_ctl", &["start", "-w", "-o", &options, "-l", log.to_str().expect("a path")]);
    }

    fn stop(&self) {
        self.program("pg_ctl", &["stop", "-w", "-m", "fast"]);
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://posthaste_test@127.0.0.1:{}/{database}", self.port)
    }

    async fn client(&self, database: &str) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url(database), NoTls).await.expect("the server answers");
        tokio::spawn(connection);
        client
    }

    async fn store(&self) -> PostgresStore {
        migrate(&self.url("postgres")).await.expect("the migration");
        PostgresStore::connect(&PostgresOptions::new(self.url("postgres"))).await.expect("the store")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.data.join("postmaster.pid").exists() {
            self.program("pg_ctl", &["stop", "-m", "immediate"]);
        }
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn event() -> NewEvent {
    NewEvent {
        event_type: EventType::parse("a").unwrap(),
        payload: JsonText::parse("{}", 10).unwrap(),
        external_event_id: None,
        correlation_id: None,
        traceparent: None,
    }
}

async fn subscribe(store: &PostgresStore) -> SubscriptionId {
    let secret = SealedSecret::new("secret");
    let new = NewSubscription {
        event_type: EventType::parse("a").unwrap(),
        callback_url: CallbackUrl::parse("https://example.com/", false).unwrap(),
        max_retry_limit: None,
        description: None,
        secret: secret.clone(),
    };
    let made = store.subscriptions().create_subscription(new, Actor::root(None), T0).await.unwrap();
    let challenged = Verification { callback_url: made.callback_url.clone(), secret };
    assert!(store.subscriptions().mark_verified(made.id, challenged, Actor::root(None), T0).await.unwrap());
    made.id
}

fn take() -> RouteTake {
    RouteTake { from: None, events_max: 100 }
}

fn claim() -> Claim {
    Claim {
        worker_id: WorkerId::parse("w").unwrap(),
        token: LeaseToken::from_random(7),
        lease: Duration::from_secs(60),
        from: None,
        jobs_max: 100,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_databases_make_the_roles_of_a_new_cluster_at_once() {
    let server = Server::start("eight");
    let admin = server.client("postgres").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8 {
        admin.batch_execute(&format!("CREATE DATABASE d{number}")).await.unwrap();
    }
    for number in 0..8 {
        let url = server.url(&format!("d{number}"));
        tasks.spawn(async move {
            migrate(&url).await.unwrap();
            PostgresStore::connect(&PostgresOptions::new(url)).await.unwrap();
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let names = Role::ALL.map(Role::name).to_vec();
    let made = admin.query("SELECT FROM pg_roles WHERE rolname = ANY ($1)", &[&names]).await.unwrap();
    assert_eq!(made.len(), names.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_outlive_a_restart() {
    let server = Server::start("restart");
    let store = server.store().await;
    subscribe(&store).await;
    store.ingest().insert_events(vec![vec![event()]], T0).await.unwrap();
    for round in 1..=3 {
        server.stop();
        let away = store.router().route_events(take(), T0).await.expect_err("nobody is there");
        assert!(away.is_passing(), "{away:?}");
        server.start_again();
        assert_eq!(store.router().route_events(take(), T0).await.unwrap().events, u32::from(round == 1));
        assert!(store.now().await.is_ok());
    }
}

/// A caller that loses interest leaves no transaction open, and nothing locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_half_way_leaves_nothing_behind() {
    let server = Server::start("dropped");
    let store = server.store().await;
    let subscription_id = subscribe(&store).await;
    store.ingest().insert_events(vec![vec![event()]], T0).await.unwrap();
    store.router().route_events(take(), T0).await.unwrap();
    let admin = server.client("postgres").await;
    let quota = vec![Quota { subscription_id, jobs_max: 5, from: None }];
    for _ in 0..8 {
        // The transaction has begun, and its second statement waits.
        admin.batch_execute("BEGIN; LOCK TABLE posthaste.webhook_delivery_jobs").await.unwrap();
        let admitting = store.orchestrator();
        let call = admitting.admit_due_sagas(quota.clone(), RetryPolicy::WEBHOOK, T0);
        assert!(tokio::time::timeout(Duration::from_millis(100), call).await.is_err());
        admin.batch_execute("COMMIT").await.unwrap();
    }
    let admitted = loop {
        // What was dropped may hold its row for a moment, until the server notices.
        let admitted = store.orchestrator().admit_due_sagas(quota.clone(), RetryPolicy::WEBHOOK, T0).await;
        if !admitted.as_ref().unwrap().jobs.is_empty() {
            break admitted.unwrap();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(admitted.jobs.len(), 1);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    assert_eq!(admin.query_one(open, &[]).await.unwrap().get::<_, i64>(0), 0);
}

/// What a crash can only repeat does not wait for the disk; everything else does.
#[tokio::test(flavor = "multi_thread")]
async fn only_what_may_be_repeated_commits_without_the_disk() {
    let server = Server::start("disk");
    let store = server.store().await;
    let subscription_id = subscribe(&store).await;
    let admin = server.client("postgres").await;
    // Otherwise a query prunes what the migrations left in the catalog, and logs that without a flush.
    admin.batch_execute("VACUUM").await.unwrap();
    let waits = async |expected: bool, what: &str| {
        let behind = "SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()";
        let is_behind: bool = admin.query_one(behind, &[]).await.unwrap().get(0);
        assert_eq!(!is_behind, expected, "{what}");
    };
    let (orchestrator, worker) = (store.orchestrator(), store.worker());
    store.ingest().insert_events(vec![vec![event()], vec![event()]], T0).await.unwrap();
    waits(true, "events").await;
    assert_eq!(store.router().route_events(take(), T0).await.unwrap().pairs, 2);
    waits(false, "routing").await;
    let quota = vec![Quota { subscription_id, jobs_max: 5, from: None }];
    assert_eq!(orchestrator.admit_due_sagas(quota, RetryPolicy::WEBHOOK, T0).await.unwrap().jobs.len(), 2);
    waits(false, "admission").await;
    let jobs = worker.claim_due_jobs(claim(), T0).await.unwrap();
    waits(false, "a claim").await;
    let report = JobReport {
        job_id: jobs[0].job_id,
        token: claim().token,
        outcome: posthaste_core::outcome::classify(200, None, T0),
        duration: Duration::ZERO,
    };
    assert_eq!(worker.report_jobs(vec![report], T0).await.unwrap(), [Report::Accepted]);
    waits(true, "a report").await;
    let take = ResultTake { from: None, results_max: 5 };
    assert_eq!(orchestrator.apply_job_results(take, RetryPolicy::WEBHOOK, T0).await.unwrap().len(), 1);
    waits(true, "an applied result").await;
    let later = T0.after(Duration::from_secs(61));
    assert_eq!(
        store
            .cleaner()
            .reset_expired_leases(
                LeaseTake { from: None, jobs_max: 5, ahead_max: Duration::from_secs(600) },
                3,
                later
            )
            .await
            .unwrap()
            .len(),
        1
    );
    waits(true, "a reset lease").await;
}

/// Half of the round trip is added to the time that the server returned. What happens before the query (waiting for a
/// connection, connecting) must not be part of it, or the clock is ahead by half of that.
#[tokio::test]
async fn a_clock_sample_begins_when_the_connection_is_in_hand() {
    let server = Server::start("clock");
    migrate(&server.url("postgres")).await.expect("the migration");
    let options = PostgresOptions {
        roles: vec![Role::Viewer],
        connections_max: 1,
        ..PostgresOptions::new(server.url("postgres"))
    };
    let store = PostgresStore::connect(&options).await.expect("the store");
    let locker = server.client("postgres").await;
    locker
        .batch_execute("BEGIN; LOCK TABLE posthaste.events IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("a lock");
    // The only connection waits for the table.
    let reader = store.reader();
    let reading = tokio::spawn(async move { reader.event(EventId::from_store(1)).await });
    let watcher = server.client("postgres").await;
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while watcher.query(waiting, &[]).await.expect("the activity").is_empty() {}
    let mut sampling = std::pin::pin!(store.sample_clock());
    tokio::select! {
        biased;
        _ = &mut sampling => panic!("the connection is in use"),
        () = tokio::task::yield_now() => {}
    }
    let released_at = Instant::now();
    locker.batch_execute("COMMIT").await.expect("the end of the lock");
    let sample = sampling.await.expect("a sample");
    assert!(sample.asked_at >= released_at, "the wait for the connection was part of the sample");
    assert_eq!(reading.await.expect("the reader").expect("an answer"), None);
}
