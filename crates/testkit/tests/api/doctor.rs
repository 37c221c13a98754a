//! The doctor checks in the API: no false alarms on a busy system, and every kind of damage is found.

use crate::explain;
use crate::server::{Options, TestApi};
use posthaste_core::SubscriptionId;
use posthaste_core::filter::Filter;
use posthaste_core::outcome::Failure;
use posthaste_core::ports::{
    IngestStore as _, OutboxIntakeStore as _, PresenceStore as _, ProcessSeen, Stores,
    SubscriptionStore as _, WorkerStore as _,
};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_services::doctor::ROLES;
use posthaste_services::egress::{AllowedPorts, EgressPolicy};
use posthaste_testkit::fixtures::{T0, actor, at, delivered, event, failed, order, worker_id};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::subscribers::subscribe;
use serde_json::Value;
use std::time::Duration;

/// The time of the checks, in seconds, long after the subscriptions were created.
pub(crate) const NOW_S: u64 = 1_000;

/// Reports the presence of every process role.
pub(crate) async fn run_all_roles<S: Stores>(h: &Harness<S>) {
    for role in ROLES {
        let (role, version) = (role.to_owned(), "0.0.0".to_owned());
        let seen =
            ProcessSeen { process_id: worker_id(1), role, version, started_at: T0, seen_at: at(NOW_S) };
        h.calm.presence().report_presence(seen, vec![]).await.expect("a report");
    }
}

async fn publish<S: Stores>(h: &Harness<S>, kind: &str, count: usize) {
    h.store.ingest().insert_events(vec![vec![event(kind); count]], at(NOW_S)).await.expect("events");
}

/// Runs one round of the pipeline for all due work: some attempts succeed, some fail, and some stay leased.
async fn go_round<S: Stores>(h: &Harness<S>, subscription: SubscriptionId) {
    let now = at(NOW_S);
    h.route_all(now).await;
    let (jobs, token) = h.start_attempts(subscription, now).await;
    let reports = jobs.iter().enumerate().filter_map(|(place, job)| match place % 3 {
        0 => Some(delivered(job, token)),
        1 => Some(failed(job, token, Failure::Http(500))),
        _ => None,
    });
    h.store.worker().report_jobs(reports.collect(), now).await.expect("reports");
    h.apply_all(now).await;
}

fn problems(diagnosis: &Value) -> Vec<&Value> {
    let checks = diagnosis["checks"].as_array().expect("checks");
    checks.iter().filter(|check| check["status"] == "problem").collect()
}

pub(crate) async fn a_busy_system_is_healthy<S: Stores>(api: &TestApi<S>) {
    let (one, other) = (api.h.subscribe("a").await, api.h.subscribe("a").await);
    api.h.subscribe_unverified("a", None).await;
    run_all_roles(&api.h).await;
    api.clock.set(at(NOW_S + 1));
    let busy = async {
        for _ in 0..25 {
            publish(&api.h, "a", 20).await;
            go_round(&api.h, one).await;
            go_round(&api.h, other).await;
        }
    };
    let mut looks = 0;
    let watch = async {
        loop {
            let diagnosis = api.get("/v1/doctor").expect(200).await;
            assert_eq!(problems(&diagnosis), Vec::<&Value>::new(), "{diagnosis:#}");
            assert_eq!(diagnosis["healthy"], true);
            looks += 1;
        }
    };
    tokio::select! {
        () = busy => {}
        () = watch => {}
    }
    assert!(looks > 0, "no diagnosis ran meanwhile");
    let diagnosis = api.get("/v1/doctor").expect(200).await;
    assert_eq!(diagnosis["examined"]["events"], 500, "{diagnosis:#}");
    assert_eq!(diagnosis["examined"]["deliveries"], 1_000);
    assert_eq!((&diagnosis["examined"]["undecidable"], &diagnosis["healthy"]), (&0.into(), &true.into()));
}

