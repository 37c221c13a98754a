//! The pages for events, and the bounded search that all lists share.

use crate::dashboard::{Visitor, has, problem_detail};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::attributes::Attributes;
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestStore as _, Stores};
use posthaste_core::tenant::Tenant;
use posthaste_testkit::fixtures::{T0, at, event, json, named_event};
use posthaste_testkit::harness::Engine;

fn rows(html: &str, list: &str) -> usize {
    html.matches(&format!("<td><a href=\"/{list}/")).count()
}

pub(crate) async fn events_are_filtered_by_every_field<S: Stores>(api: &TestApi<S>) {
    let ingest = api.h.store.ingest();
    for (kind, name, seconds) in [("a", "shop-1", 0), ("b", "shop-2", 10), ("a", "shop-3", 20)] {
        ingest.insert_events(vec![vec![named_event(kind, name)]], at(seconds)).await.expect("an event");
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (query, count) in [
        ("", 3),
        ("id=&event_type=a", 2),
        ("external_event_id=shop-2", 1),
        ("external_event_id=shop-9", 0),
        ("external_event_id=shop-2&since=2027-01-15T08:00:20Z", 0),
        ("since=2027-01-15T08:00:10Z", 2),
        ("since=2027-01-15T08:00:10Z&until=2027-01-15T08:00:20Z", 1),
        ("event_type=a&until=2027-01-15T08:00:10Z", 1),
    ] {
        let html = visitor.page(&format!("/events?{query}"), 200).await;
        assert_eq!(rows(&html, "events"), count, "{query}");
    }
    let led = visitor.call("GET", "/events?id=2").send().await;
    assert_eq!((led.status, led.header("location")), (303, "/events/2"));
    for (query, detail) in [("id=x", "id must be"), ("since=now", "since must be a time")] {
        has(&visitor.page(&format!("/events?{query}"), 422).await, &[detail]);
    }
    for (path, status) in [("/events?x=1", 422), ("/events/99", 404)] {
        let detail = problem_detail(api, &format!("/v1{path}")).await;
        has(&visitor.page(path, status).await, &[&detail, "href=\"/events\""]);
    }
    has(&visitor.page("/events/2", 200).await, &["shop-2", "{\n  &#34;amount&#34;: 12.50\n}"]);
}

pub(crate) async fn tenant_and_attributes_of_events_are_shown<S: Stores>(api: &TestApi<S>) {
    let attributes =
        Attributes::parse(r#"{"region": "<eu>", "amount": 1.50, "vip": true}"#).expect("attributes");
    let tenant = Some(Tenant::parse("acme & sons").expect("a tenant"));
    let of_tenant = NewEvent { tenant, attributes, ..event("a") };
    api.h.store.ingest().insert_events(vec![vec![of_tenant, event("b")]], T0).await.expect("events");
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let listed = visitor.page("/events", 200).await;
    has(&listed, &["acme &#38; sons", "amount=1.5, region=&#60;eu&#62;, vip=true"]);
    for (query, count) in [("tenant=acme+%26+sons", 1), ("tenant=acme", 0)] {
        assert_eq!(rows(&visitor.page(&format!("/events?{query}"), 200).await, "events"), count, "{query}");
    }
    let shown = visitor.page("/events/1", 200).await;
    has(
        &shown,
        &["/events?tenant=acme%20%26%20sons\"", ">region</dt><dd class=\"wrap\">&#60;eu&#62;<", ">1.5<"],
    );
    assert!(!visitor.page("/events/2", 200).await.contains("Tenant</dt>"));
}

/// Checks that only the page of an event shows its payload, which may be long.
pub(crate) async fn the_list_of_events_contains_no_payloads<S: Stores>(api: &TestApi<S>) {
    let event = NewEvent { payload: json(r#"["marker"]"#), ..named_event("a", "long") };
    api.h.store.ingest().insert_events(vec![vec![event]], T0).await.expect("an event");
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for query in ["", "event_type=a", "external_event_id=long", "since=2027-01-15T08:00:00Z"] {
        let html = visitor.page(&format!("/events?{query}"), 200).await;
        assert_eq!((rows(&html, "events"), html.contains("marker")), (1, false), "{query}: {html}");
    }
    has(&visitor.page("/events/1", 200).await, &["marker"]);
}

pub(crate) async fn an_event_is_explained<S: Stores>(api: &TestApi<S>) {
    let (matched, unverified) =
        (api.h.subscribe_with("a", Some(1)).await, { api.h.subscribe_unverified("a", None).await });
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let event = api.h.publish("a", 1).await[0];
    let path = format!("/events/{event}");
    let explained = api.get(&format!("/v1{path}/explain")).expect(200).await;
    has(&visitor.page(&path, 200).await, &[explained["summary"].as_str().expect("a text"), "data-live"]);
    api.h.route_all(T0).await;
    let explained = api.get(&format!("/v1{path}/explain")).expect(200).await;
    let texts =
        [&explained["summary"], &explained["unmatched"][0]["told"], &explained["deliveries"][0]["told"]];
    let html = visitor.page(&path, 200).await;
    for text in texts {
        has(&html, &[text.as_str().expect("a text")]);
    }
    let links = [matched, unverified].map(|id| format!("href=\"/subscriptions/{id}\""));
    has(&html, &[&links[0], &links[1], "href=\"/deliveries/1\"", ">unverified<", "data-live"]);
    api.h.fail_attempts(matched, T0).await;
    let explained = api.get(&format!("/v1{path}/explain")).expect(200).await;
    let outcome = explained["deliveries"][0]["told"].as_str().expect("a text");
    assert!(outcome.contains("1 attempt") && outcome.contains("HTTP_500"), "{outcome}");
    let html = visitor.page(&path, 200).await;
    has(&html, &[outcome, "href=\"/dead-letters/1\"", "DeadLettered"]);
    assert!(!html.contains("data-live"), "all deliveries are finished");
}

fn counted(last: u32) -> String {
    format!("WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < {last})")
}

/// Returns the URL of the next page of a list, or `None` if there is none.
pub(crate) fn next_of(html: &str) -> Option<String> {
    let (_, more) = html.split_once("<p class=\"more\">")?;
    let (_, link) = more.split_once("href=\"")?;
    link.split('"').next().map(|address| address.replace("&#38;", "&"))
}

/// Checks for every list that a filter without an index examines a limited number of rows, and that the page shows how
/// far the search got.
pub(crate) async fn a_long_search_shows_how_far_it_got<S: Stores>(api: &TestApi<S>) {
    api.h.store.ingest().insert_events(vec![vec![event("rare")]], T0).await.expect("an event");
    let time = match api.h.engine {
        Engine::Sqlite => "1800000001000000 + k",
        Engine::Postgres | Engine::PostgresCut => "to_timestamp(1800000001) + k * interval '1 microsecond'",
    };
    let counted = counted(550);
    for insert in [
        format!(
            "INSERT INTO events (event_type, payload, created_at) SELECT 'often', '1', {time} FROM counted"
        ),
        format!(
            "INSERT INTO webhook_delivery_sagas \
             (event_id, subscription_id, final_error_code, next_attempt_at, created_at, updated_at) \
             SELECT k, 1, CASE WHEN k = 7 THEN 'TIMEOUT' END, {time}, {time}, {time} FROM counted"
        ),
        format!(
            "INSERT INTO dead_letters (saga_id, event_id, subscription_id, failed_at, payload_snapshot) \
             SELECT k, k, 1, {time}, '1' FROM counted"
        ),
        format!(
            "INSERT INTO outbox_orders (idempotency_key, request_json, request_digest, status, \
             next_attempt_at, created_at, updated_at) SELECT 'key-' || k, '1', 'sha256:' || k, \
             CASE WHEN k = 7 THEN 'dead' ELSE 'sent' END, {time}, {time}, {time} FROM counted"
        ),
    ] {
        api.h.direct.force(&format!("{counted} {insert}")).await;
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for (list, many, query) in [
        ("deliveries", "deliveries", "error_code=TIMEOUT"),
        ("events", "events", "event_type=rare"),
        ("dead-letters", "dead letters", "event_type=rare"),
        ("orders", "orders", "status=dead"),
    ] {
        let first = visitor.page(&format!("/{list}?{query}"), 200).await;
        // SQLite's index on the type is in id order, so it finds the event directly.
        if list == "events" && api.h.engine == Engine::Sqlite {
            assert_eq!((rows(&first, list), first.contains("Continue search")), (1, false), "{list}");
            continue;
        }
        let newest = format!("Searched the newest 500 {many}, back to <time");
        has(&first, &["No matches so far.", &newest, "2027-01-15 08:00:01", ">Continue search<"]);
        // The script continues the search and shows its progress.
        has(
            &first,
            &[
                "data-live",
                "data-continue=\"500\"",
                "id=\"older\"",
                "id=\"search-progress\"",
                "role=\"status\"",
            ],
        );
        let second = visitor.page(&next_of(&first).expect("more"), 200).await;
        assert!(!second.contains("Continue search") && !second.contains("data-live=\"2000\"><p"), "{second}");
        let found = second.matches("<tbody>\n\n<tr>").count() + second.matches("<tbody>\n<tr>").count();
        assert_eq!(found, 1, "{list}: {second}");
    }
    for list in ["deliveries", "events", "dead-letters", "orders"] {
        let older = format!(">Older {}<", list.replace('-', " "));
        // A full page has a plain link to older rows for any limit.
        for query in ["", "?limit=1"] {
            let html = visitor.page(&format!("/{list}{query}"), 200).await;
            assert!(html.contains(&older) && !html.contains("Searched the"), "{html}");
        }
    }
}

/// Checks that a search for old deliveries offers a link that skips newer ones.
pub(crate) async fn a_search_can_start_near_the_requested_time<S: Stores>(api: &TestApi<S>) {
    let time = match api.h.engine {
        Engine::Sqlite => "1800000000000000 + k * 1000000",
        Engine::Postgres | Engine::PostgresCut => "to_timestamp(1800000000 + k)",
    };
    let (events, sagas) = (
        format!("INSERT INTO events (event_type, payload, created_at) SELECT 'a', '1', {time} FROM counted"),
        format!(
            "INSERT INTO webhook_delivery_sagas \
             (event_id, subscription_id, next_attempt_at, created_at, updated_at) \
             SELECT k, 1, {time}, {time}, {time} FROM counted"
        ),
    );
    for insert in [events, sagas] {
        api.h.direct.force(&format!("{} {insert}", counted(25_000))).await;
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    let until = |time: &str| format!("/deliveries?until={}", time.replace(':', "%3A"));
    // Second 100 of 25,000.
    let first = visitor.page(&until("2027-01-15T08:01:40Z"), 200).await;
    has(&first, &["No matches so far.", "the newest 500 deliveries", "Start at about 2027-01-15T08:01:40Z"]);
    let (_, links) = first.split_once(">Continue search<").expect("two links");
    let (_, nearer) = links.split_once("href=\"").expect("a link");
    let mut found =
        visitor.page(&nearer.split('"').next().unwrap_or_default().replace("&#38;", "&"), 200).await;
    // The link starts slightly above the requested time, because ids of concurrent transactions may be out of order.
    for _ in 0..2 {
        assert_eq!(rows(&found, "deliveries"), 0, "{found}");
        found = visitor.page(&next_of(&found).expect("more"), 200).await;
    }
    assert!(found.contains("<td><a href=\"/deliveries/99\">"), "{found}");
    assert_eq!((rows(&found, "deliveries"), found.contains("/deliveries/100\"")), (50, false), "{found}");
    // If the next page reaches the requested time anyway, there is no such link.
    let close = visitor.page(&until("2027-01-15T14:35:00Z"), 200).await;
    assert!(!close.contains("Start at about"), "{close}");
}
