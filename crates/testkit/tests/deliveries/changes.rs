//! Tests changes to subscriptions while deliveries are in progress.

use posthaste_core::ports::{Requeue, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::{CallbackUrl, SubscriptionPatch};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn set_active(active: bool) -> SubscriptionPatch {
    SubscriptionPatch { active: Some(active), ..SubscriptionPatch::default() }
}

fn move_to(url: &str) -> SubscriptionPatch {
    let callback_url = Some(CallbackUrl::parse(url, true).expect("a URL"));
    SubscriptionPatch { callback_url, ..SubscriptionPatch::default() }
}

/// Checks that a subscription with a longer timeout waits for a response that arrives after the request of another
/// subscription has timed out.
pub(crate) async fn a_subscription_has_its_own_timeout<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::with(h, Setup { deadline: Duration::from_millis(50), ..Setup::default() });
    let (slow, gate) = Receiver::gated(200).await;
    let hanging = Receiver::start(|_| Answer::Hang).await;
    let patient = rig.subscribe("patient", &slow.url("/")).await;
    let timeout = Some(Some(Duration::from_secs(25)));
    rig.patch(patient, SubscriptionPatch { timeout, ..SubscriptionPatch::default() }).await;
    rig.subscribe("impatient", &hanging.url("/")).await;
    let (first, second) = (rig.publish("patient").await, rig.publish("impatient").await);
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    slow.wait_for(1).await;
    while rig.fate_of(second).await != (SagaStatus::PendingRetry, 1, "TIMEOUT".to_owned()) {
        rig.apply().await;
    }
    assert_eq!(rig.fate_of(first).await, (SagaStatus::InProgress, 0, String::new()));
    gate.add_permits(1);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(first).await, (SagaStatus::Completed, 1, String::new()));
    rig.h.check_invariants().await;
}

pub(crate) async fn a_paused_subscription_holds_its_deliveries<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    // The first request fails, so that one delivery waits for its retry.
    let seen = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let subscription = rig.subscribe("a", &receiver.url("/")).await;
    let retried = rig.publish("a").await;
    rig.until_quiet().await;
    let admitted = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    let held = rig.publish("a").await;
    rig.route().await;
    rig.patch(subscription, set_active(false)).await;
    let unheard = rig.publish("a").await;
    rig.until_quiet().await;
    rig.move_to(1_000);
    rig.until_quiet().await;
    // The job admitted before the pause was sent. No other delivery was sent or created.
    assert_eq!(receiver.received().len(), 2);
    assert_eq!(rig.fate_of(admitted).await, (SagaStatus::Completed, 1, String::new()));
    assert_eq!(rig.fate_of(retried).await, (SagaStatus::PendingRetry, 1, "HTTP_500".into()));
    assert_eq!(rig.fate_of(held).await, (SagaStatus::Pending, 0, String::new()));
    assert_eq!(rig.sagas_of(unheard).await, []);
    let active = "SELECT count(*) FROM webhook_delivery_jobs WHERE status IN ('Pending', 'Leased')";
    assert_eq!(rig.h.direct.number(active).await, 0);

    rig.patch(subscription, set_active(true)).await;
    // The full scan finds the deliveries of a resumed subscription.
    rig.move_by(Duration::from_secs(1));
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(retried).await, (SagaStatus::Completed, 2, "HTTP_500".into()));
    assert_eq!(rig.fate_of(held).await, (SagaStatus::Completed, 1, String::new()));
    assert_eq!(rig.sagas_of(unheard).await, []);
    assert_eq!(receiver.received().len(), 4);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_deleted_subscription_holds_its_deliveries_for_ever<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    let subscription = rig.subscribe_with("a", &receiver.url("/"), Some(2)).await;
    let dead = rig.publish("a").await;
    for seconds in [0, 30] {
        rig.move_to(seconds);
        rig.until_quiet().await;
    }
    let retried = rig.publish("a").await;
    rig.until_quiet().await;
    let held = rig.publish("a").await;
    rig.route().await;
    rig.unsubscribe(subscription).await;
    let unheard = rig.publish("a").await;
    rig.move_to(100_000);
    rig.until_quiet().await;
    assert_eq!(receiver.received().len(), 3);
    assert_eq!(rig.fate_of(dead).await, (SagaStatus::DeadLettered, 2, "HTTP_500".into()));
    assert_eq!(rig.fate_of(retried).await, (SagaStatus::PendingRetry, 1, "HTTP_500".into()));
    assert_eq!(rig.fate_of(held).await, (SagaStatus::Pending, 0, String::new()));
    assert_eq!(rig.sagas_of(unheard).await, []);
    let letter = rig.dead_letters().await[0].head.id;
    assert_eq!(rig.requeue(letter).await, Requeue::SubscriptionDeleted);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_job_admitted_before_the_deletion_is_not_sent<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(200)).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.unsubscribe(subscription).await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "SUBSCRIPTION_GONE".into()));
    assert_eq!(receiver.received().len(), 0);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_changed_url_gets_no_delivery_until_verified<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let old = Receiver::start(|_| Answer::Status(200)).await;
    let new = Receiver::start(|_| Answer::Status(200)).await;
    let subscription = rig.subscribe("a", &old.url("/")).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.patch(subscription, move_to(&new.url("/"))).await;
    let unheard = rig.publish("a").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "NOT_VERIFIED".into()));
    assert_eq!(rig.sagas_of(unheard).await, []);
    // While the new URL is not verified, deliveries are held and use up no attempts.
    rig.move_to(100_000);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "NOT_VERIFIED".into()));
    assert_eq!((old.received().len(), new.received().len()), (0, 0));

    rig.verify(subscription).await;
    rig.move_by(Duration::from_secs(1));
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 2, "NOT_VERIFIED".into()));
    assert_eq!((old.received().len(), new.received().len()), (0, 1));
    assert_eq!(new.received()[0].header("posthaste-attempt"), "2");
    rig.h.check_invariants().await;
}

pub(crate) async fn a_request_in_progress_is_unaffected_by_a_url_change<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let (old, gate) = Receiver::gated(503).await;
    let new = Receiver::start(|_| Answer::Status(200)).await;
    let subscription = rig.subscribe("a", &old.url("/")).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    old.wait_for(1).await;
    rig.patch(subscription, move_to(&new.url("/"))).await;
    rig.verify(subscription).await;
    gate.add_permits(1);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "HTTP_503".into()));
    // The retry is sent to the new URL.
    rig.move_to(30);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 2, "HTTP_503".into()));
    assert_eq!((old.received().len(), new.received().len()), (1, 1));
    rig.h.check_invariants().await;
}

pub(crate) async fn a_clock_set_back_does_not_delay_new_deliveries<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|request| match request.header("posthaste-attempt") {
        "1" => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    rig.subscribe("a", &receiver.url("/")).await;
    rig.move_to(3_600);
    let before = rig.publish("a").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(before).await, (SagaStatus::PendingRetry, 1, "HTTP_500".into()));
    // Simulates a failover to a server whose clock is behind.
    rig.move_to(0);
    let after = rig.publish("a").await;
    for seconds in [0, 30] {
        rig.move_to(seconds);
        rig.until_quiet().await;
    }
    assert_eq!(rig.fate_of(after).await, (SagaStatus::Completed, 2, "HTTP_500".into()));
    rig.move_to(3_630);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(before).await, (SagaStatus::Completed, 2, "HTTP_500".into()));
    assert_eq!(receiver.received().len(), 4);
    rig.h.check_invariants().await;
}