/// Damage caused by an SQL statement, the name of the check that must find it, and words that its result must contain.
const DAMAGES: &[(&str, &str, &str)] = &[
    (
        "INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at)
            SELECT (SELECT min(id) FROM webhook_delivery_sagas WHERE status = 'Pending'), lease_until,
                attempt_at, created_at
            FROM webhook_delivery_jobs WHERE id = 1",
        "deliveries",
        "waits for its next attempt and has an active job",
    ),
    (
        "INSERT INTO webhook_delivery_jobs (saga_id, lease_until, attempt_at, created_at)
            SELECT (SELECT min(id) FROM webhook_delivery_sagas WHERE status = 'Completed'), lease_until,
                lease_until, created_at
            FROM webhook_delivery_jobs WHERE id =
                (SELECT min(current_job_id) FROM webhook_delivery_sagas WHERE status = 'InProgress')",
        "deliveries",
        "it has ended and has an active job",
    ),
    (
        "UPDATE webhook_delivery_sagas SET attempt_count = 0
            WHERE id = (SELECT min(id) FROM webhook_delivery_sagas WHERE status = 'PendingRetry')",
        "deliveries",
        "it is PendingRetry and its attempt_count is 0",
    ),
    (
        "DELETE FROM webhook_delivery_jobs
            WHERE id =
                (SELECT min(current_job_id) FROM webhook_delivery_sagas WHERE status = 'InProgress')",
        "deliveries",
        "it is InProgress and its job does not exist",
    ),
    (
        "UPDATE webhook_delivery_jobs SET status = 'Completed'
            WHERE id = (SELECT max(current_job_id) FROM webhook_delivery_sagas WHERE status = 'InProgress')",
        "deliveries",
        "its job has finished and its result is not queued",
    ),
    (
        "UPDATE webhook_delivery_sagas SET current_job_id = current_job_id + 1000000
            WHERE id = (SELECT min(saga_id) FROM webhook_delivery_jobs WHERE status = 'Leased')",
        "deliveries",
        "its active job is not its current job",
    ),
    ("DELETE FROM dead_letters", "deliveries", "it is DeadLettered and has no dead letter"),
    (
        "DELETE FROM webhook_delivery_sagas WHERE id = (SELECT max(id) FROM webhook_delivery_sagas WHERE status = 'Pending')",
        "conservation",
        "1 delivery is missing",
    ),
    ("DELETE FROM outbox_audit WHERE idempotency_key = 'key-1'", "orders", "it has no audit"),
    ("DELETE FROM idempo_ledger WHERE idempotency_key = 'key-2'", "orders", "has no row in the ledger"),
    (
        "UPDATE idempo_ledger SET request_digest = 'sha256:0' WHERE idempotency_key = 'key-3'",
        "orders",
        "the digest of another request",
    ),
    (
        "UPDATE idempo_ledger SET result_digest = 'sha256:0' WHERE idempotency_key = 'key-4'",
        "orders",
        "differs from the order's",
    ),
    (
        "UPDATE outbox_orders SET status = 'sending' WHERE idempotency_key = 'key-5'",
        "orders",
        "the last row of its audit differs from the order",
    ),
    ("UPDATE outbox_lane SET paused_at = updated_at, reason = 'the key expired'", "lane", "the key expired"),
    (
        "UPDATE schema_migrations SET finished_at = NULL WHERE version = 2",
        "migrations",
        "started and not finished",
    ),
];

/// Statements that leave work unprocessed: a job that no worker claims, and a result that is not applied.
const UNDONE: &[&str] = &[
    "UPDATE webhook_delivery_jobs SET status = 'Pending', lease_token = NULL, worker_id = NULL
        WHERE id = (SELECT max(id) FROM webhook_delivery_jobs WHERE status = 'Leased')",
    "INSERT INTO finished_jobs (job_id) SELECT max(id) FROM webhook_delivery_jobs WHERE status = 'Completed'",
];

/// Degraded states of the lane that are reported as warnings, and words that the warning must contain.
const SLOW_LANES: &[(&str, &str)] = &[
    ("UPDATE outbox_lane SET rate = 12.5", "throttled: at most 12.5 sends per second"),
    ("UPDATE outbox_lane SET faults_in_row = 7", "the broker failed 7 times in a row"),
];

