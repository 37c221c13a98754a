//! Tests damaged rows, redirects and refused addresses. Each attempt fails with an error code, and the delivery is
//! retried and finally dead-lettered or held.

use posthaste_core::EventId;
use posthaste_core::ports::Stores;
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::SecretColumn;
use posthaste_services::egress::EgressPolicy;
use posthaste_services::seal::{PlainSecrets, SealingKeys, SecretSealer};
use posthaste_testkit::harness::{Engine, Harness};
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::time::Duration;

/// Runs a statement that the trigger `guard` of `table` refuses, after removing or disabling the trigger.
async fn by_force<S: Stores>(rig: &Rig<S>, table: &str, guard: &str, sql: &str) {
    let unguard = match rig.h.engine {
        Engine::Sqlite => format!("DROP TRIGGER {guard}"),
        Engine::Postgres | Engine::PostgresCut => format!("ALTER TABLE {table} DISABLE TRIGGER USER"),
    };
    rig.h.direct.run(&unguard).await;
    rig.h.direct.run(sql).await;
}

/// Checks that every attempt fails with `code` until the delivery is dead-lettered.
async fn fails_until_dead_lettered<S: Stores>(rig: &mut Rig<S>, event: EventId, code: &str) {
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, code.into()));
    rig.until_dead_lettered().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::DeadLettered, 5, code.into()));
    rig.move_to(1_000_000);
    rig.until_quiet().await;
    let saga = rig.saga_of(event).await.id;
    let attempts = rig.attempts(saga).await;
    let codes: Vec<_> = attempts.iter().filter_map(|attempt| attempt.error_code.as_ref()).collect();
    assert_eq!(codes.iter().map(|found| found.as_str()).collect::<Vec<_>>(), [code; 5]);
    let letters = rig.dead_letters().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(letter.head.saga_id, saga);
    rig.h.check_invariants().await;
}

/// Checks that every attempt fails with `code` until the delivery is dead-lettered, and that another delivery in
/// the same batch succeeds.
async fn fails_alone<S: Stores>(rig: &mut Rig<S>, event: EventId, code: &str) {
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    rig.subscribe("beside", &receiver.url("/")).await;
    let beside = rig.publish("beside").await;
    fails_until_dead_lettered(rig, event, code).await;
    assert_eq!(rig.fate_of(beside).await, (SagaStatus::Completed, 1, String::new()));
    assert_eq!(receiver.received().len(), 1);
}

pub(crate) async fn a_missing_event_fails_with_a_code<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, _) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    let saga = rig.saga_of(event).await.id;
    by_force(&rig, "events", "event_immutable_delete", &format!("DELETE FROM events WHERE id = {event}"))
        .await;
    // Store queries join the deleted event, so the test reads the row directly.
    let state = format!(
        "SELECT CAST(status AS TEXT), attempt_count, final_error_code FROM webhook_delivery_sagas WHERE id = {saga}"
    );
    let reads = |texts: [&str; 3]| vec![texts.map(|text| Some(text.to_owned())).to_vec()];
    rig.until_quiet().await;
    assert_eq!(rig.h.direct.rows(&state).await, reads(["PendingRetry", "1", "EVENT_GONE"]));
    rig.until_dead_lettered().await;
    assert_eq!(rig.h.direct.rows(&state).await, reads(["DeadLettered", "5", "EVENT_GONE"]));
    let letters = format!("SELECT payload_snapshot FROM dead_letters WHERE saga_id = {saga}");
    assert_eq!(rig.h.direct.texts(&letters).await, ["null"]);
    assert_eq!(receiver.received().len(), 0);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_missing_subscription_holds_the_delivery<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    let sql = format!("DELETE FROM subscriptions WHERE id = {subscription}");
    by_force(&rig, "subscriptions", "subscription_stays", &sql).await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "SUBSCRIPTION_GONE".into()));
    // The delivery is held, as after a deletion of the subscription.
    rig.until_dead_lettered().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "SUBSCRIPTION_GONE".into()));
    assert_eq!(receiver.received().len(), 0);
    rig.h.check_invariants().await;
}

