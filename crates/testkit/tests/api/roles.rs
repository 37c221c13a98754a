//! Authorization by role, and authentication.

use crate::dashboard::enter;
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::KeyId;
use posthaste_core::ports::{KeyRole, KeyStore as _, Stores};
use posthaste_services::metrics::AuthFailure;
use posthaste_testkit::captured_log::{CapturedLog, Lines};
use posthaste_testkit::fixtures::{T0, actor};
use posthaste_testkit::harness::Harness;
use tracing_subscriber::filter::LevelFilter;

/// All calls that require a key, each with the roles other than root that may call it.
pub(crate) const CALLS: &[(&str, &str, &[&str])] = &[
    ("POST", "/v1/events", &["ingest"]),
    ("GET", "/v1/events", &["viewer", "operator", "admin"]),
    ("GET", "/v1/events/9", &["viewer", "operator", "admin"]),
    ("GET", "/v1/events/9/explain", &["viewer", "operator", "admin"]),
    ("GET", "/v1/stats", &["viewer", "operator", "admin"]),
    ("GET", "/v1/system", &["viewer", "operator", "admin"]),
    ("GET", "/v1/doctor", &["viewer", "operator", "admin"]),
    ("POST", "/v1/subscriptions", &["admin"]),
    ("GET", "/v1/subscriptions", &["viewer", "operator", "admin"]),
    ("GET", "/v1/subscriptions/9", &["viewer", "operator", "admin"]),
    ("PATCH", "/v1/subscriptions/9", &["admin"]),
    ("DELETE", "/v1/subscriptions/9", &["admin"]),
    ("GET", "/v1/subscriptions/match", &["viewer", "operator", "admin"]),
    ("GET", "/v1/subscriptions/uid/9", &["viewer", "operator", "admin"]),
    ("PUT", "/v1/subscriptions/uid/9", &["admin"]),
    ("POST", "/v1/subscriptions/9/verify", &["admin"]),
    ("POST", "/v1/subscriptions/9/rotate-secret", &["admin"]),
    ("POST", "/v1/subscriptions/9/test", &["admin"]),
    ("POST", "/v1/subscriptions/9/preview", &["admin"]),
    ("POST", "/v1/subscriptions/reseal-secrets", &["admin"]),
    ("GET", "/v1/deliveries", &["viewer", "operator", "admin"]),
    ("GET", "/v1/deliveries/9", &["viewer", "operator", "admin"]),
    ("GET", "/v1/dead-letters", &["viewer", "operator", "admin"]),
    ("GET", "/v1/dead-letters/9", &["viewer", "operator", "admin"]),
    ("POST", "/v1/dead-letters/9/requeue", &["operator"]),
    ("POST", "/v1/dead-letters/requeue", &["operator"]),
    ("POST", "/v1/orders", &["orders"]),
    ("GET", "/v1/orders", &["viewer", "operator", "admin"]),
    ("GET", "/v1/orders/9", &["viewer", "operator", "admin"]),
    ("GET", "/v1/orders/9/audit", &["viewer", "operator", "admin"]),
    ("GET", "/v1/outbox", &["viewer", "operator", "admin"]),
    ("POST", "/v1/outbox/resume", &["operator"]),
    ("GET", "/v1/audit", &["admin"]),
    ("GET", "/v1/keys", &[]),
    ("POST", "/v1/keys", &[]),
    ("DELETE", "/v1/keys/999", &[]),
];

pub(crate) async fn each_role_may_make_its_own_calls_only<S: Stores>(api: &TestApi<S>) {
    for role in KeyRole::ALL {
        let key = api.key(role).await;
        for (method, path, allowed) in CALLS {
            let answer = api.call(method, path).key(&key).send().await;
            let may = role == KeyRole::Root || allowed.contains(&role.as_str());
            assert_eq!(answer.status != 403, may, "{role:?} {method} {path}: {}", answer.text());
            assert!(
                answer.status != 401 && answer.status < 500,
                "{role:?} {method} {path}: {}",
                answer.text()
            );
        }
    }
    for (method, path, _) in CALLS {
        api.call(method, path).no_key().refused(401, "").await;
        let answer = api.call(method, path).key(ROOT_KEY).send().await;
        assert!(![401, 403].contains(&answer.status), "{method} {path}");
    }
}

