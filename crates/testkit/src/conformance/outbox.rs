//! Checks that an order is stored once, is claimed by one sender at a time, and keeps its result.

use crate::fixtures::{MANY, T0, at, order, order_claim, token};
use crate::harness::{Engine, Harness};
use posthaste_core::broker::{BrokerFault, BrokerOutcome, Receipt};
use posthaste_core::digest::{Digest, digest_of};
use posthaste_core::json::JsonText;
use posthaste_core::order::{IdempotencyKey, OrderStatus};
use posthaste_core::ports::{
    AuditEntry, ClaimedOrder, NextOrders, OrderReport, OutboxClaim, OutboxIntakeStore as _,
    OutboxWorkerStore as _, PageRequest, ReaderStore as _, RestartedWaits, Settled, Stores, Submission,
    WaitPage,
};
use posthaste_core::retry::OrderRetryPolicy;
use posthaste_core::{LeaseToken, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(7 * 86_400);
const STUCK: Duration = Duration::from_secs(600);
const POLICY: OrderRetryPolicy = OrderRetryPolicy::ORDER;
const ORDERS: &str = "SELECT count(*) FROM outbox_orders";

async fn submit<S: Stores>(h: &Harness<S>, key: &str, qty: u32, now: Timestamp) -> Submission {
    let order = order(key, qty);
    h.sure(async || h.store.outbox_intake().submit_orders(vec![order.clone()], TTL, now).await)
        .await
        .remove(0)
}

async fn claim<S: Stores>(
    h: &Harness<S>,
    orders_max: u32,
    now: Timestamp,
) -> (Vec<ClaimedOrder>, LeaseToken) {
    let claim = order_claim(orders_max);
    let tried = AtomicBool::new(false);
    let orders = h
        .sure(async || {
            let worker = h.store.outbox_worker();
            if tried.swap(true, Ordering::Relaxed) {
                let found = worker.claim_orders(OutboxClaim { again: true, ..claim.clone() }, now).await?;
                if !found.orders.is_empty() {
                    return Ok(found);
                }
            }
            worker.claim_orders(claim.clone(), now).await
        })
        .await;
    (orders.orders, claim.token)
}

async fn settle<S: Stores>(
    h: &Harness<S>,
    order: &ClaimedOrder,
    token: LeaseToken,
    outcome: BrokerOutcome,
    now: Timestamp,
) -> Settled {
    let report = OrderReport { id: order.id, token, probe: false, outcome };
    h.sure(async || h.store.outbox_worker().settle_orders(vec![report.clone()], POLICY, now).await)
        .await
        .remove(0)
}

fn accepted(broker_order_id: &str) -> BrokerOutcome {
    let body = format!("{{\"broker_order_id\":\"{broker_order_id}\"}}");
    BrokerOutcome::Accepted(Receipt {
        broker_order_id: Some(broker_order_id.to_owned()),
        result_digest: digest_of(body.as_bytes()),
        result_json: Some(JsonText::parse(body, 1_000).expect("JSON")),
        note: None,
    })
}

const TIMEOUT: BrokerOutcome = BrokerOutcome::NoAnswer(BrokerFault::TimedOut { bytes_written: true });

pub async fn concurrent_submissions_create_one_order<S: Stores>(h: &Harness<S>) {
    let answers = futures_util::future::join_all((0..10).map(|_| submit(h, "key-1", 5, T0))).await;
    let news = answers.iter().filter(|answer| matches!(answer, Submission::New(_))).count();
    assert!(news == 1 || (news == 0 && h.engine == Engine::PostgresCut), "{news} were new");
    let ids: std::collections::HashSet<_> = answers
        .iter()
        .map(|answer| match answer {
            Submission::New(record) | Submission::Same(record) => record.id,
            Submission::Different => panic!("{answer:?}"),
        })
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(h.direct.number(ORDERS).await, 1);
    assert_eq!(h.direct.number("SELECT count(*) FROM idempo_ledger").await, 1);
    assert_eq!(h.direct.number("SELECT count(*) FROM outbox_audit").await, 1);
    let batch = vec![order("key-2", 1), order("key-1", 5), order("key-2", 1)];
    let answers =
        h.sure(async || h.store.outbox_intake().submit_orders(batch.clone(), TTL, at(1)).await).await;
    assert!(matches!(answers[1], Submission::Same(_)));
    assert!(matches!(answers[2], Submission::Same(_)), "a duplicate within one call is the same order");
    assert_eq!(h.direct.number(ORDERS).await, 2);
}

pub async fn another_body_under_the_same_key_is_refused<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 5, T0).await;
    let before = h.direct.rows("SELECT * FROM outbox_orders").await;
    assert_eq!(submit(h, "key-1", 6, at(1)).await, Submission::Different);
    assert_eq!(h.direct.rows("SELECT * FROM outbox_orders").await, before);
    let both = vec![order("key-3", 1), order("key-3", 2)];
    let answers =
        h.sure(async || h.store.outbox_intake().submit_orders(both.clone(), TTL, at(1)).await).await;
    assert_eq!(answers[1], Submission::Different);
}

