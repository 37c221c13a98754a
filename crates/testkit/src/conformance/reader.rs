//! Checks that lists stay correct while rows are inserted, and that a delivery includes all its attempts.

use crate::fixtures::{T0, at, delivered};
use crate::harness::Harness;
use posthaste_core::SagaId;
use posthaste_core::job::JobStatus;
use posthaste_core::ports::{
    DeliveryFilter, EventFilter, PageRequest, ReaderStore as _, Stores, SubscriptionFilter, WorkerStore as _,
};
use posthaste_core::saga::SagaStatus;

pub async fn pages_stay_correct_while_rows_are_inserted<S: Stores>(h: &Harness<S>) {
    let mut expected = h.publish("a", 25).await;
    expected.reverse();
    let mut seen = Vec::new();
    let mut page = PageRequest::first(10);
    loop {
        let found = h.sure(async || h.store.reader().events(EventFilter::default(), page).await).await;
        seen.extend(found.items.iter().map(|event| event.id));
        h.publish("b", 7).await;
        match found.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, expected, "no duplicates, no gaps, no rows inserted later");
    let filter = EventFilter { event_type: Some(crate::fixtures::event_type("b")), ..EventFilter::default() };
    let all = PageRequest::first(100);
    assert_eq!(h.sure(async || h.store.reader().events(filter.clone(), all).await).await.items.len(), 21);
    for subscription in 0..5 {
        h.subscribe(&format!("s{subscription}")).await;
    }
    let all_of_them = SubscriptionFilter::default();
    let two = PageRequest::first(2);
    let first = h.sure(async || h.store.reader().subscriptions(all_of_them.clone(), two).await).await;
    let rest = PageRequest::first(100).behind(first.next);
    let rest = h.sure(async || h.store.reader().subscriptions(all_of_them.clone(), rest).await).await;
    assert_eq!((first.items.len(), rest.items.len(), rest.next), (2, 3, None));
}

pub async fn a_delivery_includes_every_attempt<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    let event = h.publish("a", 1).await[0];
    h.route_all(T0).await;
    h.fail_attempts(subscription, T0).await;
    let (jobs, token) = h.start_attempts(subscription, at(30)).await;
    let report = vec![delivered(&jobs[0], token)];
    h.sure(async || h.store.worker().report_jobs(report.clone(), at(31)).await).await;
    h.apply_all(at(31)).await;
    let saga = SagaId::from_store(h.direct.number("SELECT id FROM webhook_delivery_sagas").await);
    let (delivery, attempts) =
        h.sure(async || h.store.reader().delivery(saga).await).await.expect("the delivery");
    assert_eq!((delivery.saga.event_id, delivery.event_type.as_str()), (event, "a"));
    let state = &delivery.saga.state;
    assert_eq!((state.status, state.attempt_count, state.current_job_id), (SagaStatus::Completed, 2, None));
    assert_eq!((delivery.saga.created_at, delivery.saga.updated_at), (T0, at(31)));
    let statuses: Vec<_> = attempts.iter().map(|attempt| (attempt.status, attempt.attempt_at)).collect();
    assert_eq!(statuses, [(JobStatus::Failed, T0), (JobStatus::Completed, at(30))]);
    assert_eq!(attempts[0].error_code.as_ref().map(|code| code.as_str()), Some("HTTP_500"));
    assert_eq!((attempts[1].response_status, attempts[1].duration_ms), (Some(200), Some(7)));
    assert_eq!(attempts[1].worker_id.as_deref(), Some("worker-1"));
    let page = PageRequest::first(10);
    for (filter, expected) in [
        (DeliveryFilter::default(), 1),
        (DeliveryFilter { status: Some(SagaStatus::Completed), ..DeliveryFilter::default() }, 1),
        (DeliveryFilter { status: Some(SagaStatus::Pending), ..DeliveryFilter::default() }, 0),
        (
            DeliveryFilter {
                event_id: Some(event),
                subscription_id: Some(subscription),
                ..DeliveryFilter::default()
            },
            1,
        ),
        (
            DeliveryFilter {
                event_type: Some(crate::fixtures::event_type("b")),
                ..DeliveryFilter::default()
            },
            0,
        ),
    ] {
        let found = h.sure(async || h.store.reader().deliveries(filter.clone(), page).await).await;
        assert_eq!(found.items.len(), expected, "{filter:?}");
    }
}
