//! The routing explanation in the API: which subscriptions got an event, and why others did not.

use crate::server::TestApi;
use posthaste_core::attributes::Attributes;
use posthaste_core::event::NewEvent;
use posthaste_core::filter::Filter;
use posthaste_core::ports::{IngestStore as _, Stores, SubscriptionStore as _};
use posthaste_core::subscription::{NewSubscription, SubscriptionPatch};
use posthaste_core::tenant::Tenant;
use posthaste_core::{EventId, SubscriptionId};
use posthaste_testkit::fixtures::{
    T0, actor, at, event, event_types, id_of, stored, subscribe_verified, subscription,
};
use posthaste_testkit::harness::Harness;
use serde_json::{Value, json};

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

/// Creates a verified subscription of the tenant `acme`.
pub(crate) async fn subscribe<S: Stores>(
    h: &Harness<S>,
    patterns: &[&str],
    filter: Option<&str>,
) -> SubscriptionId {
    let new = NewSubscription {
        tenant: Some(Tenant::from_store("acme".to_owned())),
        event_types: event_types(patterns),
        filter: filter.map(|text| Filter::parse(text).expect("a filter")),
        ..subscription("a")
    };
    subscribe_verified(&h.calm, new, T0).await
}

/// Inserts an event of the tenant `acme` with attributes.
pub(crate) async fn publish<S: Stores>(
    h: &Harness<S>,
    kind: &str,
    attributes: &str,
    seconds: u64,
) -> EventId {
    let event = NewEvent {
        tenant: Some(Tenant::from_store("acme".to_owned())),
        attributes: Attributes::parse(attributes).expect("attributes"),
        ..event(kind)
    };
    let outcomes = h.store.ingest().insert_events(vec![vec![event]], at(seconds)).await.expect("an event");
    id_of(stored(&outcomes[0])[0])
}

