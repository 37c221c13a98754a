//! Tests of the consistency checks, including undecidable cases.

use super::*;
use crate::filter::Filter;
use crate::pattern::EventTypePatterns;

const HOUR_US: i64 = 3_600_000_000;

fn saga(status: SagaStatus) -> SagaFacts {
    SagaFacts {
        id: SagaId::from_store(1),
        event_id: EventId::from_store(1),
        subscription_id: SubscriptionId::from_store(1),
        status,
        attempt_count: 0,
        requeued_from: None,
        created_at: Timestamp::from_micros(HOUR_US),
        current_job: None,
        current_job_status: None,
        is_in_inbox: false,
        active_job: None,
        has_dead_letter: false,
    }
}

#[test]
fn saga_is_consistent_with_its_state() {
    use JobStatus::{Completed as Done, Leased};
    use SagaStatus::{Completed, DeadLettered, InProgress, Pending, PendingRetry};
    let (seven, eight) = (Some(JobId::from_store(7)), Some(JobId::from_store(8)));
    let is_sane = |saga: &SagaFacts| saga_fault(saga).is_none();
    let job = |status, active| SagaFacts {
        current_job: seven,
        current_job_status: status,
        active_job: active,
        ..saga(InProgress)
    };
    let tried = |status| SagaFacts { attempt_count: 1, ..saga(status) };
    let letter = |status| SagaFacts { has_dead_letter: true, ..tried(status) };
    for sane in [
        saga(Pending),
        tried(PendingRetry),
        tried(Completed),
        letter(DeadLettered),
        job(Some(Leased), seven),
        SagaFacts { is_in_inbox: true, ..job(Some(Done), None) },
    ] {
        assert!(is_sane(&sane), "{sane:?}");
    }
    for broken in [
        tried(Pending),
        saga(PendingRetry),
        SagaFacts { active_job: seven, ..saga(Pending) },
        SagaFacts { active_job: seven, ..tried(PendingRetry) },
        SagaFacts { active_job: seven, ..tried(Completed) },
        SagaFacts { active_job: seven, ..letter(DeadLettered) },
        tried(DeadLettered),
        letter(Completed),
        letter(PendingRetry),
        letter(InProgress),
        saga(InProgress),
        job(None, None),
        job(Some(Done), None),
        job(Some(Leased), eight),
    ] {
        assert!(!is_sane(&broken), "{broken:?}");
    }
}

#[test]
fn ledger_and_audit_agree_with_their_order() {
    let receipt =
        Receipt { result_digest: Some("sha256:2".to_owned()), broker_order_id: Some("b".to_owned()) };
    let sent = OrderFacts {
        id: OrderId::from_store(1),
        idempotency_key: "key".to_owned(),
        status: OrderStatus::Sent,
        retry_count: 2,
        last_error: Some("UNKNOWN".to_owned()),
        receipt: receipt.clone(),
        request_digest: "sha256:1".to_owned(),
        ledger: Some(("sha256:1".to_owned(), receipt)),
        audit: Some((OrderStatus::Sent, 2, Some("UNKNOWN".to_owned()))),
    };
    let ended_long_ago = OrderFacts { ledger: None, ..sent.clone() };
    for sane in [&sent, &ended_long_ago] {
        assert_eq!(order_fault(sane), None, "{sane:?}");
    }
    let queued = OrderFacts {
        status: OrderStatus::Queued,
        audit: Some((OrderStatus::Queued, 2, Some("UNKNOWN".to_owned()))),
        ..ended_long_ago
    };
    for broken in [
        queued,
        OrderFacts { audit: None, ..sent.clone() },
        OrderFacts { audit: Some((OrderStatus::Sending, 2, Some("UNKNOWN".to_owned()))), ..sent.clone() },
        OrderFacts { retry_count: 3, ..sent.clone() },
        OrderFacts { last_error: None, ..sent.clone() },
        OrderFacts { request_digest: "sha256:3".to_owned(), ..sent.clone() },
        OrderFacts { receipt: Receipt::default(), ..sent },
    ] {
        assert!(order_fault(&broken).is_some(), "{broken:?}");
    }
}

