//! Orders in the API: submission, reading, the audit and the lane.

use crate::server::{LEDGER_TTL, Options, ROOT_KEY, TestApi};
use posthaste_core::Timestamp;
use posthaste_core::broker::{BrokerFault, BrokerOutcome, classify_answer};
use posthaste_core::order::{IdempotencyKey, ORDER_BYTES_MAX};
use posthaste_core::ports::{OrderReport, OutboxWorkerStore as _, Settled, Stores};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_testkit::client::Call;
use posthaste_testkit::fixtures::{T0, at, order_claim};
use posthaste_testkit::harness::Harness;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

const PATH: &str = "/v1/orders";

/// Returns a valid order with the idempotency key `key`.
pub(crate) fn body(key: &str) -> String {
    format!(r#"{{"idempotency_key":"{key}","symbol":"USDJPY","intent":"BUY","qty":10000}}"#)
}

/// Submits `text` with `key` in the header.
pub(crate) fn submit<S: Stores>(api: &TestApi<S>, key: &str, text: impl Into<Vec<u8>>) -> Call {
    api.post(PATH).header("idempotency-key", key).json(text)
}

pub(crate) fn outcome_of(key: &str, status: u16, body: &str) -> BrokerOutcome {
    let key = IdempotencyKey::parse(key).expect("a key");
    classify_answer(status, body.as_bytes(), &key, "already processed", None, T0)
}

/// Claims one order and settles it with the given outcome, as a worker does.
pub(crate) async fn send_one<S: Stores>(api: &TestApi<S>, outcome: BrokerOutcome, now: Timestamp) {
    let (worker, claim) = (api.h.store.outbox_worker(), order_claim(1));
    let token = claim.token;
    let claimed = worker.claim_orders(claim, now).await.expect("a claim");
    let id = claimed.orders.first().expect("an order").id;
    let report = OrderReport { id, token, probe: claimed.probe, outcome };
    let settled = worker.settle_orders(vec![report], OrderRetryPolicy::ORDER, now).await.expect("to settle");
    assert!(matches!(settled[..], [Settled::Accepted(_)]), "{settled:?}");
}

async fn requeue<S: Stores>(api: &TestApi<S>, now: Timestamp) {
    let requeued = api.h.store.outbox_worker().requeue_due_orders(10, OrderRetryPolicy::ORDER, now).await;
    assert_eq!(requeued.expect("to requeue").len(), 1);
}

pub(crate) async fn an_order_is_accepted_once<S: Stores>(api: &TestApi<S>) {
    let first = submit(api, "k-1", body("k-1")).expect(202).await;
    let digest = first["request_digest"].as_str().expect("a digest");
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    let expected = json!({
        "idempotency_key": "k-1", "status": "queued", "retry_count": 0,
        "next_attempt_at": "2027-01-15T08:00:00.000000Z", "last_error": null, "broker_order_id": null,
        "request_digest": digest, "result_digest": null, "maybe_executed": false,
        "created_at": "2027-01-15T08:00:00.000000Z", "updated_at": "2027-01-15T08:00:00.000000Z"
    });
    assert_eq!(first, expected);
    for header in ["k-1", "\"k-1\"", " \"k-1\" "] {
        assert_eq!(submit(api, header, body("k-1")).expect(200).await, first, "{header}");
    }
    // A body without a media type is parsed as JSON.
    assert_eq!(api.post(PATH).header("Idempotency-Key", "k-1").body(body("k-1")).expect(200).await, first);
    assert_eq!(api.get("/v1/orders/k-1").expect(200).await, first);
    let other = body("k-1").replace("10000", "10001");
    let problem = submit(api, "k-1", other).refused(422, "idempotency_key").await;
    // A client that submits another order under the same key learns nothing about the first one.
    assert!(!problem.to_string().contains("sha256") && !problem.to_string().contains(digest), "{problem}");
    assert_eq!((api.count("outbox_orders").await, api.count("idempo_ledger").await), (1, 1));
    assert_eq!(api.count("outbox_audit").await, 1);
    api.get("/v1/orders/k-2").refused(404, "").await;
    api.get("/v1/orders/k-2/audit").refused(404, "").await;
}

pub(crate) async fn bad_orders_are_refused_by_name_and_nothing_is_stored<S: Stores>(api: &TestApi<S>) {
    let with = |more: &str| format!("{},{more}}}", body("k").trim_end_matches('}'));
    let qty = |qty: &str| body("k").replace("10000", qty);
    let long = "k".repeat(201);
    let mebibyte = with(&format!(r#""meta":{{"a":"{}"}}"#, "x".repeat(1 << 20)));
    let deep = with(&format!(r#""meta":{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200)));
    let rows: Vec<(String, u16, &str)> = vec![
        // Not valid JSON.
        (String::new(), 400, ""),
        ("{".to_owned(), 400, ""),
        (body("k") + "x", 400, ""),
        (qty("NaN"), 400, ""),
        (qty("Infinity"), 400, ""),
        (qty("01"), 400, ""),
        (qty("+1"), 400, ""),
        // Valid JSON, but not a valid order.
        ("[]".to_owned(), 422, "body"),
        ("null".to_owned(), 422, "body"),
        ("{}".to_owned(), 422, "idempotency_key"),
        (body("k").replace(r#""k""#, "7"), 422, "idempotency_key"),
        (body("k").replace(r#""k""#, "null"), 422, "idempotency_key"),
        (body(""), 422, "idempotency_key"),
        (body(&long), 422, "idempotency_key"),
        (body("with space"), 422, "idempotency_key"),
        (body("schlüssel"), 422, "idempotency_key"),
        (r#"{"idempotency_key":"k","intent":"BUY","qty":1}"#.to_owned(), 422, "symbol"),
        (body("k").replace("USDJPY", ""), 422, "symbol"),
        (body("k").replace("USDJPY", &"S".repeat(65)), 422, "symbol"),
        (body("k").replace("BUY", "buy"), 422, "intent"),
        (body("k").replace(r#""BUY""#, "1"), 422, "intent"),
        (r#"{"idempotency_key":"k","symbol":"A","intent":"BUY"}"#.to_owned(), 422, "qty"),
        (qty("0"), 422, "qty"),
        (qty("0.0"), 422, "qty"),
        (qty("-1"), 422, "qty"),
        (qty("null"), 422, "qty"),
        (qty("true"), 422, "qty"),
        (qty(r#""1""#), 422, "qty"),
        (qty(r#""NaN""#), 422, "qty"),
        (qty("1e300"), 422, "qty"),
        (qty("9007199254740994"), 422, "qty"),
        (qty("9007199254740993"), 422, "body"),
        (qty("1e400"), 422, "body"),
        (qty("0.10000000000000000001"), 422, "body"),
        (with(r#""limit_price":"145.001""#), 422, "limit_price"),
        (with(r#""limit_price":0"#), 422, "limit_price"),
        (with(r#""limit_price":-1"#), 422, "limit_price"),
        (with(r#""trace_id":7"#), 422, "trace_id"),
        (with(&format!(r#""trace_id":"{long}""#)), 422, "trace_id"),
        (with(r#""meta":[]"#), 422, "meta"),
        (with(r#""meta":"text""#), 422, "meta"),
        (with(r#""qty":10000"#), 422, "qty"),
        (with(r#""meta":{"a":1,"\u0061":2}"#), 422, "a"),
        (with(r#""meta":{"a":"\u0000"}"#), 422, "body"),
        (with(r#""meta":{"a":"\ud800"}"#), 422, "body"),
        (deep, 422, "body"),
        (mebibyte, 413, ""),
    ];
    for (text, status, field) in rows {
        submit(api, "k", text).refused(status, field).await;
    }
    submit(api, "k", b"{\"a\":\"\xff\"}".to_vec()).refused(400, "").await;
    // The `Idempotency-Key` header, with a valid order.
    let fine = || api.post(PATH).json(body("k"));
    let problem = fine().refused(400, "Idempotency-Key").await;
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("send the header")), "{problem}");
    for wrong in ["", "\"\"", "K", "k2", "\"k", "k\"", "\"k\" x", "a b", &long] {
        fine().header("idempotency-key", wrong).refused(400, "Idempotency-Key").await;
    }
    fine()
        .header("idempotency-key", "k")
        .header("idempotency-key", "k")
        .refused(400, "Idempotency-Key")
        .await;
    let named = |media: &str| api.post(PATH).header("idempotency-key", "k").header("content-type", media);
    named("text/plain").body(body("k")).refused(415, "").await;
    submit(api, "k", body("k")).header("content-encoding", "gzip").refused(415, "").await;
    for table in ["outbox_orders", "idempo_ledger", "outbox_audit"] {
        assert_eq!(api.count(table).await, 0, "{table}");
    }
    // Orders at the exact limits are accepted.
    let key = "k".repeat(200);
    let largest = body(&key).replace("10000", "9007199254740992");
    let frame = largest.len() + r#","meta":{"a":""}"#.len();
    let meta = format!(r#","meta":{{"a":"{}"}}}}"#, "x".repeat(ORDER_BYTES_MAX - frame));
    let largest = largest.trim_end_matches('}').to_owned() + &meta;
    assert_eq!(largest.len(), ORDER_BYTES_MAX);
    submit(api, &key, largest).expect(202).await;
}

pub(crate) async fn equal_orders_have_one_digest_whatever_their_spelling<S: Stores>(api: &TestApi<S>) {
    let first =
        r#"{"idempotency_key":"k","symbol":"A","intent":"BUY","qty":1.0,"x":"é","meta":{"b":1,"a":2}}"#;
    let first = submit(api, "k", first).expect(202).await;
    for again in [
        r#"{"idempotency_key":"k","symbol":"A","intent":"BUY","qty":1.00,"x":"é","meta":{"b":1,"a":2}}"#,
        r#" {"meta":{"a":2e0,"b":10e-1},"qty":1, "x":"\u00e9","intent":"BUY","symbol":"\u0041","idempotency_key":"k"}"#,
    ] {
        assert_eq!(submit(api, "k", again).expect(200).await, first);
    }
    // An unknown field is part of the order.
    let less = r#"{"idempotency_key":"k","symbol":"A","intent":"BUY","qty":1,"meta":{"b":1,"a":2}}"#;
    submit(api, "k", less).refused(422, "idempotency_key").await;
    assert_eq!(api.count("outbox_orders").await, 1);
}

pub(crate) async fn keys_with_special_characters_are_found<S: Stores>(api: &TestApi<S>) {
    for (key, path) in [
        ("01JABCXYZ-ULID-5678", "01JABCXYZ-ULID-5678"),
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("100%", "100%25"),
        ("..", "%2E%2E"),
        ("audit", "audit"),
        ("a+b&c=d", "a+b&c=d"),
        ("{x}", "%7Bx%7D"),
    ] {
        let made = submit(api, key, body(key)).expect(202).await;
        assert_eq!(made["idempotency_key"], key);
        assert_eq!(api.get(&format!("/v1/orders/{path}")).expect(200).await, made);
        let audit = api.get(&format!("/v1/orders/{path}/audit")).expect(200).await;
        assert_eq!(audit["items"].as_array().map(Vec::len), Some(1), "{audit}");
    }
    let long = "k".repeat(201);
    for bad in ["%20", "a%22b", "%C3%A9", &long] {
        api.get(&format!("/v1/orders/{bad}")).refused(422, "idempotency_key").await;
        api.get(&format!("/v1/orders/{bad}/audit")).refused(422, "idempotency_key").await;
    }
    api.get("/v1/orders/%FF").refused(400, "").await;
}

pub(crate) async fn a_repeated_submission_returns_the_result<S: Stores>(api: &TestApi<S>) {
    let timeout = || BrokerOutcome::NoAnswer(BrokerFault::TimedOut { bytes_written: true });
    // A sent order has the broker's response.
    let first = submit(api, "good", body("good")).expect(202).await;
    send_one(api, timeout(), T0).await;
    let between = submit(api, "good", body("good")).expect(200).await;
    assert_eq!(between, first, "until it ends, the first response is repeated");
    let seen = api.get("/v1/orders/good").expect(200).await;
    assert_eq!((&seen["status"], &seen["retry_count"]), (&json!("failed"), &json!(1)), "{seen}");
    requeue(api, at(10)).await;
    let answer = r#"{"broker_order_id":"brk-1","idempotency_key":"good","price":1.50}"#;
    send_one(api, outcome_of("good", 200, answer), at(10)).await;
    let end = submit(api, "good", body("good")).send().await;
    assert_eq!(end.status, 200);
    // JSONB preserves values but not their spelling.
    let end = end.json();
    assert_eq!((&end["status"], &end["broker_order_id"]), (&json!("sent"), &json!("brk-1")), "{end}");
    assert_eq!(end["result"], serde_json::from_str::<Value>(answer).expect("JSON"));
    assert_eq!((&end["maybe_executed"], end.get("advice")), (&json!(false), None), "{end}");
    let doubted = "SELECT count(*) FROM outbox_orders WHERE status = 'sent' AND maybe_executed";
    assert_eq!(api.h.direct.number(doubted).await, 0);
    assert!(end["result_digest"].as_str().is_some_and(|digest| digest.len() == 71), "{end}");
    assert_eq!(api.get("/v1/orders/good").expect(200).await, end);

    // The order is dead immediately, and certainly was not executed.
    submit(api, "bad", body("bad")).expect(202).await;
    send_one(api, outcome_of("bad", 400, "{}"), at(20)).await;
    let end = submit(api, "bad", body("bad")).expect(200).await;
    assert_eq!((&end["status"], &end["last_error"]), (&json!("dead"), &json!("BAD_REQUEST")), "{end}");
    assert_eq!((&end["maybe_executed"], end.get("advice")), (&json!(false), None), "{end}");

    // The order is dead and possibly executed: every response recommends asking the broker.
    submit(api, "doubt", body("doubt")).expect(202).await;
    send_one(api, timeout(), at(30)).await;
    requeue(api, at(60)).await;
    send_one(api, outcome_of("doubt", 404, ""), at(60)).await;
    let end = submit(api, "doubt", body("doubt")).expect(200).await;
    assert_eq!((&end["status"], &end["maybe_executed"]), (&json!("dead"), &json!(true)), "{end}");
    for answer in [&end, &api.get("/v1/orders/doubt").expect(200).await, &listed(api, "status=dead").await[0]]
    {
        let advice = answer["advice"].as_str().unwrap_or_default();
        assert!(advice.contains("ask it before you submit a new one"), "{answer}");
    }
    // No submission created an additional order.
    let waiting = "SELECT count(*) FROM outbox_orders WHERE status NOT IN ('sent', 'dead')";
    assert_eq!((api.h.direct.number(waiting).await, api.count("outbox_orders").await), (0, 3));
}

pub(crate) async fn the_ledger_of_an_unfinished_order_is_never_purged<S: Stores>(api: &TestApi<S>) {
    submit(api, "k", body("k")).expect(202).await;
    let late = T0.after(LEDGER_TTL * 100);
    let worker = api.h.store.outbox_worker();
    assert_eq!(worker.purge_ledger(10, late).await.expect("to purge"), 0);
    assert_eq!(api.count("idempo_ledger").await, 1);
    send_one(api, outcome_of("k", 400, ""), late).await;
    assert_eq!(worker.purge_ledger(10, late).await.expect("to purge"), 1);
    // The order itself is kept, so its key still identifies it.
    let end = submit(api, "k", body("k")).expect(200).await;
    assert_eq!(end["status"], "dead");
    submit(api, "k", body("k").replace("10000", "1")).refused(422, "idempotency_key").await;
    assert_eq!(api.count("outbox_orders").await, 1);
}

async fn submit_all(addresses: &[SocketAddr], key: &str, count: usize) -> Vec<u16> {
    let calls = (0..count).map(|number| {
        let call = Call::new(addresses[number % addresses.len()], "POST", PATH, ROOT_KEY);
        tokio::spawn(call.header("idempotency-key", key).json(body(key)).send())
    });
    let mut statuses = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        statuses.push(call.await.expect("a response").status);
    }
    statuses.sort_unstable();
    statuses
}

pub(crate) async fn concurrent_equal_submissions_create_one_order<S: Stores>(api: &TestApi<S>) {
    let other = api.another().await;
    let both = [api.address, other.address];
    for (key, addresses, count) in
        [("ten", &both[..1], 10), ("two-hundred", &both[..1], 200), ("two-processes", &both[..], 200)]
    {
        let statuses = submit_all(addresses, key, count).await;
        let expected: Vec<u16> = std::iter::repeat_n(200, count - 1).chain([202]).collect();
        assert_eq!(statuses, expected, "{key}");
        let audit = api.get(&format!("/v1/orders/{key}/audit")).expect(200).await;
        assert_eq!(audit["items"].as_array().map(Vec::len), Some(1), "{audit}");
    }
    assert_eq!((api.count("outbox_orders").await, api.count("idempo_ledger").await), (3, 3));
}

async fn listed<S: Stores>(api: &TestApi<S>, query: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/orders?{query}")).expect(200).await;
    page["items"].as_array().expect("items").clone()
}

pub(crate) async fn orders_are_listed_by_status_and_page<S: Stores>(api: &TestApi<S>) {
    for number in 0..25 {
        submit(api, &format!("k-{number}"), body(&format!("k-{number}"))).expect(202).await;
    }
    // The oldest order is sent. Lists do not include the broker's response.
    send_one(api, outcome_of("k-0", 200, r#"{"idempotency_key":"k-0"}"#), T0).await;
    let sent = listed(api, "status=sent").await;
    assert_eq!((sent.len(), &sent[0]["idempotency_key"], sent[0].get("result")), (1, &json!("k-0"), None));
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let query = format!("/v1/orders?status=queued&limit=7&cursor={cursor}");
        let page = api.get(&query).expect(200).await;
        let items = page["items"].as_array().expect("items");
        found
            .extend(items.iter().map(|item| item["idempotency_key"].as_str().unwrap_or_default().to_owned()));
        // Rows inserted during the walk precede the first page.
        submit(api, &format!("late-{}", found.len()), body(&format!("late-{}", found.len())))
            .expect(202)
            .await;
        match page["next_cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => break,
        }
    }
    let expected: Vec<String> = (1..25).rev().map(|number| format!("k-{number}")).collect();
    assert_eq!(found, expected);
    assert_eq!(listed(api, "status=failed").await, Vec::<Value>::new());
    for bad in ["Sent", "nope", "queued,sent"] {
        api.get(&format!("/v1/orders?status={bad}")).refused(422, "status").await;
    }
}

pub(crate) async fn every_transition_is_audited<S: Stores>(api: &TestApi<S>) {
    let order = format!(r#"{},"trace_id":"desk-7"}}"#, body("k").trim_end_matches('}'));
    submit(api, "k", order).expect(202).await;
    send_one(api, outcome_of("k", 503, ""), T0).await;
    requeue(api, at(10)).await;
    let answer = r#"{"idempotency_key":"k","broker_order_id":7}"#;
    send_one(api, outcome_of("k", 409, answer), at(10)).await;
    let audit = api.get("/v1/orders/k/audit").expect(200).await;
    assert_eq!(audit["idempotency_key"], "k");
    let items = audit["items"].as_array().expect("items");
    let shown: Vec<[&Value; 4]> = items
        .iter()
        .map(|one| [&one["status_from"], &one["status_to"], &one["retry_count"], &one["last_error"]])
        .collect();
    let (error, processed) = (json!("BROKER_5XX"), json!("CONFLICT_PROCESSED"));
    let (queued, sending, failed, sent) = (json!("queued"), json!("sending"), json!("failed"), json!("sent"));
    let (none, zero, one) = (Value::Null, json!(0), json!(1));
    assert_eq!(
        shown,
        [
            [&none, &queued, &zero, &none],
            [&queued, &sending, &zero, &none],
            [&sending, &failed, &one, &error],
            [&failed, &queued, &one, &error],
            [&queued, &sending, &one, &error],
            [&sending, &sent, &one, &processed],
        ]
    );
    assert!(items.iter().all(|one| one["trace_id"] == "desk-7"), "{audit}");
    let last = items.last().expect("a transition");
    assert_eq!((&last["broker_order_id"], &last["worker_id"]), (&json!("7"), &json!("worker-1")), "{last}");
    assert_eq!(items[2]["note"], "the broker returned 503");
    assert_eq!(audit["next_cursor"], Value::Null);

    let (mut walked, mut path) = (Vec::new(), "/v1/orders/k/audit?limit=4".to_owned());
    while !path.is_empty() {
        let page = api.get(&path).expect(200).await;
        assert_eq!(page["idempotency_key"], "k");
        walked.push(page["items"].as_array().expect("items").clone());
        let next = page["next_cursor"].as_str();
        path = next.map_or_else(String::new, |next| format!("/v1/orders/k/audit?limit=4&cursor={next}"));
    }
    assert_eq!(walked.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(&walked.concat(), items);
    for (query, field) in [("limit=0", "limit"), ("limit=201", "limit"), ("cursor=x", "cursor"), ("x=1", "x")]
    {
        api.get(&format!("/v1/orders/k/audit?{query}")).refused(422, field).await;
    }
    api.get("/v1/orders/none/audit").refused(404, "").await;
}

pub(crate) async fn the_lane_is_shown_and_resumed<S: Stores>(api: &TestApi<S>) {
    let open = api.get("/v1/outbox").expect(200).await;
    assert_eq!(
        (&open["state"], &open["throttled"], &open["rate"]),
        (&json!("open"), &json!(false), &json!(1000.0))
    );
    // On PostgreSQL, this is the creation time of the row; SQLite has no time before the first change.
    assert!(open["updated_at"].as_str().is_none_or(|time| !time.starts_with("1970")), "{open}");
    for number in 0..5 {
        submit(api, &format!("k-{number}"), body(&format!("k-{number}"))).expect(202).await;
        send_one(api, outcome_of("k", 401, ""), T0).await;
    }
    let paused = api.get("/v1/outbox").expect(200).await;
    assert_eq!((&paused["state"], &paused["unauthorized_in_row"]), (&json!("paused"), &json!(5)), "{paused}");
    assert_eq!(paused["paused_at"], "2027-01-15T08:00:00.000000Z");
    assert_eq!(paused["updated_at"], paused["paused_at"]);
    assert_eq!(paused["probe_until"], "2027-01-15T08:00:30.000000Z");
    assert!(paused["reason"].as_str().is_some_and(|reason| reason.contains("credentials")), "{paused}");
    let resumed = api.post("/v1/outbox/resume").expect(200).await;
    assert_eq!((&resumed["state"], &resumed["paused_at"]), (&json!("open"), &Value::Null), "{resumed}");
    assert_eq!(api.get("/v1/outbox").expect(200).await, resumed);
    // A repeated resume is a no-op.
    assert_eq!(api.post("/v1/outbox/resume").expect(200).await["state"], "open");
    // The broker determines the rate: a lane stays throttled in every other state and after a resume.
    for (faults, state) in [(0, "throttled"), (5, "one_at_a_time")] {
        let change = format!("UPDATE outbox_lane SET rate = 2.5, faults_in_row = {faults}");
        api.h.direct.run(&change).await;
        let lane = api.get("/v1/outbox").expect(200).await;
        assert_eq!((&lane["state"], &lane["throttled"]), (&json!(state), &json!(true)), "{lane}");
    }
    let resumed = api.post("/v1/outbox/resume").expect(200).await;
    assert_eq!((&resumed["state"], &resumed["rate"]), (&json!("throttled"), &json!(2.5)), "{resumed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_broker_the_missing_setting_is_named() {
    let options = Options { has_broker: false, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("no broker").await, options).await;
    let problem = submit(&api, "k", body("k")).refused(503, "").await;
    assert!(problem["detail"].as_str().is_some_and(|it| it.contains("POSTHASTE_BROKER_URL")), "{problem}");
    assert_eq!(problem["type"], "tag:posthaste,2026:problem/broker-not-configured");
    // Orders can still be read.
    assert_eq!(listed(&api, "").await, Vec::<Value>::new());
    assert_eq!(api.get("/v1/outbox").expect(200).await["state"], "open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_order_queue_returns_503() {
    let options = Options { waiting_max: 1, runs_ingest: false, ..Options::default() };
    let api = TestApi::start_with(Harness::sqlite("full").await, options).await;
    let waiting = tokio::spawn(submit(&api, "k-1", body("k-1")).send());
    let bound = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        // Until the first request is queued, the second one may be queued instead.
        let call = submit(&api, "k-2", body("k-2")).send();
        if let Ok(answer) = tokio::time::timeout(Duration::from_secs(1), call).await {
            assert_eq!((answer.status, answer.header("retry-after")), (503, "1"), "{}", answer.text());
            break;
        }
        assert!(std::time::Instant::now() < bound, "no request was refused because of the full queue");
    }
    waiting.abort();
    assert_eq!(api.count("outbox_orders").await, 0);
}

/// Checks that every acknowledged order is stored and that a retry returns the same order while database connections
/// fail repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connections_lose_no_acknowledged_order() {
    let api = TestApi::start(Harness::postgres_cut("orders").await).await;
    for number in 0..40 {
        let key = format!("k-{number}");
        let mut tries = 0;
        loop {
            let answer = submit(&api, &key, body(&key)).send().await;
            match answer.status {
                200 | 202 => break,
                status => assert_eq!((status, answer.header("retry-after")), (503, "1"), "{}", answer.text()),
            }
            tries += 1;
            assert!(tries < 200, "order {number} was never accepted");
        }
        let stored = format!("SELECT count(*) FROM outbox_orders WHERE idempotency_key = '{key}'");
        assert_eq!(api.h.direct.number(&stored).await, 1, "order {number} was acknowledged");
    }
    assert_eq!((api.count("outbox_orders").await, api.count("idempo_ledger").await), (40, 40));
    assert!(api.h.proxy.as_ref().is_some_and(|proxy| proxy.cuts() > 0), "no connection was cut");
}
