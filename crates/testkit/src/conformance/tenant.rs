//! Checks that deliveries and dead letters have the tenant of their event, and that a filter by tenant applies to every
//! list and every page.

use crate::fixtures::{T0, event, subscribe_verified, subscription};
use crate::harness::Harness;
use posthaste_core::SubscriptionId;
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{
    DeadLetterFilter, DeadLetterHead, DeadLetterStore as _, DeliveryFilter, IngestStore as _,
    InsightStore as _, PageRequest, ReaderStore as _, Stores,
};
use posthaste_core::saga::SagaStatus;
use posthaste_core::subscription::NewSubscription;
use posthaste_core::tenant::Tenant;

const PAGE: PageRequest = PageRequest::first(100);

fn tenant(name: &str) -> Option<Tenant> {
    Some(Tenant::parse(name).expect("a tenant"))
}

/// Creates two dead letters for each of two tenants and for no tenant.
async fn fill<S: Stores>(h: &Harness<S>) {
    let owners = [tenant("one"), tenant("two"), None];
    for owner in &owners {
        let new = NewSubscription { tenant: owner.clone(), max_retry_limit: Some(1), ..subscription("a") };
        subscribe_verified(&h.calm, new, T0).await;
    }
    for _ in 0..2 {
        let events = owners.iter().map(|owner| NewEvent { tenant: owner.clone(), ..event("a") }).collect();
        h.calm.ingest().insert_events(vec![events], T0).await.expect("events");
    }
    h.route_all(T0).await;
    for id in h.direct.texts("SELECT id FROM subscriptions ORDER BY id").await {
        h.fail_attempts(SubscriptionId::from_store(id.parse().expect("an id")), T0).await;
    }
}

pub async fn deliveries_and_dead_letters_are_found_by_tenant<S: Stores>(h: &Harness<S>) {
    fill(h).await;
    // Without a filter, objects of all tenants are found.
    for (owner, expected) in [(tenant("one"), 2), (tenant("two"), 2), (tenant("three"), 0), (None, 6)] {
        check_deliveries(h, owner.clone(), expected).await;
        let filter = DeadLetterFilter { tenant: owner.clone(), ..DeadLetterFilter::default() };
        let heads =
            h.sure(async || h.store.reader().dead_letter_heads(filter.clone(), PAGE).await).await.items;
        assert_eq!(heads.len(), expected, "{filter:?}");
        assert!(heads.iter().all(|one| owner.is_none() || one.tenant == owner), "{heads:?}");
        let whole = h.sure(async || h.store.reader().dead_letters(filter.clone(), PAGE).await).await.items;
        assert_eq!(whole.iter().map(|one| &one.head).collect::<Vec<_>>(), heads.iter().collect::<Vec<_>>());
        let found =
            h.sure(async || h.store.dead_letters().find_dead_letters(filter.clone(), PAGE).await).await;
        assert_eq!(found.items, heads.iter().rev().map(|one| one.id).collect::<Vec<_>>());
        for head in heads {
            check_letter(h, head).await;
        }
    }
}

/// Checks the deliveries of a tenant, page by page.
async fn check_deliveries<S: Stores>(h: &Harness<S>, owner: Option<Tenant>, expected: usize) {
    for (status, examined_max) in [(None, 100), (Some(SagaStatus::DeadLettered), 100), (None, 1)] {
        let filter = DeliveryFilter { tenant: owner.clone(), status, ..DeliveryFilter::default() };
        let (mut page, mut found) = (PageRequest::first(1).looking_at(examined_max), Vec::new());
        loop {
            let part = h.sure(async || h.store.reader().deliveries(filter.clone(), page).await).await;
            found.extend(part.items);
            page = page.behind(part.next);
            if part.next.is_none() {
                break;
            }
        }
        assert_eq!(found.len(), expected, "{filter:?}");
        assert!(found.iter().all(|one| owner.is_none() || one.tenant == owner), "{found:?}");
    }
}

/// Checks that all reads of a dead letter and its delivery return the same tenant.
async fn check_letter<S: Stores>(h: &Harness<S>, head: DeadLetterHead) {
    let reader = h.store.reader();
    let letter = h.sure(async || reader.dead_letter(head.id).await).await.expect("a dead letter");
    assert_eq!(letter.head, head);
    let (delivery, _) = h.sure(async || reader.delivery(head.saga_id).await).await.expect("a delivery");
    let insight = h.store.insight();
    let explained = h.sure(async || insight.explain(head.event_id).await).await.expect("an event");
    let own: Vec<_> = explained.deliveries.iter().map(|one| &one.delivery.tenant).collect();
    assert_eq!((&delivery.tenant, own), (&head.tenant, vec![&head.tenant]));
    let of_event =
        |tenant| DeliveryFilter { tenant, event_id: Some(head.event_id), ..DeliveryFilter::default() };
    let of_subscription = |tenant| {
        let subscription_id = Some(head.subscription_id);
        DeadLetterFilter { tenant, subscription_id, ..DeadLetterFilter::default() }
    };
    for (tenant, deliveries, letters) in [(head.tenant.clone(), 1, 2), (tenant("three"), 0, 0)] {
        let filter = of_event(tenant.clone());
        let found = h.sure(async || reader.deliveries(filter.clone(), PAGE).await).await;
        assert_eq!(found.items.len(), deliveries, "{filter:?}");
        let filter = of_subscription(tenant);
        let heads = h.sure(async || reader.dead_letter_heads(filter.clone(), PAGE).await).await;
        let ids = h.sure(async || h.store.dead_letters().find_dead_letters(filter.clone(), PAGE).await).await;
        assert_eq!((heads.items.len(), ids.items.len()), (letters, letters), "{filter:?}");
    }
}