pub(crate) async fn every_kind_of_damage_is_found<S: Stores>(api: &TestApi<S>) {
    api.h.dead_letter("d").await;
    let one = api.h.subscribe("a").await;
    api.h.subscribe("a").await;
    publish(&api.h, "a", 12).await;
    go_round(&api.h, one).await;
    let orders = (1..=5).map(|number| order(&format!("key-{number}"), number)).collect();
    let kept = Duration::from_secs(7 * 86_400);
    api.h.store.outbox_intake().submit_orders(orders, kept, at(NOW_S)).await.expect("orders");
    run_all_roles(&api.h).await;
    api.clock.set(at(NOW_S + 1));
    let diagnosis = api.get("/v1/doctor").expect(200).await;
    assert_eq!(problems(&diagnosis), Vec::<&Value>::new(), "{diagnosis:#}");
    let found = |diagnosis: &Value, name: &str, words: &str| {
        let checks = problems(diagnosis);
        checks.iter().any(|check| {
            check["name"] == name
                && check["found"].as_str().is_some_and(|found| found.contains(words))
                && check["to_do"].is_string()
        })
    };
    for (sql, words) in SLOW_LANES {
        api.h.direct.force(sql).await;
        let diagnosis = api.get("/v1/doctor").expect(200).await;
        let warns = |check: &Value| {
            let is_found = check["found"].as_str().is_some_and(|found| found.contains(words));
            is_found && check["name"] == "lane" && check["status"] == "warning" && check["to_do"].is_string()
        };
        assert!(diagnosis["checks"].as_array().expect("checks").iter().any(warns), "{sql}: {diagnosis:#}");
        assert_eq!(diagnosis["healthy"], true);
    }
    api.h.direct.force("UPDATE outbox_lane SET rate = 1000, faults_in_row = 0").await;
    for (sql, name, words) in DAMAGES {
        let before = api.get("/v1/doctor").expect(200).await;
        assert!(!found(&before, name, words), "{words} is reported before: {before:#}");
        api.h.direct.force(sql).await;
        for path in ["/v1/doctor", "/v1/doctor?recent=true"] {
            let diagnosis = api.get(path).expect(200).await;
            assert!(found(&diagnosis, name, words), "{sql}: {diagnosis:#}");
            assert_eq!(diagnosis["healthy"], false);
        }
    }
    // An hour later, while no component is running.
    for sql in UNDONE {
        api.h.direct.force(sql).await;
    }
    api.clock.set(at(NOW_S + 3_600));
    publish(&api.h, "a", 1).await;
    let diagnosis = api.get("/v1/doctor").expect(200).await;
    for (name, words) in [
        ("leases", "expired and not reset"),
        ("sending", "1 order sending for too long"),
        ("delivery", "waiting, the oldest for"),
        ("results", "waiting, the oldest for"),
        ("outbox", "waiting, the oldest for 3600 s"),
        ("routing", "the oldest for 3600 s"),
        ("roles", "no process runs api, router, orchestrator, worker, cleaner, outbox"),
    ] {
        assert!(found(&diagnosis, name, words), "{name}: {diagnosis:#}");
    }
}