#[test]
fn every_event_has_a_saga_for_each_matching_subscription() {
    let kind = |text: &str| EventType::parse(text).expect("a type");
    let at = |hours: i64| Timestamp::from_micros(hours * HOUR_US);
    let change = |id, hours, active| SubscriptionChange {
        subscription_id: SubscriptionId::from_store(id),
        tenant: None,
        event_types: EventTypePatterns::of(kind("a")),
        filter: None,
        active,
        verified: true,
        is_deleted: false,
        changed_at: at(hours),
    };
    // The first subscription always matched, the second was paused after five hours, and the third was never
    // active.
    let changes: BTreeMap<_, _> =
        [vec![change(1, 0, true)], vec![change(2, 0, true), change(2, 5, false)], vec![change(3, 0, false)]]
            .into_iter()
            .map(|changes| (changes[0].subscription_id, changes))
            .collect();
    let event = |id, hours, is_queued| EventFacts {
        id: EventId::from_store(id),
        tenant: None,
        event_type: kind("a"),
        attributes: Attributes::default(),
        created_at: at(hours),
        is_queued,
    };
    let made = |event, subscription, hours| SagaFacts {
        event_id: EventId::from_store(event),
        subscription_id: SubscriptionId::from_store(subscription),
        created_at: at(hours),
        ..saga(SagaStatus::Pending)
    };
    let events =
        [event(1, 1, false), event(2, 1, false), event(3, 1, false), event(4, 6, false), event(5, 1, true)];
    let sagas = [made(1, 1, 2), made(1, 2, 2), made(2, 1, 5), made(4, 1, 7)];
    let found = conserve(&events, &sagas, &changes, at(9));
    // The third event has no saga, so its routing time is unknown, but the first subscription always matched.
    let lost = vec![(EventId::from_store(3), SubscriptionId::from_store(1))];
    assert_eq!(found, Conservation { kept: 4, undecidable: 2, lost });
}

#[test]
fn patterns_filters_and_tenants_are_considered() {
    let at = |hours: i64| Timestamp::from_micros(hours * HOUR_US);
    let acme = || Some(Tenant::from_store("acme".to_owned()));
    let change = |id, tenant, patterns: &[&str], filter: Option<&str>| {
        let event_types = patterns.iter().map(|text| (*text).to_owned()).collect();
        vec![SubscriptionChange {
            subscription_id: SubscriptionId::from_store(id),
            tenant,
            event_types: EventTypePatterns::from_store(event_types),
            filter: filter.map(|text| Filter::parse(text).expect("a filter")),
            active: true,
            verified: true,
            is_deleted: false,
            changed_at: at(0),
        }]
    };
    // The first four match the event. The first has two patterns that match and is counted once.
    let changes: BTreeMap<_, _> = [
        change(1, acme(), &["a.b", "a.*"], None),
        change(2, acme(), &["*"], None),
        change(3, acme(), &["a.b"], Some(r#"{"exact":{"n":"1"}}"#)),
        change(4, acme(), &["x", "a.*"], Some(r#"{"not":{"exact":{"m":"1"}}}"#)),
        change(5, None, &["a.b"], None),
        change(6, acme(), &["a.b.*"], None),
        change(7, acme(), &["a.b"], Some(r#"{"exact":{"n":"2"}}"#)),
    ]
    .into_iter()
    .map(|changes| (changes[0].subscription_id, changes))
    .collect();
    let event = EventFacts {
        id: EventId::from_store(1),
        tenant: acme(),
        event_type: EventType::parse("a.b").expect("a type"),
        attributes: Attributes::parse(r#"{"n":1}"#).expect("attributes"),
        created_at: at(1),
        is_queued: false,
    };
    let made = |subscription| SagaFacts {
        subscription_id: SubscriptionId::from_store(subscription),
        created_at: at(2),
        ..saga(SagaStatus::Pending)
    };
    let found = conserve(&[event], &[made(1), made(3)], &changes, at(9));
    let lost = [2, 4].map(|id| (EventId::from_store(1), SubscriptionId::from_store(id))).to_vec();
    assert_eq!(found, Conservation { kept: 2, undecidable: 0, lost });
}