pub async fn orders_are_claimed_once_and_oldest_first<S: Stores>(h: &Harness<S>) {
    for number in 0..60_u64 {
        submit(h, &format!("key-{number}"), 1, at(number)).await;
    }
    let (first, _) = claim(h, 10, at(100)).await;
    let keys: Vec<_> = first.iter().map(|order| order.idempotency_key.as_str().to_owned()).collect();
    if h.engine != Engine::PostgresCut {
        assert_eq!(keys, (0..10).map(|number| format!("key-{number}")).collect::<Vec<_>>());
    }
    let claimer = || async {
        let mut held = Vec::new();
        loop {
            let (orders, _) = claim(h, 7, at(100)).await;
            if orders.is_empty() {
                return held;
            }
            held.extend(orders.into_iter().map(|order| order.id));
        }
    };
    let (one, two) = tokio::join!(claimer(), claimer());
    let rest = claimer().await;
    let mut all: Vec<_> = first.iter().map(|order| order.id).chain(one).chain(two).chain(rest).collect();
    let claimed = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), claimed, "no order twice");
    assert_eq!(claimed, 60, "including claims whose first response was lost");
    assert_eq!(h.sure(async || h.store.reader().lane().await).await.sending, 60);
}

pub async fn a_stuck_order_is_rewound_and_the_late_sender_is_fenced<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 1, T0).await;
    let (orders, late) = claim(h, 10, T0).await;
    let worker = h.store.outbox_worker();
    let rewind =
        async |now| h.sure(async || worker.rewind_stuck_orders(STUCK, MANY, POLICY, now).await).await;
    assert_eq!(rewind(T0.after(STUCK)).await, [], "a claim of exactly this age is not stuck");
    rewind(T0.after(STUCK).after(Duration::from_secs(1))).await;
    let row = "SELECT status, retry_count FROM outbox_orders";
    let texts = |status: &str, retries: &str| vec![vec![Some(status.to_owned()), Some(retries.to_owned())]];
    assert_eq!(h.direct.rows(row).await, texts("queued", "1"));
    assert_eq!(settle(h, &orders[0], late, accepted("late"), at(602)).await, Settled::ClaimLost);
    assert_eq!(h.direct.rows(row).await, texts("queued", "1"));
    let (again, holder) = claim(h, 10, at(4_000)).await;
    assert_eq!(again.len(), 1);
    assert_eq!(settle(h, &orders[0], late, accepted("late"), at(4_001)).await, Settled::ClaimLost);
    assert!(matches!(settle(h, &again[0], holder, accepted("brk-1"), at(4_002)).await, Settled::Accepted(_)));
    let before = h.direct.rows("SELECT * FROM outbox_orders").await;
    assert_eq!(settle(h, &orders[0], late, accepted("late"), at(4_003)).await, Settled::ClaimLost);
    assert_eq!(h.direct.rows("SELECT * FROM outbox_orders").await, before);
}

