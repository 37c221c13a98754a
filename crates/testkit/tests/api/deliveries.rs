//! Deliveries in the API: lists, filters and attempts.

use crate::server::TestApi;
use posthaste_core::ports::Stores;
use posthaste_testkit::fixtures::{T0, at};
use serde_json::Value;

pub(crate) async fn a_delivery_is_listed_and_shown_with_its_attempts<S: Stores>(api: &TestApi<S>) {
    let (one, other) = (api.h.subscribe("a").await, api.h.subscribe("b").await);
    let events = api.h.publish("a", 2).await;
    api.h.publish("b", 3).await;
    api.h.route_all(T0).await;
    api.h.fail_attempts(one, T0).await;
    let list = async |query: &str| {
        let page = api.get(&format!("/v1/deliveries?{query}")).expect(200).await;
        page["items"].as_array().expect("items").clone()
    };
    let of_event = format!("event_id={}", events[0]);
    for (query, count) in [
        ("", 5),
        ("status=Pending", 3),
        ("status=PendingRetry", 2),
        ("status=Completed", 0),
        (&format!("subscription_id={other}"), 3),
        ("event_type=a", 2),
        (&of_event, 1),
        (&format!("{of_event}&status=Pending"), 0),
        ("error_code=HTTP_500", 2),
        ("error_code=TIMEOUT", 0),
        ("since=2027-01-15T08:00:00Z", 5),
        ("until=2027-01-15T08:00:00Z", 0),
    ] {
        assert_eq!(list(query).await.len(), count, "{query}");
    }
    let delivery = list(&of_event).await.remove(0);
    assert!(delivery.get("attempts").is_none());
    for (field, expected) in [
        ("event_id", Value::from(events[0].get())),
        ("subscription_id", one.get().into()),
        ("event_type", "a".into()),
        ("status", "PendingRetry".into()),
        ("attempt_count", 1.into()),
        ("final_error_code", "HTTP_500".into()),
        ("requeued_from", Value::Null),
        ("next_attempt_at", "2027-01-15T08:00:30.000000Z".into()),
    ] {
        assert_eq!(delivery[field], expected, "{field}");
    }
    api.h.fail_attempts(one, at(30)).await;
    assert_eq!(delivery["id"], delivery["saga_id"]);
    let path = format!("/v1/deliveries/{}", delivery["id"]);
    let shown = api.get(&path).expect(200).await;
    assert_eq!((&shown["id"], &shown["saga_id"]), (&delivery["id"], &delivery["id"]));
    let attempts = shown["attempts"].as_array().expect("attempts");
    assert_eq!((attempts.len(), &shown["attempt_count"]), (2, &2.into()));
    for attempt in attempts {
        assert_eq!((&attempt["status"], &attempt["error_code"]), (&"Failed".into(), &"HTTP_500".into()));
        assert_eq!((&attempt["duration_ms"], &attempt["worker_id"]), (&7.into(), &"worker-1".into()));
        assert!(attempt["job_id"].is_i64() && attempt["attempt_at"].is_string(), "{attempt}");
    }
    api.get("/v1/deliveries/999").refused(404, "").await;
    api.get("/v1/deliveries/-1").refused(422, "id").await;
    for (query, field) in
        [("status=Lost", "status"), ("event_id=x", "event_id"), ("subscription_id=0", "subscription_id")]
    {
        api.get(&format!("/v1/deliveries?{query}")).refused(422, field).await;
    }
}
