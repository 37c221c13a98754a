//! Checks that lists return every match of their filters, page by page, and that health is counted per subscription.

use crate::fixtures::{T0, actor, at, event, event_type, id_of, json, stored};
use crate::harness::{Engine, Harness};
use posthaste_core::event::{CorrelationId, ExternalEventId, NewEvent, TraceParent};
use posthaste_core::health::Attempts;
use posthaste_core::outcome::{ErrorCode, Failure};
use posthaste_core::ports::{
    DeadLetterFilter, DeadLetterStore as _, DeliveryFilter, EXAMINED_MAX, EventFilter, EventHead, HealthSum,
    IngestStore as _, InsightStore as _, Observed, PAGE_BYTES_MAX, PageRequest, PresenceStore as _,
    ReaderStore as _, StoredEvent, Stores, SubscriptionFilter, SubscriptionHealth, SubscriptionStore as _,
};
use posthaste_core::subscription::{Standing, SubscriptionPatch};
use posthaste_core::{EventId, SubscriptionId, Timestamp};
use std::time::Duration;

const PAGE: PageRequest = PageRequest::first(100);

async fn publish_at<S: Stores>(h: &Harness<S>, kind: &str, count: usize, at: Timestamp) -> Vec<EventId> {
    let outcomes = h.calm.ingest().insert_events(vec![vec![event(kind); count]], at).await.expect("events");
    stored(&outcomes[0]).iter().copied().map(id_of).collect()
}

fn head_of(event: &StoredEvent) -> EventHead {
    EventHead {
        id: event.id,
        external_event_id: event.external_event_id.clone(),
        event_type: event.event_type.clone(),
        correlation_id: event.correlation_id.clone(),
        traceparent: event.traceparent.clone(),
        tracestate: event.tracestate.clone(),
        tenant: event.tenant.clone(),
        attributes: event.attributes.clone(),
        created_at: event.created_at,
    }
}

/// Reads all pages. Returns the event ids and the number of pages.
async fn walk<S: Stores>(h: &Harness<S>, filter: &EventFilter, items_max: u32) -> (Vec<EventId>, usize) {
    let (mut found, mut pages) = (Vec::new(), 0);
    let mut page = PageRequest::first(items_max);
    loop {
        let part = h.sure(async || h.store.reader().events(filter.clone(), page).await).await;
        let heads = h.sure(async || h.store.reader().event_heads(filter.clone(), page).await).await;
        let whole: Vec<EventHead> = part.items.iter().map(head_of).collect();
        assert_eq!((heads.items, heads.next), (whole, part.next), "{filter:?}");
        found.extend(part.items.iter().map(|event| event.id));
        pages += 1;
        match part.next {
            Some(next) => page.after = Some(next),
            None => return (found, pages),
        }
    }
}