pub async fn a_settled_order_keeps_its_result<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 1, T0).await;
    let (orders, token) = claim(h, 10, T0).await;
    for second in [1, 2] {
        // The second call is a retry and returns the same record.
        let Settled::Accepted(record) = settle(h, &orders[0], token, accepted("brk-1"), at(second)).await
        else {
            panic!("the holder settles")
        };
        assert_eq!((record.status, record.broker_order_id.as_deref()), (OrderStatus::Sent, Some("brk-1")));
    }
    let record = h
        .sure(async || h.store.reader().order(orders[0].idempotency_key.clone()).await)
        .await
        .expect("the order");
    let digest = digest_of(br#"{"broker_order_id":"brk-1"}"#);
    assert_eq!(record.result_digest, Some(digest.clone()));
    assert_eq!(record.result_json.as_deref(), Some(r#"{"broker_order_id":"brk-1"}"#));
    let ledger = h.direct.rows("SELECT result_digest, broker_order_id FROM idempo_ledger").await;
    assert_eq!(ledger, [[Some(digest.as_str().to_owned()), Some("brk-1".to_owned())]]);
    assert!(matches!(submit(h, "key-1", 1, at(3)).await, Submission::Same(same) if same == record));
    submit(h, "key-2", 1, at(4)).await;
    let (orders, token) = claim(h, 10, at(4)).await;
    let refused = BrokerOutcome::BadRequest { status: 400 };
    let Settled::Accepted(record) = settle(h, &orders[0], token, refused, at(5)).await else { panic!() };
    assert_eq!((record.status, record.last_error.as_deref()), (OrderStatus::Dead, Some("BAD_REQUEST")));
    assert!(!record.maybe_executed);
}

pub async fn failed_orders_are_requeued_when_due<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 1, T0).await;
    let (orders, token) = claim(h, 10, T0).await;
    let Settled::Accepted(record) = settle(h, &orders[0], token, TIMEOUT, at(1)).await else { panic!() };
    assert_eq!((record.status, record.retry_count, record.maybe_executed), (OrderStatus::Failed, 1, true));
    assert_eq!(record.last_error.as_deref(), Some("NETWORK_TIMEOUT"));
    let due = record.next_attempt_at;
    let wait = due.since(at(1)).as_micros();
    assert!((1_800_000..=2_200_000).contains(&wait), "{wait} µs is not 2 s ± 10 %");
    let early = due.before(Duration::from_micros(1));
    assert_eq!(
        h.sure(async || h.store.outbox_worker().requeue_due_orders(MANY, POLICY, early).await).await,
        []
    );
    submit(h, "key-2", 1, at(1)).await;
    let next = h.sure(async || h.store.outbox_worker().next_orders_at().await).await;
    assert_eq!(next, NextOrders { has_queued: true, failed_at: Some(due) });
    assert_eq!(claim(h, 10, at(1)).await.0.len(), 1);
    assert!(claim(h, 10, due).await.0.is_empty(), "a failed order is not claimed");
    h.sure(async || h.store.outbox_worker().requeue_due_orders(MANY, POLICY, due).await).await;
    let (orders, _) = claim(h, 10, due).await;
    assert_eq!((orders.len(), orders[0].retry_count), (1, 1));
    let next = h.sure(async || h.store.outbox_worker().next_orders_at().await).await;
    assert_eq!(next, NextOrders::default());
}

/// Creates and claims orders while the clock is an hour fast.
pub async fn a_clock_set_back_delays_no_order<S: Stores>(h: &Harness<S>) {
    let (ahead, now) = (at(3_600), at(10));
    for key in ["failed", "sending", "queued"] {
        submit(h, key, 1, ahead).await;
    }
    let (orders, token) = claim(h, 1, ahead).await;
    let Settled::Accepted(failed) = settle(h, &orders[0], token, TIMEOUT, ahead).await else { panic!() };
    let delay = failed.next_attempt_at.since(ahead);
    assert_eq!(claim(h, 1, ahead).await.0.len(), 1);
    let worker = h.store.outbox_worker();
    h.sure(async || worker.rewind_stuck_orders(STUCK, MANY, POLICY, now).await).await;
    let (claimed, _) = claim(h, 10, now).await;
    assert_eq!(claimed.len(), 2, "the queued order, and the one claimed while the clock was ahead");
    let page = WaitPage { from: now, rows_max: MANY };
    h.sure(async || worker.restart_waits(page, POLICY, now).await).await;
    let next = h.sure(async || worker.next_orders_at().await).await;
    assert_eq!(next, NextOrders { has_queued: false, failed_at: Some(now.after(delay)) });
    let again = h.sure(async || worker.restart_waits(page, POLICY, at(11)).await).await;
    assert_eq!(again, RestartedWaits::default(), "restarted only once");
    let audit = "SELECT count(*) FROM outbox_audit WHERE status_from = status_to";
    assert_eq!(h.direct.number(audit).await, 0, "a restarted wait is no transition");
}