pub(crate) async fn only_a_known_key_is_accepted<S: Stores>(api: &TestApi<S>) {
    let key = api.key(KeyRole::Viewer).await;
    for wrong in ["x", "", &key[1..], &format!("{key}x"), &"k".repeat(600)] {
        api.get("/v1/events").key(wrong).refused(401, "").await;
    }
    for header in ["Basic dXNlcjpwdw==", "Bearer", &key, &format!("Bearer{key}")] {
        api.get("/v1/events").no_key().header("authorization", header).refused(401, "").await;
    }
    api.get("/v1/events").no_key().header("authorization", &format!("bEARER  {key}")).expect(200).await;
    // The key is revoked directly in the store, so the server accepts it until its cache entry expires.
    let keys = api.h.store.keys().list_keys().await.expect("the keys");
    assert!(api.h.store.keys().revoke_key(keys[0].id, actor(), T0).await.expect("to revoke"));
    let bound = std::time::Instant::now() + std::time::Duration::from_secs(2);
    while api.get("/v1/events").key(&key).send().await.status == 200 {
        assert!(std::time::Instant::now() < bound, "a revoked key is accepted for too long");
        tokio::task::yield_now().await;
    }
    api.get("/v1/events").key(&key).refused(401, "").await;
    assert!(!api.h.store.keys().revoke_key(KeyId::from_store(999), actor(), T0).await.expect("no key"));
}

/// The number of unknown keys that one address may present in a burst.
const BURST: u64 = 20;

pub(crate) async fn unknown_keys_are_limited_and_counted<S: Stores>(api: &TestApi<S>) {
    let valid = api.key(KeyRole::Viewer).await;
    api.get("/v1/events").key(&valid).expect(200).await;
    api.get("/v1/events").expect(200).await;
    let count = |kind, reason| api.metrics.auth_failures.get_or_create(&AuthFailure { kind, reason }).get();
    let began = std::time::Instant::now();
    let mut unknown = 0;
    let limited = loop {
        let answer = api.get("/v1/events").key(&format!("guess-{unknown}")).send().await;
        if answer.status != 401 {
            break answer;
        }
        unknown += 1;
        // One more key is allowed per second, no matter how slow the machine is.
        assert!(unknown <= BURST + began.elapsed().as_secs() + 1, "{unknown} guesses");
    };
    assert!(unknown >= BURST, "{unknown} guesses");
    assert_eq!((limited.status, limited.header("retry-after")), (429, "1"), "{}", limited.text());
    assert_eq!(count("api_key", "unknown"), unknown);
    assert!(count("api_key", "rate_limited") >= 1);
    // Recently used keys are accepted, because several clients may share the address.
    api.get("/v1/events").key(&valid).expect(200).await;
    api.get("/v1/events").expect(200).await;
    let mut tries = 0;
    let page = loop {
        let answer = enter(api, &format!("guess-{tries}-by-form"), "/").send().await;
        if answer.status != 401 {
            break answer;
        }
        tries += 1;
        assert!(tries <= began.elapsed().as_secs() + 1, "calls and forms share one limit");
    };
    assert_eq!((page.status, page.header("retry-after")), (429, "1"), "{}", page.text());
    assert_eq!(count("sign_in", "unknown"), tries);
    assert!(count("sign_in", "rate_limited") >= 1);
}

/// Checks that an unknown key is logged once. Runs on one thread, because the log is captured per thread.
#[tokio::test]
async fn an_unknown_key_is_logged_once_with_its_address() {
    let (log, _capturing) = CapturedLog::of_this_thread(Lines::Text, LevelFilter::INFO);
    let api = TestApi::start(Harness::sqlite("unknown").await).await;
    api.get("/v1/events").key("not-a-key").refused(401, "").await;
    enter(&api, "not-a-sign-in", "/").expect_text(401).await;
    let text = log.text();
    for kind in ["api_key", "sign_in"] {
        let line = format!("unknown key refused client=127.0.0.1 kind=\"{kind}\"");
        assert_eq!(text.matches(&line).count(), 1, "{line} in {text}");
    }
    assert!(!text.contains("not-a-"), "{text}");
}