/// Checks that a page of large payloads ends at its limit and that the next page continues there, with every
/// filter and also for dead letters.
pub async fn a_page_of_payloads_ends_at_its_limit<S: Stores>(h: &Harness<S>) {
    let quarter = format!("\"{}\"", "x".repeat(PAGE_BYTES_MAX / 4 - 2));
    let mut payloads = vec!["1"; 3];
    payloads.extend([quarter.as_str(); 9]);
    payloads.extend(["2"; 2]);
    let trace = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").ok();
    for (number, payload) in payloads.iter().enumerate() {
        let event = NewEvent {
            payload: json(payload),
            external_event_id: ExternalEventId::parse(format!("name-{number}")).ok(),
            correlation_id: CorrelationId::parse(format!("c-{number}")).ok(),
            traceparent: trace.clone(),
            ..event("a")
        };
        h.calm.ingest().insert_events(vec![vec![event]], at(10)).await.expect("an event");
    }
    let of_time = EventFilter { since: Some(at(10)), ..EventFilter::default() };
    let of_type = EventFilter { event_type: Some(event_type("a")), ..EventFilter::default() };
    let newest_first: Vec<&str> = payloads.iter().rev().copied().collect();
    for filter in [EventFilter::default(), of_type, of_time] {
        let heads = h.sure(async || h.store.reader().event_heads(filter.clone(), PAGE).await).await;
        assert_eq!((heads.items.len(), heads.next), (payloads.len(), None), "{filter:?}");
        let (mut found, mut page, mut sizes) = (Vec::new(), PAGE, Vec::new());
        loop {
            let part = h.sure(async || h.store.reader().events(filter.clone(), page).await).await;
            let bytes: usize = part.items.iter().map(|event| event.payload.as_str().len()).sum();
            assert!(bytes <= PAGE_BYTES_MAX, "{bytes} bytes");
            sizes.push(part.items.len());
            found.extend(part.items);
            page.after = part.next;
            if page.after.is_none() {
                break;
            }
        }
        // Two small payloads and three quarters; four quarters; two quarters and three small payloads.
        assert_eq!(sizes, [5, 4, 5], "{filter:?}");
        let whole: Vec<EventHead> = found.iter().map(head_of).collect();
        assert_eq!(whole, heads.items, "{filter:?}");
        let texts: Vec<&str> = found.iter().map(|event| event.payload.as_str()).collect();
        assert!(texts == newest_first, "{filter:?}");
    }
    let named =
        EventFilter { external_event_id: ExternalEventId::parse("name-5").ok(), ..EventFilter::default() };
    let early = EventFilter { until: Some(at(10)), ..named.clone() };
    assert_eq!((walk(h, &named, 1).await.0.len(), walk(h, &early, 1).await.0.len()), (1, 0));
    let other =
        EventFilter { event_type: Some(event_type("b")), since: Some(at(10)), ..EventFilter::default() };
    assert_eq!(walk(h, &other, 1).await.0, []);
    let time = match h.engine {
        Engine::Sqlite => "1800000001000000",
        Engine::Postgres | Engine::PostgresCut => "to_timestamp(1800000001)",
    };
    let letters =
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, failed_at, payload_snapshot)";
    h.direct.force(&format!("{letters} SELECT id, id, 1, {time}, payload FROM events")).await;
    for subscription_id in [None, SubscriptionId::new(1).ok()] {
        let filter = DeadLetterFilter { subscription_id, ..DeadLetterFilter::default() };
        let heads = h.sure(async || h.store.reader().dead_letter_heads(filter.clone(), PAGE).await).await;
        assert_eq!((heads.items.len(), heads.next), (payloads.len(), None));
        let (mut found, mut page, mut sizes) = (Vec::new(), PAGE, Vec::new());
        loop {
            let part = h.sure(async || h.store.reader().dead_letters(filter.clone(), page).await).await;
            sizes.push(part.items.len());
            found.extend(part.items);
            page.after = part.next;
            if page.after.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [5, 4, 5]);
        assert!(found.iter().map(|letter| &letter.head).eq(&heads.items));
        assert!(found.iter().map(|letter| letter.payload_snapshot.as_str()).eq(newest_first.iter().copied()));
    }
}

pub async fn events_are_found_by_time<S: Stores>(h: &Harness<S>) {
    // Ids and times may be in different orders: a transaction may have started long before its event was inserted.
    let late = publish_at(h, "a", 3, at(20)).await;
    let early = publish_at(h, "a", 2, at(10)).await;
    let others = publish_at(h, "b", 2, at(20)).await;
    publish_at(h, "a", 3, at(30)).await;
    let newest_first = |parts: &[&Vec<EventId>]| {
        parts.iter().flat_map(|part| part.iter().rev().copied()).collect::<Vec<EventId>>()
    };
    let filter = EventFilter { since: Some(at(10)), until: Some(at(30)), ..EventFilter::default() };
    let all = newest_first(&[&others, &late, &early]);
    for items_max in [1, 2, 3, 100] {
        assert_eq!(walk(h, &filter, items_max).await.0, all, "{items_max} on a page");
    }
    let of_type = EventFilter { event_type: Some(event_type("a")), ..filter.clone() };
    assert_eq!(walk(h, &of_type, 2).await.0, newest_first(&[&late, &early]));
    for (since, until, count) in
        [(None, Some(at(10)), 0), (None, Some(at(11)), 2), (Some(at(30)), None, 3), (Some(at(31)), None, 0)]
    {
        let filter = EventFilter { since, until, ..EventFilter::default() };
        assert_eq!(walk(h, &filter, 100).await.0.len(), count, "{filter:?}");
    }
}

/// Checks that a page examines a limited number of rows and returns the position of the next page, even if no
/// row matched.
pub async fn a_scan_beyond_the_limit_continues_on_the_next_page<S: Stores>(h: &Harness<S>) {
    let rare = publish_at(h, "rare", 1, T0).await;
    let many = EXAMINED_MAX + 50;
    // Five events per microsecond.
    let time = match h.engine {
        Engine::Sqlite => "1800000001000000 + k / 5",
        Engine::Postgres | Engine::PostgresCut => {
            "to_timestamp(1800000001) + (k / 5) * interval '1 microsecond'"
        }
    };
    let sql = format!(
        "WITH RECURSIVE counted (k) AS (VALUES (1) UNION ALL SELECT k + 1 FROM counted WHERE k < {many}) \
         INSERT INTO events (event_type, payload, created_at) SELECT 'often', '1', {time} FROM counted"
    );
    h.direct.force(&sql).await;
    let filter =
        EventFilter { event_type: Some(event_type("rare")), since: Some(T0), ..EventFilter::default() };
    assert_eq!(walk(h, &filter, 10).await, (rare, 2));
    let filter = EventFilter { event_type: Some(event_type("often")), ..filter };
    let (found, _) = walk(h, &filter, 200).await;
    assert_eq!(found.len(), many as usize);
    assert!(found.is_sorted_by(|one, next| one > next), "each once, the latest first");
}

