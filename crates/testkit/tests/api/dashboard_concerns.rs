//! Tests the problems shown on the overview, delivery and dead-letter pages, and the links for resolving them.

use crate::dashboard::{Visitor, has};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::ports::{PresenceStore as _, ProcessSeen, Rollup, RollupWidth, Stores};
use posthaste_testkit::fixtures::{T0, at, worker_id};

/// Reports the counters of a process at the given second.
async fn count<S: Stores>(api: &TestApi<S>, second: u64, counters: &[(&str, i64)]) {
    let seen = ProcessSeen {
        process_id: worker_id(1),
        role: "worker".to_owned(),
        version: "0.0.0".to_owned(),
        started_at: T0,
        seen_at: at(second),
    };
    let interval_start = RollupWidth::TenSeconds.start_of(at(second));
    let rollup = |(counter, amount): &(&str, i64)| Rollup {
        interval_start,
        counter: (*counter).to_owned(),
        amount: *amount,
    };
    let rollups = counters.iter().map(rollup).collect();
    api.h.store.presence().report_presence(seen, rollups).await.expect("a report");
}

pub(crate) async fn the_overview_lists_problems_with_receiver_and_time<S: Stores>(api: &TestApi<S>) {
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    has(&visitor.page("/", 200).await, &["No problems"]);

    let (one, other) = (api.h.subscribe_with("a", Some(1)).await, api.h.subscribe_with("b", Some(1)).await);
    for (kind, subscription, events, second) in [("a", one, 2, 100), ("b", other, 1, 120), ("a", one, 1, 140)]
    {
        api.h.publish(kind, events).await;
        api.h.route_all(at(second)).await;
        api.h.fail_attempts(subscription, at(second)).await;
    }
    count(
        api,
        140,
        &[("deliveries_dead_lettered", 4), ("orders_dead", 2), ("attempts_failed", 4), ("attempts_ok", 6)],
    )
    .await;
    api.clock.set(at(200));
    let html = visitor.page("/", 200).await;
    let line_ends = |subscription, text: &str| {
        let begin = format!(
            "<a href=\"/dead-letters?subscription_id={subscription}\">Subscription {subscription} (https://"
        );
        let (_, rest) = html.split_once(&begin).unwrap_or_else(|| panic!("no {begin} in {html}"));
        let line = rest.split('<').next().unwrap_or_default();
        assert!(line.ends_with(text), "{line}");
    };
    line_ends(one, "): 3 dead-lettered since 2027-01-15 08:01:40 UTC, last error HTTP_500");
    line_ends(other, "): 1 dead-lettered since 2027-01-15 08:02:00 UTC, last error HTTP_500");
    has(
        &html,
        &[
            "<a href=\"/dead-letters\">Dead-lettered in this window: 4</a>",
            "<a href=\"/orders?status=dead\">Dead orders in this window: 2</a>",
            "<a href=\"/deliveries?status=PendingRetry\">Low success rate: 60% of attempts",
        ],
    );
    assert!(!html.contains("No problems"), "{html}");

    // Requeued dead letters are only a warning.
    for letter in 1..=4 {
        visitor.press(&format!("/dead-letters/{letter}/requeue"), "").await;
    }
    let html = visitor.page("/", 200).await;
    has(
        &html,
        &["notice warn wrap\"><a href=\"/dead-letters\">Dead-lettered in this window: 4, all requeued since"],
    );
    assert!(!html.contains("dead-lettered since"), "{html}");
    // An hour later, the dead letters are outside the window.
    api.clock.set(at(4_000));
    has(&visitor.page("/", 200).await, &["No problems"]);
}

pub(crate) async fn a_held_delivery_shows_the_reason<S: Stores>(api: &TestApi<S>) {
    let subscription = api.h.subscribe_with("a", Some(1)).await;
    api.h.publish("a", 2).await;
    api.h.route_all(T0).await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let page = format!("/subscriptions/{subscription}");
    let pending = visitor.page("/deliveries/1", 200).await;
    assert!(pending.contains("data-until") && !pending.contains("id=\"held\""), "{pending}");
    visitor.press(&format!("{page}/pause"), "").await;
    let held = visitor.page("/deliveries/1", 200).await;
    has(&held, &["held: the subscription is paused"]);
    assert!(!held.contains("data-until"), "no countdown while held: {held}");
    visitor.press(&format!("{page}/resume"), "").await;
    has(&visitor.page("/deliveries/1", 200).await, &["data-until"]);

    let url = r#"{"callback_url": "https://other.example/"}"#;
    api.call("PATCH", &format!("/v1{page}")).json(url).expect(200).await;
    has(&visitor.page("/deliveries/1", 200).await, &["held: the callback URL is not verified"]);
    visitor.press(&format!("{page}/delete"), "").await;
    has(&visitor.page("/deliveries/1", 200).await, &["held permanently: the subscription was deleted"]);
}

pub(crate) async fn a_dead_letter_links_to_related_objects<S: Stores>(api: &TestApi<S>) {
    let (subscription, saga, letter) = api.h.dead_letter("a").await;
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let page = format!("/dead-letters/{letter}");
    has(
        &visitor.page(&page, 200).await,
        &[
            "href=\"/events/1\"",
            &format!("href=\"/subscriptions/{subscription}\""),
            "<span class=\"wrap\">https://",
            &format!("href=\"/deliveries/{saga}\""),
            ">Requeue<",
        ],
    );
    // Actions that would be rejected are not offered.
    visitor.press(&format!("/subscriptions/{subscription}/delete"), "").await;
    let html = visitor.page(&page, 200).await;
    has(&html, &["Cannot be requeued: the subscription was deleted"]);
    assert!(!html.contains(">Requeue<"), "{html}");
    assert!(!visitor.page(&format!("/deliveries/{saga}"), 200).await.contains(">Requeue<"));
}