pub async fn a_released_order_does_not_count_a_retry<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 1, T0).await;
    let (orders, holder) = claim(h, 10, T0).await;
    let ids = vec![orders[0].id];
    let release = |token| {
        let ids = ids.clone();
        h.sure(async move || h.store.outbox_worker().release_orders(ids.clone(), token, POLICY, at(1)).await)
    };
    assert_eq!(release(token()).await, 0, "only the holder releases");
    release(holder).await;
    let row =
        h.direct.rows("SELECT status, retry_count, maybe_executed, last_error FROM outbox_orders").await;
    let text = |text: &str| Some(text.to_owned());
    let no = if h.engine == Engine::Sqlite { "0" } else { "f" };
    assert_eq!(row, [[text("queued"), text("0"), text(no), None]]);
    assert_eq!(release(holder).await, 0, "a second release is a no-op");
    let (again, holder) = claim(h, 10, at(2)).await;
    assert_eq!(again.len(), 1);
    assert!(matches!(settle(h, &again[0], holder, accepted("brk-1"), at(3)).await, Settled::Accepted(_)));
    assert_eq!(release(holder).await, 0, "a finished order is not released");
}

/// Inserts an order with SQL, bypassing the store.
async fn tamper<S: Stores>(h: &Harness<S>, key: &str, json: &str, digest: &Digest, now: Timestamp) {
    let micros = now.micros();
    let moment = match h.engine {
        Engine::Sqlite => micros.to_string(),
        Engine::Postgres | Engine::PostgresCut => {
            format!("'epoch'::timestamptz + {micros} * interval '1 microsecond'")
        }
    };
    h.direct
        .run(&format!(
            "INSERT INTO outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at,
                created_at, updated_at)
            VALUES ('{key}', '{json}', '{}', 'queued', {moment}, {moment}, {moment})",
            digest.as_str()
        ))
        .await;
}

pub async fn a_tampered_order_ends_dead_unsent<S: Stores>(h: &Harness<S>) {
    tamper(h, "foreign", &order("foreign", 1).canonical, &digest_of(b"something else"), T0).await;
    check_ends_dead_unsent(h, "foreign", "digest").await;
}

/// Uses SQL to insert an order that is nested as deeply as the engine accepts and has a correct digest.
pub async fn a_too_deeply_nested_order_ends_dead_unsent<S: Stores>(h: &Harness<S>) {
    let levels = match h.engine {
        Engine::Sqlite => 900,
        Engine::Postgres | Engine::PostgresCut => 2_000,
    };
    let json = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    tamper(h, "deep", &json, &digest_of(json.as_bytes()), T0).await;
    check_ends_dead_unsent(h, "deep", "nested").await;
}

/// Checks that the order with this key becomes dead without being sent, with `noted` in its audit, and that the
/// next order is sent.
async fn check_ends_dead_unsent<S: Stores>(h: &Harness<S>, key: &str, noted: &str) {
    submit(h, "key-1", 1, at(1)).await;
    let (orders, holder) = claim(h, 10, at(2)).await;
    let keys: Vec<_> = orders.iter().map(|order| order.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["key-1"], "the next order is sent");
    settle(h, &orders[0], holder, accepted("brk-1"), at(3)).await;
    let key = posthaste_core::order::IdempotencyKey::parse(key).expect("a key");
    let audit = audit_of(h, &key).await;
    let steps: Vec<_> = audit.iter().map(|entry| entry.status_to).collect();
    assert_eq!(steps, [OrderStatus::Queued, OrderStatus::Sending, OrderStatus::Dead]);
    let last = audit.last().expect("an entry");
    assert_eq!(last.last_error.as_deref(), Some("UNKNOWN"));
    assert!(last.note.as_deref().is_some_and(|note| note.contains(noted)), "{last:?}");
    let record = h.sure(async || h.store.reader().order(key.clone()).await).await.expect("the order");
    assert_eq!((record.status, record.retry_count, record.maybe_executed), (OrderStatus::Dead, 0, false));
    let standing = h.sure(async || h.store.reader().lane().await).await;
    assert_eq!((standing.sending, standing.lane.faults_in_row), (0, 0));
}

pub async fn the_ledger_keeps_keys_of_unfinished_orders<S: Stores>(h: &Harness<S>) {
    for key in ["done", "queued", "sending", "failed"] {
        submit(h, key, 1, T0).await;
        if key == "queued" {
            continue;
        }
        let (orders, token) = claim(h, 10, T0).await;
        for order in orders {
            match (key, order.idempotency_key.as_str()) {
                ("done", "done") => drop(settle(h, &order, token, accepted("brk"), T0).await),
                ("failed", "failed") => drop(settle(h, &order, token, TIMEOUT, T0).await),
                _ => {}
            }
        }
    }
    let purge = |now| h.sure(async move || h.store.outbox_worker().purge_ledger(MANY, now).await);
    assert_eq!(purge(T0.after(TTL)).await, 0, "not before it expires");
    purge(T0.after(TTL * 2)).await;
    let kept = h.direct.texts("SELECT idempotency_key FROM idempo_ledger ORDER BY idempotency_key").await;
    assert_eq!(kept, ["failed", "queued", "sending"]);
    assert!(
        matches!(submit(h, "done", 1, T0.after(TTL * 2)).await, Submission::Same(_)),
        "the order itself stays"
    );
}

