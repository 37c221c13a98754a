//! Pagination of lists while rows are inserted: cursors, limits and payloads.

use crate::dashboard::Visitor;
use crate::server::{LEDGER_TTL, ROOT_KEY, TestApi};
use posthaste_core::event::NewEvent;
use posthaste_core::ports::{IngestStore as _, OutboxIntakeStore as _, Stores};
use posthaste_testkit::fixtures::{T0, event, json, order};
use posthaste_testkit::harness::{Engine, Harness};
use posthaste_testkit::postgres::client;
use serde_json::Value;
use std::collections::BTreeSet;
use tokio::sync::watch;

const LISTS: [&str; 6] = ["events", "subscriptions", "deliveries", "dead-letters", "orders", "audit"];

/// The lists, each with the field that identifies its rows.
const ROWS: [(&str, &str); 6] = [
    ("events", "id"),
    ("subscriptions", "id"),
    ("deliveries", "saga_id"),
    ("dead-letters", "id"),
    ("orders", "idempotency_key"),
    ("audit", "id"),
];

/// The number of rows in each list before reading starts.
const ROUNDS: u64 = 25;

/// Inserts one row into every list. Existing rows also change.
async fn write<S: Stores>(api: &TestApi<S>, round: u64) {
    api.h.dead_letter(&format!("kind-{round}")).await;
    let orders = vec![order(&format!("key-{round}"), 1)];
    api.h.calm.outbox_intake().submit_orders(orders, LEDGER_TTL, T0).await.expect("an order");
}

/// Returns the ids on one page, and the cursor of the next page.
async fn page<S: Stores>(
    api: &TestApi<S>,
    list: &str,
    id: &str,
    cursor: &str,
) -> (Vec<String>, Option<String>) {
    let page = api.get(&format!("/v1/{list}?limit=4&cursor={cursor}")).expect(200).await;
    let items = page["items"].as_array().expect("items");
    assert!(items.len() <= 4, "{list}");
    let ids = items.iter().map(|item| item[id].to_string()).collect();
    (ids, page["next_cursor"].as_str().map(str::to_owned))
}

/// Reads all pages. Calls `wait` after each page, which waits for the next insert. Inserts also run during the reads.
async fn walk<S: Stores, W>(
    api: &TestApi<S>,
    list: &str,
    id: &str,
    mut wait: impl AsyncFnMut() -> W,
) -> Vec<String> {
    let (mut found, mut next) = (Vec::new(), Some(String::new()));
    while let Some(cursor) = next {
        let (ids, after) = page(api, list, id, &cursor).await;
        found.extend(ids);
        next = after;
        wait().await;
    }
    found
}