pub async fn subscriptions_are_found_by_type_and_status<S: Stores>(h: &Harness<S>) {
    let (active, paused) = (h.subscribe("a").await, h.subscribe("a").await);
    let (unverified, other) = (h.subscribe_unverified("a", None).await, h.subscribe("b").await);
    let deleted = h.subscribe("a").await;
    let admin = h.calm.subscriptions();
    let pause = SubscriptionPatch { active: Some(false), ..SubscriptionPatch::default() };
    for id in [paused, unverified] {
        admin.update_subscription(id, pause.clone(), None, actor(), at(1)).await.expect("a pause");
    }
    assert!(admin.delete_subscription(deleted, actor(), at(1)).await.expect("to delete"));
    let of = |kind: Option<&str>, standing| SubscriptionFilter {
        event_type: kind.map(event_type),
        standing,
        ..SubscriptionFilter::default()
    };
    for (filter, expected) in [
        (of(None, None), vec![other, unverified, paused, active]),
        (of(Some("a"), None), vec![unverified, paused, active]),
        (of(None, Some(Standing::Active)), vec![other, active]),
        (of(Some("a"), Some(Standing::Active)), vec![active]),
        (of(None, Some(Standing::Paused)), vec![paused]),
        (of(Some("a"), Some(Standing::Unverified)), vec![unverified]),
        (of(Some("b"), Some(Standing::Paused)), vec![]),
    ] {
        let found = h.sure(async || h.store.reader().subscriptions(filter.clone(), PAGE).await).await;
        let ids: Vec<_> = found.items.iter().map(|one| one.id).collect();
        assert_eq!((ids, found.next), (expected, None), "{filter:?}");
    }
}

pub async fn deliveries_are_found_by_error_and_time<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe("a").await;
    let event = h.publish("a", 2).await[0];
    h.route_all(T0).await;
    h.fail_attempts(subscription, at(1)).await;
    h.publish("a", 3).await;
    h.route_all(at(100)).await;
    let none = DeliveryFilter::default;
    let code = |text: &str| Some(ErrorCode::parse(text).expect("a code"));
    for (filter, expected) in [
        (DeliveryFilter { error_code: code("HTTP_500"), ..none() }, 2),
        (DeliveryFilter { error_code: code("TIMEOUT"), ..none() }, 0),
        (DeliveryFilter { since: Some(at(100)), ..none() }, 3),
        (DeliveryFilter { until: Some(at(100)), ..none() }, 2),
        (DeliveryFilter { since: Some(T0), until: Some(at(101)), ..none() }, 5),
        (DeliveryFilter { since: Some(at(1)), until: Some(at(100)), ..none() }, 0),
        (DeliveryFilter { event_id: Some(event), error_code: code("HTTP_500"), ..none() }, 1),
        (DeliveryFilter { event_id: Some(event), since: Some(at(1)), ..none() }, 0),
    ] {
        let found = h.sure(async || h.store.reader().deliveries(filter.clone(), PAGE).await).await;
        assert_eq!(found.items.len(), expected, "{filter:?}");
    }
}

/// Checks that backlog and in-flight counts come from the deliveries, and attempt counts from the reports of all
/// processes.
pub async fn subscription_health_sums_all_reports<S: Stores>(h: &Harness<S>) {
    let (one, idle) = (h.subscribe_with("a", Some(1)).await, h.subscribe("b").await);
    h.publish("a", 2).await;
    h.route_all(at(4)).await;
    h.start_attempts(one, at(4)).await;
    h.publish("a", 1).await;
    h.route_all(at(5)).await;
    let sum = |interval_start, attempts: &Attempts| HealthSum {
        subscription_id: one,
        interval_start,
        attempts: attempts.clone(),
    };
    let mut attempts = Attempts::default();
    attempts.succeed(Duration::from_millis(30));
    attempts.succeed(Duration::from_secs(60));
    let (earlier, later) = (at(600), at(1_200));
    // Two processes report the same interval, and the later error is reported first.
    let report = async |sums: Vec<HealthSum>, now| {
        h.calm.presence().report_health(sums, now).await.expect("a report");
    };
    attempts.fail(Failure::Timeout.code(), at(1_300));
    report(vec![sum(earlier, &attempts), sum(later, &attempts)], at(1_300)).await;
    let mut other = Attempts::default();
    other.fail(Failure::Http(503).code(), at(1_250));
    report(vec![sum(later, &other)], at(1_300)).await;
    let mut expected = attempts.clone();
    expected.add(&other);
    let insight = h.store.insight();
    let asked = vec![idle, one];
    let found = h.sure(async || insight.subscription_health(asked.clone(), 100, later).await).await;
    let reported =
        SubscriptionHealth { subscription_id: one, waiting: 1, in_flight: 2, attempts: expected.clone() };
    assert_eq!(found, [SubscriptionHealth::unknown(idle), reported.clone()]);
    expected.add(&attempts);
    let found = h.sure(async || insight.subscription_health(asked.clone(), 1, earlier).await).await;
    assert_eq!(
        found[1],
        SubscriptionHealth { in_flight: 1, attempts: expected, ..reported },
        "counts stop at the requested maximum"
    );
    let nobody = h.sure(async || insight.subscription_health(Vec::new(), 1, T0).await).await;
    assert!(nobody.is_empty());
    // Rows older than two days are deleted by the next report.
    report(vec![sum(at(200_000), &other)], at(200_000)).await;
    assert_eq!(h.direct.number("SELECT count(*) FROM subscription_health").await, 1);
}