async fn audit_of<S: Stores>(h: &Harness<S>, key: &IdempotencyKey) -> Vec<AuditEntry> {
    let page = PageRequest::first(MANY);
    h.sure(async || h.store.reader().order_audit(key.clone(), page).await).await.items
}

pub async fn the_audit_replays_to_the_current_state<S: Stores>(h: &Harness<S>) {
    submit(h, "key-1", 1, T0).await;
    let mut now = T0;
    for _ in 0..3 {
        let (orders, token) = claim(h, 10, now).await;
        let Settled::Accepted(record) = settle(h, &orders[0], token, TIMEOUT, now).await else { panic!() };
        now = record.next_attempt_at;
        h.sure(async || h.store.outbox_worker().requeue_due_orders(MANY, POLICY, now).await).await;
    }
    let (orders, token) = claim(h, 10, now).await;
    settle(h, &orders[0], token, accepted("brk-1"), now).await;
    let audit = audit_of(h, &orders[0].idempotency_key).await;
    for items_max in [1, 4, 5, MANY] {
        let (mut walked, mut page) = (Vec::new(), PageRequest::first(items_max));
        loop {
            let key = orders[0].idempotency_key.clone();
            let found = h.sure(async || h.store.reader().order_audit(key.clone(), page).await).await;
            assert!((1..=items_max as usize).contains(&found.items.len()), "no page is empty or too long");
            walked.extend(found.items);
            page.after = found.next;
            if page.after.is_none() {
                break;
            }
        }
        assert_eq!(walked, audit, "pages of {items_max}");
    }
    for entries_max in [1, 3, MANY] {
        let key = orders[0].idempotency_key.clone();
        let newest =
            h.sure(async || h.store.reader().newest_order_audit(key.clone(), entries_max).await).await;
        let expected: Vec<_> = audit.iter().rev().take(entries_max as usize).cloned().collect();
        assert_eq!(newest, expected, "the last {entries_max}");
    }
    let steps: Vec<_> = audit.iter().map(|entry| (entry.status_from, entry.status_to)).collect();
    let mut expected = vec![(None, OrderStatus::Queued)];
    for _ in 0..3 {
        expected.push((Some(OrderStatus::Queued), OrderStatus::Sending));
        expected.push((Some(OrderStatus::Sending), OrderStatus::Failed));
        expected.push((Some(OrderStatus::Failed), OrderStatus::Queued));
    }
    expected.push((Some(OrderStatus::Queued), OrderStatus::Sending));
    expected.push((Some(OrderStatus::Sending), OrderStatus::Sent));
    assert_eq!(steps, expected);
    let record = h
        .sure(async || h.store.reader().order(orders[0].idempotency_key.clone()).await)
        .await
        .expect("the order");
    let last = audit.last().expect("an entry");
    assert_eq!(
        (last.status_to, last.retry_count, &last.last_error, &last.broker_order_id),
        (record.status, record.retry_count, &record.last_error, &record.broker_order_id)
    );
    assert_eq!(
        (last.worker_id.as_deref(), last.trace_id.as_deref()),
        (Some("worker-1"), Some("trace-key-1"))
    );
    assert_eq!(record.retry_count, 3);
}

pub async fn canonical_bytes_are_returned_unchanged<S: Stores>(h: &Harness<S>) {
    let text = r#"{"zeta":[1.50,1e21,-0.0,{"b":"ü\u2028","a":"\ud83d\ude00/\"\\"}],"idempotency_key":"k","symbol":"S","intent":"SELL","qty":0.10,"meta":{}}"#;
    let order = posthaste_core::order::Order::parse(text.as_bytes()).expect("an order");
    h.sure(async || h.store.outbox_intake().submit_orders(vec![order.clone()], TTL, T0).await).await;
    let (orders, _) = claim(h, 1, T0).await;
    assert_eq!(orders[0].canonical, order.canonical);
    assert_eq!(orders[0].request_digest, order.digest);
    assert_eq!(digest_of(orders[0].canonical.as_bytes()), order.digest);
}
