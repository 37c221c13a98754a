//! Tests the number and the times of retries, dead-lettering and requeueing.

use posthaste_core::job::JobStatus;
use posthaste_core::ports::{Requeue, Stores};
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_testkit::fixtures::{at, event, id_of, json};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PAYLOAD: &str = " {\"b\": 1.0, \"a\": \"\\u00e9\", \"b\": 2}\n";

pub(crate) async fn retries_follow_the_schedule_until_dead_lettered<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, _) = Rig::subscribed(h, |_| Answer::Status(500)).await;
    let event = posthaste_core::event::NewEvent { payload: json(PAYLOAD), ..event("a") };
    let event = id_of(rig.submit(event).await);
    let mut due = 0;
    for (sent, gap) in [(1, 30), (2, 60), (3, 120), (4, 240)] {
        rig.until_quiet().await;
        assert_eq!(receiver.received().len(), sent);
        assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, sent as u32, "HTTP_500".into()));
        due += gap;
        assert_eq!(rig.saga_of(event).await.state.next_attempt_at, at(due));
        // One microsecond before the attempt is due, no request is sent.
        rig.clock.set(at(due).before(Duration::from_micros(1)));
        rig.until_quiet().await;
        assert_eq!(receiver.received().len(), sent);
        rig.move_to(due);
    }
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::DeadLettered, 5, "HTTP_500".into()));
    // The state is final, regardless of how much time passes.
    rig.move_to(1_000_000);
    rig.until_quiet().await;
    let received = receiver.received();
    let attempts: Vec<_> = received.iter().map(|request| request.header("posthaste-attempt")).collect();
    assert_eq!(attempts, ["1", "2", "3", "4", "5"]);
    let id = received[0].webhook_id();
    assert!(received.iter().all(|request| request.webhook_id() == id && request.body == PAYLOAD));
    let sent_at: Vec<_> = received.iter().map(|request| request.header("webhook-timestamp")).collect();
    let expected = [0, 30, 90, 210, 450].map(|seconds| (at(seconds).micros() / 1_000_000).to_string());
    assert_eq!(sent_at, expected);
    let saga = rig.saga_of(event).await.id;
    assert!(rig.attempts(saga).await.iter().all(|attempt| attempt.status == JobStatus::Failed));
    let letters = rig.dead_letters().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((letter.head.saga_id, letter.head.failed_at, letter.head.requeued_as), (saga, at(450), None));
    assert_eq!(letter.payload_snapshot.as_str(), PAYLOAD);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_requeue_creates_a_new_saga_and_leaves_the_old_one_unchanged<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let recovered = Arc::new(AtomicBool::new(false));
    let is_recovered = Arc::clone(&recovered);
    let receiver = Receiver::start(move |_| match is_recovered.load(Ordering::SeqCst) {
        false => Answer::Status(410),
        true => Answer::Status(200),
    })
    .await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    rig.until_dead_lettered().await;
    let old = rig.saga_of(event).await.id;
    let rows = async |rig: &Rig<S>| {
        let jobs = format!("SELECT * FROM webhook_delivery_jobs WHERE saga_id = {old} ORDER BY id");
        (rig.h.row("webhook_delivery_sagas", old.get()).await, rig.h.direct.rows(&jobs).await)
    };
    let before = rows(&rig).await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::DeadLettered, 5, "HTTP_410".into()));
    recovered.store(true, Ordering::SeqCst);
    rig.move_to(1_000);
    let letter = rig.dead_letters().await[0].head.id;
    let Requeue::Created(new) = rig.requeue(letter).await else { panic!("a new saga") };
    assert_eq!(rig.requeue(letter).await, Requeue::AlreadyRequeued(new));
    rig.until_quiet().await;
    let saga = rig.saga(new).await;
    assert_eq!((saga.state.status, saga.state.attempt_count), (SagaStatus::Completed, 1));
    assert_eq!(saga.requeued_from, Some(letter));
    assert_eq!(rig.requeue(letter).await, Requeue::AlreadyRequeued(new));
    rig.until_quiet().await;
    assert_eq!(rows(&rig).await, before);
    let received = receiver.received();
    assert_eq!(received.len(), 6);
    assert_eq!(received[5].webhook_id(), received[0].webhook_id());
    assert_eq!(rig.sagas_of(event).await.len(), 2);
    rig.h.check_invariants().await;
}

pub(crate) async fn each_subscription_has_its_own_limit<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|_| Answer::Status(500)).await;
    rig.subscribe_with("once", &receiver.url("/once"), Some(1)).await;
    rig.subscribe_with("thrice", &receiver.url("/thrice"), Some(3)).await;
    rig.subscribe_with("six", &receiver.url("/six"), Some(6)).await;
    let once = rig.publish("once").await;
    let thrice = rig.publish("thrice").await;
    let six = rig.publish("six").await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(once).await, (SagaStatus::DeadLettered, 1, "HTTP_500".into()));
    rig.until_dead_lettered().await;
    assert_eq!(rig.fate_of(thrice).await, (SagaStatus::DeadLettered, 3, "HTTP_500".into()));
    assert_eq!(rig.fate_of(six).await, (SagaStatus::PendingRetry, 5, "HTTP_500".into()));
    assert_eq!(rig.saga_of(six).await.state.next_attempt_at, at(450 + 480));
    rig.move_to(450 + 480);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(six).await, (SagaStatus::DeadLettered, 6, "HTTP_500".into()));
    let received = receiver.received();
    let sent = |path: &str| received.iter().filter(|request| request.path == path).count();
    assert_eq!([sent("/once"), sent("/thrice"), sent("/six")], [1, 3, 6]);
    assert_eq!(rig.dead_letters().await.len(), 3);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_limit_lowered_while_a_retry_waits_ends_the_delivery<S: Stores>(h: Harness<S>) {
    let (mut rig, receiver, subscription) = Rig::subscribed(h, |_| Answer::Status(500)).await;
    let event = rig.publish("a").await;
    for seconds in [0, 30] {
        rig.move_to(seconds);
        rig.until_quiet().await;
    }
    rig.patch(
        subscription,
        SubscriptionPatch { max_retry_limit: Some(Some(2)), ..SubscriptionPatch::default() },
    )
    .await;
    // The delivery waits until it is due, and is then dead-lettered without another request.
    rig.move_to(89);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 2, "HTTP_500".into()));
    rig.move_to(90);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::DeadLettered, 2, "HTTP_500".into()));
    assert_eq!((receiver.received().len(), rig.dead_letters().await.len()), (2, 1));
    rig.h.check_invariants().await;
}
