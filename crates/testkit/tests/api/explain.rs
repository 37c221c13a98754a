//! The routing explanation in the API: which subscriptions got an event, and why others did not.

use crate::server::TestApi;
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_core::subscription::SubscriptionPatch;
use posthaste_testkit::fixtures::{actor, at, event_types};
use serde_json::Value;

const HOUR_S: u64 = 3_600;

pub(crate) async fn every_reason_is_explained<S: Stores>(api: &TestApi<S>) {
    let subscriptions = api.h.store.subscriptions();
    let change = async |id, patch: SubscriptionPatch, seconds| {
        let changed =
            subscriptions.update_subscription(id, patch, None, actor(), at(seconds)).await.expect("a change");
        assert!(changed.subscription().is_some());
    };
    let active = |active| SubscriptionPatch { active: Some(active), ..SubscriptionPatch::default() };
    let matched = api.h.subscribe("a").await;
    let paused = api.h.subscribe("a").await;
    change(paused, active(false), 10).await;
    let unverified = api.h.subscribe_unverified("a", None).await;
    let deleted = api.h.subscribe("a").await;
    assert!(subscriptions.delete_subscription(deleted, actor(), at(10)).await.expect("to delete"));
    let other = api.h.subscribe("a").await;
    let kind = SubscriptionPatch { event_types: Some(event_types(&["b"])), ..SubscriptionPatch::default() };
    change(other, kind, 10).await;
    let unsure = api.h.subscribe("a").await;
    // According to the clock of another process, shortly after the routing.
    change(unsure, active(false), HOUR_S + 5).await;
    let events = api.h.publish("a", 2).await;
    let path = format!("/v1/events/{}/explain", events[0]);
    let before = api.get(&path).expect(200).await;
    assert_eq!((&before["routed"], &before["routed_at"]), (&false.into(), &Value::Null));
    assert!(before["summary"].as_str().is_some_and(|text| text.starts_with("not yet routed")), "{before}");
    assert_eq!((&before["deliveries"], &before["unmatched"]), (&Value::Array(vec![]), &Value::Array(vec![])));

    api.h.route_all(at(HOUR_S)).await;
    // This subscription is created after the routing.
    let late = api.h.subscribe("a").await;
    let changed_late =
        "UPDATE subscription_changes SET changed_at = (SELECT max(changed_at) FROM subscription_changes)";
    api.h.direct.force(&format!("{changed_late} WHERE subscription_id = {late}")).await;
    api.clock.set(at(2 * HOUR_S));

    let explained = api.get(&path).expect(200).await;
    assert_eq!((&explained["routed"], &explained["truncated"]), (&true.into(), &false.into()), "{explained}");
    let deliveries = explained["deliveries"].as_array().expect("deliveries");
    assert_eq!(deliveries.len(), 1, "{explained}");
    assert_eq!(deliveries[0]["subscription_id"], matched.get());
    let reason = |id: posthaste_core::SubscriptionId| {
        let all = explained["unmatched"].as_array().expect("the others");
        all.iter().find(|one| one["subscription_id"] == id.get()).map(|one| one["reason"].clone())
    };
    for (id, expected) in [
        (paused, "paused"),
        (unverified, "unverified"),
        (deleted, "deleted"),
        (other, "other_type"),
        (unsure, "changed_meanwhile"),
        (late, "created_later"),
    ] {
        assert_eq!(reason(id), Some(expected.into()), "{explained}");
    }
    let all = explained["unmatched"].as_array().expect("the others");
    let unsure = all.iter().find(|one| one["subscription_id"] == unsure.get()).expect("the one that changed");
    let sentence = "it was paused at 2027-01-15T09:00:05.000000Z, about when the event was routed";
    assert_eq!(unsure["told"], sentence);
    api.get("/v1/events/999/explain").refused(404, "").await;
    api.get("/v1/events/x/explain").refused(422, "id").await;
}

pub(crate) async fn every_delivery_state_is_explained<S: Stores>(api: &TestApi<S>) {
    let (_, saga, letter) = api.h.dead_letter("d").await;
    let again = api.post(&format!("/v1/dead-letters/{letter}/requeue")).expect(201).await;
    let explained = api.get("/v1/events/1/explain").expect(200).await;
    let deliveries = explained["deliveries"].as_array().expect("deliveries");
    assert_eq!(deliveries.len(), 2, "{explained}");
    let (dead, fresh) = (&deliveries[0], &deliveries[1]);
    assert_eq!((&dead["saga_id"], &dead["status"]), (&saga.get().into(), &"DeadLettered".into()));
    assert_eq!((&dead["dead_letter_id"], &dead["requeued_as"]), (&letter.get().into(), &again["saga_id"]));
    assert_eq!((&dead["id"], &again["id"]), (&dead["saga_id"], &again["saga_id"]));
    assert_eq!(dead["attempts"][0]["error_code"], "HTTP_500");
    assert!(
        dead["told"].as_str().is_some_and(|text| text.contains("dead-lettered after 1 attempt")),
        "{dead}"
    );
    assert_eq!((&fresh["requeued_from"], &fresh["status"]), (&letter.get().into(), &"Pending".into()));

    let one = api.h.subscribe("a").await;
    let event = api.h.publish("a", 1).await[0];
    api.h.route_all(at(0)).await;
    api.h.fail_attempts(one, at(0)).await;
    let explained = api.get(&format!("/v1/events/{event}/explain")).expect(200).await;
    let retried = explained["deliveries"][0]["told"].as_str().expect("a sentence");
    assert!(retried.contains("HTTP_500") && retried.contains("2027-01-15T08:00:30"), "{retried}");
}