#[tokio::test]
async fn subscriptions_that_the_egress_rules_refuse_are_listed() {
    let policy = EgressPolicy {
        deny_cidrs: vec!["192.0.1.0/24".parse().expect("a network")],
        allow_ports: AllowedPorts::Only([443, 8443].into()),
        ..EgressPolicy::default()
    };
    let options = Options { policy, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("egress").await, options).await;
    run_all_roles(&api.h).await;
    api.clock.set(at(NOW_S + 1));
    let egress = async || {
        let diagnosis = api.get("/v1/doctor").expect(200).await;
        let checks = diagnosis["checks"].as_array().expect("checks").clone();
        checks.into_iter().find(|check| check["name"] == "egress").expect("the check")
    };
    let found = |check: &Value| check["found"].as_str().expect("text").to_owned();
    let fine = api.h.subscribe("a").await;
    let check = egress().await;
    assert_eq!((&check["status"], &check["to_do"]), (&"ok".into(), &Value::Null), "{check:#}");
    let mut refused = Vec::new();
    for (url, rule) in [
        ("https://192.0.1.7/hook", "192.0.1.7 is in 192.0.1.0/24, which POSTHASTE_DENY_CIDRS refuses"),
        ("https://10.0.0.1/hook", "10.0.0.1 is in a private network (RFC 1918)"),
        ("https://localhost/hook", "localhost is this machine"),
        ("https://example.com:9000/hook", "port 9000 is refused: POSTHASTE_ALLOW_PORTS allows 443,8443"),
        ("http://example.com/hook", "the URL must use https"),
    ] {
        let id = subscribe(&api.h.calm, "a", url, None).await.id;
        refused.push(format!("subscription {}: {rule}", id.get()));
    }
    let paused = subscribe(&api.h.calm, "a", "https://10.0.0.2/hook", None).await.id;
    api.h.direct.force(&format!("UPDATE subscriptions SET active = false WHERE id = {}", paused.get())).await;
    let check = egress().await;
    let text = found(&check);
    assert_eq!(check["status"], "warning");
    assert!(check["to_do"].as_str().is_some_and(|text| text.contains("POSTHASTE_DENY_CIDRS")), "{check:#}");
    assert!(text.starts_with("the rules refuse the URLs of 5 of 6 active subscriptions:\n"), "{text}");
    assert!(refused.iter().all(|line| text.contains(line.as_str())), "{refused:?}: {text}");
    // The name of this URL is allowed, but its addresses are refused when a delivery is sent.
    publish(&api.h, "a", 1).await;
    let now = at(NOW_S);
    api.h.route_all(now).await;
    let (jobs, token) = api.h.start_attempts(fine, now).await;
    let reports = jobs.iter().map(|job| failed(job, token, Failure::BlockedAddress)).collect();
    api.h.store.worker().report_jobs(reports, now).await.expect("reports");
    api.h.apply_all(now).await;
    let text = found(&egress().await);
    let line =
        format!("\nrecent deliveries failed with BLOCKED_ADDRESS, of the subscriptions: {}", fine.get());
    assert!(text.ends_with(&line), "{text}");
}

pub(crate) async fn history_is_examined_page_by_page<S: Stores>(api: &TestApi<S>) {
    const PER_PAGE: usize = 10_000;
    api.h.subscribe("a").await;
    let requests = vec![vec![event("b"); PER_PAGE], vec![event("a")]];
    for request in requests {
        api.h.store.ingest().insert_events(vec![request], at(NOW_S)).await.expect("events");
    }
    api.h.route_all(at(NOW_S)).await;
    let page = api.get("/v1/doctor").expect(200).await;
    assert_eq!((&page["examined"]["events"], &page["examined"]["deliveries"]), (&PER_PAGE.into(), &0.into()));
    let last = page["last_event_id"].as_i64().expect("an id");
    assert_eq!(page["examined_through"], last - 1);
    let cursor = page["next_cursor"].as_str().expect("a second page");
    let page = api.get(&format!("/v1/doctor?cursor={cursor}")).expect(200).await;
    assert_eq!((&page["examined"]["events"], &page["examined"]["deliveries"]), (&1.into(), &1.into()));
    assert_eq!((&page["next_cursor"], &page["healthy"]), (&Value::Null, &true.into()));
    let names: Vec<_> = page["checks"].as_array().expect("checks").iter().map(|one| &one["name"]).collect();
    assert_eq!(
        names,
        ["conservation", "deliveries", "orders"],
        "checks of the running system run on the first page only"
    );
    let recent = api.get("/v1/doctor?recent=true").expect(200).await;
    assert_eq!((&recent["examined"]["deliveries"], &recent["next_cursor"]), (&1.into(), &Value::Null));
    api.get("/v1/doctor?cursor=x").refused(422, "cursor").await;
    api.get("/v1/doctor?recent=maybe").refused(422, "recent").await;
    api.get(&format!("/v1/doctor?recent=true&cursor={cursor}")).refused(422, "cursor").await;
}

