//! Checks that every event gets exactly one saga for each subscription that matches at the time of routing.

use crate::fixtures::{MANY, T0, actor, at, event, id_of, stored};
use crate::harness::{Engine, Harness};
use posthaste_core::EventId;
use posthaste_core::ports::{
    DeadLetterStore as _, IngestStore as _, RouteTake, RouterStore as _, Stores, SubscriptionStore as _,
};
use posthaste_core::subscription::SubscriptionPatch;

const SAGAS: &str = "SELECT count(*) FROM webhook_delivery_sagas";

pub async fn an_event_queued_twice_creates_one_saga<S: Stores>(h: &Harness<S>) {
    let (subscription, _, letter) = h.dead_letter("order.paid").await;
    let event = h.direct.number("SELECT event_id FROM dead_letters").await;
    let again = format!("INSERT INTO routing_queue (event_id) VALUES ({event})");
    // Route the event again after its saga was dead-lettered, and once more after the requeue.
    h.direct.run(&again).await;
    h.route_all(at(1)).await;
    assert_eq!(h.direct.number(SAGAS).await, 1);
    h.sure(async || h.store.dead_letters().requeue_dead_letters(vec![letter], actor(), at(2)).await).await;
    h.direct.run(&again).await;
    h.route_all(at(3)).await;
    assert_eq!(h.direct.number(SAGAS).await, 2);
    assert_eq!(h.direct.number(&format!("{SAGAS} WHERE requeued_from IS NULL")).await, 1);
    assert_eq!(h.direct.number("SELECT count(*) FROM routing_queue").await, 0);
    h.admit(subscription, at(4)).await;
    assert_eq!(h.direct.number(&format!("{SAGAS} WHERE status = 'InProgress'")).await, 1);
}

pub async fn an_event_committed_late_is_still_routed<S: Stores>(h: &Harness<S>) {
    h.subscribe("a").await;
    let late: i64 = if h.engine == Engine::Sqlite {
        // SQLite commits in order, so only direct SQL can insert an id below existing ones.
        h.direct
            .run("INSERT INTO events (id, event_type, payload, created_at) VALUES (1000, 'other', '1', 0)")
            .await;
        5
    } else {
        h.direct.run("BEGIN").await;
        h.direct.number("INSERT INTO events (event_type, payload) VALUES ('a', '1') RETURNING id").await
    };
    let mut from: Option<EventId> = None;
    for _ in 0..10 {
        h.publish("a", 1_000).await;
        // Like the router, start at the lowest id of the previous fetch.
        let take = RouteTake { from, events_max: 700 };
        let routed = h.sure(async || h.store.router().route_events(take, T0).await).await;
        from = routed.lowest.or(from);
    }
    while h
        .sure(async || h.store.router().route_events(RouteTake { from, events_max: 700 }, T0).await)
        .await
        .events
        > 0
    {}
    h.route_all(T0).await;
    assert_eq!(h.direct.number(SAGAS).await, 10_000);
    if h.engine == Engine::Sqlite {
        h.direct
            .run("INSERT INTO events (id, event_type, payload, created_at) VALUES (5, 'a', '1', 0)")
            .await;
    } else {
        h.direct.run("COMMIT").await;
    }
    // A read from the cursor misses the late event; the full scan finds it.
    h.sure(async || h.store.router().route_events(RouteTake { from, events_max: MANY }, T0).await).await;
    h.route_all(T0).await;
    assert_eq!(h.direct.number(&format!("{SAGAS} WHERE event_id = {late}")).await, 1);
}

pub async fn only_active_and_verified_subscriptions_get_a_saga<S: Stores>(h: &Harness<S>) {
    let matching = [h.subscribe("a").await, h.subscribe("a").await];
    let other_type = h.subscribe("b").await;
    let unverified = h.subscribe_unverified("a", None).await;
    let paused = h.subscribe("a").await;
    let deleted = h.subscribe("a").await;
    let patch = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    h.calm.subscriptions().update_subscription(paused, patch, None, actor(), T0).await.expect("pause");
    h.calm.subscriptions().delete_subscription(deleted, actor(), T0).await.expect("delete");
    h.publish("a", 3).await;
    let routed = h.route_all(T0).await;
    if h.engine != Engine::PostgresCut {
        assert_eq!((routed.events, routed.pairs), (3, 6));
        assert_eq!(routed.subscriptions, matching);
    }
    for (id, expected) in
        [(matching[0], 3), (matching[1], 3), (other_type, 0), (unverified, 0), (paused, 0), (deleted, 0)]
    {
        assert_eq!(h.direct.number(&format!("{SAGAS} WHERE subscription_id = {id}")).await, expected, "{id}");
    }
    assert_eq!(h.direct.number("SELECT count(*) FROM routing_queue").await, 0);
}

pub async fn two_routers_share_the_queue<S: Stores>(h: &Harness<S>) {
    h.subscribe("a").await;
    let requests = vec![vec![event("a"); 100]; 20];
    let outcomes = h.calm.ingest().insert_events(requests, T0).await.expect("events");
    let ids: Vec<_> = outcomes.iter().flat_map(stored).copied().map(id_of).collect();
    let drain = || async {
        let take = RouteTake { from: None, events_max: 37 };
        while h.sure(async || h.store.router().route_events(take, T0).await).await.events > 0 {}
    };
    tokio::join!(drain(), drain(), drain());
    // A concurrent call that finds all rows locked ends early, so drain once more.
    drain().await;
    assert_eq!(Ok(h.direct.number(SAGAS).await), i64::try_from(ids.len()));
    assert_eq!(h.direct.number("SELECT count(*) FROM routing_queue").await, 0);
}