pub(crate) async fn the_deciding_pattern_and_clause_are_named<S: Stores>(api: &TestApi<S>) {
    let h = &api.h;
    let both = subscribe(h, &["*", "order.*", "order.paid"], Some(r#"{"exact":{"region":"eu"}}"#)).await;
    let any = subscribe(h, &["order.*"], Some(r#"{"any":[{"exact":{"n":"2"}},{"suffix":{"type":"paid"}}]}"#));
    let any = any.await;
    let plain = subscribe(h, &["*"], None).await;
    let refusing =
        subscribe(h, &["order.paid"], Some(r#"[{"prefix":{"region":"e"}},{"exact":{"n":"2"}}]"#)).await;
    let missing = subscribe(h, &["*"], Some(r#"{"exact":{"missing":"x"}}"#)).await;
    let paused = subscribe(h, &["order.*"], Some(r#"{"exact":{"missing":"x"}}"#)).await;
    let narrowed = subscribe(h, &["order.*", "a"], None).await;
    // Another tenant is not mentioned at all, and neither is a pattern that does not match.
    let elsewhere = h.subscribe("order.paid").await;
    let unrelated = subscribe(h, &["invoice.*"], None).await;
    for (id, patch) in [
        (paused, SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() }),
        (
            narrowed,
            SubscriptionPatch { event_types: Some(event_types(&["a"])), ..SubscriptionPatch::default() },
        ),
    ] {
        h.store
            .subscriptions()
            .update_subscription(id, patch, None, actor(), at(10))
            .await
            .expect("a change");
    }
    let event = publish(h, "order.paid", r#"{"region":"eu","n":1}"#, HOUR_S).await;
    h.route_all(at(HOUR_S)).await;
    // A later change does not change the explanation.
    let filter = Some(Some(Filter::parse(r#"{"exact":{"n":"1"}}"#).expect("a filter")));
    let patch = SubscriptionPatch { filter, ..SubscriptionPatch::default() };
    for id in [plain, refusing] {
        let now = at(3 * HOUR_S);
        h.store
            .subscriptions()
            .update_subscription(id, patch.clone(), None, actor(), now)
            .await
            .expect("a change");
    }
    api.clock.set(at(4 * HOUR_S));
    let explained = api.get(&format!("/v1/events/{event}/explain")).expect(200).await;
    let deliveries = explained["deliveries"].as_array().expect("deliveries");
    let matched: Vec<(i64, Value)> = deliveries
        .iter()
        .map(|one| (one["subscription_id"].as_i64().expect("an id"), one["matched_by"].clone()))
        .collect();
    let by = |pattern: &str, clause: Option<&str>| json!({"pattern": pattern, "clause": clause});
    for (id, expected) in [
        (both, by("order.paid", Some(r##"# {"exact":{"region":"eu"}}"##))),
        (any, by("order.*", Some(r##"#/any/1 {"suffix":{"type":"paid"}}"##))),
        (plain, by("*", None)),
    ] {
        assert!(matched.contains(&(id.get(), expected)), "{id}: {explained:#}");
    }
    assert_eq!(matched.len(), 3, "{explained:#}");
    let unmatched = explained["unmatched"].as_array().expect("the others");
    for (id, reason, clause) in [
        (refusing, "filtered", Some(r##"#/1 {"exact":{"n":"2"}}"##)),
        (missing, "filtered", Some(r##"# {"exact":{"missing":"x"}}"##)),
        (paused, "filtered", Some(r##"# {"exact":{"missing":"x"}}"##)),
        (narrowed, "other_type", None),
    ] {
        let one = unmatched.iter().find(|one| one["subscription_id"] == id.get());
        let one = one.unwrap_or_else(|| panic!("{id}: {explained:#}"));
        assert_eq!((&one["reason"], &one["clause"]), (&json!(reason), &json!(clause)), "{one}");
        assert!(clause.is_none_or(|clause| one["told"].as_str().is_some_and(|told| told.contains(clause))));
    }
    assert!(unmatched.iter().all(|one| one["subscription_id"] != elsewhere.get()), "{explained:#}");
    assert!(unmatched.iter().all(|one| one["subscription_id"] != unrelated.get()), "{explained:#}");
    assert_eq!((unmatched.len(), &explained["truncated"]), (4, &json!(false)), "{explained:#}");
}

/// More changes than one explanation reads: those of many subscriptions to all types.
pub(crate) async fn too_many_changes_are_reported_as_truncated<S: Stores>(api: &TestApi<S>) {
    const CHANGES: u32 = posthaste_core::ports::CHANGES_MAX;
    let first = subscribe(&api.h, &["*"], None).await;
    let event = publish(&api.h, "order.paid", "{}", HOUR_S).await;
    api.h.route_all(at(HOUR_S)).await;
    api.clock.set(at(2 * HOUR_S));
    let path = format!("/v1/events/{event}/explain");
    assert_eq!(api.get(&path).expect(200).await["truncated"], false);
    // All of them match, and have no delivery.
    let copied = |count: u32| {
        format!(
            "INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
                WITH RECURSIVE n (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM n WHERE k < {count})
                SELECT p.tenant, p.pattern, 1000 + n.k, p.current FROM subscription_patterns p CROSS JOIN n
                WHERE p.subscription_id = {first};
            INSERT INTO subscription_changes (subscription_id, event_type, event_types, tenant, filter, callback_url,
                    active, verified, changed_at)
                WITH RECURSIVE n (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM n WHERE k < {count})
                SELECT 1000 + n.k, c.event_type, c.event_types, c.tenant, c.filter, c.callback_url, c.active,
                    c.verified, c.changed_at
                FROM subscription_changes c CROSS JOIN n WHERE c.subscription_id = {first} AND c.verified;"
        )
    };
    api.h.direct.force(&copied(CHANGES)).await;
    let explained = api.get(&path).expect(200).await;
    assert_eq!(explained["truncated"], true);
    // Which of them have no delivery is not known, so none is reported as missing.
    assert_eq!(explained["unmatched"], json!([]), "{explained:#}");
    let diagnosis = api.get("/v1/doctor").expect(200).await;
    let checks = diagnosis["checks"].as_array().expect("checks");
    let check = checks.iter().find(|check| check["name"] == "conservation").expect("the check");
    assert_eq!(check["status"], "warning", "{check}");
    assert!(check["found"].as_str().is_some_and(|text| text.contains("too many changes")), "{check}");
}