pub(crate) async fn conservation_follows_patterns_filters_and_tenants<S: Stores>(api: &TestApi<S>) {
    let h = &api.h;
    let eu = explain::subscribe(h, &["order.*", "*"], Some(r#"{"exact":{"region":"eu"}}"#)).await;
    let us = explain::subscribe(h, &["order.paid"], Some(r#"[{"exact":{"region":"us"}}]"#)).await;
    let all = explain::subscribe(h, &["*"], None).await;
    // Of no tenant, so without a delivery.
    h.subscribe("order.paid").await;
    let mut events = Vec::new();
    for region in ["eu", "us", "ap", "eu"] {
        let attributes = format!(r#"{{"region":"{region}"}}"#);
        events.push(explain::publish(h, "order.paid", &attributes, NOW_S).await);
    }
    explain::publish(h, "posthaste.key.expired", "{}", NOW_S).await;
    h.route_all(at(NOW_S)).await;
    // Long after the routing, a filter changes: the check uses the earlier one.
    let filter = Some(Some(Filter::parse(r#"{"exact":{"region":"none"}}"#).expect("a filter")));
    let patch = SubscriptionPatch { filter, ..SubscriptionPatch::default() };
    let (later, subscriptions) = (at(10 * NOW_S), h.store.subscriptions());
    subscriptions.update_subscription(us, patch, None, actor(), later).await.expect("a change");
    api.clock.set(at(10 * NOW_S + 1));
    let conservation = async || {
        let diagnosis = api.get("/v1/doctor").expect(200).await;
        let checks = diagnosis["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == "conservation").expect("the check").clone();
        (check["status"].clone(), check["found"].as_str().expect("a text").to_owned())
    };
    // Four for all, two for eu, one for us; what a filter, a tenant or a pattern excludes is not missing.
    let (status, found) = conservation().await;
    assert_eq!(
        (status, found.as_str()),
        ("ok".into(), "no delivery is missing: 5 events routed, 7 deliveries created")
    );
    let mut lost = 0;
    for (event, subscription) in [(events[0], eu), (events[1], us), (events[2], all)] {
        let sql = format!(
            "DELETE FROM webhook_delivery_sagas WHERE event_id = {event} AND subscription_id = {subscription}"
        );
        h.direct.force(&sql).await;
        lost += 1;
        let (status, found) = conservation().await;
        assert_eq!(status, "problem", "{found}");
        let named = format!("event {event} has no delivery for subscription {subscription}");
        assert!(found.contains(&named) && found.starts_with(&format!("{lost} deliver")), "{found}");
    }
}

/// A lease that is lowered after a timeout was set limits the timeout.
pub(crate) async fn capped_timeouts_are_reported<S: Stores>(api: &TestApi<S>) {
    let create = async |timeout: &str| {
        let body =
            serde_json::json!({"event_type": "a", "callback_url": "https://x.example/", "timeout": timeout});
        api.post("/v1/subscriptions").json(body.to_string()).expect(201).await["id"].clone()
    };
    let timeouts = async || {
        let diagnosis = api.get("/v1/doctor").expect(200).await;
        let checks = diagnosis["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == "timeouts").expect("a check").clone();
        (check["status"].clone(), check["found"].as_str().expect("a text").to_owned())
    };
    let (one, other, deleted) = (create("55s").await, create("20s").await, create("30s").await);
    assert_eq!(timeouts().await, ("ok".into(), "no subscription has a timeout longer than 55s".to_owned()));
    for id in [&one, &deleted] {
        api.h.direct.run(&format!("UPDATE subscriptions SET timeout_ms = 120000 WHERE id = {id}")).await;
    }
    api.call("DELETE", &format!("/v1/subscriptions/{deleted}")).expect(204).await;
    let expected = format!(
        "the lease allows timeouts of up to 55s, which is used instead of the longer timeout of subscription {one} (2m)"
    );
    assert_eq!(timeouts().await, ("warning".into(), expected));
    api.h.direct.run(&format!("UPDATE subscriptions SET timeout_ms = 55001 WHERE id = {other}")).await;
    let (_, found) = timeouts().await;
    assert!(found.ends_with(&format!("subscription {other} (55001ms), {one} (2m)")), "{found}");
}
