//! Tests invalid values that bypass the parsers, which only a programming error can cause. Both engines refuse
//! them, store nothing and continue to work.

use posthaste_core::event::{CorrelationId, EventType, ExternalEventId, NewEvent, TraceParent};
use posthaste_core::json::{JsonText, PAYLOAD_BYTES_MAX};
use posthaste_core::pattern::EventTypePatterns;
use posthaste_core::ports::{
    DeadLetterStore as _, IngestStore as _, KeyHash, KeyRole, KeyStore as _, ReaderStore as _, Report,
    RequestOutcome, Requeue, StoreError, StoreResult, Stores, SubscriptionStore as _, WorkerStore as _,
};
use posthaste_core::subscription::{CallbackUrl, NewSubscription, SealedSecret, SubscriptionPatch};
use posthaste_core::{DeadLetterId, EventId, JobId, KeyId, SagaId, SubscriptionId};
use posthaste_testkit::fixtures::{T0, actor, claim, event, named_event, rotation, subscription, token};
use posthaste_testkit::harness::Harness;
use std::time::Duration;

fn broken_events() -> Vec<(&'static str, NewEvent)> {
    let kind = |text: &str| NewEvent { event_type: EventType::from_store(text.to_owned()), ..event("a") };
    let named =
        |text: String| NewEvent { external_event_id: Some(ExternalEventId::from_store(text)), ..event("a") };
    let payload = |text: &str| NewEvent { payload: JsonText::from_store(text.to_owned()), ..event("a") };
    let correlated =
        |text: String| NewEvent { correlation_id: Some(CorrelationId::from_store(text)), ..event("a") };
    let traced =
        |text: &str| NewEvent { traceparent: Some(TraceParent::from_store(text.to_owned())), ..event("a") };
    vec![
        ("no type", kind("")),
        ("a type that begins with a dot", kind(".a")),
        ("a type with a blank", kind("a b")),
        ("a type with a line's end", kind("a\n")),
        ("a type of other letters", kind("ä")),
        ("a type over its length", kind(&"t".repeat(201))),
        ("a type with U+0000", kind("a\0b")),
        ("an empty external id", named(String::new())),
        ("an external id over its length", named("ü".repeat(201))),
        ("an external id with U+0000", named("a\0b".to_owned())),
        ("no payload", payload("")),
        ("a payload that is no JSON", payload("{")),
        ("a payload with a comma too many", payload("[1,]")),
        ("a payload with U+0000", payload("{}\0")),
        ("a payload over its size", payload(&format!("\"{}\"", "x".repeat(PAYLOAD_BYTES_MAX)))),
        ("a correlation id over its length", correlated("c".repeat(201))),
        ("an empty correlation id", correlated(String::new())),
        ("a correlation id with U+0000", correlated("a\0b".to_owned())),
        ("a short traceparent", traced("00")),
        ("a traceparent with U+0000", traced(&format!("00{}", "\0".repeat(53)))),
    ]
}

/// Checks that an invalid event causes only its own request to be refused, and no other request in the batch, with
/// and without external ids.
pub(crate) async fn invalid_events_are_refused<S: Stores>(h: &Harness<S>) {
    let mut stored = 0;
    for (number, (what, broken)) in broken_events().into_iter().enumerate() {
        let with_broken = vec![event("fine"), broken.clone(), named_event("fine", &format!("lost-{number}"))];
        let requests = vec![
            vec![event("fine")],
            with_broken,
            vec![named_event("fine", &format!("kept-{number}"))],
            vec![broken],
        ];
        let outcomes = h
            .store
            .ingest()
            .insert_events(requests, T0)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let is_right = matches!(
            outcomes[..],
            [
                RequestOutcome::Stored(_),
                RequestOutcome::Refused(_),
                RequestOutcome::Stored(_),
                RequestOutcome::Refused(_)
            ]
        );
        assert!(is_right, "{what}: {outcomes:?}");
        stored += 2;
        assert_eq!(h.direct.number("SELECT count(*) FROM events").await, stored, "{what}");
        assert_eq!(h.direct.number("SELECT count(*) FROM routing_queue").await, stored, "{what}");
    }
    let lost = "SELECT count(*) FROM events WHERE external_event_id LIKE 'lost-%'";
    assert_eq!(h.direct.number(lost).await, 0);
}

fn refused<T: std::fmt::Debug>(outcome: &StoreResult<T>, what: &str) {
    assert!(matches!(outcome, Err(StoreError::Refused { .. })), "{what}: {outcome:?}");
}

