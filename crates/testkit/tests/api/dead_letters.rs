//! Dead letters in the API: reading, filtering, and requeueing them individually or in bulk.

use crate::server::TestApi;
use posthaste_core::ports::{Stores, SubscriptionStore as _};
use posthaste_testkit::fixtures::{T0, actor};
use serde_json::json;

pub(crate) async fn a_dead_letter_is_requeued_once<S: Stores>(api: &TestApi<S>) {
    let (subscription, saga, letter) = api.h.dead_letter("a").await;
    let path = format!("/v1/dead-letters/{letter}");
    let shown = api.get(&path).expect(200).await;
    assert_eq!(
        (&shown["saga_id"], &shown["subscription_id"]),
        (&saga.get().into(), &subscription.get().into())
    );
    assert_eq!((&shown["final_error_code"], &shown["requeued_as"]), (&"HTTP_500".into(), &json!(null)));
    let text = api.get(&path).send().await.text();
    assert!(text.contains(r#""payload_snapshot":{"amount": 12.50}"#), "{text}");
    assert_eq!(api.get("/v1/dead-letters?payload=true").expect(200).await["items"], json!([shown]));
    let mut without = shown.clone();
    without.as_object_mut().expect("an object").remove("payload_snapshot");
    assert_eq!(api.get("/v1/dead-letters").expect(200).await["items"], json!([without]));
    let first = api.post(&format!("{path}/requeue")).expect(201).await;
    let second = api.post(&format!("{path}/requeue")).expect(200).await;
    assert_eq!(first, second);
    assert_ne!(first["saga_id"], saga.get());
    assert_eq!(api.get(&path).expect(200).await["requeued_as"], first["saga_id"]);
    let fresh = api.get(&format!("/v1/deliveries/{}", first["saga_id"])).expect(200).await;
    assert_eq!((&fresh["status"], &fresh["requeued_from"]), (&"Pending".into(), &letter.get().into()));
    let (subscription, _, letter) = api.h.dead_letter("b").await;
    assert!(
        api.h.store.subscriptions().delete_subscription(subscription, actor(), T0).await.expect("to delete")
    );
    api.post(&format!("/v1/dead-letters/{letter}/requeue")).refused(409, "").await;
    api.post("/v1/dead-letters/999/requeue").refused(404, "").await;
    api.post("/v1/dead-letters/x/requeue").refused(422, "id").await;
    api.get("/v1/dead-letters/999").refused(404, "").await;
}

pub(crate) async fn dead_letters_are_requeued_by_filter<S: Stores>(api: &TestApi<S>) {
    let (one, _, first) = api.h.dead_letter("a").await;
    let (other, _, second) = api.h.dead_letter("b").await;
    let requeue = |body: String| api.post("/v1/dead-letters/requeue").json(body).expect(200);
    for (filter, ids) in [
        (json!({}), vec![first, second]),
        (json!({ "subscription_id": one.get() }), vec![first]),
        (json!({ "event_type": "b" }), vec![second]),
        (json!({ "since": "2027-01-15T08:00:00Z" }), vec![first, second]),
        (json!({ "since": "2027-01-15T08:00:00.000001Z" }), vec![]),
        (json!({ "until": "2027-01-15T09:00:00+01:00" }), vec![]),
        (json!({ "until": "2027-01-15T09:00:01+01:00" }), vec![first, second]),
        (json!({ "subscription_id": other.get(), "event_type": "a" }), vec![]),
    ] {
        let mut dry = filter.clone();
        dry["dry_run"] = true.into();
        let response = requeue(dry.to_string()).await;
        let ids: Vec<i64> = ids.into_iter().map(|id| id.get()).collect();
        assert_eq!(
            (&response["matched"], &response["requeued"], &response["ids"]),
            (&ids.len().into(), &0.into(), &json!(ids)),
            "{filter}"
        );
        let query: Vec<String> = filter
            .as_object()
            .expect("an object")
            .iter()
            .map(|(name, value)| {
                format!("{name}={}", value.to_string().trim_matches('"').replace('+', "%2B"))
            })
            .collect();
        let listed = api.get(&format!("/v1/dead-letters?{}", query.join("&"))).expect(200).await;
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(ids.len()), "{filter}");
    }
    assert_eq!(api.count("webhook_delivery_sagas").await, 2);
    let response = requeue(json!({ "event_type": "a" }).to_string()).await;
    assert_eq!(
        (&response["requeued"], &response["ids"], &response["dry_run"]),
        (&1.into(), &json!([first.get()]), &false.into())
    );
    // A repeated call, without a body, does not requeue dead letters again.
    let response = api.post("/v1/dead-letters/requeue").expect(200).await;
    assert_eq!(
        (&response["matched"], &response["requeued"], &response["already_requeued"]),
        (&2.into(), &1.into(), &1.into())
    );
    assert_eq!((&response["ids"], &response["next_cursor"]), (&json!([second.get()]), &json!(null)));
    assert_eq!(api.count("webhook_delivery_sagas").await, 4);
    for (body, field) in [
        (r#"{"subscription_id":"1"}"#, "subscription_id"),
        (r#"{"subscription_id":0}"#, "subscription_id"),
        (r#"{"event_type":"a b"}"#, "event_type"),
        (r#"{"since":"yesterday"}"#, "since"),
        (r#"{"until":7}"#, "until"),
        (r#"{"dry_run":1}"#, "dry_run"),
        (r#"{"cursor":"x"}"#, "cursor"),
        (r#"{"dryrun":true}"#, "dryrun"),
        ("[]", "body"),
    ] {
        api.post("/v1/dead-letters/requeue").json(body).refused(422, field).await;
    }
}
