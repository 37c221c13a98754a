//! The event pages: filters, explanation, and the limit of rows that a page examines.

use crate::dashboard::{Visitor, has};
use crate::server::{ROOT_KEY, TestApi};
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestStore as _, Stores};
use posthaste_testkit::fixtures::{T0, at, event, json, named_event};
use posthaste_testkit::harness::Engine;

fn rows(html: &str, list: &str) -> usize {
    html.matches(&format!("<td><a href=\"/{list}/")).count()
}

pub(crate) async fn an_event_is_found_by_every_field<S: Stores>(api: &TestApi<S>) {
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
    for (query, told) in [("id=x", "id must be"), ("since=now", "since must be a time"), ("x=1", "not known")]
    {
        has(&visitor.page(&format!("/events?{query}"), 422).await, &[told]);
    }
    has(&visitor.page("/events/99", 404).await, &["there is no such event", "href=\"/events\""]);
    has(&visitor.page("/events/2", 200).await, &["shop-2", "{\n  &#34;amount&#34;: 12.50\n}"]);
}

/// Payloads may be large: a list contains none, the page of an event contains its own.
pub(crate) async fn a_list_of_events_has_no_payloads<S: Stores>(api: &TestApi<S>) {
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
    has(&visitor.page(&path, 200).await, &["not yet routed", "data-live"]);
    api.h.route_all(T0).await;
    let explained = api.get(&format!("/v1{path}/explain")).expect(200).await;
    let told =
        [&explained["summary"], &explained["unmatched"][0]["told"], &explained["deliveries"][0]["told"]];
    let html = visitor.page(&path, 200).await;
    for told in told {
        has(&html, &[told.as_str().expect("a sentence")]);
    }
    let links = [matched, unverified].map(|id| format!("href=\"/subscriptions/{id}\""));
    has(&html, &[&links[0], &links[1], "href=\"/deliveries/1\"", ">unverified<", "data-live"]);
    api.h.fail_attempts(matched, T0).await;
    let html = visitor.page(&path, 200).await;
    has(&html, &["given up after 1 attempt with HTTP_500", "href=\"/dead-letters/1\"", "DeadLettered"]);
    assert!(!html.contains("data-live"), "nothing is still to come");
}

fn counted(last: u32) -> String {
    format!("WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < {last})")
}

/// Returns the link to the next page, if there is one.
pub(crate) fn next_of(html: &str) -> Option<String> {
    let (_, more) = html.split_once("<p class=\"more\">")?;
    let (_, link) = more.split_once("href=\"")?;
    link.split('"').next().map(|address| address.replace("&#38;", "&"))
}

/// A filter without an index examines a limited number of rows, and every list says how far it got.
pub(crate) async fn a_limited_scan_says_how_far_it_got<S: Stores>(api: &TestApi<S>) {
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
        // SQLite's index over the type is in id order, so it finds the event at once.
        if list == "events" && api.h.engine == Engine::Sqlite {
            assert_eq!((rows(&first, list), first.contains("Look further")), (1, false), "{list}");
            continue;
        }
        let newest = format!("Looked through the newest 500 {many}, back to <time");
        has(&first, &["None among those looked through", &newest, "2027-01-15 08:00:01", ">Look further<"]);
        // A script continues from here and announces its progress.
        has(
            &first,
            &["data-live", "data-further=\"500\"", "id=\"further\"", "id=\"looking\"", "role=\"status\""],
        );
        let second = visitor.page(&next_of(&first).expect("more"), 200).await;
        assert!(!second.contains("Look further") && !second.contains("data-live=\"2000\"><p"), "{second}");
        let found = second.matches("<tbody>\n\n<tr>").count() + second.matches("<tbody>\n<tr>").count();
        assert_eq!(found, 1, "{list}: {second}");
    }
    for list in ["deliveries", "events", "dead-letters", "orders"] {
        let plain = visitor.page(&format!("/{list}"), 200).await;
        assert!(plain.contains(">Older ones<") && !plain.contains("Looked through"), "{plain}");
        // A list that is full does not show how far it got, even with a small limit.
        let short = visitor.page(&format!("/{list}?limit=1"), 200).await;
        assert!(short.contains(">Older ones<") && !short.contains("Looked through"), "{short}");
    }
}

/// A filter for a time long ago offers to start near that time.
pub(crate) async fn a_scan_can_start_near_the_requested_time<S: Stores>(api: &TestApi<S>) {
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
    has(
        &first,
        &[
            "None among those looked through",
            "the newest 500 deliveries",
            "Begin at about 2027-01-15T08:01:40Z",
        ],
    );
    let (_, links) = first.split_once(">Look further<").expect("two links");
    let (_, nearer) = links.split_once("href=\"").expect("a link");
    let mut found =
        visitor.page(&nearer.split('"').next().unwrap_or_default().replace("&#38;", "&"), 200).await;
    // It starts a little later than the time, since rows created together may have ids out of order.
    for _ in 0..2 {
        assert_eq!(rows(&found, "deliveries"), 0, "{found}");
        found = visitor.page(&next_of(&found).expect("more"), 200).await;
    }
    assert!(found.contains("<td><a href=\"/deliveries/99\">"), "{found}");
    assert_eq!((rows(&found, "deliveries"), found.contains("/deliveries/100\"")), (50, false), "{found}");
    // If continuing reaches the time at once, no such link is offered.
    let close = visitor.page(&until("2027-01-15T14:35:00Z"), 200).await;
    assert!(!close.contains("Begin at about"), "{close}");
}