pub(crate) async fn an_unreadable_secret_fails_with_a_code<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    let keys = SealingKeys::parse(&"08".repeat(32)).expect("a key");
    let other = SecretSealer::new(Some(keys), PlainSecrets::Accepted);
    let place = rig.secrets_of(subscription).await.place(SecretColumn::Current);
    let sealed = other.seal(&rig.secret_of(subscription).await, place, rig.draw_nonce());
    let sql = format!("UPDATE subscriptions SET secret = '{}' WHERE id = {subscription}", sealed.expose());
    rig.h.direct.run(&sql).await;
    fails_alone(&mut rig, event, "SECRET_UNREADABLE").await;
    assert_eq!(receiver.received().len(), 0);
}

/// Checks that a stored secret works neither in the row of another subscription nor in plain text, which this pipeline
/// refuses.
pub(crate) async fn a_planted_secret_fails_with_a_code<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let other = rig.subscribe("b", &receiver.url("/other")).await;
    let event = rig.publish("a").await;
    let own = rig.secrets_of(subscription).await.current;
    let (moved, plain) = (rig.secrets_of(other).await.current, rig.secret_of(other).await.reveal());
    for (number, planted) in [moved.expose(), &plain].into_iter().enumerate() {
        let sql = format!("UPDATE subscriptions SET secret = '{planted}' WHERE id = {subscription}");
        rig.h.direct.run(&sql).await;
        rig.until_quiet().await;
        let attempts = u32::try_from(number).expect("a count") + 1;
        let expected = (SagaStatus::PendingRetry, attempts, "SECRET_UNREADABLE".into());
        assert_eq!(rig.fate_of(event).await, expected);
        rig.move_by(Duration::from_secs(3_600));
    }
    let sql = format!("UPDATE subscriptions SET secret = '{}' WHERE id = {subscription}", own.expose());
    rig.h.direct.run(&sql).await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await.0, SagaStatus::Completed);
    assert_eq!(receiver.received().len(), 1);
}

pub(crate) async fn an_invalid_stored_url_fails_with_a_code<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    let sql = format!("UPDATE subscriptions SET callback_url = 'http://[no' WHERE id = {subscription}");
    rig.h.direct.run(&sql).await;
    fails_alone(&mut rig, event, "URL_INVALID").await;
    assert_eq!(receiver.received().len(), 0);
}

pub(crate) async fn an_unreadable_subscription_row_fails_with_a_code<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    let damaged = match rig.h.engine {
        Engine::Sqlite => "CAST(x'687474703aff' AS TEXT)",
        Engine::Postgres | Engine::PostgresCut => {
            rig.h.direct.run("ALTER TABLE subscriptions ALTER COLUMN callback_url DROP NOT NULL").await;
            rig.h
                .direct
                .run("ALTER TABLE subscription_changes ALTER COLUMN callback_url DROP NOT NULL")
                .await;
            "NULL"
        }
    };
    let sql = format!("UPDATE subscriptions SET callback_url = {damaged} WHERE id = {subscription}");
    rig.h.direct.run(&sql).await;
    fails_alone(&mut rig, event, "SUBSCRIPTION_GONE").await;
    assert_eq!(receiver.received().len(), 0);
}

pub(crate) async fn a_redirect_to_loopback_is_not_followed<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let inner = Receiver::start(|_| Answer::Status(200)).await;
    let location = inner.url("/admin");
    let receiver = Receiver::start(move |_| {
        let headers = vec![("location".to_owned(), location.clone())];
        Answer::With { status: 307, headers, body: Vec::new() }
    })
    .await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    fails_alone(&mut rig, event, "HTTP_307").await;
    assert_eq!((receiver.received().len(), inner.received().len()), (5, 0));
}

async fn refused_by<S: Stores>(h: Harness<S>, policy: EgressPolicy, code: &str) {
    let mut rig = Rig::with(h, Setup { policy, ..Setup::default() });
    let receiver = Receiver::start(|_| Answer::Status(200)).await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    fails_until_dead_lettered(&mut rig, event, code).await;
    assert_eq!(receiver.received().len(), 0);
}

pub(crate) async fn a_blocked_address_is_never_contacted<S: Stores>(h: Harness<S>) {
    refused_by(h, EgressPolicy { allow_http: true, ..EgressPolicy::default() }, "BLOCKED_ADDRESS").await;
}

pub(crate) async fn disallowed_http_is_never_sent<S: Stores>(h: Harness<S>) {
    refused_by(h, EgressPolicy { allow_http: false, ..Setup::default().policy }, "URL_INVALID").await;
}