/// Checks that a page ends at its limit of examined rows, that the next page continues there, and that small pages
/// together return every row.
pub async fn small_scans_continue_on_the_next_page<S: Stores>(h: &Harness<S>) {
    let subscription = h.subscribe_with("a", Some(1)).await;
    h.publish("a", 7).await;
    h.route_all(T0).await;
    h.fail_attempts(subscription, T0).await;
    h.publish("b", 1).await;
    let page = PageRequest::first(100).looking_at(3);
    let reader = h.store.reader();
    let of_type = |kind: &str| EventFilter { event_type: Some(event_type(kind)), ..EventFilter::default() };
    let none = DeliveryFilter { error_code: Some(Failure::Timeout.code()), ..DeliveryFilter::default() };
    let of_time = EventFilter { since: Some(T0), ..of_type("a") };
    // SQLite finds events of a type in an index that is in id order.
    let parts = if h.engine == Engine::Sqlite { [3, 3, 1].as_slice() } else { &[2, 3, 2] };
    let mut cursor = None;
    for (index, count) in parts.iter().enumerate() {
        let part = h.sure(async || reader.events(of_type("a"), page.behind(cursor)).await).await;
        assert_eq!((part.items.len(), part.next.is_some()), (*count, index < 2), "{index}");
        cursor = part.next;
    }
    let timed = h.sure(async || reader.events(of_time.clone(), page).await).await;
    assert!(!timed.items.is_empty(), "{timed:?}");
    let mut cursor = None;
    for more in [true, true, false] {
        let part = h.sure(async || reader.deliveries(none.clone(), page.behind(cursor)).await).await;
        assert_eq!((part.items.len(), part.next.is_some()), (0, more), "{part:?}");
        cursor = part.next;
    }
    let letters = DeadLetterFilter { event_type: Some(event_type("b")), ..DeadLetterFilter::default() };
    let of_one = DeadLetterFilter { subscription_id: Some(subscription), ..letters.clone() };
    for filter in [letters, of_one] {
        let part = h.sure(async || reader.dead_letter_heads(filter.clone(), page).await).await;
        let whole = h.sure(async || reader.dead_letters(filter.clone(), page).await).await;
        let found =
            h.sure(async || h.store.dead_letters().find_dead_letters(filter.clone(), page).await).await;
        assert!(part.items.is_empty() && part.next.is_some() && part.next == whole.next, "{part:?}");
        assert!(found.items.is_empty() && found.next.is_some(), "{found:?}");
    }
    // If a page is full before its limit of examined rows, the next one continues after its last row.
    let full =
        h.sure(async || reader.deliveries(DeliveryFilter::default(), PageRequest::first(2)).await).await;
    let ids: Vec<i64> = full.items.iter().map(|one| one.saga.id.get()).collect();
    assert_eq!((full.next, ids.is_sorted_by(|one, next| one > next)), (ids.last().copied(), true), "{ids:?}");
}

pub async fn only_a_server_reports_its_state<S: Stores>(h: &Harness<S>) {
    let server = h.sure(async || h.store.insight().server().await).await;
    if h.engine == Engine::Sqlite {
        assert_eq!(server, None);
        return;
    }
    let server = server.expect("the state of the server");
    assert!(!server.is_standby && server.connected.is_local(), "{server:?}");
    assert_eq!(server.standbys, Observed::Seen(vec![]));
    assert_eq!(server.durability.synchronous_commit, "on");
    assert!(server.transactions.age < server.transactions.freeze_max_age, "{server:?}");
    assert!(server.multixacts.age < server.multixacts.freeze_max_age, "{server:?}");
    assert!(server.connections.server > 0, "{server:?}");
    assert_eq!((server.connections.database, server.connections.login), (None, None));
}
