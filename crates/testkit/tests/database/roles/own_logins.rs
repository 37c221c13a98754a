//! Tests that a login with the rights of a single role can do the work of that role and the work common to all
//! processes. For any other work, the error names the missing setting.

use super::postgres::login_url;
use posthaste_core::SubscriptionId;
use posthaste_core::ports::{
    AnnounceStore as _, Announcement, CleanerStore as _, DeadLetterFilter, DeadLetterStore as _, EventFilter,
    IngestStore as _, KeyStore as _, OrchestratorStore as _, OutboxIntakeStore as _, OutboxWorkerStore as _,
    PageRequest, PresenceStore as _, ProcessSeen, ReaderStore as _, RouteTake, RouterStore as _, StoreError,
    StoreResult, Stores as _, SubscriptionStore as _, WorkerStore as _,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_store::grants::DbRole;
use posthaste_store::postgres::{PostgresOptions, PostgresStore};
use posthaste_testkit::fixtures::{T0, at, claim, event, leases, order, worker_id};
use posthaste_testkit::harness::Harness;
use std::time::Duration;

/// Calls one method of the port that belongs to a role.
async fn work(store: &PostgresStore, role: DbRole) -> StoreResult<()> {
    let page = PageRequest::first(10);
    match role {
        DbRole::EventIngestWriter => store.ingest().insert_events(vec![vec![event("a")]], T0).await.map(drop),
        DbRole::SubscriptionAdmin => {
            store.subscriptions().load_subscription(SubscriptionId::from_store(1)).await.map(drop)
        }
        DbRole::RouterWorker => {
            store.router().route_events(RouteTake { from: None, events_max: 10 }, T0).await.map(drop)
        }
        DbRole::SagaOrchestrator => {
            let ids = vec![SubscriptionId::from_store(1)];
            store.orchestrator().count_in_flight(ids, 10).await.map(drop)
        }
        DbRole::JobWorker => store.worker().claim_due_jobs(claim(10), T0).await.map(drop),
        DbRole::LeaseCleaner => store.cleaner().reset_expired_leases(leases(10), 3, T0).await.map(drop),
        DbRole::DeadLetterOperator => {
            store.dead_letters().find_dead_letters(DeadLetterFilter::default(), page).await.map(drop)
        }
        DbRole::OutboxWriter => {
            let orders = vec![order("key-1", 1)];
            store.outbox_intake().submit_orders(orders, Duration::from_secs(60), T0).await.map(drop)
        }
        DbRole::OutboxWorker => {
            store.outbox_worker().requeue_due_orders(10, OrderRetryPolicy::ORDER, T0).await.map(drop)
        }
        DbRole::KeyKeeper => store.keys().list_keys().await.map(drop),
        DbRole::Viewer => store.reader().events(EventFilter::default(), page).await.map(drop),
        DbRole::EventPublisher => panic!("no component has this role"),
    }
}

/// Makes the calls that every process makes, regardless of its role.
async fn live(store: &PostgresStore) -> StoreResult<()> {
    store.now().await?;
    store.announcer().announce(Announcement::all()).await?;
    let seen = ProcessSeen {
        process_id: worker_id(1),
        role: "router".to_owned(),
        version: "1".to_owned(),
        started_at: T0,
        seen_at: T0,
    };
    store.presence().report_presence(seen, Vec::new()).await
}

/// Returns the text of an `Unusable` error. Panics on any other result.
fn refusal<T: std::fmt::Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Err(StoreError::Unusable { what }) => what,
        other => panic!("not refused: {other:?}"),
    }
}

fn check_names_settings(message: &str, role: DbRole) {
    let setting = role.url_setting().expect("a role of a component");
    for part in [role.name(), "POSTHASTE_DATABASE_URL ", setting] {
        assert!(message.contains(part), "{message:?} does not name {part:?}");
    }
}

fn only(role: DbRole) -> PostgresOptions {
    PostgresOptions { roles: vec![role], ..PostgresOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_works_with_its_own_login_alone() {
    let h = Harness::postgres("own").await;
    for (place, role) in DbRole::COMPONENTS.into_iter().enumerate() {
        let other = DbRole::COMPONENTS[(place + 1) % DbRole::COMPONENTS.len()];
        let url = login_url(&h, role.name(), "own").await;
        let options = PostgresOptions { role_urls: vec![(role, url.clone())], ..only(role) };
        let store =
            PostgresStore::connect(&options).await.unwrap_or_else(|error| panic!("{role:?}: {error:?}"));
        live(&store).await.unwrap_or_else(|error| panic!("{role:?}: {error:?}"));
        work(&store, role).await.unwrap_or_else(|error| panic!("{role:?}: {error:?}"));
        check_names_settings(&refusal(work(&store, other).await), other);
        // A common login with one role has only the rights of that role.
        let options = PostgresOptions { url: Some(url), ..only(role) };
        let store = PostgresStore::connect(&options).await.expect("the store");
        live(&store).await.expect("what every process does");
        work(&store, role).await.expect("its own work");
        assert!(refusal(work(&store, other).await).contains("may not use its role"));
    }
}

#[tokio::test]
async fn a_login_without_its_role_is_refused_by_name() {
    let h = Harness::postgres("own").await;
    let url = login_url(&h, "key_keeper", "stranger").await;
    h.admin().await.run(&format!("REVOKE key_keeper FROM {}", login_of(&url))).await;
    let options = PostgresOptions { role_urls: vec![(DbRole::KeyKeeper, url)], ..only(DbRole::KeyKeeper) };
    let message = refusal(PostgresStore::connect(&options).await);
    assert!(
        message.contains("grant key_keeper to the login") && message.contains("posthaste migrate"),
        "{message}"
    );
}

fn login_of(url: &str) -> &str {
    url.strip_prefix("postgres://").and_then(|rest| rest.split('@').next()).expect("a login")
}

#[tokio::test]
async fn only_the_roles_of_a_process_need_a_login() {
    let h = Harness::postgres("own").await;
    for role in DbRole::COMPONENTS {
        check_names_settings(&refusal(PostgresStore::connect(&only(role)).await), role);
    }
    let nobody = PostgresOptions { roles: Vec::new(), ..PostgresOptions::new(h.url()) };
    assert!(refusal(PostgresStore::connect(&nobody).await).contains("no role"));
}

/// Resets expired leases with only the rights of the cleaner: to `Pending`, and to `Failed` after too many resets.
#[tokio::test]
async fn the_cleaner_needs_no_payload_and_no_secret() {
    let h = Harness::postgres("own").await;
    let subscription = h.subscribe("a").await;
    h.publish("a", 2).await;
    h.route_all(T0).await;
    h.start_attempts(subscription, T0).await;
    let url = login_url(&h, "lease_cleaner", "cleaner").await;
    let options =
        PostgresOptions { role_urls: vec![(DbRole::LeaseCleaner, url)], ..only(DbRole::LeaseCleaner) };
    let store = PostgresStore::connect(&options).await.expect("the store");
    for (resets_max, second, status) in [(3, 3_600, "Pending"), (0, 7_200, "Failed")] {
        h.direct.run("UPDATE webhook_delivery_jobs SET status = 'Leased' WHERE status = 'Pending'").await;
        let reset = store.cleaner().reset_expired_leases(leases(10), resets_max, at(second)).await;
        assert_eq!(reset.expect("the rights").len(), 2);
        let found = h.direct.texts("SELECT DISTINCT status FROM webhook_delivery_jobs").await;
        assert_eq!(found, [status]);
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM finished_jobs").await, 2);
}