fn broken_subscriptions() -> Vec<(&'static str, NewSubscription)> {
    let fine = || subscription("a");
    let url = |text: String| NewSubscription { callback_url: CallbackUrl::from_store(text), ..fine() };
    let described = |text: String| NewSubscription { description: Some(text), ..fine() };
    let limited = |limit| NewSubscription { max_retry_limit: Some(limit), ..fine() };
    vec![
        (
            "a type that is none",
            NewSubscription { event_types: EventTypePatterns::from_store(vec!["a b".to_owned()]), ..fine() },
        ),
        (
            "a type over its length",
            NewSubscription { event_types: EventTypePatterns::from_store(vec!["t".repeat(201)]), ..fine() },
        ),
        ("no URL", url(String::new())),
        ("a URL over its length", url(format!("https://example.com/{}", "a".repeat(2_000)))),
        ("a URL with U+0000", url("https://example.com/\0".to_owned())),
        ("a description over its length", described("ü".repeat(1_001))),
        ("a description with U+0000", described("a\0b".to_owned())),
        ("a secret with U+0000", NewSubscription { secret: SealedSecret::new("a\0b"), ..fine() }),
        ("a limit of zero", limited(0)),
        ("a limit over the highest", limited(101)),
        ("a limit that no column holds", limited(u32::MAX)),
        (
            "a timeout below one second",
            NewSubscription { timeout: Some(Duration::from_millis(999)), ..fine() },
        ),
    ]
}

pub(crate) async fn invalid_configuration_is_refused<S: Stores>(h: &Harness<S>) {
    let subscriptions = h.store.subscriptions();
    for (what, broken) in broken_subscriptions() {
        refused(&subscriptions.create_subscription(broken, actor(), T0).await, what);
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM subscriptions").await, 0);
    let id = h.subscribe("a").await;
    let before = h.row("subscriptions", id.get()).await;
    for (what, broken) in broken_subscriptions() {
        if broken.secret == SealedSecret::new("a\0b") {
            let rotation = rotation("secret-1", broken.secret.expose(), T0);
            refused(&subscriptions.rotate_secret(id, rotation, actor(), T0).await, what);
            continue;
        }
        let patch = SubscriptionPatch {
            event_types: Some(broken.event_types),
            callback_url: Some(broken.callback_url),
            active: None,
            max_retry_limit: Some(broken.max_retry_limit),
            timeout: Some(broken.timeout),
            description: Some(broken.description),
            ..SubscriptionPatch::default()
        };
        refused(&subscriptions.update_subscription(id, patch, None, actor(), T0).await, what);
    }
    assert_eq!(h.row("subscriptions", id.get()).await, before);
    assert_eq!(h.direct.number("SELECT count(*) FROM subscription_changes").await, 2, "created and verified");
    for name in [String::new(), "n".repeat(201), "a\0b".to_owned()] {
        let made = h
            .store
            .keys()
            .create_key(name.clone(), KeyRole::Viewer, None, KeyHash([7; 32]), actor(), T0)
            .await;
        refused(&made, &format!("a key called {name:?}"));
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM api_keys").await, 0);
}

/// Checks that ids that do not exist match no rows and cause no error.
pub(crate) async fn unknown_ids_match_nothing<S: Stores>(h: &Harness<S>) {
    for raw in [0, -1, i64::MIN, i64::MAX] {
        let (event, subscription) = (EventId::from_store(raw), SubscriptionId::from_store(raw));
        let reader = h.store.reader();
        assert_eq!(reader.event(event).await.expect("a result"), None);
        assert_eq!(reader.delivery(SagaId::from_store(raw)).await.expect("a result"), None);
        assert_eq!(reader.dead_letter(DeadLetterId::from_store(raw)).await.expect("a result"), None);
        assert_eq!(reader.subscription(subscription).await.expect("a result"), None);
        assert_eq!(h.store.worker().load_events(vec![event]).await.expect("a result"), []);
        assert_eq!(h.store.worker().load_targets(vec![subscription]).await.expect("a result"), []);
        let subscriptions = h.store.subscriptions();
        assert_eq!(subscriptions.load_subscription(subscription).await.expect("a result"), None);
        assert!(!subscriptions.delete_subscription(subscription, actor(), T0).await.expect("a result"));
        let requeued = h
            .store
            .dead_letters()
            .requeue_dead_letters(vec![DeadLetterId::from_store(raw)], actor(), T0)
            .await;
        assert_eq!(requeued.expect("a result"), [Requeue::NotFound]);
        let released = h.store.worker().release_jobs(vec![JobId::from_store(raw)], token(), T0).await;
        assert_eq!(released.expect("a result"), 0);
        assert!(!h.store.keys().revoke_key(KeyId::from_store(raw), actor(), T0).await.expect("a result"));
        let ghost = posthaste_core::ports::ClaimedJob {
            job_id: JobId::from_store(raw),
            saga_id: SagaId::from_store(raw),
            event_id: event,
            subscription_id: subscription,
            attempt: 1,
            claimable_since: T0,
            lease_until: T0,
            suspect: false,
        };
        let report = posthaste_testkit::fixtures::delivered(&ghost, token());
        assert_eq!(
            h.store.worker().report_jobs(vec![report], T0).await.expect("a result"),
            [Report::LeaseLost]
        );
    }
    assert_eq!(h.store.worker().claim_due_jobs(claim(10), T0).await.expect("a result"), []);
}