pub(crate) async fn every_row_is_listed_once_while_rows_are_inserted<S: Stores>(api: &TestApi<S>) {
    for round in 0..ROUNDS {
        write(api, round).await;
    }
    let (finished, written) = watch::channel(ROUNDS);
    let writing = async {
        loop {
            let round = *written.borrow();
            write(api, round).await;
            finished.send_replace(round + 1);
        }
    };
    let reading = async {
        for (list, id) in ROWS {
            let (before, mut writes) = (*written.borrow(), written.clone());
            let known = walk(api, list, id, async || writes.changed().await.expect("a writer")).await;
            let again = walk(api, list, id, async || writes.changed().await.expect("a writer")).await;
            for found in [&known, &again] {
                let distinct: BTreeSet<&String> = found.iter().collect();
                assert_eq!(distinct.len(), found.len(), "{list}: duplicate row");
                assert!(found.len() as u64 >= before, "{list}: {} rows of {before}", found.len());
            }
            // New rows precede the known ones, whose order is unchanged.
            assert!(again.ends_with(&known), "{list}: {known:?} and then {again:?}");
            assert!(again.len() > known.len(), "{list}: no new rows");
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

/// Checks that a walk skips a row whose transaction is still open, and no other row, that the next walk returns it, and
/// that its delivery is not affected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_committed_late_is_in_the_next_walk() {
    let api = &TestApi::start(Harness::postgres("api").await).await;
    api.h.subscribe("a").await;
    let caller = client(api.h.url()).await;
    let first = api.h.publish("a", 4).await;
    caller.batch_execute("BEGIN").await.expect("a transaction");
    let late = caller.query_one("SELECT posthaste.publish('a', '1')", &[]).await.expect("an event");
    let late: i64 = late.get(0);
    let others = [first, api.h.publish("a", 4).await].concat();
    let mut others: Vec<String> = others.iter().rev().map(ToString::to_string).collect();

    let (mut seen, next) = page(api, "events", "id", "").await;
    let (more, end) = page(api, "events", "id", &next.expect("more")).await;
    caller.batch_execute("COMMIT").await.expect("a commit");
    seen.extend(more);
    assert_eq!((&seen, end), (&others, None), "only the open row is skipped");
    others.insert(4, late.to_string());
    assert_eq!(walk(api, "events", "id", async || ()).await, others, "the next walk has it in its place");
    api.h.route_all(T0).await;
    let routed: BTreeSet<String> =
        walk(api, "deliveries", "event_id", async || ()).await.into_iter().collect();
    assert_eq!(routed, others.into_iter().collect(), "it was routed like the others");
}

pub(crate) async fn bad_cursors_and_limits_are_refused<S: Stores>(api: &TestApi<S>) {
    api.h.publish("a", 3).await;
    let page = api.get("/v1/events?limit=1").expect(200).await;
    let cursor = page["next_cursor"].as_str().expect("a cursor").to_owned();
    for list in LISTS {
        for limit in ["0", "-1", "201", "x", "1.5", "99999999999"] {
            api.get(&format!("/v1/{list}?limit={limit}")).refused(422, "limit").await;
        }
        for bad in ["x", "%00", "AAAA", "cursor"] {
            api.get(&format!("/v1/{list}?cursor={bad}")).refused(422, "cursor").await;
        }
        if list != "events" {
            api.get(&format!("/v1/{list}?cursor={cursor}")).refused(422, "cursor").await;
            assert_eq!(
                api.get(&format!("/v1/{list}?limit=200")).expect(200).await["items"],
                serde_json::json!([])
            );
        }
        api.get(&format!("/v1/{list}?limit=1&limit=2")).refused(422, "limit").await;
        api.get(&format!("/v1/{list}?unknown=1")).refused(422, "unknown").await;
    }
}

/// Checks that bytes, not rows, limit a page of twelve payloads of 512 KiB.
pub(crate) async fn payloads_are_listed_on_request_up_to_4_mib_per_page<S: Stores>(api: &TestApi<S>) {
    let text = "x".repeat((1 << 19) - 2);
    let payload = format!("\"{text}\"");
    for _ in 0..12 {
        let event = NewEvent { payload: json(&payload), ..event("a") };
        api.h.calm.ingest().insert_events(vec![vec![event]], T0).await.expect("an event");
    }
    let time = match api.h.engine {
        Engine::Sqlite => "1800000001000000",
        Engine::Postgres | Engine::PostgresCut => "to_timestamp(1800000001)",
    };
    let letters =
        "INSERT INTO dead_letters (saga_id, event_id, subscription_id, failed_at, payload_snapshot)";
    api.h.direct.force(&format!("{letters} SELECT id, id, 1, {time}, payload FROM events")).await;
    for (list, field) in [("events", "payload"), ("dead-letters", "payload_snapshot")] {
        for query in ["limit=200", "limit=200&payload=false"] {
            let answer = api.get(&format!("/v1/{list}?{query}")).send().await;
            let page = answer.json();
            let items = page["items"].as_array().expect("items");
            assert_eq!((items.len(), &page["next_cursor"]), (12, &Value::Null), "{list}");
            assert!(items.iter().all(|item| item.get(field).is_none()), "{list}: {}", answer.text());
            assert!(answer.body.len() < 10_000, "{list}: {} bytes", answer.body.len());
        }
        let (mut ids, mut counts, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let answer = api.get(&format!("/v1/{list}?limit=200&payload=true&cursor={cursor}")).send().await;
            assert!(answer.body.len() < (4 << 20) + 10_000, "{list}: {} bytes", answer.body.len());
            let page = answer.json();
            let items = page["items"].as_array().expect("items");
            assert!(items.iter().all(|item| item[field].as_str() == Some(&text)), "{list}");
            ids.extend(items.iter().filter_map(|item| item["id"].as_i64()));
            counts.push(items.len());
            match page["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert_eq!((ids, counts), ((1..=12).rev().collect(), vec![8, 4]), "{list}");
        api.get(&format!("/v1/{list}?payload=yes")).refused(422, "payload").await;
        let one = api.get(&format!("/v1/{list}/12")).expect(200).await;
        assert_eq!(one[field].as_str(), Some(&*text), "{list}");
    }
    for list in ["subscriptions", "deliveries", "orders"] {
        api.get(&format!("/v1/{list}?payload=true")).refused(422, "payload").await;
    }
}

/// Checks that queries with more than 100 parameters are rejected. About 15,000 parameters fit into a request head of
/// 64 KiB.
pub(crate) async fn too_many_parameters_are_refused<S: Stores>(api: &TestApi<S>) {
    let many = (0..5_000).map(|number| format!("p{number}=1&")).collect::<String>();
    for path in ["/v1/events", "/v1/orders", "/v1/dead-letters", "/v1/stats", "/v1/doctor"] {
        api.get(&format!("{path}?{many}")).refused(422, "parameters").await;
    }
    let visitor = Visitor::sign_in(api, ROOT_KEY).await;
    for path in
        ["/", "/events", "/orders", "/dead-letters", "/dead-letters/requeue", "/dead-letters/requeued"]
    {
        let html = visitor.page(&format!("{path}?{many}"), 422).await;
        assert!(html.contains("too many parameters: send at most 100"), "{path}: {html}");
    }
    let form = api.post("/sign-in").no_key().body(format!("{many}key={ROOT_KEY}"));
    assert!(form.expect_text(422).await.contains("too many parameters: send at most 100"));
}
